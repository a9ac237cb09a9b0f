//! Rates and times of a thread that has its core to itself.
//!
//! The processors of a rented machine are hardware threads, whose other halves belong to somebody
//! else: a loop of arithmetic takes half as long again from one moment to the next, and a rate of
//! messages that one thread sends and takes falls with it. So rows are measured in slices. Before
//! and after each stands such a loop, and the slices count in which that was near its least.
//!
//! Two processes that are compared take turns, a slice each ([`take_turns`]): what the machine does
//! beside them, which changes by the second, changes for both.

use super::row::Row;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::io::{BufRead, ErrorKind, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a slice is.
pub const SLICE: Duration = Duration::from_millis(40);

/// How many undisturbed slices are enough.
const ENOUGH: usize = 12;

/// After how many slices it ends, with those that were disturbed least.
const MOST: usize = 60;

/// How much of its least time more the loop may take, beside a slice that is undisturbed.
const TOLERANCE: f64 = 0.1;

/// Passes of the loop.
const PASSES: u64 = 200_000;

/// How many slices each row has in a process that takes turns.
static TURNS: OnceLock<usize> = OnceLock::new();

/// Has this process measure so many slices in each row, and take turns with others: before each
/// slice it prints the line `turn` and waits for a line of standard input.
pub fn take_turns(slices: usize) {
    TURNS.get_or_init(|| slices);
}

/// Waits for this process's turn, if it takes turns.
///
/// # Errors
/// Those of the streams, and their ends.
fn await_turn() -> Result<(), Failure> {
    if TURNS.get().is_none() {
        return Ok(());
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "turn").and_then(|()| output.flush()).map_err(Failure::Output)?;
    match std::io::stdin().lock().read_line(&mut String::new())? {
        0 => Err(std::io::Error::new(ErrorKind::UnexpectedEof, "nobody gave this process its turn").into()),
        _ => Ok(()),
    }
}

/// What the slices measured that count, and how many there were.
pub struct Slices {
    /// Rates or times, a list for each slice.
    counted: Vec<Vec<f64>>,
    slices: usize,
    undisturbed: usize,
    /// The least time of the loop. A core that was shared all the time shows by that alone.
    least_s: f64,
}

impl Slices {
    /// A row of times.
    pub fn times(self, name: &str, transport: &str) -> Row {
        let more = self.more();
        Row::times(name, transport, self.values()).with(more)
    }

    /// A row of the times of the quickest slice alone: where slices fall into groups that lie far
    /// apart, whose share of a process is chance.
    pub fn quickest(self, name: &str, transport: &str) -> Row {
        let mut more = self.more();
        let by_median = |slice: &&Vec<f64>, other: &&Vec<f64>| median(slice).total_cmp(&median(other));
        let quickest = self.counted.iter().min_by(by_median).cloned().unwrap_or_default();
        more["mean"] = median(&quickest).into();
        Row::times(name, transport, quickest).with(more)
    }

    /// A row of a rate.
    pub fn rate(self, name: &str, transport: &str) -> Row {
        Row::rate(name, transport, median(&self.values())).with(self.more())
    }

    /// All rates or times.
    pub fn values(&self) -> Vec<f64> {
        self.counted.concat()
    }

    /// What a row says beside its value. Slices fall into groups by their places in memory (see
    /// `places.rs`), and the median of few of them into one or the other; the mean does not.
    pub fn more(&self) -> Value {
        let medians: Vec<f64> = self.counted.iter().map(|slice| median(slice)).collect();
        json!({
            "mean": medians.iter().sum::<f64>() / medians.len().max(1) as f64,
            "medians": medians, "slices": self.slices, "undisturbed": self.undisturbed, "arithmetic_us": self.least_s * 1e6,
        })
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Messages a second, as a slice's only value.
pub fn rate(messages: u64, took: Duration) -> Vec<f64> {
    vec![messages as f64 / took.as_secs_f64()]
}

/// A slice, and the longer of the times that the loop took before and after.
struct Slice {
    values: Vec<f64>,
    loop_s: f64,
}

/// Measures slices that leave nothing on the device: until enough were undisturbed, or as many as
/// there are turns.
///
/// # Errors
/// Those of a slice and of the streams by which it waits for its turn.
pub fn measure(slice: &mut dyn FnMut() -> Result<Vec<f64>, Failure>) -> Result<Slices, Failure> {
    let Some(&turns) = TURNS.get() else { return measure_at_once(slice) };
    let (mut slices, mut least_s) = (Vec::with_capacity(turns), f64::INFINITY);
    for _ in 0..turns {
        await_turn()?;
        let before_s = arithmetic_s();
        let values = slice()?;
        let loop_s = before_s.max(arithmetic_s());
        slices.push(Slice { values, loop_s });
        least_s = least_s.min(loop_s);
    }
    Ok(counted(&slices, least_s))
}

/// The same in one turn, for a device on which something stays from slice to slice.
///
/// # Errors
/// Those of a slice.
pub fn measure_at_once(slice: &mut dyn FnMut() -> Result<Vec<f64>, Failure>) -> Result<Slices, Failure> {
    let mut slices: Vec<Slice> = Vec::with_capacity(MOST);
    let mut before_s = arithmetic_s();
    let mut least_s = before_s;
    while slices.len() < MOST && undisturbed(&slices, least_s) < ENOUGH {
        let values = slice()?;
        let after_s = arithmetic_s();
        slices.push(Slice { values, loop_s: before_s.max(after_s) });
        least_s = least_s.min(after_s);
        before_s = after_s;
    }
    Ok(counted(&slices, least_s))
}

fn undisturbed(slices: &[Slice], least_s: f64) -> usize {
    slices.iter().filter(|slice| slice.loop_s <= least_s * (1.0 + TOLERANCE)).count()
}

/// The slices that count: the undisturbed ones, or as many as are enough that were disturbed least.
fn counted(slices: &[Slice], least_s: f64) -> Slices {
    let undisturbed = undisturbed(slices, least_s);
    let mut loops_s: Vec<f64> = slices.iter().map(|slice| slice.loop_s).collect();
    loops_s.sort_unstable_by(f64::total_cmp);
    let limit_s = loops_s.get(undisturbed.max(ENOUGH) - 1).copied().unwrap_or(f64::INFINITY);
    let counts = |slice: &&Slice| slice.loop_s <= limit_s;
    let counted = slices.iter().filter(counts).map(|slice| slice.values.clone()).collect();
    Slices { counted, slices: slices.len(), undisturbed, least_s }
}

/// The time of a loop of multiplications, as many at once as a core can do.
fn arithmetic_s() -> f64 {
    let start = Instant::now();
    let mut values = [1u64, 2, 3, 4, 5, 6, 7, 8];
    for pass in 0..PASSES {
        for value in &mut values {
            *value = (*value ^ pass).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7);
        }
    }
    std::hint::black_box(values);
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::{ENOUGH, Slice, counted, median};

    fn slices(loops_s: impl IntoIterator<Item = f64>) -> Vec<Slice> {
        let slice = |(at, loop_s): (usize, f64)| Slice { values: vec![at as f64], loop_s };
        loops_s.into_iter().enumerate().map(slice).collect()
    }

    #[test]
    fn disturbed_slices_do_not_count() {
        // Every third one took half as long again.
        let loops = (0..30).map(|at| if at % 3 == 0 { 1.5 } else { 1.0 + f64::from(at) * 1e-3 });
        let found = counted(&slices(loops), 1.0);
        assert_eq!((found.slices, found.undisturbed), (30, 20));
        let expected: Vec<f64> = (0..30).filter(|at| at % 3 != 0).map(f64::from).collect();
        assert_eq!(found.values(), expected);
        assert_eq!(found.more()["mean"], expected.iter().sum::<f64>() / 20.0);
    }

    #[test]
    fn of_a_busy_core_the_least_disturbed_count() {
        let found = counted(&slices((0..30).map(|at| 2.0 - f64::from(at) * 1e-2)), 1.0);
        assert_eq!((found.undisturbed, found.values().len()), (0, ENOUGH));
        assert_eq!(median(&found.values()), 24.0);
        assert_eq!(counted(&slices([1.0, 1.2]), 1.0).values(), [0.0, 1.0]);
    }
    #[test]
    fn the_quickest_slice_stands_alone() {
        let slice = |values: &[f64]| Slice { values: values.to_vec(), loop_s: 1.0 };
        let found = counted(&[slice(&[17.0, 17.5, 17.1]), slice(&[9.5, 9.2, 40.0]), slice(&[])], 1.0);
        assert_eq!(found.more()["medians"], serde_json::json!([17.1, 9.5, 0.0]));
        let found = counted(&[slice(&[17.0, 17.5, 17.1]), slice(&[9.5, 9.2, 40.0])], 1.0);
        let row = found.quickest("ring.a", "copies");
        assert!(row.line().contains(" 9.50 us"), "{}", row.line());
        assert!(row.more_lines().any(|line| line == "ring.a: mean = 9.5"));
    }
}

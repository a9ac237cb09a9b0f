//! Which of several ways of doing something is the fastest on a device.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Event;
use std::fmt;
use std::time::Duration;
use web_time::Instant;

/// Timed runs of each; the least counts, for what disturbs a run makes it longer.
const ROUNDS: usize = 5;
/// More of them where a run is shorter than this, so that it is easily disturbed.
const MORE_ROUNDS: usize = 20;
const SHORT: Duration = Duration::from_millis(1);
/// What the first must be beaten by, so that noise does not decide between equals.
const GAIN: f64 = 0.98;

/// What became of a candidate.
///
/// ```
/// use kiln_runtime::tune::Outcome;
/// use std::time::Duration;
/// assert_eq!(Outcome::Took(Duration::from_micros(20)).to_string(), "20µs");
/// assert_eq!(Outcome::Wrong.to_string(), "the check refused its result");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// It works: the least time of some runs, by the device's clock.
    Took(Duration),
    /// The check refused its result.
    Wrong,
    /// It did not compile, exceeds a limit, or faulted; or the check failed.
    Failed(Error),
    /// The budget was used up before, or nothing was measured.
    NotTried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Took(time) => write!(f, "{time:?}"),
            Outcome::Wrong => f.write_str("the check refused its result"),
            Outcome::Failed(error) => error.fmt(f),
            Outcome::NotTried => f.write_str("not tried"),
        }
    }
}

impl Outcome {
    fn time(&self) -> Option<Duration> {
        match self {
            Outcome::Took(time) => Some(*time),
            Outcome::Wrong | Outcome::Failed(_) | Outcome::NotTried => None,
        }
    }

    fn was_tried(&self) -> bool {
        !matches!(self, Outcome::NotTried)
    }
}

/// Ways of doing something, by their numbers: for the kernel library and [`Tune`](crate::Tune).
#[doc(hidden)]
pub trait Contenders {
    /// Does it for the first time, waits, and says whether the result is right.
    fn first_run(&mut self, number: usize) -> Result<bool>;

    /// Enqueues what each timed run needs before it, and that is not timed.
    fn prepare(&mut self, number: usize) -> Result<()>;

    /// Enqueues it.
    fn run(&mut self, number: usize) -> Result<()>;
}

/// Tries contenders `0..count` in turn. Once one of them works, no further one is begun after
/// `ends`. Those that fail are dropped.
#[doc(hidden)]
pub fn measure(
    device: &Device,
    ends: Option<Instant>,
    count: usize,
    contenders: &mut dyn Contenders,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(count);
    let is_over = || ends.is_some_and(|ends| Instant::now() >= ends);
    for number in 0..count {
        if outcomes.iter().any(|outcome| outcome.time().is_some()) && is_over() {
            outcomes.resize_with(count, || Outcome::NotTried);
            break;
        }
        outcomes.push(try_one(device, number, contenders));
    }
    // Once more, for clocks may have changed since.
    let first = outcomes.iter().enumerate().find_map(|(number, outcome)| Some((number, outcome.time()?)));
    if let Some((number, before)) = first
        && have_several(&outcomes)
        && let Ok(again) = time(device, number, contenders)
    {
        outcomes[number] = Outcome::Took(before.min(again));
    }
    outcomes
}

/// Whether more than one was tried: else the outcomes say nothing about the others.
#[doc(hidden)]
pub fn have_several(outcomes: &[Outcome]) -> bool {
    outcomes.iter().filter(|outcome| outcome.was_tried()).count() > 1
}

/// The fastest of those that work: the first of them unless another is clearly faster.
#[doc(hidden)]
pub fn fastest(outcomes: &[Outcome]) -> Option<usize> {
    let mut works =
        outcomes.iter().enumerate().filter_map(|(number, outcome)| Some((number, outcome.time()?)));
    let first = works.next()?;
    let best = works.min_by_key(|(_, time)| *time);
    let gains = |time: Duration| time.as_secs_f64() < GAIN * first.1.as_secs_f64();
    Some(best.filter(|(_, time)| gains(*time)).unwrap_or(first).0)
}

fn try_one(device: &Device, number: usize, contenders: &mut dyn Contenders) -> Outcome {
    let outcome = match contenders.first_run(number) {
        Ok(true) => time(device, number, contenders).map_or_else(Outcome::Failed, Outcome::Took),
        Ok(false) => Outcome::Wrong,
        Err(error) => Outcome::Failed(error),
    };
    if matches!(outcome, Outcome::Failed(_)) {
        // What else it did wrong is not the next one's.
        let _ = device.synchronize();
    }
    outcome
}

/// The least time of a run.
fn time(device: &Device, number: usize, contenders: &mut dyn Contenders) -> Result<Duration> {
    let least = least_of(ROUNDS, device, number, contenders)?;
    if least >= SHORT {
        return Ok(least);
    }
    Ok(least.min(least_of(MORE_ROUNDS, device, number, contenders)?))
}

/// The least time of some runs. All are enqueued before the first wait, so that the device does not
/// wait for the host.
fn least_of(
    rounds: usize,
    device: &Device,
    number: usize,
    contenders: &mut dyn Contenders,
) -> Result<Duration> {
    let mut events = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        contenders.prepare(number)?;
        let before = Event::now(device)?;
        contenders.run(number)?;
        events.push((before, Event::now(device)?));
    }
    device.synchronize()?;
    let mut least = f32::INFINITY;
    for (before, after) in &events {
        least = least.min(after.milliseconds_since(before)?);
    }
    Ok(Duration::try_from_secs_f64(f64::from(least) / 1e3).unwrap_or_default())
}

/// Whether the device can be waited for, and has a clock.
pub(super) fn can_time(device: &Device) -> Result<bool> {
    let events = Event::now(device).and_then(|before| Ok((before, Event::now(device)?)));
    match (device.synchronize(), events) {
        (Err(Error::Device(kiln_backend::Error::CannotWait { .. })), _) | (Ok(()), Err(_)) => Ok(false),
        (Err(error), _) => Err(error),
        (Ok(()), Ok((before, after))) => Ok(after.milliseconds_since(&before).is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_works_is_taken_unless_another_is_clearly_faster() {
        let took = |micros| Outcome::Took(Duration::from_micros(micros));
        for (outcomes, expected) in [
            (vec![], None),
            (vec![Outcome::Wrong, Outcome::NotTried], None),
            (vec![took(100), took(99)], Some(0)),
            (vec![took(100), took(97), took(96)], Some(2)),
            (vec![Outcome::Wrong, took(100), took(200), took(99)], Some(1)),
            (vec![Outcome::NotTried, took(100), Outcome::Wrong, took(50)], Some(3)),
        ] {
            assert_eq!(fastest(&outcomes), expected, "{outcomes:?}");
        }
        assert!(!have_several(&[took(1), Outcome::NotTried]));
        assert!(have_several(&[took(1), Outcome::Wrong]));
    }
}

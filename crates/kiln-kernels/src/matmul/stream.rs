//! Stream-K: where the tiles of a product are no multiple of the programs, those of the last round
//! are divided evenly among all of them, step by step of the inner extent (Osama et al., "Stream-K:
//! Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023).
//!
//! A program takes its share of those steps from behind: the beginning of a tile, whole tiles if
//! the share is long, the end of a tile. Then come whole tiles, as many for each program. Sums of a
//! tile that lack its last steps are left in memory; the program with the last steps adds them, the
//! nearest first, and stores the tile. So programs go through the inner extent together, but for
//! the part of a tile by which shares are longer or shorter than one: what they read they find in
//! L2, while in the order of the steps each would be elsewhere. A program waits for those with
//! smaller numbers alone, and for the first that each of them does. So no program waits for one
//! that the GPU has no room for yet, and most find what they wait for.

use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};
use std::sync::{Mutex, PoisonError};

/// A part of a tile's steps.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// The number of the tile.
    pub tile: Idx,
    /// The first step.
    pub from: Idx,
    /// How many: 1 or more.
    pub count: Idx,
}

/// A number of tiles, steps or programs. Half of the registers of an index, which sums need, and a
/// fraction of its divisions' time.
type Count = Val<i32>;

/// What each program has to do.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    program: Count,
    programs: Count,
    /// Tiles that are divided: the first ones.
    divided: Count,
    /// Steps of a tile.
    steps: Count,
    /// Steps of a share, and how many shares have one more: the first ones.
    each: Count,
    longer: Count,
    /// The program's share, in steps of all divided tiles: from, up to.
    begin: Count,
    end: Count,
    /// The tile that it begins in, and how many it meets.
    first: Count,
    met: Count,
    /// How many segments it has, with whole tiles.
    segments: Count,
}

impl Shares {
    /// Divides so many tiles of so many steps. With a number of rounds above 1, whole rounds but
    /// the last ones, which are divided too, are fewer.
    pub fn new(tiles: Idx, steps: Idx, rounds: usize) -> Shares {
        let [program, programs, tiles, steps] =
            [program_id(0), num_programs(0), tiles, steps].map(|n| n.cast::<i32>());
        // Never below 1, which divisions want to know.
        let (programs, steps) = (programs.maximum(1), steps.maximum(1));
        let whole = (tiles / programs - (rounds as i32 - 1)).maximum(0);
        let divided = tiles - whole * programs;
        let all = divided * steps;
        let each = all / programs;
        let longer = all - each * programs;
        let begin = program * each + program.minimum(longer);
        let end = begin + each + program.lt(longer).cast::<i32>();
        let first = begin / steps;
        let met = select(end.gt(begin), (end + (steps - 1)) / steps - first, 0);
        Shares {
            program,
            programs,
            divided,
            steps,
            each,
            longer,
            begin,
            end,
            first,
            met,
            segments: met + whole,
        }
    }

    /// How many segments the program has.
    pub fn segments(&self) -> Idx {
        self.segments.cast()
    }

    /// That with a number.
    pub fn segment(&self, number: Idx) -> Segment {
        let number = number.cast::<i32>();
        let shared = number.lt(self.met);
        let tile = self.first + (self.met - 1 - number);
        let before = tile * self.steps;
        let from = (self.begin - before).maximum(0);
        let up_to = (self.end - before).minimum(self.steps);
        let whole = self.divided + (number - self.met) * self.programs + self.program;
        Segment {
            tile: select(shared, tile, whole).cast(),
            from: select(shared, from, 0).cast(),
            count: select(shared, up_to - from, self.steps).maximum(1).cast(),
        }
    }

    /// Whether a program before this one has steps of the tile.
    fn helps(&self, program: Count, tile: Idx) -> Val<bool> {
        let next = program + 1;
        (next * self.each + next.minimum(self.longer)).gt(tile.cast::<i32>() * self.steps)
    }
}

/// Columns that lie together where sums are left. A product gives two of eight neighboring columns
/// to each of four threads; those of two times eight lie so that each thread has 16 bytes, and a
/// warp whole lines.
const GROUP: usize = 16;

/// Sums as they are left: groups of columns, rows, and in a group what a thread has.
fn by_thread<S: Num>(sums: Val<S>, [rows, columns]: [usize; 2]) -> Val<S> {
    let group = columns.min(GROUP);
    let split = sums.reshape([rows, columns / group, group / 8, 4, 2]);
    split.permute([1, 0, 3, 2, 4]).reshape(rows * columns)
}

/// The way back.
fn by_row<S: Num>(left: Val<S>, [rows, columns]: [usize; 2]) -> Val<S> {
    let group = columns.min(GROUP);
    let split = left.reshape([columns / group, rows, 4, group / 8, 2]);
    split.permute([1, 0, 3, 2, 4]).reshape((rows, columns))
}

/// Where programs leave sums for each other: `parts` has room for a tile of each program, `signals`
/// a number for each of its tasks, which is 0 before a launch and after it, and 1 while there are
/// sums to be taken.
#[derive(Clone, Copy)]
pub(super) struct Exchange<S> {
    pub parts: ViewMut<S, 1>,
    pub signals: ViewMut<u32, 1>,
    /// Tasks of a program.
    pub tasks: usize,
    /// In how many parts their columns are multiplied.
    pub halves: usize,
    /// The rows and columns of such a part.
    pub shape: [usize; 2],
}

impl<S: Num> Exchange<S> {
    /// Where a task of a program leaves a part of its sums, and how many.
    fn place(&self, program: Idx, task: Idx, part: usize) -> (Idx, usize) {
        let sums = self.shape[0] * self.shape[1];
        (((program * self.tasks + task) * self.halves + part) * sums, sums)
    }

    /// Leaves a task's sums to the program that has the tile's last steps.
    pub fn leave(&self, task: Idx, sums: [Val<S>; 2]) {
        let program = program_id(0);
        for (part, &sum) in sums.iter().enumerate().take(self.halves) {
            let (place, count) = self.place(program, task, part);
            let place = self.parts.tile(place, count);
            // SAFETY: every task of a program has a place of its own and leaves sums once; their
            // reader has waited for the signal.
            unsafe { place.store_overlapping(by_thread(sum, self.shape)) };
        }
        // SAFETY: there is a signal for each task of a program.
        unsafe { signal(self.signals, program * self.tasks + task, 1) };
    }
}

/// Adds what others have summed of a tile to a task's sums.
#[device(crate = kiln_runtime)]
pub(super) fn take<S: Num>(
    exchange: Exchange<S>,
    shares: Shares,
    tile: Idx,
    task: Idx,
    sums: [Val<S>; 2],
) -> [Val<S>; 2] {
    let [mut sum, mut second] = sums;
    let mut other = shares.program - 1;
    while shares.helps(other, tile) {
        let at = other.cast::<i64>() * exchange.tasks + task;
        // SAFETY: there is a signal for each task of a program. The other's number is smaller, and
        // leaving sums is the first that a program does.
        unsafe { signal_wait(exchange.signals, at, 1) };
        let left = |part: usize| {
            let (place, count) = exchange.place(other.cast(), task, part);
            by_row(exchange.parts.tile(place, count).load(0), exchange.shape)
        };
        sum += left(0);
        if exchange.halves == 2 {
            second += left(1);
        }
        // SAFETY: no other task waits for it, and its task has no other sums to leave.
        unsafe { signal(exchange.signals, at, 0) };
        other -= 1;
    }
    [sum, second]
}

/// Of how many devices signals are kept.
const KEPT: usize = 16;

/// At least so many signals, all 0, as each launch leaves them. All launches of a device share
/// them: those in other streams wait for each other, as for anything that both write. What is made
/// in a capture is the capture's: it has contents in a replay alone.
pub(super) fn signals(device: &Device, count: usize) -> Result<Tensor<u32, 1>> {
    static SIGNALS: Mutex<Vec<(Device, Tensor<u32, 1>)>> = Mutex::new(Vec::new());
    let mut kept = SIGNALS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter().position(|(of, signals)| of == device && signals.shape()[0] >= count);
    if let Some(at) = known {
        return Ok(kept[at].1.alias());
    }
    let made = device.zeros([count.next_power_of_two()])?;
    if device.is_capturing() {
        return Ok(made);
    }
    kept.retain(|(of, _)| of != device);
    kept.insert(0, (device.clone(), made.alias()));
    kept.truncate(KEPT);
    Ok(made)
}

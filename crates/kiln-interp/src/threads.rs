//! Operations among the threads of a block: indices, votes and shuffles.

use crate::mask::Mask;
use crate::register::Register;
use crate::value::{Data, Trap, dispatch};
use kiln_backend::Finding;
use kiln_ir::numeric::Element;
use kiln_ir::{Axis, ShuffleMode, VoteMode};

/// Threads of a warp.
pub const WARP: usize = 32;

/// The index of a thread on x, y and z.
pub fn thread_index(lane: usize, block: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = block.map(|e| e.max(1) as usize);
    [lane % x, lane / x % y, lane / x / y].map(|i| i as u32)
}

/// The thread's index on an axis, in every thread.
pub fn thread_id(out: &mut Data, axis: Axis, block: [u32; 3]) -> Result<(), Trap> {
    for (lane, o) in i64::of_mut(out)?.iter_mut().enumerate() {
        *o = thread_index(lane, block)[axis as usize].into();
    }
    Ok(())
}

/// What the threads of each warp say.
pub fn vote(mode: VoteMode, out: &mut Data, predicate: &Data, mask: &Mask) -> Result<(), Trap> {
    need_warps("a vote", mask)?;
    let predicate = bool::of(predicate)?;
    let ballots: Vec<(u32, u32)> = (0..predicate.len())
        .step_by(WARP)
        .map(|first| {
            let warp = (first..predicate.len().min(first + WARP)).filter(|&lane| mask.has(lane));
            warp.fold((0, 0), |(active, ballot), lane| {
                let bit = 1u32 << (lane - first);
                (active | bit, if predicate[lane] { ballot | bit } else { ballot })
            })
        })
        .collect();
    let of = |lane: usize| ballots[lane / WARP];
    match mode {
        VoteMode::All => each(out, |lane| of(lane).0 == of(lane).1),
        VoteMode::Any => each(out, |lane| of(lane).1 != 0),
        VoteMode::Ballot => each(out, |lane| of(lane).1),
    }
}

fn each<T: Element>(out: &mut Data, f: impl Fn(usize) -> T) -> Result<(), Trap> {
    for (lane, o) in T::of_mut(out)?.iter_mut().enumerate() {
        *o = f(lane);
    }
    Ok(())
}

/// An error unless each warp has all of its threads here, or none.
pub fn need_warps(what: &str, mask: &Mask) -> Result<(), Trap> {
    for first in (0..mask.width()).step_by(WARP) {
        let there = first..mask.width().min(first + WARP);
        let active = there.clone().filter(|&lane| mask.has(lane)).count();
        if active == 0 || active == there.len() {
            continue;
        }
        let missing = there.clone().find(|&lane| !mask.has(lane)).unwrap_or(first);
        let present = there.clone().find(|&lane| mask.has(lane)).unwrap_or(first);
        let detail = format!(
            "{what} reached by {active} of the {} threads of warp {}, and thread {missing} is not among them; \
             let all threads of the warp reach it, and choose with `select` what each does with the result",
            there.len(),
            first / WARP
        );
        return Err(Trap::finding(Finding::Divergence, detail).in_lane(present));
    }
    Ok(())
}

/// Each thread reads the value of another of its warp. A thread that would read one that is not there gets its own value.
pub fn shuffle(mode: ShuffleMode, out: &mut Data, value: &Data, b: &Data, mask: &Mask) -> Result<(), Trap> {
    need_warps("a shuffle", mask)?;
    let b = i64::of(b)?;
    let source = |lane: usize| {
        let (here, by) = ((lane % WARP) as i64, b[lane].rem_euclid(WARP as i64));
        let there = match mode {
            ShuffleMode::Index => by,
            ShuffleMode::Up => here - by,
            ShuffleMode::Down => here + by,
            ShuffleMode::Xor => here ^ by,
        };
        let there = usize::try_from(there).ok().filter(|&t| t < WARP)?;
        let there = lane - lane % WARP + there;
        (there < mask.width()).then_some(there)
    };
    dispatch!(any value.elem(), T => {
        let value = T::of(value)?;
        each(out, |lane| value[source(lane).unwrap_or(lane)])
    })
}

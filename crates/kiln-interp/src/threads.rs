//! Operations among the threads of a block: indices, votes and shuffles.

use crate::mask::Mask;
use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_backend::Finding;
use kiln_ir::numeric::Element;
use kiln_ir::{Axis, ShuffleMode, VoteMode};

/// Threads of a warp, unless the options say otherwise; those of matrix units always are so many.
pub const WARP: usize = kiln_ir::WARP as usize;

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
///
/// The masks are of the threads that vote, and of those that have not left the block if any has;
/// warps have `width` threads.
pub fn vote(
    mode: VoteMode,
    out: &mut Data,
    predicate: &Data,
    (mask, here): (&Mask, Option<&Mask>),
    width: usize,
) -> Result<(), Trap> {
    need_warps("a vote", mask, here, width)?;
    let predicate = bool::of(predicate)?;
    // Of each warp: threads that vote, those that say yes, and a bit for each of the first 32 that
    // do.
    let ballots: Vec<(usize, usize, u32)> = (0..predicate.len())
        .step_by(width)
        .map(|first| {
            let warp = (first..predicate.len().min(first + width)).filter(|&lane| mask.has(lane));
            warp.fold((0, 0, 0), |(active, yes, ballot), lane| {
                let says = predicate[lane];
                let bit = if lane - first < WARP { u32::from(says) << (lane - first) } else { 0 };
                (active + 1, yes + usize::from(says), ballot | bit)
            })
        })
        .collect();
    let of = |lane: usize| ballots[lane / width];
    match mode {
        VoteMode::All => each(out, |lane| of(lane).0 == of(lane).1),
        VoteMode::Any => each(out, |lane| of(lane).1 != 0),
        VoteMode::Ballot => each(out, |lane| of(lane).2),
    }
}

fn each<T: Element>(out: &mut Data, f: impl Fn(usize) -> T) -> Result<(), Trap> {
    for (lane, o) in T::of_mut(out)?.iter_mut().enumerate() {
        *o = f(lane);
    }
    Ok(())
}

fn is_here(here: Option<&Mask>, lane: usize) -> bool {
    here.is_none_or(|here| here.has(lane))
}

/// An error unless each warp has all of its threads here, or none.
pub fn need_warps(what: &str, mask: &Mask, here: Option<&Mask>, width: usize) -> Result<(), Trap> {
    for first in (0..mask.width()).step_by(width) {
        let there = first..mask.width().min(first + width);
        let active = there.clone().filter(|&lane| mask.has(lane)).count();
        if there.clone().all(|lane| mask.has(lane) == is_here(here, lane)) || active == 0 {
            continue;
        }
        let absent = |lane: &usize| is_here(here, *lane) && !mask.has(*lane);
        let missing = there.clone().find(absent).unwrap_or(first);
        let present = there.clone().find(|&lane| mask.has(lane)).unwrap_or(first);
        let detail = format!(
            "{what} reached by {active} of the {} threads of warp {}, and thread {missing} is not among them; \
             let all threads of the warp reach it, and choose with `select` what each does with the result",
            there.len(),
            first / width
        );
        return Err(Trap::finding(Finding::Divergence, detail).in_lane(present));
    }
    Ok(())
}

/// Whether the bits of a barrier of a warp name a thread of that warp, by its number there.
pub fn is_named(bits: u32, lane: usize) -> bool {
    bits == u32::MAX || (lane < WARP && bits >> lane & 1 == 1)
}

/// The threads that a barrier of warps brings together. An error where the bits of a thread do not
/// name it, where they differ from those of another that they name, and where one that they name is
/// missing.
///
/// The masks are as for `vote`.
pub fn warp_barrier(
    named: &Data,
    (mask, here): (&Mask, Option<&Mask>),
    width: usize,
) -> Result<Vec<Vec<usize>>, Trap> {
    let named = u32::of(named)?;
    let wrong = |lane, detail| Err(Trap::finding(Finding::Divergence, detail).in_lane(lane));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for lane in mask.lanes() {
        if groups.iter().any(|group| group.contains(&lane)) {
            continue;
        }
        let (first, bits) = (lane / width * width, named[lane]);
        let warp = first / width;
        if !is_named(bits, lane - first) {
            let own = lane - first;
            return wrong(
                lane,
                format!("a barrier of lanes {bits:#010x} of warp {warp} reached by its lane {own}"),
            );
        }
        let all = first..mask.width().min(first + width);
        let group: Vec<usize> =
            all.filter(|&other| is_named(bits, other - first) && is_here(here, other)).collect();
        let present = group.iter().filter(|&&other| mask.has(other)).count();
        if let Some(missing) = group.iter().find(|&&other| !mask.has(other)) {
            return wrong(
                lane,
                format!(
                    "a barrier of lanes {bits:#010x} of warp {warp} reached by {present} of their {} threads, and \
                     thread {missing} is not among them; let all of them reach it, or name fewer in \
                     `sync_warp_mask`",
                    group.len()
                ),
            );
        }
        if let Some(&other) = group.iter().find(|&&other| named[other] != bits) {
            let theirs = named[other];
            return wrong(
                lane,
                format!(
                    "a barrier of lanes {bits:#010x} of warp {warp}, for which thread {other} names {theirs:#010x}"
                ),
            );
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Each thread reads the value of another of its warp. A thread that would read one that is not
/// there gets its own value.
///
/// The masks are as for `vote`.
pub fn shuffle(
    mode: ShuffleMode,
    out: &mut Data,
    value: &Data,
    b: &Data,
    (mask, here): (&Mask, Option<&Mask>),
    width: usize,
) -> Result<(), Trap> {
    need_warps("a shuffle", mask, here, width)?;
    let b = i64::of(b)?;
    let source = |lane: usize| {
        let (own, by) = ((lane % width) as i64, b[lane].rem_euclid(width as i64));
        let there = match mode {
            ShuffleMode::Index => by,
            ShuffleMode::Up => own - by,
            ShuffleMode::Down => own + by,
            ShuffleMode::Xor => own ^ by,
        };
        let there = usize::try_from(there).ok().filter(|&t| t < width)?;
        let there = lane - lane % width + there;
        (there < mask.width() && is_here(here, there)).then_some(there)
    };
    dispatch!(any value.elem(), T => {
        let value = T::of(value)?;
        each(out, |lane| value[source(lane).unwrap_or(lane)])
    })
}

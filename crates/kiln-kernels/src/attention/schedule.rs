//! How attention is divided on a Hopper GPU, and in which order.
//!
//! ```
//! use kiln_kernels::attention::hopper::AttentionPlan;
//! use kiln_kernels::attention::schedule::{Lengths, Work, order};
//!
//! // Sequences of 100 and 129 queries, in tiles of 128: one and two of them.
//! let plan = AttentionPlan::of(128, 1);
//! let work = Work { plan, window: [0, 0], heads: 1, lengths: Lengths::Each(vec![[100, 50], [129, 4000]]) };
//! assert_eq!(work.tiles(), 3);
//! // The long sequence comes first. Program 0 has its first tile, program 1 the other two.
//! let (table, [rounds, programs]) = order(&work, 2);
//! assert_eq!((rounds, programs), (16, 2));
//! assert_eq!(table[..2], [1, 2]);
//! ```

use super::Problem;
use super::hopper::{self, AttentionPlan, HEAD_BITS, ROWS, TILE_BITS};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

impl AttentionPlan {
    /// The plan for heads of a width from 8 to 256 in steps of 8, `shared` of which have the same
    /// keys: the fastest of those tried on an H200 (`bench/notes.md`). Without limits, caps and
    /// packing.
    pub fn of(width: usize, shared: usize) -> AttentionPlan {
        AttentionPlan::divided(width, shared, AttentionPlan::divisions(width)[0])
    }

    /// Tasks, keys of a turn and stages of plans for heads of a width, that of [`of`](Self::of)
    /// first.
    pub fn divisions(width: usize) -> &'static [(usize, usize, usize)] {
        match width {
            ..=64 => &[(3, 128, 4), (3, 128, 2), (2, 128, 4), (3, 64, 4)],
            65..=128 => &[(2, 128, 2), (2, 64, 4), (3, 64, 2)],
            _ => &[(2, 80, 2), (2, 64, 2), (2, 32, 4)],
        }
    }

    /// A plan that is divided so.
    pub fn divided(width: usize, shared: usize, division: (usize, usize, usize)) -> AttentionPlan {
        let (tasks, keys, stages) = division;
        let registers = if tasks == 3 { [160, 32] } else { [232, 40] };
        let width = width.next_power_of_two().max(64);
        let (bounded, capped, packed) = ([false; 2], false, false);
        AttentionPlan { tasks, keys, width, stages, shared, registers, bounded, capped, packed }
    }
}

/// Lengths are less: sums of two, and of a few more, are 32-bit numbers.
pub(super) const LENGTHS: usize = 1 << 29;

/// Whether the kernel for Hopper GPUs can take these tensors: bulk copies want adjacent elements in
/// a row, and multiples of 16 bytes from row to row.
pub(super) fn suits<T: Elem>(problem: &Problem<'_, T>) -> bool {
    let Problem { q, k, v, o, packed, scale, .. } = problem;
    let capabilities = q.device().capabilities();
    let sequences = packed.map_or(0, |p| p.sequences.len());
    capabilities.warpgroup_products
        && capabilities.bulk_copies
        && [f16::SCALAR, bf16::SCALAR].contains(&T::SCALAR)
        && scale.is_normal()
        && *scale > 0.0
        && sequences < 1 << HEAD_BITS
        && [q, k, v, o].into_iter().all(|x| {
            let ([batch, heads, length, width], [strides @ .., by_column]) = (x.shape(), x.strides());
            (1..1 << HEAD_BITS).contains(&batch)
                && (1..1 << HEAD_BITS).contains(&heads)
                && (1..LENGTHS).contains(&length)
                && (8..=256).contains(&width)
                && width.is_multiple_of(8)
                && by_column == 1
                && x.offset().is_multiple_of(8)
                && strides.iter().zip([batch, heads, length]).all(|(s, n)| n == 1 || s.is_multiple_of(8))
        })
}

/// Runs the kernel for Hopper GPUs.
pub(super) fn run<T: Float>(problem: Problem<'_, T>, division: (usize, usize, usize)) -> Result<()> {
    let Problem { q, k, v, mut o, mut sums, packed, mask, scale, soft_cap, .. } = problem;
    let device = q.device().clone();
    let ([batch, heads, queries, width], [_, key_heads, keys, _]) = (q.shape(), k.shape());
    let mut plan = AttentionPlan::divided(width, heads / key_heads, division);
    (plan.bounded, plan.capped, plan.packed) = (mask.bounded(), soft_cap.is_some(), packed.is_some());
    let [left, right] = mask.limits().map(|limit| limit.min(LENGTHS as i64));
    let lengths = match packed {
        Some(packed) => Lengths::Each(packed.sequences.iter().map(|[q, k]| [q.len(), k.len()]).collect()),
        None => Lengths::All { batch, lengths: [queries, keys] },
    };
    let work = Work { plan, window: [left, right], heads, lengths };
    let programs = work.tiles().min(device.properties().units as usize);
    let order = kept(&device, work, programs)?;
    let sequences = packed.map_or(&order.none, |packed| &packed.table);
    let (cap, [left, right]) = (soft_cap.unwrap_or(1.0), [left as i32, right as i32]);
    hopper::attention(&q, &k, &v, &mut o, &mut sums, &order.table, sequences, scale, cap, left, right, plan)
        .grid([programs as u32])
        .launch(&device)
}

/// What is to be divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// How.
    pub plan: AttentionPlan,
    /// The limits that the plan says are there, to the left and to the right.
    pub window: [i64; 2],
    /// Heads of queries.
    pub heads: usize,
    /// The lengths of sequences.
    pub lengths: Lengths,
}

/// Queries and keys of sequences.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All sequences of a batch have the same.
    All {
        /// How many sequences.
        batch: usize,
        /// Queries and keys of each.
        lengths: [usize; 2],
    },
    /// The queries and keys of each.
    Each(Vec<[usize; 2]>),
}

impl Work {
    fn down(&self, queries: usize) -> usize {
        queries.div_ceil(self.plan.rows())
    }

    /// All tiles of queries.
    pub fn tiles(&self) -> usize {
        self.heads
            * match &self.lengths {
                Lengths::All { batch, lengths } => batch * self.down(lengths[0]),
                Lengths::Each(each) => each.iter().map(|[queries, _]| self.down(*queries)).sum(),
            }
    }

    /// How long a tile takes, in some unit.
    fn cost(&self, [queries, keys]: [usize; 2], tile: usize) -> usize {
        let plan = &self.plan;
        let place = (tile * plan.rows() + keys) as i64 - queries as i64;
        let end = if plan.bounded[1] { place + plan.rows() as i64 + self.window[1] } else { i64::MAX };
        let begin = if plan.bounded[0] { (place - self.window[0]).max(0) } else { 0 };
        let top = end.clamp(1, keys.max(1) as i64).unsigned_abs() as usize;
        let turns = top.div_ceil(plan.keys) - begin as usize / plan.keys;
        // What comes before and after the turns takes about as long as one; tasks without queries
        // leave the others more of the multiprocessor.
        let busy = (queries - tile * plan.rows()).div_ceil(ROWS).min(plan.tasks);
        (1 + turns) * (1 + busy)
    }
}

/// An order on its device.
struct Kept {
    device: Device,
    work: Work,
    programs: usize,
    order: Arc<Order>,
}

pub(super) struct Order {
    pub(super) table: Tensor<i64, 2>,
    /// What stands for the table of sequences where there is none.
    none: Tensor<i32, 2>,
}

/// How many orders are kept for the next calls.
const KEPT: usize = 16;

/// The order for a piece of work, made and copied to the device when it has not been seen lately.
/// One that is made in a capture is the capture's: it has contents in a replay alone.
pub(super) fn kept(device: &Device, work: Work, programs: usize) -> Result<Arc<Order>> {
    static ORDERS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |kept: &Kept| kept.device == *device && kept.programs == programs && kept.work == work;
    let entry = match orders.iter().position(same) {
        Some(at) => orders.remove(at),
        None => {
            let (table, extents) = order(&work, programs);
            let order = Order { table: device.tensor(&table, extents)?, none: device.zeros([1, 4])? };
            let order = Arc::new(order);
            if device.is_capturing() {
                return Ok(order);
            }
            Kept { device: device.clone(), work, programs, order }
        }
    };
    let order = entry.order.clone();
    orders.insert(0, entry);
    orders.truncate(KEPT);
    Ok(order)
}

/// The divisors of extents that programs are specialized for.
const PADDING: usize = 16;

/// The tiles that each program takes.
struct Taken {
    /// When a program is free, and which.
    free: BinaryHeap<Reverse<(usize, usize)>>,
    tiles: Vec<Vec<i64>>,
}

impl Taken {
    /// Gives a tile to the program that is free first.
    fn take(&mut self, entry: i64, cost: usize) {
        let Some(mut next) = self.free.peek_mut() else { return };
        let Reverse((time, program)) = *next;
        self.tiles[program].push(entry);
        *next = Reverse((time + cost, program));
    }

    /// Gives away the tiles of sequences of equal lengths, with all heads.
    fn take_all(&mut self, work: &Work, lengths: [usize; 2], sequences: Range<usize>) {
        let (down, limited, heads) = (work.down(lengths[0]), work.plan.bounded[1], work.heads);
        // Programs that run at the same time share keys and values in L2. Causal attention has more
        // tiles than programs in a group, so that the next one's long tiles begin before this one's
        // short ones have ended.
        let together = self.tiles.len().div_ceil(down.max(1)) * if limited { 2 } else { 1 };
        let all = sequences.len() * heads;
        let groups = all.div_ceil(together.max(1)).max(1);
        for group in 0..groups {
            for i in 0..down {
                let tile = if limited { down - 1 - i } else { i };
                for member in all * group / groups..all * (group + 1) / groups {
                    let (sequence, head) = (sequences.start + member / heads, member % heads);
                    let entry = (sequence << HEAD_BITS | head) << TILE_BITS | tile;
                    self.take(entry as i64, work.cost(lengths, tile));
                }
            }
        }
    }
}

/// The order in which so many programs take the tiles of queries, `[1 + most tiles of a program or
/// more, programs]`, as the kernel reads it.
///
/// Each tile goes to the program that would be free first; for causal attention the last queries of
/// a group of heads, which see the most keys, come first, and so do long sequences. So programs end
/// together, and the order is the same in every launch.
pub fn order(work: &Work, programs: usize) -> (Vec<i64>, [usize; 2]) {
    let free = (0..programs).map(|p| Reverse((0, p))).collect();
    let mut taken = Taken { free, tiles: vec![Vec::new(); programs] };
    match &work.lengths {
        Lengths::All { batch, lengths } => taken.take_all(work, *lengths, 0..*batch),
        Lengths::Each(each) => {
            let mut longest: Vec<usize> = (0..each.len()).collect();
            longest.sort_by_key(|&i| Reverse(each[i][1]));
            longest.into_iter().for_each(|i| taken.take_all(work, each[i], i..i + 1));
        }
    }
    // Padded, so that programs are not compiled again for what is known of the extent.
    let rounds = (1 + taken.tiles.iter().map(Vec::len).max().unwrap_or(0)).next_multiple_of(PADDING);
    let mut table = vec![0; rounds * programs];
    for (program, tiles) in taken.tiles.iter().enumerate() {
        table[program] = tiles.len() as i64;
        tiles.iter().enumerate().for_each(|(i, &tile)| table[(1 + i) * programs + program] = tile);
    }
    (table, [rounds, programs])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(plan: AttentionPlan, heads: usize, lengths: Lengths) -> Work {
        Work { plan, window: [0, 0], heads, lengths }
    }

    fn causal() -> AttentionPlan {
        AttentionPlan { bounded: [false, true], ..AttentionPlan::of(128, 1) }
    }

    /// The tiles of all programs, as sequence, head and number, with those of each program.
    fn tiles(table: &[i64], programs: usize) -> Vec<Vec<[i64; 3]>> {
        let parts = |e: i64| [e >> 43, e >> 23 & 0xf_ffff, e & 0x7f_ffff];
        (0..programs)
            .map(|p| (1..=table[p] as usize).map(|i| parts(table[i * programs + p])).collect())
            .collect()
    }

    #[test]
    fn every_tile_is_taken_once_and_programs_end_together() {
        let work = work(causal(), 16, Lengths::All { batch: 4, lengths: [4096, 4096] });
        let (table, [rounds, programs]) = order(&work, 132);
        assert_eq!(table.len(), rounds * programs);
        let each = tiles(&table, programs);
        let times: Vec<i64> = each.iter().map(|own| own.iter().map(|tile| 2 + tile[2]).sum()).collect();
        let mut all = each.concat();
        all.sort_unstable();
        let numbers = |batch| (0..16).flat_map(move |head| (0..32).map(move |tile| [batch, head, tile]));
        assert_eq!(all, (0..4).flat_map(numbers).collect::<Vec<_>>());
        let (mean, most) = (times.iter().sum::<i64>() / 132, times.into_iter().max().unwrap());
        assert!(most as f64 <= 1.02 * mean as f64, "{most} after {mean}");
    }

    #[test]
    fn idle_programs_and_no_queries_have_no_tiles() {
        let one = |heads, lengths| work(causal(), heads, Lengths::All { batch: 1, lengths });
        let (table, extents) = order(&one(1, [100, 100]), 3);
        assert_eq!((&table[..6], extents), (&[1, 0, 0, 0, 0, 0][..], [16, 3]));
        assert_eq!(order(&one(2, [0, 100]), 2), (vec![0; 32], [16, 2]));
        assert_eq!(one(3, [129, 7]).tiles(), 6);
    }

    #[test]
    fn long_sequences_come_first_and_empty_ones_never() {
        let work = work(AttentionPlan::of(128, 1), 1, Lengths::Each(vec![[100, 50], [0, 9], [129, 4000]]));
        assert_eq!(work.tiles(), 3);
        let (table, [_, programs]) = order(&work, 2);
        assert_eq!(tiles(&table, programs), [vec![[2, 0, 0]], vec![[2, 0, 1], [0, 0, 0]]]);
    }

    #[test]
    fn a_window_shortens_tiles() {
        let plan = AttentionPlan { bounded: [true, true], ..AttentionPlan::of(128, 1) };
        let all = Lengths::All { batch: 1, lengths: [4096, 4096] };
        let windowed = Work { plan, window: [256, 0], heads: 1, lengths: all };
        // 128 queries see at most 128 + 256 keys: 3 parts, of which the first tile sees one.
        let costs = [0, 1, 2, 31].map(|tile| windowed.cost([4096, 4096], tile));
        assert_eq!(costs, [2, 3, 4, 4].map(|parts| parts * 3));
    }
}

//! How attention is divided on a Hopper GPU, and in which order.

use super::hopper::{self, Plan, ROWS};
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Result, Tensor};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};

impl Plan {
    /// The plan for heads of a width from 8 to 128 in steps of 8, `shared` of which have the same keys: the fastest of those tried on an H200
    /// (`bench/notes.md`).
    pub fn of(width: usize, shared: usize, causal: bool) -> Plan {
        match width {
            ..=64 => Plan { tasks: 3, keys: 128, width: 64, stages: 4, shared, registers: [160, 32], causal },
            _ => Plan { tasks: 2, keys: 128, width: 128, stages: 2, shared, registers: [232, 40], causal },
        }
    }
}

/// Whether the kernel for Hopper GPUs can take these tensors: bulk copies want rows in multiples of 16 bytes, one after the other.
pub(super) fn suits<T: Elem>(device: &Device, tensors: &[&Tensor<T, 3>]) -> bool {
    let properties = device.properties();
    let hopper = properties.kind == BackendKind::Cuda && properties.compute_capability == Some((9, 0));
    let small = |n: usize| (1..1 << 30).contains(&n);
    hopper
        && [f16::SCALAR, bf16::SCALAR].contains(&T::SCALAR)
        && tensors.iter().all(|x| {
            let ([heads, length, width], [by_head, by_row, by_column]) = (x.shape(), x.strides());
            small(heads)
                && small(length)
                && (8..=128).contains(&width)
                && width.is_multiple_of(8)
                && by_column == 1
                && by_row == width
                && by_head.is_multiple_of(8)
        })
}

/// Runs the kernel for Hopper GPUs.
pub(super) fn run<T: Float>(
    [q, k, v]: [&Tensor<T, 3>; 3],
    o: &mut Tensor<T, 3>,
    sums: &mut Tensor<f32, 2>,
    causal: bool,
) -> Result<()> {
    let device = q.device().clone();
    let ([heads, queries, width], [key_heads, keys, _]) = (q.shape(), k.shape());
    let plan = Plan::of(width, heads / key_heads, causal);
    let tiles = heads * queries.div_ceil(plan.rows());
    let programs = tiles.min(device.properties().units as usize);
    let order = kept(&device, Shape { plan, heads, queries, keys, programs })?;
    let scale = 1.0 / (width as f32).sqrt();
    hopper::attention(q, k, v, o, sums, &order, scale, plan).grid([programs as u32]).launch(&device)
}

/// What an order depends on.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    plan: Plan,
    heads: usize,
    queries: usize,
    keys: usize,
    programs: usize,
}

/// An order on its device.
struct Kept {
    device: Device,
    shape: Shape,
    order: Arc<Tensor<i64, 2>>,
}

/// How many orders are kept for the next calls.
const KEPT: usize = 16;

/// The order for a shape, made and copied to the device when the shape has not been seen lately.
fn kept(device: &Device, shape: Shape) -> Result<Arc<Tensor<i64, 2>>> {
    static ORDERS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = orders.iter().position(|kept| kept.device == *device && kept.shape == shape);
    let entry = match found {
        Some(at) => orders.remove(at),
        None => {
            let Shape { plan, heads, queries, keys, programs } = shape;
            let (table, extents) = order(&plan, heads, queries, keys, programs);
            Kept { device: device.clone(), shape, order: Arc::new(device.tensor(&table, extents)?) }
        }
    };
    let order = entry.order.clone();
    orders.insert(0, entry);
    orders.truncate(KEPT);
    Ok(order)
}

/// The divisors of extents that programs are specialised for.
const PADDING: usize = 16;

/// The order in which so many programs take the tiles of queries, `[1 + most tiles of a program or more, programs]`, as the kernel wants it.
///
/// Each tile goes to the program that would be free first; for causal attention the last queries of a group of heads, which see the most keys, come first. So
/// programs end together, and the order is the same in every launch.
pub fn order(
    plan: &Plan,
    heads: usize,
    queries: usize,
    keys: usize,
    programs: usize,
) -> (Vec<i64>, [usize; 2]) {
    let down = queries.div_ceil(plan.rows());
    let cost = |tile: usize| {
        let seen = match plan.causal {
            true => ((tile + 1) * plan.rows() + keys).saturating_sub(queries).min(keys),
            false => keys,
        };
        // What comes before and after the turns takes about as long as one; tasks without queries leave the others more of the multiprocessor.
        let busy = (queries - tile * plan.rows()).div_ceil(ROWS).min(plan.tasks);
        (1 + seen.div_ceil(plan.keys).max(1)) * (1 + busy)
    };
    let mut free: BinaryHeap<Reverse<(usize, usize)>> = (0..programs).map(|p| Reverse((0, p))).collect();
    let mut taken = vec![Vec::new(); programs];
    // Programs that run at the same time share keys and values in L2. Causal attention has more tiles than programs in a group, so that
    // the next one's long tiles begin before this one's short ones have ended.
    let together = programs.div_ceil(down.max(1)) * if plan.causal { 2 } else { 1 };
    let groups = heads.div_ceil(together.max(1)).max(1);
    for group in 0..groups {
        let members = heads * group / groups..heads * (group + 1) / groups;
        for i in 0..down {
            let tile = if plan.causal { down - 1 - i } else { i };
            for head in members.clone() {
                let Some(mut next) = free.peek_mut() else { break };
                let Reverse((time, program)) = *next;
                taken[program].push((head as i64) << 32 | tile as i64);
                *next = Reverse((time + cost(tile), program));
            }
        }
    }
    // Padded, so that programs are not compiled again for what is known of the extent.
    let rounds = (1 + taken.iter().map(Vec::len).max().unwrap_or(0)).next_multiple_of(PADDING);
    let mut table = vec![0; rounds * programs];
    for (program, tiles) in taken.iter().enumerate() {
        table[program] = tiles.len() as i64;
        tiles.iter().enumerate().for_each(|(i, &tile)| table[(1 + i) * programs + program] = tile);
    }
    (table, [rounds, programs])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { tasks: 2, keys: 128, width: 128, stages: 2, shared: 1, registers: [232, 40], causal: true };

    #[test]
    fn every_tile_is_taken_once_and_programs_end_together() {
        let (table, [rounds, programs]) = order(&PLAN, 64, 4096, 4096, 132);
        assert_eq!(table.len(), rounds * programs);
        let mut all = Vec::new();
        let mut times = Vec::new();
        for program in 0..programs {
            let tiles = (1..=table[program] as usize).map(|i| table[i * programs + program]);
            let own: Vec<i64> = tiles.collect();
            times.push(own.iter().map(|tile| 2 + (tile & 0xffff_ffff)).sum::<i64>());
            all.extend(own);
        }
        all.sort_unstable();
        let expected: Vec<i64> =
            (0..64).flat_map(|head| (0..32).map(move |tile| head << 32 | tile)).collect();
        assert_eq!(all, expected);
        let (mean, most) = (times.iter().sum::<i64>() / 132, times.into_iter().max().unwrap());
        assert!(most as f64 <= 1.02 * mean as f64, "{most} after {mean}");
    }

    #[test]
    fn idle_programs_and_no_queries_have_no_tiles() {
        let (table, extents) = order(&PLAN, 1, 100, 100, 3);
        assert_eq!((&table[..6], extents), (&[1, 0, 0, 0, 0, 0][..], [16, 3]));
        assert_eq!(order(&PLAN, 2, 0, 100, 2), (vec![0; 32], [16, 2]));
    }
}

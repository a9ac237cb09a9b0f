//! How the gradients of attention are divided on a Hopper GPU.

use super::hopper::{AttentionPlan, HEAD_BITS};
use super::hopper_gradients::{self, Division, GradientPlan};
use super::schedule::{LENGTHS, Lengths, Work, kept};
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

impl GradientPlan {
    /// How plans for heads of a width up to 128 are divided, first those that are taken
    /// (`bench/notes.md`): for the gradient of queries, then for those of keys and values.
    pub fn divisions(width: usize) -> [&'static [Division]; 2] {
        match width {
            ..=64 => [&[(3, 64, 4), (3, 48, 4)], &[(2, 96, 4), (2, 80, 4), (2, 64, 4)]],
            _ => [&[(2, 64, 4), (3, 48, 4)], &[(2, 64, 4), (2, 64, 2), (2, 48, 4)]],
        }
    }

    /// A plan that is divided so.
    pub fn divided(width: usize, causal: bool, division: Division) -> GradientPlan {
        let (tasks, turn, stages) = division;
        let registers = if tasks == 3 { [160, 32] } else { [240, 24] };
        let width = width.next_power_of_two().max(64);
        GradientPlan { tasks, turn, width, stages, registers, causal }
    }

    /// What is to be divided, for [`order`](super::schedule::order).
    pub fn work(&self, batch: usize, heads: usize, length: usize) -> Work {
        let &GradientPlan { tasks, turn, width, stages, registers, causal, .. } = self;
        let plan = AttentionPlan {
            tasks,
            keys: turn,
            width,
            stages,
            shared: 1,
            registers,
            bounded: [false, causal],
            capped: false,
            packed: false,
        };
        let lengths = Lengths::All { batch, lengths: [length, length] };
        Work { plan, window: [0, 0], heads, lengths }
    }
}

/// What both kernels read: batch × heads × length × width.
pub(super) struct Problem<'a, T: Elem> {
    pub q: Tensor<T, 4>,
    pub k: Tensor<T, 4>,
    pub v: Tensor<T, 4>,
    pub g: Tensor<T, 4>,
    pub sums: &'a Tensor<f32, 3>,
    pub means: &'a Tensor<f32, 3>,
    pub of_q: Tensor<T, 4>,
    /// The gradients of keys and of values.
    pub of_kv: Tensor<T, 5>,
    pub scale: f32,
    pub causal: bool,
}

/// Whether the kernels for Hopper GPUs can take these tensors: bulk copies want adjacent elements
/// in a row, and multiples of 16 bytes from row to row.
pub(super) fn suits<T: Elem>(problem: &Problem<'_, T>) -> bool {
    let Problem { q, k, v, g, of_q, of_kv, .. } = problem;
    let capabilities = q.device().capabilities();
    let lies = |strides: &[usize], offset: usize| {
        let (by_column, others) = strides.split_last().unwrap_or((&1, &[]));
        *by_column == 1 && offset.is_multiple_of(8) && others.iter().all(|s| s.is_multiple_of(8))
    };
    let [batch, heads, length, width] = q.shape();
    capabilities.warpgroup_products
        && capabilities.bulk_copies
        && [f16::SCALAR, bf16::SCALAR].contains(&T::SCALAR)
        && (1..1 << HEAD_BITS).contains(&batch)
        && (1..1 << HEAD_BITS).contains(&heads)
        && (1..LENGTHS).contains(&length)
        && (8..=128).contains(&width)
        && width.is_multiple_of(8)
        && [q, k, v, g, of_q].into_iter().all(|x| lies(&x.strides(), x.offset()))
        && lies(&of_kv.strides(), of_kv.offset())
}

/// Runs them.
pub(super) fn run<T: Float>(problem: Problem<'_, T>) -> Result<()> {
    let Problem { q, k, v, g, sums, means, mut of_q, mut of_kv, scale, causal } = problem;
    let device = q.device().clone();
    let [batch, heads, length, width] = q.shape();
    let plans = GradientPlan::divisions(width).map(|all| GradientPlan::divided(width, causal, all[0]));
    let order = |plan: &GradientPlan| {
        let work = plan.work(batch, heads, length);
        let programs = work.tiles().min(device.properties().units as usize);
        Ok::<_, kiln_runtime::Error>((kept(&device, work, programs)?, [programs as u32]))
    };
    let (table, grid) = order(&plans[0])?;
    hopper_gradients::of_queries(&q, &k, &v, &g, sums, means, &mut of_q, &table.table, scale, plans[0])
        .grid(grid)
        .launch(&device)?;
    let (table, grid) = order(&plans[1])?;
    hopper_gradients::of_keys(&q, &k, &v, &g, sums, means, &mut of_kv, &table.table, scale, plans[1])
        .grid(grid)
        .launch(&device)
}

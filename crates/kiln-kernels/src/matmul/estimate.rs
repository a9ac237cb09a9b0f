//! How long a product takes by a plan.
//!
//! A program's tile takes as long as its products, or as the copies of what they need, whichever is
//! longer; a launch as long as its last program, or as reading every factor once from memory. How
//! long each takes is in the GPU's [`CostModel`].

use super::choice::{Choice, ROW, Request};
use super::hopper::MatmulPlan;
use kiln_runtime::CostModel;

/// Bytes of the inner extent that one instruction multiplies.
const INSTRUCTION_BYTES: usize = 32;
/// Rows that one instruction multiplies.
const INSTRUCTION_ROWS: usize = 64;
/// Bytes of the elements that rates of matrix units count.
const HALF_BYTES: f64 = 2.0;
/// The estimated cycles of a launch.
pub(super) fn cycles(request: &Request, gpu: &CostModel, choice: &Choice) -> f64 {
    let (plan, rates, latencies) = (&choice.plan, &gpu.rates, &gpu.latencies);
    let rounds = choice.tiles(request).iter().product::<usize>().div_ceil(gpu.units) as f64;
    let steps = request.k.div_ceil(plan.depth).div_ceil(plan.splits) as f64;
    let step = step_cycles(request, gpu, plan);
    let split = plan.splits > 1;
    let stored = if split { request.sum_bytes } else { request.result_bytes };
    let store = (plan.rows * plan.columns * stored) as f64 / f64::from(rates.store);
    // With several tasks one stores while another multiplies, but for the last tile.
    let hidden = if plan.tasks > 1 { 0.5 } else { 1.0 };
    let mut compute = rounds * steps * step + (rounds - 1.0) * hidden * store + store;
    if plan.streamed > 0 {
        let Shares { whole, shared, taken } = shares(request, choice);
        let exchange = (plan.rows * plan.columns * request.sum_bytes) as f64 / f64::from(rates.exchange);
        let apart = part(gpu.products.shared_step_percent);
        let steps = (whole + apart * shared) * step;
        let taking = taken * (exchange + f64::from(latencies.signal));
        compute = steps + (rounds - 1.0) * hidden * store + store + exchange + taking;
        compute *= part(gpu.products.busy_percent);
    }
    let (rows, columns) = choice.extents(request);
    let read = request.products * (rows + columns) * request.k * request.factor_bytes;
    let memory = read as f64 / f64::from(rates.memory);
    let parts = (plan.splits * request.products * rows * columns * request.sum_bytes) as f64;
    let second = if split { f64::from(latencies.launch) + parts / f64::from(rates.add_up) } else { 0.0 };
    // What is hidden behind the longer costs a little too.
    f64::from(latencies.program) + compute.max(memory) + 0.1 * compute.min(memory) + second
}

/// The estimated cycles of a step: of a stage's products, or of its copies, whichever take longer.
fn step_cycles(request: &Request, gpu: &CostModel, plan: &MatmulPlan) -> f64 {
    let (rates, latencies, costs) = (&gpu.rates, &gpu.latencies, &gpu.products);
    // An instruction takes as long as its multiply-adds, or as shared memory to give it both
    // factors.
    let fed = ((INSTRUCTION_ROWS + plan.columns) * INSTRUCTION_BYTES) as f64 / f64::from(rates.shared);
    let column = (INSTRUCTION_ROWS * INSTRUCTION_BYTES) as f64 / HALF_BYTES;
    let multiplied = plan.columns as f64 * column / f64::from(rates.multiply_adds);
    let instruction = multiplied.max(fed) + f64::from(latencies.instruction);
    let depth = plan.depth * request.factor_bytes;
    let mut products = (plan.rows / INSTRUCTION_ROWS * depth / INSTRUCTION_BYTES) as f64 * instruction;
    let mut idle = 0.0;
    if plan.two_level {
        let partial = f64::from(costs.partial_wait) * plan.halves as f64
            + plan.columns as f64 / f64::from(costs.columns_added);
        idle = if plan.tasks == 2 { part(costs.idle_percent) * partial } else { 0.0 };
        // One task adds while another multiplies.
        products = (products / plan.tasks as f64 + partial).max(products);
    }
    let copies = ((plan.rows + plan.columns) * depth) as f64 / f64::from(rates.l2);
    // One thread begins the copies of a stage, one for each 64 columns of a tile.
    let boxes = (plan.rows / plan.tasks).div_ceil(64) * plan.tasks + plan.columns.div_ceil(64);
    let begun = f64::from(latencies.stage_copy)
        + f64::from(latencies.box_copy) * boxes as f64 * depth as f64 / ROW as f64;
    products.max(copies).max(begun) + idle + f64::from(latencies.stage)
}

/// A number of percent as a factor.
fn part(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

/// What a program of a [streamed](MatmulPlan::streamed) plan has to do.
pub(super) struct Shares {
    /// Steps of its whole tiles.
    pub whole: f64,
    /// Steps of its share of others.
    pub shared: f64,
    /// How often it takes the sums of another.
    pub taken: f64,
}

pub(super) fn shares(request: &Request, choice: &Choice) -> Shares {
    let programs = choice.grid[0] as usize;
    let (tiles, each) =
        (choice.tiles(request).iter().product::<usize>(), request.k.div_ceil(choice.plan.depth));
    let whole = (tiles / programs).saturating_sub(choice.plan.streamed - 1);
    let all = (tiles - whole * programs) * each;
    let share = all.div_ceil(programs);
    // Where shares divide tiles evenly, none begins in the middle of a share.
    let even = all.is_multiple_of(programs) && each.is_multiple_of(share);
    let taken = each.div_ceil(share) - usize::from(even);
    Shares { whole: (whole * each) as f64, shared: share as f64, taken: taken as f64 }
}

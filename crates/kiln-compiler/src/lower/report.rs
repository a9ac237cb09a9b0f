//! The layouts of a kernel in words, for people who tune it.

use super::assign_layouts::assign_layouts;
use super::facts::IntFacts;
use super::layouts::LayoutId;
use super::plan::{LayoutPlan, Room};
use super::products::Unit;
use super::roles::{self, Role};
use super::{choose_block, narrow, widened};
use crate::error::CompileError;
use crate::layout::Conversion;
use crate::target::Target;
use crate::warp_specialize;
use kiln_ir::{Kernel, Op, OpData, OpKind, Value};
use std::fmt::Write;

/// Says for every tile that is held which layout it has, and for every conversion between layouts
/// how it is done and what it costs. One line for each, with the place in the user's source. Where
/// warpgroups multiply, it also says whether a warp beside them copies, or why not: of kernels that
/// are optimized.
///
/// # Errors
/// As [`lower_to_threads`](crate::lower_to_threads), as far as they are found before code is
/// generated.
///
/// ```
/// use kiln_compiler::{Target, explain_layouts};
/// let kernel = kiln_ir::parse("kernel @t(%x: mut view<f32, 2, global> {strides=[16, =1]}) tile {
///   %0 = const 0 : i64
///   %1 = const 0.0 : f32
///   %2 = load %x[%0, %0] pad %1 : f32[32, 32]
///   %3 = transpose %2 [1, 0] : f32[32, 32]
///   store %x[%0, %0] = %3
/// }").unwrap();
/// let report = explain_layouts(&kernel, &Target::cuda((9, 0), 227 << 10))?;
/// assert!(report.starts_with("4 warps\n"));
/// assert!(report.contains("to store: through scratch"));
/// # Ok::<(), kiln_compiler::CompileError>(())
/// ```
pub fn explain_layouts(kernel: &Kernel, target: &Target) -> Result<String, CompileError> {
    let lowered = crate::fault_region::lowered(kernel);
    let whole = lowered.as_ref().unwrap_or(kernel);
    let legalized = crate::legalize::legalize_tiles(whole)?;
    let kernel = legalized.as_ref().unwrap_or(whole);
    let widened = widened(kernel, target);
    let kernel = widened.as_ref().unwrap_or(kernel);
    let block = choose_block(kernel, whole, target)?;
    let narrow = narrow::narrow(kernel, target.index);
    let kernel = narrow.as_ref().unwrap_or(kernel);
    let warps = (block.iter().product::<u32>() / target.warp).max(1);
    let room = Room { exchanges: true, stages: target.shared_memory };
    let plan = assign_layouts(kernel, &mut IntFacts::new(kernel), warps, target, room);
    let mut report = Report { kernel, plan, text: format!("{warps} warps\n") };
    kernel.walk(|op, data| report.op(op, data));
    report.tasks(target);
    Ok(report.text)
}

struct Report<'k> {
    kernel: &'k Kernel,
    plan: LayoutPlan,
    text: String,
}

impl Report<'_> {
    fn op(&mut self, op: Op, data: &OpData) {
        if let Some(pipeline) = self.plan.pipelines.by_loop.get(&op) {
            let what = format!("loads of a loop: {} stages of {} bytes", pipeline.stages, pipeline.stage);
            self.line(data, &what);
        }
        if let Some(product) = self.plan.products.by_op.get(&op) {
            let ty = self.kernel.ty(data.results[0]);
            let by = match product.unit {
                Unit::Warps(grid) => format!("{} x {} warps", grid.rows, grid.columns),
                Unit::Warpgroups => "warpgroups".to_owned(),
            };
            let next = self.plan.pipelines.is_in_flight(op);
            let until = if next { ", under way in the next round" } else { "" };
            let parts = match (product.two_level, product.split) {
                (true, _) => ", two-level sums",
                (_, true) => ", elements in two parts",
                _ => "",
            };
            let what = format!("dot {ty} on matrix units: {by}{parts}{until}");
            self.line(data, &what);
            self.factors(op, data);
        }
        let args = data.regions.iter().flat_map(|&r| &self.kernel.block(r).args);
        let made: Vec<Value> = args.chain(&data.results).copied().collect();
        for value in made {
            if self.plan.roles[value.index()] == Role::Materialized {
                self.value(op, data, value);
            }
        }
        if let OpKind::Store { .. } = data.kind
            && let Some(&tile) = data.operands.last()
        {
            self.stored(op, data, tile);
        }
    }

    /// Whether loops of products get a task that copies.
    fn tasks(&mut self, target: &Target) {
        let products = self.plan.products.by_op.values();
        if !target.tasks || !products.into_iter().any(|product| product.unit == Unit::Warpgroups) {
            return;
        }
        let told = match warp_specialize(self.kernel, target) {
            Ok(_) => "a warp beside these copies what loops of products read".to_owned(),
            Err(kept) => format!("{}: no task that copies: {}", kept.location, kept.reason),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{told}");
    }

    /// How the fragments of a product come about.
    fn factors(&mut self, op: Op, data: &OpData) {
        let Some(product) = self.plan.products.by_op.get(&op).copied() else { return };
        for (i, name) in ["left", "right"].into_iter().enumerate() {
            let at_hand = self.plan.input(op, i);
            let what = match self.plan.pipelines.load([data.left(), data.right()][i]) {
                Some(load) if load.asynchronous => "from a stage, copied asynchronously",
                Some(load) if load.transposed => "from a stage, transposed by the threads",
                Some(_) => "from a stage, stored by the threads",
                None if self.plan.products.slots.contains_key(&[data.left(), data.right()][i]) => {
                    "in shared memory, from before the loop"
                }
                None if product.takes(i, at_hand) => "in registers",
                None => "through scratch",
            };
            self.line(data, &format!("  {name} factor: {what}"));
        }
    }

    fn line(&mut self, data: &OpData, what: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}: {what}", self.kernel.describe(data.loc));
    }

    fn value(&mut self, op: Op, data: &OpData, value: Value) {
        let home = self.plan.home(value);
        let ty = self.kernel.ty(value);
        let what = format!("{} {ty}: {}", data.kind.mnemonic(), self.plan.layout(home));
        self.line(data, &what);
        if let OpKind::Reduce { axis, .. } = data.kind {
            let from = self.plan.layout(self.plan.input(op, 0));
            let slice = from.without(&self.kernel.shape(data.input()), axis as usize);
            let made = self.plan.intern(slice);
            self.conversion(data, value, made, home, "after reducing");
        }
        for wanted in self.plan.wanted(value) {
            self.conversion(data, value, home, wanted, "for a user");
        }
    }

    /// A tile that is another one transposed or broadcast is stored as its own layouts say.
    fn stored(&mut self, op: Op, data: &OpData, tile: Value) {
        let wanted = self.plan.input(op, 0);
        let mut under = (tile, wanted);
        while self.plan.roles[under.0.index()] == Role::View {
            let Some(seen) = self.kernel.defining_op(under.0) else { return };
            under = (seen.input(), self.plan.before(self.kernel, seen, under.1));
        }
        if roles::is_tile(self.kernel, under.0) && self.plan.roles[under.0.index()] == Role::Materialized {
            self.conversion(data, under.0, self.plan.home(under.0), under.1, "to store");
        }
    }

    fn conversion(&mut self, data: &OpData, value: Value, from: LayoutId, to: LayoutId, why: &str) {
        if from == to {
            return;
        }
        let bytes = self.kernel.ty(value).elem().bytes();
        let (from, to) = (self.plan.layout(from), self.plan.layout(to));
        let conversion = Conversion::between(from, to, bytes, &self.plan.cost);
        self.line(data, &format!("  {why}: {conversion}"));
    }
}

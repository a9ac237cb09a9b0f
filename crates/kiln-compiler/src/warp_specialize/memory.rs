//! The shared memory of the tasks: rings of stages, factors that are kept, results on their way
//! out, and the mbarriers between.

use super::NotEligible;
use super::copies::Copied;
use super::eligibility::{EligibleKernel, EligibleLoop};
use super::results::{self, Leaving};
use crate::target::Target;
use kiln_ir::{Builder, ExplicitOp, Kernel, OpKind, Scalar, Space, Type, Value};

/// The most warps that multiply in a block that leaves room for another.
const FEW_WARPS: u32 = 4;
/// Shared memory that the system keeps for each block, in bytes.
const SYSTEM: u32 = 1024;
/// Shared memory for small exchanges between threads, mbarriers and alignment, in bytes.
const RESERVE: u32 = 2048;
/// As much where it would cost the room for another block: for mbarriers alone.
const LEAST_RESERVE: u32 = 512;

/// What a stage of a ring holds, by copy: the tile, and its group.
type Shape = Vec<(Scalar, [u32; 2], usize)>;

/// How much there is of everything.
pub(super) struct SharedPlan {
    rings: Vec<Shape>,
    /// By loop: its ring. Loops whose stages hold the same share one.
    by_loop: Vec<usize>,
    stages: u32,
    /// The results that leave by copies.
    pub leaving: Vec<Leaving>,
}

/// A ring of stages.
pub(super) struct Ring {
    /// By copy: the shared tiles, one for each stage.
    pub tiles: Vec<Value>,
    /// By group: an mbarrier for each stage that its bytes have come.
    pub full: Vec<Value>,
    /// By group: an mbarrier for each stage that it is free, and one more that no task waits for.
    pub empty: Vec<Value>,
    /// By copy: its group.
    pub groups: Vec<usize>,
}

/// Shared memory and mbarriers, as values of the kernel's body.
pub(super) struct SharedMemory {
    pub rings: Vec<Ring>,
    pub by_loop: Vec<usize>,
    pub stages: u32,
    /// By factor that is kept: its shared tile.
    pub kept: Vec<Value>,
    /// Whether that is the box transposed.
    pub kept_transposed: Vec<bool>,
    /// An mbarrier for each, that it has come.
    pub arrived: Option<Value>,
    /// By result that leaves by copies: the shared tiles of its strips.
    pub out: Vec<(Leaving, Value)>,
}

fn shape(looped: &EligibleLoop) -> Shape {
    let groups = looped.groups();
    looped.copies.iter().zip(groups).map(|(c, group)| (c.elem, [c.rows, c.columns], group)).collect()
}

fn bytes(shape: &Shape) -> u32 {
    shape.iter().map(|(elem, [rows, columns], _)| elem.bytes() * rows * columns).sum()
}

impl SharedPlan {
    /// Divides so many bytes: results get a strip each before stages are counted, and more if that
    /// costs no stage. False if there are too few stages.
    fn divide(&mut self, free: u32, stage: u32, [fewest, most]: [u32; 2]) -> bool {
        let fitting = |strips: u32| (free.saturating_sub(strips) / stage.max(1)).min(most);
        let strips: u32 = self.leaving.iter().map(Leaving::bytes).sum();
        self.stages = fitting(strips);
        if self.stages < fewest {
            return false;
        }
        let mut left = free - strips - self.stages * stage;
        for leaving in &mut self.leaving {
            left = leaving.take_more(left);
        }
        true
    }
}

impl SharedMemory {
    /// Divides the shared memory of a block: as many stages as there is room for, once results have
    /// a strip.
    pub fn plan(
        kernel: &Kernel,
        eligible: &EligibleKernel,
        target: &Target,
    ) -> Result<SharedPlan, NotEligible> {
        let mut plan = SharedPlan { rings: Vec::new(), by_loop: Vec::new(), stages: 0, leaving: Vec::new() };
        for shape in eligible.loops.iter().map(shape) {
            let known = plan.rings.iter().position(|ring| *ring == shape);
            plan.by_loop.push(known.unwrap_or(plan.rings.len()));
            if known.is_none() {
                plan.rings.push(shape);
            }
        }
        let stage: u32 = plan.rings.iter().map(bytes).sum();
        let kept: u32 = eligible.kept.iter().map(Copied::bytes).sum();
        let fewest = if eligible.loops.iter().any(|l| l.in_flight) { 3 } else { 2 };
        let asked = kernel.hints.stages;
        let stages = [fewest, asked.unwrap_or(target.cost.memory.most_stages)];
        if let Some(asked) = asked.filter(|asked| *asked < fewest) {
            let loc = kernel.op(eligible.loops[0].op).loc;
            return NotEligible::new(
                loc,
                format!("the launch asks for {asked} stages, {fewest} is the least"),
            );
        }
        plan.leaving = results::find(kernel, eligible);
        // Two blocks of few warps hide each other's beginnings and ends.
        let beside = (target.shared_memory + SYSTEM) / 2 - SYSTEM;
        let beside = beside.saturating_sub(LEAST_RESERVE + kept);
        let whole = target.shared_memory.saturating_sub(RESERVE + kept);
        let may_halve = eligible.warps <= FEW_WARPS && asked.is_none();
        let mut enough = may_halve && plan.divide(beside, stage, stages) || plan.divide(whole, stage, stages);
        if !enough {
            plan.leaving.clear();
            enough = plan.divide(whole, stage, stages);
        }
        if !enough {
            let loc = kernel.op(eligible.loops[0].op).loc;
            return NotEligible::new(
                loc,
                format!("there is no shared memory for {fewest} stages of {stage} bytes"),
            );
        }
        Ok(plan)
    }

    /// Makes what was planned, in the kernel's body.
    pub fn make(kernel: &mut Kernel, eligible: &EligibleKernel, plan: &SharedPlan) -> SharedMemory {
        let mut b = Builder::new(kernel);
        let stages = plan.stages;
        // Tiles first, since they begin at multiples of a kibibyte.
        let tiles: Vec<Vec<Value>> = plan
            .rings
            .iter()
            .map(|shape| {
                shape.iter().map(|(elem, extents, _)| tile(&mut b, *elem, stages, *extents)).collect()
            })
            .collect();
        let kept = eligible.kept.iter().map(|c| tile(&mut b, c.elem, 1, [c.rows, c.columns])).collect();
        let kept_transposed = eligible.kept.iter().map(|c| c.transposed).collect();
        let out = plan.leaving.iter().map(|leaving| {
            let strips =
                tile(&mut b, leaving.copied.elem, leaving.buffers, [leaving.copied.rows, leaving.strip]);
            (leaving.clone(), strips)
        });
        let out = out.collect();
        let mut rings = Vec::new();
        for (shape, tiles) in plan.rings.iter().zip(tiles) {
            let groups: Vec<usize> = shape.iter().map(|s| s.2).collect();
            let count = groups.iter().max().map_or(0, |last| last + 1);
            let full = (0..count).map(|_| mbarriers(&mut b, stages)).collect();
            let empty = (0..count).map(|_| mbarriers(&mut b, stages + 1)).collect();
            rings.push(Ring { tiles, full, empty, groups });
        }
        let count = eligible.kept.len() as u32;
        let arrived = (count > 0).then(|| mbarriers(&mut b, count));
        SharedMemory { rings, by_loop: plan.by_loop.clone(), stages, kept, kept_transposed, arrived, out }
    }
}

fn tile(b: &mut Builder<'_>, elem: Scalar, stages: u32, [rows, columns]: [u32; 2]) -> Value {
    let op = ExplicitOp::SharedTile { stages, rows, columns };
    let made = b.op(OpKind::Explicit(op), &[], &[Type::view(elem, 3, Space::Shared)]);
    b.kernel.result(made)
}

/// So many mbarriers, each of one arrival a phase.
fn mbarriers(b: &mut Builder<'_>, count: u32) -> Value {
    let op = ExplicitOp::Mbarrier { count, arrivals: 1 };
    let made = b.op(OpKind::Explicit(op), &[], &[Type::view(Scalar::U64, 1, Space::Shared)]);
    b.kernel.result(made)
}

//! Loops whose loads feed products: the loads of later rounds are under way while a round
//! multiplies.
//!
//! A tile that is loaded in the body of a `for`, from memory that the kernel does not write, and
//! that only goes to products on matrix units of the same body, never enters registers as a tile:
//! it is copied to shared memory, some rounds before its own, and the products read fragments of it
//! there. Shared memory holds it for as many *stages* as rounds are under way. Where rows are
//! aligned to 16 bytes the copies are asynchronous (`cp.async`), and what lies outside the view is
//! filled with zeros; elsewhere threads load and store.

use super::coalesce::Contiguity;
use super::facts::IntFacts;
use super::products::{self, Products};
use super::roles::Role;
use crate::layout::{Layout, Slot};
use kiln_ir::{Block, Bounds, Def, Kernel, Level, Literal, Op, OpData, OpKind, Shape, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Shared memory that small exchanges may take, in bytes.
const WINDOW: u32 = 2048;
/// Slots begin at multiples of so many bytes, those that warpgroups read of more.
const ALIGN: u32 = 128;
/// Bytes of an asynchronous copy.
const COPY: u32 = 16;
/// What there is for stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stages {
    /// The most of them.
    pub most: u32,
    /// Bytes of shared memory.
    pub bytes: u32,
    /// How many the launch asks for, whatever else is best.
    pub asked: Option<u32>,
}

/// A load into shared memory.
#[derive(Clone, Debug)]
pub(crate) struct StagedLoad {
    pub op: Op,
    /// Where its tile lies in a stage.
    pub slot: Slot,
    /// From the beginning of the stage, in bytes.
    pub offset: u32,
    /// Which thread copies what.
    pub layout: Layout,
    /// Copies are asynchronous, 16 bytes each.
    pub asynchronous: bool,
    /// Threads store it along another axis than it lies along in memory.
    pub transposed: bool,
}

/// A loop that is pipelined.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub loads: Vec<StagedLoad>,
    /// What the places of the loads are computed from, in the body, in order.
    pub slice: Vec<Op>,
    pub stages: u32,
    /// Bytes of a stage.
    pub stage: u32,
    /// The step of the loop.
    pub step: i128,
    /// Products that are still under way when the next round begins.
    pub in_flight: Vec<Op>,
}

impl Pipeline {
    /// How many rounds before their own copies begin. Where the products of a round are still under
    /// way in the next, its stage is free one round later.
    pub fn ahead(&self) -> u32 {
        self.stages - 1 - u32::from(!self.in_flight.is_empty())
    }
}

/// The loops of a kernel that are pipelined, and where each of their staged tiles comes from.
#[derive(Default, Debug)]
pub(crate) struct Pipelines {
    pub by_loop: FxHashMap<Op, Pipeline>,
    /// By value: the loop and the number of the load among its loads.
    pub staged: FxHashMap<Value, (Op, usize)>,
}

impl Pipelines {
    /// The load in shared memory that a value is, maybe transposed.
    pub fn load(&self, value: Value) -> Option<&StagedLoad> {
        let &(op, i) = self.staged.get(&value)?;
        self.by_loop.get(&op).map(|p| &p.loads[i])
    }

    /// Whether a product is still under way when the next round of its loop begins.
    pub fn is_in_flight(&self, product: Op) -> bool {
        self.by_loop.values().any(|pipeline| pipeline.in_flight.contains(&product))
    }
}

/// Finds the loops to pipeline with so many stages, and gives what is staged that role.
pub(crate) fn find<'k>(
    kernel: &'k Kernel,
    budget: Stages,
    facts: &mut IntFacts<'k>,
    products: &Products,
    roles: &mut [Role],
    warps: u32,
) -> Pipelines {
    let mut pipelines = Pipelines::default();
    if products.by_op.is_empty() || !matches!(kernel.level, Level::Tile { .. }) {
        return pipelines;
    }
    let mut users: FxHashMap<Value, Vec<Op>> = FxHashMap::default();
    let mut loops = Vec::new();
    kernel.walk(|op, data| {
        data.operands.iter().for_each(|&v| users.entry(v).or_default().push(op));
        if data.kind == OpKind::For {
            loops.push(op);
        }
    });
    let mut finder = Finder { kernel, facts, products, users, warps };
    for op in loops {
        let Some((pipeline, staged)) = finder.pipeline(op, budget) else { continue };
        for (i, values) in staged.into_iter().enumerate() {
            for value in values {
                roles[value.index()] = Role::SharedStaged;
                pipelines.staged.insert(value, (op, i));
            }
        }
        pipelines.by_loop.insert(op, pipeline);
    }
    pipelines
}

struct Finder<'a, 'k> {
    kernel: &'k Kernel,
    facts: &'a mut IntFacts<'k>,
    products: &'a Products,
    users: FxHashMap<Value, Vec<Op>>,
    warps: u32,
}

/// The tiles that a load is, under all its shapes.
type Staged = Vec<Value>;

impl Finder<'_, '_> {
    fn pipeline(&mut self, op: Op, budget: Stages) -> Option<(Pipeline, Vec<Staged>)> {
        let data = self.kernel.op(op);
        let step = self.kernel.as_const(data.for_bounds()[2])?.as_i128();
        let body = *data.regions.first()?;
        if step <= 0 {
            return None;
        }
        let (mut loads, mut staged, mut slice) = (Vec::new(), Vec::new(), FxHashSet::default());
        let (mut stage, align) = (0u32, self.products.alignment().unwrap_or(ALIGN));
        for &at in &self.kernel.block(body).ops {
            let Some((load, values, needs)) = self.load(at, body) else { continue };
            let offset = stage.next_multiple_of(align);
            stage = offset + load.slot.bytes();
            loads.push(StagedLoad { offset, ..load });
            staged.push(values);
            slice.extend(needs);
        }
        if loads.is_empty() {
            return None;
        }
        let stage = stage.next_multiple_of(align);
        let free = budget.bytes.checked_sub(WINDOW + self.products.slot_bytes)?;
        let stages = stages(stage, Stages { bytes: free, ..budget }, self.warps)?;
        let in_order = self.kernel.block(body).ops.iter().copied().filter(|op| slice.contains(op)).collect();
        let in_flight = Vec::new();
        Some((Pipeline { loads, slice: in_order, stages, stage, step, in_flight }, staged))
    }

    /// A load of a body that can be staged, under which values it is used, and what its place is
    /// computed from.
    fn load(&mut self, op: Op, body: Block) -> Option<(StagedLoad, Staged, Vec<Op>)> {
        let data = self.kernel.op(op);
        if !matches!(data.kind, OpKind::Load(_)) || !self.is_read_only(data.view()) {
            return None;
        }
        let value = data.results[0];
        let shape = self.kernel.shape(value);
        let rank = shape.rank();
        if rank < 2 || shape.extents()[..rank - 2].iter().any(|e| *e != 1) {
            return None;
        }
        let (mut values, mut depths) = (Vec::new(), Vec::new());
        let matrix = [shape[rank - 2], shape[rank - 1]];
        self.only_factors((value, false), matrix, body, (&mut values, &mut depths)).then_some(())?;
        let mut needs = Vec::new();
        data.coordinates()
            .iter()
            .chain([&data.padding()])
            .try_for_each(|&v| self.place(v, body, &mut needs))?;
        let contiguity = Contiguity::of(self.facts, self.kernel, data.view(), data.coordinates(), &shape);
        let lies = (contiguity.axis + 2).checked_sub(rank).unwrap_or(1) as u32;
        let bytes = self.kernel.ty(value).elem().bytes();
        let along = if products::lies_either_way(bytes) { lies } else { *depths.first()? };
        if !products::lies_either_way(bytes) && depths.iter().any(|&depth| depth != along) {
            return None;
        }
        let (transposed, slot) = (along != lies, Slot::new(&shape, along, bytes));
        let padding = self.kernel.as_const(data.padding());
        let asynchronous = contiguity.uncut * bytes >= COPY
            && contiguity.axis + 2 >= rank
            && !transposed
            && padding == Some(Literal::zero(self.kernel.ty(value).elem()));
        let layout = match asynchronous {
            true => chunks(&shape, contiguity.axis, COPY / bytes, self.warps),
            false if transposed && contiguity.axis + 2 >= rank => {
                let to = rank - 2 + along as usize;
                // A word of memory for each row of a chunk.
                let vector = contiguity.aligned.min(4);
                Layout::transposing(&shape, [contiguity.axis, to], [vector, COPY / bytes], self.warps)
            }
            false => contiguity.layout(&shape, self.warps),
        };
        Some((StagedLoad { op, slot, offset: 0, layout, asynchronous, transposed }, values, needs))
    }

    fn is_read_only(&self, view: Value) -> bool {
        match self.kernel.def(view) {
            Def::Arg(_, i) => self.kernel.params.get(i as usize).is_some_and(|p| !p.mutable),
            Def::Result(..) => false,
        }
    }

    /// Whether a tile only goes to products of the body, as it is, without unit extents, or
    /// transposed. Collects it and what it becomes, and the axes that are summed over.
    fn only_factors(
        &self,
        (value, transposed): (Value, bool),
        matrix: [u32; 2],
        body: Block,
        (values, depths): (&mut Staged, &mut Vec<u32>),
    ) -> bool {
        values.push(value);
        let users = self.users.get(&value).map_or(&[][..], Vec::as_slice);
        let here = |op: &Op| self.kernel.block(body).ops.contains(op);
        !users.is_empty()
            && users.iter().all(|user| {
                let data = self.kernel.op(*user);
                if let OpKind::Dot(_) = data.kind {
                    let sides = (0..2).filter(|&i| [data.left(), data.right()][i] == value);
                    depths.extend(sides.map(|side| if (side == 0) != transposed { 1 } else { 0 }));
                    self.products.by_op.contains_key(user) && here(user) && data.addend() != value
                } else if data.kind == OpKind::Reshape {
                    self.kernel.shape(data.results[0]) == Shape::new(&matrix)
                        && self.only_factors((data.results[0], transposed), matrix, body, (values, depths))
                } else if let OpKind::Transpose(perm) = &data.kind {
                    let transposed = transposed != (perm[0] == 1);
                    self.kernel.shape(value).rank() == 2
                        && self.only_factors((data.results[0], transposed), matrix, body, (values, depths))
                } else {
                    false
                }
            })
    }

    /// Whether a number is loaded from memory that the kernel does not write, as that of a page
    /// from a table: that gives the same in any round, and what lies outside is no fault.
    fn is_number_of_table(&self, data: &OpData) -> bool {
        matches!(data.kind, OpKind::Gather { bounds: Bounds::Mask, .. }) && self.is_read_only(data.view())
    }

    /// Collects the operations of a body that a scalar is computed from, if they depend on the
    /// round and what is outside alone.
    fn place(&self, value: Value, body: Block, needs: &mut Vec<Op>) -> Option<()> {
        let block = self.kernel.block(body);
        match self.kernel.def(value) {
            Def::Arg(of, i) if of == body => (i == 0).then_some(()),
            Def::Result(op, _) if block.ops.contains(&op) => {
                let data = self.kernel.op(op);
                let scalar = data.results.iter().all(|&v| self.kernel.ty(v).is_scalar());
                let is_known = self.kernel.is_pure(op) || self.is_number_of_table(data);
                (scalar && is_known && data.regions.is_empty()).then_some(())?;
                if !needs.contains(&op) {
                    data.operands.iter().try_for_each(|&v| self.place(v, body, needs))?;
                    needs.push(op);
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}

/// How many stages of so many bytes: as many as leave room for a second block, which registers do
/// too for up to four warps, or else as there is room for. `None` if not even two.
fn stages(bytes: u32, budget: Stages, warps: u32) -> Option<u32> {
    let most = budget.asked.unwrap_or(budget.most);
    let fitting = |space: u32| (space / bytes.max(1)).min(most);
    let beside = if warps <= 4 && budget.asked.is_none() { fitting(budget.bytes / 2) } else { 0 };
    Some(if beside >= 2 { beside } else { fitting(budget.bytes) }).filter(|stages| *stages >= 2)
}

/// A layout of chunks of so many elements along an axis, of which threads left over hold copies.
fn chunks(shape: &Shape, axis: usize, each: u32, warps: u32) -> Layout {
    let mut fewer: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    fewer[axis] /= each;
    let fewer = Shape::new(&fewer);
    Layout::coalesced(&fewer, axis, 1, warps).of_vectors(&fewer, axis, each.trailing_zeros())
}

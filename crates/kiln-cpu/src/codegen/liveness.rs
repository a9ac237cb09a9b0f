//! What the code generator must know of a kernel before it starts: when tiles die, which values
//! share memory, which are splats, and which loads may be used where they lie.

use kiln_ir::{BinaryOp, Block, CompareOp, Def, Kernel, Op, OpData, OpKind, Shape, Type, UnaryOp, Value};

/// The facts, in tables indexed by value or operation.
pub(super) struct Liveness {
    root: Vec<Value>,
    splat: Vec<bool>,
    in_place: Vec<bool>,
    /// Whether every use is as a factor of a product, directly or transposed.
    factor: Vec<bool>,
    /// For each root value, the operation of its own block during which it is used last.
    last_use: Vec<Option<Op>>,
    /// The last operation of its own block in whose regions the value is used.
    nested_use: Vec<Option<Op>>,
    dead_after: Vec<Vec<Value>>,
    used: Vec<bool>,
    /// By operation: whether anything would notice that it is missing.
    needed: Vec<bool>,
}

impl Liveness {
    /// The facts of a kernel.
    pub(super) fn of(kernel: &Kernel) -> Liveness {
        let (values, ops, blocks) = kernel.counts();
        let mut walk = Walk {
            kernel,
            parent: vec![None; blocks],
            block_of: vec![None; ops],
            position: vec![0; ops],
            facts: Liveness {
                root: (0..values).map(Value::from_index).collect(),
                splat: vec![false; values],
                in_place: vec![false; values],
                factor: vec![true; values],
                last_use: vec![None; values],
                nested_use: vec![None; values],
                dead_after: vec![Vec::new(); ops],
                used: vec![false; values],
                needed: vec![false; ops],
            },
        };
        walk.needed(kernel.body);
        walk.block(kernel.body, None);
        walk.deaths();
        walk.loads();
        walk.facts
    }

    /// The value whose memory a value shares: reshapes and bitcasts are their operand under another
    /// type.
    pub(super) fn root(&self, value: Value) -> Value {
        self.root[value.index()]
    }

    /// Whether every element of a tile is the same scalar, which is then never written out.
    pub(super) fn is_splat(&self, value: Value) -> bool {
        self.splat[value.index()]
    }

    /// Whether the result of a `Load` or `Gather` may be used in the view's memory: nothing writes
    /// there while the tile lives.
    pub(super) fn is_in_place(&self, value: Value) -> bool {
        self.in_place[self.root(value).index()]
    }

    /// Whether a value is a matrix that is only multiplied: it may have any strides, and a
    /// transposition costs nothing, nor do axes of extent 1 before its own.
    pub(super) fn is_matrix(&self, kernel: &Kernel, value: Value) -> bool {
        let Some(data) = kernel.defining_op(value) else { return false };
        if !self.factor[value.index()] || self.splat[value.index()] {
            return false;
        }
        if let OpKind::Transpose(perm) = &data.kind {
            return perm.extents() == [1, 0] && self.is_matrix(kernel, data.input());
        }
        if takes_matrix(kernel, data) {
            return self.is_matrix(kernel, data.input());
        }
        matches!(data.kind, OpKind::Load(_)) && matrix_of(&kernel.shape(value)).is_some()
    }

    /// Whether anything would notice that an operation is missing.
    pub(super) fn is_needed(&self, op: Op) -> bool {
        self.needed[op.index()]
    }

    /// Whether anything that is needed uses the value.
    pub(super) fn is_used(&self, value: Value) -> bool {
        self.used[value.index()]
    }

    /// The operation in the value's own block during which its memory is used last, if it is used.
    pub(super) fn last_use(&self, value: Value) -> Option<Op> {
        self.last_use[self.root(value).index()]
    }

    /// Whether a value's memory is used last as an operand of the operation, and not in its
    /// regions.
    pub(super) fn ends_at(&self, value: Value, op: Op) -> bool {
        let root = self.root(value);
        self.dead_after(op).contains(&root) && self.nested_use[root.index()] != Some(op)
    }

    /// The root values whose memory is free once the operation is done.
    pub(super) fn dead_after(&self, op: Op) -> &[Value] {
        &self.dead_after[op.index()]
    }
}

struct Walk<'k> {
    kernel: &'k Kernel,
    /// The operation that a block is a region of.
    parent: Vec<Option<Op>>,
    block_of: Vec<Option<Block>>,
    position: Vec<usize>,
    facts: Liveness,
}

impl Walk<'_> {
    /// Finds what is needed: uses stand after definitions, so that one pass from the end sees them
    /// first.
    fn needed(&mut self, block: Block) {
        for &op in self.kernel.block(block).ops.iter().rev() {
            let data = self.kernel.op(op);
            let facts = &mut self.facts;
            if !has_effect(self.kernel, op) && !data.results.iter().any(|r| facts.used[r.index()]) {
                continue;
            }
            facts.needed[op.index()] = true;
            for (position, operand) in data.operands.iter().enumerate() {
                facts.used[operand.index()] = true;
                let factor = matches!(data.kind, OpKind::Dot(_)) && position < 2
                    || (matches!(data.kind, OpKind::Transpose(_)) || takes_matrix(self.kernel, data))
                        && facts.factor[data.results[0].index()];
                facts.factor[operand.index()] &= factor;
            }
            for &region in data.regions.iter().rev() {
                self.needed(region);
            }
        }
    }

    fn block(&mut self, block: Block, parent: Option<Op>) {
        self.parent[block.index()] = parent;
        for (position, &op) in self.kernel.block(block).ops.iter().enumerate() {
            self.block_of[op.index()] = Some(block);
            self.position[op.index()] = position;
            let data = self.kernel.op(op);
            self.alias(op);
            if !self.facts.needed[op.index()] {
                continue;
            }
            for &operand in &data.operands {
                let root = self.facts.root(operand);
                if let Some(user) = self.ancestor_in(self.home(root), op) {
                    self.facts.last_use[root.index()] = Some(user);
                    if user != op {
                        self.facts.nested_use[root.index()] = Some(user);
                    }
                }
            }
            for &region in &data.regions {
                self.block(region, Some(op));
            }
        }
    }

    fn alias(&mut self, op: Op) {
        let data = self.kernel.op(op);
        let [result] = data.results[..] else { return };
        if self.kernel.ty(result).is_scalar() || self.kernel.ty(result).as_view().is_some() {
            return;
        }
        let facts = &mut self.facts;
        let splat = |v: &Value| facts.splat[v.index()] || self.kernel.ty(*v).is_scalar();
        let spreads = matches!(data.kind, OpKind::Const(_) | OpKind::Broadcast | OpKind::Transpose(_))
            || is_alias(&data.kind)
            || is_elementwise(&data.kind);
        facts.splat[result.index()] = spreads && data.operands.iter().all(splat);
        let transposed = matches!(data.kind, OpKind::Transpose(_)) && facts.is_matrix(self.kernel, result);
        if (is_alias(&data.kind) && !facts.splat[result.index()]) || transposed {
            facts.root[result.index()] = facts.root[data.input().index()];
        }
    }

    /// The block that a value is defined in.
    fn home(&self, value: Value) -> Option<Block> {
        match self.kernel.def(value) {
            Def::Arg(block, _) => Some(block),
            Def::Result(op, _) => self.block_of[op.index()],
        }
    }

    /// The operation of `home` that is `op` or contains it.
    fn ancestor_in(&self, home: Option<Block>, mut op: Op) -> Option<Op> {
        while self.block_of[op.index()] != home {
            op = self.parent[self.block_of[op.index()]?.index()]?;
        }
        Some(op)
    }

    fn deaths(&mut self) {
        for index in 0..self.facts.root.len() {
            let value = Value::from_index(index);
            let defined = match self.kernel.def(value) {
                Def::Result(op, _) if self.block_of[op.index()].is_some() => Some(op),
                _ => None,
            };
            if self.facts.root(value) != value {
                continue;
            }
            if let Some(op) = self.facts.last_use[index].or(defined) {
                self.facts.dead_after[op.index()].push(value);
            }
        }
    }

    fn loads(&mut self) {
        for index in 0..self.facts.root.len() {
            let value = Value::from_index(index);
            let Def::Result(op, _) = self.kernel.def(value) else { continue };
            let data = self.kernel.op(op);
            if !matches!(data.kind, OpKind::Load(_) | OpKind::Gather { .. }) {
                continue;
            }
            let (Some(home), Some(last)) = (self.block_of[op.index()], self.facts.last_use[index]) else {
                continue;
            };
            let range = self.position[op.index()] + 1..self.position[last.index()] + 1;
            let range = range.start..range.end.max(range.start);
            self.facts.in_place[index] =
                !self.kernel.block(home).ops[range].iter().any(|&op| writes(self.kernel, op, data.view()));
        }
    }
}

/// Whether an operation does more than give results.
fn has_effect(kernel: &Kernel, op: Op) -> bool {
    let data = kernel.op(op);
    let faults = matches!(data.kind, OpKind::Binary(_)) && !kernel.is_pure(op);
    let atomic = matches!(data.kind, OpKind::Atomic { .. } | OpKind::AtomicCas { .. });
    data.kind.has_effect() || !data.regions.is_empty() || faults || atomic
}

/// Whether an operation, or one inside it, writes memory of a view or lets others do so. Distinct
/// parameters and allocations do not overlap.
pub(super) fn writes(kernel: &Kernel, op: Op, view: Value) -> bool {
    use OpKind::*;
    let data = kernel.op(op);
    let inside = |block: &Block| kernel.block(*block).ops.iter().any(|&op| writes(kernel, op, view));
    if let Store { .. } | Scatter { .. } | Atomic { .. } | AtomicCas { .. } | Atomic128 { .. } = data.kind {
        return data.view() == view;
    }
    // After these, others may write what was read before.
    let publishes = matches!(data.kind, OrderedStore { .. } | StoreQuad(_) | Fence(_));
    publishes || data.regions.iter().any(inside)
}

/// Operations that work on each element alone.
pub(super) fn is_elementwise(kind: &OpKind) -> bool {
    Elementwise::of(kind).is_some()
}

/// An operation that a group does for each element of its tiles, besides `iota`.
#[derive(Clone, Copy)]
pub(super) enum Elementwise {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Select,
    Fma,
    Cast,
}

impl Elementwise {
    pub(super) fn of(kind: &OpKind) -> Option<Elementwise> {
        use OpKind::*;
        match kind {
            Unary(op) => Some(Elementwise::Unary(*op)),
            Binary(op) => Some(Elementwise::Binary(*op)),
            Compare(op) => Some(Elementwise::Compare(*op)),
            Select => Some(Elementwise::Select),
            Fma => Some(Elementwise::Fma),
            Cast => Some(Elementwise::Cast),
            Const(_)
            | Iota
            | ProgramId(_)
            | NumPrograms(_)
            | ThreadId(_)
            | BlockDim(_)
            | Bitcast
            | Broadcast
            | Reshape
            | Transpose(_)
            | Reduce { .. }
            | Scan { .. }
            | Dot(_)
            | Extent(_)
            | Stride(_)
            | Alloc { .. }
            | Load(_)
            | Store { .. }
            | Gather { .. }
            | Scatter { .. }
            | Atomic { .. }
            | AtomicCas { .. }
            | Fence(_)
            | OrderedLoad { .. }
            | OrderedStore { .. }
            | LoadQuad(_)
            | StoreQuad(_)
            | Atomic128 { .. }
            | Barrier
            | WarpBarrier
            | Shuffle(_)
            | Vote(_)
            | BlockUniform
            | GridBarrier
            | Cluster(_)
            | AsyncCopy(_)
            | Clock(_)
            | InlinePtx(_)
            | Sleep
            | If
            | For
            | While
            | Yield
            | Condition
            | FaultRegion
            | Assert(_)
            | Print(_)
            | Explicit(_)
            | Fragment(_)
            | Linear { .. }
            | Address
            | Scratch { .. }
            | PtrLoad { .. }
            | PtrStore { .. }
            | PtrAtomic { .. }
            | PtrAtomicCas { .. }
            | PtrOrderedLoad { .. }
            | PtrOrderedStore { .. }
            | PtrAtomic128 { .. }
            | CheckBounds
            | CheckDivisor
            | BlockCheck(_)
            | DeferFault { .. }
            | Faulted => None,
        }
    }
}

/// Operations whose result is the operand's memory under another type.
pub(super) fn is_alias(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Reshape | OpKind::Bitcast)
}

/// The extents of the matrix that a tile is, where all axes but its last two have one element.
fn matrix_of(shape: &Shape) -> Option<[u32; 2]> {
    let [ones @ .., rows, columns] = shape.extents() else { return None };
    ones.iter().all(|&extent| extent == 1).then_some([*rows, *columns])
}

/// Whether an operation drops the axes of one element before a matrix: `a.row(i).tile(..)` of a
/// stack of matrices.
fn takes_matrix(kernel: &Kernel, data: &OpData) -> bool {
    let OpKind::Reshape = data.kind else { return false };
    let (from, to) = (kernel.shape(data.input()), kernel.shape(data.results[0]));
    to.rank() == 2 && matrix_of(&from) == matrix_of(&to)
}

/// The size of a tile in memory.
pub(super) fn tile_bytes(ty: &Type) -> usize {
    ty.as_tile().map_or(0, |t| t.shape.len() * t.elem.bytes() as usize)
}

/// Whether a row-major box of this shape is one run of memory on each axis from `axis` inwards,
/// whatever the strides outside.
pub(super) fn inner_len(shape: &Shape, axis: usize) -> u64 {
    shape.extents()[axis + 1..].iter().map(|&e| u64::from(e)).product()
}

//! The walk over a kernel for threads, and its values in their two forms.

use super::space::LaneSpace;
use kiln_backend::{Error, Result};
use kiln_ir::{
    Axis, BinaryOp, Block, Builder, Kernel, Level, Literal, Loc, Message, Op, OpData, OpKind, ReduceOp,
    Scalar, Shape, Type, UnaryOp, Uniformity, Value, WARP,
};
use std::collections::{HashMap, HashSet};

/// A value of the old kernel in the new one.
#[derive(Clone, Copy)]
enum Form {
    /// A scalar that all threads share, a tile or a view.
    Uniform(Value),
    /// A tile with an element for each lane.
    Lanes(Value),
}

/// A kernel for threads as one over tiles.
pub(crate) struct Lockstep {
    /// The new kernel.
    pub(crate) kernel: Kernel,
    /// The block's extents: a lane's number is x + (y + z * block[1]) * block[0].
    pub(crate) block: [u32; 3],
    /// Operations of the new kernel that the block does as one: the elements of their tiles are no
    /// lanes.
    pub(crate) collective: HashSet<Op>,
    /// The places of the lanes.
    pub(crate) space: LaneSpace,
    /// The mask under which an operation is made, of those whose results in other lanes are not
    /// read.
    pub(crate) masks: HashMap<Op, Value>,
    /// The mask within which a mask was made.
    pub(crate) outer: HashMap<Value, Value>,
}

/// Rewrites a kernel for threads into one over tiles; see the [module](super).
///
/// # Errors
/// [`Error::Unsupported`] names what has no form in lockstep.
pub(crate) fn lockstep(kernel: &Kernel, block: [u32; 3]) -> Result<Lockstep> {
    let mut new = Kernel::new(kernel.name.clone(), Level::Tile { warps: None });
    new.files.clone_from(&kernel.files);
    new.messages.clone_from(&kernel.messages);
    (new.contract, new.hints) = (kernel.contract, kernel.hints);
    let params: Vec<Value> = kernel.params.iter().map(|p| new.add_param(p.clone())).collect();
    let threads: u32 = block.iter().product();
    let lanes = lanes(kernel, threads);
    let mut rewrite = Rewrite {
        old: kernel,
        b: Builder::new(&mut new),
        uniformity: Uniformity::of(kernel),
        used: used(kernel),
        block,
        lanes,
        forms: vec![None; kernel.counts().0],
        locals: HashMap::new(),
        mask: None,
        indices: [None; 3],
        collective: HashSet::new(),
        masks: HashMap::new(),
        outer: HashMap::new(),
    };
    for (&old, value) in kernel.block(kernel.body).args.iter().zip(params) {
        rewrite.forms[old.index()] = Some(Form::Uniform(value));
    }
    rewrite.prologue(threads);
    rewrite.body(kernel.body)?;
    let Rewrite { collective, masks, outer, .. } = rewrite;
    Ok(Lockstep { kernel: new, block, collective, space: LaneSpace::of(block, lanes), masks, outer })
}

/// Which values something reads.
fn used(kernel: &Kernel) -> Vec<bool> {
    let mut used = vec![false; kernel.counts().0];
    kernel.walk(|_, op| op.operands.iter().for_each(|value| used[value.index()] = true));
    used
}

/// Whether a thread does an operation for itself, so that no other lane's results are read.
/// Divisors of lanes that are not there are read: a zero among them would be a fault.
fn is_own(kind: &OpKind) -> bool {
    let divides = matches!(kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem));
    let elementwise = matches!(
        kind,
        OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
    );
    (elementwise && !divides) || matches!(kind, OpKind::Gather { .. } | OpKind::Scatter { .. })
}

/// How many lanes a block of `threads` gets: votes need whole warps.
fn lanes(kernel: &Kernel, threads: u32) -> u32 {
    let mut votes = false;
    kernel.walk(|_, op| votes |= matches!(op.kind, OpKind::Vote(_)));
    if votes && threads > WARP { threads.next_multiple_of(WARP) } else { threads }
}

/// The state of the rewrite.
pub(super) struct Rewrite<'a> {
    pub(super) old: &'a Kernel,
    /// Appends to the new kernel.
    pub(super) b: Builder<'a>,
    pub(super) uniformity: Uniformity,
    /// Values of the old kernel that something reads.
    pub(super) used: Vec<bool>,
    pub(super) block: [u32; 3],
    pub(super) lanes: u32,
    forms: Vec<Option<Form>>,
    /// The shapes of local arrays, without the lanes, by their new view.
    pub(super) locals: HashMap<Value, Shape>,
    /// Which lanes are there; none for all.
    pub(super) mask: Option<Value>,
    /// Operations that the block does as one.
    pub(super) collective: HashSet<Op>,
    /// As in [`Lockstep`].
    masks: HashMap<Op, Value>,
    /// As in [`Lockstep`].
    outer: HashMap<Value, Value>,
    /// The thread's index on each axis.
    indices: [Option<Value>; 3],
}

impl Rewrite<'_> {
    /// What the body may use everywhere: thread indices, and the mask of the lanes that are
    /// threads.
    fn prologue(&mut self, threads: u32) {
        for axis in [Axis::X, Axis::Y, Axis::Z] {
            let mut used = false;
            self.old.walk(|_, op| used |= op.kind == OpKind::ThreadId(axis));
            if used && self.block[axis as usize] > 1 {
                let index = self.thread_index(axis);
                self.indices[axis as usize] = Some(index);
            }
        }
        if self.lanes > threads {
            let (lane, threads) = (self.lane(), self.index_lanes(threads.into()));
            self.mask = Some(self.b.compare(kiln_ir::CompareOp::Lt, lane, threads));
        }
    }

    /// Rewrites a block's operations, and gives its terminator's operands.
    pub(super) fn body(&mut self, block: Block) -> Result<Vec<Value>> {
        for &op in &self.old.block(block).ops {
            let data = self.old.op(op);
            self.b.loc = data.loc;
            if data.kind.is_terminator() {
                return Ok(data.operands.to_vec());
            }
            let (first, mask) = (self.b.kernel.counts().1, self.mask);
            self.operation(op, data)?;
            if let Some(mask) = mask.filter(|_| is_own(&data.kind)) {
                self.note_mask(first, mask);
            }
        }
        Ok(Vec::new())
    }

    /// Remembers the mask of operations from one on. Masks themselves are made in all lanes: who
    /// reads them asks which lanes are there.
    fn note_mask(&mut self, first: usize, mask: Value) {
        for op in (first..self.b.kernel.counts().1).map(Op::from_index) {
            let results = &self.b.kernel.op(op).results;
            if !results.iter().any(|result| self.outer.contains_key(result)) {
                self.masks.insert(op, mask);
            }
        }
    }

    fn operation(&mut self, op: Op, data: &OpData) -> Result<()> {
        use OpKind::*;
        match &data.kind {
            ThreadId(axis) => {
                let form = match self.indices[*axis as usize] {
                    Some(lanes) => Form::Lanes(lanes),
                    None => Form::Uniform(self.b.index(0)),
                };
                self.forms[data.results[0].index()] = Some(form);
            }
            BlockDim(axis) => {
                let extent = self.b.index(self.block[*axis as usize].into());
                self.set_uniform(data.results[0], extent);
            }
            Barrier | WarpBarrier => {}
            Stride(axis) => self.stride(data, *axis)?,
            Alloc { .. } => self.alloc(data),
            Load(_) => self.load(data)?,
            Store { .. } => self.store(data)?,
            Gather { bounds, .. } => self.gather(op, data, *bounds)?,
            Scatter { bounds, .. } => self.scatter(op, data, *bounds)?,
            Atomic { .. } => self.atomic(data)?,
            AtomicCas { scope, bounds } => self.atomic_cas(data, *scope, *bounds)?,
            OrderedLoad { .. } | OrderedStore { .. } | LoadQuad(_) | StoreQuad(_) | Atomic128 { .. } => {
                self.ordered(data)?
            }
            BlockUniform => self.block_uniform(data)?,
            Clock(_) => self.clock(data)?,
            Sleep => self.sleep(data)?,
            Shuffle(mode) => self.shuffle(data, *mode)?,
            Vote(mode) => self.vote(data, *mode)?,
            If => self.branch(data)?,
            For => self.for_loop(data)?,
            While => self.while_loop(data)?,
            Assert(_) => self.assert(data)?,
            Print(message) => self.print(data, *message)?,
            Binary(BinaryOp::Div | BinaryOp::Rem) if self.mask.is_some() && !self.old.is_pure(op) => {
                self.masked_division(data)?;
            }
            Const(_)
            | Iota
            | ProgramId(_)
            | NumPrograms(_)
            | Unary(_)
            | Binary(_)
            | Compare(_)
            | Select
            | Fma
            | Cast
            | Bitcast
            | Broadcast
            | Reshape
            | Transpose(_)
            | Reduce { .. }
            | Scan { .. }
            | Dot(_)
            | Extent(_)
            | Fence(_)
            | GridBarrier
            | InlinePtx(_)
            | Cluster(_)
            | AsyncCopy(_)
            | Yield
            | Condition
            | FaultRegion
            | Explicit(_)
            | Fragment(_)
            | Address
            | Scratch { .. }
            | Linear { .. }
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
            | Faulted => self.plain(data)?,
        }
        Ok(())
    }

    /// An operation that is the same on lanes as on scalars.
    pub(super) fn plain(&mut self, data: &OpData) -> Result<()> {
        let varies = data.results.iter().any(|&r| self.uniformity.varies(r));
        if varies {
            let operands = self.all_lanes(&data.operands)?;
            let elem = self.old.ty(data.results[0]).elem();
            let result = self.one(data.kind.clone(), &operands, self.lanes_type(elem));
            self.set_lanes(data.results[0], result);
            return Ok(());
        }
        let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
        let types: Vec<Type> = data.results.iter().map(|&r| self.old.ty(r).clone()).collect();
        let op = self.b.op(data.kind.clone(), &operands, &types);
        self.note_collective(op);
        for (i, &result) in data.results.iter().enumerate() {
            let value = self.b.kernel.op(op).results[i];
            self.set_uniform(result, value);
        }
        Ok(())
    }

    /// An integer division where some lanes are not there: those must not fault.
    fn masked_division(&mut self, data: &OpData) -> Result<()> {
        let (a, b) = (data.left(), data.right());
        let elem = self.old.ty(b).elem();
        let one = self.b.splat(Literal::one(elem), self.shape());
        let divisor = self.lanes_of(b)?;
        let divisor = self.under_mask(divisor, one);
        let dividend = self.lanes_of(a)?;
        let ty = self.lanes_type(elem);
        let result = self.one(data.kind.clone(), &[dividend, divisor], ty);
        if self.uniformity.varies(data.results[0]) {
            self.set_lanes(data.results[0], result);
            return Ok(());
        }
        // The lanes have faulted if they should. Where none is there, the scalar must not.
        let (dividend, divisor) = (self.uniform(a)?, self.uniform(b)?);
        let one = self.b.constant(Literal::one(elem));
        let any = self.any_active();
        let divisor = self.b.select(any, divisor, one);
        let value = self.one(data.kind.clone(), &[dividend, divisor], Type::scalar(elem));
        self.set_uniform(data.results[0], value);
        Ok(())
    }

    fn assert(&mut self, data: &OpData) -> Result<()> {
        let condition = data.condition();
        let mut operands = Vec::new();
        if self.is_lanes(condition)? || (self.mask.is_some() && self.old.ty(condition).is_scalar()) {
            let yes = self.b.splat(Literal::bool(true), self.shape());
            let holds = self.lanes_of(condition)?;
            operands.push(self.under_mask(holds, yes));
        } else {
            operands.push(self.uniform(condition)?);
        }
        for &value in data.shown() {
            operands.push(self.either(value)?);
        }
        let op = self.b.op(data.kind.clone(), &operands, &[]);
        if !self.old.ty(condition).is_scalar() {
            self.collective.insert(op);
        }
        Ok(())
    }

    /// Remembers an operation of the old kernel that has been copied, if it is over tiles.
    pub(super) fn note_collective(&mut self, op: Op) {
        let data = self.b.kernel.op(op);
        let tile = |v: &Value| {
            let ty = self.b.kernel.ty(*v);
            ty.as_tile().is_some() && !ty.is_scalar()
        };
        if data.operands.iter().chain(&data.results).any(tile) {
            self.collective.insert(op);
        }
    }

    fn print(&mut self, data: &OpData, message: Message) -> Result<()> {
        let mut operands = vec![self.mask_or_all()];
        for &value in &data.operands {
            operands.push(self.either(value)?);
        }
        self.b.op(OpKind::Print(message), &operands, &[]);
        Ok(())
    }

    // ---- values

    /// The shape of a tile of lanes.
    pub(super) fn shape(&self) -> Shape {
        Shape::new(&[self.lanes])
    }

    pub(super) fn lanes_type(&self, elem: Scalar) -> Type {
        Type::tile(elem, self.shape())
    }

    /// The type of an old value in the new kernel, in the form that it will have.
    pub(super) fn new_type(&self, old: Value, lanes: bool) -> Type {
        let ty = self.old.ty(old);
        if lanes { self.lanes_type(ty.elem()) } else { ty.clone() }
    }

    fn form(&self, old: Value) -> Result<Form> {
        self.forms[old.index()].ok_or_else(|| self.internal("a value is used before it is made"))
    }

    pub(super) fn is_lanes(&self, old: Value) -> Result<bool> {
        self.form(old).map(|form| matches!(form, Form::Lanes(_)))
    }

    /// A value that is uniform.
    pub(super) fn uniform(&self, old: Value) -> Result<Value> {
        match self.form(old)? {
            Form::Uniform(value) => Ok(value),
            Form::Lanes(_) => Err(self.internal("a uniform value was expected")),
        }
    }

    /// A scalar as lanes.
    pub(super) fn lanes_of(&mut self, old: Value) -> Result<Value> {
        match self.form(old)? {
            Form::Lanes(value) => Ok(value),
            Form::Uniform(value) => Ok(self.b.broadcast(value, self.shape())),
        }
    }

    pub(super) fn all_lanes(&mut self, old: &[Value]) -> Result<Vec<Value>> {
        old.iter().map(|&v| self.lanes_of(v)).collect()
    }

    /// A value as it is.
    pub(super) fn either(&self, old: Value) -> Result<Value> {
        match self.form(old)? {
            Form::Uniform(value) | Form::Lanes(value) => Ok(value),
        }
    }

    /// A value in one form or the other.
    pub(super) fn in_form(&mut self, old: Value, lanes: bool) -> Result<Value> {
        if lanes { self.lanes_of(old) } else { self.uniform(old) }
    }

    pub(super) fn set_uniform(&mut self, old: Value, new: Value) {
        self.forms[old.index()] = Some(Form::Uniform(new));
    }

    pub(super) fn set_lanes(&mut self, old: Value, new: Value) {
        self.forms[old.index()] = Some(Form::Lanes(new));
    }

    pub(super) fn set_in_form(&mut self, old: Value, new: Value, lanes: bool) {
        self.forms[old.index()] = Some(if lanes { Form::Lanes(new) } else { Form::Uniform(new) });
    }

    /// Appends an operation with one result.
    pub(super) fn one(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.b.op(kind, operands, &[ty]);
        self.b.kernel.result(op)
    }

    // ---- masks

    /// The current mask and a condition.
    pub(super) fn narrowed(&mut self, condition: Value) -> Value {
        match self.mask {
            Some(mask) => {
                let inner = self.b.binary(BinaryOp::And, mask, condition);
                self.outer.insert(inner, mask);
                inner
            }
            None => condition,
        }
    }

    /// `lanes` where lanes are there, `otherwise` where not.
    pub(super) fn under_mask(&mut self, lanes: Value, otherwise: Value) -> Value {
        match self.mask {
            Some(mask) => self.b.select(mask, lanes, otherwise),
            None => lanes,
        }
    }

    pub(super) fn mask_or_all(&mut self) -> Value {
        self.mask.unwrap_or_else(|| self.b.splat(Literal::bool(true), Shape::new(&[self.lanes])))
    }

    /// Whether any lane is there, as a scalar.
    pub(super) fn any_active(&mut self) -> Value {
        match self.mask {
            Some(mask) => self.b.reduce(ReduceOp::Or, 0, mask),
            None => self.b.constant(Literal::bool(true)),
        }
    }

    /// The negation of a mask.
    pub(super) fn not(&mut self, mask: Value) -> Value {
        self.b.unary(UnaryOp::Not, mask)
    }

    // ---- errors

    pub(super) fn internal(&self, message: &str) -> Error {
        let message = format!("{message}, in `{}` at {}", self.old.name, self.old.describe(self.loc()));
        Error::Internal { place: "kiln-cpu lockstep", message }
    }

    pub(super) fn unsupported(&self, what: &str, hint: &str) -> Error {
        Error::Unsupported {
            kernel: self.old.name.clone(),
            what: what.into(),
            device: "cpu".into(),
            location: self.old.describe(self.loc()),
            hint: hint.into(),
        }
    }

    fn loc(&self) -> Loc {
        self.b.loc
    }
}

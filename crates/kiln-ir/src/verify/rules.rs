//! Rules of each operation: how many operands, results and regions it has, and their types.

use super::subject::{Outcome, Subject, require};
use super::{async_copy, cluster, explicit, fragment, linear, memory, ordered};
use crate::fragment::FragmentOp;
use crate::kernel::{Block, Kernel, Level, Op, Value};
use crate::op::*;
use crate::types::{Scalar, Shape, Space, Type};

/// The most elements a tile may have.
const MAX_ELEMENTS: u64 = 1 << 20;

/// Checks one operation whose entities exist.
pub(super) fn check(kernel: &Kernel, op: Op) -> Outcome {
    let subject = Subject { kernel, data: kernel.op(op) };
    subject.level()?;
    subject.extents()?;
    let regions = subject.data.kind.info().regions;
    if subject.data.regions.len() != regions {
        return Err(format!("has {} regions, expected {regions}", subject.data.regions.len()));
    }
    subject.types()
}

impl<'k> Subject<'k> {
    /// Operations that only one level has.
    fn level(&self) -> Outcome {
        let kind = &self.data.kind;
        let threads = match kind.info().availability {
            Availability::Threads | Availability::Lowered => true,
            Availability::Anywhere => false,
        };
        if threads && matches!(self.kernel.level, Level::Tile { .. }) {
            return Err("only kernels over threads have this operation".into());
        }
        let of_warps = matches!(kind, OpKind::Explicit(_) | OpKind::Fragment(FragmentOp::WarpgroupMma(_)));
        if let (true, Level::Thread { block }) = (of_warps, self.kernel.level) {
            let threads: u32 = block.iter().product();
            require(threads.is_multiple_of(32), || {
                format!("a block of {threads} threads has this operation, expected a multiple of 32")
            })?;
        }
        Ok(())
    }

    /// Extents are positive, tiles not too large.
    fn extents(&self) -> Outcome {
        let args = self.data.regions.iter().flat_map(|&r| &self.kernel.block(r).args);
        // Operands too, so that no rule multiplies extents that overflow.
        for &value in self.data.results.iter().chain(&self.data.operands).chain(args) {
            if let Some(tile) = self.kernel.ty(value).as_tile() {
                self.size(&tile.shape)?;
            }
        }
        Ok(())
    }

    pub(super) fn size(&self, shape: &Shape) -> Outcome {
        let elements = shape.extents().iter().try_fold(1u64, |n, &e| n.checked_mul(u64::from(e)));
        match elements {
            Some(1..=MAX_ELEMENTS) => Ok(()),
            _ => Err(format!("a tile of {shape}, expected 1 to {MAX_ELEMENTS} elements")),
        }
    }

    fn types(&self) -> Outcome {
        use OpKind::*;
        if !matches!(self.data.kind, Explicit(_)) {
            explicit::foreign_use(self)?;
        }
        match &self.data.kind {
            Fragment(op) => fragment::check(self, *op),
            Const(literal) => self.counts(0, 1)?.result_elem(literal.elem()),
            Iota => {
                let tile = self.counts(0, 1)?.result_tile(0)?;
                require(tile.elem.is_int() && tile.shape.rank() == 1, || {
                    format!("the result is {}, expected an integer tile of rank 1", self.result_ty(0))
                })
            }
            ProgramId(_) | NumPrograms(_) | ThreadId(_) | BlockDim(_) => {
                self.counts(0, 1)?.result(0, &Type::scalar(Scalar::I64))
            }
            Unary(op) => self.unary(*op),
            Binary(op) => {
                let tile = self.counts(2, 1)?.tile(0)?;
                self.class(op.info().class, tile.elem)?;
                self.all_operands_like(0)?.result(0, self.ty(0))
            }
            Compare(op) => {
                let tile = self.counts(2, 1)?.tile(0)?;
                if tile.elem != Scalar::Bool || !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                    self.class(Class::Number, tile.elem)?;
                }
                self.all_operands_like(0)?.result(0, &Type::tile(Scalar::Bool, tile.shape.clone()))
            }
            Select => {
                let tile = self.counts(3, 1)?.tile(1)?;
                self.operand(0, &Type::tile(Scalar::Bool, tile.shape.clone()))?;
                self.operand(2, self.ty(1))?.result(0, self.ty(1))
            }
            Fma => {
                let tile = self.counts(3, 1)?.tile(0)?;
                self.class(Class::Number, tile.elem)?;
                self.all_operands_like(0)?.result(0, self.ty(0))
            }
            Cast | Bitcast => self.cast(),
            Broadcast => self.broadcast(),
            Reshape => {
                let (from, to) = (self.counts(1, 1)?.tile(0)?, self.result_tile(0)?);
                self.result_elem(from.elem)?;
                require(from.shape.len() == to.shape.len(), || {
                    format!("{} elements become {}", from.shape.len(), to.shape.len())
                })
            }
            Transpose(perm) => self.transpose(perm),
            Reduce { op, axis } => self.reduce(*op, *axis),
            Scan { op, axis, .. } => {
                let tile = self.counts(1, 1)?.tile(0)?;
                require(!op.gives_index(), || "a scan does not give indices".into())?;
                self.class(op.class(), tile.elem)?;
                self.axis(*axis, tile.shape.rank())?;
                self.result(0, self.ty(0))
            }
            Dot(precision) => self.dot(*precision),
            Shuffle(_) => {
                self.counts(2, 1)?.scalar(0)?;
                self.operand(1, &Type::scalar(Scalar::I64))?.result(0, self.ty(0))
            }
            Vote(mode) => {
                let elem = if *mode == VoteMode::Ballot { Scalar::U32 } else { Scalar::Bool };
                self.counts(1, 1)?.operand(0, &Type::scalar(Scalar::Bool))?;
                self.result(0, &Type::scalar(elem))
            }
            BlockUniform => {
                self.counts(1, 1)?.scalar(0)?;
                self.result(0, self.ty(0))
            }
            Clock(_) => self.counts(0, 1)?.result(0, &Type::scalar(Scalar::U64)),
            InlinePtx(text) => self.inline_ptx(*text),
            Sleep | WarpBarrier => self.counts(1, 0)?.operand(0, &Type::scalar(Scalar::U32)).map(|_| ()),
            Fence(_) | Barrier => self.counts(0, 0).map(|_| ()),
            GridBarrier => {
                require(self.kernel.cluster == 1, || "a grid barrier in a kernel of clusters".into())?;
                self.counts(0, 0).map(|_| ())
            }
            Cluster(op) => cluster::check(self, *op),
            AsyncCopy(op) => async_copy::check(self, *op),
            If => self.if_(),
            For => self.for_(),
            While => self.while_(),
            FaultRegion => self.fault_region(),
            Yield => self.results_len(0),
            Condition => {
                self.counts(1, 0)?.operand(0, &Type::scalar(Scalar::Bool))?;
                Ok(())
            }
            Assert(message)
            | BlockCheck(Check::Assert(message))
            | DeferFault { check: Check::Assert(message), .. } => {
                let tile = self.tile(0)?;
                self.class(Class::Bool, tile.elem)?;
                self.message(*message, 1)
            }
            Print(message) => self.message(*message, 0),
            Faulted => self.counts(0, 1)?.result(0, &Type::scalar(Scalar::Bool)),
            CheckBounds | BlockCheck(Check::Bounds) | DeferFault { check: Check::Bounds, .. } => {
                let index = Type::scalar(Scalar::I64);
                self.counts(3, 0)?.operand(0, &Type::scalar(Scalar::Bool))?;
                self.operand(1, &index)?.operand(2, &index).map(|_| ())
            }
            CheckDivisor | BlockCheck(Check::Divisor) | DeferFault { check: Check::Divisor, .. } => {
                self.counts(1, 0)?.operand(0, &Type::scalar(Scalar::Bool))?;
                Ok(())
            }
            Extent(axis) | Stride(axis) => memory::extent(self, *axis),
            Alloc { space, elem, shape } => memory::alloc(self, *space, *elem, shape),
            Load(_) => memory::load(self),
            Store { .. } => memory::store(self),
            Gather { masked, .. } => memory::gather(self, *masked),
            Scatter { masked, asynchronous, .. } => memory::scatter(self, *masked, *asynchronous),
            Atomic { op, masked, .. } => memory::atomic(self, *op, *masked),
            AtomicCas { .. } => memory::atomic_cas(self),
            Address => memory::address(self),
            Scratch { offset } => memory::scratch(self, *offset),
            Linear { op, predicated } => linear::check(self, *op, *predicated),
            PtrLoad { lanes, predicated, .. } => memory::ptr_load(self, *lanes, *predicated),
            PtrStore { lanes, predicated, .. } => memory::ptr_store(self, *lanes, *predicated),
            PtrAtomic { op, predicated, .. } => memory::ptr_atomic(self, *op, *predicated),
            PtrAtomicCas { predicated, .. } => memory::ptr_atomic_cas(self, *predicated),
            OrderedLoad { order, .. } => ordered::load(self, *order),
            OrderedStore { order, .. } => ordered::store(self, *order),
            LoadQuad(bounds) => ordered::load_quad(self, *bounds),
            StoreQuad(bounds) => ordered::store_quad(self, *bounds),
            Atomic128 { op, .. } => ordered::atomic_128(self, *op),
            PtrAtomic128 { op, .. } => ordered::ptr_atomic_128(self, *op),
            PtrOrderedLoad { lanes, order, predicated, .. } => {
                ordered::ptr_load(self, *lanes, *order, *predicated)
            }
            PtrOrderedStore { lanes, order, predicated, .. } => {
                ordered::ptr_store(self, *lanes, *order, *predicated)
            }
            Explicit(op) => explicit::check(self, op),
        }
    }

    fn unary(&self, op: UnaryOp) -> Outcome {
        let tile = self.counts(1, 1)?.tile(0)?;
        self.class(op.info().class, tile.elem)?;
        self.result(0, &Type::tile(op.result(tile.elem), tile.shape.clone()))
    }

    fn cast(&self) -> Outcome {
        let (from, to) = (self.counts(1, 1)?.tile(0)?, self.result_tile(0)?);
        require(from.elem != to.elem, || format!("converts {} to itself", from.elem))?;
        if self.data.kind == OpKind::Bitcast {
            let same = from.elem.bytes() == to.elem.bytes();
            require(same, || format!("{} and {} differ in size", from.elem, to.elem))?;
            let bits = from.elem != Scalar::Bool && to.elem != Scalar::Bool;
            require(bits, || format!("{} as {}: a bool has no bits to reinterpret", from.elem, to.elem))?;
        }
        self.result(0, &Type::tile(to.elem, from.shape.clone()))
    }

    fn broadcast(&self) -> Outcome {
        let (from, to) = (self.counts(1, 1)?.tile(0)?, self.result_tile(0)?);
        self.result_elem(from.elem)?;
        let pairs = from.shape.extents().iter().zip(to.shape.extents());
        let stretches =
            from.shape.rank() == to.shape.rank() && pairs.into_iter().all(|(a, b)| a == b || *a == 1);
        require(from.shape.rank() == 0 || stretches, || {
            format!("{} does not stretch to {}", from.shape, to.shape)
        })
    }

    fn transpose(&self, perm: &Shape) -> Outcome {
        let tile = self.counts(1, 1)?.tile(0)?;
        let mut axes = perm.extents().to_vec();
        axes.sort_unstable();
        let permutes = axes.into_iter().eq(0..tile.shape.rank() as u32);
        require(permutes, || format!("{perm} is not a permutation of {} axes", tile.shape.rank()))?;
        let extents: Vec<u32> = perm.extents().iter().map(|&p| tile.shape[p as usize]).collect();
        self.result(0, &Type::tile(tile.elem, Shape::new(&extents)))
    }

    fn reduce(&self, op: ReduceOp, axis: u32) -> Outcome {
        let tile = self.counts(1, 1)?.tile(0)?;
        self.class(op.class(), tile.elem)?;
        self.axis(axis, tile.shape.rank())?;
        let elem = if op.gives_index() { Scalar::I64 } else { tile.elem };
        self.result(0, &Type::tile(elem, tile.shape.without(axis as usize)))
    }

    fn dot(&self, precision: Precision) -> Outcome {
        let (a, b, acc) = (self.counts(3, 1)?.tile(0)?, self.tile(1)?, self.tile(2)?);
        let both = |is: fn(Scalar) -> bool| is(a.elem) && is(b.elem);
        let mixed = both(Scalar::is_float8) || both(|elem| matches!(elem, Scalar::I8 | Scalar::U8));
        require(mixed || !a.elem.is_storage(), || format!("multiplies {} by {}", a.elem, b.elem))?;
        if !mixed {
            self.class(Class::Number, a.elem)?;
        }
        let concerned = match precision {
            Precision::Full => true,
            Precision::Tf32 | Precision::Tf32x3 => a.elem == Scalar::F32,
            Precision::FastSums => a.elem.is_float8(),
        };
        require(concerned, || format!("a product of {} has no precision `{}`", a.elem, precision.name()))?;
        let ranks = [a, b, acc].iter().all(|t| t.shape.rank() == 2);
        require(ranks, || "operands of `dot` have rank 2".into())?;
        let (m, k, n) = (a.shape[0], a.shape[1], b.shape[1]);
        let right = if mixed { b.elem } else { a.elem };
        self.operand(1, &Type::tile(right, Shape::new(&[k, n])))?;
        self.operand(2, &Type::tile(a.elem.accumulator(), Shape::new(&[m, n])))?.result(0, self.ty(2))
    }

    fn if_(&self) -> Outcome {
        require(self.data.operands.len() == 1, || "has one condition".into())?;
        self.operand(0, &Type::scalar(Scalar::Bool))?;
        self.flows(&self.data.results)?;
        for (at, &region) in self.data.regions.iter().enumerate() {
            self.arguments(at, region, &[])?;
            self.yields(at, region, &self.data.results)?;
        }
        Ok(())
    }

    fn for_(&self) -> Outcome {
        let bound = self.scalar(0)?;
        self.class_of_words(Class::Integer, bound)?;
        self.operand(1, self.ty(0))?.operand(2, self.ty(0))?;
        let inits = self.data.inits();
        self.flows(inits)?;
        let region = self.data.regions[0];
        let mut args = vec![self.data.for_bounds()[0]];
        args.extend_from_slice(inits);
        self.arguments(0, region, &args)?;
        self.carried(inits)?;
        self.yields(0, region, inits)
    }

    fn while_(&self) -> Outcome {
        let inits = self.data.inits();
        self.flows(inits)?;
        self.arguments(0, self.data.regions[0], inits)?;
        self.arguments(1, self.data.regions[1], inits)?;
        self.carried(inits)?;
        self.yields(1, self.data.regions[1], inits)
    }

    fn fault_region(&self) -> Outcome {
        self.operand(0, &Type::scalar(Scalar::U32))?;
        if let Some(record) = self.kernel.fault_record(self.data) {
            self.fault_record(record)?;
        }
        let fallbacks = self.kernel.fault_fallbacks(self.data);
        self.flows(fallbacks)?;
        self.results_len(1 + fallbacks.len())?;
        self.result(0, &Type::scalar(Scalar::U32))?;
        fallbacks.iter().enumerate().try_for_each(|(i, &v)| self.result(1 + i, self.kernel.ty(v)))?;
        self.arguments(0, self.data.regions[0], &[])?;
        self.yields(0, self.data.regions[0], fallbacks)
    }

    fn fault_record(&self, record: Value) -> Outcome {
        let (ty, expected) = (self.kernel.ty(record), Type::view(Scalar::U64, 1, Space::Local));
        if *ty == expected { Ok(()) } else { Err(format!("the record is a {ty}, expected {expected}")) }
    }

    /// Results of a loop are of the types of what it carries.
    fn carried(&self, inits: &[Value]) -> Outcome {
        self.results_len(inits.len())?;
        inits.iter().enumerate().try_for_each(|(i, &init)| self.result(i, self.kernel.ty(init)))
    }

    /// Views stay out of control flow.
    fn flows(&self, values: &[Value]) -> Outcome {
        match values.iter().find(|&&v| self.kernel.ty(v).as_tile().is_none()) {
            Some(&v) => Err(format!("a {} flows through control flow", self.kernel.ty(v))),
            None => Ok(()),
        }
    }

    /// The region's arguments have the types of these values.
    fn arguments(&self, at: usize, region: Block, like: &[Value]) -> Outcome {
        let args = &self.kernel.block(region).args;
        let same = args.len() == like.len()
            && args.iter().zip(like).all(|(&a, &b)| self.kernel.ty(a) == self.kernel.ty(b));
        require(same, || {
            let (have, want) = (self.list(args), self.list(like));
            format!("region {at} takes ({have}), expected ({want})")
        })
    }

    /// The region yields the types of these values.
    fn yields(&self, at: usize, region: Block, like: &[Value]) -> Outcome {
        let Some(&last) = self.kernel.block(region).ops.last() else { return Ok(()) };
        let last = self.kernel.op(last);
        if last.kind != OpKind::Yield {
            return Ok(()); // the structural check says so
        }
        let (have, want) = (self.list(&last.operands), self.list(like));
        require(have == want, || format!("region {at} yields ({have}), expected ({want})"))
    }

    fn list(&self, values: &[Value]) -> String {
        let types: Vec<String> = values.iter().map(|&v| self.kernel.ty(v).to_string()).collect();
        types.join(", ")
    }

    /// The message exists and the scalars from `first` on fill its placeholders.
    fn inline_ptx(&self, text: Message) -> Outcome {
        require(self.data.results.len() <= 1, || "has more than one result".into())?;
        let text = self.kernel.messages.get(text.0 as usize).ok_or("its text does not exist")?;
        let mut elems = Vec::new();
        for &result in &self.data.results {
            require(self.kernel.ty(result).is_scalar(), || "its result is no scalar".into())?;
            elems.push(self.kernel.ty(result).elem());
        }
        for i in 0..self.data.operands.len() {
            elems.push(self.scalar(i)?);
        }
        crate::inline_ptx::check_ptx(text, &elems, !self.data.results.is_empty())
    }

    fn message(&self, message: Message, first: usize) -> Outcome {
        self.results_len(0)?;
        let text = self.kernel.messages.get(message.0 as usize);
        let holes = text.ok_or("its message does not exist")?.matches("{}").count();
        let values = self.data.operands.len() - first;
        require(holes == values, || format!("the message has {holes} `{{}}` and {values} values"))?;
        (first..first + values).try_for_each(|i| self.scalar(i).map(|_| ()))
    }
}

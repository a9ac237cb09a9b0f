//! Structured control flow as labels and branches.

use super::register::{Class, Reg, suffix};
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{BinaryOp, Block, Kernel, Op, OpData, OpKind, Value};

/// Whether a loop begins below its end for certain: it ends at the larger of something and a larger
/// constant, or what is more than its beginning.
fn has_a_round(kernel: &Kernel, op: &OpData) -> bool {
    let [low, high, _] = op.for_bounds();
    let more = |v: Value| is_more(kernel, v, low);
    let larger = kernel.defining_op(high).filter(|data| data.kind == OpKind::Binary(BinaryOp::Max));
    if larger.is_some_and(|data| more(data.left()) || more(data.right())) {
        return true;
    }
    let known = |value| kernel.as_const(value).map(|l| l.as_i128());
    let Some(first) = known(low) else { return false };
    let above = |value| known(value).is_some_and(|number| number > first);
    larger.map_or_else(|| above(high), |data| above(data.left()) || above(data.right()))
}

/// Whether a value is another one plus 1.
fn is_more(kernel: &Kernel, value: Value, than: Value) -> bool {
    let sum = kernel.defining_op(value).filter(|data| data.kind == OpKind::Binary(BinaryOp::Add));
    let is_one = |value| kernel.as_const(value).is_some_and(|l| l.as_i128() == 1);
    sum.is_some_and(|data| data.left() == than && is_one(data.right()))
}

impl Writer<'_> {
    /// Emits a block up to its terminator and gives the terminator's operands.
    pub(super) fn region(&mut self, block: Block) -> Result<Vec<Reg>> {
        let kernel = self.kernel;
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            if data.kind.is_terminator() {
                return self.operands(data);
            }
            self.op(op)?;
        }
        Err(broken(format!("{block} has no terminator")))
    }

    /// Moves values into registers that may be among the sources, as loop-carried values can swap.
    fn parallel_moves(&mut self, to: &[Reg], from: &[Reg]) {
        let overwritten = |i: usize| to[..i].contains(&from[i]);
        let staged: Vec<Reg> = (0..to.len())
            .map(|i| match overwritten(i) {
                true => {
                    let copy = self.reg(from[i].class);
                    self.mov(copy, from[i]);
                    copy
                }
                false => from[i],
            })
            .collect();
        for (&t, &f) in to.iter().zip(&staged) {
            self.mov(t, f);
        }
    }

    /// A region, and its values in the registers of what they become.
    fn hand_on(&mut self, region: Block, to: &[Reg]) -> Result<()> {
        let yields = self.region(region)?;
        let kernel = self.kernel;
        let values = kernel.block(region).ops.last().map_or(&[][..], |&op| &kernel.op(op).operands);
        self.settle(values, &yields, to);
        self.parallel_moves(to, &yields);
        Ok(())
    }

    fn copies(&mut self, targets: &[Value], values: &[Value], sources: &[Reg]) -> Vec<Reg> {
        let regs: Vec<Reg> = targets.iter().map(|&v| self.define(v)).collect();
        self.settle(values, sources, &regs);
        for (&to, &from) in regs.iter().zip(sources) {
            self.mov(to, from);
        }
        regs
    }

    pub(super) fn if_(&mut self, op: &OpData) -> Result<()> {
        let cond = self.get(op.condition())?;
        let cond = self.voted(op, cond);
        let results: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
        let (otherwise, end) = (self.label(), self.label());
        self.put(format_args!("@!{cond} bra {otherwise}"));
        self.hand_on(op.regions[0], &results)?;
        self.converge(op.regions[0]);
        self.put(format_args!("bra {end}"));
        self.place(otherwise);
        self.hand_on(op.regions[1], &results)?;
        self.converge(op.regions[1]);
        self.place(end);
        Ok(())
    }

    /// Counts down what is left of the range, so that the last step cannot overflow.
    pub(super) fn for_(&mut self, op: &OpData) -> Result<()> {
        let kernel = self.kernel;
        let [lo, hi, step] = op.for_bounds();
        let (lo, hi, step) = (self.get(lo)?, self.get(hi)?, self.get(step)?);
        let inits = op.inits().iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        let t = suffix(self.elem(op.for_bounds()[0]));
        let unsigned = if lo.class == Class::B64 { "u64" } else { "u32" };
        let carried = self.copies(&op.results, op.inits(), &inits);

        let args = &kernel.block(op.regions[0]).args;
        let iv = self.define(args[0]);
        for (&arg, &reg) in args[1..].iter().zip(&carried) {
            self.bind(arg, reg);
        }
        let left = self.reg(lo.class);
        let done = self.reg(Class::Pred);
        let (top, end) = (self.label(), self.label());
        // Around a loop that may be empty the assembler takes accumulators that products fill
        // within it for read while they are in flight (C7514).
        if !has_a_round(kernel, op) {
            self.put(format_args!("setp.ge.{t} {done}, {lo}, {hi}"));
            self.put(format_args!("@{done} bra {end}"));
        }
        if kernel.as_const(op.for_bounds()[2]).is_none_or(|l| l.as_i128() <= 0) {
            self.put(format_args!("setp.le.{t} {done}, {step}, 0"));
            self.put(format_args!("@{done} bra {end}"));
        }
        self.mov(iv, lo);
        self.put(format_args!("sub.{unsigned} {left}, {hi}, {lo}"));
        self.place(top);
        self.begin_loop();
        self.hand_on(op.regions[0], &carried)?;
        self.end_loop();
        self.put(format_args!("add.{t} {iv}, {iv}, {step}"));
        self.put(format_args!("setp.gt.{unsigned} {done}, {left}, {step}"));
        self.put(format_args!("sub.{unsigned} {left}, {left}, {step}"));
        self.put(format_args!("@{done} bra {top}"));
        self.place(end);
        Ok(())
    }

    pub(super) fn while_(&mut self, op: &OpData) -> Result<()> {
        let kernel = self.kernel;
        let inits = self.operands(op)?;
        let carried = self.copies(&op.results, &op.operands, &inits);
        for &region in &op.regions {
            for (&arg, &reg) in kernel.block(region).args.iter().zip(&carried) {
                self.bind(arg, reg);
            }
        }
        let (top, end) = (self.label(), self.label());
        self.place(top);
        let unaligned = usize::from(!self.keeps_aligned(op));
        self.while_loops += unaligned;
        self.begin_loop();
        let cond = self.region(op.regions[0])?;
        self.put(format_args!("@!{} bra {end}", cond[0]));
        self.hand_on(op.regions[1], &carried)?;
        self.end_loop();
        self.while_loops -= unaligned;
        self.converge(op.regions[1]);
        self.put(format_args!("bra {top}"));
        self.place(end);
        Ok(())
    }

    /// Emits one operation, and makes lanes meet behind it where it parted them.
    pub(super) fn op(&mut self, op: Op) -> Result<()> {
        self.instructions(self.kernel.op(op))?;
        self.meet_behind(op);
        Ok(())
    }

    fn instructions(&mut self, op: &OpData) -> Result<()> {
        match &op.kind {
            OpKind::Const(literal) => self.constant(op, *literal),
            OpKind::ProgramId(a) => self.index(op, "ctaid", *a),
            OpKind::NumPrograms(a) => self.index(op, "nctaid", *a),
            OpKind::ThreadId(a) => self.index(op, "tid", *a),
            OpKind::BlockDim(a) => self.index(op, "ntid", *a),
            OpKind::Unary(u) => self.unary(op, *u)?,
            OpKind::Binary(b) => self.binary(op, *b)?,
            OpKind::Compare(c) => self.compare(op, *c)?,
            OpKind::Select => self.select(op)?,
            OpKind::Fma => self.fma(op)?,
            OpKind::Cast => self.cast(op)?,
            OpKind::Bitcast => self.bitcast(op)?,
            OpKind::Extent(axis) => self.view_word(op, |_| 1 + *axis as usize)?,
            OpKind::Stride(axis) => self.view_word(op, |rank| 1 + rank + *axis as usize)?,
            OpKind::Address => self.address(op)?,
            OpKind::Scratch { offset } => self.scratch(op, *offset),
            OpKind::Alloc { .. } => {}
            OpKind::PtrLoad { space, lanes, reuse, .. } => self.load(op, *space, *lanes, *reuse)?,
            OpKind::PtrStore { space, lanes, reuse, .. } => self.store(op, *space, *lanes, *reuse)?,
            OpKind::PtrAtomic { space, op: atomic, scope, .. } => self.atomic(op, *space, *atomic, *scope)?,
            OpKind::PtrAtomicCas { space, scope, .. } => self.atomic_cas(op, *space, *scope)?,
            OpKind::PtrOrderedLoad { space, lanes, order, scope, .. } => {
                self.ordered_load(op, *space, *lanes, (*order, *scope))?
            }
            OpKind::PtrOrderedStore { space, lanes, order, scope, .. } => {
                self.ordered_store(op, *space, *lanes, (*order, *scope))?
            }
            OpKind::PtrAtomic128 { op: atomic, space, scope } => {
                self.atomic_128(op, *atomic, *space, *scope)?
            }
            OpKind::Barrier => self.team_barrier(),
            OpKind::WarpBarrier => self.warp_barrier(op)?,
            OpKind::GridBarrier => self.grid_barrier(),
            OpKind::Fence(scope) => self.fence(*scope),
            OpKind::Shuffle(mode) => self.shuffle(op, *mode)?,
            OpKind::Vote(mode) => self.vote(op, *mode)?,
            OpKind::Clock(unit) => self.clock(op, *unit),
            OpKind::InlinePtx(text) => self.inline(op, *text)?,
            OpKind::Sleep => self.sleep(op)?,
            OpKind::If => self.if_(op)?,
            OpKind::For => self.for_(op)?,
            OpKind::While => self.while_(op)?,
            OpKind::Assert(message) => self.assert(op, *message)?,
            OpKind::Print(message) => self.print(op, *message)?,
            OpKind::CheckBounds => self.check_bounds(op)?,
            OpKind::CheckDivisor => self.check_divisor(op)?,
            OpKind::BlockCheck(check) => self.block_check(op, *check)?,
            OpKind::DeferFault { check, together } => self.defer_fault(op, *check, *together)?,
            OpKind::Faulted => self.has_faulted(op),
            OpKind::Fragment(fragment) => self.fragment(op, *fragment)?,
            OpKind::AsyncCopy(copy) => self.async_copy(op, *copy)?,
            OpKind::Cluster(cluster) => self.cluster(op, *cluster)?,
            OpKind::Explicit(explicit) => self.explicit(op, explicit)?,
            // Lowered before, or at the end of a region, which `region` reads.
            OpKind::Iota
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Reduce { .. }
            | OpKind::Scan { .. }
            | OpKind::Dot(_)
            | OpKind::Load(_)
            | OpKind::Store { .. }
            | OpKind::Gather { .. }
            | OpKind::Scatter { .. }
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. }
            | OpKind::LoadQuad(_)
            | OpKind::StoreQuad(_)
            | OpKind::Atomic128 { .. }
            | OpKind::BlockUniform
            | OpKind::FaultRegion
            | OpKind::Linear { .. }
            | OpKind::Yield
            | OpKind::Condition => {
                let (name, place) = (op.kind.mnemonic(), self.kernel.describe(op.loc));
                return Err(broken(format!("`{name}` ({place}) was not lowered to threads")));
            }
        }
        Ok(())
    }
}

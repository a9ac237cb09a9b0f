//! Uniformity: which values are the same in every thread of a block, and which operations all threads reach together.

use crate::kernel::{Block, Kernel, Level, Op, OpData, Value};
use crate::op::OpKind;
use crate::types::Space;

/// What varies between the threads of a block.
///
/// A value varies if it is computed from a thread's index, another lane, an atomic or local memory, if it is loaded from a
/// place that varies, or if it leaves an `if` or a loop whose control varies. Values of rank above 0 never do: threads share
/// them. A load from a uniform place of memory that threads share is taken as uniform, since a kernel in which it is not
/// has a data race. In kernels over tiles nothing varies.
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("k", Level::Thread { block: [64, 1, 1] });
/// let mut b = Builder::new(&mut kernel);
/// let tid = b.thread_id(Axis::X);
/// let pid = b.program_id(Axis::X);
/// let sum = b.binary(BinaryOp::Add, tid, pid);
/// let uniformity = Uniformity::of(&kernel);
/// assert!(uniformity.varies(sum) && !uniformity.varies(pid));
/// ```
#[derive(Clone, Debug)]
pub struct Uniformity {
    /// By value.
    varying: Vec<bool>,
    /// By operation: whether only some threads may reach it.
    divergent: Vec<bool>,
}

impl Uniformity {
    /// Analyses a kernel that is well-formed in every other respect.
    pub fn of(kernel: &Kernel) -> Uniformity {
        let (values, ops, _) = kernel.counts();
        let mut uniformity = Uniformity { varying: vec![false; values], divergent: vec![false; ops] };
        if let Level::Thread { block } = kernel.level {
            // Facts only ever turn from uniform to varying, so this ends.
            while uniformity.block(kernel, block, kernel.body, false) {}
        }
        uniformity
    }

    /// Whether threads of a block may see different values.
    pub fn varies(&self, value: Value) -> bool {
        self.varying[value.index()]
    }

    /// Whether some threads of a block may reach an operation while others do not.
    pub fn diverges(&self, op: Op) -> bool {
        self.divergent[op.index()]
    }

    /// Whether an operation over tiles, or a barrier, is reached by all threads together and with the same scalars.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, kernel: &Kernel, op: Op) -> Result<(), String> {
        let data = kernel.op(op);
        if data.kind == OpKind::Barrier {
            return match self.diverges(op) {
                true => Err("a barrier that only some threads of the block may reach".into()),
                false => Ok(()),
            };
        }
        let is_tile = |v: &Value| kernel.ty(*v).as_tile().is_some_and(|t| t.shape.rank() > 0);
        if data.kind.is_terminator() || !data.operands.iter().chain(&data.results).any(is_tile) {
            return Ok(());
        }
        if self.diverges(op) {
            return Err("a tile operation that only some threads of the block may reach".into());
        }
        let control = match data.kind {
            OpKind::If => 1,
            OpKind::For => 3,
            OpKind::While => 0,
            _ => data.operands.len(),
        };
        if let Some(at) = data.operands[..control].iter().position(|&v| self.varies(v)) {
            return Err(format!("operand {at} of a tile operation varies between threads"));
        }
        if data.kind == OpKind::While && self.loop_diverges(kernel, data) {
            return Err("a loop over tiles whose condition varies between threads".into());
        }
        Ok(())
    }

    /// One pass over a block; whether anything changed.
    fn block(&mut self, kernel: &Kernel, extents: [u32; 3], block: Block, divergent: bool) -> bool {
        let mut changed = false;
        for &op in &kernel.block(block).ops {
            changed |= divergent && !std::mem::replace(&mut self.divergent[op.index()], true);
            let data = kernel.op(op);
            changed |= match data.kind {
                OpKind::If => self.branch(kernel, extents, data, divergent),
                OpKind::For | OpKind::While => self.repeat(kernel, extents, data, divergent),
                _ => {
                    let varies = self.computes_varying(kernel, extents, data);
                    varies && self.mark(kernel, &data.results)
                }
            };
        }
        changed
    }

    fn branch(&mut self, kernel: &Kernel, extents: [u32; 3], data: &OpData, divergent: bool) -> bool {
        let splits = self.varies(data.operands[0]);
        let mut changed = false;
        for &region in &data.regions {
            changed |= self.block(kernel, extents, region, divergent || splits);
            changed |= self.flow(kernel, yields(kernel, region), &data.results);
        }
        changed | (splits && self.mark(kernel, &data.results))
    }

    fn repeat(&mut self, kernel: &Kernel, extents: [u32; 3], data: &OpData, divergent: bool) -> bool {
        // `for` has the loop variable before what it carries, and its bounds before the initial values.
        let (first_arg, first_init) = if data.kind == OpKind::For { (1, 3) } else { (0, 0) };
        let splits = self.loop_diverges(kernel, data);
        let inits = &data.operands[first_init..];
        let mut changed = splits && self.mark(kernel, &data.results);
        for &region in &data.regions {
            let args = &kernel.block(region).args;
            changed |= splits && self.mark(kernel, args);
            changed |= self.flow(kernel, inits, &args[first_arg..]);
            changed |= self.block(kernel, extents, region, divergent || splits);
        }
        let last = data.regions[data.regions.len() - 1];
        let next = yields(kernel, last);
        changed |= self.flow(kernel, inits, &data.results) | self.flow(kernel, next, &data.results);
        for &region in &data.regions {
            changed |= self.flow(kernel, next, &kernel.block(region).args[first_arg..]);
        }
        changed
    }

    /// Whether threads may run a loop a different number of times.
    fn loop_diverges(&self, kernel: &Kernel, data: &OpData) -> bool {
        match data.kind {
            OpKind::For => data.operands[..3].iter().any(|&v| self.varies(v)),
            _ => yields(kernel, data.regions[0]).iter().any(|&v| self.varies(v)),
        }
    }

    fn computes_varying(&self, kernel: &Kernel, extents: [u32; 3], data: &OpData) -> bool {
        let many = extents != [1, 1, 1];
        let local = match &data.kind {
            OpKind::Load(_) | OpKind::Gather { .. } => {
                kernel.ty(data.operands[0]).as_view().is_some_and(|v| v.space == Space::Local)
            }
            OpKind::PtrLoad { space, .. } => *space == Space::Local,
            _ => false,
        };
        match &data.kind {
            OpKind::ThreadId(axis) => extents[*axis as usize] > 1,
            // Lane by lane, or one thread after another.
            OpKind::Shuffle(_)
            | OpKind::Vote(_)
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::LoadQuad(_)
            | OpKind::PtrOrderedLoad { .. } => many,
            _ => (local && many) || data.operands.iter().any(|&v| self.varies(v)),
        }
    }

    fn flow(&mut self, kernel: &Kernel, from: &[Value], to: &[Value]) -> bool {
        let mut changed = false;
        for (&from, &to) in from.iter().zip(to) {
            changed |= self.varies(from) && self.mark(kernel, &[to]);
        }
        changed
    }

    /// Marks scalars as varying; whether any was not.
    fn mark(&mut self, kernel: &Kernel, values: &[Value]) -> bool {
        let mut changed = false;
        for &value in values.iter().filter(|&&v| kernel.ty(v).is_scalar()) {
            changed |= !std::mem::replace(&mut self.varying[value.index()], true);
        }
        changed
    }
}

/// What the terminator of a region hands on.
fn yields(kernel: &Kernel, region: Block) -> &[Value] {
    kernel.block(region).ops.last().map_or(&[], |&op| &kernel.op(op).operands)
}

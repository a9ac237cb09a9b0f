//! Barriers where threads read what others wrote, or write what others may still read.
//!
//! The lowering records every access through which threads of a block exchange data: of scratch
//! memory, and of views by tile operations. This pass walks the lowered kernel with the accesses
//! made since the last barrier, and puts one in front of an access that conflicts with one of them.

use super::layouts::LayoutId;
use kiln_ir::{Block, ClusterOp, ExplicitOp, Kernel, Loc, Op, OpKind, Scope, Shape, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Memory that the threads of a block share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SharedRegion {
    /// The bytes `from..to` of a part of scratch memory.
    Scratch {
        /// Parts do not overlap.
        part: u32,
        /// The first byte.
        from: u32,
        /// The byte after the last.
        to: u32,
    },
    /// What a view covers. Views do not overlap: a launch borrows its arguments.
    View(Value),
}

/// Where an access goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessTarget {
    /// The memory.
    pub memory: SharedRegion,
    /// Accesses that agree in this need no order among themselves.
    pub same: Option<Same>,
}

/// Why accesses of one place need no order among themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Same {
    /// They are of one box under one layout: each element is reached by one thread.
    Box(LayoutId, Shape, Vec<Value>),
    /// They are writes of one exchange through scratch memory: no element is written twice.
    Exchange(u32),
    /// They are writes of one scatter, named by its operands: any may win.
    Scatter(Vec<Value>),
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    Read,
    Write,
    /// Reads and writes at once; atomics need no order among themselves.
    Atomic,
}

/// An access of shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Access {
    place: AccessTarget,
    does: Does,
    /// It was made in an earlier iteration of a loop: equal values need not be equal offsets.
    stale: bool,
}

impl Access {
    fn conflicts(&self, earlier: &Access) -> bool {
        let overlaps = match (&self.place.memory, &earlier.place.memory) {
            (
                SharedRegion::Scratch { part: a, from, to },
                SharedRegion::Scratch { part: b, from: from_b, to: to_b },
            ) => a == b && from < to_b && from_b < to,
            (a, b) => a == b,
        };
        if !overlaps || (self.does == earlier.does && self.does != Does::Write) {
            return false;
        }
        earlier.stale || self.place.same.is_none() || self.place.same != earlier.place.same
    }
}

/// The accesses of a lowered kernel through which threads exchange data.
#[derive(Default)]
pub(crate) struct Accesses {
    by_op: FxHashMap<Op, SmallVec<[Access; 1]>>,
}

impl Accesses {
    /// Records an access, of which an operation may make several; `None` is the user's own, whose
    /// order is the user's matter.
    pub fn record(&mut self, op: Op, place: Option<AccessTarget>, does: Does) {
        if let Some(place) = place {
            self.by_op.entry(op).or_default().push(Access { place, does, stale: false });
        }
    }
}

/// Inserts barriers. Accesses of global memory also need a fence of the block.
pub(crate) fn insert(kernel: &mut Kernel, accesses: &Accesses) {
    let mut pass = Pass { kernel, accesses, before: FxHashMap::default() };
    pass.block(pass.kernel.body, Vec::new());
    let before = pass.before;
    let mut blocks = vec![kernel.body];
    while let Some(block) = blocks.pop() {
        let ops = std::mem::take(&mut kernel.block_mut(block).ops);
        let mut placed = Vec::with_capacity(ops.len());
        for op in ops {
            blocks.extend_from_slice(&kernel.op(op).regions);
            if let Some(fence) = before.get(&op) {
                let loc = kernel.op(op).loc;
                placed.extend(barrier(kernel, *fence, loc));
            }
            placed.push(op);
        }
        kernel.block_mut(block).ops = placed;
    }
}

fn barrier(kernel: &mut Kernel, fence: bool, loc: Loc) -> impl Iterator<Item = Op> {
    let fence = fence.then(|| kernel.add_op(OpKind::Fence(Scope::Block), &[], &[], &[], loc));
    let barrier = kernel.add_op(OpKind::Barrier, &[], &[], &[], loc);
    fence.into_iter().chain([barrier])
}

struct Pass<'a> {
    kernel: &'a Kernel,
    accesses: &'a Accesses,
    /// The operations that a barrier must precede, and whether it needs a fence.
    before: FxHashMap<Op, bool>,
}

impl Pass<'_> {
    /// Walks a block with the accesses that are open when it begins, and gives those that are open
    /// when it ends.
    fn block(&mut self, block: Block, mut open: Vec<Access>) -> Vec<Access> {
        let kernel = self.kernel;
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            match data.kind {
                OpKind::Barrier | OpKind::GridBarrier | OpKind::Cluster(ClusterOp::Barrier) => open.clear(),
                OpKind::If => {
                    let mut then = self.block(data.regions[0], open.clone());
                    merge(&mut then, self.block(data.regions[1], open));
                    open = then;
                }
                OpKind::For | OpKind::While => open = self.repeated(&data.regions, open),
                // Tasks have memory of their own, or order themselves.
                OpKind::Explicit(ExplicitOp::Tasks(_)) => {
                    let ends: Vec<_> = data.regions.iter().map(|&r| self.block(r, open.clone())).collect();
                    ends.into_iter().for_each(|end| merge(&mut open, end));
                }
                OpKind::Const(_)
                | OpKind::Iota
                | OpKind::ProgramId(_)
                | OpKind::NumPrograms(_)
                | OpKind::ThreadId(_)
                | OpKind::BlockDim(_)
                | OpKind::Unary(_)
                | OpKind::Binary(_)
                | OpKind::Compare(_)
                | OpKind::Select
                | OpKind::Fma
                | OpKind::Cast
                | OpKind::Bitcast
                | OpKind::Broadcast
                | OpKind::Reshape
                | OpKind::Transpose(_)
                | OpKind::Reduce { .. }
                | OpKind::Scan { .. }
                | OpKind::Dot(_)
                | OpKind::Extent(_)
                | OpKind::Stride(_)
                | OpKind::Alloc { .. }
                | OpKind::Load(_)
                | OpKind::Store { .. }
                | OpKind::Gather { .. }
                | OpKind::Scatter { .. }
                | OpKind::Atomic { .. }
                | OpKind::AtomicCas { .. }
                | OpKind::Fence(_)
                | OpKind::OrderedLoad { .. }
                | OpKind::OrderedStore { .. }
                | OpKind::LoadQuad(_)
                | OpKind::StoreQuad(_)
                | OpKind::Atomic128 { .. }
                // Tiles are of the whole block, of which it orders a part.
                | OpKind::WarpBarrier
                | OpKind::Shuffle(_)
                | OpKind::Vote(_)
                | OpKind::BlockUniform
                | OpKind::Cluster(_)
                | OpKind::AsyncCopy(_)
                | OpKind::Clock(_)
                | OpKind::InlinePtx(_)
                | OpKind::Sleep
                | OpKind::Yield
                | OpKind::Condition
                | OpKind::FaultRegion
                | OpKind::Assert(_)
                | OpKind::Print(_)
                | OpKind::Explicit(_)
                | OpKind::Fragment(_)
                | OpKind::Address
                | OpKind::Scratch { .. }
                | OpKind::Linear { .. }
                | OpKind::PtrLoad { .. }
                | OpKind::PtrStore { .. }
                | OpKind::PtrAtomic { .. }
                | OpKind::PtrAtomicCas { .. }
                | OpKind::PtrOrderedLoad { .. }
                | OpKind::PtrOrderedStore { .. }
                | OpKind::PtrAtomic128 { .. }
                | OpKind::CheckBounds
                | OpKind::CheckDivisor
                | OpKind::BlockCheck(_)
                | OpKind::DeferFault { .. }
                | OpKind::Faulted => {
                    if let Some(accesses) = self.accesses.by_op.get(&op) {
                        self.access(op, accesses, &mut open);
                    }
                }
            }
        }
        open
    }

    fn access(&mut self, op: Op, accesses: &[Access], open: &mut Vec<Access>) {
        if self.before.contains_key(&op) {
            open.clear();
        }
        let conflicts = |earlier: &&Access| accesses.iter().any(|access| access.conflicts(earlier));
        if open.iter().any(|earlier| conflicts(&earlier)) {
            let global =
                open.iter().filter(conflicts).any(|o| matches!(o.place.memory, SharedRegion::View(_)));
            self.before.insert(op, global);
            open.clear();
        }
        for access in accesses {
            // The vectors of a tile follow each other: check the latest first.
            if !open.iter().rev().any(|earlier| earlier == access) {
                open.push(access.clone());
            }
        }
    }

    /// A loop: what is open at the end of an iteration is open at the beginning of the next.
    /// Barriers found on the way only close more, so a fixed point is reached as soon as an
    /// iteration opens nothing new.
    fn repeated(&mut self, regions: &[Block], entry: Vec<Access>) -> Vec<Access> {
        let mut open = entry;
        loop {
            let mut at_end = open.clone();
            // The loop may not run at all, or leave after its first region.
            let mut left = open.clone();
            for &region in regions {
                at_end = self.block(region, at_end);
                merge(&mut left, at_end.clone());
            }
            let known = open.len();
            let stale = at_end.iter().map(|a| Access { stale: true, ..a.clone() }).collect();
            merge(&mut open, stale);
            if open.len() == known {
                return left;
            }
        }
    }
}

fn merge(into: &mut Vec<Access>, more: Vec<Access>) {
    for access in more {
        if !into.contains(&access) {
            into.push(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{Builder, Level, Scalar, Type};

    fn scratch(part: u32, from: u32, to: u32) -> Option<AccessTarget> {
        Some(AccessTarget { memory: SharedRegion::Scratch { part, from, to }, same: None })
    }

    /// A kernel of fences (which stand for accesses) and the accesses they stand for.
    struct Script {
        kernel: Kernel,
        accesses: Accesses,
        block: Block,
    }

    impl Script {
        fn new() -> Script {
            let kernel = Kernel::new("k", Level::Thread { block: [64, 1, 1] });
            let block = kernel.body;
            Script { kernel, accesses: Accesses::default(), block }
        }

        fn at(&mut self, place: Option<AccessTarget>, does: Does) {
            let op =
                self.kernel.append(self.block, OpKind::Fence(Scope::Device), &[], &[], &[], Loc::default());
            self.accesses.record(op, place, does);
        }

        /// The kernel as a string: `.` an access, `|` a barrier, `f` a block fence, `(`…`)` a
        /// region.
        fn text(mut self) -> String {
            insert(&mut self.kernel, &self.accesses);
            let mut text = String::new();
            write(&self.kernel, self.kernel.body, &mut text);
            text
        }
    }

    fn write(kernel: &Kernel, block: Block, text: &mut String) {
        for &op in &kernel.block(block).ops {
            match kernel.op(op).kind {
                OpKind::Barrier => text.push('|'),
                OpKind::Fence(Scope::Block) => text.push('f'),
                OpKind::Fence(_) => text.push('.'),
                _ => {}
            }
            for &region in &kernel.op(op).regions {
                text.push('(');
                write(kernel, region, text);
                text.push(')');
            }
        }
    }

    #[test]
    fn reads_after_writes_and_writes_after_reads_are_separated() {
        let mut s = Script::new();
        s.at(scratch(0, 0, 32), Does::Write);
        s.at(scratch(0, 32, 64), Does::Write);
        s.at(scratch(0, 0, 32), Does::Read);
        s.at(scratch(0, 32, 64), Does::Read); // covered by the barrier before the first read
        s.at(scratch(0, 16, 48), Does::Write);
        s.at(scratch(1, 16, 48), Does::Write); // another part
        assert_eq!(s.text(), "..|..|..");
    }

    #[test]
    fn reads_do_not_conflict() {
        let mut s = Script::new();
        s.at(scratch(0, 0, 32), Does::Read);
        s.at(scratch(0, 0, 32), Does::Read);
        assert_eq!(s.text(), "..");
    }

    #[test]
    fn one_operation_and_atomics_need_no_order_among_themselves() {
        let mut s = Script::new();
        let of = |op| Some(AccessTarget { same: Some(Same::Exchange(op)), ..scratch(0, 0, 32).unwrap() });
        s.at(of(1), Does::Write);
        s.at(of(1), Does::Write);
        s.at(of(2), Does::Write);
        s.at(scratch(0, 0, 32), Does::Atomic);
        s.at(scratch(0, 0, 32), Does::Atomic);
        s.at(scratch(0, 0, 32), Does::Read);
        assert_eq!(s.text(), "..|.|..|.");
    }

    #[test]
    fn a_loop_conflicts_with_its_last_iteration() {
        let mut s = Script::new();
        let body = s.kernel.add_block();
        let mut b = Builder::new(&mut s.kernel);
        let (zero, one) = (b.index(0), b.index(1));
        s.kernel.add_arg(body, Type::scalar(Scalar::I64));
        s.block = body;
        s.at(scratch(0, 0, 32), Does::Write);
        s.at(scratch(0, 0, 32), Does::Read);
        let main = s.kernel.body;
        s.kernel.append(main, OpKind::For, &[zero, zero, one], &[], &[body], Loc::default());
        s.block = main;
        s.at(scratch(0, 0, 32), Does::Write);
        assert_eq!(s.text(), "(|.|.)|.");
    }

    #[test]
    fn both_branches_count() {
        let mut s = Script::new();
        let (then, otherwise) = (s.kernel.add_block(), s.kernel.add_block());
        let main = s.kernel.body;
        let cond = Builder::new(&mut s.kernel).constant(kiln_ir::Literal::bool(true));
        s.block = otherwise;
        s.at(scratch(0, 0, 32), Does::Write);
        s.kernel.append(main, OpKind::If, &[cond], &[], &[then, otherwise], Loc::default());
        s.block = main;
        s.at(scratch(0, 0, 32), Does::Read);
        assert_eq!(s.text(), "()(.)|.");
    }

    #[test]
    fn global_memory_needs_a_fence_unless_threads_meet_only_themselves() {
        let mut s = Script::new();
        let view = Value::from_index(0);
        let at = |offset: usize, layout| {
            let same = Some(Same::Box(layout, Shape::new(&[64]), vec![Value::from_index(offset)]));
            Some(AccessTarget { memory: SharedRegion::View(view), same })
        };
        s.at(at(1, LayoutId::SCALAR), Does::Read);
        s.at(at(1, LayoutId::SCALAR), Does::Write);
        s.at(at(2, LayoutId::SCALAR), Does::Read);
        assert_eq!(s.text(), "..f|.");
    }
}

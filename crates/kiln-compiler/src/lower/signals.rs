//! Signals: one thread of a task stores or waits for an element, in order for the whole GPU, and
//! barriers of the task order the others with it.

use super::Lowering;
use crate::error::CompileError;
use crate::target::WARP;
use kiln_ir::{CompareOp, OpData, OpKind, Order, Scalar, Scope, Space, Value};

impl Lowering<'_> {
    /// `Signal`: what all threads did comes before.
    pub(super) fn signal(&mut self, data: &OpData) -> Result<(), CompileError> {
        let address = self.signal_address(data)?;
        let value = self.scalar(data.stored_value())?;
        self.task_barrier();
        self.by_one_thread(|l| {
            let (order, scope) = (Order::Release, Scope::Device);
            let kind =
                OpKind::PtrOrderedStore { space: Space::Global, lanes: 1, order, scope, predicated: false };
            l.em.op(kind, &[address, value], &[]);
        })
    }

    /// `SignalWait`: what all threads do comes after.
    pub(super) fn wait_for_signal(&mut self, data: &OpData) -> Result<(), CompileError> {
        let address = self.signal_address(data)?;
        let value = self.scalar(data.expected())?;
        self.by_one_thread(|l| {
            let (look, again) = (l.em.kernel.add_block(), l.em.kernel.add_block());
            let outer = std::mem::replace(&mut l.em.block, look);
            let (order, scope) = (Order::Acquire, Scope::Device);
            let kind =
                OpKind::PtrOrderedLoad { space: Space::Global, lanes: 1, order, scope, predicated: false };
            let found = l.em.one(kind, &[address], Scalar::U32);
            let other = l.em.compare(CompareOp::Ne, found, value);
            l.em.op(OpKind::Condition, &[other], &[]);
            l.em.block = again;
            l.em.op(OpKind::Yield, &[], &[]);
            l.em.block = outer;
            let loc = l.em.loc;
            l.em.kernel.append(outer, OpKind::While, &[], &[], &[look, again], loc);
        })?;
        self.task_barrier();
        Ok(())
    }

    fn signal_address(&mut self, data: &OpData) -> Result<Value, CompileError> {
        let (index, stride) = (self.scalar(data.index())?, self.stride(data.view(), 0)?);
        let index = self.em.mul(index, stride);
        let view = self.scalar(data.view())?;
        Ok(self.view_address((view, index)))
    }

    /// What the first thread of the task does.
    fn by_one_thread(&mut self, does: impl FnOnce(&mut Self)) -> Result<(), CompileError> {
        let first = match self.one_thread {
            true => None,
            false => self.em.thread_is_first(WARP * self.warps - 1),
        };
        let Some(first) = first else {
            does(self);
            return Ok(());
        };
        let then = |l: &mut Self| {
            does(l);
            Ok(Vec::new())
        };
        self.branch(first, &[], then, |_| Ok(Vec::new()))?;
        Ok(())
    }
}

//! Barriers of the grid: all blocks of a launch, which is cooperative.
//!
//! The control block has a counter of arrivals, which the host sets to 0 before each launch. One
//! thread of a block arrives for it, with release, between two barriers of the block, and loads the
//! counter, with acquire, until all blocks have arrived; what that orders, it orders for the whole
//! block (PTX ISA 8.0, "Causality order"). The counter is never reset during a launch: a register
//! has what it is once all have come to the next barrier.
//!
//! A thread that faults sets the counter's topmost bit before it ends, and who waits then, or
//! later, ends too. A block of which a thread has ended is not counted as arrived: the rest of it
//! ends where it would arrive.

use super::grid_state::GridState;
use super::parameters::first_word;
use super::records::Control;
use super::register::Class;
use super::writer::Writer;
use kiln_ir::{Level, OpKind};
use std::mem::offset_of;

impl Writer<'_> {
    /// Prepares the registers of barriers of the grid, if the kernel has any.
    pub(super) fn begin_grid(&mut self) {
        let (mut any, mut faults) = (false, false);
        self.kernel.walk(|_, data| {
            any |= data.kind == OpKind::GridBarrier;
            faults |= data.kind.is_check();
        });
        let Level::Thread { block } = self.kernel.level else { return };
        if !any {
            return;
        }
        let [arrived, blocks, target] = [(); 3].map(|()| self.reg(Class::B64));
        let [all, part] = [(); 2].map(|()| self.reg(Class::B32));
        let leads = self.reg(Class::Pred);
        let hidden = first_word(self.kernel, self.kernel.params.len());
        self.put(format_args!("ld.param.b64 {arrived}, [w{hidden}]"));
        self.put(format_args!("add.u64 {arrived}, {arrived}, {}", offset_of!(Control, arrived)));
        // The grid fits the device at once.
        self.put(format_args!("mov.u32 {all}, %nctaid.x"));
        for axis in ["y", "z"] {
            self.put(format_args!("mov.u32 {part}, %nctaid.{axis}"));
            self.put(format_args!("mul.lo.u32 {all}, {all}, {part}"));
        }
        self.put(format_args!("cvt.u64.u32 {blocks}, {all}"));
        self.put(format_args!("mov.b64 {target}, 0"));
        self.put(format_args!("mov.u32 {all}, %tid.x"));
        for axis in ["y", "z"] {
            self.put(format_args!("mov.u32 {part}, %tid.{axis}"));
            self.put(format_args!("or.b32 {all}, {all}, {part}"));
        }
        self.put(format_args!("setp.eq.u32 {leads}, {all}, 0"));
        let threads = block.iter().product();
        self.grid = Some(GridState { arrived, blocks, target, leads, threads, faults });
    }

    pub(super) fn grid_barrier(&mut self) {
        let Some(GridState { arrived, blocks, target, leads, threads, faults }) = self.grid else { return };
        if faults {
            let (here, always, missing) =
                (self.reg(Class::B32), self.reg(Class::Pred), self.reg(Class::Pred));
            self.put(format_args!("setp.eq.u32 {always}, 0, 0"));
            self.put(format_args!("barrier.red.popc.u32 {here}, 0, {always}"));
            self.put(format_args!("setp.ne.u32 {missing}, {here}, {threads}"));
            self.put(format_args!("@{missing} exit"));
        } else {
            self.block_barrier();
        }
        let (seen, waits, ended) = (self.reg(Class::B64), self.reg(Class::Pred), self.reg(Class::Pred));
        let (again, done) = (self.label(), self.label());
        self.put(format_args!("add.u64 {target}, {target}, {blocks}"));
        self.put(format_args!("setp.ne.u32 {ended}, 0, 0"));
        self.put(format_args!("@!{leads} bra {done}"));
        self.put(format_args!("red.release.gpu.global.add.u64 [{arrived}], 1"));
        self.place(again);
        self.put(format_args!("ld.acquire.gpu.global.u64 {seen}, [{arrived}]"));
        self.put(format_args!("setp.lt.u64 {waits}, {seen}, {target}"));
        self.put(format_args!("@{waits} bra {again}"));
        self.put(format_args!("setp.lt.s64 {ended}, {seen}, 0"));
        self.place(done);
        if faults {
            let any = self.reg(Class::Pred);
            self.put(format_args!("barrier.red.or.pred {any}, 0, {ended}"));
            self.put(format_args!("@{any} exit"));
        } else {
            self.block_barrier();
        }
    }

    /// Tells all blocks that this thread is about to end by a fault.
    pub(super) fn end_grid(&mut self) {
        if let Some(GridState { arrived, .. }) = self.grid {
            let topmost = self.reg(Class::B64);
            self.put(format_args!("mov.b64 {topmost}, {}", 1u64 << 63));
            self.put(format_args!("red.relaxed.gpu.global.or.b64 [{arrived}], {topmost}"));
        }
    }
}

//! Faults, asserts and prints: the code that writes [records](super::records) where one happens.
//!
//! A check of the block ([`OpKind::BlockCheck`](kiln_ir::OpKind::BlockCheck)) is a reduction over
//! its threads, after which all leave or none. A check whose fault is *deferred*
//! ([`OpKind::DeferFault`](kiln_ir::OpKind::DeferFault)) reports in the same way, but the thread
//! goes on. Where something depends on whether one has failed, a register says so, the same in all
//! threads of a task: those of a check whose operands differ from thread to thread agree at a
//! barrier.

use super::parameters::first_word;
use super::records::{Control, FaultRecord, MAX_VALUES, PRINT_HEADER, Site, SiteKind};
use super::register::{Class, Reg};
use super::writer::{Label, Writer};
use kiln_backend::Result;
use kiln_ir::{Check, Level, Message, OpData, OpKind, Scalar, Value};
use std::fmt::Display;
use std::mem::offset_of;

impl Writer<'_> {
    fn site(&mut self, op: &OpData, kind: SiteKind, reported: &[Value]) -> Result<u32> {
        let values: Vec<Scalar> = reported.iter().map(|&v| self.elem(v)).collect();
        if values.len() > MAX_VALUES {
            return Err(self.unsupported(
                op,
                format!("{} values in one message", values.len()),
                "Report eight at most",
            ));
        }
        self.sites.push(Site { kind, location: self.kernel.describe(op.loc), values });
        Ok(self.sites.len() as u32 - 1)
    }

    pub(super) fn assert(&mut self, op: &OpData, message: Message) -> Result<()> {
        let text = self.kernel.messages[message.0 as usize].clone();
        self.fault_unless(op, SiteKind::Assert(text))
    }

    pub(super) fn check_bounds(&mut self, op: &OpData) -> Result<()> {
        self.fault_unless(op, SiteKind::Bounds)
    }

    pub(super) fn check_divisor(&mut self, op: &OpData) -> Result<()> {
        self.fault_unless(op, SiteKind::Divisor)
    }

    /// A branch to the report of a fault, which stands behind the kernel's own code and ends there.
    ///
    /// Each check has a report of its own. If checks shared one, the assembler would take its
    /// beginning for the place where the branches of the kernel meet again: it then leaves warps
    /// divided behind `if`s and loops that hold a check, and what follows (shuffles, registers of
    /// the whole warp) goes wrong without a word.
    fn fault_unless(&mut self, op: &OpData, kind: SiteKind) -> Result<()> {
        let ok = self.get(op.condition())?;
        self.leave_unless(op, kind, ok, None)
    }

    /// A check that the threads of the block decide together.
    pub(super) fn block_check(&mut self, op: &OpData, check: Check) -> Result<()> {
        let kind = self.site_of(check);
        let ok = self.get(op.condition())?;
        let all = self.reg(Class::Pred);
        match self.kernel.level {
            Level::Thread { block } if block.iter().product::<u32>() == 32 => {
                self.put(format_args!("vote.sync.all.pred {all}, {ok}, 0xffffffff"));
            }
            Level::Thread { .. } | Level::Tile { .. } => {
                self.put(format_args!("bar.red.and.pred {all}, 0, {ok}"));
            }
        }
        self.leave_unless(op, kind, all, Some(ok))
    }

    fn site_of(&self, check: Check) -> SiteKind {
        match check {
            Check::Assert(message) => SiteKind::Assert(self.kernel.messages[message.0 as usize].clone()),
            Check::Bounds => SiteKind::Bounds,
            Check::Divisor => SiteKind::Divisor,
        }
    }

    /// Ends the threads for which `fine` does not hold. Of these, those with their `own` condition
    /// report nothing.
    fn leave_unless(&mut self, op: &OpData, kind: SiteKind, fine: Reg, own: Option<Reg>) -> Result<()> {
        let site = self.site(op, kind, op.reported())?;
        let values = op.reported().iter().map(|&v| self.get(v)).collect::<Result<Vec<_>>>()?;
        let failed = self.label();
        self.put(format_args!("@!{fine} bra {failed}"));
        let code = std::mem::take(&mut self.text);
        self.place(failed);
        if let Some(own) = own {
            self.put(format_args!("@{own} exit"));
        }
        let values: Vec<Reg> = values.into_iter().map(|value| self.value_bits(value)).collect();
        let hidden = first_word(self.kernel, self.kernel.params.len());
        self.end_grid();
        self.report(hidden, site, &values, None);
        self.put(format_args!("exit"));
        let report = std::mem::replace(&mut self.text, code);
        self.reports.push_str(&report);
        Ok(())
    }

    /// Begins with no fault, if anything depends on whether there was one.
    pub(super) fn begin_deferring(&mut self) {
        let mut asked = false;
        self.kernel.walk(|_, data| asked |= data.kind == OpKind::Faulted);
        if asked {
            let faulted = self.reg(Class::B32);
            self.put(format_args!("mov.b32 {faulted}, 0"));
            self.faulted = Some(faulted);
        }
    }

    /// A check that reports its fault and goes on.
    pub(super) fn defer_fault(&mut self, op: &OpData, check: Check, together: bool) -> Result<()> {
        let kind = self.site_of(check);
        let ok = self.get(op.condition())?;
        let site = self.site(op, kind, op.reported())?;
        let fine = self.label();
        self.put(format_args!("@{ok} bra {fine}"));
        if let Some(faulted) = self.faulted {
            self.put(format_args!("mov.b32 {faulted}, 1"));
        }
        let mut values = Vec::new();
        for &value in op.reported() {
            values.push(self.value_bits(self.get(value)?));
        }
        let hidden = first_word(self.kernel, self.kernel.params.len());
        self.report(hidden, site, &values, Some(fine));
        self.place(fine);
        if let (Some(faulted), false) = (self.faulted, together) {
            let (own, any) = (self.reg(Class::Pred), self.reg(Class::Pred));
            self.put(format_args!("setp.ne.u32 {own}, {faulted}, 0"));
            self.team_vote(any, own);
            self.put(format_args!("selp.b32 {faulted}, 1, 0, {any}"));
        }
        Ok(())
    }

    /// Whether a check of this task has failed.
    pub(super) fn has_faulted(&mut self, op: &OpData) {
        let to = self.define(op.results[0]);
        match self.faulted {
            Some(faulted) => self.put(format_args!("setp.ne.u32 {to}, {faulted}, 0")),
            None => self.put(format_args!("setp.ne.u32 {to}, 0, 0")),
        }
    }

    /// A value as 64 bits, zero-extended.
    fn value_bits(&mut self, x: Reg) -> Reg {
        let wide = self.reg(Class::B64);
        match x.class {
            Class::B64 => self.mov(wide, x),
            Class::B32 => self.put(format_args!("cvt.u64.u32 {wide}, {x}")),
            Class::B16 => self.put(format_args!("cvt.u64.u16 {wide}, {x}")),
            Class::Pred => self.put(format_args!("selp.b64 {wide}, 1, 0, {x}")),
        }
        wide
    }

    /// Writes the block's and the thread's index to six words.
    fn coordinates(&mut self, base: Reg, offset: usize) {
        let part = self.reg(Class::B32);
        for (group, special) in ["ctaid", "tid"].into_iter().enumerate() {
            for (i, axis) in ["x", "y", "z"].into_iter().enumerate() {
                self.put(format_args!("mov.u32 {part}, %{special}.{axis}"));
                self.put(format_args!("st.global.u32 [{base}+{}], {part}", offset + 12 * group + 4 * i));
            }
        }
    }

    /// Fills in the record of the launch, unless another thread has: this one goes on at
    /// `otherwise` then, or ends. `hidden` is the number of the first hidden word.
    fn report(
        &mut self,
        hidden: usize,
        site: impl Display,
        values: &[impl Display],
        otherwise: Option<Label>,
    ) {
        let [control, record, program] = [(); 3].map(|()| self.reg(Class::B64));
        let (old, one) = (self.reg(Class::B32), self.reg(Class::B32));
        let taken = self.reg(Class::Pred);
        self.put(format_args!("ld.param.b64 {control}, [w{hidden}]"));
        let claimed = offset_of!(Control, claimed);
        self.put(format_args!("atom.relaxed.gpu.global.cas.b32 {old}, [{control}+{claimed}], 0, 1"));
        self.put(format_args!("setp.ne.u32 {taken}, {old}, 0"));
        match otherwise {
            Some(label) => self.put(format_args!("@{taken} bra {label}")),
            None => self.put(format_args!("@{taken} exit")),
        }
        self.put(format_args!("ld.global.b64 {record}, [{control}+{}]", offset_of!(Control, fault)));
        self.put(format_args!("ld.param.b64 {program}, [w{}]", hidden + 1));
        self.put(format_args!("st.global.u32 [{record}+{}], {program}", offset_of!(FaultRecord, program)));
        self.put(format_args!("st.global.u32 [{record}+{}], {site}", offset_of!(FaultRecord, site)));
        self.coordinates(record, offset_of!(FaultRecord, block));
        for (i, value) in values.iter().enumerate() {
            let at = offset_of!(FaultRecord, values) + 8 * i;
            self.put(format_args!("st.global.b64 [{record}+{at}], {value}"));
        }
        self.put(format_args!("fence.acq_rel.sys"));
        self.put(format_args!("mov.b32 {one}, 1"));
        let ready = offset_of!(FaultRecord, ready);
        self.put(format_args!("st.relaxed.sys.global.b32 [{record}+{ready}], {one}"));
    }

    pub(super) fn print(&mut self, op: &OpData, message: Message) -> Result<()> {
        let text = self.kernel.messages[message.0 as usize].clone();
        let site = self.site(op, SiteKind::Print(text), op.shown())?;
        let hidden = first_word(self.kernel, self.kernel.params.len());
        let words = PRINT_HEADER + 2 * op.shown().len() as u32;
        let [control, ring, program, offset] = [(); 4].map(|()| self.reg(Class::B64));
        let [at, end, capacity, number] = [(); 4].map(|()| self.reg(Class::B32));
        let full = self.reg(Class::Pred);
        let done = self.label();
        self.put(format_args!("ld.param.b64 {control}, [w{hidden}]"));
        self.put(format_args!("ld.param.b64 {program}, [w{}]", hidden + 1));
        let cursor = offset_of!(Control, cursor);
        self.put(format_args!("atom.relaxed.gpu.global.add.u32 {at}, [{control}+{cursor}], {words}"));
        self.put(format_args!("ld.global.u32 {capacity}, [{control}+{}]", offset_of!(Control, capacity)));
        self.put(format_args!("add.u32 {end}, {at}, {words}"));
        self.put(format_args!("setp.gt.u32 {full}, {end}, {capacity}"));
        let lost = offset_of!(Control, lost);
        self.put(format_args!("@{full} red.relaxed.gpu.global.add.u32 [{control}+{lost}], 1"));
        self.put(format_args!("@{full} bra {done}"));
        self.put(format_args!("ld.global.b64 {ring}, [{control}+{}]", offset_of!(Control, prints)));
        self.put(format_args!("mul.wide.u32 {offset}, {at}, 4"));
        self.put(format_args!("add.u64 {ring}, {ring}, {offset}"));
        self.put(format_args!("st.global.u32 [{ring}], {program}"));
        self.put(format_args!("mov.b32 {number}, {site}"));
        self.put(format_args!("st.global.u32 [{ring}+4], {number}"));
        self.coordinates(ring, 8);
        for (i, &value) in op.shown().iter().enumerate() {
            let bits = self.value_bits(self.get(value)?);
            self.put(format_args!("st.global.b64 [{ring}+{}], {bits}", 4 * PRINT_HEADER as usize + 8 * i));
        }
        self.place(done);
        Ok(())
    }
}

//! Asserts, checks and prints: the code that writes the records of a report.

use crate::body::Expr;
use crate::exit_points::Leave;
use crate::report::{MAX_VALUES, Site, SiteKind, Word};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Check, Kernel, Literal, Message, Op, OpData, OpKind, Scalar as Elem, Value};
use naga::{BinaryOperator as B, Statement};

/// Whether a kernel can fault or print.
pub(crate) fn reports(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(|_, data| {
        any |= matches!(
            data.kind,
            OpKind::Assert(_)
                | OpKind::Print(_)
                | OpKind::CheckBounds
                | OpKind::CheckDivisor
                | OpKind::BlockCheck(_)
                | OpKind::DeferFault { .. }
        );
    });
    any
}

impl Writer<'_> {
    fn text(&self, message: Message) -> String {
        self.kernel.messages.get(message.0 as usize).cloned().unwrap_or_default()
    }

    fn site_of(&self, check: Check) -> SiteKind {
        match check {
            Check::Assert(message) => SiteKind::Assert(self.text(message)),
            Check::Bounds => SiteKind::Bounds,
            Check::Divisor => SiteKind::Divisor,
        }
    }

    /// The number of a place that reports these values.
    pub(crate) fn site(&mut self, op: &OpData, kind: SiteKind, values: &[Value]) -> Result<u32> {
        if values.len() > MAX_VALUES {
            let what = format!("{} values in one message", values.len());
            return Err(self.unsupported(op, what, "Report eight at most."));
        }
        let values = values.iter().map(|&value| self.elem(value)).collect();
        self.sites.push(Site { kind, location: self.kernel.describe(op.loc), values });
        Ok(self.sites.len() as u32 - 1)
    }

    /// A check after which a thread that fails it leaves.
    pub(crate) fn check(&mut self, op: Op, check: Check) -> Result<()> {
        let data = self.kernel.op(op);
        if self.kernel.as_const(data.condition()).is_some_and(Literal::is_true) {
            return Ok(());
        }
        let way = self.way_to_leave(op);
        if way == Leave::Together {
            return self.block_check(op, check);
        }
        let fine = self.get(data.condition())?;
        let failed = self.body.not(fine);
        let outer = self.body.begin();
        self.report_check(data, check)?;
        if way == Leave::Break {
            let (left, yes) = (self.left(), self.body.literal(naga::Literal::Bool(true)));
            self.body.store(left, yes);
            self.body.push(Statement::Break);
        } else {
            self.body.push(Statement::Return { value: None });
        }
        let accept = self.body.end(outer);
        self.body.branch(failed, accept, naga::Block::new());
        Ok(())
    }

    /// A check that the threads of the block decide together.
    pub(crate) fn block_check(&mut self, op: Op, check: Check) -> Result<()> {
        self.together(op)?;
        let data = self.kernel.op(op);
        let fine = self.get(data.condition())?;
        let failed = self.body.not(fine);
        let any = self.any_of_block(failed)?;
        let outer = self.body.begin();
        let inner = self.body.begin();
        self.report_check(data, check)?;
        let own = self.body.end(inner);
        self.body.branch(failed, own, naga::Block::new());
        self.body.push(Statement::Return { value: None });
        let accept = self.body.end(outer);
        self.body.branch(any, accept, naga::Block::new());
        Ok(())
    }

    /// A check whose fault is reported while the thread goes on.
    pub(crate) fn defer_fault(&mut self, op: Op, check: Check, together: bool) -> Result<()> {
        let data = self.kernel.op(op);
        let fine = self.get(data.condition())?;
        let failed = self.body.not(fine);
        let faulted = self.faulted();
        let outer = self.body.begin();
        let yes = self.body.literal(naga::Literal::Bool(true));
        self.body.store(faulted, yes);
        self.report_check(data, check)?;
        let accept = self.body.end(outer);
        self.body.branch(failed, accept, naga::Block::new());
        if !together {
            self.together(op)?;
            let own = self.body.load(faulted);
            let any = self.any_of_block(own)?;
            self.body.store(faulted, any);
        }
        Ok(())
    }

    /// Whether a check whose fault was deferred has failed in the block, as a pointer.
    fn faulted(&mut self) -> Expr {
        match self.faulted {
            Some(faulted) => faulted,
            None => {
                let ty = self.scalar_type(naga::Scalar::BOOL);
                let faulted = self.body.variable("faulted", ty, Some(naga::Literal::Bool(false)));
                self.faulted = Some(faulted);
                faulted
            }
        }
    }

    pub(crate) fn has_faulted(&mut self, op: &OpData) {
        let faulted = self.faulted();
        let faulted = self.body.load(faulted);
        self.set(op, faulted);
    }

    /// Reports the fault of a check, unless another thread has reported one.
    fn report_check(&mut self, op: &OpData, check: Check) -> Result<()> {
        let kind = self.site_of(check);
        let site = self.site(op, kind, op.reported())?;
        let report = self.report()?;
        let site = self.body.u32(site);
        let claimed = self.claim_fault(site)?;
        if op.reported().is_empty() {
            return Ok(());
        }
        let outer = self.body.begin();
        let first = self.body.u32(Word::Values as u32);
        self.store_values(report, first, op.reported())?;
        let accept = self.body.end(outer);
        self.body.branch(claimed, accept, naga::Block::new());
        Ok(())
    }

    /// Claims the record of the fault for a site: whether this thread is the first.
    pub(crate) fn claim_fault(&mut self, site: Expr) -> Result<Expr> {
        let claim = self.claim_function()?;
        let arguments = self.origin(site)?;
        Ok(self.call(claim, arguments))
    }

    pub(crate) fn print(&mut self, op: &OpData, message: Message) -> Result<()> {
        let kind = SiteKind::Print(self.text(message));
        let site = self.site(op, kind, op.shown())?;
        let report = self.report()?;
        let begin = self.print_function()?;
        let site = self.body.u32(site);
        let mut arguments = self.origin(site)?;
        arguments.push(self.body.u32(2 * op.shown().len() as u32));
        let first = self.call(begin, arguments);
        let zero = self.body.u32(0);
        let has_room = self.body.binary(B::NotEqual, first, zero);
        let outer = self.body.begin();
        self.store_values(report, first, op.shown())?;
        let accept = self.body.end(outer);
        self.body.branch(has_room, accept, naga::Block::new());
        Ok(())
    }

    /// Stores values to the report, two words each, from a word on.
    fn store_values(&mut self, report: Expr, first: Expr, values: &[Value]) -> Result<()> {
        let mut words = Vec::new();
        for &value in values {
            words.extend(self.words_of(value)?);
        }
        for (i, word) in words.into_iter().enumerate() {
            let more = self.body.u32(i as u32);
            let at = self.body.binary(B::Add, first, more);
            let pointer = self.body.element(report, at);
            self.body.store(pointer, word);
        }
        Ok(())
    }

    /// A value's bits as two words, the low one first.
    fn words_of(&mut self, value: Value) -> Result<[Expr; 2]> {
        let (x, elem) = (self.get(value)?, self.elem(value));
        if elem.bytes() < 8 {
            return Ok([self.pack(x, elem), self.body.u32(0)]);
        }
        if elem == Elem::I64 && self.is_narrow(value) {
            return Ok(self.extended(x));
        }
        Ok(self.pack_pair(x, elem))
    }
}

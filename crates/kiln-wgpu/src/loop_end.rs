//! Drivers that end loops before they are done, without an error.
//!
//! Mesa's driver for processors counts the rounds of all loops of a thread. Once there were 65,535,
//! every loop ends with the round that it is in, and what follows computes with wrong values. So on
//! such a driver, in a kernel that may make as many rounds, each loop is followed by a question:
//! has it ended by itself? If not, the thread breaks out of all that it is in, and reports a fault
//! at the innermost loop. That is one place for all loops, since such drivers compile slowly.
//!
//! ```text
//! loop {
//!     loop { .. break if last; }
//!     if !last { cut = 1; break; }
//!     break;
//! }
//! if cut != 0 { report; }
//! ```
//!
//! The thread leaves whatever barriers follow. On that driver a barrier only lets the other threads
//! of the block have their turn, so that no thread waits for one that has left.

use crate::body::Expr;
use crate::report::SiteKind;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::OpData;
use naga::{BinaryOperator as B, Literal, Scalar, Statement};

impl Writer<'_> {
    /// The kernel's operations, and the fault of a loop that the driver ended.
    pub(crate) fn body_with_limit(&mut self) -> Result<()> {
        if self.round_limit.is_none() {
            return self.block(self.kernel.body).map(drop);
        }
        let ty = self.scalar_type(Scalar::U32);
        let cut = self.body.variable("cut", ty, Some(Literal::U32(0)));
        self.cut = Some(cut);
        let outer = self.body.begin();
        self.block(self.kernel.body)?;
        self.body.push(Statement::Break);
        let body = self.body.end(outer);
        self.body.push(Statement::Loop { body, continuing: naga::Block::new(), break_if: None });
        let (cut, zero, one) = (self.body.load(cut), self.body.u32(0), self.body.u32(1));
        let was_cut = self.body.binary(B::NotEqual, cut, zero);
        let outer = self.body.begin();
        let site = self.body.binary(B::Subtract, cut, one);
        self.claim_fault(site)?;
        let accept = self.body.end(outer);
        self.body.branch(was_cut, accept, naga::Block::new());
        Ok(())
    }

    /// A variable for whether a loop has ended by itself, where a driver may end it.
    pub(crate) fn has_ended(&mut self) -> Option<Expr> {
        self.round_limit?;
        let ty = self.scalar_type(Scalar::BOOL);
        Some(self.body.variable("ended", ty, None))
    }

    /// Leaves the loop where a condition holds, and keeps the condition in a variable.
    pub(crate) fn end_loop_if(&mut self, condition: Expr, ended: Option<Expr>) {
        if let Some(ended) = ended {
            self.body.store(ended, condition);
        }
        self.body.break_if(condition);
    }

    /// Leaves behind a loop that did not end by itself, as the variable says.
    pub(crate) fn check_ended(&mut self, op: &OpData, ended: Option<Expr>) -> Result<()> {
        let Some(ended) = ended else { return Ok(()) };
        let ended = self.body.load(ended);
        self.leave_unless_ended(op, ended)
    }

    /// Leaves behind something that was left for a loop that the driver ended.
    pub(crate) fn leave_if_cut(&mut self) {
        let Some(cut) = self.cut else { return };
        let (cut, zero) = (self.body.load(cut), self.body.u32(0));
        let was_cut = self.body.binary(B::NotEqual, cut, zero);
        self.body.break_if(was_cut);
    }

    /// Leaves behind a loop that the driver ended, or that was left for one.
    pub(crate) fn leave_unless_ended(&mut self, op: &OpData, ended: Expr) -> Result<()> {
        let (Some(rounds), Some(cut)) = (self.round_limit, self.cut) else { return Ok(()) };
        let site = self.site(op, SiteKind::LoopLimit(rounds), &[])?;
        let (number, zero) = (self.body.u32(site + 1), self.body.u32(0));
        let before = self.body.load(cut);
        let first = self.body.binary(B::Equal, before, zero);
        let goes_on = self.body.binary(B::LogicalAnd, ended, first);
        let leaves = self.body.not(goes_on);
        let outer = self.body.begin();
        let number = self.body.select(first, number, before);
        self.body.store(cut, number);
        self.body.push(Statement::Break);
        let accept = self.body.end(outer);
        self.body.branch(leaves, accept, naga::Block::new());
        Ok(())
    }
}

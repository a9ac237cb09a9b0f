//! How a thread that failed a check leaves, so that no barrier waits for it.
//!
//! | a barrier can follow | who is at the check | what happens |
//! |---|---|---|
//! | no | | the thread returns |
//! | yes | all threads | they decide together, and all return or none |
//! | yes | some threads | it breaks out to where all are, and they decide there |
//!
//! The last case puts the operation in which threads part into a loop of one round, out of which
//! they break:
//!
//! ```text
//! loop {
//!     if condition {               // only some threads
//!         if !fine { report; left = true; break; }
//!         loop { .. }
//!         if left { break; }       // a fault in the inner loop
//!     }
//!     break;
//! }
//! if any_of_block(left) { return; }
//! ```
//!
//! Barriers are those of the kernel, and those by which lanes exchange values where subgroups are
//! not warps.

use crate::body::Expr;
use crate::exit_points::Leave;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::Op;
use naga::{AddressSpace, AtomicFunction, BinaryOperator as B, Expression, Literal, Scalar, Statement};

impl Writer<'_> {
    pub(crate) fn way_to_leave(&self, op: Op) -> Leave {
        self.exits.way(self.kernel, &self.uniformity, op)
    }

    /// Whether threads part in an operation and may break out of it.
    pub(crate) fn parts(&self, op: Op) -> bool {
        self.exits.parts(self.kernel, &self.uniformity, op)
    }

    /// Whether this thread has left an operation in which threads part, as a pointer.
    pub(crate) fn left(&mut self) -> Expr {
        match self.left {
            Some(left) => left,
            None => {
                let ty = self.scalar_type(Scalar::BOOL);
                let left = self.body.variable("left", ty, Some(Literal::Bool(false)));
                self.left = Some(left);
                left
            }
        }
    }

    /// An operation out of which threads may break, and what the block decides then.
    pub(crate) fn parted(&mut self, op: Op, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let data = self.kernel.op(op);
        let results = self.variables(data, "result", &data.results)?;
        let outer = self.body.begin();
        write(self)?;
        self.store_all(&results, &data.results, &data.results)?;
        self.body.push(Statement::Break);
        let body = self.body.end(outer);
        self.body.push(Statement::Loop { body, continuing: naga::Block::new(), break_if: None });
        self.load_all(&results, &data.results);
        let left = self.left();
        let left = self.body.load(left);
        let any = self.any_of_block(left)?;
        self.return_if(any);
        self.leave_if_cut();
        Ok(())
    }

    /// Leaves a loop also behind another one that a thread has left for good.
    pub(crate) fn leave_further(&mut self, op: Op) {
        let part = self.uniformity.diverges(op) || self.parts(op);
        if part && self.exits.may_break(op) {
            let left = self.left();
            let left = self.body.load(left);
            self.body.break_if(left);
        }
    }

    pub(crate) fn return_if(&mut self, condition: Expr) {
        let accept = naga::Block::from_vec(vec![Statement::Return { value: None }]);
        self.body.branch(condition, accept, naga::Block::new());
    }

    /// Clears what threads decide through, before the first decision.
    pub(crate) fn begin_deciding(&mut self) -> Result<()> {
        if !self.exits.decides {
            return Ok(());
        }
        let cell = (Scalar::U32, true);
        let failed = self.array("failed".into(), AddressSpace::WorkGroup, None, cell, Some(1));
        let cell = (Scalar::U32, false);
        let any = self.array("any_failed".into(), AddressSpace::WorkGroup, None, cell, Some(1));
        let [failed, any] = [failed, any].map(|array| self.body.member(array, 0));
        self.deciding = Some([failed, any]);
        self.in_first_thread(|w| {
            let zero = w.body.u32(0);
            w.body.store(failed, zero);
        })?;
        self.barrier();
        Ok(())
    }

    /// What the first thread of the block does.
    pub(crate) fn in_first_thread(&mut self, write: impl FnOnce(&mut Self)) -> Result<()> {
        let (thread, zero) = (self.thread()?, self.body.u32(0));
        let first = self.body.binary(B::Equal, thread, zero);
        let outer = self.body.begin();
        write(self);
        let accept = self.body.end(outer);
        self.body.branch(first, accept, naga::Block::new());
        Ok(())
    }

    /// Whether a condition holds in any thread of the block, all of which are here. The value is
    /// uniform for compilers that prove it, which a load of an atomic is not.
    pub(crate) fn any_of_block(&mut self, condition: Expr) -> Result<Expr> {
        let [failed, any] =
            self.deciding.ok_or_else(|| self.internal("the block decides on nothing".into()))?;
        let outer = self.body.begin();
        let one = self.body.u32(1);
        self.atomic_word(failed, AtomicFunction::InclusiveOr, one);
        let accept = self.body.end(outer);
        self.body.branch(condition, accept, naga::Block::new());
        self.barrier();
        self.in_first_thread(|w| {
            let seen = w.body.load(failed);
            w.body.store(any, seen);
            // For the next decision, which is behind the barriers of the load below.
            let zero = w.body.u32(0);
            w.body.store(failed, zero);
        })?;
        let ty = self.scalar_type(Scalar::U32);
        let result = self.body.result(Expression::WorkGroupUniformLoadResult { ty });
        self.body.push(Statement::WorkGroupUniformLoad { pointer: any, result });
        let zero = self.body.u32(0);
        Ok(self.body.binary(B::NotEqual, result, zero))
    }
}

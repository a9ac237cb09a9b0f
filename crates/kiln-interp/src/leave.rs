//! Threads that leave one by one, in code that was lowered for a GPU.
//!
//! There a check by itself ends the thread that fails it alone: the others of its block go on, and
//! read nothing of it in shuffles. The launch ends with the first fault when all threads have
//! left or come to their end. What the others do meanwhile means nothing. They may even differ in
//! what is the same in all threads otherwise, as a sum of which an addend is missing, and part
//! ways: on a GPU, from compute capability 7.0 on, a barrier is one of all threads that have not
//! ended, wherever they stand (CUDA C++ Programming Guide, "Independent Thread Scheduling"), so
//! that all come to their end. Here the launch then ends at once. A loop that does not end is
//! reported in place of the fault.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::register::Register;
use crate::stopped::Left;
use crate::trap::Trap;
use kiln_backend::{Error, FaultKind, Finding};
use kiln_ir::{OpData, OpKind};

impl Machine<'_> {
    /// What becomes of a trap: a thread that fails a check by itself leaves, and the others go on.
    pub fn trapped(&mut self, trap: Trap, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let alone = matches!(data.kind, OpKind::Assert(_) | OpKind::CheckBounds | OpKind::CheckDivisor);
        let follows = match &trap {
            // What the threads that left would have stored is not there.
            Trap::Memory(_) => true,
            Trap::Fault { kind: FaultKind::Sanitizer { finding, .. }, .. } => *finding == Finding::Divergence,
            _ => false,
        };
        if let Some(left) = self.left.as_ref().filter(|_| follows) {
            return Err(left.fault.clone());
        }
        if !alone || !self.loaded.leave_alone || !matches!(trap, Trap::Fault { .. }) {
            return Err(self.error(trap, data.loc));
        }
        let fault = self.error(trap, data.loc);
        let holds = bool::of(self.data(data.condition())).map_err(|trap| self.error(trap, data.loc))?;
        let stays = |lane: usize| !mask.has(lane) || holds[lane];
        let here = match self.here() {
            Some(here) => here.filter(stays),
            None => Mask::full(mask.width()).filter(stays),
        };
        match &mut self.left {
            Some(left) => left.here = here,
            None => self.left = Some(Left { here, fault }),
        }
        Ok(())
    }

    /// The threads of the block that have not left, if any has.
    pub fn here(&self) -> Option<&Mask> {
        self.left.as_ref().map(|left| &left.here)
    }

    /// The fault of an operation of the whole block that some threads did not reach.
    pub fn need_all(&self, what: &str, mask: &Mask) -> Result<(), Trap> {
        if mask.is_full() || self.here() == Some(mask) {
            return Ok(());
        }
        let detail = format!("{what} reached by {} of {} threads", mask.count(), mask.width());
        Err(Trap::finding(Finding::Divergence, detail))
    }
}

//! What the machine calls, where there is a session.

use super::answer::{self, Stop};
use super::breakpoint::is_place;
use super::session::{Mode, Moment, Reason};
use crate::machine::Machine;
use crate::mask::Mask;
use kiln_backend::Error;
use kiln_ir::{Loc, Op, OpData};

impl Machine<'_> {
    /// The number of the block that runs.
    fn block_number(&self) -> u64 {
        let [x, y, z] = self.block.map(u64::from);
        x + u64::from(self.grid[0]) * (y + u64::from(self.grid[1]) * z)
    }

    /// Stops before an operation, if the session says so.
    pub fn debug_before(&mut self, op: Op, data: &OpData, mask: &Mask) {
        let block = self.block_number();
        let kernel = self.kernel;
        let Some(debug) = self.debug.as_mut().filter(|_| is_place(&data.kind)) else { return };
        let (session, launch, loc) = (debug.session, debug.launch, data.loc);
        let key = (u64::from(loc.file) << 32) | u64::from(loc.line);
        let fresh = mask.filter(|lane| debug.lines[lane] != key);
        let begins = !std::mem::replace(&mut debug.begun, true);
        if loc.line > 0 {
            mask.lanes().for_each(|lane| debug.lines[lane] = key);
            debug.last = loc;
        }
        let mut state = session.lock();
        let Some(reason) = state.reason(&Moment { kernel, launch, block, loc, fresh: &fresh, begins }) else {
            return;
        };
        answer::converse(
            &mut state,
            Some(&mut Stop { machine: self, op: Some(op), loc, mask, reason, launch, block }),
        );
    }

    /// A round of a loop begins: its threads come to every line anew.
    pub fn debug_round(&mut self, mask: &Mask) {
        if let Some(debug) = &mut self.debug {
            mask.lanes().for_each(|lane| debug.lines[lane] = 0);
        }
    }

    /// A block begins.
    pub fn debug_begin_block(&mut self) {
        if let Some(debug) = &mut self.debug {
            debug.lines.fill(0);
            debug.begun = false;
            debug.last = Loc::default();
        }
    }

    /// A block has come to its end.
    pub fn debug_end_block(&mut self, everyone: &Mask) {
        let block = self.block_number();
        let Some(debug) = &self.debug else { return };
        let (session, launch, loc) = (debug.session, debug.launch, debug.last);
        let mut state = session.lock();
        state.ended.insert(block);
        let (Mode::Step { launch: of, block: wanted } | Mode::Finish { launch: of, block: wanted }) =
            state.mode
        else {
            return;
        };
        if (of, wanted) == (launch, block) {
            let (reason, mask) = (Reason::End, everyone);
            answer::converse(
                &mut state,
                Some(&mut Stop { machine: self, op: None, loc, mask, reason, launch, block }),
            );
        }
    }

    /// Stops where an operation has failed, once a launch.
    pub fn debug_fault(&mut self, error: &Error, op: Op, data: &OpData, mask: &Mask) {
        let block = self.block_number();
        let (Some(debug), Error::Fault(fault)) = (&self.debug, error) else { return };
        let (session, launch, loc) = (debug.session, debug.launch, data.loc);
        let mut state = session.lock();
        if state.mode == Mode::Detached || std::mem::replace(&mut state.faulted, launch) == launch {
            return;
        }
        let [x, y, _] = self.loaded.block.map(|extent| extent as usize);
        if let Some([a, b, c]) = fault.thread.map(|thread| thread.map(|i| i as usize)) {
            state.thread = a + x * (b + y * c);
        }
        let reason = Reason::Fault(fault.to_string());
        answer::converse(
            &mut state,
            Some(&mut Stop { machine: self, op: Some(op), loc, mask, reason, launch, block }),
        );
    }
}

//! Signals: elements of global memory by which tasks of different programs wait for each other.

use super::table::Condition;
use crate::access::{self, Region};
use crate::machine::Machine;
use crate::trap::Trap;
use crate::value::Data;
use kiln_backend::{Error, Finding};
use kiln_ir::{OpData, Scalar, Shape};

impl Machine<'_> {
    /// Stores a signal.
    pub(super) fn signal(&mut self, data: &OpData) -> Result<(), Trap> {
        let value = self.data(data.stored_value()).clone();
        self.element(data, |spaces, region| access::store(spaces, region, &value))?;
        let seat = self.seat()?;
        seat.table.lock().world.signals += 1;
        Ok(())
    }

    /// Waits for a signal, while others of the cluster run: programs before them have run.
    pub(super) fn wait_for_signal(&mut self, data: &OpData) -> Result<(), Error> {
        loop {
            let there = self.has_signal(data).map_err(|trap| self.error(trap, data.loc))?;
            if there {
                return Ok(());
            }
            let seat = self.seat().map_err(|trap| self.error(trap, data.loc))?;
            let seen = seat.table.lock().world.signals;
            self.wait_until(Condition::Signals(seen), data)?;
        }
    }

    fn has_signal(&mut self, data: &OpData) -> Result<bool, Trap> {
        let mut found = Data::zeros(Scalar::U32, 1);
        self.element(data, |spaces, region| access::load(spaces, region, 0, &mut found))?;
        Ok(found.bits(0) == self.data(data.expected()).bits(0))
    }

    /// Does something with the element of a view, which is followed by an index that must be
    /// inside.
    fn element(
        &mut self,
        data: &OpData,
        with: impl FnOnce(&mut crate::spaces::Spaces<'_>, &Region<'_>) -> Result<(), Trap>,
    ) -> Result<(), Trap> {
        let (view, offsets) = self.tensor(data)?;
        let (at, extent) = (offsets[0], view.extents[0]);
        if !(0..extent).contains(&at) {
            return Err(Trap::finding(Finding::BrokenTrust, format!("signal {at} of {extent}")));
        }
        with(&mut self.spaces, &Region { view: &view, offsets: &offsets, shape: &Shape::new(&[1]) })
    }
}

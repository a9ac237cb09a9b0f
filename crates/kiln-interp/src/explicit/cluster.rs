//! Blocks of threads that wait for each other, those of a cluster or of a launch with barriers of
//! the grid: each runs until it ends or comes to such a barrier, then the next.

use super::table::Condition;
use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::{Turn, check_aligned};
use crate::trap::Trap;
use kiln_backend::{Error, FaultKind, Finding};
use kiln_ir::OpData;

/// Words of a quad.
const WORDS: usize = 4;

impl Machine<'_> {
    /// Waits until every block of the cluster is here.
    pub fn cluster_barrier(&mut self, data: &OpData, mask: &Mask) -> Result<(), Error> {
        self.need_all("a barrier of the cluster", mask).map_err(|trap| self.error(trap, data.loc))?;
        let seat = self.seat().map_err(|trap| self.error(trap, data.loc))?;
        let (block, rank, mut order) = (self.spaces.block, seat.rank, std::mem::take(&mut self.spaces.order));
        order.barrier();
        let in_flight = std::mem::take(&mut self.spaces.in_flight);
        let number = seat.table.lock().meet(seat.agent);
        self.wait_until(Condition::Meeting(number), data)?;
        self.spaces.turn_to(Turn { block, rank, order });
        self.spaces.in_flight = in_flight;
        Ok(())
    }

    /// Waits until every block of the launch is here.
    pub fn grid_barrier(&mut self, data: &OpData, mask: &Mask) -> Result<(), Error> {
        if let Some(left) = self.left.take() {
            return Err(left.fault);
        }
        self.need_all("a barrier of the grid", mask).map_err(|trap| self.error(trap, data.loc))?;
        let seat = self.seat().map_err(|trap| self.error(trap, data.loc))?;
        let (block, rank, mut order) = (self.spaces.block, seat.rank, std::mem::take(&mut self.spaces.order));
        order.barrier();
        let in_flight = std::mem::take(&mut self.spaces.in_flight);
        let mut inner = seat.table.lock();
        let condition = Condition::Grid(inner.meet(seat.agent));
        let is_last = inner.holds(&condition).map_err(|trap| self.error(trap, data.loc))?;
        drop(inner);
        if is_last {
            // Whatever anybody did before comes before whatever anybody does now.
            self.spaces.global.order_all();
        }
        self.wait_until(condition, data)?;
        self.spaces.turn_to(Turn { block, rank, order });
        self.spaces.in_flight = in_flight;
        Ok(())
    }

    /// `StoreQuad` and `PtrStoreQuad`, one thread after the other.
    pub fn store_quad_in_cluster(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let (places, rest) = data.operands.split_at(data.operands.len() - WORDS - 1);
        for lane in mask.lanes() {
            let (space, address, inside) = match *places {
                [view, index] => {
                    let (view, index) = (self.view(view)?, i64::of(self.data(index))?[lane]);
                    let end = index.checked_add(WORDS as i64);
                    let inside = index >= 0 && end.is_some_and(|end| end <= view.extents[0]);
                    (view.space, view.base.wrapping_add((index as u64).wrapping_mul(4)), inside)
                }
                [address] => (kiln_ir::Space::Shared, u64::of(self.data(address))?[lane], true),
                _ => return Err(Trap::Bug("a quad without a place".into())),
            };
            let place = MemoryAccess { space, address, lane: Some(lane), atomic: true };
            check_aligned(place, 16)?;
            let rank = i64::of(self.data(rest[0]))?[lane];
            let blocks = i64::from(self.kernel.cluster);
            if !inside || !(0..blocks).contains(&rank) {
                let detail =
                    format!("a quad at address {address:#x} of block {rank} of a cluster of {blocks}");
                let kind = FaultKind::Sanitizer { finding: Finding::BrokenTrust, detail };
                return Err(Trap::Fault { kind, lane: Some(lane) });
            }
            let mut words = [0u32; WORDS];
            for (word, &value) in words.iter_mut().zip(&rest[1..]) {
                *word = u32::of(self.data(value))?[lane];
            }
            self.spaces.write_to(rank as usize, place, &words)?;
        }
        Ok(())
    }
}

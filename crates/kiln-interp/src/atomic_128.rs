//! Atomics of 128 bits: two adjacent elements of 8 bytes, one thread after the other.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::check_aligned;
use crate::trap::Trap;
use crate::value::View;
use kiln_ir::{Atomic128Op, OpData, Operand, Space, Value};

/// Bytes of the two elements.
const BYTES: u64 = 16;

impl Machine<'_> {
    /// `Atomic128`: its last result is whether there are two elements.
    pub fn atomic_128(&mut self, data: &OpData, op: Atomic128Op, mask: &Mask) -> Result<(), Trap> {
        let view = self.view(data.view())?.clone();
        let indices = i64::of(self.data(data.index()))?.to_vec();
        let [first, second, found] = data.results[..] else { return Err(wrong()) };
        for lane in mask.lanes() {
            let place = place(&view, indices[lane], lane);
            self.exchange_128(data, op, [first, second], (place, lane))?;
            bool::of_mut(&mut self.registers[found.index()])?[lane] = place.is_some();
        }
        Ok(())
    }

    /// `PtrAtomic128`.
    pub fn pointer_128(
        &mut self,
        data: &OpData,
        (op, space): (Atomic128Op, Space),
        mask: &Mask,
    ) -> Result<(), Trap> {
        let addresses = u64::of(self.data(data.address()))?.to_vec();
        let chosen = bool::of(self.data(data.mask().ok_or_else(wrong)?))?.to_vec();
        let [first, second] = data.results[..] else { return Err(wrong()) };
        for lane in mask.lanes() {
            let place = MemoryAccess { space, address: addresses[lane], lane: Some(lane), atomic: true };
            let place = chosen[lane].then_some(place);
            place.map_or(Ok(()), |place| check_aligned(place, BYTES))?;
            self.exchange_128(data, op, [first, second], (place, lane))?;
        }
        Ok(())
    }

    /// Does the operation for one thread; with no place, the old elements are zeros.
    fn exchange_128(
        &mut self,
        data: &OpData,
        op: Atomic128Op,
        results: [Value; 2],
        (place, lane): (Option<MemoryAccess>, usize),
    ) -> Result<(), Trap> {
        let mut old = [0u64; 2];
        if let Some(place) = place {
            self.spaces.read(place, &mut old)?;
            let desired = match op {
                Atomic128Op::Exchange => Some(self.pair(data, Operand::Stored, lane)?),
                Atomic128Op::CompareExchange => {
                    let equal = self.pair(data, Operand::Expected, lane)? == old;
                    equal.then(|| self.pair(data, Operand::Desired, lane)).transpose()?
                }
            };
            if let Some(desired) = desired {
                self.spaces.write(place, &desired)?;
            }
        }
        for (result, old) in results.into_iter().zip(old) {
            u64::of_mut(&mut self.registers[result.index()])?[lane] = old;
        }
        Ok(())
    }

    /// The two operands of a name, in one thread.
    fn pair(&self, data: &OpData, name: Operand, lane: usize) -> Result<[u64; 2], Trap> {
        let &[first, second] = data.named(name) else { return Err(wrong()) };
        Ok([u64::of(self.data(first))?[lane], u64::of(self.data(second))?[lane]])
    }
}

fn wrong() -> Trap {
    Trap::Bug("an atomic of 128 bits with wrong operands".into())
}

/// Where two elements from an index on lie; `None` where they are not whole.
fn place(view: &View, index: i64, lane: usize) -> Option<MemoryAccess> {
    let inside = index >= 0 && index.checked_add(1).is_some_and(|last| last < view.extents[0]);
    let address = view.base.wrapping_add((index as u64).wrapping_mul(view.elem_bytes));
    let whole = inside && view.strides[0] == 1 && address.is_multiple_of(BYTES);
    whole.then_some(MemoryAccess { space: view.space, address, lane: Some(lane), atomic: true })
}

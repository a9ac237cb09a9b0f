//! Operations on addresses: what the lowering to threads makes of accesses through views. Every
//! value has rank 0.

use crate::access::{atomic, compare_exchange, exchange};
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::{Spaces, check_aligned};
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_ir::numeric::Element;
use kiln_ir::{AtomicOp, Space};

/// The addresses of the threads that take part.
pub struct Pointers<'a> {
    /// The space.
    pub space: Space,
    /// An address for each thread.
    pub addresses: &'a Data,
    /// The predicate, if there is one.
    pub predicate: Option<&'a Data>,
    /// The active threads.
    pub mask: &'a Mask,
    /// Whether loads and stores are ordered, so that they meet each other without a race.
    pub ordered: bool,
}

impl Pointers<'_> {
    /// Calls `visit` on each thread with its address, or `None` if its predicate is false.
    fn each(
        &self,
        atomic: bool,
        mut visit: impl FnMut(usize, Option<MemoryAccess>) -> Result<(), Trap>,
    ) -> Result<(), Trap> {
        let addresses = u64::of(self.addresses)?;
        let predicate = self.predicate.map(bool::of).transpose()?;
        for lane in self.mask.lanes() {
            let place =
                MemoryAccess { space: self.space, address: addresses[lane], lane: Some(lane), atomic };
            visit(lane, predicate.is_none_or(|p| p[lane]).then_some(place))?;
        }
        Ok(())
    }

    /// Loads adjacent elements, one for each result.
    pub fn load(&self, spaces: &mut Spaces, out: &mut [Data]) -> Result<(), Trap> {
        let elem = out.first().map(Data::elem).ok_or_else(|| Trap::Bug("a load of nothing".into()))?;
        dispatch!(any elem, T => {
            let mut out = out.iter_mut().map(T::of_mut).collect::<Result<Vec<_>, _>>()?;
            let mut row = vec![T::of_bits(0); out.len()];
            self.each(self.ordered, |lane, place| {
                row.fill(T::of_bits(0));
                if let Some(place) = place {
                    check_aligned(place, size_of_val(&row[..]) as u64)?;
                    spaces.read(place, &mut row)?;
                }
                for (o, &v) in out.iter_mut().zip(&row) {
                    o[lane] = v;
                }
                Ok(())
            })
        })
    }

    /// Stores adjacent elements, one from each value.
    pub fn store(&self, spaces: &mut Spaces, values: &[&Data]) -> Result<(), Trap> {
        let elem = values.first().map(|d| d.elem()).ok_or_else(|| Trap::Bug("a store of nothing".into()))?;
        dispatch!(any elem, T => {
            let values = values.iter().map(|v| T::of(v)).collect::<Result<Vec<_>, _>>()?;
            self.each(self.ordered, |lane, place| {
                let Some(place) = place else { return Ok(()) };
                let row: Vec<T> = values.iter().map(|v| v[lane]).collect();
                check_aligned(place, size_of_val(&row[..]) as u64)?;
                spaces.write(place, &row)
            })
        })
    }

    /// An atomic read-modify-write.
    pub fn atomic(
        &self,
        spaces: &mut Spaces,
        op: AtomicOp,
        value: &Data,
        out: &mut Data,
    ) -> Result<(), Trap> {
        self.update(spaces, out, atomic(op, value))
    }

    /// An atomic compare and exchange.
    pub fn compare_exchange(
        &self,
        spaces: &mut Spaces,
        expected: &Data,
        desired: &Data,
        out: &mut Data,
    ) -> Result<(), Trap> {
        self.update(spaces, out, compare_exchange(expected, desired))
    }

    fn update(
        &self,
        spaces: &mut Spaces,
        out: &mut Data,
        update: impl Fn(usize, u64) -> Result<u64, Trap>,
    ) -> Result<(), Trap> {
        dispatch!(any out.elem(), T => {
            let out = T::of_mut(out)?;
            self.each(true, |lane, place| {
                out[lane] = match place {
                    Some(place) => exchange(spaces, place, |old: T| update(lane, old.bits()))?,
                    None => T::of_bits(0),
                };
                Ok(())
            })
        })
    }
}

//! Elements in registers and in memory.

use crate::mask::Mask;
use crate::trap::Trap;
use crate::value::{Data, dispatch, each_vec};
use kiln_ir::numeric::{Element, Int};
use std::any::Any;
use std::borrow::Cow;

/// An element type that registers hold.
pub trait Register: Element {
    /// The elements of a register, which must be of this type.
    fn of(data: &Data) -> Result<&[Self], Trap> {
        let elements = each_vec!(data, v => (v as &dyn Any).downcast_ref::<Vec<Self>>());
        elements.map(Vec::as_slice).ok_or_else(|| Trap::wrong_type(Self::SCALAR, data.elem()))
    }

    /// The elements of a register, to write.
    fn of_mut(data: &mut Data) -> Result<&mut [Self], Trap> {
        let elem = data.elem();
        let elements = each_vec!(data, v => (v as &mut dyn Any).downcast_mut::<Vec<Self>>());
        elements.map(Vec::as_mut_slice).ok_or_else(|| Trap::wrong_type(Self::SCALAR, elem))
    }

    /// Reads an element from memory of any alignment.
    ///
    /// # Safety
    /// `at` points to `SCALAR.bytes()` readable, initialized bytes.
    unsafe fn read(at: *const u8) -> Self {
        // SAFETY: the caller's promise; as many bytes are read as the type has, and every bit
        // pattern is an integer.
        let bits = unsafe {
            match Self::SCALAR.bytes() {
                1 => at.read().into(),
                2 => at.cast::<u16>().read_unaligned().into(),
                4 => at.cast::<u32>().read_unaligned().into(),
                _ => at.cast::<u64>().read_unaligned(),
            }
        };
        Self::of_bits(bits)
    }

    /// Writes an element to memory of any alignment.
    ///
    /// # Safety
    /// `at` points to `SCALAR.bytes()` writable bytes.
    unsafe fn write(self, at: *mut u8) {
        // SAFETY: the caller's promise; an element is as large in memory as its IR type.
        unsafe { at.cast::<Self>().write_unaligned(self) }
    }
}

impl<T: Element> Register for T {}

impl Data {
    /// The elements of an integer register as indices; an u64 too large for one is the largest.
    pub fn indices(&self) -> Result<Cow<'_, [i64]>, Trap> {
        if let Data::I64(v) = self {
            return Ok(Cow::Borrowed(v));
        }
        dispatch!(int self.elem(), T => Ok(T::of(self)?.iter().map(|x| x.to_index()).collect()))
    }

    /// Takes over all elements of a register of the same type and length.
    pub fn copy(&mut self, from: &Data) -> Result<(), Trap> {
        if self.len() != from.len() {
            return Err(Trap::Bug(format!("{} elements assigned to {}", from.len(), self.len())));
        }
        dispatch!(any self.elem(), T => {
            T::of_mut(self)?.copy_from_slice(T::of(from)?);
            Ok(())
        })
    }

    /// Takes over elements from a position on.
    pub fn copy_range(&mut self, at: usize, from: &Data) -> Result<(), Trap> {
        dispatch!(any self.elem(), T => {
            let (to, from) = (T::of_mut(self)?, T::of(from)?);
            to[at..at + from.len()].copy_from_slice(from);
            Ok(())
        })
    }

    /// Adjacent columns of a matrix with rows of `width`.
    pub fn columns(&self, width: usize, first: usize, count: usize) -> Result<Data, Trap> {
        let mut out = Data::zeros(self.elem(), self.len() / width * count);
        dispatch!(any self.elem(), T => {
            let rows = T::of_mut(&mut out)?.chunks_exact_mut(count).zip(T::of(self)?.chunks_exact(width));
            rows.for_each(|(to, from)| to.copy_from_slice(&from[first..first + count]));
            Ok(())
        })?;
        Ok(out)
    }

    /// Takes over the elements of the active threads.
    pub fn copy_lanes(&mut self, from: &Data, mask: &Mask) -> Result<(), Trap> {
        if mask.is_full() {
            return self.copy(from);
        }
        dispatch!(any self.elem(), T => {
            let (to, from) = (T::of_mut(self)?, T::of(from)?);
            for lane in mask.lanes() {
                to[lane] = from[lane];
            }
            Ok(())
        })
    }
}

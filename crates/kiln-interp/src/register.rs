//! Elements in registers and in memory.

use crate::value::{Data, Trap, each_vec};
use kiln_ir::numeric::Element;
use std::any::Any;

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

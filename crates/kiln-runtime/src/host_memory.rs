//! Host memory of a size that a tensor's shape decides: an allocation that fails is an error.

use crate::error::{Error, Result};
use kiln_lang::Elem;
use std::alloc::{Layout, alloc_zeroed};

/// Returns `len` elements of zero bits.
///
/// `vec!` ends the process where there is no memory for them, and `Vec::resize` writes every page
/// that the system gives zeroed anyway.
pub(crate) fn zeroed<T: Elem>(len: usize) -> Result<Vec<T>> {
    let none = |bytes| Error::HostMemory { bytes };
    let layout = Layout::array::<T>(len).map_err(|_| none(usize::MAX))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(none(layout.size()));
    }
    // SAFETY: allocated by the global allocator with the layout of `len` elements, each of which is
    // valid: no element type refuses zero bits.
    Ok(unsafe { Vec::from_raw_parts(memory.cast(), len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_does_not_have_is_an_error() {
        assert_eq!(zeroed::<f64>(3).ok(), Some(vec![0.0; 3]));
        assert_eq!(zeroed::<bool>(2).ok(), Some(vec![false; 2]));
        assert_eq!(zeroed::<u64>(0).ok(), Some(vec![]));
        let text = zeroed::<u64>(1 << 50).unwrap_err().to_string();
        assert_eq!(text, "the host has no memory for 9007199254740992 bytes of a tensor's elements");
        assert!(matches!(zeroed::<u64>(usize::MAX), Err(Error::HostMemory { bytes: usize::MAX })));
    }
}

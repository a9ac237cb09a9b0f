//! Ranges of bytes in a buffer.

use super::error::{CudaError, Result};

/// Whether `bytes` at `offset` are inside `length`.
pub(super) fn check_range(offset: usize, bytes: usize, length: usize) -> Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        _ => Err(CudaError::OutOfRange { offset, bytes, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (offset, bytes) in [(0, 0), (0, 10), (10, 0), (3, 7)] {
            assert_eq!(check_range(offset, bytes, 10), Ok(()));
        }
        for (offset, bytes) in [(0, 11), (11, 0), (4, 7), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(
                check_range(offset, bytes, 10),
                Err(CudaError::OutOfRange { offset, bytes, length: 10 })
            );
        }
    }
}

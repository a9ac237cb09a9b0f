//! Pointers into device memory, as numbers of allocations and offsets.
//!
//! A [`DevicePtr`] has the number of an allocation in its upper bits and a byte offset in its lower
//! [`OFFSET_BITS`], so that adding to a pointer moves inside its allocation and a pointer is split
//! without a search. Number 0 is no allocation: it is what views without elements point to.

use kiln_backend::{BufferBinding, DevicePtr};

/// The bits of a pointer that are an offset: allocations of up to 1 TiB, 2^24 of them at once.
pub(crate) const OFFSET_BITS: u32 = 40;

/// A place in an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocationOffset {
    /// The number of the allocation, from 1; 0 for the buffer of views without elements.
    pub(crate) allocation: usize,
    /// In bytes.
    pub(crate) offset: u64,
}

impl AllocationOffset {
    pub(crate) fn of(ptr: DevicePtr) -> AllocationOffset {
        AllocationOffset {
            allocation: (ptr.0 >> OFFSET_BITS) as usize,
            offset: ptr.0 & ((1 << OFFSET_BITS) - 1),
        }
    }

    /// Where a view begins. It stays in its allocation, whatever the offset.
    pub(crate) fn of_view(view: &BufferBinding) -> AllocationOffset {
        let AllocationOffset { allocation, offset } = AllocationOffset::of(view.buffer);
        AllocationOffset { allocation, offset: offset.saturating_add(view.byte_offset) }
    }

    pub(crate) fn pointer(self) -> DevicePtr {
        DevicePtr((self.allocation as u64) << OFFSET_BITS | self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_an_allocation_and_an_offset() {
        let start = AllocationOffset { allocation: 7, offset: 0 }.pointer();
        assert_eq!(
            AllocationOffset::of(DevicePtr(start.0 + 12_345)),
            AllocationOffset { allocation: 7, offset: 12_345 }
        );
        assert_eq!(start.0 % 256, 0);
        assert_eq!(AllocationOffset::of(DevicePtr(0)).allocation, 0);
        let last = AllocationOffset { allocation: (1 << 24) - 1, offset: (1 << OFFSET_BITS) - 1 };
        assert_eq!(AllocationOffset::of(last.pointer()), last);
    }
}

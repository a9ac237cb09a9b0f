//! Tensor maps: what the GPU's copy engine must know of a tensor to move boxes of it.

use super::context::Context;
use super::error::Result;
use super::ffi::{self, Address};
use std::ffi::c_void;

/// An encoded map: opaque, and passed to a kernel by value.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap([u64; TensorMap::WORDS]);

/// The driver's numbers of element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MapElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    I32 = 3,
    U64 = 4,
    I64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    BF16 = 9,
}

/// A tensor and the box that is moved. Axes go from the fastest to the slowest.
#[derive(Debug, Clone, Copy)]
pub struct MapShape<'a> {
    /// The element type.
    pub elem: MapElement,
    /// Where element 0 is; a multiple of 16.
    pub base: Address,
    /// Elements along each axis, 1 to 2^32; 1 to 5 axes.
    pub extents: &'a [u64],
    /// Bytes from one element to the next on all axes but the first, on which they are adjacent:
    /// multiples of 16 below 2^40.
    pub strides: &'a [u64],
    /// The box: 1 to 256 elements along each axis, 128 bytes along the first.
    pub extents_of_box: &'a [u32],
}

impl TensorMap {
    const WORDS: usize = 16;

    /// Encodes a map for boxes whose rows of 128 bytes are swizzled in shared memory. Elements
    /// outside the tensor are zero.
    ///
    /// # Errors
    /// Those of the call, among them a shape that is out of range.
    pub fn encode(context: &Context, shape: &MapShape<'_>) -> Result<TensorMap> {
        let rank = shape.extents.len();
        debug_assert!(shape.strides.len() + 1 == rank && shape.extents_of_box.len() == rank);
        let mut map = TensorMap([0; TensorMap::WORDS]);
        let steps = [1u32; 5];
        // SAFETY: the map is writable and aligned to 64 bytes; the lists are as long as the rank
        // says (strides one less), and the driver reads them during the call only. It does not
        // touch the tensor.
        unsafe {
            context.api().cuTensorMapEncodeTiled(
                (&raw mut map).cast::<c_void>(),
                shape.elem as i32,
                rank as u32,
                shape.base,
                shape.extents.as_ptr(),
                shape.strides.as_ptr(),
                shape.extents_of_box.as_ptr(),
                steps.as_ptr(),
                ffi::MAP_INTERLEAVE_NONE,
                ffi::MAP_SWIZZLE_128,
                ffi::MAP_PROMOTE_256,
                ffi::MAP_FILL_ZERO,
            )
        }?;
        Ok(map)
    }
}

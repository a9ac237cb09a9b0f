//! Tiles of views: the box of a view that begins at an offset, with what lies outside the view's
//! extents masked.

use super::element::Element;
use super::signature::{BoxAxis, BoxFn, CopyAxis};
use super::streaming::{end_streaming, stream};
use super::strided::copy_axes;
use kiln_ir::Scalar;
use std::ops::Range;

/// The primitive that loads a tile.
pub(crate) fn load(scalar: Scalar) -> BoxFn {
    match scalar.bytes() {
        1 => load_box::<u8>,
        2 => load_box::<u16>,
        4 => load_box::<u32>,
        _ => load_box::<u64>,
    }
}

/// The primitive that stores a tile.
pub(crate) fn store(scalar: Scalar) -> BoxFn {
    match scalar.bytes() {
        1 => store_box::<u8, false>,
        2 => store_box::<u16, false>,
        4 => store_box::<u32, false>,
        _ => store_box::<u64, false>,
    }
}

/// The primitive that stores a tile past the caches.
pub(crate) fn store_streaming(scalar: Scalar) -> BoxFn {
    match scalar.bytes() {
        1 => store_box::<u8, true>,
        2 => store_box::<u16, true>,
        4 => store_box::<u32, true>,
        _ => store_box::<u64, true>,
    }
}

impl BoxAxis {
    /// What a scalar's missing axis would be.
    const WHOLE: BoxAxis = BoxAxis { tile: 1, offset: 0, extent: 1, stride: 1 };

    /// The part of the tile that lies within the view.
    #[inline]
    fn inside(&self) -> Range<i64> {
        let start = self.offset.saturating_neg().clamp(0, self.tile);
        start..self.extent.saturating_sub(self.offset).clamp(start, self.tile)
    }

    /// Whether all of the tile does.
    #[inline]
    fn is_inside(&self) -> bool {
        self.offset >= 0 && self.tile <= self.extent.saturating_sub(self.offset)
    }
}

/// A copy of a box's inside, as few axes as describe it.
struct BoxCopy {
    axes: [CopyAxis; BoxCopy::MAX_RANK],
    rank: usize,
    /// Where the inside begins in the view and in the tile, in elements.
    view_start: i64,
    tile_start: i64,
}

impl BoxCopy {
    /// Boxes of more axes are taken apart first.
    const MAX_RANK: usize = 8;

    /// From the tile to the view. `axes` are at most `MAX_RANK`.
    #[inline]
    fn to_view(axes: &[BoxAxis]) -> BoxCopy {
        let none = CopyAxis { extent: 0, to_stride: 0, from_stride: 0 };
        let mut copy = BoxCopy { axes: [none; BoxCopy::MAX_RANK], rank: 0, view_start: 0, tile_start: 0 };
        let mut tile_stride = axes.iter().map(|axis| axis.tile).product::<i64>();
        for axis in axes {
            tile_stride /= axis.tile.max(1);
            let inside = axis.inside();
            copy.view_start = copy
                .view_start
                .wrapping_add(axis.offset.wrapping_add(inside.start).wrapping_mul(axis.stride));
            copy.tile_start += inside.start * tile_stride;
            copy.push(CopyAxis {
                extent: inside.end - inside.start,
                to_stride: axis.stride,
                from_stride: tile_stride,
            });
        }
        copy
    }

    /// Appends an inner axis, or merges it with the last one if the two run through memory as one
    /// on both sides.
    #[inline]
    fn push(&mut self, axis: CopyAxis) {
        if let Some(last) = self.axes[..self.rank].last_mut()
            && last.to_stride == axis.to_stride.wrapping_mul(axis.extent)
            && last.from_stride == axis.from_stride.wrapping_mul(axis.extent)
        {
            *last = CopyAxis { extent: last.extent * axis.extent, ..axis };
        } else {
            self.axes[self.rank] = axis;
            self.rank += 1;
        }
    }

    /// The other direction.
    #[inline]
    fn reverse(mut self) -> BoxCopy {
        for axis in &mut self.axes[..self.rank] {
            std::mem::swap(&mut axis.to_stride, &mut axis.from_stride);
        }
        self
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.axes[..self.rank].iter().any(|axis| axis.extent <= 0)
    }
}

/// # Safety
/// As for [`BoxFn`].
#[inline]
unsafe fn axes_of<'a>(axes: *const BoxAxis, rank: usize) -> &'a [BoxAxis] {
    // SAFETY: the caller passed `rank` readable axes; without any, the pointer may be null.
    if rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(axes, rank) } }
}

/// # Safety
/// As for [`BoxFn`].
unsafe extern "C" fn load_box<T: Element>(
    tile: *mut u8,
    view: *mut u8,
    axes: *const BoxAxis,
    rank: usize,
    padding: u64,
) {
    // SAFETY: the caller's.
    unsafe { load_axes(tile.cast::<T>(), view.cast::<T>(), axes_of(axes, rank), T::from_bits(padding)) }
}

/// # Safety
/// As for [`BoxFn`], for the box that `axes` describe.
unsafe fn load_axes<T: Element>(tile: *mut T, view: *const T, axes: &[BoxAxis], padding: T) {
    let (first, rest) = axes.split_first().unwrap_or((&BoxAxis::WHOLE, &[]));
    let slab = rest.iter().map(|axis| axis.tile).product::<i64>();
    let inside = first.inside();
    // SAFETY: slabs 0..tile make up the tile; those inside are loaded from places inside the view
    // on this axis.
    unsafe {
        fill(tile, 0..inside.start * slab, padding);
        if axes.len() <= BoxCopy::MAX_RANK && rest.iter().all(BoxAxis::is_inside) {
            let copy = BoxCopy::to_view(axes).reverse();
            if !copy.is_empty() {
                let tile = tile.offset(copy.tile_start as isize);
                copy_axes(tile, view.wrapping_offset(copy.view_start as isize), &copy.axes[..copy.rank]);
            }
        } else {
            for i in inside.clone() {
                let slab_view = view.wrapping_offset((first.offset + i).wrapping_mul(first.stride) as isize);
                load_axes(tile.offset((i * slab) as isize), slab_view, rest, padding);
            }
        }
        fill(tile, inside.end * slab..first.tile * slab, padding);
    }
}

/// # Safety
/// `tile` is valid for writes of this range.
#[inline]
unsafe fn fill<T: Element>(tile: *mut T, range: Range<i64>, padding: T) {
    if range.start < range.end {
        // SAFETY: the caller's; every bit pattern is a valid element.
        unsafe {
            let start = tile.offset(range.start as isize);
            std::slice::from_raw_parts_mut(start, (range.end - range.start) as usize).fill(padding);
        }
    }
}

/// # Safety
/// As for [`BoxFn`].
unsafe extern "C" fn store_box<T: Element, const STREAM: bool>(
    tile: *mut u8,
    view: *mut u8,
    axes: *const BoxAxis,
    rank: usize,
    _padding: u64,
) {
    // SAFETY: the caller's.
    unsafe { store_axes::<T, STREAM>(tile.cast::<T>(), view.cast::<T>(), axes_of(axes, rank)) }
    if STREAM {
        end_streaming();
    }
}

/// # Safety
/// As for [`BoxFn`], for the box that `axes` describe.
unsafe fn store_axes<T: Element, const STREAM: bool>(tile: *const T, view: *mut T, axes: &[BoxAxis]) {
    if axes.len() <= BoxCopy::MAX_RANK {
        let copy = BoxCopy::to_view(axes);
        if !copy.is_empty() {
            // SAFETY: only the inside of the box is written.
            unsafe {
                let tile = tile.offset(copy.tile_start as isize);
                let view = view.wrapping_offset(copy.view_start as isize);
                store_inside::<T, STREAM>(view, tile, &copy.axes[..copy.rank]);
            }
        }
        return;
    }
    let Some((first, rest)) = axes.split_first() else { return };
    let slab = rest.iter().map(|axis| axis.tile).product::<i64>();
    for i in first.inside() {
        let slab_view = view.wrapping_offset((first.offset + i).wrapping_mul(first.stride) as isize);
        // SAFETY: slab `i` is in the tile and inside the view on this axis.
        unsafe { store_axes::<T, STREAM>(tile.offset((i * slab) as isize), slab_view, rest) }
    }
}

/// # Safety
/// As for [`copy_axes`].
unsafe fn store_inside<T: Element, const STREAM: bool>(view: *mut T, tile: *const T, axes: &[CopyAxis]) {
    // SAFETY: every offset is that of an element which the axes address.
    unsafe {
        match axes {
            [row] if STREAM && (row.to_stride, row.from_stride) == (1, 1) => {
                stream(view.cast(), tile.cast(), row.extent as usize * size_of::<T>());
            }
            [first, rest @ ..] if STREAM && !rest.is_empty() => {
                for i in 0..first.extent {
                    let slab = tile.offset((i * first.from_stride) as isize);
                    store_inside::<T, STREAM>(view.offset((i * first.to_stride) as isize), slab, rest);
                }
            }
            _ => copy_axes(view, tile, axes),
        }
    }
}

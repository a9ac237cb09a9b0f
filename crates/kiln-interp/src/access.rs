//! Access to memory through views: boxes of tiles, and element by element.

use crate::async_copy::begin;
use crate::eval::{advance, combine};
use crate::in_flight::{InFlightCopy, WIDEST};
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::Spaces;
use crate::trap::Trap;
use crate::value::{Data, View, dispatch};
use kiln_backend::{FaultKind, Finding};
use kiln_ir::numeric::Element;
use kiln_ir::{AtomicOp, Bounds, Shape};
use std::borrow::Cow;
use std::ops::Range;

/// A box of a view: its first index on each axis, and its shape, of rank 1 or more.
pub struct Region<'a> {
    /// The view.
    pub view: &'a View,
    /// The first index on each axis.
    pub offsets: &'a [i64],
    /// The extents of the box.
    pub shape: &'a Shape,
}

impl Region<'_> {
    /// Calls `visit` on each row along the last axis: its positions in the box, those of them
    /// inside the view, and the address of the first of these.
    fn rows(
        &self,
        mut visit: impl FnMut(Range<usize>, Range<usize>, u64) -> Result<(), Trap>,
    ) -> Result<(), Trap> {
        let last = self.shape.rank() - 1;
        let width = self.shape[last] as usize;
        let valid = inside(self.offsets[last], self.view.extents[last], width);
        let mut index = vec![0u32; last];
        for row in 0..self.shape.len() / width {
            let mut position = Position::default();
            position.step(self.offsets[last].wrapping_add(valid.start as i64), self.view.strides[last]);
            let mut outside = false;
            for (axis, &i) in index.iter().enumerate() {
                let at = self.offsets[axis].checked_add(i.into());
                outside |= at.is_none_or(|at| at < 0 || at >= self.view.extents[axis]);
                position.step(at.unwrap_or(0), self.view.strides[axis]);
            }
            let valid = if outside { 0..0 } else { valid.clone() };
            let all = row * width..(row + 1) * width;
            visit(all, valid, position.address(self.view))?;
            advance(&mut index, self.shape.extents());
        }
        Ok(())
    }

    fn place(&self, address: u64) -> MemoryAccess {
        MemoryAccess { space: self.view.space, address, lane: None, atomic: false }
    }

    /// The distance of adjacent elements of a row, in bytes.
    fn step(&self) -> u64 {
        (self.view.strides[self.shape.rank() - 1] as u64).wrapping_mul(self.view.elem_bytes)
    }
}

/// The positions of a row of `width` elements from index `first` that lie inside an extent.
fn inside(first: i64, extent: i64, width: usize) -> Range<usize> {
    let clamp = |x: i128| x.clamp(0, width as i128) as usize;
    let start = clamp(-i128::from(first));
    start..clamp(i128::from(extent) - i128::from(first)).max(start)
}

/// The distance of an element from element 0. It wraps at 64 bits, as addresses do; where that
/// leaves the view's memory, the access is caught there.
#[derive(Default)]
struct Position(u64);

impl Position {
    fn step(&mut self, index: i64, stride: i64) {
        self.0 = self.0.wrapping_add(index.wrapping_mul(stride) as u64);
    }

    fn address(self, view: &View) -> u64 {
        view.base.wrapping_add(self.0.wrapping_mul(view.elem_bytes))
    }
}

/// Loads a box; elements outside the view are the padding.
pub fn load(spaces: &mut Spaces, region: &Region, padding: u64, out: &mut Data) -> Result<(), Trap> {
    dispatch!(any out.elem(), T => {
        let out = T::of_mut(out)?;
        let padding = T::of_bits(padding);
        region.rows(|all, valid, address| {
            let row = &mut out[all];
            row[..valid.start].fill(padding);
            row[valid.end..].fill(padding);
            let row = &mut row[valid];
            if region.step() == region.view.elem_bytes && !row.is_empty() {
                return spaces.read(region.place(address), row);
            }
            for (i, element) in row.iter_mut().enumerate() {
                let address = address.wrapping_add(region.step().wrapping_mul(i as u64));
                spaces.read(region.place(address), std::slice::from_mut(element))?;
            }
            Ok(())
        })
    })
}

/// Stores a box; elements outside the view are dropped.
pub fn store(spaces: &mut Spaces, region: &Region, tile: &Data) -> Result<(), Trap> {
    dispatch!(any tile.elem(), T => {
        let tile = T::of(tile)?;
        region.rows(|all, valid, address| {
            let row = &tile[all][valid];
            if region.step() == region.view.elem_bytes && !row.is_empty() {
                return spaces.write(region.place(address), row);
            }
            for (i, element) in row.iter().enumerate() {
                let address = address.wrapping_add(region.step().wrapping_mul(i as u64));
                spaces.write(region.place(address), std::slice::from_ref(element))?;
            }
            Ok(())
        })
    })
}

/// Combines the elements of a box with those of a tile, each atomically; those outside the view are
/// dropped.
pub fn combine_box(spaces: &mut Spaces, region: &Region, op: AtomicOp, tile: &Data) -> Result<(), Trap> {
    let update = atomic(op, tile);
    dispatch!(any tile.elem(), T => {
        region.rows(|all, valid, address| {
            for (at, i) in valid.enumerate() {
                let address = address.wrapping_add(region.step().wrapping_mul(at as u64));
                let place = MemoryAccess { atomic: true, ..region.place(address) };
                exchange(spaces, place, |old: T| update(all.start + i, old.bits()))?;
            }
            Ok(())
        })
    })
}

/// The elements of a view that an operation names one by one.
pub struct Elements<'a> {
    /// The view.
    pub view: &'a View,
    /// An index for each element, on each axis.
    pub indices: Vec<Cow<'a, [i64]>>,
    /// The elements that take part, if not all do.
    pub chosen: Option<&'a [bool]>,
    /// The active threads, for an operation of rank 0, whose elements are the threads'.
    pub threads: Option<&'a Mask>,
    /// What an index outside the extents does.
    pub bounds: Bounds,
    /// Whether the accesses are atomic.
    pub atomic: bool,
    /// Whether what is stored arrives when it is waited for.
    pub asynchronous: bool,
}

impl Elements<'_> {
    /// Finds the fault of a checked index before anything is written: an operation that faults
    /// changes no memory.
    fn check(&self, len: usize) -> Result<(), Trap> {
        match self.bounds {
            Bounds::Check => (0..len).try_for_each(|i| self.place(i).map(drop)),
            Bounds::Mask | Bounds::Trust => Ok(()),
        }
    }

    /// Where element `i` lies; `None` if it takes no part.
    fn place(&self, i: usize) -> Result<Option<MemoryAccess>, Trap> {
        let lane = self.threads.map(|_| i);
        if self.threads.is_some_and(|m| !m.has(i)) || self.chosen.is_some_and(|c| !c[i]) {
            return Ok(None);
        }
        let mut position = Position::default();
        for (axis, index) in self.indices.iter().enumerate() {
            let (index, extent) = (index[i], self.view.extents[axis]);
            if index < 0 || index >= extent {
                let kind = match self.bounds {
                    Bounds::Mask => return Ok(None),
                    Bounds::Check => FaultKind::OutOfBounds { index, extent },
                    Bounds::Trust => FaultKind::Sanitizer {
                        finding: Finding::BrokenTrust,
                        detail: format!("index {index} on axis {axis} for extent {extent}"),
                    },
                };
                return Err(Trap::Fault { kind, lane });
            }
            position.step(index, self.view.strides[axis]);
        }
        let address = position.address(self.view);
        Ok(Some(MemoryAccess { space: self.view.space, address, lane, atomic: self.atomic }))
    }

    /// Loads element by element; `padding` gives those that take no part.
    pub fn gather(
        &self,
        spaces: &mut Spaces,
        padding: impl Fn(usize) -> u64,
        out: &mut Data,
    ) -> Result<(), Trap> {
        dispatch!(any out.elem(), T => {
            for (i, o) in T::of_mut(out)?.iter_mut().enumerate() {
                match self.place(i)? {
                    Some(place) => spaces.read(place, std::slice::from_mut(o))?,
                    None => *o = T::of_bits(padding(i)),
                }
            }
            Ok(())
        })
    }

    /// Stores element by element.
    pub fn scatter(&self, spaces: &mut Spaces, values: &Data) -> Result<(), Trap> {
        self.check(values.len())?;
        dispatch!(any values.elem(), T => {
            for (i, value) in T::of(values)?.iter().enumerate() {
                match self.place(i)? {
                    Some(place) if self.asynchronous => {
                        let mut bytes = [0; WIDEST];
                        let len = size_of::<T>();
                        bytes[..len].copy_from_slice(&value.bits().to_le_bytes()[..len]);
                        begin(spaces, InFlightCopy { to: place, bytes, len })?;
                    }
                    Some(place) => spaces.write(place, std::slice::from_ref(value))?,
                    None => {}
                }
            }
            Ok(())
        })
    }

    /// Replaces each element by what `update` makes of its position and its old value, in order,
    /// and gives the old values; 0 for elements that take no part.
    pub fn update(
        &self,
        spaces: &mut Spaces,
        out: &mut Data,
        update: impl Fn(usize, u64) -> Result<u64, Trap>,
    ) -> Result<(), Trap> {
        self.check(out.len())?;
        dispatch!(any out.elem(), T => {
            for (i, o) in T::of_mut(out)?.iter_mut().enumerate() {
                *o = match self.place(i)? {
                    Some(place) => exchange(spaces, place, |old: T| update(i, old.bits()))?,
                    None => T::of_bits(0),
                };
            }
            Ok(())
        })
    }
}

/// One read-modify-write; gives the old value.
pub fn exchange<T: Element>(
    spaces: &mut Spaces,
    place: MemoryAccess,
    update: impl FnOnce(T) -> Result<u64, Trap>,
) -> Result<T, Trap> {
    let mut old = [T::of_bits(0)];
    spaces.read(place, &mut old)?;
    spaces.write(place, &[T::of_bits(update(old[0])?)])?;
    Ok(old[0])
}

/// The update of an atomic operation with these operands.
pub fn atomic<'a>(op: AtomicOp, values: &'a Data) -> impl Fn(usize, u64) -> Result<u64, Trap> + 'a {
    move |i, old| combine(op, values.elem(), old, values.bits(i))
}

/// The update of an atomic compare and exchange, which compares bits.
pub fn compare_exchange<'a>(
    expected: &'a Data,
    desired: &'a Data,
) -> impl Fn(usize, u64) -> Result<u64, Trap> + 'a {
    move |i, old| Ok(if old == expected.bits(i) { desired.bits(i) } else { old })
}

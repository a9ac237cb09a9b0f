//! Moving elements of tiles: in pairs, in runs, and to any place of an axis.
//!
//! Pairs (`split`, `join`, `interleave`) and runs that begin at a multiple of their length are made
//! of selections, so that they move no element between threads that need not move. All others pass
//! through memory of the block, as a change of layout does.

use super::axis::{Axis, chosen, compared, counted_along, int, picked, scalar_of, seen_as};
use super::shape::checked_shape;
use super::{common_shape, elementwise};
use crate::elem::{Elem, Int};
use crate::trace::{Id, Raw, Recorder, Site, error, with};
use crate::val::{Val, shape_of};
use kiln_ir::{BinaryOp, Bounds, CompareOp, Literal, OpKind, Reuse, Scalar, Shape, Type};
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;

/// Elements in other places.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(8);
/// let halves = [x.slice(0, 0..4), x.slice(0, 4..8)];
/// let swapped = halves[1].concat(halves[0], 0);
/// let paired = halves[0].interleave(halves[1]);
/// assert_eq!((swapped.shape(), paired.flip(0).shape()), (vec![8], vec![8]));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl<T: Elem> Val<T> {
    /// Divides the pairs of the last axis, whose extent is 2: all first elements, and all second
    /// ones. [`join`](Val::join) undoes it.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// Complex numbers times i, of which real and imaginary parts alternate.
    /// fn times_i(z: Val<f32>) -> Val<f32> {
    ///     let (re, im) = z.split();
    ///     (-im).join(re)
    /// }
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(times_i(iota(16).reshape([8, 2])).shape(), [8, 2]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn split(self) -> (Val<T>, Val<T>) {
        let [first, second] = split(self.raw(), Location::caller());
        (Val::from_raw(first), Val::from_raw(second))
    }

    /// Pairs the elements of two tiles, which stretch to one shape: the result has one more axis,
    /// the last, whose extent is 2.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let x = iota::<f32>(8);
    /// assert_eq!(x.join(x * x).shape(), [8, 2]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn join(self, other: Val<T>) -> Val<T> {
        Val::from_raw(join(self.raw(), other.raw(), Location::caller()))
    }

    /// The elements of two tiles by turns: the last axis has twice the extent.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let (even, odd) = (iota::<i32>(8) * 2, iota::<i32>(8) * 2 + 1);
    /// let all = even.interleave(odd); // 0, 1, 2, … 15
    /// assert_eq!(all.shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn interleave(self, other: Val<T>) -> Val<T> {
        Val::from_raw(interleave(self.raw(), other.raw(), Location::caller()))
    }

    /// This tile and behind it another one on an axis; on the other axes they have equal extents.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, zeros, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let padded = iota::<f32>(12).concat(zeros(4), 0);
    /// assert_eq!(padded.shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn concat(self, other: Val<T>, axis: usize) -> Val<T> {
        Val::from_raw(concat([self.raw(), other.raw()], axis, Location::caller()))
    }

    /// The elements of an axis from the last to the first.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// Whether each row reads the same from both ends.
    /// fn palindromes(rows: Val<u32>) -> Val<bool> {
    ///     rows.eq(rows.flip(1)).all_axis(1)
    /// }
    /// ```
    #[track_caller]
    pub fn flip(self, axis: usize) -> Val<T> {
        Val::from_raw(flip(self.raw(), axis, Location::caller()))
    }

    /// A part of an axis, which the host knows. A part that begins at a multiple of its length
    /// costs least.
    ///
    /// ```
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let x = iota::<f32>(64).reshape([4, 16]);
    /// let (left, right) = (x.slice(1, 0..8), x.slice(1, 8..16));
    /// assert_eq!((left + right).shape(), [4, 8]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn slice(self, axis: usize, part: Range<usize>) -> Val<T> {
        Val::from_raw(slice(self.raw(), axis, part, Location::caller()))
    }

    /// The elements at a tile of indices along an axis: of a matrix and axis 1, element `[i, j]` of
    /// the result is element `[i, index[i, j]]`. The other axes of the index are as long as the
    /// tile's, or 1. An index outside the axis gives zero.
    ///
    /// The tile passes through memory of the block, which every element needs room in.
    ///
    /// ```
    /// use kiln_lang::{Val, iota};
    ///
    /// /// Each row turned by one to the left.
    /// fn turned(x: Val<f32>) -> Val<f32> {
    ///     let n = x.shape()[1];
    ///     x.gather((iota::<i32>(n) + 1) % n, 1)
    /// }
    /// # use kiln_lang::{trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(turned(iota(32).reshape([2, 16])).shape(), [2, 16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn gather<I: Int>(self, index: Val<I>, axis: usize) -> Val<T> {
        Val::from_raw(gather(self.raw(), index.raw(), axis, Location::caller()))
    }
}

fn split(raw: Raw, site: Site) -> [Raw; 2] {
    let Some(shape) = shape_of(raw) else { return [Raw::Poison; 2] };
    let last = shape.rank().saturating_sub(1);
    if shape.extents().last() != Some(&2) {
        let message = format!("`split` divides pairs, and the last axis of shape {shape} is no pair");
        error(site, message, "reshape the tile to a last axis of 2 first");
        return [Raw::Poison; 2];
    }
    [0, 1].map(|index| picked(raw, last, index, site))
}

fn join(a: Raw, b: Raw, site: Site) -> Raw {
    let Some(shape) = with(|r| common_shape(r, &[a, b], site)).flatten() else { return Raw::Poison };
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    extents.push(1);
    let column = Shape::new(&extents);
    let [a, b] = [a, b].map(|raw| seen_as(stretched(raw, &shape, site), &column, site));
    let first = compared(CompareOp::Eq, counted_along(2, 0, site), int(0), site);
    chosen(first, a, b, site)
}

/// A value stretched to a shape.
pub(crate) fn stretched(raw: Raw, shape: &Shape, site: Site) -> Raw {
    Raw::of(with(|r| r.read_as(raw, shape, site)).flatten())
}

fn interleave(a: Raw, b: Raw, site: Site) -> Raw {
    let pairs = join(a, b, site);
    let Some(shape) = shape_of(pairs) else { return Raw::Poison };
    let [rest @ .., _] = shape.extents() else { return Raw::Poison };
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(rest);
    match extents.last_mut() {
        Some(last) => *last *= 2,
        // Of two scalars the pair.
        None => return pairs,
    }
    seen_as(pairs, &Shape::new(&extents), site)
}

fn concat([a, b]: [Raw; 2], axis: usize, site: Site) -> Raw {
    let (Some(first), Some(second)) = (shape_of(a), shape_of(b)) else { return Raw::Poison };
    let Some(axis) = Axis::of(first.clone(), axis, site) else { return Raw::Poison };
    let fits = second.rank() == first.rank() && axis.with_len(1) == with_len(&second, axis.at, 1);
    if !fits {
        let message = format!("tiles of shapes {first} and {second} do not fit together on axis {}", axis.at);
        error(site, message, "all other axes have equal extents; see `reshape` and `broadcast_to`");
        return Raw::Poison;
    }
    let sum = axis.len + second[axis.at];
    let whole: SmallVec<[usize; 4]> = axis.with_len(sum).extents().iter().map(|&e| e as usize).collect();
    let Some(whole) = checked_shape(&whole, site) else { return Raw::Poison };
    if second[axis.at] == axis.len {
        // Two halves: a pair along a new axis before this one.
        let half = axis.split_into(&[1, axis.len]);
        let [a, b] = [a, b].map(|raw| seen_as(raw, &half, site));
        let first = compared(CompareOp::Eq, counted_along(2, 2, site), int(0), site);
        return seen_as(chosen(first, a, b, site), &whole, site);
    }
    let moved = Moved { axis: &axis, parts: &[(a, 0), (b, axis.len)], room: sum };
    moved.run(&whole, 0, None, "concat", site)
}

/// A shape with so many elements on an axis.
fn with_len(shape: &Shape, axis: usize, len: u32) -> Shape {
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    extents[axis] = len;
    Shape::new(&extents)
}

fn flip(raw: Raw, axis: usize, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    let Some(axis) = Axis::of(shape, axis, site) else { return Raw::Poison };
    let along = counted_along(axis.len, axis.shape.rank() - axis.at - 1, site);
    let from_end = elementwise(OpKind::Binary(BinaryOp::Sub), &[int(axis.len - 1), along], Scalar::I32, site);
    at_indices(raw, from_end, &axis, &axis.shape, (Bounds::Trust, "flip"), site)
}

/// A part of an axis.
pub(super) fn slice(raw: Raw, axis: usize, part: Range<usize>, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    let Some(axis) = Axis::of(shape, axis, site) else { return Raw::Poison };
    if part.start >= part.end || part.end > axis.len as usize {
        let message = format!("axis {} of shape {} has no part {part:?}", axis.at, axis.shape);
        error(site, message, "a part has at least one element, and ends within the axis");
        return Raw::Poison;
    }
    let (start, len) = (part.start as u32, (part.end - part.start) as u32);
    let result = axis.with_len(len);
    if len == axis.len {
        return seen_as(raw, &result, site);
    }
    if axis.len % len == 0 && start % len == 0 {
        let runs = seen_as(raw, &axis.split_into(&[axis.len / len, len]), site);
        return seen_as(picked(runs, 1, start / len, site), &result, site);
    }
    Moved { axis: &axis, parts: &[(raw, 0)], room: axis.len }.run(&result, start.into(), None, "slice", site)
}

/// The tiles at each index of the first axis, without it.
pub(super) fn unstacked(raw: Raw, name: &str, site: Site) -> Option<Vec<Raw>> {
    let shape = shape_of(raw)?;
    let axis = Axis::of(shape.clone(), 0, site)?;
    let (each, one) = (axis.removed(), axis.with_len(1));
    if axis.len == 1 {
        return Some(vec![seen_as(raw, &each, site)]);
    }
    if !may_move(name, site) {
        return None;
    }
    let elem = scalar_of(raw)?;
    let memory = with(|r| Moved { axis: &axis, parts: &[(raw, 0)], room: axis.len }.write(r, elem, site))??;
    let moved = Moved { axis: &axis, parts: &[], room: axis.len };
    let part = |at: u32| seen_as(moved.read(memory, elem, &one, at.into(), None, site), &each, site);
    Some((0..axis.len).map(part).collect())
}

/// Tiles of one shape as one, with an axis more before those that they have.
pub(super) fn stacked(tiles: &[Raw], name: &str, site: Site) -> Raw {
    let Some(each) = tiles.first().and_then(|&raw| shape_of(raw)) else { return Raw::Poison };
    let stack = |len: usize| {
        let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(&[len as u32]);
        extents.extend_from_slice(each.extents());
        Shape::new(&extents)
    };
    let ones: Vec<(Raw, u32)> =
        tiles.iter().zip(0..).map(|(&raw, at)| (seen_as(raw, &stack(1), site), at)).collect();
    if let [(only, _)] = ones[..] {
        return only;
    }
    let whole = stack(tiles.len());
    let Some(axis) = Axis::of(whole.clone(), 0, site) else { return Raw::Poison };
    Moved { axis: &axis, parts: &ones, room: axis.len }.run(&whole, 0, None, name, site)
}

/// A tile among so many elements on an axis, of which those before and behind it are `other`.
pub(super) fn padded(
    raw: Raw,
    axis: &Axis,
    (before, len): (u32, u32),
    other: Literal,
    name: &str,
    site: Site,
) -> Raw {
    let moved = Moved { axis, parts: &[(raw, 0)], room: axis.len };
    moved.run(&axis.with_len(len), -i64::from(before), Some(other), name, site)
}

fn gather(raw: Raw, index: Raw, axis: usize, site: Site) -> Raw {
    let (Some(shape), Some(indices)) = (shape_of(raw), shape_of(index)) else { return Raw::Poison };
    let Some(axis) = Axis::of(shape, axis, site) else { return Raw::Poison };
    // A vector of indices is one for each element of the axis, whatever axes are around.
    let inside = axis.shape.rank() - axis.at - 1;
    let len = match indices.rank().checked_sub(inside + 1) {
        Some(at) => indices[at],
        None => 1,
    };
    let result = axis.with_len(len);
    if indices.broadcast(&result).as_ref() != Some(&result) {
        let message = format!(
            "indices of shape {indices} do not fit axis {} of a tile of shape {}",
            axis.at, axis.shape
        );
        error(site, message, "all other axes of the indices are as long as the tile's, or 1");
        return Raw::Poison;
    }
    at_indices(raw, index, &axis, &result, (Bounds::Mask, "gather"), site)
}

/// The extents of an axis and of what is around it, without those of 1, and where the axis is.
fn folded_axes(axis: &Axis, len: u32) -> (Shape, usize) {
    let mut extents: SmallVec<[u32; 4]> = SmallVec::new();
    if axis.outer > 1 {
        extents.push(axis.outer);
    }
    let at = extents.len();
    extents.push(len);
    if axis.inner > 1 {
        extents.push(axis.inner);
    }
    (Shape::new(&extents), at)
}

/// Whether tiles may pass through memory of the block here; reports where they may not.
pub(super) fn may_move(name: &str, site: Site) -> bool {
    let in_task = with(|r| r.tasks > 0).unwrap_or(false);
    if in_task {
        let message =
            format!("`{name}` moves elements between all threads of the program, and this is a task");
        error(site, message, "do it before or after the tasks");
    }
    !in_task
}

/// Tiles that are written to memory of the block one after the other on an axis, and then read.
struct Moved<'a> {
    axis: &'a Axis,
    /// Each tile, and where it begins.
    parts: &'a [(Raw, u32)],
    /// Elements on the axis of the memory.
    room: u32,
}

impl Moved<'_> {
    /// The box of a shape that begins at an index of the axis. What lies outside the memory is
    /// `other`.
    fn run(&self, result: &Shape, start: i64, other: Option<Literal>, name: &str, site: Site) -> Raw {
        if !may_move(name, site) {
            return Raw::Poison;
        }
        let Some(elem) = self.parts.first().and_then(|(raw, _)| scalar_of(*raw)) else { return Raw::Poison };
        match with(|r| self.write(r, elem, site)).flatten() {
            Some(memory) => self.read(memory, elem, result, start, other, site),
            None => Raw::Poison,
        }
    }

    /// The box of a shape of the memory.
    fn read(
        &self,
        memory: Id,
        elem: Scalar,
        result: &Shape,
        start: i64,
        other: Option<Literal>,
        site: Site,
    ) -> Raw {
        let (shape, at) = folded_axes(self.axis, result[self.axis.at]);
        let read = with(|r| {
            let mut operands: SmallVec<[Id; 4]> = SmallVec::from_slice(&[memory]);
            push_offsets(r, &mut operands, shape.rank(), (at, start), site);
            let other = other.unwrap_or_else(|| Literal::zero(elem));
            operands.push(r.constant(other, Shape::scalar(), site));
            r.op(OpKind::Load(Reuse::Normal), &operands, Type::tile(elem, shape), site)
        });
        seen_as(Raw::of(read), result, site)
    }

    /// The memory with the tiles in it.
    fn write(&self, r: &mut Recorder, elem: Scalar, site: Site) -> Option<Id> {
        let (room, at) = folded_axes(self.axis, self.room);
        let memory = r.staging(elem, &room, site);
        for &(raw, start) in self.parts {
            let len = r.shape(raw)?[self.axis.at];
            let value = r.read(raw, site)?;
            let (shape, _) = folded_axes(self.axis, len);
            let value = r.op(OpKind::Reshape, &[value], Type::tile(elem, shape.clone()), site);
            let mut operands: SmallVec<[Id; 4]> = SmallVec::from_slice(&[memory]);
            push_offsets(r, &mut operands, shape.rank(), (at, start.into()), site);
            operands.push(value);
            r.effect(OpKind::Store { reuse: Reuse::Normal, disjoint: false }, &operands, site);
        }
        Some(memory)
    }
}

/// Where a box begins: at an index of one axis, and at 0 on the others.
fn push_offsets(
    r: &mut Recorder,
    operands: &mut SmallVec<[Id; 4]>,
    rank: usize,
    (at, start): (usize, i64),
    site: Site,
) {
    for axis in 0..rank {
        let offset = if axis == at { start } else { 0 };
        let literal = Literal::wrapping(Scalar::I64, offset.into());
        operands.push(r.constant(literal, Shape::scalar(), site));
    }
}

/// The elements at indices along an axis, which stretch to the shape of the result.
fn at_indices(
    raw: Raw,
    index: Raw,
    axis: &Axis,
    result: &Shape,
    (bounds, name): (Bounds, &str),
    site: Site,
) -> Raw {
    if !may_move(name, site) {
        return Raw::Poison;
    }
    let Some(elem) = scalar_of(raw) else { return Raw::Poison };
    let (shape, at) = folded_axes(axis, result[axis.at]);
    let index = seen_as(stretched(index, result, site), &shape, site);
    let others: SmallVec<[Raw; 4]> =
        (0..shape.rank()).map(|a| counted_along(shape[a], shape.rank() - a - 1, site)).collect();
    let found = with(|r| {
        let memory = Moved { axis, parts: &[(raw, 0)], room: axis.len }.write(r, elem, site)?;
        let mut operands: SmallVec<[Id; 4]> = SmallVec::from_slice(&[memory]);
        for (a, &other) in others.iter().enumerate() {
            let along = if a == at { index } else { other };
            operands.push(r.read_as(along, &shape, site)?);
        }
        operands.push(r.constant(Literal::zero(elem), Shape::scalar(), site));
        Some(r.op(OpKind::Gather { bounds, masked: false }, &operands, Type::tile(elem, shape.clone()), site))
    });
    seen_as(Raw::of(found.flatten()), result, site)
}

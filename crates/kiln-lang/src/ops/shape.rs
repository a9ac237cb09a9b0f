//! Making tiles and changing their shape.

use super::convert::cast;
use crate::elem::Elem;
use crate::trace::{Raw, Site, error, with};
use crate::val::{IntoVal, Val, now, shape_of};
use kiln_ir::{OpKind, Scalar, Shape, Type};
use smallvec::SmallVec;
use std::panic::Location;

/// The extents of a tile of rank `R`: a host integer for rank 1, or an array or tuple of them.
///
/// Extents are any positive numbers. A GPU holds a tile in parts whose extents are powers of two:
/// an extent of 80 is one of 64 and one of 16, and two such axes make four parts, of at most 64 in
/// all. All threads of a program work on one part after the other, and a small one leaves most of
/// them idle: prefer few large parts (96, 192), and instead of many small ones (127) the next
/// power of two under a mask. Products of matrices go to matrix units where each part may:
/// multiples of 16 rows, 8 columns and a depth of 16.
///
/// ```
/// # use kiln_lang::{trace, zeros, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// assert_eq!(zeros::<f32>([4, 8]).shape(), [4, 8]);
/// assert_eq!(zeros::<f32>(16).rank(), 1);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a tile",
    note = "shapes are static: use host integers (`usize`), a tuple or an array of them"
)]
pub trait IntoShape {
    /// The extents, outermost first.
    ///
    /// ```
    /// use kiln_lang::IntoShape;
    /// assert_eq!(((4, 8).extents().len(), 16.extents()[0]), (2, 16));
    /// ```
    fn extents(self) -> SmallVec<[usize; 4]>;
}

impl IntoShape for usize {
    fn extents(self) -> SmallVec<[usize; 4]> {
        SmallVec::from_slice(&[self])
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn extents(self) -> SmallVec<[usize; 4]> {
        SmallVec::from_slice(&self)
    }
}

impl IntoShape for &[usize] {
    fn extents(self) -> SmallVec<[usize; 4]> {
        SmallVec::from_slice(self)
    }
}

impl IntoShape for Vec<usize> {
    fn extents(self) -> SmallVec<[usize; 4]> {
        SmallVec::from_vec(self)
    }
}

macro_rules! tuple_shape {
    ($($t:ident $n:tt),*) => {
        impl IntoShape for ($(tuple_shape!(@usize $t),)*) {
            fn extents(self) -> SmallVec<[usize; 4]> {
                SmallVec::from_slice(&[$(self.$n),*])
            }
        }
    };
    (@usize $t:ident) => { usize };
}
tuple_shape!(A 0);
tuple_shape!(A 0, B 1);
tuple_shape!(A 0, B 1, C 2);
tuple_shape!(A 0, B 1, C 2, D 3);

/// The IR's shape, if all extents are positive and the tile is not absurdly large.
pub(crate) fn checked_shape(extents: &[usize], site: Site) -> Option<Shape> {
    const MAX_ELEMENTS: usize = 1 << 20;
    if extents.contains(&0) {
        error(site, format!("a tile has no extent of 0, as in {extents:?}"), "");
        return None;
    }
    let len = extents.iter().try_fold(1usize, |n, e| n.checked_mul(*e));
    if len.is_none_or(|n| n > MAX_ELEMENTS) {
        let message = format!("a tile of shape {extents:?} has more than {MAX_ELEMENTS} elements");
        error(site, message, "a tile is what one program holds: load a part and loop");
        return None;
    }
    let narrow: SmallVec<[u32; 4]> = extents.iter().map(|&e| e as u32).collect();
    Some(Shape::new(&narrow))
}

/// 0, 1, 2, … `len - 1`.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// let i = iota::<i32>(5); // 0 1 2 3 4
/// device_assert!(i.sum().eq(10) & i.reduce_max().eq(4));
/// # });
/// ```
#[track_caller]
pub fn iota<T: crate::Num>(len: usize) -> Val<T> {
    Val::from_raw(counted(len, T::SCALAR, Location::caller()))
}

fn counted(len: usize, elem: Scalar, site: Site) -> Raw {
    let Some(shape) = checked_shape(&[len], site) else { return Raw::Poison };
    let counter = if elem.is_float() { Scalar::I32 } else { elem };
    let counted = Raw::of(with(|r| r.op(OpKind::Iota, &[], Type::tile(counter, shape), site)));
    cast(counted, counter, elem, site)
}

/// A tile whose elements are all `x`.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// let twos = full([4, 8], val::<f32>(2.0));
/// device_assert!(twos.sum().eq(64.0));
/// # });
/// ```
#[track_caller]
pub fn full<T: Elem>(shape: impl IntoShape, x: impl IntoVal<T>) -> Val<T> {
    let value = x.into_val();
    Val::from_raw(stretched(value.raw(), shape.extents(), Location::caller()))
}

/// A tile of zeros, or of `false`.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// let (numbers, bools) = (zeros::<f32>([4, 8]), zeros::<bool>(16));
/// device_assert!(numbers.eq(0.0).all() & !bools.any());
/// # });
/// ```
#[track_caller]
pub fn zeros<T: Elem>(shape: impl IntoShape) -> Val<T> {
    full(shape, Val::<T>::from_raw(Raw::Const(kiln_ir::Literal::zero(T::SCALAR))))
}

/// Other shapes of the same elements.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(12).reshape([3, 4]);
/// assert_eq!((x.transpose().shape(), x.permute([1, 0]).shape()), (vec![4, 3], vec![4, 3]));
/// let row = iota::<f32>(4).expand(0); // [1, 4], which stretches
/// assert_eq!(((x - row).shape(), row.broadcast_to([3, 4]).shape()), (vec![3, 4], vec![3, 4]));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl<T: Elem> Val<T> {
    /// The same elements, in row-major order, under another shape of as many elements.
    #[track_caller]
    pub fn reshape(self, shape: impl IntoShape) -> Val<T> {
        Val::from_raw(reshape(self.raw(), shape.extents(), T::SCALAR, Location::caller()))
    }

    /// Stretches to a shape: missing leading axes are added, extents of 1 repeat.
    #[track_caller]
    pub fn broadcast_to(self, shape: impl IntoShape) -> Val<T> {
        Val::from_raw(stretched(self.raw(), shape.extents(), Location::caller()))
    }

    /// Inserts an axis of extent 1 before axis `axis`: `expand(0)` makes a row of a vector,
    /// `expand(1)` a column.
    #[track_caller]
    pub fn expand(self, axis: usize) -> Val<T> {
        Val::from_raw(expand(self.raw(), axis, T::SCALAR, Location::caller()))
    }

    /// Reverses the axes: of a matrix, the transpose.
    #[track_caller]
    pub fn transpose(self) -> Val<T> {
        let axes = (0..self.rank()).rev().collect();
        Val::from_raw(permute(self.raw(), axes, T::SCALAR, Location::caller()))
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn permute(self, axes: impl IntoShape) -> Val<T> {
        Val::from_raw(permute(self.raw(), axes.extents(), T::SCALAR, Location::caller()))
    }
}

fn stretched(raw: Raw, extents: SmallVec<[usize; 4]>, site: Site) -> Raw {
    let Some(shape) = checked_shape(&extents, site) else { return Raw::Poison };
    Raw::of(with(|r| r.read_as(raw, &shape, site)).flatten())
}

fn reshape(raw: Raw, extents: SmallVec<[usize; 4]>, elem: Scalar, site: Site) -> Raw {
    let (Some(from), Some(to)) = (shape_of(raw), checked_shape(&extents, site)) else {
        return Raw::Poison;
    };
    if from.len() != to.len() {
        let message = format!("{from} holds {} elements, {to} would hold {}", from.len(), to.len());
        error(site, message, "`reshape` keeps the number of elements; see `broadcast_to`");
        return Raw::Poison;
    }
    reshaped(raw, to, elem, site)
}

/// Records a reshape to a shape that fits.
pub(crate) fn reshaped(raw: Raw, to: Shape, elem: Scalar, site: Site) -> Raw {
    let id = with(|r| {
        let from = r.shape(raw)?;
        let id = r.read(raw, site)?;
        if from == to {
            return Some(id);
        }
        // A scalar has no axes to reshape: it stretches.
        let kind = if from.rank() == 0 { OpKind::Broadcast } else { OpKind::Reshape };
        Some(r.op(kind, &[id], Type::tile(elem, to), site))
    });
    Raw::of(id.flatten())
}

fn expand(raw: Raw, axis: usize, elem: Scalar, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    if axis > shape.rank() {
        let message = format!("there is no place {axis} for an axis in shape {shape}");
        error(site, message, format!("places are 0 to {}", shape.rank()));
        return Raw::Poison;
    }
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    extents.insert(axis, 1);
    reshaped(raw, Shape::new(&extents), elem, site)
}

fn permute(raw: Raw, axes: SmallVec<[usize; 4]>, elem: Scalar, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    let each_once = (0..shape.rank()).all(|a| axes.contains(&a));
    if axes.len() != shape.rank() || !each_once {
        let message = format!("{axes:?} does not name each axis of shape {shape} once");
        error(site, message, "");
        return Raw::Poison;
    }
    if axes.iter().enumerate().all(|(i, a)| i == *a) {
        return now(raw, site);
    }
    let order: SmallVec<[u32; 4]> = axes.iter().map(|&a| a as u32).collect();
    let extents: SmallVec<[u32; 4]> = axes.iter().map(|&a| shape[a]).collect();
    let ty = Type::tile(elem, Shape::new(&extents));
    let id = with(|r| {
        let id = r.read(raw, site)?;
        Some(r.op(OpKind::Transpose(Shape::new(&order)), &[id], ty, site))
    });
    Raw::of(id.flatten())
}

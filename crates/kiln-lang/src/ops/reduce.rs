//! Reductions and scans.

use super::elementwise;
use super::shape::reshaped;
use crate::elem::{Bits, Elem, Num};
use crate::trace::{Raw, Site, error, with};
use crate::val::{Idx, Val, shape_of};
use kiln_ir::{CompareOp, Literal, OpKind, ReduceOp, Scalar, Shape, Type};
use smallvec::SmallVec;
use std::panic::Location;

/// How the elements of a scan combine.
///
/// ```
/// # use kiln_lang::{iota, trace, Combine, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(8).reshape([2, 4]);
/// let running_sums = x.cumsum(1);
/// let before = x.scan_axis_exclusive(Combine::Max, 1); // the first of each row is minus infinity
/// let (total, of_rows) = (x.sum(), x.sum_axis(1));
/// assert_eq!((total.rank(), of_rows.shape()), (0, vec![2]));
/// let shares = x / x.sum_keep(1); // the axis stays, so that the two combine
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Combine {
    fn op(self) -> ReduceOp {
        match self {
            Combine::Sum => ReduceOp::Sum,
            Combine::Prod => ReduceOp::Prod,
            Combine::Min => ReduceOp::Min,
            Combine::Max => ReduceOp::Max,
        }
    }
}

pub(super) fn has_axis(shape: &Shape, axis: usize, site: Site) -> bool {
    if axis < shape.rank() {
        return true;
    }
    let help = if shape.rank() == 0 { "a scalar has no axes" } else { "axes count from 0" };
    error(site, format!("shape {shape} has no axis {axis}"), help);
    false
}

/// Reports a reduction of a scalar: it would be the scalar itself, which nobody means.
fn refuse_scalar(name: &str, site: Site) -> Raw {
    let help = match name {
        "reduce_max" | "argmax" => "`a.max(b)` is the larger of two values",
        "reduce_min" | "argmin" => "`a.min(b)` is the smaller of two values",
        "any" => "`a || b` combines two values; `vote_any` asks the threads of a warp",
        "all" => "`a && b` combines two values; `vote_all` asks the threads of a warp",
        _ => "combine two values with an operator, such as `a + b`",
    };
    error(site, format!("`{name}` reduces the elements of a tile, and this is a scalar"), help);
    Raw::Poison
}

/// Records a reduction along an axis, whose result has the type `elem`.
pub(super) fn reduce_axis(raw: Raw, op: ReduceOp, axis: usize, elem: Scalar, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    if !has_axis(&shape, axis, site) {
        return Raw::Poison;
    }
    let kind = OpKind::Reduce { op, axis: axis as u32 };
    let id = with(|r| {
        let id = r.read(raw, site)?;
        Some(r.op(kind, &[id], Type::tile(elem, shape.without(axis)), site))
    });
    Raw::of(id.flatten())
}

/// Records a reduction along an axis, which stays with an extent of 1.
fn reduce_kept(raw: Raw, op: ReduceOp, axis: usize, elem: Scalar, site: Site) -> Raw {
    let Some(shape) = shape_of(raw) else { return Raw::Poison };
    let reduced = reduce_axis(raw, op, axis, elem, site);
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    match extents.get_mut(axis) {
        Some(extent) => *extent = 1,
        None => return Raw::Poison,
    }
    reshaped(reduced, Shape::new(&extents), elem, site)
}

/// Records the index of an element among all of them, whose type is `elem`.
fn position_of(raw: Raw, name: &str, op: ReduceOp, elem: Scalar, site: Site) -> Raw {
    let flat = match shape_of(raw) {
        Some(shape) if shape.rank() == 0 => refuse_scalar(name, site),
        Some(shape) if shape.rank() != 1 => reshaped(raw, Shape::new(&[shape.len() as u32]), elem, site),
        _ => raw,
    };
    reduce_axis(flat, op, 0, Scalar::I64, site)
}

/// Records the index of the last true element along an axis; where none is, the last index.
fn last_hit(hits: Raw, axis: usize, site: Site) -> Raw {
    let Some(shape) = shape_of(hits) else { return Raw::Poison };
    if !has_axis(&shape, axis, site) {
        return Raw::Poison;
    }
    let int = |value: i64| Raw::Const(Literal::wrapping(Scalar::I64, value.into()));
    let along = with(|r| r.op(OpKind::Iota, &[], Type::tile(Scalar::I64, Shape::new(&[shape[axis]])), site));
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_elem(1, shape.rank() - axis);
    extents[0] = shape[axis];
    let along = reshaped(Raw::of(along), Shape::new(&extents), Scalar::I64, site);
    let places = elementwise(OpKind::Select, &[hits, along, int(-1)], Scalar::I64, site);
    let last = reduce_axis(places, ReduceOp::Max, axis, Scalar::I64, site);
    let none = elementwise(OpKind::Compare(CompareOp::Lt), &[last, int(0)], Scalar::Bool, site);
    elementwise(OpKind::Select, &[none, int(i64::from(shape[axis]) - 1), last], Scalar::I64, site)
}

fn reduce_all(raw: Raw, name: &str, op: ReduceOp, elem: Scalar, site: Site) -> Raw {
    match shape_of(raw) {
        Some(shape) if shape.rank() == 0 => refuse_scalar(name, site),
        Some(shape) => (0..shape.rank()).rev().fold(raw, |v, axis| reduce_axis(v, op, axis, elem, site)),
        None => raw,
    }
}

/// A scan, but for its axis.
struct Scan {
    op: ReduceOp,
    reverse: bool,
    exclusive: bool,
}

impl Scan {
    fn new(op: ReduceOp) -> Scan {
        Scan { op, reverse: false, exclusive: false }
    }

    fn record(self, raw: Raw, axis: usize, elem: Scalar, site: Site) -> Raw {
        let Some(shape) = shape_of(raw) else { return Raw::Poison };
        if !has_axis(&shape, axis, site) {
            return Raw::Poison;
        }
        let Scan { op, reverse, exclusive } = self;
        let kind = OpKind::Scan { op, axis: axis as u32, reverse, exclusive };
        let id = with(|r| {
            let id = r.read(raw, site)?;
            Some(r.op(kind, &[id], Type::tile(elem, shape), site))
        });
        Raw::of(id.flatten())
    }
}

impl<T: Elem> Val<T> {
    fn reduce_axis<U: Elem>(self, op: ReduceOp, axis: usize, site: Site) -> Val<U> {
        Val::from_raw(reduce_axis(self.raw(), op, axis, U::SCALAR, site))
    }

    fn reduce_all(self, name: &str, op: ReduceOp, site: Site) -> Val<T> {
        Val::from_raw(reduce_all(self.raw(), name, op, T::SCALAR, site))
    }

    fn scan(self, scan: Scan, axis: usize, site: Site) -> Val<T> {
        Val::from_raw(scan.record(self.raw(), axis, T::SCALAR, site))
    }
}

macro_rules! reductions {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $on_axis:ident $keep:ident $op:ident;)*) => {
        impl<T: $bound> Val<T> {$(
            $(#[$doc])*
            ///
            /// Over all axes: the result is a scalar. A scalar has none, and is refused.
            #[track_caller]
            pub fn $name(self) -> Val<T> {
                self.reduce_all(stringify!($name), ReduceOp::$op, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Along one axis, which goes.
            #[track_caller]
            pub fn $on_axis(self, axis: usize) -> Val<T> {
                self.reduce_axis(ReduceOp::$op, axis, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Along one axis, which stays with an extent of 1, so that the result combines with
            /// the tile.
            #[track_caller]
            pub fn $keep(self, axis: usize) -> Val<T> {
                Val::from_raw(reduce_kept(self.raw(), ReduceOp::$op, axis, T::SCALAR, Location::caller()))
            }
        )*}
    };
}

reductions! { Num:
    /// The sum. Its order is unspecified; f16 and bf16 accumulate in f32.
    sum sum_axis sum_keep Sum;
    /// The product. Its order is unspecified; f16 and bf16 accumulate in f32.
    prod prod_axis prod_keep Prod;
    /// The least element; NaN loses to numbers. [`min`](Val::min) compares two values.
    reduce_min min_axis min_keep Min;
    /// The greatest element; NaN loses to numbers. [`max`](Val::max) compares two values.
    reduce_max max_axis max_keep Max;
}

reductions! { Bits:
    /// All bits that every element has; for bool, whether all are true.
    and_bits and_bits_axis and_bits_keep And;
    /// All bits that some element has; for bool, whether any is true.
    or_bits or_bits_axis or_bits_keep Or;
    /// The exclusive or of all elements.
    xor_bits xor_bits_axis xor_bits_keep Xor;
}

/// Positions of extremes, and scans along an axis. A reduction of all elements gives a scalar, one
/// with `_axis` leaves out that axis, and one with `_keep` keeps it with the extent 1.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(12).reshape([3, 4]);
/// assert_eq!((x.sum().rank(), x.sum_axis(1).shape(), x.sum_keep(1).shape()), (0, vec![3], vec![3, 1]));
/// let (largest, column) = x.max_with_index(1);
/// assert_eq!((largest.shape(), column.shape()), (vec![3], vec![3]));
/// assert_eq!((x.argmax().rank(), x.cumsum(1).shape()), (0, vec![3, 4]));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// Products and extremes:
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|_| {
/// let x = iota::<i32>(6).reshape([2, 3]) + 1; // 1 2 3, 4 5 6
/// let row = iota::<i32>(2); // 0 1
/// device_assert!(x.prod().eq(720) & x.reduce_min().eq(1) & x.reduce_max().eq(6));
/// device_assert!(x.prod_axis(1).eq(row * 114 + 6).all());
/// device_assert!(x.min_axis(1).eq(row * 3 + 1).all() & x.max_axis(1).eq(row * 3 + 3).all());
/// // These keep the axis, and combine with the tile.
/// device_assert!((x - x.min_keep(1)).reduce_max().eq(2) & (x - x.max_keep(1)).reduce_max().eq(0));
/// assert_eq!(x.prod_keep(1).shape(), [2, 1]);
/// # });
/// ```
///
/// Bits of integers, and bools:
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|_| {
/// let x = iota::<u32>(4).reshape([2, 2]) + 4; // 4 5, 6 7
/// device_assert!(x.and_bits().eq(4) & x.or_bits().eq(7) & x.xor_bits().eq(0));
/// device_assert!(x.and_bits_axis(0).eq(iota::<u32>(2) + 4).all());
/// device_assert!(x.or_bits_axis(1).eq(iota::<u32>(2) * 2 + 5).all());
/// device_assert!(x.xor_bits_axis(1).eq(1).all());
/// for kept in [x.and_bits_keep(1), x.or_bits_keep(1), x.xor_bits_keep(1)] {
///     assert_eq!(kept.shape(), [2, 1]);
/// }
/// # });
/// ```
impl<T: Num> Val<T> {
    /// The position of the first greatest element, in row-major order.
    #[track_caller]
    pub fn argmax(self) -> Idx {
        Val::from_raw(position_of(self.raw(), "argmax", ReduceOp::ArgMax, T::SCALAR, Location::caller()))
    }

    /// The position of the first least element, in row-major order.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = (iota::<i32>(6) - 4).abs().reshape([2, 3]); // 4 3 2, 1 0 1
    /// device_assert!(x.argmin().eq(4) & x.argmin_axis(1).eq(2 - iota::<i64>(2)).all());
    /// # });
    /// ```
    #[track_caller]
    pub fn argmin(self) -> Idx {
        Val::from_raw(position_of(self.raw(), "argmin", ReduceOp::ArgMin, T::SCALAR, Location::caller()))
    }

    /// The index of the first greatest element along an axis, which goes.
    #[track_caller]
    pub fn argmax_axis(self, axis: usize) -> Idx {
        self.reduce_axis(ReduceOp::ArgMax, axis, Location::caller())
    }

    /// The index of the first least element along an axis, which goes.
    #[track_caller]
    pub fn argmin_axis(self, axis: usize) -> Idx {
        self.reduce_axis(ReduceOp::ArgMin, axis, Location::caller())
    }

    /// The index of the last greatest element along an axis, which goes.
    /// [`argmax_axis`](Val::argmax_axis) gives the first one.
    ///
    /// ```
    /// use kiln_lang::{Idx, Val};
    ///
    /// /// How many of the greatest elements lie apart in each row, at most.
    /// fn spread(rows: Val<f32>) -> Idx {
    ///     rows.argmax_axis_last(1) - rows.argmax_axis(1)
    /// }
    /// ```
    #[track_caller]
    pub fn argmax_axis_last(self, axis: usize) -> Idx {
        let best = self.max_keep(axis);
        Val::from_raw(last_hit(self.eq(best).raw(), axis, Location::caller()))
    }

    /// The index of the last least element along an axis, which goes.
    /// [`argmin_axis`](Val::argmin_axis) gives the first one.
    ///
    /// ```
    /// use kiln_lang::{Idx, Val};
    ///
    /// /// Where the height of each profile was last at its lowest.
    /// fn lowest(profiles: Val<f32>) -> Idx {
    ///     profiles.argmin_axis_last(1)
    /// }
    /// ```
    #[track_caller]
    pub fn argmin_axis_last(self, axis: usize) -> Idx {
        let best = self.min_keep(axis);
        Val::from_raw(last_hit(self.eq(best).raw(), axis, Location::caller()))
    }

    /// The greatest element along an axis, which goes, and its index: of equal ones the first.
    ///
    /// ```
    /// use kiln_lang::{Idx, Val};
    ///
    /// /// The most likely class of each row, and how likely it is.
    /// fn classes(scores: Val<f32>) -> (Val<f32>, Idx) {
    ///     scores.softmax(1).max_with_index(1)
    /// }
    /// ```
    #[track_caller]
    pub fn max_with_index(self, axis: usize) -> (Val<T>, Idx) {
        (self.max_axis(axis), self.argmax_axis(axis))
    }

    /// The least element along an axis, which goes, and its index: of equal ones the first.
    ///
    /// ```
    /// use kiln_lang::{Idx, Val};
    ///
    /// /// The nearest center of each point, and the square of its distance.
    /// fn nearest(points: Val<f32>, centers: Val<f32>) -> (Val<f32>, Idx) {
    ///     let apart = points.expand(1) - centers.expand(0);
    ///     (apart * apart).sum_axis(2).min_with_index(1)
    /// }
    /// # use kiln_lang::{trace, zeros, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(nearest(zeros([16, 2]), zeros([4, 2])).1.shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn min_with_index(self, axis: usize) -> (Val<T>, Idx) {
        (self.min_axis(axis), self.argmin_axis(axis))
    }

    /// Running sums along an axis: element `i` is the sum of elements `0 ..= i`.
    #[track_caller]
    pub fn cumsum(self, axis: usize) -> Val<T> {
        self.scan(Scan::new(ReduceOp::Sum), axis, Location::caller())
    }

    /// Running products along an axis.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<i32>(4) + 1;
    /// let products = x.cumprod(0); // 1 2 6 24
    /// device_assert!(products.sum().eq(33) & products.reduce_max().eq(24));
    /// # });
    /// ```
    #[track_caller]
    pub fn cumprod(self, axis: usize) -> Val<T> {
        self.scan(Scan::new(ReduceOp::Prod), axis, Location::caller())
    }

    /// Running combination along an axis: element `i` combines elements `0 ..= i`.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// use kiln_lang::Combine;
    /// let x = iota::<i32>(4) + 1; // 1 2 3 4
    /// device_assert!(x.scan_axis(Combine::Sum, 0).eq(x * (x + 1) / 2).all()); // 1 3 6 10
    /// device_assert!(x.scan_axis_exclusive(Combine::Sum, 0).eq(x * (x - 1) / 2).all()); // 0 1 3 6
    /// device_assert!(x.scan_axis_reverse(Combine::Max, 0).eq(4).all());
    /// let behind = x.scan_axis_reverse_exclusive(Combine::Sum, 0); // 9 7 4 0
    /// device_assert!(behind.eq(10 - x * (x + 1) / 2).all());
    /// # });
    /// ```
    #[track_caller]
    pub fn scan_axis(self, op: Combine, axis: usize) -> Val<T> {
        self.scan(Scan::new(op.op()), axis, Location::caller())
    }

    /// As [`scan_axis`](Val::scan_axis), without the element itself: the first result is the
    /// identity.
    #[track_caller]
    pub fn scan_axis_exclusive(self, op: Combine, axis: usize) -> Val<T> {
        self.scan(Scan { exclusive: true, ..Scan::new(op.op()) }, axis, Location::caller())
    }

    /// As [`scan_axis`](Val::scan_axis), from the last element to the first.
    #[track_caller]
    pub fn scan_axis_reverse(self, op: Combine, axis: usize) -> Val<T> {
        self.scan(Scan { reverse: true, ..Scan::new(op.op()) }, axis, Location::caller())
    }

    /// As [`scan_axis_reverse`](Val::scan_axis_reverse), without the element itself.
    #[track_caller]
    pub fn scan_axis_reverse_exclusive(self, op: Combine, axis: usize) -> Val<T> {
        self.scan(Scan { op: op.op(), reverse: true, exclusive: true }, axis, Location::caller())
    }
}

/// Whether some or all elements hold.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<f32>(12).reshape([3, 4]);
/// let (some, each_row) = (x.gt(10.0).any(), x.gt(-1.0).all_axis(1));
/// assert_eq!((some.rank(), each_row.shape()), (0, vec![3]));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl Val<bool> {
    /// Whether any element is true.
    #[track_caller]
    pub fn any(self) -> Val<bool> {
        self.reduce_all("any", ReduceOp::Or, Location::caller())
    }

    /// Whether all elements are true.
    #[track_caller]
    pub fn all(self) -> Val<bool> {
        self.reduce_all("all", ReduceOp::And, Location::caller())
    }

    /// Whether any element along an axis is true.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = iota::<i32>(12).reshape([3, 4]);
    /// device_assert!(x.gt(9).any_axis(1).eq(iota::<i32>(3).eq(2)).all());
    /// # });
    /// ```
    #[track_caller]
    pub fn any_axis(self, axis: usize) -> Val<bool> {
        self.reduce_axis(ReduceOp::Or, axis, Location::caller())
    }

    /// Whether all elements along an axis are true.
    #[track_caller]
    pub fn all_axis(self, axis: usize) -> Val<bool> {
        self.reduce_axis(ReduceOp::And, axis, Location::caller())
    }
}

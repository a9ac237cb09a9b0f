//! Reductions and scans.

use super::shape::reshaped;
use crate::elem::{Bits, Elem, Num};
use crate::trace::{Raw, Site, error, with};
use crate::val::{Idx, Val, shape_of};
use kiln_ir::{OpKind, ReduceOp, Scalar, Shape, Type};
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

fn has_axis(shape: &Shape, axis: usize, site: Site) -> bool {
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
fn reduce_axis(raw: Raw, op: ReduceOp, axis: usize, elem: Scalar, site: Site) -> Raw {
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

/// Records the index of an element among all of them, whose type is `elem`.
fn position_of(raw: Raw, name: &str, op: ReduceOp, elem: Scalar, site: Site) -> Raw {
    let flat = match shape_of(raw) {
        Some(shape) if shape.rank() == 0 => refuse_scalar(name, site),
        Some(shape) if shape.rank() != 1 => reshaped(raw, Shape::new(&[shape.len() as u32]), elem, site),
        _ => raw,
    };
    reduce_axis(flat, op, 0, Scalar::I64, site)
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
    ($bound:ident: $($(#[$doc:meta])* $name:ident $on_axis:ident $op:ident;)*) => {
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
        )*}
    };
}

reductions! { Num:
    /// The sum. Its order is unspecified; f16 and bf16 accumulate in f32.
    sum sum_axis Sum;
    /// The product. Its order is unspecified; f16 and bf16 accumulate in f32.
    prod prod_axis Prod;
    /// The least element; NaN loses to numbers. [`min`](Val::min) compares two values.
    reduce_min min_axis Min;
    /// The greatest element; NaN loses to numbers. [`max`](Val::max) compares two values.
    reduce_max max_axis Max;
}

reductions! { Bits:
    /// All bits that every element has; for bool, whether all are true.
    and_bits and_bits_axis And;
    /// All bits that some element has; for bool, whether any is true.
    or_bits or_bits_axis Or;
    /// The exclusive or of all elements.
    xor_bits xor_bits_axis Xor;
}

impl<T: Num> Val<T> {
    /// The position of the first greatest element, in row-major order.
    #[track_caller]
    pub fn argmax(self) -> Idx {
        Val::from_raw(position_of(self.raw(), "argmax", ReduceOp::ArgMax, T::SCALAR, Location::caller()))
    }

    /// The position of the first least element, in row-major order.
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

    /// Running sums along an axis: element `i` is the sum of elements `0 ..= i`.
    #[track_caller]
    pub fn cumsum(self, axis: usize) -> Val<T> {
        self.scan(Scan::new(ReduceOp::Sum), axis, Location::caller())
    }

    /// Running products along an axis.
    #[track_caller]
    pub fn cumprod(self, axis: usize) -> Val<T> {
        self.scan(Scan::new(ReduceOp::Prod), axis, Location::caller())
    }

    /// Running combination along an axis: element `i` combines elements `0 ..= i`.
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

//! Operations on values.
//!
//! The methods of [`Val`](crate::Val) convert their operands to handles and call a function of the
//! same file that takes handles and element types as values: it is compiled once, and the methods,
//! of which every kernel has copies, are a call each.
//!
//! | file | holds |
//! |---|---|
//! | `arith.rs` | operators |
//! | `any.rs` | operations on values whose type is data |
//! | `compare.rs` | comparisons and selection |
//! | `math.rs` | element-wise mathematics |
//! | `functions.rs`, `bits.rs` | functions of floats and of bits that are made of operations |
//! | `integers.rs`, `packed.rs` | arithmetic of integers, and of words of several |
//! | `four_bits.rs` | numbers of four bits, which are storage |
//! | `floats.rs`, `fast.rs`, `rounding.rs` | parts of floats; quick functions; directed rounding |
//! | `convert.rs` | casts |
//! | `shape.rs` | making tiles and changing their shape |
//! | `reduce.rs` | reductions and scans |
//! | `rearrange.rs` | splitting, joining, gathering |
//! | `combine_with.rs` | reductions and scans with any function |
//! | `sort.rs`, `histogram.rs` | sorting, the greatest elements, counts |
//! | `random.rs` | random numbers |
//! | `axis.rs`, `each.rs` | one axis of a tile; what is done with each tile of a value |
//! | `dot.rs` | matrix products |
//! | `dot_scaled.rs` | those of factors with a scale for each block |

mod any;
mod arith;
mod axis;
mod bits;
mod combine_with;
mod compare;
mod convert;
mod dot;
mod dot_scaled;
mod each;
mod fast;
mod floats;
mod four_bits;
mod functions;
mod histogram;
mod integers;
mod math;
mod packed;
mod random;
mod rearrange;
mod reduce;
mod rounding;
mod shape;
mod sort;

pub use any::AnyVal;
pub(crate) use axis::{compared, counted_along, scalar_of};
pub use combine_with::AlongAxis;
pub use compare::select;
pub(crate) use convert::cast;
pub use dot::{Accumulate, Float8, Int8, dot, dot_acc, dot_with};
pub use dot_scaled::{BlockScaled, dot_scaled};
pub(crate) use each::Choose;
pub use random::{philox, rand, randint, randint4x, randn};
pub(crate) use rearrange::stretched;
pub use reduce::Combine;
pub use shape::{IntoShape, full, iota, zeros};
pub(crate) use shape::{checked_shape, reshaped};

use crate::trace::{Raw, Recorder, Site, with};
use kiln_ir::{BinaryOp, OpKind, Scalar, Shape, Type, UnaryOp, eval};
use smallvec::SmallVec;

/// The shape that operands combine to; reports shapes that do not. `None` also if one is poison.
pub(crate) fn common_shape(r: &mut Recorder, operands: &[Raw], site: Site) -> Option<Shape> {
    let mut common = Shape::scalar();
    for raw in operands {
        let shape = r.shape(*raw)?;
        let Some(wider) = common.broadcast(&shape) else {
            let message = format!("shapes {common} and {shape} do not combine");
            r.error(site, message, "extents must be equal or 1; see `expand`, `reshape` and `broadcast_to`");
            return None;
        };
        common = wider;
    }
    Some(common)
}

/// Records an element-wise operation with one operand, whose result has the type `elem`.
pub(crate) fn unary(op: UnaryOp, operand: Raw, elem: Scalar, site: Site) -> Raw {
    elementwise(OpKind::Unary(op), &[operand], elem, site)
}

/// Records an element-wise operation with two operands, whose result has the type `elem`.
pub(crate) fn binary(op: BinaryOp, a: Raw, b: Raw, elem: Scalar, site: Site) -> Raw {
    elementwise(OpKind::Binary(op), &[a, b], elem, site)
}

/// Records an element-wise operation whose operands stretch to one shape, and whose result has the
/// type `elem`.
pub(crate) fn elementwise(kind: OpKind, operands: &[Raw], elem: Scalar, site: Site) -> Raw {
    if let Some(known) = folded(&kind, operands, elem) {
        return known;
    }
    let id = with(|r| {
        let shape = common_shape(r, operands, site)?;
        let ids = operands.iter().map(|raw| r.read_as(*raw, &shape, site));
        let ids: SmallVec<[_; 4]> = ids.collect::<Option<_>>()?;
        Some(r.op(kind, &ids, Type::tile(elem, shape), site))
    });
    Raw::of(id.flatten())
}

/// The result, where it takes no operation: of constants, and of integers plus 0 or times 1.
fn folded(kind: &OpKind, operands: &[Raw], elem: Scalar) -> Option<Raw> {
    let asked = (kind, operands);
    let literal = if let (OpKind::Unary(op), [Raw::Const(x)]) = asked {
        eval::unary(*op, *x)?
    } else if let (OpKind::Binary(op), [Raw::Const(a), Raw::Const(b)]) = asked {
        eval::binary(*op, *a, *b)?
    } else if let (OpKind::Compare(op), [Raw::Const(a), Raw::Const(b)]) = asked {
        eval::compare(*op, *a, *b)
    } else if let (OpKind::Cast, [Raw::Const(x)]) = asked {
        eval::cast(*x, elem)
    } else if let (OpKind::Binary(op), [value, Raw::Const(c)] | [Raw::Const(c), value]) = asked
        && elem.is_int()
    {
        let neutral =
            (*op == BinaryOp::Add && c.as_i128() == 0) || (*op == BinaryOp::Mul && c.as_i128() == 1);
        // A variable is read where it is used, which is here.
        return (neutral && matches!(value, Raw::Value(_))).then_some(*value);
    } else {
        return None;
    };
    Some(Raw::Const(literal))
}

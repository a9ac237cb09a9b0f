//! One axis of a tile, seen with those outside of it as one axis and those inside as another, and
//! single elements on it.

use super::reduce::{has_axis, reduce_axis};
use super::shape::reshaped;
use super::{convert, elementwise};
use crate::trace::{Raw, Site, with};
use crate::val::shape_of;
use kiln_ir::{CompareOp, Literal, OpKind, ReduceOp, Scalar, Shape, Type};
use smallvec::SmallVec;

/// An axis of a shape.
#[derive(Clone)]
pub(super) struct Axis {
    pub shape: Shape,
    pub at: usize,
    /// Elements outside of the axis.
    pub outer: u32,
    /// Elements on the axis.
    pub len: u32,
    /// Elements inside of the axis.
    pub inner: u32,
}

impl Axis {
    /// The axis of a shape; reports one that is not there.
    pub fn of(shape: Shape, at: usize, site: Site) -> Option<Axis> {
        if !has_axis(&shape, at, site) {
            return None;
        }
        let extents = shape.extents();
        let (outer, inner) = (extents[..at].iter().product(), extents[at + 1..].iter().product());
        Some(Axis { at, outer, len: extents[at], inner, shape })
    }

    /// The shape with so many elements on the axis.
    pub fn with_len(&self, len: u32) -> Shape {
        let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(self.shape.extents());
        extents[self.at] = len;
        Shape::new(&extents)
    }

    /// The shape without the axis.
    pub fn removed(&self) -> Shape {
        self.shape.without(self.at)
    }

    /// All elements as three axes, of which the middle one is divided.
    pub fn split_into(&self, parts: &[u32]) -> Shape {
        let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(&[self.outer]);
        extents.extend_from_slice(parts);
        extents.push(self.inner);
        Shape::new(&extents)
    }
}

/// Records a reshape to a shape of as many elements.
pub(super) fn seen_as(raw: Raw, shape: &Shape, site: Site) -> Raw {
    match scalar_of(raw) {
        Some(elem) => reshaped(raw, shape.clone(), elem, site),
        None => Raw::Poison,
    }
}

/// The element type behind a handle.
pub(crate) fn scalar_of(raw: Raw) -> Option<Scalar> {
    with(|r| r.ty(raw)).flatten().map(|ty| ty.elem())
}

/// 0, 1, 2, … as i32 along an axis of `len` with so many axes inside.
pub(crate) fn counted_along(len: u32, inside: usize, site: Site) -> Raw {
    let counted = with(|r| r.op(OpKind::Iota, &[], Type::tile(Scalar::I32, Shape::new(&[len])), site));
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_elem(1, 1 + inside);
    extents[0] = len;
    reshaped(Raw::of(counted), Shape::new(&extents), Scalar::I32, site)
}

/// An i32 constant.
pub(super) fn int(value: u32) -> Raw {
    Raw::Const(Literal::wrapping(Scalar::I32, value.into()))
}

/// Records a comparison of values of one type.
pub(crate) fn compared(op: CompareOp, a: Raw, b: Raw, site: Site) -> Raw {
    elementwise(OpKind::Compare(op), &[a, b], Scalar::Bool, site)
}

/// Records a choice between two values of one type.
pub(super) fn chosen(condition: Raw, a: Raw, b: Raw, site: Site) -> Raw {
    match scalar_of(a) {
        Some(elem) => elementwise(OpKind::Select, &[condition, a, b], elem, site),
        None => Raw::Poison,
    }
}

/// The bits of a tile as a type whose bits combine.
pub(super) fn to_bits(raw: Raw, elem: Scalar, site: Site) -> (Raw, Scalar) {
    let through = |middle: Scalar, bits: Scalar| {
        let wide = convert::cast(raw, elem, middle, site);
        (convert::bitcast(wide, middle, bits, site), bits)
    };
    match elem {
        Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => (raw, elem),
        Scalar::F32 | Scalar::F16 | Scalar::BF16 => through(Scalar::F32, Scalar::U32),
        Scalar::F64 => through(Scalar::F64, Scalar::U64),
        Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => through(Scalar::I32, Scalar::I32),
        Scalar::E4M3 | Scalar::E5M2 => {
            let byte = convert::bitcast(raw, elem, Scalar::U8, site);
            (convert::cast(byte, Scalar::U8, Scalar::U32, site), Scalar::U32)
        }
    }
}

/// The elements that [`to_bits`] made bits of.
pub(super) fn from_bits(bits: Raw, elem: Scalar, site: Site) -> Raw {
    match elem {
        Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => bits,
        Scalar::F32 | Scalar::F16 | Scalar::BF16 => {
            let wide = convert::bitcast(bits, Scalar::U32, Scalar::F32, site);
            convert::cast(wide, Scalar::F32, elem, site)
        }
        Scalar::F64 => convert::bitcast(bits, Scalar::U64, Scalar::F64, site),
        Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => convert::cast(bits, Scalar::I32, elem, site),
        Scalar::E4M3 | Scalar::E5M2 => {
            let byte = convert::cast(bits, Scalar::U32, Scalar::U8, site);
            convert::bitcast(byte, Scalar::U8, elem, site)
        }
    }
}

/// The elements at one index of an axis, which goes: the bits of all others are cleared, and what
/// is left combined. Where the axis lies in registers, this is a choice of registers.
pub(super) fn picked(raw: Raw, axis: usize, index: u32, site: Site) -> Raw {
    let (Some(shape), Some(elem)) = (shape_of(raw), scalar_of(raw)) else { return Raw::Poison };
    let (bits, scalar) = to_bits(raw, elem, site);
    let along = counted_along(shape[axis], shape.rank() - axis - 1, site);
    let here = compared(CompareOp::Eq, along, int(index), site);
    let kept = chosen(here, bits, Raw::Const(Literal::zero(scalar)), site);
    from_bits(reduce_axis(kept, ReduceOp::Or, axis, scalar, site), elem, site)
}

//! Accesses of views that a kernel made (`view_at.rs`).
//!
//! Such a view is no value of the IR. An access of it becomes one by indices of the view that it is
//! made of, under a mask of what lies inside its own extents. So what is outside either view is
//! padding, dropped or a fault, as of any other.

use super::core::ViewCore;
use crate::ops::{binary, cast, common_shape, compared, counted_along, elementwise, unary};
use crate::trace::{Raw, Site, with};
use kiln_ir::{BinaryOp, Bounds, CompareOp, Literal, OpKind, Scalar, Shape, UnaryOp};
use smallvec::SmallVec;

/// Elements of a view that a kernel made, as elements of the view that it is made of.
pub(super) struct Placed {
    pub view: ViewCore,
    pub index: [Raw; 1],
    pub mask: Option<Raw>,
}

impl Placed {
    /// Puts the mask into the index, for an access that has none: what it excludes is before the
    /// first element.
    pub fn fold_mask(&mut self, site: Site) {
        if let Some(mask) = self.mask.take() {
            let outside = Raw::Const(Literal::wrapping(Scalar::I64, -1));
            self.index = [elementwise(OpKind::Select, &[mask, self.index[0], outside], Scalar::I64, site)];
        }
    }
}

/// Where indices of a view that the kernel made lie in the one that it was made of; `None` for
/// views that a launch knows.
pub(super) fn placed(
    view: &ViewCore,
    free: &[Raw],
    mask: Option<Raw>,
    bounds: Bounds,
    site: Site,
) -> Option<Placed> {
    let (made, below) = view.made()?;
    let indices = view.indices(free)?;
    let mut inside: Option<Raw> = mask;
    for (axis, &index) in indices.iter().enumerate() {
        let within = match bounds {
            Bounds::Trust => continue,
            Bounds::Mask | Bounds::Check => is_inside(index, made.extents[axis], site),
        };
        if bounds == Bounds::Check {
            assert_inside(within, mask, (index, made.extents[axis], axis), site);
        } else {
            inside = Some(match inside {
                Some(others) => {
                    elementwise(OpKind::Binary(BinaryOp::And), &[others, within], Scalar::Bool, site)
                }
                None => within,
            });
        }
    }
    // Scalars first, so that the sum is one of scalars as long as it can be.
    let (tiles, scalars): (SmallVec<[_; 8]>, SmallVec<[_; 8]>) =
        indices.iter().zip(made.strides).partition(|(index, _)| is_tile(**index));
    let sum = |sum: Raw, (&index, stride): (&Raw, Raw)| {
        let distance = binary(BinaryOp::Mul, index, stride, Scalar::I64, site);
        binary(BinaryOp::Add, sum, distance, Scalar::I64, site)
    };
    let index = scalars.into_iter().chain(tiles).fold(made.offset, sum);
    Some(Placed { view: below, index: [index], mask: inside })
}

/// The index of every element of a box that begins at `offsets`, axis by axis.
pub(super) fn box_indices(offsets: &[Raw], shape: &Shape, site: Site) -> SmallVec<[Raw; 4]> {
    let along = |(axis, &at): (usize, &Raw)| {
        let counted = counted_along(shape[axis], shape.rank() - axis - 1, site);
        binary(BinaryOp::Add, at, cast(counted, Scalar::I32, Scalar::I64, site), Scalar::I64, site)
    };
    offsets.iter().enumerate().map(along).collect()
}

fn is_tile(raw: Raw) -> bool {
    with(|r| r.shape(raw)).flatten().is_some_and(|shape| shape.rank() > 0)
}

/// Whether `0 <= index < extent`.
fn is_inside(index: Raw, extent: Raw, site: Site) -> Raw {
    let zero = Raw::Const(Literal::zero(Scalar::I64));
    let (low, high) =
        (compared(CompareOp::Ge, index, zero, site), compared(CompareOp::Lt, index, extent, site));
    elementwise(OpKind::Binary(BinaryOp::And), &[low, high], Scalar::Bool, site)
}

/// Ends the kernel with a fault where an index that the mask selects is not inside its axis.
fn assert_inside(within: Raw, mask: Option<Raw>, (index, extent, axis): (Raw, Raw, usize), site: Site) {
    let holds = match mask {
        Some(mask) => {
            let unselected = unary(UnaryOp::Not, mask, Scalar::Bool, site);
            elementwise(OpKind::Binary(BinaryOp::Or), &[unselected, within], Scalar::Bool, site)
        }
        None => within,
    };
    let place = format!("axis {axis} of a view that the kernel made");
    // A message shows scalars.
    let (text, shown): (_, &[Raw]) = match is_tile(index) {
        true => (format!("an index lies outside {place}, of extent {{}}"), &[extent]),
        false => (format!("index {{}} lies outside {place}, of extent {{}}"), &[index, extent]),
    };
    with(|r| {
        let mut operands: SmallVec<[_; 4]> = SmallVec::new();
        operands.push(r.read(holds, site)?);
        for &value in shown {
            operands.push(r.read_as(value, &Shape::scalar(), site)?);
        }
        let message = r.message(&text);
        r.effect(OpKind::Assert(message), &operands, site);
        Some(())
    });
}

/// What accesses at indices of one shape do outside: a thread's are checked, those of tiles masked.
pub(super) fn bounds_of(operands: &[Raw], site: Site) -> Bounds {
    match with(|r| common_shape(r, operands, site)).flatten() {
        Some(shape) if shape.rank() > 0 => Bounds::Mask,
        _ => Bounds::Check,
    }
}

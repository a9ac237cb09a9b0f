//! Counting the elements of a tile.

use super::axis::scalar_of;
use super::rearrange::may_move;
use super::shape::checked_shape;
use crate::elem::Int;
use crate::trace::{Id, Raw, Site, with};
use crate::val::{Val, shape_of};
use kiln_ir::{AtomicOp, Bounds, Literal, OpKind, Reuse, Scalar, Scope, Shape, Type};
use smallvec::SmallVec;
use std::panic::Location;

impl<T: Int> Val<T> {
    /// How many elements are 0, 1, 2, … `bins - 1`. Others are not counted. The counts are added up
    /// in memory of the block.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// How many pixels have each of 256 shades.
    /// fn shades(pixels: Val<u32>) -> Val<u32> {
    ///     pixels.histogram(256)
    /// }
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(shades(iota(64).reshape([8, 8])).shape(), [256]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn histogram(self, bins: usize) -> Val<u32> {
        Val::from_raw(histogram(self.raw(), bins, Location::caller()))
    }
}

fn histogram(raw: Raw, bins: usize, site: Site) -> Raw {
    let (Some(shape), Some(_)) = (shape_of(raw), scalar_of(raw)) else { return Raw::Poison };
    let Some(counts) = checked_shape(&[bins], site) else { return Raw::Poison };
    if !may_move("histogram", site) {
        return Raw::Poison;
    }
    let counted = with(|r| {
        let memory = r.staging(Scalar::U32, &counts, site);
        let begin = r.constant(Literal::zero(Scalar::I64), Shape::scalar(), site);
        let zero = Literal::zero(Scalar::U32);
        let zeros = r.constant(zero, counts.clone(), site);
        let store = OpKind::Store { reuse: Reuse::Normal, disjoint: false };
        r.effect(store, &[memory, begin, zeros], site);
        let ones = r.constant(Literal::wrapping(Scalar::U32, 1), shape.clone(), site);
        let indices = r.read_as(raw, &shape, site)?;
        let kind =
            OpKind::Atomic { op: AtomicOp::Add, scope: Scope::Block, bounds: Bounds::Mask, masked: false };
        r.op(kind, &[memory, indices, ones], Type::tile(Scalar::U32, shape.clone()), site);
        let padding = r.constant(zero, Shape::scalar(), site);
        let operands: SmallVec<[Id; 4]> = SmallVec::from_slice(&[memory, begin, padding]);
        Some(r.op(OpKind::Load(Reuse::Normal), &operands, Type::tile(Scalar::U32, counts.clone()), site))
    });
    Raw::of(counted.flatten())
}

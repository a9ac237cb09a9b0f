//! Boxes of views that bulk tensor copies can move (CUDA driver API, "cuTensorMapEncodeTiled"), as
//! far as it is known when a kernel is specialized.

use super::NotEligible;
use crate::lower::facts::IntFacts;
use kiln_ir::{BinaryOp, Builder, ExplicitOp, Kernel, Op, Scalar, Shape, Value};

/// What addresses and distances of rows are multiples of, in bytes.
const ALIGNMENT: u64 = 16;
/// What rows of a shared tile are multiples of, in bytes.
const PANEL: u32 = 128;
/// The longest extent of a box.
const MAX_BOX: u32 = 256;
/// Rows that are permuted together in a shared tile.
const SWIZZLE_ROWS: u32 = 8;

/// A box of a view, and the shared tile that it is in the copy's order.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    /// The load that it takes the place of, or the store.
    pub op: Op,
    pub view: Value,
    pub offsets: Vec<Value>,
    pub elem: Scalar,
    /// Extents of the shared tile.
    pub rows: u32,
    pub columns: u32,
    /// The shared tile is the box transposed.
    pub transposed: bool,
    /// The extent of the axis along which elements are adjacent is so many bytes that a box may
    /// begin at its end.
    ends_aligned: bool,
}

impl Copied {
    /// The box of this shape at offsets of a view.
    pub fn of(
        kernel: &Kernel,
        facts: &mut IntFacts<'_>,
        (op, view): (Op, Value),
        offsets: &[Value],
        shape: &Shape,
    ) -> Result<Copied, NotEligible> {
        let loc = kernel.op(op).loc;
        let rank = shape.rank();
        let outer = rank.saturating_sub(2);
        if !(2..=5).contains(&rank) || shape.extents()[..outer].iter().any(|e| *e != 1) {
            return NotEligible::new(loc, format!("the box {shape} is no matrix of a view of up to 5 axes"));
        }
        let unit = adjacent(kernel, facts, view, rank).or_else(|reason| NotEligible::new(loc, reason))?;
        let transposed = unit + 2 == rank;
        let [down, across] = [shape[rank - 2], shape[rank - 1]];
        let [rows, columns] = if transposed { [across, down] } else { [down, across] };
        let elem = kernel.ty(view).elem();
        let fits = rows <= MAX_BOX
            && rows.is_multiple_of(SWIZZLE_ROWS)
            && (columns * elem.bytes()).is_multiple_of(PANEL);
        if !fits {
            return NotEligible::new(
                loc,
                format!(
                    "lines of {columns} {elem} are not multiples of {PANEL} bytes, or more than {MAX_BOX}"
                ),
            );
        }
        let together = u64::from(ExplicitOp::copied_together(elem));
        let aligned = |divisor: u64| divisor.is_multiple_of(together);
        if !aligned(facts.of(offsets[unit]).divisor) {
            let reason = format!("it is not known to begin at a multiple of {ALIGNMENT} bytes of a row");
            return NotEligible::new(loc, reason);
        }
        let ends_aligned = aligned(facts.extent(view, unit).divisor);
        Ok(Copied { op, view, offsets: offsets.to_vec(), elem, rows, columns, transposed, ends_aligned })
    }

    /// Bytes of the shared tile.
    pub fn bytes(&self) -> u32 {
        self.rows * self.columns * self.elem.bytes()
    }
}

/// Offsets of such a box as copies take them, in 32 bits that must not overflow within the box: one
/// past the end of its axis, or further before its beginning than a box is long, is as far outside
/// as any. The end of a row is moved to where a box may begin.
pub(super) fn coordinates(b: &mut Builder<'_>, copied: &Copied, offsets: &[Value]) -> Vec<Value> {
    let least = b.index(-i64::from(MAX_BOX));
    let unit = offsets.len() - 1 - usize::from(copied.transposed);
    let mut within = Vec::with_capacity(offsets.len());
    for (axis, &offset) in offsets.iter().enumerate() {
        let mut end = b.extent(copied.view, axis as u32);
        if axis == unit && !copied.ends_aligned {
            let together = i64::from(ExplicitOp::copied_together(copied.elem));
            let (more, whole) = (b.index(together - 1), b.index(-together));
            let up = b.binary(BinaryOp::Add, end, more);
            end = b.binary(BinaryOp::And, up, whole);
        }
        let low = b.binary(BinaryOp::Max, offset, least);
        within.push(b.binary(BinaryOp::Min, low, end));
    }
    within
}

/// The axis of a view, one of the last two, along which elements are adjacent, where copies can
/// take boxes of it.
fn adjacent(kernel: &Kernel, facts: &IntFacts<'_>, view: Value, rank: usize) -> Result<usize, String> {
    let bytes = u64::from(kernel.ty(view).elem().bytes());
    if !facts.alignment(view).is_multiple_of(ALIGNMENT) {
        return Err(format!("its address is not known to be a multiple of {ALIGNMENT} bytes"));
    }
    let one = |axis: &usize| {
        let stride = facts.stride(view, *axis);
        stride.min == 1 && stride.max == 1
    };
    let unit = (rank - 2..rank).rev().find(one);
    let unit = unit.ok_or("elements are adjacent on neither of the last axes")?;
    for axis in 0..rank {
        let (extent, stride) = (facts.extent(view, axis), facts.stride(view, axis));
        if extent.max > i128::from(i32::MAX) || stride.min < 0 || stride.max > i128::from(i32::MAX) {
            return Err("its extents and strides are not known to fit 32 bits".into());
        }
        if axis != unit && !(stride.divisor * bytes).is_multiple_of(ALIGNMENT) {
            return Err(format!("its rows are not known to lie multiples of {ALIGNMENT} bytes apart"));
        }
    }
    Ok(unit)
}

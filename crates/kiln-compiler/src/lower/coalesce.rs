//! How a box of a view is best moved: along which axis, in vectors of which length, and what
//! another layout would cost.

use super::facts::{IntFacts, Known};
use crate::layout::{AxisBits, Layout, Threads};
use kiln_ir::{Kernel, Shape, Value};

/// The longest access of a thread, in bytes.
const VECTOR_BYTES: u32 = 16;

/// How a box of a view is laid out in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contiguity {
    /// The axis along which elements are adjacent, if any is.
    pub axis: usize,
    /// The longest vector along it, in elements, whose address is aligned.
    pub aligned: u32,
    /// The longest of those that also lies wholly inside or outside the view.
    pub uncut: u32,
}

impl Contiguity {
    /// The contiguity of the box of `shape` at `offsets`.
    pub fn of(
        facts: &mut IntFacts,
        kernel: &Kernel,
        view: Value,
        offsets: &[Value],
        shape: &Shape,
    ) -> Contiguity {
        let rank = shape.rank();
        if rank == 0 {
            return Contiguity::none(0);
        }
        let one = |k: Known| k.min == 1 && k.max == 1;
        let adjacent = |a: &usize| one(facts.stride(view, *a));
        let wide = (0..rank).rev().filter(|&a| shape[a] > 1).find(adjacent);
        let Some(axis) = wide.or_else(|| (0..rank).rev().find(adjacent)) else {
            return Contiguity::none(rank - 1);
        };
        let bytes = kernel.ty(view).elem().bytes();
        let mut vector = u64::from((VECTOR_BYTES / bytes).min(shape[axis]));
        vector = vector.min(facts.alignment(view) / u64::from(bytes));
        let mut extent = u64::MAX;
        for a in 0..rank {
            let offset = facts.of(offsets[a]);
            let stride = facts.stride(view, a);
            if a == axis {
                vector = vector.min(offset.divisor);
                if !inside(offset, facts.extent(view, a), shape[a]) {
                    extent = facts.extent(view, a).divisor;
                }
            } else {
                vector = vector.min(offset.divisor.saturating_mul(stride.divisor));
                if shape[a] > 1 {
                    vector = vector.min(stride.divisor);
                }
            }
        }
        let aligned = vector.max(1);
        Contiguity { axis, aligned: aligned as u32, uncut: aligned.min(extent) as u32 }
    }

    /// Nothing is known: neighboring lanes take neighboring elements on an axis.
    pub fn none(axis: usize) -> Contiguity {
        Contiguity { axis, aligned: 1, uncut: 1 }
    }

    /// The layout in which the box is moved fastest.
    pub fn layout(self, shape: &Shape, threads: impl Into<Threads>) -> Layout {
        Layout::coalesced(shape, self.axis, self.aligned, threads)
    }

    /// The register bits of a layout that step through one vector of up to `vector` elements,
    /// lowest element bit first.
    pub fn vector_bits(self, layout: &Layout, shape: &Shape, vector: u32) -> Vec<usize> {
        if shape.rank() == 0 {
            return Vec::new();
        }
        let place = AxisBits::of(shape, self.axis);
        (0..vector.trailing_zeros().min(place.count))
            .map_while(|bit| layout.register().iter().position(|b| *b == 1 << (place.shift + bit)))
            .collect()
    }

    /// The memory sectors of so many bytes that a block touches when it moves the box in a layout:
    /// time in the unit of [`Conversion::cost`](crate::layout::Conversion::cost). Where warps hold
    /// copies each of them loads, but only one stores.
    pub fn cost(self, layout: &Layout, shape: &Shape, bytes: u32, load: bool, sector: u32) -> u32 {
        if shape.rank() == 0 {
            return 1;
        }
        let place = AxisBits::of(shape, self.axis);
        let vector = 1u32 << self.vector_bits(layout, shape, self.aligned).len();
        let apart = layout.lane().iter().filter(|b| match place.coordinate(**b) {
            0 => **b != 0,
            step => step * bytes >= sector,
        });
        let sectors = (vector * bytes).div_ceil(sector) << apart.count();
        let warps = 1 << layout.warp().iter().filter(|b| load || **b != 0).count();
        sectors * (layout.registers() as u32 / vector) * warps
    }
}

/// Whether `offset + i` is inside an extent for every `i` of a box's extent on the axis.
pub(crate) fn inside(offset: Known, extent: Known, size: u32) -> bool {
    offset.min >= 0 && offset.max + i128::from(size) <= extent.min
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{Axis, BinaryOp, Builder, Facts, IntFact, Level, Param, Scalar, Space, Type};

    fn fact(divisor: u32, equals: Option<i64>) -> IntFact {
        IntFact { divisor, equals, fits_i32: false }
    }

    fn matrix(rows: IntFact, columns: IntFact, pitch: IntFact, align: u32) -> (Kernel, Value) {
        let mut kernel = Kernel::new("k", Level::Tile { warps: None });
        let x = kernel.add_param(Param {
            name: "x".into(),
            ty: Type::view(Scalar::F32, 2, Space::Global),
            mutable: false,
            facts: Facts {
                align,
                extents: [rows, columns].into_iter().collect(),
                strides: [pitch, fact(1, Some(1))].into_iter().collect(),
                ..Facts::default()
            },
        });
        (kernel, x)
    }

    fn vector(kernel: &mut Kernel, x: Value, shape: &[u32], step: i64) -> (u32, u32) {
        let mut b = Builder::new(kernel);
        let row = b.program_id(Axis::X);
        let step = b.index(step);
        let column = b.binary(BinaryOp::Mul, row, step);
        let found = Contiguity::of(&mut IntFacts::new(kernel), kernel, x, &[row, column], &Shape::new(shape));
        assert_eq!(found.axis, 1);
        (found.aligned, found.uncut)
    }

    #[test]
    fn vectors_are_as_long_as_the_facts_allow() {
        let (any, by16) = (fact(1, None), fact(16, None));
        let cases = [
            (by16, by16, 16, 1024, [1, 64], (4, 4)),
            (by16, any, 16, 1024, [1, 64], (1, 1)), // rows start anywhere
            (any, by16, 16, 1024, [1, 64], (4, 1)), // the last vector may be cut
            (fact(2, None), by16, 16, 1024, [1, 64], (4, 2)),
            (by16, by16, 8, 1024, [1, 64], (2, 2)), // the base is aligned to 8 bytes
            (by16, by16, 16, 1026, [1, 64], (2, 2)), // offsets are even
            (by16, by16, 16, 1024, [64, 2], (2, 2)), // the box is 2 wide
        ];
        for (columns, pitch, align, step, shape, expected) in cases {
            let (mut kernel, x) = matrix(any, columns, pitch, align);
            assert_eq!(
                vector(&mut kernel, x, &shape, step),
                expected,
                "{columns:?} {pitch:?} {align} {step} {shape:?}"
            );
        }
    }

    #[test]
    fn an_extent_that_is_never_crossed_does_not_matter() {
        let (mut kernel, x) = matrix(fact(1, None), fact(1, Some(67)), fact(4, Some(68)), 16);
        assert_eq!(vector(&mut kernel, x, &[1, 64], 0), (4, 4));
        assert_eq!(vector(&mut kernel, x, &[1, 128], 0), (4, 1));
    }

    #[test]
    fn columns_cost_more_than_rows() {
        let shape = Shape::new(&[64, 64]);
        let rows = Contiguity { axis: 1, aligned: 4, uncut: 4 };
        let ideal = 64 * 64 * 4 / 32;
        assert_eq!(rows.cost(&Layout::coalesced(&shape, 1, 4, 4), &shape, 4, true, 32), ideal);
        assert_eq!(rows.cost(&Layout::coalesced(&shape, 0, 1, 4), &shape, 4, true, 32), 8 * ideal);
    }
}

//! Rules of products on matrix units whose fragments nobody else can read.

use super::subject::{Outcome, Subject, require};
use crate::matrix::{MATRIX, MatrixOp};
use crate::types::{Scalar, Shape, Space, Type};

/// The most warps of a block.
const MOST_WARPS: u32 = 32;

pub(super) fn check(s: &Subject, op: MatrixOp) -> Outcome {
    let index = Type::scalar(Scalar::I64);
    match op {
        MatrixOp::Zero(_) => s.counts(1, 0)?.sums(0, op).map(|_| ()),
        MatrixOp::Multiply { depth, transposed, .. } => {
            let [m, n] = s.counts(5, 0)?.sums(2, op)?;
            require(depth > 0 && depth.is_multiple_of(MATRIX), || {
                format!("a depth of {depth}, expected a multiple of {MATRIX}")
            })?;
            for (at, outer) in [(0, m), (1, n)] {
                // By the depth unless the transpose lies there, which of the right factor is plain.
                let along = if transposed[at] == (at == 1) { depth } else { outer };
                let shape = s.allocation(at, Scalar::F16)?;
                require(shape[1] >= along && shape[1].is_multiple_of(8), || {
                    format!("a factor with lines of {}, expected {along} or more, by eights", shape[1])
                })?;
            }
            s.operand(3, &index)?.operand(4, &index).map(|_| ())
        }
        MatrixOp::Store { grid, fragment, slot } => {
            let sums = s.counts(2, 0)?.sums(0, op)?;
            let [high, wide] = grid.fragments(sums);
            let all = high.saturating_mul(wide);
            require(fragment < all, || format!("fragment {fragment} of {all} of a warp"))?;
            let staged = s.allocation(1, Scalar::F32)?;
            require(slot < staged[1] / (MATRIX * MATRIX), || {
                format!("fragment {slot} of a line of {} elements", staged[1])
            })
        }
        MatrixOp::Load(_) => {
            let [m, n] = s.counts(2, 1)?.sums(0, op)?;
            s.allocation(1, Scalar::F32)?;
            s.result(0, &Type::tile(Scalar::F32, Shape::new(&[m, n])))
        }
    }
}

impl<'k> Subject<'k> {
    /// The extents of sums that warps divide into fragments.
    fn sums(&self, at: usize, op: MatrixOp) -> Result<[u32; 2], String> {
        let shape = self.allocation(at, Scalar::F32)?;
        let (grid, [m, n]) = (op.grid(), [shape[0], shape[1]]);
        let divides = |extent: u32, by: u32| by > 0 && extent.is_multiple_of(by.saturating_mul(MATRIX));
        let few = grid.rows.saturating_mul(grid.columns) <= MOST_WARPS;
        require(few && divides(m, grid.rows) && divides(n, grid.columns), || {
            format!("sums {m} x {n} in {} x {} parts of whole fragments", grid.rows, grid.columns)
        })?;
        Ok([m, n])
    }

    /// The extents of an operand that is an allocation of shared memory of rank 2.
    fn allocation(&self, at: usize, elem: Scalar) -> Result<&'k Shape, String> {
        self.operand(at, &Type::view(elem, 2, Space::Shared))?;
        let shape = self.kernel.alloc_shape(self.data.operands[at]);
        shape.ok_or_else(|| format!("operand {at} is no allocation"))
    }
}

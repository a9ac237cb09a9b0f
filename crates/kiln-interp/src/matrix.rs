//! Products on matrix units whose fragments nobody else can read. Their sums lie in shared memory
//! here.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::Spaces;
use crate::trap::Trap;
use crate::value::View;
use half::f16;
use kiln_ir::numeric::Element;
use kiln_ir::{MATRIX, MatrixOp, OpData, Operand, Space};

/// Elements along an axis of a fragment.
const SIDE: usize = MATRIX as usize;

impl Machine<'_> {
    /// Executes an operation of the block.
    pub fn matrix(&mut self, data: &OpData, op: MatrixOp, mask: &Mask) -> Result<(), Trap> {
        self.need_all("a product on matrix units", mask)?;
        match op {
            MatrixOp::Zero(_) => {
                let sums = self.view(data.view())?.clone();
                let none = vec![0.0f32; sums.extents[1] as usize];
                (0..sums.extents[0]).try_for_each(|row| write(&mut self.spaces, &sums, [row, 0], &none))
            }
            MatrixOp::Multiply { depth, transposed, .. } => {
                self.multiply_matrices(data, depth as usize, transposed)
            }
            MatrixOp::Store { grid, fragment, slot } => {
                let [sums, staged] = [data.view(), data.tile()].map(|v| self.view(v).cloned());
                let (sums, staged) = (sums?, staged?);
                let extents = [sums.extents[0] as u32, sums.extents[1] as u32];
                let mut row = [0.0f32; SIDE];
                for (warp, i) in (0..staged.extents[0]).flat_map(|warp| (0..SIDE).map(move |i| (warp, i))) {
                    let [top, first] = grid.place(extents, warp as u32, fragment);
                    read(&mut self.spaces, &sums, [i64::from(top) + i as i64, first.into()], &mut row)?;
                    let at = (slot as usize * SIDE + i) * SIDE;
                    write(&mut self.spaces, &staged, [warp, at as i64], &row)?;
                }
                Ok(())
            }
            MatrixOp::Load(_) => {
                let sums = self.view(data.view())?.clone();
                let Machine { registers, spaces, .. } = self;
                let tile = f32::of_mut(&mut registers[data.results[0].index()])?;
                let mut rows = tile.chunks_exact_mut(sums.extents[1] as usize).zip(0..);
                rows.try_for_each(|(row, at)| read(spaces, &sums, [at, 0], row))
            }
        }
    }

    /// Sums are made in f64 and rounded once: closer than any device's.
    fn multiply_matrices(&mut self, data: &OpData, depth: usize, transposed: [bool; 2]) -> Result<(), Trap> {
        let sums = self.view(data.view())?.clone();
        let [m, n] = [0, 1].map(|axis| sums.extents[axis] as usize);
        let mut factors = Vec::new();
        for (at, (factor, outer)) in [(data.left(), m), (data.right(), n)].into_iter().enumerate() {
            let view = self.view(factor)?.clone();
            let line = i64::of(self.data(data.named(Operand::Index)[at]))?[0];
            // Both by their outer axis.
            let by_depth = transposed[at] == (at == 1);
            let extents = if by_depth { [outer, depth] } else { [depth, outer] };
            let lines = matrix(&mut self.spaces, &view, line, extents)?;
            factors.push(match by_depth {
                true => lines,
                false => (0..outer).map(|i| lines.iter().map(|line| line[i]).collect()).collect(),
            });
        }
        let mut row = vec![0.0f32; n];
        for (i, left) in factors[0].iter().enumerate() {
            read(&mut self.spaces, &sums, [i as i64, 0], &mut row)?;
            for (sum, right) in row.iter_mut().zip(&factors[1]) {
                let products = left.iter().zip(right).map(|(x, y)| x * y);
                *sum = products.fold(f64::from(*sum), |sum, product| sum + product) as f32;
            }
            write(&mut self.spaces, &sums, [i as i64, 0], &row)?;
        }
        Ok(())
    }
}

/// The lines of a matrix of f16.
fn matrix(
    spaces: &mut Spaces,
    view: &View,
    first: i64,
    [lines, length]: [usize; 2],
) -> Result<Vec<Vec<f64>>, Trap> {
    let mut line = vec![f16::ZERO; length];
    let lines = (0..lines as i64).map(|i| {
        read(spaces, view, [first + i, 0], &mut line)?;
        Ok(line.iter().map(|x| x.to_f64()).collect())
    });
    lines.collect()
}

fn read<T: Element>(spaces: &mut Spaces, view: &View, at: [i64; 2], out: &mut [T]) -> Result<(), Trap> {
    spaces.read(place(view, at), out)
}

fn write<T: Element>(spaces: &mut Spaces, view: &View, at: [i64; 2], from: &[T]) -> Result<(), Trap> {
    spaces.write(place(view, at), from)
}

/// An element of a view by rows. What lies outside is found where it is accessed.
fn place(view: &View, [row, column]: [i64; 2]) -> MemoryAccess {
    let index = row.wrapping_mul(view.strides[0]).wrapping_add(column);
    let address = view.base.wrapping_add((index as u64).wrapping_mul(view.elem_bytes));
    MemoryAccess { space: Space::Shared, address, lane: None, atomic: false }
}

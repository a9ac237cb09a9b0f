//! Products of matrices at the tile level, on every device.

use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// c = a b: a tile of `rows` × `columns` a program, `depth` columns of a and rows of b at a time.
    #[kernel(crate = kiln_runtime)]
    pub fn matmul<T: Accumulate, O: Num>(
        a: &Tensor<T, 2>,
        b: &Tensor<T, 2>,
        c: &mut Tensor<O, 2>,
        rows: usize,
        columns: usize,
        depth: usize,
    ) {
        let (row, column) = (program_id(1) * rows, program_id(0) * columns);
        let mut sum = zeros::<T::Acc>((rows, columns));
        for at in range_step(0, a.extent(1), depth) {
            let (x, y) = (a.tile((row, at), (rows, depth)), b.tile((at, column), (depth, columns)));
            sum = dot_acc(x.load(0), y.load(0), sum);
        }
        c.tile((row, column), (rows, columns)).store(sum.cast::<O>());
    }
}

/// Launches the kernel for matrices whose shapes fit.
pub(super) fn multiply<T: Accumulate, O: Num>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<O, 2>,
) -> Result<()> {
    let ([m, k], [_, n]) = (a.shape(), b.shape());
    let device = a.device().clone();
    let (rows, columns, depth) = tile(&device, m, n, k);
    kernels::matmul(a, b, c, rows, columns, depth).launch(&device)
}

/// The tile of a program, and the depth of a step.
fn tile(device: &Device, m: usize, n: usize, k: usize) -> (usize, usize, usize) {
    let within = |extent: usize, most: usize| extent.next_power_of_two().clamp(16, most);
    match device.properties().kind {
        BackendKind::Cpu => {
            // What a program packs serves all of its rows and columns, and what it holds stays in the L2 cache; smaller tiles where large ones
            // would leave a core without work.
            let programs = |rows: usize| m.div_ceil(rows) * n.div_ceil(256);
            let rows = if programs(256) >= 2 * device.properties().units as usize { 256 } else { 128 };
            (within(m, rows), within(n, 256), within(k, 512))
        }
        BackendKind::Cuda => (within(m, 32), within(n, 64), 32),
        BackendKind::Interp => (16, 16, 16),
    }
}

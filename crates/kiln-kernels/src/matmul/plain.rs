//! Products of matrices at the tile level, on every device.

use super::epilogue::{Epilogue, Place};
use super::factor::Factor;
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// c = a b through the epilogue: a tile of `rows` × `columns` a program, `depth` columns of a and rows of b at a time. A factor that is `shared` is the same
    /// for all products of the stack.
    #[kernel(crate = kiln_runtime)]
    pub fn matmul<T: Factor, O: Numeric, E: Epilogue<T::Sum>>(
        a: &Tensor<T, 3>,
        b: &Tensor<T, 3>,
        c: &mut Tensor<O, 3>,
        epilogue: E,
        shared: [bool; 2],
        rows: usize,
        columns: usize,
        depth: usize,
    ) {
        let (batch, row, column) = (program_id(2), program_id(1) * rows, program_id(0) * columns);
        let of = |shared: bool| if shared { val(0) } else { batch };
        let (a, b) = (a.row(of(shared[0])), b.row(of(shared[1])));
        let mut sum = zeros::<T::Sum>((rows, columns));
        for at in range_step(0, a.extent(1), depth) {
            let (x, y) = (a.tile((row, at), (rows, depth)), b.tile((at, column), (depth, columns)));
            sum = dot_acc(x.load(0).cast::<T::Wide>(), y.load(0).cast::<T::Wide>(), sum);
        }
        let place = Place { batch, row, column, shape: [rows, columns] };
        let result = E::apply(&epilogue, sum, &place).cast::<O>();
        c.row(batch).tile((row, column), (rows, columns)).store(result);
    }
}

/// Launches the kernel for matrices whose shapes fit.
pub(super) fn multiply<T: Factor, O: Numeric, E: Epilogue<T::Sum>>(
    a: &Tensor<T, 3>,
    b: &Tensor<T, 3>,
    c: &mut Tensor<O, 3>,
    epilogue: E,
) -> Result<()> {
    let ([_, m, k], [_, _, n]) = (a.shape(), b.shape());
    let shared = [a.shape()[0] == 1, b.shape()[0] == 1];
    let device = a.device().clone();
    let (rows, columns, depth) = tile::<T>(&device, m, n, k);
    kernels::matmul::<T, O, E>(a, b, c, epilogue, shared, rows, columns, depth).launch(&device)
}

/// The tile of a program, and the depth of a step.
fn tile<T: Factor>(device: &Device, m: usize, n: usize, k: usize) -> (usize, usize, usize) {
    let within = |extent: usize, most: usize| extent.next_power_of_two().clamp(16, most);
    match device.properties().kind {
        BackendKind::Cpu => {
            // What a program packs serves all of its rows and columns, and what it holds stays in the L2 cache; smaller tiles where large ones
            // would leave a core without work.
            let programs = |rows: usize| m.div_ceil(rows) * n.div_ceil(256);
            let rows = if programs(256) >= 2 * device.properties().units as usize { 256 } else { 128 };
            (within(m, rows), within(n, 256), within(k, 512))
        }
        // On tensor cores: 64 × 64 a warp, or fewer where the device would have too little to do.
        BackendKind::Cuda if size_of::<T>() == 2 => {
            let programs = m.div_ceil(128) * n.div_ceil(128);
            let most = if programs >= device.properties().units as usize { 128 } else { 64 };
            (within(m, most), within(n, most), 32)
        }
        BackendKind::Cuda => (within(m, 32), within(n, 64), 32),
        BackendKind::Interp => (16, 16, 16),
    }
}

//! Products of matrices at the tile level, on every device.

use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Device, Error, Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// c = a b: a tile of `rows` × `columns` a program, `depth` columns of a and rows of b at a time.
    #[kernel(crate = kiln_runtime)]
    pub fn matmul<T: Accumulate>(
        a: &Tensor<T, 2>,
        b: &Tensor<T, 2>,
        c: &mut Tensor<T::Acc, 2>,
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
        c.tile((row, column), (rows, columns)).store(sum);
    }
}

/// c = a b, accumulated in f32 for the 16-bit floats. A transposed factor is a [transposed](Tensor::transpose) tensor.
///
/// On a GPU this is the plain path, without matrix units.
///
/// # Errors
/// [`Error::Shape`] unless a is m × k, b is k × n and c is m × n.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 1.0], [2, 1])?);
/// let mut c = device.uninit([2, 1])?;
/// kiln_kernels::matmul(&a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?, [3.0, 7.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn matmul<T: Accumulate>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T::Acc, 2>) -> Result<()> {
    let ([m, k], [inner, n]) = (a.shape(), b.shape());
    if inner != k {
        return Err(Error::Shape { what: "matmul, b".into(), expected: vec![k, n], given: vec![inner, n] });
    }
    if c.shape() != [m, n] {
        return Err(Error::Shape {
            what: "matmul, c".into(),
            expected: vec![m, n],
            given: c.shape().to_vec(),
        });
    }
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

//! Products with weights of 4 and 8 bits. A group of a row is unpacked in a tile and multiplied as
//! whole numbers, which 16-bit floats hold; then the sums are multiplied by the scales.

use kiln_ir::Scalar;
use kiln_kernels::matmul::Factor;
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};

/// What kernels are made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Form {
    /// Inputs that share a scale.
    pub(super) group: usize,
    /// Whether two weights share a byte.
    pub(super) four: bool,
}

/// The tile of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, KernelConst)]
#[kiln(crate = kiln_lang)]
pub struct Tiles {
    /// Rows of x.
    rows: usize,
    /// Outputs.
    outputs: usize,
    /// Inputs that share a scale.
    group: usize,
}

/// y = x Wᵀ for weights of 8 bits.
#[kernel(crate = kiln_runtime)]
fn product_8<T: Factor<Sum = f32> + Num>(
    x: &Tensor<T, 2>,
    quants: &Tensor<i8, 2>,
    scales: &Tensor<f32, 2>,
    y: &mut Tensor<T, 2>,
    tiles: Tiles,
) {
    let Tiles { rows, outputs, group } = tiles;
    let (row, output) = (program_id(0) * rows, program_id(1) * outputs);
    let mut sums = zeros::<f32>((rows, outputs));
    for block in range(0, scales.extent(1)) {
        let x = x.tile((row, block * group), (rows, group)).load(0);
        let quants = quants.tile((output, block * group), (outputs, group)).load(0).cast::<T>();
        let scale = scales.tile((output, block), (outputs, 1)).load(0.0).reshape((1, outputs));
        sums += dot(x, quants.transpose()) * scale;
    }
    y.tile((row, output), (rows, outputs)).store(sums.cast::<T>());
}

/// y = x Wᵀ for weights of 4 bits, each minimum times the sum of its group's inputs.
#[kernel(crate = kiln_runtime)]
fn product_4<T: Factor<Sum = f32> + Num>(
    x: &Tensor<T, 2>,
    quants: &Tensor<u8, 2>,
    scales: &Tensor<f32, 2>,
    minima: &Tensor<f32, 2>,
    y: &mut Tensor<T, 2>,
    tiles: Tiles,
) {
    let Tiles { rows, outputs, group } = tiles;
    let (row, output) = (program_id(0) * rows, program_id(1) * outputs);
    let mut sums = zeros::<f32>((rows, outputs));
    for block in range(0, scales.extent(1)) {
        let x = x.tile((row, block * group), (rows, group)).load(0);
        let bytes = quants.tile((output, block * (group / 2)), (outputs, group / 2)).load(0);
        let of_group =
            |of: &View<f32, 2>| of.tile((output, block), (outputs, 1)).load(0.0).reshape((1, outputs));
        let products = dot(x, bytes.unpack_uint4::<T>().transpose());
        let inputs = x.cast::<f32>().sum_keep(1);
        sums += products * of_group(&scales) + inputs * of_group(&minima);
    }
    y.tile((row, output), (rows, outputs)).store(sums.cast::<T>());
}

/// The gradient of x: g W for weights of 8 bits, a group of inputs a program.
#[kernel(crate = kiln_runtime)]
fn gradient_8<T: Factor<Sum = f32> + Num>(
    g: &Tensor<T, 2>,
    quants: &Tensor<i8, 2>,
    scales: &Tensor<f32, 2>,
    of_x: &mut Tensor<T, 2>,
    tiles: Tiles,
) {
    let Tiles { rows, outputs, group } = tiles;
    let (row, block) = (program_id(0) * rows, program_id(1));
    let mut sums = zeros::<f32>((rows, group));
    for output in range_step(0, quants.extent(0), outputs) {
        let g = g.tile((row, output), (rows, outputs)).load(0).cast::<f32>();
        let scale = scales.tile((output, block), (outputs, 1)).load(0.0).reshape((1, outputs));
        let quants = quants.tile((output, block * group), (outputs, group)).load(0).cast::<T>();
        sums = dot_acc((g * scale).cast::<T>(), quants, sums);
    }
    of_x.tile((row, block * group), (rows, group)).store(sums.cast::<T>());
}

/// The same for weights of 4 bits.
#[kernel(crate = kiln_runtime)]
fn gradient_4<T: Factor<Sum = f32> + Num>(
    g: &Tensor<T, 2>,
    quants: &Tensor<u8, 2>,
    scales: &Tensor<f32, 2>,
    minima: &Tensor<f32, 2>,
    of_x: &mut Tensor<T, 2>,
    tiles: Tiles,
) {
    let Tiles { rows, outputs, group } = tiles;
    let (row, block) = (program_id(0) * rows, program_id(1));
    let mut sums = zeros::<f32>((rows, group));
    for output in range_step(0, quants.extent(0), outputs) {
        let g = g.tile((row, output), (rows, outputs)).load(0).cast::<f32>();
        let of_group =
            |of: &View<f32, 2>| of.tile((output, block), (outputs, 1)).load(0.0).reshape((1, outputs));
        let bytes = quants.tile((output, block * (group / 2)), (outputs, group / 2)).load(0);
        sums = dot_acc((g * of_group(&scales)).cast::<T>(), bytes.unpack_uint4::<T>(), sums);
        sums += (g * of_group(&minima)).sum_keep(1);
    }
    of_x.tile((row, block * group), (rows, group)).store(sums.cast::<T>());
}

/// Tiles for so many rows.
fn tiles(rows: usize, group: usize) -> Tiles {
    Tiles { rows: rows.next_power_of_two().clamp(16, 64), outputs: 64, group }
}

/// Of x, quants, scales and minima.
pub(super) fn product(form: &Form, given: &[DynTensor], y: &mut DynTensor) -> Result<()> {
    macro_rules! of {
        ($of:ty) => {
            multiply::<$of>(*form, given, y)
        };
    }
    match y.dtype() {
        Scalar::F16 => of!(f16),
        Scalar::BF16 => of!(bf16),
        _ => of!(f32),
    }
}

fn multiply<T: Factor<Sum = f32> + Num>(form: Form, given: &[DynTensor], y: &mut DynTensor) -> Result<()> {
    let (x, scales, device) =
        (given[0].downcast_ref::<T, 2>()?, given[2].downcast_ref()?, y.device().clone());
    let y: &mut Tensor<T, 2> = y.downcast_mut()?;
    let tiles = tiles(x.shape()[0], form.group);
    if form.four {
        let (quants, minima) = (given[1].downcast_ref()?, given[3].downcast_ref()?);
        return product_4::<T>(x, quants, scales, minima, y, tiles).launch(&device);
    }
    product_8::<T>(x, given[1].downcast_ref()?, scales, y, tiles).launch(&device)
}

/// Of the gradient of y, quants, scales and minima.
pub(super) fn gradient(form: &Form, given: &[DynTensor], of_x: &mut DynTensor) -> Result<()> {
    macro_rules! of {
        ($of:ty) => {
            multiply_back::<$of>(*form, given, of_x)
        };
    }
    match of_x.dtype() {
        Scalar::F16 => of!(f16),
        Scalar::BF16 => of!(bf16),
        _ => of!(f32),
    }
}

fn multiply_back<T: Factor<Sum = f32> + Num>(
    form: Form,
    given: &[DynTensor],
    of_x: &mut DynTensor,
) -> Result<()> {
    let (g, scales, device) =
        (given[0].downcast_ref::<T, 2>()?, given[2].downcast_ref()?, of_x.device().clone());
    let of_x: &mut Tensor<T, 2> = of_x.downcast_mut()?;
    let tiles = tiles(g.shape()[0], form.group);
    if form.four {
        let (quants, minima) = (given[1].downcast_ref()?, given[3].downcast_ref()?);
        return gradient_4::<T>(g, quants, scales, minima, of_x, tiles).launch(&device);
    }
    gradient_8::<T>(g, given[1].downcast_ref()?, scales, of_x, tiles).launch(&device)
}

//! Products of 8-bit floats: the kernel that narrows a factor, and the launches.

use half::bf16;
use kiln_ir::Scalar;
use kiln_kernels::Matmul;
use kiln_kernels::matmul::Factor;
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};

/// An 8-bit float that factors are narrowed to.
pub(crate) trait Format: Factor<Sum = f32> {
    /// The largest finite number.
    const LARGEST: f32;
}

impl Format for E4M3 {
    const LARGEST: f32 = 448.0;
}

impl Format for E5M2 {
    const LARGEST: f32 = 57344.0;
}

/// The least inverse scale: the scale, which is then 2^126, is finite.
const LEAST_INVERSE: f32 = f32::MIN_POSITIVE;

/// Rows and columns of the tile that a program narrows. Elements may be adjacent along either axis.
const TILE: usize = 64;

/// Tiles of a row that a launch narrows at most.
const MOST_ACROSS: usize = 65535;

/// Rows of factors in memory begin at multiples of 16 bytes, so that bulk copies can move them.
const ALIGNMENT: usize = 16;

mod kernels {
    use super::*;

    /// y = x · scale, a tile a program, where the scale maps the greatest magnitude of x to the
    /// largest number of the format. The first program stores the inverse scale.
    ///
    /// Where the greatest magnitude is infinite the scale is 0 and its inverse infinite, so that
    /// what is multiplied by both is NaN.
    #[kernel(crate = kiln_runtime)]
    pub fn narrow<T: Numeric, Q: Format>(
        x: &Tensor<T, 2>,
        greatest: &Tensor<f32, 1>,
        y: &mut Tensor<Q, 2>,
        inverse: &mut Tensor<f32, 2>,
        rows: usize,
        columns: usize,
    ) {
        let (row, column, shape) = (program_id(0), program_id(1), (rows, columns));
        let at = (row * rows, column * columns);
        let of_all = greatest.get(0);
        let ratio = of_all / Q::LARGEST;
        // NaN remains NaN.
        let ratio = select(ratio.lt(LEAST_INVERSE), LEAST_INVERSE, ratio);
        let ratio = select(of_all.eq(0.0), 1.0, ratio);
        // A cast to these formats gives the largest number for what is beyond it, and NaN for NaN.
        y.tile(at, shape).store((x.tile(at, shape).load(0).cast::<f32>() * ratio.recip()).cast::<Q>());
        // Those of other programs lie outside of its one element.
        inverse.tile((row, column), (1, 1)).store(full((1, 1), ratio));
    }
}

/// A factor that was narrowed.
struct Narrowed<Q: Elem> {
    elements: Tensor<Q, 2>,
    /// What products are multiplied by.
    inverse: Tensor<f32, 1>,
}

impl<Q: Format> Narrowed<Q> {
    /// A matrix with any strides, by rows, of which the greatest magnitude is known.
    fn of(x: &DynTensor, greatest: &DynTensor) -> Result<Narrowed<Q>> {
        match x.dtype() {
            Scalar::F16 => Narrowed::of_type::<f16>(x.downcast_ref()?, greatest),
            Scalar::BF16 => Narrowed::of_type::<bf16>(x.downcast_ref()?, greatest),
            _ => Narrowed::of_type::<f32>(x.downcast_ref()?, greatest),
        }
    }

    fn of_type<T: Numeric>(x: &Tensor<T, 2>, greatest: &DynTensor) -> Result<Narrowed<Q>> {
        let (device, [m, k]) = (x.device(), x.shape());
        let whole = device.uninit([m, k.next_multiple_of(ALIGNMENT)])?;
        let (elements, mut inverse) = (whole.slice(1, 0..k)?, device.uninit([1, 1])?);
        let greatest = greatest.reshape(&[1])?;
        let greatest = greatest.downcast_ref()?;
        let [rows, columns] = [m, k].map(|extent| extent.next_power_of_two().min(TILE));
        // A grid has least room on its second axis, which has the parts of a row.
        let most = MOST_ACROSS * columns;
        for from in (0..k).step_by(most) {
            let (x, mut y) =
                (x.slice(1, from..k.min(from + most))?, elements.slice(1, from..k.min(from + most))?);
            let grid = [m.div_ceil(rows), y.shape()[1].div_ceil(columns), 1].map(|tiles| tiles as u32);
            let narrow = kernels::narrow::<T, Q>(&x, greatest, &mut y, &mut inverse, rows, columns);
            narrow.grid(grid).launch(device)?;
        }
        Ok(Narrowed { elements, inverse: inverse.reshape([1])? })
    }
}

/// Launches a product of a matrix `[m, k]`, narrowed to E5M2 if it `is_gradient` and to E4M3
/// otherwise, and the transpose of one `[n, k]`, narrowed to E4M3. Their greatest magnitudes follow
/// them. Both lie by rows then, as tensor cores of 8-bit floats want them.
pub(crate) fn multiply(is_gradient: bool, inputs: &[DynTensor], y: &mut DynTensor) -> Result<()> {
    if is_gradient { of_format::<E5M2>(inputs, y) } else { of_format::<E4M3>(inputs, y) }
}

fn of_format<Q: Format<Family = <E4M3 as Accumulate>::Family>>(
    inputs: &[DynTensor],
    y: &mut DynTensor,
) -> Result<()> {
    let [a, b, greatest_a, greatest_b] = inputs else { return Ok(()) };
    let (a, b) = (Narrowed::<Q>::of(a, greatest_a)?, Narrowed::<E4M3>::of(b, greatest_b)?);
    let product = Matmul::new(&a.elements, &b.elements.transpose());
    // One after the other: the product of both may be out of the range of f32.
    let y: &mut Tensor<bf16, 2> = y.downcast_mut()?;
    product.scale_all(&a.inverse).scale_all(&b.inverse).run(y)
}

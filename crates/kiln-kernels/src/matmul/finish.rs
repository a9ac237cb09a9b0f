//! The launches of a product, behind an interface that does not name its epilogue: what decides
//! which of them is made, and how, is compiled once for each types of elements.

use super::factor::Factor;
use super::hopper::MatmulPlan;
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

/// The factors of a product.
pub(super) type Factors<'a, T, U> = (&'a Tensor<T, 3>, &'a Tensor<U, 3>);

/// Rows and columns of a program, and the depth of a step.
pub type Tile = (usize, usize, usize);

/// What is done to the sums of a product on their way to c.
pub(super) trait Finish<T: Factor, U: Factor, O: Numeric> {
    /// Whether sums are stored unchanged.
    fn is_identity(&self) -> bool;

    /// Refuses a result of these extents: products, rows, columns.
    ///
    /// # Errors
    /// [`Error::Shape`](kiln_runtime::Error::Shape) for a tensor that does not fit.
    fn check(&self, result: [usize; 3]) -> Result<()>;

    /// Whether f32 come out.
    fn gives_f32(&self) -> bool;

    /// The same for cᵀ = bᵀ aᵀ.
    fn transposed(&self) -> Box<dyn Finish<U, T, O>>;

    /// Launches the [kernel at the tile level](super::plain::kernels::matmul).
    fn tiles(
        &self,
        factors: Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        precision: Precision,
        tile: Tile,
    ) -> Result<()>;

    /// Launches the [kernel for Hopper GPUs](super::hopper::matmul).
    fn hopper(
        &self,
        factors: Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()>;

    /// Launches the [kernel that divides steps](super::hopper::stream_k), with room for sums and
    /// signals.
    fn stream_k(
        &self,
        factors: Factors<'_, T, U>,
        c: &mut Tensor<O, 3>,
        exchange: (&mut Tensor<T::Sum, 1>, &mut Tensor<u32, 1>),
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()>;

    /// Launches [what adds up parts](super::splits::kernels::add_up).
    fn add_up(&self, parts: &Tensor<T::Sum, 3>, c: &mut Tensor<O, 3>, splits: usize) -> Result<()>;
}

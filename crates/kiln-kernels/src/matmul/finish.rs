//! The launches of a product, behind an interface that names neither its epilogue nor its element
//! types: what decides which of them is made, and how, is compiled once.

use super::factor::{Unit, allows};
use super::hopper::MatmulPlan;
use kiln_ir::Scalar;
use kiln_lang::Precision;
use kiln_runtime::{DynTensor, Result};

/// The factors of a product, as stacks.
pub(super) type Factors<'a> = (&'a DynTensor, &'a DynTensor);

/// Rows and columns of a program, and the depth of a step.
///
/// ```
/// use kiln_kernels::matmul::Precision;
/// use kiln_kernels::matmul::epilogue::Identity;
/// use kiln_kernels::matmul::plain::{Tile, kernels};
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = device.tensor(&[2i32; 9], [1, 3, 3])?;
/// for tile in [(16, 16, 16), (4, 8, 2)] {
///     let ((rows, columns, depth), mut c): (Tile, _) = (tile, device.uninit::<i32, 3>([1, 3, 3])?);
///     let product = kernels::matmul::<_, _, _, Identity>;
///     product(&a, &a, &mut c, Identity, 0, 0, [true; 2], Precision::Full, rows, columns, depth)
///         .grid([1])
///         .launch(&device)?;
///     assert_eq!(c.to_vec()?, [12; 9]);
/// }
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub type Tile = (usize, usize, usize);

/// The element types of a product.
#[derive(Clone, Copy)]
pub(super) struct Types {
    /// Of each factor.
    pub(super) factors: [Scalar; 2],
    /// How matrix units multiply the factors.
    pub(super) unit: Unit,
    /// What products are summed in.
    pub(super) sum: Scalar,
    /// Of c.
    pub(super) result: Scalar,
}

impl Types {
    /// Bytes of an element of a factor.
    pub(super) fn factor_bytes(self) -> usize {
        self.factors[0].bytes() as usize
    }

    /// The types of factors in words, for questions that choices are kept under.
    pub(super) fn factors(self) -> String {
        let [a, b] = self.factors;
        if a == b { a.to_string() } else { format!("{a} by {b}") }
    }

    /// Whether sums have two levels.
    pub(super) fn two_level(self, precision: Precision) -> bool {
        self.unit == Unit::Float8 && precision != Precision::FastSums
    }

    /// Whether products of a precision may run on matrix units.
    pub(super) fn allows(self, precision: Precision) -> bool {
        allows(precision, self.unit)
    }
}

/// What is done to the sums of a product on their way to c, and the types of both. Tensors are of
/// these types and of rank 3, or their launch is refused.
pub(super) trait Finish {
    /// The element types.
    fn types(&self) -> Types;

    /// Whether sums are stored unchanged.
    fn is_identity(&self) -> bool;

    /// Refuses a result of these extents: products, rows, columns.
    ///
    /// # Errors
    /// [`Error::Shape`](kiln_runtime::Error::Shape) for a tensor that does not fit.
    fn check(&self, result: [usize; 3]) -> Result<()>;

    /// Launches the [kernel at the tile level](super::plain::kernels::matmul) for a grid of tiles,
    /// from a row of tiles and a product on.
    fn tiles(
        &self,
        factors: Factors<'_>,
        c: &mut DynTensor,
        precision: Precision,
        tile: Tile,
        first: [i64; 2],
        grid: [u32; 3],
    ) -> Result<()>;

    /// The launches on tensor cores, of which factors of other types have none.
    fn on_tensor_cores(&self) -> Option<&dyn OnTensorCores>;
}

/// The launches of a product whose factors tensor cores multiply.
pub(super) trait OnTensorCores: Finish {
    /// Whether f32 come out.
    fn gives_f32(&self) -> bool;

    /// The same for cᵀ = bᵀ aᵀ.
    fn transposed(&self) -> Box<dyn OnTensorCores>;

    /// Launches the [product of a matrix and a vector](super::rows::kernels::dot_rows), without
    /// the epilogue: c, of rank 1, is a by b, of rank 1.
    fn rows(&self, factors: Factors<'_>, c: &mut DynTensor) -> Result<()>;

    /// Launches the [kernel for Hopper GPUs](super::hopper::matmul).
    fn hopper(&self, factors: Factors<'_>, c: &mut DynTensor, plan: MatmulPlan, grid: [u32; 3])
    -> Result<()>;

    /// Launches it without the epilogue, for parts of sums.
    fn hopper_parts(
        &self,
        factors: Factors<'_>,
        parts: &mut DynTensor,
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()>;

    /// Launches the [kernel that divides steps](super::hopper::stream_k), with room for sums and
    /// signals.
    fn stream_k(
        &self,
        factors: Factors<'_>,
        c: &mut DynTensor,
        exchange: (&mut DynTensor, &mut DynTensor),
        plan: MatmulPlan,
        grid: [u32; 3],
    ) -> Result<()>;

    /// Launches [what adds up parts](super::splits::kernels::add_up).
    fn add_up(&self, parts: &DynTensor, c: &mut DynTensor, splits: usize) -> Result<()>;
}

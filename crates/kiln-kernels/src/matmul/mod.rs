//! Products of matrices.
//!
//! [`matmul`] is the plain product; [`Matmul`] multiplies stacks of matrices, chooses a precision,
//! and does to the sums what an [`Epilogue`] says.
//!
//! | file | holds |
//! |---|---|
//! | `choice.rs` | what is asked of a plan, what is chosen, and the names of choices |
//! | `epilogue.rs` | what is done to sums before they are stored |
//! | `estimate.rs` | how long a product takes by a plan |
//! | `factor.rs` | what can be multiplied, and what it is summed in |
//! | `finish.rs`, `launches.rs` | the launches of a product, without and with its types |
//! | `hopper/` | the kernel for GPUs of compute capability 9.0, at the explicit level |
//! | `plain.rs` | the kernel for every device, at the tile level |
//! | `plan.rs` | how a product is divided on a Hopper GPU, from its shape |
//! | `rows.rs` | the product of a matrix and a vector |
//! | `seen.rs` | the plans of shapes that were multiplied lately |
//! | `splits.rs` | adding up what a long inner extent was divided into |
//! | `stream.rs` | tiles that programs share, step by step: stream-K |
//! | `tensor_cores.rs` | whether and how a call goes to the tensor cores |

mod choice;
pub mod epilogue;
mod estimate;
mod factor;
mod finish;
pub mod hopper;
mod launches;
pub mod plain;
pub mod plan;
pub mod rows;
mod seen;
mod splits;
mod stream;
mod tensor_cores;

pub use epilogue::{Epilogue, TilePosition};
pub use factor::{Factor, Matrices, Unit};
pub use kiln_lang::Precision;

use crate::Tuning;
use epilogue::{Along, Combined, Identity, Map, Residual, Scale, Then, Vector};
use finish::Finish;
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Error, Result, Tensor};
use launches::Launches;

/// c = a b, accumulated in f32 for the floats of 8 and 16 bits and in i32 for the integers of 8,
/// which wraps, otherwise in the factors' type. A transposed factor or result is a
/// [transposed](Tensor::transpose) tensor; stacks of matrices are tensors of rank 3. Both factors
/// have one type, but one may be of each of the 8-bit floats, or of each of the 8-bit integers.
///
/// On a GPU of compute capability 9.0, products of 8-bit and 16-bit numbers run on the tensor
/// cores. Rows of a, b and c in multiples of 16 bytes make them faster: other factors are copied
/// first. So are factors of 8 bits unless a lies by rows and b by columns. Elsewhere this is the
/// plain path, whose products of 16-bit floats go to the tensor cores of GPUs from compute
/// capability 8.0 on. The result is the same in every run.
///
/// # Errors
/// [`Error::Shape`] unless a is m × k, b is k × n and c is m × n, and stacks have the same number
/// of matrices; a stack of one serves for all. Those of a launch.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 1.0], [2, 1])?);
/// let mut c = device.uninit::<f32, 2>([2, 1])?;
/// kiln_kernels::matmul(&a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?, [3.0, 7.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn matmul<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &impl Matrices<T>,
    b: &impl Matrices<U>,
    c: &mut impl Matrices<O>,
) -> Result<()> {
    Matmul::new(a, b).run(c)
}

/// A product, and what is done to its sums.
///
/// ```
/// use kiln_kernels::matmul::Matmul;
///
/// // One layer of a network: c = relu(scale · a wᵀ + bias).
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let (w, bias) = (device.tensor(&[1.0f32, 1.0, -1.0, 0.5], [2, 2])?, device.tensor(&[0.5f32, 0.25], [2])?);
/// let mut c = device.uninit::<f32, 2>([2, 2])?;
/// Matmul::new(&a, &w.transpose()).scale(2.0).bias(&bias).map(|x| x.maximum(0.0)).run(&mut c)?;
/// assert_eq!(c.to_vec()?, [6.5, 0.25, 14.5, 0.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// ```
/// use kiln_kernels::Tuning;
/// use kiln_kernels::matmul::Matmul;
/// use kiln_kernels::matmul::epilogue::Scale;
///
/// // Scales of rows, of columns and of all, the factor itself added, and an epilogue of one's own.
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let identity = device.tensor(&[1.0f32, 0.0, 0.0, 1.0], [2, 2])?;
/// let of = |values: &[f32]| device.tensor(values, [values.len()]);
/// let mut c = device.uninit::<f32, 2>([2, 2])?;
/// Matmul::new(&a, &identity)
///     .tuning(Tuning::OFF)
///     .scale_rows(&of(&[1.0, 10.0])?) // 1, 2, 30, 40
///     .scale_columns(&of(&[1.0, 2.0])?) // 1, 4, 30, 80
///     .scale_all(&of(&[0.5])?) // 0.5, 2, 15, 40
///     .residual(&a, 1.0)
///     .then(Scale(2.0))
///     .run(&mut c)?;
/// assert_eq!(c.to_vec()?, [3.0, 8.0, 36.0, 88.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[must_use = "a product is computed by `run`"]
pub struct Matmul<T: Elem, U: Elem = T, E = Identity> {
    a: Tensor<T, 3>,
    b: Tensor<U, 3>,
    /// Axes of the factors as they were given, for errors.
    ranks: [usize; 2],
    precision: Precision,
    tuning: Tuning,
    epilogue: E,
}

impl<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>> Matmul<T, U> {
    /// a b: matrices, or stacks of as many, of which one may be a matrix for all.
    ///
    /// ```
    /// use kiln_kernels::matmul::Matmul;
    /// use kiln_lang::prelude::{E4M3, E5M2};
    ///
    /// // Gradients of more range by weights of more precision.
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (wide, precise) = ([1.0, 4096.0].map(E5M2::from_f32), [1.125, 0.5].map(E4M3::from_f32));
    /// let (a, b) = (device.tensor(&wide, [1, 2])?, device.tensor(&precise, [2, 1])?);
    /// let mut c = device.uninit::<f32, 2>([1, 1])?;
    /// Matmul::new(&a, &b).run(&mut c)?;
    /// assert_eq!(c.to_vec()?, [2049.125]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn new<A: Matrices<T>, B: Matrices<U>>(a: &A, b: &B) -> Matmul<T, U> {
        Matmul {
            a: a.stack(),
            b: b.stack(),
            ranks: [A::RANK, B::RANK],
            precision: Precision::default(),
            tuning: Tuning::OFF,
            epilogue: Identity,
        }
    }
}

impl<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, E: Epilogue<T::Sum>> Matmul<T, U, E> {
    /// How exact the product is: of f32, [`Precision::Tf32x3`] is nearly exact and runs on tensor
    /// cores. Those need a by rows and b by columns for tf32; factors that lie the other way round
    /// are copied first.
    pub fn precision(self, precision: Precision) -> Self {
        Matmul { precision, ..self }
    }

    /// Chooses by measurement how the product is divided.
    pub fn tuning(self, tuning: Tuning) -> Self {
        Matmul { tuning, ..self }
    }

    /// Does this to the sums, after what was said before.
    pub fn then<F: Epilogue<E::Out>>(self, next: F) -> Matmul<T, U, Then<E, F>> {
        let Matmul { a, b, ranks, precision, tuning, epilogue } = self;
        Matmul { a, b, ranks, precision, tuning, epilogue: Then(epilogue, next) }
    }

    /// Multiplies by a number.
    pub fn scale(self, by: f32) -> Matmul<T, U, Then<E, Scale>>
    where
        Scale: Epilogue<E::Out>,
    {
        self.then(Scale(by))
    }

    /// Multiplies by the one element of a tensor, which the device may have computed.
    pub fn scale_all(self, by: &Tensor<f32, 1>) -> Matmul<T, U, Then<E, Vector<f32>>>
    where
        Vector<f32>: Epilogue<E::Out>,
    {
        self.then(Vector { values: by.alias(), along: Along::All, combined: Combined::Factor })
    }

    /// Multiplies each row by an element: the scales of a's rows.
    pub fn scale_rows(self, by: &Tensor<f32, 1>) -> Matmul<T, U, Then<E, Vector<f32>>>
    where
        Vector<f32>: Epilogue<E::Out>,
    {
        self.then(Vector { values: by.alias(), along: Along::Rows, combined: Combined::Factor })
    }

    /// Multiplies each column by an element: the scales of b's columns.
    pub fn scale_columns(self, by: &Tensor<f32, 1>) -> Matmul<T, U, Then<E, Vector<f32>>>
    where
        Vector<f32>: Epilogue<E::Out>,
    {
        self.then(Vector { values: by.alias(), along: Along::Columns, combined: Combined::Factor })
    }

    /// Adds an element to each column.
    pub fn bias<B: Numeric>(self, bias: &Tensor<B, 1>) -> Matmul<T, U, Then<E, Vector<B>>>
    where
        Vector<B>: Epilogue<E::Out>,
    {
        self.then(Vector { values: bias.alias(), along: Along::Columns, combined: Combined::Term })
    }

    /// Adds a matrix, or a stack of them, times `beta`.
    pub fn residual<R: Numeric>(
        self,
        residual: &impl Matrices<R>,
        beta: f32,
    ) -> Matmul<T, U, Then<E, Residual<R>>>
    where
        Residual<R>: Epilogue<E::Out>,
    {
        self.then(Residual { values: residual.stack(), beta })
    }

    /// Applies a function of each element, written in the kernel language, which captures nothing.
    pub fn map<F: Fn(Val<f32>) -> Val<f32> + Copy + 'static>(
        self,
        function: F,
    ) -> Matmul<T, U, Then<E, Map<F>>>
    where
        Map<F>: Epilogue<E::Out>,
    {
        self.then(Map::new(function))
    }

    /// Computes it.
    ///
    /// # Errors
    /// [`Error::Shape`] for factors, a result or tensors of the epilogue that do not fit each
    /// other; those of a launch.
    pub fn run<O: Numeric, C: Matrices<O>>(self, c: &mut C) -> Result<()> {
        let Matmul { a, b, ranks: [a_rank, b_rank], precision, tuning, epilogue } = self;
        let ranks = [a_rank, b_rank, C::RANK];
        let finish = Launches::<T, U, O, E>::new(epilogue);
        multiply([a.as_dyn(), b.as_dyn()], &mut c.stack().into_dyn(), ranks, &finish, precision, tuning)
    }
}

/// c = a b through an epilogue, for stacks that were given as tensors of so many axes.
fn multiply(
    [a, b]: [&DynTensor; 2],
    c: &mut DynTensor,
    ranks: [usize; 3],
    finish: &dyn Finish,
    precision: Precision,
    tuning: Tuning,
) -> Result<()> {
    let ([x, m, k], [y, inner, n]) = (extents(a), extents(b));
    let shape = |what: &str, expected: [usize; 3], given: [usize; 3], rank: usize| {
        let [expected, given] = [expected, given].map(|s| s[3 - rank..].to_vec());
        Err(Error::Shape { what: what.into(), expected, given })
    };
    let products = if x == 1 { y } else { x };
    if inner != k || y != 1 && y != products {
        return shape("matmul, b", [products, k, n], [y, inner, n], ranks[1]);
    }
    if extents(c) != [products, m, n] {
        return shape("matmul, c", [products, m, n], extents(c), ranks[2]);
    }
    finish.check([products, m, n])?;
    if let Some(finish) = finish.on_tensor_cores()
        && finish.types().allows(precision)
        && precision != Precision::Tf32x3
        && tensor_cores::available(a.device(), [products, m, n, k])
    {
        return tensor_cores::multiply(a, b, c, finish, precision, tuning);
    }
    plain::multiply(a, b, c, finish, precision, tuning)
}

/// The extents of a stack.
fn extents(stack: &DynTensor) -> [usize; 3] {
    let mut extents = [1; 3];
    extents.iter_mut().zip(stack.shape()).for_each(|(to, &extent)| *to = extent);
    extents
}

//! What can be multiplied, and what it is summed in.

use half::{bf16, f16};
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{MatrixFormat, Tensor};

/// An element type of factors.
///
/// ```
/// use kiln_kernels::matmul::{Factor, Unit};
/// use kiln_lang::prelude::E4M3;
/// use kiln_runtime::{Device, Result};
///
/// /// 16 times the square of 2, in what products of a type are summed in.
/// fn sum_of_squares<T: Factor>(two: T) -> Result<T::Sum> {
///     let device = Device::open("interp")?;
///     let x = device.tensor(&[two; 16], [1, 16])?;
///     let mut y = device.uninit::<T::Sum, 2>([1, 1])?;
///     kiln_kernels::matmul(&x, &x.transpose(), &mut y)?;
///     Ok(y.to_vec()?[0])
/// }
///
/// assert_eq!(sum_of_squares(E4M3::from_f32(2.0))?, 64.0f32);
/// assert_eq!(sum_of_squares(2i8)?, 64i32);
/// assert_eq!(sum_of_squares(2u64)?, 64u64);
/// assert_eq!((E4M3::UNIT, i8::UNIT, u64::UNIT), (Unit::Float8, Unit::Int8, Unit::None));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Factor: Accumulate<Acc = <Self as Factor>::Sum> {
    /// What products are summed in: f32 for the floats of up to 32 bits, i32 for the integers of 8,
    /// otherwise the type itself.
    type Sum: Num;
    /// How matrix units multiply it.
    const UNIT: Unit;
}

/// How matrix units multiply elements of a type.
///
/// ```
/// use kiln_kernels::matmul::{Factor, Unit};
/// assert_eq!((half::bf16::UNIT, f32::UNIT, f64::UNIT), (Unit::Half, Unit::Tf32, Unit::Float64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Not at all.
    None,
    /// As 16-bit floats, which may lie either way round.
    Half,
    /// As 8-bit floats.
    Float8,
    /// As 8-bit integers.
    Int8,
    /// As tf32, without the last bits.
    Tf32,
    /// As f64, by warps.
    Float64,
}

impl Unit {
    /// The format that matrix units must multiply.
    pub(super) fn format(self) -> Option<MatrixFormat> {
        match self {
            Unit::None => None,
            Unit::Half => Some(MatrixFormat::Float16),
            Unit::Float8 => Some(MatrixFormat::Float8),
            Unit::Int8 => Some(MatrixFormat::Int8),
            Unit::Tf32 => Some(MatrixFormat::Tf32),
            Unit::Float64 => Some(MatrixFormat::Float64),
        }
    }
}

macro_rules! factors {
    ($($t:ty => $sum:ty, $unit:ident;)*) => {$(
        impl Factor for $t {
            type Sum = $sum;
            const UNIT: Unit = Unit::$unit;
        }
    )*};
}

factors! {
    f16 => f32, Half;
    bf16 => f32, Half;
    E4M3 => f32, Float8;
    E5M2 => f32, Float8;
    i8 => i32, Int8;
    u8 => i32, Int8;
    f32 => f32, Tf32;
    f64 => f64, Float64;
    i32 => i32, None;
    u32 => u32, None;
    i64 => i64, None;
    u64 => u64, None;
}

/// Whether products of a precision may run on these matrix units.
pub(super) fn allows(precision: Precision, unit: Unit) -> bool {
    match unit {
        Unit::Half | Unit::Float8 | Unit::Int8 | Unit::Float64 => true,
        Unit::Tf32 => matches!(precision, Precision::Tf32 | Precision::Tf32x3),
        Unit::None => false,
    }
}

/// A matrix or a stack of matrices.
///
/// ```
/// use kiln_kernels::matmul::Matrices;
/// let device = kiln_runtime::Device::open("interp")?;
/// let stack = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 1, 2])?;
/// let matrix = device.tensor(&[10.0f32, 1.0], [2, 1])?;
/// assert_eq!((stack.stack().shape(), matrix.stack().shape()), ([2, 1, 2], [1, 2, 1]));
/// // Each matrix of the stack times the one.
/// let mut c = device.uninit::<f32, 3>([2, 1, 1])?;
/// kiln_kernels::matmul(&stack, &matrix, &mut c)?;
/// assert_eq!(c.to_vec()?, [12.0, 34.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Matrices<T: Elem> {
    /// Axes.
    const RANK: usize;

    /// The same elements as a stack.
    fn stack(&self) -> Tensor<T, 3>;
}

impl<T: Elem> Matrices<T> for Tensor<T, 2> {
    const RANK: usize = 2;

    fn stack(&self) -> Tensor<T, 3> {
        self.stacked()
    }
}

impl<T: Elem> Matrices<T> for Tensor<T, 3> {
    const RANK: usize = 3;

    fn stack(&self) -> Tensor<T, 3> {
        self.alias()
    }
}

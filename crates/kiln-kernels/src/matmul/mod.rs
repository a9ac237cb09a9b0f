//! Products of matrices.
//!
//! | file | holds |
//! |---|---|
//! | `hopper.rs` | the kernel for GPUs of compute capability 9.0, at the explicit level |
//! | `plain.rs` | the kernel for every device, at the tile level |
//! | `plan.rs` | how a product is divided on a Hopper GPU, from its shape |
//! | `rows.rs` | the product of a matrix and a vector |
//! | `tensor_cores.rs` | whether and how a call goes to the tensor cores |

pub mod hopper;
pub mod plain;
pub mod plan;
pub mod rows;
mod tensor_cores;

use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// Factors of this type may give a product of elements `O`: the type that sums are kept in, and, for the 16-bit floats, the type itself.
pub trait Product<O: Num>: Accumulate {
    /// Multiplies on tensor cores; `false` if this device has none for the types, and nothing was done.
    ///
    /// # Errors
    /// Those of a launch.
    #[doc(hidden)]
    fn on_tensor_cores(_a: &Tensor<Self, 2>, _b: &Tensor<Self, 2>, _c: &mut Tensor<O, 2>) -> Result<bool> {
        Ok(false)
    }
}

macro_rules! products {
    (plain: $($t:ty)*) => {$(
        impl Product<$t> for $t {}
    )*};
    (tensor cores: $($t:ty => $o:ty;)*) => {$(
        impl Product<$o> for $t {
            fn on_tensor_cores(a: &Tensor<$t, 2>, b: &Tensor<$t, 2>, c: &mut Tensor<$o, 2>) -> Result<bool> {
                tensor_cores::multiply(a, b, c)
            }
        }
    )*};
}

products! { plain: f32 f64 i32 u32 i64 u64 }
products! { tensor cores: f16 => f16; f16 => f32; bf16 => bf16; bf16 => f32; }

/// c = a b, accumulated in f32 for the 16-bit floats, which c may be of too. A transposed factor or result is a
/// [transposed](Tensor::transpose) tensor.
///
/// On a GPU of compute capability 9.0, products of 16-bit floats run on the tensor cores. Rows of a, b and c in multiples of 16 bytes make them faster:
/// other factors are copied first. Elsewhere this is the plain path, without matrix units. The result is the same in every run.
///
/// # Errors
/// [`Error::Shape`] unless a is m × k, b is k × n and c is m × n; those of a launch.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 1.0], [2, 1])?);
/// let mut c = device.uninit([2, 1])?;
/// kiln_kernels::matmul(&a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?, [3.0, 7.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn matmul<T: Product<O>, O: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<O, 2>) -> Result<()> {
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
    if T::on_tensor_cores(a, b, c)? {
        return Ok(());
    }
    plain::multiply(a, b, c)
}

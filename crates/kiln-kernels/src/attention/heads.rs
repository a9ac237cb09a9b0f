//! The tensors that attention takes, as the kernels see them: batch × heads × length × width.

use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for kiln_runtime::Tensor<T, 3> {}
    impl<T> Sealed for kiln_runtime::Tensor<T, 4> {}
}

/// A tensor of queries, keys, values or results: of rank 3, heads × length × width, or of rank 4,
/// batch × length × heads × width.
///
/// ```
/// use kiln_kernels::attention::{Attention, Heads};
/// use kiln_runtime::{Device, Result};
///
/// /// Causal attention of tokens to themselves, of one sequence or of a batch.
/// fn causal<X: Heads>(x: &X, o: &mut X) -> Result<()> {
///     Attention::new().causal().run(x, x, x, o)
/// }
///
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, 2.0], [1, 2, 1])?; // 1 head, 2 tokens
/// let mut o = device.uninit([1, 2, 1])?;
/// causal(&x, &mut o)?;
/// let batch = device.tensor(&[1.0f32, 2.0], [1, 2, 1, 1])?; // 1 sequence of 2 tokens, 1 head
/// let mut of_batch = device.uninit([1, 2, 1, 1])?;
/// causal(&batch, &mut of_batch)?;
/// assert_eq!(o.to_vec()?, of_batch.to_vec()?);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Heads: sealed::Sealed + Sized {
    /// Its elements.
    type Elem: Float + Accumulate<Acc = f32>;
    /// The logarithms of sums for queries like it.
    type Sums;

    #[doc(hidden)]
    fn by_head(&self) -> Result<Tensor<Self::Elem, 4>>;
    #[doc(hidden)]
    fn sums_of(q: &Self) -> Result<Self::Sums>;
    #[doc(hidden)]
    fn sums_by_head(sums: &Self::Sums) -> Result<Tensor<f32, 3>>;
    /// A shape by head, as the user gives it.
    #[doc(hidden)]
    fn given(shape: [usize; 4]) -> Vec<usize>;
    /// The shape of sums, as the user gives it.
    #[doc(hidden)]
    fn given_sums(shape: [usize; 3]) -> Vec<usize>;
}

impl<T: Float + Accumulate<Acc = f32>> Heads for Tensor<T, 3> {
    type Elem = T;
    type Sums = Tensor<f32, 2>;

    fn by_head(&self) -> Result<Tensor<T, 4>> {
        self.unsqueeze(0)
    }

    fn sums_of(q: &Self) -> Result<Tensor<f32, 2>> {
        let [heads, length, _] = q.shape();
        q.device().uninit([heads, length])
    }

    fn sums_by_head(sums: &Tensor<f32, 2>) -> Result<Tensor<f32, 3>> {
        sums.unsqueeze(0)
    }

    fn given([_, heads, length, width]: [usize; 4]) -> Vec<usize> {
        vec![heads, length, width]
    }

    fn given_sums([_, heads, length]: [usize; 3]) -> Vec<usize> {
        vec![heads, length]
    }
}

impl<T: Float + Accumulate<Acc = f32>> Heads for Tensor<T, 4> {
    type Elem = T;
    type Sums = Tensor<f32, 3>;

    fn by_head(&self) -> Result<Tensor<T, 4>> {
        self.permute([0, 2, 1, 3])
    }

    fn sums_of(q: &Self) -> Result<Tensor<f32, 3>> {
        let [batch, length, heads, _] = q.shape();
        q.device().uninit([batch, heads, length])
    }

    fn sums_by_head(sums: &Tensor<f32, 3>) -> Result<Tensor<f32, 3>> {
        sums.permute([0, 1, 2])
    }

    fn given([batch, heads, length, width]: [usize; 4]) -> Vec<usize> {
        vec![batch, length, heads, width]
    }

    fn given_sums(shape: [usize; 3]) -> Vec<usize> {
        shape.to_vec()
    }
}

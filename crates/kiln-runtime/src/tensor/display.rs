//! What `{}` prints of a tensor: its elements, as NumPy prints an array.

use super::dynamic::DynTensor;
use super::typed::Tensor;
use crate::error::Result;
use kiln_ir::{Scalar, Shown};
use kiln_lang::{E4M3, E5M2, Elem, bf16, f16};
use std::fmt::{self, Debug, Display, Formatter};

/// Prints the elements in brackets, an axis each; of more than 1000 the first and the last three of
/// each axis. A precision is that of each float: `{x:.2}`. Only what is printed is read from the
/// device. A tensor that cannot be read is printed as the reason.
///
/// ```
/// # use kiln_runtime::Device;
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, -2.5, 3.0, 10.25], [2, 2])?;
/// assert_eq!(x.to_string(), "[[  1.0,  -2.5],\n [  3.0, 10.25]]");
/// assert_eq!(format!("{x:.1}"), "[[ 1.0, -2.5],\n [ 3.0, 10.2]]");
/// let counts: Vec<i32> = (0..5000).collect();
/// assert_eq!(device.tensor(&counts, [5000])?.to_string(), "[   0,    1,    2, ..., 4997, 4998, 4999]");
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
impl<T: Elem, const R: usize> Display for Tensor<T, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self.as_dyn(), f)
    }
}

/// As of [`Tensor`].
impl Display for DynTensor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match axis(self, self.len() <= Shown::WHOLE, f.precision()) {
            Ok(shown) => Display::fmt(&shown, f),
            Err(error) => {
                let (dtype, shape, device) = (self.dtype(), self.shape(), self.device().id());
                write!(f, "a tensor of {dtype} and shape {shape:?} on {device} that cannot be read: {error}")
            }
        }
    }
}

/// Reads what is shown of a tensor.
fn axis(tensor: &DynTensor, whole: bool, precision: Option<usize>) -> Result<Shown> {
    let Some(&extent) = tensor.shape().first() else {
        let mut one = numbers(&tensor.unsqueeze(0)?, precision)?;
        return Ok(one.pop().unwrap_or(Shown::Gap));
    };
    let part = |from: usize, to: usize| -> Result<Vec<Shown>> {
        match tensor.rank() {
            1 => numbers(&tensor.slice(0, from..to)?, precision),
            _ => (from..to).map(|i| axis(&tensor.select(0, i)?, whole, precision)).collect(),
        }
    };
    if whole || extent <= 2 * Shown::EDGE {
        return part(0, extent).map(Shown::Axis);
    }
    let mut parts = part(0, Shown::EDGE)?;
    parts.push(Shown::Gap);
    parts.extend(part(extent - Shown::EDGE, extent)?);
    Ok(Shown::Axis(parts))
}

/// The elements of a tensor with one axis.
fn numbers(row: &DynTensor, precision: Option<usize>) -> Result<Vec<Shown>> {
    match row.dtype() {
        Scalar::Bool => texts::<bool>(row, None),
        Scalar::I32 => texts::<i32>(row, None),
        Scalar::U32 => texts::<u32>(row, None),
        Scalar::I64 => texts::<i64>(row, None),
        Scalar::U64 => texts::<u64>(row, None),
        Scalar::F16 => texts::<f16>(row, precision),
        Scalar::BF16 => texts::<bf16>(row, precision),
        Scalar::F32 => texts::<f32>(row, precision),
        Scalar::F64 => texts::<f64>(row, precision),
        Scalar::E4M3 => texts::<E4M3>(row, precision),
        Scalar::E5M2 => texts::<E5M2>(row, precision),
        Scalar::I8 => texts::<i8>(row, None),
        Scalar::U8 => texts::<u8>(row, None),
        Scalar::I16 => texts::<i16>(row, None),
        Scalar::U16 => texts::<u16>(row, None),
    }
}

fn texts<T: Elem + Debug>(row: &DynTensor, precision: Option<usize>) -> Result<Vec<Shown>> {
    let text = |x: T| match precision {
        Some(digits) => format!("{x:.digits$?}"),
        None => format!("{x:?}"),
    };
    Ok(row.to_vec::<T>()?.into_iter().map(|x| Shown::Number(text(x))).collect())
}

//! Arrays from elements, of one number, of numbers in order.

use crate::dtype::{Kind, SUPPORTED, kind};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Recipe};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::{Literal, Scalar};
use kiln_lang::Elem;
use kiln_runtime::{Device, DynTensor};
use smallvec::SmallVec;
use std::panic::Location;

impl Array {
    /// An array with the given elements, in row-major order.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    /// assert_eq!(x.transpose().to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The array has an error if their number is not the shape's, if their type is none that arrays
    /// compute in, or if there is no memory for them.
    #[track_caller]
    pub fn new<T: Elem>(device: &Device, elements: &[T], shape: &[usize]) -> Array {
        let site = Location::caller();
        let made = checked_type("new", T::SCALAR, site).and_then(|()| {
            let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
            if let Some(count) = count.filter(|&count| count != elements.len()) {
                let given = elements.len();
                let problem = format!("{given} elements do not fill shape {shape:?}, which has {count}");
                return Err(Error::Shape { op: "new", problem, location: site });
            }
            let tensor = DynTensor::new(device, elements, shape);
            tensor.map_err(|error| Error::run(error, site))
        });
        made.map_or_else(|error| Array::failed(error, site), |tensor| Array::ready(tensor, site))
    }

    /// An array with elements that a function of ours has made.
    pub(crate) fn of_elements<T: Elem>(
        device: &Device,
        elements: &[T],
        shape: &[usize],
        site: Site,
    ) -> Array {
        let tensor = DynTensor::new(device, elements, shape).map_err(|error| Error::run(error, site));
        tensor.map_or_else(|error| Array::failed(error, site), |tensor| Array::ready(tensor, site))
    }

    /// A single number, as an array without axes.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(Array::scalar(&device, 2.5f64).item::<f64>()?, 2.5);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn scalar<T: Elem>(device: &Device, number: T) -> Array {
        constant(device, "scalar", number.literal(), &[], Location::caller())
    }

    /// An array of a tensor's elements. The tensor's memory is the array's, so that whoever has a
    /// view of it must not write to it any more; a view with gaps is copied.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// use kiln_runtime::{Device, DynTensor};
    /// let device = Device::open("interp")?;
    /// let x = Array::from_tensor(DynTensor::new(&device, &[1.0f32, 2.0], &[2])?);
    /// assert_eq!((x + 1.0).tensor()?.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn from_tensor(tensor: DynTensor) -> Array {
        let site = Location::caller();
        let made =
            checked_type("from_tensor", tensor.dtype(), site).and_then(|()| match tensor.is_contiguous() {
                true => Ok(tensor),
                false => tensor.copy().map_err(|error| Error::run(error, site)),
            });
        made.map_or_else(|error| Array::failed(error, site), |tensor| Array::ready(tensor, site))
    }

    /// The array, or one that holds the error. It is for functions that return an array, such as
    /// those given to [`custom_vjp`](crate::custom_vjp), and launch a kernel of one's own.
    ///
    /// ```
    /// # use kiln_array::{Array, Result};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let copied = |x: &Array| -> Result<Array> { Ok(Array::from_tensor(x.tensor()?.copy()?)) };
    /// let x = Array::from_result(copied(&Array::arange(&device, 3)));
    /// assert_eq!(x.to_vec::<i64>()?, [0, 1, 2]);
    /// let wrong = Array::from_result(copied(&x.reshape(&[2])));
    /// assert!(wrong.error().is_some());
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn from_result(result: Result<Array>) -> Array {
        result.unwrap_or_else(|error| Array::failed(error, Location::caller()))
    }

    /// An array of zeros (or `false`).
    #[track_caller]
    pub fn zeros(device: &Device, dtype: Scalar, shape: &[usize]) -> Array {
        constant(device, "zeros", Literal::zero(dtype), shape, Location::caller())
    }

    /// An array of ones (or `true`).
    #[track_caller]
    pub fn ones(device: &Device, dtype: Scalar, shape: &[usize]) -> Array {
        constant(device, "ones", Literal::one(dtype), shape, Location::caller())
    }

    /// Zeros (or `false`) of this array's shape and element type, on its device.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// /// The steps of a descent that has momentum, from the sum of those before.
    /// fn momentum(sum: Option<Array>, slope: &Array) -> Array {
    ///     sum.unwrap_or_else(|| slope.zeros_like()) * 0.9 + slope
    /// }
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let slope = Array::new(&device, &[1.0f32, -2.0], &[2]);
    /// let first = momentum(None, &slope);
    /// assert_eq!(momentum(Some(first), &slope).to_vec::<f32>()?, [1.9, -3.8]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Array {
        self.filled_like(Literal::zero(self.dtype()), Location::caller())
    }

    /// Ones (or `true`) of this array's shape and element type, on its device.
    ///
    /// ```
    /// # use kiln_array::{Array, vjp};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f64, 2.0], &[2]);
    /// let (y, gradient) = vjp(|x: &Array| x.square(), &x);
    /// assert_eq!(gradient(&y.ones_like()).to_vec::<f64>()?, [2.0, 4.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Array {
        self.filled_like(Literal::one(self.dtype()), Location::caller())
    }

    /// An array of one number everywhere. It takes no memory.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(Array::full(&device, 7i32, &[2, 2]).sum().item::<i64>()?, 28);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn full<T: Elem>(device: &Device, number: T, shape: &[usize]) -> Array {
        constant(device, "full", number.literal(), shape, Location::caller())
    }

    /// The i64 numbers 0, 1, …, `len - 1`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!((Array::arange(&device, 4) * 10 + 1).to_vec::<i64>()?, [1, 11, 21, 31]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn arange(device: &Device, len: usize) -> Array {
        Array::iota(device, &[len], 0, Location::caller())
    }

    /// The numbers from `start` on, in steps of `step`, that are before `stop`: NumPy's `arange` of
    /// three numbers, beside [`arange`](Self::arange) as [`slice_step`](Self::slice_step) is beside
    /// [`slice`](Self::slice). They are of the numbers' type, and none if `stop` is not ahead.
    ///
    /// Element i is `start + i * step`, of 16-bit floats in f32. Of floats a rounding error decides
    /// whether the last one is before `stop`: where their number matters, use
    /// [`linspace`](Self::linspace).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(Array::arange_step(&device, 2, 9, 3).to_vec::<i32>()?, [2, 5, 8]);
    /// assert_eq!(Array::arange_step(&device, 1.0, 0.0, -0.25).to_vec::<f64>()?, [1.0, 0.75, 0.5, 0.25]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The array has an error if `step` is zero, if a number is infinite or NaN, or if they are of
    /// bool, or of another type that arrays do not compute in.
    #[track_caller]
    pub fn arange_step<T: Elem>(device: &Device, start: T, stop: T, step: T) -> Array {
        let site = Location::caller();
        let numbers = [start, stop, step].map(|number| number.literal());
        in_steps(device, numbers, site).unwrap_or_else(|error| Array::failed(error, site))
    }

    /// `len` f64 numbers from `first` to `last` at equal distances, both among them; `first` alone
    /// if `len` is 1.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(Array::linspace(&device, 0.0, 1.0, 5).to_vec::<f64>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(device: &Device, first: f64, last: f64, len: usize) -> Array {
        let step = if len > 1 { (last - first) / (len - 1) as f64 } else { 0.0 };
        let index = Array::arange(device, len);
        let inner = index.cast(Scalar::F64) * step + first;
        // The last one exactly, as NumPy has it.
        if len > 1 { inner.where_(&index.less(len as i64 - 1), last) } else { inner }
    }

    /// The matrix with ones on its diagonal.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let e = Array::eye(&device, kiln_ir::Scalar::F32, 2);
    /// assert_eq!(e.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(device: &Device, dtype: Scalar, len: usize) -> Array {
        let site = Location::caller();
        let [row, column] = [0, 1].map(|axis| Array::iota(device, &[len, len], axis, site));
        row.equal(&column).cast(dtype)
    }

    /// The index along an axis, at each element.
    pub(crate) fn iota(device: &Device, shape: &[usize], axis: usize, site: Site) -> Array {
        let op = Op::Iota { axis };
        let recipe = Recipe { op, inputs: SmallVec::new(), rule: None };
        Array::lazy(recipe, Scalar::I64, Extents::from_slice(shape), Some(device.clone()), site)
    }

    /// A number in the place of each element of this array.
    pub(crate) fn filled_like(&self, number: Literal, site: Site) -> Array {
        match (self.error(), self.device()) {
            (Some(error), _) => Array::failed(error, site),
            (None, Some(device)) => constant(device, "full", number, self.shape(), site),
            (None, None) => self.clone(),
        }
    }
}

/// The numbers from the first to before the second in steps of the third, which are of one type.
fn in_steps(device: &Device, [start, stop, step]: [Literal; 3], location: Site) -> Result<Array> {
    let (op, dtype) = ("arange_step", start.elem());
    checked_type(op, dtype, location)?;
    let shown = |number: Literal| match kind(dtype) {
        Kind::Float => number.as_f64().to_string(),
        Kind::Bool | Kind::Integer => number.as_i128().to_string(),
    };
    let refused = |problem: &str| {
        let [start, stop, step] = [start, stop, step].map(shown);
        let problem = format!("from {start} to {stop} in steps of {step}: {problem}");
        Error::Shape { op, problem, location }
    };
    let len = match kind(dtype) {
        Kind::Bool => {
            return Err(Error::Type { op, dtype, hint: "it is for numbers", location });
        }
        Kind::Integer => {
            let [start, stop, step] = [start, stop, step].map(Literal::as_i128);
            let way = stop - start;
            let past = way.checked_rem(step).ok_or_else(|| refused("the step is zero"))?;
            // The quotient is rounded towards zero, where nothing is.
            let is_ahead = (way < 0) == (step < 0);
            usize::try_from((way / step + i128::from(past != 0 && is_ahead)).max(0)).unwrap_or(usize::MAX)
        }
        Kind::Float => {
            let [start, stop, step] = [start, stop, step].map(Literal::as_f64);
            if step == 0.0 {
                return Err(refused("the step is zero"));
            }
            if ![start, stop, step].iter().all(|number| number.is_finite()) {
                return Err(refused("the numbers are to be finite"));
            }
            ((stop - start) / step).ceil() as usize
        }
    };
    checked_size(op, &[len], dtype, location)?;
    let index = Array::iota(device, &[len], 0, location);
    let number = |of: Literal| constant(device, op, of, &[], location);
    let wide = if kind(dtype) == Kind::Float { dtype.accumulator() } else { Scalar::I64 };
    let [start, step] = [start, step].map(|of| number(of).cast_at(wide, location));
    Ok((index.cast_at(wide, location) * step + start).cast_at(dtype, location))
}

/// An array of one number.
pub(crate) fn constant(
    device: &Device,
    op: &'static str,
    number: Literal,
    shape: &[usize],
    site: Site,
) -> Array {
    let sized =
        checked_type(op, number.elem(), site).and_then(|()| checked_size(op, shape, number.elem(), site));
    if let Err(error) = sized {
        return Array::failed(error, site);
    }
    let recipe = Recipe { op: Op::Full(number), inputs: SmallVec::new(), rule: None };
    Array::lazy(recipe, number.elem(), Extents::from_slice(shape), Some(device.clone()), site)
}

/// Refuses element types that arrays do not compute in.
pub(crate) fn checked_type(op: &'static str, dtype: Scalar, location: Site) -> Result<()> {
    if SUPPORTED.contains(&dtype) {
        return Ok(());
    }
    let hint =
        "arrays are of bool, i8, u8, i16, u16, i32, u32, i64, f16, bf16, f32 or f64; cast the elements first";
    Err(Error::Type { op, dtype, hint, location })
}

/// Refuses shapes whose bytes cannot be addressed.
pub(crate) fn checked_size(op: &'static str, shape: &[usize], dtype: Scalar, location: Site) -> Result<()> {
    let bytes =
        shape.iter().try_fold(dtype.bytes() as usize, |bytes, &extent| bytes.checked_mul(extent.max(1)));
    match bytes {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => {
            let problem = format!("shape {shape:?} of {dtype} has more bytes than can be addressed");
            Err(Error::Shape { op, problem, location })
        }
    }
}

//! Comparisons, and choosing by them.

use super::arithmetic::{Operand, common_shape, paired};
use super::create::constant;
use crate::dtype::{float_of, promote};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made, common_device};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::{CompareOp, Literal, Scalar};
use std::panic::Location;

fn compare(op: CompareOp, a: &Array, b: &Array, site: Site) -> Array {
    let name = Op::Compare(op).name();
    // Of bools only equality is an operation: as numbers they have an order.
    let both_bool = promote(a.dtype(), b.dtype()) == Scalar::Bool;
    let ordered = !matches!(op, CompareOp::Eq | CompareOp::Ne);
    let dtype = (both_bool && ordered).then_some(Scalar::I32);
    match paired(name, a, b, dtype, site) {
        Err(error) => Array::failed(error, site),
        Ok([a, b]) => Array::record(&[&a, &b], site, || {
            let shape = Extents::from_slice(a.shape());
            Ok(Made { op: Op::Compare(op), dtype: Scalar::Bool, shape })
        }),
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Array {
                let site = Location::caller();
                compare(CompareOp::$op, self, &other.beside(self, site), site)
            }
        )*}
    };
}

comparisons! {
    /// Whether elements are equal. NaN is not equal to itself.
    equal Eq;
    /// Whether elements are not equal.
    not_equal Ne;
    /// Whether each element is less than another.
    less Lt;
    /// Whether each element is less than another, or equal.
    less_equal Le;
    /// Whether each element is greater than another.
    greater Gt;
    /// Whether each element is greater than another, or equal.
    greater_equal Ge;
}

impl Array {
    /// This array's elements where the condition is true, and the others' elsewhere.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[-2.0f32, 3.0], &[2]);
    /// let leaky = x.where_(&x.greater(0.0), &x * 0.5);
    /// assert_eq!(leaky.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the condition is not of bool, or if shapes do not broadcast.
    #[track_caller]
    pub fn where_(&self, condition: &Array, otherwise: impl Operand) -> Array {
        let site = Location::caller();
        let otherwise = otherwise.beside(self, site);
        let arrays = [condition, self, &otherwise];
        if let Some(error) = arrays.iter().find_map(|array| array.error()) {
            return Array::failed(error, site);
        }
        let shape = match common_shape("where", &arrays, site) {
            Ok(shape) => shape,
            Err(error) => return Array::failed(error, site),
        };
        let dtype = promote(self.dtype(), otherwise.dtype());
        let [yes, no] = [self, &otherwise].map(|array| array.cast_at(dtype, site).stretched(&shape, site));
        let stretched = condition.stretched(&shape, site);
        Array::record(&[&stretched, &yes, &no], site, || match condition.dtype() {
            Scalar::Bool => Ok(Made { op: Op::Select, dtype, shape }),
            dtype => {
                let hint = "the condition is an array of bool, such as `x.greater(0)`";
                Err(Error::Type { op: "where", dtype, hint, location: site })
            }
        })
    }
}

/// Whether elements are equal up to tolerances.
fn close(name: &'static str, a: &Array, b: &Array, [rtol, atol]: [f64; 2], site: Site) -> Array {
    let dtype = float_of(promote(a.dtype(), b.dtype())).accumulator();
    match paired(name, a, b, Some(dtype), site) {
        Err(error) => Array::failed(error, site),
        Ok([a, b]) => {
            let within = (&a - &b).abs().less_equal(b.abs() * rtol + atol);
            (within & b.is_finite()) | a.equal(&b)
        }
    }
}

impl Array {
    /// Whether elements are equal up to tolerances, a relative and an absolute one: whether their
    /// distance is at most `atol + rtol * |other|`, as NumPy's `isclose`, whose defaults are 1e-5
    /// and 1e-8. Infinity is close to itself alone, and NaN to nothing. It is computed in floats:
    /// f32 for 16-bit ones, f64 for integers.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[100.0f32, 100.1, f32::INFINITY, f32::NAN], &[4]);
    /// let y = Array::new(&device, &[100.0001f32, 100.0, f32::INFINITY, f32::NAN], &[4]);
    /// assert_eq!(x.is_close(&y, 1e-5, 1e-8).to_vec::<bool>()?, [true, false, true, false]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if shapes do not broadcast.
    #[doc(alias = "isclose")]
    #[track_caller]
    pub fn is_close(&self, other: impl Operand, rtol: f64, atol: f64) -> Array {
        let site = Location::caller();
        close("is_close", self, &other.beside(self, site), [rtol, atol], site)
    }

    /// Whether all elements are equal up to tolerances, each as of [`is_close`](Self::is_close):
    /// one bool, as NumPy's `allclose`. True of no elements.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::linspace(&device, 0.0, 1.0, 100);
    /// assert!((&x * 3.0 / 3.0).all_close(&x, 1e-12, 0.0).item::<bool>()?);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`is_close`](Self::is_close).
    #[doc(alias = "allclose")]
    #[track_caller]
    pub fn all_close(&self, other: impl Operand, rtol: f64, atol: f64) -> Array {
        let site = Location::caller();
        close("all_close", self, &other.beside(self, site), [rtol, atol], site).all()
    }

    /// Whether two arrays have the same shape and equal elements: one bool. Nothing broadcasts, and
    /// NaN is not equal to itself, as in NumPy. Element types may differ.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2], &[2]);
    /// assert!(x.array_equal(&(Array::arange(&device, 2) + 1)).item::<bool>()?);
    /// assert!(!x.array_equal(&x.reshape(&[2, 1])).item::<bool>()?);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the arrays are on two devices.
    #[track_caller]
    pub fn array_equal(&self, other: &Array) -> Array {
        let site = Location::caller();
        let equal = || -> Result<Array> {
            if let Some(error) = self.error().or_else(|| other.error()) {
                return Err(error);
            }
            common_device(&[self, other], "array_equal", site)?;
            match self.device() {
                Some(device) if self.shape() != other.shape() => {
                    Ok(constant(device, "array_equal", Literal::bool(false), &[], site))
                }
                _ => Ok(compare(CompareOp::Eq, self, other, site).all()),
            }
        };
        equal().unwrap_or_else(|error| Array::failed(error, site))
    }
}

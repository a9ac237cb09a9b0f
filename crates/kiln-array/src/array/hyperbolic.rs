//! Inverse hyperbolic functions, cube roots and hypotenuses: accurate from the least to the largest
//! numbers, where the formulas as one writes them overflow or subtract nearly equal numbers.
//!
//! What is computed chooses between formulas, of which one may be NaN or infinite where the other
//! is chosen. So each function has a rule of its own for its derivative.

use super::arithmetic::{Operand, paired};
use crate::dtype::{float_of, promote};
use crate::grad::custom_vjp;
use crate::node::Array;
use kiln_ir::{Literal, Scalar};
use std::f64::consts::LN_2;
use std::panic::Location;

/// From here on 1 beside the square of a number is less than half a unit in its last place, in f32
/// and f64, and the square is finite.
const FAR: f64 = 268_435_456.0;

impl Array {
    /// The number with this hyperbolic sine.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1e-9f64, 2.0, -1e300], &[3]).asinh().to_vec::<f64>()?;
    /// for (x, expected) in x.iter().zip([1e-9f64, 2f64.asinh(), -691.4686750787736]) {
    ///     assert!((x / expected - 1.0).abs() < 1e-15);
    /// }
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn asinh(&self) -> Array {
        let (x, dtype) = self.widened();
        let size = x.abs();
        let square = size.square();
        let near = (&size + &square / ((&square + 1.0).sqrt() + 1.0)).log1p();
        let far = size.log() + LN_2;
        let y = x.signing(&near.where_(&size.less(FAR), &far));
        custom_vjp(&[&x], |_| y, |of, _, g| vec![g / of[0].hypot(1.0)]).cast(dtype)
    }

    /// The number that is not negative with this hyperbolic cosine; NaN below 1.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f64, 2.0, 0.5], &[3]).acosh().to_vec::<f64>()?;
    /// assert!(x[0] == 0.0 && (x[1] - 2f64.acosh()).abs() < 1e-15 && x[2].is_nan());
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn acosh(&self) -> Array {
        let (x, dtype) = self.widened();
        let above = &x - 1.0;
        let near = (&above + above.sqrt() * (&above + 2.0).sqrt()).log1p();
        let y = (x.log() + LN_2).where_(&x.greater(FAR), &near);
        let slope = |x: &Array| (x - 1.0).sqrt() * (x + 1.0).sqrt();
        custom_vjp(&[&x], |_| y, move |of, _, g| vec![g / slope(&of[0])]).cast(dtype)
    }

    /// The number with this hyperbolic tangent: infinite at 1 and -1, NaN beyond.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1e-9f64, -0.5, 1.0], &[3]).atanh().to_vec::<f64>()?;
    /// assert!(x[0] == 1e-9 && (x[1] + 0.5f64.atanh()).abs() < 1e-15 && x[2] == f64::INFINITY);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn atanh(&self) -> Array {
        let (x, dtype) = self.widened();
        let size = x.abs();
        let y = x.signing(&((&size * 2.0 / (1.0 - &size)).log1p() * 0.5));
        let slope = |x: &Array| (1.0 - x) * (x + 1.0);
        custom_vjp(&[&x], |_| y, move |of, _, g| vec![g / slope(&of[0])]).cast(dtype)
    }

    /// The cube root, of negative numbers too.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[27.0f64, -1e-300, 0.0], &[3]).cbrt().to_vec::<f64>()?;
    /// assert!((x[0] - 3.0).abs() < 1e-15 && (x[1] * 1e100 + 1.0).abs() < 1e-15 && x[2] == 0.0);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn cbrt(&self) -> Array {
        let (x, dtype) = self.widened();
        let size = x.abs();
        let rough = (size.log2() * (1.0 / 3.0)).exp2();
        // A step of Newton's. Its squares neither overflow nor vanish.
        let root = &rough - (&rough - &size / rough.square()) * (1.0 / 3.0);
        let is_regular = size.greater(0.0) & size.less(f64::INFINITY);
        let y = root.where_(&x.greater(0.0), &-&root).where_(&is_regular, &x);
        custom_vjp(&[&x], |_| y, |_, y, g| vec![g / (y.square() * 3.0)]).cast(dtype)
    }

    /// The length of the hypotenuse of a triangle whose legs these are: √(x² + y²), without
    /// overflow between. It is infinite where a leg is, even beside NaN, as C's. Where both legs
    /// are zero the slope is zero.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3.0f64, 3e300, 0.0], &[3]);
    /// let y = Array::new(&device, &[4.0f64, 4e300, -4e-300], &[3]);
    /// assert_eq!(x.hypot(&y).to_vec::<f64>()?, [5.0, 5e300, 4e-300]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot(&self, other: impl Operand) -> Array {
        let site = Location::caller();
        let other = other.beside(self, site);
        let dtype = float_of(promote(self.dtype(), other.dtype()));
        let [x, y] = match paired("hypot", self, &other, Some(dtype.accumulator()), site) {
            Ok(legs) => legs,
            Err(error) => return Array::failed(error, site),
        };
        let length = length(&x, &y);
        let slopes = |of: &[Array], length: &Array, g: &Array| {
            let length = (length + 1.0).where_(&length.equal(0.0), length);
            of.iter().map(|leg| g * (leg / &length)).collect()
        };
        custom_vjp(&[&x, &y], |_| length, slopes).cast(dtype)
    }

    /// Another number's magnitude with this one's sign; this one itself where it is zero.
    #[track_caller]
    fn signing(&self, magnitude: &Array) -> Array {
        let signed = magnitude.where_(&self.greater(0.0), &-magnitude);
        self.where_(&self.equal(0.0), &signed)
    }
}

/// The root of the sum of squares.
#[track_caller]
fn length(x: &Array, y: &Array) -> Array {
    let (x, y) = (x.abs(), y.abs());
    let largest = x.maximum(&y);
    // Powers of two, by which multiplying is exact, so that squares neither overflow nor vanish.
    let [small, up, large, down] = match x.dtype() {
        Scalar::F64 => [-500, 700, 500, -600],
        _ => [-50, 100, 50, -80],
    };
    let power = |exponent: i32| 2f64.powi(exponent);
    let site = Location::caller();
    let number = |of: f64| largest.filled_like(Literal::from_f64(largest.dtype(), of), site);
    let by_size = |if_small: i32, if_large: i32| {
        let other = number(power(if_large)).where_(&largest.greater(power(large)), 1.0);
        number(power(if_small)).where_(&largest.less(power(small)), &other)
    };
    let (scale, back) = (by_size(up, down), by_size(-up, -down));
    let root = ((&x * &scale).square() + (&y * &scale).square()).sqrt() * back;
    number(f64::INFINITY).where_(&(x.equal(f64::INFINITY) | y.equal(f64::INFINITY)), &root)
}

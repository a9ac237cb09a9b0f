//! Fourier transforms.
//!
//! A transform of `n = n₁ n₂` elements is transforms of n₁ and of n₂, and factors between them
//! (Cooley and Tukey, 1965). Those of at most 64 elements are products with a matrix, which devices
//! are fastest at. A prime number of more is a convolution of a power of two (Bluestein, 1970). All
//! of it is recorded as products and element-wise operations, so that it has derivatives.
//!
//! There are no complex element types: real and imaginary parts are arrays of their own.

use super::join::concatenate;
use crate::dtype::{Kind, accumulator, kind, mean_of};
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::Extents;
use kiln_ir::{Literal, Scalar};
use std::f64::consts::TAU;
use std::panic::Location;

/// The most elements of a transform by one product.
const BY_PRODUCT: usize = 64;

/// The most elements of a transform.
const MOST: usize = 1 << 24;

impl Array {
    /// The discrete Fourier transform along an axis, of numbers whose real parts are this array and
    /// whose imaginary parts are the other: Σ x\[t\] e^(-2πi k t / n), in real and imaginary parts,
    /// as NumPy's `fft.fft`. Any number of elements will do; products of small primes are fastest.
    /// 16-bit floats are computed in f32.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f64, 2.0, 0.0, -1.0], &[4]);
    /// let (re, im) = x.fft(&(&x * 0.0), 0);
    /// let close = |x: &Array, y: [f64; 4]| x.to_vec::<f64>().unwrap().iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-12);
    /// assert!(close(&re, [2.0, 1.0, 0.0, 1.0]) && close(&im, [0.0, -3.0, 0.0, 3.0]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Both results have an error if there is no such axis, if it has no elements, or if the two
    /// arrays differ in shape.
    #[track_caller]
    pub fn fft(&self, imaginary: &Array, axis: isize) -> (Array, Array) {
        let site = Location::caller();
        both(Spectrum::of("fft", [self, imaginary], axis, site).map(|of| of.transformed(false)), site)
    }

    /// The inverse of [`fft`](Self::fft): with e^(+2πi k t / n), divided by the number of elements.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f64, 2.0, 0.0, -1.0], &[4]);
    /// let (re, im) = x.fft(&(&x * 0.0), 0);
    /// let (back, zeros) = re.ifft(&im, 0);
    /// assert!((back - &x).abs().max().item::<f64>()? < 1e-12);
    /// assert!(zeros.abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`fft`](Self::fft).
    #[track_caller]
    pub fn ifft(&self, imaginary: &Array, axis: isize) -> (Array, Array) {
        let site = Location::caller();
        both(Spectrum::of("ifft", [self, imaginary], axis, site).map(|of| of.transformed(true)), site)
    }

    /// The first half of the transform of real numbers, `n / 2 + 1` elements, in real and imaginary
    /// parts: the others are their conjugates. As NumPy's `fft.rfft`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3.0f64, 1.0], &[2]);
    /// let (re, im) = x.rfft(0);
    /// assert_eq!((re.to_vec::<f64>()?, im.shape()), (vec![4.0, 2.0], &[2][..]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`fft`](Self::fft).
    #[track_caller]
    pub fn rfft(&self, axis: isize) -> (Array, Array) {
        let site = Location::caller();
        let none = self.filled_like(Literal::zero(self.dtype()), site);
        let half = Spectrum::of("rfft", [self, &none], axis, site).map(|of| {
            let kept = of.len() / 2 + 1;
            let (re, im) = of.transformed(false);
            (re.slice(axis, ..kept), im.slice(axis, ..kept))
        });
        both(half, site)
    }

    /// The `len` real numbers whose [`rfft`](Self::rfft) has these real and imaginary parts, as
    /// NumPy's `fft.irfft`.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3.0f64, 1.0, 2.0], &[3]);
    /// let (re, im) = x.rfft(0);
    /// assert!((re.irfft(&im, 3, 0) - &x).abs().max().item::<f64>()? < 1e-12);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`fft`](Self::fft), and if there are not `len / 2 + 1` elements along the axis.
    #[track_caller]
    pub fn irfft(&self, imaginary: &Array, len: usize, axis: isize) -> Array {
        let site = Location::caller();
        let whole = || -> Result<Array> {
            let half = Spectrum::of("irfft", [self, imaginary], axis, site)?;
            if half.len() != len / 2 + 1 || len == 0 {
                let problem = format!("{} elements for {len} numbers: it takes {}", half.len(), len / 2 + 1);
                return Err(Error::Shape { op: "irfft", problem, location: site });
            }
            // The other half is conjugate, in the other direction.
            let rest = |x: &Array| x.slice(-1, 1..len.div_ceil(2)).flip(&[-1]);
            let re = concatenate(&[&half.z.re, &rest(&half.z.re)], -1);
            let im = concatenate(&[&half.z.im, &-rest(&half.z.im)], -1);
            let whole = Spectrum { z: Complex { re, im }, ..half };
            Ok(whole.transformed(true).0)
        };
        whole().unwrap_or_else(|error| Array::failed(error, site))
    }
}

fn both(of: Result<(Array, Array)>, site: Site) -> (Array, Array) {
    of.unwrap_or_else(|error| (Array::failed(error.clone(), site), Array::failed(error, site)))
}

/// Complex numbers along the last axis, which was another one.
struct Spectrum {
    z: Complex,
    /// Exchanges that axis with the last one.
    order: Extents,
    dtype: Scalar,
    site: Site,
}

impl Spectrum {
    fn of(op: &'static str, [re, im]: [&Array; 2], axis: isize, location: Site) -> Result<Spectrum> {
        if let Some(error) = im.error() {
            return Err(error);
        }
        common_device(&[re, im], op, location)?;
        let at = re.axis_at(op, axis, location)?;
        let refused = |problem: String| Err(Error::Shape { op, problem, location });
        if re.shape() != im.shape() {
            return refused(format!(
                "real parts of shape {:?} and imaginary ones of {:?}",
                re.shape(),
                im.shape()
            ));
        }
        let len = re.shape()[at];
        if len == 0 || len > MOST {
            return refused(format!(
                "axis {at} of shape {:?} has not between 1 and {MOST} elements",
                re.shape()
            ));
        }
        if let Some(array) = [re, im].into_iter().find(|array| kind(array.dtype()) == Kind::Bool) {
            let hint = "it is for numbers; cast first";
            return Err(Error::Type { op, dtype: array.dtype(), hint, location });
        }
        let dtype = mean_of(crate::dtype::promote(re.dtype(), im.dtype()));
        let mut order: Extents = (0..re.rank()).collect();
        order.swap(at, re.rank() - 1);
        let last = |x: &Array| x.cast_at(accumulator(dtype), location).ordered(order.clone(), location);
        Ok(Spectrum { z: Complex { re: last(re), im: last(im) }, order, dtype, site: location })
    }

    fn len(&self) -> usize {
        self.z.len()
    }

    fn transformed(self, inverse: bool) -> (Array, Array) {
        let len = self.len() as f64;
        let Complex { re, im } = transform(&self.z, inverse);
        let part = |x: Array| {
            let scaled = if inverse { x / len } else { x };
            scaled.ordered(self.order.clone(), self.site).cast_at(self.dtype, self.site)
        };
        (part(re), part(im))
    }
}

/// Complex numbers.
#[derive(Clone)]
struct Complex {
    re: Array,
    im: Array,
}

impl Complex {
    fn len(&self) -> usize {
        self.re.shape().last().copied().unwrap_or(1)
    }

    fn map(&self, f: impl Fn(&Array) -> Array) -> Complex {
        Complex { re: f(&self.re), im: f(&self.im) }
    }

    fn times(&self, other: &Complex) -> Complex {
        let (Complex { re: a, im: b }, Complex { re: c, im: d }) = (self, other);
        Complex { re: a * c - b * d, im: a * d + b * c }
    }

    /// The axes of this shape in place of the last one.
    fn divided(&self, last: &[usize]) -> Complex {
        let rank = self.re.rank();
        let shape = [&self.re.shape()[..rank - 1], last].concat();
        self.map(|x| x.reshape(&shape))
    }

    /// The last two axes as one.
    fn joined(&self) -> Complex {
        let rank = self.re.rank();
        let len = self.re.shape()[rank - 2..].iter().product();
        let shape = [&self.re.shape()[..rank - 2], &[len]].concat();
        self.map(|x| x.reshape(&shape))
    }
}

/// e^(2πi index / n), or its conjugate. Indices are reduced first, so that angles are exact.
fn turns(index: &Array, n: usize, conjugate: bool, dtype: Scalar) -> Complex {
    let n = n as i64;
    let part = index % n;
    // From -n / 2 to n / 2, where angles are smallest.
    let part = (&part - n).where_(&(&part * 2).greater(n), &part);
    let angle = part.cast(dtype) * (TAU / n as f64);
    let sine = angle.sin();
    Complex { re: angle.cos(), im: if conjugate { -sine } else { sine } }
}

/// The sums Σ z\[t\] e^(∓2πi k t / n) along the last axis.
fn transform(z: &Complex, inverse: bool) -> Complex {
    let n = z.len();
    if n == 1 {
        return z.clone();
    }
    if n <= BY_PRODUCT {
        return by_product(z, inverse);
    }
    let Some(device) = z.re.device() else { return z.clone() };
    let Some(first) = (2..=BY_PRODUCT).rev().find(|&first| n.is_multiple_of(first)) else {
        return by_convolution(z, inverse);
    };
    let rest = n / first;
    // [t₁, t₂] of t = t₁ rest + t₂: first along t₁.
    let columns = z.divided(&[first, rest]).map(|x| x.swap_axes(-1, -2));
    let columns = by_product(&columns, inverse);
    let (t, k) = (Array::arange(device, rest).unsqueeze(1), Array::arange(device, first));
    let columns = columns.times(&turns(&(t * k), n, !inverse, z.re.dtype()));
    // [k₁, k₂] of k = k₁ + k₂ first.
    let rows = transform(&columns.map(|x| x.swap_axes(-1, -2)), inverse);
    rows.map(|x| x.swap_axes(-1, -2)).joined()
}

/// Real and imaginary parts side by side, times the matrix that makes both.
fn by_product(z: &Complex, inverse: bool) -> Complex {
    let n = z.len();
    let Some(device) = z.re.device() else { return z.clone() };
    let (t, k) = (Array::arange(device, n).unsqueeze(1), Array::arange(device, n));
    let Complex { re: c, im: s } = turns(&(t * k), n, !inverse, z.re.dtype());
    let of_re = concatenate(&[&c, &s], 1);
    let of_im = concatenate(&[&-s, &c], 1);
    let matrix = concatenate(&[&of_re, &of_im], 0);
    let parts = concatenate(&[&z.re, &z.im], -1).matmul(&matrix);
    Complex { re: parts.slice(-1, ..n), im: parts.slice(-1, n..) }
}

/// By k t = (k² + t² - (k - t)²) / 2 it is a convolution with e^(±πi t² / n), of a power of two.
fn by_convolution(z: &Complex, inverse: bool) -> Complex {
    let (n, dtype) = (z.len(), z.re.dtype());
    let Some(device) = z.re.device() else { return z.clone() };
    let len = (2 * n - 1).next_power_of_two();
    // Indices below 2²⁴, whose squares are exact.
    let squares = |index: &Array, conjugate: bool| turns(&(index * index), 2 * n, conjugate, dtype);
    let factors = squares(&Array::arange(device, n), !inverse);
    let mut widths = vec![(0, 0); z.re.rank()];
    widths[z.re.rank() - 1] = (0, len - n);
    let padded = z.times(&factors).map(|x| x.pad(&widths));
    let index = Array::arange(device, len);
    let distance = index.minimum(len as i64 - &index);
    let near = distance.less(n as i64);
    let chirp = squares(&distance, inverse).map(|x| x.where_(&near, 0.0));
    let product = transform(&padded, false).times(&transform(&chirp, false));
    let sums = transform(&product, true).map(|x| x.slice(-1, ..n) / len as f64);
    sums.times(&factors)
}

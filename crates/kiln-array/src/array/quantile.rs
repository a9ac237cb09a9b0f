//! Medians and other quantiles.

use super::create::constant;
use super::join::stack_at;
use crate::dtype::{Kind, kind, mean_of};
use crate::error::{Error, Result, Site};
use crate::node::Array;
use crate::shape::without;
use kiln_ir::Literal;
use std::panic::Location;

impl Array {
    /// The median along an axis, which goes: the element in the middle of the order, or the mean of
    /// the two that are. In the types of [`quantile`](Self::quantile).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[5.0f32, 1.0, 9.0, 4.0, 2.0, 3.0], &[2, 3]);
    /// assert_eq!(x.median(1).to_vec::<f32>()?, [5.0, 3.0]);
    /// assert_eq!(x.flatten().median(0).item::<f32>()?, 3.5);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis.
    #[track_caller]
    pub fn median(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.quantiles_of("median", &[0.5], axis, site) {
            Ok(one) => one.into_iter().next().unwrap_or_else(|| self.clone()),
            Err(error) => Array::failed(error, site),
        }
    }

    /// The quantile of a share `q` from 0 to 1 along an axis, which goes: the element at `q * (n -
    /// 1)` in the order of the n elements, or what lies between its neighbors there, by linear
    /// interpolation, as NumPy has it.
    ///
    /// Of integers and bool it is f64. Where an element is NaN the result is, and so is that of no
    /// elements. Its gradient is that of the elements that it lies between.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[30.0f64, 0.0, 10.0, 20.0], &[4]);
    /// assert_eq!(x.quantile(0.5, 0).item::<f64>()?, 15.0);
    /// assert_eq!(x.quantile(1.0, 0).item::<f64>()?, 30.0);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if `q` is not from 0 to 1.
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: isize) -> Array {
        let site = Location::caller();
        match self.quantiles_of("quantile", &[q], axis, site) {
            Ok(one) => one.into_iter().next().unwrap_or_else(|| self.clone()),
            Err(error) => Array::failed(error, site),
        }
    }

    /// Several quantiles along an axis, each as of [`quantile`](Self::quantile), one after the
    /// other along a new first axis. The elements are put in order once.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3, 1, 2, 5, 4, 6], &[2, 3]);
    /// let quartiles = x.quantiles(&[0.25, 0.75], -1);
    /// assert_eq!((quartiles.shape(), quartiles.to_vec::<f64>()?), (&[2, 2][..], vec![1.5, 4.5, 2.5, 5.5]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`quantile`](Self::quantile), and if there are no shares.
    #[track_caller]
    pub fn quantiles(&self, q: &[f64], axis: isize) -> Array {
        let site = Location::caller();
        match self.quantiles_of("quantiles", q, axis, site) {
            Ok(each) if each.is_empty() => {
                let problem = "there are no shares".to_owned();
                Array::failed(Error::Shape { op: "quantiles", problem, location: site }, site)
            }
            Ok(each) => stack_at(&each.iter().collect::<Vec<_>>(), 0, site),
            Err(error) => Array::failed(error, site),
        }
    }

    fn quantiles_of(&self, name: &'static str, q: &[f64], axis: isize, site: Site) -> Result<Vec<Array>> {
        let at = self.axis_at(name, axis, site)?;
        if let Some(wrong) = q.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            let problem = format!("a share of {wrong} is not from 0 to 1");
            return Err(Error::Shape { op: name, problem, location: site });
        }
        let (dtype, shape) = (mean_of(self.dtype()), without(self.shape(), &[at]));
        let extent = self.shape()[at];
        if self.is_empty() {
            let number = Literal::from_f64(dtype, f64::NAN);
            let none = |_| self.device().map(|device| constant(device, name, number, &shape, site));
            return Ok(q.iter().filter_map(none).collect());
        }
        let order = self.order(name, axis, false, site)?;
        let wide = self.cast_at(dtype.accumulator(), site);
        let element = |place: usize| {
            let place = order.part(at, place, 1, 1, site);
            wide.taken_along(&place, axis, (name, site)).reshaped(&shape, site)
        };
        let last = (kind(self.dtype()) == Kind::Float).then(|| element(extent - 1));
        let one = |q: &f64| {
            let place = q * (extent - 1) as f64;
            let (first, share) = (place.floor() as usize, place.fract());
            let found = match share == 0.0 {
                true => element(first),
                false => between(&element(first), &element(first + 1), share),
            };
            // NaN come last.
            let found = match &last {
                Some(last) => last.where_(&last.is_nan(), &found),
                None => found,
            };
            found.cast_at(dtype, site)
        };
        Ok(q.iter().map(one).collect())
    }
}

/// What lies between two numbers: from the nearer one, so that it is never beyond the other.
#[track_caller]
fn between(a: &Array, b: &Array, share: f64) -> Array {
    let distance = b - a;
    let found = if share < 0.5 { a + &distance * share } else { b - &distance * (1.0 - share) };
    // Between numbers of which one is infinite, or whose distance is.
    let apart = a * (1.0 - share) + b * share;
    found.where_(&distance.is_finite(), &apart)
}

//! Softmax and norms, as one writes them down: each is one kernel, which reads its input once while
//! a row fits a tile.

use super::arithmetic::common_shape;
use crate::dtype::{accumulator, mean_of};
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::count;
use std::panic::Location;

impl Array {
    /// Shares of e^x along an axis, computed in f32 for 16-bit floats.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[0.0f32, 0.0, 1000.0, 0.0], &[2, 2]);
    /// assert_eq!(x.softmax(-1).to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if it has no elements.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Array {
        let x = self.widened_along("softmax", axis);
        let e = (&x - x.shift_along(axis)).exp();
        (&e / e.sum_keep(&[axis])).cast(mean_of(self.dtype()))
    }

    /// The logarithm of the softmax, also where that is too small for a float.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Array {
        let x = self.widened_along("log_softmax", axis);
        let shifted = &x - x.shift_along(axis);
        (&shifted - shifted.exp().sum_keep(&[axis]).log()).cast(mean_of(self.dtype()))
    }

    /// ln Σ e^x along an axis, which goes.
    #[track_caller]
    pub fn logsumexp(&self, axis: isize) -> Array {
        let x = self.widened_along("logsumexp", axis);
        let max = x.max_keep(&[axis]).stop_gradient();
        // Where all elements are infinitely small, so is the result, and their difference is NaN.
        let max = max.where_(&max.abs().less(f64::INFINITY), 0.0);
        let sum = (&x - &max).exp().sum_keep(&[axis]).log() + max;
        sum.squeeze(axis).cast(mean_of(self.dtype()))
    }

    /// (x - mean) / sqrt(variance + epsilon) · weight + bias along the last axis, computed in f32
    /// for 16-bit floats (Ba, Kiros and Hinton, "Layer Normalization", 2016).
    ///
    /// # Errors
    /// The result has an error if there are no axes, or if the weight or the bias do not broadcast.
    #[track_caller]
    pub fn layer_norm(&self, weight: &Array, bias: &Array, epsilon: f64) -> Array {
        let x = self.wide_for_norm("layer_norm", &[weight, bias]);
        let centered = &x - x.mean_keep(&[-1]);
        let variance = centered.square().mean_keep(&[-1]);
        (centered * (variance + epsilon).rsqrt() * weight + bias).cast(mean_of(self.dtype()))
    }

    /// x / sqrt(mean of x² + epsilon) · weight along the last axis, computed in f32 for 16-bit
    /// floats (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019).
    ///
    /// # Errors
    /// As of [`layer_norm`](Self::layer_norm).
    #[track_caller]
    pub fn rms_norm(&self, weight: &Array, epsilon: f64) -> Array {
        let x = self.wide_for_norm("rms_norm", &[weight]);
        (&x * (x.square().mean_keep(&[-1]) + epsilon).rsqrt() * weight).cast(mean_of(self.dtype()))
    }

    /// (x - mean) / sqrt(variance + epsilon) · weight + bias, where mean and variance are those of
    /// a group of channels over all axes but the first: of an array `[batch, …, channels]` whose
    /// channels are divided into so many groups of neighbors. Weight and bias have an element for
    /// each channel. It is computed in f32 for 16-bit floats (Wu and He, "Group Normalization",
    /// 2018); with as many groups as channels it is instance normalization.
    ///
    /// ```
    /// # use kiln_array::{Array, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 3.0, 10.0, 30.0], &[1, 1, 4]);
    /// let [one, zero] = [Array::ones, Array::zeros].map(|of| of(&device, Scalar::F32, &[4]));
    /// let y = x.group_norm(2, &one, &zero, 0.0).to_vec::<f32>()?;
    /// assert!(y.iter().zip([-1.0, 1.0, -1.0, 1.0]).all(|(y, want)| (y - want).abs() < 1e-6));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are fewer than two axes, if the groups do not divide the
    /// channels, or if weight and bias are not of one element for each.
    #[track_caller]
    pub fn group_norm(&self, groups: usize, weight: &Array, bias: &Array, epsilon: f64) -> Array {
        let site = Location::caller();
        let normed = || -> Result<Array> {
            let x = self.wide_for_norm("group_norm", &[weight, bias]);
            if let Some(error) = x.error() {
                return Err(error);
            }
            let refused = |problem| Error::Shape { op: "group_norm", problem, location: site };
            let &[batch, ref between @ .., channels] = self.shape() else {
                return Err(refused(format!("shape {:?} is not [batch, .., channels]", self.shape())));
            };
            if groups == 0 || channels % groups != 0 {
                return Err(refused(format!("{groups} groups do not divide {channels} channels")));
            }
            for (name, of) in [("weight", weight), ("bias", bias)] {
                if of.shape() != [channels] {
                    let problem = format!("a {name} of shape {:?} for {channels} channels", of.shape());
                    return Err(refused(problem));
                }
            }
            let apart = x.reshaped(&[batch, count(between), groups, channels / groups], site);
            let centered = &apart - apart.mean_keep(&[1, 3]);
            let variance = centered.square().mean_keep(&[1, 3]);
            let normed = (centered * (variance + epsilon).rsqrt()).reshaped(self.shape(), site);
            Ok((normed * weight + bias).cast_at(mean_of(self.dtype()), site))
        };
        normed().unwrap_or_else(|error| Array::failed(error, site))
    }

    /// The elements as floats, of 32 bits or more, for an operation along an axis.
    #[track_caller]
    fn widened_along(&self, op: &'static str, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at(op, axis, site) {
            Err(error) => Array::failed(error, site),
            Ok(at) if self.shape()[at] == 0 => {
                let problem = format!("axis {axis} of shape {:?} has no elements", self.shape());
                Array::failed(Error::Shape { op, problem, location: site }, site)
            }
            Ok(_) => self.wide(),
        }
    }

    /// The elements as floats, of 32 bits or more, for a norm along the last axis with a weight and
    /// what else it is combined with.
    #[track_caller]
    fn wide_for_norm(&self, op: &'static str, with: &[&Array]) -> Array {
        let fits = |site: Site| -> Result<()> {
            self.axis_at(op, -1, site)?;
            if let Some(error) = with.iter().find_map(|array| array.error()) {
                return Err(error);
            }
            let all: Vec<&Array> = [self].into_iter().chain(with.iter().copied()).collect();
            common_device(&all, op, site)?;
            common_shape(op, &all, site).map(|_| ())
        };
        let site = Location::caller();
        fits(site).map_or_else(|error| Array::failed(error, site), |()| self.wide())
    }

    /// The elements as floats, of 32 bits or more.
    #[track_caller]
    fn wide(&self) -> Array {
        self.cast_at(accumulator(mean_of(self.dtype())), Location::caller())
    }
}

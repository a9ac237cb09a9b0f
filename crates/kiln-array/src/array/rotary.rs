//! Rotary position embedding.

use crate::dtype::{accumulator, mean_of};
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::{Extents, broadcast};
use std::panic::Location;

/// Which two elements of a head [`rotary`](Array::rotary) turns together.
///
/// ```
/// use kiln_array::{Array, Pairs};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::arange(&device, 4).cast(kiln_array::Scalar::F64).reshape(&[1, 1, 4]);
/// let place = Array::ones(&device, kiln_array::Scalar::F64, &[1]);
/// // An angle of 1 for the first pair, of 0.1 for the second; 0 is turned together with 1, or with 2.
/// let first = |pairs| x.rotary(&place, 100.0, pairs).flatten().slice(0, ..1).item::<f64>();
/// assert!((first(Pairs::Neighbors)? + 1f64.sin()).abs() < 1e-12);
/// assert!((first(Pairs::Halves)? + 2.0 * 1f64.sin()).abs() < 1e-12);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Elements 2i and 2i + 1, as in RoFormer and GPT-J, and in GGUF files of Llama.
    Neighbors,
    /// Elements i and i + width / 2, as in GPT-NeoX, and in Hugging Face's files of Llama.
    Halves,
}

impl Array {
    /// The elements of each head in pairs, each pair turned by an angle that grows with its place:
    /// pair i of a head of `width` elements at place p by p · base^(-2i / width) radians (Su and
    /// others, "RoFormer", 2021). Attention between turned queries and keys then depends on how far
    /// apart they are. The array is `[…, length, heads, width]`, and `places` broadcasts to `[…,
    /// length]`. It is computed in f32 for 16-bit floats.
    ///
    /// ```
    /// # use kiln_array::{Array, Pairs};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let q = Array::new(&device, &[1.0f64, 0.0, 1.0, 0.0], &[2, 1, 2]); // two places, one head
    /// let turned = q.rotary(&Array::arange(&device, 2), 10000.0, Pairs::Halves).to_vec::<f64>()?;
    /// assert!((turned[2] - 1f64.cos()).abs() < 1e-12 && (turned[3] - 1f64.sin()).abs() < 1e-12);
    /// assert_eq!(turned[..2], [1.0, 0.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the array has fewer than three axes or an odd width, or if the
    /// places do not broadcast.
    #[doc(alias = "rope")]
    #[track_caller]
    pub fn rotary(&self, places: &Array, base: f64, pairs: Pairs) -> Array {
        let site = Location::caller();
        self.turned(places, base, pairs, site).unwrap_or_else(|error| Array::failed(error, site))
    }

    fn turned(&self, places: &Array, base: f64, pairs: Pairs, location: Site) -> Result<Array> {
        let refused = |problem: String| Error::Shape { op: "rotary", problem, location };
        if let Some(error) = self.error().or_else(|| places.error()) {
            return Err(error);
        }
        common_device(&[self, places], "rotary", location)?;
        let &[ref before @ .., _, width] = self.shape() else {
            return Err(refused(format!("shape {:?} is not [.., length, heads, width]", self.shape())));
        };
        if before.is_empty() || width % 2 != 0 {
            let what =
                if before.is_empty() { "is not [.., length, heads, width]" } else { "has an odd width" };
            return Err(refused(format!("shape {:?} {what}", self.shape())));
        }
        if broadcast(places.shape(), before).is_none_or(|shape| shape[..] != *before) {
            let problem = format!("places of shape {:?} do not broadcast to {before:?}", places.shape());
            return Err(refused(problem));
        }
        let (Some(device), dtype) = (self.device(), accumulator(mean_of(self.dtype()))) else {
            return Ok(self.clone());
        };
        // Element by element, not pair by pair: then it is one kernel, which reads each twice.
        let (half, index) = ((width / 2) as i64, Array::iota(device, &[width], 0, location));
        let (pair, second, partners) = match pairs {
            Pairs::Neighbors => {
                let mut split = Extents::from_slice(&self.shape()[..self.rank() - 1]);
                split.extend([width / 2, 2]);
                let partners = self.reshaped(&split, location).flip(&[-1]).reshaped(self.shape(), location);
                (index.floor_divide(2), &index % 2, partners)
            }
            Pairs::Halves => (&index % half, index.floor_divide(half), self.roll(half as isize, -1)),
        };
        let by_pair = (pair.cast_at(dtype, location) * (-2.0 * base.ln() / width as f64)).exp();
        // The same for all heads.
        let angles = places.cast_at(dtype, location).unsqueeze(-1).unsqueeze(-1) * by_pair;
        let sign = (second * 2 - 1).cast_at(dtype, location);
        let [x, partners] = [self, &partners].map(|of| of.cast_at(dtype, location));
        let turned = x * angles.cos() + partners * (sign * angles.sin());
        Ok(turned.cast_at(mean_of(self.dtype()), location))
    }
}

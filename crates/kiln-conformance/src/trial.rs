//! One run of a case: its device, its random input and its comparisons.

use kiln_backend::{FaultKind, Residency};
use kiln_lang::Elem;
use kiln_reference::{Host, Rng, Sample};
use kiln_runtime::{Device, DynTensor, Error, Tensor};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Why a case ends early. One word: whatever a case calls may end it, and every call hands it on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Stop(Box<Why>);

/// What is behind a [`Stop`].
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// Kiln refused or failed where it should not.
    #[error("{0}")]
    Kiln(Error),
    /// The device lacks a capability, which the text names.
    #[error("the device has no {0}")]
    Missing(&'static str),
    /// A result was wrong.
    #[error("{0}")]
    Wrong(String),
}

impl From<Error> for Stop {
    #[cold]
    fn from(error: Error) -> Stop {
        Stop(Box::new(Why::Kiln(error)))
    }
}

impl Stop {
    /// The device lacks a capability.
    #[cold]
    pub fn missing(capability: &'static str) -> Stop {
        Stop(Box::new(Why::Missing(capability)))
    }

    /// A result was wrong.
    #[cold]
    pub fn wrong(what: String) -> Stop {
        Stop(Box::new(Why::Wrong(what)))
    }

    /// The reason.
    pub fn why(&self) -> &Why {
        &self.0
    }

    /// Whether a kernel needs more shared memory than a block of the device has.
    pub fn is_lack_of_shared_memory(&self) -> bool {
        let Why::Kiln(Error::Device(kiln_backend::Error::LaunchLimit { what, .. })) = self.why() else {
            return false;
        };
        what.contains("shared memory")
    }

    /// The rounds of loops that the device's driver makes, if it ended one of more.
    pub fn loop_limit(&self) -> Option<u32> {
        let Why::Kiln(Error::Device(kiln_backend::Error::Fault(fault))) = self.why() else { return None };
        if let FaultKind::LoopLimit { rounds } = fault.kind { Some(rounds) } else { None }
    }
}

/// What a case comes to.
pub type Verdict = Result<(), Stop>;

/// One run of a case.
pub struct Trial<'a> {
    /// The device under test.
    pub device: &'a Device,
    /// Where random input comes from.
    pub rng: Rng,
}

impl<'a> Trial<'a> {
    pub fn new(device: &'a Device, seed: u64, name: &str) -> Trial<'a> {
        let mut hasher = DefaultHasher::new();
        (seed, name).hash(&mut hasher);
        Trial { device, rng: Rng::new(hasher.finish()) }
    }

    /// Whether workers of ring kernels are warps: both, where the device has a choice. Where
    /// threads are hardware threads, a worker always is a warp, or always one of them in a
    /// dispatch.
    pub fn warps(&self) -> &'static [bool] {
        match (self.device.properties().residency, self.device.capabilities().is_simt()) {
            (Residency::Dispatched, _) => &[false],
            (_, true) => &[true],
            (_, false) => &[false, true],
        }
    }

    /// Random elements.
    pub fn random<T: Sample>(&mut self, n: usize) -> Vec<T> {
        list(0..n, |_| T::sample(&mut self.rng))
    }

    /// A tensor of random elements, and the elements.
    pub fn input<T: Sample, const R: usize>(
        &mut self,
        shape: [usize; R],
    ) -> Result<(Tensor<T, R>, Vec<T>), Stop> {
        let data = self.random(shape.iter().product());
        Ok((self.device.tensor(&data, shape)?, data))
    }

    /// A tensor of given elements, on one axis.
    pub fn vector<T: Sample>(&self, data: &[T]) -> Result<Tensor<T, 1>, Stop> {
        Ok(self.device.tensor(data, [data.len()])?)
    }

    /// A tensor for results, full of garbage that no case computes.
    pub fn output<T: Sample, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>, Stop> {
        Ok(self.device.tensor(&vec![T::POISON; shape.iter().product()], shape)?)
    }
}

/// What a function gives for each number of a range. The suite has hundreds of such lists, which an
/// iterator would be compiled for each by itself.
#[inline]
pub fn list<N, T>(range: Range<N>, mut of: impl FnMut(N) -> T) -> Vec<T>
where
    Range<N>: Iterator<Item = N>,
{
    collect(range, &mut of)
}

fn collect<N, T>(range: Range<N>, of: &mut dyn FnMut(N) -> T) -> Vec<T>
where
    Range<N>: Iterator<Item = N>,
{
    let mut items = Vec::new();
    for n in range {
        items.push(of(n));
    }
    items
}

/// Elements as values without a type: what is expected of them is then compiled once.
pub fn hosts<T: Sample>(data: &[T]) -> Vec<Host> {
    list(0..data.len(), |i| data[i].host())
}

/// The elements that stand at these places, and another one where there is no place.
pub fn picked<T: Copy>(data: &[T], places: &[Option<usize>], other: T) -> Vec<T> {
    list(0..places.len(), |i| places[i].map_or(other, |place| data[place]))
}

/// Ends the case unless a condition holds.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Stop::wrong(what())) }
}

/// Compares exactly.
pub fn same<T: PartialEq + Debug>(what: &str, got: &[T], expected: &[T]) -> Verdict {
    let pair = |i: usize| format!("{:?}, expected {:?}", got[i], expected[i]);
    all(what, [got.len(), expected.len()], &|i| got[i] == expected[i], &pair)
}

/// Ends the case unless there are as many values as expected, and all of them are right; `pair`
/// says of one what it is and what was expected.
fn all(
    what: &str,
    [given, expected]: [usize; 2],
    is_right: &dyn Fn(usize) -> bool,
    pair: &dyn Fn(usize) -> String,
) -> Verdict {
    if given != expected {
        return Err(Stop::wrong(format!("{what}: {given} values, expected {expected}")));
    }
    let mut wrong = (0..given).filter(|&i| !is_right(i));
    let Some(first) = wrong.next() else { return Ok(()) };
    let differ = 1 + wrong.count();
    Err(Stop::wrong(format!("{what}: [{first}] is {}; {differ} of {given} differ", pair(first))))
}

/// Compares the elements of a tensor exactly.
#[inline]
pub fn holds<T: Elem, const R: usize>(what: &str, got: &Tensor<T, R>, expected: &[T]) -> Verdict {
    holds_erased(what, got.as_dyn(), expected)
}

fn holds_erased<T: Elem>(what: &str, got: &DynTensor, expected: &[T]) -> Verdict {
    same(what, &got.to_vec::<T>()?, expected)
}

/// Compares the elements of a tensor as [`close`] does.
#[inline]
pub fn holds_near<T: Sample, const R: usize>(
    what: &str,
    got: &Tensor<T, R>,
    expected: &[Host],
    ulps: f64,
    scale: f64,
) -> Verdict {
    holds_near_erased::<T>(what, got.as_dyn(), expected, ulps, scale)
}

fn holds_near_erased<T: Sample>(
    what: &str,
    got: &DynTensor,
    expected: &[Host],
    ulps: f64,
    scale: f64,
) -> Verdict {
    close(what, &got.to_vec::<T>()?, expected, ulps, scale)
}

/// Compares integers and bools exactly, floats within `ulps` units in the last place of the larger
/// of the expected value and `scale`.
pub fn close<T: Sample>(what: &str, got: &[T], expected: &[Host], ulps: f64, scale: f64) -> Verdict {
    let right = |i: usize| near(got[i].host(), T::from_host(expected[i]).host(), ulps * T::EPSILON, scale);
    let pair = |i: usize| format!("{:?}, expected {:?} within {ulps} ulp", got[i], T::from_host(expected[i]));
    all(what, [got.len(), expected.len()], &right, &pair)
}

/// Whether two values are as near as `bound`, relative to the larger of the expected one and of
/// `scale`.
fn near(got: Host, expected: Host, bound: f64, scale: f64) -> bool {
    match (got, expected) {
        (Host::Float(g), Host::Float(e)) if e.is_finite() && g.is_finite() => {
            (g - e).abs() <= bound * e.abs().max(scale)
        }
        // Close to the largest number, rounding decides between it and infinity.
        (Host::Float(g), Host::Float(e)) if g.is_nan() || e.is_nan() => g.is_nan() && e.is_nan(),
        _ => got == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_can_fail() {
        let f = Host::Float;
        assert!(close::<f32>("x", &[1.0, 2.0], &[f(1.0), f(2.0 + 1e-7)], 1.0, 0.0).is_ok());
        assert!(close::<f32>("x", &[1.0, 2.0], &[f(1.0), f(2.0 + 1e-6)], 1.0, 0.0).is_err());
        assert!(close::<f32>("x", &[f32::NAN], &[f(f64::NAN)], 1.0, 0.0).is_ok());
        assert!(close::<f32>("x", &[f32::NAN], &[f(0.0)], 1.0, 0.0).is_err());
        assert!(close::<f32>("x", &[f32::INFINITY], &[f(1.0)], 1.0, 0.0).is_err());
        assert!(close::<i32>("x", &[3], &[Host::Int(4)], 9.0, 9.0).is_err());
        assert!(same("x", &[1, 2], &[1, 3]).is_err() && same("x", &[1], &[1, 3]).is_err());
    }
}

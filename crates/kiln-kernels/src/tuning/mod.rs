//! Choosing by measurement: where a kernel can divide its work in several ways, an estimate
//! chooses, unless a [`Tuning`] allows time to try the most promising ones.
//!
//! | file | holds |
//! |---|---|
//! | `agreement.rs` | whether two ways come to the same result |

mod agreement;

use agreement::{agree, poison};
use kiln_runtime::{Device, DynTensor, Event, Result};
use std::time::Duration;
use web_time::Instant;

/// How much time a call may take to find out which of several ways of doing it is the fastest.
///
/// Without a tuning, which is the default, the way follows from shapes, element types and the
/// device alone, and nothing is measured or read from disk.
///
/// With a budget, the first call of a *class* tries the ways that the estimate thinks best, on the
/// call's own arguments but into memory of its own, and keeps the fastest whose result agrees with
/// that of the estimate's choice. Later calls of the class, in this process and in others, take
/// that one. A class is what is computed, of which element types, laid out which way, and each
/// extent rounded up to a power of two or to a quarter, a half or three quarters of the way to the
/// next. A choice is kept beside the compiled programs (`kiln cache choices` prints them,
/// `kiln cache clear` forgets them), for the device's name, its driver and this version of Kiln;
/// where the disk does not take it, for this process. Two processes that measure the same at once
/// keep one of their two answers.
///
/// One choice gives the same bits in every run, but two choices may add in different orders:
/// results can change when a choice is made or forgotten, and only then.
///
/// ```
/// use kiln_kernels::{Matmul, Tuning};
/// use std::time::Duration;
///
/// let device = kiln_runtime::Device::open("cpu")?;
/// let (a, b) = (device.tensor(&[2.0f32; 300 * 70], [300, 70])?, device.tensor(&[0.5f32; 70 * 90], [70, 90])?);
/// let mut c = device.uninit::<f32, 2>([300, 90])?;
/// Matmul::new(&a, &b).tuning(Tuning::budget(Duration::from_millis(100))).run(&mut c)?;
/// assert!(c.to_vec()?.iter().all(|&x| x == 70.0));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning(Option<Duration>);

impl Tuning {
    /// No choice is measured, and none that was measured is used.
    pub const OFF: Tuning = Tuning(None);

    /// Choices that were kept are used, but none is made.
    pub const KEPT: Tuning = Tuning(Some(Duration::ZERO));

    /// A choice is made if there is none: for so long, after which no further way is begun. One
    /// way, with its compilation, is always finished, and so is the estimate's choice.
    pub const fn budget(time: Duration) -> Tuning {
        Tuning(Some(time))
    }

    /// Whether choices are looked up at all.
    pub(crate) fn is_off(self) -> bool {
        self == Tuning::OFF
    }
}

/// Ways that are tried at most.
pub(crate) const MOST: usize = 8;
/// Timed calls of each; the least counts, for what disturbs a call makes it longer.
const ROUNDS: usize = 5;
/// What the estimate's choice must be beaten by, so that noise does not decide between equals.
const GAIN: f32 = 0.98;

/// A way to compute something, with a name that identifies it among the others of its class.
#[derive(Clone, Debug)]
pub(crate) struct Way<W> {
    pub(crate) name: String,
    pub(crate) way: W,
}

/// An extent as classes have it.
pub(crate) fn class(extent: usize) -> usize {
    if extent <= 16 {
        return extent;
    }
    extent.next_multiple_of(1 << ((extent - 1).ilog2() - 2))
}

/// What is to be chosen.
pub(crate) struct Choosing<'a> {
    pub(crate) device: &'a Device,
    pub(crate) tuning: Tuning,
    /// What is computed, of which types, laid out which way, in which class.
    pub(crate) question: &'a str,
}

impl Choosing<'_> {
    /// The way to take, unless it is the estimate's: the one that was kept for the question, as
    /// `named` finds it by its name, else the fastest of `ways` within the budget. The first of
    /// those is the estimate's. Results have rank 3.
    ///
    /// # Errors
    /// Those of work that was enqueued before, which are reported when it is waited for. What goes
    /// wrong in a trial only ends it.
    pub(crate) fn choose<W: Copy>(
        &self,
        named: &dyn Fn(&str) -> Option<W>,
        ways: &dyn Fn() -> Vec<Way<W>>,
        result: &dyn Fn() -> Result<DynTensor>,
        run: &dyn Fn(W, &mut DynTensor) -> Result<()>,
    ) -> Result<Option<W>> {
        let Choosing { device, tuning: Tuning(Some(budget)), question } = *self else { return Ok(None) };
        if let Some(name) = device.choice(question) {
            return Ok(named(&name));
        }
        // Nothing can be timed of a graph that is captured.
        if budget.is_zero() || device.is_capturing() {
            return Ok(None);
        }
        let ways = ways();
        if ways.len() < 2 {
            return Ok(None);
        }
        let _measuring = device.measuring();
        // Another thread may have measured while this one waited.
        if let Some(name) = device.choice(question) {
            return Ok(named(&name));
        }
        device.synchronize()?;
        let trial = Trial { device, ends: Instant::now() + budget, result, run };
        let Some(fastest) = trial.fastest(&ways).ok().flatten() else { return Ok(None) };
        device.keep_choice(question, &fastest.name);
        Ok(Some(fastest.way))
    }
}

/// Trying ways `W` of computing tensors of rank 3.
struct Trial<'a, W> {
    device: &'a Device,
    ends: Instant,
    result: &'a dyn Fn() -> Result<DynTensor>,
    run: &'a dyn Fn(W, &mut DynTensor) -> Result<()>,
}

impl<W: Copy> Trial<'_, W> {
    /// The fastest way, if there was time for more than the first.
    fn fastest<'w>(&self, ways: &'w [Way<W>]) -> Result<Option<&'w Way<W>>> {
        let Some((first, others)) = ways.split_first() else { return Ok(None) };
        let (mut expected, mut other) = ((self.result)()?, (self.result)()?);
        self.once(first.way, &mut expected)?;
        let mut least = self.time(first.way, &mut expected)?;
        let (mut fastest, mut tried) = (None, false);
        for way in others {
            if Instant::now() >= self.ends {
                break;
            }
            tried = true;
            // A way that the device refuses, or that fails, is none.
            let Ok(true) = self.once(way.way, &mut other).and_then(|()| agree(&expected, &other)) else {
                continue;
            };
            let Ok(time) = self.time(way.way, &mut other) else { continue };
            if fastest.as_ref().is_none_or(|(_, best)| time < *best) {
                fastest = Some((way, time));
            }
        }
        if !tried {
            return Ok(None);
        }
        // Once more, for clocks may have changed since.
        least = least.min(self.time(first.way, &mut expected)?);
        Ok(Some(fastest.filter(|(_, time)| *time < GAIN * least).map_or(first, |(way, _)| way)))
    }

    /// Runs a way for the first time: what it leaves out is seen.
    fn once(&self, way: W, to: &mut DynTensor) -> Result<()> {
        poison(to)?;
        (self.run)(way, to)?;
        self.device.synchronize()
    }

    /// The least time of a call, in milliseconds. All are enqueued before the first wait, so that
    /// the device does not wait for the host.
    fn time(&self, way: W, to: &mut DynTensor) -> Result<f32> {
        let mut events = Vec::with_capacity(ROUNDS + 1);
        events.push(Event::now(self.device)?);
        for _ in 0..ROUNDS {
            (self.run)(way, to)?;
            events.push(Event::now(self.device)?);
        }
        self.device.synchronize()?;
        let mut times = events.windows(2).map(|pair| pair[1].milliseconds_since(&pair[0]));
        times.try_fold(f32::INFINITY, |least, time| Ok(least.min(time?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_quarters_of_octaves() {
        for (extent, expected) in [
            (0, 0),
            (1, 1),
            (16, 16),
            (17, 20),
            (20, 20),
            (21, 24),
            (32, 32),
            (33, 40),
            (4096, 4096),
            (4097, 5120),
        ] {
            assert_eq!(class(extent), expected, "{extent}");
        }
        for extent in 17..5000 {
            let rounded = class(extent);
            assert!(rounded >= extent && rounded < extent + extent.div_ceil(4) && class(rounded) == rounded);
        }
    }
}

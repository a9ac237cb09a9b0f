//! Choosing by measurement: where a kernel can divide its work in several ways, an estimate
//! chooses, unless a [`Tuning`] allows time to try the most promising ones.
//!
//! | file | holds |
//! |---|---|
//! | `agreement.rs` | whether two ways come to the same result |

mod agreement;

use agreement::{agree, poison};
pub(crate) use kiln_runtime::tune::extent_class as class;
use kiln_runtime::tune::{self, Contenders};
use kiln_runtime::{Device, DynTensor, Result};
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

/// A way to compute something, with a name that identifies it among the others of its class.
#[derive(Clone, Debug)]
pub(crate) struct Way<W> {
    pub(crate) name: String,
    pub(crate) way: W,
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
        // Within another measurement the estimate will do.
        let Some(_measuring) = device.measuring() else { return Ok(None) };
        // Another thread may have measured while this one waited.
        if let Some(name) = device.choice(question) {
            return Ok(named(&name));
        }
        device.synchronize()?;
        let ends = Instant::now().checked_add(budget);
        let Some(fastest) = fastest_of(device, &ways, ends, result, run).ok().flatten() else {
            return Ok(None);
        };
        device.keep_choice(question, &fastest.name);
        Ok(Some(fastest.way))
    }
}

/// The fastest way, if there was time for more than the first.
fn fastest_of<'w, W: Copy>(
    device: &Device,
    ways: &'w [Way<W>],
    ends: Option<Instant>,
    result: &dyn Fn() -> Result<DynTensor>,
    run: &dyn Fn(W, &mut DynTensor) -> Result<()>,
) -> Result<Option<&'w Way<W>>> {
    let (expected, other) = (result()?, result()?);
    let mut trials = Trials { device, ways, run, expected, is_computed: false, other };
    let outcomes = tune::measure(device, ends, ways.len(), &mut trials);
    let several = trials.is_computed && tune::have_several(&outcomes);
    Ok(tune::fastest(&outcomes).filter(|_| several).map(|fastest| &ways[fastest]))
}

/// Ways of computing tensors of rank 3, the first of which says what the others must come to.
struct Trials<'a, W> {
    device: &'a Device,
    ways: &'a [Way<W>],
    run: &'a dyn Fn(W, &mut DynTensor) -> Result<()>,
    /// Of the first way.
    expected: DynTensor,
    /// Whether it is there.
    is_computed: bool,
    other: DynTensor,
}

impl<W: Copy> Contenders for Trials<'_, W> {
    fn first_run(&mut self, number: usize) -> Result<bool> {
        // Nothing can be compared with a result that is not there.
        if number > 0 && !self.is_computed {
            return Ok(false);
        }
        // What it leaves out is seen.
        poison(if number == 0 { &mut self.expected } else { &mut self.other })?;
        self.run(number)?;
        self.device.synchronize()?;
        if number == 0 {
            self.is_computed = true;
            return Ok(true);
        }
        agree(&self.expected, &self.other)
    }

    fn prepare(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, number: usize) -> Result<()> {
        let to = if number == 0 { &mut self.expected } else { &mut self.other };
        (self.run)(self.ways[number].way, to)
    }
}

//! Choosing among configurations of kernels by measurement: see [`Tune`].
//!
//! | file | holds |
//! |---|---|
//! | `space.rs` | the configurations |
//! | `choose.rs` | known, kept on disk, or measured |
//! | `measure.rs` | trying and timing; for the kernel library too |
//! | `snapshot.rs` | what the memory that trials write held before |

mod choose;
mod measure;
mod snapshot;
mod space;

pub use measure::Outcome;
#[doc(hidden)]
pub use measure::{Contenders, fastest, have_several, measure};
pub use space::{Space, extent_class};

use crate::activity::CallSite;
use crate::device::Device;
use crate::error::{Error, Result};
use choose::{Call, Check, Choice};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::time::Duration;

/// Chooses among configurations of a kernel, its host constants and settings of the launch, by
/// measuring them.
///
/// The first call with a key tries the configurations on the call's own arguments, then launches
/// the fastest. Later calls with the key launch that one, in this process and in others.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Tensor, Tune, tune::extent_class};
///
/// #[kernel(crate = kiln_runtime)]
/// fn double(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
///     let at = program_id(0) * block;
///     y.tile(at, block).store(x.tile(at, block).load(0.0) * 2.0);
/// }
///
/// let device = Device::open("cpu")?;
/// let x = device.tensor(&[1.5f32; 1000], [1000])?;
/// let mut y = device.uninit([1000])?;
///
/// // Every block with every number of warps, but for those with less than an element a thread.
/// let tune = Tune::new("double", ([64, 256, 1024], [1, 4]))
///     .prune(|&(block, warps)| block < 32 * warps);
/// let chosen = tune.run(&device, extent_class(1000), |&(block, warps)| {
///     double(&x, &mut y, block).warps(warps as u32).launch(&device)
/// })?;
/// assert_eq!(y.to_vec()?, [3.0; 1000]);
/// println!("{chosen}"); // the configuration, and what each took
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// # What a trial is
///
/// The closure is recorded as a [`Graph`](crate::Graph) for each configuration, so it may launch,
/// copy and fill, but not read a tensor. One that does not compile, exceeds a limit of the device,
/// faults, or whose result the [check](Self::run_checked) refuses, is dropped: it fails no call.
/// [`Tuned::trials`] names it with the reason. The first run of each is not timed, then the least
/// of 5 counts, or of 25 short ones, by the device's clock. The first configuration that works is
/// taken unless another is at least 2 % faster.
///
/// Before every run of a trial the tensors that it writes are set back to what they held (or, where
/// nothing had written them, filled with bytes of 255), and once more before the launch of the
/// chosen one. So kernels that work in place or accumulate are safe to tune. This takes as much
/// memory again as those tensors have.
///
/// # What a choice belongs to
///
/// The key, the name, the list of configurations and the kernels that the first of them launches,
/// with what they are specialized to; on disk also Kiln's version, the device, its driver and
/// compiler. In one process the place of [`Tune::new`] stands for the kernels, so that a later call
/// costs a look at a map. Choices are kept beside the compiled programs: `kiln cache choices`
/// prints them, an empty `KILN_CACHE_DIR` keeps them in this process alone, and a damaged file is
/// measured anew. Processes that measure the same at once keep one of their answers.
///
/// # Where nothing is measured
///
/// On the interpreter, in a browser, and while this thread captures a graph or is in the check of
/// another `Tune`, the first configuration that can be launched is taken, the same one each time.
/// A choice that this process has made already holds in a capture too.
#[derive(Debug, Clone)]
pub struct Tune<C> {
    name: String,
    configs: Vec<C>,
    /// Those of the configurations.
    names: Vec<String>,
    /// What a process knows it by: the place, the name, and a hash of the list.
    identity: String,
    budget: Option<Duration>,
    site: CallSite,
}

impl<C: Clone + fmt::Debug> Tune<C> {
    /// A choice among the configurations of a [`Space`]: an array, a `Vec`, or a tuple of those for
    /// all combinations. `Debug` must tell them apart.
    ///
    /// ```
    /// use kiln_runtime::Tune;
    ///
    /// #[derive(Clone, Copy, Debug)]
    /// struct Config { rows: usize, columns: usize }
    ///
    /// let configs = vec![Config { rows: 4, columns: 64 }, Config { rows: 1, columns: 256 }];
    /// let tune = Tune::new("sums", configs);
    /// assert_eq!(tune.configs().len(), 2);
    /// ```
    #[track_caller]
    pub fn new<S: Space<Config = C>>(name: impl Into<String>, space: S) -> Tune<C> {
        Tune::with((name.into(), Location::caller()), space.configs(), None)
    }

    fn with((name, site): (String, CallSite), configs: Vec<C>, budget: Option<Duration>) -> Tune<C> {
        let names: Vec<String> = configs.iter().map(|config| format!("{config:?}")).collect();
        let mut list = DefaultHasher::new();
        names.hash(&mut list);
        let identity = format!("{site}\n{name}\n{:x}", list.finish());
        Tune { name, configs, names, identity, budget, site }
    }

    /// Leaves out the configurations for which this is true.
    ///
    /// ```
    /// use kiln_runtime::Tune;
    /// let tune = Tune::new("sums", ([1, 2, 4], [64, 128]))
    ///     .prune(|&(rows, columns)| rows * columns > 256);
    /// assert_eq!(tune.configs(), [(1, 64), (1, 128), (2, 64), (2, 128), (4, 64)]);
    /// ```
    pub fn prune(mut self, mut is_hopeless: impl FnMut(&C) -> bool) -> Tune<C> {
        self.configs.retain(|config| !is_hopeless(config));
        Tune::with((self.name, self.site), self.configs, self.budget)
    }

    /// Begins no further trial after so long, once one configuration works. Without a budget all
    /// are tried. A trial with its compilation is always finished. Zero measures nothing: then a
    /// choice that was kept is used, else the first configuration that can be launched.
    ///
    /// ```
    /// use kiln_runtime::Tune;
    /// use std::time::Duration;
    /// let tune = Tune::new("sums", [64, 128, 256]).budget(Duration::from_millis(500));
    /// # assert_eq!(tune.configs(), [64, 128, 256]);
    /// ```
    pub fn budget(mut self, time: Duration) -> Tune<C> {
        self.budget = Some(time);
        self
    }

    /// The configurations that are left.
    ///
    /// ```
    /// assert_eq!(kiln_runtime::Tune::new("sums", ([1, 2], [64])).configs(), [(1, 64), (2, 64)]);
    /// ```
    pub fn configs(&self) -> &[C] {
        &self.configs
    }

    /// Launches the configuration for a key, after choosing it if there is no choice yet.
    ///
    /// The key says what the fastest configuration depends on beside the kernel's code: shapes,
    /// most often rounded by [`extent_class`], in any type with `Debug`. A configuration that is
    /// right for one call of a key must be right for all of them: later calls are not checked.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor, Tune};
    ///
    /// /// In place.
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(x: &mut Tensor<i32, 1>, block: usize) {
    ///     let tile = x.tile(program_id(0) * block, block);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("cpu")?;
    /// let mut x = device.zeros([100])?;
    /// let tune = Tune::new("increment", [16, 64]);
    /// for _ in 0..3 {
    ///     tune.run(&device, "short", |&block| increment(&mut x, block).launch(&device))?;
    /// }
    /// assert_eq!(x.to_vec()?, [3; 100]); // trials left nothing behind
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoCandidate`] if no configuration works, with what is wrong with each, or their
    /// error if it is the same for all; [`Error::Capture`] with its line if the closure reads a
    /// tensor or waits; those of work that was enqueued before, which are reported when it is
    /// waited for.
    pub fn run(
        &self,
        device: &Device,
        key: impl fmt::Debug,
        mut launch: impl FnMut(&C) -> Result<()>,
    ) -> Result<Tuned<C>> {
        self.call((device, &format!("{key:?}")), &mut |config| launch(config), None)
    }

    /// [`run`](Self::run) with a check of results: of a trial's first run, to be read through
    /// [`alias`](crate::Tensor::alias) since the launch borrows its tensors. It is called for
    /// trials alone.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor, Tune};
    ///
    /// /// Right where the block divides the rows.
    /// #[kernel(crate = kiln_runtime)]
    /// fn sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, block: usize) {
    ///     let row = program_id(0);
    ///     y.tile(row, 1).store(x.row(row).load(block, 0.0).sum().reshape(1));
    /// }
    ///
    /// let device = Device::open("cpu")?;
    /// let x = device.tensor(&[1.0f32; 300], [3, 100])?;
    /// let mut y = device.uninit([3])?;
    /// let result = y.alias();
    /// let chosen = Tune::new("sums", [32, 128]).run_checked(
    ///     &device,
    ///     [3, 100],
    ///     |&block| sums(&x, &mut y, block).launch(&device),
    ///     || Ok(result.to_vec()? == [100.0; 3]),
    /// )?;
    /// assert_eq!(*chosen.config(), 128); // 32 leaves out most of a row
    /// assert_eq!(y.to_vec()?, [100.0; 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`run`](Self::run). An error of the check drops the configuration.
    pub fn run_checked(
        &self,
        device: &Device,
        key: impl fmt::Debug,
        mut launch: impl FnMut(&C) -> Result<()>,
        mut check: impl FnMut() -> Result<bool>,
    ) -> Result<Tuned<C>> {
        self.call((device, &format!("{key:?}")), &mut |config| launch(config), Some(&mut check))
    }

    fn call(
        &self,
        (device, key): (&Device, &str),
        launch: &mut dyn FnMut(&C) -> Result<()>,
        check: Check<'_>,
    ) -> Result<Tuned<C>> {
        let Tune { name, configs, names, identity, budget, site } = self;
        if configs.is_empty() {
            let problems = vec!["the list of configurations is empty".to_owned()];
            return Err(Error::NoCandidate { tune: name.clone(), problems });
        }
        let call = Call { device, name, identity, key, names, budget: *budget, site };
        let Choice { candidate, outcomes, .. } =
            call.run(&mut |candidate| launch(&configs[candidate]), check)?;
        let trials = configs.iter().zip(outcomes);
        let trials = trials.map(|(config, outcome)| Trial { config: config.clone(), outcome }).collect();
        Ok(Tuned { config: configs[candidate].clone(), trials })
    }
}

/// A configuration that was tried.
///
/// ```
/// use kiln_runtime::tune::{Outcome, Trial};
/// let trial = Trial { config: (64, 2), outcome: Outcome::Wrong };
/// assert_eq!(trial.to_string(), "(64, 2): the check refused its result");
/// ```
#[derive(Debug, Clone)]
pub struct Trial<C> {
    /// The configuration.
    pub config: C,
    /// What became of it.
    pub outcome: Outcome,
}

impl<C: fmt::Debug> fmt::Display for Trial<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.config, self.outcome)
    }
}

/// What a call of [`Tune::run`] has launched.
///
/// ```
/// # use kiln_lang::prelude::*;
/// # use kiln_runtime::{Device, Tensor, Tune};
/// # #[kernel(crate = kiln_runtime)]
/// # fn fill(x: &mut Tensor<i32, 1>, block: usize) {
/// #     x.tile(program_id(0) * block, block).store(full(block, 7));
/// # }
/// let device = Device::open("cpu")?;
/// let mut x = device.uninit([100])?;
/// let tune = Tune::new("fill", [32, 64]);
/// let chosen = tune.run(&device, 100, |&n| fill(&mut x, n).launch(&device))?;
/// assert!([32, 64].contains(chosen.config()));
/// for trial in chosen.trials() {
///     println!("{trial}"); // "32: 1.2µs"
/// }
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tuned<C> {
    config: C,
    trials: Vec<Trial<C>>,
}

impl<C> Tuned<C> {
    /// The configuration.
    pub fn config(&self) -> &C {
        &self.config
    }

    /// What became of each configuration, if this call measured them: otherwise nothing.
    pub fn trials(&self) -> &[Trial<C>] {
        &self.trials
    }
}

/// The configuration, and a line for each trial.
impl<C: fmt::Debug> fmt::Display for Tuned<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.config)?;
        self.trials.iter().try_for_each(|trial| write!(f, "\n  {trial}"))
    }
}

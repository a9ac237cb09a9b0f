//! What becomes of arrays whose kernel ended with a fault.
//!
//! A fault is found by a wait, long after the launch, and is told once. So a run whose kernels can
//! fault is remembered with its results until a wait has told that all is well, and so is a run
//! that reads results of such a run. When a wait finds a fault, the results of all remembered runs
//! hold the error from then on: a device tells the first fault only, so any of them may have had
//! one. Results that depend on no kernel that can fault do not.
//!
//! Several threads may wait. A wait tells nothing of a run that is not launched yet; and since one
//! of several waits is told of a fault, a thread waits alone until it has given the error to whose
//! it is. A wait of another part of the program may be told as well: what the device has told since
//! a run began is looked up when the run is over.
//!
//! On the host's processors a run is over when its launches return. There each such run is waited
//! for at once, one at a time, and the fault is its own.

use crate::emit::OUTSIDE;
use crate::error::{Error, Result, Site};
use crate::node::{Array, WeakArray};
use crate::plan::structure::Structure;
use crate::schedule::Schedule;
use kiln_runtime::{Device, FaultKind};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The runs of a device of which it is not known yet whether they had a fault.
#[derive(Default)]
pub(crate) struct Suspects {
    /// Their number, for those who need not look further.
    count: AtomicUsize,
    /// The last run of which it is known.
    settled: AtomicU64,
    runs: Mutex<Runs>,
    /// Held from a wait until what it told is known to all.
    waits: Mutex<()>,
}

#[derive(Default)]
struct Runs {
    open: Vec<Suspect>,
    /// The number of the last one that was added.
    last: u64,
}

impl Runs {
    /// The runs that a wait is for.
    fn launched(&self) -> Vec<u64> {
        self.open.iter().filter(|run| run.is_launched).map(|run| run.number).collect()
    }

    /// The last run of which it is known, and of all before it.
    fn settled(&self) -> u64 {
        self.open.iter().map(|run| run.number - 1).min().unwrap_or(self.last)
    }
}

/// A run that may have had a fault.
#[derive(Clone)]
struct Suspect {
    /// Tells it from all others of the device; later runs have larger numbers.
    number: u64,
    /// Whether all its kernels are, so that a wait that begins now is for them too.
    is_launched: bool,
    /// How many faults the device had told when it began.
    told: u64,
    results: Arc<[WeakArray]>,
    checks: Arc<[Checked]>,
    /// The line of a kernel of the program's own, if there is one.
    custom: Option<Site>,
}

/// A check that a kernel makes.
struct Checked {
    /// The array, by its number in the run.
    number: usize,
    op: &'static str,
    extent: usize,
    site: Site,
}

/// One run at a time whose kernels can fault, on the host's processors.
static ON_HOST: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread is in such a run: a kernel of the program's own may compute arrays.
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };

    /// Whether this thread waits alone: what prints meanwhile may read arrays.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// A run that is watched, from before its first launch until after its last: when this is dropped,
/// its fault has been looked for if that can be.
pub(crate) struct Watch {
    /// The devices of the run, with its number on each.
    runs: Vec<(Device, u64)>,
    alone: Option<MutexGuard<'static, ()>>,
}

impl Watch {
    /// Remembers a run that can fault, or that reads what may have had a fault; `None` of others.
    ///
    /// # Errors
    /// On the host's processors, a fault of kernels before it.
    pub(crate) fn begin(of: &Structure, schedule: &Schedule) -> Result<Option<Watch>> {
        let can_fault = schedule.can_fault();
        let is_free = |device: &&Device| !device.is_capturing();
        let is_reader = of.devices().iter().any(|device| reads(of, device));
        let is_watched = can_fault || is_reader;
        let devices = of.devices().iter().filter(is_free).filter(|_| is_watched);
        let devices: Vec<Device> = devices.cloned().collect();
        if devices.is_empty() {
            return Ok(None);
        }
        let is_alone = can_fault && devices.iter().any(on_host) && !IS_WATCHED.get();
        let alone = is_alone.then(|| ON_HOST.lock().unwrap_or_else(PoisonError::into_inner));
        if is_alone {
            for device in devices.iter().filter(|device| on_host(device)) {
                let site = of.targets.first().map(|&target| of.arrays[target].site());
                device.synchronize().map_err(|error| match site {
                    Some(site) => Error::run(error, site),
                    None => error.into(),
                })?;
            }
            IS_WATCHED.set(true);
        }
        // All results, where what the run reads is in doubt.
        let doubtful = if is_reader { &of.targets } else { &schedule.doubtful };
        let suspect = Suspect::new(of, schedule, doubtful);
        let added = devices.into_iter().map(|device| {
            let number = device.attached::<Suspects>().add(&device, suspect.clone());
            (device, number)
        });
        Ok(Some(Watch { runs: added.collect(), alone }))
    }
}

/// All of the run is launched. On the host's processors it is over, and its fault is found.
impl Drop for Watch {
    fn drop(&mut self) {
        for (device, run) in &self.runs {
            device.attached::<Suspects>().launched(*run);
        }
        if self.alone.is_none() {
            return;
        }
        IS_WATCHED.set(false);
        for (device, run) in self.runs.iter().filter(|(device, _)| on_host(device)) {
            let suspects = device.attached::<Suspects>();
            match device.synchronize() {
                Ok(()) => suspects.clear(device, |number| number == *run),
                Err(error) => suspects.blame_all(&error),
            }
        }
    }
}

/// A wait of one thread alone. On the host's processors each run is waited for by itself.
struct Alone<'a>(Option<MutexGuard<'a, ()>>);

impl Alone<'_> {
    fn among<'a>(waits: &'a Mutex<()>, device: &Device) -> Alone<'a> {
        let is_needed = !on_host(device) && !IS_WAITING.get();
        let alone = is_needed.then(|| waits.lock().unwrap_or_else(PoisonError::into_inner));
        IS_WAITING.set(IS_WAITING.get() || alone.is_some());
        Alone(alone)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if self.0.is_some() {
            IS_WAITING.set(false);
        }
    }
}

fn on_host(device: &Device) -> bool {
    device.capabilities().on_host
}

/// Whether a run reads results of runs that may have had a fault.
fn reads(of: &Structure, device: &Device) -> bool {
    if on_host(device) {
        return false;
    }
    let suspects = device.attached::<Suspects>();
    let settled = suspects.settled.load(SeqCst);
    let in_doubt = |array: &Array| array.doubt() > settled && array.device() == Some(device);
    let inputs = of.arrays.iter().zip(&of.tensors).filter(|(_, tensor)| tensor.is_some());
    suspects.count.load(SeqCst) > 0 && inputs.into_iter().any(|(array, _)| in_doubt(array))
}

impl Suspect {
    fn new(of: &Structure, schedule: &Schedule, doubtful: &[usize]) -> Suspect {
        let checked = |check: &crate::schedule::Check| {
            let array = &of.arrays[check.array];
            Checked { number: check.array, op: array.caller(), extent: check.extent, site: array.site() }
        };
        Suspect {
            number: 0,
            is_launched: false,
            told: 0,
            results: doubtful.iter().map(|&array| of.arrays[array].downgrade()).collect(),
            checks: schedule.checks.iter().map(checked).collect(),
            custom: schedule.custom.first().map(|&array| of.arrays[array].site()),
        }
    }
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run, and gives it a number.
    fn add(&self, device: &Device, run: Suspect) -> u64 {
        let mut runs = self.lock();
        // Now and then, for what nobody has any more needs no error.
        if runs.open.len().is_power_of_two() {
            runs.open.retain(|run| run.results.iter().any(WeakArray::is_there));
        }
        runs.last += 1;
        let number = runs.last;
        let told = device.last_fault().map_or(0, |(count, _)| count);
        let results = run.results.iter().filter_map(WeakArray::upgrade);
        results.filter(|of| of.device() == Some(device)).for_each(|of| of.set_doubt(number));
        runs.open.push(Suspect { number, told, ..run });
        self.count.store(runs.open.len(), SeqCst);
        number
    }

    fn launched(&self, number: u64) {
        let mut runs = self.lock();
        runs.open.iter_mut().filter(|run| run.number == number).for_each(|run| run.is_launched = true);
    }

    /// Forgets runs that are over: without a fault, or with one that another wait was told of.
    fn clear(&self, device: &Device, is_over: impl Fn(u64) -> bool) {
        let told = device.last_fault();
        let over: Vec<Suspect> = {
            let mut runs = self.lock();
            let all = std::mem::take(&mut runs.open).into_iter();
            let (over, open) = all.partition(|run| is_over(run.number));
            runs.open = open;
            over
        };
        if let Some((count, error)) = told {
            let since: Vec<Suspect> = over.into_iter().filter(|run| run.told < count).collect();
            if !on_host(device) || may_be_of(&since, &error) {
                blame(&since, &error);
            }
        }
        self.count.store(self.lock().open.len(), SeqCst);
    }

    /// Waits for the runs that may have had a fault, if there are some, and gives their results its
    /// error.
    ///
    /// # Errors
    /// A fault of other kernels.
    pub(crate) fn settle(&self, device: &Device) -> kiln_runtime::Result<()> {
        if self.count.load(SeqCst) == 0 || device.is_capturing() || IS_WATCHED.get() {
            return Ok(());
        }
        let told = self.told(device, || {
            let waited_for = self.lock().launched();
            device.synchronize()?;
            self.clear(device, |number| waited_for.contains(&number));
            self.settled.fetch_max(self.lock().settled(), SeqCst);
            Ok(())
        });
        told.map(drop)
    }

    /// Waits for a device's work, alone. `None`: it ended with a fault of runs that are remembered,
    /// whose results have the error now.
    ///
    /// # Errors
    /// Others, and a fault of other kernels.
    fn told<R>(
        &self,
        device: &Device,
        wait: impl FnOnce() -> kiln_runtime::Result<R>,
    ) -> kiln_runtime::Result<Option<R>> {
        let _alone = Alone::among(&self.waits, device);
        match wait() {
            Err(error) if self.blame(device, &error) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Gives the results of runs that may have had a fault the error of one that was found. Whether
    /// it was theirs.
    fn blame(&self, device: &Device, error: &kiln_runtime::Error) -> bool {
        let is_theirs = self.count.load(SeqCst) > 0 && may_be_of(&self.lock().open, error);
        // Of a GPU's faults the first is told: after another kernel's there may have been one of
        // theirs.
        if is_theirs || !on_host(device) {
            self.blame_all(error);
        }
        is_theirs
    }

    fn blame_all(&self, error: &kiln_runtime::Error) {
        let (runs, last) = {
            let mut runs = self.lock();
            (std::mem::take(&mut runs.open), runs.last)
        };
        blame(&runs, error);
        // Last: who finds that no run is in doubt asks no further.
        self.settled.fetch_max(last, SeqCst);
        self.count.store(self.lock().open.len(), SeqCst);
    }
}

/// Whether a fault may be one of these runs, and not of other kernels.
fn may_be_of(runs: &[Suspect], error: &kiln_runtime::Error) -> bool {
    number_of(error).is_some() || error.fault().is_some() && runs.iter().any(|run| run.custom.is_some())
}

/// Gives the results of runs the error of a fault.
fn blame(runs: &[Suspect], error: &kiln_runtime::Error) {
    let found = number_of(error);
    let made = |run: &Suspect| {
        let check = run.checks.iter().find(|check| Some(check.number) == found);
        check.map(|&Checked { op, extent, site, .. }| Error::Index { op, extent, location: site })
    };
    let first = runs.iter().find_map(made);
    for run in runs {
        // Of several runs that have such a check, each may be the one.
        let index = made(run).or_else(|| first.clone());
        for array in run.results.iter().filter_map(WeakArray::upgrade) {
            let of_run = || Error::run(error.clone(), run.custom.unwrap_or_else(|| array.site()));
            array.fail(index.clone().unwrap_or_else(of_run));
        }
    }
}

/// The number of the array whose index a fault is about.
fn number_of(error: &kiln_runtime::Error) -> Option<usize> {
    let FaultKind::Assert { message } = &error.fault()?.kind else { return None };
    message.strip_prefix(OUTSIDE)?.parse().ok()
}

impl Array {
    /// Waits for the runs that may have had a fault, so that the array has the error if it was made
    /// by one.
    ///
    /// # Errors
    /// The array's error; a fault of other kernels.
    pub(crate) fn settle(&self, site: Site) -> Result<()> {
        if let Some(device) = self.device() {
            device.attached::<Suspects>().settle(device).map_err(|error| Error::run(error, site))?;
        }
        self.error().map_or(Ok(()), Err)
    }

    /// Reads the elements, once it is known that no kernel that made them had a fault.
    ///
    /// # Errors
    /// The array's error, those of launches and of the read.
    pub(crate) fn read<R>(
        &self,
        site: Site,
        read: impl Fn(&kiln_runtime::DynTensor) -> kiln_runtime::Result<R>,
    ) -> Result<R> {
        loop {
            let tensor = self.tensor()?;
            self.settle(site)?;
            let done = match self.device() {
                Some(device) => device.attached::<Suspects>().told(device, || read(&tensor)),
                None => read(&tensor).map(Some),
            };
            // Where another thread's run had a fault, which was not over when this read began, once
            // more.
            if let Some(done) = done.map_err(|error| Error::run(error, site))? {
                return Ok(done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(result: &Array) -> Suspect {
        let (results, checks) = (Arc::new([result.downgrade()]), Arc::new([]));
        Suspect { number: 0, is_launched: false, told: 0, results, checks, custom: None }
    }

    /// Another thread may wait between a run's beginning and its launches.
    #[test]
    fn a_wait_tells_nothing_of_a_run_that_is_not_launched() {
        let device = Device::open_apart("interp").unwrap();
        let suspects = Suspects::default();
        let results = [1, 2, 3].map(|of| Array::new(&device, &[of], &[1]));
        let [first, second, third] = results.each_ref().map(|of| suspects.add(&device, run(of)));
        suspects.launched(third);
        suspects.settle(&device).unwrap();
        let open = || suspects.lock().open.iter().map(|run| run.number).collect::<Vec<_>>();
        assert_eq!(open(), [first, second]);
        assert_eq!(suspects.settled.load(SeqCst), first - 1, "results of all are in doubt");
        suspects.launched(first);
        suspects.settle(&device).unwrap();
        assert_eq!((open(), suspects.settled.load(SeqCst)), (vec![second], first));
        suspects.launched(second);
        suspects.settle(&device).unwrap();
        assert_eq!((open(), suspects.settled.load(SeqCst)), (vec![], third));
    }
}

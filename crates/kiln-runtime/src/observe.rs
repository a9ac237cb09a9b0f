//! Observers of activities.

use crate::activity::Activity;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

/// A callback for activities of the runtime. A closure `Fn(&Activity)` is one.
///
/// It is called on the thread that made the call of the runtime, after the activity and when that
/// call holds no lock any more, so that it may use devices and tensors; what it does with them
/// itself is not observed. Several threads may call it at once.
///
/// An observer that panics is removed; the call that it observed goes on.
/// [`Observation::failure`] has the panic's message.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Activity, Device, Tensor};
/// use std::sync::mpsc;
///
/// #[kernel(crate = kiln_runtime)]
/// fn double(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
///     let at = program_id(0) * 4;
///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * 2.0);
/// }
///
/// let device = Device::open_apart("interp")?;
/// let (sender, activities) = mpsc::channel();
/// let observation = device.observe(move |activity: &Activity| {
///     sender.send(activity.clone()).ok();
/// });
/// let x = device.tensor(&[1.0, 2.0, 3.0], [3])?;
/// let mut y = device.uninit([3])?;
/// double(&x, &mut y).launch(&device)?;
/// assert_eq!(y.to_vec()?, [2.0, 4.0, 6.0]);
/// drop(observation); // the observer is removed
///
/// println!("{:<12} {:>12}  {:<30} call site", "activity", "host time", "what");
/// let mut kinds = Vec::new();
/// for activity in activities {
///     let (kind, what) = match &activity {
///         Activity::Compile(a) => ("compile", a.kernel.to_string()),
///         Activity::Launch(a) => ("launch", format!("{} on a grid of {:?}", a.kernel, a.grid)),
///         Activity::Copy(a) => ("copy", format!("{} bytes, {}", a.bytes, a.kind)),
///         Activity::Allocate(a) => ("allocate", format!("{} bytes", a.bytes)),
///         _ => continue,
///     };
///     println!("{kind:<12} {:>12?}  {what:<30} {}", activity.duration(), activity.call_site());
///     kinds.push(kind);
/// }
/// assert_eq!(kinds, ["allocate", "copy", "allocate", "compile", "launch", "copy"]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Observer: Send + Sync {
    /// Called once for each activity.
    fn observe(&self, activity: &Activity);

    /// Whether launches are to be timed on the device
    /// ([`LaunchActivity::timer`](crate::LaunchActivity::timer)), which costs two events each. It
    /// is asked once, when the observer is registered.
    ///
    /// ```
    /// use kiln_runtime::{Activity, Observer};
    /// struct Timed;
    /// impl Observer for Timed {
    ///     fn observe(&self, _: &Activity) {}
    ///     fn times_launches(&self) -> bool {
    ///         true
    ///     }
    /// }
    /// assert!(Timed.times_launches());
    /// assert!(!(|_: &Activity| {}).times_launches()); // those of a closure are not timed
    /// ```
    fn times_launches(&self) -> bool {
        false
    }
}

impl<F: Fn(&Activity) + Send + Sync> Observer for F {
    fn observe(&self, activity: &Activity) {
        self(activity);
    }
}

/// The number of observers, of whatever device. The hot path reads this alone.
static OBSERVERS: AtomicUsize = AtomicUsize::new(0);

/// Those of the whole process.
static PROCESS: LazyLock<Arc<Observers>> = LazyLock::new(Arc::default);

/// Whether there is an observer, of whatever device.
#[inline]
pub(crate) fn is_observed() -> bool {
    OBSERVERS.load(Relaxed) != 0
}

/// Registers an observer of every device of this process, those that are opened later among them.
///
/// ```
/// use kiln_runtime::{Activity, Device};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let bytes = Arc::new(AtomicUsize::new(0));
/// let sum = bytes.clone();
/// let observation = kiln_runtime::observe(move |activity: &Activity| {
///     if let Activity::Allocate(a) = activity {
///         sum.fetch_add(a.bytes, Relaxed);
///     }
/// });
/// for name in ["cpu", "interp"] {
///     Device::open(name)?.zeros::<f32, 1>([100])?;
/// }
/// drop(observation);
/// assert_eq!(bytes.load(Relaxed), 800);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn observe(observer: impl Observer + 'static) -> Observation {
    Observers::add(&PROCESS, Arc::new(observer))
}

/// A registered observer; dropping this removes it. A call of it that is under way on another
/// thread still ends after that.
///
/// ```
/// use kiln_runtime::{Activity, Device, Observation};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let device = Device::open_apart("interp")?;
/// let count = Arc::new(AtomicUsize::new(0));
/// let counted = count.clone();
/// let observation: Observation = device.observe(move |_: &Activity| _ = counted.fetch_add(1, Relaxed));
/// device.zeros::<f32, 1>([4])?;
/// drop(observation);
/// let before = count.load(Relaxed);
/// device.zeros::<f32, 1>([4])?; // nobody is notified
/// assert!(before > 0 && count.load(Relaxed) == before);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[must_use = "the observer is removed when this is dropped"]
pub struct Observation {
    observers: Arc<Observers>,
    entry: Arc<Entry>,
}

impl Observation {
    /// The message of the panic that has removed the observer, if one has.
    ///
    /// ```
    /// use kiln_runtime::{Activity, Device};
    /// let device = Device::open_apart("interp")?;
    /// let observation = device.observe(|_: &Activity| panic!("enough"));
    /// let x = device.tensor(&[1.0, 2.0], [2])?; // goes on
    /// assert_eq!(x.to_vec()?, [1.0, 2.0]);
    /// assert_eq!(observation.failure(), Some("enough"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn failure(&self) -> Option<&str> {
        self.entry.failure.get().map(String::as_str)
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.observers.remove(&self.entry);
    }
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").field("failure", &self.failure()).finish_non_exhaustive()
    }
}

struct Entry {
    observer: Arc<dyn Observer>,
    times_launches: bool,
    failure: OnceLock<String>,
}

/// The observers of a device, or of the process.
#[derive(Default)]
pub(crate) struct Observers(RwLock<Vec<Arc<Entry>>>);

impl Observers {
    pub(crate) fn add(observers: &Arc<Observers>, observer: Arc<dyn Observer>) -> Observation {
        let times_launches = observer.times_launches();
        let entry = Arc::new(Entry { observer, times_launches, failure: OnceLock::new() });
        observers.0.write().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
        OBSERVERS.fetch_add(1, Relaxed);
        Observation { observers: observers.clone(), entry }
    }

    /// Takes an observer out, if it is there still.
    fn remove(&self, entry: &Arc<Entry>) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = entries.iter().position(|e| Arc::ptr_eq(e, entry)) else { return };
        let gone = entries.remove(at);
        OBSERVERS.fetch_sub(1, Relaxed);
        // What it drops may take any lock.
        drop(entries);
        drop(gone);
    }

    fn all(&self) -> Vec<Arc<Entry>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether one of them, or of the process, requests timed launches.
    pub(crate) fn time_launches(&self) -> bool {
        let wants = |observers: &Observers| {
            let entries = observers.0.read().unwrap_or_else(PoisonError::into_inner);
            entries.iter().any(|entry| entry.times_launches)
        };
        wants(self) || wants(&PROCESS)
    }

    /// Notifies these observers and those of the process.
    pub(crate) fn deliver(&self, activity: &Activity) {
        self.notify(activity);
        PROCESS.notify(activity);
    }

    fn notify(&self, activity: &Activity) {
        for entry in self.all() {
            let called = catch_unwind(AssertUnwindSafe(|| entry.observer.observe(activity)));
            if let Err(panic) = called {
                // The first of several threads says why.
                let _ = entry.failure.set(message(&*panic));
                self.remove(&entry);
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

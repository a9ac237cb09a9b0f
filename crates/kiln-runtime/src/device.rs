//! Devices: finding them, opening them, and the state of one.

use crate::activity::CallSite;
use crate::attached::Attached;
use crate::backends;
use crate::cache::{Choices, DiskCache, Measuring, ProgramCache};
use crate::capture::state::{self, Mode};
use crate::error::{Error, Result};
use crate::isolate;
use crate::loaded::{Sources, load_or_compile};
use crate::observe::{Observation, Observer, Observers};
use crate::package::{self, Packages};
use crate::sanitize;
use crate::told::Told;
use kiln_backend::{Backend, Capabilities, CostModel, Program, Properties, StreamId, is_printing, on_thread};
use kiln_ir::Kernel;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A device: an NVIDIA GPU, a GPU through Vulkan, Metal or DX12, the host's processor, or the
/// interpreter. Cloning gives another handle to the same device.
///
/// Devices are opened once in a process: opening `cuda:0` twice gives the same one, with the same
/// caches.
///
/// ```
/// use kiln_runtime::Device;
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    programs: ProgramCache,
    choices: Choices,
    disk: DiskCache,
    packages: Packages,
    /// The name, for activities.
    id: Arc<str>,
    cost_model: Arc<CostModel>,
    observers: Arc<Observers>,
    attached: Attached,
    told: Told,
}

impl Device {
    /// The best device here: the one named by the environment variable `KILN_DEVICE`, else the
    /// first NVIDIA GPU; where there is no NVIDIA driver or it sees no GPU, the best GPU of the
    /// backend `wgpu`, and the CPU where there is none of those either. A build without the CPU's
    /// backend takes the interpreter. An adapter that is software on the processor, such as
    /// Mesa's, is taken by its name alone.
    ///
    /// ```
    /// let device = kiln_runtime::Device::default()?;
    /// println!("{}: {}", device.id(), device.properties().name);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] or [`kiln_backend::Error::Unavailable`] if `KILN_DEVICE` names a
    /// device that cannot be had. [`Error::DefaultDevice`] if the variable is not set and there is
    /// an NVIDIA driver or GPU that fails: a program that would run on the CPU instead is slow for
    /// no visible reason. `KILN_DEVICE=cpu` asks for that.
    // It can fail, and `Device::default()?` is what a user expects to write.
    #[allow(clippy::should_implement_trait)]
    pub fn default() -> Result<Device> {
        if let Some(name) = sanitize::substitute() {
            return Device::open(&name);
        }
        let wish = std::env::var("KILN_DEVICE").ok();
        let other = || {
            let host = || backends::hosts().next().unwrap_or("cuda:0").to_owned();
            backends::other_gpu().unwrap_or_else(host)
        };
        default_of(wish.as_deref(), backends::gpu_count, other, Device::open)
    }

    /// Opens a device by name.
    ///
    /// | Name | Device |
    /// |---|---|
    /// | `cuda`, `cuda:N` | an NVIDIA GPU |
    /// | `wgpu`, `wgpu:N` | the best adapter of Vulkan, Metal or DX12, or the one of a number |
    /// | `wgpu:vulkan`, `wgpu:metal`, `wgpu:dx12` | the best adapter of an API |
    /// | `wgpu:webgpu` | a browser's GPU, as `wgpu` there |
    /// | `cpu` | the host's processor |
    /// | `interp` | the interpreter; its sanitizer finds races and uninitialized reads |
    /// | `interp:SEED` | the same; the seed fixes the order of programs and threads |
    /// | `interp:fast`, `interp:fast:SEED` | the interpreter without the sanitizer |
    /// | `isolated:cpu`, `isolated:cuda:N` | a device in a [process of its own](crate::isolate) |
    ///
    /// Where the environment variable `KILN_SANITIZE` or `KILN_DEBUG` names a device, every name
    /// opens that one: `kiln sanitize` and `kiln debug` set it to `interp`.
    ///
    /// ```
    /// use kiln_runtime::{Device, Error};
    /// let device = Device::open("cpu")?;
    /// assert_eq!(Device::open("cpu")?, device); // the same one
    /// assert!(matches!(Device::open("gpu"), Err(Error::UnknownDevice { .. })));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] for another name, [`Error::MissingBackend`] if the program was
    /// built without the feature of that backend, [`kiln_backend::Error::Unavailable`] if there is
    /// no such device or driver; [`kiln_backend::Error::CannotWait`] in a browser, unless
    /// [`open_async`](Self::open_async) has opened it before.
    pub fn open(name: &str) -> Result<Device> {
        let name = backends::canonical(name);
        let name = name.as_str();
        let mut open = open_devices();
        if let Some(device) = find(&open, name) {
            return Ok(device);
        }
        let device = Device::in_environment(isolate::open_backend(name)?)?;
        register(&mut open, name, &device);
        Ok(device)
    }

    /// Opens a device by name without blocking the thread that awaits it: the way to open one in a
    /// browser, where it is `wgpu`.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// # pollster::block_on(async {
    /// let device = Device::open_async("interp").await?;
    /// assert_eq!(device, Device::open("interp")?);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub async fn open_async(name: &str) -> Result<Device> {
        let name = backends::canonical(name);
        let found = find(&open_devices(), &name);
        if let Some(device) = found {
            return Ok(device);
        }
        let backend = match backends::open_later(&name).await {
            Some(opened) => opened?,
            None => {
                let name = name.clone();
                on_thread(move || isolate::open_backend(&name)).await??
            }
        };
        let mut open = open_devices();
        if let Some(device) = find(&open, &name) {
            // Another call has been quicker.
            return Ok(device);
        }
        let device = Device::in_environment(backend)?;
        register(&mut open, &name, &device);
        Ok(device)
    }

    /// Opens a device that no other handle shares: with caches and settings of its own. That of
    /// [`open`](Self::open) is not affected.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// assert_ne!(Device::open_apart("interp")?, Device::open("interp")?);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_apart(name: &str) -> Result<Device> {
        Device::in_environment(isolate::open_backend(&backends::canonical(name))?)
    }

    /// The same device, opened anew beside this handle: for one that is
    /// [lost](kiln_backend::Error::Lost), or on which a kernel does not end. It shares nothing with
    /// this one, whose tensors stay with it. From now on [`open`](Self::open) gives the new one.
    ///
    /// ```
    /// use kiln_runtime::Tensor;
    ///
    /// /// A tensor in place of one whose device was lost.
    /// fn again(lost: &Tensor<f32, 1>, kept: &[f32]) -> kiln_runtime::Result<Tensor<f32, 1>> {
    ///     lost.device().reopen()?.tensor(kept, lost.shape())
    /// }
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`open`](Self::open). NVIDIA's driver gives a process no new context after a trap, and
    /// there this fails.
    pub fn reopen(&self) -> Result<Device> {
        let name = self.id();
        let backend = match self.0.backend.reopen() {
            Some(next) => next?,
            None => backends::open_anew(name)?,
        };
        let device = Device::in_environment(backend)?;
        register(&mut open_devices(), name, &device);
        Ok(device)
    }

    /// [`reopen`](Self::reopen) without blocking the thread that awaits it: for a page that has
    /// lost its GPU.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// # pollster::block_on(async {
    /// let lost = Device::open_async("interp").await?;
    /// let device = lost.reopen_async().await?;
    /// assert!(device != lost && device == Device::open("interp")?);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`reopen`](Self::reopen).
    pub async fn reopen_async(&self) -> Result<Device> {
        let Some(opened) = backends::open_later(self.id()).await else {
            let device = self.clone();
            return on_thread(move || device.reopen()).await?;
        };
        let device = Device::in_environment(opened?)?;
        register(&mut open_devices(), self.id(), &device);
        Ok(device)
    }

    /// A device over a backend of one's own, or with a cache folder of its own.
    pub fn with_backend(backend: Box<dyn Backend>, disk: DiskCache) -> Device {
        Device::of(backend, disk, Packages::default())
    }

    /// A device with the cache and the packages that the environment names.
    fn in_environment(backend: Box<dyn Backend>) -> Result<Device> {
        let packages = package::of_environment(&*backend)?;
        Ok(Device::of(backend, DiskCache::from_env()?, packages))
    }

    fn of(backend: Box<dyn Backend>, disk: DiskCache, packages: Packages) -> Device {
        Device(Arc::new(Inner {
            id: backend.properties().id.as_str().into(),
            cost_model: Arc::new(backend.properties().cost_model()),
            observers: Arc::default(),
            attached: Attached::default(),
            told: Told::default(),
            backend,
            programs: ProgramCache::default(),
            choices: Choices::default(),
            disk,
            packages,
        }))
    }

    /// The names of the devices that can be opened here, best first. GPUs whose driver fails are
    /// not among them: [`open`](Self::open) says why.
    ///
    /// ```
    /// let names = kiln_runtime::Device::available();
    /// assert_eq!(names.last().map(String::as_str), Some("interp"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn available() -> Vec<String> {
        backends::available()
    }

    /// What the device is and can do.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// assert!(device.properties().units > 0 && device.properties().max_threads >= 256);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn properties(&self) -> &Properties {
        self.0.backend.properties()
    }

    /// What it can do beyond what every device can.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert!(device.capabilities().sanitizer && device.capabilities().is_interpreted());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn capabilities(&self) -> &Capabilities {
        &self.properties().capabilities
    }

    /// What work costs on the device: [`Properties::cost_model`], made once. All handles to a
    /// device return the same `Arc`, so that its address can stand for the device's figures.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(**device.cost_model(), device.properties().cost_model());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn cost_model(&self) -> &Arc<CostModel> {
        &self.0.cost_model
    }

    /// The name it was opened by.
    ///
    /// ```
    /// assert_eq!(kiln_runtime::Device::open("interp")?.id(), "interp");
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn id(&self) -> &str {
        &self.properties().id
    }

    /// Whether it is in a [process of its own](crate::isolate).
    ///
    /// ```
    /// assert!(!kiln_runtime::Device::open("interp")?.is_isolated());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn is_isolated(&self) -> bool {
        self.id().starts_with(isolate::PREFIX)
    }

    /// Bytes of device memory that are free now.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// let batch = if device.free_memory()? > 1 << 30 { 256 } else { 64 };
    /// # assert!(batch > 0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn free_memory(&self) -> Result<u64> {
        Ok(self.backend().free_memory()?)
    }

    /// Waits for all work on the default stream.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// // … launches …
    /// device.synchronize()?; // they are over, and none has failed
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first [`kiln_backend::Fault`] of a kernel since the last report.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.check_not_capturing("the device was waited for", Location::caller())?;
        self.waited(self.backend().synchronize(StreamId::default()))
    }

    /// Sets how long each launch on this device may run, from the next one on; `None` for as long
    /// as it takes. One that runs longer ends with [`kiln_backend::FaultKind::LaunchLimit`], which
    /// names a loop that had not ended. Resident launches (ring kernels) have no limit.
    ///
    /// At first it is 10 minutes, or what the environment variable `KILN_LAUNCH_LIMIT` says: `30s`,
    /// `500ms`, `2h`, `off`. The limit of `cpu` and `interp` alone can be set: nothing ends a
    /// kernel on a GPU but the end of its process (see [`crate::isolate`]).
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    /// use std::time::Duration;
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn wait_for(x: &mut Tensor<i32, 1>) {
    ///     let mut n: Val<i32> = 0;
    ///     while n.ge(0) { // 0, 1, 0, 1, … is never negative
    ///         n = (n + 1) % 2;
    ///     }
    ///     x.set(thread_index(), n);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// device.set_launch_limit(Some(Duration::from_millis(50)))?;
    /// let mut x = device.zeros::<i32, 1>([1])?;
    /// wait_for(&mut x).grid([1]).block([1]).launch(&device)?;
    /// let fault = device.synchronize().unwrap_err().to_string();
    /// let expected = "`wait_for` ran longer than its limit of 50ms, in a loop";
    /// assert!(fault.starts_with(expected), "{fault}");
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`kiln_backend::Error::Unavailable`] on a device that cannot end a kernel.
    pub fn set_launch_limit(&self, limit: Option<Duration>) -> Result<()> {
        Ok(self.backend().set_launch_limit(limit)?)
    }

    /// The backend beneath, for what the runtime does not wrap.
    pub fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    /// The programs compiled so far in this process.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// for build in device.programs().builds() {
    ///     println!("{} was ready after {:?}", build.kernel, build.total);
    /// }
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn programs(&self) -> &ProgramCache {
        &self.0.programs
    }

    /// Registers an observer of what is done on this device, until the result is dropped. Without
    /// observers, it costs one relaxed load of an atomic at each call of the runtime.
    ///
    /// [`Observer`] has an example.
    ///
    /// ```
    /// use kiln_runtime::{Activity, Device};
    /// let device = Device::open_apart("interp")?;
    /// let (sender, bytes) = std::sync::mpsc::channel();
    /// let observation = device.observe(move |activity: &Activity| {
    ///     if let Activity::Allocate(allocate) = activity {
    ///         sender.send(allocate.bytes).ok();
    ///     }
    /// });
    /// device.zeros::<f32, 1>([100])?;
    /// drop(observation);
    /// assert_eq!(bytes.iter().collect::<Vec<_>>(), [400]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn observe(&self, observer: impl Observer + 'static) -> Observation {
        Observers::add(self.observers(), Arc::new(observer))
    }

    /// The name, to share.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        self.0.id.clone()
    }

    pub(crate) fn observers(&self) -> &Arc<Observers> {
        &self.0.observers
    }

    /// Refuses a call from inside a print sink, which may wait for the call that prints.
    pub(crate) fn check_not_printing(&self) -> Result<()> {
        if is_printing() {
            let device = self.id().to_owned();
            return Err(kiln_backend::Error::InsidePrintSink { device }.into());
        }
        Ok(())
    }

    /// Tells this device from others of the process.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether this thread captures a [`Graph`](crate::Graph) of this device, or only
    /// [compiles](Self::precompile) for it: then launches, copies and fills are recorded or passed
    /// over, and nothing has run whose results could be waited for.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert!(!device.is_capturing());
    /// device.graph(|_| Ok(assert!(device.is_capturing())))?;
    /// assert!(!device.is_capturing());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[inline]
    pub fn is_capturing(&self) -> bool {
        state::is_on_device(self.identity())
    }

    /// What becomes of this thread's calls of the device, if they are not made.
    #[inline]
    pub(crate) fn capture_mode(&self) -> Option<Mode> {
        state::mode(self.identity())
    }

    /// Refuses something that no [`Graph`](crate::Graph) can hold, while this thread captures one
    /// of this device. `what` is a sentence in the past tense for the error, without its end.
    ///
    /// ```
    /// use kiln_runtime::{Device, Result};
    /// use std::panic::Location;
    ///
    /// /// A function of a library that waits for the device.
    /// #[track_caller]
    /// fn norm(device: &Device) -> Result<()> {
    ///     device.check_not_capturing("a norm was read", Location::caller())?;
    ///     device.synchronize()
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// norm(&device)?;
    /// let error = device.graph(|_| norm(&device)).err().expect("no graph can hold it");
    /// assert!(error.to_string().contains("a norm was read"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Capture`].
    #[inline]
    pub fn check_not_capturing(&self, what: &str, location: CallSite) -> Result<()> {
        if self.is_capturing() { Err(self.in_capture(what, location)) } else { Ok(()) }
    }

    #[cold]
    fn in_capture(&self, what: &str, location: CallSite) -> Error {
        let device = self.id().to_owned();
        if self.capture_mode() == Some(Mode::Precompile) {
            let what = format!("{what} in a `precompile`, which runs nothing");
            return Error::Precompile { what, device, location };
        }
        Error::Capture { what: what.to_owned(), device, location }
    }

    /// The programs kept on disk.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// println!("{:?}", device.disk_cache().folder());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn disk_cache(&self) -> &DiskCache {
        &self.0.disk
    }

    /// The program of a kernel that was traced by other means than a launch: from disk if it is
    /// there and the device accepts it, else compiled and kept.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>> {
        Ok(load_or_compile(self.sources(), kernel)?.0)
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        let Inner { backend, disk, packages, .. } = &*self.0;
        Sources { backend: &**backend, disk, packages }
    }

    pub(crate) fn packages(&self) -> &Packages {
        &self.0.packages
    }

    /// The choice that was kept for a question, by this process or, in the disk cache, by another.
    ///
    /// ```
    /// use kiln_runtime::{Device, DiskCache};
    ///
    /// let folder = std::env::temp_dir().join(format!("kiln-doc-choices-{}", std::process::id()));
    /// let cpu = || Box::new(kiln_cpu::CpuBackend::new());
    /// let open = || Device::with_backend(cpu(), DiskCache::at(&folder));
    /// let first = open();
    /// assert_eq!(first.choice("how to add"), None);
    /// first.keep_choice("how to add", "by fours");
    /// // As in another process.
    /// assert_eq!(open().choice("how to add").as_deref(), Some("by fours"));
    /// # std::fs::remove_dir_all(folder).ok();
    /// ```
    pub fn choice(&self, question: &str) -> Option<String> {
        self.0.choices.get(self.backend(), self.disk_cache(), question)
    }

    /// Keeps a choice, in place of one there may be. Where the disk does not take it, it is kept in
    /// this process alone.
    pub fn keep_choice(&self, question: &str, choice: &str) {
        self.0.choices.keep(self.backend(), self.disk_cache(), question, choice);
    }

    /// A number that differs after this process has kept a choice: until then what
    /// [`choice`](Self::choice) found remains true.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let revision = device.choices_revision();
    /// device.keep_choice("how to add", "by fours");
    /// assert_ne!(device.choices_revision(), revision);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn choices_revision(&self) -> u64 {
        self.0.choices.revision()
    }

    /// The last [fault](kiln_backend::Fault) of a kernel on this device that a wait or a read has
    /// told, and how many have been told so far. A fault is told once, to whoever waits first: a
    /// library that keeps results of kernels finds by this that it was another part of the program.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn invert(x: &mut Tensor<i32, 1>) {
    ///     let i = thread_index();
    ///     x.set(i, 100 / x.get(i));
    /// }
    ///
    /// let device = Device::open_apart("interp")?;
    /// assert!(device.last_fault().is_none());
    /// let mut x = device.tensor(&[1, 0], [2])?;
    /// invert(&mut x).grid([1]).block([2]).launch(&device)?;
    /// let told = device.synchronize().unwrap_err();
    /// assert!(matches!(device.last_fault(), Some((1, fault)) if fault.to_string() == told.to_string()));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn last_fault(&self) -> Option<(u64, Error)> {
        self.0.told.last()
    }

    /// What a wait for the device gave. If that is a fault, it is remembered.
    pub(crate) fn waited<T>(&self, outcome: kiln_backend::Result<T>) -> Result<T> {
        self.0.told.noted(outcome)
    }

    /// The value of a type that is kept with the device: one for all handles to it, made when it is
    /// first asked for, and dropped with the device. For what a library remembers of a device; it
    /// must not contain the device or tensors of it, which would keep it open.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// #[derive(Default)]
    /// struct Calls(AtomicUsize);
    ///
    /// let device = Device::open_apart("interp")?;
    /// device.attached::<Calls>().0.fetch_add(1, Relaxed);
    /// assert_eq!(device.clone().attached::<Calls>().0.load(Relaxed), 1);
    /// assert_eq!(Device::open_apart("interp")?.attached::<Calls>().0.load(Relaxed), 0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn attached<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.attached.get()
    }

    /// Waits until no other thread measures on the device, for two measurements would disturb each
    /// other; the others wait while the result is there. `None` if this thread measures already.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let measuring = device.measuring();
    /// assert!(measuring.is_some() && device.measuring().is_none());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn measuring(&self) -> Option<Measuring<'_>> {
        self.0.choices.measuring()
    }

    pub(crate) fn choices(&self) -> &Choices {
        &self.0.choices
    }
}

/// What [`Device::default`] gives, by the value of `KILN_DEVICE`, the number of NVIDIA GPUs, what
/// there is where there are none, and how devices are opened.
fn default_of<D>(
    wish: Option<&str>,
    gpus: impl FnOnce() -> kiln_backend::Result<usize>,
    other: impl FnOnce() -> String,
    open: impl FnOnce(&str) -> Result<D>,
) -> Result<D> {
    if let Some(wish) = wish.map(str::trim).filter(|wish| !wish.is_empty()) {
        return open(wish);
    }
    let refuse = |error: Error| Error::DefaultDevice { reason: error.to_string() };
    match gpus().map_err(|error| refuse(error.into()))? {
        0 => open(&other()),
        _ => open("cuda:0").map_err(refuse),
    }
}

/// Devices by name, which handles keep open.
type Open = Vec<(String, Weak<Inner>)>;

/// The devices that are open.
fn open_devices() -> MutexGuard<'static, Open> {
    static OPEN: Mutex<Open> = Mutex::new(Vec::new());
    // Changed by pushes and removals only.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The open device of a name.
fn find(open: &Open, name: &str) -> Option<Device> {
    open.iter().find(|(n, _)| n == name).and_then(|(_, weak)| weak.upgrade()).map(Device)
}

/// Makes a device the one of its name.
fn register(open: &mut Open, name: &str, device: &Device) {
    open.retain(|(n, _)| n != name);
    open.push((name.to_owned(), Arc::downgrade(&device.0)));
}

impl PartialEq for Device {
    /// Whether both are handles to one device.
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.id(), self.properties().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> kiln_backend::Error {
        let [device, reason, hint] = ["cuda", "the driver could not start", "Restart the computer."];
        kiln_backend::Error::Unavailable { device: device.into(), reason: reason.into(), hint: hint.into() }
    }

    fn cpu() -> String {
        "cpu".to_owned()
    }

    fn named(name: &str) -> Result<String> {
        Ok(name.to_owned())
    }

    #[test]
    fn the_default_is_a_gpu_where_there_is_one() {
        assert_eq!(default_of(None, || Ok(2), cpu, named).unwrap(), "cuda:0");
        assert_eq!(default_of(None, || Ok(0), cpu, named).unwrap(), "cpu");
        assert_eq!(default_of(Some("  "), || Ok(0), cpu, named).unwrap(), "cpu");
        assert_eq!(default_of(Some(" interp "), || Ok(1), cpu, named).unwrap(), "interp");
    }

    #[test]
    fn a_gpu_that_fails_is_no_reason_for_the_cpu() {
        let text = |result: Result<String>| result.unwrap_err().to_string();
        for error in [
            text(default_of(None, || Err(broken()), cpu, named)),
            text(default_of(None, || Ok(1), cpu, |_| Err(broken().into()))),
        ] {
            assert!(
                error.contains("the driver could not start") && error.contains("KILN_DEVICE=cpu"),
                "{error}"
            );
        }
        assert_eq!(default_of(Some("cpu"), || Err(broken()), cpu, named).unwrap(), "cpu");
    }
}

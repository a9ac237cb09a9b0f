//! The programs of one device in this process: found by specialization, each compiled once even if
//! several threads want it at once.

use crate::error::{Error, Result};
use crate::loaded::{Build, LoadedKernel};
use kiln_ir::{LaunchHints, Level};
use kiln_lang::param::SpecKey;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Everything that a compiled program depends on, beside the device. Compared whole, so that no
/// accident of hashing confuses two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Specialization {
    pub(crate) spec: SpecKey,
    pub(crate) level: Level,
    pub(crate) hints: LaunchHints,
}

/// A step of the hash waits for the one before it. So the level is one step, and hints, of which
/// most launches have none, are only compared.
impl Hash for Specialization {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.hash(state);
        state.write_u64(match self.level {
            Level::Tile { warps } => warps.map_or(0, u64::from),
            Level::Thread { block: [x, y, z] } => u64::from(x) << 42 ^ u64::from(y) << 21 ^ u64::from(z),
        });
    }
}

/// FxHash's multiply-rotate step: the keys are a few words of our own making, looked up on every
/// launch.
#[derive(Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        // Multiplying mixes upwards only, and the table takes the low bits.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

type Slot = Arc<OnceLock<std::result::Result<Arc<LoadedKernel>, Error>>>;

/// A program, or one that is being compiled.
#[derive(Default)]
struct Kept {
    slot: Slot,
    /// How many programs were new when it was last asked for.
    used: AtomicU64,
}

type Programs = HashMap<Specialization, Kept, BuildHasherDefault<WordHasher>>;

/// The programs of one device in this process.
///
/// It keeps [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT) specializations unless
/// [`set_limit`](Self::set_limit) says otherwise. A new one beyond that takes the place of the one
/// that was not launched for longest, which is compiled, or read from disk, again when it is
/// needed. A program in use is unloaded only after its last launch is over.
pub struct ProgramCache {
    slots: RwLock<Programs>,
    limit: AtomicUsize,
    /// How many programs were new so far.
    new: AtomicU64,
}

impl Default for ProgramCache {
    fn default() -> ProgramCache {
        let limit = AtomicUsize::new(ProgramCache::DEFAULT_LIMIT);
        ProgramCache { slots: RwLock::default(), limit, new: AtomicU64::new(0) }
    }
}

impl ProgramCache {
    /// How many specializations a device keeps by default: some 30 MB of host memory.
    pub const DEFAULT_LIMIT: usize = 4096;

    /// Sets how many specializations are kept, one at least. Those beyond it that were not launched
    /// for longest go at once.
    ///
    /// ```
    /// use kiln_runtime::{Device, ProgramCache};
    ///
    /// let device = Device::open("interp")?;
    /// assert_eq!(device.programs().limit(), ProgramCache::DEFAULT_LIMIT);
    /// device.programs().set_limit(100);
    /// assert_eq!(device.programs().limit(), 100);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.max(1), Relaxed);
        let gone = self.evict(&mut self.slots.write().unwrap_or_else(PoisonError::into_inner), None);
        drop(gone);
    }

    /// How many specializations are kept at most.
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// How many specializations are kept, refused ones among them.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// assert_eq!(device.programs().len(), 0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing was compiled yet.
    ///
    /// ```
    /// assert!(kiln_runtime::Device::open_apart("interp")?.programs().is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How each program came to be, in no order.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn twice(x: &mut Tensor<f32, 1>) {
    ///     let tile = x.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0.0) * 2.0);
    /// }
    ///
    /// let device = Device::open("cpu")?;
    /// twice(&mut device.zeros([8])?).launch(&device)?;
    /// let builds = device.programs().builds();
    /// let build = builds.iter().find(|build| &*build.kernel == "twice").expect("it was launched");
    /// // It was compiled, or read from disk.
    /// assert!(build.tracing < build.total);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn builds(&self) -> Vec<Build> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.values().filter_map(|kept| Some(kept.slot.get()?.as_ref().ok()?.build.clone())).collect()
    }

    /// Forgets every program, so that the next launch of each kernel compiles (or reads the disk)
    /// again.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn twice(x: &mut Tensor<f32, 1>) {
    ///     let tile = x.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0.0) * 2.0);
    /// }
    ///
    /// let device = Device::open_apart("interp")?;
    /// assert!(device.programs().is_empty());
    /// twice(&mut device.zeros([4])?).launch(&device)?;
    /// assert!(!device.programs().is_empty());
    /// device.programs().clear();
    /// assert!(device.programs().is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn clear(&self) {
        let gone = std::mem::take(&mut *self.slots.write().unwrap_or_else(PoisonError::into_inner));
        // Unloading may wait for the device: not while launches wait for the lock.
        drop(gone);
    }

    /// The program of a specialization, made by `build` if it is the first request. Others that
    /// come meanwhile wait for it.
    ///
    /// A refusal is kept too, unless it may pass: a kernel that does not compile is not compiled
    /// again on every launch.
    pub(crate) fn get(
        &self,
        key: &Specialization,
        build: impl FnOnce() -> Result<Arc<LoadedKernel>>,
    ) -> Result<Arc<LoadedKernel>> {
        if let Some(loaded) = self.loaded(key) {
            return Ok(loaded);
        }
        let slot = self.found(key).unwrap_or_else(|| self.begin(key));
        let outcome = slot.get_or_init(build).clone();
        if matches!(&outcome, Err(error) if !matches!(error, Error::Kernel { .. })) {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            // Not what another thread may have begun meanwhile.
            if slots.get(key).is_some_and(|now| Arc::ptr_eq(&now.slot, &slot)) {
                slots.remove(key);
            }
        }
        outcome
    }

    /// Takes note of a specialization that is about to be compiled; `false` if it is there, or
    /// under way.
    pub(crate) fn announce(&self, key: &Specialization) -> bool {
        let is_new = self.found(key).is_none();
        if is_new {
            self.begin(key);
        }
        is_new
    }

    /// The program of a specialization that is there: what most launches find.
    fn loaded(&self, key: &Specialization) -> Option<Arc<LoadedKernel>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let kept = slots.get(key)?;
        self.note_use(kept);
        kept.slot.get()?.as_ref().ok().cloned()
    }

    /// The slot of a specialization that is there, or under way.
    fn found(&self, key: &Specialization) -> Option<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let kept = slots.get(key)?;
        self.note_use(kept);
        Some(kept.slot.clone())
    }

    /// Notes that a program was asked for. Most often that is noted already, and threads that
    /// launch it side by side only read the line.
    fn note_use(&self, kept: &Kept) {
        let now = self.new.load(Relaxed);
        if kept.used.load(Relaxed) != now {
            kept.used.store(now, Relaxed);
        }
    }

    /// The slot of a specialization that is new, or that another thread has begun meanwhile.
    fn begin(&self, key: &Specialization) -> Slot {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let kept = slots.entry(key.clone()).or_default();
        kept.used.store(self.new.fetch_add(1, Relaxed), Relaxed);
        let slot = kept.slot.clone();
        let gone = self.evict(&mut slots, Some(key));
        // Unloading may wait for the device: not while launches wait for the lock.
        drop(slots);
        drop(gone);
        slot
    }

    /// Takes out what was not launched for longest, as far as there are too many. What is being
    /// compiled is kept.
    fn evict(&self, slots: &mut Programs, new: Option<&Specialization>) -> Vec<Kept> {
        let excess = slots.len().saturating_sub(self.limit());
        if excess == 0 {
            return Vec::new();
        }
        let done = slots.iter().filter(|(key, kept)| kept.slot.get().is_some() && Some(*key) != new);
        let mut ages: Vec<_> = done.map(|(key, kept)| (kept.used.load(Relaxed), key)).collect();
        let excess = excess.min(ages.len());
        if excess < ages.len() {
            ages.select_nth_unstable_by_key(excess, |(used, _)| *used);
        }
        let oldest: Vec<_> = ages[..excess].iter().map(|(_, key)| (*key).clone()).collect();
        oldest.iter().filter_map(|key| slots.remove(key)).collect()
    }
}

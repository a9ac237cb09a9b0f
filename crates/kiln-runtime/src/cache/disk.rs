//! The programs kept on disk between processes.
//!
//! One file a program, named by the SHA-256 of everything it depends on. A file is written under a
//! random name and renamed, so that parallel writers and a crash leave whole files only; its
//! contents carry a digest of them and of the name, so that a damaged file and one that was renamed
//! are noticed, and the program is compiled again. Only regular files are read, and no symbolic
//! link is followed to or from an entry. What a crash left behind is removed by a later writer. A
//! cache that cannot be read or written never fails a launch: it is counted, and `kiln doctor`
//! reports it. All programs together have a limit: what was not used for longest goes first
//! (`evict.rs`, `room.rs`).

use super::entry::{self, Entry};
use super::evict::{self, Watch};
use super::{limit, room};
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

/// What the names of files end with.
pub(super) const PROGRAM: &str = "kiln";
pub(super) const CHOICE: &str = "choice";

/// A folder of compiled programs.
///
/// ```
/// use kiln_runtime::DiskCache;
/// let dir = std::env::temp_dir().join(format!("kiln-doc-{}", std::process::id()));
/// let cache = DiskCache::at(&dir);
/// let key = DiskCache::key(&[b"kernel text", b"device"]);
/// assert_eq!(cache.load(&key), None);
/// cache.store(&key, b"machine code");
/// assert_eq!(cache.load(&key).as_deref(), Some(&b"machine code"[..]));
/// assert_eq!(cache.stats().hits, 1);
/// cache.clear()?;
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// ```
/// use kiln_runtime::DiskCache;
/// let folder = std::env::temp_dir().join(format!("kiln-doc-usage-{}", std::process::id()));
/// let [cache, other] = ["one", "other"].map(|name| DiskCache::at(folder.join(name)));
/// assert_eq!(cache.check_writable(), Ok(()));
/// assert!(DiskCache::none().check_writable().is_err());
/// cache.store(&DiskCache::key(&[b"kernel text", b"device"]), b"machine code");
/// let (programs, bytes) = cache.usage();
/// assert!(programs == 1 && bytes >= 12);
/// assert!(cache.choices().is_empty()); // nothing was tuned
/// // All of it in one file, for another machine.
/// cache.export(&folder.join("cache.kiln"))?;
/// assert_eq!(other.import(&folder.join("cache.kiln"))?.programs, 1);
/// assert_eq!(other.usage(), cache.usage());
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct DiskCache {
    folder: Option<PathBuf>,
    /// The most bytes of programs, if there is a limit.
    limit: Option<u64>,
    watch: Watch,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    failed_writes: AtomicU64,
    evicted: AtomicU64,
    /// Done once, where the folder is looked at anyway.
    tidied: OnceLock<()>,
}

/// What happened to a [`DiskCache`] in this process.
///
/// ```
/// use kiln_runtime::{DiskCache, DiskStats};
/// assert_eq!(DiskCache::none().stats(), DiskStats::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Programs found.
    pub hits: u64,
    /// Programs not found.
    pub misses: u64,
    /// Files that were there but damaged or unreadable; each was compiled again.
    pub damaged: u64,
    /// Programs that could not be written, or that alone are larger than the limit.
    pub failed_writes: u64,
    /// Programs that were removed because the cache was full.
    pub evicted: u64,
}

impl DiskCache {
    /// The cache in `KILN_CACHE_DIR`, else in `kiln` under `XDG_CACHE_HOME`, else in
    /// `~/.cache/kiln`. No cache where none of these is set, or where `KILN_CACHE_DIR` is empty.
    /// It keeps as much as `KILN_CACHE_SIZE` says, else 4 GiB.
    ///
    /// ```
    /// let cache = kiln_runtime::DiskCache::from_env()?;
    /// println!("{:?}, at most {:?} bytes", cache.folder(), cache.limit());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// For a `KILN_CACHE_SIZE` that is no size: see [`parse_cache_size`](crate::parse_cache_size).
    pub fn from_env() -> Result<DiskCache> {
        let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = match env::var_os("KILN_CACHE_DIR") {
            Some(dir) if dir.is_empty() => None,
            Some(dir) => Some(PathBuf::from(dir)),
            None => set("XDG_CACHE_HOME")
                .or_else(|| set("HOME").map(|home| home.join(".cache")))
                .map(|cache| cache.join("kiln")),
        };
        Ok(DiskCache { limit: limit::of_environment()?, ..DiskCache::in_folder(folder) })
    }

    /// The cache in a folder, which is made when the first program is stored. It keeps 4 GiB.
    pub fn at(folder: impl Into<PathBuf>) -> DiskCache {
        DiskCache::in_folder(Some(folder.into()))
    }

    fn in_folder(folder: Option<PathBuf>) -> DiskCache {
        DiskCache {
            folder,
            limit: Some(limit::DEFAULT),
            watch: Watch::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            damaged: AtomicU64::default(),
            failed_writes: AtomicU64::default(),
            evicted: AtomicU64::default(),
            tidied: OnceLock::default(),
        }
    }

    /// This cache with another limit on the bytes of its programs; `None` for no limit. When a
    /// program is stored, those go that were not used for longest.
    ///
    /// ```
    /// use kiln_runtime::DiskCache;
    /// let cache = DiskCache::none().with_limit(Some(500_000_000));
    /// assert_eq!(cache.limit(), Some(500_000_000));
    /// ```
    pub fn with_limit(self, limit: Option<u64>) -> DiskCache {
        DiskCache { limit, ..self }
    }

    /// The most bytes of programs that are kept, if there is a limit.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// No cache: nothing is found and nothing kept.
    pub fn none() -> DiskCache {
        DiskCache::in_folder(None)
    }

    /// The folder, if there is a cache.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The name under which something is kept that depends on all of `parts`.
    pub fn key(parts: &[&[u8]]) -> String {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        entry::hex(&hash.finalize())
    }

    /// What is kept under a key. Damaged files count as absent.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        match self.entry(key, PROGRAM)?.read() {
            Ok(bytes) => {
                self.hits.fetch_add(1, Relaxed);
                Some(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.missed(&self.misses),
            Err(_) => self.missed(&self.damaged),
        }
    }

    fn missed(&self, counter: &AtomicU64) -> Option<Vec<u8>> {
        counter.fetch_add(1, Relaxed);
        None
    }

    /// Counts a program that was found whole but that the device did not take: it is compiled
    /// again.
    pub(crate) fn reject(&self) {
        self.damaged.fetch_add(1, Relaxed);
    }

    /// Keeps bytes under a key. Failure is counted, not reported: the program is there, only the
    /// next process is slower.
    pub fn store(&self, key: &str, bytes: &[u8]) {
        self.store_as(key, PROGRAM, bytes);
    }

    pub(super) fn store_as(&self, key: &str, kind: &'static str, bytes: &[u8]) {
        let (Some(folder), Some(entry)) = (self.folder(), self.entry(key, kind)) else { return };
        // Choices are a line each, and took long to find: they have no limit.
        let limit = self.limit.filter(|_| kind == PROGRAM);
        let length = Entry::length(bytes);
        let failed = limit.is_some_and(|limit| length > limit) || entry.write(bytes).is_err();
        self.failed_writes.fetch_add(failed.into(), Relaxed);
        let looked = match limit {
            Some(limit) if !failed => self.watch.wrote((folder, kind), (&entry.path(), length), limit),
            // What crashes have left may be why there was no place.
            _ => Some(0),
        };
        if let Some(gone) = looked {
            self.evicted.fetch_add(gone, Relaxed);
            self.tidied.get_or_init(|| entry.remove_leftovers());
        }
    }

    /// Removes the programs that were not used for so long. Gives how many, and their bytes.
    ///
    /// ```
    /// use kiln_runtime::DiskCache;
    /// use std::time::Duration;
    /// assert_eq!(DiskCache::none().prune_unused(Duration::from_secs(86_400)), (0, 0));
    /// ```
    pub fn prune_unused(&self, time: Duration) -> (u64, u64) {
        let before = SystemTime::now().checked_sub(time);
        let (Some(folder), Some(before)) = (self.folder(), before) else { return (0, 0) };
        evict::older_than(evict::kept(folder, PROGRAM), before)
    }

    /// Removes programs, those that were not used for longest first, until the rest has at most so
    /// many bytes. Gives how many, and their bytes.
    ///
    /// ```
    /// assert_eq!(kiln_runtime::DiskCache::none().prune_to(1_000_000), (0, 0));
    /// ```
    pub fn prune_to(&self, bytes: u64) -> (u64, u64) {
        let Some(folder) = self.folder() else { return (0, 0) };
        evict::down_to(evict::kept(folder, PROGRAM), bytes, None)
    }

    /// A choice kept under a key. Damaged files count as absent.
    pub(crate) fn load_choice(&self, key: &str) -> Option<String> {
        let read = self.entry(key, CHOICE)?.read();
        if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return None;
        }
        let text = read.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if text.is_none() {
            self.damaged.fetch_add(1, Relaxed);
        }
        text
    }

    /// Keeps a choice. Failure is counted, not reported.
    pub(crate) fn store_choice(&self, key: &str, text: &str) {
        self.store_as(key, CHOICE, text.as_bytes());
    }

    /// What happened so far in this process.
    pub fn stats(&self) -> DiskStats {
        DiskStats {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            failed_writes: self.failed_writes.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
        }
    }

    /// How many programs are kept, and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        let files = self.files(PROGRAM).into_iter().filter_map(|p| fs::symlink_metadata(p).ok());
        let sizes = files.filter(fs::Metadata::is_file).map(|m| m.len());
        sizes.fold((0, 0), |(n, total), size| (n + 1, total + size))
    }

    /// The choices that tuning has kept, as lines of text: Kiln's version, the device, its driver
    /// and compiler, the question, the choice. In the order of the text.
    pub fn choices(&self) -> Vec<String> {
        let text = |path: PathBuf| {
            let entry = self.entry(path.file_stem()?.to_str()?, CHOICE)?;
            String::from_utf8(entry.read().ok()?).ok()
        };
        let mut all: Vec<String> = self.files(CHOICE).into_iter().filter_map(text).collect();
        all.sort_unstable();
        all
    }

    /// Whether programs can be kept, found out by writing a file; the system's words if not.
    pub fn check_writable(&self) -> std::result::Result<(), String> {
        let Some(entry) = self.entry("writable-check", PROGRAM) else {
            return Err("no folder: set KILN_CACHE_DIR or HOME".into());
        };
        entry.check_writable().map_err(|e| e.to_string())
    }

    /// Removes every program, every choice, and what crashes have left.
    ///
    /// # Errors
    /// [`Error::File`] names the first file that could not be removed.
    pub fn clear(&self) -> Result<()> {
        let mut left = self.folder.as_deref().map(entry::leftovers).unwrap_or_default();
        left.extend(self.folder().map(|folder| room::entry(folder).path()).filter(|path| path.is_file()));
        for path in [PROGRAM, CHOICE].into_iter().flat_map(|kind| self.files(kind)).chain(left) {
            fs::remove_file(&path).map_err(|e| Error::File {
                what: "cannot remove",
                message: e.to_string(),
                path: path.clone(),
            })?;
        }
        Ok(())
    }

    /// The keys of the files of a kind, in order.
    pub(super) fn keys(&self, kind: &str) -> Vec<String> {
        let key = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
        let mut keys: Vec<String> = self.files(kind).into_iter().filter_map(key).collect();
        keys.sort_unstable();
        keys
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let entries = self.folder.as_ref().and_then(|f| fs::read_dir(f).ok());
        let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
        paths.filter(|p| p.extension().is_some_and(|e| e == kind)).collect()
    }

    /// The entry of a key; none without a folder, or for a key that would lead out of it.
    pub(super) fn entry(&self, key: &str, kind: &'static str) -> Option<Entry> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = !key.is_empty() && key.bytes().all(plain);
        Some(Entry::new(self.folder.as_deref().filter(|_| fits)?, key, kind))
    }
}

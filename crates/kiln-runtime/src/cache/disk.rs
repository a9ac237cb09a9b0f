//! The programs kept on disk between processes.
//!
//! One file a program, named by the SHA-256 of everything it depends on. A file is written under a
//! random name and renamed, so that parallel writers and a crash leave whole files only; its
//! contents carry a digest of them and of the name, so that a damaged file and one that was renamed
//! are noticed, and the program is compiled again. Only regular files are read, and no symbolic
//! link is followed to or from an entry. What a crash left behind is removed by a later writer. A
//! cache that cannot be read or written never fails a launch: it is counted, and `kiln doctor`
//! reports it.

use super::entry::{self, Entry};
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, fs, io};

/// What the names of files end with.
const PROGRAM: &str = "kiln";
const CHOICE: &str = "choice";

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
#[derive(Debug, Default)]
pub struct DiskCache {
    folder: Option<PathBuf>,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    failed_writes: AtomicU64,
    /// Done before the first write.
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
    /// Programs that could not be written.
    pub failed_writes: u64,
}

impl DiskCache {
    /// The cache in `KILN_CACHE_DIR`, else in `kiln` under `XDG_CACHE_HOME`, else in
    /// `~/.cache/kiln`. No cache where none of these is set, or where `KILN_CACHE_DIR` is empty.
    pub fn from_env() -> DiskCache {
        let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = match env::var_os("KILN_CACHE_DIR") {
            Some(dir) if dir.is_empty() => None,
            Some(dir) => Some(PathBuf::from(dir)),
            None => set("XDG_CACHE_HOME")
                .or_else(|| set("HOME").map(|home| home.join(".cache")))
                .map(|cache| cache.join("kiln")),
        };
        DiskCache { folder, ..DiskCache::default() }
    }

    /// The cache in a folder, which is made when the first program is stored.
    pub fn at(folder: impl Into<PathBuf>) -> DiskCache {
        DiskCache { folder: Some(folder.into()), ..DiskCache::default() }
    }

    /// No cache: nothing is found and nothing kept.
    pub fn none() -> DiskCache {
        DiskCache::default()
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

    fn store_as(&self, key: &str, kind: &'static str, bytes: &[u8]) {
        let Some(entry) = self.entry(key, kind) else { return };
        self.tidied.get_or_init(|| entry.remove_leftovers());
        if entry.write(bytes).is_err() {
            self.failed_writes.fetch_add(1, Relaxed);
        }
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
        all.sort();
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
        let left = self.folder.as_deref().map(entry::leftovers).unwrap_or_default();
        for path in [PROGRAM, CHOICE].into_iter().flat_map(|kind| self.files(kind)).chain(left) {
            fs::remove_file(&path).map_err(|e| Error::File {
                what: "cannot remove",
                message: e.to_string(),
                path: path.clone(),
            })?;
        }
        Ok(())
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let entries = self.folder.as_ref().and_then(|f| fs::read_dir(f).ok());
        let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
        paths.filter(|p| p.extension().is_some_and(|e| e == kind)).collect()
    }

    /// The entry of a key; none without a folder, or for a key that would lead out of it.
    fn entry(&self, key: &str, kind: &'static str) -> Option<Entry> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = !key.is_empty() && key.bytes().all(plain);
        Some(Entry::new(self.folder.as_deref().filter(|_| fits)?, key, kind))
    }
}

//! The programs kept on disk between processes.
//!
//! One file a program, named by the SHA-256 of everything it depends on. A file is written under a name of its own and renamed, so that parallel
//! writers and a crash leave whole files only; its contents carry a digest, so that damage is noticed and the program is compiled again.
//! A cache that cannot be read or written never fails a launch: it is counted, and `kiln doctor` reports it.

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, fs, io, process};

const MAGIC: &[u8; 8] = b"kiln\0\x01\r\n";
const DIGEST: usize = 32;
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
    /// The cache in `KILN_CACHE_DIR`, else in `kiln` under `XDG_CACHE_HOME`, else in `~/.cache/kiln`. No cache where none of these is set, or where
    /// `KILN_CACHE_DIR` is empty.
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
        hex(&hash.finalize())
    }

    /// What is kept under a key. Damaged files count as absent.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        match fs::read(self.path(key, PROGRAM)?) {
            Ok(file) => match payload(&file) {
                Some(bytes) => {
                    self.hits.fetch_add(1, Relaxed);
                    Some(bytes.to_vec())
                }
                None => self.missed(&self.damaged),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.missed(&self.misses),
            Err(_) => self.missed(&self.damaged),
        }
    }

    fn missed(&self, counter: &AtomicU64) -> Option<Vec<u8>> {
        counter.fetch_add(1, Relaxed);
        None
    }

    /// Counts a program that was found whole but that the device did not take: it is compiled again.
    pub(crate) fn reject(&self) {
        self.damaged.fetch_add(1, Relaxed);
    }

    /// Keeps bytes under a key. Failure is counted, not reported: the program is there, only the next process is slower.
    pub fn store(&self, key: &str, bytes: &[u8]) {
        self.store_as(key, PROGRAM, bytes);
    }

    fn store_as(&self, key: &str, kind: &str, bytes: &[u8]) {
        let Some(path) = self.path(key, kind) else { return };
        if write_whole(&path, bytes).is_err() {
            self.failed_writes.fetch_add(1, Relaxed);
        }
    }

    /// A choice kept under a key. Damaged files count as absent.
    pub(crate) fn load_choice(&self, key: &str) -> Option<String> {
        let file = fs::read(self.path(key, CHOICE)?).ok()?;
        let text = payload(&file).and_then(|bytes| std::str::from_utf8(bytes).ok());
        if text.is_none() {
            self.damaged.fetch_add(1, Relaxed);
        }
        text.map(str::to_owned)
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
        let sizes = self.files(PROGRAM).into_iter().filter_map(|p| fs::metadata(p).ok()).map(|m| m.len());
        sizes.fold((0, 0), |(n, total), size| (n + 1, total + size))
    }

    /// The choices that tuning has kept, as lines of text: Kiln's version, the device, its driver and compiler, the question, the choice. In the order of the text.
    pub fn choices(&self) -> Vec<String> {
        let text = |path: PathBuf| String::from_utf8(payload(&fs::read(path).ok()?)?.to_vec()).ok();
        let mut all: Vec<String> = self.files(CHOICE).into_iter().filter_map(text).collect();
        all.sort();
        all
    }

    /// Whether programs can be kept, found out by writing a file; the system's words if not.
    pub fn check_writable(&self) -> std::result::Result<(), String> {
        let Some(path) = self.path("writable-check", PROGRAM) else {
            return Err("no folder: set KILN_CACHE_DIR or HOME".into());
        };
        write_whole(&path, b"").map_err(|e| e.to_string())?;
        fs::remove_file(path).map_err(|e| e.to_string())
    }

    /// Removes every program, and every choice.
    ///
    /// # Errors
    /// [`Error::File`] names the first file that could not be removed.
    pub fn clear(&self) -> Result<()> {
        for path in [PROGRAM, CHOICE].into_iter().flat_map(|kind| self.files(kind)) {
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

    fn path(&self, key: &str, kind: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.{kind}")))
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static UNIQUE: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = Vec::with_capacity(MAGIC.len() + DIGEST + bytes.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&Sha256::digest(bytes));
    file.extend_from_slice(bytes);
    let own = path.with_extension(format!("{}-{}", process::id(), UNIQUE.fetch_add(1, Relaxed)));
    fs::write(&own, file).and_then(|()| fs::rename(&own, path)).inspect_err(|_| {
        let _ = fs::remove_file(&own);
    })
}

/// The bytes of a whole file, if its digest holds.
fn payload(file: &[u8]) -> Option<&[u8]> {
    let (digest, bytes) = file.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
    (Sha256::digest(bytes).as_slice() == digest).then_some(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

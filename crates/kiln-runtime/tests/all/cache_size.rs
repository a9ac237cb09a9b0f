//! The size of the disk cache, pruning it, and carrying it to another machine.

use kiln_runtime::{DiskCache, Exchanged};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

/// What a file has beside its program: a magic and a digest.
const HEAD: u64 = 40;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kiln-size-test-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn cache(&self, limit: u64) -> DiskCache {
        DiskCache::at(&self.0).with_limit(Some(limit))
    }

    /// Says that a program was last used so long ago.
    fn used(&self, key: &str, ago: Duration) {
        let file = File::open(self.0.join(format!("{key}.kiln"))).unwrap();
        file.set_modified(SystemTime::now() - ago).unwrap();
    }

    fn has(&self, key: &str) -> bool {
        self.0.join(format!("{key}.kiln")).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(n: usize) -> String {
    DiskCache::key(&[&n.to_le_bytes()])
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let folder = Folder::new();
    let cache = folder.cache(10 * (100 + HEAD));
    for n in 0..10 {
        cache.store(&key(n), &[n as u8; 100]);
        folder.used(&key(n), HOUR * (100 - n as u32));
    }
    assert_eq!((cache.usage(), cache.stats().evicted), ((10, 10 * (100 + HEAD)), 0));
    // It is used, and so it is the newest.
    assert_eq!(cache.load(&key(0)).as_deref(), Some(&[0; 100][..]));
    cache.store(&key(10), &[10; 100]);
    assert!(cache.usage().1 <= 10 * (100 + HEAD));
    assert!(folder.has(&key(0)) && folder.has(&key(10)) && folder.has(&key(9)));
    assert!(!folder.has(&key(1)));
    assert_eq!(cache.stats().evicted as usize, 11 - cache.usage().0);
}

#[test]
fn the_size_holds_whatever_is_stored() {
    let folder = Folder::new();
    let limit = 5000;
    let cache = folder.cache(limit);
    let mut state = 7u64;
    for n in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = (state >> 33) as usize % 2000;
        cache.store(&key(n), &vec![n as u8; length]);
        assert!(cache.usage().1 <= limit, "{} bytes after {n}", cache.usage().1);
        assert!(folder.has(&key(n)), "the new one stays");
    }
    // One that is larger than all may be is not kept, and takes nobody's place.
    let before = cache.usage();
    cache.store(&key(1000), &vec![0; limit as usize]);
    assert_eq!((cache.usage(), cache.stats().failed_writes), (before, 1));
    let nothing = folder.cache(0);
    nothing.store(&key(1001), &[]);
    assert_eq!(nothing.stats().failed_writes, 1);
    let unlimited = DiskCache::at(&folder.0).with_limit(None);
    unlimited.store(&key(1000), &vec![0; 3 * limit as usize]);
    assert!(folder.has(&key(1000)));
}

/// Variable by which a test of this program is the child of another.
const CHILD: &str = "CACHE_SIZE_TEST_CHILD";

/// Several processes write, read and remove at once: what is read is right, and the size holds.
#[test]
fn several_processes_share_a_cache() {
    let limit = 40_000;
    let contents = |n: usize| vec![n as u8; 100 + 37 * (n % 50)];
    if let Some(folder) = std::env::var_os(CHILD) {
        let cache = DiskCache::at(PathBuf::from(folder)).with_limit(Some(limit));
        let mut found = 0;
        for round in 0..400 {
            let n = round * 7 % 200;
            match cache.load(&key(n)) {
                Some(bytes) => {
                    assert_eq!(bytes, contents(n));
                    found += 1;
                }
                None => cache.store(&key(n), &contents(n)),
            }
        }
        let stats = cache.stats();
        assert_eq!((stats.damaged, stats.failed_writes), (0, 0), "{stats:?}, {found} found");
        return;
    }
    let folder = Folder::new();
    let name = "cache_size::several_processes_share_a_cache";
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(CHILD, &folder.0).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..4).map(|_| child()).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let (programs, bytes) = folder.cache(limit).usage();
    assert!(programs > 10 && bytes <= limit, "{programs} programs of {bytes} bytes");
}

/// Each cache here is a process's. Whether one has looked at the folder shows in what a crash left,
/// which it removes then.
#[test]
fn few_processes_look_at_a_large_folder() {
    let folder = Folder::new();
    let limit = 250_000;
    let store = |n: usize, limit: u64| folder.cache(limit).store(&key(n), &[0; 60]);
    let many = folder.cache(limit);
    (0..1200).for_each(|n| many.store(&key(n), &[0; 60]));
    let left = folder.0.join(format!("{}.tmp-0123456789abcdef", key(0)));
    let leave = || {
        fs::write(&left, b"half a prog").unwrap();
        File::options().write(true).open(&left).unwrap().set_modified(SystemTime::now() - HOUR * 2).unwrap();
    };
    leave();
    (1500..1580).for_each(|n| store(n, limit));
    assert!(left.exists(), "a process has looked that need not");
    store(1600, limit - 1);
    assert!(!left.exists(), "another limit needs a look");

    // What is left for others is damaged.
    store(1601, limit);
    leave();
    fs::write(folder.0.join("room.room"), b"250000 99999999999 0").unwrap();
    store(1602, limit);
    assert!(!left.exists());

    // However many processes there are, they keep the limit.
    for n in 2000..3600 {
        store(n, limit);
        assert!(n % 250 > 0 || folder.cache(limit).usage().1 <= limit, "after {n}");
    }
    let (programs, bytes) = folder.cache(limit).usage();
    assert!(programs > 2000 && bytes <= limit, "{programs} programs of {bytes} bytes");
    many.clear().unwrap();
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "clearing removes all");
}

#[test]
fn pruning_by_age_and_to_a_size() {
    let folder = Folder::new();
    let cache = DiskCache::at(&folder.0);
    for n in 0..8 {
        cache.store(&key(n), &[0; 60]);
        folder.used(&key(n), HOUR * (n as u32 + 1));
    }
    assert_eq!(cache.prune_unused(HOUR * 100), (0, 0));
    assert_eq!(cache.prune_unused(HOUR * 6), (3, 3 * (60 + HEAD)));
    assert!(folder.has(&key(4)) && !folder.has(&key(5)));
    assert_eq!(cache.prune_to(1_000_000), (0, 0));
    assert_eq!(cache.prune_to(2 * (60 + HEAD)), (3, 3 * (60 + HEAD)));
    assert!(folder.has(&key(0)) && folder.has(&key(1)) && !folder.has(&key(2)));
    assert_eq!(cache.prune_to(0).0, 2);
    assert_eq!(DiskCache::at(folder.0.join("nowhere")).prune_to(0), (0, 0));
}

fn exported(folder: &Folder) -> PathBuf {
    let cache = DiskCache::at(folder.0.join("from"));
    for n in 0..5 {
        cache.store(&key(n), &vec![n as u8; 1 + 50 * n]);
    }
    // A damaged entry stays behind.
    cache.store(&key(5), b"to be damaged");
    let path = folder.0.join("from").join(format!("{}.kiln", key(5)));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let file = folder.0.join("cache file");
    assert_eq!(cache.export(&file).unwrap(), Exchanged { programs: 5, choices: 0 });
    file
}

#[test]
fn what_is_exported_is_imported() {
    let folder = Folder::new();
    let file = exported(&folder);
    let other = DiskCache::at(folder.0.join("to"));
    other.store(&key(77), b"of its own");
    assert_eq!(other.import(&file).unwrap(), Exchanged { programs: 5, choices: 0 });
    for n in 0..5 {
        assert_eq!(other.load(&key(n)), Some(vec![n as u8; 1 + 50 * n]));
    }
    assert_eq!(other.load(&key(77)).as_deref(), Some(&b"of its own"[..]));
    assert_eq!(other.load(&key(5)), None);
    assert!(DiskCache::none().import(&file).is_err());
    assert!(other.export(Path::new("no/such/folder/file")).is_err());
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing half-written is left: {left:?}");
}

#[test]
fn a_damaged_export_is_refused_whole() {
    let folder = Folder::new();
    let file = exported(&folder);
    let whole = fs::read(&file).unwrap();
    let to = folder.0.join("to");
    let cache = DiskCache::at(&to);
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let error = cache.import(&file).unwrap_err().to_string();
        assert!(error.contains("cache file"), "{error}");
        assert!(!to.exists(), "nothing was kept");
    };
    for at in (0..whole.len()).step_by(3) {
        refused(&whole[..at]);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        refused(&bytes);
    }
    refused(&[&whole[..], b"more"].concat());
    // A package is no cache.
    refused(&kiln_runtime::PackageBuilder::default().finish());
}

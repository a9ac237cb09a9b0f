//! Programs in memory and on disk.

use crate::kernels::{add, add_one_2d, assert_works, double};
use crate::probe::Probe;
use kiln_runtime::{Device, DiskCache, DiskStats};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A folder of a test's own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kiln-cache-test-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        Folder(std::env::temp_dir().join(name))
    }

    fn cache(&self) -> DiskCache {
        DiskCache::at(&self.0)
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compiles(probe: &Probe) -> usize {
    probe.counts().compiles.load(SeqCst)
}

fn loads(probe: &Probe) -> usize {
    probe.counts().loads.load(SeqCst)
}

#[test]
fn many_threads_compile_a_new_kernel_once() {
    let (device, probe) = Probe::device(true, DiskCache::none());
    let threads = 8;
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                assert_works(&device);
            });
        }
    });
    assert_eq!((compiles(&probe), device.programs().len()), (1, 1));
    assert_eq!(probe.counts().launches.load(SeqCst), threads);
}

#[test]
fn what_a_kernel_is_specialised_to_makes_programs() {
    let (device, probe) = Probe::device(true, DiskCache::none());
    let launch = |n: usize, by: f32| {
        let x = device.tensor(&vec![1.0; n], [n]).unwrap();
        let mut y = device.zeros([n]).unwrap();
        add(&x, &mut y, by).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), vec![1.0 + by; n]);
        compiles(&probe)
    };
    assert_eq!(launch(32, 1.0), 1);
    assert_eq!(launch(64, 2.0), 1, "a multiple of 16 again, and values of scalars do not count");
    assert_eq!(launch(33, 1.0), 2, "an odd extent");
    assert_eq!(launch(35, 1.0), 2);
    assert_eq!(launch(36, 1.0), 3, "a multiple of 4");
}

#[test]
fn a_cleared_cache_compiles_again() {
    let (device, probe) = Probe::device(true, DiskCache::none());
    assert!(device.programs().is_empty());
    assert_works(&device);
    device.programs().clear();
    assert_works(&device);
    assert_eq!(compiles(&probe), 2);
}

#[test]
fn a_refused_kernel_is_traced_once() {
    use kiln_lang::prelude::*;
    use kiln_runtime::{Error, Tensor};
    static TRACES: AtomicUsize = AtomicUsize::new(0);
    #[kernel(crate = kiln_runtime)]
    fn wrong(_y: &mut Tensor<f32, 1>) {
        TRACES.fetch_add(1, SeqCst);
        let _ = zeros::<f32>(4) + zeros::<f32>(5);
    }
    let device = Probe::device(true, DiskCache::none()).0;
    let mut y = device.zeros([3]).unwrap();
    for _ in 0..3 {
        assert!(matches!(wrong(&mut y).launch(&device), Err(Error::Kernel { .. })));
    }
    assert_eq!(TRACES.load(SeqCst), 1);
}

#[test]
fn a_second_device_loads_what_the_first_compiled() {
    let folder = Folder::new();
    let (first, probe) = Probe::device(true, folder.cache());
    assert_works(&first);
    assert_eq!((compiles(&probe), loads(&probe)), (1, 0));
    assert_eq!(first.disk_cache().stats(), DiskStats { misses: 1, ..DiskStats::default() });
    assert_eq!(first.disk_cache().usage().0, 1);

    let (second, probe) = Probe::device(true, folder.cache());
    assert_works(&second);
    assert_eq!((compiles(&probe), loads(&probe)), (0, 1));
    assert_eq!(second.disk_cache().stats(), DiskStats { hits: 1, ..DiskStats::default() });
    for (device, compiled) in [(&first, true), (&second, false)] {
        let [build] = device.programs().builds()[..] else { panic!("one program") };
        assert_eq!((build.kernel, build.stages.is_some()), ("add", compiled));
        assert!(build.tracing < build.total);
    }

    let mut y = second.tensor(&[1.0; 8], [8]).unwrap();
    double(&mut y).launch(&second).unwrap();
    assert_eq!((compiles(&probe), loads(&probe)), (1, 1), "another kernel is another file");
    assert_eq!(folder.files().len(), 2);
    second.disk_cache().clear().unwrap();
    assert_eq!((folder.files().len(), second.disk_cache().usage()), (0, (0, 0)));
}

#[test]
fn backends_without_artifacts_leave_the_folder_alone() {
    let folder = Folder::new();
    let interp = kiln_interp::Interp::new(kiln_interp::Options::default());
    let device = Device::with_backend(Box::new(interp), folder.cache());
    assert_works(&device);
    assert!(!folder.0.exists());
    assert_eq!(device.disk_cache().stats(), DiskStats::default());
}

/// Damages the only file of a folder, and says what a new device does about it.
fn after_damage(folder: &Folder, damage: impl FnOnce(&mut Vec<u8>)) -> (Probe, DiskStats) {
    let files = folder.files();
    assert_eq!(files.len(), 1);
    let mut bytes = fs::read(&files[0]).unwrap();
    damage(&mut bytes);
    fs::write(&files[0], bytes).unwrap();
    let (device, probe) = Probe::device(true, folder.cache());
    assert_works(&device);
    (probe, device.disk_cache().stats())
}

#[test]
fn a_damaged_file_is_built_again() {
    let folder = Folder::new();
    assert_works(&Probe::device(true, folder.cache()).0);
    let whole = fs::read(&folder.files()[0]).unwrap();
    let rebuilt = DiskStats { damaged: 1, ..DiskStats::default() };
    for keep in [0, 1, 8, 39, 40, whole.len() / 2, whole.len() - 1] {
        let (probe, stats) = after_damage(&folder, |bytes| bytes.truncate(keep));
        assert_eq!((compiles(&probe), loads(&probe), stats), (1, 0, rebuilt), "{keep} bytes");
        assert_eq!(fs::read(&folder.files()[0]).unwrap(), whole, "the file is whole again");
    }
    // A bit in the magic, the digest, and the contents.
    for (position, bit) in
        [(0, 0), (7, 3), (8, 0), (39, 7), (40, 1), (whole.len() / 2, 5), (whole.len() - 1, 2)]
    {
        let (probe, stats) = after_damage(&folder, |bytes| bytes[position] ^= 1 << bit);
        assert_eq!((compiles(&probe), loads(&probe), stats), (1, 0, rebuilt), "bit {bit} of byte {position}");
    }
    let (probe, stats) = after_damage(&folder, |bytes| bytes.extend_from_slice(b"more"));
    assert_eq!((compiles(&probe), stats), (1, rebuilt));
    let (probe, stats) = after_damage(&folder, |_| {});
    assert_eq!((compiles(&probe), stats), (0, DiskStats { hits: 1, ..DiskStats::default() }), "control");
}

#[test]
fn a_whole_file_that_the_device_refuses_is_built_again() {
    let folder = Folder::new();
    assert_works(&Probe::device(true, folder.cache()).0);
    let (device, probe) = Probe::device(true, folder.cache());
    probe.refuse_artifacts();
    assert_works(&device);
    assert_eq!((compiles(&probe), loads(&probe)), (1, 0));
    assert_eq!(device.disk_cache().stats(), DiskStats { hits: 1, damaged: 1, ..DiskStats::default() });
}

#[test]
fn a_file_that_is_a_folder_does_not_fail_a_launch() {
    let folder = Folder::new();
    assert_works(&Probe::device(true, folder.cache()).0);
    let path = folder.files().remove(0);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (device, probe) = Probe::device(true, folder.cache());
    assert_works(&device);
    assert_eq!(compiles(&probe), 1);
    let stats = device.disk_cache().stats();
    assert_eq!((stats.damaged, stats.failed_writes), (1, 1));
    assert_eq!(folder.files(), [path], "nothing half-written is left");
}

/// A path whose parent is a file: nobody can make a folder there, not even the superuser.
fn impossible(folder: &Folder) -> PathBuf {
    fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("file");
    fs::write(&file, b"").unwrap();
    file.join("cache")
}

#[test]
fn a_cache_that_cannot_be_written_does_not_fail_a_launch() {
    let folder = Folder::new();
    let cache = DiskCache::at(impossible(&folder));
    assert!(cache.check_writable().is_err());
    let (device, probe) = Probe::device(true, cache);
    assert_works(&device);
    assert_works(&device);
    assert_eq!(compiles(&probe), 1);
    let stats = device.disk_cache().stats();
    assert_eq!((stats.hits, stats.failed_writes), (0, 1));
    assert_eq!(stats.misses + stats.damaged, 1);
    assert_eq!(device.disk_cache().usage(), (0, 0));
    device.disk_cache().clear().unwrap();
}

#[test]
fn writable_folders_are_recognised() {
    let folder = Folder::new();
    folder.cache().check_writable().unwrap();
    assert!(folder.files().is_empty());
    assert!(DiskCache::none().check_writable().unwrap_err().contains("KILN_CACHE_DIR"));
}

#[test]
fn parallel_writers_leave_whole_files() {
    let folder = Folder::new();
    let caches: Vec<DiskCache> = (0..6).map(|_| folder.cache()).collect();
    let key = DiskCache::key(&[b"shared"]);
    let contents = |writer: usize| vec![writer as u8; 100_000 + writer];
    std::thread::scope(|scope| {
        for (writer, cache) in caches.iter().enumerate() {
            let (key, contents) = (&key, &contents);
            scope.spawn(move || {
                for _ in 0..20 {
                    cache.store(key, &contents(writer));
                    let found = cache.load(key).expect("there is a file from the first rename on");
                    assert_eq!(found, contents(found[0] as usize), "never a mixture");
                }
            });
        }
    });
    for cache in &caches {
        assert_eq!(cache.stats(), DiskStats { hits: 20, ..DiskStats::default() });
    }
    assert_eq!(folder.files().len(), 1, "no temporary file is left");
}

#[test]
fn devices_that_compile_at_once_share_a_folder() {
    let folder = Folder::new();
    let devices: Vec<(Device, Probe)> = (0..6).map(|_| Probe::device(true, folder.cache())).collect();
    std::thread::scope(|scope| {
        for (device, _) in &devices {
            scope.spawn(|| {
                assert_works(device);
                let x = device.tensor(&[1.0; 6], [2, 3]).unwrap();
                let mut y = device.uninit([2, 3]).unwrap();
                add_one_2d(&x, &mut y).launch(device).unwrap();
                assert_eq!(y.to_vec().unwrap(), [2.0; 6]);
            });
        }
    });
    for (device, probe) in &devices {
        let stats = device.disk_cache().stats();
        assert_eq!((compiles(probe) + loads(probe), stats.damaged, stats.failed_writes), (2, 0, 0));
    }
    assert_eq!(folder.files().len(), 2);
}

#[test]
fn keys_depend_on_every_part_and_its_borders() {
    let key = DiskCache::key(&[b"ab", b"c"]);
    assert_eq!(key.len(), 64);
    assert_eq!(key, DiskCache::key(&[b"ab", b"c"]));
    for other in [&[b"a" as &[u8], b"bc"][..], &[b"abc"], &[b"ab", b"c", b""], &[b"c", b"ab"]] {
        assert_ne!(key, DiskCache::key(other));
    }
}

#[test]
fn no_cache_and_foreign_files() {
    let none = DiskCache::none();
    none.store("key", b"bytes");
    assert_eq!((none.load("key"), none.folder(), none.usage()), (None, None, (0, 0)));
    assert_eq!(none.stats(), DiskStats::default());

    let folder = Folder::new();
    fs::create_dir_all(&folder.0).unwrap();
    let foreign = folder.0.join("notes.txt");
    fs::write(&foreign, b"mine").unwrap();
    let cache = folder.cache();
    cache.store("key", b"");
    assert_eq!(cache.load("key"), Some(Vec::new()), "nothing is something");
    cache.clear().unwrap();
    assert!(Path::exists(&foreign), "clearing removes programs only");
}

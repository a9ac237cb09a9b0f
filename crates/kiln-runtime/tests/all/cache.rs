//! Programs in memory and on disk.

use crate::kernels::{add, add_one_2d, assert_works, double};
use crate::probe::Probe;
use kiln_runtime::{Device, DiskCache, DiskStats};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

/// A folder of a test's own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kiln-cache-test-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let folder = std::env::temp_dir().join(name);
        // A process of this number that was ended may have left one.
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
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
fn what_a_kernel_is_specialized_to_makes_programs() {
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
        let builds = device.programs().builds();
        let [build] = &builds[..] else { panic!("one program") };
        assert_eq!((&*build.kernel, build.stages.is_some()), ("add", compiled));
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

/// A path whose parent is a file: not even the superuser can make a folder there.
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
fn writable_folders_are_recognized() {
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

#[test]
fn a_renamed_entry_is_no_other_kernel() {
    let folder = Folder::new();
    let cache = folder.cache();
    let [one, other] = [DiskCache::key(&[b"one"]), DiskCache::key(&[b"other"])];
    cache.store(&one, b"the code of one");
    let path = |key: &str| folder.0.join(format!("{key}.kiln"));
    fs::copy(path(&one), path(&other)).unwrap();
    assert_eq!(cache.load(&one).as_deref(), Some(&b"the code of one"[..]));
    assert_eq!(cache.load(&other), None);
    // Nor is a program a choice, or a choice a program.
    fs::copy(path(&one), path(&one).with_extension("choice")).unwrap();
    assert!(cache.choices().is_empty());
    assert_eq!(cache.stats(), DiskStats { hits: 1, damaged: 1, ..DiskStats::default() });
}

#[test]
fn a_renamed_choice_answers_no_other_question() {
    let folder = Folder::new();
    let device = || Probe::device(true, folder.cache()).0;
    device().keep_choice("how to add", "by fours");
    let path = folder.files().remove(0);
    fs::rename(&path, path.with_file_name(format!("{}.choice", DiskCache::key(&[b"another"])))).unwrap();
    assert!(folder.cache().choices().is_empty());
    assert_eq!(device().choice("how to add"), None);
}

/// Keys that would lead out of the folder.
#[test]
fn a_key_is_no_path() {
    let folder = Folder::new();
    let cache = DiskCache::at(folder.0.join("inner"));
    for key in ["", "..", "../out", "/tmp/out", "a/b", "a.b", "a\0b"] {
        cache.store(key, b"bytes");
        assert_eq!(cache.load(key), None, "{key}");
    }
    assert!(!folder.0.exists());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn entry(folder: &Folder, key: &str) -> PathBuf {
        fs::create_dir_all(&folder.0).unwrap();
        folder.0.join(format!("{key}.kiln"))
    }

    #[test]
    fn a_link_in_place_of_an_entry_is_not_followed() {
        let folder = Folder::new();
        let key = DiskCache::key(&[b"linked"]);
        let victim = folder.0.join("victim");
        let path = entry(&folder, &key);
        fs::write(&victim, b"precious").unwrap();
        symlink(&victim, &path).unwrap();
        let cache = folder.cache();
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"code");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink(), "the link is gone");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"code"[..]));
        assert_eq!(cache.stats(), DiskStats { hits: 1, damaged: 1, ..DiskStats::default() });
    }

    /// Names that were used for unfinished files before: process and number. Links under them must
    /// not be written through.
    #[test]
    fn links_under_names_that_can_be_guessed_are_left_alone() {
        let folder = Folder::new();
        let key = DiskCache::key(&[b"guessed"]);
        let victim = folder.0.join("victim");
        let path = entry(&folder, &key);
        fs::write(&victim, b"precious").unwrap();
        for number in 0..2000 {
            symlink(&victim, path.with_extension(format!("{}-{number}", std::process::id()))).unwrap();
        }
        let cache = folder.cache();
        cache.store(&key, b"code");
        cache.check_writable().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"code"[..]));
    }

    /// What would wait for a writer, or never end.
    #[test]
    fn pipes_and_devices_are_no_entries() {
        let folder = Folder::new();
        let key = DiskCache::key(&[b"pipe"]);
        let path = entry(&folder, &key);
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends with zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let cache = folder.cache();
        assert_eq!(cache.load(&key), None);
        assert_eq!(cache.usage(), (0, 0));
        cache.store(&key, b"code");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"code"[..]), "it took the pipe's place");

        let question = folder.0.join(format!("{}.choice", DiskCache::key(&[b"question"])));
        let name = CString::new(question.as_os_str().as_bytes()).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(cache.choices().is_empty());
        let zeros = DiskCache::key(&[b"zeros"]);
        symlink("/dev/zero", folder.0.join(format!("{zeros}.kiln"))).unwrap();
        assert_eq!(cache.load(&zeros), None);
    }

    #[test]
    fn the_folder_is_its_users_alone() {
        let folder = Folder::new();
        folder.cache().store("key", b"code");
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(folder.0.join("key.kiln")).unwrap().nlink(), 1);
    }
}

#[test]
fn what_a_crash_left_is_removed() {
    let folder = Folder::new();
    fs::create_dir_all(&folder.0).unwrap();
    let key = DiskCache::key(&[b"crashed"]);
    let file = |end: &str, hours: u64| {
        let path = folder.0.join(format!("{key}.{end}"));
        fs::write(&path, b"half a prog").unwrap();
        let time = SystemTime::now() - Duration::from_secs(3600 * hours);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let old = [file("tmp-0123456789abcdef", 2), file("4711-3", 48)];
    let fresh = file("tmp-fedcba9876543210", 0);
    let foreign = folder.0.join("notes.tmp");
    fs::write(&foreign, b"mine").unwrap();
    let cache = folder.cache();
    cache.store(&key, b"code");
    assert!(old.iter().all(|path| !path.exists()), "{old:?}");
    assert!(fresh.exists(), "another process may be writing it");
    cache.clear().unwrap();
    assert_eq!(folder.files(), [foreign], "clearing removes what is unfinished too");
}

/// Each with an extent of its own, as a specialization to a constant has one.
fn specialize(device: &Device, constants: impl IntoIterator<Item = usize>) {
    use kiln_lang::prelude::*;
    use kiln_runtime::Tensor;
    #[kernel(crate = kiln_runtime)]
    fn plus(y: &mut Tensor<f32, 1>, constant: usize) {
        let tile = y.tile(program_id(0) * 4, 4);
        tile.store(tile.load(0.0) + constant as f64);
    }
    for constant in constants {
        let mut y = device.zeros([4]).unwrap();
        plus(&mut y, constant).launch(device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [constant as f32; 4]);
    }
}

#[test]
fn the_program_that_was_not_launched_for_longest_goes() {
    let (device, probe) = Probe::device(true, DiskCache::none());
    device.programs().set_limit(3);
    specialize(&device, [0, 1, 2]);
    assert_eq!((compiles(&probe), device.programs().len()), (3, 3));
    specialize(&device, [0, 3]); // 1 goes
    assert_eq!((compiles(&probe), device.programs().len()), (4, 3));
    specialize(&device, [0, 2, 3]);
    assert_eq!(compiles(&probe), 4, "those are there");
    specialize(&device, [1]);
    assert_eq!((compiles(&probe), device.programs().len()), (5, 3));
    specialize(&device, 10..200);
    assert_eq!((compiles(&probe), device.programs().len()), (195, 3));
    device.programs().set_limit(0);
    assert_eq!((device.programs().limit(), device.programs().len()), (1, 1));
    specialize(&device, [199]);
    assert_eq!(compiles(&probe), 195, "the last one stayed");
}

#[test]
fn threads_that_launch_while_programs_go() {
    let (device, _) = Probe::device(true, DiskCache::none());
    device.programs().set_limit(2);
    std::thread::scope(|scope| {
        for first in 0..6 {
            let device = &device;
            scope.spawn(move || specialize(device, (0..40).map(|n| (first + n) % 9)));
        }
    });
    assert!(device.programs().len() <= 2);
}

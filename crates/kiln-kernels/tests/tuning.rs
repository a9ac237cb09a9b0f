//! Choices by measurement: that they are made within the budget, kept, found again, made again
//! where a file is no good, and never change what is computed.

use kiln_cpu::CpuBackend;
use kiln_kernels::{Attention, Matmul, Tuning};
use kiln_runtime::{Device, DiskCache, Tensor};
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// More than it takes to try all there is, however busy the machine is.
const LONG: Tuning = Tuning::budget(Duration::from_secs(24 * 3600));

/// A cache folder of a test's own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kiln-tuning-test-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let folder = std::env::temp_dir().join(name);
        // A process of this number that was ended may have left one.
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    /// A device as another process would have it: it shares only the folder.
    fn device(&self) -> Device {
        Device::with_backend(Box::new(CpuBackend::new()), DiskCache::at(&self.0))
    }

    fn choices(&self) -> Vec<String> {
        DiskCache::at(&self.0).choices()
    }

    /// The files of choices.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "choice")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Multiplies whole numbers, so that every order of additions gives the same, and compares all of
/// them.
fn multiply(device: &Device, [m, n, k]: [usize; 3], tuning: Tuning) {
    let numbers = |rows: usize, columns: usize| -> Vec<f32> {
        (0..rows * columns).map(|i| ((i * 7 + i / 13) % 9) as f32 - 4.0).collect()
    };
    let (x, y) = (numbers(m, k), numbers(k, n));
    let (a, b) = (device.tensor(&x, [m, k]).unwrap(), device.tensor(&y, [k, n]).unwrap());
    let mut c: Tensor<f32, 2> = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
    Matmul::new(&a, &b).scale(0.5).tuning(tuning).run(&mut c).unwrap();
    for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
        let (i, j) = (at / n, at % n);
        let sum: f32 = (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
        assert_eq!(found, 0.5 * sum, "{m} x {n} x {k}, ({i}, {j})");
    }
}

/// How many tiles a device has compiled the product for.
fn tiles(device: &Device) -> usize {
    device.programs().builds().iter().filter(|build| &*build.kernel == "matmul").count()
}

/// The names of the shape's ways, by the choices of all.
fn question(choice: &str) -> &str {
    choice.lines().rev().nth(1).unwrap()
}

#[test]
fn a_choice_is_made_once_and_found_by_the_next_process() {
    let folder = Folder::new();
    let first = folder.device();
    multiply(&first, [150, 190, 300], LONG);
    let tried = tiles(&first);
    assert!(tried > 1, "several tiles were tried");
    let [choice] = &folder.choices()[..] else { panic!("one choice") };
    assert!(
        choice.contains("f32 to f32, 1 x 160 x 192 x 320, a by rows, b by rows, through an epilogue"),
        "{choice}"
    );
    multiply(&first, [150, 190, 300], LONG);
    multiply(&first, [154, 186, 308], LONG);
    assert_eq!((tiles(&first), folder.files().len()), (tried, 1), "the class is known");

    let second = folder.device();
    multiply(&second, [160, 192, 320], Tuning::KEPT);
    assert_eq!(tiles(&second), 1, "nothing was tried");
    assert_eq!(folder.choices(), [choice.as_str()]);
}

#[test]
fn what_was_kept_is_taken() {
    let folder = Folder::new();
    multiply(&folder.device(), [300, 300, 600], LONG);
    let choice = folder.choices().remove(0);
    for (name, others) in [("64 x 256 x 512", 1), ("a way of an older Kiln", 0)] {
        folder.device().keep_choice(question(&choice), name);
        let device = folder.device();
        multiply(&device, [300, 300, 600], Tuning::OFF);
        assert_eq!(tiles(&device), 1);
        multiply(&device, [300, 300, 600], LONG);
        assert_eq!(tiles(&device), 1 + others, "{name}");
    }
}

#[test]
fn without_time_or_without_a_wish_nothing_is_measured() {
    let folder = Folder::new();
    for tuning in [Tuning::OFF, Tuning::KEPT, Tuning::default()] {
        let device = folder.device();
        multiply(&device, [130, 140, 150], tuning);
        assert_eq!((tiles(&device), folder.files().len()), (1, 0), "{tuning:?}");
    }
    // The estimate's tile is measured, then the time is over: that says nothing about others.
    let device = folder.device();
    multiply(&device, [130, 140, 150], Tuning::budget(Duration::from_nanos(1)));
    assert_eq!((tiles(&device), folder.files().len()), (1, 0));
}

#[test]
fn files_that_are_no_good_are_made_again() {
    let folder = Folder::new();
    multiply(&folder.device(), [140, 150, 160], LONG);
    let [path] = &folder.files()[..] else { panic!("one file") };
    let whole = fs::read(path).unwrap();
    let damaged: Vec<Vec<u8>> = (0..whole.len())
        .step_by(7)
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        })
        .chain([vec![], whole[..whole.len() / 2].to_vec()])
        .collect();
    for bytes in damaged {
        fs::write(path, bytes).unwrap();
        assert_eq!(folder.choices(), [""; 0]);
        let device = folder.device();
        multiply(&device, [140, 150, 160], Tuning::KEPT);
        assert_eq!((tiles(&device), device.disk_cache().stats().damaged), (1, 1));
    }
    // Whole, but of another question.
    let (elsewhere, other) = (Folder::new(), [140, 150, 700]);
    multiply(&elsewhere.device(), other, LONG);
    fs::copy(&elsewhere.files()[0], path).unwrap();
    let device = folder.device();
    multiply(&device, [140, 150, 160], LONG);
    assert!(tiles(&device) > 1, "measured again");
    assert_eq!((folder.files().len(), folder.choices().len()), (1, 1));
    assert!(question(&folder.choices()[0]).contains("160 x 160 x 160"));
}

#[test]
fn writers_at_once_leave_one_whole_choice() {
    let folder = Folder::new();
    let devices = [folder.device(), folder.device()];
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, start) = (&devices[thread % 2], &start);
            scope.spawn(move || {
                start.wait();
                multiply(device, [150, 160, 170], LONG);
            });
        }
    });
    assert_eq!((folder.files().len(), folder.choices().len()), (1, 1));
    let tried = devices.each_ref().map(tiles);
    multiply(&devices[0], [150, 160, 170], LONG);
    assert_eq!(devices.each_ref().map(tiles), tried);
}

#[test]
fn a_folder_that_cannot_be_written_costs_only_the_next_process() {
    let folder = Folder::new();
    fs::write(&folder.0, "no folder").unwrap();
    let device = folder.device();
    multiply(&device, [150, 160, 170], LONG);
    let tried = tiles(&device);
    multiply(&device, [150, 160, 170], LONG);
    assert!(tried > 1 && tiles(&device) == tried);
    // The choice, and the programs that were tried.
    assert_eq!(device.disk_cache().stats().failed_writes, 1 + device.programs().len() as u64);
    fs::remove_file(&folder.0).unwrap();
}

#[test]
fn nothing_to_multiply_is_nothing_to_measure() {
    let folder = Folder::new();
    for shape in [[0, 5, 5], [5, 0, 5], [5, 5, 0]] {
        multiply(&folder.device(), shape, LONG);
    }
}

/// Causal attention of whole numbers, compared with a sum over all keys.
fn attend(device: &Device, [queries, keys, width]: [usize; 3], tuning: Tuning) {
    let numbers = |rows: usize| -> Vec<f32> {
        (0..rows * width).map(|i| ((i * 7 + i / 13) % 5) as f32 / 4.0 - 0.5).collect()
    };
    let (x, y) = (numbers(queries), numbers(keys));
    let (q, k) =
        (device.tensor(&x, [1, queries, width]).unwrap(), device.tensor(&y, [1, keys, width]).unwrap());
    let mut o: Tensor<f32, 3> = device.tensor(&vec![f32::NAN; queries * width], [1, queries, width]).unwrap();
    Attention::new().causal().scale(0.25).tuning(tuning).run(&q, &k, &k, &mut o).unwrap();
    for (i, row) in o.to_vec().unwrap().chunks(width).enumerate() {
        let seen = i + keys - queries + 1;
        let score = |j: usize| (0..width).map(|c| x[i * width + c] * y[j * width + c]).sum::<f32>() * 0.25;
        let weights: Vec<f32> = (0..seen).map(|j| score(j).exp()).collect();
        let sum: f32 = weights.iter().sum();
        for (c, found) in row.iter().enumerate() {
            let expected = weights.iter().enumerate().map(|(j, w)| w * y[j * width + c]).sum::<f32>() / sum;
            assert!((found - expected).abs() < 1e-4, "{found} for {expected}, ({i}, {c})");
        }
    }
}

#[test]
fn a_choice_for_attention_is_made_once_and_kept() {
    let folder = Folder::new();
    let tried = |device: &Device| {
        device.programs().builds().iter().filter(|build| &*build.kernel == "attention").count()
    };
    let device = folder.device();
    attend(&device, [70, 90, 20], LONG);
    let all = tried(&device);
    assert!(all > 1, "several tiles were tried");
    let [choice] = &folder.choices()[..] else { panic!("one choice") };
    let expected =
        "attention, f32, 1 x 80 queries, 96 keys, 1 heads of 20 with keys of 1, all before and 0 after";
    assert!(choice.contains(expected), "{choice}");
    // Of the same class.
    attend(&device, [74, 94, 20], LONG);
    assert_eq!((tried(&device), folder.files().len()), (all, 1));
    for (tuning, name) in [(Tuning::KEPT, "64 x 64"), (LONG, "a way of an older Kiln")] {
        folder.device().keep_choice(question(choice), name);
        let device = folder.device();
        attend(&device, [70, 90, 20], tuning);
        assert_eq!(tried(&device), 1, "{name}");
    }
    // Nothing to do, and nothing asked for.
    let device = folder.device();
    attend(&device, [0, 9, 20], LONG);
    attend(&device, [9, 9, 20], Tuning::KEPT);
    assert_eq!(folder.files().len(), 1);
}

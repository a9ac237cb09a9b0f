//! Choosing configurations by measurement: the fastest that is right, kept, found again, and
//! nothing left behind by trials.

use crate::kernels::{add, assert_works};
use crate::probe::Probe;
use kiln_cpu::CpuBackend;
use kiln_lang::prelude::*;
use kiln_runtime::tune::Outcome;
use kiln_runtime::{Device, DiskCache, Error, Tensor, Tune};
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// y = 3 x + 1.
#[kernel(crate = kiln_runtime)]
fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(x.tile(at, block).load(0.0) * 3.0 + 1.0);
}

/// The same otherwise.
#[kernel(crate = kiln_runtime)]
fn scale_again(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(x.tile(at, block).load(0.0) * 3.0 + 0.5 + 0.5);
}

/// x = 2 x + y in place, and y counts the launches: what a run too many would spoil.
#[kernel(crate = kiln_runtime)]
fn accumulate(x: &mut Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let (x, y) = (x.tile(at, block), y.tile(at, block));
    let before = y.load(0.0);
    x.store(x.load(0.0) * 2.0 + before);
    y.store(before + 1.0);
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Config {
    /// A tile too large.
    Uncompiled,
    /// More threads in a block than any device has.
    TooManyThreads,
    /// It stores a part, and faults.
    Faulty,
    /// Off by one, in one element.
    Wrong,
    /// It leaves out all but the first elements.
    Partial,
    Right(usize),
}

/// y = i + 5.
#[kernel(crate = kiln_runtime)]
fn count(y: &mut Tensor<f32, 1>, tile: usize, wrong: bool) {
    let at = program_id(0) * tile;
    let i = iota::<i64>(tile) + at;
    let off = if wrong { 1.0 } else { 0.0 };
    y.tile(at, tile).store(i.cast::<f32>() + 5.0 + select(i.eq(70), off, 0.0));
}

/// The same by threads; the fault comes after stores.
#[kernel(crate = kiln_runtime)]
fn count_by_threads(y: &mut Tensor<f32, 1>, beyond: usize) {
    let i = thread_index();
    y.set(i, 9.0);
    y.set(i, y.get(i + beyond) + 1.0);
}

fn launch(config: Config, y: &mut Tensor<f32, 1>, device: &Device) -> kiln_runtime::Result<()> {
    match config {
        Config::Uncompiled => count(y, 1 << 21, false).launch(device),
        Config::TooManyThreads => count_by_threads(y, 0).grid([1]).block([1 << 20]).launch(device),
        Config::Faulty => count_by_threads(y, 90).grid([1]).block([32]).launch(device),
        Config::Wrong => count(y, 64, true).launch(device),
        Config::Partial => count(y, 64, false).grid([1]).launch(device),
        Config::Right(tile) => count(y, tile, false).launch(device),
    }
}

/// A cache folder of a test's own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kiln-tune-test-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let folder = std::env::temp_dir().join(name);
        // A process of this number that was ended may have left one.
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    /// A device as another process would have it: it shares only the folder.
    fn device(&self) -> Device {
        cpu(DiskCache::at(&self.0))
    }

    fn choices(&self) -> Vec<String> {
        DiskCache::at(&self.0).choices()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cpu(disk: DiskCache) -> Device {
    Device::with_backend(Box::new(CpuBackend::new()), disk)
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 4.0 - 9.0).collect()
}

/// Elements of which a kernel with a program for one or two takes ten milliseconds, so that a busy
/// machine, which wakes a thread some milliseconds late, does not hide that it is the slower one.
const MANY: usize = 3_000_000;

/// What `scale` must give, by f64.
fn scaled(x: &[f32]) -> Vec<f32> {
    x.iter().map(|&x| (f64::from(x) * 3.0 + 1.0) as f32).collect()
}

/// Scales numbers with a tune of these blocks and compares: the block, and how many were tried.
#[track_caller]
fn scale_tuned(device: &Device, n: usize, tune: &Tune<usize>) -> (usize, usize) {
    let x = numbers(n);
    let (source, mut y) = (device.tensor(&x, [n]).unwrap(), device.uninit([n]).unwrap());
    let chosen = tune.run(device, n, |&block| scale(&source, &mut y, block).launch(device)).unwrap();
    assert_eq!(y.to_vec().unwrap(), scaled(&x));
    (*chosen.config(), chosen.trials().len())
}

#[test]
fn the_fastest_is_chosen_wherever_it_is_in_the_list() {
    for blocks in [[1, 2, 4096], [2, 4096, 1], [4096, 1, 2]] {
        let device = cpu(DiskCache::none());
        let tune = Tune::new("scale", blocks);
        // A program costs far more than an element.
        assert_eq!(scale_tuned(&device, MANY, &tune), (4096, 3));
        // The process knows it.
        assert_eq!(scale_tuned(&device, MANY, &tune), (4096, 0));
    }
}

#[test]
fn bad_candidates_are_dropped_and_named() {
    let device = cpu(DiskCache::none());
    let expected: Vec<f32> = (0..100).map(|i| i as f32 + 5.0).collect();
    use Config::*;
    let bad = [Uncompiled, TooManyThreads, Faulty, Wrong, Partial];
    let all = [&bad[..], &[Right(64), Right(32)]].concat();
    // Where they are makes no difference, and neither what the result held before.
    for (turn, before) in [(0, Some(3.0)), (3, None), (5, Some(f32::NAN)), (6, None)] {
        let mut configs = all.clone();
        configs.rotate_left(turn);
        let mut y = match before {
            Some(before) => device.tensor(&[before; 100], [100]).unwrap(),
            None => device.uninit([100]).unwrap(),
        };
        let result = y.alias();
        let chosen = Tune::new("count", configs)
            .run_checked(
                &device,
                turn,
                |&config| launch(config, &mut y, &device),
                || Ok(result.to_vec()? == expected),
            )
            .unwrap();
        assert!(matches!(chosen.config(), Right(_)), "{chosen}");
        for trial in chosen.trials() {
            let (config, outcome) = (trial.config, &trial.outcome);
            let is_expected = match config {
                Uncompiled => matches!(outcome, Outcome::Failed(Error::Kernel { .. })),
                TooManyThreads => {
                    matches!(outcome, Outcome::Failed(Error::Device(kiln_backend::Error::LaunchLimit { .. })))
                }
                Faulty => matches!(outcome, Outcome::Failed(error) if error.fault().is_some()),
                Wrong | Partial => matches!(outcome, Outcome::Wrong),
                Right(_) => matches!(outcome, Outcome::Took(_)),
            };
            assert!(is_expected, "{trial}");
        }
        device.synchronize().unwrap();
        assert_eq!(y.to_vec().unwrap(), expected);
    }
    assert_works(&device);
}

#[test]
fn without_a_check_what_faults_is_dropped_all_the_same() {
    let device = cpu(DiskCache::none());
    let mut y = device.zeros([100]).unwrap();
    let tune = Tune::new("count", [Config::Faulty, Config::Uncompiled, Config::Right(64)]);
    for _ in 0..2 {
        let chosen = tune.run(&device, (), |&config| launch(config, &mut y, &device)).unwrap();
        assert_eq!(*chosen.config(), Config::Right(64));
        device.synchronize().unwrap();
    }
}

#[test]
fn where_nothing_works_the_errors_say_why() {
    use Config::*;
    let device = cpu(DiskCache::none());
    let mut y = device.tensor(&[7.0f32; 100], [100]).unwrap();
    let mut run = |configs: Vec<Config>| {
        let tune = Tune::new("count", configs);
        tune.run(&device, (), |&config| launch(config, &mut y, &device)).unwrap_err()
    };
    let text = run(vec![Uncompiled, TooManyThreads]).to_string();
    assert!(text.starts_with("`count` has no candidate that works:\nUncompiled: kernel `count`"), "{text}");
    assert!(text.contains("\nTooManyThreads: "), "{text}");
    // One error is the error that a launch has.
    assert!(matches!(run(vec![Uncompiled, Uncompiled]), Error::Kernel { .. }));
    assert!(matches!(run(vec![Uncompiled]), Error::Kernel { .. }));
    assert!(run(vec![Faulty, Faulty]).fault().is_some());
    let text = run(vec![]).to_string();
    assert!(text.contains("the list of configurations is empty"), "{text}");
    let text = {
        let tune = Tune::new("count", [Right(64), Right(32)]);
        let launch = |&config: &Config| launch(config, &mut y, &device);
        tune.run_checked(&device, 1, launch, || Ok(false)).unwrap_err().to_string()
    };
    assert!(text.contains("Right(32): the check refused its result"), "{text}");
    // What trials stored is gone.
    assert_eq!(y.to_vec().unwrap(), [7.0; 100]);
    assert_works(&device);
}

#[test]
fn kernels_in_place_run_once() {
    let (x0, y0) = (numbers(1000), numbers(1001)[1..].to_vec());
    let (mut x1, mut y1): (Vec<f64>, Vec<f64>) =
        (x0.iter().map(|&x| x.into()).collect(), y0.iter().map(|&y| y.into()).collect());
    for (x, y) in x1.iter_mut().zip(&mut y1) {
        for _ in 0..4 {
            (*x, *y) = (*x * 2.0 + *y, *y + 1.0);
        }
    }
    let exact = |found: &Tensor<f32, 1>, expected: &[f64]| {
        let found: Vec<f64> = found.to_vec().unwrap().into_iter().map(f64::from).collect();
        assert_eq!(found, expected);
    };
    let probes = [true, false].map(|unified| Probe::timed_device(unified, DiskCache::none()));
    let devices = [cpu(DiskCache::none()), probes[0].0.clone(), probes[1].0.clone()];
    for device in &devices {
        // In streams, on the host's newest contents, and in part of a buffer.
        let stream = device.stream().unwrap();
        let mut x = device.zeros([1000]).unwrap();
        x.with_host_mut(|x| x.copy_from_slice(&x0)).unwrap();
        let whole = device.tensor(&[&[5.0][..], &y0[..], &[6.0][..]].concat(), [1002]).unwrap();
        let mut y = whole.slice(0, 1..1001).unwrap();
        let tune = Tune::new("accumulate", [64, 16, 256]);
        let mut tried = 0;
        for round in 0..4 {
            let chosen = tune.run(device, round / 2, |&block| {
                let launch = accumulate(&mut x, &mut y, block);
                if round % 3 == 0 { launch.on(&stream).launch(device) } else { launch.launch(device) }
            });
            tried += chosen.unwrap().trials().len();
        }
        assert_eq!(tried, 6);
        exact(&x, &x1);
        exact(&y, &y1);
        let whole = whole.to_vec().unwrap();
        assert_eq!((whole[0], whole[1001]), (5.0, 6.0));
    }
    probes.iter().for_each(|(_, probe)| probe.assert_ordered());
}

#[test]
fn a_choice_is_found_by_the_next_process_without_a_trial() {
    let folder = Folder::new();
    let (x, blocks) = (numbers(MANY), [4096, 1, 2]);
    let tune = |budget| Tune::new("scale", blocks).budget(budget);
    let run = |device: &Device, tune: Tune<usize>, accepted: usize| {
        let (source, mut y) = (device.tensor(&x, [MANY]).unwrap(), device.uninit([MANY]).unwrap());
        let (block, runs) = (Cell::new(0), Cell::new(0));
        let launch = |&of: &usize| {
            block.set(of);
            scale(&source, &mut y, of).launch(device)
        };
        let check = || {
            runs.set(runs.get() + 1);
            Ok(accepted == 0 || block.get() == accepted)
        };
        let chosen = tune.run_checked(device, "long", launch, check).unwrap();
        assert_eq!(y.to_vec().unwrap(), scaled(&x));
        (*chosen.config(), chosen.trials().len(), runs.get())
    };
    let long = Duration::from_secs(24 * 3600);
    // A slow one, which no measurement chooses.
    assert_eq!(run(&folder.device(), tune(long), 1), (1, 3, 3));
    let [choice] = &folder.choices()[..] else { panic!("one choice") };
    let expected = "scale, \"long\", 3 candidates ";
    assert!(choice.contains(expected) && choice.contains("\n1, kernels "), "{choice}");
    for budget in [long, Duration::ZERO] {
        let device = folder.device();
        for _ in 0..2 {
            assert_eq!(run(&device, tune(budget), 0), (1, 0, 0));
        }
    }
    // Nothing is known of another list, another key, or without the folder.
    let other = Tune::new("scale", [4096, 1]);
    assert_eq!(run(&folder.device(), other, 0), (4096, 2, 2));
    assert_eq!(scale_tuned(&folder.device(), MANY, &tune(long)), (4096, 3));
    assert_eq!(run(&cpu(DiskCache::none()), tune(long), 0), (4096, 3, 3));
    assert_eq!(folder.choices().len(), 3);
}

#[test]
fn a_choice_is_of_the_kernels_that_were_measured() {
    let folder = Folder::new();
    let (x, again) = (numbers(MANY), Cell::new(false));
    let tune = Tune::new("scale", [2, 4096]);
    let run = |device: &Device| {
        let (source, mut y) = (device.tensor(&x, [MANY]).unwrap(), device.uninit([MANY]).unwrap());
        let chosen = tune.run(device, (), |&block| match again.get() {
            true => scale_again(&source, &mut y, block).launch(device),
            false => scale(&source, &mut y, block).launch(device),
        });
        assert_eq!(y.to_vec().unwrap(), scaled(&x));
        chosen.unwrap().trials().len()
    };
    let tried = [false, true, false, true].map(|other| {
        again.set(other);
        run(&folder.device())
    });
    assert_eq!((tried, folder.choices().len()), ([2, 2, 0, 0], 2));
    // Of the list's first kernel the same, of the chosen one not.
    let first = |device: &Device| {
        let (source, mut y) = (device.tensor(&x, [MANY]).unwrap(), device.uninit([MANY]).unwrap());
        let chosen = tune.run(device, (), |&block| match block {
            2 => scale(&source, &mut y, block).launch(device),
            _ => scale_again(&source, &mut y, block).launch(device),
        });
        assert_eq!(y.to_vec().unwrap(), scaled(&x));
        chosen.unwrap().trials().len()
    };
    assert_eq!([first(&folder.device()), first(&folder.device())], [2, 0]);
}

#[test]
fn damaged_files_are_measured_anew_and_writers_at_once_are_fine() {
    let folder = Folder::new();
    let tune = Tune::new("scale", [64, 128]);
    let devices = [folder.device(), folder.device()];
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, start, tune) = (&devices[thread % 2], &start, &tune);
            scope.spawn(move || {
                start.wait();
                scale_tuned(device, 3000, tune);
            });
        }
    });
    assert_eq!(folder.choices().len(), 1);
    let files = fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().path());
    let choices: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "choice")).collect();
    let [path] = &choices[..] else { panic!("one file") };
    let whole = fs::read(path).unwrap();
    for at in (0..whole.len()).step_by(31) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(path, &bytes[..if at % 2 == 0 { bytes.len() } else { at }]).unwrap();
        assert_eq!(scale_tuned(&folder.device(), 3000, &tune).1, 2, "byte {at}");
        assert_eq!(scale_tuned(&folder.device(), 3000, &tune).1, 0, "written again");
    }
    // Whole files with a text that no candidate has.
    let question = folder.choices()[0].lines().rev().nth(1).unwrap().to_owned();
    for text in ["", "64", "63, kernels 0", "64, kernels 0", "64, kernels "] {
        folder.device().keep_choice(&question, text);
        assert_eq!(scale_tuned(&folder.device(), 3000, &tune).1, 2, "{text}");
    }
}

#[test]
fn a_budget_ends_trials_and_what_it_cut_off_is_not_kept() {
    let folder = Folder::new();
    let device = folder.device();
    let tune = Tune::new("scale", [4, 64, 4096]);
    assert_eq!(scale_tuned(&device, 3000, &tune.clone().budget(Duration::ZERO)), (4, 0));
    let short = tune.clone().budget(Duration::from_nanos(1));
    assert_eq!(scale_tuned(&device, 3000, &short), (4, 3));
    assert!(folder.choices().is_empty());
    let x = device.tensor(&numbers(3000), [3000]).unwrap();
    let mut y = device.uninit([3000]).unwrap();
    let chosen = short.run(&device, "new", |&block| scale(&x, &mut y, block).launch(&device)).unwrap();
    let outcomes: Vec<_> = chosen.trials().iter().map(|trial| &trial.outcome).collect();
    assert!(matches!(outcomes[..], [Outcome::Took(_), Outcome::NotTried, Outcome::NotTried]), "{chosen}");
    assert!(chosen.to_string().ends_with("\n  64: not tried\n  4096: not tried"), "{chosen}");
}

#[test]
fn the_interpreter_takes_the_first_that_can_be_launched() {
    let folder = Folder::new();
    let (device, probe) = Probe::device(false, DiskCache::at(&folder.0));
    let mut y = device.tensor(&[f32::NAN; 100], [100]).unwrap();
    let tune = Tune::new("count", [Config::Uncompiled, Config::Right(16), Config::Right(64)]);
    for round in 1..4 {
        let chosen = tune.run(&device, (), |&config| launch(config, &mut y, &device)).unwrap();
        assert_eq!((*chosen.config(), chosen.trials().len()), (Config::Right(16), 0));
        assert_eq!(probe.counts().launches.load(SeqCst), round);
    }
    assert!(folder.choices().is_empty());
    assert_eq!(y.to_vec().unwrap(), (0..100).map(|i| i as f32 + 5.0).collect::<Vec<_>>());
}

#[test]
fn captures_take_what_is_known_or_the_first_that_can_be_launched() {
    let device = cpu(DiskCache::none());
    let x = numbers(MANY);
    let (source, mut y) = (device.tensor(&x, [MANY]).unwrap(), device.uninit([MANY]).unwrap());
    let tune = Tune::new("scale", [1 << 21, 2, 4096]);
    let mut blocks = Vec::new();
    for measured in [false, true] {
        if measured {
            scale_tuned(&device, MANY, &tune);
        }
        let (graph, chosen) = device
            .graph(|_| tune.run(&device, MANY, |&block| scale(&source, &mut y, block).launch(&device)))
            .unwrap();
        assert_eq!((graph.len(), chosen.trials().len()), (1, 0));
        blocks.push(*chosen.config());
        y.write(&vec![0.0; MANY]).unwrap();
        graph.replay().unwrap();
        assert_eq!(y.to_vec().unwrap(), scaled(&x));
    }
    assert_eq!(blocks, [2, 4096]);
    // What a closure recorded before it failed is no part of the graph.
    let (graph, chosen) = device
        .graph(|_| {
            Tune::new("two", [1 << 21, 64]).run(&device, (), |&block| {
                add(&source, &mut y, 1.0).launch(&device)?;
                scale(&source, &mut y, block).launch(&device)
            })
        })
        .unwrap();
    assert_eq!((graph.len(), *chosen.config()), (2, 64));
}

#[test]
fn what_a_closure_reads_is_an_error_with_its_line() {
    let device = cpu(DiskCache::none());
    let (x, mut y) = (device.zeros([10]).unwrap(), device.zeros([10]).unwrap());
    let error = Tune::new("scale", [16, 32])
        .run(&device, (), |&block| {
            scale(&x, &mut y, block).launch(&device)?;
            y.to_vec().map(|_| ())
        })
        .unwrap_err();
    assert!(matches!(error, Error::Capture { location, .. } if location.file().ends_with("tune.rs")));
    assert_works(&device);
}

#[test]
fn a_check_may_tune_itself_and_errors_of_it_drop_candidates() {
    let device = cpu(DiskCache::none());
    let x = numbers(3000);
    let (source, mut y) = (device.tensor(&x, [3000]).unwrap(), device.uninit([3000]).unwrap());
    let mut other = device.uninit([3000]).unwrap();
    let result = y.alias();
    let (inner, trials) = (Tune::new("inner", [64, 128]), RefCell::new(Vec::new()));
    let mut once = true;
    let chosen = Tune::new("outer", [32, 64])
        .run_checked(
            &device,
            (),
            |&block| scale(&source, &mut y, block).launch(&device),
            || {
                let launch = |&block: &usize| scale(&source, &mut other, block).launch(&device);
                trials.borrow_mut().extend(inner.run(&device, (), launch)?.trials().to_vec());
                if std::mem::take(&mut once) {
                    device.tensor(&[1.0f32], [2])?;
                }
                Ok(other.to_vec()? == result.to_vec()?)
            },
        )
        .unwrap();
    assert_eq!(*chosen.config(), 64);
    assert!(matches!(chosen.trials()[0].outcome, Outcome::Failed(Error::Length { .. })), "{chosen}");
    assert!(trials.borrow().is_empty());
    // Outside of another it measures.
    let launch = |&block: &usize| scale(&source, &mut other, block).launch(&device);
    assert_eq!(inner.run(&device, (), launch).unwrap().trials().len(), 2);
}

#[test]
fn earlier_faults_are_not_the_candidates() {
    let device = cpu(DiskCache::none());
    let mut y = device.zeros([100]).unwrap();
    launch(Config::Faulty, &mut y, &device).unwrap();
    let tune = Tune::new("count", [Config::Right(32), Config::Right(64)]);
    let mut run = || tune.run(&device, (), |&config| launch(config, &mut y, &device));
    assert!(run().unwrap_err().fault().is_some());
    assert_eq!(run().unwrap().trials().len(), 2);
}

#[test]
fn nothing_to_do_is_nothing_to_fail_at() {
    let device = cpu(DiskCache::none());
    assert_eq!(scale_tuned(&device, 0, &Tune::new("scale", [16, 32])).1, 2);
}

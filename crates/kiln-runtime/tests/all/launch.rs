//! Launches: what is refused and how, and that nothing has changed then.

use crate::kernels::{add, add_one_2d, add_one_by_threads, assert_works, double, state};
use crate::probe::Probe;
use kiln_backend::Error as DeviceError;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, OccupancyLimit, Residency, Tensor};
use std::sync::atomic::Ordering::SeqCst;

fn interp() -> Device {
    Device::open_apart("interp").unwrap()
}

/// A device whose memory the host does not share.
fn discrete() -> Device {
    Probe::device(false, DiskCache::none()).0
}

/// The problems of a kernel that was refused.
#[track_caller]
fn problems(result: kiln_runtime::Result<()>, name: &str) -> Vec<String> {
    match result {
        Err(Error::Kernel { kernel, problems }) => {
            assert_eq!(kernel, name);
            problems
        }
        other => panic!("{other:?} should refuse the kernel"),
    }
}

/// `file:line:` of a line of this file, as problems begin.
fn at(line: u32) -> String {
    format!("{}:{line}:", file!())
}

#[test]
fn an_argument_of_another_device_is_refused() {
    let (interp, cpu) = (interp(), Device::open_apart("cpu").unwrap());
    let x = cpu.tensor(&[1.0; 8], [8]).unwrap();
    let mut y = interp.tensor(&[7.0; 8], [8]).unwrap();
    let before = state(&y);
    let error = add(&x, &mut y, 1.0).launch(&interp).unwrap_err();
    let Error::DeviceMismatch { kernel, argument, found, expected } = &error else { panic!("{error}") };
    assert_eq!([kernel, argument, found, expected], ["add", "x", "cpu", "interp"]);
    assert!(error.to_string().contains("`Tensor::to_device`"), "{error}");
    let error = add(&x, &mut y, 1.0).launch(&cpu).unwrap_err();
    assert!(matches!(&error, Error::DeviceMismatch { argument, .. } if argument == "y"), "{error}");
    assert_eq!(state(&y), before);
    assert_works(&interp);
    assert_works(&cpu);
    add(&x.to_device(&interp).unwrap(), &mut y, 1.0).launch(&interp).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 8]);
}

#[track_caller]
fn assert_overlap(result: kiln_runtime::Result<()>) {
    match result {
        Err(Error::Overlap { kernel, first, second }) => {
            assert_eq!((kernel.as_str(), first.as_str(), second.as_str()), ("add", "x", "y"));
        }
        other => panic!("{other:?} should be an overlap"),
    }
}

#[test]
fn a_written_argument_shares_memory_with_no_other() {
    let device = interp();
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let all = device.tensor(&values, [12]).unwrap();
    let part = |range| all.slice(0, range).unwrap();
    assert_overlap(add(&all, &mut part(0..12), 1.0).launch(&device));
    assert_overlap(add(&all, &mut part(11..12), 1.0).launch(&device));
    assert_overlap(add(&part(0..7), &mut part(6..12), 1.0).launch(&device));
    assert_overlap(add(&part(4..5), &mut part(4..5), 1.0).launch(&device));
    assert_overlap(add(&all, &mut all.transpose(), 1.0).launch(&device));
    assert_overlap(add(&all, &mut all.reshape([12]).unwrap(), 1.0).launch(&device));
    let matrix = all.reshape([3, 4]).unwrap();
    let result = add_one_2d(&matrix, &mut matrix.transpose()).launch(&device);
    assert!(matches!(result, Err(Error::Overlap { .. })), "{result:?}");
    let mut column = matrix.slice(1, 1..2).unwrap();
    let result = add_one_2d(&matrix.slice(0, 1..2).unwrap(), &mut column).launch(&device);
    assert!(matches!(result, Err(Error::Overlap { .. })), "a row crosses a column: {result:?}");
    assert_eq!(all.to_vec().unwrap(), values, "nothing was written");
    assert_works(&device);

    // Parts that do not meet, and an empty one.
    add(&part(0..6), &mut part(6..12), 10.0).launch(&device).unwrap();
    assert_eq!(all.to_vec().unwrap()[4..], [4.0, 5.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
    add(&all, &mut part(3..3), 1.0).launch(&device).unwrap();
    let rows = |range| matrix.slice(0, range).unwrap();
    add_one_2d(&rows(0..1), &mut rows(2..3)).launch(&device).unwrap();
    assert_eq!(rows(2..3).to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let copy = all.copy().unwrap();
    add(&copy, &mut part(0..12), 1.0).launch(&device).unwrap();
}

#[kernel(crate = kiln_runtime)]
fn sum_of_two(x: &Tensor<f32, 1>, z: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 8;
    y.tile(at, 8).store(x.tile(at, 8).load(0.0) + z.tile(at, 8).load(0.0));
}

#[kernel(crate = kiln_runtime)]
fn two_outputs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 8;
    let v = x.tile(at, 8).load(0.0);
    y.tile(at, 8).store(v + 1.0);
    z.tile(at, 8).store(v + 2.0);
}

#[test]
fn reading_one_tensor_twice_is_fine_writing_it_twice_is_not() {
    let device = interp();
    let x = device.tensor(&[1.0, 2.0, 3.0], [3]).unwrap();
    let mut y = device.uninit([3]).unwrap();
    sum_of_two(&x, &x.slice(0, 0..3).unwrap(), &mut y).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0, 4.0, 6.0]);
    let mut same = y.slice(0, 1..3).unwrap();
    let result = two_outputs(&x, &mut y, &mut same).launch(&device);
    assert!(
        matches!(&result, Err(Error::Overlap { first, second, .. }) if first == "y" && second == "z"),
        "{result:?}"
    );
}

#[test]
fn reading_what_was_never_written_is_refused() {
    for device in [interp(), discrete()] {
        let x: Tensor<f32, 1> = device.uninit([9]).unwrap();
        let mut y = device.uninit([9]).unwrap();
        let error = add(&x, &mut y, 1.0).launch(&device).unwrap_err();
        assert!(matches!(error, Error::Uninitialized { .. }));
        assert_eq!(
            error.to_string(),
            "argument `x` of `add` was never written; fill it or pass it as `&mut` to a kernel first"
        );
        assert_eq!((x.residency(), y.residency()), (Residency::Uninitialized, Residency::Uninitialized));
        assert!(matches!(y.to_vec(), Err(Error::Uninitialized { .. })));
        assert_works(&device);
        // As an output it is written, and can be read.
        let ones = device.tensor(&[1.0; 9], [9]).unwrap();
        add(&ones, &mut y, 1.0).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [2.0; 9]);
    }
}

/// Wherever they lie in memory, and also where one is there twice.
#[test]
fn of_several_that_were_never_written_the_first_is_named() {
    let device = interp();
    let uninit = || -> Tensor<f32, 1> { device.uninit([8]).unwrap() };
    let (a, b, mut y) = (uninit(), uninit(), uninit());
    let ones = device.tensor(&[1.0; 8], [8]).unwrap();
    for (x, z, named) in [(&a, &b, "x"), (&b, &a, "x"), (&a, &a, "x"), (&ones, &b, "z"), (&b, &ones, "x")] {
        let error = sum_of_two(x, z, &mut y).launch(&device).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("argument `{named}` of `sum_of_two` was never written")), "{text}");
    }
    sum_of_two(&ones, &ones, &mut y).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 8]);
}

#[test]
fn empty_tensors_do_nothing() {
    for device in [interp(), Device::open_apart("cpu").unwrap(), discrete()] {
        let (x, mut y) = (device.tensor(&[], [0]).unwrap(), device.uninit([0]).unwrap());
        add(&x, &mut y, 1.0).launch(&device).unwrap();
        double(&mut y).launch(&device).unwrap();
        add_one_by_threads(&x, &mut y).grid([0]).block([32]).launch(&device).unwrap();
        add_one_by_threads(&x, &mut y).grid([3]).block([32]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0f32; 0]);
        for shape in [[0, 5], [5, 0], [0, 0]] {
            let (x, mut y) = (device.zeros(shape).unwrap(), device.uninit(shape).unwrap());
            add_one_2d(&x, &mut y).launch(&device).unwrap();
            assert_eq!((y.len(), y.is_empty(), y.to_vec().unwrap()), (0, true, vec![]));
        }
        // An empty output says how much is to do: nothing, also of what is not empty.
        let long = device.tensor(&[1.0; 9], [9]).unwrap();
        add(&long, &mut y, 1.0).launch(&device).unwrap();
        device.synchronize().unwrap();
    }
}

#[test]
fn a_grid_of_zero_changes_nothing() {
    let device = discrete();
    let x = device.tensor(&[1.0; 9], [9]).unwrap();
    let mut y = device.uninit([9]).unwrap();
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        add(&x, &mut y, 1.0).grid(grid).launch(&device).unwrap();
        assert_eq!(y.residency(), Residency::Uninitialized, "nothing was written");
    }
}

#[test]
fn the_grid_follows_from_the_stores() {
    let device = interp();
    for n in [1, 7, 8, 9, 100] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut y = device.tensor(&vec![f32::NAN; n], [n]).unwrap();
        add(&device.tensor(&x, [n]).unwrap(), &mut y, 2.0).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v + 2.0).collect::<Vec<_>>());
    }
    for shape in [[1, 1], [4, 8], [5, 9], [13, 3]] {
        let x: Vec<f32> = (0..shape[0] * shape[1]).map(|i| i as f32).collect();
        let mut y = device.tensor(&vec![f32::NAN; x.len()], shape).unwrap();
        add_one_2d(&device.tensor(&x, shape).unwrap(), &mut y).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v + 1.0).collect::<Vec<_>>());
    }
}

#[test]
fn a_given_grid_counts() {
    let device = interp();
    let x = device.tensor(&[1.0; 24], [24]).unwrap();
    let mut y = device.zeros([24]).unwrap();
    add(&x, &mut y, 1.0).grid([2]).launch(&device).unwrap();
    let expected: Vec<f32> = (0..24).map(|i| if i < 16 { 2.0 } else { 0.0 }).collect();
    assert_eq!(y.to_vec().unwrap(), expected);
    add(&x, &mut y, 1.0).grid([50, 1]).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 24], "programs beyond the end store nothing");
}

#[test]
fn grids_that_do_not_follow_are_refused() {
    let device = interp();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let (mut y, mut z) = (device.zeros([20]).unwrap(), device.zeros([9]).unwrap());
    let error = two_outputs(&x, &mut y, &mut z).launch(&device).unwrap_err();
    let Error::Grid { kernel, reason } = &error else { panic!("{error}") };
    assert_eq!(kernel, "two_outputs");
    assert_eq!(reason, "axis 0 of `y` asks for 3 programs on x, axis 0 of `z` for 2");
    assert!(error.to_string().ends_with("give it with `.grid([x, y, z])`"), "{error}");
    assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (vec![0.0; 20], vec![0.0; 9]));
    two_outputs(&x, &mut y, &mut z).grid([3]).launch(&device).unwrap();
    assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (vec![2.0; 20], vec![3.0; 9]));

    let error = add_one_by_threads(&x, &mut y).block([32]).launch(&device).unwrap_err();
    assert!(matches!(&error, Error::Grid { reason, .. } if reason.contains("over threads")), "{error}");
    assert_works(&device);
}

#[kernel(crate = kiln_runtime)]
fn no_program_id(y: &mut Tensor<f32, 1>) {
    y.tile(2, 4).store(full(4, 7.0f32));
}

#[test]
fn a_kernel_that_asks_for_no_program_is_one() {
    let device = interp();
    let mut y = device.zeros([8]).unwrap();
    no_program_id(&mut y).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0, 0.0, 7.0, 7.0, 7.0, 7.0, 0.0, 0.0]);
}

const COLLISION: u32 = line!() + 4;
#[kernel(crate = kiln_runtime)]
fn collides(y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 4;
    y.tile(at, 8).store(full(8, 1.0f32));
}

#[kernel(crate = kiln_runtime)]
fn overlaps_knowingly(y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 4;
    // SAFETY: all programs store the same value, and none reads it.
    unsafe { y.tile(at, 8).store_overlapping(full(8, 1.0f32)) };
}

#[test]
fn stores_that_may_collide_are_refused() {
    let device = interp();
    let mut y = device.zeros([32]).unwrap();
    let found = problems(collides(&mut y).launch(&device), "collides");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&at(COLLISION)), "{found:?}");
    for part in ["stores to `y` may collide", "`unsafe`", "`store_overlapping`"] {
        assert!(found[0].contains(part), "{found:?} should contain {part}");
    }
    assert_eq!(y.to_vec().unwrap(), [0.0; 32]);
    assert_works(&device);
    overlaps_knowingly(&mut y).grid([7]).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [1.0; 32]);
}

const NEEDS_THREADS: u32 = line!() + 3;
#[kernel(crate = kiln_runtime)]
fn by_threads(y: &mut Tensor<f32, 1>) {
    let t = thread_id(0);
    // SAFETY: each thread has its own index, in the only block.
    unsafe { y.write(t, t.cast::<f32>()) };
}

#[test]
fn a_thread_kernel_without_a_block_says_what_to_do() {
    let device = interp();
    let mut y = device.zeros([5]).unwrap();
    let found = problems(by_threads(&mut y).launch(&device), "by_threads");
    assert!(found[0].starts_with(&at(NEEDS_THREADS)), "{found:?}");
    assert!(found[0].contains("`thread_id` needs a launch with threads"), "{found:?}");
    assert!(found[0].contains(".block([256])"), "{found:?}");
    assert_works(&device);
    by_threads(&mut y).block([5]).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn the_advice_to_give_a_block_can_be_followed() {
    let device = interp();
    let (x, mut y) = (device.tensor(&[1.0; 300], [300]).unwrap(), device.zeros([300]).unwrap());
    add_one_by_threads(&x, &mut y).grid([2]).block([256]).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 300]);
    add_one_by_threads(&y, &mut x.copy().unwrap()).grid([2, 2]).block([16, 4, 2]).launch(&device).unwrap();
}

const WRONG: u32 = line!() + 3;
#[kernel(crate = kiln_runtime)]
fn wrong_thrice(y: &mut Tensor<f32, 1>, n: Val<i32>) {
    let _ = zeros::<f32>([4, 8]) + zeros::<f32>([4, 6]);
    let _ = n + 2.5;
    let _ = zeros::<f32>(4).sum_axis(1);
    y.store(zeros::<f32>(8));
}

#[test]
fn a_wrong_kernel_reports_every_problem() {
    let device = interp();
    let mut y = device.tensor(&[3.0; 8], [8]).unwrap();
    let result = wrong_thrice(&mut y, 1).launch(&device);
    let text = result.as_ref().unwrap_err().to_string();
    let found = problems(result, "wrong_thrice");
    assert_eq!(found.len(), 3, "{found:?}");
    for (i, (problem, what)) in found.iter().zip(["[4, 6] do not combine", "2.5", "no axis 1"]).enumerate() {
        assert!(problem.starts_with(&at(WRONG + i as u32)) && problem.contains(what), "{problem}");
        assert!(text.contains(problem.as_str()), "{text}");
    }
    assert!(text.starts_with("kernel `wrong_thrice` is not valid:\n"), "{text}");
    assert_eq!(y.to_vec().unwrap(), [3.0; 8]);
    assert_works(&device);
}

/// The limit that a launch goes over.
#[track_caller]
fn limit(result: kiln_runtime::Result<()>) -> (String, u64, u64) {
    match result {
        Err(Error::Device(DeviceError::LaunchLimit { what, given, limit, .. })) => (what, given, limit),
        other => panic!("{other:?} should be over a limit"),
    }
}

#[test]
fn grids_and_blocks_over_the_limits_change_nothing() {
    for device in [interp(), discrete()] {
        let mut x = device.tensor(&[1.0; 9], [9]).unwrap();
        x.with_host_mut(|x| x.fill(2.0)).unwrap();
        let mut y = device.uninit([9]).unwrap();
        let before = (x.residency(), y.residency());
        let over = add(&x, &mut y, 1.0).grid([1, 70_000]).launch(&device);
        assert_eq!(limit(over), ("grid extent y".into(), 70_000, 65_535));
        let over = add(&x, &mut y, 1.0).grid([1, 1, u32::MAX]).launch(&device);
        assert_eq!(limit(over), ("grid extent z".into(), u32::MAX.into(), 65_535));
        let over = add_one_by_threads(&x, &mut y).grid([1]).block([2048]).launch(&device);
        assert_eq!(limit(over), ("threads per block".into(), 2048, 1024));
        let over = add_one_by_threads(&x, &mut y).grid([1]).block([1024, 2]).launch(&device);
        assert_eq!(limit(over), ("threads per block".into(), 2048, 1024));
        assert_eq!((x.residency(), y.residency()), before);
        assert_works(&device);
    }
    // The processor has limits of its own.
    let cpu = Device::open_apart("cpu").unwrap();
    let (x, mut y) = (cpu.tensor(&[1.0; 9], [9]).unwrap(), cpu.uninit([9]).unwrap());
    let over = add(&x, &mut y, 1.0).grid([u32::MAX]).launch(&cpu);
    assert_eq!(limit(over), ("grid extent x".into(), u32::MAX.into(), cpu.properties().max_grid[0].into()));
    let over = add_one_by_threads(&x, &mut y).grid([1]).block([4096]).launch(&cpu);
    assert_eq!(limit(over).1, 4096);
    assert_eq!(y.residency(), Residency::Uninitialized);
    assert_works(&cpu);
}

#[test]
fn a_block_of_no_threads_is_refused() {
    for device in [interp(), Device::open_apart("cpu").unwrap()] {
        let (x, mut y) = (device.tensor(&[1.0; 9], [9]).unwrap(), device.zeros([9]).unwrap());
        let result = add_one_by_threads(&x, &mut y).grid([1]).block([8, 0]).launch(&device);
        let found = problems(result, "add_one_by_threads");
        assert!(found[0].contains("kernels.rs:") && found[0].contains("has 0 threads"), "{found:?}");
        assert_eq!(y.to_vec().unwrap(), [0.0; 9]);
        assert_works(&device);
    }
}

#[test]
fn a_launch_that_the_driver_refuses_changes_nothing() {
    let (device, probe) = Probe::device(false, DiskCache::none());
    let x = device.tensor(&[1.0; 9], [9]).unwrap();
    let (mut fresh, mut old) = (device.uninit([9]).unwrap(), device.tensor(&[5.0; 9], [9]).unwrap());
    old.with_host_mut(|x| x[0] = 6.0).unwrap();
    probe.fail_launches(true);
    let error = add(&x, &mut fresh, 1.0).launch(&device).unwrap_err();
    assert!(
        matches!(&error, Error::Device(DeviceError::Driver { message, .. }) if message == "told to fail")
    );
    assert!(double(&mut old).launch(&device).is_err());
    probe.fail_launches(false);
    assert_eq!(fresh.residency(), Residency::Uninitialized);
    assert_eq!(old.to_vec().unwrap(), [6.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]);
    assert_works(&device);
}

#[test]
fn a_refused_argument_leaves_the_others_as_they_were() {
    let device = discrete();
    let x: Tensor<f32, 1> = device.uninit([9]).unwrap();
    let (mut y, mut z) = (device.uninit([9]).unwrap(), device.tensor(&[1.0; 9], [9]).unwrap());
    z.with_host(|_| ()).unwrap();
    assert!(two_outputs(&x, &mut y, &mut z).launch(&device).is_err());
    assert_eq!((y.residency(), z.residency()), (Residency::Uninitialized, Residency::InSync));
}

#[test]
fn launches_from_many_threads_with_shared_arguments() {
    let device = Device::open_apart("cpu").unwrap();
    let (a, b) = (device.tensor(&[1.0; 100], [100]).unwrap(), device.tensor(&[2.0; 100], [100]).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, a, b) = (&device, &a, &b);
            scope.spawn(move || {
                let mut y = device.uninit([100]).unwrap();
                for _ in 0..50 {
                    let (first, second) = if thread % 2 == 0 { (a, b) } else { (b, a) };
                    sum_of_two(first, second, &mut y).launch(device).unwrap();
                    assert_eq!(y.to_vec().unwrap(), [3.0; 100]);
                }
            });
        }
    });
}

/// Two threads, each with its own view of one buffer, which the borrow checker cannot tell apart.
#[test]
fn a_reader_never_sees_half_of_a_launch() {
    let device = Device::open_apart("cpu").unwrap();
    let n = 1 << 14;
    let mut y = device.tensor(&vec![1.0f32; n], [n]).unwrap();
    let view = y.slice(0, 0..n).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..200 {
                let seen = view.with_host(|x| (x[0], x.iter().all(|v| *v == x[0]))).unwrap();
                assert!(seen.1, "a mixture");
                if seen.0 == 2f32.powi(60) {
                    break;
                }
            }
        });
        for _ in 0..60 {
            // While the reader's closure runs, the contents are borrowed: try again.
            while let Err(error) = double(&mut y).launch(&device) {
                assert!(matches!(error, Error::Borrowed { .. }), "{error}");
            }
        }
        reader.join().unwrap();
    });
    assert_eq!(view.to_vec().unwrap(), vec![2f32.powi(60); n]);
}

#[test]
fn kernels_can_be_looked_at_without_launching() {
    let device = interp();
    let (x, mut y) = (device.tensor(&[1.0; 9], [9]).unwrap(), device.uninit([9]).unwrap());
    let text = add(&x, &mut y, 1.0).ir().unwrap().to_string();
    assert!(text.starts_with("kernel @add(%x: view<f32, 1, global>"), "{text}");
    let compiled = add_one_by_threads(&x, &mut y).block([64]).compile(&device).unwrap();
    assert_eq!(compiled.threads, 64, "{compiled:?}");
    assert!(format!("{compiled:?}").contains("add_one_by_threads"), "{compiled:?}");
    assert_eq!(y.residency(), Residency::Uninitialized);
}

#[test]
fn the_device_counts_the_blocks_on_a_multiprocessor_or_says_that_it_cannot() {
    let (device, probe) = Probe::device(false, DiskCache::none());
    let (x, mut y) = (device.tensor(&[1.0; 9], [9]).unwrap(), device.uninit([9]).unwrap());
    let compiled = add_one_by_threads(&x, &mut y).block([128]).compile(&device).unwrap();
    let error = compiled.occupancy().unwrap_err();
    assert!(matches!(&error, Error::Device(kiln_backend::Error::Unavailable { .. })), "{error:?}");
    assert!(error.to_string().contains("occupancy of probe"), "{error}");
    probe.provide_multiprocessors();
    let found = compiled.occupancy().unwrap();
    assert_eq!((found.blocks, found.limit), (16, OccupancyLimit::Threads));
    // It is the program that launches use: nothing was compiled for the question.
    assert_eq!(probe.counts().compiles.load(SeqCst), 1);
}

/// Launches itself while it is traced, and adds up what comes of it.
#[kernel(crate = kiln_runtime)]
fn launches_itself(y: &mut Tensor<f32, 1>) {
    let device = Device::open_apart("interp").unwrap();
    let mut other = device.tensor(&[0.0f32; 8], [8]).unwrap();
    let error = launches_itself(&mut other).launch(&device).unwrap_err();
    assert!(matches!(&error, Error::LaunchInTrace { kernel, traced } if kernel == traced), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("kernel `launches_itself` is launched while kernel `launches_itself` is traced; ")
    );
    let error = launches_another(&mut other).compile(&device).unwrap_err();
    assert!(matches!(error, Error::LaunchInTrace { .. }), "{error}");
    y.tile(program_id(0) * 8, 8).store(1.0);
}

#[kernel(crate = kiln_runtime)]
fn launches_another(y: &mut Tensor<f32, 1>) {
    let device = Device::open_apart("interp").unwrap();
    let mut other = device.tensor(&[0.0f32; 8], [8]).unwrap();
    launches_itself(&mut other).launch(&device).unwrap();
    y.tile(program_id(0) * 8, 8).store(1.0);
}

#[test]
fn a_launch_while_a_kernel_is_traced_is_refused() {
    let device = Device::open_apart("interp").unwrap();
    let mut y = device.tensor(&[0.0f32; 8], [8]).unwrap();
    launches_itself(&mut y).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [1.0; 8]);
    // The panic of the kernel's `unwrap` is an error with its line.
    let error = launches_another(&mut y).launch(&device).unwrap_err().to_string();
    let line = line!() - 12;
    let why = "kernel `launches_itself` is launched while kernel `launches_another` is traced";
    assert!(error.contains(&format!("launch.rs:{line}:")) && error.contains(why), "{error}");
}

#[test]
fn a_tensor_of_more_axes_than_a_view_has() {
    #[kernel(crate = kiln_runtime)]
    fn reads(x: &Tensor<f32, 7>, y: &mut Tensor<f32, 1>) {
        y.tile(program_id(0) * 8, 8).store(x.get([0; 7]));
    }
    let device = Device::open_apart("interp").unwrap();
    let x = device.tensor(&[0.0f32; 2], [1, 1, 1, 1, 1, 1, 2]).unwrap();
    let mut y = device.tensor(&[0.0f32; 8], [8]).unwrap();
    let error = reads(&x, &mut y).launch(&device).unwrap_err().to_string();
    assert!(error.contains("parameter `x` is a view of rank 7: a view has at most 5 axes"), "{error}");
    assert!(error.contains("launch.rs:"), "{error}");
}

//! Compiling ahead what a closure would launch.

use crate::kernels::{add, add_one_2d, assert_works, double};
use crate::probe::Probe;
use kiln_lang::prelude::*;
use kiln_runtime::{Activity, Device, DiskCache, Error, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

/// y = x times a constant of the kernel: one for each.
#[kernel(crate = kiln_runtime)]
fn times(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: usize) {
    let at = program_id(0) * 8;
    y.tile(at, 8).store(x.tile(at, 8).load(0.0) * by as f32);
}

fn probe() -> (Device, Probe) {
    Probe::device(true, DiskCache::none())
}

#[test]
fn each_kernel_is_compiled_once_and_nothing_runs() {
    let (device, probe) = probe();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    device
        .precompile(|| {
            let mut y = device.zeros([20])?;
            y.write(&[5.0; 20])?;
            for by in [2, 3, 4, 3, 2] {
                times(&x, &mut y, by).launch(&device)?;
            }
            // Of a tensor without memory, as of one with.
            let copy = y.copy()?;
            times(&copy, &mut y, 5).launch(&device)
        })
        .unwrap();
    let counts = probe.counts();
    assert_eq!((counts.compiles.load(SeqCst), counts.launches.load(SeqCst)), (4, 0));
    assert_eq!(probe.transfers(), (1, 0, 0), "the elements of x");
    let mut y = device.uninit([20]).unwrap();
    for by in [5, 4, 3, 2] {
        times(&x, &mut y, by).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [by as f32; 20]);
    }
    assert_eq!(counts.compiles.load(SeqCst), 4);
}

#[test]
fn kernels_are_compiled_side_by_side() {
    let (device, probe) = probe();
    probe.compile_slowly();
    let x = device.zeros([20]).unwrap();
    let launches = || {
        let mut y = device.uninit([20])?;
        (2..8).try_for_each(|by| times(&x, &mut y, by).launch(&device))
    };
    device.precompile(launches).unwrap();
    let counts = probe.counts();
    assert_eq!(counts.compiles.load(SeqCst), 6);
    let processors = available_parallelism().map_or(1, usize::from);
    let most = counts.most_compiles_at_once.load(SeqCst);
    assert!(most >= processors.min(2) && most <= processors, "{most} of {processors}");
}

/// A launch in another thread waits for the program that is being compiled.
#[test]
fn a_launch_meanwhile_compiles_nothing_twice() {
    let (device, probe) = probe();
    probe.compile_slowly();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let x = device.zeros([20]).unwrap();
                let launches = || {
                    let mut y = device.uninit([20])?;
                    (2..6).try_for_each(|by| times(&x, &mut y, by).launch(&device))
                };
                device.precompile(launches).unwrap();
                launches().unwrap();
            });
        }
        scope.spawn(|| {
            let (x, mut y) = (device.zeros([20]).unwrap(), device.uninit([20]).unwrap());
            times(&x, &mut y, 5).launch(&device).unwrap();
        });
    });
    assert_eq!(probe.counts().compiles.load(SeqCst), 4);
}

#[test]
fn what_it_makes_cannot_be_used() {
    let (device, probe) = probe();
    let mut kept = None;
    device
        .precompile(|| {
            kept = Some(device.zeros([20])?);
            Ok(())
        })
        .unwrap();
    let mut hollow = kept.unwrap();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let refused = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Precompile { .. })));
    refused(hollow.to_vec().map(drop));
    refused(hollow.write(&[0.0; 20]));
    refused(double(&mut hollow).launch(&device));
    refused(add(&x, &mut hollow, 1.0).launch(&device));
    refused(hollow.copy().map(drop));
    let (graph, ()) = device.graph(|_| double(&mut hollow).launch(&device)).unwrap();
    refused(graph.replay());
    drop((graph, hollow));
    assert_works(&device);
    probe.assert_ordered();
}

#[test]
fn what_waits_is_refused_and_what_fails_leaves_the_device_usable() {
    let (device, probe) = probe();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    let read = text(device.precompile(|| x.to_vec().map(drop)));
    assert!(
        read.contains("precompile.rs") && read.contains("in a `precompile`, which runs nothing"),
        "{read}"
    );
    let nested = text(device.precompile(|| device.precompile(|| Ok(()))));
    assert!(nested.contains("another `precompile` or the capture of a graph"), "{nested}");
    let captured = device.graph(|_| device.precompile(|| Ok(())));
    assert!(matches!(captured, Err(Error::Precompile { .. })));
    let graph = device.precompile(|| device.graph(|_| Ok(())).map(drop));
    assert!(matches!(graph, Err(Error::Capture { .. })));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = device.precompile(|| {
            let mut y = device.uninit([20])?;
            double(&mut y).launch(&device)?;
            panic!("in the closure")
        });
    }));
    assert!(panicked.is_err());
    assert_works(&device);
    let mut y = device.tensor(&[1.0; 20], [20]).unwrap();
    double(&mut y).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 20]);
    probe.assert_ordered();
}

/// A store that overlaps its neighbor's.
#[kernel(crate = kiln_runtime)]
fn collides(y: &mut Tensor<f32, 1>) {
    y.tile(program_id(0) * 4, 8).store(zeros::<f32>(8));
}

#[test]
fn an_error_of_a_kernel_is_the_launchs() {
    let (device, probe) = probe();
    let mut y = device.zeros([20]).unwrap();
    device
        .precompile(|| {
            let mut z = device.uninit([20])?;
            collides(&mut z).launch(&device)?;
            double(&mut z).launch(&device)
        })
        .unwrap();
    let error = collides(&mut y).launch(&device).unwrap_err();
    assert!(error.to_string().contains("precompile.rs"), "{error}");
    double(&mut y).launch(&device).unwrap();
    assert_eq!(probe.counts().compiles.load(SeqCst), 1);
}

#[test]
fn observers_receive_what_was_compiled_on_the_thread_that_asked() {
    let (device, _) = probe();
    let all = Arc::new(Mutex::new(Vec::new()));
    let (kept, thread) = (all.clone(), std::thread::current().id());
    let observation = device.observe(move |activity: &Activity| {
        assert_eq!(std::thread::current().id(), thread);
        if let Activity::Compile(a) = activity {
            kept.lock().unwrap().push((a.kernel.to_string(), a.call_site.line(), a.specialization.clone()));
        }
    });
    let line = line!() + 5;
    device
        .precompile(|| {
            let (mut y, mut z) = (device.uninit([20])?, device.uninit([4, 8])?);
            let x = device.uninit([4, 8])?;
            double(&mut y).launch(&device)?;
            add_one_2d(&x, &mut z).launch(&device)
        })
        .unwrap();
    assert_eq!(observation.failure(), None);
    drop(observation);
    let mut all = all.lock().unwrap().clone();
    all.sort();
    let names: Vec<(&str, u32)> = all.iter().map(|(name, line, _)| (name.as_str(), *line)).collect();
    assert_eq!(names, [("add_one_2d", line + 1), ("double", line)]);
    assert!(all.iter().all(|(_, _, text)| text.starts_with("kernel @")), "{all:?}");
}

//! Graphs: on a device that has them, in any order that their nodes allow, and on one without.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_lang::prelude::*;
use kiln_runtime::{Activity, Device, DiskCache, Error, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;

/// A device without graphs, and one with.
fn probes() -> [(Device, Probe); 2] {
    let [without, with] = [(), ()].map(|()| Probe::device(false, DiskCache::none()));
    with.1.provide_graphs();
    [without, with]
}

fn built_updated_launched(probe: &Probe) -> [usize; 3] {
    let counts = probe.counts();
    [&counts.graphs_built, &counts.graphs_updated, &counts.graphs_launched].map(|count| count.load(SeqCst))
}

#[test]
fn a_replay_is_one_call_of_the_device() {
    let [_, (device, probe)] = probes();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let mut y = device.zeros([20]).unwrap();
    let (graph, ()) = device
        .graph(|_| {
            add(&x, &mut y, 1.0).launch(&device)?;
            (0..3).try_for_each(|_| double(&mut y).launch(&device))
        })
        .unwrap();
    assert_eq!((graph.len(), probe.counts().launches.load(SeqCst)), (4, 0));
    graph.replay().unwrap();
    graph.replay().unwrap();
    assert_eq!(built_updated_launched(&probe), [1, 0, 2]);
    assert_eq!(y.to_vec().unwrap(), [16.0; 20]);
    assert_eq!(probe.events(), (0, 0), "one stream needs no events");
    probe.assert_ordered();
}

/// Streams in a capture may run at once, but for what they share.
#[test]
fn nodes_wait_for_what_they_share_alone() {
    for (device, probe) in probes() {
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let x = device.tensor(&[1.0; 20], [20]).unwrap();
        let [mut a, mut b] = [device.zeros([20]).unwrap(), device.zeros([20]).unwrap()];
        let (graph, ()) = device
            .graph(|_| {
                add(&x, &mut a, 1.0).on(&streams[0]).launch(&device)?;
                add(&x, &mut b, 2.0).on(&streams[1]).launch(&device)?;
                double(&mut a).on(&streams[0]).launch(&device)?;
                // After the doubling in the other stream, and before the next one.
                add(&a, &mut b, 0.0).on(&streams[1]).launch(&device)?;
                double(&mut a).on(&streams[0]).launch(&device)
            })
            .unwrap();
        for _ in 0..3 {
            graph.replay().unwrap();
            assert_eq!((a.to_vec().unwrap(), b.to_vec().unwrap()), (vec![8.0; 20], vec![4.0; 20]));
        }
        probe.assert_ordered();
    }
}

#[test]
fn a_change_is_made_in_place_unless_the_order_changes() {
    let [_, (device, probe)] = probes();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let [x, z] = [1.0, 5.0].map(|v| device.tensor(&[v; 20], [20]).unwrap());
    let [mut a, mut b] = [device.zeros([20]).unwrap(), device.zeros([20]).unwrap()];
    let (mut graph, second) = device
        .graph(|capture| {
            add(&x, &mut a, 1.0).on(&streams[0]).launch(&device)?;
            add(&x, &mut b, 2.0).on(&streams[1]).launch(&device)?;
            Ok(capture.last())
        })
        .unwrap();
    graph.set(second, "by", 7.0f32).unwrap();
    graph.set(second, "x", &z).unwrap();
    graph.replay().unwrap();
    assert_eq!((a.to_vec().unwrap(), b.to_vec().unwrap()), (vec![2.0; 20], vec![12.0; 20]));
    assert_eq!(built_updated_launched(&probe), [1, 2, 1]);
    // Now the second reads what the first writes.
    graph.set(second, "x", &a).unwrap();
    graph.replay().unwrap();
    assert_eq!(b.to_vec().unwrap(), [9.0; 20]);
    assert_eq!(built_updated_launched(&probe), [2, 2, 2]);
    probe.assert_ordered();
}

/// Copies and fills cannot be changed in place: the graph is built anew.
#[test]
fn a_copy_from_another_tensor() {
    for (device, probe) in probes() {
        let [x, z] = [1.0, 5.0].map(|v| device.tensor(&[v; 20], [20]).unwrap());
        let (mut graph, copy) = device.graph(|_| x.slice(0, 4..9)?.copy()).unwrap();
        graph.replay().unwrap();
        assert_eq!(copy.to_vec().unwrap(), [1.0; 5]);
        graph.replace(&x, &z).unwrap();
        graph.replay().unwrap();
        assert_eq!(copy.to_vec().unwrap(), [5.0; 5]);
        probe.assert_ordered();
    }
}

#[test]
fn memory_is_freed_after_the_replays() {
    for (device, probe) in probes() {
        let stream = device.stream().unwrap();
        let x = device.tensor(&[1.0; 20], [20]).unwrap();
        let (graph, y) = stream
            .graph(|_| {
                let (mut between, mut y) = (device.uninit([20])?, device.uninit([20])?);
                add(&x, &mut between, 1.0).launch(&device)?;
                add(&between, &mut y, 1.0).launch(&device)?;
                Ok(y)
            })
            .unwrap();
        drop((x, stream));
        graph.replay().unwrap();
        drop(graph);
        assert_eq!(y.to_vec().unwrap(), [3.0; 20]);
        drop(y);
        assert_eq!(probe.order().live_allocations(), 0);
        probe.assert_ordered();
    }
}

#[test]
fn a_replay_that_fails_can_be_repeated() {
    for (device, probe) in probes() {
        let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
        let (graph, ()) = device.graph(|_| double(&mut x).launch(&device)).unwrap();
        probe.fail_launches(true);
        assert!(graph.replay().unwrap_err().to_string().contains("told to fail"));
        probe.fail_launches(false);
        graph.replay().unwrap();
        assert_eq!(x.to_vec().unwrap(), [2.0; 20]);
    }
}

#[test]
fn contents_that_are_newer_on_the_host_are_uploaded() {
    for (device, probe) in probes() {
        let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
        let (graph, ()) = device.graph(|_| double(&mut x).launch(&device)).unwrap();
        for step in 1..4 {
            x.with_host_mut(|x| x.fill(step as f32)).unwrap();
            graph.replay().unwrap();
            assert_eq!(x.to_vec().unwrap(), [2.0 * step as f32; 20]);
        }
        let borrowed = x.with_host(|_| graph.replay()).unwrap();
        assert!(matches!(borrowed, Err(Error::Borrowed { .. })), "{borrowed:?}");
        probe.assert_ordered();
    }
}

/// Other threads and other devices are not recorded.
#[test]
fn a_capture_records_its_thread_and_device_alone() {
    let [(device, _), (other, _)] = probes();
    let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
    let (graph, ()) = device
        .graph(|_| {
            assert_works(&other);
            std::thread::scope(|scope| scope.spawn(|| assert_works(&device)).join()).unwrap();
            double(&mut x).launch(&device)
        })
        .unwrap();
    assert_eq!((graph.len(), x.to_vec().unwrap()), (1, vec![1.0; 20]));
}

#[test]
fn a_panic_ends_the_capture() {
    let [_, (device, _)] = probes();
    let panic = catch_unwind(AssertUnwindSafe(|| device.graph::<()>(|_| panic!("enough"))));
    assert!(panic.is_err() && !device.is_capturing());
    assert_works(&device);
    assert_eq!(device.graph(|capture| Ok(capture.len())).unwrap().1, 0);
}

#[test]
fn handles_of_other_graphs_and_names_of_several_launches_are_refused() {
    let [_, (device, _)] = probes();
    let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
    let capture = |x: &mut _| {
        device
            .graph(|capture| {
                double(x).launch(&device)?;
                double(x).launch(&device)?;
                Ok(capture.last())
            })
            .unwrap()
    };
    let ((mut first, _), (_, foreign)) = (capture(&mut x), capture(&mut x));
    let y = device.tensor(&[1.0f32; 20], [20]).unwrap();
    let error = first.set(foreign, "y", &y).unwrap_err().to_string();
    assert!(error.ends_with("the node is no launch of this graph"), "{error}");
    let error = first.set("double", "y", &y).unwrap_err().to_string();
    assert!(error.contains("launches `double` 2 times: say which by its `GraphNode`"), "{error}");
    let (node, name, site) = first.launches().nth(1).unwrap();
    assert_eq!((name, site.file().ends_with("graphs.rs")), ("double", true));
    let mut y = y;
    first.set(node, "y", &mut y).unwrap();
    first.replay().unwrap();
    assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (vec![2.0; 20], vec![2.0; 20]));
}

#[test]
fn observers_receive_replays() {
    for (device, _) in probes() {
        let mut x = device.tensor(&[1.0; 20], [20]).unwrap();
        let (graph, ()) = device.graph(|_| double(&mut x).launch(&device)).unwrap();
        let (sender, receiver) = mpsc::channel();
        let observation = device.observe(move |activity: &Activity| {
            sender.send(activity.clone()).ok();
        });
        graph.replay().unwrap();
        drop(observation);
        let activities: Vec<Activity> = receiver.iter().collect();
        let [Activity::Replay(replay)] = &activities[..] else { panic!("{activities:?}") };
        assert_eq!((replay.nodes, &*replay.device), (1, "probe"));
        assert!(replay.call_site.file().ends_with("graphs.rs"));
    }
}

/// Stores a number at a place of which the caller says that no other program stores there.
#[kernel(crate = kiln_runtime)]
fn put(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, at: Val<i64>) {
    // SAFETY: tests launch one program.
    unsafe { y.tile(at, 1).store_overlapping(x.tile(0, 1).load(0.0)) };
}

/// What the code around a launch has promised, it has promised for its numbers alone.
#[test]
fn numbers_of_kernels_with_unsafe_code_stay() {
    for (device, _) in probes() {
        let [one, two] = [1.0f32, 2.0].map(|v| device.tensor(&[v], [1]).unwrap());
        let mut y = device.zeros::<f32, 1>([4]).unwrap();
        let (mut graph, ()) = device.graph(|_| put(&one, &mut y, 3).grid([1]).launch(&device)).unwrap();
        let error = graph.set("put", "at", 2i64).unwrap_err();
        assert!(matches!(error, Error::GraphUpdate { .. }), "{error}");
        let text = error.to_string();
        for part in ["`at` of `put` stays as it was captured", "graphs.rs:", "capture again"] {
            assert!(text.contains(part), "{text}");
        }
        graph.set("put", "x", &two).unwrap();
        graph.replay().unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0, 0.0, 0.0, 2.0]);
    }
}

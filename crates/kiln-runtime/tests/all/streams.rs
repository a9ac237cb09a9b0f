//! Order between streams: as much as is needed, and no more.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_runtime::{Device, DiskCache, Error, Event};
use proptest::prelude::*;

fn probe() -> (Device, Probe) {
    Probe::device(true, DiskCache::none())
}

#[test]
fn one_stream_needs_no_events() {
    let (device, probe) = probe();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let mut y = device.zeros([20]).unwrap();
    for _ in 0..5 {
        add(&x, &mut y, 1.0).launch(&device).unwrap();
        double(&mut y).launch(&device).unwrap();
    }
    assert_eq!(y.to_vec().unwrap(), [4.0; 20]);
    drop((x, y));
    assert_eq!(probe.events(), (0, 0));
    probe.assert_ordered();
    assert_eq!(probe.order().live_allocations(), 0);
}

#[test]
fn a_second_stream_waits_for_the_first_and_back() {
    let (device, probe) = probe();
    let x = device.tensor(&[1.0; 20], [20]).unwrap();
    let mut y = device.uninit([20]).unwrap();
    let stream = device.stream().unwrap();
    add(&x, &mut y, 1.0).on(&stream).launch(&device).unwrap();
    assert_eq!(probe.events(), (2, 2), "x was uploaded, and y allocated, in the default stream");
    add(&x, &mut y, 2.0).on(&stream).launch(&device).unwrap();
    assert_eq!(probe.events(), (2, 2), "what a stream has waited for once it knows");
    double(&mut y).launch(&device).unwrap();
    assert_eq!(probe.events(), (3, 3));
    assert_eq!(y.to_vec().unwrap(), [6.0; 20]);
    probe.assert_ordered();
}

#[test]
fn a_writer_waits_for_readers_of_other_streams() {
    let (device, probe) = probe();
    let mut x = device.tensor(&[1.0; 9], [9]).unwrap();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let (mut y, mut z) = (device.uninit([9]).unwrap(), device.uninit([9]).unwrap());
    add(&x, &mut y, 1.0).on(&a).launch(&device).unwrap();
    add(&x, &mut z, 1.0).on(&b).launch(&device).unwrap();
    let before = probe.events();
    double(&mut x).launch(&device).unwrap();
    assert_eq!(probe.events(), (before.0 + 2, before.1 + 2));
    x.write(&[5.0; 9]).unwrap();
    assert_eq!(probe.events(), (before.0 + 2, before.1 + 2), "the last writer's stream again");
    probe.assert_ordered();
}

#[test]
fn an_upload_of_the_hosts_changes_waits_for_readers() {
    let (device, probe) = Probe::device(false, DiskCache::none());
    let mut x = device.tensor(&[1.0; 9], [9]).unwrap();
    let stream = device.stream().unwrap();
    let (mut y, mut z) = (device.uninit([9]).unwrap(), device.uninit([9]).unwrap());
    add(&x, &mut y, 1.0).on(&stream).launch(&device).unwrap();
    x.with_host_mut(|x| x.fill(3.0)).unwrap();
    // Uploads while `stream` may still read the old contents.
    add(&x, &mut z, 1.0).launch(&device).unwrap();
    assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (vec![2.0; 9], vec![4.0; 9]));
    probe.assert_ordered();
}

#[test]
fn freeing_waits_for_other_streams() {
    let (device, probe) = probe();
    let stream = device.stream().unwrap();
    let mut y = device.uninit([9]).unwrap();
    let x = device.tensor(&[1.0; 9], [9]).unwrap();
    add(&x, &mut y, 1.0).on(&stream).launch(&device).unwrap();
    let before = probe.events();
    drop(x);
    assert_eq!(probe.events(), (before.0 + 1, before.1 + 1));
    drop(y);
    assert_eq!(probe.events(), (before.0 + 1, before.1 + 1), "freed in the stream that wrote it");
    probe.assert_ordered();
    assert_eq!(probe.order().live_allocations(), 0);
}

#[test]
fn tensors_outlive_the_stream_they_were_written_in() {
    for device in [Device::open_apart("interp").unwrap(), Device::open("cpu").unwrap(), probe().0] {
        let x = device.tensor(&[1.0; 9], [9]).unwrap();
        let mut y = device.uninit([9]).unwrap();
        let stream = device.stream().unwrap();
        add(&x, &mut y, 1.0).on(&stream).launch(&device).unwrap();
        drop(stream);
        let mut z = device.uninit([9]).unwrap();
        add(&y, &mut z, 1.0).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [2.0; 9]);
        assert_eq!(z.to_vec().unwrap(), [3.0; 9]);
    }
}

#[test]
fn streams_and_events_of_another_device_are_refused() {
    let (device, _) = probe();
    let interp = Device::open_apart("interp").unwrap();
    let (stream, event) = (interp.stream().unwrap(), Event::now(&interp).unwrap());
    let mut y = device.tensor(&[1.0; 9], [9]).unwrap();
    let refused = double(&mut y).on(&stream).launch(&device).unwrap_err();
    assert_eq!(refused.to_string(), "the stream of the launch is on interp, not on probe");
    let refused = device.stream().unwrap().wait(&event).unwrap_err();
    assert!(matches!(refused, Error::WrongDevice { .. }), "{refused}");
    let refused = Event::now(&device).unwrap().milliseconds_since(&event).unwrap_err();
    assert!(matches!(refused, Error::WrongDevice { .. }), "{refused}");
    assert_eq!(y.to_vec().unwrap(), [1.0; 9]);
    assert_works(&device);
}

#[test]
fn explicit_events_order_streams() {
    let (device, probe) = probe();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let event = a.record().unwrap();
    b.wait(&event).unwrap();
    a.synchronize().unwrap();
    assert!(event.is_reached().unwrap());
    let later = b.record().unwrap();
    assert!(later.milliseconds_since(&event).unwrap() >= 0.0);
    assert_eq!(probe.events(), (2, 1));
}

/// Something a program may do with three tensors and three streams.
#[derive(Debug, Clone)]
enum Step {
    Add { from: usize, to: usize, stream: usize },
    Double { at: usize, stream: usize },
    Write { at: usize },
    HostMut { at: usize },
    Read { at: usize },
    Copy { from: usize, to: usize },
    Renew { at: usize },
    RenewStream { stream: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, stream) = (|| 0..3usize, || 0..3usize);
    prop_oneof![
        (at(), at(), stream()).prop_map(|(from, to, stream)| Step::Add { from, to, stream }),
        (at(), stream()).prop_map(|(at, stream)| Step::Double { at, stream }),
        at().prop_map(|at| Step::Write { at }),
        at().prop_map(|at| Step::HostMut { at }),
        at().prop_map(|at| Step::Read { at }),
        (at(), at()).prop_map(|(from, to)| Step::Copy { from, to }),
        at().prop_map(|at| Step::Renew { at }),
        (1..3usize).prop_map(|stream| Step::RenewStream { stream }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a program does, every use is ordered after those it depends on, nothing leaks, and
    /// the values are right.
    #[test]
    fn random_programs_are_ordered(steps in prop::collection::vec(step(), 1..40), unified: bool) {
        const N: usize = 11;
        let (device, probe) = Probe::device(unified, DiskCache::none());
        let mut streams = [0, 1, 2].map(|_| device.stream().unwrap());
        let mut model = [1f32, 2.0, 3.0];
        let mut tensors = model.map(|v| device.tensor(&[v; N], [N]).unwrap());
        for (count, step) in steps.into_iter().enumerate() {
            let fresh = count as f32;
            match step {
                Step::Add { from, to, stream } if from != to => {
                    let [x, y] = tensors.get_disjoint_mut([from, to]).unwrap();
                    let launch = add(x, y, 1.0);
                    // Stream 0 stands for the default one.
                    let launch = if stream == 0 { launch } else { launch.on(&streams[stream]) };
                    launch.launch(&device).unwrap();
                    model[to] = model[from] + 1.0;
                }
                Step::Double { at, stream } => {
                    let launch = double(&mut tensors[at]);
                    let launch = if stream == 0 { launch } else { launch.on(&streams[stream]) };
                    launch.launch(&device).unwrap();
                    model[at] *= 2.0;
                }
                Step::Write { at } => {
                    tensors[at].write(&[fresh; N]).unwrap();
                    model[at] = fresh;
                }
                Step::HostMut { at } => {
                    tensors[at].with_host_mut(|x| x.fill(fresh)).unwrap();
                    model[at] = fresh;
                }
                Step::Read { at } => prop_assert_eq!(tensors[at].to_vec().unwrap(), [model[at]; N]),
                Step::Copy { from, to } => {
                    tensors[to] = tensors[from].copy().unwrap();
                    model[to] = model[from];
                }
                Step::Renew { at } => {
                    tensors[at] = device.tensor(&[fresh; N], [N]).unwrap();
                    model[at] = fresh;
                }
                Step::RenewStream { stream } => streams[stream] = device.stream().unwrap(),
                Step::Add { .. } => {}
            }
        }
        for (tensor, value) in tensors.iter().zip(model) {
            prop_assert_eq!(tensor.to_vec().unwrap(), [value; N]);
        }
        drop(tensors);
        let order = probe.order();
        prop_assert_eq!(order.violations(), &[] as &[String]);
        prop_assert_eq!(order.live_allocations(), 0);
    }
}

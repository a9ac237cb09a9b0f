//! Observers: what they receive, by which call site, and what they may do.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_ir::Level;
use kiln_runtime::{Activity, CopyKind, Device, DiskCache, DynTensor, LaunchActivity, Observer, Tensor};
use std::sync::{Arc, Mutex};

/// An observer that keeps what it receives.
#[derive(Clone, Default)]
struct Record {
    activities: Arc<Mutex<Vec<Activity>>>,
    timed: bool,
}

impl Observer for Record {
    fn observe(&self, activity: &Activity) {
        self.activities.lock().unwrap().push(activity.clone());
    }

    fn times_launches(&self) -> bool {
        self.timed
    }
}

impl Record {
    /// Each activity in a few words, with its line in this file; what was kept is forgotten.
    fn take(&self) -> Vec<(String, u32)> {
        let all = std::mem::take(&mut *self.activities.lock().unwrap());
        let words = |activity: &Activity| {
            let site = activity.call_site();
            assert!(site.file().ends_with("observers.rs"), "{site}");
            (describe(activity), site.line())
        };
        all.iter().map(words).collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.take().into_iter().map(|(words, _)| words).collect()
    }
}

fn describe(activity: &Activity) -> String {
    match activity {
        Activity::Compile(a) => format!("compile {} {}", a.kernel, a.stages.is_some()),
        Activity::Launch(a) => format!("launch {} {:?} {}", a.kernel, a.grid, a.cached),
        Activity::Copy(a) => format!("copy {} {}", a.bytes, a.kind),
        Activity::Allocate(a) => format!("allocate {}", a.bytes),
        Activity::Free(a) => format!("free {}", a.bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_is_told_with_the_line_that_caused_it() {
    let (device, _) = Probe::device(false, DiskCache::none());
    let record = Record::default();
    let observation = device.observe(record.clone());
    let first = line!() + 1;
    let mut x = device.tensor(&[1.0f32; 9], [9]).unwrap();
    let mut y = device.uninit([9]).unwrap();
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    x.with_host_mut(|x| x[0] = 2.0).unwrap();
    double(&mut x).launch(&device).unwrap();
    let copy = x.copy().unwrap();
    assert_eq!(copy.to_vec().unwrap()[0], 4.0);
    drop((x, y, copy));
    let expected = [
        ("allocate 36", 0),
        ("copy 36 host to device", 0),
        ("allocate 36", 1),
        ("compile add true", 2),
        ("launch add [2, 1, 1] false", 2),
        ("launch add [2, 1, 1] true", 3),
        ("copy 36 device to host", 4),
        ("compile double true", 5),
        ("copy 36 host to device", 5),
        ("launch double [2, 1, 1] false", 5),
        ("allocate 36", 6),
        ("copy 36 device to device", 6),
        ("copy 36 device to host", 7),
        // A free is that of the call that allocated.
        ("free 36", 0),
        ("free 36", 1),
        ("free 36", 6),
    ];
    assert_eq!(record.take(), expected.map(|(words, line)| (words.to_owned(), first + line)));
    drop(observation);
    assert_works(&device);
    assert_eq!(record.take(), []);
}

#[test]
fn fills_and_views_with_gaps() {
    let device = Device::open_apart("interp").unwrap();
    let record = Record::default();
    let _observation = device.observe(record.clone());
    let x: Tensor<f64, 2> = device.zeros([4, 2]).unwrap();
    let mut column = x.slice(1, 0..1).unwrap();
    column.write(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    let fresh = column.to_device(&Device::open_apart("cpu").unwrap()).unwrap();
    assert_eq!(fresh.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let told = ["allocate 64", "copy 64 fill", "copy 56 device to host", "copy 56 host to device"];
    assert_eq!(record.kinds(), [&told[..], &["copy 56 device to host"]].concat());
}

#[test]
fn what_a_launch_says() {
    let device = Device::open_apart("cpu").unwrap();
    let record = Record { timed: true, ..Record::default() };
    let _observation = device.observe(record.clone());
    let stream = device.stream().unwrap();
    let x = device.tensor(&[1.0f32; 64], [64]).unwrap();
    let mut y = device.zeros([64]).unwrap();
    add(&x, &mut y, 1.0).on(&stream).launch(&device).unwrap();
    stream.synchronize().unwrap();
    let all = std::mem::take(&mut *record.activities.lock().unwrap());
    let launch: &LaunchActivity = all
        .iter()
        .find_map(|activity| if let Activity::Launch(a) = activity { Some(a) } else { None })
        .expect("a launch");
    assert_eq!((&*launch.device, &*launch.kernel, launch.grid), ("cpu", "add", [8, 1, 1]));
    assert_eq!((launch.level, launch.stream), (Level::Tile { warps: None }, stream.id()));
    let elapsed = launch.timer.as_ref().expect("it was asked for").elapsed().unwrap();
    assert!(elapsed.is_some_and(|time| time.as_secs_f64() < 60.0));
    let compile = all.iter().find_map(|a| if let Activity::Compile(c) = a { Some(c) } else { None }).unwrap();
    assert!(
        compile.specialization.starts_with("kernel @add(%x: view<f32, 1, global>"),
        "{}",
        compile.specialization
    );
    assert!(compile.tracing <= compile.duration && compile.start <= launch.start);
}

#[test]
fn observers_of_a_device_hear_nothing_of_others() {
    let [one, other] = [(); 2].map(|()| Device::open_apart("interp").unwrap());
    let (of_one, of_all) = (Record::default(), Record::default());
    let first = one.observe(of_one.clone());
    let all = kiln_runtime::observe(of_all.clone());
    let _kept = (one.zeros::<i32, 1>([3]).unwrap(), other.zeros::<i32, 1>([5]).unwrap());
    assert_eq!(of_one.kinds(), ["allocate 12", "copy 12 fill"]);
    drop(first);
    let _kept = one.zeros::<i32, 1>([7]).unwrap();
    assert_eq!(of_one.kinds(), [""; 0]);
    drop(all);
    // Other tests run at the same time.
    let here = of_all.activities.lock().unwrap().clone();
    let told: Vec<String> =
        here.iter().filter(|a| a.call_site().file().ends_with("observers.rs")).map(describe).collect();
    for expected in ["allocate 12", "allocate 20", "allocate 28"] {
        assert!(told.iter().any(|words| words == expected), "{expected} in {told:?}");
    }
}

/// An observer that uses the device, and the tensors that are in use when it is called.
#[test]
fn an_observer_may_use_devices_and_tensors() {
    let (device, _) = Probe::device(false, DiskCache::none());
    let shared = Arc::new(DynTensor::new(&device, &[1.0f32; 9], &[9]).unwrap());
    let (seen, inner) = (Arc::new(Mutex::new(Vec::new())), shared.clone());
    let (sums, inside) = (seen.clone(), device.clone());
    let observation = device.observe(move |activity: &Activity| {
        // The same kernel, on the same tensor, and one that is compiled here first.
        let mut y = inside.uninit([9]).unwrap();
        add(inner.downcast_ref().unwrap(), &mut y, 1.0).launch(&inside).unwrap();
        double(&mut y).launch(&inside).unwrap();
        let sum: f32 = y.to_vec().unwrap().iter().sum();
        sums.lock().unwrap().push((describe(activity), sum));
    });
    let mut y = device.uninit([9]).unwrap();
    add(shared.downcast_ref().unwrap(), &mut y, 1.0).launch(&device).unwrap();
    drop(y);
    drop(observation);
    let told = seen.lock().unwrap().clone();
    let words: Vec<&str> = told.iter().map(|(words, _)| words.as_str()).collect();
    let expected = ["allocate 36", "compile add true", "launch add [2, 1, 1] false", "free 36"];
    // The first activity made the observer compile `add` itself.
    let expected: Vec<&str> = expected.into_iter().filter(|w| !w.starts_with("compile")).collect();
    assert_eq!(words.len(), expected.len(), "{words:?}");
    assert!(words[1].starts_with("launch add"), "{words:?}");
    assert!(told.iter().all(|(_, sum)| *sum == 36.0), "{told:?}");
}

#[test]
fn an_observer_that_panics_is_removed_and_harms_nothing() {
    let (device, _) = Probe::device(false, DiskCache::none());
    let record = Record::default();
    let bad = device.observe(|activity: &Activity| {
        if let Activity::Launch(_) = activity {
            panic!("on {}", describe(activity));
        }
    });
    let _good = device.observe(record.clone());
    let x: Tensor<f32, 1> = device.tensor(&[1.0; 8], [8]).unwrap();
    let mut y = device.uninit([8]).unwrap();
    assert_eq!(bad.failure(), None);
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    assert_eq!(bad.failure(), Some("on launch add [1, 1, 1] false"));
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 8]);
    let launches = record.kinds().iter().filter(|words| words.starts_with("launch")).count();
    assert_eq!(launches, 2);
    drop(bad);
    assert_works(&device);
}

#[test]
fn kinds_of_copies_have_names_of_one_width() {
    let text = format!("[{:<16}] [{:>16}]", CopyKind::Fill, CopyKind::DeviceToDevice);
    assert_eq!(text, "[fill            ] [device to device]");
}

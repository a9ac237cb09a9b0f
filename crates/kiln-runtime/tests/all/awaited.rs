//! Reads and synchronizations that are awaited: values, order, faults.

use kiln_lang::prelude::*;
use kiln_runtime::{Activity, CopyKind, Device, DynTensor, Error, FaultKind, Tensor};
use pollster::block_on;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake};

#[kernel(crate = kiln_runtime)]
fn square(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let at = program_id(0) * 4;
    let v = x.tile(at, 4).load(0);
    device_assert!(v.reduce_max() < 1000, "{} is too large", v.reduce_max());
    y.tile(at, 4).store(v * v);
}

/// The interpreter and the processor have calls that block, adapters of wgpu have not.
fn names() -> impl Iterator<Item = String> {
    let adapter = Device::available().into_iter().find(|name| name.starts_with("wgpu"));
    ["interp".to_owned(), "cpu".to_owned()].into_iter().chain(adapter)
}

/// Devices that no other test uses.
fn devices() -> impl Iterator<Item = Device> {
    names().map(|name| Device::open_apart(&name).unwrap())
}

#[test]
fn results_of_kernels_are_awaited() {
    for device in devices() {
        let x = device.tensor(&[1, -2, 3, 4, 5, 6], [6]).unwrap();
        let mut y = device.uninit([6]).unwrap();
        square(&x, &mut y).launch(&device).unwrap();
        let first = y.to_vec_async();
        // What comes after the call does not change what it gives, where the device has begun it.
        let first = block_on(first).unwrap();
        y.write(&[7; 6]).unwrap();
        assert_eq!(first, [1, 4, 9, 16, 25, 36], "{}", device.id());
        assert_eq!(block_on(y.to_vec_async()).unwrap(), [7; 6]);
        block_on(device.synchronize_async()).unwrap();
        block_on(device.stream().unwrap().synchronize_async()).unwrap();
    }
}

#[test]
fn views_bytes_and_what_the_host_has() {
    for device in devices() {
        let mut x = device.tensor(&[1u8, 2, 3, 4, 5, 6], [2, 3]).unwrap();
        assert_eq!(block_on(x.transpose().to_vec_async()).unwrap(), [1, 4, 2, 5, 3, 6]);
        assert_eq!(block_on(x.slice(1, 1..2).unwrap().to_vec_async()).unwrap(), [2, 5]);
        x.with_host_mut(|x| x[4] = 50).unwrap();
        assert_eq!(block_on(x.to_vec_async()).unwrap(), [1, 2, 3, 4, 50, 6]);
        assert_eq!(block_on(x.as_dyn().to_bytes_async()).unwrap(), [1, 2, 3, 4, 50, 6]);
        // A byte that is neither 0 nor 1 is true.
        let bools = DynTensor::from_bytes(&device, kiln_ir::Scalar::Bool, &[3], &[0, 2, 1]).unwrap();
        assert_eq!(block_on(bools.to_vec_async::<bool>()).unwrap(), [false, true, true]);
        assert!(block_on(device.zeros::<f32, 2>([0, 3]).unwrap().to_vec_async()).unwrap().is_empty());
    }
}

#[test]
fn faults_and_mistakes_arrive_where_they_are_awaited() {
    for device in devices() {
        let x = device.tensor(&[1, 2, 3, 4000], [4]).unwrap();
        let mut y = device.zeros([4]).unwrap();
        square(&x, &mut y).launch(&device).unwrap();
        let error = block_on(y.to_vec_async()).unwrap_err();
        let fault = error.fault().unwrap_or_else(|| panic!("{error} should be a fault"));
        assert_eq!(fault.kind, FaultKind::Assert { message: "4000 is too large".into() });
        assert!(fault.location.starts_with(file!()), "{fault}");
        assert_eq!(block_on(y.to_vec_async()).unwrap(), [0; 4]);
        square(&x, &mut y).launch(&device).unwrap();
        let error = block_on(device.synchronize_async()).unwrap_err();
        assert!(error.fault().is_some(), "{error}");
        let unwritten = block_on(device.uninit::<i32, 1>([3]).unwrap().to_vec_async());
        assert!(matches!(unwritten, Err(Error::Uninitialized { .. })), "{unwritten:?}");
        let other = block_on(x.as_dyn().to_vec_async::<f32>());
        assert!(matches!(other, Err(Error::DataType { .. })), "{other:?}");
    }
    let unknown = block_on(Device::open_async("abacus"));
    assert!(matches!(unknown, Err(Error::UnknownDevice { .. })), "{unknown:?}");
}

#[test]
fn a_device_is_opened_once_and_opened_anew() {
    for name in names() {
        let device = block_on(Device::open_async(&name)).unwrap();
        assert_eq!(block_on(Device::open_async(&name)).unwrap(), device);
        assert_eq!(Device::open(&name).unwrap(), device);
    }
    // Not one that other tests use.
    let device = block_on(Device::open_async("interp:91")).unwrap();
    let anew = block_on(device.reopen_async()).unwrap();
    assert_ne!(device, anew);
    assert_eq!(Device::open("interp:91").unwrap(), anew);
}

#[test]
fn observers_see_reads_that_are_awaited() {
    for device in devices() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let list = seen.clone();
        let x = device.tensor(&[1.5f32; 10], [10]).unwrap();
        let observation = device.observe(move |activity: &Activity| {
            if let Activity::Copy(copy) = activity {
                list.lock().unwrap().push((copy.kind, copy.bytes, copy.call_site.line()));
            }
        });
        let line = line!() + 1;
        block_on(x.to_vec_async()).unwrap();
        drop(observation);
        assert_eq!(*seen.lock().unwrap(), [(CopyKind::DeviceToHost, 40, line)], "{}", device.id());
    }
}

/// Counts wakes, and lets a thread wait for one.
#[derive(Default)]
struct Woken(Mutex<bool>, Condvar);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

/// An executor of the smallest kind: a future may move to another thread, and is polled again when
/// it has woken its waker, not before.
#[test]
fn any_executor_will_do() {
    for device in devices() {
        let y = device.tensor(&[3i64, 1, 4, 1, 5], [5]).unwrap();
        let run = move || {
            let woken = Arc::new(Woken::default());
            let waker = woken.clone().into();
            let mut context = Context::from_waker(&waker);
            let mut future = pin!(y.to_vec_async());
            loop {
                if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                    return result.unwrap();
                }
                let mut flag = woken.0.lock().unwrap();
                while !*flag {
                    flag = woken.1.wait(flag).unwrap();
                }
                *flag = false;
            }
        };
        assert_eq!(std::thread::spawn(run).join().unwrap(), [3, 1, 4, 1, 5]);
    }
    fn sends<T: Send>(_: &T) {}
    let device = Device::open_apart("interp").unwrap();
    sends(&Device::open_async("interp"));
    sends(&device.reopen_async());
}

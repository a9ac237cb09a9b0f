//! Tensors: where their contents are, and what is refused.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_backend::Error as DeviceError;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, Residency, Residency::*, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn devices() -> [Device; 4] {
    let [discrete, unified] = [false, true].map(|unified| Probe::device(unified, DiskCache::none()).0);
    [discrete, unified, Device::open_apart("interp").unwrap(), Device::open("cpu").unwrap()]
}

#[test]
fn contents_move_when_they_are_needed_and_stale() {
    let (device, probe) = Probe::device(false, DiskCache::none());
    let mut x: Tensor<f32, 1> = device.uninit([9]).unwrap();
    assert_eq!(x.residency(), Uninitialized);
    let now = |x: &Tensor<f32, 1>, what: Residency, transfers: (usize, usize, usize)| {
        assert_eq!((x.residency(), probe.transfers()), (what, transfers));
    };
    x.with_host_mut(|h| h.copy_from_slice(&[1.0; 9])).unwrap();
    now(&x, HostOnly, (0, 0, 0));
    x.with_host_mut(|h| h[0] = 3.0).unwrap();
    now(&x, HostOnly, (0, 0, 0));
    assert_eq!(x.to_vec().unwrap()[..2], [3.0, 1.0]);
    now(&x, HostOnly, (0, 0, 0));
    let mut y = device.uninit([9]).unwrap();
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    now(&x, InSync, (1, 0, 0));
    now(&y, DeviceOnly, (1, 0, 0));
    add(&x, &mut y, 1.0).launch(&device).unwrap();
    x.with_host(|h| assert_eq!(h[0], 3.0)).unwrap();
    now(&x, InSync, (1, 0, 0));
    double(&mut x).launch(&device).unwrap();
    now(&x, DeviceDirty, (1, 0, 0));
    x.with_host(|h| assert_eq!(h[..2], [6.0, 2.0])).unwrap();
    now(&x, InSync, (1, 1, 0));
    assert_eq!(x.to_vec().unwrap()[..2], [6.0, 2.0]);
    now(&x, InSync, (1, 1, 0));
    x.with_host_mut(|h| h[0] = 1.0).unwrap();
    now(&x, HostDirty, (1, 1, 0));
    double(&mut x).launch(&device).unwrap();
    now(&x, DeviceDirty, (2, 1, 0));
    assert_eq!(x.to_vec().unwrap()[..2], [2.0, 4.0]);
    now(&x, DeviceDirty, (2, 2, 0));
    x.with_host_mut(|h| h[1] = 0.0).unwrap();
    now(&x, HostDirty, (2, 3, 0));
    x.write(&[8.0; 9]).unwrap(); // all of it: the host's changes need not go first
    now(&x, DeviceDirty, (3, 3, 0));
    let copy = x.copy().unwrap();
    now(&copy, DeviceOnly, (3, 3, 1));
    y.with_host(|h| assert_eq!(h[0], 4.0)).unwrap();
    now(&y, InSync, (3, 4, 1));
    now(&device.zeros([2]).unwrap(), DeviceOnly, (3, 4, 1));
    probe.assert_ordered();
}

#[test]
fn shared_memory_is_never_copied() {
    let (device, probe) = Probe::device(true, DiskCache::none());
    let mut x: Tensor<f32, 1> = device.uninit([9]).unwrap();
    assert_eq!(x.residency(), Uninitialized);
    assert!(matches!(x.with_host(|_| ()), Err(Error::Uninitialized { .. })));
    x.with_host_mut(|h| {
        assert_eq!(h, [0.0; 9], "fresh memory is zeroed");
        h.fill(1.0);
    })
    .unwrap();
    assert_eq!(x.residency(), DeviceOnly);
    double(&mut x).launch(&device).unwrap();
    x.with_host(|h| assert_eq!(h, [2.0; 9])).unwrap();
    assert_eq!((x.residency(), probe.transfers()), (DeviceOnly, (0, 0, 0)));
    probe.assert_ordered();
}

#[test]
fn a_part_written_by_the_host_keeps_the_rest() {
    for device in devices() {
        let mut x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [4]).unwrap();
        x.with_host_mut(|h| h[3] = 9.0).unwrap();
        x.slice(0, 1..3).unwrap().write(&[7.0, 8.0]).unwrap();
        x.slice(0, 0..2).unwrap().with_host_mut(|h| h[0] += 0.5).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1.5, 7.0, 8.0, 9.0]);
        double(&mut x).launch(&device).unwrap();
        assert_eq!(x.to_vec().unwrap(), [3.0, 14.0, 16.0, 18.0]);
    }
}

#[test]
fn contents_borrowed_by_a_closure_are_not_used_meanwhile() {
    for device in devices() {
        let mut x = device.tensor(&[1.0f32; 9], [9]).unwrap();
        let mut other = x.slice(0, 0..9).unwrap();
        let borrowed = |error: Error, what: &str| {
            assert!(matches!(error, Error::Borrowed { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        x.with_host_mut(|h| {
            h[0] = 5.0;
            borrowed(other.to_vec().unwrap_err(), "the tensor");
            borrowed(other.write(&[0.0; 9]).unwrap_err(), "the tensor");
            borrowed(other.with_host(|_| ()).unwrap_err(), "with_host");
            borrowed(other.copy().unwrap_err(), "the tensor");
            borrowed(double(&mut other).launch(&device).unwrap_err(), "argument `y` of `double`");
            assert_works(&device);
        })
        .unwrap();
        assert_eq!(x.to_vec().unwrap()[..2], [5.0, 1.0]);
        double(&mut other).launch(&device).unwrap();
        assert_eq!(x.to_vec().unwrap()[..2], [10.0, 2.0]);
    }
}

#[test]
fn a_closure_that_panics_gives_the_contents_back() {
    for device in devices() {
        let mut x = device.tensor(&[1.0f32; 9], [9]).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            x.with_host_mut(|h| {
                h[0] = 5.0;
                panic!("on purpose");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(x.to_vec().unwrap()[..2], [5.0, 1.0]);
        double(&mut x).launch(&device).unwrap();
        assert_eq!(x.to_vec().unwrap()[..2], [10.0, 2.0]);
    }
}

#[test]
fn copies_go_to_any_device_and_share_nothing() {
    let all = devices();
    let values: Vec<i32> = (0..24).collect();
    for from in &all {
        for to in &all {
            let x = from.tensor(&values, [4, 6]).unwrap();
            let mut copy = x.to_device(to).unwrap();
            assert_eq!((copy.device(), copy.to_vec().unwrap()), (to, values.clone()));
            let part = x.slice(0, 1..3).unwrap().to_device(to).unwrap();
            assert_eq!((part.shape(), part.to_vec().unwrap()), ([2, 6], values[6..18].to_vec()));
            let transposed = x.transpose().to_device(to).unwrap();
            assert_eq!((transposed.shape(), transposed.strides()), ([6, 4], [4, 1]), "row-major");
            assert_eq!(transposed.to_vec().unwrap(), x.transpose().to_vec().unwrap());
            copy.write(&[0; 24]).unwrap();
            assert_eq!(x.to_vec().unwrap(), values);
            assert!(from.zeros::<i32, 2>([0, 3]).unwrap().to_device(to).unwrap().is_empty());
        }
        let fresh: Tensor<f32, 1> = from.uninit([3]).unwrap();
        assert!(matches!(fresh.copy(), Err(Error::Uninitialized { .. })));
        assert!(matches!(fresh.to_device(&all[2]), Err(Error::Uninitialized { .. })));
    }
}

#[test]
fn a_part_whose_whole_is_gone_is_copied_alone() {
    for device in devices() {
        let part = device.tensor(&[1, 2, 3, 4, 5], [5]).unwrap().slice(0, 1..3).unwrap();
        assert_eq!(part.copy().unwrap().to_vec().unwrap(), [2, 3]);
        let part = device.tensor(&[1, 2, 3, 4, 5], [5]).unwrap().slice(0, 0..2).unwrap();
        assert_eq!(part.copy().unwrap().to_vec().unwrap(), [1, 2]);
    }
}

#[test]
fn the_hosts_newer_contents_are_what_is_copied() {
    for device in devices() {
        let mut x = device.tensor(&[1, 2, 3], [3]).unwrap();
        x.with_host_mut(|h| h[1] = 9).unwrap();
        assert_eq!(x.copy().unwrap().to_vec().unwrap(), [1, 9, 3]);
        assert_eq!(x.slice(0, 1..3).unwrap().copy().unwrap().to_vec().unwrap(), [9, 3]);
    }
}

#[kernel(crate = kiln_runtime)]
fn larger(x: &Tensor<f32, 1>, y: &mut Tensor<bool, 1>, than: Val<f32>) {
    let at = program_id(0) * 4;
    y.tile(at, 4).store(x.tile(at, 4).load(0.0) > than);
}

#[kernel(crate = kiln_runtime)]
fn negate(y: &mut Tensor<bool, 1>) {
    let at = program_id(0) * 4;
    y.tile(at, 4).store(!y.tile(at, 4).load(false));
}

#[test]
fn bools_are_bytes_of_zero_and_one() {
    for device in devices() {
        let x = device.tensor(&[1.0, 5.0, f32::NAN, 3.0, 2.0], [5]).unwrap();
        let mut y = device.uninit([5]).unwrap();
        larger(&x, &mut y, 2.0).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [false, true, false, true, false]);
        y.with_host_mut(|h| h[0] = true).unwrap();
        negate(&mut y).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [false, false, true, false, true]);
        assert_eq!(device.zeros::<bool, 1>([3]).unwrap().to_vec().unwrap(), [false; 3]);
        let mut fresh: Tensor<bool, 1> = device.uninit([3]).unwrap();
        fresh.with_host_mut(|h| h[1] = true).unwrap();
        assert_eq!(fresh.to_vec().unwrap(), [false, true, false]);
        // A part was written: the rest holds some bools.
        let part: Tensor<bool, 1> = device.uninit([64]).unwrap();
        part.slice(0, 8..9).unwrap().write(&[true]).unwrap();
        match part.to_vec() {
            // The sanitizer records that it holds nothing.
            Err(error) => {
                assert!(matches!(error, Error::Unwritten { missing: 63, of: 64, .. }), "{error}");
                assert_eq!(device.id(), "interp");
            }
            Ok(all) => {
                let bytes: Vec<u8> = all.into_iter().map(u8::from).collect();
                assert!(bytes.iter().all(|b| *b < 2) && bytes[8] == 1);
            }
        }
    }
}

#[test]
fn every_element_type_comes_back_as_it_went() {
    fn round_trip<T: Elem + PartialEq + std::fmt::Debug>(device: &Device, values: &[T]) {
        let x = device.tensor(values, [values.len()]).unwrap();
        assert_eq!(x.to_vec().unwrap(), values);
        assert_eq!(x.slice(0, 1..2).unwrap().to_vec().unwrap(), values[1..2]);
        assert_eq!(x.item().unwrap(), values[0]);
        x.with_host(|h| assert_eq!(h, values)).unwrap();
    }
    for device in devices() {
        round_trip(&device, &[true, false, true]);
        round_trip(&device, &[i32::MIN, -1, i32::MAX]);
        round_trip(&device, &[0u32, 1, u32::MAX]);
        round_trip(&device, &[i64::MIN, -1, i64::MAX]);
        round_trip(&device, &[0u64, 1, u64::MAX]);
        round_trip(&device, &[f16::MIN, f16::NEG_ZERO, f16::INFINITY]);
        round_trip(&device, &[bf16::MIN, bf16::NEG_ZERO, bf16::INFINITY]);
        round_trip(&device, &[f32::MIN, 1e-45, f32::INFINITY]);
        round_trip(&device, &[f64::MIN, 5e-324, f64::INFINITY]);
    }
}

#[test]
fn shapes_must_fit_the_data() {
    let device = Device::open_apart("interp").unwrap();
    let error = device.tensor(&[1.0f32; 5], [2, 3]).unwrap_err();
    assert!(matches!(&error, Error::Length { given: 5, expected: 6, shape } if shape == &[2, 3]), "{error}");
    assert_eq!(error.to_string(), "5 elements do not fill shape [2, 3], which has 6");
    let mut x = device.tensor(&[1.0f32; 6], [2, 3]).unwrap();
    assert!(matches!(x.write(&[0.0; 7]), Err(Error::Length { given: 7, expected: 6, .. })));
    assert!(matches!(x.reshape([4]), Err(Error::Length { given: 6, expected: 4, .. })));
    assert_eq!(x.to_vec().unwrap(), [1.0; 6]);
    let scalar = device.tensor(&[4.0f32], []).unwrap();
    assert_eq!((scalar.len(), scalar.to_vec().unwrap()), (1, vec![4.0]));
}

#[test]
fn ranges_must_lie_in_the_tensor() {
    let device = Device::open_apart("interp").unwrap();
    let x = device.tensor(&[1.0f32; 6], [2, 3]).unwrap();
    #[allow(clippy::reversed_empty_ranges)] // that is what is tested
    for (axis, range) in [(0, 0..3), (1, 2..4), (0, 2..1), (2, 0..1), (1, 4..4), (0, 0..usize::MAX)] {
        let error = x.slice(axis, range.clone()).unwrap_err();
        assert!(matches!(&error, Error::Range { shape, .. } if shape == &[2, 3]), "{error}");
        assert!(error.to_string().contains(&format!("{range:?} on axis {axis}")), "{error}");
    }
    assert!(matches!(x.transpose().with_host(|_| ()), Err(Error::Range { .. })));
    assert!(matches!(x.slice(1, 0..2).unwrap().reshape([4]), Err(Error::Range { .. })));
    let counted = device.tensor(&[1, 2, 3, 4, 5, 6], [2, 3]).unwrap();
    assert_eq!(counted.slice(1, 1..3).unwrap().transpose().item().unwrap(), 2);
    assert_eq!(counted.slice(0, 1..2).unwrap().slice(1, 2..3).unwrap().item().unwrap(), 6);
    let error = device.zeros::<f32, 1>([0]).unwrap().item().unwrap_err();
    let expected = "`item` reads the first element, and there is none, for a tensor of shape [0]";
    assert_eq!(error.to_string(), expected);
    assert_eq!(x.slice(1, 3..3).unwrap().to_vec().unwrap(), [0.0; 0]);
}

#[test]
fn sizes_beyond_addresses_or_memory_are_refused() {
    for device in devices() {
        let error = device.zeros::<f64, 2>([usize::MAX / 4, 3]).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        let error = device.uninit::<f32, 1>([1 << 55]).unwrap_err();
        let Error::Device(DeviceError::OutOfMemory { requested, free, total, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(requested, 4 << 55);
        assert!(free <= total && total < requested, "{free} of {total}");
        assert_works(&device);
    }
}

#[test]
fn devices_are_opened_once_and_unknown_ones_named() {
    let (a, b) = (Device::open("interp").unwrap(), Device::open("interp").unwrap());
    assert_eq!(a, b);
    assert_ne!(a, Device::open("cpu").unwrap());
    let error = Device::open("abacus").unwrap_err();
    assert!(matches!(&error, Error::UnknownDevice { name, .. } if name == "abacus"));
    assert!(error.to_string().contains("cpu, interp"), "{error}");
    assert!(Device::open("cuda:99").is_err());
    assert!(matches!(Device::open("cuda:x"), Err(Error::UnknownDevice { .. })));
    assert_eq!(Device::available().last().map(String::as_str), Some("interp"));
}

/// Each program writes `block` elements of its row.
#[kernel(crate = kiln_runtime)]
fn rows(y: &mut Tensor<i32, 2>, block: usize) {
    let row = program_id(0);
    let ones = y.row(row).tile(0, block).load(0) * 0 + 1;
    y.row(row).tile(0, block).store(ones);
}

/// Each thread writes an element of the column.
#[kernel(crate = kiln_runtime)]
fn column(y: &mut Tensor<i32, 2>, at: Val<i32>) {
    let row = thread_index();
    // SAFETY: each thread writes an element of its own.
    unsafe { y.write((row.get(), at), 7) };
}

#[test]
fn elements_that_no_store_reaches_are_found() {
    let device = Device::open_apart("interp").unwrap();
    let found = |error: Error| match error {
        Error::Unwritten { missing, of, first, .. } => (missing, of, first),
        other => panic!("{other}"),
    };
    let mut y = device.zeros::<i32, 2>([5, 100]).unwrap();
    assert_eq!(found(y.check_written().unwrap_err()), (500, 500, vec![0, 0]));
    rows(&mut y, 64).launch(&device).unwrap();
    // Zeros are values: a tensor that is read may hold some.
    assert_eq!(y.to_vec().unwrap().iter().sum::<i32>(), 5 * 64);
    assert_eq!(found(y.check_written().unwrap_err()), (5 * 36, 500, vec![0, 64]));
    y.slice(1, 0..64).unwrap().check_written().unwrap();
    let rest = y.slice(1, 60..100).unwrap();
    assert_eq!(found(rest.check_written().unwrap_err()), (5 * 36, 200, vec![0, 4]));
    assert_eq!(found(y.transpose().check_written().unwrap_err()), (5 * 36, 500, vec![64, 0]));
    rows(&mut y, 100).launch(&device).unwrap();
    y.check_written().unwrap();

    let mut y = device.uninit::<i32, 2>([5, 4]).unwrap();
    column(&mut y, 2).grid([1]).block([5]).launch(&device).unwrap();
    assert_eq!(y.slice(1, 2..3).unwrap().to_vec().unwrap(), [7; 5]);
    assert_eq!(found(y.to_vec().unwrap_err()), (15, 20, vec![0, 0]));
    y.write(&[3; 20]).unwrap();
    y.check_written().unwrap();

    // What the host changes it has whole.
    let mut y = device.zeros::<i32, 2>([2, 2]).unwrap();
    y.with_host_mut(|all| all.fill(1)).unwrap();
    y.check_written().unwrap();

    let fast = Device::open_apart("interp:fast").unwrap();
    let y = fast.zeros::<i32, 2>([2, 2]).unwrap();
    let error = y.check_written().unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::Unsupported { .. })), "{error}");
}

//! Kernels that fail: an error value at the next read, and a device that goes on.

use crate::kernels::assert_works;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Fault, FaultKind, Tensor};

const ASSERT: u32 = line!() + 5;
#[kernel(crate = kiln_runtime)]
fn positive(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = program_id(0);
    let v = x.tile(i, 1).load(0).sum();
    device_assert!(v > 0, "element {} is {}", i, v);
    y.tile(i, 1).store(full(1, v));
}

const INDEX: u32 = line!() + 4;
#[kernel(crate = kiln_runtime)]
fn pick(x: &Tensor<i32, 1>, index: &Tensor<i64, 1>, y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    y.set(i, x.get(index.get(i)));
}

const PAIR: u32 = line!() + 3;
#[kernel(crate = kiln_runtime)]
fn exchange_pair(x: &mut Tensor<u64, 1>, at: Val<i64>) {
    let [a, b] = x.atomic_exchange_128(at, [10, 20]);
    device_assert!((a == 3) & (b == 4));
}

const VECTORS: u32 = line!() + 5;
#[kernel(crate = kiln_runtime)]
fn copy_vectors(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, first: Val<i64>) {
    let i = thread_index() + first;
    // SAFETY: each thread has elements of its own.
    unsafe { y.write_vec(i, x.get_vec::<4>(i)) };
}

/// Devices of the test's own: the first call that waits for a stream has its faults, in whichever
/// thread it is.
fn devices() -> [Device; 2] {
    [Device::open_apart("interp").unwrap(), Device::open("cpu").unwrap()]
}

#[track_caller]
fn fault(error: Error) -> Fault {
    error.fault().unwrap_or_else(|| panic!("{error} should be a fault")).clone()
}

#[test]
fn a_vector_that_is_not_wholly_inside_is_a_fault() {
    for device in devices() {
        let x = device.tensor(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [11]).unwrap();
        let mut y = device.zeros([11]).unwrap();
        copy_vectors(&x, &mut y, 0).grid([1]).block([2]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0]);
        for (first, index) in [(2, 11), (-1, -1)] {
            copy_vectors(&x, &mut y, first).grid([1]).block([1]).launch(&device).unwrap();
            let fault = fault(y.to_vec().unwrap_err());
            assert!(fault.location.starts_with(&format!("{}:{VECTORS}:", file!())), "{fault}");
            assert!(fault.to_string().contains(&format!("index {index}")), "{fault}");
            assert_eq!(y.to_vec().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0]);
        }
    }
}

#[test]
fn a_failed_assert_says_where_and_what() {
    for device in devices() {
        let x = device.tensor(&[1, 2, -3, 4], [4]).unwrap();
        let mut y = device.zeros([4]).unwrap();
        positive(&x, &mut y).launch(&device).unwrap();
        let fault = fault(y.to_vec().unwrap_err());
        assert_eq!(fault.kind, FaultKind::Assert { message: "element 2 is -3".into() });
        assert_eq!((fault.kernel.as_str(), fault.block), ("positive", [2, 0, 0]));
        assert!(fault.location.starts_with(&format!("{}:{ASSERT}:", file!())), "{fault}");
        // Reported once; after that the tensor can be read again.
        let after = y.to_vec().unwrap();
        assert!(
            after[2] == 0 && after.iter().zip([1, 2, -3, 4]).all(|(&y, x)| y == 0 || y == x),
            "{after:?}"
        );
        device.synchronize().unwrap();
        assert_works(&device);
    }
}

#[test]
fn an_index_out_of_range_is_an_error() {
    for device in devices() {
        let x = device.tensor(&[10, 11, 12], [3]).unwrap();
        let mut y = device.zeros([2]).unwrap();
        for (index, bad) in [([0, 3], 3), ([-1, 0], -1)] {
            let index = device.tensor(&index, [2]).unwrap();
            pick(&x, &index, &mut y).grid([1]).block([2]).launch(&device).unwrap();
            let fault = fault(device.synchronize().unwrap_err());
            assert_eq!(fault.kind, FaultKind::OutOfBounds { index: bad, extent: 3 });
            assert!(fault.location.starts_with(&format!("{}:{INDEX}:", file!())), "{fault}");
            assert!(fault.thread.is_some());
        }
        device.synchronize().unwrap();
        let good = device.tensor(&[2, 0], [2]).unwrap();
        pick(&x, &good, &mut y).grid([1]).block([2]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [12, 10]);
        assert_works(&device);
    }
}

#[test]
fn two_elements_that_are_not_16_aligned_bytes_are_a_fault() {
    for device in devices() {
        let mut x = device.tensor(&[1, 2, 3, 4, 5], [5]).unwrap();
        for at in [-2, 1, 4, 6, i64::MAX] {
            exchange_pair(&mut x, at).grid([1]).block([1]).launch(&device).unwrap();
            let fault = fault(device.synchronize().unwrap_err());
            let start = format!("128 bits at index {at} of 5 elements: ");
            assert!(
                matches!(&fault.kind, FaultKind::Assert { message } if message.starts_with(&start)),
                "{fault}"
            );
            assert!(fault.location.starts_with(&format!("{}:{PAIR}:", file!())), "{fault}");
        }
        exchange_pair(&mut x, 2).grid([1]).block([1]).launch(&device).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1, 2, 10, 20, 5]);
        // An even index of a view that begins at an odd element, and elements that have gaps.
        let mut odd = x.slice(0, 1..5).unwrap();
        exchange_pair(&mut odd, 0).grid([1]).block([1]).launch(&device).unwrap();
        assert!(matches!(fault(device.synchronize().unwrap_err()).kind, FaultKind::Assert { .. }));
        assert_works(&device);
    }
}

#[test]
fn a_fault_belongs_to_its_stream() {
    for device in devices() {
        let x = device.tensor(&[0], [1]).unwrap();
        let mut y = device.zeros([1]).unwrap();
        let stream = device.stream().unwrap();
        positive(&x, &mut y).on(&stream).launch(&device).unwrap();
        device.synchronize().unwrap();
        assert_works(&device);
        assert!(stream.synchronize().unwrap_err().fault().is_some());
        stream.synchronize().unwrap();
        // Where the stream is gone, the tensor it wrote still reports.
        positive(&x, &mut y).on(&stream).launch(&device).unwrap();
        drop(stream);
        assert!(y.to_vec().unwrap_err().fault().is_some());
        assert_eq!(y.to_vec().unwrap(), [0]);
    }
}

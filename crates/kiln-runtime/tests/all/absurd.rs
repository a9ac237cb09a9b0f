//! Sizes that no device has: each is refused by name, and nothing panics or takes the memory first.

use kiln_backend::Error as DeviceError;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Result, Tensor};

fn devices() -> [Device; 2] {
    ["interp", "cpu"].map(|name| Device::open_apart(name).unwrap())
}

/// The error is one of these kinds, and its text names the number or the thing.
#[track_caller]
fn refused<T>(outcome: Result<T>, what: &str) {
    let Err(error) = outcome else { panic!("{what}: nothing refused it") };
    assert!(!matches!(error, Error::Device(DeviceError::Internal { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains(what), "expected `{what}` in: {text}");
}

#[kernel(crate = kiln_runtime)]
fn with_local(y: &mut Tensor<f64, 1>, len: usize, arrays: usize) {
    let i = thread_index();
    for _ in 0..arrays {
        let own = local::<f64>(len);
        own.set(0, 1.0);
        y.set_or_skip(i, own.get(0));
    }
}

#[kernel(crate = kiln_runtime)]
fn with_shared(y: &mut Tensor<f64, 1>, len: usize) {
    let all = shared::<f64, 1>([len]);
    let i = thread_index();
    // SAFETY: one thread.
    unsafe { all.put(0, 1.0) };
    y.set_or_skip(i, all.get(0));
}

#[kernel(crate = kiln_runtime)]
fn with_tiles(y: &mut Tensor<f64, 1>, len: usize) {
    let at = program_id(0) * len;
    y.tile(at, len).store(y.tile(at, len).load(0.0) + 1.0);
}

#[kernel(crate = kiln_runtime)]
fn with_full(y: &mut Tensor<f64, 1>, rows: usize, columns: usize) {
    let tile = full::<f64>((rows, columns), 1.0);
    y.set_or_skip(thread_index(), tile.sum());
}

#[kernel(crate = kiln_runtime)]
fn increment(y: &mut Tensor<f64, 1>) {
    let i = thread_index();
    y.set_or_skip(i, y.get_or(i, 0.0) + 1.0);
}

const HUGE: [usize; 5] = [1 << 24, 1 << 31, 1 << 32, 1 << 62, usize::MAX];

#[test]
fn local_memory() {
    for device in devices() {
        let mut y = device.zeros([256]).unwrap();
        for len in HUGE {
            refused(with_local(&mut y, len, 1).block([256]).grid([1]).launch(&device), "elements");
        }
        // 64 Ki numbers are 512 KiB, which one array may have, and two not together.
        refused(
            with_local(&mut y, 1 << 16, 2).block([256]).grid([1]).launch(&device),
            "local memory of a thread comes to 1048576 bytes, expected at most 524288",
        );
        with_local(&mut y, 1 << 12, 2).block([256]).grid([1]).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.0; 256]);
    }
}

#[test]
fn shared_memory() {
    for device in devices() {
        let mut y = device.zeros([4]).unwrap();
        for len in HUGE {
            refused(with_shared(&mut y, len).block([1]).grid([1]).launch(&device), "elements");
        }
        refused(with_shared(&mut y, 1 << 20).block([1]).grid([1]).launch(&device), "shared memory");
    }
}

#[test]
fn tiles() {
    for device in devices() {
        let mut y = device.zeros([4]).unwrap();
        for len in HUGE {
            refused(with_tiles(&mut y, len).launch(&device), "elements");
            refused(with_full(&mut y, len, 2).grid([1]).launch(&device), "elements");
            refused(with_full(&mut y, len, len).grid([1]).launch(&device), "elements");
        }
    }
}

#[test]
fn grids_blocks_and_warps() {
    for device in devices() {
        let mut y = device.zeros([4]).unwrap();
        refused(increment(&mut y).grid([u32::MAX]).block([32]).launch(&device), "grid extent x");
        refused(increment(&mut y).grid([1, u32::MAX]).block([32]).launch(&device), "grid extent y");
        refused(increment(&mut y).grid([u32::MAX; 3]).block([32]).launch(&device), "grid extent x");
        refused(increment(&mut y).grid([1]).block([u32::MAX; 3]).launch(&device), "threads per block");
        for warps in [0, 3, 33, 64, u32::MAX] {
            refused(with_tiles(&mut y, 4).warps(warps).launch(&device), "warps");
        }
        assert_eq!(y.to_vec().unwrap(), [0.0; 4]);
    }
}

#[test]
fn tensors() {
    for device in devices() {
        for shape in
            [[usize::MAX, 1], [1 << 32, 1 << 32], [1 << 40, 1], [usize::MAX, usize::MAX], [1 << 61, 1]]
        {
            let [a, b, c] = [
                device.zeros::<f64, 2>(shape).map(drop),
                device.uninit::<f64, 2>(shape).map(drop),
                device.tensor::<f64, 2>(&[1.0], shape).map(drop),
            ];
            for outcome in [a, b, c] {
                let error = outcome.unwrap_err();
                let known = matches!(
                    error,
                    Error::TooLarge { .. }
                        | Error::Length { .. }
                        | Error::Device(DeviceError::OutOfMemory { .. })
                );
                assert!(known, "{error}");
            }
        }
        // No elements: extents beside a zero may be anything whose strides are numbers.
        let empty = device.zeros::<f64, 2>([0, 1 << 40]);
        assert!(empty.is_ok() || matches!(empty, Err(Error::TooLarge { .. })));
        let x = device.zeros::<f64, 2>([4, 4]).unwrap();
        assert!(x.slice(0, usize::MAX..usize::MAX).is_err() && x.slice(usize::MAX, 0..1).is_err());
        assert!(x.slice(0, 3..usize::MAX).is_err());
        assert!(x.reshape([usize::MAX, 2]).is_err() && x.reshape([1 << 32, 1 << 32]).is_err());
        assert!(x.select::<1>(0, usize::MAX).is_err() && x.select::<1>(usize::MAX, 0).is_err());
        assert!(x.permute([usize::MAX, 0]).is_err() && x.swap_axes(0, usize::MAX).is_err());
        assert!(x.unsqueeze::<3>(usize::MAX).is_err());
    }
}

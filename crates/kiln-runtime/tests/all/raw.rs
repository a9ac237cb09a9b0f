//! Addresses of tensors for other libraries, and tensors over memory of these.

use crate::kernels::{add, assert_works, double};
use crate::probe::Probe;
use kiln_runtime::{Device, DiskCache, DynTensor, Error, Residency, Tensor};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// With memory apart from the host's, with the host's, and compiled.
fn devices() -> [Device; 3] {
    ["interp", "interp:fast", "cpu"].map(|name| Device::open_apart(name).unwrap())
}

/// What another library reads.
unsafe fn read<T: Copy>(address: u64, len: usize) -> Vec<T> {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(address as *const T, len) }.to_vec()
}

/// What another library writes.
unsafe fn write<T: Copy>(address: u64, data: &[T]) {
    // SAFETY: as the caller promises.
    unsafe { (address as *mut T).copy_from_nonoverlapping(data.as_ptr(), data.len()) }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| i as f32 - 3.0).collect()
}

#[test]
fn an_address_has_what_was_written_last() {
    for device in devices() {
        let x = device.tensor(&numbers(21), [21]).unwrap();
        let mut y = device.uninit([21]).unwrap();
        add(&x, &mut y, 1.5).launch(&device).unwrap();
        let sums: Vec<f32> = numbers(21).iter().map(|x| x + 1.5).collect();
        // SAFETY: the tensor is alive and has as many elements; so in all tests here.
        assert_eq!(unsafe { read::<f32>(y.as_device_ptr().unwrap(), 21) }, sums);
        y.with_host_mut(|y| y[20] = 9.0).unwrap();
        let stream = device.stream().unwrap();
        let part = y.slice(0, 19..21).unwrap();
        let address = part.as_device_ptr_on(&stream).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { read::<f32>(address, 2) }, [17.5, 9.0]);
        assert_eq!(address, y.as_device_ptr().unwrap() + 19 * 4);
        let turned = device.tensor(&[1i16, 2, 3, 4, 5, 6], [2, 3]).unwrap().transpose();
        assert_eq!(turned.strides(), [1, 3]);
        // SAFETY: as above.
        assert_eq!(unsafe { read::<i16>(turned.as_device_ptr().unwrap(), 6) }, [1, 2, 3, 4, 5, 6]);
        assert_eq!(device.zeros::<f32, 2>([3, 0]).unwrap().as_device_ptr().unwrap(), 0);
    }
}

#[test]
fn what_others_write_counts_as_written() {
    for device in devices() {
        let mut x = device.uninit::<f32, 1>([13]).unwrap();
        let address = x.as_device_mut_ptr().unwrap();
        // SAFETY: as above.
        unsafe { write(address, &numbers(13)) };
        x.check_written().or_else(|error| if device.id() == "interp" { Err(error) } else { Ok(()) }).unwrap();
        let mut y = device.uninit([13]).unwrap();
        add(&x, &mut y, 1.0).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), numbers(13).iter().map(|x| x + 1.0).collect::<Vec<_>>());

        // The host's copy is older from then on.
        assert_eq!(y.with_host(|y| y[0]).unwrap(), -2.0);
        let stream = device.stream().unwrap();
        let address = y.as_device_mut_ptr_on(&stream).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: as above.
        unsafe { write(address, &[8.0f32; 13]) };
        double(&mut y).launch(&device).unwrap();
        assert_eq!(y.with_host(|y| y.to_vec()).unwrap(), [16.0; 13]);
    }
}

#[test]
fn memory_of_others_is_used_in_place_and_given_back_once() {
    for device in devices() {
        let mut owner = numbers(40);
        let released = Arc::new(AtomicUsize::new(0));
        let count = released.clone();
        let release: Box<dyn FnOnce() + Send> = Box::new(move || _ = count.fetch_add(1, SeqCst));
        let address = owner.as_mut_ptr() as u64;
        // SAFETY: `owner` has 40 elements, outlives the tensor and is used between its uses alone.
        let mut x =
            unsafe { Tensor::<f32, 1>::from_device_ptr(&device, address, [40], Some(release)) }.unwrap();
        assert_eq!(x.residency(), Residency::DeviceOnly);
        assert_eq!(x.as_device_ptr().unwrap(), address);
        x.check_written().or_else(|error| if device.id() == "interp" { Err(error) } else { Ok(()) }).unwrap();
        let mut y = device.uninit([40]).unwrap();
        add(&x, &mut y, 0.5).launch(&device).unwrap();
        double(&mut x).on(&device.stream().unwrap()).launch(&device).unwrap();
        let doubled: Vec<f32> = numbers(40).iter().map(|x| x * 2.0).collect();
        x.as_device_ptr().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { read::<f32>(address, 40) }, doubled);
        assert_eq!(y.to_vec().unwrap()[39], 36.5);

        let part = x.slice(0, 1..3).unwrap();
        x.with_host_mut(|x| x[2] = -1.0).unwrap();
        drop(x);
        assert_eq!(released.load(SeqCst), 0, "a view is there");
        assert_eq!(part.to_vec().unwrap(), [-4.0, -1.0]);
        drop(part);
        assert_eq!(released.load(SeqCst), 1);
        assert_eq!(owner[..4], [-6.0, -4.0, -1.0, 0.0], "what the host changed last arrives too");
        assert_works(&device);
        let free = device.free_memory().unwrap();
        // SAFETY: as above.
        drop(unsafe { Tensor::<u8, 1>::from_device_ptr(&device, address, [160], None) }.unwrap());
        assert!(device.id() == "cpu" || device.free_memory().unwrap() == free, "it was not in the device's");
    }
}

#[test]
fn a_graph_keeps_memory_of_others() {
    for device in devices() {
        let mut owner = numbers(9);
        let address = owner.as_mut_ptr() as u64;
        // SAFETY: `owner` outlives the graph.
        let mut x = unsafe { Tensor::<f32, 1>::from_device_ptr(&device, address, [9], None) }.unwrap();
        let (graph, ()) = device.graph(|_| double(&mut x).launch(&device)).unwrap();
        drop(x);
        graph.replay().unwrap();
        graph.replay().unwrap();
        device.synchronize().unwrap();
        drop(graph);
        assert_eq!(owner, numbers(9).iter().map(|x| x * 4.0).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_no_address_is_refused() {
    for device in devices() {
        let released = Arc::new(AtomicUsize::new(0));
        for (address, shape, expected) in [
            (0, [3], "the address of 24 bytes, a multiple of 8, got 0x0"),
            (4, [1], "the address of 8 bytes, a multiple of 8, got 0x4"),
            (u64::MAX - 7, [9], "the address of 72 bytes, a multiple of 8, got 0xfffffffffffffff8"),
        ] {
            let count = released.clone();
            let release: Box<dyn FnOnce() + Send> = Box::new(move || _ = count.fetch_add(1, SeqCst));
            // SAFETY: refused before it is used.
            let made = unsafe { Tensor::<f64, 1>::from_device_ptr(&device, address, shape, Some(release)) };
            let error = made.unwrap_err();
            assert_eq!(error.to_string(), format!("`from_device_ptr, address`: expected {expected}"));
        }
        assert_eq!(released.load(SeqCst), 0);
        let mut called = false;
        // SAFETY: no elements.
        let none = unsafe { DynTensor::from_device_ptr(&device, kiln_ir::Scalar::F32, 0, &[0, 3], None) };
        assert!(none.unwrap().to_bytes().unwrap().is_empty());
        let x = device.zeros::<f32, 1>([4]).unwrap();
        let other = Device::open_apart("cpu").unwrap().stream().unwrap();
        assert!(matches!(x.as_device_ptr_on(&other), Err(Error::WrongDevice { .. })));
        assert!(matches!(
            device.uninit::<f32, 1>([4]).unwrap().as_device_ptr(),
            Err(Error::Uninitialized { .. })
        ));
        x.with_host(|_| {
            called = true;
            assert!(matches!(x.as_device_ptr(), Err(Error::Borrowed { .. })));
        })
        .unwrap();
        assert!(called);
        let captured = device.graph(|_| x.as_device_ptr().map(drop)).map(drop);
        assert!(matches!(captured, Err(Error::Capture { .. })), "{captured:?}");
    }
}

#[test]
fn a_device_without_addresses_says_so() {
    let (device, _) = Probe::device(false, DiskCache::none());
    let mut x = device.tensor(&[1.0f32], [1]).unwrap();
    // SAFETY: refused.
    let made = unsafe { Tensor::<f32, 1>::from_device_ptr(&device, 256, [1], None) }.map(drop);
    let all = [
        made,
        x.as_device_ptr().map(drop),
        x.as_device_mut_ptr().map(drop),
        device.stream().unwrap().raw_handle().map(drop),
    ];
    for refused in all {
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with("memory by address of probe is not available"), "{text}");
    }
}

#[test]
fn the_interpreter_knows_where_memory_of_others_ends() {
    for device in devices().into_iter().take(2) {
        let mut owner = numbers(16);
        let address = owner.as_mut_ptr() as u64;
        // SAFETY: parts of `owner`, which outlives them, used one after the other.
        let take = |first: u64, len: usize| unsafe {
            Tensor::<f32, 1>::from_device_ptr(&device, address + 4 * first, [len], None)
        };
        let (middle, inner) = (take(4, 8).unwrap(), take(6, 2).unwrap());
        for (first, len) in [(0, 5), (0, 16), (11, 5)] {
            let text = take(first, len).unwrap_err().to_string();
            assert!(text.contains("a part of it is another tensor's memory"), "{text}");
        }
        assert_eq!(take(0, 4).unwrap().to_vec().unwrap(), [-3.0, -2.0, -1.0, 0.0]);
        drop(middle);
        assert_eq!(inner.to_vec().unwrap(), [3.0, 4.0]);
        drop(inner);
        assert_eq!(take(0, 16).unwrap().to_vec().unwrap(), numbers(16));
        // A tensor's own memory.
        let x = device.tensor(&[1.0f32, 2.0], [2]).unwrap();
        // SAFETY: `x` is alive, and neither is written.
        let same =
            unsafe { Tensor::<f32, 1>::from_device_ptr(&device, x.as_device_ptr().unwrap(), [2], None) };
        assert_eq!(same.unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert_eq!(x.to_vec().unwrap(), [1.0, 2.0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any part of another's memory, of any alignment of elements, as a kernel's both sides.
    #[test]
    fn kernels_use_any_part(start in 0usize..40, len in 0usize..70, more in 0usize..9) {
        for device in devices() {
            let mut owner = numbers(start + len + more);
            let address = (owner.as_mut_ptr() as usize + 4 * start) as u64;
            // SAFETY: a part of `owner`, which is not used meanwhile.
            let mut x = unsafe { Tensor::<f32, 1>::from_device_ptr(&device, address, [len], None) }.unwrap();
            let mut sums = device.zeros([len]).unwrap();
            add(&x, &mut sums, 2.0).launch(&device).unwrap();
            double(&mut x).launch(&device).unwrap();
            drop(x);
            let (mut expected, all) = (numbers(owner.len()), numbers(owner.len()));
            expected[start..start + len].iter_mut().for_each(|x| *x *= 2.0);
            prop_assert_eq!(&owner, &expected);
            let expected: Vec<f32> = all[start..start + len].iter().map(|x| x + 2.0).collect();
            prop_assert_eq!(sums.to_vec().unwrap(), expected);
        }
    }
}

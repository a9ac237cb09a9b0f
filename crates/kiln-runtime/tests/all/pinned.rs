//! Pinned tensors: copies both ways, their order, and what is refused.

use crate::kernels::{add, add_one_by_threads, double};
use crate::probe::Probe;
use half::f16;
use kiln_lang::Elem;
use kiln_runtime::{Device, DiskCache, Error};
use proptest::prelude::*;
use std::fmt::Debug;

fn devices() -> [Device; 3] {
    ["interp", "interp:fast", "cpu"].map(|name| Device::open_apart(name).unwrap())
}

fn there_and_back<T: Elem + PartialEq + Debug>(data: &[T]) {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut pinned = device.pinned::<T, 1>([data.len()]).unwrap();
        pinned.as_mut_slice().unwrap().copy_from_slice(data);
        let mut x = device.uninit([data.len()]).unwrap();
        pinned.copy_to(&mut x, &stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), data);
        let mut back = device.pinned::<T, 1>([data.len()]).unwrap();
        back.copy_from(&x, &stream).unwrap();
        assert_eq!(back.as_slice().unwrap(), data);
        x.check_written().or_else(|error| if device.id() == "interp" { Err(error) } else { Ok(()) }).unwrap();
    }
}

#[test]
fn elements_of_any_type_go_there_and_back() {
    there_and_back(&[1u8, 2, 255]);
    there_and_back(&[true, false, true, true, false]);
    there_and_back(&[f16::from_f32(0.5), f16::from_f32(-2.0), f16::INFINITY]);
    there_and_back(&[1.5f64; 17]);
    there_and_back::<i64>(&[]);
}

#[test]
fn copies_are_in_the_order_of_tensors_and_streams() {
    for device in devices() {
        let (up, down) = (device.stream().unwrap(), device.stream().unwrap());
        let (mut pinned, mut result) = (device.pinned([100]).unwrap(), device.pinned([100]).unwrap());
        let (mut x, mut y) = (device.uninit([100]).unwrap(), device.uninit([100]).unwrap());
        for round in 0..5 {
            let round = round as f32;
            pinned.as_mut_slice().unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 + round);
            pinned.copy_to(&mut x, &up).unwrap();
            add(&x, &mut y, 0.5).launch(&device).unwrap();
            result.copy_from(&y, &down).unwrap();
            let event = down.record().unwrap();
            let expected: Vec<f32> = (0..100).map(|i| i as f32 + round + 0.5).collect();
            assert_eq!(result.as_slice().unwrap(), expected);
            assert!(event.is_reached().unwrap());
        }
        // A view without gaps; contents that are newest on the host; the memory of a result again.
        y.with_host_mut(|y| y[3] = -1.0).unwrap();
        let mut part = device.pinned::<f32, 1>([3]).unwrap();
        part.copy_from(&y.slice(0, 2..5).unwrap(), &down).unwrap();
        assert_eq!(part.as_slice().unwrap(), [6.5, -1.0, 8.5]);
        part.copy_to(&mut x.slice(0, 97..100).unwrap(), &up).unwrap();
        double(&mut x).launch(&device).unwrap();
        assert_eq!(x.to_vec().unwrap()[96..], [200.0, 13.0, -2.0, 17.0]);
        assert_eq!(format!("{part:?}"), format!("PinnedTensor<f32, 1>([3] for {})", device.id()));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut pinned = device.pinned::<f32, 2>([2, 3]).unwrap();
        let x = device.zeros::<f32, 2>([3, 2]).unwrap();
        let text = pinned.copy_from(&x, &stream).unwrap_err().to_string();
        assert_eq!(text, "`the copy of a pinned tensor`: expected shape [2, 3], got [3, 2]");
        let text = pinned.copy_to(&mut x.transpose(), &stream).unwrap_err().to_string();
        assert!(text.contains("need elements without gaps"), "{text}");
        let empty = device.uninit::<f32, 2>([2, 3]).unwrap();
        assert!(matches!(pinned.copy_from(&empty, &stream), Err(Error::Uninitialized { .. })));
        let other = Device::open_apart("cpu").unwrap();
        let mut elsewhere = other.zeros::<f32, 2>([2, 3]).unwrap();
        assert!(matches!(pinned.copy_to(&mut elsewhere, &stream), Err(Error::WrongDevice { .. })));
        let mut here = device.zeros::<f32, 2>([2, 3]).unwrap();
        let refused = pinned.copy_to(&mut here, &other.stream().unwrap());
        assert!(matches!(refused, Err(Error::WrongDevice { .. })));
        let captured = device.graph(|_| pinned.copy_to(&mut here, &stream)).map(drop);
        assert!(matches!(captured, Err(Error::Capture { .. })), "{captured:?}");
        assert!(matches!(device.pinned::<f64, 1>([usize::MAX]), Err(Error::TooLarge { .. })));
        assert_eq!(pinned.as_slice().unwrap(), [0.0; 6], "what was refused has changed nothing");
    }
    let text = Probe::device(false, DiskCache::none()).0.pinned::<f32, 1>([1]).unwrap_err().to_string();
    assert!(text.starts_with("page-locked memory of probe is not available"), "{text}");
}

#[test]
fn elements_that_kernels_left_out_are_found() {
    let device = Device::open_apart("interp").unwrap();
    let (x, mut y) = (device.zeros([9]).unwrap(), device.uninit([9]).unwrap());
    add_one_by_threads(&x, &mut y).grid([1]).block([4]).launch(&device).unwrap();
    let (stream, mut pinned) = (device.stream().unwrap(), device.pinned([9]).unwrap());
    let error = pinned.copy_from(&y, &stream).unwrap_err();
    assert!(matches!(error, Error::Unwritten { missing: 5, of: 9, .. }), "{error}");
    assert_eq!(pinned.as_slice().unwrap()[..4], [1.0; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parts_arrive_where_they_belong(len in 0usize..300, start in 0usize..20, more in 0usize..5) {
        for device in devices() {
            let (stream, all) = (device.stream().unwrap(), start + len + more);
            let before: Vec<u32> = (0..all as u32).collect();
            let x = device.tensor(&before, [all]).unwrap();
            let mut pinned = device.pinned([len]).unwrap();
            let mut part = x.slice(0, start..start + len).unwrap();
            pinned.copy_from(&part, &stream).unwrap();
            prop_assert_eq!(pinned.as_slice().unwrap(), &before[start..start + len]);
            pinned.as_mut_slice().unwrap().iter_mut().for_each(|x| *x = x.wrapping_mul(3));
            pinned.copy_to(&mut part, &stream).unwrap();
            let mut expected = before;
            expected[start..start + len].iter_mut().for_each(|x| *x = x.wrapping_mul(3));
            prop_assert_eq!(x.to_vec().unwrap(), expected);
        }
    }
}

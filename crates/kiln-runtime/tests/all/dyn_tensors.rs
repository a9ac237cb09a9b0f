//! Tensors whose type and rank are known at run time: every type, ranks 0 to beyond the bound of
//! kernels, views, refusals.

use crate::probe::Probe;
use kiln_ir::Scalar;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, DynTensor, Error, Residency, Tensor};

fn devices() -> [Device; 4] {
    let [discrete, unified] = [false, true].map(|unified| Probe::device(unified, DiskCache::none()).0);
    [discrete, unified, Device::open_apart("interp").unwrap(), Device::open("cpu").unwrap()]
}

/// Elements of one type, moved in and out by values and by bytes, and by views with gaps.
fn round_trip<T: Elem>(device: &Device, values: [T; 6]) {
    let x = DynTensor::new(device, &values, &[2, 3]).unwrap();
    assert_eq!((x.dtype(), x.rank(), x.len(), x.is_contiguous()), (T::SCALAR, 2, 6, true));
    assert_eq!(x.to_vec::<T>().unwrap(), values);
    let bytes = x.to_bytes().unwrap();
    let expected =
        values.iter().flat_map(|v| v.literal().bits().to_le_bytes()[..T::SCALAR.bytes() as usize].to_vec());
    assert_eq!(bytes, expected.collect::<Vec<u8>>(), "{}", T::SCALAR);

    let again = DynTensor::from_bytes(device, T::SCALAR, &[6], &bytes).unwrap();
    assert_eq!(again.to_vec::<T>().unwrap(), values);
    let transposed = x.transpose();
    let order = [0, 3, 1, 4, 2, 5].map(|i| values[i]);
    assert_eq!((transposed.is_contiguous(), transposed.to_vec::<T>().unwrap()), (false, order.to_vec()));
    assert_eq!(transposed.to_bytes().unwrap(), transposed.copy().unwrap().to_bytes().unwrap());

    // What lies beside a view is not changed.
    let mut column = x.slice(1, 1..2).unwrap();
    column.write(&[values[5], values[0]]).unwrap();
    let [a, b, c, d, e, f] = values;
    assert_eq!(x.to_vec::<T>().unwrap(), [a, f, c, d, a, f]);
    column.write_bytes(&DynTensor::new(device, &[b, e], &[2]).unwrap().to_bytes().unwrap()).unwrap();
    assert_eq!(x.to_vec::<T>().unwrap(), values);
    let zeros = DynTensor::zeros(device, T::SCALAR, &[3]).unwrap();
    assert_eq!(zeros.to_vec::<T>().unwrap(), [T::from_bits(0); 3]);
}

#[test]
fn all_types_move_by_values_and_by_bytes() {
    for device in devices() {
        round_trip(&device, [true, false, true, true, false, false]);
        round_trip(&device, [1i32, -2, i32::MAX, i32::MIN, 0, 7]);
        round_trip(&device, [1u32, 2, u32::MAX, 3, 0, 7]);
        round_trip(&device, [1i64, -2, i64::MAX, i64::MIN, 0, 7]);
        round_trip(&device, [1u64, 2, u64::MAX, 3, 0, 7]);
        round_trip(&device, [1.0, -2.5, 65504.0, 0.0, 0.125, 3.0].map(f16::from_f32));
        round_trip(&device, [1.0, -2.5, 3e38, 0.0, 0.125, 3.0].map(bf16::from_f32));
        round_trip(&device, [1.0f32, -2.5, f32::INFINITY, 0.0, 0.1, 3.0]);
        round_trip(&device, [1.0f64, -2.5, f64::MIN_POSITIVE, 0.0, 0.1, 3.0]);
        round_trip(&device, [1.0, -2.5, 448.0, 0.0, 0.125, 3.0].map(E4M3::from_f64));
        round_trip(&device, [1.0, -2.5, 57344.0, 0.0, 0.125, 3.0].map(E5M2::from_f64));
        round_trip(&device, [1i8, -2, i8::MAX, i8::MIN, 0, 7]);
        round_trip(&device, [1u8, 2, u8::MAX, 3, 0, 7]);
    }
}

#[test]
fn bytes_of_bools_become_valid() {
    for device in devices() {
        let mut x = DynTensor::from_bytes(&device, Scalar::Bool, &[4], &[0, 1, 2, 255]).unwrap();
        assert_eq!(x.to_bytes().unwrap(), [0, 1, 1, 1]);
        x.with_host(|bools: &[bool]| assert_eq!(bools, [false, true, true, true])).unwrap();
        x.slice(0, 0..2).unwrap().write_bytes(&[9, 0]).unwrap();
        x.with_host_mut(|bools: &mut [bool]| bools[3] = false).unwrap();
        assert_eq!(x.to_vec::<bool>().unwrap(), [true, false, true, false]);
    }
}

#[kernel(crate = kiln_runtime)]
fn store_first(y: &mut Tensor<bool, 1>) {
    y.set_or_skip(thread_index(), true);
}

/// Fresh memory of these devices is bytes of 255, which no `bool` may be.
#[test]
fn bools_that_no_kernel_wrote_are_valid() {
    let (discrete, unified) =
        (Probe::device(false, DiskCache::none()).0, Probe::device(true, DiskCache::none()).0);
    for device in [discrete, unified, Device::open_apart("interp:fast").unwrap()] {
        let mut y = device.uninit::<bool, 1>([4]).unwrap();
        store_first(&mut y).grid([1]).block([1]).launch(&device).unwrap();
        let bytes = |y: &Tensor<bool, 1>| {
            y.with_host(|bools| {
                // SAFETY: a `bool` is a byte; the slice lives as long as the bytes are looked at.
                unsafe { std::slice::from_raw_parts(bools.as_ptr().cast::<u8>(), 4) }.to_vec()
            })
        };
        assert_eq!(bytes(&y).unwrap(), [1; 4]);
        assert_eq!(y.to_vec().unwrap(), [true; 4]);
    }
}

#[test]
fn ranks_from_none_to_beyond_those_of_kernels() {
    for device in devices() {
        let number = DynTensor::new(&device, &[2.5f32], &[]).unwrap();
        assert_eq!((number.rank(), number.len(), number.to_vec::<f32>().unwrap()), (0, 1, vec![2.5]));
        let mut shape = Vec::new();
        for rank in 1..=8 {
            shape.push(if rank % 2 == 0 { 3 } else { 2 });
            let len: usize = shape.iter().product();
            let data: Vec<i32> = (0..len as i32).collect();
            let x = DynTensor::new(&device, &data, &shape).unwrap();
            // The last axis first: element i of the result is at the row of i and the column of i.
            let last = shape[rank - 1];
            let order: Vec<usize> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
            let y = x.permute(&order).unwrap();
            let rows = len / last;
            let expected: Vec<i32> = (0..len).map(|i| ((i % rows) * last + i / rows) as i32).collect();
            assert_eq!(y.to_vec::<i32>().unwrap(), expected, "rank {rank}");
            let part = x.select(rank - 1, last - 1).unwrap();
            let expected: Vec<i32> = (0..rows).map(|row| (row * last + last - 1) as i32).collect();
            assert_eq!((part.rank(), part.to_vec::<i32>().unwrap()), (rank - 1, expected));
            let one_more = part.unsqueeze(rank - 1).unwrap();
            assert_eq!(one_more.squeeze(rank - 1).unwrap().shape(), part.shape());
            assert_eq!(x.reshape(&[len]).unwrap().to_vec::<i32>().unwrap(), data);
        }
    }
}

#[test]
fn empty_tensors() {
    for device in devices() {
        let x = DynTensor::uninit(&device, Scalar::F64, &[3, 0, 2]).unwrap();
        assert_eq!((x.is_empty(), x.to_vec::<f64>().unwrap(), x.to_bytes().unwrap()), (true, vec![], vec![]));
        let part = x.slice(0, 3..3).unwrap().select(2, 1).unwrap();
        assert_eq!((part.shape(), part.offset()), (&[0, 0][..], 0));
        assert_eq!(part.copy().unwrap().to_vec::<f64>().unwrap(), []);
    }
}

/// The text of a refusal, after the place in the source where there is one, which must be in this
/// file.
#[track_caller]
fn refused<T>(result: Result<T, Error>) -> String {
    let text = result.err().expect("it is refused").to_string();
    match text.split_once(".rs:") {
        None => text,
        Some((file, rest)) => {
            assert!(file.ends_with("dyn_tensors"), "{text}");
            rest.splitn(3, ':').nth(2).unwrap_or_default().trim().to_owned()
        }
    }
}

#[test]
fn refusals_name_what_was_given() {
    let device = Device::open_apart("interp").unwrap();
    let mut x = DynTensor::new(&device, &[1.0f32; 6], &[2, 3]).unwrap();
    assert_eq!(refused(x.to_vec::<i32>()), "expected elements of i32, got a tensor of f32 and shape [2, 3]");
    assert_eq!(refused(x.write(&[1u8; 6])), "expected elements of u8, got a tensor of f32 and shape [2, 3]");
    assert_eq!(
        refused(x.with_host(|_: &[f64]| ())),
        "expected elements of f64, got a tensor of f32 and shape [2, 3]"
    );
    assert_eq!(
        refused(x.downcast_ref::<f32, 1>()),
        "expected a tensor of f32 and rank 1, got a tensor of f32 and shape [2, 3]"
    );
    assert_eq!(
        refused(x.alias().downcast::<f64, 2>()),
        "expected a tensor of f64 and rank 2, got a tensor of f32 and shape [2, 3]"
    );
    assert_eq!(refused(x.write(&[1.0f32; 5])), "5 elements do not fill shape [2, 3], which has 6");
    assert_eq!(refused(x.write_bytes(&[0; 6])), "6 bytes do not fill shape [2, 3] of f32, which has 24");
    let bytes = DynTensor::from_bytes(&device, Scalar::F16, &[2], &[0; 5]);
    assert_eq!(refused(bytes), "5 bytes do not fill shape [2] of f16, which has 4");
    assert_eq!(refused(x.slice(2, 0..1)), "0..1 on axis 2 is out of range, for a tensor of shape [2, 3]");
    assert_eq!(refused(x.select(1, 3)), "index 3 of axis 1 is out of range, for a tensor of shape [2, 3]");
    assert_eq!(
        refused(x.permute(&[0])),
        "the order [0] does not name each axis once, for a tensor of shape [2, 3]"
    );
    assert_eq!(refused(x.squeeze(1)), "there is no axis 1 of extent 1, for a tensor of shape [2, 3]");
    assert_eq!(refused(x.unsqueeze(3)), "a new axis 3 is out of range, for a tensor of shape [2, 3]");
    assert_eq!(
        refused(x.transpose().reshape(&[6])),
        "`reshape`, `with_host` and pinned memory need elements without gaps: `copy` the view first, for a tensor of shape [3, 2]"
    );
    let unfilled = DynTensor::uninit(&device, Scalar::I8, &[2]).unwrap();
    assert_eq!(
        refused(unfilled.to_bytes()),
        "the tensor was never written; fill it or pass it as `&mut` to a kernel first"
    );
    let absurd = DynTensor::zeros(&device, Scalar::F64, &[usize::MAX, 2]);
    assert!(matches!(absurd, Err(Error::TooLarge { elem: Scalar::F64, .. })));
}

#[kernel(crate = kiln_runtime)]
fn negate(x: &mut Tensor<i32, 2>) {
    let (row, column) = (program_id(0) * 2, program_id(1) * 4);
    let tile = x.tile((row, column), (2, 4));
    tile.store(-tile.load(0));
}

#[test]
fn a_typed_tensor_is_a_face_of_the_same_memory() {
    for device in devices() {
        let mut x = DynTensor::new(&device, &[1, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
        negate(x.downcast_mut().unwrap()).launch(&device).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [-1, -2, -3, -4, -5, -6]);
        let mut middle: Tensor<i32, 2> = x.slice(1, 1..2).unwrap().downcast().unwrap();
        negate(&mut middle).launch(&device).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [-1, 2, -3, -4, 5, -6]);
        let typed: &Tensor<i32, 2> = x.downcast_ref().unwrap();
        assert_eq!((typed.shape(), typed.strides(), typed.as_dyn().shape()), ([2, 3], [3, 1], x.shape()));
        assert_eq!(middle.into_dyn().to_vec::<i32>().unwrap(), [2, 5]);
        assert_ne!(x.residency(), Residency::Uninitialized);
        let elsewhere = x.transpose().to_device(&Device::open_apart("cpu").unwrap()).unwrap();
        assert_eq!(elsewhere.to_vec::<i32>().unwrap(), [-1, -4, 2, 5, -3, -6]);
    }
}

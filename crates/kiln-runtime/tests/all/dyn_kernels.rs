//! Kernels from IR: launches on arguments whose types are known at run time, and what is refused.

use crate::probe::Probe;
use kiln_backend::FaultKind;
use kiln_ir::{Literal, Scalar};
use kiln_lang::prelude::*;
use kiln_runtime::{Activity, Device, DiskCache, DynArg, DynKernel, DynTensor, Error, Tensor};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// y = x + by, eight elements a program, of any element type.
fn add(elem: Scalar) -> DynKernel {
    let text = format!(
        "kernel @add(%x: view<{elem}, 1, global>, %y: mut view<{elem}, 1, global>, %by: {elem}) tile {{
           %p = program_id x : i64
           %n = const 8 : i64
           %at = mul %p, %n : i64
           %zero = const {} : {elem}
           %tile = load %x[%at] pad %zero : {elem}[8]
           %all = broadcast %by : {elem}[8]
           %sum = add %tile, %all : {elem}[8]
           store %y[%at] = %sum
         }}",
        Literal::zero(elem)
    );
    DynKernel::parse(&text).unwrap()
}

fn devices() -> [Device; 2] {
    ["interp", "cpu"].map(|name| Device::open_apart(name).unwrap())
}

fn adds<T: Elem>(device: &Device, x: [T; 3], by: T, sums: [T; 3]) {
    // Every other element of a larger tensor, so that strides count.
    let [a, b, c] = x;
    let wide = DynTensor::new(device, &[a, by, b, by, c, by], &[3, 2]).unwrap();
    let x = wide.select(1, 0).unwrap();
    let mut y = DynTensor::uninit(device, T::SCALAR, &[3]).unwrap();
    add(T::SCALAR).with([(&x).into(), (&mut y).into(), by.literal().into()]).launch(device).unwrap();
    assert_eq!(y.to_vec::<T>().unwrap(), sums, "{}", T::SCALAR);
}

#[test]
fn kernels_of_every_type_that_computes() {
    for device in devices() {
        adds(&device, [1i32, -2, i32::MAX], 1, [2, -1, i32::MIN]);
        adds(&device, [1u32, 2, u32::MAX], 1, [2, 3, 0]);
        adds(&device, [1i64, -2, i64::MAX], 1, [2, -1, i64::MIN]);
        adds(&device, [1u64, 2, u64::MAX], 1, [2, 3, 0]);
        adds(&device, [1.0, -2.0, 0.5].map(f16::from_f32), f16::ONE, [2.0, -1.0, 1.5].map(f16::from_f32));
        adds(&device, [1.0, -2.0, 0.5].map(bf16::from_f32), bf16::ONE, [2.0, -1.0, 1.5].map(bf16::from_f32));
        adds(&device, [1.0f32, -2.0, 0.1], 1.0, [2.0, -1.0, 1.1]);
        adds(&device, [1.0f64, -2.0, 0.1], 1.0, [2.0, -1.0, 1.1]);
    }
}

#[test]
fn typed_tensors_are_arguments_too_and_empty_ones() {
    for device in devices() {
        let x = device.tensor(&[1.0f32; 20], [20]).unwrap();
        let mut y: Tensor<f32, 1> = device.uninit([20]).unwrap();
        let stream = device.stream().unwrap();
        add(Scalar::F32)
            .with([(&x).into(), (&mut y).into(), 2.0f32.into()])
            .on(&stream)
            .launch(&device)
            .unwrap();
        assert_eq!(y.to_vec().unwrap(), [3.0; 20]);
        let mut empty = DynTensor::zeros(&device, Scalar::F32, &[0]).unwrap();
        let x = empty.copy().unwrap();
        add(Scalar::F32).with([(&x).into(), (&mut empty).into(), 2.0f32.into()]).launch(&device).unwrap();
    }
}

#[test]
fn programs_are_specialized_and_shared_as_those_of_traced_kernels() {
    let (device, probe) = Probe::device(false, DiskCache::none());
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    let _observation = device.observe(move |activity: &Activity| {
        if let Activity::Compile(compile) = activity {
            sink.lock().unwrap().push(compile.specialization.clone());
        }
    });
    let compiles = || probe.counts().compiles.load(SeqCst);
    let launch = |kernel: &DynKernel, len: usize| {
        let x = DynTensor::zeros(&device, Scalar::F32, &[len]).unwrap();
        let mut y = DynTensor::uninit(&device, Scalar::F32, &[len]).unwrap();
        kernel.with([(&x).into(), (&mut y).into(), 1.0f32.into()]).launch(&device).unwrap();
    };
    let kernel = add(Scalar::F32);
    launch(&kernel, 16);
    launch(&kernel, 32);
    assert_eq!(compiles(), 1, "the same facts");
    launch(&add(Scalar::F32), 16);
    assert_eq!(compiles(), 1, "the same text");
    launch(&kernel, 17);
    assert_eq!(compiles(), 2, "other facts");
    launch(&add(Scalar::F32), 19);
    assert_eq!((compiles(), device.programs().len()), (2, 2));
    let told = told.lock().unwrap();
    assert!(told.len() == 2 && told[0] != told[1], "{told:?}");
}

/// The text of a refusal, after the place in this file.
#[track_caller]
fn refused(result: Result<(), Error>) -> String {
    let text = result.expect_err("it is refused").to_string();
    let (file, rest) = text.split_once(".rs:").expect("a place in the source");
    assert!(file.ends_with("dyn_kernels"), "{text}");
    rest.splitn(3, ':').nth(2).unwrap_or_default().trim().to_owned()
}

#[test]
fn arguments_that_do_not_fit_are_refused_by_name() {
    let device = Device::open_apart("interp").unwrap();
    let kernel = add(Scalar::F32);
    let x = DynTensor::new(&device, &[1.0f32; 8], &[8]).unwrap();
    let mut y = DynTensor::new(&device, &[5.0f32; 8], &[8]).unwrap();
    let integers = DynTensor::new(&device, &[1i32; 8], &[8]).unwrap();
    let matrix = x.reshape(&[2, 4]).unwrap();
    let by = || DynArg::from(1.0f32);
    let expected = "argument `x` of `add` must be a read-only tensor of f32 and rank 1, got";
    for (argument, given) in [
        (DynArg::from(&integers), "a read-only tensor of i32 and rank 1"),
        (DynArg::from(&matrix), "a read-only tensor of f32 and rank 2"),
        (by(), "a number of type f32"),
    ] {
        let error = refused(kernel.with([argument, (&mut y).into(), by()]).launch(&device));
        assert_eq!(error, format!("{expected} {given}"));
    }
    assert_eq!(
        refused(kernel.with([(&x).into(), (&mut y).into(), 1.0f64.into()]).launch(&device)),
        "argument `by` of `add` must be a number of type f32, got a number of type f64"
    );
    assert_eq!(
        refused(kernel.with([(&x).into(), by()]).launch(&device)),
        "`add` takes 3 arguments (x, y, by), got 2"
    );
    let mut alias = x.alias();
    let shared = kernel.with([(&x).into(), (&mut alias).into(), by()]).launch(&device);
    assert!(matches!(shared, Err(Error::Overlap { .. })), "{shared:?}");
    let elsewhere = x.to_device(&Device::open_apart("cpu").unwrap()).unwrap();
    let foreign = kernel.with([(&elsewhere).into(), (&mut y).into(), by()]).launch(&device);
    assert!(matches!(foreign, Err(Error::DeviceMismatch { .. })), "{foreign:?}");
    let unfilled = DynTensor::uninit(&device, Scalar::F32, &[8]).unwrap();
    let unread = kernel.with([(&unfilled).into(), (&mut y).into(), by()]).launch(&device);
    assert!(matches!(unread, Err(Error::Uninitialized { .. })), "{unread:?}");
    assert_eq!(y.to_vec::<f32>().unwrap(), [5.0; 8], "nothing was launched");
    // A tensor that may be written can be read alone.
    let mut also = x.copy().unwrap();
    kernel.with([(&mut also).into(), (&mut y).into(), by()]).launch(&device).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 8]);
}

#[test]
fn a_kernel_with_indices_from_memory_faults_and_reaches_nothing_else() {
    let text = "kernel @pick(%x: view<f32, 1, global>, %at: view<i64, 1, global>, %y: mut view<f32, 1, global>) thread [4, 1, 1] {
        %p = program_id x : i64
        %four = const 4 : i64
        %first = mul %p, %four : i64
        %in_block = thread_id x : i64
        %t = add %first, %in_block : i64
        %none = const 0 : i64
        %i = gather.trust %at[%t] pad %none : i64
        %zero = const 0.0 : f32
        %v = gather.trust %x[%i] pad %zero : f32
        scatter.trust %y[%t] = %v
    }";
    let kernel = DynKernel::parse(text).unwrap();
    for device in devices() {
        let x = DynTensor::new(&device, &[10.0f32, 11.0, 12.0], &[3]).unwrap();
        for (index, fault) in [(2i64, None), (3, Some(3)), (1 << 40, Some(1 << 40)), (-1, Some(-1))] {
            let at = DynTensor::new(&device, &[0, 1, 0, index], &[4]).unwrap();
            let mut y = DynTensor::zeros(&device, Scalar::F32, &[4]).unwrap();
            kernel.with([(&x).into(), (&at).into(), (&mut y).into()]).grid([1]).launch(&device).unwrap();
            match (device.synchronize(), fault) {
                (Ok(()), None) => assert_eq!(y.to_vec::<f32>().unwrap(), [10.0, 11.0, 10.0, 12.0]),
                (Err(error), Some(index)) => {
                    let kind = error.fault().map(|fault| fault.kind.clone());
                    assert_eq!(kind, Some(FaultKind::OutOfBounds { index, extent: 3 }));
                }
                other => panic!("{index}: {other:?}"),
            }
        }
        // Where there are fewer elements than threads, their store is a fault too.
        let at = DynTensor::zeros(&device, Scalar::I64, &[4]).unwrap();
        let mut y = DynTensor::zeros(&device, Scalar::F32, &[3]).unwrap();
        kernel.with([(&x).into(), (&at).into(), (&mut y).into()]).grid([1]).launch(&device).unwrap();
        assert!(device.synchronize().is_err_and(|error| error.fault().is_some()));
    }
}

#[test]
fn facts_that_a_kernel_declares_are_compared() {
    let device = Device::open_apart("interp").unwrap();
    let text = add(Scalar::F32).ir().to_string();
    // What a launch on multiples of 16 prints, which says so.
    let x = DynTensor::zeros(&device, Scalar::F32, &[16]).unwrap();
    let mut y = DynTensor::zeros(&device, Scalar::F32, &[16]).unwrap();
    let specialized = add(Scalar::F32).with([(&x).into(), (&mut y).into(), 1.0f32.into()]).ir().unwrap();
    assert_ne!(specialized.to_string(), text);
    let kernel = DynKernel::new(specialized).unwrap();
    kernel.with([(&x).into(), (&mut y).into(), 1.0f32.into()]).launch(&device).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 16]);
    let short = x.slice(0, 0..15).unwrap();
    let error = refused(kernel.with([(&short).into(), (&mut y).into(), 1.0f32.into()]).launch(&device));
    assert_eq!(
        error,
        "argument `x` of `add` must be a read-only tensor of f32 and rank 1, got one of which it is not true that its \
         extent 0 is a multiple of 16"
    );
}

#[test]
fn what_nothing_makes_safe_is_refused_until_somebody_vouches() {
    let device = Device::open_apart("interp").unwrap();
    let text = "kernel @first(%y: mut view<i64, 1, global>) thread [4, 1, 1] {
        %p = program_id x : i64
        scatter.check %y[%p] = %p
    }";
    let kernel = DynKernel::parse(text).unwrap();
    let mut y = DynTensor::zeros(&device, Scalar::I64, &[2]).unwrap();
    let error = refused(kernel.with([(&mut y).into()]).grid([2]).launch(&device));
    assert_eq!(
        error,
        "`first` has operations that nothing makes safe; launch it by `unsafe` and `launch_unchecked` if they are right:\n\
         unknown location: two threads may store to one element: only stores at the thread's own index in the launch are safe, \
         in `scatter.check %y[%0] = %0`"
    );
    let colliding = "kernel @all(%y: mut view<f32, 1, global>) tile {
        %p = program_id x : i64
        %ones = const 1.0 : f32[4]
        store %y[%p] = %ones
    }";
    let mut z = DynTensor::zeros(&device, Scalar::F32, &[8]).unwrap();
    let kernel = DynKernel::parse(colliding).unwrap();
    let error = kernel.with([(&mut z).into()]).launch(&device).unwrap_err();
    assert!(error.to_string().contains("may collide"), "{error}");
    // SAFETY: one program.
    unsafe { kernel.with([(&mut z).into()]).grid([1]).launch_unchecked(&device).unwrap() };
    assert_eq!(z.to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn texts_that_are_no_kernels() {
    let error = DynKernel::parse("kernel @k() tile {\n  %1 = mul %n : i64\n}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text is no kernel: line 2, column 12: expected a value that is defined above, found `%n`"
    );
    let text = "kernel @k(%n: i64, %f: f32) tile {\n  %0 = add %n, %f : i64\n}";
    let error = DynKernel::parse(text).unwrap_err();
    let Error::Kernel { kernel, problems } = &error else { panic!("{error}") };
    assert_eq!((kernel.as_str(), problems.len()), ("k", 1));
    assert!(problems[0].contains("operand 1 is f32, expected i64"), "{error}");
}

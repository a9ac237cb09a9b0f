//! Faults of kernels: what they say, and that the device works after them.

use crate::harness::*;
use kiln_backend::{Backend, BufferBinding, Error, FaultKind, Finding, LaunchArguments};
use kiln_ir::*;

#[test]
fn a_checked_index_names_place_and_values() {
    let kernel = kernel(Level::Thread { block: [4, 2, 1] }, &[P::View(Scalar::F32, 1)], |b, p| {
        let (x, y) = (b.thread_id(Axis::X), b.thread_id(Axis::Y));
        let four = b.index(4);
        let row = b.binary(BinaryOp::Mul, y, four);
        let i = b.binary(BinaryOp::Add, row, x);
        let value = b.f32(1.0);
        b.at(17).store_at(p[0], i, value);
    });
    let host = Host::new();
    let short = host.vector(&[0f32; 6]);
    let fault = host.fault(&kernel, [3, 1, 1], &args(&[&short]));
    assert_eq!(fault.kind, FaultKind::OutOfBounds { index: 6, extent: 6 });
    assert_eq!((fault.block, fault.thread), ([0, 0, 0], Some([2, 1, 0])));
    assert_eq!(
        fault.to_string(),
        "index 6 out of bounds for extent 6 in `under_test`, at test.rs:17:1, block [0, 0, 0], thread [2, 1, 0]"
    );
    // The fault is reported once, and the device goes on.
    assert!(host.device.synchronize(STREAM).is_ok());
    let long = host.vector(&[0f32; 8]);
    host.run(&kernel, [3, 1, 1], &args(&[&long])).unwrap();
    assert_eq!(host.read::<f32>(&long), [1.0; 8]);
}

#[test]
fn negative_indices_are_out_of_bounds() {
    let kernel = tiles(&[P::View(Scalar::F32, 1)], |b, p| {
        let minus = b.i32(-3);
        b.at(5).load_at(p[0], minus);
    });
    let host = Host::new();
    let fault = host.fault(&kernel, [2, 2, 1], &args(&[&host.vector(&[0f32])]));
    assert_eq!(fault.kind, FaultKind::OutOfBounds { index: -3, extent: 1 });
    assert_eq!((fault.thread, fault.location.as_str()), (None, "test.rs:5:1"));
}

#[test]
fn division_by_zero_in_active_threads_only() {
    let kernel = threads(4, &[P::View(Scalar::I32, 1), P::Scalar(Scalar::Bool)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let tid32 = b.cast(tid, Scalar::I32);
        let hundred = b.i32(100);
        let zero = b.i32(0);
        let nonzero = b.compare(CompareOp::Ne, tid32, zero);
        let active = b.binary(BinaryOp::Or, nonzero, p[1]);
        b.if_(
            active,
            &[],
            |b| {
                let q = b.at(9).binary(BinaryOp::Div, hundred, tid32);
                b.store_at(p[0], tid, q);
                vec![]
            },
            |_| vec![],
        );
    });
    let host = Host::new();
    let out = host.vector(&[-1i32; 4]);
    host.run(&kernel, [1; 3], &[Arg::Buffer(&out), Arg::Bits(0)]).unwrap();
    assert_eq!(host.read::<i32>(&out), [-1, 100, 50, 33]);
    let fault = host.fault(&kernel, [1; 3], &[Arg::Buffer(&out), Arg::Bits(1)]);
    assert_eq!((fault.kind, fault.thread), (FaultKind::DivisionByZero, Some([0, 0, 0])));
    assert_eq!(fault.location, "test.rs:9:1");
}

#[test]
fn division_by_zero_anywhere_in_a_tile() {
    for (op, elem) in [(BinaryOp::Div, Scalar::U64), (BinaryOp::Rem, Scalar::I32)] {
        let result =
            map_tile(&[(elem, &[1, 2, 3]), (elem, &[1, 0, 1])], elem, |b, v| b.binary(op, v[0], v[1]));
        let Err(Error::Fault(fault)) = result else { panic!("expected a fault, got {result:?}") };
        assert_eq!((fault.kind, fault.thread), (FaultKind::DivisionByZero, None));
    }
}

#[test]
fn the_first_fault_wins_and_the_launch_stops() {
    let kernel = tiles(&[P::View(Scalar::I64, 1)], |b, p| {
        let pid = b.program_id(Axis::X);
        b.store_at(p[0], pid, pid);
        let two = b.index(2);
        let ok = b.compare(CompareOp::Lt, pid, two);
        let message = b.kernel.message("program {} of {}");
        let n = b.num_programs(Axis::X);
        b.at(3).op(OpKind::Assert(message), &[ok, pid, n], &[]);
    });
    let host = Host::new();
    let out = host.vector(&[-1i64; 5]);
    let fault = host.fault(&kernel, [5, 1, 1], &args(&[&out]));
    assert_eq!(fault.kind, FaultKind::Assert { message: "program 2 of 5".into() });
    assert_eq!(fault.block, [2, 0, 0]);
    assert_eq!(
        fault.to_string(),
        "assertion failed in `under_test`: program 2 of 5, at test.rs:3:1, block [2, 0, 0]"
    );
    assert_eq!(host.read::<i64>(&out), [0, 1, 2, -1, -1]);
}

#[test]
fn asserts_on_tiles_and_threads() {
    let message = |b: &mut Builder| b.kernel.message("x = {}");
    let tile = tiles(&[P::View(Scalar::I32, 1)], |b, p| {
        let (zero, pad) = (b.index(0), b.i32(1));
        let x = b.load(p[0], &[zero], pad, Shape::new(&[4]), Reuse::Normal);
        let ok = b.cast(x, Scalar::Bool);
        let nine = b.f32(0.5);
        let message = message(b);
        b.op(OpKind::Assert(message), &[ok, nine], &[]);
    });
    let host = Host::new();
    host.run(&tile, [1; 3], &args(&[&host.vector(&[1, 2, 3i32])])).unwrap();
    let fault = host.fault(&tile, [1; 3], &args(&[&host.vector(&[1, 0, 3i32])]));
    assert_eq!((fault.kind, fault.thread), (FaultKind::Assert { message: "x = 0.5".into() }, None));

    let thread = threads(8, &[P::View(Scalar::I32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let x = b.load_at(p[0], tid);
        let ok = b.cast(x, Scalar::Bool);
        let message = message(b);
        b.op(OpKind::Assert(message), &[ok, tid], &[]);
    });
    let fault = host.fault(&thread, [1; 3], &args(&[&host.vector(&[1, 1, 1, 1, 1, 0, 1, 0i32])]));
    assert_eq!(fault.kind, FaultKind::Assert { message: "x = 5".into() });
    assert_eq!(fault.thread, Some([5, 0, 0]));
}

#[test]
fn accesses_outside_allocations_are_found() {
    let kernel = tiles(&[P::View(Scalar::F32, 1)], |b, p| {
        let (zero, pad) = (b.index(0), b.f32(0.0));
        b.at(2).load(p[0], &[zero], pad, Shape::new(&[8]), Reuse::Normal);
    });
    let host = Host::new();
    let short = host.vector(&[0f32; 6]);
    // The view promises more than there is.
    let (finding, detail) = host.finding(&kernel, [1; 3], &[Arg::View(&short, vec![8], vec![1])]);
    assert_eq!(finding, Finding::Address);
    assert!(
        detail.contains("32 bytes") && detail.contains("0 bytes into an allocation of 24 bytes"),
        "{detail}"
    );
    // A freed allocation is none.
    let freed = host.vector(&[0f32; 8]);
    // SAFETY: the interpreter checks the access that comes after.
    unsafe { host.device.free(freed.ptr, freed.bytes, STREAM) };
    assert_eq!(host.finding(&kernel, [1; 3], &args(&[&freed])).0, Finding::Address);
    // A null view.
    let null = Buffer { ptr: kiln_backend::DevicePtr(0), shape: vec![8], bytes: 0 };
    assert_eq!(host.finding(&kernel, [1; 3], &args(&[&null])).0, Finding::Address);
    let odd = Buffer { ptr: kiln_backend::DevicePtr(short.ptr.0 + 2), shape: vec![2], bytes: 0 };
    assert_eq!(host.finding(&kernel, [1; 3], &args(&[&odd])).0, Finding::Misaligned);
}

#[test]
fn broken_trust_is_found() {
    let kernel = threads(4, &[P::View(Scalar::F32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let pad = b.f32(0.0);
        b.at(4).gather(p[0], &[tid], None, pad, Bounds::Trust);
    });
    let host = Host::new();
    let data = host.vector(&[0f32; 4]);
    host.run(&kernel, [1; 3], &args(&[&data])).unwrap();
    let fault = host.fault(&kernel, [1; 3], &[Arg::View(&data, vec![3], vec![1])]);
    assert_eq!(fault.thread, Some([3, 0, 0]));
    assert_eq!(
        fault.kind,
        FaultKind::Sanitizer {
            finding: Finding::BrokenTrust,
            detail: "index 3 on axis 0 for extent 3".into()
        }
    );
}

#[test]
fn faults_belong_to_their_stream() {
    let kernel = tiles(&[P::View(Scalar::F32, 1), P::Scalar(Scalar::I64)], |b, p| {
        b.load_at(p[0], p[1]);
    });
    let host = Host::new();
    let other = host.device.create_stream().unwrap();
    let program = host.device.compile(&kernel).unwrap().program;
    let data = host.vector(&[0f32]);
    for index in [0, 1, 2] {
        let arguments = LaunchArguments::new().view(BufferBinding::read(data.ptr), &[1]).scalar(index);
        // SAFETY: the interpreter checks every access.
        unsafe { host.device.launch(&*program, arguments.launch([1; 3], other)).unwrap() };
    }
    assert!(host.device.synchronize(STREAM).is_ok());
    let mut bytes = [0; 4];
    // SAFETY: the allocation has 4 bytes.
    match unsafe { host.device.download(&mut bytes, data.ptr, other) } {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind, FaultKind::OutOfBounds { index: 1, extent: 1 });
        }
        result => panic!("expected the first fault, got {result:?}"),
    }
    assert!(host.device.synchronize(other).is_ok());
}

//! Operations below the tile level.

use crate::harness::*;
use kiln_backend::{FaultKind, Finding};
use kiln_ir::*;

const U64: Scalar = Scalar::U64;

fn one(b: &mut Builder, kind: OpKind, operands: &[Value], elem: Scalar) -> Value {
    let op = b.op(kind, operands, &[Type::scalar(elem)]);
    b.kernel.result(op)
}

/// `base + index * scale`.
fn offset(b: &mut Builder, base: Value, index: Value, scale: i64) -> Value {
    let scale = b.constant(Literal::wrapping(U64, scale.into()));
    let index = b.cast(index, U64);
    let bytes = b.binary(BinaryOp::Mul, index, scale);
    b.binary(BinaryOp::Add, base, bytes)
}

fn load(space: Space, lanes: u32, predicated: bool) -> OpKind {
    OpKind::PtrLoad { space, lanes, reuse: Reuse::Normal, predicated }
}

fn store(space: Space, lanes: u32, predicated: bool) -> OpKind {
    OpKind::PtrStore { space, lanes, reuse: Reuse::Normal, predicated }
}

#[test]
fn vectors_of_lanes_with_predicates() {
    // Thread t copies elements 4t..4t+4, in reverse, if t < 3; the loads of the others give zeros,
    // which they store.
    let kernel = threads(4, &[P::View(Scalar::F32, 1), P::View(Scalar::F32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let from = one(b, OpKind::Address, &[p[0]], U64);
        let to = one(b, OpKind::Address, &[p[1]], U64);
        let (from, to) = (offset(b, from, tid, 16), offset(b, to, tid, 16));
        let three = b.index(3);
        let low = b.compare(CompareOp::Lt, tid, three);
        let types = vec![Type::scalar(Scalar::F32); 4];
        let op = b.op(load(Space::Global, 4, true), &[from, low], &types);
        let mut values = b.kernel.op(op).results.to_vec();
        values.reverse();
        let zero = b.index(0);
        let not_first = b.compare(CompareOp::Ne, tid, zero);
        b.op(store(Space::Global, 4, true), &[&[to, not_first], &values[..]].concat(), &[]);
    });
    let host = Host::new();
    let from = host.vector(&(0..12).map(|i| i as f32).collect::<Vec<_>>());
    let to = host.vector(&[-1f32; 16]);
    host.run(&kernel, [1; 3], &args(&[&from, &to])).unwrap();
    let want = [-1, -1, -1, -1, 7, 6, 5, 4, 11, 10, 9, 8, 0, 0, 0, 0].map(|v| v as f32);
    assert_eq!(host.read::<f32>(&to), want);
}

#[test]
fn scratch_memory_is_shared_by_the_block() {
    let mut kernel = threads(32, &[P::View(Scalar::I32, 1)], |_, _| {});
    kernel.scratch_bytes = 256;
    let out = kernel.block(kernel.body).args[0];
    let mut b = Builder::new(&mut kernel);
    let b = &mut b;
    let tid = b.thread_id(Axis::X);
    let scratch = one(b, OpKind::Scratch { offset: 128 }, &[], U64);
    let mine = offset(b, scratch, tid, 4);
    let value = b.cast(tid, Scalar::I32);
    b.op(store(Space::Shared, 1, false), &[mine, value], &[]);
    b.op(OpKind::Barrier, &[], &[]);
    let last = b.index(31);
    let other = b.binary(BinaryOp::Sub, last, tid);
    let theirs = offset(b, scratch, other, 4);
    let value = one(b, load(Space::Shared, 1, false), &[theirs], Scalar::I32);
    // A shared allocation does not overlap the scratch memory.
    let shared = b.alloc(Space::Shared, Scalar::I32, Shape::new(&[4]));
    let zero = b.index(0);
    b.store_at(shared, zero, value);
    let base = one(b, OpKind::Address, &[shared], U64);
    let seven = b.i32(7);
    let first = b.compare(CompareOp::Eq, tid, zero);
    b.op(store(Space::Shared, 1, true), &[base, first, seven], &[]);
    let read = b.load_at(shared, zero);
    let sum = b.binary(BinaryOp::Add, value, read);
    b.store_at(out, tid, sum);
    let host = Host::new();
    let out = host.uninit(128, &[32]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i32>(&out), (0..32).map(|t| 31 - t + 7).collect::<Vec<_>>());
}

#[test]
fn scratch_memory_is_fresh_in_every_block() {
    // The first block writes it, and all read.
    let mut kernel = threads(1, &[], |_, _| {});
    kernel.scratch_bytes = 16;
    let mut b = Builder::new(&mut kernel);
    let b = &mut b;
    let (pid, zero) = (b.program_id(Axis::X), b.index(0));
    let first = b.compare(CompareOp::Eq, pid, zero);
    let scratch = one(b, OpKind::Scratch { offset: 8 }, &[], U64);
    b.op(store(Space::Shared, 1, true), &[scratch, first, pid], &[]);
    b.at(40);
    one(b, load(Space::Shared, 1, false), &[scratch], Scalar::I64);
    let host = Host::sanitizing();
    host.run(&kernel, [1; 3], &[]).unwrap();
    let fault = host.fault(&kernel, [2, 1, 1], &[]);
    assert_eq!((fault.block, fault.location.as_str()), ([1, 0, 0], "test.rs:40:1"));
    assert!(matches!(fault.kind, FaultKind::Sanitizer { finding: Finding::Uninitialized, .. }));
}

#[test]
fn local_addresses_are_the_threads_own() {
    let kernel = threads(8, &[P::View(Scalar::I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let local = b.alloc(Space::Local, Scalar::I64, Shape::new(&[2]));
        let base = one(b, OpKind::Address, &[local], U64);
        b.op(store(Space::Local, 2, false), &[base, tid, tid], &[]);
        let value = one(b, load(Space::Local, 1, false), &[base], Scalar::I64);
        b.store_at(p[0], tid, value);
    });
    let host = Host::new();
    let out = host.uninit(64, &[8]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i64>(&out), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn atomics_by_address() {
    let kernel = threads(6, &[P::View(Scalar::U32, 1), P::View(Scalar::U32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let base = one(b, OpKind::Address, &[p[0]], U64);
        let four = b.index(4);
        let low = b.compare(CompareOp::Lt, tid, four);
        let value = b.cast(tid, Scalar::U32);
        let add = OpKind::PtrAtomic {
            space: Space::Global,
            op: AtomicOp::Add,
            scope: Scope::Device,
            predicated: true,
        };
        let old = one(b, add, &[base, low, value], Scalar::U32);
        b.store_at(p[1], tid, old);
        let (six, ninety) =
            (b.constant(Literal::wrapping(Scalar::U32, 16)), b.constant(Literal::wrapping(Scalar::U32, 90)));
        let cas = OpKind::PtrAtomicCas { space: Space::Global, scope: Scope::Device, predicated: false };
        let seen = one(b, cas, &[base, six, ninety], Scalar::U32);
        let (five, hundred) = (b.index(5), b.index(6));
        let is_last = b.compare(CompareOp::Eq, tid, five);
        b.if_(
            is_last,
            &[],
            |b| {
                b.store_at(p[1], hundred, seen);
                vec![]
            },
            |_| vec![],
        );
    });
    let host = Host::new();
    let (place, old) = (host.vector(&[10u32]), host.uninit(28, &[7]));
    host.run(&kernel, [1; 3], &args(&[&place, &old])).unwrap();
    assert_eq!(host.read::<u32>(&place), [90]);
    assert_eq!(host.read::<u32>(&old), [10, 10, 11, 13, 0, 0, 90]);
}

#[test]
fn checks_fault_where_false() {
    let kernel = threads(4, &[P::Scalar(Scalar::I64)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let inside = b.compare(CompareOp::Lt, tid, p[0]);
        b.at(6).op(OpKind::CheckBounds, &[inside, tid, p[0]], &[]);
        let two = b.index(2);
        let ok = b.compare(CompareOp::Ne, tid, two);
        b.at(7).op(OpKind::CheckDivisor, &[ok], &[]);
    });
    let host = Host::new();
    let fault = host.fault(&kernel, [1; 3], &[Arg::Bits(3)]);
    assert_eq!(fault.kind, FaultKind::OutOfBounds { index: 3, extent: 3 });
    assert_eq!((fault.thread, fault.location.as_str()), (Some([3, 0, 0]), "test.rs:6:1"));
    let fault = host.fault(&kernel, [1; 3], &[Arg::Bits(4)]);
    assert_eq!((fault.kind, fault.thread), (FaultKind::DivisionByZero, Some([2, 0, 0])));
}

#[test]
fn vectors_must_be_aligned_and_inside() {
    let kernel = threads(1, &[P::View(Scalar::F32, 1), P::Scalar(Scalar::I64)], |b, p| {
        let base = one(b, OpKind::Address, &[p[0]], U64);
        let at = offset(b, base, p[1], 4);
        b.op(load(Space::Global, 2, false), &[at], &vec![Type::scalar(Scalar::F32); 2]);
    });
    let host = Host::new();
    let data = host.vector(&[0f32; 4]);
    host.run(&kernel, [1; 3], &[Arg::Buffer(&data), Arg::Bits(2)]).unwrap();
    let finding = |at: i64| host.finding(&kernel, [1; 3], &[Arg::Buffer(&data), Arg::Bits(at as u64)]).0;
    assert_eq!(finding(1), Finding::Misaligned);
    assert_eq!(finding(4), Finding::Address);
    assert_eq!(finding(-2), Finding::Address);
}

/// By address, in threads whose predicate holds.
#[test]
fn pairs_are_exchanged_by_address() {
    let text = "kernel @k(%x: mut view<u64, 1, global>, %y: mut view<u64, 1, global>) thread [3, 1, 1] {
  %t = thread_id x : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %p = ne %t, %one : bool
  %u = cast %t : u64
  %n = const 30 : u64
  %first = address %x : u64
  %a, %b = ptr_atomic_exchange_128.device.global %first where %p = %u, %n : u64, u64
  %c, %d = ptr_atomic_cas_128.device.global %first where %p = %u, %n -> %n, %u : u64, u64
  %at = mul %t, %two : i64
  %next = add %at, %one : i64
  %e = add %a, %c : u64
  %f = add %b, %d : u64
  scatter.trust %y[%at] = %e
  scatter.trust %y[%next] = %f
}
";
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(parse(&kernel.to_string()).map(|k| k.to_string()).unwrap(), kernel.to_string());
    let host = Host::new();
    let (x, y) = (host.vector(&[5u64, 6]), host.vector(&[9u64; 6]));
    host.run(&kernel, [1; 3], &args(&[&x, &y])).unwrap();
    // In lockstep, the last thread exchanges last, and it alone then finds what it expects.
    assert_eq!(host.read::<u64>(&x), [30, 2]);
    assert_eq!(host.read::<u64>(&y), [5 + 2, 6 + 30, 0, 0, 2, 30 + 30]);
}

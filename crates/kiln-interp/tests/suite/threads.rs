//! Threads of a block: indices, votes, shuffles, shared and local memory.

use crate::harness::*;
use kiln_ir::*;

#[test]
fn indices_count_x_fastest() {
    let level = Level::Thread { block: [3, 2, 2] };
    let kernel = kernel(level, &[P::View(Scalar::I64, 2)], |b, p| {
        let axes = [Axis::X, Axis::Y, Axis::Z];
        let [x, y, z] = axes.map(|a| b.thread_id(a));
        let [dx, dy, _] = axes.map(|a| b.block_dim(a));
        let yz = b.binary(BinaryOp::Mul, z, dy);
        let yz = b.binary(BinaryOp::Add, yz, y);
        let linear = b.binary(BinaryOp::Mul, yz, dx);
        let linear = b.binary(BinaryOp::Add, linear, x);
        let [px, py, pz] = axes.map(|a| b.program_id(a));
        let [nx, ny, _] = axes.map(|a| b.num_programs(a));
        let block = b.binary(BinaryOp::Mul, pz, ny);
        let block = b.binary(BinaryOp::Add, block, py);
        let block = b.binary(BinaryOp::Mul, block, nx);
        let block = b.binary(BinaryOp::Add, block, px);
        let (hundred, ten) = (b.index(100), b.index(10));
        let digits = b.binary(BinaryOp::Mul, x, hundred);
        let y_digit = b.binary(BinaryOp::Mul, y, ten);
        let digits = b.binary(BinaryOp::Add, digits, y_digit);
        let digits = b.binary(BinaryOp::Add, digits, z);
        b.scatter(p[0], &[block, linear], None, digits, Bounds::Check);
    });
    let host = Host::new();
    let out = host.uninit(12 * 12 * 8, &[12, 12]);
    host.run(&kernel, [2, 3, 2], &args(&[&out])).unwrap();
    let row = [0, 100, 200, 10, 110, 210, 1, 101, 201, 11, 111, 211i64];
    assert_eq!(host.read::<i64>(&out), row.repeat(12));
}

/// Every thread of `n` stores what `f` computes.
fn run_threads(n: u32, f: impl FnOnce(&mut Builder, Value) -> Value) -> Vec<i32> {
    let kernel = threads(n, &[P::View(Scalar::I32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let value = f(b, tid);
        let value = b.cast(value, Scalar::I32);
        b.store_at(p[0], tid, value);
    });
    let host = Host::new();
    let out = host.uninit(n as usize * 4, &[n as usize]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    host.read(&out)
}

fn shuffle(b: &mut Builder, mode: ShuffleMode, value: Value, by: Value) -> Value {
    let ty = b.kernel.ty(value).clone();
    let op = b.op(OpKind::Shuffle(mode), &[value, by], &[ty]);
    b.kernel.result(op)
}

#[test]
fn shuffles_stay_in_the_warp() {
    let by = |mode, amount: i64| {
        run_threads(70, move |b, tid| {
            let amount = b.index(amount);
            shuffle(b, mode, tid, amount)
        })
    };
    let want = |f: fn(i32) -> i32| (0..70).map(|t| t / 32 * 32 + f(t % 32)).collect::<Vec<_>>();
    // In the last warp only lanes 0 to 5 are there; a lane that would read another one keeps its
    // own value.
    assert_eq!(by(ShuffleMode::Index, 3), want(|_| 3));
    assert_eq!(by(ShuffleMode::Up, 5), want(|l| if l >= 5 { l - 5 } else { l }));
    let down = by(ShuffleMode::Down, 5);
    assert_eq!(down[..64], want(|l| if l + 5 < 32 { l + 5 } else { l })[..64]);
    assert_eq!(down[64..], [69, 65, 66, 67, 68, 69]);
    assert_eq!(by(ShuffleMode::Xor, 16)[..64], want(|l| l ^ 16)[..64]);
    let index = run_threads(32, |b, tid| {
        let (seven, span) = (b.index(7), b.index(32));
        let at = b.binary(BinaryOp::Mul, tid, seven);
        let at = b.binary(BinaryOp::Rem, at, span);
        shuffle(b, ShuffleMode::Index, tid, at)
    });
    assert_eq!(index, (0..32).map(|l| l * 7 % 32).collect::<Vec<_>>());
}

#[test]
fn amounts_count_modulo_32() {
    let by = |mode, amount: i64| {
        run_threads(32, move |b, tid| {
            let amount = b.index(amount);
            shuffle(b, mode, tid, amount)
        })
    };
    for mode in [ShuffleMode::Index, ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor] {
        assert_eq!(by(mode, 35), by(mode, 3), "{mode:?}");
        assert_eq!(by(mode, -29), by(mode, 3), "{mode:?}");
    }
}

/// Threads from `first` on do `op`, the others nothing.
fn from(first: i64, op: OpKind, result: Scalar) -> Kernel {
    threads(70, &[P::View(Scalar::I32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let first = b.index(first);
        let there = b.compare(CompareOp::Ge, tid, first);
        let one = b.index(1);
        let operands = if matches!(op, OpKind::Shuffle(_)) { vec![tid, one] } else { vec![there] };
        let got = b.if_(
            there,
            &[Type::scalar(Scalar::I32)],
            |b| {
                let op = b.at(40).op(op, &operands, &[Type::scalar(result)]);
                let got = b.kernel.result(op);
                vec![b.cast(got, Scalar::I32)]
            },
            |b| vec![b.i32(-1)],
        )[0];
        b.store_at(p[0], tid, got);
    })
}

#[test]
fn shuffles_and_votes_need_whole_warps() {
    let host = Host::new();
    let out = host.uninit(70 * 4, &[70]);
    let ops = [
        (OpKind::Shuffle(ShuffleMode::Down), Scalar::I64, "a shuffle"),
        (OpKind::Vote(VoteMode::All), Scalar::Bool, "a vote"),
        (OpKind::Vote(VoteMode::Ballot), Scalar::U32, "a vote"),
    ];
    for (op, result, what) in ops {
        // The second warp and the six threads of the third one, whole.
        host.run(&from(32, op.clone(), result), [1; 3], &args(&[&out])).unwrap();
        assert_eq!(host.read::<i32>(&out)[..32], [-1; 32]);
        for (first, present, threads, warp, missing) in [(40, 24, 32, 1, 32), (66, 4, 6, 2, 64)] {
            let fault = host.fault(&from(first, op.clone(), result), [1; 3], &args(&[&out]));
            assert_eq!(fault.location, "test.rs:40:1");
            let want = format!(
                "divergent threads in `under_test`: {what} reached by {present} of the {threads} threads of warp \
                 {warp}, and thread {missing} is not among them"
            );
            assert!(fault.to_string().starts_with(&want), "{fault}");
            assert_eq!(fault.thread, Some([first as u32, 0, 0]));
        }
    }
}

#[test]
fn barriers_of_a_warp_name_those_who_come() {
    let host = Host::new();
    let out = host.uninit(70 * 4, &[70]);
    // The threads from `first` on reach a barrier of the lanes `bits`, those of `odd` more.
    let kernel = |first: i64, bits: u32, odd: u32| {
        threads(70, &[P::View(Scalar::I32, 1)], |b, p| {
            let (tid, first, two) = (b.thread_id(Axis::X), b.index(first), b.index(2));
            let there = b.compare(CompareOp::Ge, tid, first);
            let odd = b.constant(Literal::from_bits(Scalar::U32, odd.into()));
            let parity = b.binary(BinaryOp::Rem, tid, two);
            let parity = b.cast(parity, Scalar::U32);
            let more = b.binary(BinaryOp::Mul, parity, odd);
            let bits = b.constant(Literal::from_bits(Scalar::U32, bits.into()));
            let bits = b.binary(BinaryOp::Or, bits, more);
            b.if_(
                there,
                &[],
                |b| {
                    b.at(40).op(OpKind::WarpBarrier, &[bits], &[]);
                    vec![]
                },
                |_| vec![],
            );
            let one = b.i32(1);
            b.store_at(p[0], tid, one);
        })
    };
    // All; whole warps, the last one partial; the upper lanes of that; only the lanes it has.
    for (first, bits) in [(0, u32::MAX), (32, u32::MAX), (66, 0xffff_fffc), (64, 0x3f)] {
        host.run(&kernel(first, bits, 0), [1; 3], &args(&[&out])).unwrap();
        assert_eq!(host.read::<i32>(&out), [1; 70]);
    }
    let cases = [
        (
            40,
            u32::MAX,
            0,
            40,
            "a barrier of lanes 0xffffffff of warp 1 reached by 24 of their 32 threads, and thread 32 is not among them",
        ),
        (
            66,
            0x3f,
            0,
            66,
            "a barrier of lanes 0x0000003f of warp 2 reached by 4 of their 6 threads, and thread 64 is not among them",
        ),
        (64, 0x1e, 0, 64, "a barrier of lanes 0x0000001e of warp 2 reached by its lane 0"),
        (64, 0x3f, 0x40, 64, "a barrier of lanes 0x0000003f of warp 2, for which thread 65 names 0x0000007f"),
    ];
    for (first, bits, odd, thread, want) in cases {
        let fault = host.fault(&kernel(first, bits, odd), [1; 3], &args(&[&out]));
        assert_eq!((fault.location.as_str(), fault.thread), ("test.rs:40:1", Some([thread, 0, 0])));
        assert!(
            fault.to_string().starts_with(&format!("divergent threads in `under_test`: {want}")),
            "{fault}"
        );
    }
}

#[test]
fn allocations_of_mixed_types_are_aligned_and_apart() {
    let got = run_threads(1, |b, tid| {
        let small = b.alloc(Space::Shared, Scalar::Bool, Shape::new(&[3]));
        let large = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[2]));
        let (zero, one, five) = (b.index(0), b.index(1), b.index(5));
        let yes = b.constant(Literal::bool(true));
        b.store_at(large, zero, five);
        b.store_at(large, one, one);
        let two = b.index(2);
        b.store_at(small, two, yes);
        let (x, y) = (b.load_at(large, zero), b.load_at(large, one));
        let sum = b.binary(BinaryOp::Add, x, y);
        b.binary(BinaryOp::Add, sum, tid)
    });
    assert_eq!(got, [6]);
}

#[test]
fn votes_ask_the_threads_of_a_warp() {
    let vote = |mode, elem: Scalar| {
        run_threads(40, move |b, tid| {
            let tid = b.cast(tid, Scalar::I32);
            // The predicate: tid >= 32, or tid is in {0, 1, 2}.
            let (low, high) = (b.i32(3), b.i32(32));
            let low = b.compare(CompareOp::Lt, tid, low);
            let high = b.compare(CompareOp::Ge, tid, high);
            let predicate = b.binary(BinaryOp::Or, low, high);
            let op = b.op(OpKind::Vote(mode), &[predicate], &[Type::scalar(elem)]);
            let vote = b.kernel.result(op);
            b.cast(vote, Scalar::I32)
        })
    };
    let warps = |first: i32, second: i32| [vec![first; 32], vec![second; 8]].concat();
    assert_eq!(vote(VoteMode::All, Scalar::Bool), warps(0, 1));
    assert_eq!(vote(VoteMode::Any, Scalar::Bool), warps(1, 1));
    assert_eq!(vote(VoteMode::Ballot, Scalar::U32), warps(7, 255));
}

#[test]
fn shared_memory_belongs_to_the_block() {
    // Each block reverses its part.
    let kernel = threads(48, &[P::View(Scalar::I32, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let pid = b.program_id(Axis::X);
        let n = b.block_dim(Axis::X);
        let base = b.binary(BinaryOp::Mul, pid, n);
        let at = b.binary(BinaryOp::Add, base, tid);
        let shared = b.alloc(Space::Shared, Scalar::I32, Shape::new(&[6, 8]));
        let eight = b.index(8);
        let place = |b: &mut Builder, i: Value| {
            [b.binary(BinaryOp::Div, i, eight), b.binary(BinaryOp::Rem, i, eight)]
        };
        let value = b.load_at(p[0], at);
        let mine = place(b, tid);
        b.scatter(shared, &mine, None, value, Bounds::Check);
        b.op(OpKind::Barrier, &[], &[]);
        let last = b.index(47);
        let other = b.binary(BinaryOp::Sub, last, tid);
        let theirs = place(b, other);
        let padding = b.i32(0);
        let value = b.gather(shared, &theirs, None, padding, Bounds::Check);
        b.store_at(p[0], at, value);
    });
    let host = Host::sanitizing();
    let data = host.vector(&(0..96).collect::<Vec<i32>>());
    host.run(&kernel, [2, 1, 1], &args(&[&data])).unwrap();
    assert_eq!(host.read::<i32>(&data), (0..48).rev().chain((48..96).rev()).collect::<Vec<_>>());
}

#[test]
fn local_memory_belongs_to_the_thread() {
    // Each thread fills an array of 5 with tid + i and sums it.
    let got = run_threads(37, |b, tid| {
        let local = b.alloc(Space::Local, Scalar::I64, Shape::new(&[5]));
        let (zero, one, five) = (b.index(0), b.index(1), b.index(5));
        b.for_([zero, five, one], &[], |b, i, _| {
            let value = b.binary(BinaryOp::Add, tid, i);
            b.store_at(local, i, value);
            vec![]
        });
        b.for_([zero, five, one], &[zero], |b, i, c| {
            let value = b.load_at(local, i);
            vec![b.binary(BinaryOp::Add, c[0], value)]
        })[0]
    });
    assert_eq!(got, (0..37).map(|t| 5 * t + 10).collect::<Vec<_>>());
}

#[test]
fn tiles_and_threads_in_one_kernel() {
    // Threads fill shared memory, a tile operation sums it, every thread gets the sum.
    let got = run_threads(16, |b, tid| {
        let shared = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[16]));
        b.store_at(shared, tid, tid);
        b.op(OpKind::Barrier, &[], &[]);
        let zero = b.index(0);
        let tile = b.load(shared, &[zero], zero, Shape::new(&[16]), Reuse::Normal);
        let sum = b.reduce(ReduceOp::Sum, 0, tile);
        b.binary(BinaryOp::Add, sum, tid)
    });
    assert_eq!(got, (0..16).map(|t| 120 + t).collect::<Vec<_>>());
}

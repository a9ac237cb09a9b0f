//! What the sanitizer finds, and what it must not find.

use crate::harness::*;
use kiln_backend::{Backend, Finding};
use kiln_interp::Options;
use kiln_ir::*;

const N: u32 = 8;

fn barrier(b: &mut Builder) {
    b.op(OpKind::Barrier, &[], &[]);
}

/// Threads write their index to shared memory at `write` and read it at `read`, which get the
/// thread's index.
fn exchange(with_barrier: bool, shift: i64) -> Kernel {
    threads(N, &[P::View(Scalar::I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let shared = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[N]));
        b.at(10).store_at(shared, tid, tid);
        if with_barrier {
            barrier(b);
        }
        let (shift, n) = (b.index(shift), b.index(N.into()));
        let other = b.binary(BinaryOp::Add, tid, shift);
        let other = b.binary(BinaryOp::Rem, other, n);
        let value = b.at(11).load_at(shared, other);
        b.store_at(p[0], tid, value);
    })
}

#[test]
fn a_missing_barrier_is_a_race() {
    let host = Host::sanitizing();
    let out = host.uninit(64, &[8]);
    host.run(&exchange(true, 1), [2, 1, 1], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i64>(&out), [1, 2, 3, 4, 5, 6, 7, 0]);
    host.run(&exchange(false, 0), [2, 1, 1], &args(&[&out])).unwrap();
    let fault = host.fault(&exchange(false, 1), [1; 3], &args(&[&out]));
    assert_eq!(fault.location, "test.rs:11:1");
    assert_eq!(
        fault.to_string(),
        "data race in `under_test`: element [1] of the shared memory of unknown location is read by thread 0 of block 0 \
         and was written by thread 1 of block 0 at test.rs:10:1, and nothing orders the two; \
         put a `barrier()` between the two, at test.rs:11:1, block [0, 0, 0], thread [0, 0, 0]"
    );
    // Without the sanitizer the lockstep order decides.
    let host = Host::new();
    let out = host.uninit(64, &[8]);
    host.run(&exchange(false, 1), [1; 3], &args(&[&out])).unwrap();
}

/// 64 threads write their index to shared memory, reach a barrier of the lanes of their warps that
/// have a bit, and read what a thread `shift` further on wrote.
fn exchange_in_warps(lanes: &'static [u32], shift: i64) -> Kernel {
    threads(64, &[P::View(Scalar::I64, 1)], move |b, p| {
        let tid = b.thread_id(Axis::X);
        let shared = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[64]));
        b.at(10).store_at(shared, tid, tid);
        for &bits in lanes {
            let (bit, lanes) = (b.i32(1), b.constant(Literal::from_bits(Scalar::U32, bits.into())));
            let (bit, tid) = (b.cast(bit, Scalar::U32), b.cast(tid, Scalar::U32));
            // The amount counts modulo 32.
            let bit = b.binary(BinaryOp::Shl, bit, tid);
            let own = b.binary(BinaryOp::And, lanes, bit);
            let there = b.compare(CompareOp::Eq, own, bit);
            b.if_(
                there,
                &[],
                |b| {
                    b.op(OpKind::WarpBarrier, &[lanes], &[]);
                    vec![]
                },
                |_| vec![],
            );
        }
        let (shift, n) = (b.index(shift), b.index(64));
        let other = b.binary(BinaryOp::Add, tid, shift);
        let other = b.binary(BinaryOp::Rem, other, n);
        let value = b.at(11).load_at(shared, other);
        b.store_at(p[0], tid, value);
    })
}

/// The last lane of a warp alone reads what another warp wrote.
const RACES: [&str; 4] = [
    "is read by thread 31 of block 0 and was written by thread 32 of block 0",
    "is read by thread 63 of block 0 and was written by thread 0 of block 0",
    "is written by thread 32 of block 0 and was read by thread 31 of block 0",
    "is written by thread 0 of block 0 and was read by thread 63 of block 0",
];

#[test]
fn a_barrier_of_a_warp_orders_its_lanes_alone() {
    for host in [Host::sanitizing(), Host::with(Options { seed: Some(5), ..Options::default() })] {
        let out = host.uninit(64 * 8, &[64]);
        let race = |lanes: &'static [u32], shift| {
            let result = host.run(&exchange_in_warps(lanes, shift), [1; 3], &args(&[&out]));
            result.err().map(|error| error.to_string())
        };
        assert_eq!(race(&[u32::MAX], 0), None);
        let text = race(&[u32::MAX], 1).unwrap_or_default();
        // Only the last lane of a warp reads what another warp wrote.
        assert!(RACES.iter().any(|race| text.contains(race)), "{text}");
        let text = race(&[0xffff], 1).unwrap_or_default();
        assert!(text.contains("nothing orders the two"), "{text}");
    }
}

#[test]
fn a_race_with_a_third_warp_is_found_behind_barriers_of_warps() {
    // Thread 40 writes, then threads 0 and 1 write the same, meet, and one of them reads.
    let kernel = |meet: bool| {
        threads(64, &[P::View(Scalar::I64, 1)], move |b, p| {
            let (tid, zero) = (b.thread_id(Axis::X), b.index(0));
            let shared = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[1]));
            let only = |b: &mut Builder, thread: i64, f: &mut dyn FnMut(&mut Builder)| {
                let thread = b.index(thread);
                let mine = b.compare(CompareOp::Eq, tid, thread);
                let arm = |b: &mut Builder| {
                    f(b);
                    vec![]
                };
                b.if_(mine, &[], arm, |_| vec![]);
            };
            for thread in [40, 0, 1] {
                only(b, thread, &mut |b| b.store_at(shared, zero, zero));
            }
            if meet {
                b.op(OpKind::Barrier, &[], &[]);
            }
            let all = b.constant(Literal::from_bits(Scalar::U32, u32::MAX.into()));
            b.op(OpKind::WarpBarrier, &[all], &[]);
            let one = b.index(1);
            only(b, 0, &mut |b| b.at(11).store_at(shared, zero, one));
            b.store_at(p[0], tid, tid);
        })
    };
    let host = Host::sanitizing();
    let out = host.uninit(64 * 8, &[64]);
    host.run(&kernel(true), [1; 3], &args(&[&out])).unwrap();
    let fault = host.fault(&kernel(false), [1; 3], &args(&[&out]));
    assert!(
        fault.to_string().contains("is written by thread 0 of block 0 and was written by thread 40"),
        "{fault}"
    );
}

#[test]
fn a_write_after_a_read_needs_a_barrier() {
    let kernel = |with_barrier| {
        threads(N, &[P::View(Scalar::I64, 1)], |b, p| {
            let tid = b.thread_id(Axis::X);
            let shared = b.alloc(Space::Shared, Scalar::I64, Shape::new(&[1]));
            let (zero, seven) = (b.index(0), b.index(7));
            let last = b.compare(CompareOp::Eq, tid, seven);
            let store = |b: &mut Builder, value: Value| {
                b.if_(
                    last,
                    &[],
                    |b| {
                        b.at(12).store_at(shared, zero, value);
                        vec![]
                    },
                    |_| vec![],
                );
            };
            store(b, seven);
            barrier(b);
            let value = b.load_at(shared, zero);
            if with_barrier {
                barrier(b);
            }
            store(b, zero);
            b.store_at(p[0], tid, value);
        })
    };
    let host = Host::sanitizing();
    let out = host.uninit(64, &[8]);
    host.run(&kernel(true), [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i64>(&out), [7; 8]);
    let (finding, detail) = host.finding(&kernel(false), [1; 3], &args(&[&out]));
    assert_eq!(finding, Finding::Race);
    assert!(detail.contains("is written by thread 7 of block 0 and was read by thread"), "{detail}");
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let kernel = |atomic: bool| {
        threads(N, &[P::View(Scalar::U32, 1)], |b, p| {
            let tid = b.thread_id(Axis::X);
            let shared = b.alloc(Space::Shared, Scalar::U32, Shape::new(&[1]));
            let (zero, none) = (b.index(0), b.constant(Literal::zero(Scalar::U32)));
            // Every thread writes the same value: no race.
            b.store_at(shared, zero, none);
            barrier(b);
            let value = b.cast(tid, Scalar::U32);
            let kind = OpKind::Atomic {
                op: AtomicOp::Add,
                scope: Scope::Block,
                bounds: Bounds::Check,
                masked: false,
            };
            if atomic {
                b.op(kind, &[shared, zero, value], &[Type::scalar(Scalar::U32)]);
            } else {
                b.store_at(shared, zero, value);
            }
            barrier(b);
            let sum = b.load_at(shared, zero);
            b.store_at(p[0], tid, sum);
        })
    };
    let host = Host::sanitizing();
    let out = host.uninit(32, &[8]);
    host.run(&kernel(true), [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<u32>(&out), [28; 8]);
    assert_eq!(host.finding(&kernel(false), [1; 3], &args(&[&out])).0, Finding::Race);
}

#[test]
fn programs_must_not_share_what_they_write() {
    // Each program stores 4 elements of value `pid * scale` at `pid * step`.
    let params = [P::View(Scalar::I64, 1), P::Scalar(Scalar::I64), P::Scalar(Scalar::I64)];
    let store = tiles(&params, |b, p| {
        let pid = b.program_id(Axis::X);
        let value = b.binary(BinaryOp::Mul, pid, p[1]);
        let tile = b.broadcast(value, Shape::new(&[4]));
        let at = b.binary(BinaryOp::Mul, pid, p[2]);
        b.at(30).store(p[0], &[at], tile, Reuse::Normal, true);
    });
    let host = Host::sanitizing();
    let out = host.uninit(64, &[8]);
    let with = |scale, step| [Arg::Buffer(&out), Arg::Bits(scale), Arg::Bits(step)];
    host.run(&store, [2, 1, 1], &with(1, 4)).unwrap();
    host.run(&store, [2, 1, 1], &with(0, 3)).unwrap();
    let fault = host.fault(&store, [2, 1, 1], &with(1, 3));
    assert_eq!((fault.block, fault.location.as_str()), ([1, 0, 0], "test.rs:30:1"));
    assert_eq!(
        fault.to_string(),
        "data race in `under_test`: `p0[3]` is written by block 1 and was written by block 0 at test.rs:30:1, \
         and nothing orders the two; let one program alone write it, or use atomic operations, \
         at test.rs:30:1, block [1, 0, 0]"
    );
    // Launches are ordered.
    host.run(&store, [1; 3], &with(7, 0)).unwrap();
    host.run(&store, [2, 1, 1], &with(1, 4)).unwrap();
}

#[test]
fn programs_must_not_read_what_others_write() {
    let kernel = |read_first: bool, fence: bool| {
        tiles(&[P::View(Scalar::I64, 1)], |b, p| {
            let pid = b.program_id(Axis::X);
            let one = b.index(1);
            let other = b.binary(BinaryOp::Sub, one, pid);
            if fence {
                b.op(OpKind::Fence(Scope::Device), &[], &[]);
            }
            if read_first {
                b.load_at(p[0], other);
                b.store_at(p[0], pid, pid);
            } else {
                b.store_at(p[0], pid, pid);
                b.load_at(p[0], other);
            }
        })
    };
    let host = Host::sanitizing();
    let detail = |k: &Kernel| host.finding(k, [2, 1, 1], &args(&[&host.vector(&[9i64; 2])])).1;
    let text = detail(&kernel(false, false));
    assert!(text.contains("is written by block 1 and was read by block 0"), "{text}");
    let text = detail(&kernel(true, false));
    assert!(text.contains("is read by block 1 and was written by block 0"), "{text}");
    host.run(&kernel(true, true), [2, 1, 1], &args(&[&host.vector(&[9i64; 2])])).unwrap();
    // Many readers in two blocks, then a writer in the second.
    let readers = threads(3, &[P::View(Scalar::I64, 1)], |b, p| {
        let (tid, pid) = (b.thread_id(Axis::X), b.program_id(Axis::X));
        let zero = b.index(0);
        b.load_at(p[0], zero);
        b.op(OpKind::Barrier, &[], &[]);
        let last = b.binary(BinaryOp::Add, tid, pid);
        let three = b.index(3);
        let writes = b.compare(CompareOp::Eq, last, three);
        b.if_(
            writes,
            &[],
            |b| {
                b.store_at(p[0], zero, tid);
                vec![]
            },
            |_| vec![],
        );
    });
    let text = detail(&readers);
    assert!(text.contains("is written by thread 2 of block 1 and was read by thread 2 of block 0"), "{text}");
}

#[test]
fn a_fence_of_the_block_orders_nothing_between_blocks() {
    let kernel = |scope: Scope| {
        threads(N, &[P::View(Scalar::I64, 1)], |b, p| {
            let (tid, pid) = (b.thread_id(Axis::X), b.program_id(Axis::X));
            let value = b.binary(BinaryOp::Add, tid, pid);
            b.store_at(p[0], tid, value);
            b.op(OpKind::Fence(scope), &[], &[]);
        })
    };
    let host = Host::sanitizing();
    let (finding, detail) =
        host.finding(&kernel(Scope::Block), [2, 1, 1], &args(&[&host.vector(&[0i64; 8])]));
    assert_eq!(finding, Finding::Race);
    assert!(detail.contains("of block 1 and was written by thread"), "{detail}");
    host.run(&kernel(Scope::Device), [2, 1, 1], &args(&[&host.vector(&[0i64; 8])])).unwrap();
}

/// What a thread or a program does with the one element that all of them have.
#[derive(Clone, Copy)]
enum Does {
    Store(i64),
    Add(i64),
    Load,
}
use Does::*;

/// Threads, or programs, that access one element, one after the other in lockstep. `None` is a
/// barrier.
fn in_turn(memory: Space, programs: bool, steps: &[Option<(u32, Does)>]) -> Kernel {
    threads(4, &[P::View(Scalar::I64, 1)], |b, p| {
        let (zero, tid) = (b.index(0), b.thread_id(Axis::X));
        let pid = b.program_id(Axis::X);
        let place = match memory {
            Space::Shared => b.alloc(Space::Shared, Scalar::I64, Shape::new(&[1])),
            _ => p[0],
        };
        for step in steps {
            let Some((who, does)) = *step else {
                barrier(b);
                continue;
            };
            // One thread of each program, and a program with this number or the only one.
            let (wanted, first) = (b.index(who.into()), b.index(0));
            let is_thread = b.compare(CompareOp::Eq, tid, if programs { first } else { wanted });
            let is_program = b.compare(CompareOp::Eq, pid, if programs { wanted } else { first });
            let is_it = b.binary(BinaryOp::And, is_thread, is_program);
            let access = |b: &mut Builder| {
                match does {
                    Store(value) => {
                        let value = b.index(value);
                        b.store_at(place, zero, value);
                    }
                    Add(value) => {
                        let (scope, bounds) = (Scope::Device, Bounds::Check);
                        let kind = OpKind::Atomic { op: AtomicOp::Add, scope, bounds, masked: false };
                        let value = b.index(value);
                        b.op(kind, &[place, zero, value], &[Type::scalar(Scalar::I64)]);
                    }
                    Load => {
                        b.load_at(place, zero);
                    }
                }
                vec![]
            };
            b.if_(is_it, &[], access, |_| vec![]);
        }
    })
}

/// A write of what is there already, and an atomic operation, race with nothing of their kind. They
/// must not hide who was before them.
#[test]
fn every_writer_and_reader_counts_and_not_the_last_alone() {
    let racing: [&[Option<(u32, Does)>]; 7] = [
        &[Some((0, Store(8))), Some((1, Store(8))), Some((1, Store(7)))],
        &[Some((0, Store(8))), Some((1, Store(8))), Some((2, Store(8))), Some((2, Store(7)))],
        &[
            Some((2, Store(8))),
            Some((1, Store(8))),
            Some((0, Store(8))),
            Some((1, Store(8))),
            Some((1, Store(7))),
        ],
        // An atomic operation on what another thread, or program, made without one.
        &[Some((0, Store(8))), Some((0, Add(1))), Some((1, Add(1)))],
        &[Some((0, Store(8))), Some((0, Add(1))), Some((0, Add(1))), Some((1, Add(0))), Some((2, Add(1)))],
        // A load of what another thread changes by an atomic operation.
        &[Some((0, Store(0))), None, Some((0, Add(1))), Some((1, Add(1))), Some((1, Load))],
        &[
            Some((0, Store(0))),
            None,
            Some((1, Load)),
            Some((2, Add(0))),
            Some((3, Add(0))),
            Some((3, Add(1))),
        ],
    ];
    let ordered: [&[Option<(u32, Does)>]; 6] = [
        &[Some((0, Store(8))), Some((1, Store(8))), Some((2, Store(8)))],
        // It reads its own 8, or an equal one.
        &[Some((0, Store(8))), Some((1, Store(8))), Some((1, Load))],
        &[Some((0, Store(8))), Some((1, Store(8))), None, Some((1, Store(7)))],
        &[Some((0, Store(8))), Some((0, Add(1))), None, Some((1, Add(1)))],
        &[Some((0, Store(8))), None, Some((0, Add(1))), Some((1, Add(1))), None, Some((2, Load))],
        &[
            Some((0, Store(8))),
            None,
            Some((1, Load)),
            Some((2, Load)),
            Some((3, Load)),
            None,
            Some((3, Add(1))),
        ],
    ];
    let host = Host::sanitizing();
    for memory in [Space::Shared, Space::Global] {
        for (n, steps) in racing.iter().enumerate() {
            let kernel = in_turn(memory, false, steps);
            let found = host.finding(&kernel, [1; 3], &args(&[&host.vector(&[9i64])]));
            assert_eq!(found.0, Finding::Race, "case {n}, {memory:?}: {}", found.1);
        }
        for steps in ordered {
            let kernel = in_turn(memory, false, steps);
            host.run(&kernel, [1; 3], &args(&[&host.vector(&[9i64])])).unwrap();
        }
    }
}

/// Between programs there are no barriers, and one runs after the other.
#[test]
fn every_program_counts_and_not_the_last_alone() {
    let racing: [&[Option<(u32, Does)>]; 6] = [
        &[Some((0, Store(8))), Some((1, Store(8))), Some((1, Store(7)))],
        &[Some((0, Store(8))), Some((1, Store(8))), Some((2, Store(8))), Some((2, Store(7)))],
        // The first program begins a count that all add to.
        &[Some((0, Store(0))), None, Some((0, Add(1))), Some((1, Add(1)))],
        &[Some((0, Store(0))), Some((0, Add(1))), Some((1, Add(0))), Some((2, Add(1)))],
        &[Some((0, Add(1))), Some((1, Add(1))), Some((1, Load))],
        &[Some((0, Load)), Some((0, Add(0))), Some((1, Add(0))), Some((2, Add(1)))],
    ];
    let ordered: [&[Option<(u32, Does)>]; 3] = [
        &[Some((0, Store(8))), Some((1, Store(8))), Some((1, Load)), Some((2, Store(8)))],
        &[Some((0, Add(8))), Some((1, Add(8))), Some((2, Add(7)))],
        &[Some((0, Load)), Some((1, Load)), Some((2, Load))],
    ];
    let host = Host::sanitizing();
    for (n, steps) in racing.iter().enumerate() {
        let kernel = in_turn(Space::Global, true, steps);
        let found = host.finding(&kernel, [3, 1, 1], &args(&[&host.vector(&[9i64])]));
        assert_eq!(found.0, Finding::Race, "case {n}: {}", found.1);
    }
    for steps in ordered {
        let kernel = in_turn(Space::Global, true, steps);
        host.run(&kernel, [3, 1, 1], &args(&[&host.vector(&[9i64])])).unwrap();
    }
}

/// Which thread holds which element of a tile is not the kernel's to know.
#[test]
fn a_thread_and_an_operation_on_tiles_need_a_barrier_between() {
    let kernel = |with_barrier: bool| {
        threads(N, &[P::View(Scalar::I64, 1)], |b, p| {
            let (tid, zero) = (b.thread_id(Axis::X), b.index(0));
            b.store_at(p[0], tid, tid);
            if with_barrier {
                barrier(b);
            }
            b.load(p[0], &[zero], zero, Shape::new(&[8]), Reuse::Normal);
        })
    };
    let host = Host::sanitizing();
    let out = || host.vector(&[9i64; 8]);
    host.run(&kernel(true), [1; 3], &args(&[&out()])).unwrap();
    assert_eq!(host.finding(&kernel(false), [1; 3], &args(&[&out()])).0, Finding::Race);
}

#[test]
fn uninitialized_reads_are_found_in_every_space() {
    let host = Host::sanitizing();
    let global = tiles(&[P::View(Scalar::F32, 1)], |b, p| {
        let (zero, pad) = (b.index(0), b.f32(0.0));
        b.at(3).load(p[0], &[zero], pad, Shape::new(&[4]), Reuse::Normal);
    });
    let fresh = host.uninit(16, &[4]);
    let fault = host.fault(&global, [1; 3], &args(&[&fresh]));
    assert_eq!(fault.location, "test.rs:3:1");
    let want = "read of uninitialized memory in `under_test`: `p0[0]` is read, but nothing has written it; \
                write it before, or make the tensor by `zeros`, at test.rs:3:1";
    assert!(fault.to_string().starts_with(want), "{fault}");
    // A filled buffer, and a copy of one, are written; a copy of a fresh one is not.
    let (other, filled) = (host.uninit(16, &[4]), host.uninit(16, &[4]));
    // SAFETY: the allocations have 16 bytes.
    unsafe {
        host.device.fill(filled.ptr, 0, 16, STREAM).unwrap();
        host.run(&global, [1; 3], &args(&[&filled])).unwrap();
        host.device.copy(other.ptr, filled.ptr, 16, STREAM).unwrap();
        host.run(&global, [1; 3], &args(&[&other])).unwrap();
        host.device.copy(other.ptr, fresh.ptr, 16, STREAM).unwrap();
    }
    assert_eq!(host.finding(&global, [1; 3], &args(&[&other])).0, Finding::Uninitialized);
    // Freed and allocated again is fresh again.
    for space in [Space::Shared, Space::Local] {
        let kernel = threads(4, &[P::Scalar(Scalar::I64)], |b, p| {
            let tid = b.thread_id(Axis::X);
            let memory = b.alloc(space, Scalar::I64, Shape::new(&[4]));
            b.store_at(memory, tid, tid);
            barrier(b);
            let at = b.binary(BinaryOp::Add, tid, p[0]);
            let zero = b.index(0);
            b.gather(memory, &[at], None, zero, Bounds::Mask);
        });
        host.run(&kernel, [1; 3], &[Arg::Bits(0)]).unwrap();
        if space == Space::Local {
            assert_eq!(host.finding(&kernel, [1; 3], &[Arg::Bits(1)]).0, Finding::Uninitialized);
        } else {
            host.run(&kernel, [1; 3], &[Arg::Bits(1)]).unwrap();
        }
    }
}

#[test]
fn block_memory_is_fresh_in_every_block_and_iteration() {
    let in_block = threads(1, &[], |b, _| {
        let shared = b.alloc(Space::Shared, Scalar::I32, Shape::new(&[1]));
        let pid = b.program_id(Axis::X);
        let zero = b.index(0);
        let first = b.compare(CompareOp::Eq, pid, zero);
        let one = b.i32(1);
        b.if_(
            first,
            &[],
            |b| {
                b.store_at(shared, zero, one);
                vec![]
            },
            |_| vec![],
        );
        b.load_at(shared, zero);
    });
    let host = Host::sanitizing();
    host.run(&in_block, [1; 3], &[]).unwrap();
    let fault = host.fault(&in_block, [2, 1, 1], &[]);
    assert_eq!(fault.block, [1, 0, 0]);
    let in_loop = threads(2, &[], |b, _| {
        let (zero, one, two) = (b.index(0), b.index(1), b.index(2));
        b.for_([zero, two, one], &[], |b, i, _| {
            let local = b.alloc(Space::Local, Scalar::I64, Shape::new(&[1]));
            let first = b.compare(CompareOp::Eq, i, zero);
            b.if_(
                first,
                &[],
                |b| {
                    b.store_at(local, zero, one);
                    vec![]
                },
                |_| vec![],
            );
            b.load_at(local, zero);
            vec![]
        });
    });
    assert_eq!(host.finding(&in_loop, [1; 3], &[]).0, Finding::Uninitialized);
}

/// A divergent condition that the verifier takes as uniform: threads load it from one place, which
/// a race changes between. Kernels lowered to threads are exempt from the verifier's rule, so an
/// address operation is there.
fn divergent(body: impl FnOnce(&mut Builder, Value)) -> Kernel {
    threads(N, &[P::View(Scalar::I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let address = b.op(OpKind::Address, &[p[0]], &[Type::scalar(Scalar::U64)]);
        let _ = b.kernel.result(address);
        body(b, tid);
    })
}

#[test]
fn divergent_barriers_and_tiles_are_found() {
    let host = Host::new();
    let out = host.vector(&[0i64; 8]);
    let in_branch = divergent(|b, tid| {
        let five = b.index(5);
        let low = b.compare(CompareOp::Lt, tid, five);
        b.if_(
            low,
            &[],
            |b| {
                b.at(20).op(OpKind::Barrier, &[], &[]);
                vec![]
            },
            |_| vec![],
        );
    });
    let fault = host.fault(&in_branch, [1; 3], &args(&[&out]));
    assert_eq!(fault.location, "test.rs:20:1");
    assert_eq!(
        fault.to_string(),
        "divergent threads in `under_test`: a barrier reached by 5 of 8 threads, at test.rs:20:1, block [0, 0, 0]"
    );
    let in_loop = divergent(|b, tid| {
        let (zero, one) = (b.index(0), b.index(1));
        b.for_([zero, tid, one], &[], |b, _, _| {
            b.op(OpKind::Barrier, &[], &[]);
            vec![]
        });
    });
    assert_eq!(host.finding(&in_loop, [1; 3], &args(&[&out])).0, Finding::Divergence);
    let splat = divergent(|b, tid| {
        b.broadcast(tid, Shape::new(&[4]));
    });
    let (finding, detail) = host.finding(&splat, [1; 3], &args(&[&out]));
    assert_eq!(finding, Finding::Divergence);
    assert_eq!(detail, "a tile operation takes 0 from thread 0 and 1 from thread 1");
}

/// Each block stores to an element, and after a barrier of the grid, of which there may be none,
/// reads that of the next block. Those from `stays` on end before it.
fn neighbors(with_barrier: bool, stays: i64) -> Kernel {
    threads(N, &[P::View(Scalar::I64, 1), P::View(Scalar::I64, 1)], |b, p| {
        let (pid, blocks, one) = (b.program_id(Axis::X), b.num_programs(Axis::X), b.index(1));
        b.at(10).store_at(p[0], pid, pid);
        let last = b.index(stays);
        let comes = b.compare(CompareOp::Lt, pid, last);
        b.if_(
            comes,
            &[],
            |b| {
                if with_barrier {
                    b.at(11).op(OpKind::GridBarrier, &[], &[]);
                }
                let next = b.binary(BinaryOp::Add, pid, one);
                let next = b.binary(BinaryOp::Rem, next, blocks);
                let value = b.at(12).load_at(p[0], next);
                b.store_at(p[1], pid, value);
                vec![]
            },
            |_| vec![],
        );
    })
}

#[test]
fn a_grid_barrier_orders_all_blocks() {
    let host = Host::sanitizing();
    let (x, y) = (host.vector(&[9i64; 5]), host.uninit(40, &[5]));
    host.run(&neighbors(true, 5), [5, 1, 1], &args(&[&x, &y])).unwrap();
    assert_eq!(host.read::<i64>(&y), [1, 2, 3, 4, 0]);
    let (finding, detail) = host.finding(&neighbors(false, 5), [5, 1, 1], &args(&[&x, &y]));
    assert_eq!(finding, Finding::Race);
    assert!(detail.contains("was written by thread 7 of block"), "{detail}");
}

#[test]
fn blocks_that_end_without_a_grid_barrier_are_found() {
    let host = Host::sanitizing();
    let (x, y) = (host.vector(&[9i64; 5]), host.vector(&[0i64; 5]));
    let fault = host.fault(&neighbors(true, 3), [5, 1, 1], &args(&[&x, &y]));
    assert_eq!(
        fault.to_string(),
        "deadlock in `under_test`: a barrier of the grid that 2 blocks have ended without, at test.rs:11:1, \
         block [0, 0, 0]"
    );
    // The device stays usable.
    host.run(&neighbors(true, 5), [5, 1, 1], &args(&[&x, &y])).unwrap();
    assert_eq!(host.read::<i64>(&y), [1, 2, 3, 4, 0]);
}

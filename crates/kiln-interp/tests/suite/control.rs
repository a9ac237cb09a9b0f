//! Control flow, uniform and divergent.

use crate::harness::*;
use kiln_ir::*;

const I64: Scalar = Scalar::I64;

/// Runs 40 threads (a warp and a piece of one), each of which stores one i64.
fn each_thread(body: impl FnOnce(&mut Builder, Value) -> Value) -> Vec<i64> {
    let kernel = threads(40, &[P::View(I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let value = body(b, tid);
        b.store_at(p[0], tid, value);
    });
    let host = Host::new();
    let out = host.uninit(320, &[40]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    host.read(&out)
}

fn int(b: &mut Builder, op: BinaryOp, x: Value, y: i64) -> Value {
    let y = b.index(y);
    b.binary(op, x, y)
}

#[test]
fn divergent_if_merges_by_thread() {
    let got = each_thread(|b, tid| {
        let low = int(b, BinaryOp::Rem, tid, 3);
        let one = b.index(1);
        let is_one = b.compare(CompareOp::Eq, low, one);
        let ty = Type::scalar(I64);
        b.if_(
            is_one,
            &[ty],
            |b| vec![int(b, BinaryOp::Mul, tid, 100)],
            |b| vec![int(b, BinaryOp::Sub, tid, 1000)],
        )[0]
    });
    let want: Vec<i64> = (0..40).map(|t| if t % 3 == 1 { t * 100 } else { t - 1000 }).collect();
    assert_eq!(got, want);
}

#[test]
fn for_runs_as_often_as_each_thread_says() {
    // Sum of lo, lo + 3, … below tid.
    let got = each_thread(|b, tid| {
        let (lo, step, zero) = (b.index(2), b.index(3), b.index(0));
        b.for_([lo, tid, step], &[zero], |b, iv, carried| vec![b.binary(BinaryOp::Add, carried[0], iv)])[0]
    });
    let want: Vec<i64> = (0..40).map(|t| (2..t).step_by(3).sum()).collect();
    assert_eq!(got, want);
}

#[test]
fn trip_counts_do_not_overflow() {
    let trips = |lo: i64, hi: i64, step: i64| {
        each_thread(|b, _| {
            let (lo, hi, step, zero) = (b.index(lo), b.index(hi), b.index(step), b.index(0));
            b.for_([lo, hi, step], &[zero], |b, _, carried| vec![int(b, BinaryOp::Add, carried[0], 1)])[0]
        })[0]
    };
    assert_eq!(trips(i64::MIN, i64::MAX, i64::MAX), 3);
    assert_eq!(trips(0, i64::MAX, i64::MAX), 1);
    assert_eq!(trips(5, 5, 1), 0);
    assert_eq!(trips(6, 5, 1), 0);
    assert_eq!(trips(0, 5, 0), 0);
    assert_eq!(trips(0, 5, -1), 0);
    assert_eq!(trips(0, 5, 2), 3);
}

#[test]
fn narrow_and_unsigned_loops() {
    let got = each_thread(|b, tid| {
        let hi = b.cast(tid, Scalar::U32);
        let lo = b.constant(Literal::zero(Scalar::U32));
        let step = b.constant(Literal::wrapping(Scalar::U32, 7));
        let last = b.for_([lo, hi, step], &[lo], |_, iv, _| vec![iv])[0];
        b.cast(last, I64)
    });
    let want: Vec<i64> = (0..40).map(|t| (0..t).step_by(7).last().unwrap_or(0)).collect();
    assert_eq!(got, want);
}

#[test]
fn loops_may_swap_what_they_carry() {
    let got = each_thread(|b, tid| {
        let (zero, one) = (b.index(0), b.index(1));
        // Fibonacci: (a, b) becomes (b, a + b).
        b.for_([zero, tid, one], &[zero, one], |b, _, c| vec![c[1], b.binary(BinaryOp::Add, c[0], c[1])])[0]
    });
    let mut want = vec![0i64, 1];
    for i in 2..40 {
        want.push(want[i - 1] + want[i - 2]);
    }
    assert_eq!(got, want);
}

#[test]
fn loops_may_swap_what_they_carry_for_good() {
    let got = each_thread(|b, tid| {
        let (zero, one, seven) = (b.index(0), b.index(1), b.index(7));
        b.for_([zero, tid, one], &[one, seven], |_, _, c| vec![c[1], c[0]])[0]
    });
    assert_eq!(got, (0..40).map(|t| if t % 2 == 0 { 1 } else { 7 }).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_left_a_loop_stays_out() {
    // The condition reads memory; threads that have left read nothing and get the padding, which
    // would let them in again.
    let kernel = threads(6, &[P::View(I64, 1), P::View(I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let zero = b.index(0);
        let rounds = b.while_(
            &[zero],
            |b, _| {
                let nine = b.index(9);
                let left = b.gather(p[0], &[tid], None, nine, Bounds::Check);
                let zero = b.index(0);
                b.compare(CompareOp::Ne, left, zero)
            },
            |b, c| {
                let left = b.load_at(p[0], tid);
                let left = int(b, BinaryOp::Sub, left, 1);
                b.store_at(p[0], tid, left);
                vec![int(b, BinaryOp::Add, c[0], 1)]
            },
        );
        b.store_at(p[1], tid, rounds[0]);
    });
    let host = Host::new();
    let (left, rounds) = (host.vector(&[3i64, 0, 5, 1, 0, 2]), host.uninit(48, &[6]));
    host.run(&kernel, [1; 3], &args(&[&left, &rounds])).unwrap();
    assert_eq!(host.read::<i64>(&rounds), [3, 0, 5, 1, 0, 2]);
    assert_eq!(host.read::<i64>(&left), [0; 6]);
}

#[test]
fn while_ends_thread_by_thread() {
    // Collatz steps.
    let got = each_thread(|b, tid| {
        let start = int(b, BinaryOp::Add, tid, 1);
        let zero = b.index(0);
        b.while_(
            &[start, zero],
            |b, c| {
                let one = b.index(1);
                b.compare(CompareOp::Ne, c[0], one)
            },
            |b, c| {
                let n = c[0];
                let odd = int(b, BinaryOp::And, n, 1);
                let odd = b.cast(odd, Scalar::Bool);
                let next = b.if_(
                    odd,
                    &[Type::scalar(I64)],
                    |b| {
                        let triple = int(b, BinaryOp::Mul, n, 3);
                        vec![int(b, BinaryOp::Add, triple, 1)]
                    },
                    |b| vec![int(b, BinaryOp::Div, n, 2)],
                );
                vec![next[0], int(b, BinaryOp::Add, c[1], 1)]
            },
        )[1]
    });
    let collatz = |mut n: i64| {
        let mut steps = 0;
        while n != 1 {
            n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
            steps += 1;
        }
        steps
    };
    assert_eq!(got, (1..=40).map(collatz).collect::<Vec<_>>());
}

#[test]
fn for_in_if_in_while() {
    // While x < 50: x += sum of 0..x%5 if x is even, else 3; x += 1.
    let got = each_thread(|b, tid| {
        let zero = b.index(0);
        b.while_(
            &[tid, zero],
            |b, c| {
                let fifty = b.index(50);
                b.compare(CompareOp::Lt, c[0], fifty)
            },
            |b, c| {
                let odd = int(b, BinaryOp::And, c[0], 1);
                let odd = b.cast(odd, Scalar::Bool);
                let x = c[0];
                let more = b.if_(
                    odd,
                    &[Type::scalar(I64)],
                    |b| vec![b.index(3)],
                    |b| {
                        let (zero, one) = (b.index(0), b.index(1));
                        let hi = int(b, BinaryOp::Rem, x, 5);
                        b.for_([zero, hi, one], &[zero], |b, iv, c| vec![b.binary(BinaryOp::Add, c[0], iv)])
                    },
                );
                let next = b.binary(BinaryOp::Add, x, more[0]);
                let next = int(b, BinaryOp::Add, next, 1);
                vec![next, int(b, BinaryOp::Add, c[1], 1)]
            },
        )
        .into_iter()
        .reduce(|x, steps| {
            let x = int(b, BinaryOp::Mul, x, 1000);
            b.binary(BinaryOp::Add, x, steps)
        })
        .unwrap()
    });
    let reference = |mut x: i64| {
        let mut steps = 0;
        while x < 50 {
            x += if x % 2 == 1 { 3 } else { (0..x % 5).sum() };
            x += 1;
            steps += 1;
        }
        x * 1000 + steps
    };
    assert_eq!(got, (0..40).map(reference).collect::<Vec<_>>());
}

#[test]
fn only_active_threads_store() {
    let kernel = threads(8, &[P::View(I64, 1)], |b, p| {
        let tid = b.thread_id(Axis::X);
        let five = b.index(5);
        let low = b.compare(CompareOp::Lt, tid, five);
        b.if_(
            low,
            &[],
            |b| {
                b.store_at(p[0], tid, tid);
                vec![]
            },
            |_| vec![],
        );
    });
    let host = Host::new();
    let out = host.vector(&[-1i64; 8]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i64>(&out), [0, 1, 2, 3, 4, -1, -1, -1]);
}

#[test]
fn tiles_flow_through_uniform_control_flow() {
    // acc doubles tid-many times if n is even, else it does not change; in a loop over tiles that
    // swap.
    let shape = Shape::new(&[3]);
    let kernel = tiles(&[P::View(I64, 1), P::Scalar(I64)], |b, p| {
        let (zero, one) = (b.index(0), b.index(1));
        let iota = b.iota(I64, 3);
        let ones = b.splat(Literal::index(1), shape.clone());
        let tiles = b.for_([zero, p[1], one], &[iota, ones], |b, _, c| {
            vec![c[1], b.binary(BinaryOp::Add, c[0], c[1])]
        });
        let three = b.index(3);
        let many = b.compare(CompareOp::Gt, p[1], three);
        let ty = Type::tile(I64, shape.clone());
        let out = b.if_(many, &[ty], |_| vec![tiles[0]], |_| vec![tiles[1]])[0];
        b.store(p[0], &[zero], out, Reuse::Normal, true);
    });
    let host = Host::new();
    let run = |n: u64| {
        let out = host.uninit(24, &[3]);
        host.run(&kernel, [1; 3], &[Arg::Buffer(&out), Arg::Bits(n)]).unwrap();
        host.read::<i64>(&out)
    };
    // n = 0: (iota, 1); 1: (1, iota + 1); 2: (iota + 1, iota + 2); 3: …
    assert_eq!(run(0), [1, 1, 1]);
    assert_eq!(run(1), [1, 2, 3]);
    assert_eq!(run(2), [2, 3, 4]);
    assert_eq!(run(4), [3, 5, 7]);
}

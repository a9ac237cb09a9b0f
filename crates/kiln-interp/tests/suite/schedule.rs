//! Threads of a block in seeded orders: a missing barrier shows without the sanitizer, and a kernel
//! that has its barriers gives in every order what it gives in lockstep.

use crate::harness::*;
use kiln_backend::{FaultKind, Finding};
use kiln_interp::Options;
use kiln_ir::*;
use std::collections::BTreeSet;

/// Within so many seeds a missing barrier shows.
const SEEDS: u64 = 16;

/// What a kernel over one view of 64 numbers leaves there, in the order of a seed or in lockstep.
fn outcome(text: &str, seed: Option<u64>) -> Vec<i64> {
    let host = Host::with(Options { seed, ..Options::fast() });
    let out = host.vector(&[7i64; 64]);
    host.run(&parse(text).unwrap(), [1; 3], &args(&[&out])).unwrap();
    host.read(&out)
}

/// The different outcomes of the first seeds.
fn outcomes(text: &str, seeds: u64) -> BTreeSet<Vec<i64>> {
    (0..seeds).map(|seed| outcome(text, Some(seed))).collect()
}

fn kernel_of(body: &str) -> String {
    let head = "kernel @k(%y: mut view<i64, 1, global>) thread [64, 1, 1] {\n  %t = thread_id x : i64\n  \
                %0 = const 0 : i64\n  %1 = const 1 : i64\n  %63 = const 63 : i64\n  %other = sub %63, %t : i64\n  \
                %s = alloc shared i64[64] : view<i64, 1, shared>\n";
    format!("{head}{body}\n}}\n")
}

/// Threads exchange their squares through shared memory.
const EXCHANGE: &str = "
  %a = mul %t, %t : i64
  scatter.trust %s[%t] = %a
  barrier
  %b = gather.trust %s[%other] pad %0 : i64
  scatter.trust %y[%t] = %b";

/// The same in a loop, where the second barrier keeps what is still read.
const LOOP: &str = "
  %4 = const 4 : i64
  %sum = for %i = %0 to %4 step %1 carry (%c = %t) : i64 {
    scatter.trust %s[%t] = %c
    barrier
    %b = gather.trust %s[%other] pad %0 : i64
    %d = add %c, %b : i64
    %e = add %d, %t : i64
    barrier
    yield %e
  }
  scatter.trust %y[%t] = %sum";

/// The `count`-th barrier of a text, from 0, removed.
fn without_barrier(text: &str, count: usize) -> String {
    let mut parts: Vec<&str> = text.split("barrier\n").collect();
    let joined = format!("{}{}", parts[count], parts[count + 1]);
    parts.splice(count..count + 2, [&joined[..]]);
    parts.join("barrier\n")
}

#[test]
fn each_missing_barrier_shows_under_some_seed() {
    for (body, barriers) in [(EXCHANGE, 1), (LOOP, 2)] {
        let text = kernel_of(body);
        let lockstep = outcome(&text, None);
        assert_eq!(outcomes(&text, 200), BTreeSet::from([lockstep.clone()]), "{text}");
        for missing in 0..barriers {
            let broken = without_barrier(&text, missing);
            assert_eq!(outcome(&broken, None), lockstep, "in lockstep nothing shows");
            assert!(outcomes(&broken, SEEDS).len() > 1, "{broken}");
        }
    }
}

#[test]
fn a_seed_names_an_order() {
    let broken = without_barrier(&kernel_of(EXCHANGE), 0);
    for seed in 0..SEEDS {
        assert_eq!(outcome(&broken, Some(seed)), outcome(&broken, Some(seed)));
    }
}

/// The outcomes of a body in which thread 3 and another one do something, as the first elements of
/// the result.
fn pair(other: u32, three_does: &str, other_does: &str) -> BTreeSet<i64> {
    let body = format!(
        "  %3 = const 3 : i64\n  %9 = const {other} : i64\n  %x = eq %t, %3 : bool\n  %z = eq %t, %9 : bool\n  \
         if %x {{\n{three_does}\n    yield\n  }} else {{\n    yield\n  }}\n  \
         if %z {{\n{other_does}\n    yield\n  }} else {{\n    yield\n  }}"
    );
    outcomes(&kernel_of(&body), 64).into_iter().map(|out| out[0]).collect()
}

/// Threads of one warp and of two.
const OTHERS: [u32; 2] = [9, 40];

#[test]
fn two_stores_happen_in_both_orders() {
    for other in OTHERS {
        let store =
            |value| format!("    %v{value} = const {value} : i64\n    scatter.trust %y[%0] = %v{value}");
        assert_eq!(pair(other, &store(1), &store(2)), BTreeSet::from([1, 2]));
    }
}

#[test]
fn a_load_and_a_store_happen_in_both_orders() {
    let load = "    %a = gather.trust %y[%1] pad %0 : i64\n    scatter.trust %y[%0] = %a";
    let store = "    %b = const 2 : i64\n    scatter.trust %y[%1] = %b";
    for other in OTHERS {
        assert_eq!(pair(other, load, store), BTreeSet::from([2, 7]), "the load comes first");
        assert_eq!(pair(other, store, load), BTreeSet::from([2, 7]), "the store comes first");
    }
}

/// Two threads that each load what the other stores afterwards: only if they take turns do both
/// loads come before both stores.
#[test]
fn threads_take_turns_between_barriers() {
    let text = kernel_of(
        "
  %2 = const 2 : i64
  %both = lt %t, %2 : bool
  %to = sub %1, %t : i64
  if %both {
    %a = gather.trust %y[%t] pad %0 : i64
    %b = add %a, %1 : i64
    scatter.trust %y[%to] = %b
    yield
  } else {
    yield
  }",
    );
    let ends: BTreeSet<_> = outcomes(&text, 100).into_iter().map(|out| (out[0], out[1])).collect();
    // By turns, thread 0 first, thread 1 first.
    assert_eq!(ends, BTreeSet::from([(8, 8), (9, 8), (8, 9)]));
}

/// Shuffles and votes of one warp, between what others do, under conditions and in loops that warps
/// leave at different times.
#[test]
fn operations_of_a_warp_keep_their_meaning() {
    let text = kernel_of(
        "
  %32 = const 32 : i64
  %w = div %t, %32 : i64
  %lane = rem %t, %32 : i64
  %three = const 3 : i64
  %trips = add %w, %three : i64
  %odd = rem %t, %three : i64
  %sum = for %i = %0 to %trips step %1 carry (%c = %t) : i64 {
    %p = gt %c, %i : bool
    %all = vote.all %p : bool
    %any = vote.any %p : bool
    %down = shuffle.down %c, %i : i64
    %d = if %all : i64 {
      %x = shuffle.xor %down, %1 : i64
      yield %x
    } else {
      yield %down
    }
    %q = eq %odd, %i : bool
    %e = if %q : i64 {
      %f = add %d, %lane : i64
      scatter.trust %s[%t] = %f
      %g = gather.trust %s[%t] pad %0 : i64
      yield %g
    } else {
      yield %d
    }
    %h = select %any, %e, %0 : i64
    yield %h
  }
  scatter.trust %y[%t] = %sum",
    );
    assert_eq!(outcomes(&text, 200), BTreeSet::from([outcome(&text, None)]));
}

/// A thread waits for what a later one stores in the same loop: neither may run to the end of the
/// loop by itself.
#[test]
fn a_loop_that_waits_for_another_thread_ends() {
    let text = kernel_of(
        "
  %n = while (%m = %0) : i64 {
    %now = ordered_load.acquire.block.mask %y[%63] : i64
    %go = ne %now, %0 : bool
    condition %go
  } do (%before) {
    %last = eq %t, %63 : bool
    if %last {
      ordered_store.release.block.mask %y[%63] = %0
      yield
    } else {
      yield
    }
    %more = add %before, %1 : i64
    yield %more
  }
  %u = eq %t, %63 : bool
  if %u {
    yield
  } else {
    scatter.trust %y[%t] = %1
    yield
  }",
    );
    let want: Vec<i64> = [vec![1; 63], vec![0]].concat();
    assert_eq!(outcomes(&text, SEEDS), BTreeSet::from([want]));
}

/// Each block adds one to what the block before it left, and waits for that.
const RELAY: &str = "kernel @k(%y: mut view<i64, 1, global>) thread [1, 1, 1] {
  %p = program_id x : i64
  %0 = const 0 : i64
  %1 = const 1 : i64
  %later = gt %p, %0 : bool
  %before = sub %p, %1 : i64
  %got = if %later : i64 {
    %last = while (%seen = %0) : i64 {
      %none = eq %seen, %0 : bool
      condition %none
    } do (%again) {
      %v = ordered_load.acquire.device.check %y[%before] : i64
      yield %v
    }
    yield %last
  } else {
    yield %0
  }
  %mine = add %got, %1 : i64
  ordered_store.release.device.check %y[%p] = %mine
}";

#[test]
fn blocks_that_wait_for_earlier_ones_end_under_every_seed() {
    for seed in 0..SEEDS {
        let host = Host::with(Options { seed: Some(seed), ..Options::fast() });
        let out = host.vector(&[0i64; 9]);
        host.run(&parse(RELAY).unwrap(), [9, 1, 1], &args(&[&out])).unwrap();
        assert_eq!(host.read::<i64>(&out), (1..=9).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Threads 0 and 1 leave by a check of their own; the others exchange values within their warps and
/// meet at barriers, in which those that left are missing from one warp alone.
const LEAVERS: &str = "
  %stays = gt %t, %1 : bool
  check_bounds %stays, %t, %0
  %a = shuffle.xor %t, %1 : i64
  barrier
  %b = shuffle.xor %a, %1 : i64
  barrier
  scatter.trust %y[%t] = %b";

#[test]
fn the_fault_of_threads_that_leave_is_reported_under_every_seed() {
    let kernel = parse(&kernel_of(LEAVERS)).unwrap();
    for seed in 0..8 * SEEDS {
        let host = Host::with(Options { seed: Some(seed), ..Options::fast() });
        let out = host.vector(&[7i64; 64]);
        let fault = host.fault(&kernel, [1; 3], &args(&[&out])).kind;
        assert!(matches!(fault, FaultKind::OutOfBounds { .. }), "seed {seed}: {fault:?}");
    }
}

/// A sum of a warp's threads, some of which have left, is not the same in all of the others: they
/// part ways at a barrier.
const PARTED: &str = "
  %stays = gt %t, %1 : bool
  check_bounds %stays, %t, %0
  %2 = const 2 : i64
  %a = shuffle.xor %t, %2 : i64
  %b = lt %a, %t : bool
  if %b {
    barrier
    yield
  } else {
    yield
  }
  barrier
  scatter.trust %y[%t] = %a";

#[test]
fn threads_that_part_ways_after_a_fault_end_with_it() {
    let kernel = parse(&kernel_of(PARTED)).unwrap();
    for seed in (0..SEEDS).map(Some).chain([None]) {
        let host = Host::with(Options { seed, ..Options::fast() });
        let out = host.vector(&[7i64; 64]);
        let fault = host.fault(&kernel, [1; 3], &args(&[&out])).kind;
        assert!(matches!(fault, FaultKind::OutOfBounds { .. }), "seed {seed:?}: {fault:?}");
    }
    // Without a fault that is what the sanitizer says.
    let whole = parse(&kernel_of(PARTED).replace("gt %t, %1", "ge %t, %0")).unwrap();
    let host = Host::with(Options::fast());
    let out = host.vector(&[7i64; 64]);
    assert_eq!(host.finding(&whole, [1; 3], &args(&[&out])).0, Finding::Divergence);
}

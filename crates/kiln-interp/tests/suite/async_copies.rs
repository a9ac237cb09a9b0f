//! Elements that threads copy to shared memory arrive when they are waited for, and not before.

use crate::harness::{Host, args};
use kiln_backend::Finding;
use kiln_interp::Options;
use kiln_ir::{Kernel, parse};

/// Two threads copy an element each to one of eight places; `between` stands before they read it.
/// Each stores what it reads at its index plus one, modulo the number of threads.
fn kernel(between: &str) -> Kernel {
    let text = format!(
        "kernel @under_test(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [2, 1, 1] {{
  %t = thread_id x : i64
  %s = alloc shared i32[8] : view<i32, 1, shared>
  %zero = const 0 : i32
  %one = const 1 : i64
  %0 = gather.check %x[%t] pad %zero : i32
  scatter.check.async %s[%t] = %0
{between}
  %other = sub %one, %t : i64
  %mine = gather.check %s[%t] pad %zero : i32
  %theirs = gather.check %s[%other] pad %zero : i32
  %sum = sub %mine, %theirs : i32
  scatter.check %y[%t] = %sum
}}"
    );
    parse(&text).unwrap()
}

const WAITED: &str = "  cp_async_commit\n  cp_async_wait pending 0\n  barrier";

#[test]
fn elements_are_there_after_the_wait_and_the_barrier() {
    for host in [Host::sanitizing(), Host::new(), Host::with(Options { seed: Some(7), ..Options::default() })]
    {
        let (x, y) = (host.vector(&[10i32, 3]), host.uninit(8, &[2]));
        host.run(&kernel(WAITED), [1; 3], &args(&[&x, &y])).unwrap();
        assert_eq!(host.read::<i32>(&y), [7, -7]);
    }
}

#[test]
fn a_read_before_the_copy_arrives_is_found() {
    let host = Host::sanitizing();
    let (x, y) = (host.vector(&[10i32, 3]), host.uninit(8, &[2]));
    let ways = [
        ("  barrier", "no group"),
        ("  cp_async_wait pending 0\n  barrier", "no group is waited for"),
        ("  cp_async_commit\n  barrier", "no wait"),
        ("  cp_async_commit\n  cp_async_wait pending 1\n  barrier", "one is left pending"),
    ];
    for (between, what) in ways {
        let (finding, detail) = host.finding(&kernel(between), [1; 3], &args(&[&x, &y]));
        assert_eq!(finding, Finding::Uninitialized, "{what}");
        assert!(detail.starts_with("element [0] of the shared memory of "), "{what}: {detail}");
        let want = "is read before a copy of it has arrived; put `commit_copies()` and `wait_copies(0)` \
                    between, and a `barrier()` for other threads";
        assert!(detail.ends_with(want), "{what}: {detail}");
    }
    // Without the sanitizer nobody takes it for a number.
    let host = Host::with(Options { sanitize: false, ..Options::default() });
    let (x, y) = (host.vector(&[10i32, 3]), host.uninit(8, &[2]));
    let early = "  cp_async_commit\n  barrier";
    host.run(&kernel(early), [1; 3], &args(&[&x, &y])).unwrap();
    assert_eq!(host.read::<i32>(&y), [0, 0]);
}

#[test]
fn other_threads_need_a_barrier() {
    let host = Host::sanitizing();
    let (x, y) = (host.vector(&[10i32, 3]), host.uninit(8, &[2]));
    let alone = "  cp_async_commit\n  cp_async_wait pending 0";
    assert_eq!(host.finding(&kernel(alone), [1; 3], &args(&[&x, &y])).0, Finding::Race);
    // A copy to what others read since the last barrier.
    let again =
        format!("{WAITED}\n  %a = gather.check %s[%one] pad %zero : i32\n  scatter.check.async %s[%t] = %a");
    assert_eq!(host.finding(&kernel(&again), [1; 3], &args(&[&x, &y])).0, Finding::Race);
}

#[test]
fn groups_arrive_in_their_order() {
    let text = "kernel @under_test(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) thread [1, 1, 1] {
  %s = alloc shared i64[4] : view<i64, 1, shared>
  %zero = const 0 : i64
  %one = const 1 : i64
  %four = const 4 : i64
  for %i = %zero to %four step %one {
    %a = gather.check %x[%i] pad %zero : i64
    scatter.check.async %s[%i] = %a
    cp_async_commit
    yield
  }
  for %j = %zero to %four step %one {
    %left = sub %four, %j : i64
    %first = eq %j, %zero : bool
    if %first {
      cp_async_wait pending 3
      yield
    } else {
      %second = eq %j, %one : bool
      if %second {
        cp_async_wait pending 2
        yield
      } else {
        cp_async_wait pending 0
        yield
      }
      yield
    }
    %b = gather.check %s[%j] pad %zero : i64
    scatter.check %y[%j] = %b
    yield
  }
}";
    let host = Host::sanitizing();
    let (x, y) = (host.vector(&[5i64, 6, 7, 8]), host.uninit(32, &[4]));
    host.run(&parse(text).unwrap(), [1; 3], &args(&[&x, &y])).unwrap();
    assert_eq!(host.read::<i64>(&y), [5, 6, 7, 8]);
    let text = text.replace("pending 2", "pending 3");
    let (finding, detail) = host.finding(&parse(&text).unwrap(), [1; 3], &args(&[&x, &y]));
    assert_eq!(finding, Finding::Uninitialized);
    assert!(detail.starts_with("element [1]"), "{detail}");
}

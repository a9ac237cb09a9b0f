//! Fault regions: what a fault leaves of the variables, the values and the loops around it. The
//! reference is plain Rust.

use crate::harness::{INPUTS, on_device};
use kiln_lang::prelude::*;

type I = Val<i32>;

/// Compares a function of the device with one of the host on every input.
fn same(name: &str, device: impl FnOnce(I) -> I, host: impl Fn(i32) -> i32) {
    let want: Vec<i32> = INPUTS.map(host).collect();
    assert_eq!(on_device(name, device), want);
}

#[device(crate = kiln_lang)]
fn rolled_back(x: I) -> I {
    let mut a: I = 10;
    let mut b = x;
    let (fault, value) = fault_region(0, -1, || {
        a += 5;
        b *= 2;
        device_assert!(b > 4, "b is {}", b);
        a += 100;
        a + b
    });
    value * 1000 + a + b * 10 + fault.cast::<i32>()
}

#[test]
fn variables_go_back() {
    same("rolled_back", rolled_back, |x| {
        let b = x * 2;
        if b > 4 { (115 + b) * 1000 + 115 + b * 10 } else { -1000 + 10 + x * 10 + 1 }
    });
}

#[device(crate = kiln_lang)]
fn first_divisor(n: I, from: I) -> I {
    device_assert!(n > 1, "{} has no divisors", n);
    for d in from..n {
        if d > 7 {
            break;
        }
        if n % d == 0 {
            return d;
        }
    }
    n
}

#[device(crate = kiln_lang)]
fn calls(x: I) -> I {
    let (fault, value) = fault_region(100, -5, || {
        if x == 20 {
            return val(77);
        }
        first_divisor(x, x / 30) * 2
    });
    value * 10 + fault.cast::<i32>()
}

fn host_calls(x: i32) -> i32 {
    if x == 20 {
        return 770;
    }
    if x <= 1 {
        return -50 + 1;
    }
    for d in x / 30..x {
        if d > 7 {
            break;
        }
        if d == 0 {
            return -50 + 2;
        }
        if x % d == 0 {
            return d * 20;
        }
    }
    x * 20
}

#[test]
fn functions_with_exits_in_fault_regions() {
    same("calls", calls, host_calls);
}

#[device(crate = kiln_lang)]
fn collatz(x: I) -> I {
    let mut steps: I = 0;
    let (fault, last) = fault_region(12, (-1, x), || {
        let mut n = x;
        while n != 1 {
            if n % 2 == 0 {
                n /= 2;
            } else {
                n = n * 3 + 1;
            }
            steps += 1;
        }
        (n, x + 1)
    });
    if fault == u32::MAX { last.0 * 1000 + last.1 + steps } else { steps * 100 + last.1 }
}

#[test]
fn budgets_end_loops() {
    same("collatz", collatz, |x| {
        let (mut n, mut steps) = (x, 0);
        while n != 1 && steps <= 12 {
            n = if n % 2 == 0 { n / 2 } else { n * 3 + 1 };
            steps += 1;
        }
        if steps > 12 { -1000 + x } else { steps * 100 + x + 1 }
    });
}

#[device(crate = kiln_lang)]
fn endless(x: I) -> I {
    let mut count: I = 0;
    let (fault, _) = fault_region(50, (), || {
        let go = val(true);
        while go {
            count += 1;
            device_assert!(count < x, "enough");
        }
    });
    let (again, kept) = fault_region(50, 0, || {
        loop {
            count += 2;
            if count > x {
                break;
            }
        }
        count
    });
    count + kept * 100 + select(fault.eq(1), 10_000, 0) + select(again.eq(0), 0, 20_000)
}

#[test]
fn loops_without_end() {
    same("endless", endless, |x| {
        let kept = if x < 0 { 2 } else { (x / 2 + 1) * 2 };
        let first = if x <= 50 { 10_000 } else { 0 };
        kept + kept * 100 + first
    });
}

#[device(crate = kiln_lang)]
fn inside_each_other(x: I) -> I {
    let mut trail: I = 0;
    let (outer, value) = fault_region(0, -3, || {
        trail += 1;
        let (inner, part) = fault_region(0, 7, || {
            trail += 10;
            device_assert!(x % 2 == 0, "odd");
            trail += 100;
            100 / (x - 4)
        });
        trail += 1000;
        device_assert!(x % 3 == 0 || inner == 0, "inner {}", inner);
        part + inner.cast::<i32>() * 50
    });
    trail * 1000 + value + outer.cast::<i32>() * 10_000_000
}

#[test]
fn fault_regions_nest() {
    same("inside_each_other", inside_each_other, |x| {
        let (inner, part, trail) = match x {
            _ if x % 2 != 0 => (1, 7, 1),
            4 => (2, 7, 1),
            _ => (0, 100 / (x - 4), 111),
        };
        if x % 3 == 0 || inner == 0 { (trail + 1000) * 1000 + part + inner * 50 } else { -3 + 3 * 10_000_000 }
    });
}

#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
struct Tally {
    good: I,
    bad: I,
}

impl Tally {
    #[device(crate = kiln_lang)]
    fn handle(&mut self, message: I) -> I {
        self.good += 1;
        device_assert!(message % 3 != 0, "message {}", message);
        self.good += 1;
        600 / (message % 5)
    }
}

#[device(crate = kiln_lang)]
fn in_a_loop(x: I) -> I {
    let mut state = Tally { good: val(0), bad: val(0) };
    let mut sum: I = 0;
    for i in 0..x {
        let (fault, answer) = fault_region(0, 0, || state.handle(i));
        if fault != 0 {
            state.bad += fault.cast::<i32>();
            continue;
        }
        sum += answer;
    }
    sum * 1000 + state.good * 100 + state.bad
}

#[test]
fn a_loop_goes_on_after_a_fault() {
    same("in_a_loop", in_a_loop, |x| {
        let (mut good, mut bad, mut sum) = (0, 0, 0);
        for i in 0..x {
            match (i % 3, i % 5) {
                (0, _) => bad += 1,
                (_, 0) => bad += 2,
                (_, m) => {
                    good += 2;
                    sum += 600 / m;
                }
            }
        }
        sum * 1000 + good * 100 + bad
    });
}

#[device(crate = kiln_lang)]
fn unrolled(x: I) -> I {
    let mut found: I = 0;
    for k in 0..4 {
        let (fault, quotient) = fault_region(0, 1, || 12 / (x - k));
        if fault != 0 {
            break;
        }
        found += quotient;
    }
    found
}

#[test]
fn a_loop_of_the_host_is_left_after_a_fault() {
    same("unrolled", unrolled, |x| {
        (0..4).map(|k| 12i32.checked_div(x - k)).take_while(Option::is_some).flatten().sum()
    });
}

#[test]
fn sites_say_what_happened() {
    let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
        let x = p.view::<i32, 1>("x", Default::default());
        let n = p.scalar::<i32>("n", Default::default());
        device_assert!(n.gt(0), "outside");
        fault_region(0, (), || device_assert!(n.gt(1), "n is {}", n));
        let (_, _) = fault_region(9, 0, || x.get(n) / n);
    });
    let sites = kernel.unwrap().fault_sites();
    let messages: Vec<&str> = sites.iter().map(|s| s.message.as_str()).collect();
    assert_eq!(messages, ["n is {}", "index {} out of bounds for extent {}", "division by zero"]);
    let values: Vec<&[kiln_ir::Scalar]> = sites.iter().map(|s| s.values.as_slice()).collect();
    assert_eq!(values, [&[kiln_ir::Scalar::I64][..], &[kiln_ir::Scalar::I64; 2], &[]]);
    let line = |s: &kiln_ir::FaultSite| s.location.split(':').nth(1).and_then(|l| l.parse::<u32>().ok());
    let first = line(&sites[0]).unwrap();
    assert_eq!([line(&sites[1]), line(&sites[2])], [Some(first + 1); 2]);
    assert!(sites[0].location.contains("tests/flow/fault_regions.rs"));
}

/// A body that no path leaves: only its budget does.
#[test]
fn a_body_may_have_no_end() {
    #[device(crate = kiln_lang)]
    fn spins(x: I) -> I {
        let mut count: I = 0;
        let (fault, ()) = fault_region(9, (), || {
            loop {
                count += 1;
                if count > x + 1000 {
                    return;
                }
            }
        });
        let (other, ()) = fault_region(9, (), || {
            loop {
                count += 1;
            }
        });
        count + select(fault.eq(u32::MAX), 10, 0) + select(other.eq(u32::MAX), 100, 0)
    }
    same("spins", spins, |_| 110);
}

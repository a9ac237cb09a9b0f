//! `if`, `&&`, `||`, joins.

use crate::both;

mod device_helpers {
    pub type I = kiln_lang::Val<i32>;
}
mod host_helpers {
    pub type I = i32;
}

both! {
    value(x) { if x > 3 { x * 2 } else { x - 1 } }
    literal_arm(x) { if x > 3 { x } else { 0 } }
    literal_first(x) { if x < -3 { -7 } else { x } }
    assigned_in_one_arm(x) {
        let mut y = x;
        if x % 2 == 0 { y = y + 100; }
        y
    }
    assigned_in_both_arms(x) {
        let mut y: I = 0;
        if x < 0 { y -= x; } else { y += 2 * x; }
        y
    }
    else_if(x) {
        if x < 0 { x } else if x < 5 { x * 10 } else if x == 7 { -x } else { x * 100 }
    }
    nested(x) {
        let mut y = x;
        if x > 0 {
            if x > 10 { y = y * 3; if x > 20 { y += 1; } } else { y = 1 - y; }
            y += 5;
        }
        y
    }
    tuple_joined(x) {
        let (a, b) = if x > 2 { (x, x + 1) } else { (x * 5, x * 7) };
        a * 1000 + b
    }
    array_joined(x) {
        let a = if x > 2 { [x, x + 1, x] } else { [x * 5, x, x] };
        a[0] + 3 * a[1] + 7 * a[2]
    }
    short_circuit_and(x) {
        let mut y: I = 0;
        if x != 0 && 100 / x > 12 { y = 100 / x; }
        y
    }
    short_circuit_or(x) {
        let mut y: I = 1;
        if x == 0 || 100 % x == 1 { y = x + 50; }
        y
    }
    mixed_logic(x) {
        let flag = true;
        let both = flag && x > 3;
        let either = x < -2 || !flag;
        let neither = !(both || either);
        let mut y: I = 0;
        if both { y += 1; }
        if either { y += 10; }
        if neither { y += 100; }
        y
    }
    comparisons(x) {
        let mut y: I = 0;
        if x < 5 { y += 1; }
        if x <= 5 { y += 2; }
        if x > 5 { y += 4; }
        if x >= 5 { y += 8; }
        if x == 5 { y += 16; }
        if x != 5 { y += 32; }
        if 7 < x { y += 64; }
        if 7 == x { y += 128; }
        y
    }
    two_literal_arms(x) {
        let step: I = if x > 10 { 3 } else if x > 5 { 2 } else { -1 };
        let clipped = |v: I| -> I { if v > 10 { 10 } else { 0 } };
        step * 10 + clipped(x)
    }
    two_literal_arms_returned(x) {
        if x > 30 { return if x > 35 { 7 } else { 8 }; }
        if x > 3 { 1 } else { 0 }
    }
    host_condition(x) {
        let wide = 3 > 2;
        let y = if wide { x * 2 } else { x };
        if !wide { return -1; }
        y + 1
    }
    condition_as_value(x) {
        let small = if x > 10 { x < 20 } else { x < 3 };
        if small { 1 } else { x }
    }
    host_match(x) {
        let mut y = x;
        for mode in [0, 1, 2, 9] {
            y += match mode { 0 => x, 1 => x * 2, 2 | 3 => 5 * x, _ => 1 - x };
        }
        y
    }
    host_option(x) {
        let first = Some(4);
        let mut y = x;
        if let Some(k) = first { y += k; } else { y = y * 9; }
        if let Some(k) = first && k > 10 { y += 1000; }
        let Some(mut k) = first else { return x; };
        k += 1;
        y * k
    }
    deep_value(x) {
        let y = if x > 0 {
            let t = x * 2;
            if t > 12 { let u = t + 1; u * u } else { t }
        } else {
            -x
        };
        y + 1
    }
}

//! `break`, `continue`, `return`.

use crate::both;

mod device_helpers {
    use kiln_lang::prelude::*;
    pub use kiln_lang::val as lit;
    pub type I = Val<i32>;

    #[device(crate = kiln_lang)]
    pub fn first_multiple(of: I, from: I) -> I {
        if of <= 0 {
            return -1;
        }
        for i in from..from + of {
            if i % of == 0 {
                return i;
            }
        }
        -2
    }
}
mod host_helpers {
    pub type I = i32;

    pub fn lit(x: i32) -> i32 {
        x
    }

    pub fn first_multiple(of: I, from: I) -> I {
        if of <= 0 {
            return -1;
        }
        for i in from..from + of {
            if i % of == 0 {
                return i;
            }
        }
        -2
    }
}

both! {
    break_for(x) {
        let mut s: I = 0;
        for i in 0..x { if i * i > 50 { break; } s += i; }
        s
    }
    break_for_after_work(x) {
        let mut s: I = 0;
        for i in 0..20 * x { s += i; if s > 50 { break; } s += 1; }
        s
    }
    continue_for(x) {
        let mut s: I = 0;
        for i in 0..x { if i % 3 == 0 { continue; } s += i; }
        s
    }
    break_and_continue(x) {
        let mut s: I = 0;
        for i in 0..x {
            if i % 3 == 0 { continue; }
            s += i;
            if s > 60 { break; }
            if i % 5 == 0 { continue; }
            s += 100;
        }
        s
    }
    break_while(x) {
        let mut n = x;
        while n < 100 { n += 7; if n % 4 == 1 { break; } n += 1; }
        n
    }
    break_while_keeps_condition_unevaluated(x) {
        if x == 0 { return 7; }
        let mut d = x;
        let mut s: I = 0;
        while 60 / d > -100 { s += d; d -= 1; if d == 0 { break; } if s > 500 { break; } if s < -500 { break; } }
        s
    }
    loop_break(x) {
        let mut n = x;
        loop { n += 3; if n > 50 { break; } }
        n
    }
    loop_break_value(x) {
        let mut n = x;
        let found = loop {
            n += 1;
            if n % 7 == 0 { break n * 2; }
            if n % 11 == 0 { break -n; }
        };
        found + n
    }
    unconditional_break(x) {
        let mut s: I = 0;
        for i in 0..x { s = i + 5; break; }
        loop { s += 1; break; }
        s
    }
    labeled_break(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            for j in 0..x {
                if i * j > 30 { break 'outer; }
                if j > i { break; }
                s += j;
            }
            s += 1000;
        }
        s
    }
    labeled_continue(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            let mut j: I = 0;
            while j < 6 {
                j += 1;
                if (i + j) % 5 == 0 { continue 'outer; }
                if j == 3 { continue; }
                s += j;
            }
            s += 100;
        }
        s
    }
    break_unrolled(x) {
        let mut s: I = 0;
        for k in [1, 2, 3, 4] { if x < k { break; } s += k; if x == 3 { break; } s += 10; }
        s
    }
    continue_unrolled(x) {
        let mut s: I = 0;
        for k in [1, 2, 3, 4] { if x % k == 1 { continue; } s = s * 10 + k; }
        s
    }
    real_break_behind_device_break(x) {
        let mut s: I = 0;
        for k in [1, 2, 3, 4, 5] { if x == k { break; } if k == 4 { break; } s += k; }
        s
    }
    real_continue_behind_device_continue(x) {
        let mut s: I = 0;
        for k in [1, 2, 3, 4, 5] { if x == k { continue; } if k == 4 { continue; } s = s * 10 + k; }
        s
    }
    exits_both_arms_unrolled(x) {
        let mut s: I = 0;
        for k in [1, 2, 3] { s += k; if x > k { continue; } else { break; } }
        s
    }
    unrolled_in_device_continue_outer(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            for k in [2, 3, 5] { if i % k == 0 { continue 'outer; } s += k; }
            s += 1000;
        }
        s
    }
    device_in_unrolled_break_outer(x) {
        let mut s: I = 0;
        'outer: for k in [2, 3, 5] {
            for i in 0..x { if i * k > 40 { break 'outer; } s += i; }
            s += 1000;
        }
        s
    }
    return_from_branch(x) {
        if x < 0 { return 5; }
        if x > 20 { let y = x * 2; return y - 1; }
        x
    }
    return_from_loops(x) {
        for i in 0..x {
            for j in 0..i {
                if i * j == 12 { return i * 100 + j; }
            }
        }
        -1
    }
    return_from_unrolled(x) {
        for k in [3, 4, 5] { if x % k == 0 { return k; } }
        0
    }
    return_in_every_arm(x) {
        if x > 3 { return x; } else { return -x; }
    }
    return_as_value(x) {
        let y = if x > 3 { return 9; } else { x * 2 };
        y + 1
    }
    return_in_both_values(x) {
        let _y: I = if x > 3 { return 9 } else { return x };
    }
    return_from_endless_loop(x) {
        let mut n = x;
        loop {
            n += 1;
            if n % 6 == 0 { return n; }
        }
    }
    break_as_value(x) {
        let mut s: I = 0;
        for i in 0..x {
            let y = if i > 6 { break } else { i * 2 };
            s += y;
        }
        s
    }
    assigned_from_exiting_if(x) {
        let mut s: I = 0;
        for i in 0..x {
            s = if i == 5 { break; } else if i % 2 == 0 { continue; } else { s + i };
            s += if i == 3 { 100 + i } else { 0 };
        }
        s
    }
    labeled_block(x) {
        let y = 'done: {
            if x > 10 { break 'done x - 10; }
            if x > 5 { break 'done 0; }
            x * 2
        };
        y + 1
    }
    labeled_block_unit(x) {
        let mut y = x;
        'done: {
            if x > 10 { y = 1; break 'done; }
            y += 5;
            if x > 5 { break 'done; }
            y = y * 3;
        }
        y + 1
    }
    labeled_block_in_loop(x) {
        let mut s: I = 0;
        'l: for i in 0..x {
            'skip: {
                if i % 2 == 0 { break 'skip; }
                if i > 9 { continue 'l; }
                s += i;
                if s > 1000 { break 'l; }
            }
            s += 100;
        }
        s
    }
    break_out_of_block_then_code(x) {
        let mut s: I = 0;
        'a: { if x > 3 { break 'a; } s += 1; break 'a; }
        s += 10;
        s
    }
    return_from_labeled_block(x) {
        let y = 'a: {
            if x > 20 { return -5; }
            if x > 10 { break 'a x + 3; }
            if x > 9 { break 'a 3; }
            if x > 8 { return -6; }
            x
        };
        y * 2
    }
    exits_in_nested_blocks(x) {
        let mut s: I = 0;
        for i in 0..x {
            { { if i == 7 { break; } s += 1; } s += 10; }
            s += 100;
        }
        s
    }
    exits_in_match_arms(x) {
        let mut s: I = 0;
        for k in [0, 1, 2, 3] {
            match k { 0 => s += 1, 1 => { if x > 5 { continue; } s += 10; } 2 => { if x < 0 { break; } } _ => s += 1000 }
            s += 7;
        }
        s
    }
    let_else_continue(x) {
        let mut s: I = 0;
        for o in [Some(1), None, Some(3)] {
            let Some(k) = o else { continue };
            if x == k { continue; }
            s = s * 10 + k;
        }
        s
    }
    helper_with_return(x) {
        let mut s: I = 0;
        for i in 1..x { s += first_multiple(i, lit(10)); if s > 90 { break; } }
        s + first_multiple(x, lit(17))
    }
    static_break_inside_device_branch(x) {
        let mut s: I = 0;
        for i in 0..x {
            let stop = true;
            if i > 4 {
                s += 50;
                if stop { break; }
                s += 1;
            }
            s += i;
        }
        s
    }
    static_loop_break_in_device_branch(x) {
        let mut s: I = 0;
        if x > 3 {
            for k in [1, 2, 3] { if k == 2 { break; } s += k; }
            let mut k = 0;
            loop { k += 1; s += k; if k > 2 { break; } }
        }
        s
    }
    loop_peeled_before_device(x) {
        let mut n = x;
        let mut s: I = 0;
        loop { n += 5; s += 1; if n > 30 { break; } if s > 100 { return -1; } }
        s * 100 + n
    }
    deep_mixture(x) {
        let mut s: I = 0;
        'a: for i in 0..x {
            let mut j = i;
            'b: loop {
                j += 1;
                for k in [1, 2] {
                    if j % 4 == k { continue 'b; }
                    if i == 11 { break 'a; }
                    if j > 12 { break 'b; }
                    if s > 3000 { return s + k; }
                    s += k;
                }
                if j > 20 { continue 'a; }
                s += 5;
            }
            s += 1000;
        }
        s
    }
}

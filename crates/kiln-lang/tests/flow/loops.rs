//! `for`, `while`, `loop` without exits.

use crate::both;

mod device_helpers {
    pub type I = kiln_lang::Val<i32>;
}
mod host_helpers {
    pub type I = i32;
}

both! {
    sum_to(x) {
        let mut s: I = 0;
        for i in 0..x { s += i * i; }
        s
    }
    from_device_to_host(x) {
        let mut s: I = 0;
        for i in x..9 { s += i; }
        s
    }
    inclusive(x) {
        let mut s: I = 0;
        for i in 1..=x { s += i; }
        s
    }
    stepped(x) {
        let mut s: I = 0;
        for i in (2..x).step_by(5) { s = s * 3 + i; }
        s
    }
    reversed(x) {
        let mut s: I = 0;
        for i in (0..x).rev() { s = (s * 2 + i) % 1000; }
        s
    }
    nested(x) {
        let mut s: I = 0;
        for i in 0..x {
            for j in 0..i { s += i * j; }
            s = s % 977;
        }
        s
    }
    unrolled(x) {
        let mut s: I = 0;
        for k in [1, 2, 3] { s = s * x + k; }
        s
    }
    unrolled_iterators(x) {
        let mut s: I = 0;
        for (i, k) in [5, 6, 7].iter().enumerate() { s += x * *k; if i == 1 { s += 1; } }
        for k in (0..10).step_by(3).rev() { s = s * 2 + k; }
        s
    }
    unrolled_inside_device(x) {
        let mut s: I = 0;
        for i in 0..x { for k in [1, 10] { s += k * i; } }
        s
    }
    unrolled_to_a_literal_less_a_literal(x) {
        let mut s: I = 0;
        for i in 0..3 { for _ in 0..3 - i { s = s * 3 + x; } }
        let k = 2;
        for _ in 0..2 * k { s = s + x; }
        for _ in 1..=5 - k { s = s * 2 + 1; }
        for _ in 0..2 * x { s += 1; }
        s
    }
    device_inside_unrolled(x) {
        let mut s: I = 0;
        for k in [1, 10] { for i in 0..x { s += k * i; } s += 1; }
        s
    }
    while_loop(x) {
        let mut n = x;
        let mut steps: I = 0;
        while n > 1 && steps < 100 {
            if n % 2 == 0 { n = n / 2; } else { n = 3 * n + 1; }
            steps += 1;
        }
        steps
    }
    while_assigns_in_condition(x) {
        let mut n = x;
        let mut s: I = 0;
        while { n -= 3; n > 0 } { s += n; }
        s * 100 + n
    }
    while_on_the_host(x) {
        let mut k = 0;
        let mut s: I = 0;
        while k < 4 { s += x * k; k += 1; }
        s + k
    }
    loop_on_the_host(x) {
        let mut k = 1;
        let mut s: I = 0;
        loop {
            s += x * k;
            if k == 5 { break; }
            k += 2;
        }
        s + k
    }
    while_let_on_the_host(x) {
        let mut todo = vec![1, 2, 3];
        let mut s: I = 0;
        while let Some(k) = todo.pop() { s = s * x + k; if k == 3 { todo.push(7); } }
        s
    }
    carried_swap(x) {
        let (mut a, mut b): (I, I) = (x * 0, x * 0 + 1);
        for _ in 0..x { (a, b) = (b, (a + b) % 1000); }
        a
    }
    variable_of_the_body(x) {
        let mut s: I = 0;
        for i in 0..x { let mut t = i; t += 1; if t > 3 { t = t * 2; } s += t; }
        s
    }
    loop_in_branch(x) {
        let mut s: I = 0;
        if x > 4 { for i in 0..x { s += i; } } else { while s < 20 { s += 7; } }
        s
    }
    empty_bodies(x) {
        for _ in 0..x {}
        for _ in [1, 2] {}
        x
    }
}

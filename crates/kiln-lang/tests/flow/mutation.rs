//! Changes by plain Rust: functions and methods without the attribute, and those of the standard
//! library. Each body runs on the host and, on inputs for which its conditions hold and others, on
//! the device.

use crate::both;

mod device_helpers {
    use kiln_lang::prelude::*;
    pub type I = Val<i32>;

    #[derive(Clone, Copy, DeviceValue)]
    #[kiln(crate = kiln_lang)]
    pub struct Pair {
        pub a: I,
        pub b: I,
    }

    // Without the attribute, all of it.
    impl Pair {
        pub fn set(&mut self, a: I) {
            self.a = a;
        }

        pub fn turn(&mut self) {
            *self = Pair { a: self.b, b: self.a };
        }

        pub fn total(&self) -> I {
            self.a + self.b
        }

        pub fn next(&mut self) -> I {
            let old = self.a;
            self.a = old + 1;
            old
        }
    }

    pub fn set(place: &mut I, value: I) {
        *place = value;
    }

    pub fn rotate(a: &mut I, b: &mut I, c: &mut I) {
        let first = *a;
        *a = *b;
        *b = *c;
        *c = first;
    }

    pub fn twice(x: I) -> I {
        x * 2
    }

    #[device(crate = kiln_lang)]
    pub fn through(place: &mut I, x: I) {
        if x > 2 {
            set(place, x * 3);
        }
        for _ in 0..x {
            set(place, *place + 1);
        }
    }

    #[device(crate = kiln_lang)]
    pub fn swapped(a: &mut I, b: &mut I, x: I) {
        if x % 2 == 0 {
            std::mem::swap(a, b);
        }
    }
}

mod host_helpers {
    pub type I = i32;

    #[derive(Clone, Copy)]
    pub struct Pair {
        pub a: I,
        pub b: I,
    }

    impl Pair {
        pub fn set(&mut self, a: I) {
            self.a = a;
        }

        pub fn turn(&mut self) {
            *self = Pair { a: self.b, b: self.a };
        }

        pub fn total(&self) -> I {
            self.a + self.b
        }

        pub fn next(&mut self) -> I {
            let old = self.a;
            self.a = old + 1;
            old
        }
    }

    pub fn set(place: &mut I, value: I) {
        *place = value;
    }

    pub fn rotate(a: &mut I, b: &mut I, c: &mut I) {
        let first = *a;
        *a = *b;
        *b = *c;
        *c = first;
    }

    pub fn twice(x: I) -> I {
        x * 2
    }

    pub fn through(place: &mut I, x: I) {
        if x > 2 {
            set(place, x * 3);
        }
        for _ in 0..x {
            set(place, *place + 1);
        }
    }

    pub fn swapped(a: &mut I, b: &mut I, x: I) {
        if x % 2 == 0 {
            std::mem::swap(a, b);
        }
    }
}

/// A macro that Kiln does not know.
macro_rules! exchange {
    ($a:ident, $b:ident) => {
        std::mem::swap(&mut $a, &mut $b)
    };
}

both! {
    in_a_macro(x) {
        let mut a: I = 1;
        let mut b: I = 20;
        if x > 3 {
            exchange!(a, b);
        }
        for _ in 0..x {
            exchange!(a, b);
        }
        a * 100 + b
    }

    swap_in_an_if(x) {
        let mut a: I = 1;
        let mut b: I = 20;
        if x > 3 {
            std::mem::swap(&mut a, &mut b);
        }
        a * 100 + b
    }

    swap_in_an_else(x) {
        let mut a: I = x;
        let mut b: I = 20;
        if x > 3 {
            a += 1;
        } else {
            std::mem::swap(&mut a, &mut b);
        }
        a * 100 + b
    }

    swap_and_change(x) {
        let mut a: I = 1;
        let mut b: I = 20;
        if x > 3 {
            std::mem::swap(&mut a, &mut b);
            a += x;
            b -= 1;
        }
        a * 100 + b
    }

    swap_outside_then_change(x) {
        let mut a: I = 1;
        let mut b: I = x;
        std::mem::swap(&mut a, &mut b);
        if x > 3 {
            a += 5;
            b += 7;
        }
        a * 100 + b
    }

    replace_in_an_if(x) {
        let mut a: I = 1;
        let mut old: I = 0;
        if x > 3 {
            old = std::mem::replace(&mut a, x + 1);
        }
        a * 100 + old
    }

    replace_in_a_for(x) {
        let mut prev: I = 1;
        let mut sum: I = 0;
        for i in 0..x {
            let old = std::mem::replace(&mut prev, i * 3);
            sum += old;
        }
        sum * 10 + prev
    }

    replace_in_a_while(x) {
        let mut prev: I = 1;
        let mut i: I = 0;
        let mut sum: I = 0;
        while i < x {
            sum += std::mem::replace(&mut prev, i * 2) * 2;
            i += 1;
        }
        sum + prev
    }

    replace_outside_then_in(x) {
        let mut a: I = 1;
        let first = std::mem::replace(&mut a, x);
        if x > 0 {
            a += first;
        }
        a
    }

    fibonacci(x) {
        let mut a: I = 0;
        let mut b: I = 1;
        for _ in 0..x {
            let next = a + b;
            a = std::mem::replace(&mut b, next);
        }
        a
    }

    swap_in_a_loop(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        for i in 0..x {
            std::mem::swap(&mut a, &mut b);
            a += i;
        }
        a * 100 + b
    }

    swap_in_a_loop_with_break(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        let mut i: I = 0;
        loop {
            if i >= x {
                break;
            }
            std::mem::swap(&mut a, &mut b);
            if i > 5 {
                std::mem::swap(&mut a, &mut b);
                break;
            }
            a += i;
            i += 1;
        }
        a * 100 + b
    }

    swap_behind_a_return(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        if x > 5 {
            return a - b;
        }
        std::mem::swap(&mut a, &mut b);
        a * 100 + b
    }

    swap_behind_a_continue(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        for i in 0..x {
            if i % 3 == 1 {
                continue;
            }
            std::mem::swap(&mut a, &mut b);
            b += i;
        }
        a * 100 + b
    }

    array_swap(x) {
        let mut v: [I; 3] = [x - 1, x + 20, x];
        if x > 3 {
            v.swap(0, 2);
        }
        v[0] * 10000 + v[1] * 100 + v[2]
    }

    array_reverse(x) {
        let mut v: [I; 3] = [x - 1, x + 20, x];
        if x > 3 {
            v.reverse();
        }
        v[0] * 10000 + v[1] * 100 + v[2]
    }

    array_reverse_in_a_loop(x) {
        let mut v: [I; 3] = [x - 1, x + 20, x];
        for i in 0..x {
            v.reverse();
            v[1] += i;
        }
        v[0] * 10000 + v[1] * 100 + v[2]
    }

    array_rotate(x) {
        let mut v: [I; 4] = [x + 1, x + 2, x + 3, x];
        if x % 2 == 0 {
            v.rotate_left(1);
        }
        v[0] * 1000 + v[1] * 100 + v[2] * 10 + v[3]
    }

    array_swap_of_elements(x) {
        let mut v: [I; 2] = [x, x + 7];
        if x < 7 {
            let [a, b] = &mut v;
            std::mem::swap(&mut *a, &mut *b);
        }
        v[0] * 100 + v[1]
    }

    array_of_arrays(x) {
        let mut v: [[I; 2]; 2] = [[x + 1, x + 2], [x + 3, x]];
        if x > 0 {
            v.swap(0, 1);
            v[0].swap(0, 1);
        }
        v[0][0] * 1000 + v[0][1] * 100 + v[1][0] * 10 + v[1][1]
    }

    helper_in_an_if(x) {
        let mut n: I = 1;
        if x > 3 {
            set(&mut n, x + 4);
        }
        n
    }

    helper_in_nested_ifs(x) {
        let mut n: I = 1;
        if x > 3 {
            if x % 2 == 0 {
                set(&mut n, x + 4);
            }
            n += 1;
        }
        n
    }

    helper_in_a_for(x) {
        let mut n: I = 1;
        for i in 0..x {
            set(&mut n, i * 2);
        }
        n
    }

    helper_of_three(x) {
        let (mut a, mut b, mut c) = (x, twice(x), x * 3);
        if x > 0 {
            rotate(&mut a, &mut b, &mut c);
        }
        a * 10000 + b * 100 + c
    }

    helper_on_elements(x) {
        let mut v: [I; 3] = [1, 2, 3];
        for k in 0..3usize {
            if x > 2 {
                set(&mut v[k], x);
            }
        }
        v[0] + v[1] * 10 + v[2] * 100
    }

    helper_on_a_field(x) {
        let mut p = Pair { a: x, b: x + 1 };
        if x > 3 {
            set(&mut p.b, x * 2);
        }
        p.a * 100 + p.b
    }

    method_in_an_if(x) {
        let mut p = Pair { a: x, b: x + 1 };
        if x > 3 {
            p.set(x * 2);
        }
        p.a * 100 + p.b
    }

    method_that_turns(x) {
        let mut p = Pair { a: x, b: x + 1 };
        for _ in 0..x {
            p.turn();
            p.a += 1;
        }
        p.a * 100 + p.b
    }

    method_by_its_path(x) {
        let mut p = Pair { a: x, b: x + 1 };
        let mut sum: I = 0;
        for _ in 0..x {
            sum += Pair::next(&mut p);
        }
        p.a * 100 + p.b + sum * 7
    }

    method_that_only_looks(x) {
        let mut p = Pair { a: x, b: x + 1 };
        let mut sum: I = 0;
        if x > 1 {
            sum = p.total();
            p.a = sum;
        }
        p.total() + sum
    }

    structs_swapped(x) {
        let mut p = Pair { a: x, b: x * 2 };
        let mut q = Pair { a: x + 5, b: x };
        if x > 3 {
            std::mem::swap(&mut p, &mut q);
        }
        p.a * 1000 + p.b * 100 + q.a * 10 + q.b
    }

    fields_swapped(x) {
        let mut p = Pair { a: x, b: x * 2 };
        if x > 3 {
            std::mem::swap(&mut p.a, &mut p.b);
        }
        p.a * 100 + p.b
    }

    tuples_swapped(x) {
        let mut p = (x, 1 + x);
        let mut q = (x * 2, x * 3);
        if x > 3 {
            std::mem::swap(&mut p, &mut q);
        }
        p.0 + p.1 * 10 + q.0 * 100 + q.1 * 1000
    }

    a_reference_swapped(x) {
        let mut a: I = 1;
        let mut b: I = x;
        let r = &mut a;
        if x > 3 {
            std::mem::swap(r, &mut b);
        }
        a * 100 + b
    }

    a_reference_passed_on(x) {
        let mut a: I = 1;
        let r = &mut a;
        for i in 0..x {
            set(r, i);
        }
        a
    }

    a_parameter_passed_on(x) {
        let mut a: I = 1;
        through(&mut a, x);
        a
    }

    parameters_swapped(x) {
        let mut a: I = 1;
        let mut b: I = x;
        swapped(&mut a, &mut b, x);
        if x > 10 {
            swapped(&mut b, &mut a, x + 1);
        }
        a * 100 + b
    }

    in_a_closure(x) {
        let mut a: I = 1;
        let mut b: I = 20;
        let mut turn = || std::mem::swap(&mut a, &mut b);
        if x > 3 {
            turn();
        }
        a * 100 + b
    }

    elements_by_iterator(x) {
        let mut v: [I; 3] = [x + 1, x + 2, x];
        if x > 0 {
            for e in v.iter_mut() {
                *e *= 2;
            }
        }
        v[0] + v[1] * 10 + v[2] * 100
    }

    behind_and(x) {
        let mut a: I = 1;
        let found = x > 3 && std::mem::replace(&mut a, x) > 0;
        if found {
            a += 100;
        }
        a
    }

    in_a_condition(x) {
        let mut a: I = x;
        if x > 0 {
            if std::mem::replace(&mut a, twice(x)) > 5 {
                a += 1;
            }
        }
        a
    }

    in_a_while_condition(x) {
        let mut a: I = x;
        let mut n: I = 0;
        while std::mem::replace(&mut a, n) < 4 {
            n += 1;
        }
        a * 100 + n
    }

    in_a_match_of_the_host(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        for way in [0u8, 1, 2] {
            if x > 2 {
                match way {
                    0 => std::mem::swap(&mut a, &mut b),
                    1 => set(&mut a, x),
                    _ => {}
                }
            }
        }
        a * 100 + b
    }

    shadowed(x) {
        let mut a: I = 1;
        if x > 3 {
            let mut a: I = 2;
            set(&mut a, x);
            let _ = a;
        }
        set(&mut a, x + 1);
        a
    }

    declared_inside(x) {
        let mut out: I = 0;
        if x > 3 {
            let mut v = vec![x, x + 1];
            v.swap(0, 1);
            v.push(x + 2);
            out = v[0] * 100 + v[1] * 10 + v[2];
        }
        out
    }

    boxed(x) {
        let mut b: Box<I> = Box::new(x);
        if x > 3 {
            set(&mut b, x + 1);
        }
        *b
    }

    settled_three_ways(x) {
        let mut a: I = 1;
        let mut b: I = 2;
        let mut c: I = 3;
        if x % 2 == 0 {
            std::mem::swap(&mut a, &mut b);
            std::mem::swap(&mut b, &mut c);
            std::mem::swap(&mut a, &mut c);
        }
        a * 100 + b * 10 + c
    }
}

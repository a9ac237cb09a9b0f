//! Variables, structs, closures: what a name means.

use crate::both;

mod device_helpers {
    use kiln_lang::prelude::*;
    pub type I = Val<i32>;

    #[derive(Clone, Copy, DeviceValue)]
    #[kiln(crate = kiln_lang)]
    pub struct Pair {
        pub a: I,
        pub b: I,
        pub times: i32,
    }

    impl Pair {
        #[device(crate = kiln_lang)]
        pub fn larger(self) -> I {
            if self.a > self.b { self.a } else { self.b }
        }

        #[device(crate = kiln_lang)]
        pub fn bump(&mut self, by: I) {
            if by > 4 {
                self.a += by * self.times;
                return;
            }
            self.b -= by;
        }
    }

    #[derive(Clone, Copy, DeviceValue)]
    #[kiln(crate = kiln_lang)]
    pub struct Wrapped<T: Num>(pub Val<T>, pub usize);

    impl<T: Num> Wrapped<T> {
        #[device(crate = kiln_lang)]
        pub fn limited(self, top: impl IntoVal<T>) -> Self {
            let top = top.into_val();
            let mut this = self;
            if this.0 > top {
                this.0 = top;
                return this;
            }
            device_assert!(this.0 <= top && this.1 == 3, "{} is above {}", this.0, top);
            this.0 += 1;
            this
        }
    }

    #[device(crate = kiln_lang)]
    pub fn bump(x: &mut I) {
        if *x > 3 {
            *x += 1;
        } else {
            *x = -*x;
        }
    }

    #[device(crate = kiln_lang)]
    pub fn twice<F: Fn(I) -> I>(f: F, x: I) -> I {
        let y = f(x);
        if y > 100 { y } else { f(y) }
    }

    #[device(crate = kiln_lang)]
    pub fn countdown(mut n: I) -> I {
        let mut steps: I = 0;
        while n > 0 {
            n -= 4;
            steps += 1;
        }
        steps
    }
}
mod host_helpers {
    pub type I = i32;

    #[derive(Clone, Copy)]
    pub struct Pair {
        pub a: I,
        pub b: I,
        pub times: i32,
    }

    impl Pair {
        pub fn larger(self) -> I {
            if self.a > self.b { self.a } else { self.b }
        }

        pub fn bump(&mut self, by: I) {
            if by > 4 {
                self.a += by * self.times;
                return;
            }
            self.b -= by;
        }
    }

    #[derive(Clone, Copy)]
    pub struct Wrapped<T>(pub T, pub usize);

    impl Wrapped<i32> {
        pub fn limited(self, top: i32) -> Self {
            if self.0 > top { Wrapped(top, self.1) } else { Wrapped(self.0 + 1, self.1) }
        }
    }

    pub fn bump(x: &mut I) {
        if *x > 3 { *x += 1 } else { *x = -*x }
    }

    pub fn twice<F: Fn(I) -> I>(f: F, x: I) -> I {
        let y = f(x);
        if y > 100 { y } else { f(y) }
    }

    pub fn countdown(mut n: I) -> I {
        let mut steps = 0;
        while n > 0 {
            n -= 4;
            steps += 1;
        }
        steps
    }
}

both! {
    snapshot(x) {
        let mut a = x;
        let b = a;
        a += 10;
        let c = (a, b);
        a = a * 2;
        a * 10000 + c.0 * 100 + b + c.1
    }
    snapshot_in_call(x) {
        let mut a = x;
        let pair = Pair { a, b: a + 1, times: 1 };
        a += 5;
        pair.larger() * 100 + a
    }
    snapshot_in_array(x) {
        let mut a = x;
        let mut list = [a, a, a];
        a += 1;
        list[1] = a;
        a += 1;
        list[0] += list[1];
        a + 10 * list[0] + 100 * list[1] + 1000 * list[2]
    }
    shadowing(x) {
        let mut a = x;
        a += 1;
        let a = a * 2;
        let b = { let mut a = a; a += 3; a };
        a * 100 + b
    }
    struct_fields(x) {
        let mut p = Pair { a: x, b: x * 2, times: 3 };
        for i in 0..x {
            if i % 2 == 0 { p.a += i; } else { p.b -= i; }
            if i == 6 { p = Pair { a: p.b, b: p.a, times: 3 }; }
        }
        p.a * 100 + p.b * p.times
    }
    struct_methods(x) {
        let mut p = Pair { a: x, b: x * 2, times: 2 };
        for i in 0..x { p.bump(i); }
        p.larger()
    }
    struct_joined(x) {
        let p = if x > 4 { Pair { a: x, b: x, times: 7 } } else { Pair { a: -x, b: x + 1, times: 7 } };
        p.a * p.times + p.b
    }
    generic_struct(x) {
        let mut w = Wrapped(x, 3);
        for _ in 0..x { w = w.limited(20); }
        w.0
    }
    mutable_reference(x) {
        let mut a = x;
        for _ in 0..x { bump(&mut a); }
        bump(&mut a);
        a
    }
    mutable_reference_local(x) {
        let mut a = x;
        let r = &mut a;
        *r += 1;
        if *r > 5 { *r = *r * 2; }
        a
    }
    mutable_array_elements(x) {
        let mut list = [x, x + 1, x + 2];
        for k in [0usize, 1, 2] { if list[k] > 7 { list[k] = 0 * x; } }
        for v in list.iter_mut() { *v += 1; }
        for k in [0usize, 1] { let next = list[k + 1]; list[k] += next; }
        list[0] * 10000 + list[1] * 100 + list[2]
    }
    vector_of_values(x) {
        let mut list = Vec::new();
        for k in [1, 2, 3] { list.push(x * k); }
        list[1] = list[0] + list[2];
        list.iter().fold(0 * x, |a, b| a * 10 + *b)
    }
    closure(x) {
        let k = 3;
        let scale = |v: I| v * k + x;
        twice(scale, x) + scale(1 + x)
    }
    closure_with_branch(x) {
        let clip = |v: I| -> I { if v > 10 { 10 } else { v } };
        clip(x) * 100 + clip(x + 5)
    }
    closure_with_return(x) {
        let f = |v: I| -> I { if v < 0 { return 0; } for i in 0..v { if i * i >= v { return i; } } v };
        f(x) * 100 + f(x + 5)
    }
    closure_that_captures_mutably(x) {
        let mut total: I = 0;
        let mut add = |v: I| { if v > 3 { total += v; } else { total -= 1; } };
        add(x);
        add(x + 2);
        total
    }
    move_closure_has_its_own_copy(x) {
        let mut n = x;
        let mut counter = move || { n += 1; n };
        let first = counter();
        let second = counter();
        n += 100;
        first + second * 10 + n * 1000
    }
    mutable_parameter(x) { countdown(x) * 100 + countdown(x + 9) }
    literals_in_tuples(x) {
        let (mut a, b): (I, I) = (0, 1);
        let mut list: [I; 3] = [1, 2, 3];
        let mut pair = (x, [x, x + b]);
        for i in 0..x { a += i; list[1] += i; list = [list[2], list[0], list[1]]; }
        pair = (3, [a, b]);
        if x > 4 { pair = (a, [5, 6]); }
        pair.0 + pair.1[0] * 7 + pair.1[1] * 50 + list[0] + list[1] * 3 + list[2] * 5
    }
    tuple_assignment(x) {
        let (mut a, mut b) = (x, x + 1);
        (a, b) = (b, a);
        [a, b] = [b + 10, a];
        (a, _) = (a * 2, b);
        a * 1000 + b
    }
    host_counter(x) {
        let mut k = 0;
        let mut s = x;
        for i in [10, 20, 30] { k += 1; s += i * k; }
        if s > 70 { let mut inner = 1; inner += 2; s += inner; }
        s + k
    }
    literal_on_the_left(x) {
        let y = 2 * x + (3 + 4) * 5;
        let z = (1 - x) * (10 / (x * x + 1));
        (7 % (1 + x * x)) * 100 + y + z
    }
    compound_operators(x) {
        let mut a = x;
        a += 3; a -= 1; a *= 4; a /= 3; a %= 17; a ^= 5; a |= 2; a &= 29; a <<= 2; a >>= 1;
        -a + !a
    }
    uninhabited_else(x) {
        let k = 3;
        let y = if k == 3 { x } else { unreachable!("k is {}", k) };
        y + 1
    }
}

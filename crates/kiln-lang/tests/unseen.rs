//! Changes by plain Rust that cannot be written down as what Rust does: each is an error at its
//! line. What Rust does otherwise is shown by `flow/mutation.rs`.

use kiln_lang::prelude::*;
use kiln_lang::trace;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

const HOST: &str = "a host value is changed under device control flow";

/// Traces a function that makes one mistake, in the line that ends in `// <- name`.
#[track_caller]
fn refused(name: &str, message: &str, help: &str, body: fn(Val<i32>)) {
    let traced = trace("k", Level::Tile { warps: None }, |p| body(p.scalar("n", Default::default())));
    let errors = traced.expect_err("the trace should have failed").errors().to_vec();
    let mark = format!("// <- {name}");
    let line = include_str!("unseen.rs").lines().position(|l| l.ends_with(&mark));
    let line = line.unwrap_or_else(|| panic!("no line is marked {name}")) as u32 + 1;
    let e = &errors[0];
    assert!(e.file.ends_with("tests/unseen.rs") && e.line == line, "{errors:?}");
    assert!(e.message.contains(message) && e.help.contains(help), "{e}");
}

fn accepted(body: fn(Val<i32>)) {
    let traced = trace("k", Level::Tile { warps: None }, |p| body(p.scalar("n", Default::default())));
    assert!(traced.is_ok(), "{traced:?}");
}

macro_rules! errors {
    ($($name:ident $mark:literal $message:expr, $help:literal: |$n:ident| $body:block)*) => {$(
        #[test]
        fn $name() {
            #[device(crate = kiln_lang)]
            #[allow(unused, clippy::all)]
            fn body($n: Val<i32>) $body
            refused($mark, $message, $help, body);
        }
    )*};
}

fn push(list: &mut Vec<Val<i32>>, x: Val<i32>) {
    list.push(x);
}

fn count(n: &mut usize) {
    *n += 1;
}

/// A value of the host that says nothing of itself.
struct Opaque(usize);

impl Opaque {
    fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

#[derive(Clone, PartialEq)]
struct Plain(usize);

impl Plain {
    fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
struct Counted {
    sum: Val<i32>,
    times: i32,
}

// `+=` would write the variable, which is what these do not do.
#[allow(clippy::assign_op_pattern)]
impl Counted {
    fn add(&mut self, x: Val<i32>) {
        self.sum = self.sum + x;
    }

    fn add_and_count(&mut self, x: Val<i32>) {
        self.sum = self.sum + x;
        self.times += 1;
    }

    fn take(&mut self) -> Val<i32> {
        std::mem::replace(&mut self.sum, val(0))
    }
}

errors! {
    vec_swap "vec swap" HOST, "Val<i32> = 0": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            v.swap(0, 1); // <- vec swap
        }
    }
    vec_reverse "vec reverse" HOST, "Val<i32> = 0": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            v.reverse(); // <- vec reverse
        }
    }
    vec_fill "vec fill" HOST, "": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            v.fill(n); // <- vec fill
        }
    }
    vec_push "vec push" HOST, "": |n| {
        let mut v = vec![n];
        if n > 3 {
            v.push(n); // <- vec push
        }
    }
    vec_push_in_a_loop "vec push in a loop" HOST, "": |n| {
        let mut v = Vec::new();
        for i in 0..n {
            v.push(i); // <- vec push in a loop
        }
    }
    vec_pop_with_a_result "vec pop" HOST, "": |n| {
        let mut v = vec![n, n + 1];
        let mut s: Val<i32> = 0;
        if n > 3 {
            s = v.pop().unwrap_or(n); // <- vec pop
        }
    }
    vec_by_a_helper "vec helper" HOST, "": |n| {
        let mut v = vec![n];
        if n > 3 {
            push(&mut v, n); // <- vec helper
        }
    }
    vec_elements "vec elements" HOST, "": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            for e in v.iter_mut() { // <- vec elements
                *e = val(0);
            }
        }
    }
    option_replace "option replace" HOST, "": |n| {
        let mut o = Some(n);
        if n > 3 {
            o.replace(n + 1); // <- option replace
        }
    }
    option_take "option take" HOST, "": |n| {
        let mut o = Some(n);
        if n > 3 {
            let _old = o.take(); // <- option take
        }
    }
    option_by_mem "option mem" HOST, "": |n| {
        let mut o = Some(n);
        if n > 3 {
            let _old = std::mem::take(&mut o); // <- option mem
        }
    }
    deque "deque" HOST, "": |n| {
        let mut v = VecDeque::from([n]);
        if n > 3 {
            v.push_back(n); // <- deque
        }
    }
    map "map" HOST, "": |n| {
        let mut m = BTreeMap::from([(1, n)]);
        if n > 3 {
            m.insert(1, n + 1); // <- map
        }
    }
    table "table" HOST, "": |n| {
        let mut m = HashMap::from([(1, n)]);
        if n > 3 {
            m.remove(&1); // <- table
        }
    }
    string "string" HOST, "": |n| {
        let mut s = String::new();
        if n > 3 {
            s.push('x'); // <- string
        }
    }
    number_by_a_helper "number" HOST, "": |n| {
        let mut k = 0usize;
        if n > 3 {
            count(&mut k); // <- number
        }
    }
    number_by_a_reference "number reference" HOST, "": |n| {
        let mut k = 0usize;
        let r = &mut k;
        if n > 3 {
            count(r); // <- number reference
        }
    }
    number_replaced "number replaced" HOST, "": |n| {
        let mut k = 0usize;
        for _ in 0..n {
            let _ = std::mem::replace(&mut k, 2); // <- number replaced
        }
    }
    bools_swapped "bools" HOST, "": |n| {
        let (mut a, mut b) = (true, false);
        if n > 3 {
            std::mem::swap(&mut a, &mut b); // <- bools
        }
    }
    a_struct_of_the_host "plain" HOST, "": |n| {
        let mut p = Plain(1);
        if n > 3 {
            let _ = p.next(); // <- plain
        }
    }
    a_struct_that_says_nothing "opaque" "does not show whether it changes", "PartialEq": |n| {
        let mut p = Opaque(1);
        if n > 3 {
            let _ = p.next(); // <- opaque
        }
    }
    a_host_field "host field" HOST, "": |n| {
        let mut c = Counted { sum: n, times: 0 };
        if n > 3 {
            c.add_and_count(n); // <- host field
        }
    }
    a_method_with_a_result "result" "`take` changes a device value", "Type::take(&mut place)": |n| {
        let mut c = Counted { sum: n, times: 0 };
        let mut s: Val<i32> = 0;
        if n > 3 {
            s = c.take(); // <- result
        }
    }
    a_reference_from_an_iterator "from an iterator" "`add` changes a device value", "": |n| {
        let mut all = [Counted { sum: n, times: 0 }, Counted { sum: n, times: 0 }];
        for c in all.iter_mut() {
            if n > 3 {
                c.add(n); // <- from an iterator
            }
        }
    }
    an_element_of_a_vec "element" HOST, "": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            std::mem::swap(&mut n.clone(), &mut v[0 + 1]); // <- element
        }
    }
    behind_an_exit "behind an exit" HOST, "": |n| {
        let mut v = vec![n, n + 1];
        if n > 3 {
            return;
        }
        v.reverse(); // <- behind an exit
    }
    in_a_while "while" HOST, "": |n| {
        let mut v = vec![n];
        let mut i: Val<i32> = 0;
        while i < n {
            v.push(i); // <- while
            i += 1;
        }
    }
    in_a_loop "loop" HOST, "": |n| {
        let mut v = vec![n];
        let mut i: Val<i32> = 0;
        loop {
            v.push(i); // <- loop
            i += 1;
            if i > n {
                break;
            }
        }
    }
    right_of_and "and" HOST, "": |n| {
        let mut v = vec![n];
        let _ = n > 3 && v.pop().is_some(); // <- and
    }
    in_a_closure "closure" HOST, "": |n| {
        let mut v = vec![n];
        let mut more = || v.push(n); // <- closure
        if n > 3 {
            more();
        }
    }
    in_a_fault_region "fault_region" HOST, "": |n| {
        let mut v = vec![n];
        fault_region(0, (), || {
            v.push(n); // <- fault_region
        });
    }
    a_cell "cell" HOST, "": |n| {
        let c = Cell::new(n);
        if n > 3 {
            c.set(n + 1); // <- cell
        }
    }
    a_ref_cell "ref cell" HOST, "": |n| {
        let c = RefCell::new(vec![n]);
        if n > 3 {
            c.borrow_mut().push(n); // <- ref cell
        }
    }
    a_shared_ref_cell "shared ref cell" HOST, "": |n| {
        let c = Rc::new(RefCell::new(n));
        for i in 0..n {
            *c.borrow_mut() = i; // <- shared ref cell
        }
    }
}

#[test]
fn what_only_looks_is_no_change() {
    #[device(crate = kiln_lang)]
    fn body(n: Val<i32>) {
        let mut v = vec![n];
        v.push(n + 1);
        let mut o = Some(n);
        let mut table = HashMap::from([(1usize, n)]);
        table.insert(2, n);
        let mut p = Plain(1);
        let first = p.next();
        if n > 3 {
            let mut inside = Vec::new();
            inside.push(v[0]);
            inside.push(v.iter().fold(val(0), |a, b| a + *b));
            inside.reverse();
            device_print!("{} {}", inside[0], o.unwrap_or(n) + table[&1]);
            device_print!("{} {}", v.len(), v.first().map_or(n, |x| *x) + first);
        }
        v.clear();
        o = None;
        _ = (o, p);
    }
    accepted(body);
}

#[test]
fn host_control_flow_changes_what_it_likes() {
    #[device(crate = kiln_lang)]
    fn body(n: Val<i32>) {
        let mut v = Vec::new();
        let mut k = 0usize;
        for i in 0..4 {
            if i % 2 == 0 {
                v.push(n + i);
                count(&mut k);
            }
        }
        while k > 0 {
            let Some(last) = v.pop() else { break };
            device_print!("{}", last);
            k -= 1;
        }
    }
    accepted(body);
}

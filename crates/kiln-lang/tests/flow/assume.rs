//! Assumptions: what they record, how far they reach, and what happens where they are false.

use kiln_backend::{Backend, BufferBinding, Error, LaunchArguments, StreamId};
use kiln_interp::{Interp, Options};
use kiln_lang::prelude::*;

/// A kernel of one program over a view of 64 numbers, which are its place, and a number.
fn traced(body: &dyn Fn(ViewMut<i32, 1>, Val<i64>)) -> kiln_ir::Kernel {
    let kernel = trace("k", Level::Tile { warps: None }, |p| {
        let x = p.view_mut("x", Default::default());
        let n = p.scalar("n", Default::default());
        body(x, n);
    });
    let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));
    kernel
}

fn ir(body: &dyn Fn(ViewMut<i32, 1>, Val<i64>)) -> String {
    let text = traced(body).to_string();
    let (_, body) = text.split_once("{\n").unwrap();
    body.trim_end().trim_end_matches('}').trim_end().lines().map(|l| format!("{}\n", &l[2..])).collect()
}

/// What the interpreter leaves of the view, or its fault.
fn run(n: i64, body: &dyn Fn(ViewMut<i32, 1>, Val<i64>)) -> Result<Vec<i32>, Error> {
    let kernel = traced(body);
    let (interp, stream) = (Interp::new(Options::default()), StreamId::default());
    let program = interp.compile(&kernel).unwrap().program;
    let mut bytes: Vec<u8> = (0..64i32).flat_map(i32::to_le_bytes).collect();
    // SAFETY: the view is all of an allocation of this device.
    unsafe {
        let memory = interp.allocate(256, stream)?;
        interp.upload(memory, &bytes, stream)?;
        let arguments = LaunchArguments::new().view(BufferBinding::write(memory), &[64]).scalar(n as u64);
        interp.launch(program.as_ref(), arguments.launch([1, 1, 1], stream))?;
        interp.download(&mut bytes, memory, stream)?;
    }
    Ok(bytes.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}

/// The fault, and that it is of the line before this one or so.
fn faults(n: i64, line: u32, said: &str, body: &dyn Fn(ViewMut<i32, 1>, Val<i64>)) {
    let error = run(n, body).expect_err("it faults").to_string();
    assert!(error.contains(said), "{error}");
    assert!(error.contains(&format!("assume.rs:{line}:")), "line {line}: {error}");
}

#[device(crate = kiln_lang)]
fn bounded(x: ViewMut<i32, 1>, n: Val<i64>) {
    assume(n >= 0 && 64 > n);
    assume(n % 24 == 0);
    x.tile(n, 8).store(7);
}

#[test]
fn what_follows_uses_a_value_that_has_the_property() {
    assert_eq!(
        ir(&|x, n| {
            assume(n.ge(0) & n.lt(64));
            assume((n % 24).eq(0));
            x.tile(n, 8).store(7);
        }),
        "\
%0 = const 0 : i64
%1 = ge %n, %0 : bool
%2 = const 64 : i64
%3 = lt %n, %2 : bool
%4 = and %1, %3 : bool
assert %4, \"an assumption does not hold\"
%5 = const 0 : i64
%6 = max %n, %5 : i64
%7 = const 63 : i64
%8 = min %6, %7 : i64
%9 = const 24 : i64
%10 = rem %8, %9 : i64
%11 = const 0 : i64
%12 = eq %10, %11 : bool
assert %12, \"an assumption does not hold\"
%13 = const -8 : i64
%14 = and %8, %13 : i64
%15 = const 0 : i64
%16 = const 7 : i32[8]
store.disjoint %x[%14] = %16
"
    );
}

#[test]
fn a_multiple_has_the_property_where_it_is_used() {
    assert_eq!(
        ir(&|x, n| x.tile(n.multiple_of(16), 8).store(7)),
        "\
%0 = const 16 : i64
%1 = rem %n, %0 : i64
%2 = const 0 : i64
%3 = eq %1, %2 : bool
assert %3, \"{} is not a multiple of 16\", %n
%4 = const -16 : i64
%5 = and %n, %4 : i64
%6 = const 7 : i32[8]
store.disjoint %x[%5] = %6
"
    );
}

#[test]
fn places_of_programs_stay_told_apart() {
    let text = ir(&|x, _| {
        let at = program_id(0) * 16;
        assume(at.lt(64) & program_id(0).ge(0));
        x.tile(at.multiple_of(4), 16).store(7);
    });
    assert!(!text.contains("min ") && !text.contains("max "), "{text}");
}

#[test]
fn an_assumption_reaches_to_the_end_of_its_branch() {
    let text = ir(&|x, n| {
        let k = select(n.gt(5), val::<i64>(1), val(2));
        let conditional = kiln_lang::fault_region(0, (), || {
            assume(k.eq(1));
            x.tile(k, 8).store(7);
        });
        x.tile(k + conditional.0.cast::<i64>(), 8).store(8);
    });
    let (inside, after) = text.split_once("yield").unwrap();
    let k = inside.lines().find(|l| l.contains("select")).unwrap().split(' ').next().unwrap();
    assert!(!inside.contains(&format!("%x[{k}]")), "it is 1 there:\n{text}");
    assert!(after.contains(&format!("add {k},")), "and anything behind:\n{text}");
}

#[test]
fn a_true_assumption_changes_nothing() {
    for n in [0i64, 24, 48] {
        let expected: Vec<i32> =
            (0..64).map(|i| if (n..n + 8).contains(&i) { 7 } else { i as i32 }).collect();
        assert_eq!(run(n, &bounded).unwrap(), expected);
        let multiple = |x: ViewMut<i32, 1>, n: Val<i64>| x.tile(n.multiple_of(24), 8).store(7);
        assert_eq!(run(n, &multiple).unwrap(), expected);
    }
    // Negative multiples are multiples.
    let multiple = |x: ViewMut<i32, 1>, n: Val<i64>| x.tile(n.multiple_of(24) + 24, 8).store(7);
    assert_eq!(run(-24, &multiple).unwrap()[7..9], [7, 8]);
}

#[test]
fn a_false_assumption_is_a_fault_of_its_line() {
    let said = "an assumption does not hold";
    let line = line!() + 1;
    faults(-24, line, said, &|_, n| assume(n.ge(0)));
    faults(64, line!(), said, &|_, n| assume(n.ge(0) & n.lt(64)));
    faults(12, line!(), said, &|_, n| assume((n % 24).eq(0)));
    faults(12, line!(), "12 is not a multiple of 24", &|x, n| x.tile(n.multiple_of(24), 8).store(7));
    faults(1, line!() + 1, "an element is not a multiple of 4", &|x, n| {
        x.tile(0, 8).store((iota::<i64>(8) * 4 + n).multiple_of(4).cast::<i32>());
    });
}

#[test]
fn a_number_that_is_none_of_the_type_is_refused() {
    let error = trace("k", Level::Tile { warps: None }, |p| {
        let n = p.scalar::<i16>("n", Default::default());
        _ = n.multiple_of(0) + n.multiple_of(40_000);
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("0 is not a number that a value of i16 is a multiple of"), "{text}");
    assert!(text.contains("40000 is not a number that a value of i16 is a multiple of"), "{text}");
}

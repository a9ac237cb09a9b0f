//! Kernels of unusual size.

use kiln_compiler::optimize;
use kiln_fuzz::run::run;
use kiln_fuzz::{Argument, Case};
use kiln_ir::{Literal, MAX_DEPTH, parse, verify};

/// A kernel whose `if`s nest, around a store in the innermost.
fn nested(depth: usize) -> String {
    let open = "if %c {\n".repeat(depth);
    let close = "yield\n} else {\nyield\n}\n".repeat(depth);
    format!(
        "kernel @deep(%c: bool, %y: mut view<i32, 1, global>, %at: i64, %v: i32) tile {{\n{open}scatter.mask %y[%at] = %v\n{close}}}\n"
    )
}

#[test]
fn regions_nest_deep() {
    let mut kernel = parse(&nested(MAX_DEPTH)).unwrap();
    assert_eq!(verify(&kernel), Ok(()));
    optimize(&mut kernel).unwrap();
    assert_eq!(kernel.to_string().matches("if %c").count(), MAX_DEPTH);
}

#[test]
fn regions_that_nest_too_deep_are_refused() {
    let error = parse(&nested(100_000)).unwrap_err().to_string();
    assert!(error.contains("regions that nest at most 512 deep"), "{error}");
}

/// Optimizing takes time in proportion to the size, as far as a test can show: ten thousand
/// operations, not minutes.
#[test]
fn long_kernels_are_optimized_quickly() {
    let mut text =
        String::from("kernel @long(%y: mut view<i64, 1, global>, %n: i64) tile {\n%v0 = const 1 : i64\n");
    for i in 0..10_000 {
        let operation = ["add", "mul", "xor", "min"][i % 4];
        text += &format!("%v{} = {operation} %v{i}, %n : i64\n", i + 1);
    }
    text += "scatter.mask %y[%n] = %v10000\n}\n";
    let mut kernel = parse(&text).unwrap();
    let start = std::time::Instant::now();
    optimize(&mut kernel).unwrap();
    assert!(start.elapsed().as_secs() < 1200, "{:?}", start.elapsed());
    assert_eq!(verify(&kernel), Ok(()));
}

/// The operations of a fault region that can fault nest in each other, but not without limit; what
/// they compute arrives at the end.
#[test]
fn a_fault_region_may_hold_many_checks() {
    const CHECKS: usize = 2000;
    let mut text = String::from(
        "kernel @many(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) tile {\n%zero = const 0 : i64\n\
         %budget = const 9 : u32\n%site, %value = fault_region %budget, %zero : u32, i64 {\n%v0 = const 0 : i64\n",
    );
    for i in 0..CHECKS {
        text += &format!(
            "%i{i} = const {i} : i64\n%x{i} = gather.check %x[%i{i}] pad %zero : i64\n%v{} = add %v{i}, %x{i} : i64\n",
            i + 1
        );
    }
    text += &format!(
        "yield %v{CHECKS}\n}}\n%one = const 1 : i64\n%s = cast %site : i64\nscatter.mask %y[%zero] = %value\n\
         scatter.mask %y[%one] = %s\n}}\n"
    );
    let mut kernel = parse(&text).unwrap();
    assert_eq!(kernel.fault_sites().len(), CHECKS);
    optimize(&mut kernel).unwrap();
    assert_eq!(verify(&kernel), Ok(()));
    let view = |len: usize, value: i64| Argument::View {
        extents: vec![len as u32],
        data: vec![Literal::index(value); len],
    };
    let device = kiln_interp::Interp::new(Default::default());
    for (len, expected) in [(CHECKS, [2000, 0]), (1234, [0, 1235])] {
        let case = Case { kernel: kernel.clone(), grid: [1; 3], arguments: vec![view(len, 1), view(2, -1)] };
        let outcome = run(&case, &device).unwrap();
        assert_eq!(outcome.fault, None);
        assert_eq!(outcome.memory[1], expected.map(Literal::index));
    }
}

//! The optimiser against the interpreter: a random kernel and what becomes of it do the same, to the bit.

use kiln_filetests::generate::{Case, Options, generate};
use kiln_filetests::run::{Outcome, difference, run};
use kiln_interp::Interp;
use kiln_ir::Kernel;

fn outcome(case: &Case, device: &Interp, seed: u64) -> Outcome {
    run(case, device).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", case.kernel))
}

fn options(seed: u64) -> Options {
    let mut options = Options::new(seed % 2 == 1);
    options.faults = seed.is_multiple_of(3);
    options.prints = true;
    options
}

/// Changes the kernels of some seeds and compares them with what they were.
fn unchanged_by(seeds: std::ops::Range<u64>, change: impl Fn(&mut Kernel)) {
    let device = Interp::new(kiln_interp::Options { sanitize: true, ..Default::default() });
    for seed in seeds {
        let mut case = generate(seed, &options(seed));
        let before = outcome(&case, &device, seed);
        let text = case.kernel.to_string();
        change(&mut case.kernel);
        let after = outcome(&case, &device, seed);
        if let Some(difference) = difference(&before, &after, 0.0) {
            panic!("seed {seed}: {difference}\n{text}\nbecomes\n{}", case.kernel);
        }
    }
}

#[test]
fn the_optimizer_changes_no_bit() {
    unchanged_by(0..400, |kernel| {
        kiln_compiler::optimize(kernel).unwrap_or_else(|e| panic!("{e}"));
    });
}

#[test]
fn no_pass_changes_a_bit() {
    for (name, _) in kiln_compiler::opt::PASSES {
        unchanged_by(1000..1080, |kernel| {
            kiln_compiler::opt::run_pass(kernel, name).unwrap_or_else(|e| panic!("{e}"));
        });
    }
}

/// What is optimised stays as it is.
#[test]
fn optimized_kernels_are_fixed_points() {
    for seed in 0..100 {
        let mut kernel = generate(seed, &options(seed)).kernel;
        kiln_compiler::optimize(&mut kernel).unwrap_or_else(|e| panic!("{e}"));
        let once = kernel.to_string();
        kiln_compiler::optimize(&mut kernel).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(kernel.to_string(), once, "seed {seed}");
    }
}

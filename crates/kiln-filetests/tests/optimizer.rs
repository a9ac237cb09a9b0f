//! The optimizer against the interpreter: a random kernel and what becomes of it do the same, to
//! the bit.

use kiln_fuzz::Case;
use kiln_fuzz::compare::{compare, seeds};
use kiln_fuzz::generate::{Options, generate};
use kiln_fuzz::run::{Outcome, run};
use kiln_interp::Interp;
use kiln_ir::Kernel;

fn options(seed: u64) -> Options {
    let mut options = Options::new(seed % 2 == 1);
    options.faults = seed.is_multiple_of(3);
    options.fault_regions = seed.is_multiple_of(5);
    options.prints = true;
    options
}

/// Compares kernels with what a change makes of them.
fn unchanged_by(seeds: std::ops::Range<u64>, change: impl Fn(&mut Kernel) -> Result<(), String>) {
    let device = Interp::new(kiln_interp::Options::default());
    let plain = |case: &Case| run(case, &device).map_err(|e| e.to_string());
    let changed = |case: &Case| -> Result<Outcome, String> {
        let mut case = case.clone();
        change(&mut case.kernel)?;
        plain(&case)
    };
    compare(seeds, options, &plain, &changed).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn the_optimizer_changes_no_bit() {
    unchanged_by(seeds(0..400), |kernel| kiln_compiler::optimize(kernel).map_err(|e| e.to_string()));
}

#[test]
fn no_pass_changes_a_bit() {
    for (name, _) in kiln_compiler::passes::PASSES {
        unchanged_by(1000..1080, |kernel| {
            kiln_compiler::passes::run_pass(kernel, name).map(|_| ()).map_err(|e| e.to_string())
        });
    }
}

/// What is optimized does not change.
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

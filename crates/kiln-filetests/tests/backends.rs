//! Backends against the interpreter on random kernels.

use kiln_compiler::{CompileError, Target, lower_to_threads, pipeline};
use kiln_cpu::CpuBackend;
use kiln_fuzz::compare::{compare, seeds};
use kiln_fuzz::generate::Options;
use kiln_fuzz::run::{difference, run};
use kiln_fuzz::{Case, Mode, Tested, Trial};
use kiln_interp::Interp;
use kiln_ir::{Kernel, Literal, OpKind, ShuffleMode};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn exact(seed: u64) -> Options {
    let mut options = Options::new(seed % 2 == 1);
    options.exact = true;
    options.fault_regions = seed / 2 % 2 == 1;
    options
}

#[test]
fn the_cpu_does_what_the_interpreter_does() {
    let (interp, cpu) = (Interp::new(Default::default()), CpuBackend::with_threads(2));
    let reference = |case: &Case| run(case, &interp).map_err(|e| e.to_string());
    let tested = |case: &Case| run(case, &cpu).map_err(|e| e.to_string());
    compare(seeds(0..300), exact, &reference, &tested).unwrap_or_else(|e| panic!("{e}"));
}

/// As if caches were tiny: small tiles go chunk by chunk and past the caches, as tiles of more than
/// 1024 elements and views larger than the caches do.
#[test]
fn the_cpu_does_so_in_chunks_of_any_size() {
    let interp = Interp::new(Default::default());
    let reference = |case: &Case| run(case, &interp).map_err(|e| e.to_string());
    for chunk in [1, 4, 7] {
        let cpu = CpuBackend::with_threads(1).with_blocking(chunk, 0);
        let tested = |case: &Case| run(case, &cpu).map_err(|e| e.to_string());
        let options = |seed: u64| Options {
            faults: seed.is_multiple_of(3),
            fault_regions: false,
            ..exact(if seed.is_multiple_of(5) { seed } else { 2 * seed })
        };
        compare(seeds(0..150), options, &reference, &tested).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The way a kernel goes to a GPU.
fn for_gpu(kernel: &Kernel) -> Result<Kernel, CompileError> {
    // The interpreter supports tasks before the lowering only.
    let target = Target { tasks: false, ..Target::cuda((9, 0), 227 << 10) };
    Ok(pipeline::compile(kernel, &target)?.kernel)
}

/// With all passes and with none, so that what the passes simplify is lowered too.
fn lowered_as_before(lower: impl Fn(&Kernel) -> Result<Kernel, CompileError>) {
    // Races of the threads are looked for too: here they run in lockstep, on a GPU they do not.
    let interp = Interp::new(kiln_interp::Options::default());
    let reference = |case: &Case| run(case, &interp).map_err(|e| e.to_string());
    let tested = |case: &Case| {
        let lowered = lower(&case.kernel).map_err(|e| e.to_string())?;
        reference(&case.with(lowered))
    };
    let options = |seed| Options { powers_of_two: seed % 3 == 0, whole_warps: true, ..exact(seed) };
    compare(seeds(0..500), options, &reference, &tested).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn lowered_kernels_do_what_they_did() {
    lowered_as_before(|kernel| lower_to_threads(kernel, &Target::cuda((9, 0), 227 << 10)));
}

/// Without addresses, whatever number of lanes can shuffle.
#[test]
fn kernels_for_any_gpu_do_what_they_did() {
    for subgroup in [1, 8, 32] {
        let (lowered, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        lowered_as_before(|kernel| match lower_to_threads(kernel, &Target::portable(subgroup, 64 << 10)) {
            Ok(kernel) => {
                lowered.fetch_add(1, Relaxed);
                needs_no_more(&kernel, subgroup);
                Ok(kernel)
            }
            // Shuffles of 32 threads, and large blocks.
            Err(CompileError::Unsupported { .. } | CompileError::TooManyThreads { .. }) => {
                refused.fetch_add(1, Relaxed);
                Ok(kernel.clone())
            }
            Err(error) => Err(error),
        });
        let (lowered, refused) = (lowered.into_inner(), refused.into_inner());
        assert!(lowered > 2 * refused, "{lowered} lowered and {refused} refused for {subgroup} lanes");
    }
}

/// The kernel has no addresses, and shuffles among so many lanes alone.
fn needs_no_more(kernel: &Kernel, subgroup: u32) {
    kernel.walk(|op, data| match data.kind {
        OpKind::Shuffle(mode) if subgroup < 32 => {
            let by = kernel.as_const(data.lane()).map(Literal::as_i128);
            let near = mode == ShuffleMode::Xor && by.is_some_and(|by| by < subgroup.into());
            assert!(near, "{} for {subgroup} lanes", kernel.op_text(op));
        }
        OpKind::Scratch { .. } => assert!(!kernel.ty(data.results[0]).is_scalar()),
        _ => {
            let word = data.kind.mnemonic();
            assert!(!word.contains("ptr_") && !word.contains("address"), "{}", kernel.op_text(op));
        }
    });
}

/// Kernels with which a GPU gave something else than the interpreter.
#[test]
fn what_was_found_on_a_gpu_does_what_it_did() {
    let interp = Interp::new(kiln_interp::Options::default());
    for text in [
        include_str!("../../kiln-fuzz/found/1000872.kir"),
        include_str!("../../kiln-fuzz/found/302318.kir"),
        include_str!("../../kiln-fuzz/found/1303114.kir"),
        include_str!("../../kiln-fuzz/found/201286.kir"),
    ] {
        let case = Case::read(text).unwrap();
        let expected = run(&case, &interp).unwrap();
        let lowered = run(&case.with(for_gpu(&case.kernel).unwrap()), &interp).unwrap();
        assert_eq!(difference(&expected, &lowered, 0.0), None, "{}", case.kernel.name);
    }
}

#[test]
fn kernels_for_a_gpu_do_what_they_did() {
    lowered_as_before(for_gpu);
}

/// A program ends with its first fault, wherever it runs, and has done what stands before it; over
/// threads all reach an operation before any reaches the next one.
#[test]
fn the_cpu_faults_where_the_interpreter_does() {
    let (interp, cpu) = (Interp::new(Default::default()), CpuBackend::with_threads(1));
    let reference = |case: &Case| run(case, &interp).map_err(|e| e.to_string());
    let tested = |case: &Case| run(case, &cpu).map_err(|e| e.to_string());
    let options = |seed: u64| Options { faults: true, prints: seed.is_multiple_of(3), ..exact(seed) };
    compare(seeds(0..300), options, &reference, &tested).unwrap_or_else(|e| panic!("{e}"));
}

/// A program over tiles ends as a whole, with all of what comes before its fault and nothing else.
#[test]
fn code_for_a_gpu_faults_where_the_interpreter_does() {
    let trial = Trial::new(Tested::GpuCode { assemble: None });
    for seed in seeds(0..400) {
        let case = trial.case(Mode::Faults, seed);
        if let Some(difference) = trial.compare(&case).difference() {
            let (smaller, _) = trial.reduce(&case, &difference);
            panic!("seed {seed}: {difference}; reduced: {}\n{}", smaller.difference, smaller.case);
        }
    }
}

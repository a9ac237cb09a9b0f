//! Properties of random kernels.

use kiln_fuzz::Mode;
use kiln_fuzz::generate::{Options, generate};
use kiln_ir::{AsyncCopyOp, BinaryOp, CompareOp, Kernel, OpKind, Scalar, UnaryOp, parse, verify};
use std::collections::BTreeSet;

/// Every kernel is well-formed, and reads back as it was written.
#[test]
fn random_kernels_verify_and_round_trip() {
    for seed in 0..600 {
        let mut options = Options::new(seed % 2 == 1);
        options.faults = seed % 3 == 0;
        options.prints = seed % 5 == 0;
        options.exact = seed % 7 == 0;
        options.fault_regions = seed % 4 < 2;
        let mode = Mode::ALL[seed as usize % Mode::ALL.len()];
        for options in [options, mode.options(seed, seed % 3 == 0)] {
            check(seed, &options);
        }
    }
}

fn check(seed: u64, options: &Options) {
    let kernel = generate(seed, options).kernel;
    if let Err(errors) = verify(&kernel) {
        panic!("seed {seed}: {}\n{kernel}", errors[0]);
    }
    let text = kernel.to_string();
    let again = parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    assert_eq!(again.to_string(), text, "seed {seed}");
    assert_eq!(again.params, kernel.params, "seed {seed}");
    assert_eq!(verify(&again), Ok(()), "seed {seed}");
}

/// What random kernels have, as a table over all operations: a new one does not compile until it
/// says whether kernels are to have it, and if not, why.
macro_rules! coverage {
    (made { $($made:pat => $names:expr,)* } left_out { $($out:pat => $why:literal,)* }) => {
        /// The names of an operation that kernels must have, or why they do not have it.
        fn coverage(kind: &OpKind) -> Result<Vec<&'static str>, &'static str> {
            use OpKind::*;
            match kind {
                $($made => Ok($names),)*
                $($out => Err($why),)*
            }
        }

        fn made() -> Vec<&'static str> {
            [$($names),*].concat()
        }
    };
}

coverage! {
    made {
        Const(_) => vec!["const"],
        Iota => vec!["iota"],
        ProgramId(_) => vec!["program_id"],
        NumPrograms(_) => vec!["num_programs"],
        ThreadId(_) => vec!["thread_id"],
        BlockDim(_) => vec!["block_dim"],
        Unary(_) => UnaryOp::ALL.iter().map(|op| op.name()).collect(),
        Binary(_) => BinaryOp::ALL.iter().map(|op| op.name()).collect(),
        Compare(_) => CompareOp::ALL.iter().map(|op| op.name()).collect(),
        Select => vec!["select"],
        Fma => vec!["fma"],
        Cast => vec!["cast"],
        Bitcast => vec!["bitcast"],
        Broadcast => vec!["broadcast"],
        Reshape => vec!["reshape"],
        Transpose(_) => vec!["transpose"],
        Reduce { .. } => vec!["reduce"],
        Scan { .. } => vec!["scan"],
        Dot(_) => vec!["dot"],
        Extent(_) => vec!["extent"],
        Stride(_) => vec!["stride"],
        Alloc { .. } => vec!["alloc"],
        Load(_) => vec!["load"],
        Store { .. } => vec!["store"],
        Gather { .. } => vec!["gather"],
        Scatter { .. } => vec!["scatter"],
        Atomic { .. } => vec!["atomic"],
        AtomicCas { .. } => vec!["atomic_cas"],
        Fence(_) => vec!["fence"],
        OrderedLoad { .. } => vec!["ordered_load"],
        OrderedStore { .. } => vec!["ordered_store"],
        Barrier => vec!["barrier"],
        Shuffle(_) => vec!["shuffle"],
        WarpBarrier => vec!["warp_barrier"],
        Vote(_) => vec!["vote"],
        BlockUniform => vec!["block_uniform"],
        AsyncCopy(AsyncCopyOp::Commit | AsyncCopyOp::Wait { .. }) => vec!["cp_async_commit", "cp_async_wait"],
        If => vec!["if"],
        For => vec!["for"],
        While => vec!["while"],
        Yield => vec!["yield"],
        Condition => vec!["condition"],
        FaultRegion => vec!["fault_region"],
        Assert(_) => vec!["assert"],
        Print(_) => vec!["print"],
    }
    left_out {
        LoadQuad(_) | StoreQuad(_) => "whole only where other programs write meanwhile; `clusters` in the suite",
        Atomic128 { .. } => "GPUs of two generations lack it; `atomics` in the suite",
        Clock(_) => "no two runs read the same",
        Sleep => "does nothing that memory shows",
        InlinePtx(_) => "NVIDIA GPUs alone; `inline_ptx` in the suite",
        GridBarrier => "all blocks run side by side; `grid` in the suite",
        AsyncCopy(AsyncCopyOp::Copy { .. }) => "made by the lowering to threads alone",
        Cluster(_) => "blocks of a cluster run side by side; `clusters` in the suite",
        Explicit(_) => "needs an order that a random kernel has not; `explicit` in the suite",
        Fragment(_) | Address | Scratch { .. } => "made by the lowering to threads alone",
        Linear { .. } => "made by the lowering to threads alone",
        PtrLoad { .. } | PtrStore { .. } | PtrAtomic { .. } => "made by the lowering to threads alone",
        PtrAtomicCas { .. } | PtrOrderedLoad { .. } => "made by the lowering to threads alone",
        PtrAtomic128 { .. } | PtrOrderedStore { .. } | CheckBounds | CheckDivisor => "made by the lowering to threads alone",
        BlockCheck(_) | DeferFault { .. } | Faulted => "made by the lowering to threads alone",
    }
}

/// The kernels of all modes together have every operation that a front end makes and that means the
/// same in every run, and views of every element type.
#[test]
fn random_kernels_cover_the_operations() {
    let (mut seen, mut elems) = (BTreeSet::new(), BTreeSet::new());
    let mut look = |kernel: &Kernel| {
        elems.extend(kernel.params.iter().map(|p| p.ty.elem()));
        kernel.walk(|_, data| match coverage(&data.kind) {
            Ok(_) => {
                seen.insert(data.kind.mnemonic());
            }
            Err(why) => panic!("{}, which was left out: {why}", data.kind.mnemonic()),
        });
    };
    for seed in 0..400 {
        Mode::ALL.iter().for_each(|mode| look(&generate(seed, &mode.options(seed, false)).kernel));
        // Operations that are not exact.
        look(&generate(seed, &Options::new(seed % 2 == 1)).kernel);
    }
    let missing: Vec<&str> = made().into_iter().filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let missing: Vec<Scalar> = Scalar::ALL.into_iter().filter(|elem| !elems.contains(elem)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

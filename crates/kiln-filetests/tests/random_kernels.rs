//! Properties of random kernels.

use kiln_fuzz::generate::{Options, generate};
use kiln_ir::{parse, verify};

/// Every kernel is well-formed, and reads back as it was written.
#[test]
fn random_kernels_verify_and_round_trip() {
    for seed in 0..600 {
        let mut options = Options::new(seed % 2 == 1);
        options.faults = seed % 3 == 0;
        options.prints = seed % 5 == 0;
        options.exact = seed % 7 == 0;
        options.guards = seed % 4 < 2;
        let kernel = generate(seed, &options).kernel;
        if let Err(errors) = verify(&kernel) {
            panic!("seed {seed}: {}\n{kernel}", errors[0]);
        }
        let text = kernel.to_string();
        let again = parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!(again.to_string(), text, "seed {seed}");
        assert_eq!(again.params, kernel.params, "seed {seed}");
        assert_eq!(verify(&again), Ok(()), "seed {seed}");
    }
}

/// The kernels use every operation that a front end can make.
#[test]
fn random_kernels_cover_the_operations() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..600 {
        let mut options = Options::new(seed % 2 == 1);
        options.prints = true;
        options.guards = seed % 4 == 0;
        generate(seed, &options).kernel.walk(|_, data| {
            seen.insert(data.kind.mnemonic());
        });
    }
    let all = "const iota program_id num_programs thread_id block_dim select fma cast bitcast broadcast reshape \
               transpose reduce scan dot extent stride alloc load store gather scatter atomic atomic_cas fence barrier \
               shuffle vote block_uniform ordered_load ordered_store if for while guard yield condition assert print neg not abs exp exp2 log log2 sqrt rsqrt recip sin \
               cos tanh erf sigmoid floor ceil round trunc popcount clz is_nan add sub mul div rem min max and or xor shl \
               shr pow atan2 eq ne lt le gt ge";
    let missing: Vec<&str> = all.split_whitespace().filter(|m| !seen.contains(m)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

//! The code for GPUs with its threads in random orders: it gives the same results in all of them,
//! and without one of its barriers it does not.

use kiln_compiler::{Target, pipeline};
use kiln_fuzz::{Case, run::run};
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, Literal, parse};

/// Within so many seeds a missing barrier shows.
const SEEDS: u64 = 32;

/// Sums of a tile in a loop: warps exchange theirs through scratch memory.
const SUMS: &str = "kernel @sums(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) tile {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %3 = const 3 : i64
  %t = load %x[%0] pad %0 : i64[512]
  %s = for %i = %0 to %3 step %1 carry (%c = %t) : i64[512] {
    %sum = reduce.sum %c axis 0 : i64
    %all = broadcast %sum : i64[512]
    %d = sub %all, %c : i64[512]
    yield %d
  }
  store %y[%0] = %s
}
";

fn lowered(text: &str) -> Kernel {
    pipeline::compile(&parse(text).unwrap(), &Target::cuda((9, 0), 227 << 10)).unwrap().kernel
}

/// What a kernel leaves in memory, in the order of a seed or in lockstep, without the sanitizer.
fn outcome(kernel: &Kernel, seed: Option<u64>) -> Vec<Vec<Literal>> {
    let case = Case::new(kernel.clone(), ["arg i64[512]: iota", "arg i64[512]: fill 7"].into_iter()).unwrap();
    run(&case, &Interp::new(Options { seed, ..Options::fast() })).unwrap().memory
}

/// The text without its `number`-th barrier.
fn without_barrier(text: &str, number: usize) -> String {
    let mut seen = 0;
    let keep = |line: &&str| {
        let barrier = line.trim() == "barrier";
        seen += usize::from(barrier);
        !(barrier && seen == number + 1)
    };
    text.lines().filter(keep).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_barrier_that_the_lowering_makes_is_missed() {
    let kernel = lowered(SUMS);
    let text = kernel.to_string();
    let right = outcome(&kernel, None);
    for seed in 0..2 * SEEDS {
        assert_eq!(outcome(&kernel, Some(seed)), right, "seed {seed}");
    }
    let barriers = text.lines().filter(|line| line.trim() == "barrier").count();
    assert!(barriers >= 2, "{text}");
    for number in 0..barriers {
        let broken = parse(&without_barrier(&text, number)).unwrap();
        let shows = (0..SEEDS).any(|seed| outcome(&broken, Some(seed)) != right);
        assert!(shows, "without barrier {number} of\n{text}");
    }
}

//! Each case of the suite as a test of its own, by name.

use kiln_conformance::{Case, Outcome, suite};
use kiln_runtime::{Capabilities, Device, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use std::cell::OnceCell;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cases, by the beginning of their names, that need a capability.
struct Need {
    cases: &'static str,
    /// Whether a device has it.
    there: fn(&Capabilities) -> bool,
    /// One of these a device says that does not.
    words: &'static [&'static str],
}

const NEEDS: [Need; 8] = [
    Need { cases: "explicit::", there: |has| has.explicit_level, words: &["explicit level"] },
    Need {
        cases: "clusters::",
        there: Capabilities::has_clusters,
        words: &["cluster's blocks", "of shared memory"],
    },
    Need {
        cases: "ordered::blocks_at_once",
        there: |has| has.concurrent_blocks,
        words: &["concurrent blocks"],
    },
    Need {
        cases: "supervision::handlers_may_take_nearly_as_long_as_a_stall",
        there: |has| has.concurrent_blocks,
        words: &["concurrent blocks"],
    },
    Need {
        cases: "grid::",
        there: |has| has.grid_barriers,
        words: &["`grid_barrier` of blocks that wait for each other"],
    },
    Need { cases: "warps::inline_ptx", there: |has| has.inline_ptx, words: &["`inline_ptx`"] },
    Need { cases: "atomics::of_128_bits", there: |has| has.atomic_128, words: &["`atomic_cas_128`"] },
    Need { cases: "faults::loops_that_do_not_end", there: |has| has.launch_limit, words: &["launch limit"] },
];

/// What the device must say when it skips the case, if it must.
fn skips(device: &Device, case: &Case) -> Option<&'static [&'static str]> {
    let lacks = |need: &&Need| case.name.starts_with(need.cases) && !(need.there)(device.capabilities());
    NEEDS.iter().find(lacks).map(|need| need.words)
}

/// How many cases run at a time.
#[allow(dead_code, reason = "each suite is a program of its own, and wants one of them")]
pub enum Threads {
    /// One: the device has threads of its own, or serves one at a time.
    One,
    /// As many as there are cores, or as `--test-threads` says.
    Cores,
}

thread_local! {
    /// This thread's device: cases of several threads do not share one, since a fault is reported
    /// to the next caller that synchronizes.
    static DEVICE: OnceCell<Device> = const { OnceCell::new() };
}

/// This thread's device, opened if it is not yet.
fn device(open: impl Fn() -> Result<Device>) -> Result<Device> {
    DEVICE.with(|own| match own.get() {
        Some(device) => Ok(device.clone()),
        None => {
            let opened = open()?;
            Ok(own.get_or_init(|| opened).clone())
        }
    })
}

/// Runs the cases of the suite whose names match. A case whose capability the device lacks must be
/// skipped by that name; any other skip is a failure. Tests of the program's `own` come first.
/// `KILN_SEED` repeats a run.
pub fn run(
    open: impl Fn() -> Result<Device> + Copy + Send + 'static,
    threads: Threads,
    wanted: impl Fn(&str) -> bool,
    own: Vec<Trial>,
) -> ExitCode {
    // What the suite measures and compiles is nothing for the user's cache, and what is kept there
    // must not decide what is tested.
    // SAFETY: the environment may be changed while no other thread reads or changes it. The `main`
    // of each suite calls this first, before devices and tests start threads.
    unsafe { std::env::set_var("KILN_CACHE_DIR", "") };
    let mut args = Arguments::from_args();
    if matches!(threads, Threads::One) {
        args.test_threads = Some(1);
    }
    let chosen = std::env::var("KILN_SEED").ok().and_then(|s| s.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seed = chosen.unwrap_or_else(now);
    let test = |case: Case| {
        Trial::test(case.name, move || {
            let device = device(open)?;
            match (case.run(&device, seed), skips(&device, &case)) {
                (Outcome::Skipped(what), Some(words)) if words.iter().any(|w| what.contains(w)) => Ok(()),
                (Outcome::Passed, Some(_)) => Err(Failed::from("was not skipped")),
                (Outcome::Passed, None) => Ok(()),
                (Outcome::Failed(why), _) => Err(Failed::from(why)),
                (Outcome::Skipped(what), _) => Err(Failed::from(format!("skipped for want of {what}"))),
            }
        })
    };
    let cases = suite().into_iter().filter(|case| wanted(case.name)).map(test);
    libtest_mimic::run(&args, own.into_iter().chain(cases).collect()).exit_code()
}

//! `kiln selftest`: the conformance suite on a device of this machine.

use crate::device::open_to_test;
use crate::failure::Failure;
use kiln_conformance::{Case, Outcome, suite, sweep};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a case that still runs is reported.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs the conformance suite on a device.
///
/// Prints a line for each case that fails, and for each that is skipped because the device lacks a
/// capability.
/// The last line is `N passed, N failed, N skipped`, and the exit status is 1 if a case failed. A
/// case that takes longer than 15 seconds is named on standard error while it runs. Programs and
/// choices are kept in a temporary folder, not in the user's cache.
#[derive(clap::Args)]
pub struct Args {
    /// The device: cuda:0, cpu, interp, interp:7 (threads in the order of seed 7), interp:gpu-code
    /// or interp:gpu-code:7 (the code for GPUs on the interpreter) [default: KILN_DEVICE, else the
    /// best one here]
    #[arg(long, short)]
    device: Option<String>,
    /// Runs only the cases whose names contain this text.
    #[arg(long, short)]
    filter: Option<String>,
    /// Leaves out the cases whose names contain this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    skip: Vec<String>,
    /// Runs the kernels of the library in many sizes, in place of the suite; takes minutes without
    /// a GPU.
    #[arg(long)]
    sweep: bool,
    /// Runs one part of the cases, so that several processes can share them: 2/4 is every fourth
    /// case, starting with the second.
    #[arg(long, value_name = "K/N", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Prints the names of the cases without running them.
    #[arg(long)]
    list: bool,
    /// Also prints a line for each case that passes, with its time in seconds.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// The seed of random inputs; the output names it [default: the current time in seconds]
    #[arg(long)]
    seed: Option<u64>,
}

/// Which cases of many: number `first` (from 0) of every `of`.
#[derive(Clone, Copy, Debug)]
struct Shard {
    first: usize,
    of: usize,
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let number = |text: &str| text.parse::<usize>().ok();
    match text.split_once('/').map(|(k, n)| (number(k), number(n))) {
        Some((Some(k), Some(of))) if 1 <= k && k <= of => Ok(Shard { first: k - 1, of }),
        _ => Err("a part is K/N with 1 <= K <= N, such as 2/4".into()),
    }
}

/// The variable that says where programs and choices are kept.
const CACHE_VARIABLE: &str = "KILN_CACHE_DIR";

/// A folder for this process's programs and choices, which goes when the suite is over: what the
/// suite measures and compiles is no use to the user's programs, and what they have kept must not
/// decide what is tested.
struct TemporaryCache(Option<PathBuf>);

impl TemporaryCache {
    /// Makes the folder and points [`CACHE_VARIABLE`] to it; without one, nothing is kept at all.
    /// Called before the first device is opened and before there is another thread.
    fn install() -> TemporaryCache {
        let path = std::env::temp_dir().join(format!("kiln-selftest-{}", std::process::id()));
        // Not a folder that another user may have put there.
        let folder = std::fs::create_dir(&path).ok().map(|()| path);
        let value = folder.as_deref().unwrap_or(Path::new(""));
        // SAFETY: the environment may be changed while no other thread reads or changes it. `main`
        // calls the command on the only thread of the process: nothing before has started one, and
        // devices, whose drivers do, are opened later.
        unsafe {
            std::env::set_var(CACHE_VARIABLE, value);
            // The driver's own cache of machine code.
            std::env::set_var("CUDA_CACHE_DISABLE", "1");
        }
        TemporaryCache(folder)
    }
}

impl Drop for TemporaryCache {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // What is left is in the system's folder for temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut cases = if args.sweep { sweep() } else { suite() };
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter.as_str()));
    }
    cases.retain(|case| !args.skip.iter().any(|text| case.name.contains(text.as_str())));
    if let Some(Shard { first, of }) = args.shard {
        cases = cases.into_iter().skip(first).step_by(of).collect();
    }
    if args.list && args.json {
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        writeln!(stdout(), "{:#}", json!({ "cases": names }))?;
        return Ok(());
    }
    if args.list {
        cases.iter().try_for_each(|case| writeln!(stdout(), "{}", case.name))?;
        return Ok(());
    }
    if cases.is_empty() {
        return Err(Failure::Usage("no case has such a name; `kiln selftest --list` prints all".into()));
    }
    let _cache = TemporaryCache::install();
    let device = open_to_test(args.device.as_deref())?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let seed = args.seed.unwrap_or_else(now);
    let started = Instant::now();
    let quiet = std::panic::take_hook();
    // A panic becomes the reason of a failing case.
    std::panic::set_hook(Box::new(|_| ()));
    let mut results = Vec::with_capacity(cases.len());
    for (i, case) in cases.iter().enumerate() {
        progress(i, cases.len(), case);
        let begun = Instant::now();
        let outcome = watched(case, || case.run(&device, seed));
        let ran = Ran { case, outcome, seconds: begun.elapsed().as_secs_f64() };
        if !args.json {
            report(&ran, args.verbose)?;
        }
        results.push(ran);
    }
    std::panic::set_hook(quiet);
    clear_progress();
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        writeln!(stdout(), "{:#}", to_json(&results, device.id(), seed, seconds))?;
    } else {
        writeln!(stdout(), "{} in {seconds:.1} s, seed {seed}", device.properties().name)?;
        let [passed, failed, skipped] = counts(&results);
        writeln!(stdout(), "{passed} passed, {failed} failed, {skipped} skipped")?;
    }
    if counts(&results)[1] > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// A case that has run.
struct Ran<'a> {
    case: &'a Case,
    outcome: Outcome,
    seconds: f64,
}

/// Runs a case, and says on standard error that it still runs whenever it has taken [`PATIENCE`]
/// once more: a device that never answers is found by the name of the case.
fn watched(case: &Case, run: impl FnOnce() -> Outcome) -> Outcome {
    let (done, watch) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            while watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                clear_progress();
                let _ = writeln!(stderr(), "{} still runs after {} s", case.name, begun.elapsed().as_secs());
            }
        });
        let outcome = run();
        drop(done);
        outcome
    })
}

fn report(ran: &Ran<'_>, verbose: bool) -> std::io::Result<()> {
    let name = ran.case.name;
    let line = match &ran.outcome {
        Outcome::Passed if !verbose => return Ok(()),
        Outcome::Passed => format!("passed: {name} ({:.2} s)", ran.seconds),
        Outcome::Failed(why) => format!("failed: {name}: {}", why.replace('\n', "\n    ")),
        Outcome::Skipped(what) => format!("skipped: {name}: {what}"),
    };
    clear_progress();
    writeln!(stdout(), "{line}")
}

fn counts(results: &[Ran<'_>]) -> [usize; 3] {
    let mut counts = [0; 3];
    for ran in results {
        counts[match ran.outcome {
            Outcome::Passed => 0,
            Outcome::Failed(_) => 1,
            Outcome::Skipped(_) => 2,
        }] += 1;
    }
    counts
}

fn to_json(results: &[Ran<'_>], device: &str, seed: u64, seconds: f64) -> Value {
    let [passed, failed, skipped] = counts(results);
    let case = |ran: &Ran<'_>| {
        let (outcome, reason) = match &ran.outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(why) => ("failed", Some(why)),
            Outcome::Skipped(what) => ("skipped", Some(what)),
        };
        json!({ "name": ran.case.name, "outcome": outcome, "reason": reason, "seconds": ran.seconds })
    };
    json!({
        "device": device,
        "seed": seed,
        "seconds": seconds,
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "cases": results.iter().map(case).collect::<Vec<_>>(),
    })
}

/// Shows the case that runs, where someone may be watching.
fn progress(done: usize, all: usize, case: &Case) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K{done}/{all} {}", case.name);
    }
}

fn clear_progress() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}

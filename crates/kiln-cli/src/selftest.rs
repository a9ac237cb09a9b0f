//! `kiln selftest`: the conformance suite on a device of this machine.

use crate::device::open;
use crate::failure::Failure;
use kiln_conformance::{Case, Outcome, suite, sweep};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Runs the conformance suite on a device.
///
/// Prints a line for each case that fails and for each that is skipped for want of a capability. The last line is
/// `N passed, N failed, N skipped`, and the exit status is 1 if a case failed.
#[derive(clap::Args)]
pub struct Args {
    /// The device: cuda:0, cpu, interp [default: KILN_DEVICE, else the best one here]
    #[arg(long, short)]
    device: Option<String>,
    /// Runs only the cases whose names contain this.
    #[arg(long, short)]
    filter: Option<String>,
    /// Runs cases of any sizes, large ones too, in place of the suite: minutes without a GPU.
    #[arg(long)]
    sweep: bool,
    /// Prints the names of the cases and runs nothing.
    #[arg(long)]
    list: bool,
    /// Prints one object of JSON.
    #[arg(long)]
    json: bool,
    /// The random input; a failure names it [default: the time]
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut cases = if args.sweep { sweep() } else { suite() };
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter.as_str()));
    }
    if args.list {
        cases.iter().try_for_each(|case| writeln!(stdout(), "{}", case.name))?;
        return Ok(());
    }
    if cases.is_empty() {
        return Err(Failure::Usage("no case has such a name; `kiln selftest --list` prints all".into()));
    }
    let device = open(args.device.as_deref())?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let seed = args.seed.unwrap_or_else(now);
    let started = Instant::now();
    let quiet = std::panic::take_hook();
    // A panic becomes the reason of a failing case.
    std::panic::set_hook(Box::new(|_| ()));
    let mut results = Vec::with_capacity(cases.len());
    for (i, case) in cases.iter().enumerate() {
        progress(i, cases.len(), case);
        let outcome = case.run(&device, seed);
        if !args.json {
            report(case, &outcome)?;
        }
        results.push((case, outcome));
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

fn report(case: &Case, outcome: &Outcome) -> std::io::Result<()> {
    let (word, why) = match outcome {
        Outcome::Passed => return Ok(()),
        Outcome::Failed(why) => ("failed", why),
        Outcome::Skipped(what) => ("skipped", what),
    };
    clear_progress();
    writeln!(stdout(), "{word}: {}: {}", case.name, why.replace('\n', "\n    "))
}

fn counts(results: &[(&Case, Outcome)]) -> [usize; 3] {
    let mut counts = [0; 3];
    for (_, outcome) in results {
        counts[match outcome {
            Outcome::Passed => 0,
            Outcome::Failed(_) => 1,
            Outcome::Skipped(_) => 2,
        }] += 1;
    }
    counts
}

fn to_json(results: &[(&Case, Outcome)], device: &str, seed: u64, seconds: f64) -> Value {
    let [passed, failed, skipped] = counts(results);
    let case = |(case, outcome): &(&Case, Outcome)| match outcome {
        Outcome::Passed => json!({ "name": case.name, "outcome": "passed" }),
        Outcome::Failed(why) => json!({ "name": case.name, "outcome": "failed", "reason": why }),
        Outcome::Skipped(what) => json!({ "name": case.name, "outcome": "skipped", "reason": what }),
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

//! Each case of the suite as a test of its own, by name.

use kiln_conformance::{Case, Outcome, suite};
use kiln_runtime::{BackendKind, Device, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

fn skips_explicit(device: &Device, case: &Case) -> bool {
    device.properties().kind == BackendKind::Cpu && case.name.starts_with("explicit::")
}

/// Runs the cases of the suite whose names are wanted on a device that must have every capability: here a skip is a failure, except that a CPU must skip the explicit level, by name.
/// `KILN_SEED` repeats a run.
pub fn run(device: Result<Device>, wanted: impl Fn(&str) -> bool) -> ExitCode {
    let mut args = Arguments::from_args();
    // Cases share the device, and a fault is reported to whoever asks next.
    args.test_threads = Some(1);
    let device = match device {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = std::env::var("KILN_SEED").ok().and_then(|s| s.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seed = chosen.unwrap_or_else(now);
    let test = |case: Case| {
        let device = device.clone();
        Trial::test(case.name, move || match case.run(&device, seed) {
            Outcome::Skipped(what) if skips_explicit(&device, &case) && what.contains("explicit level") => {
                Ok(())
            }
            Outcome::Passed if skips_explicit(&device, &case) => Err(Failed::from("was not skipped")),
            Outcome::Passed => Ok(()),
            Outcome::Failed(why) => Err(Failed::from(why)),
            Outcome::Skipped(what) => Err(Failed::from(format!("skipped for want of {what}"))),
        })
    };
    libtest_mimic::run(&args, suite().into_iter().filter(|case| wanted(case.name)).map(test).collect())
        .exit_code()
}

//! `kiln sanitize`: a program of the user's on the interpreter, whose sanitizer looks for errors.

use crate::failure::Failure;
use crate::program;
use crate::records::{Temporary, no_device};
use kiln_runtime::{REPORTS_VARIABLE, SANITIZE_VARIABLE};
use serde_json::json;
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Runs a program and reports what its kernels do wrong.
///
/// The program needs no changes: whatever devices it opens, it gets the interpreter, whose
/// sanitizer finds accesses out of bounds or misaligned, reads of memory that nothing has written,
/// races between threads and between blocks, and barriers and shuffles that threads reach in part.
/// A report has the source lines of both parties. Each launch ends with its first error. Kernels
/// run a hundred to a thousand times slower than on the CPU.
///
/// The last line is `N reports`, and the exit status is 1 if there are any, or if the program
/// itself fails. A kernel that is refused before it runs has no report: its launch is an error,
/// which the program gets.
#[derive(clap::Args)]
pub struct Args {
    /// Runs the threads of each block in a random order between two barriers, which follows from
    /// this seed, instead of in lockstep
    #[arg(long)]
    seed: Option<u64>,
    /// Prints one JSON object; what the program prints goes to standard error
    #[arg(long)]
    json: bool,
    /// The program, such as target/release/train
    program: PathBuf,
    /// What the program is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let file = Temporary::new("sanitize", "")?;
    let status = run_program(args, file.path())?;
    let records = file.records()?;
    let of_kind = |kind: char| records.iter().filter_map(move |record| record.strip_prefix(kind));
    if of_kind('d').next().is_none() {
        return Err(no_device(&args.program, status));
    }
    let reports: Vec<(&str, usize)> = counted(of_kind('r'));
    let count: usize = reports.iter().map(|(_, times)| times).sum();
    let printed = if args.json {
        let list: Vec<_> =
            reports.iter().map(|(text, times)| json!({ "text": text, "times": times })).collect();
        let (code, signal) = (status.code(), program::signal(status));
        let all = json!({ "reports": list, "count": count, "status": code, "signal": signal });
        writeln!(stdout(), "{all:#}")
    } else {
        print(&reports, count, status)
    };
    match printed {
        // A reader that has seen enough does not make a wrong program right.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ if count > 0 || !status.success() => Err(Failure::Reported),
        _ => Ok(()),
    }
}

fn run_program(args: &Args, reports: &Path) -> Result<ExitStatus, Failure> {
    let device = args.seed.map_or_else(|| "interp".to_owned(), |seed| format!("interp:{seed}"));
    let mut command = Command::new(&args.program);
    command.args(&args.arguments).env(SANITIZE_VARIABLE, device).env(REPORTS_VARIABLE, reports);
    // The interpreter takes no packages, and would refuse every kernel.
    command.env_remove("KILN_PACKAGE_ONLY");
    if args.json {
        command.stdout(Stdio::from(stderr()));
    }
    program::run(&mut command, &args.program)
}

/// Each text once, in the order of their first, and how often it is there.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for text in texts {
        match counted.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => counted.push((text, 1)),
        }
    }
    counted
}

fn print(reports: &[(&str, usize)], count: usize, status: ExitStatus) -> std::io::Result<()> {
    let mut out = stdout().lock();
    // The program's last line may lack its end.
    writeln!(out)?;
    for (text, times) in reports {
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        writeln!(out, "{text}{times}")?;
    }
    if !status.success() {
        writeln!(out, "the program ended with {status}")?;
    }
    writeln!(out, "{count} report{}", if count == 1 { "" } else { "s" })
}

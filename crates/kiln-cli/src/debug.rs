//! `kiln debug`: a program of the user's on the interpreter, stopped at breakpoints.

use crate::failure::Failure;
use crate::program;
use crate::records::{Temporary, no_device};
use kiln_runtime::{COMMANDS_VARIABLE, DEBUG_VARIABLE, REPORTS_VARIABLE};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Runs a program and stops its kernels at breakpoints, to look at values and to step.
///
/// The program needs no changes: whatever devices it opens, it gets the interpreter. When it opens
/// the first one, commands are read from the terminal, also where the program reads standard input
/// or its output goes elsewhere:
///
/// break FILE:LINE | LINE | KERNEL, delete, run, continue, step, next, finish, `print NAME[SLICE]`,
/// info locals | args | break | threads, where, list, block N, thread N, directory, quit. `help`
/// prints them with their short forms.
///
/// A fault stops where it happens. The exit status is the program's, or 0 after `quit`; 1 if the
/// program opens no device.
#[derive(clap::Args)]
pub struct Args {
    /// Reads the commands from a file or a pipe (/dev/stdin), and prints them and their output to
    /// standard output; after the last one the program runs to its end
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Runs the threads of each block in a random order between two barriers, which follows from
    /// this seed, instead of in lockstep
    #[arg(long)]
    seed: Option<u64>,
    /// The program, such as target/debug/train
    program: PathBuf,
    /// What the program is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let device = args.seed.map_or_else(|| "interp".to_owned(), |seed| format!("interp:{seed}"));
    let records = Temporary::new("debug", "")?;
    let mut command = Command::new(&args.program);
    command.args(&args.arguments).env(DEBUG_VARIABLE, device).env(REPORTS_VARIABLE, records.path());
    // The interpreter takes no packages, and would refuse every kernel.
    command.env_remove(COMMANDS_VARIABLE).env_remove("KILN_PACKAGE_ONLY");
    // Read here: the program may run in another folder, has no part in a pipe, and would only say
    // later that there is no file.
    let commands = args.commands.as_deref().map(copy).transpose()?;
    if let Some(commands) = &commands {
        command.env(COMMANDS_VARIABLE, commands.path());
    } else if cfg!(unix) && std::fs::File::open("/dev/tty").is_err() {
        let message =
            "there is no terminal to read commands from: give them in a file, with `--commands FILE`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let status = program::run(&mut command, &args.program)?;
    if !records.records()?.iter().any(|record| record.starts_with('d')) {
        return Err(no_device(&args.program, status));
    }
    if status.success() { Ok(()) } else { Err(Failure::Program(exit_code(status))) }
}

/// The exit status of the program, as a shell gives it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = program::signal(status).map(|signal| 128 + signal).or(status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The commands of a file, which may be a pipe, in a file that the program can read.
fn copy(file: &Path) -> Result<Temporary, Failure> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|source| Failure::File { path: file.to_owned(), source })?;
    Temporary::new("debug-commands", &text)
}

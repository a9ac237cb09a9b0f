//! The `kiln` command.
//!
//! | file | holds |
//! |---|---|
//! | `doctor.rs`, `doctor/` | what is here, what is missing and how to get it |
//! | `bench/` | measurements |
//! | `compile.rs` | the stages of a kernel, from IR text |
//! | `cache.rs` | the programs kept on disk |
//! | `package.rs` | the kernels of a program of the user's, compiled into a file |
//! | `fuzz.rs`, `fuzz/` | random kernels, compared with the interpreter |
//! | `accuracy.rs`, `accuracy/` | errors of mathematical functions |
//! | `debug.rs` | a program of the user's under the debugger |
//! | `program.rs` | a program of the user's, which a command runs |
//! | `records.rs` | what programs under `sanitize` and `debug` write down |
//! | `sanitize.rs` | a program of the user's under the sanitizer |
//! | `selftest.rs` | the conformance suite on a device |
//! | `ring.rs`, `ring/` | the actors of running programs |
//! | `device.rs` | the device that a command works on |
//! | `failure.rs` | how a command ends that did not succeed |
//! | `units.rs` | numbers for people |

mod accuracy;
mod bench;
mod cache;
mod compile;
mod debug;
mod device;
mod doctor;
mod failure;
mod fuzz;
mod package;
mod program;
mod records;
mod ring;
mod sanitize;
mod selftest;
mod units;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// What `--help` says after the commands.
const CONVENTIONS: &str = "\
Exit status:
  0  done
  1  it failed: a device is missing, a case failed, kernels differ, a file cannot be read
  2  the command line is wrong, or names a device, row or case that does not exist
That of debug is the program's, or 1 if it opens no device.

Every command but debug has --json, which prints one JSON document to standard output. Progress and errors go to
standard error.";

/// Compiles and runs GPU kernels written in Rust.
#[derive(Parser)]
#[command(name = "kiln", version, arg_required_else_help = true, after_help = CONVENTIONS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Doctor(doctor::Args),
    Bench(bench::Args),
    Selftest(selftest::Args),
    Fuzz(fuzz::Args),
    Accuracy(accuracy::Args),
    Sanitize(sanitize::Args),
    Debug(debug::Args),
    Compile(compile::Args),
    Package(package::Args),
    Cache(cache::Args),
    Ring(ring::Args),
}

fn main() -> ExitCode {
    kiln_runtime::isolate::init();
    let outcome = match Cli::parse().command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Sanitize(args) => sanitize::run(&args),
        Command::Debug(args) => debug::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Package(args) => package::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Ring(args) => ring::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (`| head`) is no failure.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                eprintln!("kiln: {message}");
            }
            failure.code()
        }
    }
}

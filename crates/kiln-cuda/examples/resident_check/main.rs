//! Checks, on a machine with an NVIDIA GPU, what a resident kernel does to everything else,
//! and measures how fast it is spoken to. The last line is `ok`; anything else is a failure, and
//! the exit status says so too.
//!
//! ```text
//! cargo run --release -p kiln-cuda --example resident_check [stalls] [mailbox] [backend] [peers]
//! ```
//!
//! `stalls` runs in two processes of its own, since the driver's mode of loading modules is chosen
//! once a process.

mod backend;
mod mailbox;
mod peers;
mod rig;
mod stalls;

use rig::{Outcome, Rig};
use std::process::{Command, ExitCode};

/// Set in the processes that measure stalls.
const STALLS: &str = "KILN_CHECK_STALLS";

fn main() -> ExitCode {
    let outcome = match std::env::var_os(STALLS) {
        Some(_) => Rig::new().and_then(|rig| stalls::measure(&rig)),
        None => check_all(),
    };
    match outcome {
        Ok(()) => {
            println!("ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check_all() -> Outcome {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let mut failed = Vec::new();
    let mut run = |name: &str, check: &dyn Fn() -> Outcome| {
        if let Err(error) = check() {
            println!("FAILED: {name}: {error}");
            failed.push(name.to_owned());
        }
    };
    if wanted("stalls") {
        for mode in ["LAZY", "EAGER"] {
            run(&format!("stalls, {mode}"), &|| stalls_in_a_process(mode));
        }
    }
    if wanted("mailbox") {
        run("mailbox", &|| mailbox::measure(&Rig::new()?));
    }
    if wanted("backend") {
        run("backend", &backend::check);
    }
    if wanted("peers") {
        run("peers", &peers::check);
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ").into()) }
}

fn stalls_in_a_process(mode: &str) -> Outcome {
    println!("\nbeside a resident kernel, CUDA_MODULE_LOADING={mode}:");
    let program = std::env::current_exe()?;
    let status = Command::new(program).env(STALLS, "1").env("CUDA_MODULE_LOADING", mode).status()?;
    if status.success() { Ok(()) } else { Err(format!("the process ended with {status}").into()) }
}

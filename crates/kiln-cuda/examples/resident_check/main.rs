//! Checks, on a machine with an NVIDIA GPU, what a resident kernel does to everything else,
//! and measures how fast it is spoken to. The last line is `ok`; anything else is a failure, and
//! the exit status says so too.
//!
//! ```text
//! cargo run --release -p kiln-cuda --example resident_check [CHECK]...
//! ```
//!
//! The checks are `stalls`, `streams`, `room`, `lanes`, `mailbox`, `backend` and `peers`, by
//! default all.
//! `stalls` and `streams` run in processes of their own, since the driver's mode of loading modules
//! and the number of its queues are chosen once a process.

mod backend;
mod lanes;
mod mailbox;
mod peers;
mod rig;
mod room;
mod stalls;
mod streams;

use rig::{Outcome, Rig};
use std::process::{Command, ExitCode};

/// Set in the processes of one check: `stalls`, or a part of `streams`.
const ALONE: &str = "KILN_CHECK_ALONE";

fn main() -> ExitCode {
    let outcome = match std::env::var(ALONE).as_deref() {
        Ok(alone) if streams::PARTS.contains(&alone) => {
            Rig::new().and_then(|rig| streams::measure(&rig, alone))
        }
        Ok(_) => Rig::new().and_then(|rig| stalls::measure(&rig)),
        Err(_) => check_all(),
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
            run(&format!("stalls, {mode}"), &|| in_a_process("stalls", "CUDA_MODULE_LOADING", mode));
        }
    }
    if wanted("streams") {
        for queues in ["8", "32"] {
            for part in streams::PARTS {
                run(&format!("streams, {queues}, {part}"), &|| {
                    in_a_process(part, "CUDA_DEVICE_MAX_CONNECTIONS", queues)
                });
            }
        }
    }
    if wanted("room") {
        run("room", &|| room::measure(&Rig::new()?));
    }
    if wanted("lanes") {
        run("lanes", &|| lanes::check(&Rig::new()?));
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

fn in_a_process(check: &str, variable: &str, value: &str) -> Outcome {
    println!("\n{check}, beside a resident kernel, {variable}={value}:");
    let program = std::env::current_exe()?;
    let status = Command::new(program).env(ALONE, check).env(variable, value).status()?;
    if status.success() { Ok(()) } else { Err(format!("the process ended with {status}").into()) }
}

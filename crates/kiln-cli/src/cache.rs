//! `kiln cache`: the programs and choices kept on disk.

use crate::failure::Failure;
use crate::units::{bytes, count};
use clap::Subcommand;
use kiln_runtime::DiskCache;
use serde_json::json;
use std::io::Write as _;

/// Shows or clears the compiled programs and tuning choices on disk.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// Prints one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the folder, the number of programs and choices, and the size of the programs.
    Stats,
    /// Prints the tuning choices: Kiln's version, the device, its driver and compiler, the question
    /// and the choice.
    Choices,
    /// Removes all programs and choices. Programs are compiled again when they are needed; choices
    /// are made again where there is a tuning budget.
    Clear,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let cache = DiskCache::from_env();
    let mut out = std::io::stdout().lock();
    let (programs, size) = cache.usage();
    let choices = cache.choices();
    if let Action::Clear = args.action {
        cache.clear()?;
    }
    if args.json {
        // After `clear`, what was removed.
        let found =
            json!({ "folder": cache.folder(), "programs": programs, "bytes": size, "choices": choices });
        writeln!(out, "{found:#}")?;
        return Ok(());
    }
    let Some(folder) = cache.folder() else {
        writeln!(out, "there is no cache: set KILN_CACHE_DIR or HOME")?;
        return Ok(());
    };
    let content = format!(
        "{}, {}, {}",
        count(programs as u64, "program"),
        bytes(size),
        count(choices.len() as u64, "choice")
    );
    match args.action {
        Action::Stats => writeln!(out, "{}: {content}", folder.display())?,
        Action::Choices => {
            for choice in choices {
                writeln!(out, "{}", choice.replace('\n', " | "))?;
            }
        }
        Action::Clear => writeln!(out, "{}: removed {content}", folder.display())?,
    }
    Ok(())
}

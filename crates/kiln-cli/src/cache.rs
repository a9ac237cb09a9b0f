//! `kiln cache`: the programs kept on disk.

use crate::failure::Failure;
use crate::units::{bytes, count};
use clap::Subcommand;
use kiln_runtime::DiskCache;
use std::io::Write as _;

/// Shows or clears the compiled programs that are kept on disk.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Says where they are, how many and how large.
    Stats,
    /// Removes them all; they are compiled again when they are needed.
    Clear,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let cache = DiskCache::from_env();
    let mut out = std::io::stdout().lock();
    let Some(folder) = cache.folder() else {
        writeln!(out, "there is no cache: set KILN_CACHE_DIR or HOME")?;
        return Ok(());
    };
    let (programs, size) = cache.usage();
    let content = format!("{}, {}", count(programs as u64, "program"), bytes(size));
    match args.action {
        Action::Stats => writeln!(out, "{}: {content}", folder.display())?,
        Action::Clear => {
            cache.clear()?;
            writeln!(out, "{}: removed {content}", folder.display())?;
        }
    }
    Ok(())
}

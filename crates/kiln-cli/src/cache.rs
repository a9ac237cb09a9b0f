//! `kiln cache`: the programs and choices kept on disk.

use crate::failure::Failure;
use crate::units::{bytes, count};
use clap::Subcommand;
use kiln_runtime::{DiskCache, Exchanged, parse_cache_size};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

/// Shows, prunes, exports or clears the compiled programs and tuning choices on disk.
///
/// The programs have at most 4 GiB, or what KILN_CACHE_SIZE says; those that were not used for
/// longest go first.
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
    /// Prints the folder, the number of programs and choices, the size of the programs, and the
    /// most that they may have.
    Stats,
    /// Prints the tuning choices: Kiln's version, the device, its driver and compiler, the question
    /// and the choice.
    Choices,
    /// Removes programs that were not used for some time, or as many as it takes to come down to a
    /// size, those that were not used for longest first.
    Prune {
        /// Removes what was not used for so long: 30d, 12h
        #[arg(long, value_name = "TIME")]
        unused: Option<String>,
        /// Removes what is more than this: 500MB, 2GiB
        #[arg(long, value_name = "SIZE")]
        to: Option<String>,
    },
    /// Writes all programs and choices into one file.
    Export {
        /// The file to write
        file: PathBuf,
    },
    /// Adds the programs and choices of a file that was exported. Those for another device, driver
    /// or version of Kiln are kept too, and used where they fit.
    Import {
        /// The file to read
        file: PathBuf,
    },
    /// Removes all programs and choices. Programs are compiled again when they are needed; choices
    /// are made again where there is a tuning budget.
    Clear,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let cache = DiskCache::from_env()?;
    let mut out = std::io::stdout().lock();
    let (programs, size) = cache.usage();
    let choices = cache.choices();
    let Some(folder) = cache.folder() else {
        return Err(Failure::Wrong("there is no cache: set KILN_CACHE_DIR or HOME".to_owned()));
    };
    let content = format!(
        "{}, {}, {}",
        count(programs as u64, "program"),
        bytes(size),
        count(choices.len() as u64, "choice")
    );
    let place = folder.display();
    // What it says to people, and the part of the JSON object that is the action's own.
    let (text, done) = match &args.action {
        Action::Stats => {
            let most = cache
                .limit()
                .map_or_else(|| "no limit".to_owned(), |most| format!("at most {}", bytes(most)));
            (format!("{place}: {content}; {most}\n"), json!(null))
        }
        Action::Choices => {
            (choices.iter().map(|choice| choice.replace('\n', " | ") + "\n").collect(), json!(null))
        }
        Action::Prune { unused, to } => {
            let (gone, freed) = prune(&cache, unused.as_deref(), to.as_deref())?;
            let text = format!("{place}: removed {}, {}\n", count(gone, "program"), bytes(freed));
            (text, json!({ "programs": gone, "bytes": freed }))
        }
        Action::Export { file } => exchanged("exported", cache.export(file)?),
        Action::Import { file } => exchanged("imported", cache.import(file)?),
        Action::Clear => {
            cache.clear()?;
            (format!("{place}: removed {content}\n"), json!(null))
        }
    };
    if args.json {
        // What there was before the command did anything.
        let found = json!({
            "folder": folder,
            "programs": programs,
            "bytes": size,
            "cap": cache.limit(),
            "choices": choices,
            "done": done,
        });
        writeln!(out, "{found:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}

fn prune(cache: &DiskCache, unused: Option<&str>, to: Option<&str>) -> Result<(u64, u64), Failure> {
    if unused.is_none() && to.is_none() {
        return Err(Failure::Usage("say what to remove: --unused 30d, or --to 500MB".to_owned()));
    }
    let time = unused.map(humantime::parse_duration).transpose();
    let time = time.map_err(|error| Failure::Usage(format!("--unused: {error}; write 30d or 12h")))?;
    let size = to.map(size).transpose()?;
    let old = time.map_or((0, 0), |time| cache.prune_unused(time));
    let excess = size.map_or((0, 0), |size| cache.prune_to(size));
    Ok((old.0 + excess.0, old.1 + excess.1))
}

/// A number of bytes. What `KILN_CACHE_SIZE` has beside numbers, `off`, is none here.
fn size(text: &str) -> Result<u64, Failure> {
    let bytes = parse_cache_size(text).ok().flatten();
    bytes.ok_or_else(|| {
        Failure::Usage(format!("--to: `{text}` is no number of bytes; write 500MB or 2GiB, with kB to TiB"))
    })
}

fn exchanged(what: &str, done: Exchanged) -> (String, serde_json::Value) {
    let Exchanged { programs, choices } = done;
    let text = format!("{what} {}, {}\n", count(programs as u64, "program"), count(choices as u64, "choice"));
    (text, json!({ "programs": programs, "choices": choices }))
}

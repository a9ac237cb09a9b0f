//! `kiln bench ring`: what is asked for, and where the results of [`kiln_bench::ring`] go.

use super::table;
use crate::failure::Failure;
use kiln_bench::ring::{Row, measured, soaked, take_turns};
use kiln_runtime::Device;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// What is asked of `kiln bench ring`.
#[derive(clap::Args)]
pub struct Options {
    /// For `ring`: sends messages at a steady rate for this many seconds, in place of the rows
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    soak: Option<u64>,
    /// For `ring --soak`: the rate, in messages per second
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
    /// For `ring` and `wgpu`: measures only rows whose names contain this text
    #[arg(long, value_name = "TEXT", conflicts_with = "soak")]
    pub(super) only: Option<String>,
    /// For `ring`: measures this many slices of each row that is measured in slices. Before each,
    /// prints `turn` and waits for a line of standard input, so that two processes can take turns
    #[arg(long, value_name = "SLICES", conflicts_with = "soak")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    turns: Option<u16>,
}

/// Measures, prints, and writes the results if asked to.
pub fn run(device: &Device, options: &Options, json: Option<&Path>, commit: &str) -> Result<(), Failure> {
    if let Some(slices) = options.turns {
        take_turns(slices.into());
    }
    let prints = json != Some(Path::new("-"));
    let print = |line: String| if prints { writeln!(std::io::stdout(), "{line}") } else { Ok(()) };
    print(Row::head())?;
    // At once: measuring all of them takes a minute, and whoever waits sees how far it is.
    let mut each = |row: &Row| print(row.line());
    let rows = match options.soak {
        Some(seconds) => {
            let row = soaked(device, Duration::from_secs(seconds), options.rate)?;
            each(&row)?;
            vec![row]
        }
        None => {
            let only = options.only.as_deref().unwrap_or_default();
            let rows = measured(device, only, &mut each)?;
            if rows.is_empty() {
                let (id, hint) = (device.id(), "without `--only` all are measured");
                return Err(Failure::Usage(format!("no row on {id} has `{only}` in its name; {hint}")));
            }
            rows
        }
    };
    rows.iter().flat_map(Row::more_lines).try_for_each(print)?;
    if let Some(path) = json {
        write(path, &rows, device, commit)?;
    }
    match rows.iter().find_map(Row::wrong) {
        Some(wrong) => Err(Failure::Wrong(wrong)),
        None => Ok(()),
    }
}

/// Writes the rows to a file.
fn write(path: &Path, rows: &[Row], device: &Device, commit: &str) -> Result<(), Failure> {
    let date = table::today();
    let rows: Vec<Value> = rows.iter().map(|row| row.json(device, commit, &date)).collect();
    table::write_text(path, &format!("{:#}\n", json!({ "rows": rows })))
}

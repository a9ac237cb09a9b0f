//! Results, for people and as JSON.

use super::rows::Row;
use crate::failure::Failure;
use kiln_runtime::Device;
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// The times of a row, and the bandwidth of a copy in the same run, in bytes a second.
pub struct Measured<'a> {
    pub row: &'a Row,
    pub times_us: Vec<f64>,
    pub ceiling: Option<f64>,
}

impl Measured<'_> {
    fn ceiling_fraction(&self) -> Option<f64> {
        let bandwidth = self.row.bytes as f64 / (median(&self.times_us) * 1e-6);
        self.ceiling.filter(|_| self.row.bytes > 0 && !self.row.arithmetic).map(|c| bandwidth / c)
    }
}

/// The middle of the times; NaN of none.
pub fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The commit of the working directory, or `unknown`.
pub fn commit() -> String {
    let git = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text =
        git.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.filter(|t| !t.is_empty()).unwrap_or_else(|| "unknown".into())
}

/// The date, as in 2026-01-31.
pub fn today() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()[..10].to_owned()
}

/// A table: time, bandwidth, and the bandwidth as a fraction of a copy's; of what arithmetic
/// bounds, the operations a second.
pub fn print(results: &[Measured<'_>]) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{:28} {:>12} {:>10} {:>9}", "row", "median", "GB/s", "of copy")?;
    for m in results {
        let time = median(&m.times_us);
        write!(out, "{:28} {time:9.2} us", m.row.name)?;
        match m.ceiling_fraction() {
            Some(fraction) => {
                writeln!(out, " {:10.1} {:8.1} %", m.row.bytes as f64 / time / 1e3, 100.0 * fraction)?
            }
            None if m.row.arithmetic => writeln!(out, " {:10.1} GFLOP/s", m.row.flops as f64 / time / 1e3)?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// The rows in the form of `bench/results`, without peers.
pub fn write_json(
    path: &Path,
    results: &[Measured<'_>],
    device: &Device,
    commit: &str,
) -> Result<(), Failure> {
    let date = today();
    let row = |m: &Measured<'_>| {
        json!({
            "name": m.row.name,
            "device": device.properties().name,
            "commit": commit,
            "date": date,
            "median_us": median(&m.times_us),
            "bytes": m.row.bytes,
            "flops": m.row.flops,
            "ceiling_fraction": m.ceiling_fraction(),
            "peers": {},
        })
    };
    let rows: Vec<Value> = results.iter().map(row).collect();
    write_text(path, &format!("{:#}\n", json!({"rows": rows})))
}

/// Writes a file; `-` is standard output.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(stdout().lock().write_all(text.as_bytes())?);
    }
    std::fs::write(path, text).map_err(|source| Failure::File { path: path.to_owned(), source })
}

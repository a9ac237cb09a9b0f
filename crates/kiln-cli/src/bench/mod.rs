//! `kiln bench`: Kiln's side of the benchmarks. Loops whose own speed counts are in `kiln-bench`.
//!
//! | file | holds |
//! |---|---|
//! | `rows.rs` | what is measured, and what it counts as |
//! | `adapter.rs`, `adapter/` | `kiln bench wgpu`: adapters against wgpu itself and other devices |
//! | `attention.rs` | the rows of attention on a GPU |
//! | `clock.rs` | how a call is timed on a GPU and on the host |
//! | `decoding.rs` | the rows of decoding attention on a GPU |
//! | `compile_cost.rs` | host time from a kernel's source to a loaded program |
//! | `products.rs` | the rows of matrix products on a GPU |
//! | `ring.rs` | `kiln bench ring`: messages to resident actors |
//! | `serve.rs` | the line protocol of `bench/README.md` |
//! | `table.rs` | results for people and as JSON |

#[cfg(feature = "wgpu")]
mod adapter;
mod attention;
mod clock;
mod compile_cost;
mod decoding;
mod graph_cost;
mod products;
mod ring;
mod rows;
mod serve;
mod sorting;
mod table;

use crate::device;
use crate::failure::Failure;
use kiln_runtime::Device;
use rows::Row;
use std::io::Write;
use std::path::PathBuf;
pub(crate) use table::{commit, today};

/// Measures Kiln on a device.
///
/// Each row is compared with the speed of a copy in the same run. `bench/compare.py` also measures
/// other libraries.
#[derive(clap::Args)]
pub struct Args {
    /// Measures only rows whose names contain this text; `ring` measures messages to resident
    /// actors instead, and `wgpu` an adapter against wgpu itself and another device
    filter: Option<String>,
    /// The device: cuda:0, cpu, interp [default: KILN_DEVICE, else the best one here]
    #[arg(long)]
    device: Option<String>,
    /// The number of timed calls of a row
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Writes the rows as JSON to this file, or without a file to standard output in place of the
    /// table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// The commit to record in the JSON [default: that of the current folder, by `git rev-parse`]
    #[arg(long)]
    commit: Option<String>,
    /// Serves requests on standard input, as bench/README.md describes
    #[arg(long, conflicts_with_all = ["filter", "json"])]
    serve: bool,
    #[command(flatten)]
    ring: ring::Options,
    /// Makes the first call of a kernel on an NVIDIA GPU, with an empty program cache, and prints
    /// the time of each stage as JSON. The rows of compile times run this, without the driver's own
    /// cache
    #[arg(long, value_name = "WORK", conflicts_with_all = ["filter", "json", "serve"])]
    first_call: Option<compile_cost::FirstCall>,
    /// Launches the first kernel of a process, and prints the microseconds since it began. The row
    /// of first kernels runs this
    #[cfg(feature = "wgpu")]
    #[arg(long, hide = true, conflicts_with_all = ["json", "serve"])]
    first_kernel: Option<adapter::Side>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.serve {
        return serve::run(args.device.as_deref().map_or_else(Device::default, Device::open));
    }
    if args.filter.as_deref() == Some("wgpu") {
        return through_wgpu(args);
    }
    let device = device::open(args.device.as_deref())?;
    if let Some(work) = args.first_call {
        if !compile_cost::can_open_anew(&device) {
            return Err(Failure::Usage(format!(
                "`--first-call` measures NVIDIA GPUs, and {} is none: add `--device cuda:0`",
                device.id()
            )));
        }
        return Ok(writeln!(std::io::stdout(), "{}", compile_cost::first_call(&device, work)?)?);
    }
    if args.filter.as_deref() == Some("ring") {
        let commit = args.commit.clone().unwrap_or_else(table::commit);
        return ring::run(&device, &args.ring, args.json.as_deref(), &commit);
    }
    let rows: Vec<Row> =
        rows::all(&device).into_iter().filter(|r| wanted(r, args.filter.as_deref())).collect();
    if rows.is_empty() {
        let names: Vec<&str> = rows::all(&device).iter().map(|r| r.name).collect();
        return Err(Failure::Usage(format!(
            "no row matches; on {} there are {}",
            device.id(),
            names.join(", ")
        )));
    }
    let mut ceiling = None;
    let mut results = Vec::new();
    for row in &rows {
        eprintln!("{} …", row.name);
        if row.bytes > 0 && ceiling.is_none() {
            let copy = rows::copy(&device);
            let seconds = table::median(&copy.times(&device, args.rounds as usize)?) * 1e-6;
            ceiling = Some(copy.bytes as f64 / seconds);
        }
        results.push(table::Measured { row, times_us: row.times(&device, args.rounds as usize)?, ceiling });
    }
    let commit = args.commit.clone().unwrap_or_else(table::commit);
    match &args.json {
        Some(path) => table::write_json(path, &results, &device, &commit),
        None => Ok(table::print(&results)?),
    }
}

#[cfg(feature = "wgpu")]
fn through_wgpu(args: &Args) -> Result<(), Failure> {
    let (name, only) = (args.device.as_deref(), args.ring.only.as_deref());
    if let Some(side) = args.first_kernel {
        // Wgpu itself knows an adapter by its product name, which `--only` has here.
        let time = adapter::first_kernel(side, name.unwrap_or("wgpu"), only.unwrap_or_default())?;
        return Ok(writeln!(std::io::stdout(), "{time}")?);
    }
    let commit = args.commit.clone().unwrap_or_else(table::commit);
    adapter::run(name, only, args.json.as_deref(), &commit)
}

#[cfg(not(feature = "wgpu"))]
fn through_wgpu(_: &Args) -> Result<(), Failure> {
    let hint = "this `kiln` has no adapters: install it with `--features wgpu`";
    Err(Failure::Usage(hint.to_owned()))
}

fn wanted(row: &Row, filter: Option<&str>) -> bool {
    filter.is_none_or(|f| row.name.contains(f))
}

//! `kiln accuracy`: errors of mathematical functions on a device, in units in the last place.
//!
//! | file | holds |
//! |---|---|
//! | `measure.rs` | the device computes, all cores compare |
//! | `report.rs` | results for people and as JSON |

mod measure;
mod report;

use crate::device::open_to_test;
use crate::failure::Failure;
use half::{bf16, f16};
use kiln_reference::accuracy::{FUNCTIONS, Family, Function, Measured};
use kiln_runtime::Device;
use measure::Progress;
use report::Row;
use std::path::PathBuf;

/// Measures the errors of mathematical functions on a device, in units in the last place (ulp).
///
/// Results are compared with the exact value, which is known to 2^-29 ulp of f32. For each function
/// and type it prints the largest error and the argument where it occurs, the largest error where
/// the argument or the result is subnormal, and the share of results that are correctly rounded.
/// All values of f16 and bf16 are tried, and a sample of f32 and f64. Errors of f64 are whole
/// numbers: distances from the correctly rounded result.
///
/// The exit status is 1 if a function is less accurate than documented, or is NaN, infinite or of a
/// sign where it should not be.
#[derive(clap::Args)]
pub struct Args {
    /// The device: cuda:0, cpu, interp, or interp:gpu-code (the code for GPUs on the interpreter)
    /// [default: KILN_DEVICE, else the best one here]
    #[arg(long, short)]
    device: Option<String>,
    /// A function, such as exp; can be given several times [default: all]
    #[arg(long, short, value_name = "NAME", value_parser = parse_function)]
    function: Vec<&'static Function>,
    /// A type: f16, bf16, f32 or f64; can be given several times [default: all]
    #[arg(long = "type", short, value_name = "TYPE", value_parser = ["f16", "bf16", "f32", "f64"])]
    types: Vec<String>,
    /// The number of arguments of f32 and of f64 to try, about; as many of each sign and exponent,
    /// and those where functions change.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    samples: u64,
    /// Tries all 2^32 values of f32, which takes some minutes with 16 cores.
    #[arg(long, conflicts_with = "samples")]
    all: bool,
    /// Writes the results as JSON to this file, or without a file to standard output in place of
    /// the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// The commit to record in the JSON [default: that of the current folder, by `git rev-parse`]
    #[arg(long)]
    commit: Option<String>,
}

fn parse_function(name: &str) -> Result<&'static Function, String> {
    let names: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    Function::named(name).ok_or_else(|| format!("a function is one of {}", names.join(", ")))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let device = open_to_test(args.device.as_deref())?;
    let functions: Vec<&Function> = FUNCTIONS
        .iter()
        .filter(|f| args.function.is_empty() || args.function.iter().any(|g| g.name == f.name))
        .collect();
    let mut rows = Vec::new();
    measure_type::<f32>("f32", args, &device, &functions, &mut rows)?;
    measure_type::<f16>("f16", args, &device, &functions, &mut rows)?;
    measure_type::<bf16>("bf16", args, &device, &functions, &mut rows)?;
    measure_type::<f64>("f64", args, &device, &functions, &mut rows)?;
    let commit = || args.commit.clone().unwrap_or_else(crate::bench::commit);
    let document = || report::to_json(&rows, &device, args.all, args.samples, &commit());
    match args.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => report::print_json(&document())?,
        Some(path) => {
            report::print(&rows, &device)?;
            let text = format!("{:#}\n", document());
            std::fs::write(path, text).map_err(|source| Failure::File { path: path.to_owned(), source })?;
        }
        None => report::print(&rows, &device)?,
    }
    if rows.iter().any(Row::fails) { Err(Failure::Reported) } else { Ok(()) }
}

/// Measures the functions of one type, if it is asked for.
fn measure_type<T: Measured>(
    name: &'static str,
    args: &Args,
    device: &Device,
    functions: &[&'static Function],
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    if !args.types.is_empty() && !args.types.iter().any(|wanted| wanted == name) {
        return Ok(());
    }
    // By the name that was asked for: code for GPUs on the interpreter is a device `interp`.
    let family = Family::of(args.device.as_deref().unwrap_or(device.id()));
    for operands in [1, 2] {
        let of_these: Vec<&Function> = functions.iter().copied().filter(|f| f.operands == operands).collect();
        let progress = Progress::new(name, operands);
        let measured = match operands {
            1 if args.all && name == "f32" => measure::all_f32(device, &of_these, &progress)?,
            1 => measure::unary::<T>(device, &of_these, args.samples, &progress)?,
            _ => measure::binary::<T>(device, &of_these, args.samples, &progress)?,
        };
        rows.extend(of_these.iter().zip(measured).map(|(function, outcome)| Row {
            function: function.name,
            ty: name,
            bound: function.bound::<T>(family),
            outcome,
        }));
    }
    Ok(())
}

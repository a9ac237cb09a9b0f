//! Checks the backend on a machine with an NVIDIA GPU, against the interpreter and against its own
//! promises, and measures what it costs. The last line is `ok`; anything else is a failure, and the
//! exit status says so too.
//!
//! ```text
//! cargo run --release -p kiln-cuda --example backend_check
//! ```

mod cases;
mod checks;
mod rig;
mod speed;

use kiln_backend::Backend;
use kiln_cuda::{Cuda, device_count};
use rig::Outcome;
use std::process::ExitCode;
use std::time::Instant;

type Check = fn(&Cuda) -> Outcome;

fn main() -> ExitCode {
    match check_all() {
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
    println!("{} GPUs", device_count()?);
    let started = Instant::now();
    let gpu = Cuda::open(0)?;
    println!("open in {:?}: {:#?}", started.elapsed(), gpu.properties());
    println!("{} bytes free", gpu.free_memory()?);
    let checks: [(&str, Check); 9] = [
        ("launch cost", speed::launch_cost),
        ("faults", checks::faults),
        ("prints", checks::prints),
        ("streams and events", checks::streams_and_events),
        ("artifacts", checks::artifacts),
        ("bad input", checks::bad_input),
        ("compile times", speed::compile_times),
        ("bandwidth", speed::bandwidth),
        ("results", checks::results),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        let started = Instant::now();
        match check(&gpu) {
            Ok(()) => println!("passed: {name} in {:.1?}", started.elapsed()),
            Err(error) => {
                println!("FAILED: {name}: {error}");
                failed.push(name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ").into()) }
}

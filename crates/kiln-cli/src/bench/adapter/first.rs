//! The first kernel of a process: from an unopened device to the end of a launch.

use super::launches::kernel;
use super::raw::Raw;
use super::{Goal, Measured, Times};
use crate::failure::Failure;
use clap::ValueEnum;
use kiln_kernels::add;
use kiln_runtime::Device;
use serde_json::Value;
use std::process::Command;
use std::time::Instant;

/// The most that the first kernel of a process takes, in microseconds.
const MOST: f64 = 300e3;

/// Processes of each side.
const PROCESSES: usize = 3;

/// Who launches the first kernel.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// Kiln: it adds two vectors
    Kiln,
    /// Wgpu itself: an empty kernel
    Raw,
}

pub fn measure(device: &Device, wanted: impl Fn(&str) -> bool) -> Vec<Measured> {
    let name = "first_kernel";
    if !wanted(name) {
        return Vec::new();
    }
    eprintln!("{name} …");
    let times = || {
        let mut times = Times { own: Vec::new(), peer: Vec::new() };
        for _ in 0..PROCESSES {
            times.own.push(in_a_process(device, Side::Kiln)?);
            times.peer.push(in_a_process(device, Side::Raw)?);
        }
        Ok(times)
    };
    vec![Measured { name, peer: "wgpu".into(), goal: Goal::Below(MOST), bytes: 0, times: times() }]
}

fn in_a_process(device: &Device, side: Side) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let side = side.to_possible_value().ok_or("a side without a name")?;
    let mut child = Command::new(program);
    // Wgpu itself knows adapters by name.
    let adapter = device.properties().name.as_str();
    child.args(["bench", "wgpu", "--first-kernel", side.get_name(), "--device", device.id()]);
    let output = child.args(["--only", adapter]).output().map_err(|error| error.to_string())?;
    let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    answer.and_then(|answer| answer.as_f64()).ok_or_else(|| {
        format!("a process with one kernel said: {}", String::from_utf8_lossy(&output.stderr).trim())
    })
}

/// What `first_kernel` has a process do, in microseconds.
pub fn first_kernel(side: Side, device: &str, adapter: &str) -> Result<f64, Failure> {
    let start = Instant::now();
    match side {
        Side::Kiln => {
            let device = Device::open(device)?;
            let (x, y) = (device.zeros([1024])?, device.zeros([1024])?);
            let mut z = device.zeros::<f32, 1>([1024])?;
            add(&x, &y, &mut z)?;
            device.synchronize()?;
        }
        Side::Raw => {
            let traced = Device::open("interp").map_err(|error| error.to_string());
            let run = || {
                let raw = Raw::open(adapter, &kernel(&traced?)?)?;
                raw.submit(1);
                raw.wait()
            };
            run().map_err(Failure::Wrong)?;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

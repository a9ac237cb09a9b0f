//! Host times of launches, against dispatches of the same shader by wgpu itself.

use super::raw::{self, Raw};
use super::{Goal, Measured, Times};
use kiln_bench::launch_cost::EmptyKernel;
use kiln_runtime::{Device, Event};
use std::time::Instant;

/// Launches of a burst, and dispatches of a submission.
const BURST: usize = 500;
/// Bursts of each side.
const BURSTS: usize = 20;
/// Calls of a row whose calls are timed one by one.
const CALLS: usize = 200;

/// The kernel whose shader both sides dispatch.
pub(super) fn kernel(device: &Device) -> Result<kiln_ir::Kernel, String> {
    EmptyKernel::new(device).and_then(|kernel| kernel.ir()).map_err(text)
}

/// What is launched, by Kiln and by wgpu.
struct Sides {
    device: Device,
    kernel: EmptyKernel,
    raw: Raw,
}

type Work = fn(&Sides) -> Result<Times, String>;

const ROWS: [(&str, f64, Work); 4] = [
    ("launch_batched", 1.5, batched),
    ("launch_flushed", 1.2, flushed),
    ("launch_wait", 1.2, waited),
    ("launch_read", 1.2, read),
];

pub fn measure(device: &Device, wanted: impl Fn(&str) -> bool) -> Vec<Measured> {
    let rows: Vec<_> = ROWS.into_iter().filter(|(name, ..)| wanted(name)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let sides = open(device);
    let measured = rows.into_iter().map(|(name, most, work)| {
        eprintln!("{name} …");
        let times = sides.as_ref().map_err(Clone::clone).and_then(work);
        Measured { name, peer: "wgpu".into(), goal: Goal::Within(most), bytes: 0, times }
    });
    measured.collect()
}

fn open(device: &Device) -> Result<Sides, String> {
    let kernel = EmptyKernel::new(device).map_err(text)?;
    let raw = raw::beside(device, &kernel.ir().map_err(text)?)?;
    let sides = Sides { device: device.clone(), kernel, raw };
    sides.launch(1)?;
    sides.device.synchronize().map_err(text)?;
    sides.raw.submit(1);
    sides.raw.wait()?;
    Ok(sides)
}

impl Sides {
    fn launch(&self, times: usize) -> Result<(), String> {
        self.kernel.launch(times).map_err(text)
    }

    /// Submits what was launched, without waiting.
    fn flush(&self) -> Result<(), String> {
        Event::now(&self.device).and_then(|event| event.is_reached()).map(drop).map_err(text)
    }

    fn synchronize(&self) -> Result<(), String> {
        self.device.synchronize().map_err(text)
    }
}

/// Bursts of launches until the last one is submitted, drained outside of the clock.
fn batched(sides: &Sides) -> Result<Times, String> {
    let own = || {
        let time = timed(|| {
            sides.launch(BURST)?;
            sides.flush()
        })?;
        sides.synchronize()?;
        Ok(time / BURST as f64)
    };
    let peer = || {
        let time = timed(|| {
            sides.raw.submit(BURST);
            sides.raw.poll()
        })?;
        sides.raw.wait()?;
        Ok(time / BURST as f64)
    };
    in_turns(BURSTS, 1, own, peer)
}

/// A launch that is submitted at once, with an event behind it.
fn flushed(sides: &Sides) -> Result<Times, String> {
    let own = || {
        let time = timed(|| sides.launch(1).and_then(|()| sides.flush()))?;
        sides.synchronize()?;
        Ok(time)
    };
    let peer = || {
        let time = timed(|| {
            sides.raw.submit(1);
            sides.raw.poll()
        })?;
        sides.raw.wait()?;
        Ok(time)
    };
    in_turns(CALLS, 20, own, peer)
}

/// From a launch to its end.
fn waited(sides: &Sides) -> Result<Times, String> {
    let own = || timed(|| sides.launch(1).and_then(|()| sides.synchronize()));
    let peer = || {
        timed(|| {
            sides.raw.submit(1);
            sides.raw.wait()
        })
    };
    in_turns(CALLS, 20, own, peer)
}

/// From a launch to 64 bytes on the host.
fn read(sides: &Sides) -> Result<Times, String> {
    let data = sides.device.zeros::<f32, 1>([16]).map_err(text)?;
    let own = || timed(|| sides.launch(1).and_then(|()| data.to_vec().map(drop).map_err(text)));
    let peer = || timed(|| sides.raw.dispatch_and_read());
    in_turns(CALLS, 20, own, peer)
}

/// Microseconds of a call.
fn timed(call: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let start = Instant::now();
    call()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// The times of both sides, `turn` of each at a time, after a turn of each that is not counted.
fn in_turns(
    count: usize,
    turn: usize,
    own: impl Fn() -> Result<f64, String>,
    peer: impl Fn() -> Result<f64, String>,
) -> Result<Times, String> {
    let mut times = Times { own: Vec::new(), peer: Vec::new() };
    for round in 0..=count.div_ceil(turn) {
        let own = (0..turn).map(|_| own()).collect::<Result<Vec<f64>, String>>()?;
        let peer = (0..turn).map(|_| peer()).collect::<Result<Vec<f64>, String>>()?;
        if round > 0 {
            times.own.extend(own);
            times.peer.extend(peer);
        }
    }
    Ok(times)
}

fn text(error: kiln_runtime::Error) -> String {
    error.to_string()
}

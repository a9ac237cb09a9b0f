//! How a call is timed.

use super::rows::Call;
use kiln_runtime::{Clock, Device, Event, Result};
use std::time::Instant;

/// What a GPU's L2 holds before a timed call, besides none of its data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// What was written last, and must go to memory during the call.
    Written,
    /// What was read last.
    Read,
}

/// Times of `rounds` calls in microseconds, after one that is not counted.
pub fn times(device: &Device, call: &mut Call, cache: Cache, rounds: usize) -> Result<Vec<f64>> {
    call()?;
    device.synchronize()?;
    match device.capabilities().clock {
        Clock::Device => on_gpu(device, call, cache, rounds),
        Clock::Host | Clock::Operations => on_host(device, call, rounds),
    }
}

/// Each call stands between two events, behind zeros written to 256 MiB (as the peers do), which
/// evicts L2 and keeps the GPU busy while the host enqueues the call. All are enqueued before the
/// first wait.
fn on_gpu(device: &Device, call: &mut Call, cache: Cache, rounds: usize) -> Result<Vec<f64>> {
    let mut events = Vec::with_capacity(rounds);
    let mut total = device.zeros([1])?;
    for _ in 0..rounds {
        let scratch = device.zeros::<f32, 1>([64 << 20])?;
        if cache == Cache::Read {
            kiln_kernels::sum(&scratch, &mut total)?;
        }
        drop(scratch);
        let start = Event::now(device)?;
        call()?;
        events.push((start, Event::now(device)?));
    }
    device.synchronize()?;
    events.iter().map(|(start, end)| Ok(f64::from(end.milliseconds_since(start)?) * 1e3)).collect()
}

fn on_host(device: &Device, call: &mut Call, rounds: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        call()?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

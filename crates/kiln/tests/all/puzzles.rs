//! The puzzles on every device that is always there, and under the sanitizer.

#[path = "../../../../examples/puzzles/main.rs"]
#[allow(dead_code)] // its `main`
mod example;

use example::{Bench, PUZZLES};
use kiln::{Device, DiskCache};
use kiln_interp::{Interp, Options};

#[track_caller]
fn run_all(device: &Device) {
    let mut bench = Bench::new(device);
    for (name, check) in PUZZLES {
        if let Err(error) = check(&mut bench) {
            panic!("{name} on {}: {error}", device.id());
        }
    }
}

#[test]
fn puzzles_on_the_processor() {
    run_all(&Device::open("cpu").unwrap());
}

#[test]
fn puzzles_in_the_interpreter() {
    run_all(&Device::open("interp").unwrap());
}

/// No kernel races, reads what was never written, or lets threads part at a barrier.
#[test]
fn puzzles_under_the_sanitizer() {
    let interp = Interp::new(Options::default());
    run_all(&Device::with_backend(Box::new(interp), DiskCache::none()));
}

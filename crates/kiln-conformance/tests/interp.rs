//! The conformance suite on the interpreter.

mod suite;

use kiln_interp::{Interp, Options};
use kiln_runtime::{Device, DiskCache};

fn main() -> std::process::ExitCode {
    // An interpreter for each thread: by name all of them would get the same one.
    let open = || Ok(Device::with_backend(Box::new(Interp::new(Options::default())), DiskCache::none()));
    suite::run(open, suite::Threads::Cores, |_| true, vec![])
}

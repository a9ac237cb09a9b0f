//! The conformance suite on the CPU.

mod suite;

fn main() -> std::process::ExitCode {
    suite::run(|| kiln_runtime::Device::open("cpu"), suite::Threads::One, |_| true, vec![])
}

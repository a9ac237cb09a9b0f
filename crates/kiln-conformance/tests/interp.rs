//! The conformance suite on the interpreter.

mod suite;

fn main() -> std::process::ExitCode {
    suite::run(|| kiln_runtime::Device::open("interp"), suite::Threads::One, |_| true)
}

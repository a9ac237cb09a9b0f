//! The ring kernels of the suite on a CPU in a process of its own. (Faults cross as text, so that
//! the suite's other groups would see another error.)

mod suite;

fn main() -> std::process::ExitCode {
    kiln_runtime::isolate::init();
    let groups = ["actors", "supervision", "checkpoints", "telemetry"];
    let ring = |name: &str| groups.iter().any(|group| name.starts_with(group));
    suite::run(|| kiln_runtime::Device::open("isolated:cpu"), suite::Threads::One, ring, vec![])
}

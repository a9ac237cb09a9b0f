//! Asks the linker to fold functions of the command whose machine code is the same, and constants
//! whose bytes are: many are, of kernels and loops for several element types. About 4 % and 2.5 %
//! of its size. A kernel's key alone tells constants apart by their addresses, and it has a type of
//! the kernel's own beside. The command is linked for a fixed address, too: a list of all places
//! that hold addresses, for the loader to change, would be 6 %.
//!
//! Only where it is sure to work: in an optimized build for `x86_64-unknown-linux-gnu`, whose
//! default linker is LLD, and once a program of nothing was linked this way, with the flags and the
//! linker that Cargo was given. Where the linker does not know the options (GNU `ld`), the command
//! is larger, and that is all.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const OPTIONS: [&str; 2] = ["-Wl,--icf=all,--ignore-data-address-equality", "-no-pie"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("TARGET", TARGET) && is("PROFILE", "release") && links().unwrap_or(false) {
        OPTIONS.iter().for_each(|option| println!("cargo::rustc-link-arg-bin=kiln={option}"));
    }
}

/// Whether a program can be linked with the options.
fn links() -> Option<bool> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let source = out.join("nothing.rs");
    std::fs::write(&source, "fn main() {}\n").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.arg(&source).arg("-o").arg(out.join("nothing"));
    rustc.args(["--edition=2024", "--target", TARGET]);
    rustc.args(OPTIONS.map(|option| format!("-Clink-arg={option}")));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    Some(rustc.output().ok()?.status.success())
}

//! Programs under `kiln sanitize` and `kiln debug`: every device they open is the interpreter. What
//! its sanitizer finds is written to a file, and so is that a device was opened. Variables of the
//! environment say so.

use kiln_backend::{Error, Result};
use std::fs::OpenOptions;
use std::io::Write as _;

/// The environment variable that names the device to open in place of every other: `interp`, or
/// `interp:SEED` for a random order of threads. `kiln sanitize` sets it.
pub const SANITIZE_VARIABLE: &str = "KILN_SANITIZE";
/// The environment variable that names the file to which what a sanitized program does wrong is
/// appended: for each fault `r`, its text and a zero byte; for each device that is opened `d`, its
/// name and a zero byte.
pub const REPORTS_VARIABLE: &str = "KILN_SANITIZE_REPORTS";

/// The environment variable that names the device to open in place of every other, and lets its
/// launches stop at breakpoints. `kiln debug` sets it.
pub const DEBUG_VARIABLE: &str = "KILN_DEBUG";
/// The environment variable that names the file from which the commands of a debugger's session are
/// read, in place of the terminal.
pub const COMMANDS_VARIABLE: &str = "KILN_DEBUG_COMMANDS";

/// What the names of devices begin with.
const BACKENDS: [&str; 5] = ["cuda", "wgpu", "cpu", "interp", "isolated"];

/// The name of the device that is opened in place of every other, if this program is sanitized.
pub(crate) fn device() -> Option<String> {
    of_environment(SANITIZE_VARIABLE)
}

/// The name of the device that is opened in place of every other, if this program is debugged.
pub(crate) fn debugged() -> Option<String> {
    of_environment(DEBUG_VARIABLE)
}

/// The name of the device that is opened in place of every other, if there is one.
pub(crate) fn substitute() -> Option<String> {
    debugged().or_else(device)
}

/// Whether the variables name what they may: the interpreter, for the sanitizer with its checks.
/// Another device would run the program without them, and nobody would say so.
///
/// # Errors
/// [`Error::Unavailable`] for another name.
pub(crate) fn check() -> Result<()> {
    for (variable, unchecked) in [(DEBUG_VARIABLE, true), (SANITIZE_VARIABLE, false)] {
        let Some(name) = of_environment(variable) else { continue };
        if !is_interpreter(&name, unchecked) {
            let which = if unchecked { "the interpreter" } else { "the interpreter with its checks" };
            return Err(Error::Unavailable {
                device: format!("`{name}` as {variable}"),
                reason: format!("it is not {which}"),
                hint: "Write interp, or interp:7 for a random order of threads.".to_owned(),
            });
        }
    }
    Ok(())
}

/// Whether a name is `interp` or `interp:SEED`, or the same without checks (`interp:fast`) where
/// that may be.
fn is_interpreter(name: &str, unchecked: bool) -> bool {
    let Some(rest) = name.strip_prefix("interp") else { return false };
    let rest = if unchecked { rest.strip_prefix(":fast").unwrap_or(rest) } else { rest };
    rest.is_empty() || rest.strip_prefix(':').is_some_and(|seed| seed.parse::<u64>().is_ok())
}

fn of_environment(variable: &str) -> Option<String> {
    let name = std::env::var(variable).ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The name of the device to open in place of this one. A name that is no device's remains, so that
/// it is refused as ever.
pub(crate) fn replaced(name: String) -> String {
    let is_device = BACKENDS.contains(&name.split(':').next().unwrap_or_default());
    substitute().filter(|_| is_device).unwrap_or(name)
}

/// Notes that a device was opened, which tells a program without devices from one without errors.
pub(crate) fn opened(device: &str) {
    append('d', device);
}

/// Writes down what was found.
pub(crate) fn report(text: &str) {
    append('r', text);
}

/// Appends a record: what it is, its text, and a zero byte. In one write, as threads and processes
/// share the file. Where it cannot be written, the error still reaches the program by its calls.
fn append(kind: char, text: &str) {
    let Some(path) = std::env::var_os(REPORTS_VARIABLE) else { return };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    let _ = opened.and_then(|mut file| file.write_all(format!("{kind}{text}\0").as_bytes()));
}

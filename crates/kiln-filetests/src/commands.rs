//! What test files can ask for: a command turns a kernel into text.
//!
//! | command | gives |
//! |---|---|
//! | `parse` | `ok`, or where the text stops being a kernel |
//! | `verify` | `ok`, or what the verifier says, a line for each error |
//! | `print`, `print locations` | the kernel's text, which must read back as itself |
//! | `uniformity` | each operation with what its results and its place are |
//! | `optimize`, `optimize PASS …` | the kernel after all passes, or after these |
//! | `legalize` | the kernel with power-of-two tiles alone, or why it is refused |
//! | `lower` | the kernel over threads for compute capability 9.0, or why it is refused |
//! | `run` | what a launch leaves behind, see `launch.rs` |

use crate::file::{TestCase, TestFile};
use crate::launch;
use kiln_compiler::{Target, legalize_tiles, lower_to_threads, optimize, passes, warp_specialize};
use kiln_ir::{Kernel, Uniformity, parse, verify};
use std::fmt::Write;

/// Runs the command of a file on its cases.
///
/// # Errors
/// The command is unknown, or a kernel that the command needs does not parse or verify.
pub fn run(file: &TestFile) -> Result<Vec<String>, String> {
    file.cases.iter().map(|case| one(&file.command, case)).collect()
}

fn one(command: &[String], case: &TestCase) -> Result<String, String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words[..] {
        ["parse"] => Ok(parse(&case.text).map_or_else(|e| format!("{e}\n"), |_| "ok\n".into())),
        ["verify"] => Ok(verified(&read(case)?)),
        ["print"] => print(&well_formed(case)?, false),
        ["print", "locations"] => print(&well_formed(case)?, true),
        ["uniformity"] => Ok(uniformity(&well_formed(case)?)),
        ["optimize"] => {
            let mut kernel = well_formed(case)?;
            optimize(&mut kernel).map_err(|e| e.to_string())?;
            print(&kernel, false)
        }
        ["optimize", ref passes @ ..] => {
            let mut kernel = well_formed(case)?;
            for pass in passes {
                passes::run_pass(&mut kernel, pass).map_err(|e| e.to_string())?;
            }
            print(&kernel, false)
        }
        ["legalize"] => {
            let kernel = well_formed(case)?;
            match legalize_tiles(&kernel) {
                Ok(legalized) => print(legalized.as_ref().unwrap_or(&kernel), false),
                Err(error) => Ok(format!("{error}\n")),
            }
        }
        ["lower"] => match lower_to_threads(&well_formed(case)?, &Target::cuda((9, 0), 227 << 10)) {
            Ok(kernel) => print(&kernel, false),
            Err(error) => Ok(format!("{error}\n")),
        },
        ["warp_specialize"] => match warp_specialize(&well_formed(case)?, &Target::cuda((9, 0), 227 << 10)) {
            Ok(mut tasks) => {
                optimize(&mut tasks).map_err(|e| e.to_string())?;
                print(&tasks, false)
            }
            Err(kept) => Ok(format!("{}\n", kept.reason)),
        },
        ["run"] => launch::run(&well_formed(case)?, case),
        _ => Err(format!("no command `{}`", command.join(" "))),
    }
}

fn read(case: &TestCase) -> Result<Kernel, String> {
    parse(&case.text).map_err(|mut error| {
        error.line += case.line as u32 - 1;
        error.to_string()
    })
}

fn well_formed(case: &TestCase) -> Result<Kernel, String> {
    let kernel = read(case)?;
    match verify(&kernel) {
        Ok(()) => Ok(kernel),
        Err(errors) => Err(format!("line {}: the kernel is not well-formed: {}", case.line, errors[0])),
    }
}

fn verified(kernel: &Kernel) -> String {
    match verify(kernel) {
        Ok(()) => "ok\n".into(),
        Err(errors) => errors.iter().map(|e| format!("{}\n", e.to_string().replace('\n', " "))).collect(),
    }
}

/// The text of the kernel, which reads back as itself.
fn print(kernel: &Kernel, locations: bool) -> Result<String, String> {
    let text = |k: &Kernel| if locations { format!("{k:#}") } else { k.to_string() };
    let once = text(kernel);
    let again = parse(&once).map_err(|e| format!("the printed text does not parse: {e}\n{once}"))?;
    if text(&again) == once { Ok(once) } else { Err(format!("printed twice, the text differs:\n{once}")) }
}

/// Every operation with a result or an effect on threads, and whether it varies or diverges.
fn uniformity(kernel: &Kernel) -> String {
    let uniformity = Uniformity::of(kernel);
    let mut text = String::new();
    kernel.walk(|op, data| {
        let mut notes = Vec::new();
        notes.extend(data.results.iter().map(|&v| if uniformity.varies(v) { "varying" } else { "uniform" }));
        notes.extend(uniformity.diverges(op).then_some("divergent"));
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{:20}{}", notes.join(" "), kernel.op_text(op));
    });
    text
}

//! Launches that test files describe.
//!
//! ```text
//! ; @grid 2 1 1
//! ; @arg f32[2, 3]: 1 2 3 4 5 6
//! ; @arg f32[4]: fill 7
//! ; @arg i32[4]: iota
//! ; @arg i64: 5
//! ```
//!
//! The arguments stand in the order of the parameters, the grid is 1 by 1 by 1 unless it is given.
//! The kernel runs on the interpreter, on the interpreter once more when it is optimized, and on
//! the CPU; all must agree. The output is what was printed, the fault, and the views that the
//! kernel may write.

use crate::file::TestCase;
use kiln_cpu::CpuBackend;
use kiln_fuzz::{Case, run};
use kiln_interp::Interp;
use kiln_ir::{Kernel, Literal};
use std::fmt::Write;

/// How far apart, relative to their size, results of f32 may be on the CPU: transcendental
/// functions are good to a few ulp.
const CPU_TOLERANCE: f64 = 1e-6;

/// Runs a kernel as the directives of its case say.
///
/// # Errors
/// A directive cannot be read or does not fit the kernel, or a device refuses.
pub(crate) fn run(kernel: &Kernel, test: &TestCase) -> Result<String, String> {
    let case = Case::new(kernel.clone(), test.directives.iter().map(String::as_str))
        .map_err(|message| format!("line {}: {message}", test.line))?;
    case.check_facts().map_err(|message| format!("line {}: {message}", test.line))?;
    let device = Interp::new(kiln_interp::Options::default());
    let outcome = run::run(&case, &device).map_err(|e| e.to_string())?;
    let mut optimized = case.clone();
    kiln_compiler::optimize(&mut optimized.kernel).map_err(|e| e.to_string())?;
    let again = run::run(&optimized, &device).map_err(|e| e.to_string())?;
    if let Some(difference) = run::difference(&outcome, &again, 0.0) {
        return Err(format!("line {}: optimized, the outcome differs: {difference}", test.line));
    }
    match run::run(&case, &CpuBackend::with_threads(1)) {
        Ok(on_cpu) => {
            if let Some(difference) = run::difference(&outcome, &on_cpu, CPU_TOLERANCE) {
                return Err(format!("line {}: on the CPU the outcome differs: {difference}", test.line));
            }
        }
        // What is a GPU's alone: the refusal is part of the outcome.
        Err(kiln_backend::Error::Unsupported { what, .. }) => {
            return Ok(format!("no {what} on the CPU\n{}", describe(&case, &outcome)));
        }
        Err(error) => return Err(error.to_string()),
    }
    Ok(describe(&case, &outcome))
}

fn describe(case: &Case, outcome: &run::Outcome) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for line in &outcome.printed {
        let _ = writeln!(text, "prints {line:?}");
    }
    if let Some(fault) = &outcome.fault {
        let _ = writeln!(text, "fault {fault:?}");
    }
    let views = case.kernel.params.iter().filter(|p| p.ty.as_view().is_some());
    for (param, elements) in views.zip(&outcome.memory).filter(|(p, _)| p.mutable) {
        let elements: Vec<String> = elements.iter().map(Literal::to_string).collect();
        let _ = writeln!(text, "%{} = {}", param.name, elements.join(" "));
    }
    text
}

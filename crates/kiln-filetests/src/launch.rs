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
//! The arguments stand in the order of the parameters, the grid is 1 by 1 by 1 unless it is given. The kernel runs on the
//! interpreter, on the interpreter once more when it is optimised, and on the CPU; all must agree. The output is what was printed,
//! the fault, and the views that the kernel may write.

use crate::file::TestCase;
use crate::generate::{Argument, Case};
use crate::run;
use kiln_cpu::CpuBackend;
use kiln_interp::Interp;
use kiln_ir::{Kernel, Literal, Scalar, Type, parse};
use std::fmt::Write;

/// How far apart, relative to their size, results of f32 may be on the CPU: transcendental functions are good to a few ulp.
const CPU_TOLERANCE: f64 = 1e-6;

/// Runs a kernel as the directives of its case say.
///
/// # Errors
/// A directive cannot be read or does not fit the kernel, or a device refuses.
pub(crate) fn run(kernel: &Kernel, test: &TestCase) -> Result<String, String> {
    let mut case = Case { kernel: kernel.clone(), grid: [1; 3], arguments: Vec::new() };
    for directive in &test.directives {
        match directive.split_once(' ') {
            Some(("grid", extents)) => case.grid = grid(extents)?,
            Some(("arg", text)) => case.arguments.push(argument(text)?),
            _ => return Err(format!("line {}: no directive `{directive}`", test.line)),
        }
    }
    if let Err(message) = fits(&case) {
        return Err(format!("line {}: {message}", test.line));
    }
    let device = Interp::new(kiln_interp::Options::default());
    let outcome = run::run(&case, &device).map_err(|e| e.to_string())?;
    let mut optimized = case.clone();
    kiln_compiler::optimize(&mut optimized.kernel).map_err(|e| e.to_string())?;
    let again = run::run(&optimized, &device).map_err(|e| e.to_string())?;
    if let Some(difference) = run::difference(&outcome, &again, 0.0) {
        return Err(format!("line {}: optimised, the outcome differs: {difference}", test.line));
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

fn grid(text: &str) -> Result<[u32; 3], String> {
    let extents: Option<Vec<u32>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    extents.and_then(|e| e.try_into().ok()).ok_or_else(|| format!("`{text}` is not a grid"))
}

/// `TYPE: VALUES`.
fn argument(text: &str) -> Result<Argument, String> {
    let bad = || format!("`{text}` is not an argument");
    let (ty, values) = text.split_once(':').ok_or_else(bad)?;
    // The parser of the text format reads the type, as that of a parameter.
    let kernel = parse(&format!("kernel @k(%x: {ty}) tile {{}}")).map_err(|_| bad())?;
    let ty = kernel.params[0].ty.as_tile().ok_or_else(bad)?.clone();
    let words: Vec<&str> = values.split_whitespace().collect();
    let len = ty.shape.len();
    let data = match words[..] {
        ["iota"] => (0..len).map(|i| Literal::wrapping(ty.elem, i as i128)).collect(),
        ["fill", value] => vec![literal(value, ty.elem)?; len],
        _ => words.iter().map(|w| literal(w, ty.elem)).collect::<Result<Vec<_>, _>>()?,
    };
    if data.len() != len {
        return Err(format!("{} values for {len} elements", data.len()));
    }
    if !text.contains('[') {
        return Ok(Argument::Scalar(data[0]));
    }
    Ok(Argument::View { extents: ty.shape.extents().to_vec(), data })
}

/// A literal, read as the text format reads a constant.
fn literal(text: &str, elem: Scalar) -> Result<Literal, String> {
    let text = if elem.is_float() && text.parse::<i64>().is_ok() { format!("{text}.0") } else { text.into() };
    let kernel = parse(&format!("kernel @k() tile {{ %0 = const {text} : {elem} }}"));
    let value =
        kernel.ok().and_then(|k| k.block(k.body).ops.first().and_then(|&op| k.as_const(k.result(op))));
    value.ok_or_else(|| format!("`{text}` is not a constant of type {elem}"))
}

fn fits(case: &Case) -> Result<(), String> {
    let params = &case.kernel.params;
    if params.len() != case.arguments.len() {
        return Err(format!("{} arguments for {} parameters", case.arguments.len(), params.len()));
    }
    for (param, argument) in params.iter().zip(&case.arguments) {
        let fits = match (argument, &param.ty) {
            (Argument::Scalar(literal), Type::Tile(tile)) => literal.elem() == tile.elem,
            (Argument::View { extents, data }, Type::View(view)) => {
                extents.len() == view.rank as usize && data.iter().all(|l| l.elem() == view.elem)
            }
            _ => false,
        };
        if !fits {
            return Err(format!("the argument for %{} is not a {}", param.name, param.ty));
        }
    }
    Ok(())
}

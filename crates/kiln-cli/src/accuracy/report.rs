//! Results for people and as JSON.

use super::measure::Outcome;
use crate::bench::today;
use kiln_reference::accuracy::{Extreme, Tally};
use kiln_runtime::Device;
use serde_json::{Value, json};
use std::io::{Result, Write as _, stdout};

/// A function in a type.
pub struct Row {
    pub function: &'static str,
    pub ty: &'static str,
    /// The documented bound in ulp.
    pub bound: f64,
    pub outcome: Outcome,
}

impl Row {
    /// Whether the function is worse than documented.
    pub fn fails(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|tally| tally.wrong > 0 || tally.error() > self.bound)
    }
}

/// A table, and under it what is wrong.
pub fn print(rows: &[Row], device: &Device) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", device.properties().name)?;
    let head = ["function", "type", "ulp", "at", "subnormal", "bound", "rounded"];
    writeln!(
        out,
        "{:11}{:5} {:>10}  {:30} {:>10} {:>8} {:>9}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6]
    )?;
    for row in rows {
        write!(out, "{:11}{:5} ", row.function, row.ty)?;
        match &row.outcome {
            Err(what) => writeln!(out, "not on this device, for want of {what}")?,
            Ok(tally) => {
                let at = tally
                    .worst
                    .filter(|worst| worst.error > 0.0)
                    .map_or_else(String::new, |worst| place(row, &worst));
                let subnormal = tally.worst_subnormal.map_or_else(String::new, |worst| ulp(worst.error));
                let error = tally.worst.map_or(0.0, |worst| worst.error);
                let verdict = if row.fails() { "  FAILED" } else { "" };
                writeln!(
                    out,
                    "{:>10}  {at:30} {subnormal:>10} {:>8} {:>8.3} %{verdict}",
                    ulp(error),
                    ulp(row.bound),
                    100.0 * tally.share()
                )?;
            }
        }
    }
    for row in rows {
        if let Ok(Tally { wrong, first_wrong: Some(first), .. }) = &row.outcome {
            let Extreme { got, exact, .. } = first;
            let (name, ty, at) = (row.function, row.ty, place(row, first));
            writeln!(
                out,
                "{name} of {ty}: {wrong} wrong zeros or NaNs; at {at} it gives {got:?}, not {exact:?}"
            )?;
        }
    }
    let failed = rows.iter().filter(|row| row.fails()).count();
    writeln!(out, "{} functions, {failed} worse than documented", rows.len())
}

/// The arguments of a result.
fn place(row: &Row, extreme: &Extreme) -> String {
    let [x, y] = extreme.arguments.map(|x| match row.ty {
        "f64" => format!("{x:e}"),
        // As short as f32 allows.
        _ => format!("{:e}", x as f32),
    });
    if kiln_reference::accuracy::Function::named(row.function).is_some_and(|f| f.operands == 2) {
        format!("{x}, {y}")
    } else {
        x
    }
}

/// An error in units in the last place.
fn ulp(error: f64) -> String {
    if error >= 1e5 { format!("{error:.1e}") } else { format!("{error:.3}") }
}

/// The results, as one document.
pub fn to_json(rows: &[Row], device: &Device, all: bool, samples: u64, commit: &str) -> Value {
    let rows: Vec<Value> = rows.iter().map(row_to_json).collect();
    json!({
        "device": device.properties().name,
        "id": device.id(),
        "commit": commit,
        "date": today(),
        "f32": if all { json!("all") } else { json!(samples) },
        "rows": rows,
    })
}

/// Prints a document.
pub fn print_json(document: &Value) -> Result<()> {
    writeln!(stdout(), "{document:#}")
}

fn row_to_json(row: &Row) -> Value {
    let Row { function, ty, bound, .. } = row;
    match &row.outcome {
        Err(what) => json!({ "function": function, "type": ty, "lacks": what }),
        Ok(tally) => json!({
            "function": function,
            "type": ty,
            "results": tally.results,
            "rounded": tally.nearest,
            "undecided": tally.undecided,
            "worst": extreme_to_json(row, tally.worst),
            "subnormal": extreme_to_json(row, tally.worst_subnormal),
            "outside": extreme_to_json(row, tally.worst_outside),
            "wrong": tally.wrong,
            "first_wrong": extreme_to_json(row, tally.first_wrong),
            "bound": bound,
            "failed": row.fails(),
        }),
    }
}

/// JSON has neither infinities nor NaN: numbers that may be one are texts.
fn extreme_to_json(row: &Row, extreme: Option<Extreme>) -> Value {
    extreme.map_or(Value::Null, |extreme| {
        let Extreme { error, got, exact, .. } = extreme;
        let error = if error.is_finite() { json!(error) } else { Value::Null };
        json!({ "ulp": error, "at": place(row, &extreme), "got": format!("{got:e}"), "exact": format!("{exact:e}") })
    })
}

//! Kiln's side of the line protocol that `bench/README.md` defines.

use super::clock;
use super::rows::{Call, Row, all};
use crate::failure::Failure;
use kiln_runtime::{Device, Error, Execution};
use serde_json::{Value, json};
use std::io::{BufRead, Write, stdin, stdout};

/// The row served last, with its data.
struct Kept {
    name: &'static str,
    call: Call,
}

/// Greets, then answers a request a line until `quit` or the end of the input.
pub fn run(device: Result<Device, Error>) -> Result<(), Failure> {
    let device = match device {
        Ok(device) => device,
        Err(error) => {
            say(&json!({"absent": "Kiln", "reason": error.to_string()}))?;
            std::process::exit(3);
        }
    };
    let rows = all(&device);
    let names: Vec<&str> = rows.iter().map(|r| r.name).collect();
    say(
        &json!({"ready": "Kiln", "version": env!("CARGO_PKG_VERSION"), "device": hardware(&device), "rows": names}),
    )?;
    let mut kept = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let reply = match words[..] {
            ["quit"] => break,
            ["bench", name, rounds] => request(&device, &rows, &mut kept, name, rounds),
            _ => json!({"error": format!("not a request: {line}")}),
        };
        say(&reply)?;
    }
    Ok(())
}

fn request(device: &Device, rows: &[Row], kept: &mut Option<Kept>, name: &str, rounds: &str) -> Value {
    let Some(row) = rows.iter().find(|r| r.name == name) else {
        return json!({"name": name, "error": "no such row"});
    };
    let Some(rounds) = rounds.parse().ok().filter(|&n: &usize| n > 0) else {
        return json!({"name": name, "error": format!("not a number of rounds: {rounds}")});
    };
    match times(device, row, kept, rounds) {
        Ok(times) => json!({"name": name, "times_us": times}),
        Err(error) => json!({"name": name, "error": error.to_string()}),
    }
}

fn times(device: &Device, row: &Row, kept: &mut Option<Kept>, rounds: usize) -> Result<Vec<f64>, Error> {
    if kept.as_ref().is_none_or(|k| k.name != row.name) {
        // The old data goes before the new is made: both may not fit.
        *kept = None;
        *kept = row.call(device)?.map(|call| Kept { name: row.name, call });
    }
    match kept {
        Some(kept) => clock::times(device, &mut kept.call, row.cache, rounds),
        None => row.times(device, rounds),
    }
}

/// The hardware in the words the peers use too.
fn hardware(device: &Device) -> String {
    let properties = device.properties();
    match properties.capabilities.execution {
        Execution::Simt => properties.name.clone(),
        _ => format!("{}, {} cores", properties.name, properties.units),
    }
}

fn say(reply: &Value) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{reply}")?;
    out.flush()
}

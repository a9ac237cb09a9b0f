//! Random programs over arrays against NumPy's results, which `tools/array_programs.py` has written
//! to `numpy/programs.txt`. `KILN_ARRAY_PROGRAMS` names another file of it.

mod steps;

use kiln_array::{Array, eval};
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};
use steps::{array, compare, step};

/// One program: its results computed together, as a plan that may share and fuse what they need.
fn run(device: &Device, line: &str) -> Result<(), String> {
    let mut parts = line.split('|');
    let mut values: Vec<Array> = Vec::new();
    for text in parts.next().unwrap().split(';') {
        values.push(step(device, text, &values));
    }
    let results: Vec<(usize, Array)> = parts
        .map(|part| {
            let (at, text) = part.split_once(' ').unwrap();
            (at.parse().unwrap(), array(device, text))
        })
        .collect();
    let asked: Vec<&Array> = results.iter().map(|(at, _)| &values[*at]).collect();
    eval(&asked).map_err(|error| error.to_string())?;
    results.iter().try_for_each(|(at, expected)| {
        compare(&values[*at], expected).map_err(|e| format!("value {at}: {e}"))
    })
}

fn programs_on(device: &Device, every: usize) {
    let other = std::env::var("KILN_ARRAY_PROGRAMS").ok().map(|path| std::fs::read_to_string(path).unwrap());
    let text = other.as_deref().unwrap_or(include_str!("numpy/programs.txt"));
    let lines = text.lines().step_by(every);
    let wrong: Vec<String> =
        lines.filter_map(|line| run(device, line).err().map(|e| format!("{e}\n{line}"))).collect();
    assert!(wrong.is_empty(), "{} programs differ on {}:\n{}", wrong.len(), device.id(), wrong.join("\n\n"));
}

#[test]
fn on_a_device() {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    programs_on(&Device::open(&name).unwrap(), 1);
}

#[test]
fn in_the_interpreter() {
    programs_on(&Device::open("interp").unwrap(), 3);
}

/// The code that a GPU is given, run by the interpreter.
#[test]
fn as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    programs_on(&Device::with_backend(Box::new(backend), DiskCache::none()), 5);
}

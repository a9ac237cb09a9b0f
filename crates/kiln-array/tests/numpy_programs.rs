//! Random programs over arrays against NumPy's results, which `tools/array_programs.py` has written
//! to `numpy/programs.txt`. `KILN_ARRAY_PROGRAMS` names another file of it.

mod steps;

use kiln_array::{Array, Scalar, eval, stack, vmap_axes};
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};
use steps::{array, compare, step};

/// The values of a program of these inputs.
fn values_of(device: &Device, program: &[&str], inputs: &[Array]) -> Vec<Array> {
    let mut values = inputs.to_vec();
    for text in &program[inputs.len()..] {
        values.push(step(device, text, &values));
    }
    values
}

fn inputs_of(device: &Device, program: &[&str]) -> Vec<Array> {
    program.iter().map_while(|text| text.strip_prefix("in ")).map(|text| array(device, text)).collect()
}

/// One program: its results computed together, as a plan that may share and fuse what they need.
fn run(device: &Device, line: &str) -> Result<(), String> {
    let mut parts = line.split('|');
    let program: Vec<&str> = parts.next().unwrap().split(';').collect();
    let values = values_of(device, &program, &inputs_of(device, &program));
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

/// The program for two sets of inputs at once, some of which are the same for both, and for each
/// alone.
fn run_mapped(device: &Device, line: &str) -> Result<(), String> {
    let (program, results) = line.split_once('|').unwrap();
    let program: Vec<&str> = program.split(';').collect();
    let results: Vec<usize> =
        results.split('|').map(|part| part.split_once(' ').unwrap().0.parse().unwrap()).collect();
    let inputs = inputs_of(device, &program);
    let is_shared = |at: usize| at % 3 == 1;
    let others: Vec<Array> = inputs.iter().enumerate().map(|(at, x)| other(x, is_shared(at))).collect();
    let both = inputs.iter().zip(&others).enumerate();
    let both: Vec<Array> =
        both.map(|(at, (x, y))| if is_shared(at) { x.clone() } else { stack(&[x, y], 0) }).collect();
    let axes: Vec<Option<isize>> = (0..inputs.len()).map(|at| (!is_shared(at)).then_some(0)).collect();
    let of = |inputs: &Vec<Array>| -> Vec<Array> {
        let values = values_of(device, &program, inputs);
        results.iter().map(|&at| values[at].clone()).collect()
    };
    let mapped = vmap_axes(of, &both, &axes, 0);
    for (part, inputs) in [inputs, others].iter().enumerate() {
        for ((got, expected), at) in mapped.iter().zip(of(inputs)).zip(&results) {
            let got = got.select(0, part as isize);
            compare(&got, &expected).map_err(|e| format!("value {at} of part {part}: {e}"))?;
        }
    }
    Ok(())
}

/// Another input of the same shape, or the same.
fn other(x: &Array, is_same: bool) -> Array {
    match x.dtype() {
        _ if is_same => x.clone(),
        _ if x.rank() > 0 => x.roll(1, -1),
        Scalar::Bool => !x,
        _ => x + 2,
    }
}

fn programs_on(device: &Device, run: fn(&Device, &str) -> Result<(), String>, every: usize) {
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
    programs_on(&Device::open(&name).unwrap(), run, 1);
}

#[test]
fn in_the_interpreter() {
    programs_on(&Device::open("interp").unwrap(), run, 3);
}

/// The code that a GPU is given, run by the interpreter.
#[test]
fn as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    programs_on(&Device::with_backend(Box::new(backend), DiskCache::none()), run, 5);
}

/// `vmap` of a program is the program of each part.
#[test]
fn for_many_inputs() {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    programs_on(&Device::open(&name).unwrap(), run_mapped, 1);
}

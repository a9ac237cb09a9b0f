//! Random programs over arrays against NumPy's results, which `tools/array_programs.py` has written
//! to `numpy/programs.txt`. `KILN_ARRAY_PROGRAMS` names another file of it.

mod steps;

use kiln_array::{Array, Scalar, eval, stack, vmap_axes};
use kiln_runtime::Device;
use steps::{array, compare, compare_within, device, gpu_code, programs_on, step};

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

/// The steps of a program, and the numbers of its results.
fn parts_of(line: &str) -> (Vec<&str>, Vec<usize>) {
    let (program, results) = line.split_once('|').unwrap();
    let number = |part: &str| part.split_once(' ').unwrap().0.parse().unwrap();
    (program.split(';').collect(), results.split('|').map(number).collect())
}

/// The program in 32 and in 16 bits, whose results are those of the CPU.
fn run_narrowed(device: &Device, line: &str) -> Result<(), String> {
    let cpu = Device::open("cpu").unwrap();
    let (program, results) = parts_of(line);
    for (float, tolerance) in [(Scalar::F32, 1e-4), (Scalar::F16, 1e-2)] {
        let narrowed = |x: &Array| match x.dtype() {
            Scalar::F64 => x.cast(float),
            Scalar::I64 => x.cast(Scalar::I32),
            _ => x.clone(),
        };
        let [got, expected] = [device, &cpu].map(|device| {
            let inputs: Vec<Array> = inputs_of(device, &program).iter().map(narrowed).collect();
            values_of(device, &program, &inputs)
        });
        for &at in &results {
            compare_within(tolerance, &got[at], &expected[at])
                .map_err(|e| format!("value {at} in {float:?}: {e}"))?;
        }
    }
    Ok(())
}

/// The program for two sets of inputs at once, some of which are the same for both, and for each
/// alone.
fn run_mapped(device: &Device, line: &str) -> Result<(), String> {
    let (program, results) = parts_of(line);
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

const PROGRAMS: &str = include_str!("numpy/programs.txt");

#[test]
fn on_a_device() {
    programs_on(&device(), PROGRAMS, run, 1);
}

#[test]
fn in_the_interpreter() {
    programs_on(&Device::open("interp").unwrap(), PROGRAMS, run, 3);
}

#[test]
fn as_code_for_gpus() {
    programs_on(&gpu_code(), PROGRAMS, run, 5);
}

/// Registers hold more elements of narrower numbers, so that their tiles lie otherwise.
#[test]
fn of_narrower_numbers() {
    programs_on(&gpu_code(), PROGRAMS, run_narrowed, 4);
}

/// `vmap` of a program is the program of each part.
#[test]
fn for_many_inputs() {
    programs_on(&device(), PROGRAMS, run_mapped, 1);
}

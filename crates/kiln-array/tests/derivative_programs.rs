//! Gradients of random programs over arrays against JAX's, which `tools/derivative_programs.py` has
//! written to `jax/programs.txt`. `KILN_ARRAY_PROGRAMS` names another file of it.

mod steps;

use kiln_array::{Array, Scalar, eval, grad, jvp, stack, vmap};
use kiln_runtime::Device;
use steps::{array, compare, device, gpu_code, programs_on, step};

/// The sum of the sines of the last value of floats that the program computes.
fn result(device: &Device, program: &[&str], inputs: &[Array], floats: &[Array]) -> Array {
    let mut floats = floats.iter();
    let mut values: Vec<Array> = Vec::new();
    for (at, text) in program.iter().enumerate() {
        values.push(match inputs.get(at) {
            Some(input) if input.dtype() == Scalar::F64 => floats.next().unwrap().clone(),
            Some(input) => input.clone(),
            None => step(device, text, &values),
        });
    }
    let is_of_floats = |x: &&Array| x.dtype() == Scalar::F64 || x.error().is_some();
    values[inputs.len()..].iter().rev().find(is_of_floats).unwrap().sin().sum()
}

/// A program's inputs, and those of them that are of floats.
fn inputs_of(device: &Device, program: &[&str]) -> [Vec<Array>; 2] {
    let texts = program.iter().map_while(|text| text.strip_prefix("in "));
    let inputs: Vec<Array> = texts.map(|text| array(device, text)).collect();
    let floats = inputs.iter().filter(|x| x.dtype() == Scalar::F64).cloned().collect();
    [inputs, floats]
}

fn run(device: &Device, line: &str) -> Result<(), String> {
    let mut parts = line.split('|');
    let program: Vec<&str> = parts.next().unwrap().split(';').collect();
    let [inputs, floats] = inputs_of(device, &program);
    let gradients = grad(|floats: &Vec<Array>| result(device, &program, &inputs, floats), &floats);
    eval(&gradients.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    gradients.iter().zip(parts).enumerate().try_for_each(|(at, (gradient, text))| {
        compare(gradient, &array(device, text)).map_err(|e| format!("gradient {at}: {e}"))
    })
}

/// The tangent is the gradient times that of the inputs, and gradients of two sets of inputs at
/// once are those of each.
fn run_otherwise(device: &Device, line: &str) -> Result<(), String> {
    let program: Vec<&str> = line.split_once('|').unwrap().0.split(';').collect();
    let [inputs, floats] = inputs_of(device, &program);
    let value = |floats: &Vec<Array>| result(device, &program, &inputs, floats);
    let tangents: Vec<Array> = floats.iter().map(|x| (x * 3.0).cos()).collect();
    let (_, tangent) = jvp(value, &floats, &tangents);
    let gradients = grad(value, &floats);
    let along = gradients.iter().zip(&tangents).map(|(gradient, tangent)| (gradient * tangent).sum());
    let expected = along.reduce(|a, b| a + b).unwrap();
    compare(&tangent, &expected).map_err(|e| format!("tangent: {e}"))?;

    let others: Vec<Array> = floats.iter().map(|x| x * 0.75 + 0.125).collect();
    let both: Vec<Array> = floats.iter().zip(&others).map(|(x, y)| stack(&[x, y], 0)).collect();
    let mapped = vmap(|floats: &Vec<Array>| grad(value, floats), &both);
    for (part, floats) in [floats, others].iter().enumerate() {
        for (at, (got, expected)) in mapped.iter().zip(grad(value, floats)).enumerate() {
            let got = got.select(0, part as isize);
            compare(&got, &expected).map_err(|e| format!("gradient {at} of part {part}: {e}"))?;
        }
    }
    Ok(())
}

const PROGRAMS: &str = include_str!("jax/programs.txt");

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

#[test]
fn forward_and_for_many_inputs() {
    programs_on(&device(), PROGRAMS, run_otherwise, 1);
}

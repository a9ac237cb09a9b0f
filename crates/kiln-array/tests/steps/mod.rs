//! Steps of programs that `tools/array_programs.py` and `derivative_programs.py` write.

use kiln_array::{Array, Scalar, concatenate, stack};
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};

/// An array as the tool writes it: its type, its shape and its elements.
pub fn array(device: &Device, text: &str) -> Array {
    let mut words = text.split(' ');
    let (dtype, shape) = (words.next().unwrap(), words.next().unwrap());
    let shape: Vec<usize> =
        shape[1..shape.len() - 1].split(',').filter_map(|extent| extent.parse().ok()).collect();
    let elements: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
    Array::new(device, &elements, &shape).cast(Scalar::from_name(dtype).unwrap())
}

/// What a step makes of the values before it.
pub fn step(device: &Device, text: &str, before: &[Array]) -> Array {
    let (name, rest) = text.split_once(' ').unwrap();
    if name == "in" {
        return array(device, rest);
    }
    let n: Vec<isize> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    let at = |which: usize| &before[n[which] as usize];
    let size = |which: usize| n[which] as usize;
    let indices =
        || Array::new(device, &n[2..].iter().map(|&i| i as i64).collect::<Vec<_>>(), &[n.len() - 2]);
    let x = at(0);
    macro_rules! reduced {
        ($axes:ident $keep:ident) => {
            if n[2] == 1 { x.$keep(&[n[1]]) } else { x.$axes(&[n[1]]) }
        };
    }
    match name {
        "sin" => x.sin(),
        "tanh" => x.tanh(),
        "floor" => x.floor(),
        "square" => x.square(),
        "neg" => -x,
        "abs" => x.abs(),
        "sqrt_abs" => x.abs().sqrt(),
        "add" => x + at(1),
        "sub" => x - at(1),
        "mul" => x * at(1),
        "maximum" => x.maximum(at(1)),
        "minimum" => x.minimum(at(1)),
        "less" => x.less(at(1)),
        "equal" => x.equal(at(1)),
        "number" => x * n[1] as i64 + 1,
        "floor_divide" => x.floor_divide(at(1).where_(&at(1).not_equal(0), 1)),
        "sum" => reduced!(sum_axes sum_keep),
        "mean" => reduced!(mean_axes mean_keep),
        "max" => reduced!(max_axes max_keep),
        "min" => reduced!(min_axes min_keep),
        "var" => reduced!(var_axes var_keep),
        "any" => reduced!(any_axes any_keep),
        "all" => reduced!(all_axes all_keep),
        "cumsum" => x.cumsum(n[1]),
        "softmax" => x.softmax(n[1]),
        "sort" => x.sort(n[1]),
        "argmax" => x.argmax(n[1]),
        "argmin" => x.argmin(n[1]),
        "cast" => x.cast(Scalar::from_name(rest.split_once(' ').unwrap().1).unwrap()),
        "where" => x.where_(at(1), at(2)),
        "slice" => x.slice_step(n[1], n[2]..n[3], n[4]),
        "select" => x.select(n[1], n[2]),
        "permute" => x.permute(&n[1..]),
        "reshape" => x.reshape(&n[1..]),
        "unsqueeze" => x.unsqueeze(n[1]),
        "flip" => x.flip(&[n[1]]),
        "roll" => x.roll(n[1], n[2]),
        "pad" => {
            let mut widths = vec![(0, 0); x.rank()];
            widths[size(1)] = (size(2), size(3));
            x.pad(&widths)
        }
        "concatenate" => concatenate(&[x, at(1)], n[2]),
        "stack" => stack(&[x, at(1)], n[2]),
        "repeat" => x.repeat(size(1), n[2]),
        "take" => x.take(&indices(), n[1]),
        "taken_by" => x.take(&(at(1) % x.shape()[size(2)]), n[2]),
        "matmul" => x.matmul(at(1)),
        "scatter_add" => x.scatter_add(&indices(), &(x.take(&indices(), n[1]) * 0.5), n[1]),
        "windows" => x.windows(n[1], size(2), size(3)),
        "tril" => x.tril(n[1]),
        "triu" => x.triu(n[1]),
        "tile" => x.tile(&(1..n.len()).map(size).collect::<Vec<_>>()),
        "diagonal" => x.diagonal(),
        "argsort" => x.argsort(n[1]),
        "take_along" => x.take_along(&(at(1) % x.shape()[size(2)]), n[2]),
        "scatter" => {
            let backwards: Vec<i64> = n[2..].iter().rev().map(|&i| i as i64).collect();
            let values = x.take(&Array::new(device, &backwards, &[n.len() - 2]), n[1]);
            x.scatter(&indices(), &values, n[1])
        }
        "clip" => x.clip(-2, 3),
        "diff" => x.diff(n[1]),
        "logsumexp" => x.logsumexp(n[1]),
        "std" => reduced!(std_axes std_keep),
        "norm" => reduced!(norm_axes norm_keep),
        _ => panic!("unknown step {text}"),
    }
}

/// Whether a result is the expected one, or how it differs.
pub fn compare(got: &Array, expected: &Array) -> Result<(), String> {
    compare_within(1e-9, got, expected)
}

/// Whether a result is the expected one but for so much, or how it differs.
pub fn compare_within(tolerance: f64, got: &Array, expected: &Array) -> Result<(), String> {
    let said = |error: kiln_array::Error| error.to_string();
    let (found, wanted) =
        ((got.dtype(), got.shape().to_vec()), (expected.dtype(), expected.shape().to_vec()));
    // One with an error has no shape.
    let values = got.cast(Scalar::F64).to_vec::<f64>().map_err(said)?;
    if found != wanted {
        return Err(format!("{found:?} for {wanted:?}"));
    }
    let expected = expected.cast(Scalar::F64).to_vec::<f64>().map_err(said)?;
    let close = |(a, b): (&f64, &f64)| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs())
    };
    match values.iter().zip(&expected).position(|pair| !close(pair)) {
        None => Ok(()),
        Some(at) => Err(format!("element {at} is {}, expected {}", values[at], expected[at])),
    }
}

/// Runs every so many of the programs, or of those in the file that `KILN_ARRAY_PROGRAMS` names.
pub fn programs_on(device: &Device, text: &str, run: fn(&Device, &str) -> Result<(), String>, every: usize) {
    let other = std::env::var("KILN_ARRAY_PROGRAMS").ok().map(|path| std::fs::read_to_string(path).unwrap());
    let lines = other.as_deref().unwrap_or(text).lines().step_by(every);
    let wrong: Vec<String> =
        lines.filter_map(|line| run(device, line).err().map(|e| format!("{e}\n{line}"))).collect();
    assert!(wrong.is_empty(), "{} programs differ on {}:\n{}", wrong.len(), device.id(), wrong.join("\n\n"));
}

/// The device that `KILN_DEVICE` names, or the CPU.
pub fn device() -> Device {
    Device::open(&std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into())).unwrap()
}

/// The code that a GPU is given, run by the interpreter.
pub fn gpu_code() -> Device {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    Device::with_backend(Box::new(backend), DiskCache::none())
}

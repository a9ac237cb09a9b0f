//! Operation by operation against NumPy's results, which `tools/array_cases.py` has written to
//! `numpy/cases.txt`.

use half::f16;
use kiln_array::{Array, MatrixNorm, Padding, Side, concatenate, einsum, meshgrid, stack};
use kiln_fuzz::GpuCode;
use kiln_ir::Scalar;
use kiln_runtime::{Device, DiskCache};

/// An array of a case. Elements are compared as f64, or as i128 where they are integers.
#[derive(Debug)]
struct Given {
    dtype: Scalar,
    shape: Vec<usize>,
    elements: Vec<String>,
}

impl Given {
    fn parse(text: &str) -> Given {
        let mut words = text.split_whitespace();
        let dtype = Scalar::from_name(words.next().unwrap()).unwrap();
        let shape = words.next().unwrap().trim_matches(['[', ']']);
        let shape = shape
            .split(',')
            .filter(|extent| !extent.is_empty())
            .map(|extent| extent.parse().unwrap())
            .collect();
        Given { dtype, shape, elements: words.map(str::to_owned).collect() }
    }

    fn on(&self, device: &Device) -> Array {
        macro_rules! of {
            ($($scalar:ident $t:ty),*) => {
                match self.dtype {
                    Scalar::Bool => {
                        let all: Vec<bool> = self.elements.iter().map(|e| e == "1").collect();
                        Array::new(device, &all, &self.shape)
                    }
                    Scalar::F16 => {
                        let all: Vec<f16> = self.elements.iter().map(|e| f16::from_f64(e.parse().unwrap())).collect();
                        Array::new(device, &all, &self.shape)
                    }
                    $(Scalar::$scalar => {
                        let all: Vec<$t> = self.elements.iter().map(|e| e.parse().unwrap()).collect();
                        Array::new(device, &all, &self.shape)
                    })*
                    other => panic!("no arrays of {other}"),
                }
            };
        }
        of!(I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, F32 f32, F64 f64)
    }
}

/// The elements as f64. Those of the cases are small enough.
fn elements(x: &Array) -> Vec<f64> {
    x.cast(Scalar::F64).to_vec().unwrap()
}

/// Applies operations, one after the other, to the inputs.
fn apply(ops: &str, inputs: &[Array]) -> Array {
    let mut x = inputs[0].clone();
    for op in ops.split(';') {
        let words: Vec<&str> = op.split_whitespace().collect();
        let numbers: Vec<isize> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
        x = one(&words, &numbers, &x, &inputs[1..]);
    }
    x
}

fn one(words: &[&str], n: &[isize], x: &Array, rest: &[Array]) -> Array {
    let floats: Vec<f64> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
    let sizes: Vec<usize> = n.iter().map(|&n| n.unsigned_abs()).collect();
    macro_rules! reduced {
        ($all:ident $axes:ident $keep:ident) => {
            match (words[1], n) {
                ("keep", axes) => x.$keep(axes),
                ("drop", []) => x.$all(),
                (_, axes) => x.$axes(axes),
            }
        };
    }
    macro_rules! unary {
        ($($name:ident)*) => {
            match words[0] {
                $(stringify!($name) => Some(x.$name()),)*
                _ => None,
            }
        };
    }
    macro_rules! binary {
        ($($name:ident)*) => {
            match (words[0], rest.first()) {
                $((stringify!($name), Some(y)) => Some(x.$name(y)),)*
                _ => None,
            }
        };
    }
    let simple = unary!(asinh acosh atanh cbrt expm1 log10 tan asin acos atan sinh cosh is_finite is_inf exp exp2 log log2 log1p sin cos tanh sqrt abs floor ceil round trunc sign is_nan square
        transpose flatten);
    let simple = simple.or_else(|| {
        binary!(maximum minimum less less_equal greater greater_equal equal not_equal
        floor_divide pow atan2 hypot array_equal matmul)
    });
    if let Some(y) = simple {
        return y;
    }
    match words[0] {
        "neg" => -x,
        "not" => !x,
        "add" => x + &rest[0],
        "sub" => x - &rest[0],
        "mul" => x * &rest[0],
        "div" => x / &rest[0],
        "rem" => x % &rest[0],
        "and" => x & &rest[0],
        "or" => x | &rest[0],
        "xor" => x ^ &rest[0],
        "where" => rest[0].where_(x, &rest[1]),
        "cast" => x.cast(Scalar::from_name(words[1]).unwrap()),
        "sum" => reduced!(sum sum_axes sum_keep),
        "prod" => reduced!(prod prod_axes prod_keep),
        "mean" => reduced!(mean mean_axes mean_keep),
        "var" => reduced!(var var_axes var_keep),
        "max" => reduced!(max max_axes max_keep),
        "min" => reduced!(min min_axes min_keep),
        "any" => reduced!(any any_axes any_keep),
        "all" => reduced!(all all_axes all_keep),
        "argmax" => x.argmax(n[0]),
        "argmin" => x.argmin(n[0]),
        "cumsum" => x.cumsum(n[0]),
        "permute" => x.permute(n),
        "reshape" => x.reshape(n),
        "slice" => x.slice_step(n[0], sizes[1]..sizes[2], n[3]),
        "flip" => x.flip(n),
        "pad_with" => {
            let with = match words[1] {
                "edge" => Padding::Edge,
                "reflect" => Padding::Reflect,
                "symmetric" => Padding::Symmetric,
                "wrap" => Padding::Wrap,
                number => Padding::Constant(number.parse().unwrap()),
            };
            let widths: Vec<usize> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
            x.pad_with(&widths.chunks(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>(), with)
        }
        "pad" => x.pad(&sizes.chunks(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()),
        "select" => x.select(n[0], n[1]),
        "unsqueeze" => x.unsqueeze(n[0]),
        "swap_axes" => x.swap_axes(n[0], n[1]),
        "broadcast_to" => x.broadcast_to(&sizes),
        "concatenate" | "stack" => {
            let mut all = vec![x];
            all.extend(rest);
            if words[0] == "stack" { stack(&all, n[0]) } else { concatenate(&all, n[0]) }
        }
        "take" => x.take(&rest[0], n[0]),
        "take_along" => x.take_along(&rest[0], n[0]),
        "roll" => x.roll(n[0], n[1]),
        "repeat" => x.repeat(sizes[0], n[1]),
        "tile" => x.tile(&sizes),
        "tril" => x.tril(n[0]),
        "triu" => x.triu(n[0]),
        "diagonal" => x.diagonal(),
        "trace" => x.trace(),
        "move_axis" => x.move_axis(n[0], n[1]),
        "diff" => x.diff(n[0]),
        "std" => reduced!(std std_axes std_keep),
        "norm" => reduced!(norm norm_axes norm_keep),
        "zeros_like" => x.zeros_like(),
        "ones_like" => x.ones_like(),
        "scatter" => x.scatter(&rest[0], &rest[1], n[0]),
        "scatter_add" => x.scatter_add(&rest[0], &rest[1], n[0]),
        "put_along" => x.put_along(&rest[0], &rest[1], n[0]),
        "mask_select" => x.mask_select(&rest[0]),
        "compress" => x.compress(&rest[0], n[0]),
        "nonzero" => x.nonzero()[sizes[0]].clone(),
        "cholesky" => x.cholesky(),
        "inverse" => x.inverse(),
        "determinant" => x.determinant(),
        "svdvals" => x.svd().1,
        "eigvalsh" => x.eigh().0,
        "pinv" => x.pinv(),
        "lstsq" => x.lstsq(&rest[0]),
        "slogdet" if words[1] == "sign" => x.slogdet().0,
        "slogdet" => x.slogdet().1,
        "matrix_norm" => x.matrix_norm(match words[1] {
            "frobenius" => MatrixNorm::Frobenius,
            "nuclear" => MatrixNorm::Nuclear,
            "spectral" => MatrixNorm::Spectral,
            "one" => MatrixNorm::One,
            _ => MatrixNorm::Infinity,
        }),
        "cumprod" => x.cumprod(n[0]),
        "cummax" => x.cummax(n[0]),
        "cummin" => x.cummin(n[0]),
        "solve" => x.solve(&rest[0]),
        "qr" if words[1] == "q" => x.qr().0,
        "qr" => x.qr().1,
        "fft" if words[1] == "re" => x.fft(&rest[0], n[0]).0,
        "fft" => x.fft(&rest[0], n[0]).1,
        "ifft" => x.ifft(&rest[0], n[0]).1,
        "rfft" => x.rfft(n[0]).1,
        "irfft" => x.irfft(&rest[0], sizes[0], n[1]),
        "sort" => x.sort(n[0]),
        "median" => x.median(n[0]),
        "quantile" => x.quantile(floats[1], n[0]),
        "quantiles" => x.quantiles(&floats[1..], n[0]),
        "is_close" => x.is_close(&rest[0], floats[0], floats[1]),
        "all_close" => x.all_close(&rest[0], floats[0], floats[1]),
        "searchsorted" if words[1] == "left" => x.searchsorted(&rest[0], Side::Left),
        "searchsorted" => x.searchsorted(&rest[0], Side::Right),
        "bincount" => x.bincount(sizes[0]),
        "bincount_weighted" => x.bincount_weighted(&rest[0], sizes[0]),
        "meshgrid" => {
            let all: Vec<&Array> = [x].into_iter().chain(rest).collect();
            meshgrid(&all)[sizes[0]].clone()
        }
        "argsort" => x.argsort(n[0]),
        "einsum" => {
            let mut all = vec![x];
            all.extend(rest);
            einsum(words[1], &all)
        }
        "matmul_transposed" => x.transpose().matmul(&rest[0]),
        other => panic!("no operation {other}"),
    }
}

/// How much a result may differ: a few units in the last place of sums.
fn tolerance(dtype: Scalar) -> f64 {
    match dtype {
        Scalar::F16 => 2e-3,
        Scalar::F32 => 3e-6,
        Scalar::F64 => 1e-12,
        _ => 0.0,
    }
}

/// Three units in the last place.
fn units(dtype: Scalar) -> f64 {
    match dtype {
        Scalar::F16 => 3.0 / 1024.0,
        Scalar::F32 => 3.0 * f64::from(f32::EPSILON),
        _ => 3.0 * f64::EPSILON,
    }
}

fn check(device: &Device, every: usize) {
    let mut wrong = Vec::new();
    let mut tested = 0;
    for line in include_str!("numpy/cases.txt").lines().step_by(every) {
        let mut parts: Vec<&str> = line.split('|').collect();
        let expected = Given::parse(parts.pop().unwrap());
        let inputs: Vec<Array> = parts[1..].iter().map(|text| Given::parse(text).on(device)).collect();
        let result = apply(parts[0], &inputs);
        tested += 1;
        if let Err(error) = result.eval() {
            wrong.push(format!("{line}: {error}"));
            continue;
        }
        if (result.dtype(), result.shape()) != (expected.dtype, &expected.shape[..]) {
            wrong.push(format!("{line}: {result:?}, expected {} {:?}", expected.dtype, expected.shape));
            continue;
        }
        let got = elements(&result);
        let numbers = expected.elements.iter().map(|e| e.parse::<f64>().unwrap());
        // Each element of a transform is a sum of all, and each singular value depends on all.
        let of_all = ["fft", "svdvals", "eigvalsh", "pinv", "lstsq"];
        // Functions of each element that are accurate for small results too.
        let of_each = ["asinh", "acosh", "atanh", "cbrt", "hypot"].contains(&parts[0]);
        let largest = match of_all.iter().any(|name| parts[0].contains(name)) {
            true => numbers.clone().map(f64::abs).fold(1.0, f64::max),
            false if of_each => 0.0,
            false => 1.0,
        };
        let relative = if of_each { units(expected.dtype) } else { tolerance(expected.dtype) };
        let close = |(&a, b): (&f64, f64)| {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= relative * b.abs().max(largest)
        };
        if got.len() != expected.elements.len() || !got.iter().zip(numbers).all(close) {
            wrong.push(format!("{line}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {tested} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tested > 100);
}

/// On the CPU, or the device that the environment variable `KILN_DEVICE` names.
#[test]
fn on_a_device() {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    check(&Device::open(&name).unwrap(), 1);
}

#[test]
fn in_the_interpreter() {
    check(&Device::open("interp").unwrap(), 3);
}

/// The code that a GPU is given, run by the interpreter.
#[test]
fn as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    check(&Device::with_backend(Box::new(backend), DiskCache::none()), 9);
}

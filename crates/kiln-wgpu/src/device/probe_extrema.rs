//! Whether a driver's minimum and maximum of f32 are as the IR has them.
//!
//! No API says so: NaN and the signs of zeros are left to the driver. The device is asked as it is
//! opened, with numbers from memory and with constants, which a compiler may see through.

use super::backend::Wgpu;
use super::probe::of_kernel;
use kiln_backend::Result;
use std::fmt::Write as _;

/// What the operations are of.
const INPUT: [f32; 8] =
    [f32::NAN, 1.0, -0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(1), -f32::from_bits(1)];

/// The constants, as the IR's text has them.
const CONSTANTS: [&str; 8] = ["nan", "1.0", "-0.0", "0.0", "inf", "-inf", "1e-45", "-1e-45"];

/// How many of these are not subnormal.
const NORMAL: usize = 6;

/// Whether minimum and maximum are exact on a device, whose code features must say that they are,
/// those of subnormal numbers among them where these count.
pub(crate) async fn has_exact_extrema(device: &Wgpu, subnormals: bool) -> Result<bool> {
    let numbers = if subnormals { INPUT.len() } else { NORMAL };
    let expected = expected(numbers);
    let mut bytes: Vec<u8> = INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    bytes.resize(4 * expected.len(), 0);
    let result = of_kernel(device, &text(numbers), &bytes, expected.len()).await?;
    let results = result.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let same = |(got, want): (f32, f32)| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
    Ok(results.zip(expected).all(same))
}

/// Leaves the operations on all pairs in the elements: of two numbers from memory, and of one and a
/// constant.
fn text(numbers: usize) -> String {
    let mut text = "kernel @extrema(%x: mut view<f32, 1, global>) thread [1, 1, 1] {\n".to_owned();
    // Writing to a string does not fail.
    for (i, constant) in CONSTANTS[..numbers].iter().enumerate() {
        let _ = writeln!(text, "  %i{i} = const {i} : i64");
        let _ = writeln!(text, "  %v{i} = view_load.x1 %x[%i{i}] : f32");
        let _ = writeln!(text, "  %c{i} = const {constant} : f32");
    }
    for (at, (op, i, right, j)) in operations(numbers).enumerate() {
        let _ = writeln!(text, "  %at{at} = const {at} : i64");
        let _ = writeln!(text, "  %r{at} = {op} %v{i}, %{right}{j} : f32");
        let _ = writeln!(text, "  view_store.x1 %x[%at{at}] = %r{at}");
    }
    text + "}"
}

/// Each operation, its left number, and the kind and the number of its right one.
fn operations(numbers: usize) -> impl Iterator<Item = (&'static str, usize, &'static str, usize)> {
    let pairs = move || (0..numbers).flat_map(move |i| (0..numbers).map(move |j| (i, j)));
    let all = ["min", "max"].into_iter().flat_map(|op| ["v", "c"].map(|right| (op, right)));
    all.flat_map(move |(op, right)| pairs().map(move |(i, j)| (op, i, right, j)))
}

fn expected(numbers: usize) -> Vec<f32> {
    let of = |op: &str, a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        // Of zeros the sign decides.
        _ if a == b => match a.is_sign_negative() == (op == "min") {
            true => a,
            false => b,
        },
        _ if (a < b) == (op == "min") => a,
        _ => b,
    };
    operations(numbers).map(|(op, i, _, j)| of(op, INPUT[i], INPUT[j])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{BinaryOp, Literal, Scalar, eval};

    #[test]
    fn what_is_expected_is_what_the_ir_means() {
        for ((op, i, _, j), want) in operations(INPUT.len()).zip(expected(INPUT.len())) {
            let op = if op == "min" { BinaryOp::Min } else { BinaryOp::Max };
            let [a, b] = [i, j].map(|i| Literal::from_f64(Scalar::F32, INPUT[i].into()));
            let got = eval::binary(op, a, b).map(|x| x.as_f64() as f32);
            let same =
                got.is_some_and(|got| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            assert!(same, "{op:?} of {a} and {b} is {got:?}, expected {want}");
        }
    }

    #[test]
    fn the_kernel_is_valid() {
        let kernel = kiln_ir::parse(&text(INPUT.len())).unwrap();
        assert_eq!(kiln_ir::verify(&kernel), Ok(()));
    }
}

//! Element-wise operations and conversions of every type that the adapter has, on special values
//! and random ones, against `kiln_ir::eval`, which computes floats in f64.

use crate::device::{Arg, Device};
use crate::{Test, compiled_for, random};
use kiln_ir::{BinaryOp, CompareOp, Expansion, Literal, Scalar, UnaryOp, eval};
use kiln_wgpu::{Features, Module};

pub const TESTS: &[Test] = &[
    ("unary_operations", |device| everywhere(device, unary)),
    ("binary_operations", |device| everywhere(device, binary)),
    ("comparisons", |device| everywhere(device, comparisons)),
    ("conversions", |device| everywhere(device, conversions)),
    ("bitcasts", |device| everywhere(device, bitcasts)),
    ("selects_and_multiply_adds", |device| everywhere(device, ternary)),
    ("multiply_adds_round_once", |device| everywhere(device, multiply_adds)),
    ("multiply_adds_of_any_size", |device| everywhere(device, multiply_adds_of_any_size)),
    ("powers_of_two", |device| everywhere(device, powers_of_two)),
    ("quotients_and_roots_are_corrected", quotients_and_roots),
    ("zeros_are_added", |device| everywhere(device, zeros)),
    ("sums_are_not_rearranged", |device| everywhere(device, errors_of_sums)),
    ("constants", |device| everywhere(device, constants)),
    ("rounding_to_few_bits", |device| everywhere(device, rounding)),
];

/// Types that are converted, and have no arithmetic on any adapter.
const CONVERTED: [Scalar; 5] = [Scalar::BF16, Scalar::I8, Scalar::U8, Scalar::E4M3, Scalar::E5M2];

/// A device, the features of it that are used, and types if the test is about these alone.
struct On<'d> {
    device: &'d Device,
    features: Features,
    only: Option<&'static [Scalar]>,
}

/// Runs a test with all that the device has, and of types without their features.
fn everywhere(device: &Device, test: fn(&On<'_>) -> Result<(), String>) -> Result<(), String> {
    test(&On { device, features: device.features, only: None })?;
    let features = Features { float16: false, ..device.features };
    let without = On { device, features, only: Some(&[Scalar::F16]) };
    test(&without).map_err(|e| format!("without SHADER_F16: {e}"))?;
    let features = Features { int64: false, float64: false, ..device.features };
    let without = On { device, features, only: Some(&[Scalar::I64, Scalar::U64]) };
    test(&without).map_err(|e| format!("without SHADER_INT64: {e}"))?;
    // A wider type rounds multiply-adds, where there is one.
    let features = Features { float64: false, ..device.features };
    let without = On { device, features, only: Some(&[Scalar::F32, Scalar::BF16]) };
    test(&without).map_err(|e| format!("without SHADER_F64: {e}"))
}

impl On<'_> {
    /// Whether types are those that the test is about.
    fn is_about(&self, elems: &[Scalar]) -> bool {
        self.only.is_none_or(|only| elems.iter().any(|elem| only.contains(elem)))
    }

    /// Types whose arithmetic the test is about.
    fn types(&self) -> Vec<Scalar> {
        let runs = |elem: &Scalar| *elem != Scalar::F64 || self.device.rounds_doubles;
        types(self.features).into_iter().filter(|&elem| self.is_about(&[elem])).filter(runs).collect()
    }
}

/// Types that code computes in.
fn types(features: Features) -> Vec<Scalar> {
    let has = |elem: &Scalar| *elem != Scalar::F64 || (features.float64 && features.int64);
    let arithmetic = [
        Scalar::Bool,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::F16,
        Scalar::F32,
        Scalar::F64,
    ];
    arithmetic.into_iter().filter(has).collect()
}

/// Special values of a type, then random ones. Subnormal numbers are left out: adapters may flush
/// them.
fn values(elem: Scalar) -> Vec<Literal> {
    if elem == Scalar::Bool {
        return vec![Literal::bool(false), Literal::bool(true)];
    }
    let noise = random(12, 5);
    if elem.is_float() {
        let special =
            [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 1e4, -300.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let large =
            if elem == Scalar::F16 { vec![] } else { vec![3e9, -3e9, 1e19, -1e19, 7e-12, 16_777_217.0] };
        let noise = noise.iter().map(|&x| f64::from(x) * 100.0);
        return special.into_iter().chain(large).chain(noise).map(|x| Literal::from_f64(elem, x)).collect();
    }
    let special =
        [0, 1, -1, 2, 7, 31, 33, 127, 128, 255, 256, -128, -129, i128::from(i32::MAX), i128::from(i32::MIN)];
    let wide = [i128::from(i64::MAX), i128::from(i64::MIN), 1 << 40, (1 << 33) + 1];
    let halves = [0xffff_ffff, 0xffff_0000, 0x1_0000_0000, 0x1_ffff_ffff, 0x7fff_ffff_ffff_0000];
    let noise: Vec<i128> = noise.iter().map(|&x| (f64::from(x) * 9e18) as i128).collect();
    // Of other sizes too, which divide each other.
    let small = noise.iter().enumerate().map(|(i, x)| x >> (5 * i + 2));
    let wide = wide.into_iter().chain(halves).chain(small);
    let all = special.into_iter().chain(wide).chain(noise.iter().copied());
    all.map(|x| Literal::wrapping(elem, x)).collect()
}

fn pack(values: &[Literal]) -> Arg {
    let elem = values[0].elem();
    let bytes =
        values.iter().flat_map(|v| v.bits().to_le_bytes()[..elem.bytes() as usize].to_vec()).collect();
    Arg::View { bytes, offset: 0, extents: vec![values.len() as i64] }
}

fn unpack(bytes: &[u8], elem: Scalar) -> Vec<Literal> {
    let width = elem.bytes() as usize;
    let word = |b: &[u8]| b.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    bytes.chunks_exact(width).map(|b| Literal::from_bits(elem, word(b))).collect()
}

/// A kernel that applies one operation to elements of its arguments, one a thread. The operation
/// takes `%a`, `%b`, ….
fn kernel(on: &On<'_>, inputs: &[Scalar], result: Scalar, operation: &str) -> Result<Module, String> {
    let names = ["a", "b", "c"];
    let mut params: Vec<String> =
        inputs.iter().zip(names).map(|(t, name)| format!("%v{name}: view<{t}, 1, global>")).collect();
    params.push(format!("%z: mut view<{result}, 1, global>"));
    let mut text = format!("kernel @each({}) thread [64, 1, 1] {{\n", params.join(", "));
    text.push_str("  %t = thread_id x : i64\n  %p = program_id x : i64\n  %n = const 64 : i64\n");
    text.push_str("  %f = mul %p, %n : i64\n  %i = add %f, %t : i64\n  %e = extent %z axis 0 : i64\n");
    text.push_str("  %in = lt %i, %e : bool\n");
    for (t, name) in inputs.iter().zip(names) {
        text.push_str(&format!("  %{name} = view_load.x1 %v{name}[%i] where %in : {t}\n"));
    }
    // The last one of several has the result.
    let last = operation.lines().count() - 1;
    for (i, line) in operation.lines().enumerate() {
        let ty = if i == last { format!(" : {result}") } else { String::new() };
        text.push_str(&format!("  %r{i} = {}{ty}\n", line.trim()));
    }
    text.push_str(&format!("  view_store.x1 %z[%i] where %in = %r{last}\n}}\n"));
    compiled_for(on.features, &text).map_err(|e| format!("{e}\n{text}"))
}

/// Compares an operation on columns of values with what is expected of each row.
fn check(
    on: &On<'_>,
    what: &str,
    operation: &str,
    columns: &[Vec<Literal>],
    expected: &[Literal],
    ulps: f64,
) -> Result<(), String> {
    let inputs: Vec<Scalar> = columns.iter().map(|column| column[0].elem()).collect();
    let elem = expected[0].elem();
    let module = kernel(on, &inputs, elem, operation).map_err(|e| format!("{what}: {e}"))?;
    let mut args: Vec<Arg> = columns.iter().map(|column| pack(column)).collect();
    // What was there before: every bit is wrong.
    args.push(pack(&expected.iter().map(|e| Literal::from_bits(elem, !e.bits())).collect::<Vec<_>>()));
    let grid = [expected.len().div_ceil(64) as u32, 1, 1];
    let results = on.device.run(&module, grid, &args).map_err(|e| format!("{what}: {e}"))?;
    let got = unpack(&results[columns.len()], elem);
    for (i, (&got, &want)) in got.iter().zip(expected).enumerate() {
        if !close(got, want, ulps) {
            let row: Vec<String> = columns.iter().map(|column| column[i].to_string()).collect();
            return Err(format!("{what} of {} is {got}, expected {want}", row.join(", ")));
        }
    }
    Ok(())
}

/// Whether a result is the expected one: within so many units of its last place, of which 0 is the
/// same bits but for NaN.
fn close(got: Literal, want: Literal, ulps: f64) -> bool {
    let (a, b) = (got.as_f64(), want.as_f64());
    if !want.elem().is_float() || got == want {
        return got == want;
    }
    if b.is_nan() {
        return a.is_nan();
    }
    let epsilon = match want.elem() {
        Scalar::F16 => 2f64.powi(-10),
        Scalar::F32 => 2f64.powi(-23),
        _ => 2f64.powi(-52),
    };
    // A quotient or power that is subnormal may be flushed.
    let least = if want.elem() == Scalar::F16 { 2f64.powi(-14) } else { f64::from(f32::MIN_POSITIVE) };
    ulps > 0.0 && ((a - b).abs() <= ulps * epsilon * b.abs() || b.abs() < least && a.abs() < least)
}

fn unary(on: &On<'_>) -> Result<(), String> {
    for elem in on.types() {
        for &op in UnaryOp::ALL {
            let info = op.info();
            // The compiler expands the others.
            let is_there = match info.expansion {
                Expansion::Never => true,
                Expansion::F64 => elem == Scalar::F32,
                Expansion::Always => false,
            };
            if !info.class.has(elem) || !is_there {
                continue;
            }
            let values = values(elem);
            let expected: Option<Vec<Literal>> = values.iter().map(|&v| eval::unary(op, v)).collect();
            let expected = expected.ok_or("an operation without a meaning")?;
            let ulps = match op {
                UnaryOp::Exp2 => 16.0,
                UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Recip => 3.0,
                _ => 0.0,
            };
            check(
                on,
                &format!("{} {elem}", op.name()),
                &format!("{} %a", op.name()),
                &[values],
                &expected,
                ulps,
            )?;
        }
    }
    Ok(())
}

/// Every pair of two lists.
fn pairs(a: &[Literal], b: &[Literal]) -> [Vec<Literal>; 2] {
    let left = a.iter().flat_map(|&x| vec![x; b.len()]).collect();
    [left, a.iter().flat_map(|_| b.iter().copied()).collect()]
}

fn binary(on: &On<'_>) -> Result<(), String> {
    for elem in on.types() {
        for &op in BinaryOp::ALL {
            let info = op.info();
            if !info.class.has(elem) || info.expanded || elem.is_float() && op == BinaryOp::Rem {
                continue;
            }
            let all = values(elem);
            let divisors: Vec<Literal> =
                all.iter().copied().filter(|v| !info.divides || v.is_true()).collect();
            let [left, right] = pairs(&all, &divisors);
            let expected: Option<Vec<Literal>> =
                left.iter().zip(&right).map(|(&a, &b)| eval::binary(op, a, b)).collect();
            let expected = expected.ok_or("an operation without a meaning")?;
            let ulps = match op {
                BinaryOp::Div | BinaryOp::FastDiv if elem.is_float() => 3.0,
                // Subnormal results may be flushed.
                BinaryOp::Mul if elem.is_float() => 0.001,
                _ => 0.0,
            };
            let text = format!("{} %a, %b", op.name());
            check(on, &format!("{} {elem}", op.name()), &text, &[left, right], &expected, ulps)?;
        }
    }
    Ok(())
}

fn comparisons(on: &On<'_>) -> Result<(), String> {
    for elem in on.types() {
        for &op in CompareOp::ALL {
            // Bools have no order.
            if elem == Scalar::Bool && !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                continue;
            }
            let all = values(elem);
            let [left, right] = pairs(&all, &all);
            let expected: Vec<Literal> =
                left.iter().zip(&right).map(|(&a, &b)| eval::compare(op, a, b)).collect();
            let text = format!("{} %a, %b", op.name());
            check(on, &format!("{} {elem}", op.name()), &text, &[left, right], &expected, 0.0)?;
            // Of one value with itself, of which a driver may think that it knows the result.
            let expected: Vec<Literal> = all.iter().map(|&a| eval::compare(op, a, a)).collect();
            let text = format!("{} %a, %a", op.name());
            check(on, &format!("{} {elem} with itself", op.name()), &text, &[all], &expected, 0.0)?;
        }
    }
    Ok(())
}

fn conversions(on: &On<'_>) -> Result<(), String> {
    let mut all = types(on.features);
    all.extend(CONVERTED);
    for &from in &all {
        for &to in &all {
            if from == to || !on.is_about(&[from, to]) {
                continue;
            }
            let values = values(from);
            let expected: Vec<Literal> = values.iter().map(|&v| eval::cast(v, to)).collect();
            check(on, &format!("cast {from} {to}"), "cast %a", &[values], &expected, 0.0)?;
        }
    }
    Ok(())
}

fn bitcasts(on: &On<'_>) -> Result<(), String> {
    let mut all = types(on.features);
    all.extend(CONVERTED);
    for &from in &all {
        for &to in all.iter().filter(|to| to.bytes() == from.bytes()) {
            if from == to || (from == Scalar::Bool) != (to == Scalar::Bool) || !on.is_about(&[from, to]) {
                continue;
            }
            // Bits of NaN may change where a float is moved.
            let mut values = values(from);
            values.retain(|&v| !v.as_f64().is_nan() && !eval::bitcast(v, to).as_f64().is_nan());
            values.retain(|&v| !to.is_float() || eval::bitcast(v, to).as_f64().abs() > 1e-30 || !v.is_true());
            let expected: Vec<Literal> = values.iter().map(|&v| eval::bitcast(v, to)).collect();
            check(on, &format!("bitcast {from} {to}"), "bitcast %a", &[values], &expected, 0.0)?;
        }
    }
    Ok(())
}

fn ternary(on: &On<'_>) -> Result<(), String> {
    for elem in on.types() {
        let all = values(elem);
        let conditions: Vec<Literal> = (0..all.len()).map(|i| Literal::bool(i % 3 == 0)).collect();
        let other: Vec<Literal> = all.iter().rev().copied().collect();
        let chosen = |i: usize| if conditions[i].is_true() { all[i] } else { other[i] };
        let expected: Vec<Literal> = (0..all.len()).map(chosen).collect();
        let columns = [conditions, all.clone(), other.clone()];
        check(on, &format!("select {elem}"), "select %a, %b, %c", &columns, &expected, 0.0)?;
        if elem == Scalar::Bool {
            continue;
        }
        // Small whole numbers: no product is rounded, whether it is fused with the sum or not.
        let number = |x: i128| Literal::from_i128(elem, x).unwrap_or(Literal::zero(elem));
        let columns = [3, 5, 7].map(|k| (0..40).map(|i| number(i * k % 11)).collect::<Vec<_>>());
        let expected = (0..40).map(|i| eval::fma(columns[0][i], columns[1][i], columns[2][i]));
        let expected: Option<Vec<Literal>> = expected.collect();
        let expected = expected.ok_or("a multiply-add without a meaning")?;
        check(on, &format!("fma {elem}"), "fma %a, %b, %c", &columns, &expected, 0.0)?;
    }
    Ok(())
}

/// Of any numbers, some of which nearly cancel.
fn multiply_adds(on: &On<'_>) -> Result<(), String> {
    let floats = on.types().into_iter().filter(|elem| elem.is_float());
    let bf16 = Some(Scalar::BF16).filter(|&elem| on.is_about(&[elem]));
    for elem in floats.chain(bf16) {
        let column =
            |seed| random(600, seed).into_iter().map(|x| Literal::from_f64(elem, x.into())).collect();
        let [a, b, mut c]: [Vec<Literal>; 3] = [21, 22, 23].map(column);
        for (i, c) in c.iter_mut().enumerate().filter(|(i, _)| i % 2 == 0) {
            *c = Literal::from_f64(elem, -a[i].as_f64() * b[i].as_f64());
        }
        for (i, special) in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0].into_iter().enumerate() {
            c[i] = Literal::from_f64(elem, special);
        }
        let expected: Option<Vec<Literal>> = (0..a.len()).map(|i| eval::fma(a[i], b[i], c[i])).collect();
        let expected = expected.ok_or("a multiply-add without a meaning")?;
        check(on, &format!("fma {elem}"), "fma %a, %b, %c", &[a, b, c], &expected, 0.0)?;
    }
    Ok(())
}

/// From the least to the greatest numbers, with addends of any size beside the product.
fn multiply_adds_of_any_size(on: &On<'_>) -> Result<(), String> {
    let doubles = [-1070, -1000, -500, -60, 0, 60, 500, 900, 1000, 1020];
    let apart = [-2000, -110, -70, -53, -20, -1, 0, 1, 20, 53, 70, 110, 2000];
    if on.types().contains(&Scalar::F64) {
        multiply_adds_of(on, &doubles, &apart)?;
    }
    if on.types().contains(&Scalar::F32) {
        singles_of_any_size(on)?;
    }
    Ok(())
}

/// The same of f32.
fn singles_of_any_size(on: &On<'_>) -> Result<(), String> {
    let mut columns: [Vec<f32>; 3] = Default::default();
    let noise = random(30_000, 43);
    let mut noise = noise.into_iter();
    for of_a in [-140, -126, -60, -20, 0, 20, 60, 100, 120] {
        for of_b in [-140, -126, -60, -20, 0, 20, 60, 100, 120] {
            for apart in [-300, -70, -50, -30, -24, -12, -1, 0, 1, 12, 24, 30, 50, 70, 300] {
                let mut number = |power: i32| {
                    let [half, rest] = [power / 2, power - power / 2].map(|power| 2f32.powi(power));
                    noise.next().map_or(1.0, |x| (x + x.signum()) * half * rest)
                };
                let (a, b) = (number(of_a), number(of_b));
                let c = if apart == 0 { -(a * b) } else { number((of_a + of_b + apart).clamp(-125, 126)) };
                // Subnormal numbers and results may be flushed, or rounded twice.
                if a.mul_add(b, c).abs() >= f32::MIN_POSITIVE && [a, b, c].iter().all(|x| x.is_normal()) {
                    [a, b, c].into_iter().zip(&mut columns).for_each(|(x, column)| column.push(x));
                }
            }
        }
    }
    let single = |x: f32| Literal::from_f64(Scalar::F32, x.into());
    let [a, b, c] = &columns;
    let expected: Vec<Literal> = (0..a.len()).map(|i| single(a[i].mul_add(b[i], c[i]))).collect();
    let columns = columns.clone().map(|column| column.into_iter().map(single).collect());
    check(on, "fma f32", "fma %a, %b, %c", &columns, &expected, 0.0)
}

fn multiply_adds_of(on: &On<'_>, exponents: &[i32], all_apart: &[i32]) -> Result<(), String> {
    let mut columns: [Vec<f64>; 3] = Default::default();
    let numbers = random(200_000, 41);
    let mut numbers = numbers.into_iter().map(f64::from);
    for &of_a in exponents {
        for &of_b in exponents {
            for &apart in all_apart {
                let mut number = |power: i32| {
                    let [half, rest] = [power / 2, power - power / 2].map(|power| 2f64.powi(power));
                    numbers.next().map_or(1.0, |x| (x + x.signum()) * half * rest)
                };
                let (a, b) = (number(of_a), number(of_b));
                let c = if apart == 0 { -(a * b) } else { number((of_a + of_b + apart).clamp(-1074, 1023)) };
                // Subnormal results may be flushed or rounded twice.
                if a.mul_add(b, c).abs() >= f64::MIN_POSITIVE && [a, b, c].iter().all(|x| x.is_normal()) {
                    [a, b, c].into_iter().zip(&mut columns).for_each(|(x, column)| column.push(x));
                }
            }
        }
    }
    // Products that are too small for any number, beside zeros of both signs.
    for (a, b, c) in [(1e-200, -1e-200, 0.0), (-1e-200, 1e-200, -0.0), (1e-200, 1e-200, -0.0)] {
        [a, b, c].into_iter().zip(&mut columns).for_each(|(x, column)| column.push(x));
    }
    let expected: Vec<Literal> = (0..columns[0].len())
        .map(|i| columns[0][i].mul_add(columns[1][i], columns[2][i]))
        .map(|x| Literal::from_f64(Scalar::F64, x))
        .collect();
    let columns =
        columns.map(|column| column.into_iter().map(|x| Literal::from_f64(Scalar::F64, x)).collect());
    check(on, "fma f64", "fma %a, %b, %c", &columns, &expected, 0.0)
}

fn powers_of_two(on: &On<'_>) -> Result<(), String> {
    if !on.is_about(&[Scalar::F32]) {
        return Ok(());
    }
    let special = [0.0, -0.0, 1.0, 0.5, -0.5, 127.99, -125.0, 128.0, -1000.0, 1e30];
    let noise = random(600, 51).into_iter().map(|x| f64::from(x * 125.0));
    let infinite = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let single = |x: f64| Literal::from_f64(Scalar::F32, x);
    let a: Vec<Literal> = special.into_iter().chain(noise).chain(infinite).map(single).collect();
    let expected: Vec<Literal> = a.iter().map(|x| single(x.as_f64().exp2())).collect();
    check(on, "exp2", "exp2 %a", &[a], &expected, 2.0)
}

/// As for a driver whose quotients and roots are not the nearest numbers: from the least to the
/// greatest normal numbers, with results that are subnormal, zero and infinite.
fn quotients_and_roots(device: &Device) -> Result<(), String> {
    let features = Features { exact_quotients: false, exact_roots: false, ..device.features };
    let on = On { device, features, only: None };
    let mut noise = random(20_000, 61).into_iter();
    let mut number = |power: i32| {
        let [half, rest] = [power / 2, power - power / 2].map(|power| 2f32.powi(power));
        noise.next().map_or(1.0, |x| (x + x.signum()) * half * rest)
    };
    let powers = [-126, -125, -100, -99, -98, -63, -20, -1, 0, 1, 20, 63, 99, 124, 125, 126];
    let mut pairs = Vec::new();
    for (of_a, of_b) in powers.iter().flat_map(|&a| powers.iter().map(move |&b| (a, b))) {
        pairs.extend((0..4).map(|_| (number(of_a), number(of_b))));
    }
    // Quotients that are subnormal or close to it, of every number of bits.
    pairs.extend((0..30).flat_map(|lost| [(lost - 126, 0), (-60, 66 - lost)]).flat_map(|(of_a, of_b)| {
        [(number(of_a.max(-126)), number(of_b)), (number(of_a.max(-126)), 2f32.powi(of_b))]
    }));
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -3.0];
    pairs.extend(special.iter().flat_map(|&a| special.map(|b| (a, b))));
    let literal = |x: f32| Literal::from_f64(Scalar::F32, x.into());
    let [a, b] = [0, 1].map(|i| pairs.iter().map(|p| literal([p.0, p.1][i])).collect::<Vec<Literal>>());
    let quotients: Vec<Literal> = pairs.iter().map(|&(a, b)| literal(a / b)).collect();
    check(&on, "corrected quotients", "div %a, %b", &[a.clone(), b], &quotients, 0.0)?;
    let roots: Vec<Literal> = pairs.iter().map(|p| literal(p.0.sqrt())).collect();
    check(&on, "corrected roots", "sqrt %a", &[a], &roots, 0.0)
}

/// Operations that algebra knows the result of, which is not that of floats.
fn zeros(on: &On<'_>) -> Result<(), String> {
    let floats = on.types().into_iter().filter(|elem| elem.is_float());
    for elem in floats {
        let a: Vec<Literal> = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
            .map(|x| Literal::from_f64(elem, x))
            .to_vec();
        let zero = Literal::zero(elem);
        use BinaryOp::{Add, Mul, Sub};
        for op in [Add, Sub, Mul] {
            let text = format!("const {zero} : {elem}\n{} %a, %r0", op.name());
            let expected: Option<Vec<Literal>> = a.iter().map(|&x| eval::binary(op, x, zero)).collect();
            let expected = expected.ok_or("no meaning")?;
            let a = std::slice::from_ref(&a);
            check(on, &format!("{} {elem} by zero", op.name()), &text, a, &expected, 0.0)?;
        }
        let expected: Option<Vec<Literal>> = a.iter().map(|&x| eval::fma(x, zero, x)).collect();
        let (text, expected) =
            (format!("const {zero} : {elem}\nfma %a, %r0, %a"), expected.ok_or("no meaning")?);
        check(on, &format!("fma {elem} by zero"), &text, std::slice::from_ref(&a), &expected, 0.0)?;
        let expected: Option<Vec<Literal>> = a.iter().map(|&x| eval::binary(Sub, x, x)).collect();
        let expected = expected.ok_or("no meaning")?;
        check(on, &format!("sub {elem} by itself"), "sub %a, %a", std::slice::from_ref(&a), &expected, 0.0)?;
        let text = format!("neg %a : {elem}\nadd %a, %r0");
        check(on, &format!("add {elem} to its opposite"), &text, &[a], &expected, 0.0)?;
    }
    Ok(())
}

/// The errors of sums and products are theirs, not what algebra says of them.
fn errors_of_sums(on: &On<'_>) -> Result<(), String> {
    let floats = on.types().into_iter().filter(|elem| matches!(elem, Scalar::F32 | Scalar::F64));
    for elem in floats {
        let column =
            |seed| random(300, seed).into_iter().map(|x| Literal::from_f64(elem, x.into())).collect();
        let [a, b]: [Vec<Literal>; 2] = [31, 32].map(column);
        let small: Vec<Literal> = b.iter().map(|x| Literal::from_f64(elem, x.as_f64() * 1e-5)).collect();
        let (add, sub) = (BinaryOp::Add, BinaryOp::Sub);
        let rounded = |i: usize| {
            let sum = eval::binary(add, a[i], small[i])?;
            eval::binary(sub, sum, a[i])
        };
        let expected: Option<Vec<Literal>> = (0..a.len()).map(rounded).collect();
        let expected = expected.ok_or("a sum without a meaning")?;
        let text = format!("add %a, %b : {elem}\nsub %r0, %a");
        check(on, &format!("a sum less a part of {elem}"), &text, &[a.clone(), small], &expected, 0.0)?;
    }
    Ok(())
}

fn constants(on: &On<'_>) -> Result<(), String> {
    let mut all = types(on.features);
    all.extend(CONVERTED);
    for elem in all.into_iter().filter(|&elem| on.is_about(&[elem])) {
        // Zero, infinities, NaN, the least and the greatest integers.
        let mut values = values(elem);
        values.truncate(if elem.is_float() { 11 } else { 17 });
        for &value in values.iter().filter(|v| v.as_f64().abs() > 1e4 || v.as_i128() <= 0) {
            // One input, so that the kernel has its usual shape.
            let inputs = vec![value; 4];
            check(on, &format!("const {elem}"), &format!("const {value}"), &[inputs], &[value; 4], 0.0)?;
        }
    }
    Ok(())
}

/// Numbers of a format of few bits, those halfway between two of them, and their neighbors.
fn rounding(on: &On<'_>) -> Result<(), String> {
    let few = [Scalar::F16, Scalar::BF16, Scalar::E4M3, Scalar::E5M2];
    for to in few.into_iter().filter(|&elem| on.is_about(&[elem, Scalar::I64])) {
        let codes = 1u64 << (8 * to.bytes());
        let step = if codes > 256 { 37 } else { 1 };
        let all: Vec<Literal> = (0..codes).step_by(step).map(|bits| Literal::from_bits(to, bits)).collect();
        // To f32 everything is exact. The subnormal numbers of bf16 are those of f32, and may be
        // flushed.
        let is_normal = |x: &Literal| x.as_f64() == 0.0 || x.as_f64().abs() >= f64::from(f32::MIN_POSITIVE);
        let known: Vec<Literal> = all.into_iter().filter(|x| x.as_f64().is_nan() || is_normal(x)).collect();
        let expected: Vec<Literal> = known.iter().map(|&x| eval::cast(x, Scalar::F32)).collect();
        check(on, &format!("cast {to} f32"), "cast %a", std::slice::from_ref(&known), &expected, 0.0)?;
        for from in types(on.features).into_iter().filter(|from| from.bytes() >= 4) {
            if !on.is_about(&[from, to]) || to == Scalar::F16 && from.is_int() {
                continue;
            }
            let mut values = Vec::new();
            for pair in known.windows(2) {
                let middle = (pair[0].as_f64() + pair[1].as_f64()) / 2.0;
                for number in [pair[0].as_f64(), middle, middle * (1.0 + 1e-7), middle * (1.0 - 1e-7)] {
                    let scaled = if from.is_int() { number * 257.0 } else { number };
                    values.push(eval::cast(Literal::from_f64(Scalar::F64, scaled), from));
                }
            }
            values.retain(|x| x.as_f64().is_nan() || is_normal(x));
            // Integers of which the first 24 bits are halfway, and more follow.
            let long =
                [0x0101_8000, 0x0101_8001, 0x0100_8000, 0x7fff_ffff, -0x7fff_ff81, i128::from(u32::MAX)];
            let longer = [0x0101_8000_0000_0001, 0x0101_8000_0000_0000, -0x7fff_ffff_ffff_ff81];
            let long = long.into_iter().chain(longer);
            values.extend(long.map(|x| eval::cast(Literal::wrapping(Scalar::I64, x), from)));
            let expected: Vec<Literal> = values.iter().map(|&x| eval::cast(x, to)).collect();
            check(on, &format!("cast {from} {to}"), "cast %a", &[values], &expected, 0.0)?;
        }
    }
    Ok(())
}

//! What a driver does with operations on floats.
//!
//! Vulkan lets a driver compute a multiply-add as a product and a sum, or a product and a sum as a
//! multiply-add, and no API says which it does. Some drivers also take `(1 + x) - 1` for `x`, so
//! that sums that keep the rounding error, of which the elementary functions are made, are wrong;
//! some take `if x < 0 { 0 } else { x }` for a maximum, which loses NaN; and quotients, roots and
//! powers of two may be off in their last bits. So a device is asked as it is opened, in the SPIR-V
//! that it will get for all else.

use super::backend::Wgpu;
use super::passes;
use super::program::WgpuProgram;
use super::transfers::locked;
use crate::features::Features;
use half::f16;
use kiln_backend::{Asynchronous, Backend, BufferBinding, DevicePtr, Error, Launch, Result, StreamId};
use kiln_ir::Scalar;

/// Leaves a multiply-add of the first two elements in the first, what is left of the third beside
/// 1 in the second, and the sum of the fifth and zero in the third.
const KERNEL: &str = "kernel @keeps_floats(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 2 : i64
  %a = view_load.x1 %x[%0] : f32
  %b = view_load.x1 %x[%1] : f32
  %c = view_load.x1 %x[%2] : f32
  %fused = fma %a, %a, %b : f32
  %one = const 1.0 : f32
  %sum = add %one, %c : f32
  %rest = sub %sum, %one : f32
  %4 = const 4 : i64
  %e = view_load.x1 %x[%4] : f32
  %zero = const 0.0 : f32
  %unsigned = add %e, %zero : f32
  view_store.x1 %x[%0] = %fused
  view_store.x1 %x[%1] = %rest
  view_store.x1 %x[%2] = %unsigned
}";

/// Leaves the same multiply-add, by a product and a sum, in the first element, the fourth in
/// bounds in itself, and in the third 1 if the fourth is equal to itself and 0 if not. It is a
/// kernel of its own: a driver that makes a product and a sum of every multiply-add and contracts
/// them afterwards does not do so where the product is used twice.
const APART: &str = "kernel @keeps_apart(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %3 = const 3 : i64
  %a = view_load.x1 %x[%0] : f32
  %b = view_load.x1 %x[%1] : f32
  %d = view_load.x1 %x[%3] : f32
  %product = mul %a, %a : f32
  %apart = add %product, %b : f32
  %low = const -105.0 : f32
  %high = const 89.0 : f32
  %below = lt %d, %low : bool
  %from = select %below, %low, %d : f32
  %above = gt %from, %high : bool
  %inside = select %above, %high, %from : f32
  %2 = const 2 : i64
  %one = const 1.0 : f32
  %zero = const 0.0 : f32
  %same = eq %d, %d : bool
  %is_same = select %same, %one, %zero : f32
  view_store.x1 %x[%0] = %apart
  view_store.x1 %x[%2] = %is_same
  view_store.x1 %x[%3] = %inside
}";

/// Leaves quotients of the first elements by the second ones in the first, the square roots of the
/// second ones there, and powers of two of the third ones there.
const FUNCTIONS: &str = "kernel @functions(%x: mut view<f32, 1, global>) thread [64, 1, 1] {
  %0 = thread_id x : i64
  %samples = const 64 : i64
  %1 = add %0, %samples : i64
  %2 = add %1, %samples : i64
  %a = view_load.x1 %x[%0] : f32
  %b = view_load.x1 %x[%1] : f32
  %c = view_load.x1 %x[%2] : f32
  %quotient = div %a, %b : f32
  %root = sqrt %b : f32
  %power = exp2 %c : f32
  view_store.x1 %x[%0] = %quotient
  view_store.x1 %x[%1] = %root
  view_store.x1 %x[%2] = %power
}";

/// The threads of that kernel.
const SAMPLES: usize = 64;

/// Leaves a multiply-add of the first two elements in the first.
const HALVES: &str = "kernel @fuses_halves(%x: mut view<f16, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %a = view_load.x1 %x[%0] : f16
  %b = view_load.x1 %x[%1] : f16
  %fused = fma %a, %a, %b : f16
  view_store.x1 %x[%0] = %fused
}";

/// Leaves the same, by a product and a sum, there.
const HALVES_APART: &str = "kernel @keeps_halves_apart(%x: mut view<f16, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %a = view_load.x1 %x[%0] : f16
  %b = view_load.x1 %x[%1] : f16
  %product = mul %a, %a : f16
  %apart = add %product, %b : f16
  view_store.x1 %x[%0] = %apart
}";

/// Leaves the maximum of three elements, the second one negated, in the first, and that of three,
/// of one of which the absolute value counts, in the second.
const SIGNS: &str = "kernel @keeps_signs(%x: mut view<i32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 2 : i64
  %a = view_load.x1 %x[%0] : i32
  %b = view_load.x1 %x[%1] : i32
  %c = view_load.x1 %x[%2] : i32
  %minus = neg %b : i32
  %two = max %a, %minus : i32
  %three = max %two, %c : i32
  %size = abs %b : i32
  %most = max %c, %size : i32
  %all = max %most, %a : i32
  view_store.x1 %x[%0] = %three
  view_store.x1 %x[%1] = %all
}";

/// The greatest of -9, 5 and -7 is 5; without a sign it is -5.
const SIGNS_INPUT: [i32; 3] = [-9, -5, -7];
const SIGNS_EXPECTED: [i32; 2] = [5, 5];

/// The same numbers as those of f32 for 2^-6, and the multiply-add of them.
const HALF_INPUT: [f32; 2] = [1.0 + SMALL_HALF, -1.0 - 2.0 * SMALL_HALF];
const HALF_EXPECTED: f32 = SMALL_HALF * SMALL_HALF;
const SMALL_HALF: f32 = 1.0 / 64.0;

/// Leaves a multiply-add of the first two elements in the first.
const DOUBLES: &str = "kernel @fuses_doubles(%x: mut view<f64, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %a = view_load.x1 %x[%0] : f64
  %b = view_load.x1 %x[%1] : f64
  %fused = fma %a, %a, %b : f64
  view_store.x1 %x[%0] = %fused
}";

/// Leaves the elements rounded to the nearest whole number, towards zero, down and up: four times
/// as many results.
const WHOLE: &str = "kernel @rounds_doubles(%x: mut view<f64, 1, global>) thread [8, 1, 1] {
  %0 = thread_id x : i64
  %samples = const 8 : i64
  %1 = add %0, %samples : i64
  %2 = add %1, %samples : i64
  %3 = add %2, %samples : i64
  %a = view_load.x1 %x[%0] : f64
  %nearest = round %a : f64
  %inner = trunc %a : f64
  %below = floor %a : f64
  %above = ceil %a : f64
  view_store.x1 %x[%0] = %nearest
  view_store.x1 %x[%1] = %inner
  view_store.x1 %x[%2] = %below
  view_store.x1 %x[%3] = %above
}";

/// Zeros, ties, and numbers that have no bits behind the point.
const WHOLE_INPUT: [f64; 8] = [-0.0, -0.3, 0.5, -1.5, 2.5, 4e18, -1e300, 7.75];

/// Leaves twice the first element, by a sum and by a product, in the first two, the greater one of
/// it and the fourth in that, and in the third the fourth one if the first is greater than it and
/// the first if not.
const SUBNORMAL: &str = "kernel @keeps_subnormals(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 2 : i64
  %3 = const 3 : i64
  %a = view_load.x1 %x[%0] : f32
  %d = view_load.x1 %x[%3] : f32
  %two = const 2.0 : f32
  %sum = add %a, %a : f32
  %product = mul %a, %two : f32
  %greater = gt %a, %d : bool
  %less = select %greater, %d, %a : f32
  view_store.x1 %x[%0] = %sum
  view_store.x1 %x[%1] = %product
  %most = max %a, %d : f32
  view_store.x1 %x[%2] = %less
  view_store.x1 %x[%3] = %most
}";

/// The smallest numbers above zero: 2^-149 and 2^-148.
const SMALLEST: f32 = f32::from_bits(1);
const TWICE_SMALLEST: f32 = f32::from_bits(2);

/// The same numbers as those of f32 for 2^-27, and the multiply-add of them.
const DOUBLE_INPUT: [f64; 2] = [1.0 + SMALL_DOUBLE, -1.0 - 2.0 * SMALL_DOUBLE];
const DOUBLE_EXPECTED: f64 = SMALL_DOUBLE * SMALL_DOUBLE;
const SMALL_DOUBLE: f64 = 1.0 / (1 << 27) as f64;

/// 2^-12 and 2^-24: half a unit of the last place of a number below 2 is 2^-24.
const SMALL: f32 = 1.0 / 4096.0;
const TINY: f32 = SMALL * SMALL;

/// The square of 1 + 2^-12 less all but its last bit, which a product that is rounded loses; and a
/// number of which the sum with 1 loses the last bit. The sum of -0 and 0 is 0.
const INPUT: [f32; 5] = [1.0 + SMALL, -1.0 - 2.0 * SMALL, SMALL + TINY, f32::NAN, -0.0];

/// What a driver gives that keeps to what is written.
const EXPECTED: [f32; 2] = [TINY, SMALL];

/// Runs kernels on a device, whose code features must say that floats are kept as they are
/// written, and gives them as its driver treats floats; subnormal ones among them if they count.
pub(crate) async fn features_of_floats(device: &Wgpu, subnormals: bool) -> Result<Features> {
    let kept = floats(&of_kernel(device, KERNEL, &bytes(&INPUT), INPUT.len()).await?);
    let apart = floats(&of_kernel(device, APART, &bytes(&INPUT), INPUT.len()).await?);
    let input = function_input(subnormals);
    let functions = floats(&of_kernel(device, FUNCTIONS, &bytes(&input), input.len()).await?);
    let (quotients, rest) = functions.split_at(SAMPLES);
    let (roots, powers) = rest.split_at(SAMPLES);
    let (dividends, rest) = input.split_at(SAMPLES);
    let (divisors, exponents) = rest.split_at(SAMPLES);
    let exact_floats = kept.get(1) == EXPECTED.get(1) && kept.get(2).is_some_and(|sum| sum.to_bits() == 0);
    let is_right = |(power, x, _)| is_power(power, x);
    Ok(Features {
        exact_floats,
        exact_multiply_adds: kept.first() == EXPECTED.first()
            && of_halves(device, HALVES, HALF_EXPECTED).await? != Some(false),
        contracts: apart.first() != Some(&0.0),
        contracts_halves: of_halves(device, HALVES_APART, 0.0).await? == Some(false),
        loses_nan: !apart.get(3).is_some_and(|x| x.is_nan()) || apart.get(2) != Some(&0.0),
        loses_signs: loses_signs(device).await?,
        exact_doubles: fuses_doubles(device).await?,
        exact_quotients: zip(quotients, dividends, divisors).all(|(quotient, a, b)| quotient == a / b),
        exact_roots: zip(roots, divisors, divisors).all(|(root, x, _)| is_same(root, x.sqrt())),
        // A sample shows little of a driver that takes liberties with sums: its powers are made of
        // these, and Mesa's are off by tens of units where they are large.
        exact_powers: exact_floats && zip(powers, exponents, exponents).all(is_right),
        ..device.gpu.features
    })
}

/// Whether the driver loses signs of operands of a maximum or minimum of three integers.
async fn loses_signs(device: &Wgpu) -> Result<bool> {
    let input: Vec<u8> = SIGNS_INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let found = of_kernel(device, SIGNS, &input, SIGNS_INPUT.len()).await?;
    let mut results = found.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Ok(SIGNS_EXPECTED.iter().any(|&expected| results.next() != Some(expected)))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn zip<'a>(a: &'a [f32], b: &'a [f32], c: &'a [f32]) -> impl Iterator<Item = (f32, f32, f32)> + 'a {
    a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c))
}

/// Dividends, divisors that are radicands too, and exponents: significands that look random
/// (Numerical Recipes, section 7.1) and what drivers lose.
fn function_input(subnormals: bool) -> Vec<f32> {
    let mut state = 1u32;
    let mut number = |exponents: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The high bits, which are the more random ones.
        let exponent = 127 - exponents / 2 + (state >> 27) % exponents;
        f32::from_bits(exponent << 23 | state >> 9)
    };
    let mut input: Vec<f32> = (0..2 * SAMPLES).map(|_| number(16)).collect();
    input.extend((0..SAMPLES).map(|i| (i as f32 - SAMPLES as f32 / 2.0) * 4.0 + number(1) - 1.5));
    input[2 * SAMPLES] = f32::NAN;
    if subnormals {
        // It has no root, and the quotient by it is infinite.
        input[SAMPLES] = -SMALLEST;
    }
    input
}

fn is_same(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// Whether a power of two is right to two units of the last place. A subnormal one may be zero.
fn is_power(power: f32, x: f32) -> bool {
    let expected = f64::from(x).exp2();
    if expected.is_nan() {
        return power.is_nan();
    }
    if expected < f64::from(f32::MIN_POSITIVE) {
        return power == 0.0 || (f64::from(power) - expected).abs() <= 2.0 * f64::from(SMALLEST);
    }
    (f64::from(power) - expected).abs() <= 2.0 * f64::from(f32::EPSILON) * expected
}

/// Whether a kernel of f16 gives what it should, if the device has any.
async fn of_halves(device: &Wgpu, kernel: &str, expected: f32) -> Result<Option<bool>> {
    if !device.gpu.features.float16 {
        return Ok(None);
    }
    let bytes: Vec<u8> = HALF_INPUT.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
    let result = of_kernel(device, kernel, &bytes, HALF_INPUT.len()).await?;
    Ok(Some(result[..2] == f16::from_f32(expected).to_le_bytes()))
}

/// Whether a multiply-add of f64 rounds once, if the device has any.
async fn fuses_doubles(device: &Wgpu) -> Result<bool> {
    if device.gpu.features.missing(Scalar::F64).is_some() {
        return Ok(true);
    }
    let bytes: Vec<u8> = DOUBLE_INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let result = of_kernel(device, DOUBLES, &bytes, DOUBLE_INPUT.len()).await?;
    Ok(result[..8] == DOUBLE_EXPECTED.to_le_bytes())
}

/// Whether numbers of f64 become whole ones as they should, if the device has any. Mesa's driver
/// for CPUs takes 1.5 for 1 and loses the signs of zeros on processors without AVX-512.
pub(crate) async fn rounds_doubles(device: &Wgpu) -> Result<bool> {
    if device.gpu.features.missing(Scalar::F64).is_some() {
        return Ok(true);
    }
    let rounded = [f64::round_ties_even, f64::trunc, f64::floor, f64::ceil];
    let expected: Vec<u8> =
        rounded.iter().flat_map(|rounded| WHOLE_INPUT.map(|x| rounded(x).to_le_bytes())).flatten().collect();
    let mut bytes: Vec<u8> = WHOLE_INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    bytes.resize(expected.len(), 0);
    Ok(of_kernel(device, WHOLE, &bytes, expected.len() / 8).await? == expected)
}

/// Whether subnormal numbers of f32 count in full: some drivers count them in sums, and take them
/// for zeros in comparisons and maxima.
pub(crate) async fn keeps_subnormals(device: &Wgpu) -> Result<bool> {
    let input = [SMALLEST, 0.0, 0.0, 0.0];
    let result = floats(&of_kernel(device, SUBNORMAL, &bytes(&input), input.len()).await?);
    Ok(result == [TWICE_SMALLEST, TWICE_SMALLEST, 0.0, SMALLEST])
}

/// What a kernel leaves of so many elements.
pub(crate) async fn of_kernel(device: &Wgpu, text: &str, bytes: &[u8], length: usize) -> Result<Vec<u8>> {
    let kernel = kiln_ir::parse(text).map_err(|error| Error::Internal {
        place: "the probe of floats",
        message: format!("line {}: expected {}, found {}", error.line, error.expected, error.found),
    })?;
    let module = passes::module(&device.gpu, &kernel)?;
    let program = WgpuProgram::new(&device.gpu, &kernel, module, None, None)?;
    let memory = device.allocate(bytes.len(), StreamId::default())?;
    let result = run(device, &program, memory, bytes, length as u64).await;
    locked(&device.state).allocations.free(memory);
    result
}

/// What the kernel leaves of its input.
async fn run(
    device: &Wgpu,
    program: &WgpuProgram,
    memory: DevicePtr,
    input: &[u8],
    length: u64,
) -> Result<Vec<u8>> {
    let stream = StreamId::default();
    let (buffers, numbers) = (&[BufferBinding::write(memory)], &[length, 1]);
    // SAFETY: the memory is an allocation of as many bytes as the input has, of which the view
    // covers all; nothing else uses it.
    let read = unsafe {
        device.upload(memory, input, stream)?;
        device.launch(program, Launch { grid: [1; 3], buffers, numbers, stream })?;
        device.download_later(memory, input.len(), stream)
    };
    read.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_what_rust_computes() {
        let [a, b, c, _, zero] = INPUT.map(std::hint::black_box);
        assert_eq!((zero + 0.0).to_bits(), 0);
        assert_eq!([a.mul_add(a, b), (1.0 + c) - 1.0], EXPECTED);
        assert_eq!(a * a + b, 0.0);
        let [a64, b64] = DOUBLE_INPUT.map(std::hint::black_box);
        let smallest = std::hint::black_box(SMALLEST);
        assert_eq!(smallest + smallest, TWICE_SMALLEST);
        assert_eq!(a64.mul_add(a64, b64), DOUBLE_EXPECTED);
        assert_ne!(a64 * a64 + b64, DOUBLE_EXPECTED);
        assert_ne!(a * a + b, EXPECTED[0], "a product that is rounded shows");
        assert_ne!(c, EXPECTED[1], "a sum that is left out shows");
        let [a16, b16] = HALF_INPUT.map(f16::from_f32);
        assert_eq!(HALF_INPUT[0] * HALF_INPUT[0] + HALF_INPUT[1], HALF_EXPECTED);
        assert_eq!(a16 * a16 + b16, f16::ZERO, "a product that is rounded shows");
    }

    #[test]
    fn powers_may_be_off_by_two_units() {
        let next = |x: f32, by: i32| f32::from_bits(x.to_bits().wrapping_add_signed(by));
        assert!(is_power(next(8.0, 2), 3.0) && !is_power(next(8.0, 5), 3.0));
        assert!(is_power(f32::NAN, f32::NAN) && !is_power(1.0, f32::NAN));
        let input = function_input(false);
        assert!(input[..2 * SAMPLES].iter().all(|x| (0.001..1000.0).contains(x)));
        assert!(input[2 * SAMPLES + 1..].iter().all(|x| (-130.0..127.9).contains(x)));
    }
}

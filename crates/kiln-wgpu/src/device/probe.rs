//! What a driver does with operations on floats.
//!
//! Vulkan lets a driver compute a multiply-add as a product and a sum, or a product and a sum as a
//! multiply-add, and no API says which it does. Some drivers also take `(1 + x) - 1` for `x`, so
//! that sums that keep the rounding error, of which the elementary functions are made, are wrong;
//! and some take `if x < 0 { 0 } else { x }` for a maximum, which loses NaN. So a device is asked
//! as it is opened.

use super::backend::Wgpu;
use super::passes;
use super::program::WgpuProgram;
use super::transfers::locked;
use crate::features::Features;
use kiln_backend::{Asynchronous, Backend, DevicePtr, Error, Launch, Result, StreamId};
use kiln_ir::Scalar;

/// Leaves a multiply-add of the first two elements in the first, and what is left of the third
/// beside 1 in the second.
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
  view_store.x1 %x[%0] = %fused
  view_store.x1 %x[%1] = %rest
}";

/// Leaves the same multiply-add, by a product and a sum, in the first element, and the fourth in
/// bounds in itself. It is a kernel of its own: a driver that makes a product and a sum of every
/// multiply-add and contracts them afterwards does not do so where the product is used twice.
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
  view_store.x1 %x[%0] = %apart
  view_store.x1 %x[%3] = %inside
}";

/// Leaves a multiply-add of the first two elements in the first.
const DOUBLES: &str = "kernel @fuses_doubles(%x: mut view<f64, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %a = view_load.x1 %x[%0] : f64
  %b = view_load.x1 %x[%1] : f64
  %fused = fma %a, %a, %b : f64
  view_store.x1 %x[%0] = %fused
}";

/// Leaves twice the first element in it.
const SUBNORMAL: &str = "kernel @keeps_subnormals(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %a = view_load.x1 %x[%0] : f32
  %twice = add %a, %a : f32
  view_store.x1 %x[%0] = %twice
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
/// number of which the sum with 1 loses the last bit.
const INPUT: [f32; 4] = [1.0 + SMALL, -1.0 - 2.0 * SMALL, SMALL + TINY, f32::NAN];

/// What a driver gives that keeps to what is written.
const EXPECTED: [f32; 2] = [TINY, SMALL];

/// Runs a kernel on a device, whose code features must say that floats are kept as they are
/// written, and gives them as its driver treats floats.
pub(crate) async fn features_of_floats(device: &Wgpu) -> Result<Features> {
    let bytes: Vec<u8> = INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let floats = |bytes: Vec<u8>| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let kept = floats(of_kernel(device, KERNEL, &bytes, INPUT.len() as u64).await?);
    let apart = floats(of_kernel(device, APART, &bytes, INPUT.len() as u64).await?);
    Ok(Features {
        exact_floats: kept.starts_with(&EXPECTED),
        contracts: apart.first() != Some(&0.0),
        loses_nan: !apart.last().is_some_and(|x| x.is_nan()),
        exact_doubles: fuses_doubles(device).await?,
        ..device.gpu.features
    })
}

/// Whether a multiply-add of f64 rounds once, if the device has any.
async fn fuses_doubles(device: &Wgpu) -> Result<bool> {
    if device.gpu.features.missing(Scalar::F64).is_some() {
        return Ok(true);
    }
    let bytes: Vec<u8> = DOUBLE_INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let result = of_kernel(device, DOUBLES, &bytes, DOUBLE_INPUT.len() as u64).await?;
    Ok(result[..8] == DOUBLE_EXPECTED.to_le_bytes())
}

/// Whether subnormal numbers of f32 count in full.
pub(crate) async fn keeps_subnormals(device: &Wgpu) -> Result<bool> {
    let result = of_kernel(device, SUBNORMAL, &SMALLEST.to_le_bytes(), 1).await?;
    Ok(result == TWICE_SMALLEST.to_le_bytes())
}

/// What a kernel leaves of so many elements.
pub(crate) async fn of_kernel(device: &Wgpu, text: &str, bytes: &[u8], length: u64) -> Result<Vec<u8>> {
    let kernel = kiln_ir::parse(text).map_err(|error| Error::Internal {
        place: "the probe of floats",
        message: format!("line {}: expected {}, found {}", error.line, error.expected, error.found),
    })?;
    let module = passes::module(&device.gpu, &kernel)?;
    let program = WgpuProgram::new(&device.gpu, &kernel, module, None)?;
    let memory = device.allocate(bytes.len(), StreamId::default())?;
    let result = run(device, &program, memory, bytes, length).await;
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
    let words = [memory.0, length, 1];
    // SAFETY: the memory is an allocation of as many bytes as the input has, of which the view
    // covers all; nothing else uses it.
    let read = unsafe {
        device.upload(memory, input, stream)?;
        device.launch(program, Launch { grid: [1; 3], words: &words, stream })?;
        device.download_later(memory, input.len(), stream)
    };
    read.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_what_rust_computes() {
        let [a, b, c, _] = INPUT.map(std::hint::black_box);
        assert_eq!([a.mul_add(a, b), (1.0 + c) - 1.0], EXPECTED);
        assert_eq!(a * a + b, 0.0);
        let [a64, b64] = DOUBLE_INPUT.map(std::hint::black_box);
        let smallest = std::hint::black_box(SMALLEST);
        assert_eq!(smallest + smallest, TWICE_SMALLEST);
        assert_eq!(a64.mul_add(a64, b64), DOUBLE_EXPECTED);
        assert_ne!(a64 * a64 + b64, DOUBLE_EXPECTED);
        assert_ne!(a * a + b, EXPECTED[0], "a product that is rounded shows");
        assert_ne!(c, EXPECTED[1], "a sum that is left out shows");
    }
}

//! Whether a driver keeps operations on floats as they are written.
//!
//! Vulkan lets a driver compute a multiply-add as a product and a sum, and no API says which it
//! does; some drivers also take `(1 + x) - 1` for `x`. Sums that keep the rounding error, of which
//! the elementary functions are made, are wrong there. So a device is asked as it is opened.

use super::backend::Wgpu;
use super::passes;
use super::program::WgpuProgram;
use super::transfers::locked;
use kiln_backend::{Asynchronous, Backend, DevicePtr, Error, Launch, Result, StreamId};

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

/// 2^-12 and 2^-24: half a unit of the last place of a number below 2 is 2^-24.
const SMALL: f32 = 1.0 / 4096.0;
const TINY: f32 = SMALL * SMALL;

/// The square of 1 + 2^-12 less all but its last bit, which a product that is rounded loses; and a
/// number of which the sum with 1 loses the last bit.
const INPUT: [f32; 3] = [1.0 + SMALL, -1.0 - 2.0 * SMALL, SMALL + TINY];

/// What a driver gives that keeps to what is written.
const EXPECTED: [f32; 2] = [TINY, SMALL];

/// Runs a kernel on a device, whose code features must say that floats are exact, and says whether
/// they are.
pub(crate) async fn keeps_floats(device: &Wgpu) -> Result<bool> {
    let kernel = kiln_ir::parse(KERNEL).map_err(|error| Error::Internal {
        place: "the probe of floats",
        message: format!("line {}: expected {}, found {}", error.line, error.expected, error.found),
    })?;
    let module = passes::module(&device.gpu, &kernel)?;
    let program = WgpuProgram::new(&device.gpu, &kernel, module, None)?;
    let bytes: Vec<u8> = INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let stream = StreamId::default();
    let memory = device.allocate(bytes.len(), stream)?;
    let result = run(device, &program, memory, &bytes).await;
    locked(&device.state).allocations.free(memory);
    let result = result?;
    Ok(result[..4] == EXPECTED[0].to_le_bytes() && result[4..] == EXPECTED[1].to_le_bytes())
}

/// What the kernel leaves of its input: 8 bytes.
async fn run(device: &Wgpu, program: &WgpuProgram, memory: DevicePtr, input: &[u8]) -> Result<Vec<u8>> {
    let stream = StreamId::default();
    let words = [memory.0, INPUT.len() as u64, 1];
    // SAFETY: the memory is an allocation of as many bytes as the input has, of which the view
    // covers all; nothing else uses it.
    let read = unsafe {
        device.upload(memory, input, stream)?;
        device.launch(program, Launch { grid: [1; 3], words: &words, stream })?;
        device.download_later(memory, 8, stream)
    };
    read.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_what_rust_computes() {
        let [a, b, c] = INPUT.map(std::hint::black_box);
        assert_eq!([a.mul_add(a, b), (1.0 + c) - 1.0], EXPECTED);
        assert_ne!(a * a + b, EXPECTED[0], "a product that is rounded shows");
        assert_ne!(c, EXPECTED[1], "a sum that is left out shows");
    }
}

//! Whether a driver keeps operations on floats as they are written.
//!
//! Vulkan lets a driver compute a multiply-add as a product and a sum, and no API says which it
//! does; some drivers also take `(1 + x) - 1` for `x`. Sums that keep the rounding error, of which
//! the elementary functions are made, are wrong there. So a device is asked as it is opened.

use super::bytes::ByteKernels;
use super::gpu::Gpu;
use super::passes;
use super::program::WgpuProgram;
use super::state::State;
use super::transfers::{download, locked};
use kiln_backend::{Error, Launch, Result, StreamId};
use std::sync::Mutex;

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
pub(crate) fn keeps_floats(gpu: &Gpu, state: &Mutex<State>) -> Result<bool> {
    let kernel = kiln_ir::parse(KERNEL).map_err(|error| Error::Internal {
        place: "the probe of floats",
        message: format!("line {}: expected {}, found {}", error.line, error.expected, error.found),
    })?;
    let module = passes::module(gpu, &kernel)?;
    let program = WgpuProgram::new(gpu, &kernel, module, None)?;
    let bytes: Vec<u8> = INPUT.iter().flat_map(|x| x.to_le_bytes()).collect();
    let memory = {
        let mut state = locked(state);
        let memory = state.allocate(gpu, bytes.len() as u64)?;
        state.upload(gpu, &ByteKernels::default(), memory, &bytes)?;
        let words = [memory.0, INPUT.len() as u64, 1];
        state.launch(gpu, &program, Launch { grid: [1; 3], words: &words, stream: StreamId::default() })?;
        memory
    };
    let mut result = [0; 8];
    download(gpu, state, memory, &mut result)?;
    locked(state).allocations.free(memory);
    Ok(result[..4] == EXPECTED[0].to_le_bytes() && result[4..] == EXPECTED[1].to_le_bytes())
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

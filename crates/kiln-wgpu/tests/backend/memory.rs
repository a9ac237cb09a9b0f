//! Copies and fills of any bytes, against a model in host memory.

use crate::{Outcome, STREAM, Test, downloaded, ensure, text, uploaded};
use kiln_backend::{Backend, DevicePtr};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("bytes_at_any_place", bytes_at_any_place),
    ("memory_is_reused_in_order", memory_is_reused_in_order),
    ("pointers_outside_are_refused", pointers_outside_are_refused),
    ("many_megabytes_come_back", many_megabytes_come_back),
];

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// Uploads, copies and fills of ranges that are no whole words change these bytes and no others.
fn bytes_at_any_place(device: &Wgpu) -> Outcome {
    const LENGTHS: [usize; 2] = [701, 300];
    let mut random = Random(88_172_645_463_325_252);
    let mut model = LENGTHS.map(|length| random.bytes(length));
    let memory = [uploaded(device, &model[0])?, uploaded(device, &model[1])?];
    for step in 0..120 {
        let (to, from) = (random.below(2), random.below(2));
        let most = LENGTHS[to].min(LENGTHS[from]) / 2;
        let bytes = if step % 3 == 0 { random.below(9) } else { random.below(most) };
        // Of copies within an allocation, the halves do not overlap.
        let half = |of: usize, upper: bool| if upper { LENGTHS[of] / 2 } else { 0 };
        let at = half(to, true) + random.below(LENGTHS[to] / 2 - bytes + 1);
        let source = half(from, from != to) + random.below(LENGTHS[from] / 2 - bytes + 1);
        let dst = DevicePtr(memory[to].0 + at as u64);
        let src = DevicePtr(memory[from].0 + source as u64);
        let kind = random.below(4);
        // SAFETY: `at + bytes` and `source + bytes` are inside the allocations, and the ranges do
        // not overlap.
        let done = unsafe {
            match kind {
                0 => {
                    let data = random.bytes(bytes);
                    model[to][at..at + bytes].copy_from_slice(&data);
                    device.upload(dst, &data, STREAM)
                }
                1 => {
                    let byte = [0, 0x5c][random.below(2)];
                    model[to][at..at + bytes].fill(byte);
                    device.fill(dst, byte, bytes, STREAM)
                }
                _ => {
                    let data = model[from][source..source + bytes].to_vec();
                    model[to][at..at + bytes].copy_from_slice(&data);
                    device.copy(dst, src, bytes, STREAM)
                }
            }
        };
        done.map_err(text)?;
        if step % 10 == 9 {
            for (memory, model) in memory.iter().zip(&model) {
                let skip = random.below(7);
                let got = downloaded(device, DevicePtr(memory.0 + skip as u64), model.len() - skip)?;
                let wrong = got.iter().zip(&model[skip..]).position(|(got, want)| got != want);
                ensure(wrong.is_none(), || format!("step {step}: byte {wrong:?} from {skip} on"))?;
            }
        }
    }
    Ok(())
}

/// What is written to memory that was freed and allocated again does not come before the work that
/// still reads what was there.
fn memory_is_reused_in_order(device: &Wgpu) -> Outcome {
    let result = device.allocate(64 * 1024, STREAM).map_err(text)?;
    for round in 0..64u8 {
        let source = uploaded(device, &[round; 1024])?;
        let part = DevicePtr(result.0 + u64::from(round) * 1024);
        // SAFETY: both have 1024 bytes there; the copy is recorded before the source is freed.
        unsafe {
            device.copy(part, source, 1024, STREAM).map_err(text)?;
            device.free(source, 1024, STREAM);
        }
    }
    let got = downloaded(device, result, 64 * 1024)?;
    let wrong = got.iter().enumerate().position(|(i, &byte)| usize::from(byte) != i / 1024);
    ensure(wrong.is_none(), || format!("byte {wrong:?} is of another round"))
}

fn pointers_outside_are_refused(device: &Wgpu) -> Outcome {
    let memory = uploaded(device, &[1; 100])?;
    for wrong in [DevicePtr(0), DevicePtr(memory.0 + 1), DevicePtr(u64::MAX), DevicePtr(memory.0 + (1 << 40))]
    {
        // SAFETY: not what the call asks for: that it is found out is what is tested. No byte is
        // touched then.
        let outcome = unsafe { device.fill(wrong, 7, 100, STREAM) };
        ensure(outcome.is_err(), || format!("{wrong:?} was filled"))?;
    }
    ensure(downloaded(device, memory, 100)? == [1; 100], || "a refused fill has changed memory".into())
}

/// More than is read back at a time, and than is uploaded before a submission.
fn many_megabytes_come_back(device: &Wgpu) -> Outcome {
    let count = (70 << 20) / 4 + 1;
    let words: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let memory = uploaded(device, bytemuck::cast_slice(&words))?;
    let got: Vec<u32> = bytemuck::pod_collect_to_vec(&downloaded(device, memory, count * 4)?);
    let wrong = got.iter().zip(&words).position(|(got, want)| got != want);
    ensure(wrong.is_none(), || format!("word {wrong:?}"))
}

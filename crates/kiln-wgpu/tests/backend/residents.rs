//! Mapped memory and resident launches, which are dispatches.

use crate::{Outcome, STREAM, Test, compiled, downloaded, ensure, text};
use kiln_backend::{
    Backend, BufferBinding, Error, LaunchArguments, Mapped, MappedMemory, MappedPlace, Residency, ResidentId,
    Residents,
};
use kiln_wgpu::Wgpu;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("dispatches_see_what_the_host_wrote", dispatches_see_what_the_host_wrote),
    ("several_dispatches_are_under_way", several_dispatches_are_under_way),
    ("only_what_a_view_spans_is_brought_up_to_date", only_what_a_view_spans_is_brought_up_to_date),
    ("copies_begin_at_mapped_memory", copies_begin_at_mapped_memory),
    ("what_cannot_be_mapped_is_refused", what_cannot_be_mapped_is_refused),
];

/// Adds %by and each word of %x to the same word of %y.
const ADD: &str =
    "kernel @add(%x: view<u32, 1, global>, %y: mut view<u32, 1, global>, %by: u32) thread [32, 1, 1] {
  %t = thread_id x : i64
  %n = extent %y axis 0 : i64
  %in = lt %t, %n : bool
  %a = view_load.x1 %x[%t] where %in : u32
  %b = view_load.x1 %y[%t] where %in : u32
  %c = add %a, %b : u32
  %d = add %c, %by : u32
  view_store.x1 %y[%t] where %in = %d
}";

/// A word of the host's copy.
fn word(mapped: &Mapped, at: usize) -> &AtomicU32 {
    assert!((at + 1) * 4 <= mapped.bytes);
    // SAFETY: a word of mapped memory, which the tests unmap at their end and access by atomics.
    unsafe { AtomicU32::from_ptr(mapped.host.cast::<u32>().as_ptr().add(at)) }
}

fn words(mapped: &Mapped) -> Vec<u32> {
    (0..mapped.bytes / 4).map(|at| word(mapped, at).load(Ordering::Acquire)).collect()
}

struct Adder<'d> {
    device: &'d Wgpu,
    program: std::sync::Arc<dyn kiln_backend::Program>,
    x: Mapped,
    y: Mapped,
}

impl<'d> Adder<'d> {
    /// Of 24 words.
    fn new(device: &'d Wgpu) -> Result<Adder<'d>, String> {
        let map = || device.map(96, MappedPlace::Host).map_err(text);
        Ok(Adder { device, program: compiled(device, ADD)?, x: map()?, y: map()? })
    }

    fn launch(&self, count: u64, by: u64) -> Result<ResidentId, String> {
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(self.x.device), &[count])
            .view(BufferBinding::write(self.y.device), &[count])
            .scalar(by);
        let launch = arguments.launch([1, 1, 1], STREAM);
        // SAFETY: both have 24 words, and are unmapped after all launches are over.
        unsafe { self.device.launch_resident(&self.program, launch) }.map_err(text)
    }

    fn wait(&self, id: ResidentId) -> Outcome {
        let over = self.device.resident_wait(id, Duration::MAX).map_err(text)?;
        ensure(over, || "a dispatch is not over".to_owned())
    }

    fn end(self) {
        // SAFETY: the launches are over, and nobody has an address any more.
        unsafe {
            self.device.unmap(self.x);
            self.device.unmap(self.y);
        }
    }
}

fn dispatches_see_what_the_host_wrote(device: &Wgpu) -> Outcome {
    assert_eq!(device.properties().residency, Residency::Dispatched);
    let adder = Adder::new(device)?;
    ensure(words(&adder.y) == [0; 24], || "mapped memory is not zeroed".to_owned())?;
    let mut want = [0; 24];
    for round in 0..5u32 {
        for at in (0..24).filter(|at| at % 3 == round as usize % 3) {
            word(&adder.x, at).store(at as u32 + round, Ordering::Release);
        }
        // Both sides write to this one.
        word(&adder.y, round as usize).store(1000, Ordering::Release);
        want[round as usize] = 1000;
        for (at, want) in want.iter_mut().enumerate() {
            *want += word(&adder.x, at).load(Ordering::Acquire) + round;
        }
        let id = adder.launch(24, round.into())?;
        adder.wait(id)?;
        let got = words(&adder.y);
        ensure(got == want, || format!("{got:?} instead of {want:?} in round {round}"))?;
    }
    adder.end();
    Ok(())
}

/// Their results come in order, whichever is waited for, and undo nothing that the host wrote in
/// between.
fn several_dispatches_are_under_way(device: &Wgpu) -> Outcome {
    let adder = Adder::new(device)?;
    let first = adder.launch(24, 1)?;
    word(&adder.y, 8).store(500, Ordering::Release);
    let second = adder.launch(24, 2)?;
    word(&adder.x, 23).store(7, Ordering::Release);
    let third = adder.launch(24, 3)?;
    adder.wait(second)?;
    // The quad in which the host wrote is what it was then, and 2.
    let got = words(&adder.y);
    ensure(got[8] == 502 && got[9..12] == [2; 3], || format!("{got:?} after two"))?;
    ensure(got[..8] == [3; 8] && got[12..] == [3; 12], || format!("{got:?} after two"))?;
    ensure(device.resident_done(first).map_err(text)?, || "the first is not over".to_owned())?;
    while !device.resident_done(third).map_err(text)? {
        std::thread::yield_now();
    }
    let got = words(&adder.y);
    ensure(got[8] == 505 && got[12] == 6 && got[23] == 13, || format!("{got:?} after three"))?;
    adder.end();
    Ok(())
}

fn only_what_a_view_spans_is_brought_up_to_date(device: &Wgpu) -> Outcome {
    let adder = Adder::new(device)?;
    for at in 0..24 {
        word(&adder.x, at).store(5, Ordering::Release);
    }
    let id = adder.launch(8, 1)?;
    adder.wait(id)?;
    let got = words(&adder.y);
    ensure(got[..8] == [6; 8] && got[8..] == [0; 16], || format!("{got:?}"))?;
    let on_device = downloaded(device, adder.x.device, 96)?;
    ensure(on_device[32..] == [0; 64], || "more went to the device than the view spans".to_owned())?;
    adder.end();
    Ok(())
}

fn copies_begin_at_mapped_memory(device: &Wgpu) -> Outcome {
    let from = device.map(100, MappedPlace::Host).map_err(text)?;
    for at in 0..25 {
        word(&from, at).store(at as u32 * 3, Ordering::Release);
    }
    let to = device.allocate(100, STREAM).map_err(text)?;
    // SAFETY: both have 100 bytes.
    unsafe { device.copy(to, from.device, 100, STREAM) }.map_err(text)?;
    let want: Vec<u8> = (0..25u32).flat_map(|at| (at * 3).to_le_bytes()).collect();
    ensure(downloaded(device, to, 100)? == want, || "a copy of something else".to_owned())?;
    // SAFETY: the copy is over, and nobody has an address any more.
    unsafe {
        device.unmap(from);
        device.free(to, 100, STREAM);
    }
    Ok(())
}

fn what_cannot_be_mapped_is_refused(device: &Wgpu) -> Outcome {
    let refused = device.map(16, MappedPlace::Device);
    ensure(matches!(refused, Err(Error::Unavailable { .. })), || format!("device memory: {refused:?}"))?;
    ensure(device.mapped_places().device.is_err(), || "device memory is listed".to_owned())?;
    let none = device.resident_done(ResidentId(99));
    ensure(matches!(none, Err(Error::Driver { .. })), || format!("no such launch: {none:?}"))
}

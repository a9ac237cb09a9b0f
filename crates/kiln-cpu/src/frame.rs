//! What generated code and this crate say to each other while a program runs: the frame, and calls
//! back on faults and prints.

use crate::report::{Incident, Reporter};
use kiln_backend::BufferBinding;

/// What a program is called with. Generated code reads the fields by their offsets.
#[repr(C)]
pub(crate) struct Frame {
    /// The program's index on x, y and z.
    pub(crate) program: [i64; 3],
    /// The number of programs on x, y and z.
    pub(crate) grid: [i64; 3],
    /// Where each view of the launch is.
    pub(crate) buffers: *const BufferBinding,
    /// The launch's numbers.
    pub(crate) numbers: *const u64,
    /// Memory of this worker, aligned to [`SCRATCH_ALIGN`], of the size that the program declares.
    pub(crate) scratch: *mut u8,
    /// Where faults and prints go.
    pub(crate) reporter: *const Reporter,
    /// A byte that is not 0 once the launch is to stop.
    pub(crate) stop: *const u8,
    /// A bit for each view that is a copy (see `copies.rs`), which only this worker reaches.
    pub(crate) copies: u64,
}

/// The alignment of the scratch memory in bytes: a cache line.
pub(crate) const SCRATCH_ALIGN: usize = 64;

/// A compiled kernel: runs one program and returns 0, or another value after a fault, which it has
/// reported.
///
/// # Safety
/// The frame's pointers are as its fields say, to as many buffers and numbers as the kernel takes,
/// and those are as [`kiln_backend::Backend::launch`] says.
pub(crate) type Entry = unsafe extern "C" fn(frame: *const Frame) -> u32;

/// Reports a fault or a print at a site, in a lane (the thread's index in its block; 0 in a program
/// over tiles). Each value is 8 bytes, its bits in the lowest.
///
/// # Safety
/// `frame` is the frame of the running program and `values` readable for the values of the site.
pub(crate) unsafe extern "C" fn report(frame: *const Frame, site: u64, lane: u64, values: *const u64) {
    // SAFETY: the caller passes the running program's frame, whose reporter outlives the launch.
    let (frame, reporter) = unsafe { (&*frame, &*(*frame).reporter) };
    let count = reporter.value_count(site as usize);
    // SAFETY: the caller passes as many values as the site has.
    let values = if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(values, count) } };
    reporter.report(Incident { program: frame.program, grid: frame.grid, site: site as usize, lane }, values);
}

/// The index of the first 0 among `n` bytes, or `n`.
///
/// # Safety
/// `mask` is readable for `n` bytes.
pub(crate) unsafe extern "C" fn first_false(mask: *const u8, n: usize) -> u64 {
    // SAFETY: the caller's promise.
    let mask = unsafe { std::slice::from_raw_parts(mask, n) };
    mask.iter().position(|&m| m == 0).unwrap_or(n) as u64
}

//! Device memory, which is host memory.

use kiln_backend::{DevicePtr, Error, Result};
use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering};

/// The alignment of every allocation in bytes.
const ALIGN: usize = 256;
/// The size of a huge page in bytes. Allocations of several are aligned to it, and the system is
/// asked to use such pages.
const HUGE: usize = 2 << 20;
/// From this size on, free memory is checked first: the system would promise more than it has.
const CAUTIOUS: usize = 64 << 20;

/// Allocates, frees and counts.
#[derive(Default)]
pub(crate) struct HostAllocator {
    used: AtomicU64,
}

impl HostAllocator {
    /// Uninitialized memory.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let bytes = bytes.max(1);
        let failed = |free: u64| Error::OutOfMemory {
            device: "cpu".into(),
            requested: bytes as u64,
            free,
            total: total_memory(),
        };
        if bytes >= CAUTIOUS {
            let free = self.free();
            if bytes as u64 > free {
                return Err(failed(free));
            }
        }
        let layout = layout(bytes).ok_or_else(|| failed(self.free()))?;
        // SAFETY: the layout has a size.
        let at = unsafe { std::alloc::alloc(layout) };
        if at.is_null() {
            return Err(failed(self.free()));
        }
        if layout.align() == HUGE {
            advise_huge(at, bytes);
        }
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(DevicePtr(at as u64))
    }

    /// Frees an allocation.
    ///
    /// # Safety
    /// `ptr` and `bytes` are those of an allocation of this memory that is not used any more.
    pub(crate) unsafe fn release(&self, ptr: DevicePtr, bytes: usize) {
        let bytes = bytes.max(1);
        if let Some(layout) = layout(bytes) {
            // SAFETY: the caller passes what `allocate` made with this layout.
            unsafe { std::alloc::dealloc(ptr.0 as *mut u8, layout) };
            self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes that can still be allocated.
    pub(crate) fn free(&self) -> u64 {
        let unused = total_memory().saturating_sub(self.used.load(Ordering::Relaxed));
        available_memory().unwrap_or(unused)
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, if bytes >= 2 * HUGE { HUGE } else { ALIGN }).ok()
}

#[cfg(target_os = "linux")]
fn advise_huge(at: *mut u8, bytes: usize) {
    // SAFETY: the range is a live allocation of ours; the advice changes no contents. A refusal
    // costs only speed.
    unsafe { libc::madvise(at.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: *mut u8, _: usize) {}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

pub(crate) fn available_memory() -> Option<u64> {
    meminfo("MemAvailable")
}

/// Bytes of memory of the machine; where that is not known, as many as a pointer reaches.
pub(crate) fn total_memory() -> u64 {
    meminfo("MemTotal").unwrap_or(isize::MAX as u64)
}

/// Returns the size of the last-level cache in bytes, if Linux reports it.
pub(crate) fn last_level_cache() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok()?;
    Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? * 1024)
}

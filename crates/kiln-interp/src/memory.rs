//! Device memory, which is host memory, and the memory of a block and its threads. Every access is
//! checked against what is allocated.

use crate::host_shared;
use crate::register::Register;
use crate::shadow::{Actor, Report, Shadow};
use kiln_backend::{Error, Finding};
use kiln_ir::numeric::Element;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

/// Alignment of every allocation, in bytes.
const ALIGN: usize = 256;

/// What fresh memory holds: NaN as floats, -1 as integers, so that a kernel that reads it is not
/// right by luck.
const POISON: u8 = 0xff;

/// A range of memory that kernels address from `base`.
pub struct Arena {
    base: u64,
    bytes: NonNull<u8>,
    len: usize,
    shadow: Option<Shadow>,
    /// Whether the host reads and writes it while kernels run.
    mapped: bool,
    /// Whether the memory is its own.
    owned: bool,
    /// How often it, or a part of it, was taken in as memory of another owner.
    borrows: usize,
}

// SAFETY: an arena owns its bytes, or their owner has lent them to it, and it changes them only
// through `&mut`; those that the host may
// touch meanwhile, by atomic accesses.
unsafe impl Send for Arena {}

impl Arena {
    /// Poisoned memory at the address of its first byte, or at 0 if it is not `global`. `None` if
    /// the system has no more.
    fn new(len: usize, global: bool, sanitize: bool) -> Option<Arena> {
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        let shadow = if sanitize { Some(Shadow::new(len)?) } else { None };
        // SAFETY: the layout's size is not zero.
        let bytes = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let base = if global { bytes.as_ptr() as u64 } else { 0 };
        let mut arena = Arena { base, bytes, len, shadow, mapped: false, owned: true, borrows: 0 };
        arena.reset();
        Some(arena)
    }

    /// Zeroed memory that the host may touch while a kernel does. The sanitizer takes it as
    /// written: it does not see what the host writes.
    fn mapped(len: usize, sanitize: bool) -> Option<Arena> {
        let mut arena = Arena::new(len, true, sanitize)?;
        arena.mapped = true;
        if let Some(shadow) = &mut arena.shadow {
            shadow.set_written(0, len);
        }
        // SAFETY: the arena owns `len` bytes at `bytes`.
        unsafe { arena.bytes.as_ptr().write_bytes(0, len) };
        Some(arena)
    }

    /// Memory of another owner, which the sanitizer takes as written.
    fn borrowed(bytes: NonNull<u8>, len: usize, sanitize: bool) -> Option<Arena> {
        let mut shadow = if sanitize { Some(Shadow::new(len)?) } else { None };
        if let Some(shadow) = &mut shadow {
            shadow.set_written(0, len);
        }
        let base = bytes.as_ptr() as u64;
        Some(Arena { base, bytes, len, shadow, mapped: false, owned: false, borrows: 1 })
    }

    /// Makes the memory fresh.
    fn reset(&mut self) {
        // SAFETY: the arena owns `len` bytes at `bytes`.
        unsafe { self.bytes.as_ptr().write_bytes(POISON, self.len) };
        if let Some(shadow) = &mut self.shadow {
            shadow.reset();
        }
    }

    fn forget(&mut self, start: usize, len: usize) {
        if let Some(shadow) = &mut self.shadow {
            shadow.forget(start, len);
        }
    }

    fn offset(&self, address: u64, len: usize) -> Option<usize> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        (start.checked_add(len)? <= self.len).then_some(start)
    }

    fn read<T: Element>(&mut self, start: usize, out: &mut [T], actor: Actor<'_>) -> Result<(), Report> {
        let size = size_of::<T>();
        if let Some(shadow) = &mut self.shadow {
            shadow.read(start, size_of_val(out), actor)?;
        }
        let from = self.bytes.as_ptr().wrapping_add(start);
        if self.mapped {
            // The last element first, where the slots of queues have their stamps: of a slot that
            // the host fills meanwhile, stamp last, a new stamp comes with all that is new.
            for (i, o) in out.iter_mut().enumerate().rev() {
                // SAFETY: as below, aligned, and everybody else's accesses are atomic.
                *o = unsafe { host_shared::read(from.wrapping_add(i * size)) };
            }
            return Ok(());
        }
        for (i, o) in out.iter_mut().enumerate() {
            // SAFETY: the caller found `out.len()` elements from `start` inside the arena, whose
            // bytes are all initialized.
            *o = unsafe { T::read(from.wrapping_add(i * size)) };
        }
        Ok(())
    }

    fn write<T: Element>(&mut self, start: usize, from: &[T], actor: Actor<'_>) -> Result<(), Report> {
        let size = size_of::<T>();
        let to = self.bytes.as_ptr().wrapping_add(start);
        if let Some(shadow) = &mut self.shadow {
            for (i, v) in from.iter().enumerate() {
                let at = to.wrapping_add(i * size);
                // SAFETY: as below; the bytes are initialized.
                let held: T = unsafe { if self.mapped { host_shared::read(at) } else { T::read(at) } };
                shadow.write(start + i * size, size, actor, held.bits() == v.bits())?;
            }
        }
        for (i, v) in from.iter().enumerate() {
            let at = to.wrapping_add(i * size);
            // SAFETY: the caller found `from.len()` elements from `start` inside the arena, aligned
            // where the host shares it.
            unsafe { if self.mapped { host_shared::write(*v, at) } else { v.write(at) } };
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // SAFETY: `new` allocated the bytes with this layout, whose construction succeeded then.
        unsafe {
            dealloc(self.bytes.as_ptr(), Layout::from_size_align_unchecked(self.len.max(1), ALIGN));
        }
    }
}

/// Global memory: the live allocations of a device.
pub struct GlobalMemory {
    /// Sorted by address.
    arenas: Vec<Arena>,
    /// The arena of the last access, which the next one most often hits too.
    last: usize,
    used: u64,
    limit: u64,
    sanitize: bool,
    /// The device's clock: how many operations its kernels have begun.
    pub steps: u64,
}

impl GlobalMemory {
    /// Empty memory that will hold up to `limit` bytes.
    pub fn new(limit: u64, sanitize: bool) -> GlobalMemory {
        GlobalMemory { arenas: Vec::new(), last: 0, used: 0, limit, sanitize, steps: 0 }
    }

    /// Whether the sanitizer is on.
    pub fn sanitizes(&self) -> bool {
        self.sanitize
    }

    /// Lets the sanitizer forget who touched what: launches are ordered.
    pub fn begin_launch(&mut self) {
        self.order_all();
    }

    /// Orders all accesses so far before all that follow.
    pub fn order_all(&mut self) {
        for shadow in self.arenas.iter_mut().filter_map(|a| a.shadow.as_mut()) {
            shadow.begin_launch();
        }
    }

    /// Bytes that can still be allocated.
    pub fn free_bytes(&self) -> u64 {
        self.limit - self.used
    }

    /// Bytes of the device.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Allocates `len` bytes.
    pub fn allocate(&mut self, len: usize, device: &str) -> Result<u64, Error> {
        self.add(len, device, |sanitize| Arena::new(len, true, sanitize)).map(|bytes| bytes.as_ptr() as u64)
    }

    /// Allocates `len` zeroed bytes that the host may touch while kernels run.
    pub fn allocate_mapped(&mut self, len: usize, device: &str) -> Result<NonNull<u8>, Error> {
        self.add(len, device, |sanitize| Arena::mapped(len, sanitize))
    }

    /// Adds an arena of `len` bytes if there is room for it.
    fn add(
        &mut self,
        len: usize,
        device: &str,
        make: impl FnOnce(bool) -> Option<Arena>,
    ) -> Result<NonNull<u8>, Error> {
        let fits = len as u64 <= self.free_bytes();
        let Some(arena) = fits.then(|| make(self.sanitize)).flatten() else {
            return Err(Error::OutOfMemory {
                device: device.into(),
                requested: len as u64,
                free: self.free_bytes(),
                total: self.limit,
            });
        };
        let (base, bytes) = (arena.base, arena.bytes);
        let at = self.arenas.partition_point(|a| a.base < base);
        self.arenas.insert(at, arena);
        self.used += len as u64;
        Ok(bytes)
    }

    /// Frees the allocation that begins at an address, if there is one.
    pub fn free(&mut self, address: u64) {
        if let Ok(at) = self.arenas.binary_search_by_key(&address, |a| a.base) {
            self.used -= self.arenas.remove(at).len as u64;
        }
    }

    /// Lets kernels reach memory of another owner. A part of what they reach already, such as a
    /// tensor's own memory, is that part.
    ///
    /// # Safety
    /// The address is that of `len` initialized bytes, which live until they are given back.
    pub unsafe fn borrow(&mut self, address: u64, len: usize, device: &str) -> Result<(), Error> {
        if let Ok((arena, start)) = self.find(address, len) {
            arena.borrows += 1;
            if let Some(shadow) = &mut arena.shadow {
                shadow.set_written(start, len);
            }
            return Ok(());
        }
        let at = self.arenas.partition_point(|arena| arena.base < address);
        let reaches_next = self.arenas.get(at).is_some_and(|next| next.base - address < len as u64);
        let before = at.checked_sub(1).and_then(|before| self.arenas.get(before));
        if reaches_next || before.is_some_and(|before| before.offset(address, 1).is_some()) {
            return Err(Error::Unavailable {
                device: format!("memory at address {address:#x} on {device}"),
                reason: "a part of it is another tensor's memory".to_owned(),
                hint: "Take in the whole first, and parts of it after that, or as views.".to_owned(),
            });
        }
        let bytes = NonNull::new(address as *mut u8);
        let Some(arena) = bytes.and_then(|bytes| Arena::borrowed(bytes, len, self.sanitize)) else {
            let (free, total) = (self.free_bytes(), self.limit);
            return Err(Error::OutOfMemory { device: device.into(), requested: len as u64, free, total });
        };
        self.arenas.insert(at, arena);
        Ok(())
    }

    /// Ends what [`borrow`](Self::borrow) began.
    pub fn give_back(&mut self, address: u64) {
        let Some(at) = self.arenas.partition_point(|arena| arena.base <= address).checked_sub(1) else {
            return;
        };
        let arena = &mut self.arenas[at];
        arena.borrows = arena.borrows.saturating_sub(1);
        if !arena.owned && arena.borrows == 0 {
            self.arenas.remove(at);
        }
    }

    /// Says that bytes are written by others than kernels and copies.
    pub fn set_written(&mut self, address: u64, len: usize) {
        if let Ok((Arena { shadow: Some(shadow), .. }, start)) = self.find(address, len) {
            shadow.set_written(start, len);
        }
    }

    fn find(&mut self, address: u64, len: usize) -> Result<(&mut Arena, usize), Report> {
        let hit = |arenas: &[Arena], at: usize| arenas.get(at).and_then(|a| a.offset(address, len));
        let mut start = hit(&self.arenas, self.last);
        if start.is_none() {
            self.last = self.arenas.partition_point(|a| a.base <= address).saturating_sub(1);
            start = hit(&self.arenas, self.last);
        }
        match (start, self.arenas.get_mut(self.last)) {
            (Some(start), Some(arena)) => Ok((arena, start)),
            (_, nearest) => {
                let mut detail = format!("{len} bytes at address {address:#x}");
                if let Some(arena) = nearest.filter(|a| a.base <= address) {
                    let into = address - arena.base;
                    detail += &format!(", which is {into} bytes into an allocation of {} bytes", arena.len);
                }
                Err(Report::Access(Finding::Address, detail))
            }
        }
    }

    /// Copies from the host.
    pub fn upload(&mut self, to: u64, from: &[u8]) -> Result<(), Report> {
        let (arena, start) = self.find(to, from.len())?;
        if let Some(shadow) = &mut arena.shadow {
            shadow.set_written(start, from.len());
        }
        let at = arena.bytes.as_ptr().wrapping_add(start);
        // SAFETY: the range lies in the arena; `copy_from` allows overlap with memory that the host
        // reads directly.
        unsafe { at.copy_from(from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies to the host. Bytes that nothing has written are poison, not an error: a host may
    /// fetch a buffer that is partly filled.
    pub fn download(&mut self, to: &mut [u8], from: u64) -> Result<(), Report> {
        let (arena, start) = self.find(from, to.len())?;
        let at = arena.bytes.as_ptr().wrapping_add(start);
        // SAFETY: the range lies in the arena, whose bytes are initialized.
        unsafe { at.copy_to(to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies within the device.
    pub fn copy(&mut self, to: u64, from: u64, len: usize) -> Result<(), Report> {
        let (source, start) = self.find(from, len)?;
        let at = source.bytes.as_ptr().wrapping_add(start);
        let written: Option<Vec<bool>> = source.shadow.as_ref().map(|s| s.written(start, len).to_vec());
        let (target, start) = self.find(to, len)?;
        if let (Some(shadow), Some(written)) = (&mut target.shadow, written) {
            shadow.copy_written(start, &written);
        }
        // SAFETY: both ranges lie in live arenas; `copy_from` allows them to overlap.
        unsafe { target.bytes.as_ptr().wrapping_add(start).copy_from(at, len) };
        Ok(())
    }

    /// What of a range nothing has written, if the sanitizer is on.
    pub fn unwritten(&mut self, address: u64, len: usize, filled: bool) -> Option<Vec<Range<usize>>> {
        let (arena, start) = self.find(address, len).ok()?;
        Some(arena.shadow.as_ref()?.unwritten(start, len, filled))
    }

    /// Fills with a byte.
    pub fn fill(&mut self, to: u64, byte: u8, len: usize) -> Result<(), Report> {
        let (arena, start) = self.find(to, len)?;
        if let Some(shadow) = &mut arena.shadow {
            shadow.set_filled(start, len);
        }
        // SAFETY: the range lies in the arena.
        unsafe { arena.bytes.as_ptr().wrapping_add(start).write_bytes(byte, len) };
        Ok(())
    }

    /// Reads elements for a kernel.
    pub fn read<T: Element>(&mut self, address: u64, out: &mut [T], actor: Actor<'_>) -> Result<(), Report> {
        let (arena, start) = self.find(address, size_of_val(out))?;
        arena.read(start, out, actor)
    }

    /// Writes elements for a kernel.
    pub fn write<T: Element>(&mut self, address: u64, from: &[T], actor: Actor<'_>) -> Result<(), Report> {
        let (arena, start) = self.find(address, size_of_val(from))?;
        arena.write(start, from, actor)
    }
}

/// Memory of the block, or of its threads one after the other: addresses count from 0.
pub struct BlockMemory {
    arena: Arena,
    /// The bytes of one thread, or of the block.
    size: usize,
}

impl BlockMemory {
    /// `parts` times `size` bytes. `None` if the system has no more.
    pub fn new(size: usize, parts: usize, sanitize: bool) -> Option<BlockMemory> {
        let arena = Arena::new(size.checked_mul(parts)?, false, sanitize)?;
        Some(BlockMemory { arena, size })
    }

    /// Makes the memory fresh, for the next block.
    pub fn reset(&mut self) {
        self.arena.reset();
    }

    /// Makes a range of one part untouched again.
    pub fn forget(&mut self, part: usize, address: u64, len: usize) {
        if let Ok(start) = self.offset(part, address, len) {
            self.arena.forget(start, len);
        }
    }

    fn offset(&self, part: usize, address: u64, len: usize) -> Result<usize, Report> {
        let end = address.checked_add(len as u64).filter(|&end| end <= self.size as u64);
        match end.and_then(|_| self.arena.offset((part * self.size) as u64 + address, len)) {
            Some(start) => Ok(start),
            None => {
                let detail = format!("{len} bytes at address {address:#x} of {} bytes", self.size);
                Err(Report::Access(Finding::Address, detail))
            }
        }
    }

    /// Copies bytes of one part, which the sanitizer does not see.
    pub fn peek(&self, part: usize, address: u64, out: &mut [u8]) -> Result<(), Report> {
        let start = self.offset(part, address, out.len())?;
        let at = self.arena.bytes.as_ptr().wrapping_add(start);
        // SAFETY: `offset` found the range in the arena, whose bytes are initialized.
        unsafe { at.copy_to(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Reads elements of one part.
    pub fn read<T: Element>(
        &mut self,
        part: usize,
        address: u64,
        out: &mut [T],
        actor: Actor<'_>,
    ) -> Result<(), Report> {
        let start = self.offset(part, address, size_of_val(out))?;
        self.arena.read(start, out, actor)
    }

    /// Writes elements of one part.
    pub fn write<T: Element>(
        &mut self,
        part: usize,
        address: u64,
        from: &[T],
        actor: Actor<'_>,
    ) -> Result<(), Report> {
        let start = self.offset(part, address, size_of_val(from))?;
        self.arena.write(start, from, actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The host fills slots word by word, the stamp last, while a kernel polls them.
    #[test]
    fn a_slot_with_a_new_stamp_is_new() {
        const ROUNDS: u32 = 100_000;
        let mut memory = GlobalMemory::new(1 << 20, false);
        let bytes = memory.allocate_mapped(16, "test").expect("16 bytes are there");
        let address = bytes.as_ptr() as u64;
        let actor = Actor {
            block: 0,
            lane: Some(0),
            now: 0,
            since: 0,
            seen: None,
            atomic: true,
            fenced: true,
            acquires: true,
            op: None,
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    for word in 0..4 {
                        let at = (address + 4 * word) as *mut u32;
                        // SAFETY: the memory has four words, lives as long as the scope, and is
                        // read by atomic accesses only.
                        unsafe { AtomicU32::from_ptr(at) }.store(round, Ordering::Release);
                    }
                }
            });
            let mut slot = [0; 4];
            while slot[3] < ROUNDS {
                memory.read(address, &mut slot, actor).expect("the slot is allocated");
                assert!(slot[..3].iter().all(|&word| word >= slot[3]), "{slot:?}");
            }
        });
    }
}

//! Copies of views to which a kernel only adds: a worker that runs several programs adds to memory
//! of its own, and once for all of them to the view.

use kiln_backend::BufferBinding;
use kiln_ir::{AtomicOp, Kernel, OpKind, Scope, Value};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The most views of a kernel that have copies.
pub(crate) const MOST_ADDED: usize = 4;
/// The largest copy in bytes: it stays in a second-level cache.
const LARGEST: usize = 64 << 10;
/// Programs that pay for making a copy and adding it up.
const ENOUGH_PROGRAMS: u64 = 8;

/// A view of one axis to which a kernel only adds integers, without reading what they were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AddedView {
    /// Its buffer among those of a launch.
    pub(crate) buffer: u32,
    /// Its extent among the numbers of a launch; the stride follows.
    pub(crate) number: u32,
    /// Of an element.
    pub(crate) bytes: u32,
}

/// The views of one axis to which a kernel only adds integers, without reading what they were.
pub(crate) fn added_views(kernel: &Kernel, is_used: impl Fn(Value) -> bool) -> Vec<(Value, AddedView)> {
    let (mut views, mut buffer, mut number) = (Vec::new(), 0, 0);
    for (param, &value) in kernel.params.iter().zip(&kernel.block(kernel.body).args) {
        if let Some(view) = param.ty.as_view() {
            let elem = param.ty.elem();
            if view.rank == 1 && elem.is_int() && elem.bytes() >= 4 {
                views.push((value, AddedView { buffer, number, bytes: elem.bytes() }));
            }
            buffer += 1;
        }
        number += param.numbers() as u32;
    }
    let mut added = Vec::new();
    kernel.walk(|_, data| {
        let mut adds = matches!(data.kind, OpKind::Extent(_) | OpKind::Stride(_));
        if let OpKind::Atomic { op: AtomicOp::Add, scope, .. } = data.kind {
            added.push(data.view());
            adds = scope != Scope::System && !is_used(data.results[0]);
        }
        views.retain(|(view, _)| {
            let uses = data.operands.iter().filter(|&operand| operand == view).count();
            uses == 0 || (uses == 1 && adds && data.view() == *view)
        });
    });
    // Of a view that nothing adds to there is no copy to make.
    views.retain(|(view, _)| added.contains(view));
    views.truncate(MOST_ADDED);
    views
}

/// The copies of a launch.
pub(crate) struct Copies {
    /// Where the views of the launch are, or their copies once there are some.
    buffers: Vec<BufferBinding>,
    made: Vec<Made>,
}

/// A copy: where it begins in memory, and what it is of.
struct Made {
    view: AddedView,
    bit: usize,
    begin: usize,
    elements: usize,
    /// The address of the view's first element.
    base: *mut u8,
}

impl Copies {
    /// The copies that some programs of a launch use; nothing if they use none.
    pub(crate) fn of(
        added: &[AddedView],
        buffers: &[BufferBinding],
        numbers: &[u64],
        programs: u64,
    ) -> Option<Copies> {
        if added.is_empty() || programs < ENOUGH_PROGRAMS {
            return None;
        }
        let mut copies = Copies { buffers: Vec::new(), made: Vec::new() };
        for (bit, view) in added.iter().enumerate() {
            let binding = buffers.get(view.buffer as usize)?;
            let elements = *numbers.get(view.number as usize)? as usize;
            let neighbors = numbers.get(view.number as usize + 1) == Some(&1);
            let bytes = elements.saturating_mul(view.bytes as usize);
            let alone = buffers.iter().filter(|other| other.buffer == binding.buffer).count() == 1;
            if bytes <= LARGEST && neighbors && alone {
                let begin = copies.bytes();
                let base = binding.address().0 as *mut u8;
                copies.made.push(Made { view: *view, bit, begin, elements, base });
            }
        }
        if copies.made.is_empty() {
            return None;
        }
        copies.buffers = buffers.to_vec();
        Some(copies)
    }

    /// The bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        let ends = self.made.last().map_or(0, |made| made.begin + made.elements * made.view.bytes as usize);
        ends.next_multiple_of(crate::frame::SCRATCH_ALIGN)
    }

    /// Makes them, of zeros. Gives the views of the programs that use them, and a bit for each
    /// added view that is a copy.
    ///
    /// # Safety
    /// `memory` is valid for [`bytes`](Self::bytes), aligned to a cache line, until
    /// [`add_up`](Self::add_up).
    pub(crate) unsafe fn make(&mut self, memory: *mut u8) -> (&[BufferBinding], u64) {
        let mut bits = 0;
        // SAFETY: the caller's promise.
        unsafe { memory.write_bytes(0, self.bytes()) };
        for made in &self.made {
            let binding = &mut self.buffers[made.view.buffer as usize];
            binding.buffer.0 = memory as u64 + made.begin as u64;
            binding.byte_offset = 0;
            bits |= 1 << made.bit;
        }
        (&self.buffers, bits)
    }

    /// Adds each copy to its view.
    ///
    /// # Safety
    /// `memory` is as [`make`](Self::make) left it, but for what programs added, and the launch's
    /// views are valid.
    pub(crate) unsafe fn add_up(&self, memory: *const u8) {
        for made in &self.made {
            for i in 0..made.elements {
                // SAFETY: the element is one of the view, which is aligned, and of the copy.
                unsafe {
                    let (from, to) = (memory.add(made.begin), made.base.add(i * made.view.bytes as usize));
                    if made.view.bytes == 4 {
                        let sum = from.cast::<u32>().add(i).read();
                        if sum != 0 {
                            AtomicU32::from_ptr(to.cast()).fetch_add(sum, Relaxed);
                        }
                    } else {
                        let sum = from.cast::<u64>().add(i).read();
                        if sum != 0 {
                            AtomicU64::from_ptr(to.cast()).fetch_add(sum, Relaxed);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::DevicePtr;

    #[test]
    fn copies_are_of_small_views_that_are_alone() {
        let (x, mut y) = ([0u32; 4], [1u32, 2, 3, u32::MAX]);
        let at = |memory: *const u32| BufferBinding::write(DevicePtr(memory as u64));
        let (of_x, of_y) = (at(x.as_ptr()), at(y.as_mut_ptr()));
        let added = [AddedView { buffer: 1, number: 2, bytes: 4 }];
        let none = |buffers: &[BufferBinding], numbers: &[u64], programs| {
            Copies::of(&added, buffers, numbers, programs).is_none()
        };
        assert!(none(&[of_x, of_y], &[4, 1, 4, 1], ENOUGH_PROGRAMS - 1));
        assert!(none(&[of_x, of_y], &[4, 1, 4, 2], 100));
        assert!(none(&[of_x, of_y], &[4, 1, 1 << 40, 1], 100));
        assert!(none(&[of_y.at(4), of_y], &[4, 1, 4, 1], 100));
        let mut copies = Copies::of(&added, &[of_x, of_y], &[4, 1, 4, 1], 100).unwrap();
        let mut memory = vec![9u32; copies.bytes() / 4];
        // SAFETY: the memory is as long as the copies; `y` has four elements.
        unsafe {
            let (buffers, bits) = copies.make(memory.as_mut_ptr().cast());
            assert_eq!((buffers[0], buffers[1].address().0, bits), (of_x, memory.as_ptr() as u64, 1));
            assert_eq!(memory[..4], [0; 4]);
            memory[..4].copy_from_slice(&[10, 0, 20, 2]);
            copies.add_up(memory.as_ptr().cast());
        }
        assert_eq!(y, [11, 2, 23, 1]);
    }
}

//! Where the kernels of a stream leave faults and prints, and how the host collects them.
//!
//! Each stream in which something that can report was launched has its own control block in device
//! memory, its own fault record and, once something that prints was launched, its own ring of print
//! records in mapped host memory. So a fault is reported by the stream it happened in, and
//! everything is cleared in that stream's order.

use super::sites::FAULT_WORDS;
use crate::driver::{DeviceBuffer, MappedWords, Result, Stream};
use crate::ptx::records::{Control, FaultRecord};
use kiln_backend::DevicePtr;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Words of a print ring: 1 MiB, some 26,000 prints of one value between two synchronizations.
const RING_WORDS: usize = 1 << 18;

/// The reports of one stream.
pub(super) struct Reports {
    control: DeviceBuffer,
    fault: MappedWords,
    prints: Mutex<Prints>,
    /// Held while something with barriers of the grid is enqueued, after what clears its count.
    counting: Mutex<()>,
}

/// The prints of one stream.
#[derive(Default)]
pub(super) struct Prints {
    ring: Option<MappedWords>,
    /// Whether something that prints was launched since the ring was read.
    pending: bool,
}

/// What was printed since the last time.
pub(super) struct Printed {
    /// The records, one after another, and zeros after them where the ring is full.
    pub(super) records: Vec<u32>,
    /// How many more found no room.
    pub(super) lost: u32,
}

impl Reports {
    /// Allocates them, in the stream's order.
    pub(super) fn new(stream: &Stream) -> Result<Reports> {
        let control = DeviceBuffer::new(stream, size_of::<Control>())?;
        let fault = MappedWords::new(stream.context(), FAULT_WORDS)?;
        control.fill(0)?;
        control.write(offset_of!(Control, fault), &fault.device_pointer().0.to_le_bytes())?;
        Ok(Reports { control, fault, prints: Mutex::default(), counting: Mutex::default() })
    }

    /// The hidden word of a launch.
    pub(super) fn control(&self) -> u64 {
        self.control.pointer().0
    }

    /// Where blocks that come to a barrier of the grid are counted.
    pub(super) fn arrived(&self) -> DevicePtr {
        DevicePtr(self.control() + offset_of!(Control, arrived) as u64)
    }

    /// Makes ready for a launch with barriers of the grid, which must be enqueued before the guard
    /// drops: nothing else that counts comes between.
    pub(super) fn count_from_zero(&self) -> Result<MutexGuard<'_, ()>> {
        let counting = self.counting();
        // SAFETY: the two words are inside the control block.
        unsafe { self.control.stream().fill_words(self.arrived(), 0, 2) }?;
        Ok(counting)
    }

    /// Makes ready for a graph that clears the count itself, and must be enqueued before the guard
    /// drops.
    pub(super) fn counting(&self) -> MutexGuard<'_, ()> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes ready for a launch that prints. The launch must be enqueued before the guard drops: a
    /// thread that collects prints meanwhile waits, so that no record is written between the
    /// reading of the ring and its clearing.
    pub(super) fn expect_prints(&self) -> Result<MutexGuard<'_, Prints>> {
        let mut prints = self.lock();
        if prints.ring.is_none() {
            let ring = MappedWords::new(self.control.stream().context(), RING_WORDS)?;
            self.control.write(offset_of!(Control, capacity), &(RING_WORDS as u32).to_le_bytes())?;
            self.control.write(offset_of!(Control, prints), &ring.device_pointer().0.to_le_bytes())?;
            prints.ring = Some(ring);
        }
        prints.pending = true;
        Ok(prints)
    }

    /// Takes the prints of the stream's work, if something that prints was launched. Waits for the
    /// stream.
    pub(super) fn take_prints(&self) -> Result<Option<Printed>> {
        let mut prints = self.lock();
        let Prints { ring: Some(ring), pending: pending @ true } = &mut *prints else {
            return Ok(None);
        };
        let mut control = [0; size_of::<Control>()];
        self.control.read(0, &mut control)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| control[at + i]));
        let (written, lost) = (word(offset_of!(Control, cursor)), word(offset_of!(Control, lost)));
        self.clear(offset_of!(Control, cursor))?;
        self.clear(offset_of!(Control, lost))?;
        *pending = false;
        let words = ring.words().get(..written as usize).unwrap_or(ring.words());
        // Cleared, so that nothing old is read where the next record that finds no room leaves a
        // gap.
        let records = words.iter().map(|word| word.swap(0, Ordering::Relaxed)).collect();
        Ok(Some(Printed { records, lost }))
    }

    /// Takes the record of the first fault since the last one that was taken. The stream's work is
    /// done.
    pub(super) fn take_fault(&self) -> Result<Option<Vec<u32>>> {
        let ready = &self.fault.words()[offset_of!(FaultRecord, ready) / 4];
        if ready.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        // Of several threads that wait for the stream, one takes it.
        let _taking = self.lock();
        if ready.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let record = self.fault.snapshot();
        // In this order: the record is not written until the claim is gone.
        ready.store(0, Ordering::Release);
        self.clear(offset_of!(Control, claimed))?;
        Ok(Some(record))
    }

    /// Zeroes a word of the control block, in stream order.
    fn clear(&self, offset: usize) -> Result<()> {
        let word = DevicePtr(self.control() + offset as u64);
        // SAFETY: the word is inside the control block.
        unsafe { self.control.stream().fill_words(word, 0, 1) }
    }

    fn lock(&self) -> MutexGuard<'_, Prints> {
        // Each field is set by itself, so a panic in between leaves nothing half-done.
        self.prints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

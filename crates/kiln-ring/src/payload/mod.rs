//! Arrays in device memory that messages and states refer to.
//!
//! A message lies in a slot, in which arrays may lie too: [`Inline`]. What is large, or used by
//! many messages, is written to device memory once, and messages carry a reference to it: a
//! [`Payload`], which is a field like any other. The memory remains allocated while there is a
//! reference: on the host, a message that is not answered, the state that an actor was launched
//! with; and what actors hand on without the host, which is a message in an inbound link, or an
//! output that was not taken. Those references are counted on the device: see
//! `runtime/ref_counts.rs`.
//!
//! | file | holds |
//! |---|---|
//! | `arena.rs` | the device memory that arrays stand in, as they see it |
//! | `block.rs` | the host's handle of an array: a block of the arena, a staging buffer |
//! | `registry.rs` | this process's arrays by their numbers |
//! | `elem.rs` | what arrays can be of |
//! | `inline.rs` | arrays that lie in a message or state themselves: [`Inline`], [`InlineVal`] |
//! | `memory.rs` | where arrays of a handler lie |
//! | `array.rs` | arrays in handlers: [`PayloadVal`], [`Array`] |

mod arena;
mod array;
mod block;
mod elem;
mod inline;
mod memory;
mod registry;

pub(crate) use arena::{Arena, WordRange};
pub use array::{Array, ArrayRef, PayloadVal};
pub use block::Hold;
pub(crate) use block::{Allocation, Block};
pub use elem::PayloadElem;
pub use inline::{Inline, InlineVal};
pub(crate) use memory::{ARENA, ArrayMemory, MESSAGE, MessageSlot};
use registry::find;
pub(crate) use registry::{allocation, forget, next_number, received, register};

use crate::error::{Result, RingError};
use crate::layout::{Layout, layout_id};
use crate::message::Message;
use kiln_lang::Val;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// An array in device memory, to be sent by reference. Clones are the same array.
///
/// An actor that gets one may hand it on to others, of the same runtime, with
/// [`RingCtx::send`](crate::RingCtx::send), or give it back in its reply: nothing is copied, and
/// the host is not involved. The memory is freed when no reference is left: no [`Payload`] on the
/// host, no message that is not answered, no output that was not received, no actor that was
/// launched with it. (A reference that a handler stores in its state does not keep the array alive:
/// handing it on after the array is freed fails the actor.)
///
/// Made by [`RingRuntime::payload`](crate::RingRuntime::payload) or
/// [`payload_of`](crate::RingRuntime::payload_of). In a handler it is a [`PayloadVal`], which
/// [`RingCtx::array`](crate::RingCtx::array) opens.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Message, Payload, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Job { number: u32, samples: Payload<f32> }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn total(ctx: &RingCtx, job: Job) -> f32 {
///     let samples = ctx.array(&job.samples);
///     let mut sum: Val<f32> = 0.0;
///     for i in ctx.share(samples.len()) {
///         sum += samples.get(i);
///     }
///     ctx.sum(sum)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(total, RingConfig::default())?;
/// actor.activate()?;
/// let samples = runtime.payload_of(&[1.0, 2.0, 3.5])?;
/// assert_eq!(actor.ask(Job { number: 1, samples })?, Some(6.5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// # use kiln_ring::{Payload, RingRuntime};
/// // Elements are written at once, or in memory from which the device copies them.
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let mut numbers: Payload<u32> = runtime.payload(3)?;
/// assert!(numbers.len() == 3 && !numbers.is_empty());
/// numbers.write(&[1, 2, 3])?;
/// assert_eq!(numbers.to_vec()?, [1, 2, 3]);
/// numbers.staging()?.copy_from_slice(&[4, 5, 6]);
/// numbers.flush()?;
/// assert_eq!(numbers.to_vec()?, [4, 5, 6]);
/// // Not while somebody else has it.
/// let other = numbers.clone();
/// assert!(numbers.write(&[0; 3]).is_err());
/// drop(other);
/// numbers.write(&[0; 3])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Payload<T: PayloadElem> {
    /// Nothing for a reference that came back from a device and stands for no array that is still
    /// there.
    block: Option<Arc<Block>>,
    elem: PhantomData<T>,
}

impl<T: PayloadElem> Clone for Payload<T> {
    fn clone(&self) -> Self {
        Payload { block: self.block.clone(), elem: PhantomData }
    }
}

impl<T: PayloadElem> fmt::Debug for Payload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Payload");
        text.field("elem", &T::SCALAR).field("len", &self.len());
        text.finish_non_exhaustive()
    }
}

impl<T: PayloadElem> Payload<T> {
    pub(crate) fn new(block: Arc<Block>) -> Self {
        Payload { block: Some(block), elem: PhantomData }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.len())
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory, if this is the only reference to it.
    fn own(&mut self) -> Result<&Block> {
        let block = self.block.as_ref().ok_or(RingError::PayloadGone)?;
        if Arc::strong_count(block) > 1 {
            // Messages may be answered although no thread has read the answers.
            block.release_answered();
        }
        // In this order, as `runtime/ref_counts.rs` says: what came back from actors, who has it
        // here, who has it there.
        let taken = block.taken();
        let shared = Arc::strong_count(block) > 1;
        if shared || block.is_referenced(taken)? { Err(RingError::PayloadInUse) } else { Ok(block) }
    }

    /// Replaces all elements.
    ///
    /// # Errors
    /// Another number of elements; other references to the array, such as a message that is not
    /// answered yet; failures of the device.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        let len = self.len();
        if data.len() != len {
            return Err(RingError::PayloadLength { len, given: data.len() });
        }
        let block = self.own()?;
        // SAFETY: the slice is gone before the borrow of this value ends.
        unsafe { Self::staging_of(block)? }.copy_from_slice(data);
        block.flush()
    }

    /// Host memory of the same length, which the device's copy engine reads directly: what is
    /// written there reaches the device by [`flush`](Self::flush). Zeros at first. Waits until an
    /// earlier flush is over.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn staging(&mut self) -> Result<&mut [T]> {
        // SAFETY: the slice borrows this value.
        unsafe { Self::staging_of(self.own()?) }
    }

    /// The staging memory of a block of which [`own`](Self::own) said that there is no other
    /// reference.
    ///
    /// # Safety
    /// For as long as the slice is used, the value that refers to the block is borrowed: a second
    /// reference to the array refuses this memory while there are two.
    unsafe fn staging_of<'a>(block: &Block) -> Result<&'a mut [T]> {
        let host = block.staging()?;
        // SAFETY: as many words, initialized, which live as long as the block; copies from them are
        // over; there is no other slice of them, as the caller promises.
        let words = unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), block.len()) };
        Ok(bytemuck::cast_slice_mut(words))
    }

    /// Begins to copy the [staging](Self::staging) memory to the device. A message that refers to
    /// the array is sent once it is there.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn flush(&mut self) -> Result<()> {
        self.own()?.flush()
    }

    /// A copy of the elements, as they are on the device now.
    ///
    /// # Errors
    /// There is no such array any more; failures of the device.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let block = self.block.as_ref().ok_or(RingError::PayloadGone)?;
        let mut data = vec![T::zeroed(); block.len()];
        block.read(bytemuck::cast_slice_mut(&mut data))?;
        Ok(data)
    }
}

/// A reference: the array's word in the arena, its length, and its number in this process.
impl<T: PayloadElem> Layout for Payload<T> {
    const WORDS: usize = 3;
    const ID: u64 = layout_id("payload", &[("elem", T::ID)]);
    const HOLDS: bool = true;
    const PORTABLE: bool = false;
    type Device = PayloadVal<T>;

    fn encode(&self, words: &mut [u32]) {
        let found = self.block.as_ref().map(|block| block.reference()).unwrap_or_default();
        words[..3].copy_from_slice(&found);
    }

    fn decode(words: &[u32]) -> Self {
        let block = find([words[0], words[1], words[2]]);
        Payload { block, elem: PhantomData }
    }

    fn load(words: &[Val<u32>]) -> PayloadVal<T> {
        PayloadVal::new([words[0], words[1], words[2]])
    }

    fn append(value: &PayloadVal<T>, words: &mut Vec<Val<u32>>) {
        words.extend(value.words());
    }

    fn references(at: usize, found: &mut Vec<usize>) {
        found.push(at);
    }

    fn hold(&self, held: &mut Vec<Hold>) {
        held.extend(self.block.iter().map(|block| Hold(Arc::clone(block))));
    }
}

impl<T: PayloadElem> Message for Payload<T> {
    const NAME: &'static str = "payload";
}

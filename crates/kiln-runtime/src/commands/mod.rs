//! Command lists: launches that are recorded once on tensors without memory, and enqueued again on
//! others of the same kinds.
//!
//! | file | holds |
//! |---|---|
//! | `command.rs` | a recorded launch, copy or fill; memory and numbers are given at each run |
//! | `record.rs` | from what a closure launches to a list |
//! | `packing.rs` | where tensors that a run makes for itself lie in one allocation |
//! | `enqueue.rs` | running the commands, by the device's graphs where it has them |

mod command;
mod enqueue;
mod packing;
mod record;

use crate::buffer::{Access, Buffer};
use crate::device::Device;
use crate::log::Log;
use crate::residency::Named;
use crate::stream::Queue;
use crate::tensor::{DynTensor, Layout};
use enqueue::Commands;
use kiln_backend::is_printing;
use kiln_ir::{Literal, Scalar};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, Weak};

/// Launches that were recorded once, and that are enqueued again on other tensors of the same kinds
/// and with other numbers: for libraries that launch the same kernels in the same order again and
/// again.
///
/// It differs from a [`Graph`](crate::Graph) in that it keeps no memory: what it makes has memory
/// from the beginning of a run on, what it reads is given to each run. (Tensors that the launches
/// use beside these are the same in all runs, as tables that a library keeps; they are not kept
/// alive.) What the launches check is
/// checked when they are recorded, and of a run only that its tensors are like those.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, DynTensor, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Val<f32>) {
///     let at = program_id(0) * 4;
///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * by);
/// }
///
/// let device = Device::open("cpu")?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0], [3])?;
/// let other = device.tensor(&[4.0f32, 5.0, 6.0], [3])?;
/// let list = device.command_list(&[x.as_dyn()], &[2.0f32.literal()], |numbers| {
///     let [mut between, mut y] = [device.uninit([3])?, device.uninit([3])?];
///     scale(&x, &mut between, f32::from_bits(numbers[0].bits() as u32)).launch(&device)?;
///     scale(&between, &mut y, 10.0).launch(&device)?;
///     Ok(vec![y.into_dyn()])
/// })?;
/// let made = list.run(&device, &[other.as_dyn()], &[3.0f32.literal()]);
/// let made = made.expect("a tensor of the same kind");
/// assert_eq!(made[0].to_vec::<f32>()?, [120.0, 150.0, 180.0]);
/// // Another shape is another list's.
/// let longer = device.zeros::<f32, 1>([4])?;
/// assert!(list.run(&device, &[longer.as_dyn()], &[3.0f32.literal()]).is_none());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn twice(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// // What a list consists of: a fill and two launches, and one tensor that is given.
/// let device = Device::open("interp")?;
/// let list = device.command_list(&[], &[], |_| {
///     let mut x = device.zeros([4])?;
///     twice(&mut x).launch(&device)?;
///     twice(&mut x).launch(&device)?;
///     Ok(vec![x.into_dyn()])
/// })?;
/// assert!(list.len() == 3 && !list.is_empty());
/// assert_eq!(list.bytes(), 16);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct CommandList {
    /// The device's identity: a list keeps no device open.
    device: usize,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    slots: Vec<Slot>,
    /// The bytes of what a run makes for itself, if it is one allocation.
    shared_bytes: usize,
    numbers: Vec<Number>,
    commands: Mutex<Commands>,
}

/// Whether kernels take tensors by address, so that several may lie in one allocation: where there
/// are bindings, one that is written is no other's.
fn takes_addresses(device: &Device) -> bool {
    device.backend().graphs().is_some() || device.capabilities().on_host
}

/// Buffers that were there at the recording, each with whether it is written.
type There = SmallVec<[(Arc<Buffer>, bool); 4]>;

/// A tensor that a run is given.
struct Input {
    dtype: Scalar,
    layout: Layout,
    facts: u64,
    slot: usize,
    /// Whether a command reads it.
    is_read: bool,
}

/// A tensor that a run gives.
struct Output {
    dtype: Scalar,
    layout: Layout,
    slot: usize,
}

/// A number that a run is given.
struct Number {
    elem: Scalar,
    /// The one that it has to be, if code around a launch promised something for it alone.
    only: Option<u64>,
}

/// A buffer of a run.
enum Slot {
    /// That of the input of this number, and of others that share it.
    Given(usize),
    /// One of so many bytes that the run makes and gives.
    Made(usize),
    /// One of so many bytes that the run makes for itself, at an offset in what all of these have
    /// in common where they are one allocation.
    Own { bytes: usize, offset: usize },
    /// One that was there at the recording, and whether it is written. The list does not keep it
    /// alive.
    There(Weak<Buffer>, bool),
}

impl CommandList {
    /// The number of launches, copies and fills.
    pub fn len(&self) -> usize {
        self.commands.lock().map_or(0, |commands| commands.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that a run allocates: of the tensors that it gives, and of one allocation in which
    /// the others lie, those that are not used at the same time in the same place.
    pub fn bytes(&self) -> usize {
        let bytes = |slot: &Slot| match slot {
            Slot::Made(bytes) => *bytes,
            Slot::Given(_) | Slot::Own { .. } | Slot::There(..) => 0,
        };
        self.shared_bytes + self.slots.iter().map(bytes).sum::<usize>()
    }

    /// Enqueues all of it in the default stream, and gives what the closure gave at the recording,
    /// with memory. Work that uses the tensors is ordered before and after it.
    ///
    /// It is `None`, and nothing has changed but the contents of memory that nobody has, where a
    /// launch is to be made singly instead: inputs or numbers of other kinds than at the recording
    /// (element types, shapes, strides, alignment, which of them share memory), or without
    /// contents; an observer, which receives each launch; a capture; another thread that runs the
    /// list; a device that fails.
    #[track_caller]
    pub fn run(&self, device: &Device, inputs: &[&DynTensor], numbers: &[Literal]) -> Option<Vec<DynTensor>> {
        let log = &mut Log::at(Location::caller());
        if device.identity() != self.device || device.is_capturing() || is_printing() || log.is_on() {
            return None;
        }
        if !self.takes(device, inputs) || !self.takes_numbers(numbers) {
            return None;
        }
        let mut commands = self.commands.try_lock().ok()?;
        let there = self.there()?;
        let new = |bytes: usize, log: &mut Log| Buffer::new(device, bytes, log).ok().map(Arc::new);
        // Where kernels take addresses, one allocation is as good as many: graphs are addresses.
        let is_shared = self.shared_bytes > 0 && takes_addresses(device);
        let shared = if is_shared { Some(new(self.shared_bytes, log)?) } else { None };
        let mut buffers: SmallVec<[Arc<Buffer>; 16]> = SmallVec::new();
        let mut addresses: SmallVec<[u64; 32]> = SmallVec::new();
        let mut next_there = there.iter();
        for slot in &self.slots {
            let (buffer, offset) = match (slot, &shared) {
                (Slot::Given(input), _) => (inputs[*input].buffer().clone(), 0),
                (Slot::There(..), _) => (next_there.next()?.0.clone(), 0),
                (Slot::Own { offset, .. }, Some(shared)) => (shared.clone(), *offset),
                (Slot::Made(bytes) | Slot::Own { bytes, .. }, _) => (new(*bytes, log)?, 0),
            };
            addresses.push(buffer.ptr().0 + offset as u64);
            buffers.push(buffer);
        }
        let queue = Queue::default();
        let mut locked = self.locked(inputs, &there)?;
        for (access, writes) in &mut locked {
            match *writes {
                true => access.prepare_write(&queue, true, log).ok()?,
                false => access.prepare_read(&queue, log).ok()?,
            }
        }
        let numbers: SmallVec<[u64; 8]> = numbers.iter().map(|number| number.bits()).collect();
        // SAFETY: each launch was checked when it was recorded, on tensors of the same kinds as
        // these: `takes` compared what programs rely on. The buffers are alive until the work is
        // enqueued, and order their freeing after it; what was there before is locked and ordered,
        // and what is made nobody else has.
        let enqueued = unsafe { commands.enqueue(device.backend(), &addresses, &numbers) };
        // A failure may have come after some of the commands.
        locked.iter_mut().filter(|(_, writes)| *writes).for_each(|(access, _)| access.wrote(&queue));
        drop(locked);
        enqueued.ok()?;
        let outputs = self.outputs(&buffers, &queue);
        // In the reverse order, so that a pool gives the next run the same.
        while buffers.pop().is_some() {}
        drop(shared);
        outputs
    }

    /// The buffers that were there at the recording, each with whether it is written; `None` if one
    /// is there no more.
    fn there(&self) -> Option<There> {
        let there = |slot: &Slot| match slot {
            Slot::There(buffer, writes) => Some(buffer.upgrade().map(|buffer| (buffer, *writes))),
            Slot::Given(_) | Slot::Made(_) | Slot::Own { .. } => None,
        };
        self.slots.iter().filter_map(there).collect()
    }

    /// Whether tensors are of the kinds that were recorded.
    fn takes(&self, device: &Device, inputs: &[&DynTensor]) -> bool {
        let is_alike = |(given, input): (&&DynTensor, &Input)| {
            given.dtype() == input.dtype
                && given.fact_bits() == input.facts
                && given.layout() == &input.layout
                && given.device() == device
                && match self.slots[input.slot] {
                    Slot::Given(first) => Arc::ptr_eq(given.buffer(), inputs[first].buffer()),
                    Slot::Made(_) | Slot::Own { .. } | Slot::There(..) => false,
                }
        };
        inputs.len() == self.inputs.len() && inputs.iter().zip(&self.inputs).all(is_alike)
    }

    /// Whether numbers are of the types that were recorded.
    fn takes_numbers(&self, given: &[Literal]) -> bool {
        let is_alike = |(given, number): (&Literal, &Number)| {
            given.elem() == number.elem && number.only.is_none_or(|only| only == given.bits())
        };
        given.len() == self.numbers.len() && given.iter().zip(&self.numbers).all(is_alike)
    }

    /// The buffers that are used and were there before, locked in the order of their addresses, so
    /// that launches in several threads never wait for each other in a circle, each with whether it
    /// is written. `None` if one is borrowed, has no contents, or is written and an input too.
    fn locked<'a>(
        &self,
        inputs: &[&'a DynTensor],
        there: &'a [(Arc<Buffer>, bool)],
    ) -> Option<SmallVec<[(Access<'a>, bool); 16]>> {
        let read = inputs.iter().zip(&self.inputs).filter(|(_, input)| input.is_read);
        let mut used: SmallVec<[(&Arc<Buffer>, bool); 16]> =
            read.map(|(given, _)| (given.buffer(), false)).collect();
        used.extend(there.iter().map(|(buffer, writes)| (buffer, *writes)));
        used.sort_unstable_by_key(|(buffer, _)| Arc::as_ptr(buffer));
        let lock = |same: &[(&'a Arc<Buffer>, bool)]| {
            let writes = same.iter().any(|(_, writes)| *writes);
            let access = same[0].0.access(Named::Tensor).ok()?;
            (access.is_written() && !(writes && same.len() > 1)).then_some((access, writes))
        };
        used.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)).map(lock).collect()
    }

    /// The results, which the run has written.
    fn outputs(&self, buffers: &[Arc<Buffer>], queue: &Queue) -> Option<Vec<DynTensor>> {
        let tensor = |output: &Output| {
            let buffer = &buffers[output.slot];
            if let Slot::Made(_) = self.slots[output.slot] {
                buffer.access(Named::Tensor).ok()?.wrote(queue);
            }
            Some(DynTensor::over(buffer.clone(), output.dtype, output.layout.clone()))
        };
        self.outputs.iter().map(tensor).collect()
    }
}

impl fmt::Debug for CommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        write!(f, "CommandList({} commands, {inputs} inputs, {outputs} outputs)", self.len())
    }
}

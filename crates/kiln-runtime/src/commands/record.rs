//! From what a closure launches to a command list.

use super::command::{Command, Work};
use super::enqueue::Commands;
use super::packing::pack;
use super::{CommandList, Input, Number, Output, Slot};
use crate::activity::CallSite;
use crate::buffer::Buffer;
use crate::capture::node::{self, Place, Recorded};
use crate::capture::recording::Recording;
use crate::capture::state::Mode;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::DynTensor;
use kiln_backend::StreamId;
use kiln_ir::Literal;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::{Arc, Mutex};

impl Device {
    /// Records what a closure launches on this device, on this thread, as a list of commands.
    /// Nothing runs, and tensors that the closure makes have no memory. It gives those that each
    /// [run](CommandList::run) of the list is to give: ones that it has made, or `inputs` and views
    /// of them.
    ///
    /// The closure is called twice, with `numbers` and with others of their types, and has to
    /// launch the same both times. What differs between the two is what a run's numbers are for.
    /// What `unsafe` code promises of a launch has to hold for each run with these `numbers`, and
    /// one that such a launch is given is the same in all runs.
    ///
    /// [`CommandList`] has an example.
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
    /// let device = Device::open("interp")?;
    /// let list = device.command_list(&[], &[], |_| {
    ///     let mut ones = device.zeros::<f32, 1>([4])?;
    ///     twice(&mut ones).launch(&device)?;
    ///     Ok(vec![ones.into_dyn()])
    /// })?;
    /// let made = list.run(&device, &[], &[]).expect("it takes no tensors");
    /// assert_eq!(made[0].to_vec::<f32>()?, [0.0; 4]);
    ///
    /// // A tensor from the host would be the same in each run.
    /// let refused = device.command_list(&[], &[], |_| Ok(vec![device.tensor(&[1.0f32], [1])?.into_dyn()]));
    /// assert!(matches!(refused, Err(kiln_runtime::Error::Commands { .. })));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `record`. [`Error::Commands`] where it cannot be repeated: it writes to an
    /// input, reads what it has not written, uses another stream, copies elements from the host,
    /// launches something else the second time, or makes more of its numbers than arguments of
    /// launches; and in the capture of a graph.
    #[track_caller]
    pub fn command_list(
        &self,
        inputs: &[&DynTensor],
        numbers: &[Literal],
        record: impl Fn(&[Literal]) -> Result<Vec<DynTensor>>,
    ) -> Result<CommandList> {
        let site = Location::caller();
        self.check_not_printing()?;
        let others = stand_ins(numbers).ok_or_else(|| refused("there are too many numbers", site))?;
        let mut list = Recorder::record(self, (inputs, site), &record, numbers)?;
        let again = Recorder::record(self, (inputs, site), &record, &others)?;
        list.compare(&again, numbers, &others)?;
        list.finish(self, numbers)
    }
}

fn refused(what: &str, location: CallSite) -> Error {
    Error::Commands { what: what.to_owned(), location }
}

/// Another number for each one, of its type: no two have the same bits. `None` if there are not
/// enough of a type.
fn stand_ins(numbers: &[Literal]) -> Option<Vec<Literal>> {
    let mut taken = HashSet::new();
    let other = |like: &Literal| {
        let literal = |value: i128| match like.elem().is_float() {
            true => Literal::from_f64(like.elem(), value as f64),
            false => Literal::wrapping(like.elem(), value),
        };
        let mut others = (0..=numbers.len() as i128 + 1).map(literal);
        others.find(|other| other.bits() != like.bits() && taken.insert(other.bits()))
    };
    numbers.iter().map(other).collect()
}

/// A recording on the way to a list.
struct Recorder {
    site: CallSite,
    commands: Vec<Command>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    slots: Vec<Slot>,
    /// The numbers that a kernel with `unsafe` code is given.
    fixed: HashSet<usize>,
}

impl Recorder {
    fn record(
        device: &Device,
        (inputs, site): (&[&DynTensor], CallSite),
        record: &impl Fn(&[Literal]) -> Result<Vec<DynTensor>>,
        numbers: &[Literal],
    ) -> Result<Recorder> {
        let recording = Recording::begin(device, Mode::Commands, site)?;
        let outputs = record(numbers)?;
        let nodes = recording.end();
        let mut of: HashMap<*const Buffer, usize> = HashMap::new();
        let mut recorder = Recorder {
            site,
            commands: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            slots: Vec::new(),
            fixed: HashSet::new(),
        };
        for (number, input) in inputs.iter().enumerate() {
            let slot = *of.entry(Arc::as_ptr(input.buffer())).or_insert_with(|| {
                recorder.slots.push(Slot::Given(number));
                recorder.slots.len() - 1
            });
            let (dtype, layout, facts) = (input.dtype(), input.layout().clone(), input.fact_bits());
            recorder.inputs.push(Input { dtype, layout, facts, slot, is_read: false });
        }
        for node in &nodes {
            let command = recorder.command(node, &mut of)?;
            recorder.check(&command)?;
            recorder.commands.push(command);
        }
        for output in &outputs {
            let slot = recorder.slot(output.buffer(), &mut of)?;
            let (dtype, layout) = (output.dtype(), output.layout().clone());
            let is_there = match recorder.slots[slot] {
                Slot::Made(bytes) => bytes == 0 || recorder.is_written(slot),
                Slot::Given(_) => true,
                Slot::Own { .. } | Slot::There(..) => false,
            };
            if !is_there {
                return Err(refused("a tensor is given that is no input, and that no launch writes", site));
            }
            recorder.outputs.push(Output { dtype, layout, slot });
        }
        Ok(recorder)
    }

    /// The slot of a buffer.
    fn slot(&mut self, buffer: &Arc<Buffer>, of: &mut HashMap<*const Buffer, usize>) -> Result<usize> {
        if let Some(&slot) = of.get(&Arc::as_ptr(buffer)) {
            return Ok(slot);
        }
        self.slots.push(match buffer.is_hollow() || buffer.bytes() == 0 {
            true => Slot::Made(buffer.bytes()),
            false => Slot::There(Arc::downgrade(buffer), false),
        });
        of.insert(Arc::as_ptr(buffer), self.slots.len() - 1);
        Ok(self.slots.len() - 1)
    }

    fn command(&mut self, node: &Recorded, of: &mut HashMap<*const Buffer, usize>) -> Result<Command> {
        if node.queue.id() != StreamId::default() {
            return Err(refused("a launch is in another stream than the default one", self.site));
        }
        let mut place = |place: &Place| Ok::<_, Error>((self.slot(&place.buffer, of)?, place.offset as u64));
        let nowhere = kiln_backend::DevicePtr(0);
        Ok(match &node.work {
            node::Work::Launch(launch) => {
                let slots = launch.args.tensors().map(|(used, _)| self.slot(&used.buffer, of));
                let slots = slots.collect::<Result<_>>()?;
                let (views, numbers) = (launch.args.views().into(), launch.args.numbers().into());
                let work = Work::Launch { kernel: launch.kernel.clone(), grid: launch.grid, views, numbers };
                Command { work, slots, numbers: Default::default() }
            }
            node::Work::Copy { to, from, bytes } => {
                let ((to, to_offset), (from, from_offset)) = (place(to)?, place(from)?);
                let offsets = [to_offset, from_offset];
                let work = Work::Copy { to: nowhere, from: nowhere, offsets, bytes: *bytes };
                Command { work, slots: [to, from].into_iter().collect(), numbers: Default::default() }
            }
            node::Work::Fill { to, byte, bytes } => {
                let (to, offset) = place(to)?;
                let work = Work::Fill { to: nowhere, offset, byte: *byte, bytes: *bytes };
                Command { work, slots: [to].into_iter().collect(), numbers: Default::default() }
            }
        })
    }

    /// Refuses what no run can promise, and notes what is read.
    fn check(&mut self, command: &Command) -> Result<()> {
        for (piece, &slot) in command.slots.iter().enumerate() {
            match (command.writes(piece), &self.slots[slot]) {
                (true, Slot::Given(_)) => return Err(refused("an input is written", self.site)),
                (false, Slot::Given(_)) => {
                    let inputs = self.inputs.iter_mut().filter(|input| input.slot == slot);
                    inputs.for_each(|input| input.is_read = true);
                }
                (false, Slot::Made(bytes)) if *bytes > 0 && !self.is_written(slot) => {
                    return Err(refused("a tensor is read that nothing has written", self.site));
                }
                (true, Slot::There(..)) => {
                    if let Slot::There(_, writes) = &mut self.slots[slot] {
                        *writes = true;
                    }
                }
                (true | false, Slot::Made(_) | Slot::Own { .. } | Slot::There(..)) => {}
            }
        }
        Ok(())
    }

    /// Whether a command so far writes a slot.
    fn is_written(&self, slot: usize) -> bool {
        let writes = |command: &Command| {
            let mut pieces = command.slots.iter().enumerate();
            pieces.any(|(piece, &of)| of == slot && command.writes(piece))
        };
        self.commands.iter().rev().any(writes)
    }

    /// Finds which numbers of the launches are the list's: those that differ in a second recording.
    fn compare(&mut self, again: &Recorder, numbers: &[Literal], others: &[Literal]) -> Result<()> {
        let pairs = numbers.iter().zip(others).enumerate();
        let of: HashMap<(u64, u64), usize> = pairs.map(|(at, (a, b))| ((a.bits(), b.bits()), at)).collect();
        let differ = || refused("something else was launched the second time", self.site);
        let is_alike = self.commands.len() == again.commands.len()
            && self.commands.iter().zip(&again.commands).all(|(a, b)| a.is_like(b))
            && self.outputs.len() == again.outputs.len()
            && self
                .outputs
                .iter()
                .zip(&again.outputs)
                .all(|(a, b)| (a.slot, &a.layout) == (b.slot, &b.layout));
        if !is_alike {
            return Err(differ());
        }
        for (command, other) in self.commands.iter_mut().zip(&again.commands) {
            let (Work::Launch { kernel, numbers, .. }, Work::Launch { numbers: others, .. }) =
                (&command.work, &other.work)
            else {
                continue;
            };
            for (at, pair) in numbers.iter().copied().zip(others.iter().copied()).enumerate() {
                if pair.0 == pair.1 {
                    continue;
                }
                let number = of.get(&pair).ok_or_else(|| {
                    refused("an argument of a launch is computed from the numbers", self.site)
                })?;
                command.numbers.push((at, *number));
                if kernel.promise.is_some() {
                    self.fixed.insert(*number);
                }
            }
        }
        Ok(())
    }

    fn finish(self, device: &Device, numbers: &[Literal]) -> Result<CommandList> {
        let Recorder { commands, inputs, outputs, mut slots, fixed, .. } = self;
        let is_own = |slot: usize, of: &Slot| match of {
            Slot::Made(bytes) if outputs.iter().all(|output| output.slot != slot) => Some(*bytes),
            Slot::Made(_) | Slot::Given(_) | Slot::Own { .. } | Slot::There(..) => None,
        };
        let own = slots.iter().enumerate().filter_map(|(slot, of)| Some((slot, is_own(slot, of)?)));
        let packed = pack(own.collect(), &commands);
        for own in &packed.all {
            slots[own.slot] = Slot::Own { bytes: own.bytes, offset: own.offset };
        }
        let shared_bytes = packed.bytes;
        let commands = Commands::new(commands, slots.len(), numbers.len());
        Ok(CommandList {
            device: device.identity(),
            inputs,
            outputs,
            slots,
            shared_bytes,
            numbers: (numbers.iter().enumerate())
                .map(|(at, number)| Number {
                    elem: number.elem(),
                    only: fixed.contains(&at).then_some(number.bits()),
                })
                .collect(),
            commands: Mutex::new(commands),
        })
    }
}

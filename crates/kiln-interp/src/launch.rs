//! A launch: its memory, its registers, and the loop over its blocks.

use crate::debug::{Debugging, Session};
use crate::eval;
use crate::explicit::{agents, blocks_at_once, run_grid, takes_turns};
use crate::in_flight::{Begun, InFlight};
use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory::{BlockMemory, GlobalMemory};
use crate::order::Order;
use crate::program::Loaded;
use crate::schedule::Schedule;
use crate::spaces::Spaces;
use crate::threads::thread_id;
use crate::time::Time;
use crate::value::View;
use kiln_backend::{ArgumentCount, Error, Launch, Prints};
use kiln_ir::OpKind;

/// The registers of a launch may take as many bytes as the device has memory, and this many on a
/// device that has less.
const LEAST_REGISTERS: u64 = 64 << 20;

/// Runs a launch to its end or its first fault.
pub fn run(
    loaded: &Loaded,
    launch: Launch<'_>,
    order: Order,
    memory: &mut GlobalMemory,
    prints: &Prints,
    time: Time,
    session: Option<&Session>,
) -> Result<(), Error> {
    let (sanitize, room) = (memory.sanitizes(), (memory.free_bytes(), memory.limit()));
    let too_much =
        |requested| Error::OutOfMemory { device: "interp".into(), requested, free: room.0, total: room.1 };
    let block_memory = |size: usize, parts: usize| {
        let requested = (size as u64).saturating_mul(parts as u64);
        let fits = requested <= room.1;
        fits.then(|| BlockMemory::new(size, parts, sanitize)).flatten().ok_or(too_much(requested))
    };
    // Programs that take turns have registers each.
    let blocks = blocks_at_once(&loaded.kernel, launch.grid);
    let machines = if takes_turns(&loaded.kernel) { 1 + agents(&loaded.kernel, blocks) } else { 1 };
    let register_bytes = loaded.register_bytes().saturating_mul(machines as u64);
    let registers = (register_bytes <= room.1.max(LEAST_REGISTERS)).then(|| loaded.registers()).flatten();
    let registers = registers.ok_or_else(|| too_much(register_bytes))?;
    memory.begin_launch();
    let spaces = Spaces {
        shared: block_memory(loaded.shared_bytes, blocks)?,
        local: block_memory(loaded.local_bytes, blocks * loaded.lanes())?,
        global: memory,
        in_flight: InFlight::default(),
        begun: Begun::default(),
        block: 0,
        rank: 0,
        lanes: loaded.lanes(),
        order: loaded.thread_order(),
        threaded: loaded.threaded,
        fenced: loaded.fenced,
        acquires: loaded.acquires,
        op: None,
    };
    let schedule = order.threads.filter(|_| loaded.threaded).map(|seed| Schedule::new(loaded, seed));
    let mut machine = Machine {
        kernel: &loaded.kernel,
        loaded,
        grid: launch.grid,
        block: [0; 3],
        registers,
        views: vec![None; loaded.kernel.counts().0],
        spaces,
        active_regions: Vec::new(),
        left: None,
        prints,
        order,
        schedule,
        seat: None,
        time,
        debug: session.map(|session| Debugging::new(session, loaded.lanes())),
    };
    machine.bind(launch)?;
    machine.set_constants()?;
    if takes_turns(&loaded.kernel) { run_grid(machine) } else { machine.run_grid() }
}

impl Machine<'_> {
    /// Gives the parameters their values.
    fn bind(&mut self, launch: Launch<'_>) -> Result<(), Error> {
        let args = &self.kernel.block(self.kernel.body).args;
        let wanted = ArgumentCount::of(self.kernel);
        wanted.check("kiln-interp", &self.kernel.name, launch.buffers, launch.numbers)?;
        let (mut buffers, mut rest) = (launch.buffers.iter(), launch.numbers);
        for (param, &arg) in self.kernel.params.iter().zip(args) {
            let (mine, others) = rest.split_at(param.numbers());
            rest = others;
            let Some(view) = param.ty.as_view() else {
                self.registers[arg.index()].fill(mine[0]);
                continue;
            };
            let (extents, strides) = mine.split_at(view.rank as usize);
            self.views[arg.index()] = buffers.next().map(|buffer| View {
                space: view.space,
                base: buffer.address().0,
                elem_bytes: view.elem.bytes().into(),
                extents: extents.iter().map(|&n| n as i64).collect(),
                strides: strides.iter().map(|&n| n as i64).collect(),
            });
        }
        Ok(())
    }

    /// Sets the registers that are the same in every block, once.
    fn set_constants(&mut self) -> Result<(), Error> {
        let kernel = self.kernel;
        let mut result = Ok(());
        kernel.walk(|_, data| {
            let Some(out) = data.results.first() else { return };
            let out = &mut self.registers[out.index()];
            let mut set = Ok(());
            if let OpKind::Const(literal) = &data.kind {
                out.fill(literal.bits());
            } else if let OpKind::Iota = data.kind {
                set = eval::iota(out);
            } else if let OpKind::ThreadId(axis) = data.kind {
                set = thread_id(out, axis, self.loaded.block);
            } else if let OpKind::BlockDim(axis) = data.kind {
                out.fill(self.loaded.block[axis as usize].into());
            } else if let OpKind::NumPrograms(axis) = data.kind {
                out.fill(self.grid[axis as usize].into());
            }
            if let (Err(trap), Ok(())) = (set, &result) {
                result = Err(self.error(trap, data.loc));
            }
        });
        result
    }

    fn run_grid(&mut self) -> Result<(), Error> {
        let everyone = Mask::full(self.loaded.lanes());
        let [x, y, z] = self.grid.map(u64::from);
        for earlier in 0..x * y * z {
            let block = self.order.block(earlier);
            self.block = [block % x, block / x % y, block / (x * y)].map(|index| index as u32);
            self.spaces.begin_block(block as u32);
            self.debug_begin_block();
            self.run_body(block as u32, &everyone)?;
            self.debug_end_block(&everyone);
            if let Some(left) = self.left.take() {
                return Err(left.fault);
            }
        }
        Ok(())
    }
}

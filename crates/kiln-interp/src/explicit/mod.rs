//! The explicit level.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | clusters, tasks, and what the operations do |
//! | `agents.rs`, `table.rs` | whose turn it is |
//! | `cluster.rs` | blocks of threads in a cluster |
//! | `factors.rs` | what matrix units multiply: elements as they see them |
//! | `pairs.rs` | tiles packed for a product from registers |
//! | `signals.rs` | by which programs wait for each other |
//! | `order.rs` | mbarriers, shared tiles, and which accesses are ordered |
//!
//! Copies and products take place when they are begun. That they might have taken place later is
//! what the order is checked for.

mod agents;
mod cluster;
mod factors;
mod order;
mod pairs;
mod signals;
mod table;

pub use table::Seat;

use crate::access::{self, Region};
use crate::eval;
use crate::in_flight::{Begun, InFlight};
use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory::{BlockMemory, GlobalMemory};
use crate::register::Register;
use crate::spaces::{Spaces, Turn};
use crate::thread_order::ThreadOrder;
use crate::trap::Trap;
use crate::value::Data;
use kiln_backend::{Error, FaultKind};
use kiln_ir::{
    Block, BulkReduce, ExplicitOp, Kernel, Level, OpData, OpKind, Operand, Scalar, Shape, Space, Value,
};
use order::{Gate, TileStage, World};
use std::sync::Arc;
use table::{Condition, Table};

/// Whether a kernel has operations of the explicit level.
pub fn is_used(kernel: &Kernel) -> bool {
    let mut used = false;
    kernel.walk(|_, data| used |= matches!(data.kind, OpKind::Explicit(_)));
    used
}

/// Whether programs of a kernel run side by side, and not one after the other.
pub fn takes_turns(kernel: &Kernel) -> bool {
    is_used(kernel)
        || matches!(kernel.level, Level::Thread { .. }) && kernel.cluster > 1
        || has_grid_barrier(kernel)
}

/// Whether all blocks of a launch wait for each other.
pub fn has_grid_barrier(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(|_, data| any |= data.kind == OpKind::GridBarrier);
    any
}

/// How many blocks run side by side: those of a cluster, or all of a launch.
pub fn blocks_at_once(kernel: &Kernel, grid: [u32; 3]) -> usize {
    match has_grid_barrier(kernel) {
        true => grid.iter().map(|&extent| extent as usize).product(),
        false => kernel.cluster as usize,
    }
}

/// Refuses what the interpreter does not do.
pub fn check(kernel: &Kernel) -> Result<(), Error> {
    let refuse = |what: &str, location: String, hint: &str| {
        Err(Error::Unsupported {
            kernel: kernel.name.clone(),
            what: what.into(),
            device: "interp".into(),
            location,
            hint: hint.into(),
        })
    };
    let mut ptx = None;
    kernel.walk(|_, data| {
        if let OpKind::InlinePtx(_) = data.kind {
            ptx.get_or_insert(data.loc);
        }
    });
    if let Some(loc) = ptx {
        let hint = "Write it with operations of the language.";
        return refuse("`inline_ptx` of an NVIDIA GPU", kernel.describe(loc), hint);
    }
    if !is_used(kernel) {
        return Ok(());
    }
    if let Level::Thread { .. } = kernel.level {
        return refuse(
            "the explicit level in a kernel over threads",
            kiln_ir::UNKNOWN_LOCATION.into(),
            "Interpret the kernel as it is before the lowering.",
        );
    }
    let mut shared = None;
    kernel.walk(|_, data| {
        if let OpKind::Alloc { space: Space::Shared, .. } = data.kind {
            shared.get_or_insert(data.loc);
        }
    });
    match shared.filter(|_| kernel.cluster > 1) {
        Some(loc) => refuse(
            "shared memory besides shared tiles in a cluster",
            kernel.describe(loc),
            "Use shared tiles, or no cluster.",
        ),
        None => Ok(()),
    }
}

/// How many programs and copies of tasks so many blocks have.
pub fn agents(kernel: &Kernel, blocks: usize) -> usize {
    let mut tasks = 0;
    kernel.walk(|_, data| tasks += copies(data).map(|(_, copies)| copies).sum::<usize>());
    blocks * (1 + tasks)
}

/// Runs the blocks of a launch, cluster by cluster or all at once.
pub fn run_grid(base: Machine<'_>) -> Result<(), Error> {
    let kernel = base.kernel;
    let blocks = blocks_at_once(kernel, base.grid);
    let agents = agents(kernel, blocks);
    let mut memories: Vec<GlobalMemory> = (0..=agents).map(|_| GlobalMemory::new(0, false)).collect();
    let mut idle = Vec::new();
    for memory in &mut memories {
        idle.push(placeholder(memory)?);
    }
    let Machine {
        loaded, grid, block, registers, views, spaces, prints, order, schedule, time, debug, ..
    } = base;
    let (active_regions, left) = (Vec::new(), None);
    let mut base = Machine {
        kernel,
        loaded,
        grid,
        block,
        registers,
        views,
        spaces,
        active_regions,
        left,
        prints,
        order,
        schedule,
        seat: None,
        time,
        debug,
    };
    // The blocks of a cluster follow each other along x, which they divide.
    let all: u32 = base.grid.iter().product();
    for first in (0..all).step_by(blocks) {
        idle = run_together(&mut base, idle, (agents, blocks), first)?;
    }
    Ok(())
}

/// The tasks that an operation runs, and how often each.
fn copies(data: &OpData) -> impl Iterator<Item = (Block, usize)> {
    let tasks = if let OpKind::Explicit(ExplicitOp::Tasks(tasks)) = &data.kind { &tasks[..] } else { &[] };
    data.regions.iter().zip(tasks).map(|(&region, task)| (region, task.copies as usize))
}

fn placeholder(memory: &mut GlobalMemory) -> Result<Spaces<'_>, Error> {
    let none = || {
        BlockMemory::new(0, 1, false).ok_or(Error::OutOfMemory {
            device: "interp".into(),
            requested: 0,
            free: 0,
            total: 0,
        })
    };
    let (shared, local) = (none()?, none()?);
    Ok(Spaces {
        global: memory,
        shared,
        local,
        in_flight: InFlight::default(),
        begun: Begun::default(),
        block: 0,
        rank: 0,
        lanes: 1,
        order: ThreadOrder::default(),
        threaded: false,
        fenced: false,
        acquires: false,
        op: None,
    })
}

/// Runs the blocks from the one with a linear index on that run side by side, with memory that idle
/// agents hold in the place of the real one; gives that back.
fn run_together<'m>(
    base: &mut Machine<'m>,
    mut idle: Vec<Spaces<'m>>,
    (agents, blocks): (usize, usize),
    linear: u32,
) -> Result<Vec<Spaces<'m>>, Error> {
    let bug = || Error::Internal { place: "kiln-interp", message: "an agent kept the memory".into() };
    let mut spaces = std::mem::replace(&mut base.spaces, idle.pop().ok_or_else(bug)?);
    spaces.begin_block(linear);
    let mut machines = Vec::new();
    for _ in 0..blocks {
        machines.push(base.with_spaces(idle.pop().ok_or_else(bug)?));
    }
    let table = Arc::new(Table::new(World::new(agents), spaces, idle, blocks));
    let threaded = base.loaded.threaded;
    let everyone = Mask::full(base.loaded.lanes());
    let ended: Vec<Spaces<'m>> = std::thread::scope(|scope| {
        let handles: Vec<_> = machines
            .into_iter()
            .enumerate()
            .map(|(rank, mut machine)| {
                let seat = Seat { table: table.clone(), agent: rank, rank, copy: 0 };
                let everyone = &everyone;
                scope.spawn(move || {
                    let (block, [x, y, _]) = (linear + rank as u32, machine.grid);
                    machine.block = [block % x, block / x % y, block / x / y];
                    machine.seat = Some(seat.clone());
                    let entered = machine.enter(&seat);
                    let mut result = Ok(());
                    if entered {
                        if threaded {
                            let order = machine.loaded.thread_order();
                            machine.spaces.turn_to(Turn { block, rank, order });
                        } else {
                            machine.spaces.begin_block(block);
                        }
                        result = machine.run_body(block, everyone);
                        if let (Ok(()), Some(left)) = (&result, machine.left.take()) {
                            result = Err(left.fault);
                        }
                    }
                    machine.leave(&seat, result, entered);
                    machine.spaces
                })
            })
            .collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let mut inner = table.lock();
    if let Some(error) = inner.failed.take() {
        return Err(error);
    }
    let placeholder = std::mem::replace(&mut base.spaces, inner.spaces.take().ok_or_else(bug)?);
    let mut idle = std::mem::take(&mut inner.idle);
    idle.extend(ended);
    idle.push(placeholder);
    Ok(idle)
}

impl<'m> Machine<'m> {
    /// A machine with the same values.
    fn with_spaces(&self, spaces: Spaces<'m>) -> Machine<'m> {
        Machine {
            kernel: self.kernel,
            loaded: self.loaded,
            grid: self.grid,
            block: self.block,
            registers: self.registers.clone(),
            views: self.views.clone(),
            spaces,
            active_regions: Vec::new(),
            left: None,
            prints: self.prints,
            order: self.order,
            schedule: self.schedule.clone(),
            seat: self.seat.clone(),
            time: self.time.clone(),
            debug: self.debug.clone(),
        }
    }

    /// Executes an operation of the explicit level.
    pub fn explicit(&mut self, data: &OpData, op: &ExplicitOp) -> Result<(), Error> {
        match op {
            ExplicitOp::Tasks(_) => self.tasks(data),
            ExplicitOp::SignalWait => self.wait_for_signal(data),
            ExplicitOp::MbarrierWait => {
                let wrong = |m: &Self, trap| m.error(trap, data.loc);
                let gate = self.gate(data).map_err(|trap| wrong(self, trap))?;
                let phase = self.int(data.phase()).map_err(|trap| wrong(self, trap))?;
                self.wait_until(Condition::Phase(gate, phase), data)?;
                let seat = self.seat().map_err(|trap| wrong(self, trap))?;
                let mut inner = seat.table.lock();
                let passed = inner.world.is_complete(gate, phase);
                let passed = passed.and_then(|_| inner.world.pass(seat.agent, gate));
                drop(inner);
                passed.map_err(|trap| wrong(self, trap))
            }
            ExplicitOp::SharedTile { .. }
            | ExplicitOp::Mbarrier { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::TmaLoad { .. }
            | ExplicitOp::TmaStore
            | ExplicitOp::TmaReduce(_)
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::TmaStoreWait { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskBarrier
            | ExplicitOp::Signal
            | ExplicitOp::SharedStore { .. }
            | ExplicitOp::SharedLoad
            | ExplicitOp::Wgmma { .. }
            | ExplicitOp::WgmmaRegisters { .. }
            | ExplicitOp::PackPairs { .. }
            | ExplicitOp::Exp2Flushed
            | ExplicitOp::WgmmaWait { .. }
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => {
                self.explicit_step(data, op).map_err(|trap| self.error(trap, data.loc))
            }
        }
    }

    fn tasks(&mut self, data: &OpData) -> Result<(), Error> {
        let seat = self.seat().map_err(|trap| self.error(trap, data.loc))?;
        let everyone = Mask::full(1);
        let mut children = Vec::new();
        for (region, copy) in copies(data).flat_map(|(region, n)| (0..n).map(move |copy| (region, copy))) {
            let agent = seat.table.add();
            let mut inner = seat.table.lock();
            inner.world.fork(seat.agent, agent);
            let Some(spaces) = inner.idle.pop() else {
                return Err(self.error(Trap::Bug("more agents than were counted".into()), data.loc));
            };
            drop(inner);
            children.push((region, Seat { agent, copy, ..seat.clone() }, self.with_spaces(spaces)));
        }
        let agents: Vec<usize> = children.iter().map(|c| c.1.agent).collect();
        std::thread::scope(|scope| {
            for (region, seat, mut machine) in children {
                let everyone = &everyone;
                scope.spawn(move || {
                    machine.seat = Some(seat.clone());
                    let entered = machine.enter(&seat);
                    let result = if entered { machine.run_block(region, everyone) } else { Ok(()) };
                    machine.leave(&seat, result, entered);
                    seat.table.lock().idle.push(machine.spaces);
                });
            }
            self.wait_until(Condition::Ends(agents.clone()), data)
        })?;
        let mut inner = seat.table.lock();
        agents.iter().for_each(|&agent| inner.world.merge(agent, seat.agent));
        Ok(())
    }

    fn explicit_step(&mut self, data: &OpData, op: &ExplicitOp) -> Result<(), Trap> {
        let seat = self.seat()?;
        let (agent, rank) = (seat.agent, seat.rank);
        let world = || seat.table.lock();
        match op {
            ExplicitOp::SharedTile { stages, rows, columns } => {
                let elem = self.kernel.ty(data.results[0]).elem();
                let stage = Data::zeros(elem, (rows * columns) as usize);
                world().world.make_tile(rank, data.results[0], &stage, *stages as usize, *rows as usize);
                Ok(())
            }
            ExplicitOp::Mbarrier { count, arrivals } => {
                world().world.make_gates(rank, data.results[0], *count as usize, *arrivals);
                Ok(())
            }
            ExplicitOp::MbarrierExpect { bytes } => {
                let gate = self.gate(data)?;
                world().world.arrive(agent, gate, (*bytes).into())
            }
            ExplicitOp::MbarrierArrive => {
                let mut gate = self.gate(data)?;
                if let [there] = *data.named(Operand::Rank) {
                    gate.0 = self.natural(there)?;
                }
                world().world.arrive(agent, gate, 0)
            }
            ExplicitOp::TmaLoad { rows, multicast, transposed } => {
                self.tma_load(&seat, data, *rows, *multicast, *transposed)
            }
            ExplicitOp::TmaStore => self.tma_store(&seat, data, None),
            ExplicitOp::TmaReduce(op) => self.tma_store(&seat, data, Some(*op)),
            // No cache holds what memory does not: only the operands are looked at.
            ExplicitOp::TmaPrefetch { .. } => self.loaded_box(data, false).map(|_| ()),
            ExplicitOp::TmaStoreWait { pending } => world().world.stores_done(agent, *pending as usize),
            ExplicitOp::ProxyFence => {
                world().world.advance(agent, true);
                Ok(())
            }
            ExplicitOp::TaskBarrier => {
                world().world.advance(agent, false);
                Ok(())
            }
            ExplicitOp::Signal => self.signal(data),
            ExplicitOp::SharedStore { column } => {
                let (place, [_, columns]) = self.place(&seat, data.tile(), data.stage())?;
                let (tile, elem) = (self.data(data.stored_value()), self.kernel.ty(data.tile()).elem());
                let paired = tile.elem() != elem;
                let tile = if paired { pairs::unpack(tile, elem)? } else { tile.clone() };
                let width = self.shape(data.stored_value())[1] as usize * if paired { 2 } else { 1 };
                let tile = tile.columns(width, *column as usize, columns)?;
                world().world.put(agent, place, &tile, columns)
            }
            ExplicitOp::SharedLoad => {
                let (place, _) = self.place(&seat, data.tile(), data.stage())?;
                let held = world().world.take(agent, place)?;
                self.registers[data.results[0].index()].copy(&pairs::words(&held)?)
            }
            ExplicitOp::Wgmma { transposed_a, transposed_b } => {
                self.wgmma(&seat, data, *transposed_a, *transposed_b)
            }
            ExplicitOp::WgmmaRegisters { transposed_b } => self.wgmma_registers(&seat, data, *transposed_b),
            ExplicitOp::PackPairs { bf16 } => {
                let elem = if *bf16 { Scalar::BF16 } else { Scalar::F16 };
                let packed = pairs::pack(self.data(data.operand(Operand::Registers)), elem)?;
                self.registers[data.results[0].index()].copy(&packed)
            }
            ExplicitOp::Exp2Flushed => {
                let flushed = pairs::exp2_flushed(self.data(data.input()))?;
                self.registers[data.results[0].index()].copy(&flushed)
            }
            ExplicitOp::TaskRank => {
                self.registers[data.results[0].index()].fill(seat.copy as u64);
                Ok(())
            }
            ExplicitOp::WgmmaWait { pending } => {
                world().world.products_done(agent, *pending as usize)?;
                data.sums().iter().zip(&data.results).try_for_each(|(&from, &to)| {
                    let value = self.data(from).clone();
                    self.registers[to.index()].copy(&value)
                })
            }
            ExplicitOp::ClusterRank => {
                self.registers[data.results[0].index()].fill(rank as u64);
                Ok(())
            }
            ExplicitOp::Tasks(_) | ExplicitOp::MbarrierWait | ExplicitOp::SignalWait => {
                Err(Trap::Bug("a wait in a step".into()))
            }
        }
    }

    fn tma_load(
        &mut self,
        seat: &Seat<'m>,
        data: &OpData,
        rows: u32,
        multicast: u32,
        transposed: bool,
    ) -> Result<(), Trap> {
        let rank = data.coordinates().len();
        let (place, [_, columns]) = self.place(seat, data.tile(), data.stage())?;
        let first = self.natural(data.row())?;
        let gate = self.gate(data)?;
        let (view, offsets) = self.loaded_box(data, transposed)?;
        let shape = box_of(rank, if transposed { [columns as u32, rows] } else { [rows, columns as u32] });
        let mut loaded = Data::zeros(self.kernel.ty(data.view()).elem(), rows as usize * columns);
        let region = Region { view: &view, offsets: &offsets, shape: &shape };
        access::load(&mut self.spaces, &region, 0, &mut loaded)?;
        if transposed {
            loaded = transpose(&loaded, [columns, rows as usize])?;
        }
        let blocks = self.kernel.cluster as usize;
        let gets = |r: usize| if multicast == 0 { r == seat.rank } else { multicast >> r & 1 == 1 };
        let mut inner = seat.table.lock();
        for r in (0..blocks).filter(|&r| gets(r)) {
            let there = ((r, place.1, place.2), (r, gate.1, gate.2));
            inner.world.load(seat.agent, there.0, first, &loaded, columns, there.1)?;
        }
        Ok(())
    }

    /// Stores a stage, or combines memory with it.
    fn tma_store(&mut self, seat: &Seat<'m>, data: &OpData, combine: Option<BulkReduce>) -> Result<(), Trap> {
        let (place, [rows, columns]) = self.place(seat, data.tile(), data.stage())?;
        let tile = seat.table.lock().world.store(seat.agent, place)?;
        let (view, offsets) = self.stored_box(data)?;
        let shape = box_of(offsets.len(), [rows as u32, columns as u32]);
        let region = Region { view: &view, offsets: &offsets, shape: &shape };
        match combine {
            None => access::store(&mut self.spaces, &region, &tile),
            Some(op) => access::combine_box(&mut self.spaces, &region, op.atomic(), &tile),
        }
    }

    fn wgmma(
        &mut self,
        seat: &Seat<'m>,
        data: &OpData,
        transposed_a: bool,
        transposed_b: bool,
    ) -> Result<(), Trap> {
        let (a, shape_a) = self.place(seat, data.tile(), data.stage())?;
        let (b, shape_b) = self.place(seat, data.right_tile(), data.right_stage())?;
        let factors = seat.table.lock().world.product(seat.agent, &[a, b])?;
        // `dot` takes [m, k] and [k, n].
        let maybe = |data: &Data, flip, shape| if flip { transpose(data, shape) } else { Ok(data.clone()) };
        let (x, y) =
            (maybe(&factors[0], transposed_a, shape_a)?, maybe(&factors[1], !transposed_b, shape_b)?);
        let k = if transposed_a { shape_a[0] } else { shape_a[1] };
        let acc = self.accumulator(data.keep(), data.sums())?;
        self.multiply(data, x, y, acc, k)
    }

    /// a · b, of which each result gets its columns.
    fn multiply(&mut self, data: &OpData, x: Data, y: Data, acc: Data, k: usize) -> Result<(), Trap> {
        let (x, y) = (factors::multiplied(x)?, factors::multiplied(y)?);
        let widths: Vec<usize> = data.results.iter().map(|&v| self.shape(v)[1] as usize).collect();
        let n = widths.iter().sum();
        let mut product = Data::zeros(acc.elem(), acc.len());
        eval::dot(&mut product, &x, &y, &acc, k, n)?;
        let mut first = 0;
        for (&result, &width) in data.results.iter().zip(&widths) {
            self.registers[result.index()].copy(&product.columns(n, first, width)?)?;
            first += width;
        }
        Ok(())
    }

    /// Tiles side by side as one.
    fn side_by_side(&self, tiles: &[Value]) -> Result<Data, Trap> {
        if let [tile] = tiles {
            return Ok(self.data(*tile).clone());
        }
        let parts: Vec<(&Data, usize)> =
            tiles.iter().map(|&v| (self.data(v), self.shape(v)[1] as usize)).collect();
        factors::side_by_side(&parts)
    }

    /// A product of what registers hold.
    fn wgmma_registers(&mut self, seat: &Seat<'m>, data: &OpData, transposed_b: bool) -> Result<(), Trap> {
        let (b, shape_b) = self.place(seat, data.right_tile(), data.right_stage())?;
        let y = seat.table.lock().world.product(seat.agent, &[b])?.remove(0);
        let words = data.registers().len() - data.results.len();
        let x = pairs::unpack(&self.side_by_side(&data.registers()[..words])?, y.elem())?;
        let y = if transposed_b { y } else { transpose(&y, shape_b)? };
        let k = if transposed_b { shape_b[0] } else { shape_b[1] };
        let acc = self.accumulator(data.keep(), data.sums())?;
        self.multiply(data, x, y, acc, k)
    }

    /// What a product is added to.
    fn accumulator(&self, keep: Value, acc: &[Value]) -> Result<Data, Trap> {
        let acc = self.side_by_side(acc)?;
        Ok(match bool::of(self.data(keep))?[0] {
            true => acc,
            false => Data::zeros(acc.elem(), acc.len()),
        })
    }

    /// A view, and offsets after it.
    fn tensor(&self, data: &OpData) -> Result<(crate::value::View, Vec<i64>), Trap> {
        let offsets = data.coordinates().iter().map(|&v| self.int(v)).collect::<Result<_, _>>()?;
        Ok((self.view(data.view())?.clone(), offsets))
    }

    /// That of a copy from memory.
    fn loaded_box(&self, data: &OpData, transposed: bool) -> Result<(crate::value::View, Vec<i64>), Trap> {
        let found = self.tensor(data)?;
        self.begins_together(data, found.1.iter().nth_back(transposed.into()))?;
        Ok(found)
    }

    /// That of a copy to memory, which begins inside the view.
    fn stored_box(&self, data: &OpData) -> Result<(crate::value::View, Vec<i64>), Trap> {
        let found = self.tensor(data)?;
        if let Some((axis, offset)) = found.1.iter().enumerate().find(|(_, offset)| **offset < 0) {
            return Err(failed(format!(
                "a bulk copy to memory begins at index {offset} of axis {axis}: none may be negative"
            )));
        }
        self.begins_together(data, found.1.last())?;
        Ok(found)
    }

    /// Checks where a box begins along the axis whose elements are adjacent.
    fn begins_together(&self, data: &OpData, offset: Option<&i64>) -> Result<(), Trap> {
        let together = i64::from(ExplicitOp::copied_together(self.kernel.ty(data.view()).elem()));
        match offset {
            Some(offset) if offset % together != 0 => {
                let text = ExplicitOp::BEGINS_BETWEEN.replacen("{}", &offset.to_string(), 1);
                Err(failed(text.replacen("{}", &together.to_string(), 1)))
            }
            _ => Ok(()),
        }
    }

    /// A shared tile and a stage, and the tile's rows and columns.
    fn place(&self, seat: &Seat<'m>, tile: Value, stage: Value) -> Result<(TileStage, [usize; 2]), Trap> {
        let Some(OpKind::Explicit(ExplicitOp::SharedTile { rows, columns, .. })) =
            self.kernel.defining_op(tile).map(|data| &data.kind)
        else {
            return Err(Trap::Bug("no shared tile".into()));
        };
        Ok(((seat.rank, tile, self.natural(stage)?), [*rows as usize, *columns as usize]))
    }

    fn gate(&self, data: &OpData) -> Result<Gate, Trap> {
        let rank = self.seat()?.rank;
        Ok((rank, data.mbarriers(), self.natural(data.mbarrier())?))
    }

    fn int(&self, value: Value) -> Result<i64, Trap> {
        Ok(i64::of(self.data(value))?[0])
    }

    /// An index; a negative one is none that exists.
    fn natural(&self, value: Value) -> Result<usize, Trap> {
        Ok(usize::try_from(self.int(value)?).unwrap_or(usize::MAX))
    }
}

/// A check that failed.
fn failed(message: String) -> Trap {
    Trap::Fault { kind: FaultKind::Assert { message }, lane: None }
}

/// The box of a view of so many axes that fills rows of a tile.
fn box_of(rank: usize, [rows, columns]: [u32; 2]) -> Shape {
    if rank == 1 {
        return Shape::new(&[rows * columns]);
    }
    let mut extents = vec![1; rank];
    extents[rank - 2..].copy_from_slice(&[rows, columns]);
    Shape::new(&extents)
}

fn transpose(data: &Data, [rows, columns]: [usize; 2]) -> Result<Data, Trap> {
    let (from, to) = (Shape::new(&[rows as u32, columns as u32]), Shape::new(&[columns as u32, rows as u32]));
    let mut out = Data::zeros(data.elem(), data.len());
    eval::transpose(&mut out, &to, data, &from, &Shape::new(&[1, 0]))?;
    Ok(out)
}

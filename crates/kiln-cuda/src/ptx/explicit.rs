//! The explicit level: mbarriers, bulk tensor copies, warpgroup products and tasks (PTX ISA 8.0, "Asynchronous warpgroup level matrix
//! instructions", "cp.async.bulk.tensor", "mbarrier", "setmaxnreg").

use super::entry::MIXED_VERSION;
use super::writer::{Class, Reg, Writer};
use kiln_backend::{Error, Result};
use kiln_ir::{
    Axis, BinaryOp, Block, CompareOp, Def, ExplicitOp, Kernel, Op, OpData, OpKind, Scalar, Task, Value,
};
use std::collections::HashMap;
use std::fmt;

/// Bytes of a row of a panel of a shared tile, which the hardware swizzles as a whole.
const PANEL: u32 = 128;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Rows of a product that a warpgroup computes at once, and the depth of one instruction, in bytes.
const WGMMA_ROWS: u32 = 64;
const WGMMA_DEPTH: u32 = 32;
/// Bytes of eight rows of a panel: what a swizzle permutes, and a matrix descriptor steps by.
const ATOM: u32 = 8 * PANEL;
/// Registers of a multiprocessor.
const REGISTERS: u32 = 65536;

/// A tensor map that a launch must pass, made from a view parameter. The maps come before the words, 128 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// The parameter, as the user calls it.
    pub name: String,
    /// The first word of the view among the parameters.
    pub word: u32,
    /// Its axes.
    pub rank: u32,
    /// Its elements.
    pub elem: Scalar,
    /// The extents of the box on the last two axes; on the others they are 1.
    pub extents: [u32; 2],
}

/// The warps that an operation is written for.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Which named barrier it has; 0 is the block's.
    barrier: u32,
    /// What to add to that.
    copy: Option<Reg>,
    threads: u32,
    /// What its first thread does.
    first: Guard,
    /// What the first thread of each of its warpgroups does.
    leads: Guard,
    /// The number of its warpgroup in the team.
    warpgroup: Reg,
}

/// Before an instruction: the predicate of the threads that execute it, or nothing where no others come.
#[derive(Clone, Copy)]
struct Guard(Option<Reg>);

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |predicate| write!(f, "@{predicate} "))
    }
}

/// What a kernel of the explicit level needs besides its text.
#[derive(Default)]
pub(super) struct Explicit {
    pub(super) used: bool,
    /// Some task has a register budget.
    pub(super) budgets: bool,
    pub(super) maps: Vec<TensorMap>,
    /// The operation of the body before which the mbarriers must be there.
    meet_before: Option<Op>,
    team: Option<Team>,
    always: Option<Reg>,
    /// Where shared memory begins.
    shared: Option<Reg>,
    /// The arrivals of a phase that the hardware counts, by the value of the mbarriers.
    arrivals: HashMap<Value, u32>,
    /// By value: the first of the values that share a register with it.
    same: HashMap<Value, Value>,
    /// The register of values that share one, by their representative.
    pub(super) registers: HashMap<Value, Reg>,
}

/// A shared tile as it was made.
struct SharedTile {
    address: Reg,
    rows: u32,
    columns: u32,
    elem: Scalar,
}

impl SharedTile {
    fn stage_bytes(&self) -> u32 {
        self.rows * self.columns * self.elem.bytes()
    }

    fn panels(&self) -> u32 {
        self.columns * self.elem.bytes() / PANEL
    }

    fn panel_columns(&self) -> u32 {
        PANEL / self.elem.bytes()
    }
}

impl Writer<'_> {
    /// Looks the kernel through, and writes what comes first: which thread this is, and the mbarriers' beginning.
    pub(super) fn begin_explicit(&mut self, threads: u32) -> Result<()> {
        let kernel = self.kernel;
        let mut mbarriers = Vec::new();
        let mut boxes = Vec::new();
        kernel.walk(|at, data| {
            let OpKind::Explicit(op) = &data.kind else { return };
            self.explicit.used = true;
            match op {
                ExplicitOp::Mbarrier { count, arrivals } => mbarriers.push((at, *count, *arrivals)),
                ExplicitOp::TmaLoad { rows, .. } => {
                    boxes.push((data.operands[0], Some(*rows), data.operands[data.operands.len() - 5]));
                }
                ExplicitOp::TmaStore => boxes.push((data.operands[2], None, data.operands[0])),
                ExplicitOp::Tasks(tasks) => self.explicit.budgets |= tasks.iter().any(|t| t.registers > 0),
                _ => {}
            }
        });
        if !self.explicit.used {
            return Ok(());
        }
        if self.target.capability() != 90 {
            let op = mbarriers.first().map_or(kernel.block(kernel.body).ops[0], |m| m.0);
            return Err(self.unsupported(
                kernel.op(op),
                "the explicit level",
                "It needs a GPU of compute capability 9.0",
            ));
        }
        self.explicit.same = super::in_place::classes(kernel);
        self.count_arrivals(kernel.body, threads)?;
        let thread = self.reg(Class::B32);
        self.put(format_args!("mov.u32 {thread}, %tid.x"));
        let team = self.team(0, thread, 0, &Task { copies: 1, warps: threads / 32, registers: 0 });
        self.explicit.team = Some(team);
        let always = self.reg(Class::Pred);
        self.put(format_args!("setp.eq.u32 {always}, 0, 0"));
        self.explicit.always = Some(always);
        // Taken once: the assembler asks the hardware for it wherever it is named.
        let shared = self.reg(Class::B32);
        self.put(format_args!("mov.u32 {shared}, shared_memory"));
        self.explicit.shared = Some(shared);
        for (op, count, arrivals) in mbarriers {
            let made = kernel.result(op);
            let each = self.explicit.arrivals.get(&made).copied().unwrap_or(1);
            let offset = self.offsets[made.index()].unwrap_or_default();
            self.init_mbarriers(thread, threads, offset, count, arrivals * each);
        }
        for (view, rows, tile) in boxes {
            let all = self.shared_shape(tile)?.0;
            self.prefetch_map(view, rows.unwrap_or(all), team)?;
        }
        self.put(format_args!("fence.mbarrier_init.release.cluster"));
        // What needs no mbarrier is computed while they are made.
        let needs = |&op: &Op| needs_mbarriers(kernel, kernel.op(op));
        self.explicit.meet_before = kernel.block(kernel.body).ops.iter().copied().find(needs);
        if self.explicit.meet_before.is_none() {
            self.meet();
        }
        Ok(())
    }

    /// Makes mbarriers that lie one after the other, each by a thread of its own.
    fn init_mbarriers(&mut self, thread: Reg, threads: u32, offset: u32, count: u32, arrivals: u32) {
        let (base, at) = (self.reg(Class::B32), self.reg(Class::B32));
        self.put(format_args!("mov.u32 {base}, shared_memory"));
        self.put(format_args!("mad.lo.u32 {at}, {thread}, 8, {base}"));
        for from in (0..count).step_by(threads as usize) {
            let mine = self.reg(Class::Pred);
            self.put(format_args!("setp.lt.u32 {mine}, {thread}, {}", count - from));
            self.put(format_args!(
                "@{mine} mbarrier.init.shared::cta.b64 [{at}+{}], {arrivals}",
                offset + 8 * from
            ));
        }
    }

    /// Comes before each operation of the body: everybody waits for the mbarriers before the first that may use one.
    pub(super) fn before(&mut self, op: Op) {
        if self.explicit.meet_before == Some(op) {
            self.explicit.meet_before = None;
            self.meet();
        }
    }

    /// What comes last: no block ends while another of its cluster may reach its memory.
    pub(super) fn end_explicit(&mut self) {
        if self.explicit.used && self.kernel.cluster > 1 {
            self.meet();
        }
    }

    /// Everybody of the block, or of the cluster.
    fn meet(&mut self) {
        if self.kernel.cluster > 1 {
            self.put(format_args!("barrier.cluster.arrive.release"));
            self.put(format_args!("barrier.cluster.wait.acquire"));
        } else {
            self.put(format_args!("bar.sync 0"));
        }
    }

    /// The registers that say where this thread stands in a team, one of the task's copies from a thread on; `thread` is its index in the
    /// block.
    fn team(&mut self, barrier: u32, thread: Reg, first_thread: u32, task: &Task) -> Team {
        let threads = 32 * task.warps;
        let (first, leads) = (self.reg(Class::Pred), self.reg(Class::Pred));
        let [own, within] = [(); 2].map(|()| self.reg(Class::B32));
        self.put(format_args!("sub.u32 {own}, {thread}, {first_thread}"));
        let mut copy = None;
        if task.copies > 1 {
            let number = self.uniform_quotient(own, threads.trailing_zeros());
            self.put(format_args!("and.b32 {own}, {own}, {}", threads - 1));
            copy = Some(number);
        }
        self.put(format_args!("setp.eq.u32 {first}, {own}, 0"));
        self.put(format_args!("and.b32 {within}, {own}, {}", WARPGROUP.min(threads) - 1));
        self.put(format_args!("setp.eq.u32 {leads}, {within}, 0"));
        let warpgroup = self.uniform_quotient(own, WARPGROUP.trailing_zeros());
        let [first, leads] = [first, leads].map(|p| Guard(Some(p)));
        Team { barrier, copy, threads, first, leads, warpgroup }
    }

    /// The upper bits of a number, the same in all lanes of a warp, which the assembler only sees after a shuffle.
    fn uniform_quotient(&mut self, number: Reg, shift: u32) -> Reg {
        let (mine, uniform) = (self.reg(Class::B32), self.reg(Class::B32));
        self.put(format_args!("shr.u32 {mine}, {number}, {shift}"));
        self.put(format_args!("shfl.sync.idx.b32 {uniform}, {mine}, 0, 0x1f, 0xffffffff"));
        uniform
    }

    /// Finds how many threads arrive for each arrival of a task: one of each warpgroup.
    fn count_arrivals(&mut self, block: Block, threads: u32) -> Result<()> {
        let kernel = self.kernel;
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            let each = match &data.kind {
                OpKind::Explicit(ExplicitOp::MbarrierArrive) => (threads / WARPGROUP).max(1),
                OpKind::Explicit(ExplicitOp::MbarrierExpect { .. }) => 1,
                OpKind::Explicit(ExplicitOp::Tasks(tasks)) => {
                    for (&region, task) in data.regions.iter().zip(tasks) {
                        self.count_arrivals(region, 32 * task.warps)?;
                    }
                    continue;
                }
                _ => {
                    for &region in &data.regions {
                        self.count_arrivals(region, threads)?;
                    }
                    continue;
                }
            };
            let known = *self.explicit.arrivals.entry(data.operands[0]).or_insert(each);
            if known != each {
                return Err(self.unsupported(
                    data,
                    "arrivals of tasks of different sizes at one mbarrier",
                    "Give each its own mbarriers",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn explicit(&mut self, data: &OpData, op: &ExplicitOp) -> Result<()> {
        let team = self.explicit.team.ok_or_else(|| broken("an explicit operation before the beginning"))?;
        match op {
            ExplicitOp::SharedTile { .. } | ExplicitOp::Mbarrier { .. } => Ok(()),
            ExplicitOp::MbarrierExpect { bytes } => {
                let at = self.mbarrier(data, 0)?;
                self.put(format_args!(
                    "{}mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [{at}], {bytes}",
                    team.first
                ));
                Ok(())
            }
            ExplicitOp::MbarrierArrive => self.arrive(data, team),
            ExplicitOp::MbarrierWait => self.wait(data),
            ExplicitOp::TmaLoad { rows, multicast } => self.tma_load(data, team, *rows, *multicast),
            ExplicitOp::TmaStore => self.tma_store(data, team),
            ExplicitOp::TmaStoreWait { pending } => {
                self.put(format_args!("{}cp.async.bulk.wait_group.read {pending}", team.first));
                Ok(())
            }
            ExplicitOp::ProxyFence => {
                self.put(format_args!("fence.proxy.async.shared::cta"));
                Ok(())
            }
            ExplicitOp::Wgmma { transposed_a, transposed_b } => {
                self.wgmma(data, team, *transposed_a, *transposed_b)
            }
            ExplicitOp::WgmmaRegisters { transposed_b } => self.wgmma_registers(data, *transposed_b),
            ExplicitOp::PackPairs { bf16 } => {
                let (low, high) = (self.get(data.operands[0])?, self.get(data.operands[1])?);
                let to = self.define(data.results[0]);
                let elem = if *bf16 { "bf16" } else { "f16" };
                self.put(format_args!("cvt.rn.{elem}x2.f32 {to}, {high}, {low}"));
                Ok(())
            }
            ExplicitOp::Exp2Flushed => {
                let from = self.get(data.operands[0])?;
                let to = self.define(data.results[0]);
                self.put(format_args!("ex2.approx.ftz.f32 {to}, {from}"));
                Ok(())
            }
            ExplicitOp::TaskRank => {
                let to = self.define(data.results[0]);
                match team.copy {
                    Some(copy) => self.put(format_args!("cvt.u64.u32 {to}, {copy}")),
                    None => self.put(format_args!("mov.b64 {to}, 0")),
                }
                Ok(())
            }
            ExplicitOp::WgmmaWait { pending } => {
                self.take_over(&data.operands, &data.results)?;
                self.put(format_args!("wgmma.wait_group.sync.aligned {pending}"));
                Ok(())
            }
            ExplicitOp::Tasks(tasks) => self.tasks(data, tasks),
            ExplicitOp::ClusterRank => {
                let to = self.define(data.results[0]);
                let narrow = self.reg(Class::B32);
                self.put(format_args!("mov.u32 {narrow}, %cluster_ctarank"));
                self.put(format_args!("cvt.u64.u32 {to}, {narrow}"));
                Ok(())
            }
            ExplicitOp::TaskBarrier | ExplicitOp::SharedStore { .. } => {
                Err(broken(format!("{op:?} was not lowered to threads")))
            }
        }
    }

    /// The barrier of the threads that run this code.
    pub(super) fn team_barrier(&mut self) {
        match self.explicit.team {
            Some(Team { barrier, copy: Some(copy), threads, .. }) => {
                let own = self.reg(Class::B32);
                self.put(format_args!("add.u32 {own}, {copy}, {barrier}"));
                self.put(format_args!("bar.sync {own}, {threads}"));
            }
            Some(Team { barrier, threads, .. }) if barrier > 0 => {
                self.put(format_args!("bar.sync {barrier}, {threads}"));
            }
            _ => self.put(format_args!("bar.sync 0")),
        }
    }

    fn tasks(&mut self, data: &OpData, tasks: &[Task]) -> Result<()> {
        let outer = self.explicit.team;
        let threads: u32 = tasks.iter().map(|t| 32 * t.copies * t.warps).sum();
        let at_entry = (REGISTERS / threads / 8 * 8).min(255);
        let thread = self.reg(Class::B32);
        self.put(format_args!("mov.u32 {thread}, %tid.x"));
        let warp = self.uniform_quotient(thread, 5);
        let end = self.label();
        let mut barrier = 1;
        for (i, (task, first)) in tasks.iter().zip(Task::first_warps(tasks)).enumerate() {
            let next = self.label();
            let (below, above) = (self.reg(Class::Pred), self.reg(Class::Pred));
            self.put(format_args!("setp.lt.u32 {below}, {warp}, {first}"));
            self.put(format_args!("@{below} bra {next}"));
            self.put(format_args!("setp.ge.u32 {above}, {warp}, {}", first + task.copies * task.warps));
            self.put(format_args!("@{above} bra {next}"));
            match task.registers {
                0 => {}
                n if n < at_entry => self.put(format_args!("setmaxnreg.dec.sync.aligned.u32 {n}")),
                n if n > at_entry => self.put(format_args!("setmaxnreg.inc.sync.aligned.u32 {n}")),
                _ => {}
            }
            let mut team = self.team(barrier, thread, 32 * first, task);
            if is_one_thread(self.kernel, data.regions[i], 32 * task.warps) {
                // A predicate would cost the assembler its registers for what is the same in a warp, and a round of copies hundreds of cycles.
                [team.first, team.leads] = [Guard(None); 2];
            }
            barrier += task.copies;
            self.explicit.team = Some(team);
            self.region(data.regions[i])?;
            self.put(format_args!("bra {end}"));
            self.place(next);
        }
        self.place(end);
        self.explicit.team = outer;
        if self.kernel.cluster == 1 {
            self.put(format_args!("bar.sync 0"));
        }
        Ok(())
    }

    fn arrive(&mut self, data: &OpData, team: Team) -> Result<()> {
        let at = self.mbarrier(data, 0)?;
        match data.operands.get(2) {
            None => {
                self.put(format_args!("{}mbarrier.arrive.release.cta.shared::cta.b64 _, [{at}]", team.leads))
            }
            Some(&rank) => {
                let rank = self.narrow(rank)?;
                let there = self.reg(Class::B32);
                self.put(format_args!("mapa.shared::cluster.u32 {there}, {at}, {rank}"));
                self.put(format_args!("{}mbarrier.arrive.shared::cluster.b64 _, [{there}]", team.leads));
            }
        }
        Ok(())
    }

    fn wait(&mut self, data: &OpData) -> Result<()> {
        let at = self.mbarrier(data, 0)?;
        let phase = self.narrow(data.operands[2])?;
        let (parity, done) = (self.reg(Class::B32), self.reg(Class::Pred));
        let (top, end) = (self.label(), self.label());
        self.put(format_args!("and.b32 {parity}, {phase}, 1"));
        self.place(top);
        self.put(format_args!("mbarrier.try_wait.parity.shared::cta.b64 {done}, [{at}], {parity}"));
        self.put(format_args!("@{done} bra {end}"));
        self.put(format_args!("bra {top}"));
        self.place(end);
        Ok(())
    }

    fn tma_load(&mut self, data: &OpData, team: Team, rows: u32, multicast: u32) -> Result<()> {
        let rank = data.operands.len() - 6;
        let tile = self.shared_tile(data.operands[1 + rank], data.operands[2 + rank])?;
        let row = self.narrow(data.operands[3 + rank])?;
        let to = self.reg(Class::B32);
        self.put(format_args!("mad.lo.u32 {to}, {row}, {PANEL}, {}", tile.address));
        let barrier = self.mbarrier(data, 4 + rank)?;
        let map = self.tensor_map(data.operands[0], [rows, tile.panel_columns()])?;
        let offsets = self.tensor_offsets(&data.operands[1..=rank])?;
        let cast = if multicast > 0 { ".multicast::cluster" } else { "" };
        let mask = match multicast {
            0 => String::new(),
            mask => {
                let bits = self.reg(Class::B16);
                self.put(format_args!("mov.b16 {bits}, {mask}"));
                format!(", {bits}")
            }
        };
        for panel in 0..tile.panels() {
            let at = self.panel_coordinates(&offsets, panel * tile.panel_columns());
            self.put(format_args!(
                "{}cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{cast} [{to}+{}], [{map}, {at}], [{barrier}]{mask}",
                team.first,
                panel * tile.rows * PANEL,
            ));
        }
        Ok(())
    }

    fn tma_store(&mut self, data: &OpData, team: Team) -> Result<()> {
        let tile = self.shared_tile(data.operands[0], data.operands[1])?;
        let map = self.tensor_map(data.operands[2], [tile.rows, tile.panel_columns()])?;
        let rank = data.operands.len() - 3;
        let offsets = self.tensor_offsets(&data.operands[3..])?;
        for panel in 0..tile.panels() {
            let at = self.panel_coordinates(&offsets, panel * tile.panel_columns());
            self.put(format_args!(
                "{}cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [{map}, {at}], [{}+{}]",
                team.first,
                tile.address,
                panel * tile.rows * PANEL,
            ));
        }
        self.put(format_args!("{}cp.async.bulk.commit_group", team.first));
        Ok(())
    }

    /// Offsets as 32-bit registers, last axis first.
    fn tensor_offsets(&mut self, offsets: &[Value]) -> Result<Vec<Reg>> {
        offsets.iter().rev().map(|&v| self.narrow(v)).collect()
    }

    /// The coordinates of a panel in braces.
    fn panel_coordinates(&mut self, offsets: &[Reg], column: u32) -> String {
        let mut all: Vec<String> = offsets.iter().map(Reg::to_string).collect();
        if column > 0 {
            let moved = self.reg(Class::B32);
            self.put(format_args!("add.u32 {moved}, {}, {column}", offsets[0]));
            all[0] = moved.to_string();
        }
        format!("{{{}}}", all.join(", "))
    }

    /// Fetches the map that a copy will need: that takes about as long as everything else at the beginning.
    fn prefetch_map(&mut self, view: Value, rows: u32, team: Team) -> Result<()> {
        let known = self.explicit.maps.len();
        let map = self.tensor_map(view, [rows, PANEL / self.elem(view).bytes()])?;
        if self.explicit.maps.len() > known {
            self.put(format_args!("{}prefetch.tensormap [{map}]", team.first));
        }
        Ok(())
    }

    /// The address of the map of a view parameter for boxes of these extents.
    fn tensor_map(&mut self, view: Value, extents: [u32; 2]) -> Result<Reg> {
        let kernel = self.kernel;
        let (Def::Arg(_, position), Some(ty)) = (kernel.def(view), kernel.ty(view).as_view()) else {
            return Err(broken("a copy of a view that is no parameter"));
        };
        let word: usize = kernel.params[..position as usize].iter().map(|p| p.words()).sum();
        let name = kernel.params[position as usize].name.clone();
        let map = TensorMap { name, word: word as u32, rank: ty.rank, elem: ty.elem, extents };
        let maps = &mut self.explicit.maps;
        let number = maps.iter().position(|m| *m == map).unwrap_or_else(|| {
            maps.push(map);
            maps.len() - 1
        });
        let (param, address) = (self.reg(Class::B64), self.reg(Class::B64));
        self.put(format_args!("mov.b64 {param}, m{number}"));
        self.put(format_args!("cvta.param.u64 {address}, {param}"));
        Ok(address)
    }

    fn wgmma(&mut self, data: &OpData, team: Team, transposed_a: bool, transposed_b: bool) -> Result<()> {
        let a = self.shared_tile(data.operands[0], data.operands[1])?;
        let b = self.shared_tile(data.operands[2], data.operands[3])?;
        let keep = self.get(data.operands[4])?;
        let always = self.explicit.always.unwrap_or(keep);
        let registers = self.accumulators(data, data.operands[4])?;
        let (m, k) = if transposed_a { (a.columns, a.rows) } else { (a.rows, a.columns) };
        let n = if transposed_b { b.columns } else { b.rows };
        let groups = team.threads / WARPGROUP;
        let own = if transposed_a { a.rows * PANEL } else { WGMMA_ROWS * PANEL };
        let start = self.reg(Class::B32);
        self.put(format_args!("mad.lo.u32 {start}, {}, {own}, {}", team.warpgroup, a.address));
        let from_a = self.descriptor(start, a.rows * PANEL);
        let from_b = self.descriptor(b.address, b.rows * PANEL);
        let blocks = m / (WGMMA_ROWS * groups);
        let each = (n / 2) as usize;
        if registers.len() != blocks as usize * each {
            return Err(broken(format!("{} accumulators for a product [{m}, {n}]", registers.len())));
        }
        if a.elem != b.elem && a.elem.is_int() {
            if self.target.ptx < MIXED_VERSION {
                return Err(self.unsupported(
                    data,
                    "a product of i8 and u8",
                    "It needs a driver of CUDA 12.4 or newer",
                ));
            }
            self.version = self.version.max(MIXED_VERSION);
        }
        let name = wgmma_name(a.elem, b.elem, n);
        let modifiers = wgmma_modifiers(a.elem, &[transposed_a, transposed_b]);
        self.put(format_args!("wgmma.fence.sync.aligned"));
        for step in 0..k * a.elem.bytes() / WGMMA_DEPTH {
            let right = self.advanced(from_b, depth_offset(&b, step, transposed_b));
            for block in 0..blocks {
                let left = self.advanced(from_a, block * groups * own + depth_offset(&a, step, transposed_a));
                let own = &registers[block as usize * each..][..each];
                let list: Vec<String> = own.iter().map(Reg::to_string).collect();
                let scale = if step == 0 { keep } else { always };
                self.put(
                    format_args!("{name} {{{}}}, {left}, {right}, {scale}{modifiers}", list.join(", "),),
                );
            }
        }
        self.put(format_args!("wgmma.commit_group.sync.aligned"));
        Ok(())
    }

    fn wgmma_registers(&mut self, data: &OpData, transposed_b: bool) -> Result<()> {
        let b = self.shared_tile(data.operands[0], data.operands[1])?;
        let keep = self.get(data.operands[2])?;
        let always = self.explicit.always.unwrap_or(keep);
        let fixed = data.operands.len() - data.results.len();
        let a = data.operands[3..fixed].iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        let registers = self.accumulators(data, data.operands[2])?;
        let (k, n) = if transposed_b { (b.rows, b.columns) } else { (b.columns, b.rows) };
        let from_b = self.descriptor(b.address, b.rows * PANEL);
        let each = (n / 2) as usize;
        let steps = (k * b.elem.bytes() / WGMMA_DEPTH) as usize;
        let blocks = registers.len() / each;
        if a.len() != 4 * steps * blocks || registers.len() != blocks * each {
            return Err(broken(format!("{} registers of a for {blocks} blocks of {steps} steps", a.len())));
        }
        let name = wgmma_name(b.elem, b.elem, n);
        let modifiers = wgmma_modifiers(b.elem, &[transposed_b]);
        let list = |registers: &[Reg]| registers.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        self.put(format_args!("wgmma.fence.sync.aligned"));
        for step in 0..steps {
            let right = self.advanced(from_b, depth_offset(&b, step as u32, transposed_b));
            let scale = if step == 0 { keep } else { always };
            for block in 0..blocks {
                let left = list(&a[4 * (block * steps + step)..][..4]);
                let sums = list(&registers[block * each..][..each]);
                self.put(format_args!("{name} {{{sums}}}, {{{left}}}, {right}, {scale}{modifiers}"));
            }
        }
        self.put(format_args!("wgmma.commit_group.sync.aligned"));
        Ok(())
    }

    /// The registers of a product. One that keeps nothing needs nothing in them.
    fn accumulators(&mut self, data: &OpData, keep: Value) -> Result<Vec<Reg>> {
        if self.kernel.as_const(keep).is_some_and(|keep| !keep.is_true()) {
            return Ok(data.results.iter().map(|&v| self.define(v)).collect());
        }
        self.take_over(&data.operands[data.operands.len() - data.results.len()..], &data.results)
    }

    /// A matrix descriptor of swizzled panels from an address on: those side by side are `leading` bytes apart.
    fn descriptor(&mut self, address: Reg, leading: u32) -> Reg {
        let (units, wide, whole) = (self.reg(Class::B32), self.reg(Class::B64), self.reg(Class::B64));
        let layout = 1u64 << 62 | u64::from(ATOM >> 4) << 32 | u64::from(leading >> 4) << 16;
        // In a cluster, the upper bits of an address name the block.
        self.put(format_args!("bfe.u32 {units}, {address}, 4, 14"));
        self.put(format_args!("cvt.u64.u32 {wide}, {units}"));
        self.put(format_args!("or.b64 {whole}, {wide}, {layout}"));
        whole
    }

    /// A descriptor so many bytes further on.
    fn advanced(&mut self, descriptor: Reg, bytes: u32) -> Reg {
        if bytes == 0 {
            return descriptor;
        }
        let to = self.reg(Class::B64);
        self.put(format_args!("add.u64 {to}, {descriptor}, {}", bytes >> 4));
        to
    }

    /// Lets results stand in the registers of what they continue.
    fn take_over(&mut self, from: &[Value], to: &[Value]) -> Result<Vec<Reg>> {
        let sources = from.iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        Ok(to
            .iter()
            .zip(sources)
            .map(|(&value, source)| {
                let reg = self.define(value);
                self.mov(reg, source);
                reg
            })
            .collect())
    }

    /// Before values move to other registers: products that still fill them end first.
    pub(super) fn settle(&mut self, values: &[Value], from: &[Reg], to: &[Reg]) {
        let moves =
            |((&value, from), to): ((&Value, &Reg), &Reg)| from != to && self.shares_with(value).is_some();
        if values.iter().zip(from).zip(to).any(moves) {
            self.put(format_args!("wgmma.wait_group.sync.aligned 0"));
        }
    }

    /// The representative of the values that share a register with this one, if there are others.
    pub(super) fn shares_with(&self, value: Value) -> Option<Value> {
        self.explicit.same.get(&value).copied()
    }

    /// The 32-bit address of mbarriers, with the index after them.
    fn mbarrier(&mut self, data: &OpData, at: usize) -> Result<Reg> {
        self.element_address(data.operands[at], data.operands[at + 1], 8)
    }

    fn element_address(&mut self, view: Value, index: Value, bytes: u32) -> Result<Reg> {
        let offset = self.offsets[view.index()].ok_or_else(|| broken("memory without a place"))?;
        let base = self.explicit.shared.ok_or_else(|| broken("shared memory before the beginning"))?;
        let to = self.reg(Class::B32);
        let index = self.narrow(index)?;
        self.put(format_args!("mad.lo.u32 {to}, {index}, {bytes}, {base}"));
        if offset == 0 {
            return Ok(to);
        }
        let moved = self.reg(Class::B32);
        self.put(format_args!("add.u32 {moved}, {to}, {offset}"));
        Ok(moved)
    }

    /// Rows and columns of a shared tile.
    fn shared_shape(&self, view: Value) -> Result<(u32, u32)> {
        match self.kernel.defining_op(view).map(|data| &data.kind) {
            Some(OpKind::Explicit(ExplicitOp::SharedTile { rows, columns, .. })) => Ok((*rows, *columns)),
            _ => Err(broken("no shared tile")),
        }
    }

    fn shared_tile(&mut self, view: Value, stage: Value) -> Result<SharedTile> {
        let ((rows, columns), elem) = (self.shared_shape(view)?, self.elem(view));
        let address = self.element_address(view, stage, rows * columns * elem.bytes())?;
        let tile = SharedTile { address, rows, columns, elem };
        debug_assert!(tile.stage_bytes().is_multiple_of(ATOM));
        Ok(tile)
    }

    /// The low half of an i64.
    fn narrow(&mut self, value: Value) -> Result<Reg> {
        let wide = self.get(value)?;
        let narrow = self.reg(Class::B32);
        self.put(format_args!("cvt.u32.u64 {narrow}, {wide}"));
        Ok(narrow)
    }
}

/// The instruction for a product with n columns.
fn wgmma_name(a: Scalar, b: Scalar, n: u32) -> String {
    let suffix = |elem| if elem == Scalar::F32 { "tf32" } else { super::writer::suffix(elem) };
    let sum = super::writer::suffix(a.accumulator());
    let depth = WGMMA_DEPTH / a.bytes();
    format!("wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{sum}.{}.{}", suffix(a), suffix(b))
}

/// What follows its operands: signs for floats, and for those of 16 bits which factors are transposed.
fn wgmma_modifiers(elem: Scalar, transposed: &[bool]) -> String {
    let mut text = String::from(if elem.is_float() { ", 1, 1" } else { "" });
    if elem.bytes() == 2 {
        transposed.iter().for_each(|&t| text.push_str(if t { ", 1" } else { ", 0" }));
    }
    text
}

/// Where a step along the inner extent begins in a stage, in bytes.
fn depth_offset(tile: &SharedTile, step: u32, transposed: bool) -> u32 {
    if transposed {
        return step * (WGMMA_DEPTH / tile.elem.bytes()) * PANEL;
    }
    let column = step * WGMMA_DEPTH;
    column / PANEL * tile.rows * PANEL + column % PANEL
}

/// The alignment of memory in shared memory.
pub(super) fn alignment(kind: &OpKind) -> Option<u32> {
    match kind {
        OpKind::Explicit(ExplicitOp::SharedTile { .. }) => Some(ATOM),
        OpKind::Explicit(ExplicitOp::Mbarrier { .. }) => Some(8),
        _ => None,
    }
}

/// The size of memory in shared memory, in bytes.
pub(super) fn size(kernel: &Kernel, data: &OpData) -> u32 {
    match &data.kind {
        OpKind::Explicit(ExplicitOp::SharedTile { stages, rows, columns }) => {
            stages * rows * columns * kernel.ty(data.results[0]).elem().bytes()
        }
        OpKind::Explicit(ExplicitOp::Mbarrier { count, .. }) => 8 * count,
        _ => 0,
    }
}

/// Whether all that a task of so many threads does is within one branch, which its first thread alone takes.
fn is_one_thread(kernel: &Kernel, region: Block, threads: u32) -> bool {
    let made_by = |value| kernel.defining_op(value).map(|data| (&data.kind, &data.operands));
    let is = |value, number: i128| kernel.as_const(value).is_some_and(|l| l.as_i128() == number);
    let [before @ .., branch, _] = &kernel.block(region).ops[..] else { return false };
    let branch = kernel.op(*branch);
    let condition = branch.operands.first().and_then(|&condition| made_by(condition));
    let Some((OpKind::Compare(CompareOp::Eq), first)) = condition else { return false };
    let Some((OpKind::Binary(BinaryOp::And), masked)) = made_by(first[0]) else { return false };
    let index = match made_by(masked[0]) {
        Some((OpKind::Cast, of)) => made_by(of[0]),
        other => other,
    };
    before.iter().all(|&op| !kernel.op(op).kind.has_effect())
        && branch.kind == OpKind::If
        && branch.results.is_empty()
        && is(first[1], 0)
        && is(masked[1], i128::from(threads) - 1)
        && matches!(index, Some((OpKind::ThreadId(Axis::X), _)))
}

/// Whether an operation is, or has inside, one of the explicit level that does more than name memory or the one that executes it.
fn needs_mbarriers(kernel: &Kernel, data: &OpData) -> bool {
    use ExplicitOp::*;
    match &data.kind {
        OpKind::Explicit(SharedTile { .. } | Mbarrier { .. } | ClusterRank | TaskRank) => false,
        OpKind::Explicit(_) => true,
        _ => data
            .regions
            .iter()
            .any(|&r| kernel.block(r).ops.iter().any(|&op| needs_mbarriers(kernel, kernel.op(op)))),
    }
}

fn broken(message: impl Into<String>) -> Error {
    Error::Internal { place: "the PTX emitter", message: message.into() }
}

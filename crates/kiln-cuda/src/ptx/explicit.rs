//! The explicit level: tasks and their warps, mbarriers, shared tiles (PTX ISA 8.0, "mbarrier",
//! "setmaxnreg").

use super::register::{Class, Reg};
use super::team::{Predicate, Team};
use super::tensor_map::{Way, stored_as};
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{
    Axis, BinaryOp, Block, CompareOp, ExplicitOp, FragmentOp, Kernel, Op, OpData, OpKind, Scalar, Task, Value,
};

/// Bytes of a row of a panel of a shared tile, which the hardware swizzles as a whole.
pub(super) const PANEL: u32 = 128;
/// Threads of a warpgroup.
pub(super) const WARPGROUP: u32 = 128;
/// Bytes of eight rows of a panel: what a swizzle permutes, and a matrix descriptor steps by.
pub(super) const ATOM: u32 = 8 * PANEL;
/// Registers of a multiprocessor.
const REGISTERS: u32 = 65536;

/// A shared tile as it was made.
pub(super) struct SharedTile {
    pub address: Reg,
    pub rows: u32,
    pub columns: u32,
    pub elem: Scalar,
}

impl SharedTile {
    fn stage_bytes(&self) -> u32 {
        self.rows * self.columns * self.elem.bytes()
    }

    pub fn panels(&self) -> u32 {
        self.columns * self.elem.bytes() / PANEL
    }

    pub fn panel_columns(&self) -> u32 {
        PANEL / self.elem.bytes()
    }
}

impl Writer<'_> {
    /// Looks the kernel through, which has so many threads and bytes of shared memory, and writes
    /// what comes first: which thread this is, and the mbarriers' beginning.
    pub(super) fn begin_explicit(&mut self, threads: u32, shared: u32) -> Result<()> {
        let kernel = self.kernel;
        let mut mbarriers = Vec::new();
        let mut boxes = Vec::new();
        kernel.walk(|at, data| {
            self.explicit.used |= matches!(data.kind, OpKind::Fragment(FragmentOp::WarpgroupMma(_)));
            let OpKind::Explicit(op) = &data.kind else { return };
            self.explicit.used = true;
            match op {
                ExplicitOp::Mbarrier { count, arrivals } => mbarriers.push((at, *count, *arrivals)),
                ExplicitOp::TmaLoad { rows, transposed, .. } => {
                    let way = if *transposed { Way::LoadTransposed } else { Way::Load };
                    boxes.push((data.view(), self.elem(data.view()), way, Ok(*rows)));
                }
                ExplicitOp::TmaPrefetch { rows, .. } => {
                    boxes.push((data.view(), self.elem(data.view()), Way::Load, Ok(*rows)));
                }
                ExplicitOp::TmaStore | ExplicitOp::TmaReduce(_) => {
                    let combine = if let ExplicitOp::TmaReduce(op) = op { Some(*op) } else { None };
                    let elem = stored_as(self.elem(data.view()), combine);
                    let rows = self.shared_shape(data.tile()).map(|(rows, _)| rows);
                    boxes.push((data.view(), elem, Way::Store, rows));
                }
                ExplicitOp::Tasks(tasks) => self.explicit.budgets |= tasks.iter().any(|t| t.registers > 0),
                // Nothing comes before these.
                ExplicitOp::SharedTile { .. }
                | ExplicitOp::MbarrierExpect { .. }
                | ExplicitOp::MbarrierArrive
                | ExplicitOp::MbarrierWait
                | ExplicitOp::TmaStoreWait { .. }
                | ExplicitOp::ProxyFence
                | ExplicitOp::TaskBarrier
                | ExplicitOp::Signal
                | ExplicitOp::SignalWait
                | ExplicitOp::SharedStore { .. }
                | ExplicitOp::SharedLoad
                | ExplicitOp::Wgmma { .. }
                | ExplicitOp::WgmmaRegisters { .. }
                | ExplicitOp::PackPairs { .. }
                | ExplicitOp::Exp2Flushed
                | ExplicitOp::WgmmaWait { .. }
                | ExplicitOp::TaskRank
                | ExplicitOp::ClusterRank => {}
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
        // Read once: the assembler reads it from the hardware wherever it is named.
        if shared > 0 {
            let shared = self.reg(Class::B32);
            self.put(format_args!("mov.u32 {shared}, shared_memory"));
            self.explicit.shared = Some(shared);
        }
        if mbarriers.is_empty() && kernel.cluster == 1 {
            return Ok(());
        }
        for (op, count, arrivals) in mbarriers {
            let made = kernel.result(op);
            let each = self.explicit.arrivals.get(&made).copied().unwrap_or(1);
            let offset = self.offsets[made.index()].unwrap_or_default();
            self.init_mbarriers(thread, threads, offset, count, arrivals * each);
        }
        for (view, elem, way, rows) in boxes {
            self.prefetch_map((view, elem), way, rows?, team)?;
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

    /// Comes before each operation of the body: everybody waits for the mbarriers before the first
    /// that may use one.
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

    /// The registers that say where this thread stands in a team, one of the task's copies from a
    /// thread on; `thread` is its index in the block.
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
        let [first, leads] = [first, leads].map(|p| Predicate(Some(p)));
        Team { barrier, copy, threads, first, leads, warpgroup }
    }

    /// The upper bits of a number, the same in all lanes of a warp, which the assembler only sees
    /// after a shuffle.
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
            let tasks: &[Task] =
                if let OpKind::Explicit(ExplicitOp::Tasks(tasks)) = &data.kind { tasks } else { &[] };
            for (i, &region) in data.regions.iter().enumerate() {
                self.count_arrivals(region, tasks.get(i).map_or(threads, |task| 32 * task.warps))?;
            }
            let OpKind::Explicit(op) = &data.kind else { continue };
            let Some(each) = arrivals(op, threads) else { continue };
            let known = *self.explicit.arrivals.entry(data.mbarriers()).or_insert(each);
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
        let team = self.team_of_all()?;
        match op {
            ExplicitOp::SharedTile { .. } | ExplicitOp::Mbarrier { .. } => Ok(()),
            ExplicitOp::MbarrierExpect { bytes } => {
                let at = self.mbarrier(data)?;
                self.put(format_args!(
                    "{}mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [{at}], {bytes}",
                    team.first
                ));
                Ok(())
            }
            ExplicitOp::MbarrierArrive => self.arrive(data, team),
            ExplicitOp::MbarrierWait => self.wait(data),
            ExplicitOp::TmaLoad { rows, multicast, transposed } => self.tma_load(
                data,
                team,
                *rows,
                *multicast,
                if *transposed { Way::LoadTransposed } else { Way::Load },
            ),
            ExplicitOp::TmaStore => self.tma_store(data, team, None),
            ExplicitOp::TmaReduce(op) => self.tma_store(data, team, Some(*op)),
            ExplicitOp::TmaPrefetch { rows, columns } => self.tma_prefetch(data, team, [*rows, *columns]),
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
                let [low, high] = data.registers()[..] else {
                    return Err(broken("a pair of other than two"));
                };
                let (low, high) = (self.get(low)?, self.get(high)?);
                let to = self.define(data.results[0]);
                let elem = if *bf16 { "bf16" } else { "f16" };
                self.put(format_args!("cvt.rn.{elem}x2.f32 {to}, {high}, {low}"));
                Ok(())
            }
            ExplicitOp::Exp2Flushed => {
                let from = self.get(data.input())?;
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
            ExplicitOp::TaskBarrier
            | ExplicitOp::Signal
            | ExplicitOp::SignalWait
            | ExplicitOp::SharedStore { .. }
            | ExplicitOp::SharedLoad => Err(broken(format!("{op:?} was not lowered to threads"))),
        }
    }

    /// The warps of the task that this code is of, or of the block.
    pub(super) fn team_of_all(&self) -> Result<Team> {
        self.explicit.team.ok_or_else(|| broken("an explicit operation before the beginning"))
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
            _ => self.block_barrier(),
        }
    }

    /// Whether a predicate holds in any of the threads that run this code, which meet here.
    pub(super) fn team_vote(&mut self, any: Reg, own: Reg) {
        match self.explicit.team {
            Some(Team { barrier, copy: Some(copy), threads, .. }) => {
                let number = self.reg(Class::B32);
                self.put(format_args!("add.u32 {number}, {copy}, {barrier}"));
                self.put(format_args!("bar.red.or.pred {any}, {number}, {threads}, {own}"));
            }
            Some(Team { barrier, threads, .. }) if barrier > 0 => {
                self.put(format_args!("bar.red.or.pred {any}, {barrier}, {threads}, {own}"));
            }
            _ => self.put(format_args!("bar.red.or.pred {any}, 0, {own}")),
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
            self.register_budget(task.registers, at_entry);
            let mut team = self.team(barrier, thread, 32 * first, task);
            if is_one_thread(self.kernel, data.regions[i], 32 * task.warps) {
                // A predicate would cost the assembler its registers for what is the same in a
                // warp, and a round of copies hundreds of cycles.
                [team.first, team.leads] = [Predicate(None); 2];
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

    /// Changes the registers of the threads of a task to its budget, 0 for none.
    fn register_budget(&mut self, budget: u32, at_entry: u32) {
        if budget == 0 || budget == at_entry {
            return;
        }
        let change = if budget < at_entry { "dec" } else { "inc" };
        self.put(format_args!("setmaxnreg.{change}.sync.aligned.u32 {budget}"));
        // The driver's linker ignores budgets.
        self.explicit.whole_program = true;
    }

    fn arrive(&mut self, data: &OpData, team: Team) -> Result<()> {
        let at = self.mbarrier(data)?;
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
        let at = self.mbarrier(data)?;
        let phase = self.narrow(data.phase())?;
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

    /// The 32-bit address of mbarriers, with the index after them.
    pub(super) fn mbarrier(&mut self, data: &OpData) -> Result<Reg> {
        self.element_address(data.mbarriers(), data.mbarrier(), 8)
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
        let made_by = self.kernel.defining_op(view).map(|data| &data.kind);
        let Some(OpKind::Explicit(ExplicitOp::SharedTile { rows, columns, .. })) = made_by else {
            return Err(broken("no shared tile"));
        };
        Ok((*rows, *columns))
    }

    pub(super) fn shared_tile(&mut self, view: Value, stage: Value) -> Result<SharedTile> {
        let ((rows, columns), elem) = (self.shared_shape(view)?, self.elem(view));
        let address = self.element_address(view, stage, rows * columns * elem.bytes())?;
        let tile = SharedTile { address, rows, columns, elem };
        debug_assert!(tile.stage_bytes().is_multiple_of(ATOM));
        Ok(tile)
    }

    /// The low half of an i64.
    pub(super) fn narrow(&mut self, value: Value) -> Result<Reg> {
        let wide = self.get(value)?;
        let narrow = self.reg(Class::B32);
        self.put(format_args!("cvt.u32.u64 {narrow}, {wide}"));
        Ok(narrow)
    }
}

/// The alignment and the size in bytes of what an operation puts into shared memory.
pub(super) fn shared_memory(kernel: &Kernel, data: &OpData) -> Option<(u32, u32)> {
    if let OpKind::Explicit(ExplicitOp::SharedTile { stages, rows, columns }) = &data.kind {
        let elem = kernel.ty(data.results[0]).elem();
        return Some((ATOM, stages * rows * columns * elem.bytes()));
    }
    if let OpKind::Explicit(ExplicitOp::Mbarrier { count, .. }) = &data.kind {
        return Some((8, 8 * count));
    }
    None
}

/// How many of so many threads arrive at the mbarriers of an operation, if it is an arrival.
fn arrivals(op: &ExplicitOp, threads: u32) -> Option<u32> {
    match op {
        ExplicitOp::MbarrierArrive => Some((threads / WARPGROUP).max(1)),
        ExplicitOp::MbarrierExpect { .. } => Some(1),
        ExplicitOp::SharedTile { .. }
        | ExplicitOp::Mbarrier { .. }
        | ExplicitOp::MbarrierWait
        | ExplicitOp::TmaLoad { .. }
        | ExplicitOp::TmaStore
        | ExplicitOp::TmaReduce(_)
        | ExplicitOp::TmaPrefetch { .. }
        | ExplicitOp::TmaStoreWait { .. }
        | ExplicitOp::ProxyFence
        | ExplicitOp::TaskBarrier
        | ExplicitOp::Signal
        | ExplicitOp::SignalWait
        | ExplicitOp::SharedStore { .. }
        | ExplicitOp::SharedLoad
        | ExplicitOp::Wgmma { .. }
        | ExplicitOp::WgmmaRegisters { .. }
        | ExplicitOp::PackPairs { .. }
        | ExplicitOp::Exp2Flushed
        | ExplicitOp::WgmmaWait { .. }
        | ExplicitOp::Tasks(_)
        | ExplicitOp::TaskRank
        | ExplicitOp::ClusterRank => None,
    }
}

/// Whether all that a task of so many threads does is within one branch, which its first thread
/// alone takes.
fn is_one_thread(kernel: &Kernel, region: Block, threads: u32) -> bool {
    let made_by = |value| kernel.defining_op(value);
    let is = |value, number: i128| kernel.as_const(value).is_some_and(|l| l.as_i128() == number);
    let [before @ .., branch, _] = &kernel.block(region).ops[..] else { return false };
    let branch = kernel.op(*branch);
    let condition = (branch.kind == OpKind::If).then(|| made_by(branch.condition())).flatten();
    let Some(first) = condition.filter(|data| data.kind == OpKind::Compare(CompareOp::Eq)) else {
        return false;
    };
    let masked = made_by(first.left()).filter(|data| data.kind == OpKind::Binary(BinaryOp::And));
    let Some(masked) = masked else { return false };
    let mut index = made_by(masked.left());
    if let Some(cast) = index.filter(|data| data.kind == OpKind::Cast) {
        index = made_by(cast.input());
    }
    before.iter().all(|&op| !kernel.op(op).kind.has_effect())
        && branch.results.is_empty()
        && is(first.right(), 0)
        && is(masked.right(), i128::from(threads) - 1)
        && index.is_some_and(|data| data.kind == OpKind::ThreadId(Axis::X))
}

/// Whether an operation is, or has inside, one of the explicit level that does more than name
/// memory or the one that executes it.
fn needs_mbarriers(kernel: &Kernel, data: &OpData) -> bool {
    use ExplicitOp::*;
    if let OpKind::Explicit(op) = &data.kind {
        return !matches!(op, SharedTile { .. } | Mbarrier { .. } | ClusterRank | TaskRank);
    }
    let within = |&region| kernel.block(region).ops.iter();
    data.regions.iter().flat_map(within).any(|&op| needs_mbarriers(kernel, kernel.op(op)))
}

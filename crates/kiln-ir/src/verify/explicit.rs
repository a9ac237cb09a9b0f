//! Rules of the explicit level.

use super::subject::{Outcome, Subject, require};
use crate::explicit::{BulkReduce, ExplicitOp, Task};
use crate::kernel::{Block, Def, Kernel, Level, Value};
use crate::op::OpKind;
use crate::types::{Scalar, Shape, Space, Type, ViewType};

/// The most blocks of a cluster that every GPU with clusters has room for.
const MAX_CLUSTER: u32 = 8;
/// Registers of a multiprocessor, which the tasks of a block share.
const REGISTERS: u32 = 65536;
/// The longest extent of a box that a copy moves, and the most columns of a product.
const MAX_BOX: u32 = 256;
/// Rows whose chunks are permuted together in a shared tile: a load begins at a multiple of them.
const SWIZZLE_ROWS: u32 = 8;

/// Bytes of a row of a factor that one instruction multiplies.
const DEPTH_BYTES: u32 = 32;
/// Bytes of a number that holds several elements of a factor.
const WORD: u32 = 4;
/// The elements of factors.
const FACTORS: &str = "f16, bf16, f32 (as tf32), the 8-bit floats and the 8-bit integers";

/// Whether matrix units multiply these elements.
fn multiplied(a: Scalar, b: Scalar) -> bool {
    match a {
        Scalar::F16 | Scalar::BF16 | Scalar::F32 => a == b,
        Scalar::E4M3 | Scalar::E5M2 => b.is_float8(),
        Scalar::I8 | Scalar::U8 => matches!(b, Scalar::I8 | Scalar::U8),
        _ => false,
    }
}

/// The kernel's cluster.
pub(super) fn cluster(kernel: &Kernel) -> Outcome {
    let n = kernel.cluster;
    require(n.is_power_of_two() && n <= MAX_CLUSTER, || {
        format!("a cluster of {n} blocks, expected a power of two up to {MAX_CLUSTER}")
    })
}

/// What other operations may do with the values of explicit ones.
pub(super) fn foreign_use(s: &Subject) -> Outcome {
    for &value in &s.data.operands {
        let Some(data) = s.kernel.defining_op(value) else { continue };
        let OpKind::Explicit(op) = &data.kind else { continue };
        let carries = matches!(s.data.kind, OpKind::Yield | OpKind::For | OpKind::While);
        match op {
            ExplicitOp::SharedTile { .. } | ExplicitOp::Mbarrier { .. } => {
                require(s.data.kind == OpKind::Address, || {
                    format!("only explicit operations reach what `{}` makes", op.name())
                })?;
            }
            ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. } | ExplicitOp::WgmmaWait { .. }
                if !carries && !is_done(s.kernel, value, op) =>
            {
                return Err(
                    "the product is still in flight: wait with `wgmma_wait` and 0 pending first".into()
                );
            }
            ExplicitOp::Wgmma { .. }
            | ExplicitOp::WgmmaRegisters { .. }
            | ExplicitOp::WgmmaWait { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
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
            | ExplicitOp::PackPairs { .. }
            | ExplicitOp::Exp2Flushed
            | ExplicitOp::Tasks(_)
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => {}
        }
    }
    Ok(())
}

/// Whether this is what a wait gives of a product that is done: it waits for all but `pending`
/// products, and as many began after that one in the same region.
fn is_done(kernel: &Kernel, waited: Value, op: &ExplicitOp) -> bool {
    let ExplicitOp::WgmmaWait { pending } = *op else { return false };
    if pending == 0 {
        return true;
    }
    let Def::Result(wait, _) = kernel.def(waited) else { return false };
    let Some(&Def::Result(product, _)) = kernel.op(wait).operands.first().map(|&v| kernel.def(v)).as_ref()
    else {
        return false;
    };
    let ops = (0..kernel.counts().2).map(|b| &kernel.block(Block::from_index(b)).ops);
    let Some(ops) = ops.into_iter().find(|ops| ops.contains(&wait)) else { return false };
    let after = ops.iter().skip_while(|op| **op != product).skip(1).take_while(|op| **op != wait);
    let later = after.filter(|op| is_product(&kernel.op(**op).kind)).count();
    ops.contains(&product) && is_product(&kernel.op(product).kind) && later >= pending as usize
}

fn is_product(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Explicit(ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. }))
}

pub(super) fn check(s: &Subject, op: &ExplicitOp) -> Outcome {
    use ExplicitOp::*;
    let index = Type::scalar(Scalar::I64);
    match op {
        SharedTile { stages, rows, columns } => {
            s.counts(0, 1)?.size(&Shape::new(&[*stages, *rows, *columns]))?;
            let elem = s.result_ty(0).elem();
            // Stages begin where the rows that are swizzled together do.
            require(rows.is_multiple_of(SWIZZLE_ROWS), || {
                format!("a tile of {rows} rows, expected a multiple of {SWIZZLE_ROWS}")
            })?;
            s.result(0, &Type::view(elem, 3, Space::Shared))
        }
        Mbarrier { count, arrivals } => {
            require((1..=1024).contains(count) && (1..=1024).contains(arrivals), || {
                format!("{count} barriers of {arrivals} arrivals, expected 1 to 1024 of each")
            })?;
            s.counts(0, 1)?.result(0, &Type::view(Scalar::U64, 1, Space::Shared))
        }
        MbarrierExpect { .. } => {
            s.counts(2, 0)?;
            s.mbarrier(0)
        }
        MbarrierArrive if s.data.operands.len() == 3 => {
            s.counts(3, 0)?.operand(2, &index)?;
            s.mbarrier(0)
        }
        MbarrierArrive => {
            s.counts(2, 0)?;
            s.mbarrier(0)
        }
        MbarrierWait => {
            s.counts(3, 0)?.operand(2, &index)?;
            s.mbarrier(0)
        }
        TmaLoad { rows, multicast, transposed } => s.tma_load(*rows, *multicast, *transposed),
        TmaStore => s.tma_store(),
        TmaReduce(op) => s.tma_reduce(*op),
        TmaPrefetch { rows, columns } => s.tma_prefetch([*rows, *columns]),
        TmaStoreWait { .. } | ProxyFence | TaskBarrier => s.counts(0, 0).map(|_| ()),
        Signal | SignalWait => s.signal(*op == Signal),
        SharedStore { column } => s.shared_store(*column),
        SharedLoad => s.shared_load(),
        Wgmma { transposed_a, transposed_b } => s.wgmma(*transposed_a, *transposed_b),
        WgmmaRegisters { transposed_b } => s.wgmma_registers(*transposed_b),
        PackPairs { .. } => s.pack_pairs(),
        Exp2Flushed => {
            let tile = s.counts(1, 1)?.tile(0)?;
            require(tile.elem == Scalar::F32, || format!("operand 0 is {}, expected f32", s.ty(0)))?;
            s.result(0, s.ty(0))
        }
        WgmmaWait { .. } => {
            let n = s.data.operands.len();
            require(n > 0, || "has no product to wait for".into())?;
            s.counts(n, n)?;
            (0..n).try_for_each(|i| {
                require(matches!(s.tile(i)?.elem, Scalar::F32 | Scalar::I32), || {
                    format!("operand {i} is {}, expected f32 or i32", s.ty(i))
                })?;
                s.result(i, s.ty(i))
            })
        }
        Tasks(tasks) => s.tasks(tasks),
        ClusterRank | TaskRank => s.counts(0, 1)?.result(0, &index),
    }
}

impl Subject<'_> {
    /// A shared tile, and the stages, rows and columns it was made with, followed by a stage.
    fn shared_tile(&self, at: usize) -> Result<(ViewType, [u32; 2]), String> {
        let value = *self.data.operands.get(at).ok_or_else(|| format!("has no operand {at}"))?;
        let Some(&ExplicitOp::SharedTile { rows, columns, .. }) = self.made_by(value) else {
            return Err(format!("operand {at} is no `shared_tile`"));
        };
        self.operand(at + 1, &Type::scalar(Scalar::I64))?;
        let view = self.kernel.ty(value).as_view();
        Ok((view.ok_or("a shared tile that is no view")?, [rows, columns]))
    }

    /// Mbarriers, followed by an index.
    fn mbarrier(&self, at: usize) -> Outcome {
        let value = self.data.operands.get(at).copied();
        let made = value.and_then(|v| self.made_by(v));
        require(matches!(made, Some(ExplicitOp::Mbarrier { .. })), || {
            format!("operand {at} is no `mbarrier`")
        })?;
        self.operand(at + 1, &Type::scalar(Scalar::I64)).map(|_| ())
    }

    fn made_by(&self, value: Value) -> Option<&ExplicitOp> {
        if let OpKind::Explicit(op) = &self.kernel.defining_op(value)?.kind { Some(op) } else { None }
    }

    /// A view of global memory of rank 1 to 5 with these elements at a position, followed by an
    /// offset for each axis; gives its rank.
    fn tensor(&self, at: usize, elem: Scalar) -> Result<usize, String> {
        let value = *self.data.operands.get(at).ok_or_else(|| format!("has no operand {at}"))?;
        let ty = self.kernel.ty(value);
        let view = ty.as_view().ok_or_else(|| format!("operand {at} is {ty}, expected a view"))?;
        require(view.space == Space::Global && view.elem == elem && (1..=5).contains(&view.rank), || {
            format!("operand {at} is {ty}, expected a view of {elem} in global memory, of rank 1 to 5")
        })?;
        let rank = view.rank as usize;
        (at + 1..=at + rank).try_for_each(|i| self.operand(i, &Type::scalar(Scalar::I64)).map(|_| ()))?;
        Ok(rank)
    }

    fn box_fits(&self, [rows, columns]: [u32; 2], elem: Scalar) -> Outcome {
        require(rows <= MAX_BOX, || format!("a box of {rows} rows, expected at most {MAX_BOX}"))?;
        require(elem != Scalar::Bool, || format!("copies of {elem} are not supported"))?;
        let bytes = columns.checked_mul(elem.bytes());
        require(bytes.is_some_and(|bytes| bytes.is_multiple_of(128)), || {
            format!("rows of {columns} {elem}, expected a multiple of 128 bytes")
        })
    }

    /// The view that comes first, and its rank.
    fn first_tensor(&self) -> Result<(ViewType, usize), String> {
        let view = self.data.operands.first().and_then(|&v| self.kernel.ty(v).as_view());
        let view = view.ok_or("operand 0 is no view")?;
        Ok((view, self.tensor(0, view.elem)?))
    }

    fn tma_load(&self, rows: u32, multicast: u32, transposed: bool) -> Outcome {
        let (view, rank) = self.first_tensor()?;
        require(rank > 1 || !transposed, || "loads a vector transposed".into())?;
        self.counts(1 + rank + 2 + 1 + 2, 0)?;
        let (tile, [all, columns]) = self.shared_tile(1 + rank)?;
        self.box_fits([rows, columns], tile.elem)?;
        require(tile.elem == view.elem, || format!("loads {} into a tile of {}", view.elem, tile.elem))?;
        require(rows.is_multiple_of(SWIZZLE_ROWS) && (1..=all).contains(&rows), || {
            format!("loads {rows} rows into a tile of {all}, expected a multiple of {SWIZZLE_ROWS}")
        })?;
        let blocks = self.kernel.cluster;
        require(multicast < 1 << blocks, || {
            format!("multicasts to {multicast:#b} in a cluster of {blocks}")
        })?;
        self.operand(3 + rank, &Type::scalar(Scalar::I64))?;
        self.mbarrier(4 + rank)
    }

    fn tma_store(&self) -> Outcome {
        let (tile, shape) = self.shared_tile(0)?;
        self.box_fits(shape, tile.elem)?;
        let rank = self.tensor(2, tile.elem)?;
        self.counts(2 + 1 + rank, 0)?;
        self.writable_at(2)
    }

    fn tma_reduce(&self, op: BulkReduce) -> Outcome {
        self.tma_store()?;
        let elem = self.shared_tile(0)?.0.elem;
        require(op.takes(elem), || {
            let all: Vec<String> = op.elements().iter().map(Scalar::to_string).collect();
            format!("a bulk copy has no `{}` of {elem}, only of {}", op.word(), all.join(", "))
        })
    }

    fn tma_prefetch(&self, shape: [u32; 2]) -> Outcome {
        let (view, rank) = self.first_tensor()?;
        self.counts(1 + rank, 0)?.size(&Shape::new(&shape))?;
        self.box_fits(shape, view.elem)
    }

    fn signal(&self, stores: bool) -> Outcome {
        let view = self.counts(3, 0)?.offsets(1)?;
        let fits = (view.elem, view.rank, view.space) == (Scalar::U32, 1, Space::Global);
        require(fits, || format!("operand 0 is {}, expected a view<u32, 1> of global memory", self.ty(0)))?;
        self.operand(2, &Type::scalar(Scalar::U32))?;
        if stores { self.writable_at(0) } else { Ok(()) }
    }

    fn shared_store(&self, column: u32) -> Outcome {
        let (tile, [rows, columns]) = self.counts(3, 0)?.shared_tile(1)?;
        let from = self.tile(0)?;
        let paired = tile.elem.bytes() == 2 && from.elem == Scalar::U32;
        require((from.elem == tile.elem || paired) && from.shape.rank() == 2, || {
            format!("stores {} to a tile of {}[{rows}, {columns}]", self.ty(0), tile.elem)
        })?;
        let whole = !paired || column.is_multiple_of(2) && columns.is_multiple_of(2);
        require(whole, || format!("columns from {column} of [{rows}, {columns}] divide pairs"))?;
        let width = if paired { from.shape[1].checked_mul(2) } else { Some(from.shape[1]) };
        let fits = from.shape[0] == rows && column.checked_add(columns).is_some_and(|end| Some(end) <= width);
        require(fits, || format!("columns from {column} of {} do not fill [{rows}, {columns}]", from.shape))
    }

    fn shared_load(&self) -> Outcome {
        let (tile, [rows, columns]) = self.counts(2, 1)?.shared_tile(0)?;
        require(tile.elem.bytes() <= WORD, || format!("words of a tile of {}", tile.elem))?;
        let words = columns.saturating_mul(tile.elem.bytes()) / WORD;
        self.result(0, &Type::tile(Scalar::U32, Shape::new(&[rows, words])))
    }

    fn wgmma(&self, transposed_a: bool, transposed_b: bool) -> Outcome {
        let ((a, [mut m, mut k]), (b, [mut n, mut k_b])) = (self.shared_tile(0)?, self.shared_tile(2)?);
        if transposed_a {
            (m, k) = (k, m);
        }
        if transposed_b {
            (n, k_b) = (k_b, n);
        }
        require(multiplied(a.elem, b.elem), || {
            format!("a product of {} and {}, expected two of one of {FACTORS}", a.elem, b.elem)
        })?;
        let turns = (transposed_a || transposed_b) && a.elem.bytes() != 2;
        require(!turns, || {
            format!("a transposed factor of {}: matrix units transpose 16-bit elements alone", a.elem)
        })?;
        let depth = DEPTH_BYTES / a.elem.bytes();
        require(k == k_b && k.is_multiple_of(depth), || {
            format!("the inner extents are {k} and {k_b}, expected equal multiples of {depth}")
        })?;
        require(m.is_multiple_of(64) && n.is_multiple_of(8) && n <= MAX_BOX, || {
            format!(
                "a product [{m}, {n}], expected rows in multiples of 64 and up to {MAX_BOX} columns in multiples of 8"
            )
        })?;
        self.operand(4, &Type::scalar(Scalar::Bool))?;
        let sum = a.elem.accumulator();
        if let Level::Thread { .. } = self.kernel.level {
            let registers = self.data.operands.len().saturating_sub(5);
            require(registers > 0 && self.data.results.len() == registers, || {
                format!("{registers} accumulators become {}", self.data.results.len())
            })?;
            return (0..registers)
                .try_for_each(|i| self.operand(5 + i, &Type::scalar(sum))?.result(i, &Type::scalar(sum)));
        }
        if self.data.results.len() > 1 {
            let columns = self.side_by_side(5, self.data.operands.len(), (sum, m))?;
            return self.accumulators(5, columns, [m, n]);
        }
        let acc = Type::tile(sum, Shape::new(&[m, n]));
        self.counts(6, 1)?.operand(5, &acc)?.result(0, &acc)
    }

    /// The columns of all tiles `[m, _]` of these elements among the operands from one on.
    fn side_by_side(&self, from: usize, to: usize, (elem, m): (Scalar, u32)) -> Result<u32, String> {
        (from..to).try_fold(0u32, |columns, i| {
            let tile = self.tile(i)?;
            require(tile.elem == elem && tile.shape.rank() == 2 && tile.shape[0] == m, || {
                format!("operand {i} is {}, expected a tile [{m}, _] of {elem}", self.ty(i))
            })?;
            Ok(columns.saturating_add(tile.shape[1]))
        })
    }

    /// The operands from one on are the accumulators of a product, side by side, and the results
    /// are like them.
    fn accumulators(&self, from: usize, columns: u32, [m, n]: [u32; 2]) -> Outcome {
        let count = self.data.operands.len().saturating_sub(from);
        require(columns == n, || format!("accumulators of {columns} columns for a product [{m}, {n}]"))?;
        self.results_len(count)?;
        (0..count).try_for_each(|i| self.result(i, self.ty(from + i)))
    }

    fn wgmma_registers(&self, transposed_b: bool) -> Outcome {
        let (b, [mut n, mut k]) = self.shared_tile(0)?;
        if transposed_b {
            (n, k) = (k, n);
        }
        require(multiplied(b.elem, b.elem), || {
            format!("a product with {}, expected one of {FACTORS}", b.elem)
        })?;
        require(!transposed_b || b.elem.bytes() == 2, || {
            format!("a transposed factor of {}: matrix units transpose 16-bit elements alone", b.elem)
        })?;
        let depth = DEPTH_BYTES / b.elem.bytes();
        require(k.is_multiple_of(depth) && n.is_multiple_of(8) && n <= MAX_BOX, || {
            format!(
                "a product with [{k}, {n}], expected rows in multiples of {depth} and up to {MAX_BOX} columns in multiples of 8"
            )
        })?;
        self.operand(2, &Type::scalar(Scalar::Bool))?;
        let (registers, sum) = (self.data.results.len(), b.elem.accumulator());
        if let Level::Thread { .. } = self.kernel.level {
            let all = self.data.operands.len();
            require(registers > 0 && all > 3 + registers, || format!("{all} operands give {registers}"))?;
            let (a, acc) = (3..all - registers, all - registers..all);
            a.into_iter().try_for_each(|i| self.operand(i, &Type::scalar(Scalar::U32)).map(|_| ()))?;
            return acc
                .enumerate()
                .try_for_each(|(i, at)| self.operand(at, &Type::scalar(sum))?.result(i, &Type::scalar(sum)));
        }
        let words = k.saturating_mul(b.elem.bytes()) / WORD;
        let (all, sums) = (self.data.operands.len(), self.data.results.len());
        if all > 5 && sums > 0 && all > 3 + sums {
            let m = self.tile(3)?.shape.extents().first().copied().unwrap_or(0);
            let have = self.side_by_side(3, all - sums, (Scalar::U32, m))?;
            require(have == words && m.is_multiple_of(64), || {
                format!("a factor of [{m}, {have}] numbers, expected rows in multiples of 64 of {words}")
            })?;
            let columns = self.side_by_side(all - sums, all, (sum, m))?;
            return self.accumulators(all - sums, columns, [m, n]);
        }
        let a = self.counts(5, 1)?.tile(3)?;
        require(a.elem == Scalar::U32 && a.shape.rank() == 2 && a.shape[1] == words, || {
            format!("operand 3 is {}, expected a tile [m, {words}] of u32", self.ty(3))
        })?;
        let m = a.shape[0];
        require(m.is_multiple_of(64), || format!("a product of {m} rows, expected a multiple of 64"))?;
        let acc = Type::tile(sum, Shape::new(&[m, n]));
        self.operand(4, &acc)?.result(0, &acc)
    }

    fn pack_pairs(&self) -> Outcome {
        if let Level::Thread { .. } = self.kernel.level {
            let float = Type::scalar(Scalar::F32);
            return self
                .counts(2, 1)?
                .operand(0, &float)?
                .operand(1, &float)?
                .result(0, &Type::scalar(Scalar::U32));
        }
        let from = self.counts(1, 1)?.tile(0)?;
        require(
            from.elem == Scalar::F32 && from.shape.rank() == 2 && from.shape[1].is_multiple_of(2),
            || format!("operand 0 is {}, expected an f32 tile of two axes and even columns", self.ty(0)),
        )?;
        let to = Shape::new(&[from.shape[0], from.shape[1] / 2]);
        self.result(0, &Type::tile(Scalar::U32, to))
    }

    fn tasks(&self, tasks: &[Task]) -> Outcome {
        self.counts(0, 0)?;
        self.in_body()?;
        for task in tasks {
            let Task { copies, warps, registers } = *task;
            require((1..=8).contains(&copies), || format!("{copies} copies of a task, expected 1 to 8"))?;
            require(warps.is_power_of_two() && warps <= 32, || {
                format!("a task of {warps} warps, expected a power of two up to 32")
            })?;
            let budget = registers == 0
                || registers.is_multiple_of(8) && (24..=240).contains(&registers) && warps.is_multiple_of(4);
            require(budget, || {
                format!(
                    "{registers} registers for {warps} warps, expected a multiple of 8 from 24 to 240 for a multiple of 4 warps"
                )
            })?;
        }
        let warps = tasks.iter().map(|t| t.copies.saturating_mul(t.warps)).fold(0, u32::saturating_add);
        require((1..=32).contains(&warps), || format!("{warps} warps in all, expected 1 to 32"))?;
        let registers: u32 = tasks.iter().map(|t| 32 * t.copies * t.warps * t.registers).sum();
        require(registers <= REGISTERS, || {
            format!("{registers} registers in all, expected at most {REGISTERS}")
        })?;
        let limit = self.kernel.hints.registers.is_none();
        require(registers == 0 || limit, || {
            "tasks with registers of their own in a launch with a limit of registers".into()
        })?;
        self.tiles_stay_outside()
    }

    /// The operation stands in the body of the kernel, and no other of its kind does.
    fn in_body(&self) -> Outcome {
        let same = |op: &&crate::Op| std::ptr::eq(self.kernel.op(**op), self.data);
        let body = &self.kernel.block(self.kernel.body).ops;
        require(body.iter().any(|op| same(&op)), || "stands inside other control flow".into())
    }

    /// No tile from outside is used in the regions.
    fn tiles_stay_outside(&self) -> Outcome {
        let kernel = self.kernel;
        let mut inside = vec![false; kernel.counts().0];
        let mut blocks = self.data.regions.to_vec();
        let mut used = Vec::new();
        while let Some(block) = blocks.pop() {
            kernel.block(block).args.iter().for_each(|v| inside[v.index()] = true);
            for &op in &kernel.block(block).ops {
                let data = kernel.op(op);
                data.results.iter().for_each(|v| inside[v.index()] = true);
                used.extend_from_slice(&data.operands);
                blocks.extend_from_slice(&data.regions);
            }
        }
        let tile = |v: &Value| kernel.ty(*v).as_tile().is_some_and(|t| t.shape.rank() > 0);
        match used.into_iter().find(|v| tile(v) && !inside[v.index()]) {
            Some(v) => Err(format!("a task uses a {} from outside: compute it inside", kernel.ty(v))),
            None => Ok(()),
        }
    }
}

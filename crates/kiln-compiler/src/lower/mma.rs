//! Products on matrix units: fragments of the factors come from registers, or from shared memory by
//! `ldmatrix`, those of f64 by plain loads, and every warp adds up the fragments of its part of the
//! result in registers.

use super::barriers::Does;
use super::layouts::LayoutId;
use super::products::{self, Product, Unit};
use super::scratch::Area;
use super::{Lowering, Registers};
use crate::error::CompileError;
use crate::layout::{LANE_BITS, Layout, Slot, WarpGrid};
use kiln_ir::{BinaryOp, FragmentOp, Literal, Op, OpData, OpKind, Reuse, Scalar, Space, Type, Value};

/// Rows of the matrix that is a fragment.
const FRAGMENT: u32 = 8;

/// Bytes of a row of a fragment.
const ROW: u32 = 16;

/// The bits of an f32 that matrix units see: the first 11 of the significand, with the implied one.
const TF32_BITS: u32 = !0x1fff;

/// Elements of a row of a fragment of f64.
const F64_ROW: u32 = 4;

/// The most products that are added up where sums keep fewer bits.
pub(super) const GROUP_DEPTH: u32 = 128;

/// Which factor of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Where the fragments of a factor come from.
pub(super) enum Source {
    /// Registers, in the layout of fragments.
    Registers(Registers),
    /// A matrix in shared memory.
    Shared {
        /// The address of the matrix.
        base: Value,
        slot: Slot,
        /// The matrix is the transpose of the factor.
        transposed: bool,
        /// What the barrier pass must know.
        area: Option<Area>,
    },
}

impl Lowering<'_> {
    pub(super) fn mma(
        &mut self,
        op: Op,
        data: &OpData,
        product: Product,
        grid: WarpGrid,
    ) -> Result<(), CompileError> {
        let (left, right) = self.sources(op, data, &product)?;
        let mut sums = self.operand(data.addend(), product.sums)?.to_vec();
        let [Some(left_layout), Some(right_layout)] =
            product.fragments.map(|id| id.map(|id| self.layout(id)))
        else {
            return Err(self.internal("a product without fragments".into()));
        };
        let [m, n, k] = product.extents;
        let (high, wide) = (m / grid.rows / 16, n / grid.columns / FRAGMENT);
        let (steps, together) = (k / product.factors.depth(), if wide >= 2 { 2 } else { 1 });
        // Steps whose products are added to the sums one after the other, before other fragments
        // are.
        let group = if product.two_level { steps.min(GROUP_DEPTH / product.factors.depth()) } else { 1 };
        for from in (0..steps).step_by(group as usize) {
            let of_group = from..from + group;
            let mut rows = Vec::new();
            for step in of_group.clone() {
                for i in 0..high {
                    let row = self.fragments(&left, Side::Left, &left_layout, (i, 1), step, &product)?;
                    rows.push(self.parts(row, &product));
                }
            }
            for first in (0..wide).step_by(together as usize) {
                let mut columns = Vec::new();
                for step in of_group.clone() {
                    let blocks = (first, together);
                    let side = (&right, Side::Right, &right_layout);
                    let column = self.fragments(side.0, side.1, side.2, blocks, step, &product)?;
                    columns.push(self.parts(column, &product));
                }
                for j in 0..together {
                    for i in 0..high {
                        let at = 4 * (i * wide + first + j) as usize;
                        let fragments = columns.iter().enumerate().flat_map(|(step, columns)| {
                            let row = &rows[step * high as usize + i as usize];
                            let of =
                                move |[a, b]: [usize; 2]| (&row[a][..], &columns[b][2 * j as usize..][..2]);
                            // The smallest first.
                            let pairs = if product.split { &[[1, 0], [0, 1], [0, 0]][..] } else { &[[0, 0]] };
                            pairs.iter().copied().map(of)
                        });
                        self.chain(&product, fragments, &mut sums[at..at + 4]);
                    }
                }
            }
        }
        self.define(data.results[0], product.sums, sums)
    }

    /// Fragments, and what matrix units do not see of their elements, if that is multiplied too:
    /// the difference of an f32 and its first 11 bits is exact, and 11 bits of it count in turn.
    fn parts(&mut self, words: Vec<Value>, product: &Product) -> Vec<Vec<Value>> {
        if !product.split {
            return vec![words];
        }
        let rest = |word: &Value| {
            let mask = self.em.int(Scalar::U32, TF32_BITS.into());
            let seen = self.em.binary(BinaryOp::And, *word, mask);
            let [whole, seen] = [*word, seen].map(|bits| self.em.one(OpKind::Bitcast, &[bits], Scalar::F32));
            let rest = self.em.sub(whole, seen);
            self.em.one(OpKind::Bitcast, &[rest], Scalar::U32)
        };
        let rests = words.iter().map(rest).collect();
        vec![words, rests]
    }

    /// Adds products of fragments to the four sums of a thread, or makes a partial sum that is
    /// added.
    fn chain<'f>(
        &mut self,
        product: &Product,
        fragments: impl Iterator<Item = (&'f [Value], &'f [Value])>,
        sums: &mut [Value],
    ) {
        let sum = product.factors.sum();
        let types = [(); 4].map(|()| Type::scalar(sum));
        let mut made = sums.to_vec();
        if product.two_level {
            let none = self.em.constant(Literal::zero(sum));
            made.fill(none);
        }
        for (row, column) in fragments {
            let operands: Vec<Value> = row.iter().chain(column).chain(&made).copied().collect();
            let kind = OpKind::Fragment(FragmentOp::Mma(product.factors));
            let op = self.em.op(kind, &operands, &types);
            made.copy_from_slice(&self.em.kernel.op(op).results);
        }
        for (sum, made) in sums.iter_mut().zip(made) {
            *sum = if product.two_level { self.em.add(*sum, made) } else { made };
        }
    }

    /// Where both factors come from. Those that are at hand in another layout than that of
    /// fragments go to shared memory first.
    pub(super) fn sources(
        &mut self,
        op: Op,
        data: &OpData,
        product: &Product,
    ) -> Result<(Source, Source), CompileError> {
        let mut found = Vec::new();
        let mut exchanged = Vec::new();
        for (i, &value) in [data.left(), data.right()].iter().enumerate() {
            if let Some(source) = self.staged_source(value)? {
                found.push(Some(source));
                continue;
            }
            if let Some(source) = self.kept_source(value) {
                found.push(Some(source));
                continue;
            }
            let at_hand = self.plan.input(op, i);
            if product.takes(i, at_hand) {
                found.push(Some(Source::Registers(self.operand(value, at_hand)?)));
            } else {
                found.push(None);
                let bytes = product.factors.bytes();
                let as_it_lies = || u32::from(self.layout(at_hand).register().first() == Some(&1));
                let along = products::along(i, bytes).unwrap_or_else(as_it_lies);
                exchanged.push((i, value, at_hand, Slot::new(&self.src.shape(value), along, bytes)));
            }
        }
        let bytes: u32 = exchanged.iter().map(|(.., slot)| slot.bytes()).sum();
        if bytes > 0 {
            let grouped = product.unit == Unit::Warpgroups;
            let mut rest = match grouped {
                true => self.scratch.aligned_area(bytes, self.em.loc),
                false => self.scratch.area(bytes, self.em.loc),
            };
            for (i, value, at_hand, slot) in exchanged {
                let (area, others) = rest.split(slot.bytes());
                rest = others;
                let registers = self.operand(value, at_hand)?;
                let layout = self.layout(at_hand);
                let base = self.scratch_address(area);
                let first = self.em.thread_is_first(layout.copies());
                self.store_slot(base, slot, &layout, &registers, first, Some(area));
                found[i] = Some(Source::Shared { base, slot, transposed: false, area: Some(area) });
            }
            if grouped {
                self.em.op(OpKind::Fragment(FragmentOp::AsyncProxyFence), &[], &[]);
            }
        }
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(left), Some(right)) => Ok((left, right)),
            _ => Err(self.internal("a product without factors".into())),
        }
    }

    /// A factor that lies in shared memory from before the loop.
    fn kept_source(&mut self, value: Value) -> Option<Source> {
        let &(slot, offset) = self.plan.products.slots.get(&value)?;
        let area = self.scratch.kept(offset, slot.bytes());
        let base = self.scratch_address(area);
        Some(Source::Shared { base, slot, transposed: false, area: Some(area) })
    }

    /// Stores a factor where products of a loop read it, if it is one that is too large for
    /// registers.
    pub(super) fn keep_factor(&mut self, value: Value, made: LayoutId, registers: &[Value]) {
        let Some(&(slot, offset)) = self.plan.products.slots.get(&value) else { return };
        let area = self.scratch.kept(offset, slot.bytes());
        let base = self.scratch_address(area);
        let layout = self.layout(made);
        let first = self.em.thread_is_first(layout.copies());
        self.store_slot(base, slot, &layout, registers, first, Some(area));
        if self.plan.products.read_by_warpgroups.contains(&value) {
            self.em.op(OpKind::Fragment(FragmentOp::AsyncProxyFence), &[], &[]);
        }
    }

    /// A tile that a pipelined loop has brought to shared memory.
    fn staged_source(&mut self, value: Value) -> Result<Option<Source>, CompileError> {
        let Some(&(of, _)) = self.plan.pipelines.staged.get(&value) else { return Ok(None) };
        let load = self.plan.pipelines.load(value).map(|l| (l.slot, l.offset, l.op));
        let stage = self.stages.iter().rev().find(|(op, _)| *op == of).map(|(_, stage)| *stage);
        let (Some((slot, offset, load)), Some(stage)) = (load, stage) else {
            return Err(self.internal(format!("{value} is staged by a loop that is not around it")));
        };
        let distance = self.em.int(Scalar::U64, offset.into());
        let base = self.em.add(stage, distance);
        let loaded = self.src.result(load);
        let mut transposed = false;
        let mut at = value;
        while at != loaded {
            let Some(data) = self.src.defining_op(at) else { break };
            transposed ^= matches!(data.kind, OpKind::Transpose(_)) && !is_identity(&data.kind);
            at = data.input();
        }
        Ok(Some(Source::Shared { base, slot, transposed, area: None }))
    }

    /// The words of fragments of a step: of the left factor 4 of one block of 16 rows, of the right
    /// 2 of each of `blocks.1` blocks of 8 columns.
    pub(super) fn fragments(
        &mut self,
        source: &Source,
        side: Side,
        layout: &Layout,
        blocks: (u32, u32),
        step: u32,
        product: &Product,
    ) -> Result<Vec<Value>, CompileError> {
        let steps = product.extents[2] / product.factors.depth();
        match source {
            Source::Registers(registers) if product.factors.is_f64() => {
                let each = if side == Side::Left { 4 } else { 2 };
                let (from, to) = (blocks.0 * steps + step, (blocks.0 + blocks.1 - 1) * steps + step);
                let all = (from..=to).step_by(steps as usize).map(|at| (at * each) as usize);
                Ok(all.flat_map(|at| registers[at..at + each as usize].iter().copied()).collect())
            }
            Source::Registers(registers) => {
                // Of 16 bits, of which both factors have one type.
                let (words, kind) =
                    (if side == Side::Left { 4 } else { 2 }, FragmentOp::Pack(product.factors.left));
                let mut packed = Vec::new();
                for block in blocks.0..blocks.0 + blocks.1 {
                    let first = ((block * steps + step) * words * 2) as usize;
                    for pair in registers[first..first + 2 * words as usize].chunks_exact(2) {
                        packed.push(self.pack(kind, [pair[0], pair[1]]));
                    }
                }
                Ok(packed)
            }
            Source::Shared { base, slot, transposed, area } => {
                let place = FactorPlacement { slot: *slot, transposed: *transposed, side };
                match product.factors.is_f64() {
                    true => Ok(self.load_elements(*base, place, layout, blocks, step, *area)),
                    false => self.ldmatrix(*base, place, layout, blocks, step, *area),
                }
            }
        }
    }

    /// Packs two neighbors. What was rounded to 16 bits before is rounded while it is packed.
    pub(super) fn pack(&mut self, kind: FragmentOp, pair: [Value; 2]) -> Value {
        let wide = pair.map(|v| {
            let data = self.em.kernel.defining_op(v).filter(|d| d.kind == OpKind::Cast)?;
            (self.em.elem(data.input()) == Scalar::F32).then_some(data.input())
        });
        let pair = if let [Some(a), Some(b)] = wide { [a, b] } else { pair };
        self.em.one(OpKind::Fragment(kind), &pair, Scalar::U32)
    }

    fn ldmatrix(
        &mut self,
        base: Value,
        place: FactorPlacement,
        layout: &Layout,
        (block, blocks): (u32, u32),
        step: u32,
        area: Option<Area>,
    ) -> Result<Vec<Value>, CompileError> {
        let (lanes, transposed) = place.lanes(blocks);
        if transposed && place.slot.elem() != 2 {
            return Err(self.internal("a factor that matrix units cannot turn".into()));
        }
        let lanes: Vec<u32> = lanes.iter().map(|&(outer, depth)| place.offset(outer, depth)).collect();
        let warps = layout.warp().iter().map(|&flat| place.flat_offset(flat));
        let thread: Vec<u32> = lanes.into_iter().chain(warps).collect();
        let height = if place.side == Side::Left { 16 } else { FRAGMENT };
        let at = place.offset(block * height, step * 2 * ROW / place.slot.elem());
        let count = if place.side == Side::Left { 4 } else { 2 * blocks };
        let address = self.slot_address(base, &thread, at);
        let kind = OpKind::Fragment(FragmentOp::LdMatrix { count, transposed });
        let types = vec![Type::scalar(Scalar::U32); count as usize];
        let made = self.em.op(kind, &[address], &types);
        self.accesses.record(made, area.and_then(Area::read), Does::Read);
        Ok(self.em.kernel.op(made).results.to_vec())
    }

    /// Fragments of f64, of which each lane loads its elements one by one.
    fn load_elements(
        &mut self,
        base: Value,
        place: FactorPlacement,
        layout: &Layout,
        (block, blocks): (u32, u32),
        step: u32,
        area: Option<Area>,
    ) -> Vec<Value> {
        let thread: Vec<u32> = layout.thread().iter().map(|&flat| place.flat_offset(flat)).collect();
        let (height, lower) =
            if place.side == Side::Left { (16, &[0, FRAGMENT][..]) } else { (FRAGMENT, &[0][..]) };
        let mut parts = Vec::new();
        for block in block..block + blocks {
            for depth in [0, F64_ROW] {
                for below in lower {
                    let at = place.offset(block * height + below, step * 2 * F64_ROW + depth);
                    let address = self.slot_address(base, &thread, at);
                    let (space, reuse) = (Space::Shared, Reuse::Normal);
                    let kind = OpKind::PtrLoad { space, lanes: 1, reuse, predicated: false };
                    let made = self.em.op(kind, &[address], &[Type::scalar(Scalar::F64)]);
                    self.accesses.record(made, area.and_then(Area::read), Does::Read);
                    parts.push(self.em.kernel.result(made));
                }
            }
        }
        parts
    }

    /// The address of an offset in a slot, of which the bits of the thread index add the parts
    /// `thread`.
    pub(super) fn slot_address(&mut self, base: Value, thread: &[u32], offset: u32) -> Value {
        let swizzled = Slot::swizzled(offset);
        let mine = self.em.xor_of_bits(thread);
        let mine = self.em.hoisted(|e| {
            let part = e.i32(swizzled.into());
            let mine = e.binary(BinaryOp::Xor, mine, part);
            e.cast(mine, Scalar::U64)
        });
        let address = self.em.add(base, mine);
        let above = self.em.int(Scalar::U64, (offset - swizzled).into());
        self.em.add(address, above)
    }

    /// Stores the registers of a tile where they belong in a slot.
    pub(super) fn store_slot(
        &mut self,
        base: Value,
        slot: Slot,
        layout: &Layout,
        registers: &[Value],
        first: Option<Value>,
        area: Option<Area>,
    ) {
        let thread: Vec<u32> = layout.thread().iter().map(|&flat| slot.offset(flat)).collect();
        let bits = slot.adjacent(layout);
        let step: usize = bits.iter().map(|bit| 1 << bit).sum();
        for at in (0..registers.len()).filter(|r| r & step == 0) {
            let member = |k: usize| -> usize {
                bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1).map(|(_, b)| 1 << b).sum()
            };
            let values: Vec<Value> = (0..1 << bits.len()).map(|k| registers[at | member(k)]).collect();
            let address = self.slot_address(base, &thread, slot.offset(layout.register_index(at)));
            let op = self.shared_store_at(address, first, &values);
            self.accesses.record(op, area.and_then(Area::written), Does::Write);
        }
    }
}

/// How a factor lies in a slot.
#[derive(Clone, Copy)]
pub(super) struct FactorPlacement {
    pub slot: Slot,
    /// The matrix is the transpose of the factor.
    pub transposed: bool,
    pub side: Side,
}

impl FactorPlacement {
    /// The offset of an element of the factor: its row (of the left one) or column (of the right
    /// one), and its depth.
    fn offset(&self, outer: u32, depth: u32) -> u32 {
        let (row, column) = if self.side == Side::Left { (outer, depth) } else { (depth, outer) };
        if self.transposed { self.slot.at(column, row) } else { self.slot.at(row, column) }
    }

    /// The offset of the element of the factor with this row-major index.
    fn flat_offset(&self, flat: u32) -> u32 {
        let [rows, columns] = self.slot.extents();
        let (rows, columns) = if self.transposed { (columns, rows) } else { (rows, columns) };
        debug_assert!(flat < rows * columns);
        let (row, column) = (flat / columns, flat % columns);
        if self.transposed { self.slot.at(column, row) } else { self.slot.at(row, column) }
    }

    /// Whether the depth runs along the lines.
    pub fn along_depth(&self) -> bool {
        let depth = if self.side == Side::Left { 1 } else { 0 };
        (self.slot.along() == depth) != self.transposed
    }

    /// Of which row of which fragment each bit of a lane says the address, as what it adds to the
    /// outer coordinate and the depth, and whether the fragments are to be transposed: where the
    /// depth does not run along the lines.
    fn lanes(&self, blocks: u32) -> ([(u32, u32); LANE_BITS], bool) {
        let along_depth = self.along_depth();
        // Rows of a fragment are lines. The fragments of the left factor lie one above the other,
        // then side by side; those of the right in order of depth, then of columns.
        let line = |i: u32| if along_depth { (1 << i, 0) } else { (0, 1 << i) };
        let deep = ROW / self.slot.elem();
        let (below, beside) = match self.side {
            Side::Left => ((FRAGMENT, 0), (0, deep)),
            Side::Right => ((0, deep), if blocks > 1 { (FRAGMENT, 0) } else { (0, 0) }),
        };
        ([line(0), line(1), line(2), below, beside], !along_depth)
    }
}

/// Whether a transpose leaves its axes in order.
fn is_identity(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Transpose(perm) if perm.extents().iter().enumerate().all(|(i, p)| *p == i as u32))
}

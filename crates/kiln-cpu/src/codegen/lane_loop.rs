//! The loop over a box of lanes: rows of adjacent lanes, and along a row as many at a time as packs
//! hold, then the rest one by one.

use super::affine::{Affine, Uniform};
use super::condition::Condition;
use super::emitter::Emitter;
use super::lane_plan::{Along, LaneAccess, LanePlan, Row, RowAccess, Turn};
use super::liveness::{Elementwise, is_alias};
use super::pack::{Pack, unaligned};
use super::pending::Group;
use super::repr::Repr;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use kiln_backend::Result;
use kiln_ir::{BinaryOp, OpData, OpKind, Scalar, Value};
use std::collections::HashMap;

/// The most turns of a row that are unrolled, and the most operations on 8 lanes in all of them:
/// code takes time to make.
const MOST_TURNS: i64 = 4;
const MOST_UNROLLED: i64 = 64;

impl Emitter<'_> {
    /// Runs a group in the lanes of its box.
    pub(super) fn in_lanes(&mut self, group: &Group, plan: &LanePlan) -> Result<()> {
        if (0..3).any(|axis| plan.lanes.count(axis) == Some(0)) {
            return Ok(());
        }
        let (done, _) = self.asm.block(&[]);
        if !plan.lanes.is_known() {
            let empty = self.is_empty(&plan.lanes);
            let (some, _) = self.asm.block(&[]);
            self.asm.branch(empty, done, some);
            self.asm.enter(some);
        }
        self.along_axis_of(plan, 2, |e, z| e.along_axis_of(plan, 1, |e, y| e.row(group, plan, y, z)))?;
        self.stream_lanes(plan)?;
        self.asm.jump(done, &[]);
        self.asm.enter(done);
        Ok(())
    }

    /// Calls `body` for each place of an axis, of which there is one at least.
    pub(super) fn along_axis_of(
        &mut self,
        plan: &LanePlan,
        axis: usize,
        body: impl FnOnce(&mut Self, ir::Value) -> Result<()>,
    ) -> Result<()> {
        let from = self.asm.uniform_value(plan.lanes.from[axis]);
        if plan.lanes.count(axis) == Some(1) {
            return body(self, from);
        }
        let to = self.asm.uniform_value(plan.lanes.to[axis]);
        let (turn, params) = self.asm.block(&[types::I64]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.jump(turn, &[from]);
        self.asm.enter(turn);
        body(self, params[0])?;
        let next = self.asm.add_const(params[0], 1);
        let more = self.asm.compare(IntCC::SignedLessThan, next, to);
        self.asm.fb.ins().brif(more, turn, &[next.into()], rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    fn row(&mut self, group: &Group, plan: &LanePlan, y: ir::Value, z: ir::Value) -> Result<()> {
        let [width, height, _] = plan.space.extents.map(i64::from);
        let planes = self.asm.mul_const(z, height);
        let rows = self.asm.add(planes, y);
        let first = self.asm.mul_const(rows, width);
        let accesses = plan.accesses.iter().map(|access| self.row_access(access, y, z, first)).collect();
        let row = Row { y, z, first, accesses };
        let mut x = self.asm.uniform_value(plan.lanes.from[0]);
        let mut left = plan.lanes.count(0);
        let widths = if plan.width > 1 { &[plan.width, 1][..] } else { &[1] };
        for &width in widths {
            let turns = left.map(|left| left / width as i64);
            x = match turns.filter(|&turns| may_unroll(group, turns, width)) {
                Some(turns) => self.unrolled(group, plan, &row, x, turns, width)?,
                None => self.turns(group, plan, &row, x, width)?,
            };
            left = left.map(|left| left % width as i64);
        }
        Ok(())
    }

    fn row_access(&mut self, access: &LaneAccess, y: ir::Value, z: ir::Value, first: ir::Value) -> RowAccess {
        let bytes = i64::from(access.view.elem.bytes());
        let (mut linear, mut step, mut offset) = (Uniform::ZERO, Uniform::ZERO, 0);
        let last = access.indices.len() - 1;
        for (axis, index) in access.indices.iter().enumerate() {
            let adjacent = access.along == Along::Adjacent && axis == last;
            let stride = match adjacent {
                true => Uniform::constant(1),
                false => self.asm.uniform(access.view.strides[axis]),
            };
            let mut at = self.asm.affine_row(*index, y, z);
            if let (true, Ok(constant)) = (adjacent, i32::try_from(at.constant.saturating_mul(bytes))) {
                // Neighbors in a row have an address in common.
                (offset, at.constant) = (constant, 0);
            }
            let along = self.asm.uniform_mul(at, stride);
            linear = self.asm.uniform_add(linear, along);
            let along = self.asm.uniform_mul(index.steps[0], stride);
            step = self.asm.uniform_add(step, along);
        }
        let linear = self.asm.uniform_mul(linear, Uniform::constant(bytes));
        let step = self.asm.uniform_mul(step, Uniform::constant(bytes));
        let linear = self.asm.uniform_value(linear);
        let address = self.asm.add(access.view.base, linear);
        let loads = !self.kernel.op(access.op).results.is_empty();
        let element = (access.along == Along::Same && loads)
            .then(|| self.pack_load(access.view.elem, 1, address, offset).parts[0]);
        if let Some(stream) = access.stream {
            let belongs = self.asm.add_const(address, offset.into());
            let address = self.streamed_row(stream, bytes, first, belongs);
            return RowAccess { address, offset: 0, step, element };
        }
        RowAccess { address, offset, step, element }
    }

    /// So many turns of `width` lanes from `from` on, one behind the other. Gives the first lane
    /// that is left.
    fn unrolled(
        &mut self,
        group: &Group,
        plan: &LanePlan,
        row: &Row,
        from: ir::Value,
        turns: i64,
        width: usize,
    ) -> Result<ir::Value> {
        let mut x = from;
        for _ in 0..turns {
            self.turn(group, plan, &mut Turn { row, x, width, packs: HashMap::new() })?;
            x = self.asm.add_const(x, width as i64);
        }
        Ok(x)
    }

    /// Turns of `width` lanes from `from` on, as long as there are so many. Gives the first lane
    /// that is left.
    fn turns(
        &mut self,
        group: &Group,
        plan: &LanePlan,
        row: &Row,
        from: ir::Value,
        width: usize,
    ) -> Result<ir::Value> {
        let to = plan.lanes.to[0];
        let last = self.asm.uniform_add(to, Uniform::constant(-(width as i64)));
        let last = self.asm.uniform_value(last);
        let (turn, at) = self.asm.block(&[types::I64]);
        let (rest, left) = self.asm.block(&[types::I64]);
        let enough = self.asm.compare(IntCC::SignedLessThanOrEqual, from, last);
        self.asm.fb.ins().brif(enough, turn, &[from.into()], rest, &[from.into()]);
        self.asm.enter(turn);
        self.turn(group, plan, &mut Turn { row, x: at[0], width, packs: HashMap::new() })?;
        let next = self.asm.add_const(at[0], width as i64);
        let more = self.asm.compare(IntCC::SignedLessThanOrEqual, next, last);
        self.asm.fb.ins().brif(more, turn, &[next.into()], rest, &[next.into()]);
        self.asm.enter(rest);
        Ok(left[0])
    }

    fn turn(&mut self, group: &Group, plan: &LanePlan, turn: &mut Turn<'_>) -> Result<()> {
        let mut copied = Vec::new();
        for &op in &group.ops {
            let data = self.kernel.op(op);
            let elem = |e: &Self, v: Value| e.kernel.ty(v).elem();
            let access = plan.accesses.iter().position(|access| access.op == op);
            if let Some(index) = access {
                let (access, row) = (&plan.accesses[index], &turn.row.accesses[index]);
                match data.results.first() {
                    Some(&result) => {
                        let pack = self.lane_load(access, row, data, plan, turn)?;
                        turn.packs.insert(result, pack);
                        if plan.outputs.contains(&result) && self.copy_small(access, row, result, turn)? {
                            copied.push(result);
                        }
                    }
                    None => self.lane_store(access, row, data, plan, turn)?,
                }
            } else if let Some(atomic) = plan.atomics.iter().find(|atomic| atomic.op == op) {
                self.lane_atomic(atomic, plan, turn)?;
            } else if let OpKind::Shuffle(mode) = data.kind {
                let pack = self.pack(data.input(), plan, turn)?;
                let pack = self.pack_shuffle(data, mode, &pack)?;
                turn.packs.insert(data.results[0], pack);
            } else if is_alias(&data.kind) {
                let pack = self.pack(data.input(), plan, turn)?;
                let pack = self.pack_bitcast(&pack, elem(self, data.results[0]), turn.width);
                turn.packs.insert(data.results[0], pack);
            } else {
                let pack = self.lane_operation(data, plan, turn)?;
                turn.packs.insert(data.results[0], pack);
            }
        }
        for &output in plan.outputs.iter().filter(|output| !copied.contains(output)) {
            let Repr::Tile(tile) = *self.repr(output)? else { continue };
            let elem = self.kernel.ty(output).elem();
            let pack = self.pack(output, plan, turn)?;
            let at = self.lane_address(tile.at, elem, turn);
            self.pack_store(&pack, elem, turn.width, at, 0);
        }
        Ok(())
    }

    /// Copies small integers that lanes load to the memory of a result, as they are: in packs they
    /// are wider. Whether these are such.
    fn copy_small(
        &mut self,
        access: &LaneAccess,
        row: &RowAccess,
        result: Value,
        turn: &Turn<'_>,
    ) -> Result<bool> {
        let elem = access.view.elem;
        let bytes = elem.bytes() as usize * turn.width;
        let ty = [types::I32, types::I64, types::I8X16].into_iter().find(|ty| ty.bytes() as usize == bytes);
        let plain = elem.is_small_int() && access.along == Along::Adjacent && access.mask.is_none();
        let (Some(ty), true, Repr::Tile(tile)) = (ty, plain, self.repr(result)?.clone()) else {
            return Ok(false);
        };
        let from = self.lane_in_row(row.address, elem.bytes().into(), turn);
        let to = self.lane_address(tile.at, elem, turn);
        let copied = self.asm.fb.ins().load(ty, unaligned(), from, row.offset);
        self.asm.fb.ins().store(unaligned(), copied, to, 0);
        Ok(true)
    }

    fn lane_operation(&mut self, data: &OpData, plan: &LanePlan, turn: &mut Turn<'_>) -> Result<Pack> {
        let result = data.results[0];
        let to = self.kernel.ty(result).elem();
        let from = data.operands.last().map_or(to, |&v| self.kernel.ty(v).elem());
        let operation = Elementwise::of(&data.kind).ok_or_else(|| self.internal("no member of a group"))?;
        let shifts = matches!(operation, Elementwise::Binary(BinaryOp::Shl | BinaryOp::Shr));
        let mut args = Vec::new();
        for (index, &value) in data.operands.iter().enumerate() {
            // The amount of a shift is one scalar.
            let amount = if shifts && index == 1 { self.scalar(value).ok() } else { None };
            args.push(match amount {
                Some(amount) => Pack::of(amount),
                None => self.pack(value, plan, turn)?,
            });
        }
        self.pack_operation(operation, [from, to], &args, turn.width)
    }

    /// The elements of a value in the lanes of a turn.
    pub(super) fn pack(&mut self, value: Value, plan: &LanePlan, turn: &mut Turn<'_>) -> Result<Pack> {
        if let Some(pack) = turn.packs.get(&value) {
            return Ok(pack.clone());
        }
        let elem = self.kernel.ty(value).elem();
        let pack = match self.repr(value)?.clone() {
            Repr::Scalar(scalar) => self.pack_splat(scalar, elem, turn.width),
            Repr::Affine(number) => self.numbers(number, turn),
            Repr::Condition(condition) => self.mask(&condition, plan, turn)?,
            Repr::Tile(tile) => {
                let at = self.lane_address(tile.at, elem, turn);
                self.pack_load(elem, turn.width, at, 0)
            }
            Repr::View(_) | Repr::Matrix(_) => return Err(self.internal("no lanes as an operand")),
        };
        turn.packs.insert(value, pack.clone());
        Ok(pack)
    }

    /// The address of the turn's first lane in a tile of lanes.
    fn lane_address(&mut self, tile: ir::Value, elem: Scalar, turn: &Turn<'_>) -> ir::Value {
        let row = self.asm.mul_const(turn.row.first, elem.bytes().into());
        let row = self.asm.add(tile, row);
        self.lane_in_row(row, elem.bytes().into(), turn)
    }

    fn lane_in_row(&mut self, row: ir::Value, bytes: i64, turn: &Turn<'_>) -> ir::Value {
        let shift = i64::from(bytes.trailing_zeros());
        let along = self.asm.fb.ins().ishl_imm_u(turn.x, shift);
        self.asm.add(row, along)
    }

    fn numbers(&mut self, number: Affine, turn: &Turn<'_>) -> Pack {
        let row = self.asm.affine_row(number, turn.row.y, turn.row.z);
        let step = number.steps[0];
        let at = Uniform { value: Some(turn.x), constant: 0 };
        let along = self.asm.uniform_mul(step, at);
        let mut next = self.asm.uniform_add(row, along);
        let mut scalars = Vec::new();
        for _ in 0..turn.width {
            scalars.push(self.asm.uniform_value(next));
            next = self.asm.uniform_add(next, step);
        }
        self.pack_of_scalars(&scalars)
    }

    /// Where a condition holds.
    fn mask(&mut self, condition: &Condition, plan: &LanePlan, turn: &Turn<'_>) -> Result<Pack> {
        let yes = self.asm.fb.ins().iconst(types::I8, 1);
        let mut mask = self.pack_splat(yes, Scalar::Bool, turn.width);
        if plan.within.as_ref().is_some_and(|within| condition.follows_from(within)) {
            return Ok(mask);
        }
        let both = |e: &mut Self, a: &Pack, b: &Pack| {
            let and = Elementwise::Binary(BinaryOp::And);
            e.pack_operation(and, [Scalar::Bool; 2], &[a.clone(), b.clone()], turn.width)
        };
        for term in &condition.terms {
            let sides = [self.numbers(term.left, turn), self.numbers(term.right, turn)];
            let compare = Elementwise::Compare(term.op);
            let holds = self.pack_operation(compare, [Scalar::I64, Scalar::Bool], &sides, turn.width)?;
            mask = both(self, &mask, &holds)?;
        }
        for &gate in &condition.gates {
            let gate = self.pack_splat(gate, Scalar::Bool, turn.width);
            mask = both(self, &mask, &gate)?;
        }
        if condition.inverted {
            let not = Elementwise::Unary(kiln_ir::UnaryOp::Not);
            mask = self.pack_operation(not, [Scalar::Bool; 2], &[mask], turn.width)?;
        }
        Ok(mask)
    }

    // ---- accesses

    fn lane_load(
        &mut self,
        access: &LaneAccess,
        row: &RowAccess,
        data: &OpData,
        plan: &LanePlan,
        turn: &mut Turn<'_>,
    ) -> Result<Pack> {
        let (elem, width) = (access.view.elem, turn.width);
        let loaded = match (access.along, row.element) {
            (_, Some(element)) => self.pack_splat(element, elem, width),
            (Along::Adjacent, _) => {
                let at = self.lane_in_row(row.address, elem.bytes().into(), turn);
                self.pack_load(elem, width, at, row.offset)
            }
            (Along::Apart | Along::Same, None) => {
                let addresses = self.lane_addresses(row, turn);
                let load = |e: &mut Self, at| e.pack_load(elem, 1, at, row.offset).parts[0];
                let scalars: Vec<_> = addresses.into_iter().map(|at| load(self, at)).collect();
                self.pack_of_elements(&scalars, elem)
            }
        };
        let Some(mask) = access.mask else { return Ok(loaded) };
        let mask = self.pack(mask, plan, turn)?;
        let padding = self.pack(data.access_values()[0], plan, turn)?;
        Ok(self.pack_select(elem, &[mask, loaded, padding], width))
    }

    /// The addresses of the elements of a turn's lanes, one by one.
    fn lane_addresses(&mut self, row: &RowAccess, turn: &Turn<'_>) -> Vec<ir::Value> {
        let x = Uniform { value: Some(turn.x), constant: 0 };
        let along = self.asm.uniform_mul(row.step, x);
        let mut at = self.asm.uniform_add(along, Uniform { value: Some(row.address), constant: 0 });
        let mut addresses = Vec::new();
        for _ in 0..turn.width {
            addresses.push(self.asm.uniform_value(at));
            at = self.asm.uniform_add(at, row.step);
        }
        addresses
    }

    fn lane_store(
        &mut self,
        access: &LaneAccess,
        row: &RowAccess,
        data: &OpData,
        plan: &LanePlan,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        let value = self.pack(data.access_values()[0], plan, turn)?;
        let mask = match access.mask {
            Some(mask) => Some(self.pack(mask, plan, turn)?),
            None => None,
        };
        let (elem, width) = (access.view.elem, turn.width);
        let adjacent = access.along == Along::Adjacent;
        let Some(mask) = mask else {
            if adjacent {
                let at = self.lane_in_row(row.address, elem.bytes().into(), turn);
                self.pack_store(&value, elem, width, at, row.offset);
            } else {
                self.store_apart(row, elem, &value, None, turn);
            }
            return Ok(());
        };
        if !adjacent || width == 1 {
            self.store_apart(row, elem, &value, Some(&mask), turn);
            return Ok(());
        }
        // Mostly, all lanes or none are there.
        let mut all = mask.parts[0];
        for &part in &mask.parts[1..] {
            all = self.asm.and(all, part);
        }
        let all = self.asm.fb.ins().vall_true(all);
        let [whole, some, rest] = [(); 3].map(|()| self.asm.block(&[]).0);
        self.asm.branch(all, whole, some);
        self.asm.enter(whole);
        let at = self.lane_in_row(row.address, elem.bytes().into(), turn);
        self.pack_store(&value, elem, width, at, row.offset);
        self.asm.jump(rest, &[]);
        self.asm.enter(some);
        self.store_apart(row, elem, &value, Some(&mask), turn);
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    /// Stores lane by lane, where the mask holds.
    fn store_apart(
        &mut self,
        row: &RowAccess,
        elem: Scalar,
        value: &Pack,
        mask: Option<&Pack>,
        turn: &Turn<'_>,
    ) {
        let scalars = self.pack_scalars(value, elem, turn.width);
        let goes = mask.map(|mask| self.pack_scalars(mask, Scalar::Bool, turn.width));
        for (lane, at) in self.lane_addresses(row, turn).into_iter().enumerate() {
            let scalar = scalars[lane];
            let Some(goes) = &goes else {
                self.store_lane(scalar, elem, at, row.offset, turn.width);
                continue;
            };
            let [store, rest] = [(); 2].map(|()| self.asm.block(&[]).0);
            self.asm.branch(goes[lane], store, rest);
            self.asm.enter(store);
            self.store_lane(scalar, elem, at, row.offset, turn.width);
            self.asm.jump(rest, &[]);
            self.asm.enter(rest);
        }
    }

    fn store_lane(&mut self, scalar: ir::Value, elem: Scalar, at: ir::Value, offset: i32, width: usize) {
        // The lanes of masks are all ones.
        let scalar = match (elem, width) {
            (Scalar::Bool, 4..) => self.asm.fb.ins().ineg(scalar),
            _ => scalar,
        };
        self.pack_store(&Pack::of(scalar), elem, 1, at, offset);
    }
}

/// Whether so many turns of a group are written one behind the other. One is not more code than a
/// loop.
fn may_unroll(group: &Group, turns: i64, width: usize) -> bool {
    let each = (group.ops.len() * width.div_ceil(8)) as i64;
    turns <= 1 || (turns <= MOST_TURNS && turns * each <= MOST_UNROLLED)
}

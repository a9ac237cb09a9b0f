//! Control flow, which is uniform by the time it arrives here. Scalars are carried as block
//! parameters, tiles in slots.

use super::asm::scalar_type;
use super::emitter::Emitter;
use super::liveness::is_elementwise;
use super::repr::{Repr, Tile};
use cranelift_codegen::ir::{self, InstBuilder, condcodes::IntCC};
use kiln_backend::Result;
use kiln_ir::{BinaryOp, Block, Op, OpData, OpKind, Value};

/// Rounds of a loop that does not look whether the launch is to stop.
const SHORT: i128 = 1 << 16;

/// What a loop or a branch hands over: for each value, nothing for a scalar (it is a block
/// parameter) or the tile it stands in.
struct Carried {
    tiles: Vec<Option<Tile>>,
    params: Vec<ir::Type>,
}

impl Emitter<'_> {
    pub(super) fn if_else(&mut self, data: &OpData) -> Result<()> {
        let condition = self.scalar(data.condition())?;
        let carried = self.slots_for(&data.results);
        let (rest, joined) = self.asm.block(&carried.params);
        let arms = [self.asm.block(&[]).0, self.asm.block(&[]).0];
        self.asm.branch(condition, arms[0], arms[1]);
        for (&region, arm) in data.regions.iter().zip(arms) {
            self.asm.enter(arm);
            let end = self.body(region)?;
            let values = end.map_or(&[][..], |end| end.yielded());
            let scalars = self.hand_over(values, &carried)?;
            self.asm.jump(rest, &scalars);
            self.end_region(region, end);
        }
        self.asm.enter(rest);
        self.arrive(&data.results, &carried, &joined, true);
        Ok(())
    }

    pub(super) fn for_loop(&mut self, op: Op, data: &OpData) -> Result<()> {
        let ([lo, hi, step], inits) = (data.for_bounds(), data.inits());
        let elem = self.kernel.ty(lo).elem();
        let (lo, hi, step) = (self.scalar(lo)?, self.scalar(hi)?, self.scalar(step)?);
        let less = if elem.is_signed() { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        let runs = self.asm.compare(less, lo, hi);
        let zero = self.asm.fb.ins().iconst(scalar_type(elem), 0);
        let forwards = self.asm.compare(less, zero, step);
        let runs = self.asm.and(runs, forwards);
        // What is left of the range, as an unsigned number, cannot overflow where the counter
        // could.
        let left = self.asm.fb.ins().isub(hi, lo);

        let carried = self.take_inits(op, inits)?;
        let scalars = self.scalars_of(inits)?;
        let int = scalar_type(elem);
        let params: Vec<ir::Type> = [int, int].into_iter().chain(carried.params.iter().copied()).collect();
        let (turn, at_turn) = self.asm.block(&params);
        let (rest, results) = self.asm.block(&carried.params);
        let first: Vec<ir::BlockArg> = [lo, left].iter().chain(&scalars).map(|&v| v.into()).collect();
        let none: Vec<ir::BlockArg> = scalars.iter().map(|&v| v.into()).collect();
        self.asm.fb.ins().brif(runs, turn, &first, rest, &none);

        self.asm.enter(turn);
        let region = data.regions[0];
        let args = &self.kernel.block(region).args;
        self.set(args[0], Repr::Scalar(at_turn[0]));
        self.arrive(&args[1..], &carried, &at_turn[2..], false);
        self.prefer(region, &args[1..], &carried);
        let end = self.body(region)?;
        let scalars = self.hand_over(end.map_or(&[][..], |end| end.yielded()), &carried)?;
        self.end_region(region, end);
        if !self.is_short(data) {
            self.check_time();
        }
        let more = self.asm.compare(IntCC::UnsignedGreaterThan, at_turn[1], step);
        let left = self.asm.fb.ins().isub(at_turn[1], step);
        let next = self.asm.add(at_turn[0], step);
        let again: Vec<ir::BlockArg> = [next, left].iter().chain(&scalars).map(|&v| v.into()).collect();
        let done: Vec<ir::BlockArg> = scalars.iter().map(|&v| v.into()).collect();
        self.asm.fb.ins().brif(more, turn, &again, rest, &done);

        self.asm.enter(rest);
        self.arrive(&data.results, &carried, &results, true);
        Ok(())
    }

    pub(super) fn while_loop(&mut self, op: Op, data: &OpData) -> Result<()> {
        let [condition, body] = data.regions[..] else {
            return Err(self.internal("a while without regions"));
        };
        let carried = self.take_inits(op, &data.operands)?;
        let scalars = self.scalars_of(&data.operands)?;
        let (test, at_test) = self.asm.block(&carried.params);
        let (turn, _) = self.asm.block(&[]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.jump(test, &scalars);

        self.asm.enter(test);
        self.arrive(&self.kernel.block(condition).args, &carried, &at_test, false);
        let end = self.body(condition)?;
        let Some(&holds) = end.and_then(|end| end.operands.first()) else {
            return Err(self.internal("a while without a condition"));
        };
        let holds = self.scalar(holds)?;
        self.end_region(condition, end);
        self.asm.branch(holds, turn, rest);

        self.asm.enter(turn);
        let args = &self.kernel.block(body).args;
        self.arrive(args, &carried, &at_test, false);
        self.prefer(body, args, &carried);
        let end = self.body(body)?;
        let scalars = self.hand_over(end.map_or(&[][..], |end| end.yielded()), &carried)?;
        self.end_region(body, end);
        self.check_time();
        self.asm.jump(test, &scalars);

        self.asm.enter(rest);
        self.arrive(&data.results, &carried, &at_test, true);
        Ok(())
    }

    /// Whether a loop is known to have few rounds, so that it need not read the clock.
    fn is_short(&self, data: &OpData) -> bool {
        let bounds = data.for_bounds().map(|v| self.kernel.as_const(v).map(|l| l.as_i128()));
        let [Some(lo), Some(hi), Some(step)] = bounds else { return false };
        step <= 0 || (hi - lo) / step <= SHORT
    }

    /// Frees values whose last use is the terminator of a region.
    fn end_region(&mut self, region: Block, end: Option<&OpData>) {
        if let (Some(_), Some(&terminator)) = (end, self.kernel.block(region).ops.last()) {
            self.release(terminator);
        }
    }

    /// A new slot for each value that is a tile.
    fn slots_for(&mut self, values: &[Value]) -> Carried {
        let mut carried = Carried { tiles: Vec::new(), params: Vec::new() };
        for &value in values {
            let ty = self.kernel.ty(value);
            if ty.is_scalar() {
                carried.params.push(scalar_type(ty.elem()));
                carried.tiles.push(None);
                continue;
            }
            let slot = self.arena.take(super::liveness::tile_bytes(ty));
            carried.tiles.push(Some(Tile { at: self.slot_address(slot), slot: Some(slot), windowed: false }));
        }
        carried
    }

    /// The memory a loop carries its tiles in, with the initial values in it: the memory of an
    /// initial value whose last use this is, or new.
    fn take_inits(&mut self, op: Op, inits: &[Value]) -> Result<Carried> {
        let mut carried = Carried { tiles: Vec::new(), params: Vec::new() };
        for &init in inits {
            let root = self.live.root(init);
            let dies = self.live.ends_at(init, op) && !self.live.is_in_place(root);
            let once = inits.iter().filter(|&&v| self.live.root(v) == root).count() == 1;
            let owned = matches!(self.repr(init)?, Repr::Tile(_)) && dies && once;
            if let Some(slot) = owned.then(|| self.take_slot(root)).flatten() {
                carried.tiles.push(Some(Tile {
                    at: self.slot_address(slot),
                    slot: Some(slot),
                    windowed: false,
                }));
                continue;
            }
            let new = self.slots_for(&[init]);
            if let Some(tile) = new.tiles[0] {
                self.write(tile, init)?;
            }
            carried.tiles.extend(new.tiles);
            carried.params.extend(new.params);
        }
        Ok(carried)
    }

    fn scalars_of(&mut self, values: &[Value]) -> Result<Vec<ir::Value>> {
        let scalars = values.iter().filter(|&&v| self.kernel.ty(v).is_scalar());
        scalars.map(|&v| self.scalar(v)).collect()
    }

    /// Makes values known at the beginning of a region, or (owning their slots) after the
    /// operation.
    fn arrive(&mut self, values: &[Value], carried: &Carried, scalars: &[ir::Value], own: bool) {
        let mut scalars = scalars.iter();
        for (&value, tile) in values.iter().zip(&carried.tiles) {
            match (tile, scalars.as_slice().first()) {
                (Some(tile), _) => {
                    let slot = tile.slot.filter(|_| own);
                    self.set(value, Repr::Tile(Tile { slot, ..*tile }));
                }
                (None, Some(&scalar)) => {
                    scalars.next();
                    self.set(value, Repr::Scalar(scalar));
                }
                (None, None) => {}
            }
        }
    }

    /// At the end of a region: writes tiles where they are carried, and gives the scalars.
    fn hand_over(&mut self, values: &[Value], carried: &Carried) -> Result<Vec<ir::Value>> {
        let mut pending = Vec::new();
        for (index, (&value, tile)) in values.iter().zip(&carried.tiles).enumerate() {
            let Some(tile) = *tile else { continue };
            let from = match *self.repr(value)? {
                Repr::Tile(from) if from.at == tile.at => continue,
                Repr::Tile(from) => Some(from.at),
                _ => None,
            };
            // Another carried tile is about to be overwritten: what it held goes aside first.
            let crosses = carried.tiles.iter().take(index).flatten().any(|t| Some(t.at) == from);
            pending.push((tile, value, crosses));
        }
        for (_, value, crosses) in &mut pending {
            if *crosses {
                let (len, elem) = (self.len(*value), self.kernel.ty(*value).elem());
                let aside = self.temporary(len * elem.bytes() as usize);
                let from = self.array(*value, len)?;
                self.copy(aside, from, elem, len)?;
                self.set(*value, Repr::Tile(Tile { at: aside, slot: None, windowed: false }));
            }
        }
        for (tile, value, _) in pending {
            self.write(tile, value)?;
        }
        self.scalars_of(values)
    }

    /// Writes a value into a tile's memory.
    fn write(&mut self, tile: Tile, value: Value) -> Result<()> {
        let (len, elem) = (self.len(value), self.kernel.ty(value).elem());
        match *self.repr(value)? {
            Repr::Tile(from) => self.copy(tile.at, from.at, elem, len),
            Repr::Scalar(scalar) => self.splat(tile.at, scalar, elem, len),
            Repr::Affine(_) | Repr::Condition(_) => self.write_lanes(tile.at, value),
            Repr::View(_) | Repr::Matrix(_) => Err(self.internal("what is carried is no tile")),
        }
    }

    /// Lets a tile for the next turn of a loop be made where this turn's stands, if that is not
    /// read any more.
    fn prefer(&mut self, region: Block, args: &[Value], carried: &Carried) {
        let ops = &self.kernel.block(region).ops;
        let Some(end) = ops.last().map(|&op| self.kernel.op(op)) else { return };
        let position = |op: Option<Op>| op.and_then(|op| ops.iter().position(|&o| o == op));
        for ((&next, &arg), tile) in end.operands.iter().zip(args).zip(&carried.tiles) {
            let Some(tile) = *tile else { continue };
            let Some(maker) = ops.iter().position(|&op| self.kernel.op(op).results.contains(&next)) else {
                continue;
            };
            let last = match self.live.last_use(arg) {
                None => None,
                Some(op) => match position(Some(op)) {
                    Some(at) => Some(at),
                    None => continue,
                },
            };
            let data = self.kernel.op(ops[maker]);
            let is_arg = |value: Value| self.live.root(value) == arg;
            let in_place = if let OpKind::Dot(_) = data.kind {
                is_arg(data.addend()) && !is_arg(data.left()) && !is_arg(data.right())
            } else {
                // A fault searches for the zero among the divisors: they must be kept.
                let divides = matches!(data.kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem));
                let divisor = divides && is_arg(data.right());
                !divisor && is_elementwise(&data.kind) && self.same_size(arg, next)
            };
            let free = last.is_none_or(|last| last < maker || (last == maker && in_place));
            let makes = is_elementwise(&data.kind) || matches!(data.kind, OpKind::Dot(_));
            // A value that is carried twice is made once and copied once.
            let once = end.operands.iter().filter(|&&v| self.live.root(v) == next).count() == 1;
            if free && makes && once && !self.live.is_splat(next) {
                self.preferred.insert(next, Tile { slot: None, ..tile });
            }
        }
    }

    fn same_size(&self, a: Value, b: Value) -> bool {
        let ty = |v| self.kernel.ty(v);
        ty(a).elem().bytes() == ty(b).elem().bytes()
    }
}

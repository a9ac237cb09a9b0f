//! Groups of element-wise operations over tiles of one length, done chunk by chunk.
//!
//! Operations are collected, not emitted, until something needs their results or their place in the
//! order. Then the group runs as one loop: each turn takes a chunk of every tile through all
//! operations, so that intermediate results never leave the L1 cache. A result that is stored is
//! written where it belongs at once, if the box lies inside the view and is contiguous: a streamed
//! one that will not stay in the caches by way of a chunk of scratch memory, past the caches.

use super::boxes::BoxLocation;
use super::emitter::Emitter;
use super::liveness::{Elementwise, is_alias, is_elementwise};
use super::pending::{Group, StreamedStore, may_fault};
use super::repr::{Repr, Tile};
use cranelift_codegen::ir::{self, InstBuilder, condcodes::IntCC, types};
use kiln_backend::Result;
use kiln_cpu_primitives::PrimitiveKey;
use kiln_ir::{Kernel, Op, OpKind, Reuse, Value};

/// The part of each tile that is worked on.
#[derive(Clone, Copy)]
struct Window {
    /// The index of its first element; none for 0.
    start: Option<ir::Value>,
    /// The number of elements, and the most that there can be.
    count: ir::Value,
    most: usize,
}

/// An operand of an element-wise primitive: an address, or bits.
enum Argument {
    Array(ir::Value),
    Scalar(ir::Value),
}

/// A store of the group.
struct PlannedStore {
    op: Op,
    /// Where the box lies, if the stored value is to be made there.
    direct: Option<BoxLocation>,
}

impl Emitter<'_> {
    /// Adds an operation to the group if it is one that groups do.
    pub(super) fn join(&mut self, op: Op) -> Result<bool> {
        if self.join_lanes(op)? {
            return Ok(true);
        }
        let data = self.kernel.op(op);
        let makes_tile = data.results.first().is_some_and(|&r| {
            let ty = self.kernel.ty(r);
            ty.as_tile().is_some() && !ty.is_scalar() && !self.live.is_splat(r)
        });
        let pending = |e: &Self, v: Option<&Value>| v.is_some_and(|&v| e.group.makes(e.kernel, v));
        let joins = if data.kind == OpKind::Iota {
            true
        } else if is_elementwise(&data.kind) {
            makes_tile
        } else if is_alias(&data.kind) {
            makes_tile && pending(self, data.operands.first())
        } else if let OpKind::Store { .. } = data.kind {
            pending(self, data.operands.last()) && !self.group.stores_to(self.kernel, data.view())
        } else {
            false
        };
        if !joins {
            return Ok(false);
        }
        let len = match data.results.first() {
            Some(&result) => self.kernel.shape(result).len(),
            None => self.group.len,
        };
        // What comes before a fault has happened, and the first of two faults is reported: chunks
        // would mix them.
        if self.group.lanewise
            || len != self.group.len
            || (may_fault(self.kernel, op) && self.group.precedes_faults(self.kernel))
        {
            self.flush()?;
        }
        self.group.len = len;
        self.group.ops.push(op);
        Ok(true)
    }

    /// Emits the group.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        if group.ops.is_empty() {
            return Ok(());
        }
        if group.lanewise {
            return self.flush_lanes(&group);
        }
        let at = self.locate(None);
        let stores = self.plan_stores(&group)?;
        self.plan_streams(&mut group, &stores)?;
        group.copied = self.copied(&stores);
        if group.len <= self.blocking.chunk {
            let count = self.asm.int(group.len as i64);
            self.members(&group, Window { start: None, count, most: group.len })?;
        } else {
            self.outputs(&group);
            self.chunks(&group)?;
        }
        for streamed in &group.streamed {
            self.arena.give(streamed.chunk);
        }
        for store in stores {
            self.locate(Some(store.op));
            self.finish_store(self.kernel.op(store.op), store.direct)?;
        }
        for &op in &group.ops {
            self.release(op);
        }
        self.locate(at);
        Ok(())
    }

    /// Finds the stores whose values can be made in the view's memory, and makes that their place.
    fn plan_stores(&mut self, group: &Group) -> Result<Vec<PlannedStore>> {
        let mut stores = Vec::new();
        for &op in &group.ops {
            let data = self.kernel.op(op);
            if !matches!(data.kind, OpKind::Store { .. }) {
                continue;
            }
            self.locate(Some(op));
            let root = self.live.root(data.stored_value());
            let direct = if self.may_store_directly(group, op, root) {
                let place = self.place(data)?;
                let fallback = self.output(root);
                let at = self.asm.fb.ins().select(place.inside, place.address, fallback.at);
                self.set(root, Repr::Tile(Tile { at, ..fallback }));
                Some(place)
            } else {
                None
            };
            stores.push(PlannedStore { op, direct });
        }
        Ok(stores)
    }

    /// Finds the direct stores that may go past the caches.
    fn plan_streams(&mut self, group: &mut Group, stores: &[PlannedStore]) -> Result<()> {
        for store in stores {
            let data = self.kernel.op(store.op);
            let (Some(place), OpKind::Store { reuse: Reuse::Streaming, .. }) = (store.direct, &data.kind)
            else {
                continue;
            };
            let root = self.live.root(data.stored_value());
            let Repr::Tile(Tile { at, .. }) = *self.repr(root)? else { continue };
            let large = self.outgrows_caches(data)?;
            let streams = self.asm.and(large, place.inside);
            let bytes =
                group.len.min(self.blocking.chunk) * data_elem(self.kernel, store.op).bytes() as usize;
            let chunk = self.arena.take(bytes);
            group.streamed.push(StreamedStore { op: store.op, root, to: at, streams, chunk });
        }
        Ok(())
    }

    /// Whether making a value in the box that it is stored to changes nothing that is read later,
    /// and nothing that a fault leaves behind.
    fn may_store_directly(&self, group: &Group, store: Op, root: Value) -> bool {
        let kernel = self.kernel;
        if group.ops.iter().any(|&op| may_fault(kernel, op)) {
            return false;
        }
        let data = kernel.op(store);
        let maker = group.ops.iter().position(|&op| kernel.op(op).results.contains(&root));
        let (Some(maker), false) = (maker, self.preferred.contains_key(&root)) else { return false };
        if self.live.last_use(root) != Some(store) || kernel.ty(root).elem() != data_elem(kernel, store) {
            return false;
        }
        let operands = group
            .ops
            .iter()
            .enumerate()
            .flat_map(|(i, &op)| kernel.op(op).operands.iter().map(move |&v| (i, v)));
        let mut loads = operands.filter_map(|(i, v)| {
            let load = kernel.defining_op(self.live.root(v))?;
            let loads = matches!(load.kind, OpKind::Load(_) | OpKind::Gather { .. });
            let same_view = loads && load.view() == data.view();
            (same_view && self.live.is_in_place(v)).then_some((i, load))
        });
        let offsets = |d: &kiln_ir::OpData| (d.view(), d.coordinates().to_vec(), d.mask());
        let shape = |v: Value| kernel.shape(v);
        let stored = data.stored_value();
        loads.all(|(i, load)| {
            i <= maker && offsets(load) == offsets(data) && shape(load.results[0]) == shape(stored)
        })
    }

    /// The values of the stores that are no direct ones.
    fn copied(&self, stores: &[PlannedStore]) -> Vec<Value> {
        let copies = stores.iter().filter(|store| store.direct.is_none());
        let stored = copies.filter_map(|store| self.kernel.op(store.op).operands.last());
        stored.map(|&value| self.live.root(value)).collect()
    }

    /// Gives every result that outlives the group its memory before the loop over chunks.
    fn outputs(&mut self, group: &Group) {
        for &op in &group.ops {
            for &result in &self.kernel.op(op).results {
                let root = self.live.root(result) == result && self.repr(result).is_err();
                let last = self.live.last_use(result);
                let outlives =
                    group.copied.contains(&result) || last.is_none_or(|last| !group.contains(last));
                if root && (outlives || self.preferred.contains_key(&result)) {
                    self.output(result);
                }
            }
        }
    }

    /// A loop over chunks.
    fn chunks(&mut self, group: &Group) -> Result<()> {
        let len = self.asm.int(group.len as i64);
        let (chunk, params) = self.asm.block(&[types::I64]);
        let (rest, _) = self.asm.block(&[]);
        let zero = self.asm.int(0);
        self.asm.jump(chunk, &[zero]);
        self.asm.enter(chunk);
        let start = params[0];
        let most = self.blocking.chunk;
        let full = self.asm.int(most as i64);
        let count = if group.len.is_multiple_of(most) {
            full
        } else {
            let left = self.asm.fb.ins().isub(len, start);
            self.asm.fb.ins().umin(left, full)
        };
        self.members(group, Window { start: Some(start), count, most })?;
        let next = self.asm.add_const(start, most as i64);
        let more = self.asm.compare(IntCC::UnsignedLessThan, next, len);
        self.asm.fb.ins().brif(more, chunk, &[next.into()], rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    /// Emits each operation for a window.
    fn members(&mut self, group: &Group, window: Window) -> Result<()> {
        let whole = self.redirect_streams(group, window)?;
        for &op in &group.ops {
            self.locate(Some(op));
            let data = self.kernel.op(op);
            if let OpKind::Store { .. } = data.kind {
                self.stream_chunk(group, op, window)?;
                continue;
            }
            if is_alias(&data.kind) {
                let repr = self.repr(data.input())?.clone();
                self.set(data.results[0], repr.without_slot());
            } else {
                self.member(op, window)?;
            }
            self.release_members(group, op, window);
        }
        for (root, tile) in whole {
            self.set(root, Repr::Tile(tile));
        }
        self.widen_aliases(group)
    }

    /// Lets the aliases that were made for a window stand for the same memory as their roots again:
    /// what follows the group uses whole tiles.
    fn widen_aliases(&mut self, group: &Group) -> Result<()> {
        for &op in &group.ops {
            let data = self.kernel.op(op);
            if is_alias(&data.kind) {
                let repr = self.repr(self.live.root(data.results[0]))?.clone();
                self.set(data.results[0], repr.without_slot());
            }
        }
        Ok(())
    }

    /// Redirects each streamed value to scratch memory if it streams, else to where it is stored.
    /// Returns the tiles that the values are outside of the window.
    fn redirect_streams(&mut self, group: &Group, window: Window) -> Result<Vec<(Value, Tile)>> {
        let mut whole = Vec::new();
        for streamed in &group.streamed {
            let Repr::Tile(tile) = *self.repr(streamed.root)? else { continue };
            let belongs = self.in_window(tile, streamed.root, window);
            let chunk = self.slot_address(streamed.chunk);
            let at = self.asm.fb.ins().select(streamed.streams, chunk, belongs);
            self.set(streamed.root, Repr::Tile(Tile { at, slot: None, windowed: true }));
            whole.push((streamed.root, tile));
        }
        Ok(whole)
    }

    /// Copies a streamed value's chunk to where it belongs, if it streams.
    fn stream_chunk(&mut self, group: &Group, store: Op, window: Window) -> Result<()> {
        let Some(&streamed) = group.streamed.iter().find(|s| s.op == store) else { return Ok(()) };
        let (copy, _) = self.asm.block(&[]);
        let (rest, _) = self.asm.block(&[]);
        self.asm.branch(streamed.streams, copy, rest);
        self.asm.enter(copy);
        let whole = Tile { at: streamed.to, slot: None, windowed: false };
        let to = self.in_window(whole, streamed.root, window);
        let chunk = self.slot_address(streamed.chunk);
        let elem = data_elem(self.kernel, store);
        self.call(PrimitiveKey::CopyStreaming(elem), &[to, chunk, window.count])?;
        self.asm.jump(rest, &[]);
        self.asm.enter(rest);
        Ok(())
    }

    /// Frees values whose last use is an operation, unless the next chunk or a copy to a view needs
    /// them.
    fn release_members(&mut self, group: &Group, op: Op, window: Window) {
        if window.start.is_none() {
            self.release_temporaries();
        }
        for index in 0..self.live.dead_after(op).len() {
            let value = self.live.dead_after(op)[index];
            let windowed = matches!(self.repr(value), Ok(Repr::Tile(tile)) if tile.windowed);
            let stays = match window.start {
                Some(_) => !(windowed && group.makes(self.kernel, value)),
                None => group.copied.contains(&value),
            };
            if !stays {
                self.free(value);
            }
        }
    }

    /// Does an operation for all elements at once.
    pub(super) fn whole_member(&mut self, op: Op) -> Result<()> {
        let window = self.whole_window(op);
        self.member(op, window)
    }

    /// Where [`Self::whole_member`] writes.
    pub(super) fn whole_destination(&mut self, op: Op) -> ir::Value {
        let window = self.whole_window(op);
        self.destination(op, window)
    }

    fn whole_window(&mut self, op: Op) -> Window {
        let most = self.len(self.kernel.op(op).results[0]);
        Window { start: None, count: self.asm.int(most as i64), most }
    }

    fn member(&mut self, op: Op, window: Window) -> Result<()> {
        let data = self.kernel.op(op);
        let result = data.results[0];
        let elem = self.kernel.ty(result).elem();
        if data.kind == OpKind::Iota {
            let out = self.destination(op, window);
            let zero = self.asm.int(0);
            let first = window.start.unwrap_or(zero);
            return self.call(PrimitiveKey::Iota(elem), &[out, first, window.count]).map(drop);
        }
        let from = data.operands.last().map_or(elem, |&v| self.kernel.ty(v).elem());
        let operation = Elementwise::of(&data.kind).ok_or_else(|| self.internal("no member of a group"))?;
        match operation {
            Elementwise::Unary(op_) => self.map(op, PrimitiveKey::Unary(op_, from), window),
            Elementwise::Cast => self.map(op, PrimitiveKey::Cast(from, elem), window),
            Elementwise::Binary(op_) => {
                let (a, b) = (data.left(), data.right());
                let (form, args) = self.pair(a, b, window)?;
                let out = self.destination(op, window);
                let key = PrimitiveKey::Binary(op_, form, elem);
                let flag = self.call(key, &[out, args[0], args[1], window.count])?;
                self.check_divisor(op_, elem, flag, args, form, window.start, window.count)
            }
            Elementwise::Compare(op_) => {
                let (form, args) = self.pair(data.left(), data.right(), window)?;
                let out = self.destination(op, window);
                let key = PrimitiveKey::Compare(op_, form, from);
                self.call(key, &[out, args[0], args[1], window.count]).map(drop)
            }
            Elementwise::Select => {
                let key = |form| PrimitiveKey::Select(form, elem);
                self.three(op, [data.if_true(), data.if_false(), data.condition()], key, window)
            }
            Elementwise::Fma => {
                let key = |form| PrimitiveKey::Fma(form, elem);
                self.three(op, [data.left(), data.right(), data.addend()], key, window)
            }
        }
    }

    fn map(&mut self, op: Op, key: PrimitiveKey, window: Window) -> Result<()> {
        let a = self.written_out(self.kernel.op(op).input(), window)?;
        let out = self.destination(op, window);
        self.call(key, &[out, a, window.count]).map(drop)
    }

    fn three(
        &mut self,
        op: Op,
        [a, b, c]: [Value; 3],
        key: impl Fn(kiln_cpu_primitives::Form) -> PrimitiveKey,
        window: Window,
    ) -> Result<()> {
        let c = self.written_out(c, window)?;
        let (form, args) = self.pair(a, b, window)?;
        let out = self.destination(op, window);
        self.call(key(form), &[out, args[0], args[1], c, window.count]).map(drop)
    }

    /// Two operands, of which at most one is passed as a scalar.
    fn pair(
        &mut self,
        a: Value,
        b: Value,
        window: Window,
    ) -> Result<(kiln_cpu_primitives::Form, [ir::Value; 2])> {
        use kiln_cpu_primitives::Form;
        Ok(match (self.argument(a, window)?, self.argument(b, window)?) {
            (Argument::Array(a), Argument::Array(b)) => (Form::Arrays, [a, b]),
            (Argument::Scalar(a), Argument::Array(b)) => (Form::ScalarLeft, [a, b]),
            (Argument::Array(a), Argument::Scalar(b)) => (Form::ScalarRight, [a, b]),
            (Argument::Scalar(_), Argument::Scalar(b)) => {
                (Form::ScalarRight, [self.written_out(a, window)?, b])
            }
        })
    }

    fn argument(&mut self, value: Value, window: Window) -> Result<Argument> {
        match *self.repr(value)? {
            Repr::Scalar(scalar) => Ok(Argument::Scalar(self.asm.bits(scalar))),
            Repr::Tile(tile) => Ok(Argument::Array(self.in_window(tile, value, window))),
            Repr::Affine(_) | Repr::Condition(_) => {
                let at = self.array(value, self.len(value))?;
                let tile = Tile { at, slot: None, windowed: false };
                Ok(Argument::Array(self.in_window(tile, value, window)))
            }
            Repr::View(_) | Repr::Matrix(_) => Err(self.internal("no tile as an element-wise operand")),
        }
    }

    /// The address of an operand; a scalar is written out.
    fn written_out(&mut self, value: Value, window: Window) -> Result<ir::Value> {
        let bits = match self.argument(value, window)? {
            Argument::Array(at) => return Ok(at),
            Argument::Scalar(bits) => bits,
        };
        let elem = self.kernel.ty(value).elem();
        let at = self.temporary(window.most * elem.bytes() as usize);
        self.call(PrimitiveKey::Splat(elem), &[at, bits, window.count])?;
        Ok(at)
    }

    fn in_window(&mut self, tile: Tile, value: Value, window: Window) -> ir::Value {
        match window.start {
            Some(start) if !tile.windowed => {
                let bytes = self.asm.mul_const(start, self.kernel.ty(value).elem().bytes().into());
                self.asm.add(tile.at, bytes)
            }
            _ => tile.at,
        }
    }

    /// Where a member writes: the memory its result has been given, or new memory. Not that of an
    /// operand after its last use: primitives are faster from one place to another.
    fn destination(&mut self, op: Op, window: Window) -> ir::Value {
        let result = self.kernel.op(op).results[0];
        if let Ok(&Repr::Tile(tile)) = self.repr(result) {
            return self.in_window(tile, result, window);
        }
        if let Some(tile) = self.preferred.get(&result).copied() {
            self.set(result, Repr::Tile(tile));
            return tile.at;
        }
        let bytes = window.most * self.kernel.ty(result).elem().bytes() as usize;
        let windowed = window.start.is_some();
        let slot = self.arena.take(bytes);
        let at = self.slot_address(slot);
        self.set(result, Repr::Tile(Tile { at, slot: Some(slot), windowed }));
        at
    }
}

fn data_elem(kernel: &Kernel, store: Op) -> kiln_ir::Scalar {
    kernel.ty(kernel.op(store).view()).elem()
}

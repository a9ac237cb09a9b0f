//! The state of code generation, and the walk over a kernel's operations.
//!
//! Scalars are Cranelift values. Tiles are pointers: into the worker's scratch memory, or to where
//! a load found them. A tile whose elements are all the same is kept as a scalar (a *splat*). Views
//! are their address, extents and strides. Every operation on tiles becomes a call of a primitive.

use super::arena::{Arena, Slot};
use super::asm::{Asm, scalar_type};
use super::liveness::{self, Liveness};
use super::pending::Group;
use super::repr::{Matrix, Repr, Tile, View};
use super::streamed::streamed_stores;
use super::{Blocking, Source};
use crate::copies::{AddedView, added_views};
use crate::frame::Frame;
use crate::site::{Site, SiteKind};
use crate::spmd::{LaneSpace, Lockstep};
use crate::symbol::Function;
use cranelift_codegen::ir::{self, InstBuilder, types};
use kiln_backend::{BufferBinding, Error, Result};
use kiln_cpu_primitives::PrimitiveKey;
use kiln_ir::{
    Axis, Block, IntFact, Kernel, Literal, Loc, Op, OpData, OpKind, Param, ReduceOp, Scalar, Shape, Value,
};
use std::collections::HashMap;
use std::mem::{offset_of, size_of};

/// Code generation for one kernel.
pub(super) struct Emitter<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) asm: Asm<'a>,
    pub(super) live: Liveness,
    pub(super) arena: Arena,
    pub(super) group: Group,
    /// Places of the kernel that may fault or print.
    pub(super) sites: Vec<Site>,
    /// Memory that generated code refers to by address.
    pub(super) constants: Vec<Box<[i64]>>,
    /// Where a tile is to be made, for those that a loop carries.
    pub(super) preferred: HashMap<Value, Tile>,
    /// Values of lanes that are known now.
    pub(super) known: HashMap<Value, Vec<Literal>>,
    /// The views that may be copies.
    pub(super) added: Vec<(Value, AddedView)>,
    /// The stores that may go past the caches.
    pub(super) streamed: Vec<Op>,
    /// The address of the frame.
    pub(super) frame: ir::Value,
    /// What the kernel was made from, if it was written for threads.
    pub(super) lockstep: Option<&'a Lockstep>,
    /// The places of its lanes.
    pub(super) space: Option<LaneSpace>,
    /// How tiles pass through the caches.
    pub(super) blocking: Blocking,
    /// Returns 1: after a fault.
    pub(super) exit: ir::Block,
    scratch: ir::Value,
    reprs: Vec<Option<Repr>>,
    temporaries: Vec<Slot>,
    /// The operation that is being emitted.
    at: Option<Op>,
}

impl<'a> Emitter<'a> {
    /// Begins the function: its entry block, the parameters, the exit.
    pub(super) fn new(source: Source<'a>, mut asm: Asm<'a>) -> Emitter<'a> {
        let Source { kernel, lockstep, blocking } = source;
        let entry = asm.fb.create_block();
        asm.fb.append_block_params_for_function_params(entry);
        asm.enter(entry);
        let frame = asm.fb.block_params(entry)[0];
        let scratch = asm.load(types::I64, frame, offset_of!(Frame, scratch) as i32);
        let exit = asm.fb.create_block();
        asm.fb.set_cold_block(exit);
        let live = Liveness::of(kernel);
        let added = added_views(kernel, |value| live.is_used(value));
        let mut emitter = Emitter {
            kernel,
            asm,
            live,
            added,
            streamed: streamed_stores(kernel),
            arena: Arena::default(),
            group: Group::default(),
            sites: Vec::new(),
            constants: Vec::new(),
            preferred: HashMap::new(),
            known: HashMap::new(),
            frame,
            lockstep,
            // One lane is a scalar.
            space: lockstep.map(|l| l.space).filter(|space| space.lanes() > 1),
            blocking,
            exit,
            scratch,
            reprs: vec![None; kernel.counts().0],
            temporaries: Vec::new(),
            at: None,
        };
        emitter.parameters();
        emitter
    }

    /// Emits the whole kernel.
    pub(super) fn function(&mut self) -> Result<()> {
        self.body(self.kernel.body)?;
        self.asm.return_status(0);
        self.asm.enter(self.exit);
        self.asm.return_status(1);
        Ok(())
    }

    fn parameters(&mut self) {
        let numbers = self.asm.load(types::I64, self.frame, offset_of!(Frame, numbers) as i32);
        let buffers = self.asm.load(types::I64, self.frame, offset_of!(Frame, buffers) as i32);
        let kernel = self.kernel;
        let (mut number, mut buffer) = (0, 0);
        for (param, &value) in kernel.params.iter().zip(&kernel.block(kernel.body).args) {
            let repr = match param.ty.as_view() {
                Some(view) => {
                    let base = self.base(buffers, buffer);
                    buffer += 1;
                    Repr::View(self.parameter_view(param, view.rank as usize, base, (numbers, number)))
                }
                None => {
                    let bits = self.asm.load(types::I64, numbers, number * 8);
                    Repr::Scalar(self.asm.of_bits(bits, param.ty.elem()))
                }
            };
            number += param.numbers() as i32;
            self.set(value, repr);
        }
    }

    /// The address of a view's first element, as [`BufferBinding::address`] computes it.
    fn base(&mut self, buffers: ir::Value, index: i32) -> ir::Value {
        let at = index * size_of::<BufferBinding>() as i32;
        let buffer = self.asm.load(types::I64, buffers, at + offset_of!(BufferBinding, buffer.0) as i32);
        let offset = self.asm.load(types::I64, buffers, at + offset_of!(BufferBinding, byte_offset) as i32);
        self.asm.fb.ins().iadd(buffer, offset)
    }

    fn parameter_view(
        &mut self,
        param: &Param,
        rank: usize,
        base: ir::Value,
        (numbers, first): (ir::Value, i32),
    ) -> View {
        let mut axes = |facts: &[IntFact], first: i32| {
            (0..rank)
                .map(|axis| match facts.get(axis).and_then(|fact| fact.equals) {
                    Some(known) => self.asm.int(known),
                    None => self.asm.load(types::I64, numbers, (first + axis as i32) * 8),
                })
                .collect()
        };
        let extents = axes(&param.facts.extents, first);
        let strides = axes(&param.facts.strides, first + rank as i32);
        View { base, extents, strides, elem: param.ty.elem() }
    }

    /// Emits a block's operations, and gives the operands of its terminator if it has one.
    pub(super) fn body(&mut self, block: Block) -> Result<Option<&'a OpData>> {
        let mut terminator = None;
        for &op in &self.kernel.block(block).ops {
            let data = self.kernel.op(op);
            self.at = Some(op);
            if data.kind.is_terminator() {
                self.flush()?;
                terminator = Some(data);
            } else if self.live.is_needed(op)
                && !self.stays_affine(data)?
                && !self.stays_known(data)?
                && !self.join(op)?
            {
                if !self.passes_group(op) {
                    self.flush()?;
                }
                self.operation(op, data)?;
                self.release(op);
            }
        }
        self.flush()?;
        Ok(terminator)
    }

    /// Whether an operation may be emitted before a group that has been collected and not emitted
    /// yet.
    fn passes_group(&self, op: Op) -> bool {
        let data = self.kernel.op(op);
        if let OpKind::Load(_) = data.kind {
            return !self.group.stores_to(self.kernel, data.view());
        }
        let scalar = |v: &Value| {
            let ty = self.kernel.ty(*v);
            ty.is_scalar() || ty.as_view().is_some() || self.live.is_splat(*v)
        };
        self.kernel.is_pure(op) && data.results.iter().chain(&data.operands).all(scalar)
    }

    fn operation(&mut self, op: Op, data: &'a OpData) -> Result<()> {
        use OpKind::*;
        let result = data.results.first().copied();
        match &data.kind {
            Const(literal) => {
                let value = self.constant(*literal);
                self.set_result(result, Repr::Scalar(value));
            }
            ProgramId(axis) => self.frame_field(result, offset_of!(Frame, program), *axis),
            NumPrograms(axis) => self.frame_field(result, offset_of!(Frame, grid), *axis),
            Unary(_) | Binary(_) | Compare(_) | Select | Fma | Cast => self.scalar_operation(data)?,
            Bitcast | Reshape => self.alias(data)?,
            Broadcast => self.broadcast(data)?,
            Transpose(perm) => self.transpose(data, perm)?,
            Reduce { op: ReduceOp::Or, .. } if self.is_condition(data.input()) => self.any_lane(data)?,
            Reduce { op, axis } => {
                if let (ReduceOp::Min, Some(least)) = (op, self.least_lane(data.input())) {
                    let least = self.asm.int(least);
                    self.set_result(result, Repr::Scalar(least));
                    return Ok(());
                }
                let elem = self.kernel.ty(data.input()).elem();
                self.along_axis(data, PrimitiveKey::Reduce(*op, elem), *axis)?;
            }
            Scan { op, axis, reverse, exclusive } => {
                let scalar = self.kernel.ty(data.input()).elem();
                let (op, reverse, exclusive) = (*op, *reverse, *exclusive);
                self.along_axis(data, PrimitiveKey::Scan { op, scalar, reverse, exclusive }, *axis)?;
            }
            Dot(_) => self.dot(data)?,
            Extent(axis) => {
                let extent = self.view(data.view())?.extents[*axis as usize];
                self.set_result(result, Repr::Scalar(extent));
            }
            Stride(axis) => {
                let stride = self.view(data.view())?.strides[*axis as usize];
                self.set_result(result, Repr::Scalar(stride));
            }
            Alloc { elem, shape, .. } => {
                let view = self.allocation(*elem, shape);
                self.set_result(result, Repr::View(view));
            }
            Load(_) => self.load(data)?,
            Store { reuse, .. } => self.store(data, *reuse)?,
            Gather { bounds, masked } => self.gather(data, *bounds, *masked)?,
            Scatter { bounds, masked, .. } => self.scatter(data, *bounds, *masked)?,
            Atomic { op, bounds, masked, .. } => self.atomic(data, *op, *bounds, *masked)?,
            AtomicCas { bounds, .. } => self.atomic_cas(data, *bounds)?,
            OrderedLoad { order, bounds, .. } => self.ordered_load(data, *order, *bounds)?,
            OrderedStore { order, bounds, .. } => self.ordered_store(data, *order, *bounds)?,
            LoadQuad(bounds) => self.load_quad(data, *bounds)?,
            StoreQuad(bounds) => self.store_quad(data, *bounds)?,
            Atomic128 { .. } => self.atomic_128(data)?,
            // The threads of a block run in lockstep on one worker: their accesses are in order
            // already.
            Barrier | WarpBarrier => {}
            Fence(_) => {
                self.asm.fb.ins().fence();
            }
            If => self.if_else(data)?,
            For => self.for_loop(op, data)?,
            While => self.while_loop(op, data)?,
            Assert(message) => self.assert(data, *message)?,
            Print(message) => self.print(data, *message)?,
            FaultRegion => return Err(self.internal("a fault region that is not lowered")),
            Iota | Yield | Condition => return Err(self.internal("an operation out of place")),
            BlockUniform => {
                let first = match *self.repr(data.input())? {
                    Repr::Scalar(scalar) => scalar,
                    Repr::Tile(tile) => {
                        let elem = self.kernel.ty(data.input()).elem();
                        self.asm.load(scalar_type(elem), tile.at, 0)
                    }
                    Repr::Affine(number) => self.asm.uniform_value(number.base),
                    Repr::Condition(_) => {
                        let len = self.len(data.input());
                        let at = self.array(data.input(), len)?;
                        self.asm.load(types::I8, at, 0)
                    }
                    Repr::View(_) | Repr::Matrix(_) => return Err(self.internal("no lanes")),
                };
                self.set_result(result, Repr::Scalar(first));
            }
            Clock(unit) => {
                let now = self.asm.call_own(Function::Clock(*unit), &[], Some(types::I64));
                let now = now.ok_or_else(|| self.internal("no time"))?;
                self.set_result(result, Repr::Scalar(now));
            }
            Sleep => {
                let time = self.scalar(data.duration())?;
                let time = self.asm.fb.ins().uextend(types::I64, time);
                self.asm.call_own(Function::Rest, &[time], None);
            }
            Shuffle(mode) => self.shuffle(data, *mode)?,
            Vote(mode) => self.vote(data, *mode)?,
            ThreadId(_) | BlockDim(_) => {
                return Err(self.internal("a thread operation is left after the lockstep rewrite"));
            }
            Explicit(_)
            | Cluster(_)
            | AsyncCopy(_)
            | GridBarrier
            | InlinePtx(_)
            | Fragment(_)
            | Address
            | Scratch { .. }
            | Linear { .. }
            | PtrLoad { .. }
            | PtrStore { .. }
            | PtrAtomic { .. }
            | PtrAtomicCas { .. }
            | PtrOrderedLoad { .. }
            | PtrOrderedStore { .. }
            | PtrAtomic128 { .. }
            | CheckBounds
            | CheckDivisor
            | BlockCheck(_)
            | DeferFault { .. }
            | Faulted => {
                return Err(self.internal("an operation below the tile level"));
            }
        }
        Ok(())
    }

    fn frame_field(&mut self, result: Option<Value>, field: usize, axis: Axis) {
        let value = self.asm.load(types::I64, self.frame, (field + 8 * axis as usize) as i32);
        self.set_result(result, Repr::Scalar(value));
    }

    /// A scalar constant.
    pub(super) fn constant(&mut self, literal: Literal) -> ir::Value {
        let ins = self.asm.fb.ins();
        match literal.elem() {
            Scalar::F32 => ins.f32const(f32::from_bits(literal.bits() as u32)),
            Scalar::F64 => ins.f64const(f64::from_bits(literal.bits())),
            // Cranelift expects immediates sign-extended or masked to the type; bits are
            // zero-extended.
            elem => ins.iconst(scalar_type(elem), literal.bits() as i64),
        }
    }

    fn allocation(&mut self, elem: Scalar, shape: &Shape) -> View {
        let slot = self.arena.take(shape.len() * elem.bytes() as usize);
        let base = self.slot_address(slot);
        let extents = shape.extents().iter().map(|&e| self.asm.int(e.into())).collect();
        let strides = (0..shape.rank()).map(|i| self.asm.int(liveness::inner_len(shape, i) as i64)).collect();
        View { base, extents, strides, elem }
    }

    fn alias(&mut self, data: &OpData) -> Result<()> {
        let (from, to) = (data.input(), data.results[0]);
        let ty = self.kernel.ty(to);
        let repr = match self.repr(from)?.clone() {
            Repr::Scalar(value) => {
                let bits = self.asm.bits(value);
                Repr::Scalar(self.asm.of_bits(bits, ty.elem()))
            }
            Repr::Tile(tile) if ty.is_scalar() => {
                Repr::Scalar(self.asm.load(scalar_type(ty.elem()), tile.at, 0))
            }
            // The root of the alias owns the slot.
            Repr::Tile(tile) => Repr::Tile(Tile { slot: None, ..tile }),
            // Its root has no memory that it could share, and its own is not given back.
            Repr::Affine(_) | Repr::Condition(_) => {
                let at = self.output(to).at;
                self.write_lanes(at, from)?;
                return Ok(());
            }
            Repr::Matrix(matrix) => {
                Repr::Matrix(Matrix { tile: Tile { slot: None, ..matrix.tile }, ..matrix })
            }
            Repr::View(_) => return Err(self.internal("no tile under another shape")),
        };
        self.set(to, repr);
        Ok(())
    }

    // ---- values

    pub(super) fn repr(&self, value: Value) -> Result<&Repr> {
        self.reprs[value.index()].as_ref().ok_or_else(|| self.internal("a value is used before it is made"))
    }

    pub(super) fn set(&mut self, value: Value, repr: Repr) {
        self.reprs[value.index()] = Some(repr);
    }

    fn set_result(&mut self, result: Option<Value>, repr: Repr) {
        if let Some(result) = result {
            self.set(result, repr);
        }
    }

    /// A scalar value, or the scalar that a splat consists of.
    pub(super) fn scalar(&self, value: Value) -> Result<ir::Value> {
        match self.repr(value)? {
            Repr::Scalar(scalar) => Ok(*scalar),
            _ => Err(self.internal("a scalar was expected")),
        }
    }

    pub(super) fn view(&self, value: Value) -> Result<&View> {
        match self.repr(value)? {
            Repr::View(view) => Ok(view),
            _ => Err(self.internal("a view was expected")),
        }
    }

    /// The address of a tile. A scalar is written out first, `len` times.
    pub(super) fn array(&mut self, value: Value, len: usize) -> Result<ir::Value> {
        let scalar = match self.repr(value)? {
            Repr::Tile(tile) => return Ok(tile.at),
            Repr::Scalar(scalar) => *scalar,
            Repr::Affine(_) | Repr::Condition(_) => {
                let at = self.temporary(liveness::tile_bytes(self.kernel.ty(value)));
                self.write_lanes(at, value)?;
                return Ok(at);
            }
            Repr::View(_) | Repr::Matrix(_) => return Err(self.internal("a tile was expected")),
        };
        let elem = self.kernel.ty(value).elem();
        if len == 1 {
            let at = self.asm.stack(8);
            self.asm.store(scalar, at, 0);
            return Ok(at);
        }
        let at = self.temporary(len * elem.bytes() as usize);
        self.splat(at, scalar, elem, len)?;
        Ok(at)
    }

    /// Writes a scalar `len` times.
    pub(super) fn splat(&mut self, at: ir::Value, scalar: ir::Value, elem: Scalar, len: usize) -> Result<()> {
        let (bits, len) = (self.asm.bits(scalar), self.asm.int(len as i64));
        self.call(PrimitiveKey::Splat(elem), &[at, bits, len]).map(drop)
    }

    /// Copies a tile.
    pub(super) fn copy(&mut self, to: ir::Value, from: ir::Value, elem: Scalar, len: usize) -> Result<()> {
        let len = self.asm.int(len as i64);
        self.call(PrimitiveKey::Copy(elem), &[to, from, len]).map(drop)
    }

    /// Calls a primitive that must exist for a verified kernel; gives its flag if it returns one.
    pub(super) fn call(&mut self, key: PrimitiveKey, args: &[ir::Value]) -> Result<Option<ir::Value>> {
        match self.asm.primitive(key, args) {
            Some(flag) => Ok(flag),
            None => Err(self.unsupported(format!("{key:?}"))),
        }
    }

    // ---- memory

    pub(super) fn slot_address(&mut self, slot: Slot) -> ir::Value {
        self.asm.add_const(self.scratch, slot.offset as i64)
    }

    /// Scratch memory until the operation is done.
    pub(super) fn temporary(&mut self, bytes: usize) -> ir::Value {
        let slot = self.arena.take(bytes);
        self.temporaries.push(slot);
        self.slot_address(slot)
    }

    /// Memory for a tile that an operation makes, which becomes the value's representation.
    pub(super) fn output(&mut self, value: Value) -> Tile {
        let tile = self.preferred.get(&value).copied().unwrap_or_else(|| {
            let slot = self.arena.take(liveness::tile_bytes(self.kernel.ty(value)));
            Tile { at: self.slot_address(slot), slot: Some(slot), windowed: false }
        });
        self.set(value, Repr::Tile(tile));
        tile
    }

    /// Where a value is made: the memory that it has been given, or new memory.
    pub(super) fn made_at(&mut self, value: Value) -> ir::Value {
        match self.repr(value) {
            Ok(&Repr::Tile(tile)) => tile.at,
            _ => self.output(value).at,
        }
    }

    /// Lets `make` write a value, a tile or a scalar, through its address.
    pub(super) fn produce(
        &mut self,
        value: Value,
        make: impl FnOnce(&mut Self, ir::Value) -> Result<()>,
    ) -> Result<()> {
        let ty = self.kernel.ty(value);
        if !ty.is_scalar() {
            let at = self.made_at(value);
            return make(self, at);
        }
        let at = self.asm.stack(8);
        make(self, at)?;
        let scalar = self.asm.load(scalar_type(ty.elem()), at, 0);
        self.set(value, Repr::Scalar(scalar));
        Ok(())
    }

    /// Gives back what nothing uses after an operation.
    pub(super) fn release(&mut self, op: Op) {
        self.release_temporaries();
        for index in 0..self.live.dead_after(op).len() {
            let value = self.live.dead_after(op)[index];
            self.free(value);
        }
    }

    /// Gives back the scratch memory of an operation that is done.
    pub(super) fn release_temporaries(&mut self) {
        for slot in std::mem::take(&mut self.temporaries) {
            self.arena.give(slot);
        }
    }

    /// Gives a value's slot back, if it has one.
    pub(super) fn free(&mut self, value: Value) {
        if let Some(slot) = self.take_slot(value) {
            self.arena.give(slot);
        }
    }

    /// Takes a value's slot away from it.
    pub(super) fn take_slot(&mut self, value: Value) -> Option<Slot> {
        match &mut self.reprs[value.index()] {
            Some(Repr::Tile(tile) | Repr::Matrix(Matrix { tile, .. })) => tile.slot.take(),
            _ => None,
        }
    }

    // ---- reports

    /// From now on, reports point at an operation; gives what they pointed at before.
    pub(super) fn locate(&mut self, op: Option<Op>) -> Option<Op> {
        std::mem::replace(&mut self.at, op)
    }

    fn location(&self) -> String {
        self.kernel.describe(self.at.map_or(Loc::default(), |op| self.kernel.op(op).loc))
    }

    /// Adds a place that may fault or print.
    pub(super) fn site(&mut self, kind: SiteKind) -> ir::Value {
        let lanes = self.lockstep.filter(|l| self.at.is_none_or(|op| !l.collective.contains(&op)));
        self.sites.push(Site { kind, location: self.location(), block: lanes.map(|l| l.block) });
        self.asm.int(self.sites.len() as i64 - 1)
    }

    pub(super) fn internal(&self, message: &str) -> Error {
        let message = format!("{message}, in `{}` at {}", self.kernel.name, self.location());
        Error::Internal { place: "kiln-cpu", message }
    }

    pub(super) fn unsupported(&self, what: String) -> Error {
        Error::Unsupported {
            kernel: self.kernel.name.clone(),
            what,
            device: "cpu".into(),
            location: self.location(),
            hint: "Use another element type or operation here.".into(),
        }
    }
}

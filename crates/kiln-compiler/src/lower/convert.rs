//! From one layout to another, and the traffic with scratch memory.

use super::barriers::Does;
use super::layouts::LayoutId;
use super::scratch::Area;
use super::{Lowering, Registers};
use crate::error::CompileError;
use crate::layout::{Conversion, Layout, Linear, Route, Staging};
use kiln_ir::{BinaryOp, OpKind, Reuse, Scalar, ShuffleMode, Space, Type, Value};

impl Lowering<'_> {
    /// The registers of a tile in another layout.
    pub(super) fn convert(
        &mut self,
        registers: &Registers,
        from: LayoutId,
        to: LayoutId,
    ) -> Result<Registers, CompileError> {
        let (from, to) = (self.layout(from), self.layout(to));
        let elem = self.em.elem(registers[0]);
        let conversion = Conversion::between(&from, &to, elem.bytes());
        let count = to.registers() as u32;
        let converted: Vec<Value> = match conversion.route {
            Route::Registers { registers: map } => {
                (0..count).map(|r| registers[map.apply(r) as usize]).collect()
            }
            Route::Select { registers: map, thread } => {
                (0..count).map(|r| self.select_register(registers, map.apply(r), &thread)).collect()
            }
            Route::Shuffle { registers: map, register_lanes, lanes } => {
                let lane = self.source_lane(&lanes);
                (0..count)
                    .map(|r| {
                        let shift = self.em.i64(register_lanes.apply(r).into());
                        let lane = self.em.binary(BinaryOp::Xor, lane, shift);
                        let value = registers[map.apply(r) as usize];
                        self.em.one(OpKind::Shuffle(ShuffleMode::Index), &[value, lane], elem)
                    })
                    .collect()
            }
            Route::Scratch(staging) => {
                let area = self.scratch.area(staging.size, self.em.loc);
                self.stage(area, staging, &from, registers);
                self.unstage(area, staging, &to, elem)
            }
        };
        Ok(converted.into())
    }

    /// The register whose index is `at` exclusive-or what each set bit of the thread index adds: a
    /// tree of selections.
    fn select_register(&mut self, registers: &Registers, at: u32, thread: &[u32]) -> Value {
        let Some((bit, base)) = thread.iter().enumerate().find(|(_, b)| **b != 0) else {
            return registers[at as usize];
        };
        let mut rest = thread.to_vec();
        rest[bit] = 0;
        let clear = self.select_register(registers, at, &rest);
        let set = self.select_register(registers, at ^ base, &rest);
        match self.em.thread_is_first(1 << bit) {
            Some(is_clear) => self.em.select(is_clear, clear, set),
            None => clear,
        }
    }

    /// The lane to read from, as an i64, for a linear map of this thread's lane.
    fn source_lane(&mut self, lanes: &Linear) -> Value {
        let mut bases = lanes.bases().to_vec();
        bases.resize(bases.len() + self.plan.warps.trailing_zeros() as usize, 0);
        let lane = self.em.linear(&bases);
        self.em.hoisted(|e| e.cast(lane, Scalar::I64))
    }

    /// Writes a tile to scratch memory: each element once.
    pub(super) fn stage(&mut self, area: Area, staging: Staging, layout: &Layout, registers: &[Value]) {
        let first = self.em.thread_is_first(layout.copies());
        let base = self.staged_thread(area, staging, layout);
        for members in vectors(staging, layout) {
            let distance = staging.offset(layout.register_index(members[0]));
            let values: Vec<Value> = members.iter().map(|&r| registers[r]).collect();
            self.scratch_store(area, base, distance, first, &values);
        }
    }

    /// Reads a tile from scratch memory.
    fn unstage(&mut self, area: Area, staging: Staging, layout: &Layout, elem: Scalar) -> Vec<Value> {
        let base = self.staged_thread(area, staging, layout);
        let mut registers = vec![base; layout.registers()];
        for members in vectors(staging, layout) {
            let distance = staging.offset(layout.register_index(members[0]));
            let loaded = self.scratch_load(area, base, distance, elem, members.len());
            for (&register, value) in members.iter().zip(loaded) {
                registers[register] = value;
            }
        }
        registers
    }

    /// The address of this thread's register 0 in a staged tile.
    pub(super) fn staged_thread(&mut self, area: Area, staging: Staging, layout: &Layout) -> Value {
        let flat = self.em.linear(&layout.thread());
        let distance = self.em.hoisted(|e| {
            let size = e.i32(staging.bytes.into());
            let packed = e.mul(flat, size);
            if staging.pad == 0 {
                return packed;
            }
            let (after, pad) = (e.i32(staging.pad_after.into()), e.i32(staging.pad.into()));
            let rows = e.binary(BinaryOp::Shr, flat, after);
            let padding = e.mul(rows, pad);
            e.add(packed, padding)
        });
        self.scratch_at(area, distance)
    }

    /// The address in an area of a thread whose element index is linear in the bits of the thread
    /// index.
    pub(super) fn scratch_thread(&mut self, area: Area, bases: &[u32], bytes: u32) -> Value {
        let index = self.em.linear(bases);
        let distance = self.em.hoisted(|e| {
            let bytes = e.i32(bytes.into());
            e.mul(index, bytes)
        });
        self.scratch_at(area, distance)
    }

    /// The address of a byte of an area.
    pub(super) fn scratch_at(&mut self, area: Area, distance: Value) -> Value {
        let kind = OpKind::Scratch { offset: area.offset };
        let op = self.em.op(kind, &[], &[Type::scalar(Scalar::U64)]);
        self.scratch.addressed(area, op);
        let base = self.em.kernel.result(op);
        let distance = self.em.cast(distance, Scalar::U64);
        self.em.add(base, distance)
    }

    /// Writes adjacent elements at a distance from an address in an area.
    pub(super) fn scratch_store(
        &mut self,
        area: Area,
        base: Value,
        distance: u32,
        predicate: Option<Value>,
        values: &[Value],
    ) {
        let distance = self.em.int(Scalar::U64, distance.into());
        let address = self.em.add(base, distance);
        let op = self.ptr_store(Space::Shared, Reuse::Normal, address, predicate, values);
        self.accesses.note(op, area.written(), Does::Write);
    }

    /// Reads adjacent elements at a distance from an address in an area.
    pub(super) fn scratch_load(
        &mut self,
        area: Area,
        base: Value,
        distance: u32,
        elem: Scalar,
        lanes: usize,
    ) -> Vec<Value> {
        let distance = self.em.int(Scalar::U64, distance.into());
        let address = self.em.add(base, distance);
        let op = self.ptr_load(Space::Shared, elem, lanes, Reuse::Normal, address, None);
        self.accesses.note(op, area.read(), Does::Read);
        self.em.kernel.op(op).results.to_vec()
    }

    /// Gives every thread what the first of those that share its elements has: the results of an
    /// operation that only the first performed.
    pub(super) fn share(&mut self, layout: LayoutId, registers: Vec<Value>) -> Vec<Value> {
        let layout = self.layout(layout);
        if layout.copies() == 0 {
            return registers;
        }
        let elem = self.em.elem(registers[0]);
        let staging = Staging::packed(1 << layout.linear().rank(), elem.bytes());
        let area = self.scratch.area(staging.size, self.em.loc);
        self.stage(area, staging, &layout, &registers);
        self.unstage(area, staging, &layout, elem)
    }
}

/// The registers of each vector in which a tile is moved to or from scratch memory, in order of the
/// elements.
fn vectors(staging: Staging, layout: &Layout) -> Vec<Vec<usize>> {
    let length = staging.vector(layout);
    let step = (0..length.trailing_zeros()).map(|bit| layout.find_register(1 << bit)).sum::<usize>();
    let firsts = (0..layout.registers()).filter(|r| r & step == 0);
    firsts.map(|first| (0..length).map(|k| first | layout.find_register(k)).collect()).collect()
}

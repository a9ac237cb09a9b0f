//! From one layout to another, and the traffic with scratch memory.

use super::barriers::Does;
use super::layouts::LayoutId;
use super::scratch::Area;
use super::{Lowering, Registers};
use crate::error::CompileError;
use crate::layout::{Conversion, Layout, Linear, Route, Staging};
use kiln_ir::{BinaryOp, OpKind, Reuse, Scalar, Space, Type, Value};

/// A place in scratch memory where threads exchange elements.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub area: Area,
    /// The area as a view of the elements.
    pub view: Value,
    /// An i32: elements from the beginning of the area.
    pub index: Value,
}

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
        let conversion = Conversion::between(&from, &to, elem.bytes(), &self.plan.cost);
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
                        self.read_lane(value, lane)
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
        let elem = self.em.elem(registers[0]);
        let mine = self.staged_thread(area, elem, staging, layout);
        for members in vectors(staging, layout) {
            let distance = staging.index(layout.register_index(members[0]));
            let values: Vec<Value> = members.iter().map(|&r| registers[r]).collect();
            self.scratch_store(mine, distance, first, &values);
        }
    }

    /// Reads a tile from scratch memory.
    fn unstage(&mut self, area: Area, staging: Staging, layout: &Layout, elem: Scalar) -> Vec<Value> {
        let mine = self.staged_thread(area, elem, staging, layout);
        let mut registers = vec![mine.index; layout.registers()];
        for members in vectors(staging, layout) {
            let distance = staging.index(layout.register_index(members[0]));
            let loaded = self.scratch_load(mine, distance, members.len());
            for (&register, value) in members.iter().zip(loaded) {
                registers[register] = value;
            }
        }
        registers
    }

    /// The place of this thread's register 0 in a staged tile.
    fn staged_thread(&mut self, area: Area, elem: Scalar, staging: Staging, layout: &Layout) -> Exchange {
        let flat = self.em.linear(&layout.thread());
        let index = self.em.hoisted(|e| {
            if staging.pad == 0 {
                return flat;
            }
            let (after, pad) = (e.i32(staging.pad_after.into()), e.i32((staging.pad / staging.bytes).into()));
            let rows = e.binary(BinaryOp::Shr, flat, after);
            let padding = e.mul(rows, pad);
            e.add(flat, padding)
        });
        Exchange { index, ..self.exchange(area, elem) }
    }

    /// The place in an area of a thread whose index is `pitch` elements times what the bits of the
    /// thread index sum to.
    pub(super) fn scratch_thread(&mut self, area: Area, elem: Scalar, bases: &[u32], pitch: u32) -> Exchange {
        let index = self.em.linear(bases);
        let index = self.em.hoisted(|e| {
            let pitch = e.i32(pitch.into());
            e.mul(index, pitch)
        });
        Exchange { index, ..self.exchange(area, elem) }
    }

    /// The place of the first element of an area.
    pub(super) fn exchange(&mut self, area: Area, elem: Scalar) -> Exchange {
        let kind = OpKind::Scratch { offset: area.offset };
        let op = self.em.op(kind, &[], &[Type::view(elem, 1, Space::Shared)]);
        self.scratch.addressed(area, op);
        Exchange { area, view: self.em.kernel.result(op), index: self.em.i32(0) }
    }

    /// The address of an area.
    pub(super) fn scratch_address(&mut self, area: Area) -> Value {
        let op = self.em.op(OpKind::Scratch { offset: area.offset }, &[], &[Type::scalar(Scalar::U64)]);
        self.scratch.addressed(area, op);
        self.em.kernel.result(op)
    }

    /// Writes adjacent elements at a distance from a place.
    pub(super) fn scratch_store(
        &mut self,
        place: Exchange,
        distance: u32,
        predicate: Option<Value>,
        values: &[Value],
    ) {
        let distance = self.em.i32(distance.into());
        let index = self.em.add(place.index, distance);
        let op = self.view_store((place.view, index), Reuse::Normal, predicate, values);
        self.accesses.record(op, place.area.written(), Does::Write);
    }

    /// Reads adjacent elements at a distance from a place.
    pub(super) fn scratch_load(&mut self, place: Exchange, distance: u32, lanes: usize) -> Vec<Value> {
        let distance = self.em.i32(distance.into());
        let index = self.em.add(place.index, distance);
        let op = self.view_load((place.view, index), lanes, Reuse::Normal, None);
        self.accesses.record(op, place.area.read(), Does::Read);
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

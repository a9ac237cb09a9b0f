//! Reductions: in registers, then among lanes by shuffles, then among warps through scratch memory.
//! Every thread that needs a result ends up with it.

use super::Lowering;
use super::combine::{Combiner, Partial};
use super::layouts::LayoutId;
use crate::error::CompileError;
use crate::layout::{AxisBits, Layout};
use kiln_ir::{Op, OpData, OpKind, Value};
use smallvec::SmallVec;

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Reduce { op: kind, axis } = data.kind else { return Ok(()) };
        let (operand, result) = (data.input(), data.results[0]);
        let shape = self.src.shape(operand);
        let place = AxisBits::of(&shape, axis as usize);
        let from = self.plan.input(op, 0);
        let registers = self.operand(operand, from)?;
        let layout = self.layout(from);
        let combiner = Combiner::new(kind, self.src.ty(operand).elem());
        let slice = layout.without(&shape, axis as usize);

        let mut partials = self.reduce_registers(combiner, place, &layout, &slice, &registers)?;
        for (bit, &base) in layout.lane().iter().enumerate() {
            if place.touches(base) {
                for partial in &mut partials {
                    let other = self.lanes_xor(partial, 1 << bit);
                    *partial = combiner.join(&mut self.em, partial, &other);
                }
            }
        }
        if layout.warp().iter().any(|&base| place.touches(base)) {
            partials = self.reduce_warps(combiner, place, &layout, &slice, &partials)?;
        }
        let elem = self.src.ty(result).elem();
        let results = partials.iter().map(|p| combiner.end(&mut self.em, p, elem)).collect();
        let made: LayoutId = self.plan.intern(slice);
        self.define(result, made, results)
    }

    /// Combines the registers of each thread: one partial result for each register of the slice.
    fn reduce_registers(
        &mut self,
        combiner: Combiner,
        place: AxisBits,
        layout: &Layout,
        slice: &Layout,
        registers: &[Value],
    ) -> Result<Vec<Partial>, CompileError> {
        let mut members: Vec<Vec<(u32, usize)>> = vec![Vec::new(); slice.registers()];
        for r in 0..registers.len() {
            let flat = layout.register_index(r);
            members[slice.find_register(place.remove(flat))].push((place.coordinate(flat), r));
        }
        let bases: Vec<u32> = layout.thread().iter().map(|&b| place.coordinate(b)).collect();
        let mut partials = Vec::with_capacity(members.len());
        for mut list in members {
            list.sort_unstable();
            let list = list
                .into_iter()
                .map(|(at, r)| {
                    combiner.begin(&mut self.em, registers[r], |em| {
                        let thread = em.linear(&bases);
                        let at = em.i32(at.into());
                        em.hoisted(|em| em.add(thread, at))
                    })
                })
                .collect();
            let joined = combiner.join_all(&mut self.em, list, true);
            partials.push(joined.ok_or_else(|| self.internal("a reduction of nothing".into()))?);
        }
        Ok(partials)
    }

    /// Each warp leaves its partial results in scratch memory, side by side for one element; then
    /// every thread combines them.
    fn reduce_warps(
        &mut self,
        combiner: Combiner,
        place: AxisBits,
        layout: &Layout,
        slice: &Layout,
        partials: &[Partial],
    ) -> Result<Vec<Partial>, CompileError> {
        let along: SmallVec<[bool; 5]> = layout.warp().iter().map(|&b| place.touches(b)).collect();
        let shift = along.iter().filter(|a| **a).count() as u32;
        let count = 1usize << shift;
        let elements = 1u32 << slice.linear().rank();
        // The thread's place: the element's index above, the warp's among those along the axis
        // below.
        let mut element: Vec<u32> = slice.thread().iter().map(|b| b << shift).collect();
        let reader = element.clone();
        let mut next = 1;
        for (bit, _) in along.iter().enumerate().filter(|(_, a)| **a) {
            element[layout.lane().len() + bit] = next;
            next <<= 1;
        }
        // Lanes along the axis agree by now: one writes.
        let lanes = layout.lane().iter().enumerate().filter(|(_, b)| place.touches(**b));
        let silent = layout.copies() | lanes.map(|(bit, _)| 1u32 << bit).sum::<u32>();
        let writes = self.em.thread_is_first(silent);

        let types = combiner.types();
        let sizes = types.iter().map(|e| (elements * count as u32 * e.bytes()).next_multiple_of(16));
        let mut rest = self.scratch.area(sizes.clone().sum(), self.em.loc);
        let mut sides = Vec::new();
        for (size, &elem) in sizes.zip(&types) {
            let (area, after) = rest.split(size);
            sides.push((area, elem));
            rest = after;
        }
        for (component, &(area, elem)) in sides.iter().enumerate() {
            let place = self.scratch_thread(area, elem, &element, 1);
            for (q, partial) in partials.iter().enumerate() {
                let distance = slice.register_index(q) << shift;
                self.scratch_store(place, distance, writes, &[partial[component]]);
            }
        }
        let mut read: Vec<Vec<Partial>> = vec![vec![Partial::new(); count]; partials.len()];
        for &(area, elem) in &sides {
            let place = self.scratch_thread(area, elem, &reader, 1);
            let vector = ((16 / elem.bytes()) as usize).min(count);
            for (q, list) in read.iter_mut().enumerate() {
                for from in (0..count).step_by(vector) {
                    let at = (slice.register_index(q) << shift) + from as u32;
                    let loaded = self.scratch_load(place, at, vector);
                    for (partial, value) in list[from..].iter_mut().zip(loaded) {
                        partial.push(value);
                    }
                }
            }
        }
        let joined = read.into_iter().map(|list| combiner.join_all(&mut self.em, list, false));
        joined.collect::<Option<_>>().ok_or_else(|| self.internal("a reduction of nothing".into()))
    }

    /// The partial result of the lane whose number differs in these bits.
    pub(super) fn lanes_xor(&mut self, partial: &Partial, by: u32) -> Partial {
        partial.iter().map(|&value| self.lane_xor(value, by)).collect()
    }
}

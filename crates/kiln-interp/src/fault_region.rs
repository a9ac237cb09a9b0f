//! Fault regions: threads that have had a fault take no part in the rest of the region.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::stopped::ActiveRegion;
use crate::trap::Trap;
use kiln_backend::Error;
use kiln_ir::{BUDGET_EXCEEDED, Literal, Op, OpData, OpKind, Scalar, Value};
use std::borrow::Cow;

impl Machine<'_> {
    /// Executes a fault region, and gives each thread what it yields or the fallbacks.
    pub fn run_fault_region(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let budgets = self.data(data.budget());
        let outer = self.active_regions.last();
        let limit = |lane| match budgets.bits(lane) {
            0 => i64::MAX,
            budget => budget as i64,
        };
        let left: Vec<i64> = (0..mask.width())
            .map(|lane| outer.map_or(i64::MAX, |outer| outer.left[lane]).min(limit(lane)))
            .collect();
        let record = self.kernel.fault_record(data);
        let region = ActiveRegion { sites: vec![0; mask.width()], left: left.clone(), record };
        self.active_regions.push(region);
        let ran = self.run_block(data.regions[0], mask);
        let Some(region) = self.active_regions.pop() else { return ran };
        ran?;
        let results = &data.results[1..];
        let yields = self.yields(data.regions[0]);
        for (values, faulted) in [(yields, false), (self.kernel.fault_fallbacks(data), true)] {
            let active = mask.filter(|lane| (region.sites[lane] != 0) == faulted);
            if !active.is_empty() {
                self.assign(results, values, &active, data)?;
            }
        }
        let site = data.results[0];
        let mut out = std::mem::take(&mut self.registers[site.index()]);
        let set = u32::of_mut(&mut out).map(|out| {
            mask.lanes().for_each(|lane| out[lane] = region.sites[lane]);
        });
        self.registers[site.index()] = out;
        set.map_err(|trap| self.error(trap, data.loc))?;
        if let Some(outer) = self.active_regions.last_mut() {
            let over = outer.take(mask, |lane| left[lane] - region.left[lane]);
            self.exceed(mask, over, self.concerns_block(op));
        }
        Ok(())
    }

    /// An operation inside a fault region, or of a block that threads have left, in those that had
    /// no fault yet.
    pub fn run_in_fault_region(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let mask = &self.unfaulted(mask).into_owned();
        if mask.is_empty() {
            return Ok(());
        }
        if !self.run_regions(op, data, mask)? {
            match self.step_in_fault_region(op, data, mask) {
                Ok(()) => {}
                Err(trap) => self.trapped(trap, data, mask)?,
            }
        }
        if !data.regions.is_empty() && self.concerns_block(op) {
            let site = self.active_regions.last().and_then(|r| mask.lanes().map(|lane| r.sites[lane]).max());
            self.fault(mask, site.unwrap_or(0));
        }
        Ok(())
    }

    fn step_in_fault_region(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let site = self.loaded.fault_regions.as_ref().map_or(0, |r| r.site(op));
        if site == 0 {
            return self.step(op, data, mask);
        }
        let faulting = self.faulting(data, mask)?;
        let fine = mask.filter(|lane| !faulting.has(lane));
        let concerned = if self.concerns_block(op) { mask } else { &faulting };
        if !faulting.is_empty() {
            self.record_fault(data, &faulting, site)?;
            self.fault(concerned, site);
        }
        if fine.is_empty() { Ok(()) } else { self.step(op, data, &fine) }
    }

    /// The threads in which an operation would fault: all of them if it works on a tile.
    fn faulting(&self, data: &OpData, mask: &Mask) -> Result<Mask, Trap> {
        let (faults, tile): (Vec<bool>, bool) = if let OpKind::Assert(_) = data.kind {
            let holds = bool::of(self.data(data.condition()))?;
            (holds.iter().map(|&holds| !holds).collect(), self.is_tile(data.condition()))
        } else if let OpKind::Binary(_) = data.kind {
            let divisor = self.data(data.right());
            let faults = (0..divisor.len()).map(|at| divisor.bits(at) == 0).collect();
            (faults, self.is_tile(data.right()))
        } else {
            self.outside(data)?
        };
        Ok(match tile {
            true if faults.contains(&true) => mask.clone(),
            true => mask.filter(|_| false),
            false => mask.filter(|lane| faults[lane]),
        })
    }

    /// Which elements of a checked access lie outside the view, and whether it is one of tiles.
    fn outside(&self, data: &OpData) -> Result<(Vec<bool>, bool), Trap> {
        let view = self.view(data.view())?;
        let (indices, rest) = (data.coordinates(), data.access_values());
        let tile = data.results.first().or(rest.last()).is_some_and(|&v| self.is_tile(v));
        let len = rest.last().map_or(0, |&v| self.data(v).len());
        let len = data.results.first().map_or(len, |&v| self.data(v).len());
        let mut outside = vec![false; len];
        for (&index, &extent) in indices.iter().zip(&view.extents) {
            for (outside, &index) in outside.iter_mut().zip(self.data(index).indices()?.iter()) {
                *outside |= index < 0 || index >= extent;
            }
        }
        if let Some(chosen) = data.mask() {
            let chosen = bool::of(self.data(chosen))?;
            outside.iter_mut().zip(chosen).for_each(|(outside, &chosen)| *outside &= chosen);
        }
        Ok((outside, tile))
    }

    /// Stores what failed in these threads in the fault region's record.
    fn record_fault(&mut self, data: &OpData, faulting: &Mask, site: u32) -> Result<(), Trap> {
        let Some(record) = self.active_regions.last().and_then(|region| region.record) else { return Ok(()) };
        let view = self.view(record)?.clone();
        for lane in faulting.lanes() {
            let values = self.reported(data, lane)?;
            let room = view.extents[0].max(0) as usize;
            for (at, word) in [u64::from(site)].into_iter().chain(values).take(room).enumerate() {
                let step = view.strides[0].wrapping_mul(at as i64) as u64;
                let address = view.base.wrapping_add(step.wrapping_mul(view.elem_bytes));
                let place = MemoryAccess { space: view.space, address, lane: Some(lane), atomic: false };
                self.spaces.write(place, &[word])?;
            }
        }
        Ok(())
    }

    /// The values that a failing check reports in a thread, as a record holds them.
    fn reported(&self, data: &OpData, lane: usize) -> Result<Vec<u64>, Trap> {
        if let OpKind::Assert(_) = data.kind {
            return Ok(data.shown().iter().map(|&v| self.recorded(v, lane)).collect());
        }
        if let OpKind::Binary(_) = data.kind { Ok(Vec::new()) } else { self.first_outside(data, lane) }
    }

    fn recorded(&self, value: Value, lane: usize) -> u64 {
        let value = Literal::from_bits(self.kernel.ty(value).elem(), self.data(value).bits(lane));
        match kiln_ir::recorded(value.elem()) {
            Scalar::F32 => Literal::f32(value.as_f64() as f32).bits(),
            Scalar::I64 | Scalar::U64 => value.as_i128() as u64,
            _ => value.bits(),
        }
    }

    /// The index and the extent of the first axis that a checked access leaves; of a tile, the
    /// least such index.
    fn first_outside(&self, data: &OpData, lane: usize) -> Result<Vec<u64>, Trap> {
        let view = self.view(data.view())?;
        let (outside, tile) = self.outside(data)?;
        let elements = if tile { 0..outside.len() } else { lane..lane + 1 };
        for (&index, &extent) in data.coordinates().iter().zip(&view.extents) {
            let here = |at| self.recorded(index, at) as i64;
            let leaves = |at: &usize| outside[*at] && !(0..extent).contains(&here(*at));
            let least = elements.clone().filter(leaves).map(here).min();
            if let Some(index) = least {
                return Ok(vec![index as u64, extent as u64]);
            }
        }
        Ok(Vec::new())
    }

    fn concerns_block(&self, op: Op) -> bool {
        self.loaded.fault_regions.as_ref().is_some_and(|r| r.concerns_block(op))
    }

    fn fault(&mut self, threads: &Mask, site: u32) {
        if let Some(region) = self.active_regions.last_mut() {
            region.fault(threads, site);
        }
    }

    /// Ends the innermost fault region for threads that took too many steps.
    fn exceed(&mut self, mask: &Mask, over: Mask, together: bool) {
        if !over.is_empty() {
            self.fault(if together { mask } else { &over }, BUDGET_EXCEEDED);
        }
    }

    /// The threads of a set that have had no fault: in the innermost fault region, or that they
    /// left with.
    pub fn unfaulted<'m>(&self, mask: &'m Mask) -> Cow<'m, Mask> {
        match (self.active_regions.last(), &self.left) {
            (Some(region), _) => Cow::Owned(mask.filter(|lane| region.sites[lane] == 0)),
            (None, Some(left)) => Cow::Owned(mask.filter(|lane| left.here.has(lane))),
            (None, None) => Cow::Borrowed(mask),
        }
    }

    /// The end of a round of a loop.
    pub fn take_step(&mut self, op: Op, mask: &Mask) {
        let mask = self.unfaulted(mask).into_owned();
        if let Some(region) = self.active_regions.last_mut() {
            let over = region.take(&mask, |_| 1);
            let together = self.loaded.fault_regions.as_ref().is_some_and(|r| r.rounds_concern_block(op));
            self.exceed(&mask, over, together);
        }
    }
}

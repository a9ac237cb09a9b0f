//! Structured control flow under masks.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_backend::{Error, FaultKind};
use kiln_ir::numeric::Element;
use kiln_ir::{Block, Op, OpData, OpKind, Value};

impl Machine<'_> {
    /// Runs the regions of an operation; false if it is one without, which `step` names.
    pub fn run_regions(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<bool, Error> {
        if data.kind == OpKind::If {
            self.run_if(data, mask)?;
        } else if data.kind == OpKind::For {
            self.run_for(op, data, mask)?;
        } else if data.kind == OpKind::While {
            self.run_while(op, data, mask)?;
        } else if data.kind == OpKind::FaultRegion {
            self.run_fault_region(op, data, mask)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A fault at the loop whose round is over if the launch has run for too long.
    pub fn check_time(&mut self, data: &OpData) -> Result<(), Error> {
        let Some(limit) = self.time.exceeded() else { return Ok(()) };
        Err(self.error(Trap::Fault { kind: FaultKind::LaunchLimit { limit }, lane: None }, data.loc))
    }

    /// Runs the arms that some active thread takes.
    pub fn run_if(&mut self, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let cond = self.predicate(data.condition(), data)?;
        for (&arm, taken) in data.regions.iter().zip([true, false]) {
            let active = mask.filter(|lane| cond[lane] == taken);
            if !active.is_empty() {
                self.run_block(arm, &active)?;
                self.assign(&data.results, self.yields(arm), &active, data)?;
            }
        }
        Ok(())
    }

    /// Runs the body while any active thread has trips left.
    pub fn run_for(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let (bounds, inits) = data.operands.split_at(3);
        let body = data.regions[0];
        let args = &self.kernel.block(body).args;
        let (iv, carried) = (args[0], &args[1..]);
        let trips = self.trip_counts(bounds).map_err(|trap| self.error(trap, data.loc))?;
        self.assign(carried, inits, mask, data)?;
        for trip in 0.. {
            let active = self.unfaulted(mask).filter(|lane| trip < trips[lane]);
            if active.is_empty() {
                break;
            }
            self.set_induction(iv, bounds, trip).map_err(|trap| self.error(trap, data.loc))?;
            self.debug_round(&active);
            self.run_block(body, &active)?;
            self.assign(carried, self.yields(body), &active, data)?;
            self.take_step(op, &active);
            self.check_time(data)?;
        }
        self.assign(&data.results, carried, mask, data)
    }

    /// Runs condition and body while the condition holds in any active thread.
    pub fn run_while(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        let (test, body) = (data.regions[0], data.regions[1]);
        let carried = &self.kernel.block(test).args;
        let body_args = &self.kernel.block(body).args;
        self.assign(carried, &data.operands, mask, data)?;
        let mut active = mask.clone();
        loop {
            self.debug_round(&active);
            self.run_block(test, &active)?;
            let condition = self.yields(test).first().copied();
            let condition = condition.ok_or_else(|| self.bug("a loop without a condition", data))?;
            let holds = self.predicate(condition, data)?;
            active = self.unfaulted(&active).filter(|lane| holds[lane]);
            if active.is_empty() {
                break;
            }
            self.assign(body_args, carried, &active, data)?;
            self.run_block(body, &active)?;
            self.assign(carried, self.yields(body), &active, data)?;
            self.take_step(op, &active);
            self.check_time(data)?;
            active = self.unfaulted(&active).into_owned();
            if active.is_empty() {
                break;
            }
        }
        self.assign(&data.results, carried, mask, data)
    }

    /// The values that the operation at the end of a region hands over.
    pub fn yields<'k>(&self, region: Block) -> &'k [Value]
    where
        Self: 'k,
    {
        let kernel = self.kernel;
        kernel.block(region).ops.last().map_or(&[], |&op| &kernel.op(op).operands)
    }

    /// A condition in every thread.
    pub fn predicate(&self, value: Value, data: &OpData) -> Result<Vec<bool>, Error> {
        bool::of(self.data(value)).map(<[bool]>::to_vec).map_err(|trap| self.error(trap, data.loc))
    }

    /// The error of a kernel that is not well formed.
    pub fn bug(&self, what: &str, data: &OpData) -> Error {
        self.error(Trap::Bug(what.into()), data.loc)
    }

    /// Gives values to `to` in the active threads, all at once: a loop may swap what it carries.
    /// Tiles belong to the block, so that threads cannot disagree about them.
    pub fn assign(&mut self, to: &[Value], from: &[Value], mask: &Mask, data: &OpData) -> Result<(), Error> {
        if to.len() != from.len() {
            return Err(self.bug("a region that yields a wrong number of values", data));
        }
        let crossing = from.iter().any(|v| to.contains(v));
        let copies: Vec<Data> =
            if crossing { from.iter().map(|&v| self.data(v).clone()).collect() } else { Vec::new() };
        for (i, (&to, &from)) in to.iter().zip(from).enumerate() {
            self.assign_one(to, from, copies.get(i), mask).map_err(|trap| self.error(trap, data.loc))?;
        }
        Ok(())
    }

    fn assign_one(&mut self, to: Value, from: Value, copy: Option<&Data>, mask: &Mask) -> Result<(), Trap> {
        let tile = self.is_tile(to);
        if tile {
            self.need_all("the end of a region with tiles", mask)?;
        }
        let mut target = std::mem::take(&mut self.registers[to.index()]);
        let source = copy.unwrap_or(&self.registers[from.index()]);
        let result = if tile { target.copy(source) } else { target.copy_lanes(source, mask) };
        self.registers[to.index()] = target;
        result
    }

    /// How often each thread runs a loop: ceil((hi - lo) / step), or 0.
    pub fn trip_counts(&self, bounds: &[Value]) -> Result<Vec<u64>, Trap> {
        let [lo, hi, step] = [0, 1, 2].map(|i| self.data(bounds[i]));
        let wide = |data: &Data| -> Result<Vec<i128>, Trap> {
            dispatch!(int data.elem(), T => Ok(T::of(data)?.iter().map(|&x| i128::from(x)).collect()))
        };
        let trips = wide(lo)?.into_iter().zip(wide(hi)?).zip(wide(step)?).map(|((lo, hi), step)| {
            if hi <= lo || step <= 0 { 0 } else { ((hi - lo + step - 1) / step) as u64 }
        });
        Ok(trips.collect())
    }

    /// `iv = lo + trip * step` in every thread; a thread that has finished may wrap.
    pub fn set_induction(&mut self, iv: Value, bounds: &[Value], trip: u64) -> Result<(), Trap> {
        let mut out = std::mem::take(&mut self.registers[iv.index()]);
        let (lo, step) = (self.data(bounds[0]), self.data(bounds[2]));
        let result = dispatch!(int out.elem(), T => {
            let trip = T::of_u64(trip);
            for ((o, lo), &step) in T::of_mut(&mut out)?.iter_mut().zip(T::of(lo)?).zip(T::of(step)?) {
                *o = lo.wrapping_add(trip.wrapping_mul(step));
            }
            Ok(())
        });
        self.registers[iv.index()] = out;
        result
    }
}

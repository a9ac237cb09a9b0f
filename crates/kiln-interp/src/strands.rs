//! Seeded schedules of the threads of a block.
//!
//! A GPU promises nothing about the order of threads between two barriers: one thread may reach the
//! second barrier before another has left the first. Without a schedule, the interpreter executes
//! each operation in all threads before the next one, which hides a missing barrier. With one, it
//! divides the threads into *strands*, at random. Each strand has its own place in the kernel. A
//! random one runs next, until it comes to an operation that needs threads of other strands:
//!
//! ```text
//! strand 0   a  b  barrier            c ...
//! strand 1                  a
//! strand 2                     a  b
//! strand 1                           b barrier       (the last one to come: now all go on)
//! ```
//!
//! So both orders of any two accesses by different threads that no barrier separates occur, under
//! some seed. Where warps have to come together, as for a shuffle, the strands that hold threads of
//! a warp wait for each other. Registers have an element for each thread, so that strands share
//! them. Within a strand threads run in lockstep.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::schedule::{Convergence, Rule};
use crate::threads::is_named;
use crate::trap::Trap;
use crate::value::Data;
use kiln_backend::Error;
use kiln_ir::{Block, Op, OpData, OpKind, Value};

/// Threads that run in lockstep, and where they are.
struct Strand {
    /// The regions that they are in, the innermost last. None when they have ended.
    frames: Vec<Frame>,
    /// The operation that they have come to, where it needs other strands.
    waits: Option<Op>,
}

/// A region that a strand is in.
struct Frame {
    block: Block,
    /// The number of the operation in the block that comes next.
    next: usize,
    /// The threads that take part.
    mask: Mask,
    region: Region,
}

/// What a region is of.
enum Region {
    Body,
    /// An arm of an `If`, and the threads that take the other arm afterwards.
    Arm(Op, Option<Mask>),
    /// A round of a `For`: its number, the number of rounds of each thread, and the threads that
    /// came to the loop.
    Round(Op, u64, Vec<u64>, Mask),
    /// The condition of a `While`, and the threads that came to the loop.
    Test(Op, Mask),
    /// The body of one.
    Do(Op, Mask),
}

impl Machine<'_> {
    /// Runs the body of the kernel for the block with this linear index.
    pub fn run_body(&mut self, block: u32, everyone: &Mask) -> Result<(), Error> {
        let body = self.kernel.body;
        let Some(schedule) = &mut self.schedule else { return self.run_block(body, everyone) };
        schedule.begin_block(block);
        let strand = |mask| Strand {
            frames: vec![Frame { block: body, next: 0, mask, region: Region::Body }],
            waits: None,
        };
        let strands: Vec<Strand> = schedule.divide(everyone).into_iter().map(strand).collect();
        self.run_strands(strands)
    }

    fn run_strands(&mut self, mut strands: Vec<Strand>) -> Result<(), Error> {
        loop {
            let ready: Vec<usize> = (0..strands.len())
                .filter(|&i| strands[i].waits.is_none() && !strands[i].frames.is_empty())
                .collect();
            let Some(schedule) = &mut self.schedule else { return Ok(()) };
            if ready.is_empty() {
                let waited: Vec<Op> = strands.iter().filter_map(|strand| strand.waits).collect();
                // What threads were waited for may have left since. If no operation has all that it
                // needs, some threads will never come, which the operation finds.
                let complete = waited.iter().find(|&&op| self.all_are_there(op, &strands));
                let Some(&op) = complete.or(waited.first()) else { return Ok(()) };
                self.meet(op, &mut strands)?;
                continue;
            }
            let chosen = ready[schedule.below(ready.len() as u64) as usize];
            let turns = schedule.turns();
            let strand = &mut strands[chosen];
            for _ in 0..turns {
                if strand.waits.is_some() || !self.advance(strand)? {
                    break;
                }
            }
            if let Some(op) = strands[chosen].waits.filter(|&op| self.all_are_there(op, &strands)) {
                self.meet(op, &mut strands)?;
            }
        }
    }

    fn rule(&self, op: Op) -> Option<Rule> {
        self.schedule.as_ref().map(|schedule| schedule.rule(op))
    }

    /// Whether the threads that an operation needs have come to it.
    fn all_are_there(&self, op: Op, strands: &[Strand]) -> bool {
        let there = waiting(op, strands);
        let absent = |lane: usize| !there[lane] && self.here().is_none_or(|here| here.has(lane));
        let unit = match self.rule(op).map(|rule| rule.convergence) {
            Some(Convergence::Block) => there.len(),
            _ => self.loaded.warp,
        };
        // Of warps that nobody has come from, nobody is needed.
        let lanes: Vec<usize> = (0..there.len()).collect();
        let mut units = lanes.chunks(unit.max(1)).filter(|unit| unit.iter().any(|&lane| there[lane]));
        units.all(|unit| !unit.iter().any(|&lane| absent(lane) && self.is_awaited(op, lane, unit, &there)))
    }

    /// Whether a thread of a unit, of which some threads are there, is one that they wait for: at a
    /// barrier of a warp those are the ones that they name.
    fn is_awaited(&self, op: Op, lane: usize, unit: &[usize], there: &[bool]) -> bool {
        let data = self.kernel.op(op);
        if data.kind != OpKind::WarpBarrier {
            return true;
        }
        let number = unit.iter().position(|&other| other == lane).unwrap_or(0);
        let names =
            |other: &usize| there[*other] && is_named(self.data(data.lanes()).bits(*other) as u32, number);
        unit.iter().any(names)
    }

    /// Executes an operation in all threads that have come to it.
    fn meet(&mut self, op: Op, strands: &mut [Strand]) -> Result<(), Error> {
        let there = waiting(op, strands);
        let mask = Mask::full(there.len()).filter(|lane| there[lane]);
        for strand in strands.iter_mut().filter(|strand| strand.waits == Some(op)) {
            strand.waits = None;
        }
        self.run_ops(&[op], &mask)
    }

    /// Takes a strand one operation on, or to the end of a region; false if it has ended.
    fn advance(&mut self, strand: &mut Strand) -> Result<bool, Error> {
        let kernel = self.kernel;
        let Some(frame) = strand.frames.last_mut() else { return Ok(false) };
        let Some(&op) = kernel.block(frame.block).ops.get(frame.next) else {
            return self.end_region(strand).map(|()| true);
        };
        frame.next += 1;
        match self.rule(op) {
            Some(Rule { stepwise: true, .. }) => {
                let mask = frame.mask.clone();
                strand.frames.extend(self.begin_region(op, kernel.op(op), mask)?);
            }
            Some(Rule { convergence: Convergence::Warp | Convergence::Block, .. }) => strand.waits = Some(op),
            _ => self.run_ops(&[op], &frame.mask)?,
        }
        Ok(true)
    }

    /// The first region of an operation that some threads of the mask run.
    fn begin_region(&mut self, op: Op, data: &OpData, mask: Mask) -> Result<Option<Frame>, Error> {
        let frame = |block, mask, region| Some(Frame { block, next: 0, mask, region });
        if data.kind == OpKind::If {
            let condition = self.predicate(data.condition(), data)?;
            // Threads that have left have no condition.
            let mask = self.unfaulted(&mask);
            let [then, otherwise] = [true, false].map(|arm| mask.filter(|lane| condition[lane] == arm));
            return Ok(match (then.is_empty(), otherwise.is_empty()) {
                (true, true) => None,
                (true, _) => frame(data.regions[1], otherwise, Region::Arm(op, None)),
                (false, true) => frame(data.regions[0], then, Region::Arm(op, None)),
                (false, false) => frame(data.regions[0], then, Region::Arm(op, Some(otherwise))),
            });
        }
        let carried = &self.kernel.block(data.regions[0]).args;
        if data.kind == OpKind::For {
            let trips = self.trip_counts(&data.for_bounds()).map_err(|trap| self.error(trap, data.loc))?;
            self.assign(&carried[1..], data.inits(), &mask, data)?;
            return self.round(op, 0, trips, mask);
        }
        self.assign(carried, data.inits(), &mask, data)?;
        Ok(frame(data.regions[0], mask.clone(), Region::Test(op, mask)))
    }

    /// A round of a `For`, unless the loop is over for all threads.
    fn round(&mut self, op: Op, trip: u64, trips: Vec<u64>, all: Mask) -> Result<Option<Frame>, Error> {
        let data = self.kernel.op(op);
        let body = data.regions[0];
        let args = &self.kernel.block(body).args;
        let mask = self.unfaulted(&all).filter(|lane| trip < trips[lane]);
        if mask.is_empty() {
            self.assign(&data.results, &args[1..], &all, data)?;
            return Ok(None);
        }
        let kept = self.kept(&args[..1], &mask);
        let set = self.set_induction(args[0], &data.for_bounds(), trip);
        let set = set.and_then(|()| self.restore(kept, &args[..1], &mask));
        set.map_err(|trap| self.error(trap, data.loc))?;
        self.debug_round(&mask);
        Ok(Some(Frame { block: body, next: 0, mask, region: Region::Round(op, trip, trips, all) }))
    }

    /// The end of the innermost region of a strand.
    fn end_region(&mut self, strand: &mut Strand) -> Result<(), Error> {
        let Some(Frame { block, mask, region, .. }) = strand.frames.pop() else { return Ok(()) };
        let kernel = self.kernel;
        let next = match region {
            Region::Body => None,
            Region::Arm(op, otherwise) => {
                let data = kernel.op(op);
                self.assign(&data.results, self.yields(block), &mask, data)?;
                let other =
                    |mask| Frame { block: data.regions[1], next: 0, mask, region: Region::Arm(op, None) };
                otherwise.map(other)
            }
            Region::Round(op, trip, trips, all) => {
                let data = kernel.op(op);
                self.assign(&kernel.block(block).args[1..], self.yields(block), &mask, data)?;
                self.check_time(data)?;
                self.round(op, trip + 1, trips, all)?
            }
            Region::Test(op, all) => {
                let data = kernel.op(op);
                let carried = &kernel.block(block).args;
                let holds = match self.yields(block).first() {
                    Some(&condition) => self.predicate(condition, data)?,
                    None => return Err(self.bug("a loop without a condition", data)),
                };
                let mask = self.unfaulted(&mask).filter(|lane| holds[lane]);
                if mask.is_empty() {
                    self.assign(&data.results, carried, &all, data)?;
                    None
                } else {
                    let body = data.regions[1];
                    self.assign(&kernel.block(body).args, carried, &mask, data)?;
                    Some(Frame { block: body, next: 0, mask, region: Region::Do(op, all) })
                }
            }
            Region::Do(op, all) => {
                let data = kernel.op(op);
                let test = data.regions[0];
                self.assign(&kernel.block(test).args, self.yields(block), &mask, data)?;
                self.check_time(data)?;
                self.debug_round(&mask);
                Some(Frame { block: test, next: 0, mask, region: Region::Test(op, all) })
            }
        };
        strand.frames.extend(next);
        Ok(())
    }

    /// What scalars hold, if other threads than those of `mask` must keep it: their strands may use
    /// it still.
    pub fn kept(&self, values: &[Value], mask: &Mask) -> Vec<Data> {
        if self.schedule.is_none() || mask.is_full() {
            return Vec::new();
        }
        values.iter().map(|value| self.data(*value).clone()).collect()
    }

    /// Gives threads outside of `mask` back what they had.
    pub fn restore(&mut self, kept: Vec<Data>, values: &[Value], mask: &Mask) -> Result<(), Trap> {
        for (mut kept, &value) in kept.into_iter().zip(values) {
            if kept.len() == mask.width() && !self.is_tile(value) {
                let register = &mut self.registers[value.index()];
                kept.copy_lanes(register, mask)?;
                *register = kept;
            }
        }
        Ok(())
    }
}

/// For each thread, whether it waits at an operation.
fn waiting(op: Op, strands: &[Strand]) -> Vec<bool> {
    let mut there = Vec::new();
    for strand in strands.iter().filter(|strand| strand.waits == Some(op)) {
        if let Some(Frame { mask, .. }) = strand.frames.last() {
            there.resize(mask.width(), false);
            mask.lanes().for_each(|lane| there[lane] = true);
        }
    }
    there
}

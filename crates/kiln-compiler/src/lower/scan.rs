//! Scans: each thread scans the elements it holds side by side, threads scan their totals by
//! shuffles and through scratch memory, and what came before is added at the end.

use super::Lowering;
use super::combine::{Combiner, Partial};
use crate::error::CompileError;
use crate::layout::{AxisBits, Layout};
use kiln_ir::{CompareOp, Op, OpData, OpKind, Scalar, Shape, Value};
use smallvec::smallvec;

/// Who holds a bit of an axis, in the order in which a scan can deal with them from the lowest bit
/// up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    LowRegister,
    Lane(u32),
    Warp(u32),
    HighRegister,
}

/// Who holds each bit of the axis; `None` if they do not come in order.
fn holders(layout: &Layout, place: AxisBits) -> Option<Vec<Holder>> {
    let mut holders = Vec::with_capacity(place.count as usize);
    for bit in place.shift..place.shift + place.count {
        let at = |bases: &[u32]| bases.iter().position(|b| *b == 1 << bit).map(|i| i as u32);
        holders.push(match (at(layout.lane()), at(layout.warp())) {
            (Some(lane), _) => Holder::Lane(lane),
            (_, Some(warp)) => Holder::Warp(warp),
            _ if holders.iter().all(|h| *h == Holder::LowRegister) => Holder::LowRegister,
            _ => Holder::HighRegister,
        });
    }
    let stage = |h: &Holder| match h {
        Holder::LowRegister => 0,
        Holder::Lane(_) => 1,
        Holder::Warp(_) => 2,
        Holder::HighRegister => 3,
    };
    holders.is_sorted_by_key(stage).then_some(holders)
}

/// Whether a tile with this layout can be scanned along the axis as it is.
pub(super) fn is_ordered(layout: &Layout, shape: &Shape, axis: usize) -> bool {
    holders(layout, AxisBits::of(shape, axis)).is_some()
}

/// A scan of one tile.
struct Scan {
    combiner: Combiner,
    reverse: bool,
    exclusive: bool,
    place: AxisBits,
    layout: Layout,
    holders: Vec<Holder>,
}

/// Elements that a thread holds side by side on the axis, in the order of the scan.
struct Run {
    registers: Vec<usize>,
    /// The combination of each element with those before it in the run.
    inclusive: Vec<Value>,
    /// The combination of all elements of other threads that come before and share the high
    /// registers.
    before: Option<Value>,
    /// The combination of all threads' elements.
    total: Value,
}

impl Lowering<'_> {
    pub(super) fn scan(&mut self, op: Op, data: &OpData) -> Result<(), CompileError> {
        let OpKind::Scan { op: kind, axis, reverse, exclusive } = data.kind else { return Ok(()) };
        let (operand, result) = (data.input(), data.results[0]);
        let id = self.plan.input(op, 0);
        let layout = self.layout(id);
        let place = AxisBits::of(&self.src.shape(operand), axis as usize);
        let holders = holders(&layout, place)
            .ok_or_else(|| self.internal(format!("a scan cannot use layout {layout}")))?;
        let elem = self.src.ty(operand).elem();
        let combiner = Combiner::new(kind, elem);
        let scan = Scan { combiner, reverse, exclusive, place, layout, holders };

        let registers = self.operand(operand, id)?;
        let registers: Vec<Value> =
            registers.iter().map(|&r| combiner.begin(&mut self.em, r, |em| em.i32(0))[0]).collect();
        let mut rows = self.runs(&scan, &registers);
        for run in rows.iter_mut().flatten() {
            self.scan_lanes(&scan, run);
        }
        self.scan_warps(&scan, &mut rows);
        let mut results = registers;
        for row in rows {
            self.finish_row(&scan, row, &mut results);
        }
        let results = results.into_iter().map(|r| self.em.cast(r, elem)).collect();
        self.define(result, id, results)
    }

    /// The runs of a thread, scanned on their own: for each row across the axis those of the high
    /// registers in the order of the scan.
    fn runs(&mut self, scan: &Scan, registers: &[Value]) -> Vec<Vec<Run>> {
        let low = scan.holders.iter().filter(|h| **h == Holder::LowRegister).count();
        let mut order: Vec<(u32, u32, usize)> = (0..registers.len())
            .map(|r| {
                let flat = scan.layout.register_index(r);
                (scan.place.remove(flat), scan.place.coordinate(flat), r)
            })
            .collect();
        order.sort_unstable();
        let rows = order.chunk_by(|a, b| a.0 == b.0);
        rows.map(|row| {
            let mut runs: Vec<Vec<usize>> =
                row.chunks(1 << low).map(|c| c.iter().map(|(_, _, r)| *r).collect()).collect();
            if scan.reverse {
                runs.reverse();
                runs.iter_mut().for_each(|run| run.reverse());
            }
            runs.into_iter().map(|run| self.scan_run(scan, run, registers)).collect()
        })
        .collect()
    }

    fn scan_run(&mut self, scan: &Scan, members: Vec<usize>, registers: &[Value]) -> Run {
        let mut total = registers[members[0]];
        let mut inclusive = vec![total];
        for &r in &members[1..] {
            total = self.join(scan, total, registers[r]);
            inclusive.push(total);
        }
        Run { registers: members, inclusive, before: None, total }
    }

    fn join(&mut self, scan: &Scan, a: Value, b: Value) -> Value {
        let (a, b): (Partial, Partial) = (smallvec![a], smallvec![b]);
        scan.combiner.join(&mut self.em, &a, &b)[0]
    }

    fn join_if_any(&mut self, scan: &Scan, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.join(scan, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// After bit `i` every lane has the total of its group of `2^(i+1)` lanes, and of those in the
    /// group that come before it.
    fn scan_lanes(&mut self, scan: &Scan, run: &mut Run) {
        for holder in &scan.holders {
            let Holder::Lane(bit) = *holder else { continue };
            let other = self.lane_xor(run.total, 1 << bit);
            let neutral = scan.combiner.neutral(&mut self.em);
            let with = match run.before {
                Some(before) => self.join(scan, other, before),
                None => other,
            };
            let without = run.before.unwrap_or(neutral);
            if let Some(clear) = self.em.thread_is_first(1 << bit) {
                let (if_clear, if_set) = if scan.reverse { (with, without) } else { (without, with) };
                run.before = Some(self.em.select(clear, if_clear, if_set));
            }
            run.total = self.join(scan, run.total, other);
        }
    }

    /// Warps leave their totals in scratch memory; each combines those that come before it.
    fn scan_warps(&mut self, scan: &Scan, rows: &mut [Vec<Run>]) {
        let warps: Vec<u32> = scan
            .holders
            .iter()
            .filter_map(|h| if let Holder::Warp(bit) = h { Some(*bit) } else { None })
            .collect();
        if warps.is_empty() {
            return;
        }
        let count = 1usize << warps.len();
        let elem = self.em.elem(rows[0][0].total);
        let groups = rows[0].len();
        let shift = warps.len() as u32 + groups.trailing_zeros();
        let thread = scan.layout.thread();
        let reader: Vec<u32> = thread.iter().map(|&b| scan.place.remove(b) << shift).collect();
        let mut mine = vec![0; thread.len()];
        for (i, &bit) in warps.iter().enumerate() {
            mine[scan.layout.lane().len() + bit as usize] = 1 << i;
        }
        let writer: Vec<u32> = reader.iter().zip(&mine).map(|(a, b)| a | b).collect();
        let lanes = scan.layout.lane().iter().enumerate().filter(|(_, b)| scan.place.touches(**b));
        let silent = scan.layout.copies() | lanes.map(|(bit, _)| 1u32 << bit).sum::<u32>();
        let writes = self.em.thread_is_first(silent);
        let all = 1u32 << (scan.layout.linear().rank() as u32 - scan.place.count + shift);
        let area = self.scratch.area(all * elem.bytes(), self.em.loc);

        let at = |row: &[Run], group: usize| {
            let flat = scan.place.remove(scan.layout.register_index(row[0].registers[0]));
            (flat << shift) + (group * count) as u32
        };
        let place = self.scratch_thread(area, elem, &writer, 1);
        for row in rows.iter() {
            for (group, run) in row.iter().enumerate() {
                self.scratch_store(place, at(row, group), writes, &[run.total]);
            }
        }
        let place = self.scratch_thread(area, elem, &reader, 1);
        let warp = self.em.linear(&mine);
        for row in rows.iter_mut() {
            for group in 0..groups {
                let from = at(row, group);
                self.join_warps(
                    scan,
                    &mut row[group],
                    warp,
                    |lowering, i, lanes| lowering.scratch_load(place, from + i as u32, lanes),
                    count,
                    elem,
                );
            }
        }
    }

    /// Combines the totals of warps: all of them, and those before this thread's warp.
    fn join_warps(
        &mut self,
        scan: &Scan,
        run: &mut Run,
        warp: Value,
        load: impl Fn(&mut Self, usize, usize) -> Vec<Value>,
        count: usize,
        elem: Scalar,
    ) {
        let vector = ((16 / elem.bytes()) as usize).min(count);
        let totals: Vec<Value> = (0..count).step_by(vector).flat_map(|i| load(self, i, vector)).collect();
        let neutral = scan.combiner.neutral(&mut self.em);
        let mut before = None;
        for (i, &total) in totals.iter().enumerate() {
            let i = self.em.i32(i as i64);
            let order = if scan.reverse { CompareOp::Gt } else { CompareOp::Lt };
            let precedes = self.em.compare(order, i, warp);
            let part = self.em.select(precedes, total, neutral);
            before = self.join_if_any(scan, before, Some(part));
        }
        run.before = self.join_if_any(scan, before, run.before);
        let list = totals.iter().map(|&t| smallvec![t]).collect();
        if let Some(total) = scan.combiner.join_all(&mut self.em, list, false) {
            run.total = total[0];
        }
    }

    /// Adds to each element what came before its run.
    fn finish_row(&mut self, scan: &Scan, row: Vec<Run>, results: &mut [Value]) {
        let mut carry = None;
        for run in row {
            let before = self.join_if_any(scan, carry, run.before);
            for (i, &register) in run.registers.iter().enumerate() {
                let own = match scan.exclusive {
                    false => Some(run.inclusive[i]),
                    true => i.checked_sub(1).map(|previous| run.inclusive[previous]),
                };
                let whole = self.join_if_any(scan, before, own);
                results[register] = match whole {
                    Some(whole) => whole,
                    None => scan.combiner.neutral(&mut self.em),
                };
            }
            carry = self.join_if_any(scan, carry, Some(run.total));
        }
    }
}

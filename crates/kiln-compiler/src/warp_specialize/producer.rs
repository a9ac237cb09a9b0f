//! The task that copies: one thread, which goes through the rounds of all loops and begins the
//! copies of each as soon as a stage is free.

use super::copies::{Copied, coordinates};
use super::eligibility::EligibleLoop;
use super::memory::{Ring, SharedMemory};
use super::{RingPosition, Specializer, effect, index};
use kiln_ir::{BinaryOp, Block, Builder, ExplicitOp, OpKind, Value};
use rustc_hash::FxHashMap;

impl Specializer<'_> {
    pub(super) fn producer(&mut self, memory: &SharedMemory) -> Block {
        let eligible = self.eligible;
        let block = self.kernel.add_block();
        let mut b = Builder { kernel: &mut self.kernel, block, loc: Default::default() };
        if let Some(arrived) = memory.arrived {
            let zero = b.index(0);
            for (i, (copied, &tile)) in eligible.kept.iter().zip(&memory.kept).enumerate() {
                b.loc = b.kernel.op(copied.op).loc;
                let number = b.index(i as i64);
                effect(&mut b, ExplicitOp::MbarrierExpect { bytes: copied.bytes() }, &[arrived, number]);
                let offsets = coordinates(&mut b, copied, &copied.offsets);
                load(&mut b, copied, &offsets, [tile, zero], [arrived, number]);
            }
        }
        let first = RingPosition::first(&mut b);
        let mut places = vec![first; memory.rings.len()];
        for (looped, &ring) in eligible.loops.iter().zip(&memory.by_loop) {
            places[ring] = rounds(&mut b, looped, (&memory.rings[ring], memory.stages), places[ring]);
        }
        b.yield_(&[]);
        block
    }
}

/// Copies for all rounds of a loop; gives the place after the last.
fn rounds(
    b: &mut Builder<'_>,
    looped: &EligibleLoop,
    (ring, stages): (&Ring, u32),
    first: RingPosition,
) -> RingPosition {
    let (data, outer) = (b.kernel.op(looped.op).clone(), b.block);
    b.loc = data.loc;
    let old = b.kernel.block(looped.body).clone();
    let region = b.kernel.add_block();
    let mut operands = data.for_bounds().to_vec();
    let mut types = Vec::new();
    let mut renames = FxHashMap::default();
    let round = b.kernel.ty(old.args[0]).clone();
    renames.insert(old.args[0], b.kernel.add_arg(region, round));
    for &place in &looped.carried {
        let (argument, ty) = (old.args[1 + place], b.kernel.ty(old.args[1 + place]).clone());
        operands.push(data.inits()[place]);
        renames.insert(argument, b.kernel.add_arg(region, ty.clone()));
        types.push(ty);
    }
    operands.extend([first.stage, first.phase]);
    types.extend([index(), index()]);
    let [stage, phase] = [(); 2].map(|()| b.kernel.add_arg(region, index()));
    let place = RingPosition { stage, phase };

    b.block = region;
    let renamed = |renames: &FxHashMap<Value, Value>, v: Value| renames.get(&v).copied().unwrap_or(v);
    for &op in &looped.slice {
        let data = b.kernel.op(op).clone();
        let operands: Vec<Value> = data.operands.iter().map(|&v| renamed(&renames, v)).collect();
        let types: Vec<_> = data.results.iter().map(|&v| b.kernel.ty(v).clone()).collect();
        b.loc = data.loc;
        let copy = b.op(data.kind, &operands, &types);
        let made = b.kernel.op(copy).results.clone();
        renames.extend(data.results.iter().copied().zip(made));
    }
    let one = b.index(1);
    let before = b.binary(BinaryOp::Sub, place.phase, one);
    for (group, (&full, &empty)) in ring.full.iter().zip(&ring.empty).enumerate() {
        let members = || looped.copies.iter().zip(&ring.tiles).zip(&ring.groups).filter(|m| *m.1 == group);
        let bytes = members().map(|((copied, _), _)| copied.bytes()).sum();
        effect(b, ExplicitOp::MbarrierWait, &[empty, place.stage, before]);
        effect(b, ExplicitOp::MbarrierExpect { bytes }, &[full, place.stage]);
        for ((copied, &tile), _) in members() {
            b.loc = b.kernel.op(copied.op).loc;
            let offsets: Vec<Value> = copied.offsets.iter().map(|&v| renamed(&renames, v)).collect();
            let offsets = coordinates(b, copied, &offsets);
            load(b, copied, &offsets, [tile, place.stage], [full, place.stage]);
        }
    }
    let next = place.next(b, stages);
    let end = old.ops.last().map(|&op| b.kernel.op(op).operands.clone()).unwrap_or_default();
    let mut yielded: Vec<Value> = looped.carried.iter().map(|&i| renamed(&renames, end[i])).collect();
    yielded.extend([next.stage, next.phase]);
    b.yield_(&yielded);

    b.block = outer;
    let made = b.kernel.append(outer, OpKind::For, &operands, &types, &[region], data.loc);
    let results = &b.kernel.op(made).results;
    RingPosition { stage: results[looped.carried.len()], phase: results[looped.carried.len() + 1] }
}

/// Begins to load a box to a stage of a shared tile; its bytes count at an mbarrier.
fn load(b: &mut Builder<'_>, copied: &Copied, offsets: &[Value], to: [Value; 2], done: [Value; 2]) {
    let zero = b.index(0);
    let mut operands = vec![copied.view];
    operands.extend_from_slice(offsets);
    operands.extend(to);
    operands.push(zero);
    operands.extend(done);
    let op = ExplicitOp::TmaLoad { rows: copied.rows, multicast: 0, transposed: copied.transposed };
    effect(b, op, &operands);
}

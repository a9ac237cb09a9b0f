//! Shuffles and votes of lanes.
//!
//! A shuffle by a constant is one of packs, where a turn takes a whole warp: lanes that lie in
//! other registers are renamed, and those within one are permuted. Other shuffles go through
//! memory.

use super::emitter::Emitter;
use super::pack::{Pack, is_number, part_type};
use super::repr::Repr;
use crate::symbol::Function;
use cranelift_codegen::ir;
use kiln_backend::Result;
use kiln_cpu_primitives::warps;
use kiln_ir::{OpData, ShuffleMode, VoteMode, WARP};

impl Emitter<'_> {
    /// Whether a shuffle can be one of packs: by a constant, of warps that lie along rows.
    pub(super) fn is_lane_shuffle(&mut self, data: &OpData) -> bool {
        let rows = self.space.is_some_and(|space| space.extents[0] % WARP == 0);
        let number = is_number(self.kernel.ty(data.results[0]).elem());
        rows && number && self.has_lanes(data.results[0]) && self.shuffled_by(data).is_some()
    }

    /// The operand of a shuffle, if it is known.
    fn shuffled_by(&mut self, data: &OpData) -> Option<i64> {
        match self.repr(data.lane()) {
            Ok(&Repr::Scalar(by)) => self.asm.uniform(by).known(),
            _ => None,
        }
    }

    /// What the lanes of a warp get of each other's elements.
    pub(super) fn pack_shuffle(&mut self, data: &OpData, mode: ShuffleMode, pack: &Pack) -> Result<Pack> {
        let elem = self.kernel.ty(data.results[0]).elem();
        let (Some(ty), Some(by)) = (part_type(elem), self.shuffled_by(data)) else {
            return Err(self.internal("a shuffle that packs do not have"));
        };
        let lanes = ty.lane_count() as usize;
        let mut parts = Vec::new();
        for part in 0..pack.parts.len() {
            let sources: Vec<usize> =
                (0..lanes).map(|lane| warps::source(mode, part * lanes + lane, by)).collect();
            parts.push(self.permuted(pack, &sources, ty)?);
        }
        Ok(Pack { parts })
    }

    /// The elements of a pack at some lanes, of two of its parts at most, as a part.
    fn permuted(&mut self, pack: &Pack, sources: &[usize], ty: ir::Type) -> Result<ir::Value> {
        let (lanes, bytes) = (sources.len(), 16 / sources.len());
        let first = sources[0] / lanes;
        if sources.iter().enumerate().all(|(lane, &from)| from == first * lanes + lane) {
            return Ok(pack.parts[first]);
        }
        let second = sources.iter().map(|from| from / lanes).find(|&part| part != first).unwrap_or(first);
        let mut which = [0u8; 16];
        for (byte, to) in which.iter_mut().enumerate() {
            let from = sources[byte / bytes];
            let half = match from / lanes {
                part if part == first => 0,
                part if part == second => 16,
                _ => return Err(self.internal("a shuffle of more than two parts")),
            };
            *to = (half + from % lanes * bytes + byte % bytes) as u8;
        }
        Ok(self.bytes_of(pack.parts[first], pack.parts[second], which, ty))
    }

    /// A shuffle by an operand that all lanes share, through memory.
    pub(super) fn shuffle(&mut self, data: &OpData, mode: ShuffleMode) -> Result<()> {
        let (value, result) = (data.input(), data.results[0]);
        let (len, bytes) = (self.len(result), self.kernel.ty(result).elem().bytes());
        let from = self.array(value, len)?;
        let by = self.scalar(data.lane())?;
        let out = self.made_at(result);
        let (number, len) = (self.asm.int(warps::shuffle_number(mode)), self.asm.int(len as i64));
        self.asm.call_own(Function::Shuffle(bytes.ilog2() as u8), &[out, from, number, by, len], None);
        Ok(())
    }

    /// A vote of each warp.
    pub(super) fn vote(&mut self, data: &OpData, mode: VoteMode) -> Result<()> {
        let (predicate, result) = (data.condition(), data.results[0]);
        let len = self.len(result);
        let from = self.array(predicate, len)?;
        let out = self.output(result).at;
        let len = self.asm.int(len as i64);
        self.asm.call_own(Function::Vote(mode), &[out, from, len], None);
        Ok(())
    }
}

//! Exchanges among the lanes of a warp.
//!
//! Where subgroups are as wide as warps, these are subgroup operations. Elsewhere lanes write to
//! workgroup memory and read from it after a barrier, so all threads of the block must be there.

use crate::body::Expr;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Op, OpData, ShuffleMode, VoteMode};
use naga::{
    AddressSpace, AtomicFunction, BinaryOperator as B, CollectiveOperation, Expression, GatherMode, Scalar,
    Statement, SubgroupOperation,
};

/// Whose value a lane reads.
#[derive(Clone, Copy)]
enum Source {
    /// That of the lane whose number differs in these bits, the same ones in all lanes.
    Xor(Expr),
    /// That of the thread of this number.
    Thread(Expr),
}

impl Writer<'_> {
    pub(crate) fn shuffle(&mut self, op: Op, mode: ShuffleMode) -> Result<()> {
        let data = self.kernel.op(op);
        let elem = self.elem(data.input());
        let held = self.require(Some(data), elem)?;
        let (x, by) = (self.get_as(data.input(), held)?, self.get(data.lane())?);
        let by_scalar = self.scalar(data, data.lane())?;
        let by = self.narrowed(by, by_scalar);
        let source = match self.constant_mask(data, mode) {
            Some(mask) => Source::Xor(self.body.u32(mask)),
            None => Source::Thread(self.source(mode, by)?),
        };
        if !self.features.native_warps() {
            self.together(op)?;
        }
        let words = match elem.bytes() {
            8 => self.pack_pair(x, elem).to_vec(),
            _ => vec![self.pack(x, elem)],
        };
        let mut moved = Vec::new();
        for word in words {
            moved.push(self.exchange(word, source)?);
        }
        let result = match moved[..] {
            [low, high] => self.unpack_pair([low, high], elem),
            [word, ..] => self.unpack(word, elem),
            [] => x,
        };
        self.set(data, result);
        Ok(())
    }

    /// By what the number of every lane differs from that of the lane whose value it reads, where
    /// that is a constant and subgroups, all of them full, can exchange by it.
    fn constant_mask(&self, data: &OpData, mode: ShuffleMode) -> Option<u32> {
        let width = self.features.warp;
        let is_direct = self.features.native_warps() && self.threads().is_multiple_of(width);
        let constant = self.kernel.as_const(data.lane()).filter(|_| is_direct && mode == ShuffleMode::Xor);
        constant.map(|mask| mask.bits() as u32 & (width - 1))
    }

    /// The number of the thread whose value is read.
    fn source(&mut self, mode: ShuffleMode, by: Expr) -> Result<Expr> {
        let (thread, width, threads) = (self.thread()?, self.features.warp, self.threads());
        let b = &mut self.body;
        let mask = b.u32(width - 1);
        let by = b.binary(B::And, by, mask);
        let lane = b.binary(B::And, thread, mask);
        let first = b.binary(B::Subtract, thread, lane);
        let source = match mode {
            ShuffleMode::Index => by,
            ShuffleMode::Xor => b.binary(B::ExclusiveOr, lane, by),
            ShuffleMode::Up => {
                let (down, is_there) = (b.binary(B::Subtract, lane, by), b.binary(B::GreaterEqual, lane, by));
                b.select(is_there, down, lane)
            }
            ShuffleMode::Down => {
                let up = b.binary(B::Add, lane, by);
                let is_there = b.binary(B::LessEqual, up, mask);
                b.select(is_there, up, lane)
            }
        };
        let source = b.binary(B::Add, first, source);
        if threads.is_multiple_of(width) {
            return Ok(source);
        }
        let count = b.u32(threads);
        let is_there = b.binary(B::Less, source, count);
        Ok(b.select(is_there, source, thread))
    }

    /// The word of another thread of the warp.
    fn exchange(&mut self, word: Expr, source: Source) -> Result<Expr> {
        let source = match source {
            Source::Xor(mask) => return Ok(self.other_lane(GatherMode::ShuffleXor(mask), word)),
            Source::Thread(source) => source,
        };
        if self.features.native_warps() {
            let mask = self.body.u32(self.features.warp - 1);
            let lane = self.body.binary(B::And, source, mask);
            return Ok(self.other_lane(GatherMode::Shuffle(lane), word));
        }
        let array = match self.exchange {
            Some(array) => array,
            None => {
                let cells = (Scalar::U32, false);
                self.array("exchange".into(), AddressSpace::WorkGroup, None, cells, Some(self.threads()))
            }
        };
        self.exchange = Some(array);
        let own = self.thread()?;
        let own = self.body.element(array, own);
        self.body.store(own, word);
        self.barrier();
        let other = self.body.element(array, source);
        let word = self.body.load(other);
        // The next exchange writes to the same place.
        self.barrier();
        Ok(word)
    }

    /// The word of another lane of the subgroup.
    fn other_lane(&mut self, mode: GatherMode, word: Expr) -> Expr {
        let ty = self.scalar_type(Scalar::U32);
        let result = self.body.result(Expression::SubgroupOperationResult { ty });
        self.body.push(Statement::SubgroupGather { mode, argument: word, result });
        result
    }

    pub(crate) fn vote(&mut self, op: Op, mode: VoteMode) -> Result<()> {
        let data = self.kernel.op(op);
        let holds = self.get(data.condition())?;
        let result = match self.features.native_warps() {
            true => self.subgroup_vote(holds, mode),
            false => {
                self.together(op)?;
                self.shared_vote(holds, mode)?
            }
        };
        self.set(data, result);
        Ok(())
    }

    pub(crate) fn subgroup_vote(&mut self, holds: Expr, mode: VoteMode) -> Expr {
        let op = match mode {
            VoteMode::All => SubgroupOperation::All,
            VoteMode::Any => SubgroupOperation::Any,
            VoteMode::Ballot => {
                let result = self.body.result(Expression::SubgroupBallotResult);
                self.body.push(Statement::SubgroupBallot { result, predicate: Some(holds) });
                return self.body.member(result, 0);
            }
        };
        let ty = self.scalar_type(Scalar::BOOL);
        let result = self.body.result(Expression::SubgroupOperationResult { ty });
        let collective_op = CollectiveOperation::Reduce;
        self.body.push(Statement::SubgroupCollectiveOperation { op, collective_op, argument: holds, result });
        result
    }

    /// A word for each warp collects a bit for each lane.
    fn shared_vote(&mut self, holds: Expr, mode: VoteMode) -> Result<Expr> {
        let (thread, width, threads) = (self.thread()?, self.features.warp, self.threads());
        let array = match self.votes {
            Some(array) => array,
            None => {
                let warps = threads.div_ceil(width);
                self.array("votes".into(), AddressSpace::WorkGroup, None, (Scalar::U32, true), Some(warps))
            }
        };
        self.votes = Some(array);
        let b = &mut self.body;
        let (by, mask, zero, one) = (b.u32(width.ilog2()), b.u32(width - 1), b.u32(0), b.u32(1));
        let warp = b.binary(B::ShiftRight, thread, by);
        let lane = b.binary(B::And, thread, mask);
        let word = b.element(array, warp);
        let is_first = b.binary(B::Equal, lane, zero);
        let outer = b.begin();
        b.store(word, zero);
        let accept = b.end(outer);
        b.branch(is_first, accept, naga::Block::new());
        self.barrier();
        let outer = self.body.begin();
        let bit = self.body.binary(B::ShiftLeft, one, lane);
        self.atomic_word(word, AtomicFunction::InclusiveOr, bit);
        let accept = self.body.end(outer);
        self.body.branch(holds, accept, naga::Block::new());
        self.barrier();
        let ballot = self.body.load(word);
        self.barrier();
        Ok(match mode {
            VoteMode::Ballot => ballot,
            VoteMode::Any => self.body.binary(B::NotEqual, ballot, zero),
            VoteMode::All => {
                let all = self.lanes_of(warp);
                self.body.binary(B::Equal, ballot, all)
            }
        })
    }

    /// A bit for each lane that a warp has: the last one may have fewer.
    fn lanes_of(&mut self, warp: Expr) -> Expr {
        let (width, threads) = (self.features.warp, self.threads());
        let b = &mut self.body;
        let all = b.u32(u32::MAX >> (32 - width));
        let rest = threads % width;
        if rest == 0 {
            return all;
        }
        let (last, fewer) = (b.u32(threads / width), b.u32(u32::MAX >> (32 - rest)));
        let is_last = b.binary(B::Equal, warp, last);
        b.select(is_last, fewer, all)
    }
}

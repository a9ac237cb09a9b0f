//! Thread indices, shuffles and votes, in terms of tiles: a warp is a row of 32 lanes.

use super::rewrite::Rewrite;
use kiln_backend::Result;
use kiln_ir::{
    Axis, BinaryOp, Bounds, CompareOp, Literal, OpData, OpKind, ReduceOp, Scalar, ShuffleMode, Space, Value,
    VoteMode, WARP,
};

impl Rewrite<'_> {
    /// The lane's number, as i64.
    pub(super) fn lane(&mut self) -> Value {
        self.b.iota(Scalar::I64, self.lanes)
    }

    /// A constant for every lane.
    pub(super) fn index_lanes(&mut self, value: i64) -> Value {
        self.b.splat(Literal::index(value), self.shape())
    }

    /// The thread's index in its block on an axis: x is the fastest.
    pub(super) fn thread_index(&mut self, axis: Axis) -> Value {
        if self.block.iter().product::<u32>() == self.lanes {
            return self.one(OpKind::ThreadId(axis), &[], self.lanes_type(Scalar::I64));
        }
        let inner: u32 = self.block[..axis as usize].iter().product();
        self.padded_thread_index(inner, self.block[axis as usize])
    }

    /// As `thread_index`, where there are more lanes than threads.
    fn padded_thread_index(&mut self, inner: u32, extent: u32) -> Value {
        let lane = self.lane();
        let (inner, extent) = (self.index_lanes(inner.into()), self.index_lanes(extent.into()));
        let slower = self.b.binary(BinaryOp::Div, lane, inner);
        self.b.binary(BinaryOp::Rem, slower, extent)
    }

    /// A shuffle by an operand that varies goes through block memory: each lane puts its value
    /// there and takes another's.
    pub(super) fn shuffle(&mut self, data: &OpData, mode: ShuffleMode) -> Result<()> {
        let (value, by) = (data.input(), data.lane());
        if self.lanes == 1 {
            // There is no other lane to read.
            let own = self.uniform(value)?;
            self.set_uniform(data.results[0], own);
            return Ok(());
        }
        if !self.is_lanes(by)? {
            return self.shuffle_by_uniform(data, mode);
        }
        let (value, by) = (self.lanes_of(value)?, self.lanes_of(by)?);
        let (lane, last) = (self.lane(), self.index_lanes(i64::from(WARP) - 1));
        let here = self.b.binary(BinaryOp::And, lane, last);
        let by = self.b.binary(BinaryOp::And, by, last);
        let there = match mode {
            ShuffleMode::Index => by,
            ShuffleMode::Up => self.b.binary(BinaryOp::Sub, here, by),
            ShuffleMode::Down => self.b.binary(BinaryOp::Add, here, by),
            ShuffleMode::Xor => self.b.binary(BinaryOp::Xor, here, by),
        };
        let first = self.b.binary(BinaryOp::Sub, lane, here);
        let source = self.b.binary(BinaryOp::Add, first, there);
        let (zero, lanes) = (self.index_lanes(0), self.index_lanes(self.lanes.into()));
        let above = self.b.compare(CompareOp::Ge, there, zero);
        let below = self.b.compare(CompareOp::Le, there, last);
        let exists = self.b.compare(CompareOp::Lt, source, lanes);
        let valid = self.b.binary(BinaryOp::And, above, below);
        let valid = self.b.binary(BinaryOp::And, valid, exists);
        let source = self.b.select(valid, source, lane);
        let taken = self.exchange(value, source);
        let result = match self.mask {
            // A lane that is not there has nothing to give.
            Some(mask) => {
                let gives = self.exchange(mask, source);
                self.b.select(gives, taken, value)
            }
            None => taken,
        };
        self.set_in_own_form(data.results[0], result)
    }

    /// A shuffle by an operand that all lanes share remains one, of lanes.
    fn shuffle_by_uniform(&mut self, data: &OpData, mode: ShuffleMode) -> Result<()> {
        let by = self.uniform(data.lane())?;
        let by = self.b.cast(by, Scalar::I64);
        let value = self.lanes_of(data.input())?;
        let ty = self.b.kernel.ty(value).clone();
        let taken = self.one(OpKind::Shuffle(mode), &[value, by], ty);
        let result = match self.mask {
            // A lane that is not there has nothing to give.
            Some(mask) => {
                let ty = self.lanes_type(Scalar::Bool);
                let gives = self.one(OpKind::Shuffle(mode), &[mask, by], ty);
                self.b.select(gives, taken, value)
            }
            None => taken,
        };
        self.set_in_own_form(data.results[0], result)
    }

    /// The elements of a tile of lanes at other lanes' places.
    fn exchange(&mut self, value: Value, source: Value) -> Value {
        let elem = self.b.kernel.ty(value).elem();
        let memory = self.b.alloc(Space::Shared, elem, self.shape());
        let lane = self.lane();
        self.b.scatter(memory, &[lane], None, value, Bounds::Trust);
        let padding = self.b.constant(Literal::zero(elem));
        self.b.gather(memory, &[source], None, padding, Bounds::Trust)
    }

    /// The first lane is always there where all threads come together.
    pub(super) fn block_uniform(&mut self, data: &OpData) -> Result<()> {
        let (value, result) = (data.input(), data.results[0]);
        let first = match self.is_lanes(value)? {
            true => {
                let lanes = self.lanes_of(value)?;
                let ty = self.old.ty(result).clone();
                self.one(data.kind.clone(), &[lanes], ty)
            }
            false => self.uniform(value)?,
        };
        self.set_uniform(result, first);
        Ok(())
    }

    pub(super) fn vote(&mut self, data: &OpData, mode: VoteMode) -> Result<()> {
        if self.lanes == 1 {
            let own = self.uniform(data.condition())?;
            let result = match mode {
                VoteMode::All | VoteMode::Any => own,
                VoteMode::Ballot => self.b.cast(own, Scalar::U32),
            };
            self.set_uniform(data.results[0], result);
            return Ok(());
        }
        // In a block of one warp that votes together, the answer is one scalar.
        let together = !self.uniformity.varies(data.results[0]);
        let predicate = self.lanes_of(data.condition())?;
        let result = match mode {
            VoteMode::All => {
                let yes = self.b.splat(Literal::bool(true), self.shape());
                let asked = self.under_mask(predicate, yes);
                self.over_warps(ReduceOp::And, mode, asked, together)
            }
            VoteMode::Any => {
                let asked = self.narrowed(predicate);
                self.over_warps(ReduceOp::Or, mode, asked, together)
            }
            VoteMode::Ballot => {
                let asked = self.narrowed(predicate);
                if !together {
                    let ty = self.lanes_type(Scalar::U32);
                    let result = self.one(OpKind::Vote(mode), &[asked], ty);
                    return self.set_in_own_form(data.results[0], result);
                }
                let lane = self.b.iota(Scalar::U32, self.lanes);
                let one = self.b.splat(Literal::one(Scalar::U32), self.shape());
                // The amount is taken modulo 32: the lane's number in its warp.
                let bit = self.b.binary(BinaryOp::Shl, one, lane);
                let none = self.b.splat(Literal::zero(Scalar::U32), self.shape());
                let bits = self.b.select(asked, bit, none);
                self.b.reduce(ReduceOp::Or, 0, bits)
            }
        };
        self.set_in_form(data.results[0], result, !together);
        Ok(())
    }

    /// Combines the lanes of the only warp to one scalar, or each warp's for all of its lanes.
    fn over_warps(&mut self, op: ReduceOp, mode: VoteMode, lanes: Value, one: bool) -> Value {
        if one {
            return self.b.reduce(op, 0, lanes);
        }
        let ty = self.b.kernel.ty(lanes).clone();
        self.one(OpKind::Vote(mode), &[lanes], ty)
    }
}

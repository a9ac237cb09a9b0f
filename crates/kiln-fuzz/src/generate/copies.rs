//! Copies from global to shared memory in flight.

use super::Generator;
use kiln_ir::*;

/// Where the vectors come from that threads copy, and how.
struct Source {
    view: Value,
    /// The index on every axis but the last.
    leading: Vec<Value>,
    /// The extent of the last.
    extent: i64,
    padding: Value,
    /// Elements of a vector.
    count: i64,
    /// One mask for all elements of a vector, or one for each.
    whole: bool,
}

impl Source {
    /// Begins to copy a vector of a view to a place of shared memory.
    fn copy(&self, b: &mut Builder, vector: Value, memory: Value, to: Value) {
        let [times, extent, last] = [self.count, self.extent, self.count - 1].map(|n| b.index(n));
        let from = b.binary(BinaryOp::Mul, vector, times);
        let mask = self.whole.then(|| {
            let end = b.binary(BinaryOp::Add, from, last);
            b.compare(CompareOp::Lt, end, extent)
        });
        let bounds = if self.whole { Bounds::Trust } else { Bounds::Mask };
        let mut values = Vec::new();
        for lane in 0..self.count {
            let lane = b.index(lane);
            let mut index = self.leading.clone();
            index.push(b.binary(BinaryOp::Add, from, lane));
            values.push(b.gather(self.view, &index, mask, self.padding, bounds));
        }
        for (lane, value) in (0..).zip(values) {
            let lane = b.index(lane);
            let at = b.binary(BinaryOp::Add, to, lane);
            let kind = OpKind::Scatter { bounds: Bounds::Trust, masked: false, asynchronous: true };
            b.op(kind, &[memory, at, value], &[]);
        }
    }
}

impl Generator<'_> {
    /// Threads copy adjacent elements of a view to shared memory, in one group or two, and read
    /// those that others copied once they have arrived.
    pub(super) fn exchange_through_copies(&mut self, in_block: Value) {
        let Some(source) = self.source() else { return self.expression() };
        let threads = i64::from(self.threads.iter().product::<u32>());
        let (groups, ahead) = (1 + self.rng.below(2) as i64, self.rng.below(3) as i64);
        let distance = self.rng.below(threads as usize) as i64;
        let lane = self.rng.below(source.count as usize) as i64;
        let (elem, group_len) = (self.ty(source.view).elem(), threads * source.count);

        let mut b = self.builder();
        let memory = b.alloc(Space::Shared, elem, Shape::new(&[(group_len * groups) as u32]));
        let [count, distance, threads] = [source.count, distance, threads].map(|n| b.index(n));
        for group in 0..groups {
            let (ahead, begin) = (b.index(ahead + group), b.index(group * group_len));
            let vector = b.binary(BinaryOp::Add, in_block, ahead);
            let to = b.binary(BinaryOp::Mul, in_block, count);
            let to = b.binary(BinaryOp::Add, to, begin);
            source.copy(&mut b, vector, memory, to);
            b.op(OpKind::AsyncCopy(AsyncCopyOp::Commit), &[], &[]);
        }
        let other = b.binary(BinaryOp::Add, in_block, distance);
        let other = b.binary(BinaryOp::Rem, other, threads);
        let other = b.binary(BinaryOp::Mul, other, count);
        let mut read = Vec::new();
        for group in 0..groups {
            let pending = (groups - 1 - group) as u32;
            b.op(OpKind::AsyncCopy(AsyncCopyOp::Wait { pending }), &[], &[]);
            b.op(OpKind::Barrier, &[], &[]);
            let place = b.index(group * group_len + lane);
            let at = b.binary(BinaryOp::Add, other, place);
            read.push(b.gather(memory, &[at], None, source.padding, Bounds::Check));
        }
        b.op(OpKind::Barrier, &[], &[]);
        read.into_iter().for_each(|value| self.keep_loaded(value, true));
    }

    /// Vectors of a view that is read; `None` for one without axes.
    fn source(&mut self) -> Option<Source> {
        let view = *self.rng.pick(&self.inputs);
        let ty = self.ty(view);
        let last = (ty.as_view().map_or(0, |v| v.rank) as usize).checked_sub(1)?;
        let mut leading = Vec::new();
        for axis in 0..last {
            let value = self.uniform(Scalar::I64);
            leading.push(self.fitted(value, view, axis, true));
        }
        let padding = match self.rng.one_in(4) {
            true => self.padding(ty.elem()),
            false => self.builder().constant(Literal::zero(ty.elem())),
        };
        let (count, whole) = (1 << self.rng.below(4), self.rng.one_in(2));
        Some(Source { view, leading, extent: self.extent_of(view, last), padding, count, whole })
    }
}

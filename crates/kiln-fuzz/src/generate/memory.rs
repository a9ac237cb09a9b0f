//! Reads and writes. Every program and thread writes to a place of its own.

use super::Generator;
use super::pool::Entry;
use kiln_ir::*;

/// A view that the kernel writes.
#[derive(Clone, Debug)]
pub(super) struct Output {
    view: Value,
    elem: Scalar,
    /// The box of a program; `None` where each thread has one element.
    tile: Option<Shape>,
}

/// A view that is reached by one commutative atomic operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atomics {
    pub(super) view: Value,
    pub(super) elem: Scalar,
    pub(super) op: AtomicOp,
}

impl Generator<'_> {
    pub(super) fn output(&mut self, number: usize, of_threads: bool) -> Output {
        let elem = self.memory_elem();
        if of_threads {
            let threads = self.grid[0] * self.threads.iter().product::<u32>();
            let extent = (threads - self.rng.below(2) as u32).max(1);
            let view = self.view(format!("out{number}"), elem, &[extent], true);
            return Output { view, elem, tile: None };
        }
        let shape = Shape::new(&self.shape().extents()[..1]);
        let shape = if self.grid[1] > 1 || self.rng.one_in(2) {
            Shape::new(&[shape[0], self.shape()[0]])
        } else {
            shape
        };
        // The last tile may hang over the edge.
        let extents: Vec<u32> = shape
            .extents()
            .iter()
            .enumerate()
            .map(|(axis, &e)| (e * self.grid[axis] - self.rng.below(2) as u32).max(1))
            .collect();
        let view = self.view(format!("out{number}"), elem, &extents, true);
        Output { view, elem, tile: Some(shape) }
    }

    /// A load from somewhere.
    pub(super) fn read(&mut self) {
        match self.rng.below(4) {
            0 => self.read_back(),
            1 | 2 if !self.divergent => self.load_box(),
            _ => self.gather(),
        }
    }

    fn load_box(&mut self) {
        let view = *self.rng.pick(&self.inputs);
        let ty = self.ty(view);
        let rank = ty.as_view().map_or(0, |v| v.rank) as usize;
        let extents: Vec<u32> = (0..rank).map(|_| self.shape()[0]).collect();
        let offsets: Vec<Value> = (0..rank)
            .map(|_| {
                let value = self.uniform(Scalar::I64);
                self.small_index(Entry { value, varying: false }, 12).value
            })
            .collect();
        let padding = self.padding(ty.elem());
        let reuse = *self.rng.pick(Reuse::ALL);
        let value = self.builder().load(view, &offsets, padding, Shape::new(&extents), reuse);
        self.keep_loaded(value, false);
    }

    /// Loads element by element: from anywhere under a mask, or from an index that is made to fit.
    fn gather(&mut self) {
        let view = *self.rng.pick(&self.inputs);
        let ty = self.ty(view);
        let rank = ty.as_view().map_or(0, |v| v.rank) as usize;
        let shape = if self.divergent || self.rng.one_in(2) { Shape::scalar() } else { self.shape() };
        if rank == 0 && shape.rank() > 0 {
            return;
        }
        let bounds = *self.rng.pick(Bounds::ALL);
        let fit = bounds != Bounds::Mask && !(bounds == Bounds::Check && self.may_fault());
        let mut varying = false;
        let mut indices = Vec::new();
        for axis in 0..rank {
            let elem = *self.rng.pick(&[Scalar::I64, Scalar::I32]);
            let index = self.of_type(&Type::tile(elem, shape.clone()));
            varying |= index.varying;
            indices.push(self.fitted(index.value, view, axis, fit));
        }
        let mask = self.rng.one_in(2).then(|| self.of_type(&Type::tile(Scalar::Bool, shape.clone())));
        varying |= mask.is_some_and(|m| m.varying);
        let padding = self.padding(ty.elem());
        let value = self.builder().gather(view, &indices, mask.map(|m| m.value), padding, bounds);
        self.keep_loaded(value, varying);
    }

    /// The index, brought near the view, or into it.
    pub(super) fn fitted(&mut self, index: Value, view: Value, axis: usize, inside: bool) -> Value {
        let (elem, shape) = (self.ty(index).elem(), self.kernel.shape(index));
        let extent = self.extent_of(view, axis);
        let literal = |v: i64| Literal::wrapping(elem, i128::from(v));
        let mut b = self.builder();
        let near = b.splat(literal(extent + 3), shape.clone());
        let index = b.binary(BinaryOp::Rem, index, near);
        if !inside {
            return index;
        }
        let (least, greatest) = (b.splat(literal(0), shape.clone()), b.splat(literal(extent - 1), shape));
        let index = b.binary(BinaryOp::Max, index, least);
        b.binary(BinaryOp::Min, index, greatest)
    }

    pub(super) fn extent_of(&self, view: Value, axis: usize) -> i64 {
        let args = &self.kernel.block(self.kernel.body).args;
        let param = args.iter().position(|&a| a == view);
        match param.map(|at| &self.arguments[at]) {
            Some(super::Argument::View { extents, .. }) => i64::from(extents[axis]),
            _ => 1,
        }
    }

    /// Where the program's box of an output begins.
    fn place(&mut self, shape: &Shape) -> Vec<Value> {
        let mut b = self.builder();
        let axes = [Axis::X, Axis::Y, Axis::Z];
        let begin = |(&extent, axis): (&u32, Axis)| {
            let (pid, extent) = (b.program_id(axis), b.index(i64::from(extent)));
            b.binary(BinaryOp::Mul, pid, extent)
        };
        shape.extents().iter().zip(axes).map(begin).collect()
    }

    /// Loads what this program or thread has in an output.
    pub(super) fn read_back(&mut self) {
        let output = self.rng.pick(&self.outputs).clone();
        let padding = self.padding(output.elem);
        match (output.tile, self.thread) {
            (Some(shape), _) if !self.divergent => {
                let offsets = self.place(&shape);
                let (offsets, shape) = self.part(offsets, shape);
                let value = self.builder().load(output.view, &offsets, padding, shape, Reuse::Normal);
                self.keep_loaded(value, false);
            }
            (None, Some((_, at))) if output.elem.bytes() >= 4 && self.rng.one_in(3) => {
                let order = *self.rng.pick(&[Order::Relaxed, Order::Acquire]);
                let (scope, bounds) = (self.scope(), Bounds::Mask);
                let kind = OpKind::OrderedLoad { order, scope, bounds };
                let op = self.builder().op(kind, &[output.view, at], &[Type::scalar(output.elem)]);
                let value = self.kernel.result(op);
                self.keep(value, true);
            }
            (None, Some((_, at))) => {
                let value = self.builder().gather(output.view, &[at], None, padding, Bounds::Mask);
                self.keep_loaded(value, true);
            }
            _ => {}
        }
    }

    /// What stands for elements that are not loaded.
    pub(super) fn padding(&mut self, elem: Scalar) -> Value {
        if elem.is_storage() { self.constant(elem).value } else { self.uniform(elem) }
    }

    /// Keeps what was loaded: of a type for storage, what it is converted to.
    pub(super) fn keep_loaded(&mut self, value: Value, varying: bool) {
        let from = self.ty(value).elem();
        if !from.is_storage() {
            self.keep(value, varying);
            return;
        }
        let elem = if from.is_int() { Scalar::I32 } else { Scalar::F32 };
        let value = self.builder().cast(value, elem);
        self.keep(value, varying);
    }

    /// A value for a view of this element type.
    fn value_to_store(&mut self, elem: Scalar, shape: &Shape) -> Value {
        if !elem.is_storage() {
            return self.of_type(&Type::tile(elem, shape.clone())).value;
        }
        let from = if elem.is_int() { Scalar::I32 } else { Scalar::F32 };
        let value = self.of_type(&Type::tile(from, shape.clone())).value;
        self.builder().cast(value, elem)
    }

    /// The box of a program, or where places are to be written several times a part of it, which
    /// begins anywhere inside.
    fn part(&mut self, offsets: Vec<Value>, shape: Shape) -> (Vec<Value>, Shape) {
        if !self.options.overlapping || self.rng.one_in(3) {
            return (offsets, shape);
        }
        let mut extents = Vec::new();
        let mut begin = Vec::new();
        for (offset, &extent) in offsets.into_iter().zip(shape.extents()) {
            let mut len = 1 + self.rng.below(extent as usize) as u32;
            if self.options.powers_of_two {
                len = 1 << len.ilog2();
            }
            let room = i64::from(extent - len) + 1;
            // Known when the kernel is made, or only when it runs.
            let known = Literal::index(self.rng.below(room as usize) as i64);
            let by = match self.rng.one_in(2) {
                true => self.builder().constant(known),
                false => {
                    let value = self.uniform(Scalar::I64);
                    let by = self.small_index(Entry { value, varying: false }, room).value;
                    let mut b = self.builder();
                    let zero = b.index(0);
                    b.binary(BinaryOp::Max, by, zero)
                }
            };
            begin.push(self.builder().binary(BinaryOp::Add, offset, by));
            extents.push(len);
        }
        (begin, Shape::new(&extents))
    }

    pub(super) fn write(&mut self) {
        let at = self.rng.below(self.outputs.len());
        self.write_to(at);
    }

    pub(super) fn write_to(&mut self, at: usize) {
        let Output { view, elem, tile } = self.outputs[at].clone();
        match (tile, self.thread) {
            (Some(shape), _) if !self.divergent => {
                let offsets = self.place(&shape);
                let (offsets, shape) = self.part(offsets, shape);
                let value = self.value_to_store(elem, &shape);
                if shape.rank() == 1 && self.rng.one_in(3) {
                    self.scatter_box(view, offsets[0], shape, value);
                } else {
                    let reuse = *self.rng.pick(Reuse::ALL);
                    let disjoint = self.rng.one_in(2);
                    self.builder().store(view, &offsets, value, reuse, disjoint);
                }
            }
            (None, Some((_, place))) => self.write_own(view, elem, place),
            _ => {}
        }
    }

    /// A program's box, element by element.
    fn scatter_box(&mut self, view: Value, begin: Value, shape: Shape, value: Value) {
        let mask = self.rng.one_in(2).then(|| self.of_type(&Type::tile(Scalar::Bool, shape.clone())).value);
        let mut b = self.builder();
        let (begin, iota) = (b.broadcast(begin, shape.clone()), b.iota(Scalar::I64, shape[0]));
        let index = b.binary(BinaryOp::Add, begin, iota);
        b.scatter(view, &[index], mask, value, Bounds::Mask);
    }

    /// A thread's element, by a plain, an ordered or an atomic write.
    fn write_own(&mut self, view: Value, elem: Scalar, place: Value) {
        let value = self.value_to_store(elem, &Shape::scalar());
        let mask = self.rng.one_in(3).then(|| self.of_type(&Type::scalar(Scalar::Bool)).value);
        let four_bytes = matches!(elem, Scalar::I32 | Scalar::U32);
        match self.rng.below(5) {
            0 if four_bytes => {
                let (op, masked) = (AtomicOp::Exchange, mask.is_some());
                let kind = OpKind::Atomic { op, scope: Scope::Device, bounds: Bounds::Mask, masked };
                let mut operands = vec![view, place];
                operands.extend(mask);
                operands.push(value);
                let op = self.builder().op(kind, &operands, &[Type::scalar(elem)]);
                let old = self.kernel.result(op);
                self.keep(old, true);
            }
            1 if four_bytes => {
                let expected = self.of_type(&Type::scalar(elem)).value;
                let kind = OpKind::AtomicCas { scope: Scope::Device, bounds: Bounds::Mask };
                let operands = [view, place, expected, value];
                let op = self.builder().op(kind, &operands, &[Type::scalar(elem)]);
                let old = self.kernel.result(op);
                self.keep(old, true);
            }
            2 if elem.bytes() >= 4 && mask.is_none() => {
                let order = *self.rng.pick(&[Order::Relaxed, Order::Release]);
                let kind = OpKind::OrderedStore { order, scope: self.scope(), bounds: Bounds::Mask };
                self.builder().op(kind, &[view, place, value], &[]);
            }
            _ => self.builder().scatter(view, &[place], mask, value, Bounds::Mask),
        }
    }

    fn scope(&mut self) -> Scope {
        *self.rng.pick(&[Scope::Block, Scope::Device, Scope::System])
    }

    /// An atomic of the one kind that its view has, so that the order does not matter; the old
    /// value is not read.
    pub(super) fn atomic(&mut self) {
        if self.atomics.is_empty() {
            return self.expression();
        }
        let Atomics { view, elem, op } = *self.rng.pick(&self.atomics);
        let shape = if self.divergent || self.rng.one_in(2) { Shape::scalar() } else { self.shape() };
        let index = self.of_type(&Type::tile(Scalar::I64, shape.clone())).value;
        let bounds = *self.rng.pick(&[Bounds::Mask, Bounds::Trust]);
        let index = self.fitted(index, view, 0, bounds == Bounds::Trust);
        let ty = Type::tile(elem, shape.clone());
        let value = self.of_type(&ty).value;
        let mask = self.rng.one_in(2).then(|| self.of_type(&Type::tile(Scalar::Bool, shape)).value);
        let scope = *self.rng.pick(&[Scope::Device, Scope::System]);
        let mut operands = vec![view, index];
        operands.extend(mask);
        operands.push(value);
        let kind = OpKind::Atomic { op, scope, bounds, masked: mask.is_some() };
        self.builder().op(kind, &operands, &[ty]);
    }

    /// Threads pass values through shared memory, or a thread to itself through local memory.
    pub(super) fn exchange_through_memory(&mut self) {
        let Some((in_block, _)) = self.thread else { return };
        if !self.divergent && self.rng.one_in(3) {
            return self.exchange_through_copies(in_block);
        }
        let elem = self.elem();
        let value = self.of_type(&Type::scalar(elem)).value;
        let padding = self.uniform(elem);
        let threads = self.threads.iter().product::<u32>();
        if !self.divergent && self.rng.one_in(4) {
            let op = self.builder().op(OpKind::BlockUniform, &[value], &[Type::scalar(elem)]);
            let value = self.kernel.result(op);
            self.keep(value, false);
            return;
        }
        if self.divergent || self.rng.one_in(2) {
            let at = Literal::index(self.rng.below(4) as i64);
            let mut b = self.builder();
            let memory = b.alloc(Space::Local, elem, Shape::new(&[4]));
            for i in 0..4 {
                let i = b.index(i);
                b.scatter(memory, &[i], None, value, Bounds::Trust);
            }
            let at = b.constant(at);
            let value = b.gather(memory, &[at], None, padding, Bounds::Check);
            self.keep(value, true);
            return;
        }
        let distance = Literal::index(1 + self.rng.below(threads as usize) as i64);
        let way = self.rng.below(4);
        let mut b = self.builder();
        let memory = b.alloc(Space::Shared, elem, Shape::new(&[threads]));
        b.scatter(memory, &[in_block], None, value, Bounds::Trust);
        b.op(OpKind::Barrier, &[], &[]);
        let (distance, count) = (b.constant(distance), b.index(i64::from(threads)));
        let other = match way {
            // Steps of one and of minus one, of which some are outside, and one place.
            0 => b.binary(BinaryOp::Add, in_block, distance),
            1 => b.binary(BinaryOp::Sub, distance, in_block),
            2 => distance,
            _ => {
                let other = b.binary(BinaryOp::Add, in_block, distance);
                b.binary(BinaryOp::Rem, other, count)
            }
        };
        let value = b.gather(memory, &[other], None, padding, Bounds::Mask);
        b.op(OpKind::Barrier, &[], &[]);
        b.op(OpKind::Fence(Scope::Block), &[], &[]);
        self.keep(value, true);
    }
}

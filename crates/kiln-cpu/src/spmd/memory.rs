//! Accesses to memory, under the mask of the lanes that are there.

use super::rewrite::Rewrite;
use super::space::ENOUGH_LANES;
use kiln_backend::Result;
use kiln_cpu_primitives::{PrimitiveKey, lookup};
use kiln_ir::{
    AtomicOp, BinaryOp, Bounds, CompareOp, Literal, Op, OpData, OpKind, ReduceOp, Reuse, Scalar, Scope,
    Shape, Space, Type, Value, eval,
};

impl Rewrite<'_> {
    /// Local memory gets an axis for the lanes, the fastest.
    pub(super) fn alloc(&mut self, data: &OpData) {
        let OpKind::Alloc { space, elem, shape } = &data.kind else { return };
        if *space != Space::Local {
            let view = self.b.alloc(*space, *elem, shape.clone());
            self.set_uniform(data.results[0], view);
            return;
        }
        let extents = [shape.extents(), &[self.lanes]].concat();
        let view = self.b.alloc(Space::Shared, *elem, Shape::new(&extents));
        self.locals.insert(view, shape.clone());
        self.set_uniform(data.results[0], view);
    }

    pub(super) fn stride(&mut self, data: &OpData, axis: u32) -> Result<()> {
        let view = self.uniform(data.view())?;
        let stride = match self.locals.get(&view) {
            Some(shape) => {
                let (.., inner) = shape.around(axis as usize);
                self.b.index(inner as i64)
            }
            None => self.b.stride(view, axis),
        };
        self.set_uniform(data.results[0], stride);
        Ok(())
    }

    /// A box, or the one element of a view of rank 0.
    pub(super) fn load(&mut self, data: &OpData) -> Result<()> {
        let result = data.results[0];
        let view = self.uniform(data.view())?;
        if !self.locals.contains_key(&view) {
            let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
            let value = self.one(data.kind.clone(), &operands, self.old.ty(result).clone());
            self.set_uniform(result, value);
            return Ok(());
        }
        if !self.old.ty(result).is_scalar() {
            return Err(self.tile_of_local());
        }
        let elem = self.old.ty(result).elem();
        let value = self.load_lanes(view, &[], elem);
        self.set_in_own_form(result, value)
    }

    pub(super) fn store(&mut self, data: &OpData) -> Result<()> {
        let view = self.uniform(data.view())?;
        let value = data.stored_value();
        let local = self.locals.contains_key(&view);
        if !self.old.ty(value).is_scalar() {
            if local {
                return Err(self.tile_of_local());
            }
            let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
            self.b.op(data.kind.clone(), &operands, &[]);
            return Ok(());
        }
        if local {
            let value = self.lanes_of(value)?;
            self.store_lanes(view, &[], value);
            return Ok(());
        }
        // The one element of a view of rank 0: of several lanes that store, one value remains.
        if self.mask.is_none() && !self.is_lanes(value)? {
            let value = self.uniform(value)?;
            self.b.op(data.kind.clone(), &[view, value], &[]);
            return Ok(());
        }
        let (value, mask) = (self.lanes_of(value)?, self.mask_or_all());
        self.b.scatter(view, &[], Some(mask), value, Bounds::Trust);
        Ok(())
    }

    fn tile_of_local(&self) -> kiln_backend::Error {
        self.unsupported("a tile in the memory of a thread", "Put the tile into shared memory.")
    }

    /// All lanes' elements of a local array at one place that they share.
    fn load_lanes(&mut self, view: Value, indices: &[Value], elem: Scalar) -> Value {
        let (offsets, shape) = self.lane_box(indices);
        let padding = self.b.constant(Literal::zero(elem));
        let value = self.b.load(view, &offsets, padding, shape, Reuse::Normal);
        self.b.reshape(value, self.shape())
    }

    /// Stores to a local array at one place that the lanes share. A lane's memory is its own, so
    /// lanes that are not there write back what they had.
    fn store_lanes(&mut self, view: Value, indices: &[Value], value: Value) {
        let value = if self.mask.is_some() {
            let before = self.load_lanes(view, indices, self.b.kernel.ty(value).elem());
            self.under_mask(value, before)
        } else {
            value
        };
        let (offsets, shape) = self.lane_box(indices);
        let value = self.b.reshape(value, shape);
        self.b.store(view, &offsets, value, Reuse::Normal, true);
    }

    fn lane_box(&mut self, indices: &[Value]) -> (Vec<Value>, Shape) {
        let mut offsets: Vec<Value> = indices.iter().map(|&i| self.b.cast(i, Scalar::I64)).collect();
        offsets.push(self.b.index(0));
        let mut extents = vec![1; indices.len()];
        extents.push(self.lanes);
        (offsets, Shape::new(&extents))
    }

    pub(super) fn gather(&mut self, op: Op, data: &OpData, bounds: Bounds) -> Result<()> {
        let result = data.results[0];
        let access = Access::of(self, data)?;
        if !self.old.ty(result).is_scalar() {
            return self.tile_access(data);
        }
        let elem = self.old.ty(result).elem();
        if access.local {
            let padding_is_free = self.old.as_const(access.values[0]).is_some_and(|l| l.bits() == 0);
            let simple = access.mask.is_none() && bounds != Bounds::Check && self.uniform_indices(&access)?;
            if simple && (bounds == Bounds::Trust || padding_is_free) {
                let indices = access.indices.iter().map(|&i| self.uniform(i)).collect::<Result<Vec<_>>>()?;
                let value = self.load_lanes(access.view, &indices, elem);
                return self.set_in_own_form(result, value);
            }
        }
        if !access.local && !self.uniformity.varies(result) {
            return self.uniform_gather(op, data, &access, bounds);
        }
        let indices = self.lane_indices(&access)?;
        let mask = self.lane_mask(&access)?;
        let value = if self.is_lanes(access.values[0])? {
            self.padded_gather(&access, &indices, mask, bounds)?
        } else {
            let padding = self.uniform(access.values[0])?;
            self.gather_lanes(access.view, &indices, mask, padding, bounds)
        };
        self.set_in_own_form(result, value)
    }

    /// A gather of lanes. A view of rank 0 has no index that could give the shape.
    fn gather_lanes(
        &mut self,
        view: Value,
        indices: &[Value],
        mask: Option<Value>,
        padding: Value,
        bounds: Bounds,
    ) -> Value {
        let elem = self.b.kernel.ty(view).elem();
        let mask = if indices.is_empty() { Some(mask.unwrap_or(self.mask_or_all())) } else { mask };
        let operands = [&[view], indices, mask.as_slice(), &[padding]].concat();
        self.one(OpKind::Gather { bounds, masked: mask.is_some() }, &operands, self.lanes_type(elem))
    }

    /// A gather in which each lane has a padding of its own.
    fn padded_gather(
        &mut self,
        access: &Access,
        indices: &[Value],
        mask: Option<Value>,
        bounds: Bounds,
    ) -> Result<Value> {
        let zero = self.b.constant(Literal::zero(self.b.kernel.ty(access.view).elem()));
        let value = self.gather_lanes(access.view, indices, mask, zero, bounds);
        let mut reads = mask.unwrap_or(self.mask_or_all());
        if bounds == Bounds::Mask {
            for (axis, &index) in indices.iter().enumerate() {
                let index = self.b.cast(index, Scalar::I64);
                let extent = self.b.extent(access.view, axis as u32);
                let extent = self.b.broadcast(extent, self.shape());
                let zeros = self.b.splat(Literal::index(0), self.shape());
                let above = self.b.compare(CompareOp::Ge, index, zeros);
                let below = self.b.compare(CompareOp::Lt, index, extent);
                reads = self.b.binary(BinaryOp::And, reads, above);
                reads = self.b.binary(BinaryOp::And, reads, below);
            }
        }
        let padding = self.lanes_of(access.values[0])?;
        Ok(self.b.select(reads, value, padding))
    }

    /// A load from one place for all threads: one scalar load, if any thread is there.
    fn uniform_gather(&mut self, op: Op, data: &OpData, access: &Access, bounds: Bounds) -> Result<()> {
        let result = data.results[0];
        let ty = self.old.ty(result).clone();
        if !self.uniformity.diverges(op) && self.mask.is_none() {
            let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
            let value = self.one(data.kind.clone(), &operands, ty);
            self.set_uniform(result, value);
            return Ok(());
        }
        let indices = access.indices.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
        if bounds == Bounds::Check {
            let inside = self.inside(access.view, &indices);
            self.unless(inside, |r| r.check(access))?;
        }
        let mut mask = access.mask.map(|own| self.uniform(own)).transpose()?;
        if bounds == Bounds::Trust {
            // Where no lane is there, the index may be anything.
            let any = self.any_active();
            mask = Some(mask.map_or(any, |own| self.b.binary(BinaryOp::And, any, own)));
        }
        let padding = self.uniform(access.values[0])?;
        let value = self.b.gather(access.view, &indices, mask, padding, unchecked(bounds));
        self.set_uniform(result, value);
        Ok(())
    }

    /// Whether indices that all lanes share are inside of a view.
    fn inside(&mut self, view: Value, indices: &[Value]) -> Value {
        let mut inside = self.b.constant(Literal::bool(true));
        for (axis, &index) in indices.iter().enumerate() {
            let (index, zero) = (self.b.cast(index, Scalar::I64), self.b.index(0));
            let extent = self.b.extent(view, axis as u32);
            let above = self.b.compare(CompareOp::Ge, index, zero);
            let below = self.b.compare(CompareOp::Lt, index, extent);
            inside = self.b.binary(BinaryOp::And, inside, above);
            inside = self.b.binary(BinaryOp::And, inside, below);
        }
        inside
    }

    /// The fault of an access whose indices are checked, in the first lane that it concerns.
    fn check(&mut self, access: &Access) -> Result<()> {
        let indices = self.lane_indices(access)?;
        let mask = self.lane_mask(access)?;
        let zero = self.b.constant(Literal::zero(self.b.kernel.ty(access.view).elem()));
        self.gather_lanes(access.view, &indices, mask, zero, Bounds::Check);
        Ok(())
    }

    pub(super) fn scatter(&mut self, op: Op, data: &OpData, bounds: Bounds) -> Result<()> {
        let access = Access::of(self, data)?;
        let value = access.values[0];
        if !self.old.ty(value).is_scalar() {
            return self.tile_access(data);
        }
        let uniform_place = self.uniform_indices(&access)?;
        if access.local && access.mask.is_none() && bounds != Bounds::Check && uniform_place {
            let indices = access.indices.iter().map(|&i| self.uniform(i)).collect::<Result<Vec<_>>>()?;
            let value = self.lanes_of(value)?;
            self.store_lanes(access.view, &indices, value);
            return Ok(());
        }
        let uniform_mask = match access.mask {
            Some(mask) => !self.is_lanes(mask)?,
            None => true,
        };
        let all_there = self.mask.is_none() && !self.uniformity.diverges(op);
        if !access.local && all_there && uniform_place && uniform_mask && !self.is_lanes(value)? {
            let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
            self.b.op(data.kind.clone(), &operands, &[]);
            return Ok(());
        }
        let indices = self.lane_indices(&access)?;
        let (mask, value) = (self.lane_mask(&access)?, self.lanes_of(value)?);
        self.b.scatter(access.view, &indices, mask, value, bounds);
        Ok(())
    }

    pub(super) fn atomic(&mut self, data: &OpData) -> Result<()> {
        let OpKind::Atomic { op, .. } = data.kind else {
            return Err(self.internal("not an atomic"));
        };
        if self.lanes == 1 && self.old.ty(data.results[0]).is_scalar() {
            return self.plain(data);
        }
        let access = Access::of(self, data)?;
        if !self.old.ty(data.results[0]).is_scalar() {
            return self.tile_access(data);
        }
        let (mask, value) = (self.lane_mask(&access)?, self.lanes_of(access.values[0])?);
        let combined = combination(op).filter(|_| self.old.ty(data.results[0]).elem().is_int());
        let unused = !self.used[data.results[0].index()];
        if let (Some(combine), true) = (combined, unused && !access.local && self.uniform_indices(&access)?) {
            return self.combined_atomic(data, &access, combine, mask, value);
        }
        self.each_atomic(data, &access, mask, value)
    }

    /// An atomic of each lane.
    fn each_atomic(
        &mut self,
        data: &OpData,
        access: &Access,
        mask: Option<Value>,
        value: Value,
    ) -> Result<()> {
        let OpKind::Atomic { op, scope, bounds, .. } = data.kind else {
            return Err(self.internal("not an atomic"));
        };
        let mut indices = self.lane_indices(access)?;
        if !self.used[data.results[0].index()] {
            self.index_by_bytes(op, &mut indices, value);
        }
        let operands = [&[access.view], &indices[..], mask.as_slice(), &[value]].concat();
        let kind = OpKind::Atomic { op, scope, bounds, masked: mask.is_some() };
        let ty = self.lanes_type(self.old.ty(data.results[0]).elem());
        let old = self.one(kind, &operands, ty);
        self.set_in_own_form(data.results[0], old)
    }

    /// Makes bytes the indices, where those were made of bytes and a primitive adds at them:
    /// widening was a quarter of a histogram's time, and bytes need no check.
    fn index_by_bytes(&self, op: AtomicOp, indices: &mut [Value], value: Value) {
        let kernel = &self.b.kernel;
        let key = PrimitiveKey::AddEach(Scalar::U8, kernel.ty(value).elem());
        let [index] = indices else { return };
        if op != AtomicOp::Add || self.lanes < ENOUGH_LANES || lookup(key).is_none() {
            return;
        }
        if let Some(cast) = kernel.defining_op(*index)
            && cast.kind == OpKind::Cast
            && kernel.ty(cast.input()).elem() == Scalar::U8
        {
            *index = cast.input();
        }
    }

    /// Atomics of all lanes at one place, whose results nothing reads: the lanes' operands are
    /// combined first.
    fn combined_atomic(
        &mut self,
        data: &OpData,
        access: &Access,
        combine: ReduceOp,
        mask: Option<Value>,
        value: Value,
    ) -> Result<()> {
        let OpKind::Atomic { op, scope, bounds, .. } = data.kind else {
            return Err(self.internal("not an atomic"));
        };
        let indices = access.indices.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
        let together = |r: &mut Self| {
            let elem = r.b.kernel.ty(value).elem();
            let (own, any) = match mask {
                Some(mask) => {
                    let nothing = r.b.splat(eval::identity(combine, elem), r.shape());
                    let own = r.b.select(mask, value, nothing);
                    (own, Some(r.b.reduce(ReduceOp::Or, 0, mask)))
                }
                None => (value, None),
            };
            let all = r.b.reduce(combine, 0, own);
            let operands = [&[access.view], &indices[..], any.as_slice(), &[all]].concat();
            let kind = OpKind::Atomic { op, scope, bounds: unchecked(bounds), masked: any.is_some() };
            r.b.op(kind, &operands, &[Type::scalar(elem)]);
        };
        if bounds != Bounds::Check {
            together(self);
            return Ok(());
        }
        // The first lane that is there reports an index outside.
        let inside = self.inside(access.view, &indices);
        self.unless(inside, |r| r.each_atomic(data, access, mask, value))?;
        together(self);
        Ok(())
    }

    /// Lanes that are not there compare and exchange at an index outside the view, which does
    /// nothing.
    pub(super) fn atomic_cas(&mut self, data: &OpData, scope: Scope, bounds: Bounds) -> Result<()> {
        if self.lanes == 1 && self.old.ty(data.results[0]).is_scalar() {
            return self.plain(data);
        }
        let access = Access::of(self, data)?;
        if !self.old.ty(data.results[0]).is_scalar() {
            return self.tile_access(data);
        }
        let mut indices = self.lane_indices(&access)?;
        let mut kind = OpKind::AtomicCas { scope, bounds };
        if let Some(mask) = self.mask {
            let Some(first) = indices.first_mut() else {
                return Err(self.unsupported(
                    "a compare-and-exchange on a view of rank 0 that only some threads reach",
                    "Use a view of rank 1 with one element.",
                ));
            };
            let nowhere = self.b.splat(Literal::index(-1), Shape::new(&[self.lanes]));
            let place = self.b.cast(*first, Scalar::I64);
            *first = self.b.select(mask, place, nowhere);
            kind = OpKind::AtomicCas { scope, bounds: Bounds::Mask };
            if bounds == Bounds::Check {
                self.check(&access)?;
            }
            for index in &mut indices[1..] {
                *index = self.b.cast(*index, Scalar::I64);
            }
        }
        let values = self.all_lanes(&access.values)?;
        let operands = [&[access.view], &indices[..], &values[..]].concat();
        let ty = self.lanes_type(self.old.ty(data.results[0]).elem());
        let old = self.one(kind, &operands, ty);
        self.set_in_own_form(data.results[0], old)
    }

    /// An access of a tile, which all threads make together.
    fn tile_access(&mut self, data: &OpData) -> Result<()> {
        let operands = data.operands.iter().map(|&v| self.uniform(v)).collect::<Result<Vec<_>>>()?;
        if self.locals.contains_key(&self.uniform(data.view())?) {
            return Err(self.tile_of_local());
        }
        let types: Vec<Type> = data.results.iter().map(|&r| self.old.ty(r).clone()).collect();
        let op = self.b.op(data.kind.clone(), &operands, &types);
        self.note_collective(op);
        if let Some(&result) = data.results.first() {
            let value = self.b.kernel.result(op);
            self.set_uniform(result, value);
        }
        Ok(())
    }

    fn uniform_indices(&self, access: &Access) -> Result<bool> {
        for &index in &access.indices {
            if self.is_lanes(index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The indices as lanes; of local memory, also the lane.
    fn lane_indices(&mut self, access: &Access) -> Result<Vec<Value>> {
        let mut indices = self.all_lanes(&access.indices)?;
        if access.local {
            indices.push(self.lane());
        }
        Ok(indices)
    }

    /// The access's own mask and the lanes that are there.
    fn lane_mask(&mut self, access: &Access) -> Result<Option<Value>> {
        let Some(own) = access.mask else { return Ok(self.mask) };
        let own = self.lanes_of(own)?;
        Ok(Some(self.narrowed(own)))
    }

    /// Binds a value of lanes to a result. With one thread there are no lanes: the value's one
    /// element is the scalar.
    pub(super) fn set_in_own_form(&mut self, result: Value, lanes: Value) -> Result<()> {
        if self.uniformity.varies(result) {
            self.set_lanes(result, lanes);
            return Ok(());
        }
        if self.lanes != 1 {
            return Err(self.internal("lanes where a uniform value is expected"));
        }
        let scalar = self.b.reshape(lanes, Shape::scalar());
        self.set_uniform(result, scalar);
        Ok(())
    }
}

/// What combines the operands of atomics.
fn combination(op: AtomicOp) -> Option<ReduceOp> {
    match op {
        AtomicOp::Add => Some(ReduceOp::Sum),
        AtomicOp::Min => Some(ReduceOp::Min),
        AtomicOp::Max => Some(ReduceOp::Max),
        AtomicOp::And => Some(ReduceOp::And),
        AtomicOp::Or => Some(ReduceOp::Or),
        AtomicOp::Xor => Some(ReduceOp::Xor),
        AtomicOp::Exchange | AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => None,
    }
}

fn unchecked(bounds: Bounds) -> Bounds {
    if bounds == Bounds::Check { Bounds::Mask } else { bounds }
}

/// The operands of an indexed access: old values, except for the view.
struct Access {
    view: Value,
    local: bool,
    indices: Vec<Value>,
    mask: Option<Value>,
    values: Vec<Value>,
}

impl Access {
    fn of(r: &Rewrite<'_>, data: &OpData) -> Result<Access> {
        let view = r.uniform(data.view())?;
        Ok(Access {
            view,
            local: r.locals.contains_key(&view),
            indices: data.coordinates().to_vec(),
            mask: data.mask(),
            values: data.access_values().to_vec(),
        })
    }
}

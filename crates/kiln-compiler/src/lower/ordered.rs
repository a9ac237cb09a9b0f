//! Ordered accesses of a thread: single elements, quads of words, and atomics of 128 bits.

use super::Lowering;
use super::layouts::LayoutId;
use crate::error::CompileError;
use kiln_ir::{
    Atomic128Op, Bounds, CompareOp, LinearOp, OpData, OpKind, Order, Scalar, Scope, Space, Type, Value,
};

impl Lowering<'_> {
    /// `OrderedLoad` and `OrderedStore`. Their order is the user's matter: the barrier pass does
    /// not see them.
    pub(super) fn ordered(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (OpKind::OrderedLoad { order, scope, bounds } | OpKind::OrderedStore { order, scope, bounds }) =
            data.kind
        else {
            return Ok(());
        };
        let kind = match data.results.is_empty() {
            true => LinearOp::OrderedStore { order, scope },
            false => LinearOp::OrderedLoad { order, scope },
        };
        let access = self.indexed(data, LayoutId::SCALAR, bounds)?;
        let (index, predicate) = self.element_place(&access, 0)?;
        let view = self.scalar(access.view)?;
        let values = self.scalars(data.stored_values())?;
        let types: Vec<Type> = data.results.iter().map(|&r| self.src.ty(r).clone()).collect();
        let op = self.linear_access(kind, (view, index), predicate, &values, &types);
        if let Some(&result) = data.results.first() {
            let value = self.em.kernel.result(op);
            self.define_scalar(result, value);
        }
        self.defer_found(access.tile);
        Ok(())
    }

    /// `LoadQuad` and `StoreQuad`.
    pub(super) fn quad(&mut self, data: &OpData) -> Result<(), CompileError> {
        let (OpKind::LoadQuad(bounds) | OpKind::StoreQuad(bounds)) = data.kind else { return Ok(()) };
        let view = data.view();
        let index = self.scalar(data.index())?;
        let at = (self.scalar(view)?, index);
        let address = self.view_address(at);
        let inside = match bounds {
            Bounds::Trust => self.still_trusted(bounds),
            _ => Some(self.is_whole(view, index, address, 4)?),
        };
        let values = self.scalars(data.stored_values())?;
        let space = self.src.ty(view).as_view().map_or(Space::Global, |view| view.space);
        self.ptr_quad(data, space, address, inside, &values);
        Ok(())
    }

    /// `Atomic128`: nothing happens where the two elements are not whole.
    pub(super) fn atomic_128(
        &mut self,
        data: &OpData,
        op: Atomic128Op,
        scope: Scope,
    ) -> Result<(), CompileError> {
        if !self.target.addresses {
            let what = format!("`{}` on a device without atomics of 128 bits", data.kind.mnemonic());
            return Err(self.unsupported(data, &what, "guard the two elements by a lock in a word"));
        }
        let view = data.view();
        let index = self.scalar(data.index())?;
        let at = (self.scalar(view)?, index);
        let address = self.view_address(at);
        let whole = self.is_whole(view, index, address, 2)?;
        let space = self.src.ty(view).as_view().map_or(Space::Global, |view| view.space);
        let mut operands = vec![address, whole];
        operands.extend(self.scalars(data.access_values())?);
        let types = [(); 2].map(|()| Type::scalar(Scalar::U64));
        let made = self.em.op(OpKind::PtrAtomic128 { op, space, scope }, &operands, &types);
        let old = self.em.kernel.op(made).results.iter().copied();
        for (&result, value) in data.results.iter().zip(old.chain([whole]).collect::<Vec<_>>()) {
            self.define_scalar(result, value);
        }
        Ok(())
    }

    /// Whether so many elements from an index on, 16 bytes, lie one after the other in a view and
    /// at a multiple of 16 bytes.
    fn is_whole(
        &mut self,
        view: Value,
        index: Value,
        address: Value,
        count: i64,
    ) -> Result<Value, CompileError> {
        let (zero, last) = (self.em.i64(0), self.em.i64(-count));
        let extent = self.extent(view, 0)?;
        let last = self.em.hoisted(|e| e.add(extent, last));
        let above = self.em.compare(CompareOp::Ge, index, zero);
        let below = self.em.compare(CompareOp::Le, index, last);
        let inside = self.em.and(above, below);
        let (mask, none) = (self.em.int(Scalar::U64, 15), self.em.int(Scalar::U64, 0));
        let rest = self.em.and(address, mask);
        let aligned = self.em.compare(CompareOp::Eq, rest, none);
        let (stride, one) = (self.stride(view, 0)?, self.em.i64(1));
        let adjacent = self.em.hoisted(|e| e.compare(CompareOp::Eq, stride, one));
        let place = self.em.and(aligned, adjacent);
        Ok(self.em.and(inside, place))
    }

    fn ptr_quad(
        &mut self,
        data: &OpData,
        space: Space,
        address: Value,
        predicate: Option<Value>,
        values: &[Value],
    ) {
        let predicated = predicate.is_some();
        let (order, scope, lanes) = (Order::Relaxed, Scope::System, 4);
        let kind = match values.is_empty() {
            true => OpKind::PtrOrderedLoad { space, lanes, order, scope, predicated },
            false => OpKind::PtrOrderedStore { space, lanes, order, scope, predicated },
        };
        let operands: Vec<Value> =
            std::iter::once(address).chain(predicate).chain(values.iter().copied()).collect();
        let types: Vec<Type> = data.results.iter().map(|&r| self.src.ty(r).clone()).collect();
        let op = self.em.op(kind, &operands, &types);
        for (i, &result) in data.results.iter().enumerate() {
            let value = self.em.kernel.op(op).results[i];
            self.define_scalar(result, value);
        }
    }
}

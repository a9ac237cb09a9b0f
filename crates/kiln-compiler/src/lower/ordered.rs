//! Ordered accesses of a thread: single elements, and quads of words.

use super::Lowering;
use super::layouts::LayoutId;
use crate::error::CompileError;
use kiln_ir::{Bounds, CompareOp, LinearOp, OpData, OpKind, Order, Scalar, Scope, Space, Type, Value};

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
            _ => Some(self.is_quad(view, index, address)?),
        };
        let values = self.scalars(data.stored_values())?;
        let space = self.src.ty(view).as_view().map_or(Space::Global, |view| view.space);
        self.ptr_quad(data, space, address, inside, &values);
        Ok(())
    }

    /// Whether four words from an index on are a quad of a view.
    fn is_quad(&mut self, view: Value, index: Value, address: Value) -> Result<Value, CompileError> {
        let (zero, last) = (self.em.i64(0), self.em.i64(-4));
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

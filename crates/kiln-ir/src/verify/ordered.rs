//! Rules of ordered accesses: single elements, quads, and atomics of 128 bits.

use super::subject::{Outcome, Subject, require};
use crate::op::*;
use crate::types::{Scalar, Space, Type, ViewType};

/// Words of a quad.
const QUAD: usize = 4;

pub(super) fn load(s: &Subject, order: Order) -> Outcome {
    let view = s.offsets(0)?;
    not(order, Order::Release, "load")?;
    element(&view)?;
    s.results_len(1)?;
    s.result(0, &Type::scalar(view.elem))
}

pub(super) fn store(s: &Subject, order: Order) -> Outcome {
    let view = s.offsets(1)?;
    not(order, Order::Acquire, "store")?;
    element(&view)?;
    s.results_len(0)?;
    s.writable(&view)?;
    s.operand(s.data.operands.len() - 1, &Type::scalar(view.elem)).map(|_| ())
}

pub(super) fn load_quad(s: &Subject, bounds: Bounds) -> Outcome {
    quad(&s.offsets(0)?, bounds)?;
    s.results_len(QUAD)?;
    (0..QUAD).try_for_each(|i| s.result(i, &Type::scalar(Scalar::U32)))
}

pub(super) fn store_quad(s: &Subject, bounds: Bounds) -> Outcome {
    let view = s.offsets(QUAD)?;
    quad(&view, bounds)?;
    s.results_len(0)?;
    s.writable(&view)?;
    (2..2 + QUAD).try_for_each(|i| s.operand(i, &Type::scalar(Scalar::U32)).map(|_| ()))
}

/// The words that an atomic of 128 bits takes.
fn longs(op: Atomic128Op) -> usize {
    match op {
        Atomic128Op::Exchange => 2,
        Atomic128Op::CompareExchange => 4,
    }
}

pub(super) fn atomic_128(s: &Subject, op: Atomic128Op) -> Outcome {
    let view = s.offsets(longs(op))?;
    let fits = (view.elem, view.rank) == (Scalar::U64, 1) && view.space != Space::Local;
    require(fits, || {
        format!("128 bits of a {}, expected a view<u64, 1> of global or shared memory", Type::View(view))
    })?;
    s.writable(&view)?;
    s.results_len(3)?;
    s.result(2, &Type::scalar(Scalar::Bool))?;
    two_longs(s, 2)
}

pub(super) fn ptr_atomic_128(s: &Subject, op: Atomic128Op) -> Outcome {
    s.counts(2 + longs(op), 2)?;
    s.operand(0, &Type::scalar(Scalar::U64))?;
    s.operand(1, &Type::scalar(Scalar::Bool))?;
    two_longs(s, 2)
}

/// Operands of u64 from one on, and two results.
fn two_longs(s: &Subject, first: usize) -> Outcome {
    let long = Type::scalar(Scalar::U64);
    (first..s.data.operands.len()).try_for_each(|i| s.operand(i, &long).map(|_| ()))?;
    (0..2).try_for_each(|i| s.result(i, &long))
}

pub(super) fn ptr_load(s: &Subject, lanes: u32, order: Order, predicated: bool) -> Outcome {
    s.address(predicated, 0)?;
    not(order, Order::Release, "load")?;
    s.results_len(lanes as usize)?;
    let ty = s.data.results.first().map(|_| s.result_ty(0)).ok_or("has no results")?;
    words(lanes, ty)?;
    (1..lanes as usize).try_for_each(|i| s.result(i, ty))
}

pub(super) fn ptr_store(s: &Subject, lanes: u32, order: Order, predicated: bool) -> Outcome {
    let first = s.address(predicated, lanes as usize)?;
    not(order, Order::Acquire, "store")?;
    s.results_len(0)?;
    let ty = s.data.operands.get(first).map(|_| s.ty(first)).ok_or("has no values")?;
    words(lanes, ty)?;
    (first + 1..first + lanes as usize).try_for_each(|i| s.operand(i, ty).map(|_| ()))
}

pub(super) fn not(order: Order, wrong: Order, what: &str) -> Outcome {
    require(order != wrong, || format!("a {what} has no order `{}`", order.name()))
}

fn element(view: &ViewType) -> Outcome {
    require(view.space != Space::Local, || "local memory belongs to one thread and needs no order".into())?;
    require(view.elem.bytes() >= 4, || {
        format!("an element of {} has {} bytes, expected 4 or 8", view.elem, view.elem.bytes())
    })
}

fn quad(view: &ViewType, bounds: Bounds) -> Outcome {
    let fits = (view.elem, view.rank) == (Scalar::U32, 1) && view.space != Space::Local;
    require(fits, || {
        format!("a quad of a {}, expected a view<u32, 1> of global or shared memory", Type::View(*view))
    })?;
    require(bounds != Bounds::Check, || "a quad's index is not checked".into())
}

pub(super) fn words(lanes: u32, ty: &Type) -> Outcome {
    require(ty.is_scalar(), || format!("a lane is {ty}, expected a scalar"))?;
    let bytes = ty.elem().bytes();
    let fits = (lanes == 1 && bytes >= 4) || (lanes == 4 && bytes == 4);
    require(fits, || format!("{lanes} lanes of {ty}, expected one of 4 or 8 bytes, or 4 of 4 bytes"))
}

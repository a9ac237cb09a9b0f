//! Rules of accesses at a linear index.

use super::ordered::{not, words};
use super::subject::{Outcome, Subject, require};
use crate::op::LinearOp;
use crate::op::{Class, Order};
use crate::types::{Scalar, Space, Type};

pub(super) fn check(s: &Subject, op: LinearOp, predicated: bool) -> Outcome {
    let view = s.view()?;
    let ty = Type::scalar(view.elem);
    let shared = || require(view.space != Space::Local, || "local memory belongs to one thread".into());
    let (values, results) = match op {
        LinearOp::Load { lanes, .. } => {
            s.lanes(lanes, &ty)?;
            (0, lanes)
        }
        LinearOp::Store { lanes, asynchronous, .. } => {
            s.lanes(lanes, &ty)?;
            let fits = !asynchronous || view.space == Space::Shared;
            require(fits, || {
                format!("an asynchronous store to a {}, expected shared memory", Type::View(view))
            })?;
            (lanes, 0)
        }
        LinearOp::Atomic { op, .. } => {
            shared()?;
            s.atomic_class(op, view.elem)?;
            (1, 1)
        }
        LinearOp::AtomicCas { .. } => {
            shared()?;
            s.class_of_words(Class::Number, view.elem)?;
            (2, 1)
        }
        LinearOp::OrderedLoad { order, .. } => {
            not(order, Order::Release, "load")?;
            words(1, &ty).and_then(|()| shared())?;
            (0, 1)
        }
        LinearOp::OrderedStore { order, .. } => {
            not(order, Order::Acquire, "store")?;
            words(1, &ty).and_then(|()| shared())?;
            (1, 0)
        }
        LinearOp::Address => {
            require(!predicated, || "an address has no predicate".into())?;
            (0, 1)
        }
    };
    let result = if op == LinearOp::Address { Type::scalar(Scalar::U64) } else { ty.clone() };
    if values > 0 {
        s.writable(&view)?;
    }
    let first = 2 + predicated as usize;
    s.counts(first + values as usize, results as usize)?;
    let index = s.scalar(1)?;
    require(matches!(index, Scalar::I32 | Scalar::I64), || {
        format!("the index is {index}, expected i32 or i64")
    })?;
    if predicated {
        s.operand(2, &Type::scalar(Scalar::Bool))?;
    }
    (first..first + values as usize).try_for_each(|i| s.operand(i, &ty).map(|_| ()))?;
    (0..results as usize).try_for_each(|i| s.result(i, &result))
}

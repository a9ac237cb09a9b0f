//! Rules of operations on fragments and of copies in flight.

use super::rules::{Outcome, Subject, require};
use crate::fragment::FragmentOp;
use crate::types::{Scalar, Type};

pub(super) fn check(s: &Subject, op: FragmentOp) -> Outcome {
    use FragmentOp::*;
    let [word, sum, address] = [Scalar::U32, Scalar::F32, Scalar::U64].map(Type::scalar);
    match op {
        Mma(_) => {
            s.counts(10, 4)?;
            (0..6).try_for_each(|i| s.operand(i, &word).map(|_| ()))?;
            (6..10).try_for_each(|i| s.operand(i, &sum).map(|_| ()))?;
            (0..4).try_for_each(|i| s.result(i, &sum))
        }
        LdMatrix { count, .. } => {
            whole(count)?;
            s.counts(1, count as usize)?.operand(0, &address)?;
            (0..count as usize).try_for_each(|i| s.result(i, &word))
        }
        StMatrix { count } => {
            whole(count)?;
            s.counts(1 + count as usize, 0)?.operand(0, &address)?;
            (1..=count as usize).try_for_each(|i| s.operand(i, &word).map(|_| ()))
        }
        Pack(factor) => {
            let elem = s.counts(2, 1)?.scalar(0)?;
            require(elem == Scalar::F32 || elem == factor.elem(), || {
                format!("packs {elem}, expected f32 or {}", factor.elem())
            })?;
            s.operand(1, s.ty(0))?.result(0, &word)
        }
        CpAsync => s.counts(3, 0)?.operand(0, &address)?.operand(1, &address)?.operand(2, &word).map(|_| ()),
        CpAsyncCommit | CpAsyncWait { .. } => s.counts(0, 0).map(|_| ()),
    }
}

/// How many fragments one operation moves.
fn whole(count: u32) -> Outcome {
    require(matches!(count, 1 | 2 | 4), || format!("{count} fragments, expected 1, 2 or 4"))
}

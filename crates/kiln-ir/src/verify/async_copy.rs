//! Rules of copies in flight.

use super::subject::{Outcome, Subject, require};
use crate::async_copy::AsyncCopyOp;
use crate::types::{Scalar, Type};

pub(super) fn check(s: &Subject, op: AsyncCopyOp) -> Outcome {
    match op {
        AsyncCopyOp::Copy { width } => {
            require(matches!(width, 4 | 8 | 16), || format!("copies {width} bytes, expected 4, 8 or 16"))?;
            let [word, address] = [Scalar::U32, Scalar::U64].map(Type::scalar);
            s.counts(3, 0)?.operand(0, &address)?.operand(1, &address)?.operand(2, &word).map(|_| ())
        }
        AsyncCopyOp::Commit | AsyncCopyOp::Wait { .. } => s.counts(0, 0).map(|_| ()),
    }
}

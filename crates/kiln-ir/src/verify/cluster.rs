//! Rules of operations among the blocks of a cluster.

use super::subject::{Outcome, Subject, require};
use crate::cluster::ClusterOp;
use crate::types::{Scalar, Space, Type};

/// Words of a quad.
const QUAD: usize = 4;

pub(super) fn check(s: &Subject, op: ClusterOp) -> Outcome {
    require(s.kernel.cluster > 1, || "the kernel has no clusters of blocks".into())?;
    match op {
        ClusterOp::Barrier => s.counts(0, 0).map(|_| ()),
        ClusterOp::StoreQuad => {
            let view = s.offsets(1 + QUAD)?;
            let fits = (view.elem, view.rank, view.space) == (Scalar::U32, 1, Space::Shared);
            require(fits, || format!("a quad of a {}, expected a view<u32, 1, shared>", Type::View(view)))?;
            s.operand(2, &Type::scalar(Scalar::I64))?;
            words(s, 3)
        }
        ClusterOp::PtrStoreQuad => {
            s.counts(2 + QUAD, 0)?;
            s.operand(0, &Type::scalar(Scalar::U64))?;
            s.operand(1, &Type::scalar(Scalar::I64))?;
            words(s, 2)
        }
    }
}

/// A quad's words from an operand on, and no results.
fn words(s: &Subject, first: usize) -> Outcome {
    s.results_len(0)?;
    (first..first + QUAD).try_for_each(|i| s.operand(i, &Type::scalar(Scalar::U32)).map(|_| ()))
}

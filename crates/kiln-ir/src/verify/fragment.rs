//! Rules of operations on fragments.

use super::matrix;
use super::subject::{Outcome, Subject, require};
use crate::fragment::FragmentOp;
use crate::types::{Scalar, Type};
use crate::warpgroup::{GroupProduct, Lines};

pub(super) fn check(s: &Subject, op: FragmentOp) -> Outcome {
    use FragmentOp::*;
    let [word, address] = [Scalar::U32, Scalar::U64].map(Type::scalar);
    match op {
        Mma(factors) => {
            let [part, sum] = [factors.part(), factors.sum()].map(Type::scalar);
            s.counts(10, 4)?;
            (0..6).try_for_each(|i| s.operand(i, &part).map(|_| ()))?;
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
            require(factor.elem().bytes() == 2, || format!("packs {}, expected 16 bits", factor.elem()))?;
            require(elem == Scalar::F32 || elem == factor.elem(), || {
                format!("packs {elem}, expected f32 or {}", factor.elem())
            })?;
            s.operand(1, s.ty(0))?.result(0, &word)
        }
        AsyncProxyFence => s.counts(0, 0).map(|_| ()),
        WarpgroupMma(product) => warpgroup_mma(s, &product),
        Matrix(op) => matrix::check(s, op),
        WarpgroupWait { .. } => {
            let count = s.data.results.len();
            s.counts(count, count)?;
            (0..count).try_for_each(|i| {
                let sum = s.scalar(i)?;
                require(matches!(sum, Scalar::F32 | Scalar::I32), || {
                    format!("waits for a {sum}, expected f32 or i32")
                })?;
                s.result(i, &Type::scalar(sum))
            })
        }
    }
}

/// How many fragments one operation moves.
fn whole(count: u32) -> Outcome {
    require(matches!(count, 1 | 2 | 4), || format!("{count} fragments, expected 1, 2 or 4"))
}

/// The most rows of a product, and the most of its depth: more than shared memory has room for.
const MOST: u32 = 1 << 14;

/// All threads have as many blocks of 64 rows.
fn warpgroup_mma(s: &Subject, product: &GroupProduct) -> Outcome {
    let [word, sum, address] = [Scalar::U32, product.factors.sum(), Scalar::U64].map(Type::scalar);
    let ([m, n, k], depth) = (product.extents, product.factors.depth());
    require(!product.factors.is_f64(), || "a product of f64, which warpgroups do not have".into())?;
    let fits = [m, n, k].iter().all(|e| e.is_power_of_two())
        && (64..=MOST).contains(&m)
        && (16..=256).contains(&n)
        && (depth..=MOST).contains(&k);
    require(fits, || {
        format!(
            "a product of {m} x {n} x {k}, expected powers of two from 64 x 16 x {depth} to {MOST} x 256 x {MOST}"
        )
    })?;
    let transposed = product.right == Lines::Across || product.left == Some(Lines::Across);
    require(!transposed || product.factors.bytes() == 2, || {
        "elements that are not of 16 bits lie along the depth".into()
    })?;
    let results = s.data.results.len();
    let each = product.sums();
    require(results > 0 && results.is_multiple_of(each), || {
        format!("{results} sums, expected a multiple of {each}")
    })?;
    let addresses = 1 + usize::from(product.left.is_some());
    let words = if product.left.is_some() { 0 } else { results / each * product.words() };
    let kept = if product.keep { results } else { 0 };
    s.counts(addresses + words + kept, results)?;
    (0..addresses).try_for_each(|i| s.operand(i, &address).map(|_| ()))?;
    (addresses..addresses + words).try_for_each(|i| s.operand(i, &word).map(|_| ()))?;
    (addresses + words..addresses + words + kept).try_for_each(|i| s.operand(i, &sum).map(|_| ()))?;
    (0..results).try_for_each(|i| s.result(i, &sum))
}

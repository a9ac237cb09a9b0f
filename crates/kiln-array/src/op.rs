//! The operations that arrays are made of.
//!
//! There are few. What a user calls is mostly written in them: `softmax` is an element-wise chain
//! and two reductions, `concatenate` is pads and a selection, `argmax` a minimum of indices. So
//! fusion and gradients have few cases.

use crate::program_kernel::ProgramKernel;
use crate::shape::Extents;
use kiln_ir::{BinaryOp, CompareOp, Literal, ReduceOp, UnaryOp};
use std::fmt;
use std::sync::Arc;

/// An operation. Its inputs stand beside it in [`Recipe`](crate::node::Recipe), and its shape and
/// element type in the node.
#[derive(Clone)]
pub(crate) enum Op {
    /// `()`: one number everywhere.
    Full(Literal),
    /// `()`: the index along an axis, of i64.
    Iota { axis: usize },

    /// `(x)`: a function of each element.
    Unary(UnaryOp),
    /// `(a, b)` of one shape and type. `Min` and `Max` give NaN where one of the two is.
    Binary(BinaryOp),
    /// `(a, b)` of one shape and type, to bool.
    Compare(CompareOp),
    /// `(condition, a, b)`: a where the condition is true.
    Select,
    /// `(x)` in another element type.
    Cast,

    /// `(x)`: as many axes, of which those of extent 1 stretch.
    Broadcast,
    /// `(x)`: the elements in row-major order under another shape.
    Reshape,
    /// `(x)`: axis `i` of the result is axis `order[i]` of x.
    Permute(Extents),
    /// `(x)`: from `start` on every `step`th element on each axis.
    Slice { start: Extents, step: Extents },
    /// `(x)`: an axis becomes two, windows of which one begins every `step` elements, and the
    /// elements of a window.
    Windows { axis: usize, step: usize },
    /// `(x)`: these axes from their end to their start.
    Flip(Extents),
    /// `(x)`: zeros around it, so many before the first element of each axis.
    Pad { before: Extents },

    /// `(x)` without these axes, combined. The least and the greatest of floats are NaN if one of
    /// them is, but with `numbers_only`, for what is NaN then anyway.
    Reduce { op: ReduceOp, axes: Extents, numbers_only: bool },
    /// `(x)`: running sum along an axis that a tile holds, from its start or from its end.
    CumSum { axis: usize, reverse: bool },
    /// `(x, indices)`: the element of x whose index on the axis is the one in `indices`, of i64;
    /// the other indices are its own. Both have the result's extents but x on the axis.
    Take { axis: usize },
    /// `(a, b)`: products of matrices, `[n, m, k]` by `[n, k, l]`; an n of 1 serves for all.
    Product,
    /// `(x)` of two axes: the i64 indices that put each row in order; of equal elements the first
    /// comes first, and NaN count as greater than all numbers.
    ArgSort { descending: bool },
    /// `(x, indices)`, x of `[outer, count, inner]` floats and `count` i64: for each index of the
    /// result's middle axis the sum of the parts of x that have it.
    AddParts,

    /// `(qkv)` of `[batch, length, 3, heads, width]` floats of 16 or 32 bits: the attention of each
    /// place to all, or to itself and those before, `[batch, length, heads, width]`.
    Attention { causal: bool },
    /// `(qkv)`: the logarithms of the sums of e^score of each query, `[batch, heads, length]` of
    /// f32.
    AttentionSums { causal: bool },
    /// `(qkv, g, sums, means)`: the gradient of qkv, of that of the results. Means are the sums of
    /// results times gradients of each query, `[batch, length, heads]` of f32.
    AttentionGradient { causal: bool },

    /// `(q, k, v, lengths)`, q of `[sequences, heads, width]`, k and v of `[sequences, room, key
    /// heads, width]`, floats of 16 or 32 bits, and lengths of i32: the attention of each query to
    /// as many keys of its sequence, of the shape of q.
    Decode,
    /// `(inputs…)`: what a kernel of the program's own computes of them.
    Kernel(Arc<ProgramKernel>),

    /// `()`: each of the arrays that `vmap` applies a function to. It stands for all of them while
    /// the function records, and has no elements.
    Mapped,
    /// `(x)`: x, as the variable of a gradient.
    Variable,
    /// `(x)`: x, of which no gradient is taken.
    Stop,
    /// `(x, y)`: x, for what is to be computed after y.
    After,
    /// `(y, inputs…)`: y, whose gradients with respect to the inputs a rule of the user's gives.
    Custom,
}

impl Op {
    /// The name in errors and in plans.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Full(_) => "full",
            Op::Iota { .. } => "iota",
            Op::Unary(op) => op.name(),
            Op::Binary(BinaryOp::Min) => "minimum",
            Op::Binary(BinaryOp::Max) => "maximum",
            Op::Binary(BinaryOp::Shl) => "shift_left",
            Op::Binary(BinaryOp::Shr) => "shift_right",
            Op::Binary(op) => op.name(),
            Op::Compare(CompareOp::Eq) => "equal",
            Op::Compare(CompareOp::Ne) => "not_equal",
            Op::Compare(CompareOp::Lt) => "less",
            Op::Compare(CompareOp::Le) => "less_equal",
            Op::Compare(CompareOp::Gt) => "greater",
            Op::Compare(CompareOp::Ge) => "greater_equal",
            Op::Select => "where",
            Op::Cast => "cast",
            Op::Broadcast => "broadcast",
            Op::Reshape => "reshape",
            Op::Permute(_) => "permute",
            Op::Slice { .. } => "slice",
            Op::Windows { .. } => "windows",
            Op::Flip(_) => "flip",
            Op::Pad { .. } => "pad",
            Op::Reduce { op: ReduceOp::And, .. } => "all",
            Op::Reduce { op: ReduceOp::Or, .. } => "any",
            Op::Reduce { op, .. } => op.name(),
            Op::CumSum { .. } => "cumsum",
            Op::Take { .. } => "take",
            Op::Product => "matmul",
            Op::ArgSort { .. } => "argsort",
            Op::AddParts => "add_parts",
            Op::Attention { .. } => "attention",
            Op::AttentionSums { .. } => "attention_sums",
            Op::AttentionGradient { .. } => "attention_gradient",
            Op::Decode => "decode_attention",
            Op::Kernel(_) => "custom_kernel",
            Op::Mapped => "vmap",
            Op::Variable => "variable",
            Op::Stop => "stop_gradient",
            Op::After => "after",
            Op::Custom => "custom_vjp",
        }
    }

    /// Whether each element of the result is an element of the first input, whose place follows
    /// from its own: no kernel is needed to read through it.
    pub(crate) fn is_view(&self) -> bool {
        match self {
            Op::Broadcast
            | Op::Reshape
            | Op::Permute(_)
            | Op::Slice { .. }
            | Op::Windows { .. }
            | Op::Flip(_)
            | Op::Variable
            | Op::Stop
            | Op::After
            | Op::Custom => true,
            Op::Full(_)
            | Op::Iota { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast
            | Op::Pad { .. }
            | Op::Reduce { .. }
            | Op::CumSum { .. }
            | Op::Take { .. }
            | Op::Product
            | Op::ArgSort { .. }
            | Op::AddParts
            | Op::Attention { .. }
            | Op::AttentionSums { .. }
            | Op::AttentionGradient { .. }
            | Op::Decode
            | Op::Kernel(_)
            | Op::Mapped => false,
        }
    }

    /// Whether it has a launch of its own, by a kernel of the library or of the program.
    pub(crate) fn is_library(&self) -> bool {
        matches!(
            self,
            Op::Product
                | Op::ArgSort { .. }
                | Op::AddParts
                | Op::Attention { .. }
                | Op::AttentionSums { .. }
                | Op::AttentionGradient { .. }
                | Op::Decode
                | Op::Kernel(_)
        )
    }

    /// Whether it combines elements along axes.
    pub(crate) fn is_row_wise(&self) -> bool {
        matches!(self, Op::Reduce { .. } | Op::CumSum { .. })
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

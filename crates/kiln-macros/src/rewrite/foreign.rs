//! Names that a kernel has another word for: those of CUDA, and functions of Rust's number types.

use super::Rewriter;
use super::literal::is_literal;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprPath, Ident};

/// What CUDA calls it, and what to write.
const CUDA: &[(&str, &str)] = &[
    ("threadIdx", "`thread_id(0)`, or `thread_index()` for the number of the thread in the launch"),
    ("blockIdx", "`program_id(0)`"),
    ("blockDim", "`block_dim(0)`"),
    ("gridDim", "`num_programs(0)`"),
    ("__syncthreads", "`barrier()`"),
    ("__threadfence", "`fence()`"),
    ("atomicAdd", "`x.atomic_add(i, value)`"),
    ("__shfl_sync", "`shuffle_idx(x, lane)`"),
    ("__shfl_down_sync", "`shuffle_down(x, by)`"),
    ("__shfl_up_sync", "`shuffle_up(x, by)`"),
    ("__shfl_xor_sync", "`shuffle_xor(x, mask)`"),
    ("__ballot_sync", "`ballot(condition)`"),
];

/// The functions of Rust's floats that device values have as methods of the same name.
const OF_FLOATS: &[&str] = &[
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "cos",
    "cosh", "exp", "exp2", "floor", "hypot", "ln", "log10", "log2", "max", "min", "mul_add", "powf", "powi",
    "recip", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
];
const OF_INTEGERS: &[&str] = &["abs", "clamp", "max", "min"];

impl Rewriter<'_> {
    /// Reports a name of CUDA's, unless the function declares it itself.
    pub(super) fn foreign_name(&mut self, path: &ExprPath) {
        let Some(name) = path.path.get_ident() else { return };
        let of_cuda = CUDA.iter().find(|(theirs, _)| name == theirs);
        if let Some((theirs, ours)) = of_cuda
            && !self.names.iter().any(|n| *name == n.ident)
            && self.reported.insert(*theirs)
        {
            self.error(name.span(), format!("`{theirs}` is CUDA's name: write {ours}"));
        }
    }

    /// `f32::sqrt(x)` becomes the method call, which device values have too.
    pub(super) fn number_function(&mut self, call: &mut ExprCall) -> Expr {
        for arg in &mut call.args {
            self.value(arg);
        }
        let Some((number, name)) = called(call) else { return Expr::Call(call.clone()) };
        let (number, name, span) = (number.clone(), name.clone(), call.func.span());
        let mut args: Vec<_> = call.args.iter().collect();
        if is_literal(args[0]) {
            args.swap(0, 1);
        }
        let (first, rest) = (args[0], &args[1..]);
        let p = self.private(span);
        Expr::Verbatim(quote_spanned!(span=> #p::of_number::<#number, _>(#first).#name(#(#rest),*)))
    }
}

/// Whether a call is of a function that device values have as a method. A literal comes first only
/// where the order of the operands does not matter.
pub fn is_number_function(call: &ExprCall) -> bool {
    let Some((_, name)) = called(call) else { return false };
    let symmetric = call.args.len() == 2 && (name == "max" || name == "min");
    match (call.args.first(), call.args.get(1)) {
        (Some(first), Some(second)) if is_literal(first) => symmetric && !is_literal(second),
        (Some(first), _) => !is_literal(first),
        (None, _) => false,
    }
}

/// The number type and the name of the function, as in `f32::sqrt`.
fn called(call: &ExprCall) -> Option<(&Ident, &Ident)> {
    let Expr::Path(path) = &*call.func else { return None };
    let mut segments = path.path.segments.iter();
    let (Some(number), Some(name), None) = (segments.next(), segments.next(), segments.next()) else {
        return None;
    };
    let (number, name) = (&number.ident, &name.ident);
    let functions = match number.to_string().as_str() {
        "f32" | "f64" => OF_FLOATS,
        "i32" | "u32" | "i64" | "u64" => OF_INTEGERS,
        _ => return None,
    };
    functions.iter().any(|f| name == f).then_some((number, name))
}

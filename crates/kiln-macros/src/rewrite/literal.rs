//! Number literals as the user wrote them, and what syntax says of the type of an expression.

use super::Rewriter;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Lit, UnOp};

impl Rewriter<'_> {
    /// An operator whose right operand is a literal larger than an `i32`: beside a device value it
    /// takes that value's type, where Rust would make it an `i32`.
    pub(super) fn beside_wide_literal(
        &self,
        left: &Expr,
        literal: &Expr,
        span: Span,
        combine: impl FnOnce(TokenStream, TokenStream, TokenStream) -> TokenStream,
    ) -> Expr {
        let p = self.private(span);
        let (place, number) = (quote!(__kiln_left), quote!(__kiln_wide));
        let combined = combine(place, number, p.clone());
        let at = self.private(literal.span());
        Expr::Verbatim(quote_spanned! {span=> (match #left { __kiln_left => {
            let __kiln_wide = #at::WideProbe::like(&__kiln_left).literal(#literal);
            #combined
        }})})
    }
}

/// Whether an expression is a number as the user wrote it.
pub fn is_literal(e: &Expr) -> bool {
    match e {
        Expr::Lit(l) => matches!(l.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(u) => matches!(u.op, UnOp::Neg(_)) && is_literal(&u.expr),
        Expr::Paren(p) => is_literal(&p.expr),
        _ => false,
    }
}

/// Whether an expression is made of literals alone, so that it needs the operator's own inference.
pub fn only_literals(e: &Expr) -> bool {
    match e {
        Expr::Binary(b) => only_literals(&b.left) && only_literals(&b.right),
        Expr::Paren(p) => only_literals(&p.expr),
        _ => is_literal(e),
    }
}

/// Whether an expression is an integer literal without a type that no `i32` holds.
pub fn is_wide(e: &Expr) -> bool {
    match e {
        Expr::Lit(l) => match &l.lit {
            Lit::Int(n) if n.suffix().is_empty() => {
                n.base10_parse::<i128>().is_ok_and(|n| n > i32::MAX.into())
            }
            _ => false,
        },
        Expr::Paren(p) => is_wide(&p.expr),
        _ => false,
    }
}

/// Whether the type of an expression may follow from where its value goes, as that of
/// `x.iter().sum()` does, so that nothing may look at it before.
pub fn type_may_be_inferred(e: &Expr) -> bool {
    const INFERRED: [&str; 9] =
        ["sum", "product", "into", "try_into", "parse", "unwrap", "expect", "unwrap_or_default", "collect"];
    match e {
        Expr::Paren(p) => type_may_be_inferred(&p.expr),
        Expr::MethodCall(call) => INFERRED.iter().any(|name| call.method == name),
        // `2 * k` of a host literal `k` has the type of whatever it becomes.
        Expr::Binary(b) => is_literal(&b.left) || type_may_be_inferred(&b.left),
        Expr::Unary(u) => type_may_be_inferred(&u.expr),
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => false,
        _ => true,
    }
}

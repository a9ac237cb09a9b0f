//! `if`, `match`, `&&` and `||`.

use super::block::Tail;
use super::{Rewriter, exits, is_literal, none, some};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprIf, Pat, Stmt};

impl Rewriter<'_> {
    pub(super) fn branching(&mut self, e: &mut Expr) {
        let taken = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
        let tokens = match taken {
            Expr::If(i) if contains_let(&i.cond) => self.host_if(i),
            Expr::If(i) => self.if_else(i),
            Expr::Match(m) => self.matching(m),
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    fn condition(&mut self, cond: &mut Expr) {
        if let Some(span) = exits::misplaced(cond) {
            self.error(span, "an exit inside a condition: bind the condition with `let` first");
        }
        self.value(cond);
    }

    fn if_else(&mut self, i: ExprIf) -> TokenStream {
        let span = i.if_token.span;
        let mut cond = *i.cond;
        let any_exit = !exits::of_block(&i.then_branch).is_empty()
            || i.else_branch.iter().any(|(_, e)| !exits::of_expr(e).is_empty());
        self.condition(&mut cond);
        let cond_span = cond.span();
        let then_diverges = exits::block_diverges(&i.then_branch);
        let then_literal = ends_in_literal(&i.then_branch);
        let then = self.arm(span, then_diverges && i.else_branch.is_none(), |r| {
            r.deeper(|r| r.block(i.then_branch, Tail::Value))
        });
        let none = none();
        let (otherwise, else_diverges, else_literal) = match i.else_branch {
            None => (quote_spanned!(span=> ::core::option::Option::Some(())), false, false),
            Some((_, e)) => {
                let (diverges, literal) =
                    (exits::diverges(&e), matches!(&*e, Expr::Block(b) if ends_in_literal(&b.block)));
                (self.arm(span, false, |r| r.deeper(|r| r.else_arm(*e))), diverges, literal)
            }
        };
        let p = self.private(span);
        let branch = self.private(cond_span);
        let like = match (then_literal, else_literal) {
            (true, false) if !else_diverges => {
                quote_spanned!(span=> let __kiln_then = #p::LikeProbe(&__kiln_else, __kiln_then).convert();)
            }
            (false, true) if !then_diverges => {
                quote_spanned!(span=> let __kiln_else = #p::LikeProbe(&__kiln_then, __kiln_else).convert();)
            }
            _ => TokenStream::new(),
        };
        let new = quote_spanned!(span=> new(__kiln_branch, __kiln_then, __kiln_else));
        let join = if then_diverges && else_diverges {
            let bounce = self.bounce(span);
            quote_spanned!(span=> { let _ = #p::JoinProbe::<()>::#new.join_or_exit(); #bounce })
        } else {
            self.join(quote_spanned!(span=> #p::JoinProbe::#new), any_exit, span)
        };
        quote_spanned! {span=> {
            let mut __kiln_branch = #branch::branch(#branch::Condition::decision(#cond));
            let __kiln_then = if __kiln_branch.then() { #then } else { #none };
            let __kiln_else = if __kiln_branch.otherwise() { #otherwise } else { #none };
            #like
            #join
        }}
    }

    /// One arm, as an `Option` that is `None` if the arm exits.
    fn arm(&mut self, span: Span, unit: bool, rewrite: impl FnOnce(&mut Self) -> TokenStream) -> TokenStream {
        let (label, tokens) = self.framed("arm", true, span, rewrite);
        let some = if unit {
            quote_spanned!(span=> ::core::option::Option::Some::<()>({ #tokens }))
        } else {
            some(tokens, span)
        };
        match label {
            Some(label) => quote_spanned!(span=> #label { #some }),
            None => some,
        }
    }

    fn else_arm(&mut self, e: Expr) -> TokenStream {
        match e {
            Expr::Block(b) if b.label.is_none() => self.block(b.block, Tail::Value),
            mut e => {
                self.value(&mut e);
                quote!(#e)
            }
        }
    }

    /// `if let`: it takes host values apart, so the host decides.
    fn host_if(&mut self, i: ExprIf) -> TokenStream {
        let depth = self.names.len();
        let span = i.if_token.span;
        let mut cond = *i.cond;
        let mut rebind = TokenStream::new();
        let end = i.then_branch.brace_token.span.close();
        self.guarded(end, |r| r.let_chain(&mut cond, &mut rebind));
        let then = self.block(i.then_branch, Tail::Value);
        self.names.truncate(depth);
        let otherwise = i.else_branch.map(|(token, e)| {
            let tokens = self.else_arm(*e);
            quote_spanned!(token.span=> else { #tokens })
        });
        quote_spanned!(span=> if #cond { #rebind #then } #otherwise)
    }

    fn let_chain(&mut self, cond: &mut Expr, rebind: &mut TokenStream) {
        match cond {
            Expr::Binary(b) if matches!(b.op, BinOp::And(_)) && contains_let(&Expr::Binary(b.clone())) => {
                self.let_chain(&mut b.left, rebind);
                self.let_chain(&mut b.right, rebind);
            }
            Expr::Let(l) => {
                let kind = self.suspected(&l.expr);
                self.scrutinee(&mut l.expr, std::iter::once(&*l.pat));
                let bound = super::names::bound(&l.pat);
                let span = l.let_token.span;
                rebind.extend(self.rebind(&mut l.pat, span));
                rebind.extend(self.declare(bound, kind, span));
            }
            other => self.condition(other),
        }
    }

    /// Rewrites what patterns are matched against; literals and `Some` only match host values.
    fn scrutinee<'a>(&mut self, e: &mut Expr, mut patterns: impl Iterator<Item = &'a Pat> + Clone) {
        let span = e.span();
        let is_place = matches!(e, Expr::Path(_) | Expr::Field(_) | Expr::Index(_));
        self.place(e);
        let of_calls = matches!(e, Expr::MethodCall(_) | Expr::Call(_) | Expr::Verbatim(_)) && !is_place;
        let host_only = patterns.clone().any(has_literal) || of_calls && patterns.any(is_optional);
        if !host_only {
            return;
        }
        let p = self.private(span);
        *e = Expr::Verbatim(if is_place {
            quote_spanned!(span=> *#p::Matchable::on_host(#p::RefuseProbe(&#e).value()))
        } else {
            quote_spanned!(span=> #p::Matchable::on_host(#p::RefuseProbe(#e).value()))
        });
    }

    fn matching(&mut self, m: syn::ExprMatch) -> TokenStream {
        let span = m.match_token.span;
        let mut subject = *m.expr;
        let kind = self.suspected(&subject);
        if let Some(span) = exits::misplaced(&subject) {
            self.error(span, "an exit inside a `match` subject: bind the subject with `let` first");
        }
        self.scrutinee(&mut subject, m.arms.iter().map(|arm| &arm.pat));
        let mut arms = TokenStream::new();
        for mut arm in m.arms {
            let depth = self.names.len();
            let bound = super::names::bound(&arm.pat);
            let rebind = self.rebind(&mut arm.pat, span);
            let depths = self.guarded(arm.body.span(), |r| r.declare(bound, kind, span));
            let guard = arm.guard.map(|(token, mut guard)| {
                self.condition(&mut guard);
                quote!(#token #guard)
            });
            self.value(&mut arm.body);
            self.names.truncate(depth);
            let (pat, body) = (&arm.pat, &arm.body);
            arms.extend(quote_spanned!(span=> #pat #guard => { #rebind #depths #body }));
        }
        quote_spanned!(span=> match #subject { #arms })
    }

    pub(super) fn short_circuit(&mut self, e: &mut Expr) {
        let Expr::Binary(b) = e else { return };
        let span = b.op.span();
        let begin = syn::Ident::new(if matches!(b.op, BinOp::And(_)) { "and" } else { "or" }, span);
        self.value(&mut b.left);
        self.deeper(|r| r.value(&mut b.right));
        let (left, right) = (&b.left, &b.right);
        let (p, none) = (self.private(span), none());
        let right = some(quote_spanned!(span=> #p::Condition::checked(#right)), span);
        *e = Expr::Verbatim(quote_spanned! {span=> ({
            let mut __kiln_logic = #p::#begin(#p::Condition::checked(#left));
            let __kiln_right = if __kiln_logic.wants_right() { #right } else { #none };
            __kiln_logic.join(__kiln_right)
        })});
    }
}

/// Whether a condition is or holds a `let`.
pub(super) fn contains_let(cond: &Expr) -> bool {
    match cond {
        Expr::Let(_) => true,
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => contains_let(&b.left) || contains_let(&b.right),
        _ => false,
    }
}

fn has_literal(pat: &Pat) -> bool {
    match pat {
        Pat::Lit(_) | Pat::Range(_) => true,
        Pat::Or(o) => o.cases.iter().any(has_literal),
        Pat::Paren(p) => has_literal(&p.pat),
        _ => false,
    }
}

/// Whether a pattern is one of an `Option` or a `Result`.
fn is_optional(pat: &Pat) -> bool {
    let path = match pat {
        Pat::TupleStruct(t) => &t.path,
        Pat::Path(p) => &p.path,
        Pat::Paren(p) => return is_optional(&p.pat),
        _ => return false,
    };
    path.get_ident().is_some_and(|name| ["Some", "None", "Ok", "Err"].iter().any(|n| name == n))
}

fn ends_in_literal(block: &syn::Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(e, None)) if is_literal(e))
}

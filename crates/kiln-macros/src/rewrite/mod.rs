//! Rewriting expressions.
//!
//! Every expression stands in a *value* or in a *place* position. A mutable name, field or element
//! that is read as a value is replaced by a snapshot; in a place position (a method's receiver,
//! behind `&`, left of `=`) it is left alone.
//!
//! | file | rewrites |
//! |---|---|
//! | `block.rs` | statements, `let`, exit predicates |
//! | `branch.rs` | `if`, `match`, `&&`, `\|\|` |
//! | `loops.rs` | `for`, `while`, `loop` |
//! | `jump.rs` | `break`, `continue`, `return`, labeled blocks |
//! | `assign.rs` | assignments, `&mut` |
//! | `borrow.rs` | places that calls borrow |
//! | `closure.rs` | closures |
//! | `macros.rs` | the arguments of macros; assertions and prints of the standard library |
//! | `literal.rs` | number literals |
//! | `foreign.rs` | names of CUDA and of Rust's numbers |
//! | `exits.rs`, `names.rs` | what the syntax says: exits, names |

mod assign;
mod block;
mod borrow;
mod branch;
mod closure;
pub mod exits;
mod foreign;
mod jump;
mod literal;
mod loops;
mod macros;
pub mod names;

pub use block::{Tail, nameable};

use crate::options::Options;
use literal::{is_literal, only_literals};
use names::Name;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, Ident, Lifetime, UnOp};

/// A loop, labeled block or function body that an exit may leave.
pub struct Scope {
    pub kind: ScopeKind,
    pub label: Option<String>,
    pub id: usize,
    /// Whether exits carry a value, into a slot.
    pub slot: bool,
    /// Whether the type of the slot is known from an earlier exit.
    pub typed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ScopeKind {
    Loop,
    Block,
    Function,
}

/// A piece of the expansion whose end is reached by `break 'label`, once nothing more in it can
/// run.
pub struct Frame {
    label: Lifetime,
    /// Whether the block has the type `Option<_>`, and is left with `None`.
    optional: bool,
    used: bool,
}

/// Rewrites the body of one function.
pub struct Rewriter<'a> {
    pub options: &'a Options,
    pub errors: Vec<syn::Error>,
    pub names: Vec<Name>,
    pub scopes: Vec<Scope>,
    frames: Vec<Frame>,
    /// The names whose depth of declaration matters.
    pub assigned: Vec<String>,
    /// The names that are passed on, or whose methods are called.
    pub borrowed: Vec<String>,
    /// How many pieces of control flow, which the device may decide on, are around.
    pub level: usize,
    /// The result type of the function, if it can be named.
    pub result: Option<syn::Type>,
    /// Whether this is the body of a kernel, which returns nothing, and not of a closure in it.
    pub is_kernel: bool,
    /// The names of other languages that were reported.
    reported: HashSet<&'static str>,
    ids: usize,
    /// The last lines of the scopes around, the innermost last.
    ends: Vec<u32>,
    /// Whether what is bound may be used by a guard alone, which its own rebinding does not see.
    guarded: bool,
}

impl<'a> Rewriter<'a> {
    pub fn new(options: &'a Options) -> Self {
        Rewriter {
            options,
            errors: Vec::new(),
            names: Vec::new(),
            scopes: Vec::new(),
            frames: Vec::new(),
            assigned: Vec::new(),
            borrowed: Vec::new(),
            level: 0,
            result: None,
            is_kernel: false,
            reported: HashSet::new(),
            ids: 0,
            ends: Vec::new(),
            guarded: false,
        }
    }

    fn private(&self, span: Span) -> TokenStream {
        self.options.private(span)
    }

    fn error(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids
    }

    /// Rewrites something whose names are in scope up to the end of `span`.
    pub fn scoped<T>(&mut self, span: Span, rewrite: impl FnOnce(&mut Self) -> T) -> T {
        self.ends.push(last_line(span));
        let rewritten = rewrite(self);
        self.ends.pop();
        rewritten
    }

    /// As [`scoped`](Self::scoped), of names that a guard may use too.
    fn guarded<T>(&mut self, span: Span, rewrite: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.guarded, true);
        let rewritten = self.scoped(span, rewrite);
        self.guarded = outer;
        rewritten
    }

    /// Rewrites something that runs where the device may decide.
    fn deeper<T>(&mut self, rewrite: impl FnOnce(&mut Self) -> T) -> T {
        self.level += 1;
        let rewritten = rewrite(self);
        self.level -= 1;
        rewritten
    }

    // ---- frames

    /// Rewrites something inside a new frame; gives the frame's label if anything jumps to it.
    fn framed(
        &mut self,
        what: &str,
        optional: bool,
        span: Span,
        rewrite: impl FnOnce(&mut Self) -> TokenStream,
    ) -> (Option<TokenStream>, TokenStream) {
        let label = Lifetime::new(&format!("'__kiln_{what}_{}", self.id()), span);
        self.frames.push(Frame { label: label.clone(), optional, used: false });
        let tokens = rewrite(self);
        let used = self.frames.pop().is_some_and(|f| f.used);
        (used.then(|| quote_spanned!(span=> #label:)), tokens)
    }

    /// A jump to the end of the innermost frame. It has the type `!`.
    fn bounce(&mut self, span: Span) -> TokenStream {
        match self.frames.last_mut() {
            Some(frame) => {
                frame.used = true;
                let label = &frame.label;
                if frame.optional {
                    quote_spanned!(span=> break #label ::core::option::Option::None)
                } else {
                    quote_spanned!(span=> break #label)
                }
            }
            None => {
                let p = self.private(span);
                quote_spanned!(span=> #p::never_returns())
            }
        }
    }

    // ---- expressions

    /// Rewrites an expression whose value is used.
    pub fn value(&mut self, e: &mut Expr) {
        if let Expr::Paren(p) = e {
            return self.value(&mut p.expr);
        }
        let is_place = match e {
            Expr::Path(p) => p.path.get_ident().is_some_and(|i| self.is_mutable(i)),
            Expr::Field(_) | Expr::Index(_) => true,
            Expr::Unary(u) => matches!(u.op, UnOp::Deref(_)),
            _ => false,
        };
        let span = e.span();
        self.place(e);
        if is_place {
            let p = self.private(span);
            *e = Expr::Verbatim(quote_spanned!(span=> #p::Probe(#e).snapshot()));
        }
    }

    fn is_mutable(&self, name: &Ident) -> bool {
        self.names.iter().rfind(|n| *name == n.ident).is_some_and(|n| n.mutable)
    }

    /// Rewrites an expression that is a place, or whose value is used at once by what stands
    /// around.
    pub fn place(&mut self, e: &mut Expr) {
        if !may_contain_exits(e)
            && let Some(span) = exits::misplaced(e)
        {
            self.error(
                span,
                "an exit inside an operand of a larger expression: write it as a statement of its own, or bind the \
                 operand with `let` first",
            );
        }
        match e {
            Expr::If(_) | Expr::Match(_) => self.branching(e),
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => self.looping(e),
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) => self.jumping(e),
            Expr::Block(_) | Expr::Unsafe(_) => self.blocks(e),
            Expr::Assign(_) => self.assignment(e),
            Expr::Binary(b) if is_assign_op(&b.op) => self.assignment(e),
            Expr::Binary(_) => self.binary(e),
            Expr::Reference(_) => self.reference(e),
            Expr::Closure(_) => self.closure(e),
            Expr::Macro(_) => self.macro_expr(e),
            Expr::Cast(_) => self.cast(e),
            Expr::Field(f) => self.place(&mut f.base),
            Expr::Index(i) => {
                self.place(&mut i.expr);
                self.value(&mut i.index);
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Deref(_)) => self.place(&mut u.expr),
            Expr::MethodCall(m) => *e = self.method_call(m, false),
            Expr::Call(c) if foreign::is_number_function(c) => *e = self.number_function(c),
            Expr::Call(c) => {
                let (span, sure) = (c.func.span(), borrow::replaces(&c.func));
                self.place(&mut c.func);
                let borrowed = self.arguments(c.args.iter_mut(), sure);
                *e = self.settled(quote!(#c), borrowed, span);
            }
            Expr::Struct(s) => self.struct_literal(s),
            Expr::Repeat(r) => self.value(&mut r.expr),
            Expr::Paren(p) => self.place(&mut p.expr),
            Expr::Async(_) | Expr::Await(_) | Expr::Yield(_) => {
                let span = e.span();
                self.error(span, "kernels have no asynchronous code");
            }
            Expr::Try(t) if self.is_kernel => {
                self.error(
                    t.question_token.span(),
                    "a kernel returns nothing, so `?` has nowhere to go: `get` gives the element itself, and `get_or` another \
                     value where the index is outside",
                );
            }
            Expr::Path(p) => self.foreign_name(p),
            Expr::Const(_) | Expr::Lit(_) | Expr::Verbatim(_) => {}
            // What is left only holds values: tuples, arrays, ranges, `!`, `-`, `?`.
            _ => visit_mut::visit_expr_mut(self, e),
        }
    }

    fn struct_literal(&mut self, s: &mut syn::ExprStruct) {
        for field in &mut s.fields {
            let shorthand = field.colon_token.is_none();
            self.value(&mut field.expr);
            if shorthand && matches!(field.expr, Expr::Verbatim(_)) {
                field.colon_token = Some(syn::Token![:](field.member.span()));
            }
        }
        if let Some(rest) = &mut s.rest {
            self.value(rest);
        }
    }

    fn binary(&mut self, e: &mut Expr) {
        let Expr::Binary(b) = e else { return };
        let span = b.op.span();
        if matches!(b.op, BinOp::And(_) | BinOp::Or(_)) {
            return self.short_circuit(e);
        }
        if let Some(method) = comparison(&b.op) {
            let method = Ident::new(method, span);
            self.place(&mut b.left);
            self.place(&mut b.right);
            if literal::is_wide(&b.right) {
                *e = self.beside_wide_literal(
                    &b.left,
                    &b.right,
                    span,
                    |left, right, p| quote_spanned!(span=> #p::CompareProbe(&#left, &#right).#method()),
                );
                return;
            }
            let (left, right) = (&b.left, &b.right);
            let p = self.private(span);
            *e = Expr::Verbatim(quote_spanned!(span=> #p::CompareProbe(&(#left), &(#right)).#method()));
            return;
        }
        let literal_left = is_literal(&b.left) && !only_literals(&b.right);
        self.value(&mut b.left);
        self.value(&mut b.right);
        if literal::is_wide(&b.right) {
            let op = b.op;
            *e = self.beside_wide_literal(&b.left, &b.right, span, |left, right, _| quote!(#left #op #right));
            return;
        }
        if let (true, Some(method)) = (literal_left, arithmetic(&b.op)) {
            let method = Ident::new(method, span);
            let (left, right) = (&b.left, &b.right);
            let p = self.private(span);
            *e = Expr::Verbatim(quote_spanned!(span=> #p::LiteralLeft(#left, #right).#method()));
        }
    }

    fn cast(&mut self, e: &mut Expr) {
        let Expr::Cast(c) = e else { return };
        let plain = is_literal(&c.expr);
        let span = c.expr.span();
        self.value(&mut c.expr);
        if plain {
            return;
        }
        let (inner, ty) = (&c.expr, &c.ty);
        let p = self.private(span);
        *e = Expr::Verbatim(quote_spanned! {span=>
            (#p::Castable::on_host(#p::RefuseProbe(#inner).value()) as #ty)
        });
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, e: &mut Expr) {
        self.value(e);
    }
    // Types, paths, patterns and items hold constant expressions, not values of the kernel.
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_path_mut(&mut self, _: &mut syn::Path) {}
    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// The line in which something ends; the largest number where that is not known.
fn last_line(span: Span) -> u32 {
    let known = proc_macro::is_available().then(|| u32::try_from(span.unwrap().end().line()).ok());
    known.flatten().unwrap_or(u32::MAX)
}

/// Whether exits inside the expression are dealt with by its own rewriting.
fn may_contain_exits(e: &Expr) -> bool {
    matches!(
        e,
        Expr::If(_)
            | Expr::Match(_)
            | Expr::Loop(_)
            | Expr::While(_)
            | Expr::ForLoop(_)
            | Expr::Break(_)
            | Expr::Continue(_)
            | Expr::Return(_)
            | Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Paren(_)
    )
}

pub fn is_assign_op(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

fn comparison(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Eq(_) => "eq",
        BinOp::Ne(_) => "ne",
        BinOp::Lt(_) => "lt",
        BinOp::Le(_) => "le",
        BinOp::Gt(_) => "gt",
        BinOp::Ge(_) => "ge",
        _ => return None,
    })
}

fn arithmetic(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add(_) => "add",
        BinOp::Sub(_) => "sub",
        BinOp::Mul(_) => "mul",
        BinOp::Div(_) => "div",
        BinOp::Rem(_) => "rem",
        _ => return None,
    })
}

/// `Some` and `None`, whatever the user's names mean.
fn some(tokens: TokenStream, span: Span) -> TokenStream {
    quote_spanned!(span=> ::core::option::Option::Some({ #tokens }))
}

fn none() -> TokenStream {
    quote!(::core::option::Option::None)
}

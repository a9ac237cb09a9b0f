//! Blocks: statements, `let`, and the predicates on what follows an exit.

use super::literal::type_may_be_inferred;
use super::names::{self, Kind, Name};
use super::{Rewriter, exits, none, some};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Local, Pat, Stmt, Type};

/// What becomes of the last expression of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// It is the block's value.
    Value,
    /// It goes into the slot of the function (or labeled block) with this number, like the value of
    /// an exit.
    Slot(usize),
}

impl Rewriter<'_> {
    /// Rewrites the statements of a block, which open a scope of names.
    pub fn block(&mut self, block: syn::Block, tail: Tail) -> TokenStream {
        let depth = self.names.len();
        let end = block.brace_token.span.close();
        let tokens = self.scoped(end, |r| r.statements(block.stmts.into(), tail, end));
        self.names.truncate(depth);
        tokens
    }

    fn statements(
        &mut self,
        mut stmts: std::collections::VecDeque<Stmt>,
        tail: Tail,
        end: Span,
    ) -> TokenStream {
        let mut out = TokenStream::new();
        while let Some(mut stmt) = stmts.pop_front() {
            hoist_assigned_exit(&mut stmt, &mut stmts);
            let exits = exits::of_stmt(&stmt);
            let is_last = stmts.is_empty();
            out.extend(self.statement(stmt, is_last, tail));
            if let (Some(exit), false) = (exits.first(), is_last) {
                // What follows runs only if control is still here.
                out.extend(self.after_exit(stmts, tail, exit.span, end));
                return out;
            }
        }
        out
    }

    fn after_exit(
        &mut self,
        rest: std::collections::VecDeque<Stmt>,
        tail: Tail,
        span: Span,
        end: Span,
    ) -> TokenStream {
        let exits = rest.iter().any(|s| !exits::of_stmt(s).is_empty());
        let has_value =
            tail == Tail::Value && matches!(rest.back(), Some(Stmt::Expr(e, None)) if !exits::diverges(e));
        let (label, rest) = self.framed("rest", true, span, |r| r.deeper(|r| r.statements(rest, tail, end)));
        let exits = exits || label.is_some();
        let some = if has_value {
            some(rest, span)
        } else {
            quote_spanned!(span=> ::core::option::Option::Some::<()>({ #rest }))
        };
        let (p, none) = (self.private(span), none());
        let probe = quote_spanned!(span=> #p::JoinProbe::new(__kiln_after_exit, __kiln_rest, #none));
        let join = self.join(probe, exits, span);
        quote_spanned! {span=> {
            let mut __kiln_after_exit = #p::after_exit();
            let __kiln_rest = if __kiln_after_exit.then() { #label { #some } } else { #none };
            #join
        }}
    }

    /// The end of an `if` or of what follows an exit: its value, or a jump where there is none.
    pub fn join(&mut self, probe: TokenStream, exits: bool, span: Span) -> TokenStream {
        if !exits {
            return quote_spanned!(span=> #probe.join());
        }
        let bounce = self.bounce(span);
        let none = none();
        quote_spanned! {span=>
            match #probe.join_or_exit() {
                ::core::option::Option::Some(__kiln_value) => __kiln_value,
                #none => #bounce,
            }
        }
    }

    fn statement(&mut self, stmt: Stmt, is_last: bool, tail: Tail) -> TokenStream {
        match stmt {
            Stmt::Local(local) => self.binding(local),
            Stmt::Item(item) => quote!(#item),
            Stmt::Macro(mut m) => {
                if let Some(assertion) = self.assertion(&m.mac) {
                    let semi = &m.semi_token;
                    return match tail {
                        Tail::Slot(slot) if is_last && semi.is_none() => {
                            self.put(slot, assertion, false, m.mac.span())
                        }
                        _ => quote!(#assertion #semi),
                    };
                }
                self.macro_call(&mut m.mac);
                if let (true, None, Tail::Slot(slot)) = (is_last, &m.semi_token, tail) {
                    let mac = &m.mac;
                    return self.put(slot, quote!(#mac), false, mac.span());
                }
                if m.semi_token.is_some() {
                    let (before, after) = self.around_macro(&m.mac);
                    return quote!(#before #m #after);
                }
                quote!(#m)
            }
            Stmt::Expr(mut e, semi) => {
                let span = e.span();
                let ends = is_last && semi.is_none();
                let is_value = !exits::diverges(&e);
                let literal = super::is_literal(&e);
                if let (Expr::MethodCall(call), Some(_)) = (&mut e, &semi)
                    && call.args.iter().chain([&*call.receiver]).all(|e| exits::misplaced(e).is_none())
                {
                    e = self.method_call(call, true);
                } else if ends && is_value {
                    if let Some(ty) = self.result_of(tail) {
                        self.convert_literals(&mut e, &ty);
                    }
                    self.value(&mut e);
                } else {
                    self.place(&mut e);
                }
                match tail {
                    Tail::Slot(slot) if ends && is_value => self.put(slot, quote!(#e), literal, span),
                    _ if ends && !is_value => quote_spanned!(span=> #e;),
                    _ => quote!(#e #semi),
                }
            }
        }
    }

    /// Puts a value into a slot. A number literal takes the type that the slot has from an earlier
    /// exit.
    pub fn put(&mut self, slot: usize, value: TokenStream, literal: bool, span: Span) -> TokenStream {
        let p = self.private(span);
        let name = slot_name(slot, span);
        let scope = self.scopes.iter_mut().rfind(|s| s.id == slot);
        let of_function = scope.as_ref().is_some_and(|s| s.kind == super::ScopeKind::Function);
        let typed = scope.as_ref().is_some_and(|s| s.typed);
        if let Some(scope) = scope {
            scope.typed |= !literal;
        }
        let value = match &self.result {
            Some(ty) if of_function => self.converted_to(value, ty, span),
            _ if literal && typed => quote_spanned!(span=> #p::SlotLike(&#name, #value).convert()),
            _ => value,
        };
        quote_spanned! {span=> {
            let __kiln_value = #value;
            #p::SlotProbe::new(&mut #name, __kiln_value).put();
        }}
    }

    /// A value where a type is expected: a host number becomes a device value if the type is one.
    pub fn converted_to(&self, value: TokenStream, ty: &Type, span: Span) -> TokenStream {
        let p = self.private(span);
        quote_spanned!(span=> #p::Annotated::<#ty>::new().convert(#value))
    }

    /// The type of what goes into a function's slot.
    fn result_of(&self, tail: Tail) -> Option<Type> {
        let Tail::Slot(slot) = tail else { return None };
        let of_function = |s: &&super::Scope| s.id == slot && s.kind == super::ScopeKind::Function;
        self.scopes.iter().find(of_function).and(self.result.clone())
    }

    /// Converts the number literals that arms of an `if` or `match` end in, where their type is
    /// known: with both arms literal, nothing else says that `if c { 1.0 } else { 0.0 }` is a
    /// device value.
    pub fn convert_literals(&self, e: &mut Expr, ty: &Type) {
        let in_block = |block: &mut syn::Block| {
            if let Some(Stmt::Expr(last, None)) = block.stmts.last_mut() {
                if super::is_literal(last) {
                    let span = last.span();
                    *last = Expr::Verbatim(self.converted_to(quote!(#last), ty, span));
                } else {
                    self.convert_literals(last, ty);
                }
            }
        };
        match e {
            Expr::Paren(p) => self.convert_literals(&mut p.expr, ty),
            Expr::Block(b) if b.label.is_none() => in_block(&mut b.block),
            Expr::If(i) => {
                in_block(&mut i.then_branch);
                if let Some((_, otherwise)) = &mut i.else_branch {
                    self.convert_literals(otherwise, ty);
                }
            }
            _ => {}
        }
    }

    // ---- let

    fn binding(&mut self, local: Local) -> TokenStream {
        let span = local.let_token.span;
        let (mut pat, ty) = match local.pat {
            Pat::Type(t) => (*t.pat, Some(*t.ty)),
            pat => (pat, None),
        };
        let Some(init) = local.init else {
            self.error(
                span,
                "a `let` in a kernel needs a value: whether the name holds a device value must be known here; write \
                 `let mut x: Val<f32> = 0.0;`",
            );
            return TokenStream::new();
        };
        let bound = names::bound(&pat);
        let kind = self.kind(&init.expr, ty.as_ref(), &pat);
        let (mut value, needs_probe) = (*init.expr, !obviously_host(&pat));
        let diverges = exits::diverges(&value);
        let host_init = diverges || matches!(value, Expr::Closure(_) | Expr::Lit(_) | Expr::Reference(_));
        if let Some(ty) = ty.as_ref().filter(|ty| nameable(ty)) {
            self.convert_literals(&mut value, ty);
        }
        let number = !diverges && !type_may_be_inferred(&value) && ty.as_ref().is_some_and(is_number);
        self.value(&mut value);
        let mut value = match &ty {
            Some(ty) if super::literal::is_wide(&value) => {
                let (at, span) = (self.private(value.span()), value.span());
                let wide = quote_spanned!(span=> #at::WideProbe::<#ty>::new().literal(#value));
                self.converted_to(wide, ty, span)
            }
            Some(ty) if number => {
                let (at, span) = (self.private(value.span()), value.span());
                quote_spanned! {span=> {
                    let __kiln_value: #ty = #at::HostOperand::on_host(#at::OperandProbe::<#ty, _>::new(#value).operand());
                    __kiln_value
                }}
            }
            Some(ty) if nameable(ty) && !diverges => self.converted_to(quote!(#value), ty, value.span()),
            Some(ty) => quote_spanned!(span=> { let __kiln_value: #ty = #value; __kiln_value }),
            None => quote!(#value),
        };
        let simple = matches!(&pat, Pat::Ident(i) if i.by_ref.is_none() && i.subpat.is_none());
        let is_host = diverges || (ty.is_none() && host_init);
        if simple && bound.iter().any(|(_, mutable)| *mutable) && needs_probe && !is_host {
            let p = self.private(span);
            value = quote_spanned!(span=> #p::Probe(#value).variable());
        }
        let rebind = if simple { TokenStream::new() } else { self.rebind(&mut pat, span) };
        let diverge = init.diverge.map(|(token, mut diverge)| {
            self.place(&mut diverge);
            quote_spanned!(token.span=> else { #diverge })
        });
        let ty = ty.map(|ty| quote!(: #ty));
        let depths = self.declare(bound, kind, span);
        let attrs = &local.attrs;
        quote_spanned!(span=> #(#attrs)* let #pat #ty = #value #diverge; #rebind #depths)
    }

    /// Takes `mut` from a pattern, and gives the statements that bind its names again, as
    /// variables.
    pub fn rebind(&mut self, pat: &mut Pat, span: Span) -> TokenStream {
        let mutable: Vec<Ident> = names::bound(pat).into_iter().filter(|(_, m)| *m).map(|(i, _)| i).collect();
        names::strip_mut(pat);
        let p = self.private(span);
        quote_spanned!(span=> #(let mut #mutable = #p::Probe(#mutable).variable();)*)
    }

    /// Brings names into scope; gives the statements that record how deep they are declared, and
    /// what they are called. These bind them again, so that a name that nothing else uses remains
    /// an unused one.
    pub fn declare(&mut self, bound: Vec<(Ident, bool)>, kind: Kind, span: Span) -> TokenStream {
        let p = self.private(span);
        let mut out = TokenStream::new();
        for (ident, mutable) in bound {
            let changes = mutable || kind != Kind::Plain;
            let has_depth = self.assigned.iter().any(|n| ident == n)
                || changes && self.borrowed.iter().any(|n| ident == n);
            if has_depth {
                let depth = depth_name(&ident);
                out.extend(quote_spanned!(span=> let #depth = #p::depth();));
            }
            if !ident.to_string().starts_with("__kiln") {
                let (text, last) = (ident.to_string(), self.ends.last().copied().unwrap_or(u32::MAX));
                let (p, mutability) = (self.private(ident.span()), mutable.then(|| quote!(mut)));
                let allowed = self.guarded.then(|| quote!(#[allow(unused_variables)]));
                // In the user's crate: programs that are built for speed keep no names.
                out.extend(quote_spanned!(ident.span()=>
                    #[cfg(debug_assertions)]
                    #allowed let #mutability #ident = #p::named(#ident, #text, #last);
                ));
            }
            let (ident, level) = (ident.to_string(), self.level);
            self.names.push(Name { ident, mutable, has_depth, level, kind });
        }
        out
    }

    /// What syntax says of the type of what is bound to a pattern.
    fn kind(&self, value: &Expr, ty: Option<&Type>, pat: &Pat) -> Kind {
        let named = matches!(pat, Pat::Ident(_));
        let reference = |e: &Expr| matches!(e, Expr::Reference(r) if r.mutability.is_some());
        match ty {
            Some(Type::Reference(r)) if named && r.mutability.is_some() => Kind::Reference,
            None if named && reference(value) => Kind::Reference,
            _ => self.suspected(value),
        }
    }

    /// What syntax says of the type of what is taken from a value.
    pub fn suspected(&self, value: &Expr) -> Kind {
        if names::borrows(quote!(#value), &self.names) { Kind::Suspect } else { Kind::Plain }
    }
}

/// `x = if c { break } else { v }` becomes two statements, so that the assignment is under
/// the exit predicate.
fn hoist_assigned_exit(stmt: &mut Stmt, rest: &mut std::collections::VecDeque<Stmt>) {
    let Stmt::Expr(e, _) = stmt else { return };
    let (right, span) = match e {
        Expr::Assign(a) => (&mut a.right, a.eq_token.span),
        Expr::Binary(b) if super::is_assign_op(&b.op) => {
            let span = b.op.span();
            (&mut b.right, span)
        }
        _ => return,
    };
    if exits::of_expr(right).is_empty() {
        return;
    }
    let name = Ident::new("__kiln_assigned", span);
    let value = std::mem::replace(&mut **right, Expr::Verbatim(quote!(#name)));
    let local: Stmt = syn::parse_quote_spanned!(span=> let #name = #value;);
    let mut assignment = std::mem::replace(stmt, local);
    if let Stmt::Expr(_, semi) = &mut assignment {
        *semi = Some(syn::Token![;](span));
    }
    rest.push_front(assignment);
}

/// Whether a pattern can only bind host values.
fn obviously_host(pat: &Pat) -> bool {
    matches!(pat, Pat::Wild(_))
}

/// Whether a type can be written again: it has no parts for the compiler to infer.
pub fn nameable(ty: &Type) -> bool {
    fn open(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|t| match t {
            proc_macro2::TokenTree::Ident(i) => i == "_" || i == "impl",
            proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Literal(_) => false,
            proc_macro2::TokenTree::Group(g) => open(g.stream()),
        })
    }
    !matches!(ty, Type::Never(_)) && !open(quote!(#ty))
}

/// Whether a type is a number of the host, as it is written.
fn is_number(ty: &Type) -> bool {
    const NUMBERS: [&str; 12] =
        ["f32", "f64", "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize"];
    let Type::Path(path) = ty else { return false };
    path.path.get_ident().is_some_and(|name| NUMBERS.iter().any(|n| name == n))
}

pub fn slot_name(id: usize, span: Span) -> Ident {
    Ident::new(&format!("__kiln_slot_{id}"), span)
}

/// The name that holds the depth at which another was declared.
pub fn depth_name(ident: &Ident) -> Ident {
    format_ident!("__kiln_depth_{}", ident.to_string().trim_start_matches("r#"), span = ident.span())
}

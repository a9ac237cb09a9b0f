//! `break`, `continue`, `return`; blocks, labeled or not.

use super::block::{Tail, slot_name};
use super::loops::{body_label, break_label};
use super::{Rewriter, Scope, ScopeKind, exits, none};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, Lifetime};

impl Rewriter<'_> {
    pub(super) fn jumping(&mut self, e: &mut Expr) {
        let taken = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
        let tokens = match taken {
            Expr::Break(b) => {
                let span = b.break_token.span;
                match self.target(b.label.as_ref(), span) {
                    Some(levels) => self.exit(levels, b.expr, span),
                    None => TokenStream::new(),
                }
            }
            Expr::Continue(c) => {
                let span = c.continue_token.span;
                match self.target(c.label.as_ref(), span) {
                    Some(levels) => self.continuing(levels, span),
                    None => TokenStream::new(),
                }
            }
            Expr::Return(r) => {
                let levels = self.scopes.iter().rev().position(|s| s.kind == ScopeKind::Function);
                match levels {
                    Some(levels) => self.exit(levels, r.expr, r.return_token.span),
                    None => quote!(#r),
                }
            }
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    /// How many scopes an exit leaves before its target.
    fn target(&mut self, label: Option<&Lifetime>, span: Span) -> Option<usize> {
        let label = label.map(|l| l.ident.to_string());
        let inside = self.scopes.iter().rev().take_while(|s| s.kind != ScopeKind::Function);
        let found = inside.enumerate().find(|(_, s)| match &label {
            Some(label) => s.label.as_ref() == Some(label),
            None => s.kind == ScopeKind::Loop,
        });
        let levels = found.map(|(levels, _)| levels);
        if levels.is_none() {
            self.error(span, "there is no loop or block around for this exit to leave");
        }
        levels
    }

    fn scope(&self, levels: usize) -> Option<&Scope> {
        self.scopes.iter().rev().nth(levels)
    }

    /// `break` or `return`, with its value.
    fn exit(&mut self, levels: usize, value: Option<Box<Expr>>, span: Span) -> TokenStream {
        let p = self.private(span);
        let Some((id, has_slot)) = self.scope(levels).map(|s| (s.id, s.slot)) else {
            return TokenStream::new();
        };
        let value = value.map(|mut v| {
            if let Some(span) = exits::misplaced(&v) {
                self.error(span, "an exit inside the value of another: bind the value with `let` first");
            }
            let literal = super::is_literal(&v);
            let of_function = self.scope(levels).is_some_and(|s| s.kind == ScopeKind::Function);
            if let (true, Some(ty)) = (of_function, self.result.clone()) {
                self.convert_literals(&mut v, &ty);
            }
            self.value(&mut v);
            if has_slot { self.put(id, quote!(#v), literal, span) } else { quote_spanned!(span=> #v;) }
        });
        let label = break_label(id, span);
        let bounce = self.bounce(span);
        quote_spanned! {span=> {
            #value
            if #p::exit_break(#levels) { break #label } else { #bounce }
        }}
    }

    fn continuing(&mut self, levels: usize, span: Span) -> TokenStream {
        let p = self.private(span);
        let Some(id) = self.scope(levels).map(|s| s.id) else { return TokenStream::new() };
        let label = body_label(id, span);
        let bounce = self.bounce(span);
        quote_spanned!(span=> if #p::exit_continue(#levels) { break #label } else { #bounce })
    }

    pub(super) fn blocks(&mut self, e: &mut Expr) {
        let taken = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
        let tokens = match taken {
            Expr::Unsafe(u) => {
                let tokens = self.block(u.block, Tail::Value);
                quote_spanned!(u.unsafe_token.span=> unsafe { #tokens })
            }
            Expr::Block(b) => match b.label {
                Some(label) => self.labeled(label, b.block),
                None => {
                    let span = b.block.brace_token.span.open();
                    let tokens = self.block(b.block, Tail::Value);
                    quote_spanned!(span=> { #tokens })
                }
            },
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    /// A labeled block.
    fn labeled(&mut self, label: syn::Label, block: syn::Block) -> TokenStream {
        let span = label.name.ident.span();
        let name = label.name.ident.to_string();
        let found = exits::of_block(&block);
        let slot = found.iter().any(|x| x.label.as_deref() == Some(&name) && x.has_value);
        let leaves = found.iter().any(|x| x.label.as_deref() != Some(&name));
        let id = self.id();
        self.scopes.push(Scope { kind: ScopeKind::Block, label: Some(name), id, slot, typed: false });
        let tokens = self.exitable(block, id, slot, span);
        self.scopes.pop();
        if !leaves {
            return tokens;
        }
        let p = self.private(span);
        let bounce = self.bounce(span);
        if slot {
            // The value is there if control is: after an exit that goes beyond, there is only a
            // placeholder.
            quote_spanned!(span=> { let __kiln_value = #tokens; if #p::unreachable() { #bounce } __kiln_value })
        } else {
            quote_spanned!(span=> { #tokens if #p::unreachable() { #bounce } })
        }
    }

    /// The body of a function or labeled block that exits leave, some with values.
    pub fn exitable(&mut self, block: syn::Block, id: usize, slot: bool, span: Span) -> TokenStream {
        let tail = if slot { Tail::Slot(id) } else { Tail::Value };
        let (frame, body) = self.framed("block", false, span, |r| r.block(block, tail));
        let body = match frame {
            Some(frame) => quote_spanned!(span=> #frame { #body }),
            None => body,
        };
        let (p, none, label) = (self.private(span), none(), break_label(id, span));
        let name = slot_name(id, span);
        let ty = match (&self.result, self.scope(0).map(|s| s.kind)) {
            (Some(ty), Some(ScopeKind::Function)) => quote_spanned!(span=> ::<#ty>),
            _ => quote!(),
        };
        let (declared, value) = if slot {
            let taken = quote_spanned! {span=>
                match #p::TakeProbe(#name).take() {
                    ::core::option::Option::Some(__kiln_value) => __kiln_value,
                    #none => #p::never_returns(),
                }
            };
            (quote_spanned!(span=> let mut #name = #p::Slot #ty ::new();), taken)
        } else {
            (quote!(), quote!())
        };
        quote_spanned! {span=> {
            #declared
            let __kiln_scope = #p::Block::enter();
            #label: { #body }
            __kiln_scope.leave();
            #value
        }}
    }
}

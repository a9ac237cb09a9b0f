//! `for`, `while` and `loop`.

use super::block::{Tail, slot_name};
use super::exits::{self, ExitKind};
use super::{Rewriter, Scope, ScopeKind, names, none};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, Expr, Lifetime, RangeLimits};

/// A loop while it is rewritten.
struct Looping {
    id: usize,
    span: Span,
    /// Something in the body leaves the loop and what is around it.
    leaves: bool,
    /// Something in the body leaves this loop, or more.
    exits: bool,
    breaks: bool,
}

impl Rewriter<'_> {
    pub(super) fn looping(&mut self, e: &mut Expr) {
        let taken = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
        let tokens = match taken {
            Expr::ForLoop(l) => self.for_loop(l),
            Expr::While(l) => self.while_loop(l),
            Expr::Loop(l) => self.endless_loop(l),
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    /// Enters the scope of a loop.
    fn enter(&mut self, label: &Option<syn::Label>, body: &Block, span: Span, slot: bool) -> Looping {
        let id = self.id();
        let label = label.as_ref().map(|l| l.name.ident.to_string());
        let found = exits::of_block(body);
        let own = |x: &&exits::Exit| x.targets(label.as_deref());
        let breaks = found.iter().filter(own).any(|x| x.kind == ExitKind::Break);
        let leaves = found.iter().any(|x| !x.targets(label.as_deref()));
        let slot = slot && found.iter().filter(own).any(|x| x.has_value);
        self.scopes.push(Scope { kind: ScopeKind::Loop, label, id, slot, typed: false });
        Looping { id, span, leaves, exits: breaks || leaves, breaks }
    }

    /// The body of a loop, whose end `continue` reaches.
    fn body(&mut self, looping: &Looping, body: Block) -> TokenStream {
        let span = looping.span;
        let continued = body_label(looping.id, span);
        let (frame, tokens) = self.framed("body", false, span, |r| r.block(body, Tail::Value));
        match frame {
            Some(frame) => quote_spanned!(span=> #continued: { #frame { #tokens } }),
            None => quote_spanned!(span=> #continued: { #tokens }),
        }
    }

    /// Leaves the scope of a loop; gives what follows it where exits go beyond it.
    fn leave(&mut self, looping: &Looping) -> TokenStream {
        self.scopes.pop();
        if !looping.leaves {
            return TokenStream::new();
        }
        let span = looping.span;
        let p = self.private(span);
        let bounce = self.bounce(span);
        quote_spanned!(span=> if #p::unreachable() { #bounce })
    }

    fn for_loop(&mut self, l: syn::ExprForLoop) -> TokenStream {
        let span = l.for_token.span;
        let mut source = *l.expr;
        if let Some(span) = exits::misplaced(&source) {
            self.error(span, "an exit inside the head of a loop: bind the range with `let` first");
        }
        let source_span = source.span();
        let kind = self.suspected(&source);
        let source = self.source(&mut source);
        let depth = self.names.len();
        let mut pat = *l.pat;
        let looping = self.enter(&l.label, &l.body, span, false);
        let bound = names::bound(&pat);
        let rebind = self.rebind(&mut pat, span);
        self.level += 1;
        let end = l.body.brace_token.span.close();
        let depths = self.scoped(end, |r| r.declare(bound, kind, span));
        let body = self.body(&looping, l.body);
        self.level -= 1;
        self.names.truncate(depth);
        let broken = break_label(looping.id, span);
        let after = self.leave(&looping);
        let p = self.private(source_span);
        quote_spanned! {span=> {
            let mut __kiln_for =
                #p::LoopProbe(#p::LoopSource::on_host(#p::RefuseProbe(#source).value())).begin();
            #broken: while let ::core::option::Option::Some(__kiln_item) = __kiln_for.next() {
                let #pat = __kiln_item;
                #rebind
                #depths
                #body
            }
            #after
        }}
    }

    /// What a `for` runs over: `a..b` may have device bounds, and so may `(a..b).rev()` and
    /// `(a..b).step_by(k)`.
    fn source(&mut self, e: &mut Expr) -> TokenStream {
        match e {
            Expr::Paren(p) => self.source(&mut p.expr),
            Expr::Range(syn::ExprRange { start: Some(lo), limits, end: Some(hi), .. }) => {
                let span = limits.span();
                self.value(lo);
                self.value(hi);
                let p = self.private(span);
                match limits {
                    RangeLimits::HalfOpen(_) => quote_spanned!(span=> #p::RangeProbe(#lo, #hi).range()),
                    RangeLimits::Closed(_) => {
                        quote_spanned!(span=> #p::RangeProbe(#lo, #hi).range_inclusive())
                    }
                }
            }
            Expr::MethodCall(m) if m.method == "rev" || m.method == "step_by" => {
                let receiver = self.source(&mut m.receiver);
                m.args.iter_mut().for_each(|a| self.value(a));
                let (method, args) = (&m.method, &m.args);
                quote_spanned!(m.method.span()=> #receiver.#method(#args))
            }
            e => {
                self.value(e);
                quote!(#e)
            }
        }
    }

    fn while_loop(&mut self, l: syn::ExprWhile) -> TokenStream {
        let span = l.while_token.span;
        let mut cond = *l.cond;
        if let Some(span) = exits::misplaced(&cond) {
            self.error(span, "an exit inside a condition: use `loop` and `if`");
        }
        let looping = self.enter(&l.label, &l.body, span, false);
        let depth = self.names.len();
        let broken = break_label(looping.id, span);
        let p = self.private(span);
        self.level += 1;
        let test = match &mut cond {
            Expr::Let(binding) => self.while_let(binding, &broken, span),
            cond => {
                self.value(cond);
                quote_spanned!(cond.span()=> if !__kiln_while.test(#p::Condition::decision(#cond)) { break #broken; })
            }
        };
        let body = self.body(&looping, l.body);
        self.level -= 1;
        self.names.truncate(depth);
        let after = self.leave(&looping);
        quote_spanned! {span=> {
            let mut __kiln_while = #p::While::begin();
            #broken: loop {
                #test
                #body
                if !__kiln_while.next() { break #broken; }
            }
            #after
        }}
    }

    /// `while let`: it takes host values apart, so it runs on the host.
    fn while_let(&mut self, binding: &mut syn::ExprLet, broken: &Lifetime, span: Span) -> TokenStream {
        let kind = self.suspected(&binding.expr);
        self.place(&mut binding.expr);
        let bound = names::bound(&binding.pat);
        let rebind = self.rebind(&mut binding.pat, span);
        let depths = self.declare(bound, kind, span);
        let (pat, value) = (&binding.pat, &binding.expr);
        let p = self.private(span);
        quote_spanned! {span=>
            let #pat = #value else {
                __kiln_while.test(#p::Condition::decision(false));
                break #broken;
            };
            __kiln_while.test(#p::Condition::decision(true));
            #rebind
            #depths
        }
    }

    fn endless_loop(&mut self, l: syn::ExprLoop) -> TokenStream {
        let span = l.loop_token.span;
        let looping = self.enter(&l.label, &l.body, span, true);
        let has_slot = self.scopes.last().is_some_and(|s| s.slot);
        let body = self.deeper(|r| r.body(&looping, l.body));
        let broken = break_label(looping.id, span);
        let after = self.leave(&looping);
        let (p, none, can_exit) = (self.private(span), none(), looping.exits);
        let slot = slot_name(looping.id, span);
        let (declared, value) = if !looping.breaks {
            let bounce = self.bounce(span);
            (quote!(), quote_spanned!(span=> #p::mark_unreachable(); #bounce))
        } else if has_slot {
            let bounce = self.bounce(span);
            let taken = quote_spanned!(span=> match #p::TakeProbe(#slot).take() {
                ::core::option::Option::Some(__kiln_value) => __kiln_value,
                #none => #bounce,
            });
            (quote_spanned!(span=> let mut #slot = #p::Slot::new();), taken)
        } else {
            (quote!(), quote!())
        };
        // An endless loop has no end to test whether exits go beyond it.
        let after = if looping.breaks { after } else { quote!() };
        quote_spanned! {span=> {
            #declared
            let mut __kiln_loop = #p::Loop::begin(#can_exit);
            #broken: loop {
                #body
                if !__kiln_loop.next() { break #broken; }
            }
            #after
            #value
        }}
    }
}

/// The label of a loop, for the host's own `break`.
pub fn break_label(id: usize, span: Span) -> Lifetime {
    Lifetime::new(&format!("'__kiln_break_{id}"), span)
}

/// The label of a loop's body, for the host's own `continue`.
pub fn body_label(id: usize, span: Span) -> Lifetime {
    Lifetime::new(&format!("'__kiln_continue_{id}"), span)
}

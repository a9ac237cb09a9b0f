//! Places that calls borrow: `&mut x` as an argument, the receiver of a method, the name of a
//! mutable reference.
//!
//! What the callee does is plain Rust, unless it has the attribute too. So the place is compared
//! before and after the call; what becomes of a change is described in `kiln_lang::flow::watch`.
//! Syntax decides how:
//!
//! | written | rewritten |
//! |---|---|
//! | `f(&mut x)` | `f(&mut *Borrowed::new(.., &mut x))`, settled when the call is over |
//! | `f(r)`, a name that surely is a mutable reference | the same with `*r` |
//! | `x.m();`, a statement | settled after it |
//! | `x.m()`, whose result is used and may borrow from `x` | a change is an error |
//! | `x.iter_mut()` and others that surely give a mutable reference | as `&mut x` |
//!
//! Nothing is done where the name was declared in the same piece of straight control flow.

use super::block::depth_name;
use super::names::Kind;
use super::{Rewriter, names};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprMethodCall, Ident, UnOp};

/// The place that a call borrows.
struct BorrowedPlace {
    tokens: TokenStream,
    depth: Ident,
    kind: Kind,
}

impl Rewriter<'_> {
    /// Rewrites the arguments of a call. If one is settled when the call is over, gives the
    /// statements that go before.
    pub(super) fn arguments<'e>(
        &mut self,
        args: impl Iterator<Item = &'e mut Expr>,
        sure: bool,
    ) -> Option<TokenStream> {
        let (mut before, mut names, mut borrowed) = (TokenStream::new(), Vec::new(), false);
        for (at, arg) in args.enumerate() {
            let named = names::root(arg).filter(|_| matches!(arg, Expr::Path(_))).map(ToString::to_string);
            if let Some(tokens) = self.borrow(arg, sure) {
                *arg = Expr::Verbatim(tokens);
                names.extend(named);
                borrowed = true;
                continue;
            }
            // `f(r, *r + 1)`: Rust passes `r` on after it has read `*r`.
            let reads = names.iter().any(|name| names::mentions(quote!(#arg), name));
            self.value(arg);
            if reads {
                let name = Ident::new(&format!("__kiln_argument_{at}"), arg.span());
                before.extend(quote_spanned!(arg.span()=> let #name = #arg;));
                *arg = Expr::Verbatim(quote!(#name));
            }
        }
        borrowed.then_some(before)
    }

    /// A call whose arguments are settled before anything else happens.
    pub(super) fn settled(&self, call: TokenStream, borrowed: Option<TokenStream>, span: Span) -> Expr {
        Expr::Verbatim(match borrowed {
            Some(before) => quote_spanned!(span=> ({ #before let __kiln_value = #call; __kiln_value })),
            None => call,
        })
    }

    fn borrow(&mut self, arg: &mut Expr, sure: bool) -> Option<TokenStream> {
        let span = arg.span();
        let p = self.private(span);
        match arg {
            Expr::Paren(paren) => self.borrow(&mut paren.expr, sure),
            Expr::Reference(r) if r.mutability.is_some() => {
                let name = self.name_of(&r.expr)?;
                if !(sure || name.level < self.level) || !is_borrowable(&r.expr) {
                    return None;
                }
                let depth = self.depth_of(&r.expr, span);
                let mut place = (*r.expr).clone();
                self.place(&mut place);
                Some(quote_spanned! {span=> &mut *{
                    let __kiln_seen = (&&&&&&#p::WatchProbe(&#place)).watch(#depth);
                    #p::PlaceProbe(&mut #place, #depth).check();
                    #p::Borrowed::new(__kiln_seen, &mut #place)
                }})
            }
            Expr::Path(path) => {
                let ident = path.path.get_ident()?.clone();
                let name = self.name_of(arg)?;
                if name.level >= self.level || name.kind != Kind::Reference {
                    return None;
                }
                let depth = self.depth_of(arg, span);
                Some(quote_spanned! {span=> &mut *{
                    let __kiln_seen = (&&&&&&#p::WatchProbe(&*#ident)).watch(#depth);
                    #p::Borrowed::new(__kiln_seen, &mut *#ident)
                }})
            }
            _ => None,
        }
    }

    /// Rewrites a method call; `alone` if it is a statement.
    pub(super) fn method_call(&mut self, m: &mut ExprMethodCall, alone: bool) -> Expr {
        let span = m.method.span();
        let method = m.method.to_string();
        let p = self.private(span);
        let cell = self.cell_check(m, &method);
        let place = self.receiver(&m.receiver, &method);
        self.place(&mut m.receiver);
        let borrowed = self.arguments(m.args.iter_mut(), false);
        let call = self.settled(quote!(#m), borrowed, span);
        let Some(BorrowedPlace { tokens, depth, kind }) = place else {
            return match cell {
                Some(check) => Expr::Verbatim(quote_spanned!(span=> ({ #check #call }))),
                None => call,
            };
        };
        if gives_mutable_reference(&method) {
            if kind == Kind::Suspect {
                return call;
            }
            return Expr::Verbatim(
                quote_spanned!(span=> ({ #p::PlaceProbe(&mut #tokens, #depth).check(); #call })),
            );
        }
        let watched = match kind {
            Kind::Suspect => quote_spanned!(span=> (&&&&#p::ReferenceProbe(&#tokens)).watch(#depth)),
            _ => quote_spanned!(span=> (&&&&&&#p::WatchProbe(&#tokens)).watch(#depth)),
        };
        Expr::Verbatim(if alone && kind != Kind::Suspect {
            quote_spanned! {span=> {
                #cell
                let __kiln_seen = #p::open(#watched, &mut #tokens);
                #call;
                #p::settle(__kiln_seen, &mut #tokens);
            }}
        } else {
            quote_spanned! {span=> ({
                #cell
                match #watched { __kiln_seen => match #call { __kiln_value => {
                    #p::unchanged(&__kiln_seen, &#tokens, #method);
                    __kiln_value
                }}}
            })}
        })
    }

    /// The place that a method may change, if that matters here.
    fn receiver(&mut self, receiver: &Expr, method: &str) -> Option<BorrowedPlace> {
        let name = self.name_of(receiver)?;
        let explicit = has_deref(receiver);
        let kind = match name.kind {
            Kind::Plain if !name.mutable && !explicit => return None,
            Kind::Suspect if !name.mutable && !explicit => Kind::Suspect,
            kind => kind,
        };
        let outer = name.level < self.level;
        if !outer || leaves_alone(method) || !is_borrowable(receiver) {
            return None;
        }
        let span = receiver.span();
        let depth = self.depth_of(receiver, span);
        let mut place = receiver.clone();
        let named = matches!(receiver, Expr::Path(_));
        self.place(&mut place);
        let (tokens, kind) = match kind {
            Kind::Reference if named => (quote_spanned!(span=> *#place), Kind::Reference),
            Kind::Suspect if named && !explicit => (quote!(#place), Kind::Suspect),
            _ => (quote!(#place), Kind::Plain),
        };
        Some(BorrowedPlace { tokens, depth, kind })
    }

    /// The check of what may be a cell or lock.
    fn cell_check(&mut self, m: &ExprMethodCall, method: &str) -> Option<TokenStream> {
        let name = self.name_of(&m.receiver)?;
        if !names::changes_cells(method) || name.level >= self.level || !is_borrowable(&m.receiver) {
            return None;
        }
        let span = m.method.span();
        let p = self.private(span);
        let depth = self.depth_of(&m.receiver, span);
        let mut place = (*m.receiver).clone();
        self.place(&mut place);
        Some(quote_spanned!(span=> #p::CellProbe(&#place).check(#depth);))
    }

    /// What goes before and after a statement that is a macro of the user's: what it makes of the
    /// variables it mentions is not seen.
    pub(super) fn around_macro(&mut self, mac: &syn::Macro) -> (TokenStream, TokenStream) {
        let (mut before, mut after) = (TokenStream::new(), TokenStream::new());
        if names::is_known_macro(&mac.path) {
            return (before, after);
        }
        let span = mac.path.span();
        let p = self.private(span);
        let mut done: Vec<&str> = Vec::new();
        for name in self.names.iter().rev() {
            let outer = name.level < self.level && (name.mutable || name.kind == Kind::Reference);
            if done.contains(&name.ident.as_str()) || !names::mentions(mac.tokens.clone(), &name.ident) {
                continue;
            }
            done.push(&name.ident);
            if !outer || name.ident == "self" {
                continue;
            }
            let ident = Ident::new(&name.ident, span);
            let depth = if name.has_depth { depth_name(&ident) } else { Ident::new("__kiln_depth", span) };
            let seen = Ident::new(&format!("__kiln_seen_{}", name.ident), span);
            let place = if name.kind == Kind::Reference { quote!(*#ident) } else { quote!(#ident) };
            before.extend(quote_spanned! {span=>
                let #seen = #p::open((&&&&&&#p::WatchProbe(&#place)).watch(#depth), &mut #place);
            });
            after.extend(quote_spanned!(span=> #p::settle(#seen, &mut #place);));
        }
        (before, after)
    }

    /// What is known of the name behind a place.
    fn name_of(&self, place: &Expr) -> Option<&names::Name> {
        let root = names::root(place)?;
        self.names.iter().rfind(|n| *root == n.ident)
    }

    /// The depth of device control flow at which the name behind a place was declared; of a
    /// parameter, that of the body.
    pub(super) fn depth_of(&self, place: &Expr, span: Span) -> Ident {
        let known = names::root(place).filter(|root| {
            let name = self.names.iter().rfind(|n| **root == n.ident);
            name.is_some_and(|n| n.has_depth)
        });
        known.map_or_else(|| Ident::new("__kiln_depth", span), depth_name)
    }
}

/// Whether a place can be written several times without doing anything several times.
pub(super) fn is_borrowable(place: &Expr) -> bool {
    match place {
        Expr::Path(p) => p
            .path
            .get_ident()
            .is_some_and(|i| i.to_string().starts_with(|c: char| c.is_lowercase() || c == '_')),
        Expr::Field(f) => is_borrowable(&f.base),
        Expr::Index(i) => is_borrowable(&i.expr) && is_constant(&i.index),
        Expr::Paren(p) => is_borrowable(&p.expr),
        Expr::Unary(u) => matches!(u.op, UnOp::Deref(_)) && is_borrowable(&u.expr),
        _ => false,
    }
}

/// Whether an index is made of names and numbers.
fn is_constant(index: &Expr) -> bool {
    match index {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Binary(b) => !super::is_assign_op(&b.op) && is_constant(&b.left) && is_constant(&b.right),
        Expr::Paren(p) => is_constant(&p.expr),
        Expr::Range(r) => r.start.iter().chain(&r.end).all(|e| is_constant(e)),
        _ => false,
    }
}

fn has_deref(place: &Expr) -> bool {
    match place {
        Expr::Unary(u) => matches!(u.op, UnOp::Deref(_)),
        Expr::Field(f) => has_deref(&f.base),
        Expr::Index(i) => has_deref(&i.expr),
        Expr::Paren(p) => has_deref(&p.expr),
        _ => false,
    }
}

/// Methods that by their name give a mutable reference into their receiver.
fn gives_mutable_reference(method: &str) -> bool {
    method.ends_with("_mut")
        || matches!(method, "drain" | "entry" | "get_or_insert" | "get_or_insert_with" | "by_ref")
}

/// Methods that by their name take their receiver whole, or only read it.
fn leaves_alone(method: &str) -> bool {
    let starts = ["into_", "unwrap", "expect", "as_ref", "as_deref", "is_"];
    starts.iter().any(|s| method.starts_with(s))
        || matches!(
            method,
            "len" | "iter" | "clone" | "map" | "and_then" | "zip" | "rev" | "enumerate" | "collect"
        )
}

/// Whether a call by its name changes what it is given: it then pays to settle even where no
/// control flow lies between.
pub(super) fn replaces(func: &Expr) -> bool {
    let Expr::Path(path) = func else { return false };
    path.path.segments.last().is_some_and(|s| ["swap", "replace", "take"].iter().any(|name| s.ident == name))
}

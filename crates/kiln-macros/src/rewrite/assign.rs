//! Assignments and `&mut`.

use super::borrow::is_borrowable;
use super::{Rewriter, is_literal, names};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident};

impl Rewriter<'_> {
    pub(super) fn assignment(&mut self, e: &mut Expr) {
        let taken = std::mem::replace(e, Expr::Verbatim(TokenStream::new()));
        let tokens = match taken {
            Expr::Assign(a) => {
                let span = a.eq_token.span;
                let mut right = *a.right;
                self.value(&mut right);
                self.assign_to(*a.left, quote!(#right), span)
            }
            Expr::Binary(b) => self.assign_op(b),
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    /// `place = value`; tuples and arrays on the left are taken apart.
    fn assign_to(&mut self, mut place: Expr, value: TokenStream, span: Span) -> TokenStream {
        match place {
            Expr::Infer(_) => quote_spanned!(span=> { let _ = #value; }),
            Expr::Paren(p) => self.assign_to(*p.expr, value, span),
            Expr::Tuple(t) => {
                let (names, assignments) = self.assign_each(t.elems, span);
                quote_spanned!(span=> { let (#(#names,)*) = #value; #(#assignments)* })
            }
            Expr::Array(a) => {
                let (names, assignments) = self.assign_each(a.elems, span);
                quote_spanned!(span=> { let [#(#names,)*] = #value; #(#assignments)* })
            }
            Expr::Struct(_) | Expr::Call(_) | Expr::Range(_) => {
                self.error(span, "this assignment takes a value apart: use `let` and assign the parts");
                TokenStream::new()
            }
            _ => {
                let depth = self.depth_of(&place, span);
                self.place(&mut place);
                let p = self.private(span);
                quote_spanned! {span=> {
                    let __kiln_value = #value;
                    #p::PlaceProbe(&mut #place, #depth).assign(__kiln_value);
                }}
            }
        }
    }

    fn assign_each(
        &mut self,
        places: impl IntoIterator<Item = Expr>,
        span: Span,
    ) -> (Vec<Ident>, Vec<TokenStream>) {
        let named = places.into_iter().enumerate().map(|(i, place)| {
            let name = Ident::new(&format!("__kiln_part_{i}"), span);
            let assignment = self.assign_to(place, quote!(#name), span);
            (name, assignment)
        });
        named.unzip()
    }

    fn assign_op(&mut self, b: syn::ExprBinary) -> TokenStream {
        let (mut place, mut right, op) = (*b.left, *b.right, b.op);
        let span = op.span();
        let depth = self.depth_of(&place, span);
        let literal = is_literal(&right);
        self.value(&mut right);
        self.place(&mut place);
        let p = self.private(span);
        // A literal keeps its own inference; anything else is evaluated before the place is
        // borrowed.
        let (bound, value) = if literal {
            (quote!(), quote!(#right))
        } else {
            (quote_spanned!(span=> let __kiln_value = #right;), quote_spanned!(span=> __kiln_value))
        };
        quote_spanned! {span=> {
            #bound
            let __kiln_place = &mut #place;
            #p::PlaceProbe(&mut *__kiln_place, #depth).check();
            *__kiln_place #op #value;
        }}
    }

    pub(super) fn reference(&mut self, e: &mut Expr) {
        let Expr::Reference(r) = e else { return };
        let span = r.and_token.span;
        let known = names::root(&r.expr)
            .is_some_and(|root| *root == "self" || self.names.iter().any(|n| *root == n.ident));
        let simple = is_borrowable(&r.expr);
        let depth = self.depth_of(&r.expr, span);
        self.place(&mut r.expr);
        if r.mutability.is_none() || !(simple || known) {
            return;
        }
        let place = &r.expr;
        let p = self.private(span);
        *e = Expr::Verbatim(if simple {
            quote_spanned!(span=> ({ #p::PlaceProbe(&mut #place, #depth).check(); &mut #place }))
        } else {
            quote_spanned! {span=> ({
                let __kiln_place = &mut #place;
                #p::PlaceProbe(&mut *__kiln_place, #depth).check();
                __kiln_place
            })}
        });
    }
}

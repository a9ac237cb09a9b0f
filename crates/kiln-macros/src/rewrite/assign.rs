//! Assignments and `&mut`.

use super::borrow::is_borrowable;
use super::literal::{is_literal, is_wide, type_may_be_inferred};
use super::{Rewriter, names};
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
                let inferred = type_may_be_inferred(&right);
                self.value(&mut right);
                if is_wide(&right) {
                    return *e = Expr::Verbatim(self.assign_wide(*a.left, &right, span));
                }
                self.assign_to(*a.left, quote!(#right), inferred, span)
            }
            Expr::Binary(b) => self.assign_op(b),
            other => quote!(#other),
        };
        *e = Expr::Verbatim(tokens);
    }

    /// `place = value`; tuples and arrays on the left are taken apart.
    fn assign_to(&mut self, mut place: Expr, value: TokenStream, inferred: bool, span: Span) -> TokenStream {
        match place {
            Expr::Infer(_) => quote_spanned!(span=> { let _ = #value; }),
            Expr::Paren(p) => self.assign_to(*p.expr, value, inferred, span),
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
                let (p, at) = (self.private(span), self.private(value.span()));
                let checked = (!inferred).then(|| {
                    quote_spanned! {value.span()=>
                        let __kiln_value = #at::HostOperand::on_host(
                            #at::OperandProbe::like(&*__kiln_place, __kiln_value).operand()
                        );
                    }
                });
                quote_spanned! {span=> {
                    let __kiln_value = #value;
                    let __kiln_place = &mut #place;
                    #checked
                    #p::PlaceProbe(__kiln_place, #depth).assign(__kiln_value);
                }}
            }
        }
    }

    /// `place = literal`, where the literal is larger than an `i32`.
    fn assign_wide(&mut self, mut place: Expr, literal: &Expr, span: Span) -> TokenStream {
        let depth = self.depth_of(&place, span);
        self.place(&mut place);
        let (p, at) = (self.private(span), self.private(literal.span()));
        quote_spanned! {span=> {
            let __kiln_place = &mut #place;
            let __kiln_value = #at::WideProbe::like(&*__kiln_place).literal(#literal);
            #p::PlaceProbe(__kiln_place, #depth).assign(__kiln_value);
        }}
    }

    fn assign_each(
        &mut self,
        places: impl IntoIterator<Item = Expr>,
        span: Span,
    ) -> (Vec<Ident>, Vec<TokenStream>) {
        let named = places.into_iter().enumerate().map(|(i, place)| {
            let name = Ident::new(&format!("__kiln_part_{i}"), span);
            let assignment = self.assign_to(place, quote!(#name), true, span);
            (name, assignment)
        });
        named.unzip()
    }

    fn assign_op(&mut self, b: syn::ExprBinary) -> TokenStream {
        let (mut place, mut right, op) = (*b.left, *b.right, b.op);
        let span = op.span();
        let depth = self.depth_of(&place, span);
        let (literal, wide, right_span) = (is_literal(&right), is_wide(&right), right.span());
        let inferred = type_may_be_inferred(&right);
        self.value(&mut right);
        self.place(&mut place);
        let (p, at) = (self.private(span), self.private(right_span));
        // A literal keeps its own inference; anything else is evaluated before the place is
        // borrowed.
        let bound = (!literal).then(|| quote_spanned!(span=> let __kiln_value = #right;));
        let value = if wide {
            quote_spanned!(right_span=> #at::WideProbe::like(&*__kiln_place).literal(#right))
        } else if literal {
            quote!(#right)
        } else if inferred {
            quote_spanned!(span=> __kiln_value)
        } else {
            quote_spanned! {right_span=>
                #at::HostOperand::on_host(#at::OperandProbe::like(&*__kiln_place, __kiln_value).operand())
            }
        };
        let rebound =
            (wide || !literal && !inferred).then(|| quote_spanned!(span=> let __kiln_value = #value;));
        let operand = if rebound.is_some() { quote_spanned!(span=> __kiln_value) } else { value };
        quote_spanned! {span=> {
            #bound
            let __kiln_place = &mut #place;
            #p::PlaceProbe(&mut *__kiln_place, #depth).check();
            #rebound
            *__kiln_place #op #operand;
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

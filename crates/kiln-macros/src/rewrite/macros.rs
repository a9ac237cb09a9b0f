//! Macros whose arguments are expressions.
//!
//! The assertions of the standard library become assertions of the device where their condition is
//! one; what formats values refuses those of the device.

use super::Rewriter;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit, Macro, Token};

type Args = Punctuated<Expr, Token![,]>;

impl Rewriter<'_> {
    /// A macro as an expression or a statement.
    pub(super) fn macro_expr(&mut self, e: &mut Expr) {
        let Expr::Macro(m) = e else { return };
        if let Some(assertion) = self.assertion(&m.mac) {
            *e = Expr::Verbatim(assertion);
            return;
        }
        self.macro_call(&mut m.mac);
    }

    /// `assert!`, `assert_eq!` and the like.
    pub(super) fn assertion(&mut self, mac: &Macro) -> Option<TokenStream> {
        let name = mac.path.get_ident()?.to_string();
        let (compare, with_debug) = match name.as_str() {
            "assert" => (None, false),
            "debug_assert" => (None, true),
            "assert_eq" => (Some("eq"), false),
            "assert_ne" => (Some("ne"), false),
            "debug_assert_eq" => (Some("eq"), true),
            "debug_assert_ne" => (Some("ne"), true),
            _ => return None,
        };
        let mut args = Args::parse_terminated.parse2(mac.tokens.clone()).ok()?.into_iter();
        let span = mac.path.span();
        let p = self.private(span);
        let mut first = args.next()?;
        let mut text = format!("assertion failed: {}", source(&first));
        self.value(&mut first);
        let condition = match compare {
            None => quote!(#first),
            Some(method) => {
                let mut second = args.next()?;
                let op = if method == "eq" { "==" } else { "!=" };
                text = format!("{text} {op} {}", source(&second));
                self.value(&mut second);
                let method = Ident::new(method, span);
                let at = self.private(first.span());
                quote_spanned!(span=> #at::CompareProbe(&(#first), &(#second)).#method())
            }
        };
        let mut rest: Vec<Expr> = args.collect();
        let checked = match rest.as_slice() {
            [] => quote_spanned!(span=> #p::AssertProbe(#condition).check(#text)),
            [Expr::Lit(l)] if plain_text(&l.lit).is_some() => {
                let text = plain_text(&l.lit);
                quote_spanned!(span=> #p::AssertProbe(#condition).check(#text))
            }
            _ => {
                let at = self.private(first.span());
                self.format_arguments(&mut rest, false);
                quote_spanned! {span=>
                    ::core::assert!(#at::HostCondition::on_host(#at::RefuseProbe(#condition).value()), #(#rest),*)
                }
            }
        };
        Some(if with_debug {
            quote_spanned!(span=> if ::core::cfg!(debug_assertions) { #checked })
        } else {
            checked
        })
    }

    /// Rewrites the arguments of the macros that take expressions; others are left alone.
    pub(super) fn macro_call(&mut self, mac: &mut Macro) {
        let Some(name) = mac.path.segments.last().map(|s| s.ident.to_string()) else { return };
        match name.as_str() {
            "vec" => self.vec_macro(mac),
            "print" | "println" | "eprint" | "eprintln" => {
                let Ok(args) = Args::parse_terminated.parse2(mac.tokens.clone()) else { return };
                let mut args: Vec<Expr> = args.into_iter().collect();
                self.format_arguments(&mut args, true);
                mac.tokens = quote!(#(#args),*);
            }
            "device_assert" | "device_print" | "format" | "panic" | "unreachable" | "write" | "writeln" => {
                let Ok(mut args) = Args::parse_terminated.parse2(mac.tokens.clone()) else { return };
                args.iter_mut().for_each(|arg| self.argument(arg));
                mac.tokens = quote!(#args);
            }
            _ => {}
        }
    }

    fn argument(&mut self, arg: &mut Expr) {
        match arg {
            // `name = value` in a format string's arguments.
            Expr::Assign(a) => self.place(&mut a.right),
            arg => self.place(arg),
        }
    }

    /// A format string and its arguments; names in the string become arguments. They are `refused`
    /// where they are of the device.
    fn format_arguments(&mut self, args: &mut Vec<Expr>, refused: bool) {
        let Some((Expr::Lit(text), given)) = args.split_first_mut() else { return };
        let Lit::Str(text) = &text.lit else { return };
        let named = |arg: &Expr| match arg {
            Expr::Assign(a) => Some(quote!(#a).into_iter().next()?.to_string()),
            _ => None,
        };
        let known: Vec<String> = given.iter().filter_map(named).collect();
        let span = text.span();
        let inline: Vec<Ident> = names_in(&text.value())
            .into_iter()
            .filter(|name| !known.contains(name))
            .filter_map(|name| syn::parse_str::<Ident>(&name).ok())
            .collect();
        for arg in given {
            self.argument(arg);
            let value = match arg {
                Expr::Assign(a) => &mut a.right,
                arg => arg,
            };
            *value = Expr::Verbatim(self.formatted(&quote!((#value)), refused, value.span()));
        }
        for name in inline {
            let value = format_ident!("{}", name, span = span);
            let formatted = self.formatted(&quote!(#value), refused, span);
            args.push(Expr::Verbatim(quote_spanned!(span=> #name = #formatted)));
        }
    }

    fn formatted(&self, value: &TokenStream, refused: bool, span: proc_macro2::Span) -> TokenStream {
        let p = self.private(span);
        match refused {
            true => quote_spanned!(span=> #p::Formattable::on_host(#p::RefuseProbe(&#value).value())),
            false => quote_spanned!(span=> #p::RefuseProbe(&#value).shown()),
        }
    }

    fn vec_macro(&mut self, mac: &mut syn::Macro) {
        let Ok(mut args) = syn::parse2::<VecArgs>(mac.tokens.clone()) else { return };
        match &mut args {
            VecArgs::Repeat(value, len) => {
                self.value(value);
                self.value(len);
                mac.tokens = quote!(#value; #len);
            }
            VecArgs::List(items) => {
                items.iter_mut().for_each(|i| self.value(i));
                mac.tokens = quote!(#items);
            }
        }
    }
}

enum VecArgs {
    Repeat(Box<Expr>, Box<Expr>),
    List(Punctuated<Expr, Token![,]>),
}

impl Parse for VecArgs {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if input.is_empty() {
            return Ok(VecArgs::List(Punctuated::new()));
        }
        let first: Expr = input.parse()?;
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            return Ok(VecArgs::Repeat(Box::new(first), Box::new(input.parse()?)));
        }
        let mut items = Punctuated::new();
        items.push_value(first);
        while input.peek(Token![,]) {
            items.push_punct(input.parse()?);
            if input.is_empty() {
                break;
            }
            items.push_value(input.parse()?);
        }
        Ok(VecArgs::List(items))
    }
}

/// An expression as the user wrote it, for a message.
fn source(e: &Expr) -> String {
    e.span().source_text().unwrap_or_else(|| quote!(#e).to_string())
}

/// The text of a message without places for values.
fn plain_text(lit: &Lit) -> Option<String> {
    match lit {
        Lit::Str(text) if !text.value().contains(['{', '}']) => Some(text.value()),
        _ => None,
    }
}

/// The names that a format string shows, each once.
fn names_in(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for piece in text.replace("{{", "").split('{').skip(1) {
        let name: String = piece.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_name && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

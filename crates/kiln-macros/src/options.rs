//! The options of the attributes.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Path, Token};

const EXPECTED: &str = "expected `crate = path` or `contract`";

/// `crate = path`: where the expansion finds the language; `contract`: a kernel's products and sums
/// may become multiply-adds.
#[derive(Default)]
pub struct Options {
    krate: Option<Path>,
    contract: Option<Ident>,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut options = Options::default();
        while !input.is_empty() {
            options.one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn one(&mut self, input: ParseStream) -> syn::Result<()> {
        if input.peek(Token![crate]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            self.krate = Some(input.call(Path::parse_mod_style)?);
            return Ok(());
        }
        match input.parse::<Ident>() {
            Ok(ident) if ident == "contract" => self.contract = Some(ident),
            Ok(other) => return Err(syn::Error::new(other.span(), EXPECTED)),
            Err(e) => return Err(syn::Error::new(e.span(), EXPECTED)),
        }
        Ok(())
    }

    /// Whether products and sums may become multiply-adds.
    pub fn contract(&self) -> bool {
        self.contract.is_some()
    }

    /// Refuses `contract` where an attribute other than `#[kernel]` has it.
    pub fn refuse_contract(&self, why: &str) -> syn::Result<()> {
        match &self.contract {
            Some(ident) => Err(syn::Error::new(ident.span(), why)),
            None => Ok(()),
        }
    }

    /// The options of a derive, from `#[kiln(crate = path)]`.
    pub fn of_derive(attrs: &[syn::Attribute]) -> syn::Result<Options> {
        match attrs.iter().find(|a| a.path().is_ident("kiln")) {
            Some(attr) => attr.parse_args(),
            None => Ok(Options::default()),
        }
    }

    /// The path of the module that expansions name, with spans of the user's, so that locations in
    /// traces are the user's too.
    pub fn private(&self, span: Span) -> TokenStream {
        let path = match &self.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::kiln),
        };
        respan(quote!(#path::__private), span)
    }

    /// The path of the module of arrays.
    pub fn arrays(&self) -> TokenStream {
        match &self.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::kiln::array),
        }
    }
}

fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}

/// Gives the names that an expansion makes up (`__kiln_…`, labels too) one hygiene, that of `base`,
/// whatever macro the syntax around them came from. Their spans remain the user's, so that errors
/// point there.
pub fn hygienic(tokens: TokenStream, base: Span) -> TokenStream {
    let own = |span: Span| span.resolved_at(base);
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), hygienic(group.stream(), base));
                inner.set_span(group.span());
                out.push(inner.into());
            }
            TokenTree::Ident(mut ident) if ident.to_string().starts_with("__kiln") => {
                ident.set_span(own(ident.span()));
                if let Some(TokenTree::Punct(quote)) = out.last_mut()
                    && quote.as_char() == '\''
                {
                    quote.set_span(own(quote.span()));
                }
                out.push(ident.into());
            }
            other => out.push(other),
        }
    }
    out.into_iter().collect()
}

//! The options of the attributes.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token};

/// `crate = path`: where the expansion finds the language.
pub struct Options {
    krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if input.is_empty() {
            return Ok(Options { krate: None });
        }
        input.parse::<Token![crate]>().map_err(|e| syn::Error::new(e.span(), "expected `crate = path`"))?;
        input.parse::<Token![=]>()?;
        let krate = Some(input.call(Path::parse_mod_style)?);
        Ok(Options { krate })
    }
}

impl Options {
    /// The options of a derive, from `#[kiln(crate = path)]`.
    pub fn of_derive(attrs: &[syn::Attribute]) -> syn::Result<Options> {
        match attrs.iter().find(|a| a.path().is_ident("kiln")) {
            Some(attr) => attr.parse_args(),
            None => Ok(Options { krate: None }),
        }
    }

    /// The path of the module that expansions name, with spans of the user's, so that locations in traces are the user's too.
    pub fn private(&self, span: Span) -> TokenStream {
        let path = match &self.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::kiln),
        };
        respan(quote!(#path::__private), span)
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

/// Gives the names that an expansion makes up (`__kiln_…`, labels too) one hygiene, that of `base`, whatever macro the syntax around
/// them came from. Their places stay the user's, so that errors point there.
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

//! The options of the attributes.

use proc_macro2::{Span, TokenStream};
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

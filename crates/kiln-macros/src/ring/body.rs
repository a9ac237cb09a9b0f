//! What a handler's body says of its messages, before it is rewritten as any other device function.
//!
//! - The names of the state, message and reply become those of their counterparts on the device;
//!   the fields of their struct literals take host numbers.
//! - `Some`, `None`, `Ok` and `Err`, where they are returned, become values of the device.

use super::signature::{Reply, Signature};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprCall, ExprStruct, Ident, Member, Path, Stmt, Type};

/// The names of one signature's types, and what stands for them in the body.
pub struct Names {
    of: Vec<(Path, Ident, Type)>,
}

impl Names {
    /// Names for the types that are structs of the user's: numbers keep their meaning on the host.
    pub fn new(signature: &Signature) -> Names {
        let types = [signature.state.as_ref(), Some(&signature.message), signature.reply_type()];
        let named = ["__kiln_State", "__kiln_Message", "__kiln_Reply"];
        let of = types.into_iter().zip(named).filter_map(|(ty, name)| {
            let Type::Path(path) = ty? else { return None };
            let plain = path.qself.is_none() && path.path.segments.iter().all(|s| s.arguments.is_none());
            let number = path.path.get_ident().is_some_and(is_number);
            (plain && !number).then(|| (path.path.clone(), Ident::new(name, path.span()), ty.cloned()))
        });
        Names { of: of.filter_map(|(path, name, ty)| Some((path, name, ty?))).collect() }
    }

    /// The declarations of the names.
    pub fn declarations(&self, p: &TokenStream) -> TokenStream {
        let (names, types): (Vec<_>, Vec<_>) = self.of.iter().map(|(_, name, ty)| (name, ty)).unzip();
        quote!(#(#[allow(non_camel_case_types, dead_code)] type #names = <#types as #p::Layout>::Device;)*)
    }

    /// What stands for a path that is one of the types.
    fn exactly(&self, path: &Path) -> Option<Path> {
        self.device(path).filter(|device| device.segments.len() == 1)
    }

    /// Whether a path is a name that stands for one of the types.
    fn is_name(&self, path: &Path) -> bool {
        self.of.iter().any(|(_, name, _)| path.is_ident(name))
    }

    /// What stands for a path that is, or begins with, one of the types.
    fn device(&self, path: &Path) -> Option<Path> {
        let found = self.of.iter().find(|(own, ..)| {
            own.leading_colon.is_some() == path.leading_colon.is_some()
                && own.segments.len() <= path.segments.len()
                && own.segments.iter().zip(&path.segments).all(|(a, b)| a.ident == b.ident)
        });
        let (own, name, _) = found?;
        let name = Ident::new(&name.to_string(), path.span());
        let mut device: Path = name.into();
        device.segments.extend(path.segments.iter().skip(own.segments.len()).cloned());
        Some(device)
    }
}

fn is_number(ident: &Ident) -> bool {
    let name = ident.to_string();
    matches!(name.as_str(), "bool" | "u32" | "i32" | "u64" | "i64" | "f32" | "f64" | "f16" | "bf16")
}

/// Renames the types of the signature in a body.
pub struct Renamer<'a> {
    pub names: &'a Names,
    pub p: &'a dyn Fn(Span) -> TokenStream,
}

impl Renamer<'_> {
    fn field(&self, value: &mut Expr) {
        let (p, span) = ((self.p)(value.span()), value.span());
        *value = syn::parse_quote_spanned!(span=> #p::field(#value));
    }

    /// `Ping(a, b)`, of a tuple struct, is `Ping { 0: a, 1: b }`: the other name is not a function.
    fn tuple_literal(&self, call: &ExprCall) -> Option<Expr> {
        let Expr::Path(path) = &*call.func else { return None };
        let device = self.names.exactly(&path.path).filter(|_| path.qself.is_none())?;
        let members = (0..call.args.len()).map(Member::from);
        let values = call.args.iter();
        Some(syn::parse_quote_spanned!(call.span()=> #device { #(#members: #values),* }))
    }
}

impl VisitMut for Renamer<'_> {
    fn visit_expr_mut(&mut self, e: &mut Expr) {
        if let Expr::Call(call) = e
            && let Some(literal) = self.tuple_literal(call)
        {
            *e = literal;
        }
        visit_mut::visit_expr_mut(self, e);
    }

    fn visit_expr_struct_mut(&mut self, literal: &mut ExprStruct) {
        let ours = self.names.exactly(&literal.path).is_some() || self.names.is_name(&literal.path);
        visit_mut::visit_expr_struct_mut(self, literal);
        if !ours {
            return;
        }
        for field in &mut literal.fields {
            field.colon_token.get_or_insert_with(|| syn::Token![:](field.member.span()));
            self.field(&mut field.expr);
        }
    }

    fn visit_path_mut(&mut self, path: &mut Path) {
        if let Some(device) = self.names.device(path) {
            *path = device;
        }
        visit_mut::visit_path_mut(self, path);
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// Makes values of the device of what a handler returns.
pub struct Returns<'a> {
    signature: &'a Signature,
    /// The reply on the device.
    reply: TokenStream,
    p: &'a dyn Fn(Span) -> TokenStream,
}

/// What an expression stands for.
#[derive(Clone, Copy)]
enum ReturnPosition {
    /// The function's result.
    Result,
    /// What is in its `Ok`.
    Reply,
}

impl<'a> Returns<'a> {
    pub fn new(signature: &'a Signature, p: &'a dyn Fn(Span) -> TokenStream) -> Self {
        let private = p(Span::call_site());
        let reply = match signature.reply_type() {
            Some(ty) => quote!(<#ty as #private::Layout>::Device),
            None => quote!(()),
        };
        Returns { signature, reply, p }
    }

    /// Rewrites everything that the body returns.
    pub fn body(&mut self, block: &mut Block) {
        self.visit_block_mut(block);
        self.tail(block, self.outermost());
    }

    fn outermost(&self) -> ReturnPosition {
        if self.signature.fallible { ReturnPosition::Result } else { ReturnPosition::Reply }
    }

    fn tail(&self, block: &mut Block, place: ReturnPosition) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last_mut() {
            self.returned(last, place);
        }
    }

    fn returned(&self, e: &mut Expr, place: ReturnPosition) {
        match e {
            Expr::Paren(paren) => self.returned(&mut paren.expr, place),
            Expr::Group(group) => self.returned(&mut group.expr, place),
            Expr::Block(block) => self.tail(&mut block.block, place),
            Expr::Unsafe(block) => self.tail(&mut block.block, place),
            Expr::If(branch) => {
                self.tail(&mut branch.then_branch, place);
                if let Some((_, otherwise)) = &mut branch.else_branch {
                    self.returned(otherwise, place);
                }
            }
            Expr::Match(found) => found.arms.iter_mut().for_each(|arm| self.returned(&mut arm.body, place)),
            Expr::Call(call) => {
                if let (Expr::Path(path), 1) = (&*call.func, call.args.len())
                    && let Some(variant) = path.path.segments.last().map(|s| s.ident.clone())
                    && let Some(mut argument) = call.args.first().cloned()
                    && let Some(made) = self.variant(&variant, &mut argument, place)
                {
                    *e = made;
                }
            }
            Expr::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "None") => {
                let optional =
                    matches!((place, &self.signature.reply), (ReturnPosition::Reply, Reply::Maybe(_)));
                if optional {
                    let (p, reply, span) = ((self.p)(path.span()), &self.reply, path.span());
                    *e = syn::parse_quote_spanned!(span=> #p::none::<#reply>());
                }
            }
            _ => {}
        }
    }

    /// `Some(argument)`, `Ok(argument)` or `Err(argument)` on the device.
    fn variant(&self, variant: &Ident, argument: &mut Expr, place: ReturnPosition) -> Option<Expr> {
        let span = variant.span();
        let (p, reply) = ((self.p)(span), &self.reply);
        let optional = matches!(self.signature.reply, Reply::Maybe(_));
        let whole = if optional { quote_spanned!(span=> #p::DeviceOption<#reply>) } else { reply.clone() };
        match (variant.to_string().as_str(), place) {
            ("Some", ReturnPosition::Reply) if optional => {
                Some(syn::parse_quote_spanned!(span=> #p::some::<#reply>(#argument)))
            }
            ("Ok", ReturnPosition::Result) => {
                self.returned(argument, ReturnPosition::Reply);
                Some(syn::parse_quote_spanned!(span=> #p::ok::<#whole>(#argument)))
            }
            ("Err", ReturnPosition::Result) => {
                Some(syn::parse_quote_spanned!(span=> #p::err::<#whole>(#argument)))
            }
            _ => None,
        }
    }
}

impl VisitMut for Returns<'_> {
    fn visit_expr_return_mut(&mut self, e: &mut syn::ExprReturn) {
        visit_mut::visit_expr_return_mut(self, e);
        if let Some(value) = &mut e.expr {
            self.returned(value, self.outermost());
        }
    }
    // What closures and items return is their own.
    fn visit_expr_closure_mut(&mut self, _: &mut syn::ExprClosure) {}
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

//! The local names in scope, and what patterns bind.

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Ident, Pat};

/// What syntax says of a name's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// It is a mutable reference.
    Reference,
    /// It may be or hold a mutable reference.
    Suspect,
}

/// A local name.
pub struct Name {
    pub ident: String,
    /// Bound with `mut`: it may hold a variable of the trace.
    pub mutable: bool,
    /// Whether the depth of its declaration was recorded.
    pub has_depth: bool,
    /// How many pieces of control flow, which the device may decide on, are around its declaration.
    pub level: usize,
    pub kind: Kind,
}

/// The names a pattern binds, and whether with `mut`.
pub fn bound(pat: &Pat) -> Vec<(Ident, bool)> {
    struct Binder(Vec<(Ident, bool)>);
    impl<'a> Visit<'a> for Binder {
        fn visit_pat_ident(&mut self, p: &'a syn::PatIdent) {
            self.0.push((p.ident.clone(), p.mutability.is_some() && p.by_ref.is_none()));
            visit::visit_pat_ident(self, p);
        }
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut binder = Binder(Vec::new());
    binder.visit_pat(pat);
    // `None` and other constants look like bindings; names that begin with a capital are not ours.
    binder.0.retain(|(ident, _)| !ident.to_string().starts_with(char::is_uppercase));
    binder.0
}

/// Removes `mut` from a pattern; the names are bound again as variables.
pub fn strip_mut(pat: &mut Pat) {
    struct Strip;
    impl VisitMut for Strip {
        fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
            if p.by_ref.is_none() {
                p.mutability = None;
            }
            visit_mut::visit_pat_ident_mut(self, p);
        }
        fn visit_expr_mut(&mut self, _: &mut Expr) {}
    }
    Strip.visit_pat_mut(pat);
}

/// The name at the root of a place expression, such as `x` in `x.a[i]`.
pub fn root(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Path(p) if p.qself.is_none() => p.path.get_ident(),
        Expr::Field(f) => root(&f.base),
        Expr::Index(i) => root(&i.expr),
        Expr::Paren(p) => root(&p.expr),
        Expr::Unary(u) if matches!(u.op, syn::UnOp::Deref(_)) => root(&u.expr),
        _ => None,
    }
}

/// The names that a function assigns or borrows mutably, somewhere.
pub fn assigned(block: &syn::Block) -> Vec<String> {
    struct Roots(Vec<String>);
    impl Roots {
        fn add(&mut self, place: &Expr) {
            match place {
                Expr::Tuple(t) => t.elems.iter().for_each(|e| self.add(e)),
                Expr::Array(a) => a.elems.iter().for_each(|e| self.add(e)),
                _ => self.0.extend(root(place).map(ToString::to_string)),
            }
        }
    }
    impl<'a> Visit<'a> for Roots {
        fn visit_expr_assign(&mut self, a: &'a syn::ExprAssign) {
            self.add(&a.left);
            visit::visit_expr_assign(self, a);
        }
        fn visit_expr_binary(&mut self, b: &'a syn::ExprBinary) {
            if super::is_assign_op(&b.op) {
                self.add(&b.left);
            }
            visit::visit_expr_binary(self, b);
        }
        fn visit_expr_method_call(&mut self, m: &'a syn::ExprMethodCall) {
            if changes_cells(&m.method.to_string()) {
                self.add(&m.receiver);
            }
            visit::visit_expr_method_call(self, m);
        }
        fn visit_expr_reference(&mut self, r: &'a syn::ExprReference) {
            if r.mutability.is_some() {
                self.add(&r.expr);
            }
            visit::visit_expr_reference(self, r);
        }
    }
    let mut roots = Roots(Vec::new());
    roots.visit_block(block);
    roots.0
}

/// Whether some tokens mention a name.
pub fn mentions(tokens: proc_macro2::TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|t| match t {
        proc_macro2::TokenTree::Ident(i) => i == name,
        proc_macro2::TokenTree::Group(g) => mentions(g.stream(), name),
        _ => false,
    })
}

/// The names that a function passes on or calls methods of, somewhere: those of variables and
/// references may change there.
pub fn borrowed(block: &syn::Block) -> Vec<String> {
    struct Roots(Vec<String>);
    impl<'a> Visit<'a> for Roots {
        fn visit_expr_method_call(&mut self, m: &'a syn::ExprMethodCall) {
            self.0.extend(root(&m.receiver).map(ToString::to_string));
            self.0.extend(m.args.iter().filter_map(root).map(ToString::to_string));
            visit::visit_expr_method_call(self, m);
        }
        fn visit_expr_call(&mut self, c: &'a syn::ExprCall) {
            self.0.extend(c.args.iter().filter_map(root).map(ToString::to_string));
            visit::visit_expr_call(self, c);
        }
        fn visit_macro(&mut self, mac: &'a syn::Macro) {
            if !is_known_macro(&mac.path) {
                self.0.extend(idents(mac.tokens.clone()));
            }
        }
    }
    let mut roots = Roots(Vec::new());
    roots.visit_block(block);
    roots.0
}

/// Whether a method by its name changes a cell or a lock through a shared reference.
pub fn changes_cells(method: &str) -> bool {
    matches!(
        method,
        "set" | "replace" | "take" | "swap" | "update" | "borrow_mut" | "lock" | "write" | "try_borrow_mut"
    )
}

/// Whether a value may be or hold a mutable reference, as far as its tokens say: `&mut` stands in
/// it, a name that ends in `_mut`, or one that may be such a reference itself.
pub fn borrows(tokens: proc_macro2::TokenStream, names: &[Name]) -> bool {
    let mut after_and = false;
    tokens.into_iter().any(|t| {
        let and = std::mem::replace(
            &mut after_and,
            matches!(&t, proc_macro2::TokenTree::Punct(p) if p.as_char() == '&'),
        );
        match t {
            proc_macro2::TokenTree::Ident(i) => {
                let text = i.to_string();
                (and && text == "mut")
                    || text.ends_with("_mut")
                    || names.iter().rfind(|n| n.ident == text).is_some_and(|n| n.kind == Kind::Suspect)
            }
            proc_macro2::TokenTree::Group(g) => borrows(g.stream(), names),
            _ => false,
        }
    })
}

/// What syntax says of the type of a function's or closure's parameter.
pub fn kind_of_parameter(pat: &Pat) -> Kind {
    match pat {
        Pat::Type(typed) => kind_of_type(&typed.ty, &typed.pat),
        _ => Kind::Suspect,
    }
}

/// What syntax says of a parameter of this type.
pub fn kind_of_type(ty: &syn::Type, pat: &Pat) -> Kind {
    match ty {
        syn::Type::Reference(r) if r.mutability.is_some() && matches!(pat, Pat::Ident(_)) => Kind::Reference,
        ty if borrows(quote::quote!(#ty), &[]) => Kind::Suspect,
        _ => Kind::Plain,
    }
}

/// Whether a macro is one of those that Kiln rewrites, or that read their arguments alone.
pub fn is_known_macro(path: &syn::Path) -> bool {
    const KNOWN: [&str; 27] = [
        "vec",
        "device_assert",
        "device_print",
        "assert",
        "assert_eq",
        "assert_ne",
        "debug_assert",
        "debug_assert_eq",
        "debug_assert_ne",
        "print",
        "println",
        "eprint",
        "eprintln",
        "format",
        "panic",
        "unreachable",
        "write",
        "writeln",
        "matches",
        "concat",
        "stringify",
        "line",
        "file",
        "column",
        "todo",
        "unimplemented",
        "dbg",
    ];
    path.segments.last().is_some_and(|s| KNOWN.iter().any(|name| s.ident == name))
}

/// The names in some tokens.
fn idents(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let of = |t| match t {
        proc_macro2::TokenTree::Ident(i) => vec![i.to_string()],
        proc_macro2::TokenTree::Group(g) => idents(g.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(of).collect()
}

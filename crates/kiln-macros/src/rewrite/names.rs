//! The local names in scope, and what patterns bind.

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Ident, Pat};

/// A local name.
pub struct Name {
    pub ident: String,
    /// Bound with `mut`: it may hold a variable of the trace.
    pub mutable: bool,
    /// Whether the depth of its declaration was recorded.
    pub has_depth: bool,
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

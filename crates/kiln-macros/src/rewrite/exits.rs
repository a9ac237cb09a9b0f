//! Which `break`, `continue` and `return` leave a piece of syntax.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Expr, Stmt};

/// An exit that leaves the syntax it was found in.
pub struct Exit {
    pub kind: ExitKind,
    pub label: Option<String>,
    pub has_value: bool,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    Break,
    Continue,
    Return,
}

impl Exit {
    /// Whether the exit leads to the loop with this label, whose body it was found in.
    pub fn targets(&self, label: Option<&str>) -> bool {
        match (&self.label, self.kind) {
            (_, ExitKind::Return) => false,
            (None, _) => true,
            (Some(l), _) => Some(l.as_str()) == label,
        }
    }
}

#[derive(Default)]
struct Finder {
    loops: usize,
    labels: Vec<String>,
    found: Vec<Exit>,
}

impl Finder {
    fn labeled(&mut self, label: &Option<syn::Label>, visit: impl FnOnce(&mut Self)) {
        let depth = self.labels.len();
        self.labels.extend(label.iter().map(|l| l.name.ident.to_string()));
        visit(self);
        self.labels.truncate(depth);
    }

    fn looping(&mut self, label: &Option<syn::Label>, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        self.labeled(label, visit);
        self.loops -= 1;
    }

    fn jump(&mut self, kind: ExitKind, label: &Option<syn::Lifetime>, has_value: bool, span: Span) {
        let label = label.as_ref().map(|l| l.ident.to_string());
        let inside = match &label {
            Some(label) => self.labels.contains(label),
            None => self.loops > 0,
        };
        if !inside {
            self.found.push(Exit { kind, label, has_value, span });
        }
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_expr(&mut self, e: &'a Expr) {
        match e {
            Expr::Loop(l) => self.looping(&l.label, |f| f.visit_block(&l.body)),
            Expr::ForLoop(l) => {
                self.visit_expr(&l.expr);
                self.looping(&l.label, |f| f.visit_block(&l.body));
            }
            Expr::While(l) => {
                self.visit_expr(&l.cond);
                self.looping(&l.label, |f| f.visit_block(&l.body));
            }
            Expr::Block(b) => self.labeled(&b.label, |f| f.visit_block(&b.block)),
            Expr::Break(b) => {
                self.jump(ExitKind::Break, &b.label, b.expr.is_some(), b.break_token.span);
                visit::visit_expr_break(self, b);
            }
            Expr::Continue(c) => {
                self.jump(ExitKind::Continue, &c.label, false, c.continue_token.span);
            }
            Expr::Return(r) => {
                let has_value = r.expr.is_some();
                self.found.push(Exit {
                    kind: ExitKind::Return,
                    label: None,
                    has_value,
                    span: r.return_token.span,
                });
                visit::visit_expr_return(self, r);
            }
            Expr::Closure(_) | Expr::Async(_) => {}
            _ => visit::visit_expr(self, e),
        }
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}

/// The exits that leave an expression.
pub fn of_expr(e: &Expr) -> Vec<Exit> {
    let mut finder = Finder::default();
    finder.visit_expr(e);
    finder.found
}

/// The exits that leave a statement.
pub fn of_stmt(s: &Stmt) -> Vec<Exit> {
    let mut finder = Finder::default();
    finder.visit_stmt(s);
    finder.found
}

/// The exits that leave a block.
pub fn of_block(b: &syn::Block) -> Vec<Exit> {
    let mut finder = Finder::default();
    finder.visit_block(b);
    finder.found
}

/// Whether an expression surely does not give a value, as far as syntax says.
pub fn diverges(e: &Expr) -> bool {
    match e {
        Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) => true,
        Expr::Paren(p) => diverges(&p.expr),
        Expr::Unsafe(u) => block_diverges(&u.block),
        Expr::Block(b) => b.label.is_none() && block_diverges(&b.block),
        Expr::If(i) => {
            let otherwise = i.else_branch.as_ref().is_some_and(|(_, e)| diverges(e));
            block_diverges(&i.then_branch) && otherwise
        }
        Expr::Loop(l) => {
            let label = l.label.as_ref().map(|l| l.name.ident.to_string());
            !of_block(&l.body).iter().any(|x| x.kind == ExitKind::Break && x.targets(label.as_deref()))
        }
        Expr::Macro(m) => macro_diverges(&m.mac),
        _ => false,
    }
}

/// Whether control surely does not reach the end of a block, as far as syntax says.
pub fn block_diverges(block: &syn::Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(e, _)) => diverges(e),
        Some(Stmt::Macro(m)) => macro_diverges(&m.mac),
        _ => false,
    }
}

fn macro_diverges(mac: &syn::Macro) -> bool {
    ["panic", "unreachable", "todo", "unimplemented"].iter().any(|name| mac.path.is_ident(name))
}

/// The first exit in an expression that may not contain one.
pub fn misplaced(e: &Expr) -> Option<Span> {
    of_expr(e).first().map(|x| x.span)
}

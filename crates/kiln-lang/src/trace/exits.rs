//! `break`, `continue` and `return`.
//!
//! The IR has no jumps. An exit under a device condition sets flags instead: that of the scope it
//! leaves (`left`, or `skipped` for `continue`) and `left` of every scope in between. The macro
//! puts what follows in each enclosing block under an *exit predicate*, which is true while the
//! innermost scope's flags are false. A loop
//! on the device runs while its `left` is false. Flags are variables that exist only once an exit
//! needed them, and which begin as false like every variable.
//!
//! Where no device control flow lies between an exit and its target, the exit is *real*: the host
//! itself jumps.

use super::item::{Id, Item, Raw, Region, Var};
use super::recorder::{Recorder, RegionKind};
use super::scope::{Scope, ScopeKind};
use super::site::Site;
use kiln_ir::{BinaryOp, Literal, OpKind, Scalar, Shape, Type, UnaryOp};

/// How control leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExitKind {
    /// `break`, or `return` from a function's scope.
    Break,
    /// `continue`.
    Continue,
}

impl Recorder {
    /// Enters a scope, and names it.
    pub fn enter(&mut self, kind: ScopeKind) -> u32 {
        let uid = self.uid();
        let base = self.regions.len();
        self.scopes.push(Scope {
            uid,
            kind,
            home: base - 1,
            base,
            left: None,
            skipped: None,
            own: false,
            iteration: None,
        });
        uid
    }

    /// Makes the scope this one is, from here on, and the innermost region its body.
    pub fn decide(&mut self, uid: u32, kind: ScopeKind) {
        let base = self.regions.len();
        if let Some(scope) = self.scope(uid) {
            scope.kind = kind;
            scope.base = base;
        }
    }

    fn scope(&mut self, uid: u32) -> Option<&mut Scope> {
        self.scopes.iter_mut().rfind(|s| s.uid == uid)
    }

    /// What a scope is, if it has not been left.
    pub fn kind_of(&self, uid: u32) -> Option<ScopeKind> {
        self.scopes.iter().find(|s| s.uid == uid).map(|s| s.kind)
    }

    /// Whether the scope has not been left.
    pub fn in_scope(&self, uid: u32) -> bool {
        self.scopes.iter().any(|s| s.uid == uid)
    }

    /// The flag that says whether a scope was left under a device condition.
    pub fn left_flag(&self, uid: u32) -> Option<Var> {
        self.scopes.iter().find(|s| s.uid == uid)?.left
    }

    /// Leaves a scope and everything inside; whether control can come out of it at its end is
    /// `alive`.
    pub fn leave(&mut self, uid: u32, alive: bool) {
        let Some(at) = self.scopes.iter().position(|s| s.uid == uid) else { return };
        let own = self.scopes[at].own;
        self.scopes.truncate(at);
        self.set_dead(!alive && !own);
    }

    /// Leaves a labeled block or a function body at its end.
    pub fn leave_block(&mut self, uid: u32) {
        let alive = !self.is_dead();
        self.leave(uid, alive);
    }

    /// The position of the scope `levels` outside the innermost one.
    fn target(&self, levels: usize) -> Option<usize> {
        (self.scopes.len().checked_sub(1)?).checked_sub(levels)
    }

    /// Whether no device control flow lies between here and the region at a position of the stack.
    pub fn is_direct(&self, region: usize) -> bool {
        self.regions[region + 1..].iter().all(|r| r.kind == RegionKind::Undecided)
    }

    /// Whether an exit from here can be the host's own jump.
    fn is_real_exit(&self, levels: usize, kind: ExitKind) -> bool {
        let Some(scope) = self.target(levels).map(|t| &self.scopes[t]) else { return false };
        self.is_direct(scope.base - 1) && (scope.kind != ScopeKind::DeviceLoop || kind == ExitKind::Continue)
    }

    /// Records an exit; whether it is real.
    pub fn exit(&mut self, levels: usize, kind: ExitKind, site: Site) -> bool {
        let Some(target) = self.target(levels) else { return false };
        let real = self.is_real_exit(levels, kind);
        match (real, kind) {
            (true, ExitKind::Break) => {
                let home = self.scopes[target].home;
                while self.regions.len() > self.scopes[target].base {
                    self.splice();
                }
                self.close_iteration(target, site);
                while self.regions.len() > home + 1 {
                    self.splice();
                }
                self.scopes.truncate(target);
            }
            (true, ExitKind::Continue) => {
                while self.regions.len() > self.scopes[target].base {
                    self.splice();
                }
                self.scopes.truncate(target + 1);
            }
            (false, _) => self.set_exit_flags(target, kind, site),
        }
        real
    }

    fn set_exit_flags(&mut self, target: usize, kind: ExitKind, site: Site) {
        let value = self.constant(Literal::bool(true), Shape::scalar(), site);
        let bool_type = Type::scalar(Scalar::Bool);
        for at in target..self.scopes.len() {
            let skips = at == target && kind == ExitKind::Continue;
            let scope = &self.scopes[at];
            let known = if skips { scope.skipped } else { scope.left };
            let home = if skips { scope.base - 1 } else { scope.home };
            let var = known.unwrap_or_else(|| self.declare(bool_type.clone(), home));
            self.push(Item::Set { var, value });
            let scope = &mut self.scopes[at];
            if skips {
                scope.skipped = Some(var);
            } else {
                scope.left = Some(var);
                scope.own |= at == target;
            }
        }
        self.set_dead(true);
    }

    /// The exit predicate: whether control is still in the innermost scope; `None` if it surely is.
    pub fn exit_predicate(&mut self, site: Site) -> Option<Id> {
        let scope = self.scopes.last()?;
        let flags: Vec<Var> = scope.left.into_iter().chain(scope.skipped).collect();
        let mut gone = None;
        for var in flags {
            let flag = self.read(Raw::Var(var), site)?;
            gone = match gone {
                None => Some(flag),
                Some(other) => self.binary(BinaryOp::Or, other, flag, site),
            };
        }
        Some(self.not(gone?, site))
    }

    /// Appends a logical not.
    pub fn not(&mut self, value: Id, site: Site) -> Id {
        self.op(OpKind::Unary(UnaryOp::Not), &[value], Type::scalar(Scalar::Bool), site)
    }

    /// Ends an iteration of an unrolled loop; whether there can be another.
    pub fn end_iteration(&mut self, uid: u32, site: Site) -> bool {
        let Some(at) = self.scopes.iter().position(|s| s.uid == uid) else { return false };
        self.scopes.truncate(at + 1);
        let over = self.is_dead() && self.scopes[at].skipped.is_none();
        self.close_iteration(at, site);
        self.set_dead(over);
        self.scopes[at].skipped = None;
        !over && !self.overflowed(site)
    }

    /// Begins another iteration of an unrolled loop: if an earlier one may have left the loop, in a
    /// region of its own.
    pub fn begin_iteration(&mut self, uid: u32, site: Site) {
        let Some(at) = self.scopes.iter().position(|s| s.uid == uid) else { return };
        let Some(left) = self.scopes[at].left else { return };
        let Some(flag) = self.read(Raw::Var(left), site) else { return };
        let cond = self.not(flag, site);
        self.open(RegionKind::Device);
        self.scopes[at].iteration = Some(cond);
        self.scopes[at].base = self.regions.len();
    }

    /// Leaves an unrolled loop after its last iteration.
    pub fn leave_host_loop(&mut self, uid: u32, site: Site) {
        let Some(at) = self.scopes.iter().position(|s| s.uid == uid) else { return };
        self.close_iteration(at, site);
        let alive = !self.is_dead();
        self.leave(uid, alive);
    }

    fn close_iteration(&mut self, scope: usize, site: Site) {
        let Some(cond) = self.scopes[scope].iteration.take() else { return };
        let then = self.close();
        self.scopes[scope].base = self.regions.len();
        self.push(Item::If { cond, then, otherwise: Region::default(), site, live: Vec::new() });
    }
}

//! Common subexpressions: of two pure operations that compute the same, the later goes.
//!
//! An operation is available in the block it stands in and in the regions below. Loads are pure
//! enough if nothing may write what they read: views of global memory that are not mutable, and
//! that the kernel does not load from in order, as it would only if others wrote there meanwhile.
//! If they check bounds, the earlier one has done so.

use super::rewrite::Renames;
use super::simplify::commutes;
use kiln_ir::{Block, Def, ExplicitOp, Kernel, Op, OpKind, Value};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let mut written = FxHashSet::default();
    kernel.walk(|_, data| {
        if data.kind.is_ordered_load() {
            written.insert(data.view());
        }
    });
    let mut cse = Cse { known: Known::default(), written, renames: Renames::default(), changed: false };
    let body = kernel.body;
    cse.block(kernel, body);
    cse.changed
}

/// The operations that are available, by the [`digest`] of what those that compute the same have in
/// common. Most digests stand for one operation.
type Known = FxHashMap<u64, SmallVec<[Op; 2]>>;

struct Cse {
    known: Known,
    /// Views that others write while the kernel runs.
    written: FxHashSet<Value>,
    renames: Renames,
    changed: bool,
}

impl Cse {
    fn block(&mut self, kernel: &mut Kernel, block: Block) {
        let ops = std::mem::take(&mut kernel.block_mut(block).ops);
        let mut kept = Vec::with_capacity(ops.len());
        let mut added = Vec::new();
        for op in ops {
            self.changed |= self.renames.apply(kernel, op);
            if self.mergeable(kernel, op) {
                let digest = digest(kernel, op);
                if let Some(earlier) = self.find(kernel, digest, op) {
                    self.replace(kernel, op, earlier);
                    continue;
                }
                self.known.entry(digest).or_default().push(op);
                added.push(digest);
            }
            // Tiles do not enter a task.
            let tasks = matches!(kernel.op(op).kind, OpKind::Explicit(ExplicitOp::Tasks(_)));
            let known = if tasks { std::mem::take(&mut self.known) } else { Known::default() };
            for region in kernel.op(op).regions.clone() {
                self.block(kernel, region);
            }
            if tasks {
                self.known = known;
            }
            kept.push(op);
        }
        kernel.block_mut(block).ops = kept;
        // What this block computed is not known outside.
        for digest in added {
            self.known.entry(digest).and_modify(|ops| {
                ops.pop();
            });
        }
    }

    fn find(&self, kernel: &Kernel, digest: u64, op: Op) -> Option<Op> {
        let known = self.known.get(&digest)?;
        let (data, operands) = (kernel.op(op), operands(kernel, op));
        let same = |&other: &Op| {
            let other = kernel.op(other);
            let types = other.results.iter().zip(&data.results);
            other.kind == data.kind
                && other.results.len() == data.results.len()
                && types.into_iter().all(|(&a, &b)| kernel.ty(a) == kernel.ty(b))
        };
        known.iter().copied().find(|other| same(other) && self::operands(kernel, *other) == operands)
    }

    fn mergeable(&self, kernel: &Kernel, op: Op) -> bool {
        let data = kernel.op(op);
        let loads = matches!(data.kind, OpKind::Load(_) | OpKind::Gather { .. });
        let constant = |view| !self.written.contains(&view) && is_constant_memory(kernel, view);
        kernel.is_pure(op) || (loads && constant(data.view()))
    }

    fn replace(&mut self, kernel: &Kernel, op: Op, earlier: Op) {
        self.changed = true;
        for (&from, &to) in kernel.op(op).results.iter().zip(&kernel.op(earlier).results) {
            self.renames.add(from, to);
        }
    }
}

fn is_constant_memory(kernel: &Kernel, view: Value) -> bool {
    match kernel.def(view) {
        Def::Arg(block, at) => block == kernel.body && !kernel.params[at as usize].mutable,
        Def::Result(..) => false,
    }
}

/// A number that operations which compute the same share; others seldom do.
fn digest(kernel: &Kernel, op: Op) -> u64 {
    let mut hasher = FxHasher::default();
    kernel.op(op).kind.mnemonic().hash(&mut hasher);
    operands(kernel, op).hash(&mut hasher);
    hasher.finish()
}

/// Operands that may change places stand in the order of their numbers.
fn operands(kernel: &Kernel, op: Op) -> SmallVec<[Value; 4]> {
    let data = kernel.op(op);
    let mut operands = SmallVec::from_slice(&data.operands);
    if matches!(data.kind, OpKind::Binary(kind) if commutes(kind)) {
        operands.sort_unstable();
    }
    operands
}

//! Common subexpressions: of two pure operations that compute the same, the later goes.
//!
//! An operation is available in the block it stands in and in the regions below. Loads are pure
//! enough if nothing may write what they read: views of global memory that are not mutable, and
//! that the kernel does not load from in order, as it would only if others wrote there meanwhile.
//! If they check bounds, the earlier one has done so.

use super::rewrite::Renames;
use super::simplify::commutes;
use kiln_ir::{Block, Def, ExplicitOp, Kernel, Op, OpKind, Value};
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let mut written = FxHashSet::default();
    kernel.walk(|_, data| {
        if data.kind.is_ordered_load() {
            written.insert(data.view());
        }
    });
    let mut cse = Cse { known: FxHashMap::default(), written, renames: Renames::default(), changed: false };
    let body = kernel.body;
    cse.block(kernel, body);
    cse.changed
}

/// What operations that compute the same have in common, but for the details of their kind.
type Key = (&'static str, Vec<Value>);

struct Cse {
    known: FxHashMap<Key, Vec<Op>>,
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
                let key = key(kernel, op);
                if let Some(earlier) = self.find(kernel, &key, op) {
                    self.replace(kernel, op, earlier);
                    continue;
                }
                self.known.entry(key.clone()).or_default().push(op);
                added.push(key);
            }
            // Tiles do not enter a task.
            let tasks = matches!(kernel.op(op).kind, OpKind::Explicit(ExplicitOp::Tasks(_)));
            let known = if tasks { std::mem::take(&mut self.known) } else { FxHashMap::default() };
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
        for key in added {
            self.known.entry(key).and_modify(|ops| {
                ops.pop();
            });
        }
    }

    fn find(&self, kernel: &Kernel, key: &Key, op: Op) -> Option<Op> {
        let data = kernel.op(op);
        let same = |&other: &Op| {
            let other = kernel.op(other);
            let types = other.results.iter().zip(&data.results);
            other.kind == data.kind
                && other.results.len() == data.results.len()
                && types.into_iter().all(|(&a, &b)| kernel.ty(a) == kernel.ty(b))
        };
        self.known.get(key)?.iter().copied().find(same)
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

/// Operands that may change places stand in the order of their numbers.
fn key(kernel: &Kernel, op: Op) -> Key {
    let data = kernel.op(op);
    let mut operands = data.operands.to_vec();
    if matches!(data.kind, OpKind::Binary(kind) if commutes(kind)) {
        operands.sort_unstable();
    }
    (data.kind.mnemonic(), operands)
}

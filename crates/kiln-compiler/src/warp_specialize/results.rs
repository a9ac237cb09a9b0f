//! Results that leave through shared memory: in strips of 128 bytes of every row, which copies
//! store while the task goes on.

use super::copies::{Copied, coordinates};
use super::eligibility::EligibleKernel;
use super::{Specializer, effect};
use crate::lower::facts::IntFacts;
use kiln_ir::{BinaryOp, Builder, Def, ExplicitOp, Kernel, OpKind, Shape, Value};
use rustc_hash::FxHashSet;

/// Bytes of a row of a strip.
const STRIP: u32 = 128;

/// A store of a tile that has the layout of products.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// The box that is stored.
    pub copied: Copied,
    /// The tile as a matrix, if it is one before it gets axes of 1.
    matrix: Value,
    /// Columns of a strip.
    pub strip: u32,
    /// Strips that are on their way at once.
    pub buffers: u32,
}

impl Leaving {
    fn strips(&self) -> u32 {
        self.copied.columns / self.strip
    }

    /// Bytes of the strips on their way.
    pub fn bytes(&self) -> u32 {
        self.buffers * self.copied.rows * STRIP
    }

    /// Takes more strips from so many bytes; gives what is left.
    pub fn take_more(&mut self, left: u32) -> u32 {
        let more = (left / (self.copied.rows * STRIP)).min(self.strips() - self.buffers);
        self.buffers += more;
        left - more * self.copied.rows * STRIP
    }
}

/// The stores of the kernel's body that may leave through shared memory.
pub(super) fn find(kernel: &Kernel, eligible: &EligibleKernel) -> Vec<Leaving> {
    let mut facts = IntFacts::new(kernel);
    let ops = kernel.block(kernel.body).ops.iter();
    let stores = ops.filter(|&&op| matches!(kernel.op(op).kind, OpKind::Store { .. }));
    stores
        .filter_map(|&op| {
            let data = kernel.op(op);
            let (view, tile) = (data.view(), data.stored_value());
            let shape = kernel.shape(tile);
            let matrix = unsqueezed(kernel, tile);
            let offsets = data.coordinates();
            let copied = Copied::of(kernel, &mut facts, (op, view), offsets, &shape).ok()?;
            let bytes = copied.elem.bytes();
            // Boxes that begin before a view are none that copies store.
            let begins_inside = offsets.iter().all(|&offset| facts.of(offset).non_negative());
            if !begins_inside
                || copied.transposed
                || !matches!(bytes, 2 | 4)
                || !is_of_products(kernel, eligible, matrix)
            {
                return None;
            }
            let strip = STRIP / bytes;
            Some(Leaving { copied, matrix, strip, buffers: 1 })
        })
        .collect()
}

/// The matrix that a tile was before it got axes of 1.
fn unsqueezed(kernel: &Kernel, tile: Value) -> Value {
    let reshaped =
        kernel.defining_op(tile).filter(|data| data.kind == OpKind::Reshape).map(|data| data.input());
    reshaped.filter(|&matrix| is_matrix_of(kernel, matrix, tile)).unwrap_or(tile)
}

fn is_matrix_of(kernel: &Kernel, matrix: Value, tile: Value) -> bool {
    let (matrix, tile) = (kernel.shape(matrix), kernel.shape(tile));
    matrix.rank() == 2 && tile.extents().ends_with(matrix.extents())
}

/// Whether a tile is made element by element of what loops of products give, so that threads hold
/// it as they hold sums.
fn is_of_products(kernel: &Kernel, eligible: &EligibleKernel, tile: Value) -> bool {
    let shape = kernel.shape(tile);
    let (mut todo, mut seen) = (vec![tile], FxHashSet::default());
    while let Some(value) = todo.pop() {
        if kernel.shape(value) != shape || !seen.insert(value) {
            continue;
        }
        let Def::Result(op, _) = kernel.def(value) else { continue };
        let data = kernel.op(op);
        if data.kind == OpKind::For && eligible.loops.iter().any(|l| l.op == op) {
            return true;
        }
        // Bools and reinterpreted bits are no results of products.
        let bits = matches!(data.kind, OpKind::Compare(_) | OpKind::Bitcast);
        if data.kind == OpKind::Reshape || data.kind.is_elementwise() && !bits {
            todo.extend_from_slice(&data.operands);
        }
    }
    false
}

impl Specializer<'_> {
    /// Stores a tile strip by strip by way of shared tiles.
    pub(super) fn leave(&mut self, block: kiln_ir::Block, leaving: &Leaving, out: Value) {
        let loc = self.kernel.op(leaving.copied.op).loc;
        let renamed = |v: &Value| self.renames.get(v).copied().unwrap_or(*v);
        let (tile, offsets): (_, Vec<Value>) =
            (renamed(&leaving.matrix), leaving.copied.offsets.iter().map(renamed).collect());
        let mut b = Builder { kernel: &mut self.kernel, block, loc };
        let matrix = Shape::new(&[leaving.copied.rows, leaving.copied.columns]);
        let tile = b.reshape(tile, matrix);
        let strips: Vec<u32> = (0..leaving.strips()).collect();
        for (turn, together) in strips.chunks(leaving.buffers as usize).enumerate() {
            if turn > 0 {
                effect(&mut b, ExplicitOp::TmaStoreWait { pending: 0 }, &[]);
            }
            let stages: Vec<Value> = (0..together.len()).map(|i| b.index(i as i64)).collect();
            for (&strip, &stage) in together.iter().zip(&stages) {
                let column = strip * leaving.strip;
                effect(&mut b, ExplicitOp::SharedStore { column }, &[tile, out, stage]);
            }
            effect(&mut b, ExplicitOp::ProxyFence, &[]);
            effect(&mut b, ExplicitOp::TaskBarrier, &[]);
            for (&strip, &stage) in together.iter().zip(&stages) {
                let mut operands = vec![out, stage, leaving.copied.view];
                let column = b.index((strip * leaving.strip).into());
                let mut at = offsets.clone();
                if let Some(last) = at.last_mut() {
                    *last = b.binary(BinaryOp::Add, *last, column);
                }
                operands.extend(coordinates(&mut b, &leaving.copied, &at));
                effect(&mut b, ExplicitOp::TmaStore, &operands);
            }
        }
    }
}

//! The resident kernel for devices that run it in dispatches.
//!
//! During a dispatch neither the host nor another worker that this one reaches touches the memory,
//! and a worker is one thread. So what orders accesses among others is not needed, and such devices
//! do not have it either:
//!
//! | operation | becomes |
//! |---|---|
//! | load or store of a quad | four of a word |
//! | load or store in order | a plain one |
//! | fence, sleep | nothing |
//! | the value of the block's first thread | the thread's own |
//! | the clock | the time at which the dispatch began, a parameter |

use kiln_ir::{BinaryOp, Block, Bounds, ClockUnit, Kernel, Literal, Loc, Op, OpKind, Scalar, Type, Value};
use std::collections::HashMap;

/// The parameter that is the time at which a dispatch began, in nanoseconds.
pub(super) const NOW: &str = "now";

/// Rewrites a kernel of one thread that has the parameter [`NOW`].
pub(super) fn rewrite(kernel: &mut Kernel) {
    let now = kernel.params.iter().position(|param| param.name == NOW);
    let now = now.map(|at| kernel.block(kernel.body).args[at]);
    let body = kernel.body;
    Rewriting { kernel, now, renames: HashMap::new(), ops: Vec::new(), loc: Loc::default() }.block(body);
}

struct Rewriting<'k> {
    kernel: &'k mut Kernel,
    now: Option<Value>,
    renames: HashMap<Value, Value>,
    /// The operations of the block so far.
    ops: Vec<Op>,
    loc: Loc,
}

impl Rewriting<'_> {
    fn block(&mut self, block: Block) {
        let old = std::mem::take(&mut self.kernel.block_mut(block).ops);
        let outer = std::mem::take(&mut self.ops);
        for op in old {
            for operand in &mut self.kernel.op_mut(op).operands {
                *operand = self.renames.get(operand).copied().unwrap_or(*operand);
            }
            for region in self.kernel.op(op).regions.clone() {
                self.block(region);
            }
            self.loc = self.kernel.op(op).loc;
            if !self.replace(op) {
                self.ops.push(op);
            }
        }
        self.kernel.block_mut(block).ops = std::mem::replace(&mut self.ops, outer);
    }

    /// Puts something else in an operation's place; whether it did.
    fn replace(&mut self, op: Op) -> bool {
        let data = self.kernel.op(op).clone();
        let replacement = match (&data.kind, self.now) {
            (OpKind::Fence(_) | OpKind::Sleep, _) => Vec::new(),
            (OpKind::BlockUniform, _) => vec![data.input()],
            (OpKind::Clock(ClockUnit::Nanos), Some(now)) => vec![now],
            (OpKind::OrderedLoad { bounds, .. }, _) => {
                vec![self.load(data.view(), data.coordinates(), *bounds)]
            }
            (OpKind::OrderedStore { bounds, .. }, _) => {
                self.store(data.view(), data.coordinates(), data.stored_value(), *bounds);
                Vec::new()
            }
            (OpKind::LoadQuad(bounds), _) => {
                let words = (0..data.results.len()).map(|word| {
                    let at = self.behind(data.index(), word);
                    self.load(data.view(), &[at], *bounds)
                });
                words.collect()
            }
            (OpKind::StoreQuad(bounds), _) => {
                for (word, &value) in data.stored_values().iter().enumerate() {
                    let at = self.behind(data.index(), word);
                    self.store(data.view(), &[at], value, *bounds);
                }
                Vec::new()
            }
            _ => return false,
        };
        self.renames.extend(data.results.iter().copied().zip(replacement));
        true
    }

    fn push(&mut self, kind: OpKind, operands: &[Value], results: &[Type]) -> Op {
        let op = self.kernel.add_op(kind, operands, results, &[], self.loc);
        self.ops.push(op);
        op
    }

    fn constant(&mut self, literal: Literal) -> Value {
        let op = self.push(OpKind::Const(literal), &[], &[Type::scalar(literal.elem())]);
        self.kernel.result(op)
    }

    /// An index so many behind another.
    fn behind(&mut self, index: Value, words: usize) -> Value {
        if words == 0 {
            return index;
        }
        let words = self.constant(Literal::index(words as i64));
        let op = self.push(OpKind::Binary(BinaryOp::Add), &[index, words], &[Type::scalar(Scalar::I64)]);
        self.kernel.result(op)
    }

    fn load(&mut self, view: Value, at: &[Value], bounds: Bounds) -> Value {
        let elem = self.kernel.ty(view).elem();
        let padding = self.constant(Literal::zero(elem));
        let operands = [&[view], at, &[padding]].concat();
        let op = self.push(OpKind::Gather { bounds, masked: false }, &operands, &[Type::scalar(elem)]);
        self.kernel.result(op)
    }

    fn store(&mut self, view: Value, at: &[Value], value: Value, bounds: Bounds) {
        let operands = [&[view], at, &[value]].concat();
        self.push(OpKind::Scatter { bounds, masked: false, asynchronous: false }, &operands, &[]);
    }
}

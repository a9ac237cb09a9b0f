//! Which values share a register: the accumulators of products in flight, from one product to the next.
//!
//! A product works on its registers while the program goes on, so nothing may copy them. A value that flows into a product, a wait or a loop
//! and is used for nothing else shares its register with what it becomes.

use kiln_ir::{Block, ExplicitOp, Kernel, OpData, OpKind, Value};
use std::collections::HashMap;

/// For each value that shares its register with others, one of them that stands for all.
pub(super) fn classes(kernel: &Kernel) -> HashMap<Value, Value> {
    let values = kernel.counts().0;
    let mut sharing = Sharing {
        kernel,
        parent: (0..values).map(Value::from_index).collect(),
        products: vec![false; values],
        uses: vec![0; values],
        home: vec![kernel.body; values],
    };
    sharing.locate(kernel.body);
    sharing.block(kernel.body);
    let mut in_flight = vec![false; values];
    for i in 0..values {
        if sharing.products[i] {
            let class = sharing.find(Value::from_index(i));
            in_flight[class.index()] = true;
        }
    }
    let all = (0..values).map(Value::from_index);
    all.map(|v| (v, sharing.find(v))).filter(|(_, class)| in_flight[class.index()]).collect()
}

struct Sharing<'k> {
    kernel: &'k Kernel,
    parent: Vec<Value>,
    /// By value: whether a product makes it.
    products: Vec<bool>,
    /// By value: how many operands it is.
    uses: Vec<u32>,
    /// By value: the block it is defined in.
    home: Vec<Block>,
}

impl Sharing<'_> {
    fn locate(&mut self, block: Block) {
        let data = self.kernel.block(block);
        data.args.iter().for_each(|v| self.home[v.index()] = block);
        for &op in &data.ops {
            let op = self.kernel.op(op);
            op.operands.iter().for_each(|v| self.uses[v.index()] += 1);
            op.results.iter().for_each(|v| self.home[v.index()] = block);
            op.regions.iter().for_each(|&r| self.locate(r));
        }
    }

    fn block(&mut self, block: Block) {
        for &op in &self.kernel.block(block).ops {
            let data = self.kernel.op(op);
            match &data.kind {
                OpKind::Explicit(ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. }) => {
                    data.results.iter().for_each(|v| self.products[v.index()] = true);
                    self.become_(block, data, data.operands.len() - data.results.len());
                }
                OpKind::Explicit(ExplicitOp::WgmmaWait { .. }) => self.become_(block, data, 0),
                OpKind::For => {
                    self.become_(block, data, 3);
                    self.carried(data, data.regions[0], 1);
                }
                OpKind::While => {
                    self.become_(block, data, 0);
                    data.regions.iter().for_each(|&r| self.carried(data, r, 0));
                }
                OpKind::If => data.regions.iter().for_each(|&r| self.yielded(data, r, 0)),
                _ => {}
            }
            data.regions.iter().for_each(|&r| self.block(r));
        }
    }

    /// Operands from `first` on that are used up here become the results. One from an outer block would be wanted again by the next round.
    fn become_(&mut self, block: Block, data: &OpData, first: usize) {
        for (&from, &to) in data.operands[first..].iter().zip(&data.results) {
            let used_up = self.uses[from.index()] == 1 && self.home[from.index()] == block;
            if used_up && self.kernel.as_const(from).is_none() {
                self.join(from, to);
            }
        }
    }

    /// The results of a loop, what its region begins with and what it hands on.
    fn carried(&mut self, data: &OpData, region: Block, first: usize) {
        for (&arg, &result) in self.kernel.block(region).args[first..].iter().zip(&data.results) {
            self.join(arg, result);
        }
        self.yielded(data, region, first);
    }

    /// The end of a region is behind every other use in it of what it hands on. Who hands on one value twice, or in another's place, keeps copies.
    fn yielded(&mut self, data: &OpData, region: Block, first: usize) {
        let block = self.kernel.block(region);
        let Some(last) = block.ops.last().map(|&op| self.kernel.op(op)) else { return };
        if last.kind != OpKind::Yield {
            return;
        }
        for (i, (&value, &result)) in last.operands.iter().zip(&data.results).enumerate() {
            let once = last.operands.iter().filter(|&&v| v == value).count() == 1;
            let in_place = block.args.iter().position(|&a| a == value).is_none_or(|at| at == first + i);
            if once && in_place && self.home[value.index()] == region {
                self.join(value, result);
            }
        }
    }

    fn find(&mut self, value: Value) -> Value {
        let mut at = value;
        while self.parent[at.index()] != at {
            let above = self.parent[self.parent[at.index()].index()];
            self.parent[at.index()] = above;
            at = above;
        }
        at
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[b.index()] = a;
    }
}

//! Which values share a register: the accumulators of products in flight, from one product to the
//! next.
//!
//! A product works on its registers while the program goes on, so nothing may copy them. A value
//! that flows into a product, a wait or a loop and is used for nothing else shares its register
//! with what it becomes.

use kiln_ir::{Block, ExplicitOp, FragmentOp, Kernel, Op, OpData, OpKind, Value};
use rustc_hash::FxHashMap;

/// For each value that shares its register with others, one of them that stands for all.
pub(super) fn classes(kernel: &Kernel) -> FxHashMap<Value, Value> {
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
            // What regions hand on is judged by what they made of it.
            data.regions.iter().for_each(|&r| self.block(r));
            self.explicit(block, data);
            self.fragment(block, data);
            if data.kind == OpKind::For {
                self.become_(block, data, data.inits());
                self.carried(data, data.regions[0], 1);
            } else if data.kind == OpKind::While {
                self.become_(block, data, data.inits());
                // The first region hands on nothing but whether there is another round.
                self.begins(data, data.regions[0], 0);
                self.carried(data, data.regions[1], 0);
            } else if data.kind == OpKind::If {
                data.regions.iter().for_each(|&r| self.yielded(data, r, None));
            }
        }
    }

    fn explicit(&mut self, block: Block, data: &OpData) {
        let OpKind::Explicit(op) = &data.kind else { return };
        match op {
            ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. } => {
                data.results.iter().for_each(|v| self.products[v.index()] = true);
                self.become_(block, data, data.sums());
            }
            ExplicitOp::WgmmaWait { .. } => self.become_(block, data, data.sums()),
            ExplicitOp::SharedTile { .. }
            | ExplicitOp::Mbarrier { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::MbarrierWait
            | ExplicitOp::TmaLoad { .. }
            | ExplicitOp::TmaStore
            | ExplicitOp::TmaReduce(_)
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::TmaStoreWait { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskBarrier
            | ExplicitOp::Signal
            | ExplicitOp::SignalWait
            | ExplicitOp::SharedStore { .. }
            | ExplicitOp::SharedLoad
            | ExplicitOp::PackPairs { .. }
            | ExplicitOp::Exp2Flushed
            | ExplicitOp::Tasks(_)
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => {}
        }
    }

    fn fragment(&mut self, block: Block, data: &OpData) {
        let OpKind::Fragment(op) = &data.kind else { return };
        match op {
            FragmentOp::WarpgroupMma(product) => {
                data.results.iter().for_each(|v| self.products[v.index()] = true);
                if product.keep {
                    self.become_(block, data, data.sums());
                }
            }
            FragmentOp::WarpgroupWait { .. } => self.become_(block, data, data.sums()),
            FragmentOp::Mma(_)
            | FragmentOp::LdMatrix { .. }
            | FragmentOp::StMatrix { .. }
            | FragmentOp::Pack(_)
            | FragmentOp::AsyncProxyFence
            | FragmentOp::Matrix(_) => {}
        }
    }

    /// Those of the values handed to an operation that are used up here become the results. One
    /// from an outer block would be needed again by the next round.
    fn become_(&mut self, block: Block, data: &OpData, handed: &[Value]) {
        for (&from, &to) in handed.iter().zip(&data.results) {
            let used_up = self.uses[from.index()] == 1 && self.home[from.index()] == block;
            if used_up && self.kernel.as_const(from).is_none() {
                self.join(from, to);
            }
        }
    }

    /// The results of a loop, what its region begins with and what it hands on.
    fn carried(&mut self, data: &OpData, region: Block, first: usize) {
        self.yielded(data, region, Some(first));
        self.begins(data, region, first);
    }

    fn begins(&mut self, data: &OpData, region: Block, first: usize) {
        for (&arg, &result) in self.kernel.block(region).args[first..].iter().zip(&data.results) {
            self.join(arg, result);
        }
    }

    /// The end of a region is behind every other use in it of what it hands on. A region that hands
    /// on one value twice, or in another's place, keeps copies. So does one that makes a round's
    /// value while that of the round before, the argument from `carried` on, is still needed.
    fn yielded(&mut self, data: &OpData, region: Block, carried: Option<usize>) {
        let block = self.kernel.block(region);
        let Some(last) = block.ops.last().map(|&op| self.kernel.op(op)) else { return };
        if last.kind != OpKind::Yield {
            return;
        }
        for (i, (&value, &result)) in last.operands.iter().zip(&data.results).enumerate() {
            let once = last.operands.iter().filter(|&&v| v == value).count() == 1;
            let own = carried.map(|first| block.args[first + i]);
            let class = self.find(value);
            let in_place = block.args.iter().all(|&a| Some(a) == own || self.find(a) != class);
            let free = own.is_none_or(|own| self.find(own) == class || self.is_over(own, class, region));
            if once && in_place && free && self.home[value.index()] == region {
                self.join(value, result);
            }
        }
    }

    /// Whether the last use of an argument of the region comes before the first value of a class is
    /// made.
    fn is_over(&mut self, argument: Value, class: Value, region: Block) -> bool {
        let ops = &self.kernel.block(region).ops;
        let made = ops.iter().position(|&op| self.makes(op, class)).unwrap_or(ops.len());
        !ops[made..].iter().any(|&op| self.wants(op, argument))
    }

    /// Whether an operation, or one in its regions, makes a value of the class.
    fn makes(&mut self, op: Op, class: Value) -> bool {
        let data = self.kernel.op(op);
        data.results.iter().any(|&v| self.find(v) == class)
            || data.regions.iter().any(|&r| {
                let block = self.kernel.block(r);
                block.args.iter().any(|&v| self.find(v) == class)
                    || block.ops.iter().any(|&op| self.makes(op, class))
            })
    }

    /// Whether an operation, or one in its regions, uses the value.
    fn wants(&self, op: Op, value: Value) -> bool {
        let data = self.kernel.op(op);
        data.operands.contains(&value)
            || data.regions.iter().any(|&r| self.kernel.block(r).ops.iter().any(|&op| self.wants(op, value)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop with two products: `%prev` and `%sum` are carried, `%next` comes of a product, and
    /// what is handed on is up to the test.
    fn looped(body: &str) -> Kernel {
        let text = format!(
            "kernel @looped(%c: mut view<f32, 2, global>) tile {{
  %a = shared_tile stages 1 rows 64 columns 64 : view<bf16, 3, shared>
  %b = shared_tile stages 1 rows 8 columns 64 : view<bf16, 3, shared>
  %0 = const 0 : i64
  %1 = const 1 : i64
  %4 = const 4 : i64
  %no = const false : bool
  %yes = const true : bool
  %zeros = const 0.0 : f32[64, 8]
  %x, %y = for %i = %0 to %4 step %1 carry (%prev = %zeros, %sum = %zeros) : f32[64, 8], f32[64, 8] {{
{body}
  }}
  store.disjoint %c[%0, %0] = %x
}}
"
        );
        kiln_ir::parse(&text).expect("the text is right")
    }

    /// Whether values of the loop's region, by the number of the operation, share a register with
    /// its arguments: each with each.
    fn shares(kernel: &Kernel) -> [[bool; 2]; 2] {
        let classes = classes(kernel);
        let region =
            kernel.block(kernel.body).ops.iter().find_map(|&op| kernel.op(op).regions.first().copied());
        let block = kernel.block(region.expect("there is a loop"));
        let last = kernel.op(*block.ops.last().expect("it hands values on"));
        let same = |a: Value, b: Value| a == b || classes.get(&a).is_some_and(|c| classes.get(&b) == Some(c));
        [0, 1].map(|i| [1, 2].map(|j| same(last.yielded()[i], block.args[j])))
    }

    #[test]
    fn sums_stay_where_they_are() {
        let kernel = looped(
            "    %more = wgmma %a, %0, %b, %0, %yes, %sum transposed_a 0 transposed_b 0 : f32[64, 8]
    %sum1 = wgmma_wait %more pending 0 : f32[64, 8]
    yield %prev, %sum1",
        );
        assert_eq!(shares(&kernel), [[true, false], [false, true]]);
    }

    #[test]
    fn a_product_does_not_overwrite_the_one_before() {
        let kernel = looped(
            "    %next = wgmma %a, %0, %b, %0, %no, %zeros transposed_a 0 transposed_b 0 : f32[64, 8]
    %done = wgmma_wait %next pending 0 : f32[64, 8]
    %sum1 = add %sum, %prev : f32[64, 8]
    yield %done, %sum1",
        );
        assert!(!shares(&kernel)[0][0]);
        let kernel = looped(
            "    %sum1 = add %sum, %prev : f32[64, 8]
    %next = wgmma %a, %0, %b, %0, %no, %zeros transposed_a 0 transposed_b 0 : f32[64, 8]
    %done = wgmma_wait %next pending 0 : f32[64, 8]
    yield %done, %sum1",
        );
        assert!(shares(&kernel)[0][0], "nobody wants it any more");
    }

    #[test]
    fn sums_that_change_places_do_not_share() {
        let product = |to: &str, from: &str| {
            format!(
                "    {to} = wgmma %a, %0, %b, %0, %yes, {from} transposed_a 0 transposed_b 0 : f32[64, 8]\n    {to}d = wgmma_wait {to} pending 0 : f32[64, 8]\n"
            )
        };
        let kernel =
            looped(&format!("{}{}    yield %ud, %vd", product("%u", "%sum"), product("%v", "%prev")));
        assert_eq!(shares(&kernel), [[false, true], [true, false]]);
    }
}

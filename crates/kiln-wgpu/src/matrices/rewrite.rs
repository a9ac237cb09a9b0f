//! A kernel with products on matrix units.

use super::found::{Fetched, Found, Kept, Product};
use kiln_ir::{
    BinaryOp, Block, FragmentOp, Kernel, Level, Literal, Loc, MATRIX, MatrixOp, Op, OpKind, Operand, Reuse,
    Scalar, Scope, Shape, Space, Type, Value,
};
use std::collections::HashMap;

/// The kernel, whose products are those that were found.
pub(super) fn rewrite(kernel: &Kernel, found: &Found) -> Kernel {
    let mut out = kernel.clone();
    out.level = Level::Tile { warps: Some(found.warps) };
    let mut rewriter = Rewriter {
        kernel: &mut out,
        found,
        done: Vec::new(),
        allocations: Vec::new(),
        renames: HashMap::new(),
        places: HashMap::new(),
        kept: Vec::new(),
        staged: None,
        loc: Loc::default(),
    };
    rewriter.allocate();
    let body = rewriter.kernel.body;
    rewriter.block(body, None);
    let allocations = rewriter.allocations;
    let ops = &mut out.block_mut(body).ops;
    ops.splice(0..0, allocations);
    out
}

/// Where a product's factors and sums lie.
#[derive(Clone, Copy)]
struct Operands {
    factors: [Value; 2],
    sums: Value,
}

/// A loop whose body is being rewritten.
#[derive(Clone, Copy)]
struct Around {
    /// The index of the round, the first one, and the step.
    at: Value,
    low: Value,
    step: Value,
}

struct Rewriter<'a> {
    kernel: &'a mut Kernel,
    found: &'a Found,
    /// The operations of the block so far.
    done: Vec<Op>,
    allocations: Vec<Op>,
    renames: HashMap<Value, Value>,
    places: HashMap<Op, Operands>,
    /// The sums that loops carry, by their numbers.
    kept: Vec<Value>,
    /// What sums come back through.
    staged: Option<Value>,
    loc: Loc,
}

impl Rewriter<'_> {
    fn allocate(&mut self) {
        let found = self.found;
        self.kept = found.kept.iter().map(|kept| self.alloc(Scalar::F32, kept.extents)).collect();
        // In the order of the text, so that a kernel always becomes the same one.
        let all = found.products.iter();
        let mut products: Vec<(&Op, &Product, usize)> =
            all.filter_map(|(op, product)| Some((op, product, product.kept?))).collect();
        products.sort_by_key(|(op, ..)| op.index());
        for (&op, product, kept) in products {
            let rounds = self.rounds(product);
            let factors = [0, 1].map(|i| self.alloc(Scalar::F16, product.factors[i].room(rounds)));
            self.places.insert(op, Operands { factors, sums: self.kept[kept] });
        }
        self.staged = Some(self.alloc(Scalar::F32, [found.warps, found.slots * MATRIX * MATRIX]));
    }

    fn rounds(&self, product: &Product) -> u32 {
        if product.fetched.is_some() { self.found.rounds } else { 1 }
    }

    fn alloc(&mut self, elem: Scalar, extents: [u32; 2]) -> Value {
        let (space, shape) = (Space::Shared, Shape::new(&extents));
        let ty = Type::view(elem, 2, space);
        let op = self.kernel.add_op(OpKind::Alloc { space, elem, shape }, &[], &[ty], &[], self.loc);
        self.allocations.push(op);
        self.kernel.result(op)
    }

    fn block(&mut self, block: Block, around: Option<Around>) {
        let ops = std::mem::take(&mut self.kernel.block_mut(block).ops);
        let outer = std::mem::take(&mut self.done);
        for op in ops {
            self.loc = self.kernel.op(op).loc;
            let operands = self.kernel.op(op).operands.iter().map(|&value| self.renamed(value)).collect();
            self.kernel.op_mut(op).operands = operands;
            if let Some(product) = self.found.products.get(&op) {
                self.product(op, product, around);
            } else if self.kernel.op(op).kind == OpKind::For {
                self.repeat(op);
            } else {
                for region in self.kernel.op(op).regions.clone() {
                    self.block(region, None);
                }
                self.done.push(op);
            }
        }
        self.kernel.block_mut(block).ops = std::mem::replace(&mut self.done, outer);
    }

    fn renamed(&self, mut value: Value) -> Value {
        while let Some(&next) = self.renames.get(&value) {
            value = next;
        }
        value
    }

    /// A loop, with what comes before and after it of the sums that it carries.
    fn repeat(&mut self, op: Op) {
        let found = self.found;
        let (region, [low, _, step]) = (self.kernel.op(op).regions[0], self.kernel.op(op).for_bounds());
        let at = self.kernel.block(region).args[0];
        let of_loop: Vec<(usize, &Kept)> = found.kept_by(op).collect();
        for &(number, kept) in &of_loop {
            self.matrix(MatrixOp::Zero(kept.grid), &[self.kept[number]], &[]);
            for product in &kept.products {
                self.first_round(*product, at, low);
            }
        }
        self.block(region, Some(Around { at, low, step }));
        self.done.push(op);
        for &(number, kept) in &of_loop {
            let (result, init) = {
                let data = self.kernel.op(op);
                (data.results[kept.number], data.inits()[kept.number])
            };
            let sums = self.kept[number];
            let sum = self.loaded(MatrixOp::Load(kept.grid), sums, kept.extents);
            let sum = self.added(sum, init);
            self.renames.insert(result, sum);
            // Nothing is carried any more.
            let arg = self.kernel.block(region).args[1 + kept.number];
            if let Some(&end) = self.kernel.block(region).ops.last()
                && let Some(last) = self.kernel.op_mut(end).named_mut(Operand::Yielded).get_mut(kept.number)
            {
                *last = arg;
            }
        }
    }

    /// Loads and stores the factors of a loop's first round.
    fn first_round(&mut self, op: Op, at: Value, low: Value) {
        let found = self.found;
        let Some(Product { fetched: Some(fetched), .. }) = found.products.get(&op) else { return };
        let place = self.places[&op];
        let tiles = fetched.each_ref().map(|fetched| self.fetch(fetched, at, low));
        // Others may still multiply what lies there from before.
        self.op(OpKind::Fence(Scope::Block), &[], &[]);
        let none = self.index(0);
        for (view, tile) in place.factors.into_iter().zip(tiles) {
            self.store(view, none, tile);
        }
    }

    /// A product's part of a round: its sums stay where they are.
    fn product(&mut self, op: Op, product: &Product, around: Option<Around>) {
        let place = self.places[&op];
        let transposed = product.factors.each_ref().map(|factor| factor.transposed);
        let multiply = MatrixOp::Multiply { grid: product.grid, depth: product.depth, transposed };
        match (&product.fetched, around) {
            (Some(fetched), Some(around)) => self.round(product, fetched, (place, around), multiply),
            _ => {
                let none = self.index(0);
                for (view, factor) in place.factors.into_iter().zip(&product.factors) {
                    let tile = self.renamed(factor.tile);
                    self.store(view, none, tile);
                }
                let [left, right] = place.factors;
                self.matrix(multiply, &[left, right, place.sums, none, none], &[]);
                // The next round stores where this one reads.
                self.op(OpKind::Fence(Scope::Block), &[], &[]);
            }
        }
        let (result, addend) = (self.kernel.result(op), self.kernel.op(op).addend());
        self.renames.insert(result, addend);
    }

    /// A round that loads the factors of the next one before it multiplies and stores them after.
    fn round(
        &mut self,
        product: &Product,
        fetched: &[Fetched; 2],
        (place, around): (Operands, Around),
        multiply: MatrixOp,
    ) {
        let next = self.binary(BinaryOp::Add, around.at, around.step);
        let tiles = fetched.each_ref().map(|fetched| self.fetch(fetched, around.at, next));
        let [left, right] = place.factors;
        if self.found.rounds == 1 {
            let none = self.index(0);
            self.matrix(multiply, &[left, right, place.sums, none, none], &[]);
            self.op(OpKind::Fence(Scope::Block), &[], &[]);
            for (view, tile) in place.factors.into_iter().zip(tiles) {
                self.store(view, none, tile);
            }
            return;
        }
        let half = self.half(around);
        let lines = [0, 1].map(|i| {
            let lines = self.index(product.factors[i].extents[0].into());
            let this = self.binary(BinaryOp::Mul, half, lines);
            (this, self.binary(BinaryOp::Sub, lines, this))
        });
        self.matrix(multiply, &[left, right, place.sums, lines[0].0, lines[1].0], &[]);
        for ((view, (_, line)), tile) in place.factors.into_iter().zip(lines).zip(tiles) {
            self.store(view, line, tile);
        }
    }

    /// An i64: in which half of the room a round's factors lie, 0 or 1.
    fn half(&mut self, around: Around) -> Value {
        let elem = self.kernel.ty(around.at).elem();
        let constant = |r: &mut Self, value: i128| r.constant(Literal::wrapping(elem, value));
        let step = self.kernel.as_const(around.step).map_or(1, Literal::as_i128);
        let done = self.binary(BinaryOp::Sub, around.at, around.low);
        let round = match step.is_positive() && step & (step - 1) == 0 {
            true => {
                let by = constant(self, step.trailing_zeros().into());
                self.binary(BinaryOp::Shr, done, by)
            }
            false => self.binary(BinaryOp::Div, done, around.step),
        };
        let one = constant(self, 1);
        let half = self.binary(BinaryOp::And, round, one);
        match elem {
            Scalar::I64 => half,
            _ => self.one(OpKind::Cast, &[half], Type::scalar(Scalar::I64)),
        }
    }

    /// Loads a factor as the round with another index does.
    fn fetch(&mut self, fetched: &Fetched, at: Value, index: Value) -> Value {
        let mut copies = HashMap::from([(at, index)]);
        for &op in &fetched.ops {
            let data = self.kernel.op(op).clone();
            let operands: Vec<Value> = data
                .operands
                .iter()
                .map(|operand| copies.get(operand).copied().unwrap_or_else(|| self.renamed(*operand)))
                .collect();
            let types: Vec<Type> = data.results.iter().map(|&v| self.kernel.ty(v).clone()).collect();
            let copy = self.kernel.add_op(data.kind, &operands, &types, &[], data.loc);
            self.done.push(copy);
            copies.extend(data.results.iter().copied().zip(self.kernel.op(copy).results.clone()));
        }
        copies.get(&fetched.tile).copied().unwrap_or(fetched.tile)
    }

    fn store(&mut self, view: Value, line: Value, tile: Value) {
        let none = self.index(0);
        let kind = OpKind::Store { reuse: Reuse::Normal, disjoint: false };
        self.op(kind, &[view, line, none, tile], &[]);
    }

    fn loaded(&mut self, op: MatrixOp, sums: Value, extents: [u32; 2]) -> Value {
        let operands: Vec<Value> = [sums].into_iter().chain(self.staged).collect();
        let ty = Type::tile(Scalar::F32, Shape::new(&extents));
        self.one(OpKind::Fragment(FragmentOp::Matrix(op)), &operands, ty)
    }

    /// A sum, which an addend of zeros leaves as it is.
    fn added(&mut self, sum: Value, addend: Value) -> Value {
        match self.kernel.as_const(addend).is_some_and(|literal| literal.as_f64() == 0.0) {
            true => sum,
            false => self.binary(BinaryOp::Add, sum, addend),
        }
    }

    fn matrix(&mut self, op: MatrixOp, operands: &[Value], results: &[Type]) {
        self.op(OpKind::Fragment(FragmentOp::Matrix(op)), operands, results);
    }

    fn op(&mut self, kind: OpKind, operands: &[Value], results: &[Type]) -> Op {
        let op = self.kernel.add_op(kind, operands, results, &[], self.loc);
        self.done.push(op);
        op
    }

    fn one(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.op(kind, operands, &[ty]);
        self.kernel.result(op)
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.kernel.ty(a).clone();
        self.one(OpKind::Binary(op), &[a, b], ty)
    }

    fn constant(&mut self, literal: Literal) -> Value {
        self.one(OpKind::Const(literal), &[], Type::scalar(literal.elem()))
    }

    fn index(&mut self, value: i64) -> Value {
        self.constant(Literal::index(value))
    }
}

//! Which products go to matrix units, and what is known of the loops around them.

use kiln_compiler::Target;
use kiln_ir::{
    BinaryOp, Block, Def, Kernel, Level, MATRIX, MatrixGrid, Op, OpKind, Precision, Scalar, Value,
};
use std::collections::HashMap;

/// The most fragments of sums that a warp has: 128 registers of a thread for each 32 bits.
const MOST_FRAGMENTS: u32 = 16;

/// Elements by which lines of factors are longer: 16 bytes.
pub(super) const PADDING: u32 = 8;

/// Bytes of a fragment of sums.
const FRAGMENT_BYTES: u32 = MATRIX * MATRIX * 4;

/// A factor of a product.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    /// The tile that lies in shared memory: the factor, or what it is the transpose of.
    pub tile: Value,
    pub transposed: bool,
    /// Lines of the tile, and elements of one.
    pub extents: [u32; 2],
}

impl Factor {
    /// The extents of its allocation, with room for so many rounds.
    pub fn room(&self, rounds: u32) -> [u32; 2] {
        [rounds * self.extents[0], self.extents[1] + PADDING]
    }

    fn bytes(&self, rounds: u32) -> u32 {
        let [lines, length] = self.room(rounds);
        lines * length * Scalar::F16.bytes()
    }
}

/// A load in a loop of a tile that goes to one product there.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    /// What the place of the load is computed from in the body, the load, and what is done to the
    /// tile before the product, in order.
    pub ops: Vec<Op>,
    /// What they give.
    pub tile: Value,
}

/// A product.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub extents: [u32; 2],
    pub depth: u32,
    pub grid: MatrixGrid,
    pub factors: [Factor; 2],
    /// The sums that a loop carries, as a number of [`Found::kept`]; none until loops are seen.
    pub kept: Option<usize>,
    /// How its factors are loaded, if those of the next round can be.
    pub fetched: Option<[Fetched; 2]>,
}

/// Sums that a loop carries from product to product.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub of: Op,
    /// Which of the values that the loop carries they are.
    pub number: usize,
    pub extents: [u32; 2],
    pub grid: MatrixGrid,
    /// The products, in order.
    pub products: Vec<Op>,
}

/// The products of a kernel that go to matrix units.
#[derive(Debug)]
pub(super) struct Found {
    pub products: HashMap<Op, Product>,
    pub kept: Vec<Kept>,
    pub warps: u32,
    /// Rounds whose factors have room at a time.
    pub rounds: u32,
    /// Fragments of a warp that come back at a time.
    pub slots: u32,
}

impl Found {
    /// The products of a kernel over tiles whose extents are powers of two; `None` if there are
    /// none or no room for them.
    pub fn of(kernel: &Kernel, target: &Target) -> Option<Found> {
        let dots = dots(kernel);
        let largest = dots.iter().map(|&(_, [m, n, _])| m * n).max()?;
        let Level::Tile { warps } = kernel.level else { return None };
        let warps = warps.unwrap_or_else(|| match largest {
            4096.. => (largest / 4096).clamp(4, 8),
            _ => (largest / 512).max(1),
        });
        let warps = warps.next_power_of_two();
        if warps * target.warp > target.max_threads {
            return None;
        }
        let uses = Uses::of(kernel);
        let mut products: HashMap<Op, Product> = HashMap::new();
        for (op, [m, n, k]) in dots {
            let grid = grid([m, n], warps);
            let [high, wide] = grid.fragments([m, n]);
            if high * wide <= MOST_FRAGMENTS {
                let data = kernel.op(op);
                let factors = [data.left(), data.right()].map(|value| uses.factor(kernel, value));
                let product = Product { extents: [m, n], depth: k, grid, factors, kept: None, fetched: None };
                products.insert(op, product);
            }
        }
        let kept = uses.kept(kernel, &mut products);
        // A sum that comes back in every round costs more than it gains, and on an NVIDIA driver
        // one was no number (`faults::round_of_products::f16`).
        products.retain(|_, product| product.kept.is_some());
        if products.is_empty() {
            return None;
        }
        let mut found = Found { products, kept, warps, rounds: 2, slots: 2 };
        let choices = [(2, 2), (2, 1), (1, 2), (1, 1)];
        let fits = choices.into_iter().find(|&(rounds, slots)| {
            (found.rounds, found.slots) = (rounds, slots);
            found.bytes() <= target.shared_memory
        });
        fits.map(|_| found)
    }

    /// Bytes of shared memory of all factors, and of what sums come back through.
    fn bytes(&self) -> u32 {
        let of = |product: &Product| {
            let rounds = if product.fetched.is_some() { self.rounds } else { 1 };
            product.factors.iter().map(|factor| factor.bytes(rounds)).sum::<u32>()
        };
        self.products.values().map(of).sum::<u32>() + self.warps * self.slots * FRAGMENT_BYTES
    }

    /// The sums that a loop carries, with their numbers.
    pub fn kept_by(&self, op: Op) -> impl Iterator<Item = (usize, &Kept)> {
        self.kept.iter().enumerate().filter(move |(_, kept)| kept.of == op)
    }
}

/// The products of f16 of whole fragments, with their rows, columns and depth.
fn dots(kernel: &Kernel) -> Vec<(Op, [u32; 3])> {
    let mut dots = Vec::new();
    kernel.walk(|op, data| {
        let half = |value: Value| kernel.ty(value).elem() == Scalar::F16;
        if data.kind == OpKind::Dot(Precision::Full) && half(data.left()) && half(data.right()) {
            let (left, right) = (kernel.shape(data.left()), kernel.shape(data.right()));
            let extents = [left[0], right[1], left[1]];
            if extents.iter().all(|extent| extent.is_power_of_two() && *extent >= MATRIX) {
                dots.push((op, extents));
            }
        }
    });
    dots
}

/// The grid of warps whose parts are closest to squares, for which they read least.
fn grid([m, n]: [u32; 2], warps: u32) -> MatrixGrid {
    let mut grid = MatrixGrid { rows: 1, columns: 1 };
    while grid.rows * grid.columns < warps {
        let (high, wide) = (m / grid.rows, n / grid.columns);
        if high >= 2 * MATRIX && (high >= wide || wide < 2 * MATRIX) {
            grid.rows *= 2;
        } else if wide >= 2 * MATRIX {
            grid.columns *= 2;
        } else {
            break;
        }
    }
    grid
}

/// Who uses each value, and where operations stand.
struct Uses {
    of_value: HashMap<Value, Vec<Op>>,
    home: HashMap<Op, Block>,
}

impl Uses {
    fn of(kernel: &Kernel) -> Uses {
        let mut uses = Uses { of_value: HashMap::new(), home: HashMap::new() };
        let mut blocks = vec![kernel.body];
        while let Some(block) = blocks.pop() {
            for &op in &kernel.block(block).ops {
                let data = kernel.op(op);
                uses.home.insert(op, block);
                data.operands.iter().for_each(|&v| uses.of_value.entry(v).or_default().push(op));
                blocks.extend_from_slice(&data.regions);
            }
        }
        uses
    }

    /// The operation that uses a value, if it is used once.
    fn only(&self, value: Value) -> Option<Op> {
        match self.of_value.get(&value).map(Vec::as_slice) {
            Some(&[op]) => Some(op),
            _ => None,
        }
    }

    fn factor(&self, kernel: &Kernel, value: Value) -> Factor {
        let made = kernel.defining_op(value).filter(|_| self.only(value).is_some());
        let transpose = made.filter(|data| matches!(&data.kind, OpKind::Transpose(perm) if perm[0] == 1));
        let tile = transpose.map_or(value, |data| data.input());
        let shape = kernel.shape(tile);
        Factor { tile, transposed: transpose.is_some(), extents: [shape[0], shape[1]] }
    }

    /// The sums that loops carry, of which products note which they add to.
    fn kept(&self, kernel: &Kernel, products: &mut HashMap<Op, Product>) -> Vec<Kept> {
        let mut all = Vec::new();
        kernel.walk(|op, data| {
            if data.kind == OpKind::For {
                all.extend((0..data.results.len()).filter_map(|i| self.chain(kernel, op, i, products)));
            }
        });
        for (number, kept) in all.iter().enumerate() {
            for op in &kept.products {
                let fetched = products.get(op).and_then(|product| self.fetched(kernel, kept.of, product));
                if let Some(product) = products.get_mut(op) {
                    (product.kept, product.fetched) = (Some(number), fetched);
                }
            }
        }
        all
    }

    /// What a loop carries, if products alone add to it: each to what the one before gave.
    fn chain(&self, kernel: &Kernel, of: Op, number: usize, products: &HashMap<Op, Product>) -> Option<Kept> {
        let body = kernel.block(kernel.op(of).regions[0]);
        let last = *body.ops.last()?;
        let mut value = body.args[1 + number];
        let mut chain = Vec::new();
        loop {
            let user = self.only(value)?;
            if user == last {
                let handed_on = kernel.op(last).yielded().get(number) == Some(&value);
                let first = products.get(chain.first()?)?;
                let (extents, grid) = (first.extents, first.grid);
                return handed_on.then_some(Kept { of, number, extents, grid, products: chain });
            }
            let here = body.ops.contains(&user) && products.contains_key(&user);
            if !here || kernel.op(user).addend() != value {
                return None;
            }
            chain.push(user);
            value = kernel.result(user);
        }
    }

    /// How both factors of a product are loaded in a loop, if they are loaded for it alone.
    fn fetched(&self, kernel: &Kernel, of: Op, product: &Product) -> Option<[Fetched; 2]> {
        let data = kernel.op(of);
        let step = kernel.as_const(data.for_bounds()[2])?.as_i128();
        let [left, right] = [0, 1].map(|i| self.load(kernel, data.regions[0], product.factors[i].tile));
        (step > 0).then_some([left?, right?])
    }

    fn load(&self, kernel: &Kernel, body: Block, tile: Value) -> Option<Fetched> {
        let (mut at, mut after) = (tile, Vec::new());
        let load = loop {
            self.only(at)?;
            let Def::Result(op, _) = kernel.def(at) else { return None };
            if self.home.get(&op) != Some(&body) {
                return None;
            }
            let data = kernel.op(op);
            if let OpKind::Load(_) = data.kind {
                break op;
            }
            matches!(data.kind, OpKind::Reshape | OpKind::Cast).then(|| after.push(op))?;
            at = data.input();
        };
        let data = kernel.op(load);
        let Def::Arg(_, param) = kernel.def(data.view()) else { return None };
        if kernel.params.get(param as usize)?.mutable {
            return None;
        }
        let mut ops = Vec::new();
        for &operand in &data.operands {
            self.place(kernel, operand, body, &mut ops)?;
        }
        ops.push(load);
        ops.extend(after.into_iter().rev());
        Some(Fetched { ops, tile })
    }

    /// Collects the operations of a body that a value is computed from, if it depends on the round
    /// and on what is outside alone.
    fn place(&self, kernel: &Kernel, value: Value, body: Block, needs: &mut Vec<Op>) -> Option<()> {
        match kernel.def(value) {
            Def::Arg(block, i) if block == body => (i == 0).then_some(()),
            Def::Result(op, _) if self.home.get(&op) == Some(&body) => {
                let data = kernel.op(op);
                let scalar = data.results.iter().all(|&v| kernel.ty(v).is_scalar());
                let divides = matches!(data.kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem));
                (scalar && !divides && kernel.is_pure(op) && data.regions.is_empty()).then_some(())?;
                if !needs.contains(&op) {
                    data.operands.iter().try_for_each(|&v| self.place(kernel, v, body, needs))?;
                    needs.push(op);
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}

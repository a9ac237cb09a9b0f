//! Random kernels over tiles of integers, so that results are exact whatever the order of
//! operations.

use crate::harness::*;
use kiln_ir::*;

/// Writes a random kernel.
struct Writer<'a> {
    b: Builder<'a>,
    words: Words,
    /// i32 tiles and scalars at hand.
    values: Vec<Value>,
    x: Value,
    y: Value,
    depth: u32,
    /// Elements stored so far, by the number of the store.
    stored: i64,
    /// Extents need not be powers of two.
    odd: bool,
}

/// The side of the output, a vector of slots of this many elements.
const SLOT: i64 = 1024;
const SLOTS: i64 = 24;

impl Writer<'_> {
    fn below(&mut self, n: usize) -> usize {
        (self.words.next() % n as u64) as usize
    }

    fn any(&mut self) -> Value {
        let at = self.below(self.values.len());
        // Prefer what was made last, so that chains grow.
        let at = at.max(self.below(self.values.len()));
        self.values[at]
    }

    fn shape(&mut self) -> Shape {
        let rank = 1 + self.below(3);
        let bits = 2 + self.below(8);
        let mut extents = vec![1u32; rank];
        for _ in 0..bits {
            let axis = self.below(rank);
            extents[axis] *= 2;
        }
        if self.odd {
            for extent in &mut extents {
                *extent = [*extent, *extent, 3 * *extent / 2, 5 * *extent / 8 + 1][self.below(4)];
            }
        }
        Shape::new(&extents)
    }

    fn like(&mut self, shape: &Shape) -> Value {
        let fit: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.b.kernel.shape(v) == *shape).collect();
        match fit.len() {
            0 => {
                let literal = Literal::wrapping(Scalar::I32, self.below(9) as i128 - 4);
                self.b.splat(literal, shape.clone())
            }
            n => fit[self.below(n)],
        }
    }

    fn load(&mut self) -> Value {
        let shape = self.shape();
        let flat = Shape::new(&[shape.len() as u32]);
        let step = [1, 2, 4, 16, 64][self.below(5)];
        let at = (self.below(40) as i64 - 8) * step;
        let at = self.b.index(at);
        let padding = Literal::wrapping(Scalar::I32, self.below(3) as i128);
        let padding = self.b.constant(padding);
        let loaded = self.b.load(self.x, &[at], padding, flat, Reuse::Normal);
        self.b.reshape(loaded, shape)
    }

    fn gather(&mut self) -> Value {
        let index = self.any();
        let padding = self.b.constant(Literal::wrapping(Scalar::I32, 5));
        let shape = self.b.kernel.shape(index);
        let limit = self.b.splat(Literal::wrapping(Scalar::I32, 400), shape);
        let mask = self.b.compare(CompareOp::Lt, index, limit);
        self.b.gather(self.x, &[index], Some(mask), padding, Bounds::Mask)
    }

    fn elementwise(&mut self) -> Value {
        let a = self.any();
        let shape = self.b.kernel.shape(a);
        let c = self.like(&shape);
        use BinaryOp::*;
        match self.below(6) {
            0..3 => {
                let op = [Add, Sub, Mul, Min, Max, And, Or, Xor][self.below(8)];
                self.b.binary(op, a, c)
            }
            3 => {
                let op = CompareOp::ALL[self.below(6)];
                let cond = self.b.compare(op, a, c);
                let d = self.like(&shape);
                self.b.select(cond, a, d)
            }
            4 => {
                let d = self.like(&shape);
                self.b.fma(a, c, d)
            }
            _ => {
                let wide = self.b.cast(a, Scalar::I64);
                let sum = self.b.binary(Add, wide, wide);
                self.b.cast(sum, Scalar::I32)
            }
        }
    }

    fn iota(&mut self) -> Value {
        let shape = self.shape();
        let elem = [Scalar::I32, Scalar::I64][self.below(2)];
        let iota = self.b.iota(elem, shape.len() as u32);
        let iota = self.b.reshape(iota, shape);
        self.b.cast(iota, Scalar::I32)
    }

    fn reshaped(&mut self) -> Value {
        let a = self.any();
        let shape = self.b.kernel.shape(a);
        if shape.rank() == 0 {
            let to = self.shape();
            return self.b.broadcast(a, to);
        }
        match self.below(3) {
            0 => {
                let mut perm: Vec<u32> = (0..shape.rank() as u32).collect();
                for i in (1..perm.len()).rev() {
                    perm.swap(i, self.below(i + 1));
                }
                self.b.transpose(a, &perm)
            }
            1 => {
                let mut extents: Vec<u32> = vec![1; 1 + self.below(3)];
                for _ in 0..shape.len().trailing_zeros() {
                    let axis = self.below(extents.len());
                    extents[axis] *= 2;
                }
                let axis = self.below(extents.len());
                extents[axis] *= shape.len() as u32 >> shape.len().trailing_zeros();
                self.b.reshape(a, Shape::new(&extents))
            }
            _ => {
                let stretched = if self.odd { 7 } else { 4 };
                let to: Vec<u32> =
                    shape.extents().iter().map(|&e| if e == 1 { stretched } else { e }).collect();
                if to.iter().product::<u32>() as i64 > SLOT {
                    return a;
                }
                self.b.broadcast(a, Shape::new(&to))
            }
        }
    }

    fn combined(&mut self) -> Value {
        let a = self.any();
        let shape = self.b.kernel.shape(a);
        if shape.rank() == 0 {
            return a;
        }
        let axis = self.below(shape.rank()) as u32;
        use ReduceOp::*;
        if self.below(3) == 0 {
            let op = [Sum, Min, Max, Xor][self.below(4)];
            let (reverse, exclusive) = (self.below(2) == 0, self.below(2) == 0);
            return self.b.scan(op, axis, reverse, exclusive, a);
        }
        let op = [Sum, Prod, Min, Max, And, Or, Xor, ArgMin, ArgMax][self.below(9)];
        let reduced = self.b.reduce(op, axis, a);
        self.b.cast(reduced, Scalar::I32)
    }

    fn dot(&mut self) -> Value {
        let [m, n, k] = [(); 3].map(|()| match self.odd {
            true => 1 + self.below(24) as u32,
            false => 1 << self.below(6),
        });
        let a = self.like(&Shape::new(&[m, k]));
        let c = self.like(&Shape::new(&[k, n]));
        let acc = self.like(&Shape::new(&[m, n]));
        self.b.dot(a, c, acc)
    }

    /// A loop or branch that carries a few of the values.
    fn region(&mut self) {
        let count = 1 + self.below(2);
        let inits: Vec<Value> = (0..count).map(|_| self.any()).collect();
        let types: Vec<Type> = inits.iter().map(|&v| self.b.kernel.ty(v).clone()).collect();
        let kept = self.values.len();
        self.depth += 1;
        let outer = self.b.block;
        let looped = self.below(2) == 0;
        let mut blocks = Vec::new();
        for _ in 0..if looped { 1 } else { 2 } {
            let block = self.b.kernel.add_block();
            self.b.block = block;
            blocks.push(block);
            if looped {
                self.b.kernel.add_arg(block, Type::scalar(Scalar::I64));
                for ty in &types {
                    let arg = self.b.kernel.add_arg(block, ty.clone());
                    self.values.push(arg);
                }
            }
            let steps = 2 + self.below(4);
            self.steps(steps);
            let yields: Vec<Value> = types
                .iter()
                .map(|ty| {
                    let shape = ty.as_tile().unwrap().shape.clone();
                    self.like(&shape)
                })
                .collect();
            self.b.yield_(&yields);
            self.values.truncate(kept);
        }
        self.b.block = outer;
        self.depth -= 1;
        let operands = match looped {
            true => {
                let trips = self.below(3) as i64;
                let bounds = [0, trips, 1].map(|n| self.b.index(n));
                bounds.into_iter().chain(inits).collect()
            }
            false => {
                let (pid, one) = (self.b.program_id(Axis::X), self.b.index(1));
                vec![self.b.compare(CompareOp::Lt, pid, one)]
            }
        };
        let kind = if looped { OpKind::For } else { OpKind::If };
        let loc = self.b.loc;
        let op = self.b.kernel.append(outer, kind, &operands, &types, &blocks, loc);
        self.values.extend(self.b.kernel.op(op).results.to_vec());
    }

    fn store(&mut self, value: Value) {
        if self.stored == SLOTS {
            return;
        }
        let len = self.b.kernel.shape(value).len() as u32;
        let flat = self.b.reshape(value, Shape::new(&[len]));
        let pid = self.b.program_id(Axis::X);
        let size = self.b.index(SLOT * SLOTS);
        let from = self.b.index(self.stored * SLOT);
        let at = self.b.binary(BinaryOp::Mul, pid, size);
        let at = self.b.binary(BinaryOp::Add, at, from);
        self.stored += 1;
        self.b.store(self.y, &[at], flat, Reuse::Normal, true);
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let value = match self.below(12) {
                0 => self.load(),
                1 => self.gather(),
                2 => self.iota(),
                3..5 => self.reshaped(),
                5..7 => self.combined(),
                7 => self.dot(),
                8 if self.depth < 2 => {
                    self.region();
                    continue;
                }
                _ => self.elementwise(),
            };
            if self.b.kernel.shape(value).len() as i64 <= SLOT {
                self.values.push(value);
            }
        }
    }
}

fn random_kernel(seed: u64) -> Kernel {
    let warps = [None, Some(1), Some(2), Some(8)][seed as usize % 4];
    let mut kernel = Kernel::new(format!("random{seed}"), Level::Tile { warps });
    let known = |divisor| IntFact { divisor, equals: None, fits_i32: true };
    let mut view = |name: &str, mutable| {
        let facts = Facts {
            align: 256,
            extents: [known(if seed.is_multiple_of(3) { 1 } else { 4 })].into_iter().collect(),
            strides: [IntFact { equals: Some(1), ..known(1) }].into_iter().collect(),
            ..Facts::default()
        };
        let ty = Type::view(Scalar::I32, 1, Space::Global);
        kernel.add_param(Param { name: name.into(), ty, mutable, facts })
    };
    let (x, y) = (view("x", false), view("y", true));
    let mut writer = Writer {
        b: Builder::new(&mut kernel),
        words: Words(seed * 7919 + 13),
        values: Vec::new(),
        x,
        y,
        depth: 0,
        stored: 0,
        odd: seed % 5 > 2,
    };
    for _ in 0..2 {
        let value = writer.load();
        writer.values.push(value);
    }
    writer.steps(18);
    for value in writer.values.clone().into_iter().rev() {
        writer.store(value);
    }
    kernel
}

#[test]
fn random_kernels_mean_the_same() {
    for seed in 0..150 {
        let kernel = random_kernel(seed);
        verify(&kernel).unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{kernel}"));
        let buffers = vec![
            buffer(Scalar::I32, &[500], Fill::Random),
            buffer(Scalar::I32, &[(2 * SLOT * SLOTS) as u64], Fill::Poison),
        ];
        let case = Case::new("", 2, buffers);
        let lowered = lower(&kernel);
        let expected = case.run(&kernel).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{kernel}"));
        let got = case.run(&lowered).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{kernel}\n{lowered}"));
        if let Some(at) = (0..expected[1].len()).find(|&i| expected[1][i] != got[1][i]) {
            let slot = at as i64 / 4 / SLOT % SLOTS;
            panic!(
                "seed {seed}: store {slot} differs at element {}\n{kernel}\n{lowered}",
                at as i64 / 4 % SLOT
            );
        }
    }
}

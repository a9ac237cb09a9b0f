//! Element-wise work on boxes of views, on the CPU and under the interpreter: odd shapes, boxes
//! that views do not fill, values under other shapes and types, several stores to views that are
//! read, and loops, with tiles that take one chunk or many.
//!
//! The random kernels of `generate` store boxes that lie inside their views, from values of the
//! same shape. Two wrong stores of the CPU needed neither.

use kiln_cpu::CpuBackend;
use kiln_fuzz::compare::seeds;
use kiln_fuzz::generate::Rng;
use kiln_fuzz::run::{difference, run};
use kiln_fuzz::{Argument, Case};
use kiln_interp::Interp;
use kiln_ir::*;

/// A kernel under construction.
struct Boxes {
    rng: Rng,
    kernel: Kernel,
    at: Block,
    elem: Scalar,
    shape: Shape,
    views: Vec<Value>,
    /// Tiles of the element type, of the box's shape or flat.
    pool: Vec<Value>,
}

impl Boxes {
    fn builder(&mut self) -> Builder<'_> {
        let mut builder = Builder::new(&mut self.kernel);
        builder.block = self.at;
        builder
    }

    fn literal(&mut self) -> Literal {
        let value = self.rng.below(19) as i128 - 9;
        match self.elem.is_float() {
            true => Literal::from_f64(self.elem, value as f64 / 2.0),
            false => Literal::wrapping(self.elem, value),
        }
    }

    fn flat(&self) -> Shape {
        Shape::new(&[self.shape.len() as u32])
    }

    fn reuse(&mut self) -> Reuse {
        *self.rng.pick(Reuse::ALL)
    }

    /// A value of the pool, under this shape.
    fn any(&mut self, shape: &Shape) -> Value {
        // The last ones more often, so that chains get long.
        let from = if self.rng.one_in(3) { 0 } else { self.pool.len().saturating_sub(3) };
        let value = self.pool[from + self.rng.below(self.pool.len() - from)];
        match self.kernel.shape(value) == *shape {
            true => value,
            false => self.builder().reshape(value, shape.clone()),
        }
    }

    fn offsets(&mut self) -> Vec<Value> {
        let rank = self.shape.rank();
        (0..rank)
            .map(|_| {
                let at = *self.rng.pick(&[0, 0, 0, 0, 1, 2, -1]);
                self.builder().index(at)
            })
            .collect()
    }

    fn load(&mut self) {
        let (view, offsets) = (*self.rng.pick(&self.views), self.offsets());
        let (literal, reuse, shape) = (self.literal(), self.reuse(), self.shape.clone());
        let padding = self.builder().constant(literal);
        let value = self.builder().load(view, &offsets, padding, shape, reuse);
        self.pool.push(value);
    }

    fn store(&mut self) {
        let shape = self.shape.clone();
        let (value, offsets, reuse) = (self.any(&shape), self.offsets(), self.reuse());
        let view = *self.rng.pick(&self.views[1..]);
        self.builder().store(view, &offsets, value, reuse, false);
    }

    fn compute(&mut self) {
        let shape = if self.rng.one_in(3) { self.flat() } else { self.shape.clone() };
        let (a, b) = (self.any(&shape), self.any(&shape));
        let (int, elem, literal) = (self.elem.is_int(), self.elem, self.literal());
        let op = *self.rng.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max]);
        let unsigned = if elem.bytes() == 4 { Scalar::U32 } else { Scalar::U64 };
        let choice = self.rng.below(10);
        let mut build = self.builder();
        let value = match choice {
            0 => build.unary(UnaryOp::Neg, a),
            1 => {
                let less = build.compare(CompareOp::Lt, a, b);
                build.select(less, b, a)
            }
            2 => {
                let one = build.splat(literal, shape);
                build.binary(op, one, a)
            }
            3 => {
                let wide = build.cast(a, Scalar::I64);
                build.cast(wide, elem)
            }
            // May fault.
            4 if int => build.binary(BinaryOp::Div, a, b),
            5 if int => {
                let bits = build.bitcast(a, unsigned);
                let one = build.splat(Literal::one(unsigned), shape);
                let bits = build.binary(BinaryOp::Xor, bits, one);
                build.bitcast(bits, elem)
            }
            6 if shape.rank() == 1 => {
                let index = build.iota(Scalar::I64, shape[0]);
                let index = build.cast(index, elem);
                build.binary(op, a, index)
            }
            7 if shape.rank() == 2 => {
                let transposed = build.transpose(a, &[1, 0]);
                let twice = build.binary(BinaryOp::Add, transposed, transposed);
                build.transpose(twice, &[1, 0])
            }
            8 => {
                let least = build.reduce(ReduceOp::Min, 0, a);
                let rest = match shape.rank() {
                    1 => least,
                    rank => {
                        let extents: Vec<u32> =
                            (0..rank).map(|i| if i == 0 { 1 } else { shape[i] }).collect();
                        build.reshape(least, Shape::new(&extents))
                    }
                };
                let all = build.broadcast(rest, shape);
                build.binary(op, a, all)
            }
            _ => build.binary(op, a, b),
        };
        self.pool.push(value);
    }

    /// A loop of three rounds that carries two tiles.
    fn repeat(&mut self) {
        let shape = self.shape.clone();
        let inits = [self.any(&shape), self.any(&shape)];
        let mut build = self.builder();
        let bounds = [build.index(0), build.index(3), build.index(1)];
        let tile = Type::tile(self.elem, shape.clone());
        let body = self.kernel.add_block();
        self.kernel.add_arg(body, Type::scalar(Scalar::I64));
        let carried = [(); 2].map(|()| self.kernel.add_arg(body, tile.clone()));
        let (outer, scope) = (std::mem::replace(&mut self.at, body), self.pool.len());
        self.pool.extend(carried);
        self.statements();
        let next = [self.any(&shape), self.any(&shape)];
        self.builder().yield_(&next);
        self.pool.truncate(scope);
        self.at = outer;
        let operands = [&bounds[..], &inits].concat();
        let types = [tile.clone(), tile];
        let op = self.kernel.append(outer, OpKind::For, &operands, &types, &[body], Loc::default());
        self.pool.extend(self.kernel.op(op).results.to_vec());
    }

    fn statements(&mut self) {
        for _ in 0..3 + self.rng.below(9) {
            match self.rng.below(8) {
                0 => self.load(),
                1 | 2 => self.store(),
                _ => self.compute(),
            }
        }
    }
}

fn kernel(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let elem = *rng.pick(&[Scalar::F32, Scalar::I32, Scalar::F16, Scalar::I64, Scalar::F64]);
    let rank = 1 + rng.below(3);
    let extents: Vec<u32> = (0..rank).map(|_| *rng.pick(&[1, 2, 3, 5, 7, 8, 12, 31])).collect();
    let kernel = Kernel::new(format!("boxes_{seed}"), Level::Tile { warps: None });
    let (at, shape) = (kernel.body, Shape::new(&extents));
    let mut boxes = Boxes { rng, kernel, at, elem, shape, views: Vec::new(), pool: Vec::new() };
    let mut arguments = Vec::new();
    for i in 0..3 {
        let rng = &mut boxes.rng;
        let around = |&e: &u32| (e + rng.below(4) as u32).saturating_sub(1 + rng.below(2) as u32);
        let extents: Vec<u32> = extents.iter().map(around).collect();
        let len = extents.iter().product::<u32>() as usize;
        let data = (0..len).map(|_| boxes.literal()).collect();
        arguments.push(Argument::View { extents, data });
        let ty = Type::view(elem, rank as u32, Space::Global);
        let param = Param { name: format!("v{i}"), ty, mutable: i > 0, facts: Facts::default() };
        let view = boxes.kernel.add_param(param);
        boxes.views.push(view);
    }
    boxes.load();
    boxes.load();
    boxes.statements();
    if boxes.rng.one_in(3) {
        boxes.repeat();
    }
    boxes.store();
    Case { kernel: boxes.kernel, grid: [1; 3], arguments }
}

#[test]
fn boxes_of_odd_shapes() {
    let interp = Interp::new(Default::default());
    let largest = CpuBackend::with_threads(1);
    let chunks = [1usize, 4, 7, 64].map(|chunk| CpuBackend::with_threads(1).with_blocking(chunk, 0));
    for seed in seeds(0..1500) {
        let case = kernel(seed);
        if let Err(errors) = verify(&case.kernel) {
            panic!("seed {seed}: {}\n{}", errors[0], case.kernel);
        }
        let expected = run(&case, &interp).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", case.kernel));
        let cpu = chunks.get(seed as usize % 5).unwrap_or(&largest);
        let got = run(&case, cpu).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", case.kernel));
        // The smaller and the larger of 0.0 and -0.0 may be either.
        if let Some(difference) = difference(&expected, &got, f64::MIN_POSITIVE) {
            panic!("seed {seed}: {difference}\n{}\n{:?}", case.kernel, case.arguments);
        }
    }
}

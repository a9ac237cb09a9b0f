//! Random programs over arrays: several results that are computed together are those of each alone.

use kiln_array::{Array, Scalar, concatenate, eval, stack};
use kiln_runtime::Device;

/// Numbers that look random: an xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

/// One operation: its number, its two operands among the arrays before it, and where its numbers
/// begin.
#[derive(Clone, Copy)]
struct Step {
    op: usize,
    operands: [usize; 2],
    seed: u64,
}

const OPERATIONS: usize = 34;

/// What a step makes of the arrays before it. One that does not fit them has an error.
fn apply(step: Step, before: &[Array]) -> Array {
    let [x, y] = step.operands.map(|at| &before[at]);
    let mut random = Random(step.seed);
    let rank = x.rank().max(1);
    let axis = random.below(rank) as isize;
    let extent = x.shape().get(axis as usize).copied().unwrap_or(1).max(1);
    let some = random.below(3);
    let device = x.device().unwrap();
    let indices = || {
        let of: Vec<i64> = (0..1 + some).map(|at| ((at * 7 + some) % extent) as i64).collect();
        Array::new(device, &of, &[of.len()])
    };
    let mut order: Vec<isize> = (0..x.rank() as isize).collect();
    if !order.is_empty() {
        order.rotate_left(some % x.rank());
    }
    match step.op {
        0 => x.sin(),
        1 => (-x.abs()).exp(),
        2 => x * 0.5,
        3 => 0.25 - x,
        4 => x.tanh(),
        5 | 6 => x + y,
        7 => (x * y).tanh(),
        8 => x.maximum(y),
        9 => x.where_(&x.greater(y), y),
        10 => x.sum_axes(&[axis]),
        11 => x.sum_keep(&[axis]),
        12 => x.max_keep(&[axis]),
        13 => x + x.mean_keep(&[axis]),
        14 => x.var_axes(&[axis]),
        15 => x.permute(&order),
        16 => x.flatten(),
        17 if extent % 2 == 0 => {
            let mut shape: Vec<isize> = x.shape().iter().map(|&extent| extent as isize).collect();
            shape[axis as usize] /= 2;
            shape.insert(axis as usize + some % 2, 2);
            x.reshape(&shape)
        }
        17 => x.unsqueeze(axis),
        18 => x.slice_step(axis, some.min(extent - 1)..extent, [1, 2, -1][some]),
        19 => x.flip(&[axis]),
        20 => x.roll(1, axis),
        21 => x.pad(&vec![(some % 2, some / 2); x.rank()]),
        22 => concatenate(&[x, y, x], axis),
        23 => stack(&[x, y], axis),
        24 => x.take(&indices(), axis),
        25 => x.cumsum(axis),
        26 => x.softmax(axis),
        27 => x.logsumexp(axis),
        28 => x.matmul(&x.swap_axes(-1, -2)),
        29 => x.tile(&[2]),
        30 => x.repeat(2, axis),
        31 => x.diagonal(),
        32 => x.windows(axis, 1 + some.min(extent - 1), 1),
        _ => x.scatter_add(&indices(), x.take(&indices(), axis).sin(), axis),
    }
}

/// A random program: its leaves and steps.
struct Program {
    leaves: Vec<(Vec<usize>, u64)>,
    steps: Vec<Step>,
}

impl Program {
    fn random(random: &mut Random, device: &Device) -> Program {
        let leaf = |random: &mut Random| {
            let rank = 1 + random.below(3).max(random.below(3));
            ((0..rank).map(|_| 1 + random.below(4)).collect(), random.0)
        };
        let leaves = (0..1 + random.below(2)).map(|_| leaf(random)).collect();
        let mut program = Program { leaves, steps: Vec::new() };
        let mut arrays = program.arrays(device);
        for _ in 0..30 {
            let last = arrays.len() - 1;
            let mut operand = || if random.below(3) == 0 { last } else { random.below(arrays.len()) };
            let operands = [operand(), operand()];
            let step = Step { op: random.below(OPERATIONS), operands, seed: random.0 };
            let made = apply(step, &arrays);
            let fits = made.error().is_none() && made.len() <= 600 && made.rank() <= 4 && !made.is_empty();
            if fits && program.steps.len() < 10 {
                program.steps.push(step);
                arrays.push(made);
            }
        }
        program
    }

    /// All arrays of the program, made anew: leaves first.
    fn arrays(&self, device: &Device) -> Vec<Array> {
        let leaf = |(shape, seed): &(Vec<usize>, u64)| {
            let mut random = Random(*seed);
            let len = shape.iter().product();
            let elements: Vec<f64> = (0..len).map(|_| random.below(2001) as f64 / 500.0 - 2.0).collect();
            Array::new(device, &elements, shape)
        };
        let mut arrays: Vec<Array> = self.leaves.iter().map(leaf).collect();
        for &step in &self.steps {
            arrays.push(apply(step, &arrays));
        }
        arrays
    }

    fn text(&self) -> String {
        let step = |step: &Step| format!("{} of {:?} with {}", step.op, step.operands, step.seed);
        format!("{:?}: {:?}", self.leaves, self.steps.iter().map(step).collect::<Vec<_>>())
    }
}

fn elements(array: &Array) -> kiln_array::Result<Vec<f64>> {
    array.cast(Scalar::F64).to_vec::<f64>()
}

/// Compares some results of random programs, computed together, with each alone, and with what
/// comes of it when each operation is computed before the next one is recorded.
fn compare(device: &Device, from: u64, programs: u64) {
    for seed in from..from + programs {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let program = Program::random(&mut random, device);
        let together = program.arrays(device);
        let last = together.len() - 1;
        let chosen = [last, random.below(last + 1), random.below(last + 1), last.saturating_sub(1)];
        let results: Vec<&Array> = chosen.iter().map(|&at| &together[at]).collect();
        let told = |what: &str| format!("{what} {chosen:?} of program {seed}, {}", program.text());
        if let Err(error) = eval(&results) {
            panic!("{}: {error}", told("together"));
        }
        let mut single: Vec<Array> = program.arrays(device)[..program.leaves.len()].to_vec();
        for &step in &program.steps {
            single.push(apply(step, &single));
            single[single.len() - 1].eval().unwrap_or_else(|error| panic!("{}: {error}", told("single")));
        }
        for at in chosen {
            let found = elements(&together[at]).unwrap();
            let alone = elements(&program.arrays(device)[at]).unwrap();
            let bits = |of: &[f64]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&alone), "{} {at}", told("alone"));
            let single = elements(&single[at]).unwrap();
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
            assert!(found.iter().zip(&single).all(close), "{} {at}: {found:?}, {single:?}", told("single"));
        }
    }
}

#[test]
fn results_together_are_those_of_each_alone() {
    let count = std::env::var("KILN_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    // Among the first is one that failed once.
    compare(&Device::open_apart("cpu").unwrap(), 3000, count);
}

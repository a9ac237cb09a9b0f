//! Random well-formed kernels, with arguments and a grid to launch them on.
//!
//! A seed and [`Options`] name one kernel. It uses all operations that a front end can make, nests
//! control flow, terminates, accesses only what is inside its views, and has no data race: programs
//! and threads write to places of their own, or by atomics that commute and whose results are not
//! read. So every run of it, on every backend, gives the same memory, as far as the operations
//! themselves are exact ([`Options::exact`]).
//!
//! | file | makes |
//! |---|---|
//! | `mod.rs` | parameters, arguments, the frame of a kernel |
//! | `pool.rs` | values to use as operands, and conversions between their types |
//! | `expression.rs` | operations without effects |
//! | `memory.rs` | loads, stores, atomics, shared and local memory |
//! | `copies.rs` | copies to shared memory that arrive when they are waited for |
//! | `control.rs` | `if`, `for`, `while`, asserts, prints |
//! | `rng.rs` | random numbers |

mod control;
mod copies;
mod expression;
mod memory;
mod pool;
mod rng;

pub use rng::Rng;

use crate::case::{Argument, Case};
use kiln_ir::*;
use memory::{Atomics, Output};
use pool::Entry;

/// What kernels to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kernels over threads instead of tiles.
    pub threads: bool,
    /// How many statements, about.
    pub statements: usize,
    /// How deep control flow nests.
    pub depth: usize,
    /// The element types to use; i64, i32 and bool come in any case.
    pub elems: Vec<Scalar>,
    /// Only operations whose results are the same bits everywhere, but for the payload of NaN: no
    /// transcendental functions, no sums of floats in unspecified order.
    pub exact: bool,
    /// Divisions by zero, checked indices out of bounds and asserts may fail.
    pub faults: bool,
    /// Kernels have fault regions, inside of which the same may fail.
    pub fault_regions: bool,
    /// Kernels may print.
    pub prints: bool,
    /// Extents of tiles are powers of two.
    pub powers_of_two: bool,
    /// Blocks are whole warps, of a power of two of them.
    pub whole_warps: bool,
    /// Programs store and load parts of their boxes in any order: places are written several times.
    pub overlapping: bool,
    /// Element types of memory alone, that views may have besides `elems`.
    pub storage: Vec<Scalar>,
}

impl Options {
    /// Kernels of moderate size over all types, without faults and prints.
    pub fn new(threads: bool) -> Options {
        Options {
            threads,
            statements: 24,
            depth: 3,
            elems: Scalar::ALL.into_iter().filter(|elem| !elem.is_storage()).collect(),
            exact: false,
            faults: false,
            fault_regions: false,
            prints: false,
            powers_of_two: false,
            whole_warps: false,
            overlapping: false,
            storage: Vec::new(),
        }
    }
}

/// The kernel of a seed.
///
/// ```
/// use kiln_fuzz::generate::{Options, generate};
/// let case = generate(1, &Options::new(false));
/// assert!(kiln_ir::verify(&case.kernel).is_ok());
/// assert_eq!(case.kernel.to_string(), generate(1, &Options::new(false)).kernel.to_string());
/// ```
pub fn generate(seed: u64, options: &Options) -> Case {
    let mut rng = Rng::new(seed);
    let level = match options.threads {
        false => Level::Tile { warps: None },
        true => {
            let whole = [[32, 1, 1], [64, 1, 1], [8, 4, 2], [32, 2, 1]];
            let narrow = [[1, 1, 1], [3, 1, 1], [5, 3, 1], [17, 1, 1], [33, 1, 1], [3, 2, 5]];
            let all = [&whole[..], &narrow[..]].concat();
            Level::Thread { block: *rng.pick(if options.whole_warps { &whole } else { &all }) }
        }
    };
    let block = match level {
        Level::Tile { .. } => [1; 3],
        Level::Thread { block } => block,
    };
    let grid = [1 + rng.below(3) as u32, if options.threads { 1 } else { 1 + rng.below(2) as u32 }, 1];
    let kernel = Kernel::new(format!("seed_{seed}"), level);
    let body = kernel.body;
    let mut generator = Generator {
        rng,
        options,
        kernel,
        at: body,
        threads: block,
        grid,
        arguments: Vec::new(),
        pool: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        atomics: Vec::new(),
        thread: None,
        divergent: false,
        in_fault_region: false,
        depth: 0,
    };
    generator.parameters();
    generator.prologue();
    generator.statements(options.statements);
    generator.epilogue();
    Case { kernel: generator.kernel, grid, arguments: generator.arguments }
}

struct Generator<'o> {
    rng: Rng,
    options: &'o Options,
    kernel: Kernel,
    /// The block under construction.
    at: Block,
    /// Threads of a block; ones in kernels over tiles.
    threads: [u32; 3],
    grid: [u32; 3],
    arguments: Vec<Argument>,
    /// Values in scope.
    pool: Vec<Entry>,
    inputs: Vec<Value>,
    outputs: Vec<Output>,
    atomics: Vec<Atomics>,
    /// In kernels over threads: the thread's number in its block, and in the launch.
    thread: Option<(Value, Value)>,
    /// Whether only some threads of a block may get here.
    divergent: bool,
    /// Whether this is inside a fault region.
    in_fault_region: bool,
    depth: usize,
}

impl Generator<'_> {
    fn builder(&mut self) -> Builder<'_> {
        let mut builder = Builder::new(&mut self.kernel);
        builder.block = self.at;
        builder
    }

    fn parameters(&mut self) {
        for i in 0..1 + self.rng.below(3) {
            let elem = self.memory_elem();
            let rank = *self.rng.pick(&[0, 1, 1, 2, 2, 3]);
            let extents: Vec<u32> = (0..rank).map(|_| 1 + self.rng.below(9) as u32).collect();
            let view = self.view(format!("in{i}"), elem, &extents, false);
            self.inputs.push(view);
        }
        for i in 0..1 + self.rng.below(3) {
            let output = self.output(i, self.options.threads && i == 0);
            self.outputs.push(output);
        }
        for i in 0..self.rng.below(3) {
            let elem = *self.rng.pick(&[Scalar::I32, Scalar::U32]);
            let op = *self.rng.pick(&AtomicOp::ALL[..6]);
            let extents = [1 + self.rng.below(5) as u32];
            let view = self.view(format!("atomic{i}"), elem, &extents, true);
            self.atomics.push(Atomics { view, elem, op });
        }
        for i in 0..self.rng.below(4) {
            let elem = self.elem();
            let literal = self.literal(elem);
            let mut facts = Facts::default();
            if elem.is_int() && self.rng.one_in(2) {
                facts.value = self.fact(literal.as_i128() as i64);
            }
            let ty = Type::scalar(elem);
            let value =
                self.kernel.add_param(Param { name: format!("scalar{i}"), ty, mutable: false, facts });
            self.arguments.push(Argument::Scalar(literal));
            self.pool.push(Entry { value, varying: false });
        }
    }

    /// A parameter that is a view of random data, with facts that hold.
    fn view(&mut self, name: String, elem: Scalar, extents: &[u32], mutable: bool) -> Value {
        let len = extents.iter().product::<u32>() as usize;
        let data = (0..len).map(|_| self.literal(elem)).collect();
        let mut facts = Facts::default();
        if self.rng.one_in(2) {
            facts.align = 16;
            facts.span_fits_i32 = true;
            facts.extents = extents.iter().map(|&e| self.fact(i64::from(e))).collect();
            let shape = Shape::new(extents);
            facts.strides = (0..extents.len()).map(|i| self.fact(shape.around(i).2 as i64)).collect();
        }
        let ty = Type::view(elem, extents.len() as u32, Space::Global);
        self.arguments.push(Argument::View { extents: extents.to_vec(), data });
        self.kernel.add_param(Param { name, ty, mutable, facts })
    }

    /// Something true of an integer.
    fn fact(&mut self, value: i64) -> IntFact {
        let divisor = 1 << value.trailing_zeros().min(4);
        let fits = (0..=i64::from(i32::MAX)).contains(&value);
        IntFact {
            divisor: if self.rng.one_in(2) { divisor } else { 1 },
            equals: self.rng.one_in(4).then_some(value),
            fits_i32: fits && self.rng.one_in(2),
        }
    }

    fn elem(&mut self) -> Scalar {
        let elems = &self.options.elems;
        let common = [Scalar::I64, Scalar::I32, Scalar::Bool];
        if elems.is_empty() || self.rng.one_in(4) { *self.rng.pick(&common) } else { *self.rng.pick(elems) }
    }

    /// The element type of a view.
    fn memory_elem(&mut self) -> Scalar {
        let options = self.options;
        match options.storage.is_empty() || self.rng.one_in(3) {
            true => self.elem(),
            false => *self.rng.pick(&options.storage),
        }
    }

    /// Mostly small numbers, which meet each other in comparisons, and sometimes the ends of the
    /// type.
    fn literal(&mut self, elem: Scalar) -> Literal {
        let small = self.rng.below(24) as i128 - 8;
        match self.rng.below(12) {
            0 if elem.is_float() => {
                let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 1e30, -1e-30];
                Literal::from_f64(elem, *self.rng.pick(&special))
            }
            1 if elem.is_int() => {
                let small = [i128::from(i16::MAX), 1 << 15, 0xffff, 127, 128, 255];
                let ends = [i128::from(i64::MAX), 1 << 63, i128::from(i32::MAX), 1 << 31, -1, 0xffff_ffff];
                let ends = if elem.is_small_int() { small } else { ends };
                Literal::wrapping(elem, *self.rng.pick(&ends))
            }
            2..6 if elem.is_float() => Literal::from_f64(elem, small as f64 / 8.0 + 0.1),
            _ => Literal::wrapping(elem, small),
        }
    }

    fn shape(&mut self) -> Shape {
        let extents: &[u32] = if self.options.powers_of_two { &[1, 2, 4, 8] } else { &[1, 2, 3, 4, 5, 7, 8] };
        let rank = *self.rng.pick(&[1, 1, 2, 2, 3]);
        Shape::new(&(0..rank).map(|_| *self.rng.pick(extents)).collect::<Vec<_>>())
    }

    /// Values that most kernels use: program and thread indices.
    fn prologue(&mut self) {
        let threads = self.threads;
        let with_threads = self.options.threads;
        let mut b = self.builder();
        let pid = b.program_id(Axis::X);
        let mut known = vec![Entry { value: pid, varying: false }];
        if with_threads {
            let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| b.thread_id(axis));
            let [bx, by] = [Axis::X, Axis::Y].map(|axis| b.block_dim(axis));
            let plane = b.binary(BinaryOp::Mul, z, by);
            let row = b.binary(BinaryOp::Add, plane, y);
            let start = b.binary(BinaryOp::Mul, row, bx);
            let in_block = b.binary(BinaryOp::Add, start, x);
            let count = b.index(threads.iter().map(|&e| i64::from(e)).product());
            let first = b.binary(BinaryOp::Mul, pid, count);
            let in_launch = b.binary(BinaryOp::Add, first, in_block);
            known.extend([x, in_block, in_launch].map(|value| Entry { value, varying: true }));
            self.thread = Some((in_block, in_launch));
        }
        self.pool.extend(known);
    }

    fn may_fault(&self) -> bool {
        self.options.faults || self.in_fault_region
    }

    fn statements(&mut self, count: usize) {
        for _ in 0..count {
            match self.rng.below(20) {
                0 => self.branch(),
                1 => self.counted_loop(),
                2 => self.while_loop(),
                3 => self.diagnose(),
                4 | 5 => self.write(),
                10..=13 if self.options.overlapping => self.write(),
                14 | 15 if self.options.overlapping => self.read_back(),
                6 => self.atomic(),
                7 if self.thread.is_some() => self.exchange_through_memory(),
                8 | 9 if self.options.fault_regions => self.fault_region(),
                _ => self.expression(),
            }
        }
    }

    /// Stores something everywhere, so that what was computed can be seen.
    fn epilogue(&mut self) {
        for at in 0..self.outputs.len() {
            // What stands there after a fault, or after stores of parts, is to be seen too.
            if !(self.options.faults || self.options.overlapping) || self.rng.one_in(2) {
                self.write_to(at);
            }
        }
    }
}

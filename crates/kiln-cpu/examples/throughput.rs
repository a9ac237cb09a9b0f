//! How fast the CPU backend runs what is bound by memory: GB/s, counting each input read once and
//! each output written once.
//!
//! `cargo run --release -p kiln-cpu --example throughput [FILTER [LOG2_ELEMENTS [THREADS]]]`

use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, Result, StreamId};
use kiln_cpu::CpuBackend;
use kiln_ir::*;
use std::time::Instant;

const STREAM: StreamId = StreamId(0);

fn main() -> Result<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let number = |i| std::env::args().nth(i).and_then(|a: String| a.parse::<usize>().ok());
    let cpu = number(3).map_or_else(CpuBackend::new, CpuBackend::with_threads);
    println!("{} ({} threads, {})", cpu.properties().name, cpu.properties().units, cpu.properties().driver);
    let n = 1usize << number(2).unwrap_or(25);
    for block in [1024u32, 4096, 16384, 65536] {
        let grid = [(n as u32).div_ceil(block), 1, 1];
        for (name, kernel) in [("copy", copy(block)), ("add", add(block)), ("chain", chain(block))] {
            let views = kernel.params.len();
            measure(
                &cpu,
                &format!("{name}/{block}"),
                &filter,
                &kernel,
                grid,
                &vec![vec![n]; views],
                views * n * 4,
            )?;
        }
        measure(
            &cpu,
            &format!("sum/{block}"),
            &filter,
            &sum(block),
            grid,
            &[vec![n], vec![grid[0] as usize]],
            n * 4,
        )?;
    }
    let (rows, columns) = (4096, 4096);
    let shape = vec![rows, columns];
    let grid = [rows as u32, 1, 1];
    measure(&cpu, "softmax", &filter, &softmax(4096), grid, &[shape.clone(), shape], 2 * rows * columns * 4)?;
    for threads in [128, 256, 1024] {
        let grid = [(n as u32).div_ceil(threads), 1, 1];
        let shapes = vec![vec![n]; 3];
        measure(
            &cpu,
            &format!("threads add/{threads}"),
            &filter,
            &add_threads(threads),
            grid,
            &shapes,
            3 * n * 4,
        )?;
    }
    for m in [512u32, 1024] {
        for (tm, tn, tk) in [(64, 64, 64), (64, 128, 256), (128, 128, 128)] {
            let grid = [m.div_ceil(tn), m.div_ceil(tm), 1];
            let shapes = vec![vec![m as usize, m as usize]; 3];
            let name = format!("matmul {m}/{tm}x{tn}x{tk} (GFLOP/s)");
            let flops = 2 * (m as usize).pow(3);
            measure(&cpu, &name, &filter, &matmul(tm, tn, tk), grid, &shapes, flops)?;
        }
    }
    measure(&cpu, "empty launch", &filter, &copy(16), [1, 1, 1], &[vec![16], vec![16]], 1)
}

/// Runs a kernel on arrays of random f32 and prints the median rate.
fn measure(
    cpu: &CpuBackend,
    name: &str,
    filter: &str,
    kernel: &Kernel,
    grid: [u32; 3],
    shapes: &[Vec<usize>],
    amount: usize,
) -> Result<()> {
    if !name.contains(filter) {
        return Ok(());
    }
    let begun = Instant::now();
    let program = cpu.compile(kernel)?.program;
    let compile = begun.elapsed();
    let (mut arguments, mut buffers) = (LaunchArguments::new(), Vec::new());
    for shape in shapes {
        let len: usize = shape.iter().product();
        let at = cpu.allocate(len * 4, STREAM)?;
        let mut state = 1u32;
        let data: Vec<u8> = (0..len)
            .flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
            })
            .collect();
        // SAFETY: the allocation is as long as the data.
        unsafe { cpu.upload(at, &data, STREAM)? };
        let extents: Vec<u64> = shape.iter().map(|&e| e as u64).collect();
        arguments = arguments.view(BufferBinding::write(at), &extents);
        buffers.push((at, len * 4));
    }
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 5 || (begun.elapsed().as_secs_f64() < 0.7 && times.len() < 1000) {
        let start = Instant::now();
        // SAFETY: the views are live allocations of the right sizes.
        unsafe { cpu.launch(&*program, arguments.launch(grid, STREAM))? };
        times.push(start.elapsed().as_secs_f64());
    }
    cpu.synchronize(STREAM)?;
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let (rate, best) = (amount as f64 / median / 1e9, amount as f64 / times[0] / 1e9);
    println!(
        "{name:32} {:9.1} us {rate:7.2} G/s (best {best:.2}), compiled in {:.2} ms",
        median * 1e6,
        compile.as_secs_f64() * 1e3
    );
    for (at, bytes) in buffers {
        // SAFETY: allocated above with this size.
        unsafe { cpu.free(DevicePtr(at.0), bytes, STREAM) };
    }
    Ok(())
}

fn start(name: &str, level: Level, rank: u32, views: usize) -> (Kernel, Vec<Value>) {
    let mut kernel = Kernel::new(name, level);
    let ty = Type::view(Scalar::F32, rank, Space::Global);
    let param = |i| Param { name: format!("p{i}"), ty: ty.clone(), mutable: true, facts: Facts::default() };
    let params = (0..views).map(|i| kernel.add_param(param(i))).collect();
    (kernel, params)
}

const TILE: Level = Level::Tile { warps: None };

/// A kernel over blocks of a vector: the last view is the output of `body` on the others.
fn elementwise(
    name: &str,
    block: u32,
    inputs: usize,
    body: impl Fn(&mut Builder<'_>, &[Value]) -> Value,
) -> Kernel {
    let (mut kernel, p) = start(name, TILE, 1, inputs + 1);
    let mut b = Builder::new(&mut kernel);
    let (pid, size) = (b.program_id(Axis::X), b.index(block.into()));
    let at = b.binary(BinaryOp::Mul, pid, size);
    let zero = b.constant(Literal::f32(0.0));
    let shape = Shape::new(&[block]);
    let loads: Vec<Value> =
        p[..inputs].iter().map(|&v| b.load(v, &[at], zero, shape.clone(), Reuse::Normal)).collect();
    let result = body(&mut b, &loads);
    b.store(p[inputs], &[at], result, Reuse::Normal, true);
    kernel
}

fn copy(block: u32) -> Kernel {
    elementwise("copy", block, 1, |_, x| x[0])
}

fn add(block: u32) -> Kernel {
    elementwise("add", block, 2, |b, x| b.binary(BinaryOp::Add, x[0], x[1]))
}

/// relu(x * y + x) * 0.5 + tanh(y)
fn chain(block: u32) -> Kernel {
    elementwise("chain", block, 2, |b, x| {
        let shape = Shape::new(&[block]);
        let product = b.binary(BinaryOp::Mul, x[0], x[1]);
        let sum = b.binary(BinaryOp::Add, product, x[0]);
        let zero = b.splat(Literal::f32(0.0), shape.clone());
        let relu = b.binary(BinaryOp::Max, sum, zero);
        let half = b.splat(Literal::f32(0.5), shape);
        let scaled = b.binary(BinaryOp::Mul, relu, half);
        let tanh = b.unary(UnaryOp::Math(MathFn::Tanh), x[1]);
        b.binary(BinaryOp::Add, scaled, tanh)
    })
}

/// A partial sum for each block.
fn sum(block: u32) -> Kernel {
    let (mut kernel, p) = start("sum", TILE, 1, 2);
    let mut b = Builder::new(&mut kernel);
    let (pid, size) = (b.program_id(Axis::X), b.index(block.into()));
    let at = b.binary(BinaryOp::Mul, pid, size);
    let zero = b.constant(Literal::f32(0.0));
    let x = b.load(p[0], &[at], zero, Shape::new(&[block]), Reuse::Normal);
    let sum = b.reduce(ReduceOp::Sum, 0, x);
    let sum = b.reshape(sum, Shape::new(&[1]));
    b.store(p[1], &[pid], sum, Reuse::Normal, true);
    kernel
}

/// Softmax of rows.
fn softmax(block: u32) -> Kernel {
    let (mut kernel, p) = start("softmax", TILE, 2, 2);
    let mut b = Builder::new(&mut kernel);
    let (row, first) = (b.program_id(Axis::X), b.index(0));
    let low = b.constant(Literal::f32(f32::NEG_INFINITY));
    let (shape, flat) = (Shape::new(&[1, block]), Shape::new(&[block]));
    let v = b.load(p[0], &[row, first], low, shape.clone(), Reuse::Normal);
    let v = b.reshape(v, flat.clone());
    let max = b.reduce(ReduceOp::Max, 0, v);
    let max = b.broadcast(max, flat.clone());
    let below = b.binary(BinaryOp::Sub, v, max);
    let e = b.unary(UnaryOp::Math(MathFn::Exp), below);
    let sum = b.reduce(ReduceOp::Sum, 0, e);
    let sum = b.broadcast(sum, flat);
    let share = b.binary(BinaryOp::Div, e, sum);
    let share = b.reshape(share, shape);
    b.store(p[1], &[row, first], share, Reuse::Normal, true);
    kernel
}

/// As `add`, written for threads.
fn add_threads(threads: u32) -> Kernel {
    let (mut kernel, p) = start("add_threads", Level::Thread { block: [threads, 1, 1] }, 1, 3);
    let mut b = Builder::new(&mut kernel);
    let (tid, pid, dim) = (b.thread_id(Axis::X), b.program_id(Axis::X), b.block_dim(Axis::X));
    let first = b.binary(BinaryOp::Mul, pid, dim);
    let i = b.binary(BinaryOp::Add, first, tid);
    let n = b.extent(p[2], 0);
    let inside = b.compare(CompareOp::Lt, i, n);
    let (then, otherwise) = (b.kernel.add_block(), b.kernel.add_block());
    let outer = std::mem::replace(&mut b.block, then);
    let zero = b.constant(Literal::f32(0.0));
    let x = b.gather(p[0], &[i], None, zero, Bounds::Check);
    let y = b.gather(p[1], &[i], None, zero, Bounds::Check);
    let sum = b.binary(BinaryOp::Add, x, y);
    b.scatter(p[2], &[i], None, sum, Bounds::Check);
    b.yield_(&[]);
    b.block = otherwise;
    b.yield_(&[]);
    let loc = b.loc;
    b.kernel.append(outer, OpKind::If, &[inside], &[], &[then, otherwise], loc);
    kernel
}

fn matmul(m: u32, n: u32, k: u32) -> Kernel {
    let (mut kernel, p) = start("matmul", TILE, 2, 3);
    let mut b = Builder::new(&mut kernel);
    let (pi, pj) = (b.program_id(Axis::Y), b.program_id(Axis::X));
    let (tm, tn, tk) = (b.index(m.into()), b.index(n.into()), b.index(k.into()));
    let (i, j) = (b.binary(BinaryOp::Mul, pi, tm), b.binary(BinaryOp::Mul, pj, tn));
    let (zero, lo, inner) = (b.constant(Literal::f32(0.0)), b.index(0), b.extent(p[0], 1));
    let init = b.splat(Literal::f32(0.0), Shape::new(&[m, n]));
    let acc = Type::tile(Scalar::F32, Shape::new(&[m, n]));
    let body = b.kernel.add_block();
    let at = b.kernel.add_arg(body, Type::scalar(Scalar::I64));
    let carried = b.kernel.add_arg(body, acc.clone());
    let outer = std::mem::replace(&mut b.block, body);
    let x = b.load(p[0], &[i, at], zero, Shape::new(&[m, k]), Reuse::Normal);
    let y = b.load(p[1], &[at, j], zero, Shape::new(&[k, n]), Reuse::Normal);
    let next = b.dot(x, y, carried);
    b.yield_(&[next]);
    b.block = outer;
    let loc = b.loc;
    let op = b.kernel.append(outer, OpKind::For, &[lo, inner, tk, init], &[acc], &[body], loc);
    let result = b.kernel.result(op);
    b.store(p[2], &[i, j], result, Reuse::Normal, true);
    kernel
}

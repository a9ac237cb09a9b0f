//! What is measured. The counts of bytes and operations are those of `bench/rows.py`.

use super::clock::{self, Cache};
use super::compile_cost::{self, FirstCall, cold};
use super::{attention, decoding, graph_cost, products, sorting};
use half::bf16;
use kiln_bench::{launch_cost, threads};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Execution, Result, Tensor};

pub use kiln_bench::threads::Call;

/// A line of a results table.
pub struct Row {
    pub name: &'static str,
    /// Each input read once, each output written once; 0 for host times.
    pub bytes: u64,
    pub flops: u64,
    /// Whether arithmetic bounds the work: then its rate is in operations, not in bytes, and no
    /// copy is its ceiling.
    pub arithmetic: bool,
    pub cache: Cache,
    pub(super) work: Work,
}

/// How a row is timed.
pub(super) enum Work {
    /// Makes the data and a call.
    Device(fn(&Device, &Sizes) -> Result<Call>),
    /// The same, of one size.
    Threads(threads::Make),
    /// Host time, taken by the row itself.
    Host(fn(&Device, usize) -> Result<Vec<f64>>),
}

/// The sizes on a kind of device.
pub(super) struct Sizes {
    pub(super) elements: usize,
    pub(super) matrix: [usize; 2],
}

fn sizes(device: &Device) -> Sizes {
    match device.capabilities().execution {
        Execution::Simt => Sizes { elements: 1 << 28, matrix: [16384, 4096] },
        _ => Sizes { elements: 1 << 25, matrix: [4096, 4096] },
    }
}

impl Row {
    /// Times of `rounds` calls, in microseconds, in order. Data, compilation and a first call come
    /// before.
    pub fn times(&self, device: &Device, rounds: usize) -> Result<Vec<f64>> {
        match self.work {
            Work::Device(make) => {
                clock::times(device, &mut make(device, &sizes(device))?, self.cache, rounds)
            }
            Work::Threads(make) => clock::times(device, &mut make(device)?, self.cache, rounds),
            Work::Host(times) => times(device, rounds),
        }
    }

    /// The call alone, for a server that keeps it between requests; `None` for host times, which
    /// keep nothing.
    pub fn call(&self, device: &Device) -> Result<Option<Call>> {
        match self.work {
            Work::Device(make) => make(device, &sizes(device)).map(Some),
            Work::Threads(make) => make(device).map(Some),
            Work::Host(_) => Ok(None),
        }
    }
}

/// The copy, whose bandwidth is the ceiling of the other rows.
pub fn copy(device: &Device) -> Row {
    let gpu = device.capabilities().is_simt();
    let n = sizes(device).elements as u64;
    let name = if gpu { "copy_f32_2^28" } else { "copy_f32_2^25" };
    Row {
        name,
        bytes: 8 * n,
        flops: 0,
        arithmetic: false,
        cache: Cache::Written,
        work: Work::Device(make_copy),
    }
}

/// Every row of a device.
pub fn all(device: &Device) -> Vec<Row> {
    let gpu = device.capabilities().is_simt();
    let Sizes { elements, matrix } = sizes(device);
    let (n, m) = (elements as u64, (matrix[0] * matrix[1]) as u64);
    let pick = |on_gpu, on_cpu| if gpu { on_gpu } else { on_cpu };
    let row = |name, bytes, flops, make| Row {
        name,
        bytes,
        flops,
        arithmetic: false,
        cache: Cache::Written,
        work: Work::Device(make),
    };
    let mut rows = vec![
        copy(device),
        row(pick("add_f32_2^28", "add_f32_2^25"), 12 * n, n, make_add),
        row(pick("chain_f32_2^28", "chain_f32_2^25"), 12 * n, 6 * n, make_chain),
        row(pick("sum_f32_2^28", "sum_f32_2^25"), 4 * n, n, make_sum),
        row(pick("softmax_f32_16384x4096", "softmax_f32_4096x4096"), 8 * m, 5 * m, make_softmax),
    ];
    if gpu {
        let bytes = 4 * m + 4 * matrix[1] as u64;
        rows.push(row("layernorm_bf16_16384x4096", bytes, 8 * m, make_layer_norm));
        rows.extend(attention::rows());
        rows.extend(decoding::rows());
        rows.extend(sorting::rows());
        let host = |name, times| Row {
            name,
            bytes: 0,
            flops: 0,
            arithmetic: false,
            cache: Cache::Written,
            work: Work::Host(times),
        };
        rows.push(host("launch_empty", launch_cost::kiln));
        rows.push(host("launch_raw", launch_cost::driver));
        rows.push(host("launch_of_12", launch_cost::kiln_twelve));
        rows.push(host("launch_of_12_raw", launch_cost::driver_twelve));
        rows.push(host("graph_of_8", graph_cost::kiln));
        rows.push(host("graph_of_8_raw", graph_cost::driver));
        rows.push(host("launches_of_8", graph_cost::launches));
        rows.push(host("call_matmul_kept", launch_cost::product_by_choice));
        rows.push(host("call_matmul", launch_cost::product));
        rows.push(host("compile_softmax", |device, n| cold(device, FirstCall::Softmax, n)));
        rows.push(host("compile_matmul", |device, n| cold(device, FirstCall::Matmul, n)));
        rows.push(host("compile_attention_d64", |device, n| cold(device, FirstCall::Attention64, n)));
        rows.push(host("compile_attention_d128", |device, n| cold(device, FirstCall::Attention128, n)));
        rows.push(host("compile_attention_d256", |device, n| cold(device, FirstCall::Attention256, n)));
        rows.push(host("load_softmax", compile_cost::from_disk));
        rows.extend(products::rows());
    } else {
        rows.extend(on_cpu());
        // An interpreter would take minutes for as many threads.
        if !device.capabilities().is_interpreted() {
            rows.extend(threads::rows().into_iter().flat_map(by_threads));
        }
    }
    rows
}

/// A kernel over threads, and plain Rust.
fn by_threads(both: threads::Sides) -> impl Iterator<Item = Row> {
    let (bytes, flops, cache) = (both.bytes, both.flops, Cache::Written);
    let row =
        move |(name, make)| Row { name, bytes, flops, arithmetic: false, cache, work: Work::Threads(make) };
    both.names.into_iter().zip(both.sides).map(row)
}

/// What arithmetic bounds, at the sizes of a CPU.
fn on_cpu() -> [Row; 4] {
    let row = |name, bytes, flops, make| Row {
        name,
        bytes,
        flops,
        arithmetic: true,
        cache: Cache::Written,
        work: Work::Device(make),
    };
    let square = |name, n: u64, make| row(name, 12 * n * n, 2 * n * n * n, make);
    // A query sees half of the keys.
    let (heads, length, width) = ATTENTION;
    let elements = (heads * length * width) as u64;
    [
        square("matmul_f32_512", 512, |device, _| make_matmul(device, 512)),
        square("matmul_f32_1024", 1024, |device, _| make_matmul(device, 1024)),
        square("matmul_f32_2048", 2048, |device, _| make_matmul(device, 2048)),
        row("attention_f32_8x1024x64", 16 * elements, 2 * elements * length as u64, |device, _| {
            make_attention(device)
        }),
    ]
}

/// Heads, length and width of causal attention on a CPU.
const ATTENTION: (usize, usize, usize) = (8, 1024, 64);

/// Normally distributed numbers (Box and Muller), from the system's clock.
pub(super) fn random(count: usize) -> Vec<f32> {
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut data = Vec::with_capacity(count + 1);
    while data.len() < count {
        let (u, v) = (1.0 - random.f32(), random.f32());
        let (sin, cos) = (std::f32::consts::TAU * v).sin_cos();
        let radius = (-2.0 * u.ln()).sqrt();
        data.extend([radius * cos, radius * sin]);
    }
    data.truncate(count);
    data
}

/// A vector of random numbers: a block of them, repeated, which is as good for timing and made in a
/// moment.
pub(super) fn vector(device: &Device, n: usize) -> Result<Tensor<f32, 1>> {
    let block = random(n.min(1 << 22));
    let data: Vec<f32> = block.iter().copied().cycle().take(n).collect();
    device.tensor(&data, [n])
}

pub(super) fn make_copy(device: &Device, sizes: &Sizes) -> Result<Call> {
    let (x, mut y) = (vector(device, sizes.elements)?, device.zeros([sizes.elements])?);
    Ok(Box::new(move || kiln_kernels::copy(&x, &mut y)))
}

pub(super) fn make_add(device: &Device, sizes: &Sizes) -> Result<Call> {
    let (x, y) = (vector(device, sizes.elements)?, vector(device, sizes.elements)?);
    let mut z = device.zeros([sizes.elements])?;
    Ok(Box::new(move || kiln_kernels::add(&x, &y, &mut z)))
}

/// z = relu(x y + x) / 2 + tanh(y), `block` elements a program: a chain that eager
/// frameworks run in five passes over memory.
#[kernel(crate = kiln_runtime, contract)]
fn chain(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let (a, b) = (x.tile(at, block).streaming().load(0.0), y.tile(at, block).streaming().load(0.0));
    let result = (a * b + a).maximum(0.0) * 0.5 + b.tanh();
    z.tile(at, block).streaming().store(result);
}

fn make_chain(device: &Device, sizes: &Sizes) -> Result<Call> {
    let (x, y) = (vector(device, sizes.elements)?, vector(device, sizes.elements)?);
    let mut z = device.zeros([sizes.elements])?;
    // As much as the element-wise kernels of the library take.
    let block = if device.capabilities().is_simt() { 1024 } else { 4096 };
    let device = device.clone();
    Ok(Box::new(move || chain(&x, &y, &mut z, block).launch(&device)))
}

pub(super) fn make_sum(device: &Device, sizes: &Sizes) -> Result<Call> {
    let (x, mut y) = (vector(device, sizes.elements)?, device.zeros([1])?);
    Ok(Box::new(move || kiln_kernels::sum(&x, &mut y)))
}

pub(super) fn make_softmax(device: &Device, sizes: &Sizes) -> Result<Call> {
    let [rows, columns] = sizes.matrix;
    let x = vector(device, rows * columns)?.reshape([rows, columns])?;
    let mut y = device.zeros([rows, columns])?;
    Ok(Box::new(move || kiln_kernels::softmax(&x, &mut y)))
}

pub(super) fn make_layer_norm(device: &Device, sizes: &Sizes) -> Result<Call> {
    let [rows, columns] = sizes.matrix;
    let half = |data: Vec<f32>| data.into_iter().map(bf16::from_f32).collect::<Vec<bf16>>();
    let block = half(random(1 << 22));
    let data: Vec<bf16> = block.iter().copied().cycle().take(rows * columns).collect();
    let x = device.tensor(&data, [rows, columns])?;
    let (w, b) = (
        device.tensor(&block[..columns], [columns])?,
        device.tensor(&block[columns..2 * columns], [columns])?,
    );
    let mut y = device.zeros([rows, columns])?;
    Ok(Box::new(move || kiln_kernels::layer_norm(&x, &w, &b, &mut y, 1e-5)))
}

fn make_matmul(device: &Device, n: usize) -> Result<Call> {
    let (a, b) = (vector(device, n * n)?.reshape([n, n])?, vector(device, n * n)?.reshape([n, n])?);
    let mut c = device.zeros::<f32, 2>([n, n])?;
    Ok(Box::new(move || kiln_kernels::matmul(&a, &b, &mut c)))
}

fn make_attention(device: &Device) -> Result<Call> {
    let (heads, length, width) = ATTENTION;
    let tensor = || vector(device, heads * length * width)?.reshape([heads, length, width]);
    let (q, k, v) = (tensor()?, tensor()?, tensor()?);
    let mut o = device.zeros([heads, length, width])?;
    Ok(Box::new(move || kiln_kernels::attention(&q, &k, &v, &mut o, true)))
}

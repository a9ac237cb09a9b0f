//! Kernels over threads on a CPU, as a CUDA programmer writes them, and the same work in plain Rust
//! on all cores: loops over slices, in threads of the standard library, as a Rust programmer writes
//! them.
//!
//! Both sides are compared before they are timed.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Result, Tensor};
use std::hint::black_box;
use std::num::NonZero;
use std::thread;

/// A call to be timed, with its data.
pub type Call = Box<dyn FnMut() -> Result<()>>;

/// Rows and columns of an image.
const SIDE: usize = 4096;
/// Elements of a vector, and threads of its blocks.
const LENGTH: usize = 1 << 24;
const BLOCK: usize = 256;
/// Threads of a block of an image: columns, rows.
const TILE: [usize; 2] = [32, 8];
/// Elements that a thread adds, and counts.
const EACH: usize = 16;
const EACH_COUNTED: usize = 64;
/// Values of a byte.
const BINS: usize = 256;

/// Makes a call, with its data on a device, or on none for plain Rust.
pub type Make = fn(&Device) -> Result<Call>;

/// A row, and its peer.
pub struct Sides {
    /// The names of both.
    pub names: [&'static str; 2],
    /// Each input read once, each output written once.
    pub bytes: u64,
    /// Operations of the definition.
    pub flops: u64,
    /// The kernel, and plain Rust. An error if what the first makes is not what the second does.
    pub sides: [Make; 2],
}

/// Every row.
pub fn rows() -> [Sides; 7] {
    let (image, vector) = ((SIDE * SIDE) as u64, LENGTH as u64);
    let stencil = |names, sides| Sides { names, bytes: 8 * image, flops: 5 * image, sides };
    let histogram = |names, kernel: Make| Sides {
        names,
        bytes: vector,
        flops: 0,
        sides: [kernel, |_| Ok(histogram_plain_call())],
    };
    [
        stencil(
            ["threads_stencil", "threads_stencil_plain"],
            [|device| Stencil::Inner.call(device), |_| Ok(Stencil::Inner.plain_call())],
        ),
        stencil(
            ["threads_stencil_edges", "threads_stencil_edges_plain"],
            [|device| Stencil::Edges.call(device), |_| Ok(Stencil::Edges.plain_call())],
        ),
        stencil(
            ["threads_stencil_shared", "threads_stencil_shared_plain"],
            [|device| Stencil::Shared.call(device), |_| Ok(Stencil::Shared.plain_call())],
        ),
        Sides {
            names: ["threads_saxpy", "threads_saxpy_plain"],
            bytes: 12 * vector,
            flops: 2 * vector,
            sides: [saxpy_call, |_| Ok(saxpy_plain_call())],
        },
        Sides {
            names: ["threads_sum", "threads_sum_plain"],
            bytes: 4 * vector,
            flops: vector,
            sides: [sum_call, |_| Ok(sum_plain_call())],
        },
        histogram(["threads_histogram", "threads_histogram_plain"], |device| {
            histogram_call(device, Memory::Shared)
        }),
        histogram(["threads_histogram_global", "threads_histogram_global_plain"], |device| {
            histogram_call(device, Memory::Global)
        }),
    ]
}

/// Which points of an image have a new value, and how the others are read.
#[derive(Clone, Copy, PartialEq)]
enum Stencil {
    /// Those with four neighbors.
    Inner,
    /// All; zeros surround the image.
    Edges,
    /// All, by a block's copy in shared memory.
    Shared,
}

/// The mean of a point and its four neighbors, where there are four.
#[kernel(crate = kiln_runtime)]
fn stencil(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    let [i, j] = at.axes();
    if i > 0 && i < x.extent(0) - 1 && j > 0 && j < x.extent(1) - 1 {
        let sides = x.get((i - 1, j)) + x.get((i + 1, j)) + x.get((i, j - 1)) + x.get((i, j + 1));
        y.set(at, (sides + x.get((i, j))) * 0.2);
    }
}

/// The same everywhere, with zeros around.
#[kernel(crate = kiln_runtime)]
fn stencil_edges(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    let [i, j] = at.axes();
    let x = |i: Idx, j: Idx| x.get_or((i, j), 0.0);
    let sides = x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1);
    y.set_or_skip(at, (sides + x(i, j)) * 0.2);
}

/// The same through shared memory, to which each thread brings its point, and those at the edges of
/// the block the points around.
#[kernel(crate = kiln_runtime)]
fn stencil_shared(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let at = thread_index_2d();
    let [i, j] = at.axes();
    let (column, row) = (thread_id(0) + 1, thread_id(1) + 1);
    let [columns, rows] = TILE.map(|extent| extent as i64);
    let s = shared::<f32, 2>([TILE[1] + 2, TILE[0] + 2]);
    // SAFETY: each element has one writer, and the barrier stands before every read.
    unsafe {
        s.put((row, column), x.get_or((i, j), 0.0));
        if row == 1 {
            s.put((0, column), x.get_or((i - 1, j), 0.0));
        }
        if row == rows {
            s.put((rows + 1, column), x.get_or((i + 1, j), 0.0));
        }
        if column == 1 {
            s.put((row, 0), x.get_or((i, j - 1), 0.0));
        }
        if column == columns {
            s.put((row, columns + 1), x.get_or((i, j + 1), 0.0));
        }
    }
    barrier();
    let sides = s.get((row - 1, column))
        + s.get((row + 1, column))
        + s.get((row, column - 1))
        + s.get((row, column + 1));
    y.set_or_skip(at, (sides + s.get((row, column))) * 0.2);
}

impl Stencil {
    fn call(self, device: &Device) -> Result<Call> {
        let data = numbers(SIDE * SIDE);
        let x = device.tensor(&data, [SIDE, SIDE])?;
        let mut y = device.zeros([SIDE, SIDE])?;
        let grid = [SIDE / TILE[0], SIDE / TILE[1]].map(|blocks| blocks as u32);
        let block = TILE.map(|threads| threads as u32);
        let device = device.clone();
        let launch = move |y: &mut Tensor<f32, 2>| match self {
            Stencil::Inner => stencil(&x, y).grid(grid).block(block).launch(&device),
            Stencil::Edges => stencil_edges(&x, y).grid(grid).block(block).launch(&device),
            Stencil::Shared => stencil_shared(&x, y).grid(grid).block(block).launch(&device),
        };
        launch(&mut y)?;
        let mut expected = vec![0.0; SIDE * SIDE];
        self.plain(&data, &mut expected);
        agree("the stencil", &y.to_vec()?, &expected)?;
        Ok(Box::new(move || launch(&mut y)))
    }

    fn plain_call(self) -> Call {
        let (x, mut y) = (numbers(SIDE * SIDE), vec![0.0; SIDE * SIDE]);
        Box::new(move || {
            self.plain(&x, &mut y);
            Ok(())
        })
    }

    fn plain(self, x: &[f32], y: &mut [f32]) {
        let rows = SIDE.div_ceil(cores());
        thread::scope(|scope| {
            for (part, y) in y.chunks_mut(rows * SIDE).enumerate() {
                scope.spawn(move || {
                    for (k, y) in y.chunks_exact_mut(SIDE).enumerate() {
                        self.plain_row(x, part * rows + k, y);
                    }
                });
            }
        });
    }

    fn plain_row(self, x: &[f32], i: usize, y: &mut [f32]) {
        const ZEROS: [f32; SIDE] = [0.0; SIDE];
        let is_inner = i > 0 && i < SIDE - 1;
        if self == Stencil::Inner && !is_inner {
            return;
        }
        let row = |i: usize| &x[i * SIDE..][..SIDE];
        let (above, here, below) =
            (if i > 0 { row(i - 1) } else { &ZEROS }, row(i), if i < SIDE - 1 { row(i + 1) } else { &ZEROS });
        for j in 1..SIDE - 1 {
            y[j] = (above[j] + below[j] + here[j - 1] + here[j + 1] + here[j]) * 0.2;
        }
        if self != Stencil::Inner {
            let last = SIDE - 1;
            y[0] = (above[0] + below[0] + 0.0 + here[1] + here[0]) * 0.2;
            y[last] = (above[last] + below[last] + here[last - 1] + 0.0 + here[last]) * 0.2;
        }
    }
}

/// y = a x + y, an element a thread.
#[kernel(crate = kiln_runtime)]
fn saxpy(a: Val<f32>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, a * x.get(i) + y.get(i));
}

fn saxpy_call(device: &Device) -> Result<Call> {
    let data = numbers(LENGTH);
    let (x, mut y) = (device.tensor(&data, [LENGTH])?, device.zeros([LENGTH])?);
    let device = device.clone();
    let launch = move |y: &mut Tensor<f32, 1>| {
        saxpy(0.5, &x, y).grid([(LENGTH / BLOCK) as u32]).block([BLOCK as u32]).launch(&device)
    };
    launch(&mut y)?;
    let mut expected = vec![0.0; LENGTH];
    saxpy_plain(0.5, &data, &mut expected);
    agree("saxpy", &y.to_vec()?, &expected)?;
    Ok(Box::new(move || launch(&mut y)))
}

fn saxpy_plain_call() -> Call {
    let (x, mut y) = (numbers(LENGTH), vec![0.0; LENGTH]);
    Box::new(move || {
        saxpy_plain(0.5, &x, &mut y);
        Ok(())
    })
}

fn saxpy_plain(a: f32, x: &[f32], y: &mut [f32]) {
    let each = LENGTH.div_ceil(cores());
    thread::scope(|scope| {
        for (x, y) in x.chunks(each).zip(y.chunks_mut(each)) {
            scope.spawn(move || x.iter().zip(y).for_each(|(x, y)| *y += a * x));
        }
    });
}

/// The sums of blocks, each of which adds some elements a thread.
#[kernel(crate = kiln_runtime)]
fn sums(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let first = program_id(0) * (BLOCK * EACH) + thread_id(0);
    let mut own: Val<f32> = 0.0;
    for k in range(0, EACH as i64) {
        own += x.get(first + k * BLOCK as i64);
    }
    let sum = block_sum(own);
    if thread_id(0) == 0 {
        y.atomic_add(program_id(0), sum);
    }
}

fn sum_call(device: &Device) -> Result<Call> {
    let data = numbers(LENGTH);
    let x = device.tensor(&data, [LENGTH])?;
    let blocks = LENGTH / (BLOCK * EACH);
    let device = device.clone();
    let sum = move || -> Result<f32> {
        let mut y = device.zeros([blocks])?;
        sums(&x, &mut y).grid([blocks as u32]).block([BLOCK as u32]).launch(&device)?;
        Ok(y.to_vec()?.iter().sum::<f32>())
    };
    let (given, expected) = (sum()?, data.iter().map(|&x| f64::from(x)).sum::<f64>());
    if (f64::from(given) - expected).abs() > 1e-7 * LENGTH as f64 {
        return Err(differs("the sum", expected, given));
    }
    Ok(Box::new(move || {
        black_box(sum()?);
        Ok(())
    }))
}

fn sum_plain_call() -> Call {
    let x = numbers(LENGTH);
    Box::new(move || {
        let sums: Vec<f32> = on_all_cores(&x, |x| {
            // As many sums at once as a compiler makes vectors of.
            let mut sums = [0.0; 32];
            for x in x.chunks_exact(32) {
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
            }
            sums.iter().sum()
        });
        black_box(sums.iter().sum::<f32>());
        Ok(())
    })
}

/// Where bytes are counted.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    /// In a block's memory, whose counts are then added.
    Shared,
    /// In that of all blocks.
    Global,
}

/// Counts bytes in shared memory, some a thread.
#[kernel(crate = kiln_runtime)]
fn histogram_shared(x: &Tensor<u8, 1>, counts: &mut Tensor<u32, 1>) {
    let (own, first) = (thread_id(0), program_id(0) * (BLOCK * EACH_COUNTED) + thread_id(0));
    let s = shared::<u32, 1>([BINS]);
    // SAFETY: each thread writes an element of its own, and the barrier stands before the sums.
    unsafe { s.put(own, 0) };
    barrier();
    for k in range(0, EACH_COUNTED as i64) {
        s.atomic_add(x.get(first + k * BLOCK as i64).cast::<i64>(), 1);
    }
    barrier();
    counts.atomic_add(own, s.get(own));
}

/// Counts bytes in the memory of all blocks, a byte a thread.
#[kernel(crate = kiln_runtime)]
fn histogram_global(x: &Tensor<u8, 1>, counts: &mut Tensor<u32, 1>) {
    counts.atomic_add(x.get(thread_index()).cast::<i64>(), 1);
}

fn histogram_call(device: &Device, memory: Memory) -> Result<Call> {
    let data = bytes();
    let x = device.tensor(&data, [LENGTH])?;
    let device = device.clone();
    let count = move || {
        let (mut counts, block) = (device.zeros([BINS])?, [BLOCK as u32]);
        match memory {
            Memory::Shared => {
                let grid = [(LENGTH / (BLOCK * EACH_COUNTED)) as u32];
                histogram_shared(&x, &mut counts).grid(grid).block(block).launch(&device)?;
            }
            Memory::Global => {
                let grid = [(LENGTH / BLOCK) as u32];
                histogram_global(&x, &mut counts).grid(grid).block(block).launch(&device)?;
            }
        }
        counts.to_vec()
    };
    if count()? != histogram_plain(&data) {
        return Err(differs("the histogram", "the counts of plain Rust", "others"));
    }
    Ok(Box::new(move || {
        black_box(count()?);
        Ok(())
    }))
}

fn histogram_plain_call() -> Call {
    let x = bytes();
    Box::new(move || {
        black_box(histogram_plain(&x));
        Ok(())
    })
}

fn histogram_plain(x: &[u8]) -> Vec<u32> {
    let parts = on_all_cores(x, |x| {
        let mut counts = [0u32; BINS];
        x.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        counts
    });
    let mut counts = vec![0; BINS];
    parts.iter().for_each(|part| counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count));
    counts
}

/// What a function makes of the parts of a slice, one for each core.
fn on_all_cores<T: Sync, R: Send>(x: &[T], of: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let of = &of;
    thread::scope(|scope| {
        let parts: Vec<_> = x.chunks(x.len().div_ceil(cores())).map(|x| scope.spawn(move || of(x))).collect();
        parts.into_iter().filter_map(|part| part.join().ok()).collect()
    })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Numbers from -1 to 1 that do not repeat soon.
fn numbers(count: usize) -> Vec<f32> {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn bytes() -> Vec<u8> {
    (0..LENGTH as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

fn agree(what: &'static str, given: &[f32], expected: &[f32]) -> Result<()> {
    let apart = |(given, expected): (&f32, &f32)| (given - expected).abs() > 1e-6;
    match given.iter().zip(expected).position(apart) {
        None => Ok(()),
        Some(at) => Err(differs(what, expected[at], given[at])),
    }
}

fn differs(what: &'static str, expected: impl ToString, given: impl ToString) -> Error {
    Error::Value { what: what.to_owned(), expected: expected.to_string(), given: given.to_string() }
}

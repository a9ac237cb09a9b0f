//! The device computes functions of one chunk of arguments after another; all cores compare what
//! came back with the exact values.

use crate::failure::Failure;
use kiln_lang::param::Facts;
use kiln_lang::{Level, program_id, trace};
use kiln_reference::accuracy::{Function, Measured, Tally, all_f32 as bits_in_order, arguments, pairs};
use kiln_runtime::{Device, DynArg, DynKernel, DynTensor, Error};
use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Elements of a program.
const BLOCK: usize = 1024;
/// Arguments of a launch: comparing the results takes tens of milliseconds.
const CHUNK: usize = 1 << 20;

/// What is known of a function: its errors, or what the device lacks for it.
pub type Outcome = Result<Tally, String>;

/// Shows how far it is, where someone may be watching.
pub struct Progress {
    what: String,
}

impl Progress {
    pub fn new(ty: &str, operands: usize) -> Progress {
        let plural = if operands == 1 { "argument" } else { "arguments" };
        Progress { what: format!("{ty}, functions of {operands} {plural}") }
    }

    fn show(&self, done: u64, all: u64) {
        if stderr().is_terminal() {
            let percent = 100.0 * done as f64 / all.max(1) as f64;
            let _ = write!(stderr(), "\r\x1b[K{}: {percent:.1} %", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Functions of one argument, at a sample.
pub fn unary<T: Measured>(
    device: &Device,
    functions: &[&Function],
    samples: u64,
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    let all: Vec<[T; 2]> = arguments::<T>(samples).into_iter().map(|x| [x; 2]).collect();
    listed(device, functions, &all, progress)
}

/// Functions of two arguments, at a sample.
pub fn binary<T: Measured>(
    device: &Device,
    functions: &[&Function],
    samples: u64,
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    listed(device, functions, &pairs::<T>(samples), progress)
}

fn listed<T: Measured>(
    device: &Device,
    functions: &[&Function],
    all: &[[T; 2]],
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    let mut chunks = all.chunks(CHUNK).map(<[_]>::to_vec);
    measure(device, functions, (&mut chunks, all.len().div_ceil(CHUNK) as u64), progress)
}

/// Functions of one argument, at every f32.
pub fn all_f32(
    device: &Device,
    functions: &[&Function],
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    let count = (1u64 << 32) / CHUNK as u64;
    let mut chunks =
        (0..count).map(|n| bits_in_order(n * CHUNK as u64, CHUNK).into_iter().map(|x| [x; 2]).collect());
    measure(device, functions, (&mut chunks, count), progress)
}

/// Results that wait to be compared.
struct Job<T> {
    function: usize,
    arguments: Arc<Vec<[T; 2]>>,
    results: Vec<T>,
}

type Chunks<'a, T> = (&'a mut dyn Iterator<Item = Vec<[T; 2]>>, u64);

fn measure<T: Measured>(
    device: &Device,
    functions: &[&Function],
    (chunks, count): Chunks<'_, T>,
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Outcome> = functions.iter().map(|_| Ok(Tally::default())).collect();
    let kernels = functions.iter().map(|function| kernel::<T>(function)).collect::<Result<Vec<_>, _>>()?;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (give, take) = sync_channel::<Job<T>>(2 * workers);
    let (take, tallies) = (Mutex::new(take), Mutex::new(vec![Tally::default(); functions.len()]));
    std::thread::scope(|scope| -> Result<(), Failure> {
        for _ in 0..workers {
            scope.spawn(|| compare(functions, &take, &tallies));
        }
        // Dropped on every way out, so that the workers end.
        let give = give;
        for (done, chunk) in chunks.enumerate() {
            progress.show(done as u64, count);
            let chunk = Arc::new(chunk);
            let [x, y] = [0, 1].map(|i| {
                let column: Vec<T> = chunk.iter().map(|pair| pair[i]).collect();
                DynTensor::new(device, &column, &[column.len()])
            });
            let (x, y) = (x?, y?);
            for (function, kernel) in kernels.iter().enumerate() {
                if outcomes[function].is_err() {
                    continue;
                }
                let mut result = DynTensor::uninit(device, T::SCALAR, &[chunk.len()])?;
                match kernel.with([DynArg::from(&x), (&y).into(), (&mut result).into()]).launch(device) {
                    Err(Error::Device(kiln_backend::Error::Unsupported { what, .. })) => {
                        outcomes[function] = Err(what);
                        continue;
                    }
                    launched => launched?,
                }
                let results = result.to_vec()?;
                // The workers take jobs until the end.
                let _ = give.send(Job { function, arguments: chunk.clone(), results });
            }
        }
        Ok(())
    })?;
    let tallies = tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(outcomes.into_iter().zip(tallies).map(|(outcome, tally)| outcome.map(|_| tally)).collect())
}

/// The kernel that computes a function of two tensors, element by element.
fn kernel<T: Measured>(function: &Function) -> Result<DynKernel, Failure> {
    let compute = T::of(&function.device);
    let traced = trace(function.name, Level::Tile { warps: None }, |p| {
        let x = p.view::<T, 1>("x", Facts::default());
        let y = p.view::<T, 1>("y", Facts::default());
        let result = p.view_mut::<T, 1>("result", Facts::default());
        let at = program_id(0) * BLOCK;
        result.tile(at, BLOCK).store(compute([x.tile(at, BLOCK).load(1.0), y.tile(at, BLOCK).load(1.0)]));
    });
    let kernel = traced.map_err(|errors| Failure::Wrong(errors.to_string()))?;
    Ok(DynKernel::new(kernel)?)
}

/// Compares results until there are no more.
fn compare<T: Measured>(
    functions: &[&Function],
    jobs: &Mutex<Receiver<Job<T>>>,
    tallies: &Mutex<Vec<Tally>>,
) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { function, arguments, results }) = job else { return };
        let tally = Tally::of(functions[function], &arguments, &results);
        tallies.lock().unwrap_or_else(PoisonError::into_inner)[function].merge(&tally);
    }
}

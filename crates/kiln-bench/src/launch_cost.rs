//! Host time of a launch, and of a call that chooses what to launch: bursts of 500, shorter than
//! the driver's queue, from an idle device, drained outside of the clock.

use kiln_cuda::driver::{Context, CudaError, JitOptions, Module, Stream};
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::Kernel;
use kiln_kernels::{Matmul, Tuning};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Result, Tensor};
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::time::{Duration, Instant};

const BURST: u32 = 500;
/// How long ways to divide a product are tried.
const TRIED: Duration = Duration::from_secs(2);

#[kernel(crate = kiln_runtime)]
fn empty(_x: &Tensor<f32, 1>, _n: Val<f32>) {}

#[kernel(crate = kiln_runtime)]
fn empty_of_twelve(
    _a: &Tensor<f32, 1>,
    _b: &Tensor<f32, 1>,
    _c: &Tensor<f32, 1>,
    _d: &Tensor<f32, 1>,
    _e: &Tensor<f32, 1>,
    _f: &Tensor<f32, 1>,
    _g: &Tensor<f32, 1>,
    _h: &Tensor<f32, 1>,
    _i: &Tensor<f32, 1>,
    _j: &Tensor<f32, 1>,
    _k: &Tensor<f32, 1>,
    _l: &Tensor<f32, 1>,
) {
}

/// A kernel that does nothing, for launches that cost what every launch costs.
pub struct EmptyKernel {
    device: Device,
    x: Tensor<f32, 1>,
}

impl EmptyKernel {
    /// The kernel with its argument on a device.
    pub fn new(device: &Device) -> Result<EmptyKernel> {
        Ok(EmptyKernel { device: device.clone(), x: device.zeros([1024])? })
    }

    /// The kernel as it is launched.
    pub fn ir(&self) -> Result<Kernel> {
        empty(&self.x, 1.0).ir()
    }

    /// Launches it so many times, without waiting.
    pub fn launch(&self, times: usize) -> Result<()> {
        (0..times).try_for_each(|_| empty(&self.x, 1.0).grid([1, 1, 1]).launch(&self.device))
    }
}

/// Microseconds a launch through Kiln, a burst a round.
pub fn kiln(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let kernel = EmptyKernel::new(device)?;
    bursts(rounds, || kernel.launch(1), || device.synchronize())
}

/// Microseconds a launch of a kernel of twelve tensors that does nothing.
pub fn kiln_twelve(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = twelve(device)?;
    let launch =
        || empty_of_twelve(&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l).grid([1, 1, 1]).launch(device);
    bursts(rounds, launch, || device.synchronize())
}

/// Microseconds a launch of the kernel of [`kiln`] by `cuLaunchKernel`.
pub fn driver(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    driver_of(&EmptyKernel::new(device)?.ir()?, device, rounds)
}

/// Microseconds a launch of the kernel of [`kiln_twelve`] by `cuLaunchKernel`.
pub fn driver_twelve(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = twelve(device)?;
    let kernel = empty_of_twelve(&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l).ir()?;
    driver_of(&kernel, device, rounds)
}

fn twelve(device: &Device) -> Result<[Tensor<f32, 1>; 12]> {
    let tensors: Vec<_> = (0..12).map(|_| device.zeros([1024])).collect::<Result<_>>()?;
    tensors.try_into().map_err(|given: Vec<_>| {
        let message = format!("{} tensors for 12", given.len());
        kiln_backend::Error::Internal { place: "kiln-bench", message }.into()
    })
}

fn driver_of(kernel: &Kernel, device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let refused = |e: CudaError| Error::from(e.into_backend(device.id()));
    let properties = device.properties();
    let target = ptx::Target {
        compute: properties.compute_capability.unwrap_or((8, 0)),
        ptx: properties.ptx.unwrap_or((8, 0)),
    };
    let module = compile_to_ptx(kernel, target)?;
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let context = Context::new(index).map_err(refused)?;
    let stream = Stream::new(&context).map_err(refused)?;
    let (loaded, _) =
        Module::from_ptx(&context, "empty", &module.text, &JitOptions::default()).map_err(refused)?;
    let function = loaded.function(&module.entry).map_err(refused)?;
    let words = vec![0u64; module.words as usize];
    let mut pointers: Vec<*mut c_void> = words.iter().map(|w| from_ref(w).cast_mut().cast()).collect();
    let [bx, by, bz] = module.block;
    let launch = || {
        // SAFETY: the kernel takes as many words as it declares and touches none; the context is
        // current on this thread.
        let done = unsafe {
            let (api, params) = (context.api(), pointers.as_mut_ptr());
            api.cuLaunchKernel(function.handle(), 1, 1, 1, bx, by, bz, 0, stream.handle(), params, null_mut())
        };
        done.map_err(refused)
    };
    bursts(rounds, launch, || stream.synchronize().map_err(refused))
}

/// Microseconds a call of a small product that is divided as the estimate says.
pub fn product(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    multiply(device, rounds, Tuning::OFF)
}

/// The same as a choice says that was measured and kept before.
pub fn product_by_choice(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    multiply(device, rounds, Tuning::KEPT)
}

fn multiply(device: &Device, rounds: usize, tuning: Tuning) -> Result<Vec<f64>> {
    let (x, mut y) = (device.zeros::<bf16, 2>([128, 128])?, device.zeros::<bf16, 2>([128, 128])?);
    if tuning == Tuning::KEPT {
        Matmul::new(&x, &x).tuning(Tuning::budget(TRIED)).run(&mut y)?;
    }
    bursts(rounds, || Matmul::new(&x, &x).tuning(tuning).run(&mut y), || device.synchronize())
}

fn bursts(
    rounds: usize,
    mut launch: impl FnMut() -> Result<()>,
    drain: impl Fn() -> Result<()>,
) -> Result<Vec<f64>> {
    let mut burst = || {
        let start = Instant::now();
        for _ in 0..BURST {
            launch()?;
        }
        let time = start.elapsed().as_secs_f64() * 1e6 / f64::from(BURST);
        drain()?;
        Ok(time)
    };
    burst()?;
    (0..rounds).map(|_| burst()).collect()
}

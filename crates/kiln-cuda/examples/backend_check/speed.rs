//! What the backend costs: launches, compiling, loading, and bandwidth.

use crate::cases::{Case, View, add, layer_norm, softmax, sum};
use crate::checks::views;
use crate::rig::{DeviceMemory, Outcome, STREAM, ensure, launch};
use kiln_backend::{Artifacts, Backend, BufferBinding, LaunchArguments, Program};
use kiln_cuda::driver::{Context, CudaError, JitOptions, Module, Stream};
use kiln_cuda::{Cuda, compile_to_ptx, ptx};
use kiln_ir::Scalar;
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed()))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn ptx_target(gpu: &Cuda) -> ptx::Target {
    let properties = gpu.properties();
    ptx::Target {
        compute: properties.compute_capability.unwrap_or((8, 0)),
        ptx: properties.ptx.unwrap_or((8, 0)),
    }
}

/// The host's cost of a launch of nine words through the backend and through the driver, in turns.
pub fn launch_cost(gpu: &Cuda) -> Outcome {
    let case = add(128, 1);
    let kernel = case.kernel(true)?;
    let program = gpu.compile(&kernel)?.program;
    let memory = DeviceMemory::from(gpu, &[0; 4])?;
    let arguments = views(&[memory.ptr; 3], 1);
    let words = [[memory.ptr.0, 1, 1]; 3].concat();

    let context = Context::new(0)?;
    let stream = Stream::new(&context)?;
    let module = compile_to_ptx(&kernel, ptx_target(gpu))?;
    let (loaded, _) = Module::from_ptx(&context, "add", &module.text, &JitOptions::default())?;
    let function = loaded.function(&module.entry)?;
    let mut pointers: Vec<*mut c_void> =
        words.iter().map(|word| from_ref(word).cast_mut().cast::<c_void>()).collect();
    let [bx, by, bz] = module.block;
    let mut raw = || -> Result<(), CudaError> {
        // SAFETY: the kernel takes three views of one float, which live until the streams are
        // waited for; the context is current.
        unsafe {
            let params = pointers.as_mut_ptr();
            let api = context.api();
            api.cuLaunchKernel(function.handle(), 1, 1, 1, bx, by, bz, 0, stream.handle(), params, null_mut())
        }
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        for _ in 0..50 {
            ours.push(timed(|| launch(gpu, &*program, [1, 1, 1], &arguments))?.1.as_secs_f64() * 1e6);
        }
        gpu.synchronize(STREAM)?;
        for _ in 0..50 {
            theirs.push(timed(&mut raw)?.1.as_secs_f64() * 1e6);
        }
        stream.synchronize()?;
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "launch: {ours:.2} us through the backend, {theirs:.2} us by cuLaunchKernel, {:.2} times",
        ours / theirs
    );
    ensure(ours <= 1.3 * theirs, "a launch costs at most 1.3 times the driver's")
}

/// Compiles kernels that were never compiled before, and loads what came of it.
pub fn compile_times(gpu: &Cuda) -> Outcome {
    let nonce = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let (mut fronts, mut colds, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..5 {
        let mut kernel = softmax(16_384, 4096, 4096).kernel(true)?;
        kernel.name = format!("softmax_{nonce}_{round}");
        let (_, front) = timed(|| compile_to_ptx(&kernel, ptx_target(gpu)))?;
        let (compiled, cold) = timed(|| gpu.compile(&kernel))?;
        let artifact = compiled.artifact.ok_or("programs can be kept")?;
        drop(compiled.program);
        let (program, load) = timed(|| gpu.load(&artifact))?;
        for (times, took) in [(&mut fronts, front), (&mut colds, cold), (&mut loads, load)] {
            times.push(took.as_secs_f64() * 1e3);
        }
        if round == 0 {
            println!("softmax 4096: {:?}", program.report());
        }
    }
    println!(
        "softmax 4096: to PTX {:.1} ms, to a loaded program {:.1} ms, from an artifact {:.2} ms",
        median(fronts),
        median(colds),
        median(loads)
    );
    Ok(())
}

/// Median device time of a case, in microseconds, over buffers of zeros.
fn device_time(gpu: &Cuda, program: &dyn Program, case: &Case) -> Outcome<f64> {
    let (mut memory, mut arguments) = (Vec::new(), LaunchArguments::new());
    for View { elem, extents, .. } in &case.views {
        let bytes = (extents.iter().product::<u64>() * u64::from(elem.bytes())) as usize;
        let buffer = DeviceMemory::new(gpu, bytes)?;
        // SAFETY: the memory is as long as said.
        unsafe { gpu.fill(buffer.ptr, 0, bytes, STREAM) }?;
        arguments = arguments.view(BufferBinding::write(buffer.ptr), extents);
        memory.push(buffer);
    }
    let mut times = Vec::new();
    for _ in 0..25 {
        let start = gpu.record(STREAM, true)?;
        launch(gpu, program, case.grid, &arguments)?;
        let end = gpu.record(STREAM, true)?;
        gpu.synchronize(STREAM)?;
        times.push(f64::from(gpu.elapsed_ms(start, end)?) * 1e3);
        gpu.destroy_event(start);
        gpu.destroy_event(end);
    }
    Ok(median(times.split_off(5)))
}

fn report(gpu: &Cuda, case: &Case, bytes: u64) -> Outcome {
    let program = gpu.compile(&case.kernel(true)?)?.program;
    let us = device_time(gpu, &*program, case)?;
    println!("{:40} {us:8.1} us {:7.0} GB/s  {:?}", case.name, bytes as f64 / us * 1e-3, program.report());
    Ok(())
}

pub fn bandwidth(gpu: &Cuda) -> Outcome {
    let n = 1u64 << 28;
    for tile in [512, 1024, 2048, 4096] {
        report(gpu, &add(tile, n), 3 * 4 * n)?;
    }
    report(gpu, &softmax(16_384, 4096, 4096), 2 * 4 * 16_384 * 4096)?;
    report(gpu, &softmax(65_536, 1024, 1024), 2 * 4 * 65_536 * 1024)?;
    for (tile, programs) in [(2048, 132 * 8), (4096, 132 * 8), (4096, 132 * 16), (8192, 132 * 4)] {
        let case = sum(n, tile, programs);
        let name = format!("{} tiles of {tile}, {programs} programs", case.name);
        report(gpu, &Case { name, ..case }, 4 * n)?;
    }
    for elem in [Scalar::BF16, Scalar::F16] {
        report(gpu, &layer_norm(elem, 16_384, 4096, 4096), 2 * 2 * 16_384 * 4096)?;
    }
    report(gpu, &layer_norm(Scalar::BF16, 65_536, 1024, 1024), 2 * 2 * 65_536 * 1024)
}

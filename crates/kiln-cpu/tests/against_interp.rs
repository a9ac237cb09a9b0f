//! Random kernels on the CPU and under the interpreter: the same memory, or the same fault.

use kiln_backend::{Backend, BufferBinding, DevicePtr, Error, Fault, LaunchArguments, Result, StreamId};
use kiln_cpu::CpuBackend;
use kiln_fuzz::generate::{Options, generate};
use kiln_fuzz::{Argument, Case};
use kiln_interp::Interp;
use kiln_ir::{Literal, Scalar};

const STREAM: StreamId = StreamId(0);

/// What a run left: the views' elements, or a fault.
fn run(device: &dyn Backend, case: &Case) -> Result<std::result::Result<Vec<Vec<Literal>>, Fault>> {
    let compiled = device.compile(&case.kernel)?;
    // As another process has it, where programs are kept: from bytes.
    let program = match (device.artifacts(), &compiled.artifact) {
        (Some(artifacts), Some(bytes)) => artifacts.load(bytes)?,
        _ => compiled.program,
    };
    let mut arguments = LaunchArguments::new();
    let mut buffers: Vec<(DevicePtr, Scalar, usize)> = Vec::new();
    for (param, argument) in case.kernel.params.iter().zip(&case.arguments) {
        arguments = match argument {
            Argument::Scalar(literal) => arguments.scalar(literal.bits()),
            Argument::View { extents, data } => {
                let elem = param.ty.elem();
                let bytes: Vec<u8> = data
                    .iter()
                    .flat_map(|l| l.bits().to_le_bytes().into_iter().take(elem.bytes() as usize))
                    .collect();
                let at = device.allocate(bytes.len().max(1), STREAM)?;
                // SAFETY: the allocation is as long as the bytes.
                unsafe { device.upload(at, &bytes, STREAM)? };
                buffers.push((at, elem, data.len()));
                let extents: Vec<u64> = extents.iter().map(|&e| e.into()).collect();
                arguments.view(BufferBinding::write(at), &extents)
            }
        }
    }
    // SAFETY: the views are live allocations of the sizes that they need.
    unsafe { device.launch(&*program, arguments.launch(case.grid, STREAM))? };
    let outcome = match device.synchronize(STREAM) {
        Err(Error::Fault(fault)) => Err(*fault),
        other => Ok(other?),
    };
    let mut memory = Vec::new();
    for (at, elem, len) in buffers {
        let size = elem.bytes() as usize;
        let mut bytes = vec![0u8; len * size];
        // SAFETY: allocated above with this length, and not used again.
        unsafe {
            device.download(&mut bytes, at, STREAM)?;
            device.free(at, (len * size).max(1), STREAM);
        }
        let literal = |b: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(b);
            Literal::from_bits(elem, u64::from_le_bytes(word))
        };
        memory.push(bytes.chunks(size).map(literal).collect());
    }
    Ok(outcome.map(|()| memory))
}

/// The same bits, but for the payload of NaN and the sign of zero.
fn same(a: Literal, b: Literal) -> bool {
    a == b
        || (a.elem().is_float() && (a.as_f64() == b.as_f64() || (a.as_f64().is_nan() && b.as_f64().is_nan())))
}

fn compare(cpu: &CpuBackend, interp: &Interp, seed: u64, options: &Options) {
    let case = generate(seed, options);
    let want = match run(interp, &case) {
        Ok(want) => want,
        Err(error) => panic!("seed {seed}, interp: {error}\n{}", case.kernel),
    };
    let got = run(cpu, &case).unwrap_or_else(|error| panic!("seed {seed}, cpu: {error}\n{}", case.kernel));
    match (got, want) {
        (Ok(got), Ok(want)) => {
            for (view, (got, want)) in got.iter().zip(&want).enumerate() {
                for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
                    assert!(
                        same(g, w),
                        "seed {seed}: view {view}, element {i}: cpu {g}, interp {w}\n{}\n{:?} {:?}",
                        case.kernel,
                        case.grid,
                        case.arguments
                    );
                }
            }
        }
        (Err(mut got), Err(want)) => {
            // The optimizer makes scalar operations of uniform tile operations: those have a
            // thread.
            got.thread = want.thread.and(got.thread);
            assert_eq!(got, want, "seed {seed}\n{}", case.kernel);
        }
        (got, want) => assert_eq!(got.map(drop), want.map(drop), "seed {seed}\n{}", case.kernel),
    }
}

fn seeds(threads: bool, faults: bool) {
    let count = std::env::var("KILN_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let first = std::env::var("KILN_FUZZ_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (cpu, interp) = (CpuBackend::with_threads(2), Interp::new(kiln_interp::Options::default()));
    let options = Options { exact: true, faults, ..Options::new(threads) };
    for seed in first..first + count {
        compare(&cpu, &interp, seed, &options);
    }
}

#[test]
fn tiles() {
    seeds(false, false);
}

#[test]
fn threads() {
    seeds(true, false);
}

#[test]
fn faulting_tiles() {
    seeds(false, true);
}

#[test]
fn faulting_threads() {
    seeds(true, true);
}

//! Running kernels on the CPU device with host arrays.
#![allow(dead_code)]

use kiln_backend::{Backend, BufferBinding, DevicePtr, Error, LaunchArguments, Result, StreamId};
use kiln_cpu::CpuBackend;
use kiln_ir::*;

/// A host array that a launch works on.
pub enum Arg<'a> {
    /// Bytes, extents and strides in elements.
    View(&'a mut [u8], Vec<i64>, Vec<i64>),
    /// The bits of a scalar.
    Scalar(u64),
}

/// A row-major view of a slice.
pub fn view<'a, T: bytemuck::Pod>(data: &'a mut [T], extents: &[i64]) -> Arg<'a> {
    let strides = (0..extents.len()).map(|i| extents[i + 1..].iter().product()).collect();
    Arg::View(bytemuck::cast_slice_mut(data), extents.to_vec(), strides)
}

/// Runs on a device with two threads.
pub fn run(kernel: &Kernel, grid: [u32; 3], args: Vec<Arg<'_>>) -> Result<()> {
    run_on(&CpuBackend::with_threads(2), kernel, grid, args)
}

/// Uploads, launches, downloads. Faults are the result.
pub fn run_on(cpu: &CpuBackend, kernel: &Kernel, grid: [u32; 3], mut args: Vec<Arg<'_>>) -> Result<()> {
    if let Err(errors) = verify(kernel) {
        panic!("{errors:?}");
    }
    let stream = StreamId(0);
    // As another process has it: from bytes.
    let artifact = cpu.compile(kernel)?.artifact.expect("programs are kept");
    let backend: &dyn Backend = cpu;
    let program = backend.need_artifacts()?.load(&artifact)?;
    let mut arguments = LaunchArguments::new();
    let mut buffers: Vec<(DevicePtr, usize)> = Vec::new();
    for arg in &args {
        arguments = match arg {
            Arg::Scalar(bits) => arguments.scalar(*bits),
            Arg::View(bytes, extents, strides) => {
                let at = cpu.allocate(bytes.len().max(1), stream)?;
                // SAFETY: the allocation is as long as the bytes.
                unsafe { cpu.upload(at, bytes, stream)? };
                buffers.push((at, bytes.len().max(1)));
                let [extents, strides] =
                    [extents, strides].map(|axes| axes.iter().map(|&n| n as u64).collect::<Vec<_>>());
                arguments.strided(BufferBinding::write(at), &extents, &strides)
            }
        }
    }
    // SAFETY: the views are live allocations of the sizes that they need.
    unsafe { cpu.launch(&*program, arguments.launch(grid, stream))? };
    let outcome = cpu.synchronize(stream);
    let mut next = buffers.iter();
    for arg in &mut args {
        if let Arg::View(bytes, ..) = arg {
            let (at, len) = *next.next().unwrap();
            // SAFETY: allocated above with this length, and not used again.
            unsafe {
                cpu.download(bytes, at, stream)?;
                cpu.free(at, len, stream);
            }
        }
    }
    outcome
}

/// The fault that a run ended with.
pub fn fault(outcome: Result<()>) -> kiln_backend::Fault {
    match outcome {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// A kernel with views of global memory as parameters.
pub fn kernel(name: &str, level: Level, views: &[(Scalar, u32)]) -> (Kernel, Vec<Value>) {
    let mut kernel = Kernel::new(name, level);
    let params = views.iter().enumerate().map(|(i, &(elem, rank))| {
        let ty = Type::view(elem, rank, Space::Global);
        kernel.add_param(Param { name: format!("p{i}"), ty, mutable: true, facts: Facts::default() })
    });
    let params = params.collect();
    (kernel, params)
}

pub const TILE: Level = Level::Tile { warps: None };

/// Deterministic numbers in -1..1.
pub fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

pub fn close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "element {i}: got {g}, want {w}");
    }
}

/// The kernel of a text, which has no mistakes.
pub fn parsed(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Defines `%i` and `%j`, the thread's row and column in the grid; a third axis counts on in rows.
/// `%tx` and `%ty` are its place in the block.
pub fn places([bx, by, bz]: [u32; 3]) -> String {
    format!(
        "  %tx = thread_id x : i64
  %ty = thread_id y : i64
  %tz = thread_id z : i64
  %px = program_id x : i64
  %py = program_id y : i64
  %bx = const {bx} : i64
  %by = const {by} : i64
  %rows = const {} : i64
  %fx = mul %px, %bx : i64
  %j = add %fx, %tx : i64
  %fy = mul %py, %rows : i64
  %planes = mul %tz, %by : i64
  %r = add %planes, %ty : i64
  %i = add %fy, %r : i64
",
        by * bz
    )
}

/// The grid that covers rows and columns.
pub fn grid([bx, by, bz]: [u32; 3], rows: i64, columns: i64) -> [u32; 3] {
    [(columns as u32).div_ceil(bx).max(1), (rows as u32).div_ceil(by * bz).max(1), 1]
}

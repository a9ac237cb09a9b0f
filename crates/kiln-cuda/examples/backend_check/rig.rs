//! Running cases on devices and comparing what they leave in memory.

use crate::cases::{Case, Fill, View};
use half::{bf16, f16};
use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, Program, StreamId};
use kiln_ir::{Kernel, Scalar};
use std::error::Error;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub const STREAM: StreamId = StreamId(0);

/// Bytes after every buffer that no kernel may write.
const FENCE: usize = 64;

pub fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("does not hold: {what}").into()) }
}

/// A generator of random words (Marsaglia's xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From -4 to 4.
    fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0
    }

    /// The bytes of an element.
    fn element(&mut self, elem: Scalar, fill: Fill) -> Vec<u8> {
        let bytes = elem.bytes() as usize;
        let integer = |n: u64| n.to_le_bytes()[..bytes].to_vec();
        match (fill, elem) {
            (Fill::Poison, _) => vec![0xa5; bytes],
            (Fill::Zero, _) => vec![0; bytes],
            (Fill::Below(bound), _) => integer(self.next() % bound),
            (_, Scalar::Bool) => integer(self.next() & 1),
            (_, Scalar::F16) => f16::from_f64(self.float()).to_le_bytes().to_vec(),
            (_, Scalar::BF16) => bf16::from_f64(self.float()).to_le_bytes().to_vec(),
            (_, Scalar::F32) => (self.float() as f32).to_le_bytes().to_vec(),
            (_, Scalar::F64) => self.float().to_le_bytes().to_vec(),
            // Sizes from one bit to the whole width, both signs.
            _ => integer((self.next() as i64 >> (self.next() % 64)) as u64),
        }
    }
}

/// Device memory that is freed at the end.
pub struct DeviceMemory<'d> {
    device: &'d dyn Backend,
    pub ptr: DevicePtr,
    bytes: usize,
}

impl<'d> DeviceMemory<'d> {
    pub fn new(device: &'d dyn Backend, bytes: usize) -> Outcome<DeviceMemory<'d>> {
        Ok(DeviceMemory { device, ptr: device.allocate(bytes.max(1), STREAM)?, bytes })
    }

    pub fn from(device: &'d dyn Backend, data: &[u8]) -> Outcome<DeviceMemory<'d>> {
        let memory = DeviceMemory::new(device, data.len())?;
        // SAFETY: the memory is as long as the data.
        unsafe { device.upload(memory.ptr, data, STREAM) }?;
        Ok(memory)
    }

    pub fn read(&self) -> kiln_backend::Result<Vec<u8>> {
        let mut data = vec![0; self.bytes];
        // SAFETY: the memory is as long as the data.
        unsafe { self.device.download(&mut data, self.ptr, STREAM) }?;
        Ok(data)
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`; work in other streams was waited for.
        unsafe { self.device.free(self.ptr, self.bytes.max(1), STREAM) };
    }
}

/// Launches in the default stream.
pub fn launch(
    device: &dyn Backend,
    program: &dyn Program,
    grid: [u32; 3],
    arguments: &LaunchArguments,
) -> kiln_backend::Result<()> {
    // SAFETY: the checks pass views of memory they allocated, as long as their extents.
    unsafe { device.launch(program, arguments.launch(grid, STREAM)) }
}

/// What every buffer of a case holds after one launch.
pub fn run(device: &dyn Backend, program: &dyn Program, case: &Case) -> Outcome<Vec<Vec<u8>>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut memory, mut arguments) = (Vec::new(), LaunchArguments::new());
    for View { elem, extents, fill } in &case.views {
        let mut data: Vec<u8> =
            (0..extents.iter().product::<u64>()).flat_map(|_| random.element(*elem, *fill)).collect();
        data.extend([0x5a; FENCE]);
        let buffer = DeviceMemory::from(device, &data)?;
        arguments = arguments.view(BufferBinding::write(buffer.ptr), extents);
        memory.push(buffer);
    }
    launch(device, program, case.grid, &arguments)?;
    memory.iter().map(|m| Ok(m.read()?)).collect()
}

/// Compiles and runs.
pub fn compile_and_run(device: &dyn Backend, kernel: &Kernel, case: &Case) -> Outcome<Vec<Vec<u8>>> {
    run(device, &*device.compile(kernel)?.program, case)
}

fn number(elem: Scalar, bytes: &[u8]) -> f64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    kiln_ir::Literal::from_bits(elem, u64::from_le_bytes(word)).as_f64()
}

/// Compares what two devices left, floats with the case's tolerance.
pub fn compare(case: &Case, expected: &[Vec<u8>], got: &[Vec<u8>]) -> Outcome {
    for ((View { elem, .. }, expected), got) in case.views.iter().zip(expected).zip(got) {
        let size = elem.bytes() as usize;
        let close = |a: &[u8], b: &[u8]| {
            if a == b {
                return true;
            }
            let (a, b) = (number(*elem, a), number(*elem, b));
            elem.is_float()
                && (a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= case.tolerance * a.abs().max(1.0))
        };
        let end = expected.len() - FENCE;
        ensure(expected[end..] == got[end..], "nothing is written behind a buffer")?;
        let mut pairs = expected[..end].chunks(size).zip(got[..end].chunks(size)).enumerate();
        if let Some((at, (a, b))) = pairs.find(|(_, (a, b))| !close(a, b)) {
            let (a, b) = (number(*elem, a), number(*elem, b));
            return Err(format!("element {at} of {elem} is {b:?}, the interpreter has {a:?}").into());
        }
    }
    Ok(())
}

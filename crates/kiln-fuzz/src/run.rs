//! Launching a kernel on a device, and what comes of it.

use crate::case::{Argument, Case};
use kiln_backend::{Backend, BufferBinding, DevicePtr, Error, FaultKind, LaunchArguments, Result, StreamId};
use kiln_ir::Literal;
use std::sync::{Arc, Mutex, PoisonError};

/// What a launch leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The elements of each argument that is a view, in order.
    pub memory: Vec<Vec<Literal>>,
    /// The fault, if the kernel ended with one. Memory is then what was written before.
    pub fault: Option<FaultKind>,
    /// What was printed, a line at a time.
    pub printed: Vec<String>,
}

/// Memory of a device that is given back in the end.
struct Allocation<'d> {
    device: &'d dyn Backend,
    at: DevicePtr,
    bytes: usize,
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        // SAFETY: `at` and `bytes` are those of an allocation of this device, whose work has been
        // waited for.
        unsafe { self.device.free(self.at, self.bytes, StreamId::default()) }
    }
}

impl<'d> Allocation<'d> {
    fn new(device: &'d dyn Backend, data: &[Literal]) -> Result<Allocation<'d>> {
        let bytes: Vec<u8> = data.iter().flat_map(|l| encode(*l)).collect();
        let at = device.allocate(bytes.len().max(1), StreamId::default())?;
        let allocation = Allocation { device, at, bytes: bytes.len().max(1) };
        // SAFETY: the allocation is as long as the bytes.
        unsafe { device.upload(at, &bytes, StreamId::default())? };
        Ok(allocation)
    }

    fn read(&self, like: &[Literal]) -> Result<Vec<Literal>> {
        let mut bytes = vec![0; like.iter().map(|l| l.elem().bytes() as usize).sum()];
        // SAFETY: the allocation is as long as the elements it was made for.
        unsafe { self.device.download(&mut bytes, self.at, StreamId::default())? };
        let size = like.first().map_or(1, |l| l.elem().bytes() as usize);
        Ok(bytes.chunks_exact(size).zip(like).map(|(b, l)| decode(b, *l)).collect())
    }
}

fn encode(literal: Literal) -> Vec<u8> {
    literal.bits().to_le_bytes()[..literal.elem().bytes() as usize].to_vec()
}

fn decode(bytes: &[u8], like: Literal) -> Literal {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    Literal::from_bits(like.elem(), u64::from_le_bytes(bits))
}

/// Compiles and launches a kernel, and reads all memory back.
///
/// # Errors
/// What the device says, but for a fault of the kernel, which is part of the outcome.
pub fn run(case: &Case, device: &dyn Backend) -> Result<Outcome> {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&printed);
    device.set_print_sink(Arc::new(move |line| {
        sink.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }));
    let program = device.compile(&case.kernel)?.program;
    let mut arguments = LaunchArguments::new();
    let mut views = Vec::new();
    for (param, argument) in case.kernel.params.iter().zip(&case.arguments) {
        arguments = match argument {
            Argument::Scalar(literal) => arguments.scalar(literal.bits()),
            Argument::View { extents, data } => {
                let allocation = Allocation::new(device, data)?;
                let view = BufferBinding { written: param.mutable, ..BufferBinding::read(allocation.at) };
                let extents: Vec<u64> = extents.iter().map(|&extent| extent.into()).collect();
                views.push((allocation, data));
                arguments.view(view, &extents)
            }
        }
    }
    let stream = StreamId::default();
    // SAFETY: the arguments are those of the parameters in order, as `Case::new` compared them:
    // dense views of live allocations, which have as many elements, and scalars.
    let launched = unsafe { device.launch(&*program, arguments.launch(case.grid, stream)) };
    let fault = match launched.and_then(|()| device.synchronize(stream)) {
        Ok(()) => None,
        Err(Error::Fault(fault)) => Some(fault.kind),
        Err(other) => return Err(other),
    };
    let memory = views.iter().map(|(view, data)| view.read(data)).collect::<Result<_>>()?;
    drop(views);
    let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Outcome { memory, fault, printed })
}

/// Where two outcomes first differ, in words; floats may be apart by `tolerance` times their size,
/// and NaN is NaN.
pub fn difference(left: &Outcome, right: &Outcome, tolerance: f64) -> Option<String> {
    if left.fault != right.fault {
        return Some(format!("fault {:?}, {:?}", left.fault, right.fault));
    }
    if left.printed != right.printed {
        return Some(format!("printed {:?}, {:?}", left.printed, right.printed));
    }
    for (view, (l, r)) in left.memory.iter().zip(&right.memory).enumerate() {
        if let Some(at) = l.iter().zip(r).position(|(l, r)| !agrees(*l, *r, tolerance)) {
            return Some(format!("element {at} of view {view}: {}, {}", l[at], r[at]));
        }
    }
    None
}

fn agrees(a: Literal, b: Literal, tolerance: f64) -> bool {
    if a == b || !a.elem().is_float() {
        return a == b;
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    (x.is_nan() && y.is_nan())
        || (tolerance > 0.0 && (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1e-30))
}

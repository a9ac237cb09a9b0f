//! Building kernels and running them on the interpreter.

use bytemuck::{NoUninit, Pod};
use kiln_backend::{
    Backend, BufferBinding, DevicePtr, Error, Fault, FaultKind, Finding, LaunchArguments, StreamId,
};
use kiln_interp::{Interp, Options};
use kiln_ir::*;
use std::sync::{Arc, Mutex};

/// A parameter of a kernel under test. Views are mutable.
#[derive(Clone, Copy)]
pub enum P {
    View(Scalar, u32),
    Scalar(Scalar),
}

/// A kernel with these parameters.
pub fn kernel(level: Level, params: &[P], body: impl FnOnce(&mut Builder, &[Value])) -> Kernel {
    let mut kernel = Kernel::new("under_test", level);
    kernel.file("test.rs");
    let args: Vec<Value> = params
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let (ty, mutable) = match *p {
                P::View(elem, rank) => (Type::view(elem, rank, Space::Global), true),
                P::Scalar(elem) => (Type::scalar(elem), false),
            };
            kernel.add_param(Param { name: format!("p{i}"), ty, mutable, facts: Facts::default() })
        })
        .collect();
    body(&mut Builder::new(&mut kernel), &args);
    kernel
}

/// A kernel over tiles.
pub fn tiles(params: &[P], body: impl FnOnce(&mut Builder, &[Value])) -> Kernel {
    kernel(Level::Tile { warps: None }, params, body)
}

/// A kernel over blocks of `n` threads.
pub fn threads(n: u32, params: &[P], body: impl FnOnce(&mut Builder, &[Value])) -> Kernel {
    kernel(Level::Thread { block: [n, 1, 1] }, params, body)
}

/// A device whose prints are kept.
pub struct Host {
    pub device: Interp,
    pub printed: Arc<Mutex<Vec<String>>>,
}

/// Device memory with its shape, row-major.
pub struct Buffer {
    pub ptr: DevicePtr,
    pub shape: Vec<usize>,
    pub bytes: usize,
}

/// An argument of a launch.
pub enum Arg<'a> {
    Buffer(&'a Buffer),
    /// Extents and strides other than the buffer's.
    View(&'a Buffer, Vec<i64>, Vec<i64>),
    Bits(u64),
}

pub const STREAM: StreamId = StreamId(0);

impl Host {
    pub fn new() -> Host {
        Host::with(Options::fast())
    }

    pub fn sanitizing() -> Host {
        Host::with(Options::default())
    }

    /// A device set up like this.
    pub fn with(options: Options) -> Host {
        let device = Interp::new(options);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink = printed.clone();
        device.set_print_sink(Arc::new(move |line| sink.lock().unwrap().push(line.to_owned())));
        Host { device, printed }
    }

    /// Memory that holds `data`, as a matrix or vector of this shape.
    pub fn buffer<T: NoUninit>(&self, data: &[T], shape: &[usize]) -> Buffer {
        assert_eq!(data.len(), shape.iter().product::<usize>());
        let buffer = self.uninit(size_of_val(data), shape);
        // SAFETY: the allocation has the size of the data.
        unsafe { self.device.upload(buffer.ptr, bytemuck::cast_slice(data), STREAM).unwrap() };
        buffer
    }

    /// A vector that holds `data`.
    pub fn vector<T: NoUninit>(&self, data: &[T]) -> Buffer {
        self.buffer(data, &[data.len()])
    }

    /// Memory that nothing has written.
    pub fn uninit(&self, bytes: usize, shape: &[usize]) -> Buffer {
        let ptr = self.device.allocate(bytes, STREAM).unwrap();
        Buffer { ptr, shape: shape.to_vec(), bytes }
    }

    /// What a buffer holds.
    pub fn read<T: Pod>(&self, buffer: &Buffer) -> Vec<T> {
        let mut data = vec![T::zeroed(); buffer.bytes / size_of::<T>()];
        // SAFETY: the data has the size of the allocation.
        unsafe {
            self.device.download(bytemuck::cast_slice_mut(&mut data), buffer.ptr, STREAM).unwrap();
        }
        data
    }

    /// Launches and waits.
    pub fn run(&self, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> Result<(), Error> {
        let program = self.device.compile(kernel)?.program;
        let arguments = args.iter().fold(LaunchArguments::new(), |arguments, arg| match arg {
            Arg::Bits(bits) => arguments.scalar(*bits),
            Arg::Buffer(buffer) => {
                let extents: Vec<u64> = buffer.shape.iter().map(|&e| e as u64).collect();
                arguments.view(BufferBinding::write(buffer.ptr), &extents)
            }
            Arg::View(buffer, extents, strides) => {
                let [extents, strides] =
                    [extents, strides].map(|axes| axes.iter().map(|&n| n as u64).collect::<Vec<_>>());
                arguments.strided(BufferBinding::write(buffer.ptr), &extents, &strides)
            }
        });
        // SAFETY: the interpreter checks every access.
        unsafe { self.device.launch(&*program, arguments.launch(grid, STREAM))? };
        self.device.synchronize(STREAM)
    }

    /// The fault that a launch ends with.
    pub fn fault(&self, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> Fault {
        match self.run(kernel, grid, args) {
            Err(Error::Fault(fault)) => *fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    /// The rule that the sanitizer found broken, and its words.
    pub fn finding(&self, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> (Finding, String) {
        match self.fault(kernel, grid, args).kind {
            FaultKind::Sanitizer { finding, detail } => (finding, detail),
            other => panic!("expected a finding, got {other:?}"),
        }
    }
}

/// Buffers as arguments.
pub fn args<'a>(buffers: &[&'a Buffer]) -> Vec<Arg<'a>> {
    buffers.iter().map(|b| Arg::Buffer(b)).collect()
}

/// Elements as the bytes they have in memory.
pub fn encode(elem: Scalar, bits: &[u64]) -> Vec<u8> {
    bits.iter().flat_map(|b| b.to_le_bytes()[..elem.bytes() as usize].to_vec()).collect()
}

/// The bits of elements in memory.
pub fn decode(elem: Scalar, bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(elem.bytes() as usize)
        .map(|c| c.iter().rev().fold(0, |bits, &b| bits << 8 | u64::from(b)))
        .collect()
}

/// Applies a function on tiles to vectors of elements given by their bits.
pub fn map_tile(
    inputs: &[(Scalar, &[u64])],
    out: Scalar,
    f: impl FnOnce(&mut Builder, &[Value]) -> Value,
) -> Result<Vec<u64>, Error> {
    let n = inputs[0].1.len();
    let shape = Shape::new(&[n as u32]);
    let mut params: Vec<P> = inputs.iter().map(|&(elem, _)| P::View(elem, 1)).collect();
    params.push(P::View(out, 1));
    let kernel = tiles(&params, |b, args| {
        let zero = b.index(0);
        let loaded: Vec<Value> = inputs
            .iter()
            .zip(args)
            .map(|(&(elem, _), &view)| {
                let padding = b.constant(Literal::zero(elem));
                b.load(view, &[zero], padding, shape.clone(), Reuse::Normal)
            })
            .collect();
        let result = f(b, &loaded);
        b.store(args[inputs.len()], &[zero], result, Reuse::Normal, true);
    });
    let host = Host::new();
    let mut buffers: Vec<Buffer> = inputs
        .iter()
        .map(|(elem, bits)| Buffer { shape: vec![n], ..host.vector(&encode(*elem, bits)) })
        .collect();
    let out_bytes = n * out.bytes() as usize;
    buffers.push(host.uninit(out_bytes, &[n]));
    host.run(&kernel, [1; 3], &args(&buffers.iter().collect::<Vec<_>>()))?;
    Ok(decode(out, &host.read::<u8>(&buffers[inputs.len()])))
}

/// Control flow for builders.
pub trait Flow {
    fn at(&mut self, line: u32) -> &mut Self;
    fn i32(&mut self, value: i32) -> Value;
    fn f32(&mut self, value: f32) -> Value;
    fn load_at(&mut self, view: Value, index: Value) -> Value;
    fn store_at(&mut self, view: Value, index: Value, value: Value);
    fn if_(
        &mut self,
        cond: Value,
        results: &[Type],
        then: impl FnOnce(&mut Builder) -> Vec<Value>,
        or: impl FnOnce(&mut Builder) -> Vec<Value>,
    ) -> Vec<Value>;
    fn for_(
        &mut self,
        bounds: [Value; 3],
        inits: &[Value],
        body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value>;
    fn while_(
        &mut self,
        inits: &[Value],
        cond: impl FnOnce(&mut Builder, &[Value]) -> Value,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value>;
}

/// A region whose arguments have these types.
fn region<R>(b: &mut Builder, types: &[Type], fill: impl FnOnce(&mut Builder, &[Value]) -> R) -> (Block, R) {
    let block = b.kernel.add_block();
    let args: Vec<Value> = types.iter().map(|t| b.kernel.add_arg(block, t.clone())).collect();
    let outer = std::mem::replace(&mut b.block, block);
    let result = fill(b, &args);
    b.block = outer;
    (block, result)
}

impl Flow for Builder<'_> {
    fn at(&mut self, line: u32) -> &mut Self {
        self.loc = Loc { file: 0, line, column: 1 };
        self
    }

    fn i32(&mut self, value: i32) -> Value {
        self.constant(Literal::wrapping(Scalar::I32, value.into()))
    }

    fn f32(&mut self, value: f32) -> Value {
        self.constant(Literal::f32(value))
    }

    fn load_at(&mut self, view: Value, index: Value) -> Value {
        let padding = self.constant(Literal::zero(self.kernel.ty(view).elem()));
        self.gather(view, &[index], None, padding, Bounds::Check)
    }

    fn store_at(&mut self, view: Value, index: Value, value: Value) {
        self.scatter(view, &[index], None, value, Bounds::Check);
    }

    fn if_(
        &mut self,
        cond: Value,
        results: &[Type],
        then: impl FnOnce(&mut Builder) -> Vec<Value>,
        or: impl FnOnce(&mut Builder) -> Vec<Value>,
    ) -> Vec<Value> {
        let (then, ()) = region(self, &[], |b, _| {
            let values = then(b);
            b.yield_(&values);
        });
        let (or, ()) = region(self, &[], |b, _| {
            let values = or(b);
            b.yield_(&values);
        });
        let op = self.kernel.append(self.block, OpKind::If, &[cond], results, &[then, or], self.loc);
        self.kernel.op(op).results.to_vec()
    }

    fn for_(
        &mut self,
        bounds: [Value; 3],
        inits: &[Value],
        body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let carried: Vec<Type> = inits.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let mut types = vec![self.kernel.ty(bounds[0]).clone()];
        types.extend(carried.iter().cloned());
        let (block, ()) = region(self, &types, |b, args| {
            let values = body(b, args[0], &args[1..]);
            b.yield_(&values);
        });
        let operands = [&bounds[..], inits].concat();
        let op = self.kernel.append(self.block, OpKind::For, &operands, &carried, &[block], self.loc);
        self.kernel.op(op).results.to_vec()
    }

    fn while_(
        &mut self,
        inits: &[Value],
        cond: impl FnOnce(&mut Builder, &[Value]) -> Value,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = inits.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let (test, ()) = region(self, &types, |b, args| {
            let holds = cond(b, args);
            b.op(OpKind::Condition, &[holds], &[]);
        });
        let (block, ()) = region(self, &types, |b, args| {
            let values = body(b, args);
            b.yield_(&values);
        });
        let op = self.kernel.append(self.block, OpKind::While, inits, &types, &[test, block], self.loc);
        self.kernel.op(op).results.to_vec()
    }
}

//! The part of the driver's C interface that Kiln calls: handles, constants, structures and the
//! table of entry points.
//!
//! An own table and not a binding crate: the driver's interface is stable by contract (a changed
//! function gets a new `_v2` symbol), Kiln needs some sixty of its six hundred functions, and a
//! table that is filled once answers a missing library, a driver that is too old and a missing
//! symbol with an error value. The binding crates look symbols up lazily and panic where one is
//! missing, and cost 17,000 lines of generated code.
//!
//! Every entry of the table is a method of [`Api`] under the driver's own name, which turns the
//! status into a `Result`. A call whose status is an answer and not a failure (`cuEventQuery`) goes
//! through the field of the same name instead.

use super::error::CudaError;
pub use super::status::Status;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Declares opaque handles of the driver.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// The handle that names nothing.
            pub const NULL: $name = $name(std::ptr::null_mut());
        }

        // SAFETY: a handle is a name that only the driver dereferences. The driver's interface may
        // be called from any thread, and a handle made on one thread may be used on another as long
        // as its context is current there, which `Context::bind` sees to. The driver serializes
        // calls on one object itself; what order concurrent calls take effect in is the caller's
        // business, and never a memory error on the host.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}

handles! {
    /// A context: the process's state on one GPU.
    ContextHandle;
    /// A loaded module.
    ModuleHandle;
    /// A kernel of a module.
    FunctionHandle;
    /// A stream.
    StreamHandle;
    /// An event.
    EventHandle;
    /// A pool of device memory.
    PoolHandle;
    /// A run of the driver's linker.
    LinkHandle;
    /// A graph as captured.
    GraphHandle;
    /// A node of a graph.
    GraphNodeHandle;
    /// A graph ready to launch.
    GraphExecHandle;
    /// Memory of another interface to the GPU, taken in by its handle.
    ExternalMemoryHandle;
}

/// A GPU's number in the driver.
pub type DeviceHandle = c_int;

/// An address in device memory.
pub type Address = u64;

/// A kind of location for memory: a GPU.
pub const MEM_LOCATION_DEVICE: c_int = 1;
/// The kind of allocation a pool makes: ordinary device memory.
pub const MEM_ALLOCATION_PINNED: c_int = 1;
/// Pool attribute: how many unused bytes to keep at a synchronization.
pub const POOL_RELEASE_THRESHOLD: c_int = 4;
/// Pool attribute: bytes the pool holds.
pub const POOL_RESERVED: c_int = 5;
/// Pool attribute: bytes of them in use.
pub const POOL_USED: c_int = 7;

/// Attribute of a pointer: the number of the device whose memory it is in.
pub const POINTER_DEVICE_ORDINAL: c_int = 9;
/// `CU_LIMIT_STACK_SIZE`: bytes of local memory that a thread may have.
pub const LIMIT_STACK_SIZE: c_int = 0;
/// Host memory flag: pinned for all contexts.
pub const HOST_PORTABLE: c_uint = 1;
/// Host memory flag: mapped into the device's address space.
pub const HOST_MAPPED: c_uint = 2;

/// Stream flag: no implicit ordering with the legacy default stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// Event flag: the waiting thread sleeps and does not spin.
pub const EVENT_BLOCKING_SYNC: c_uint = 1;
/// Event flag: no time stamp, which makes recording cheaper.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// Capture mode: calls that cannot be captured fail on the capturing thread only.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;
/// Capture status: the stream is capturing.
pub const CAPTURE_ACTIVE: c_int = 1;

/// Marks the address of the packed parameters in the last argument of a launch.
pub const LAUNCH_PARAM_BUFFER: usize = 1;
/// Marks the size of the packed parameters.
pub const LAUNCH_PARAM_SIZE: usize = 2;

/// Answer of `cuModuleGetLoadingMode`: kernels are loaded with their module.
pub const EAGER_LOADING: c_int = 1;

/// Kind of link input: PTX text.
pub const JIT_INPUT_PTX: c_int = 1;

/// Options of the driver's compiler.
pub mod jit_option {
    use std::ffi::c_int;
    /// The most registers a thread may have.
    pub const MAX_REGISTERS: c_int = 0;
    /// Where information messages go.
    pub const INFO_LOG: c_int = 3;
    /// How much room there is for them; on return, how much is used.
    pub const INFO_LOG_BYTES: c_int = 4;
    /// Where errors go.
    pub const ERROR_LOG: c_int = 5;
    /// How much room there is for them; on return, how much is used.
    pub const ERROR_LOG_BYTES: c_int = 6;
    /// From 0 to 4.
    pub const OPTIMIZATION_LEVEL: c_int = 7;
    /// Registers, spills and shared memory in the information log.
    pub const LOG_VERBOSE: c_int = 12;
    /// Source lines for profilers.
    pub const LINE_INFO: c_int = 13;
}

/// Launch attribute: all blocks run at once.
pub const ATTRIBUTE_COOPERATIVE: c_uint = 2;
/// Launch attribute: blocks to a cluster.
pub const ATTRIBUTE_CLUSTER: c_uint = 4;

/// What a new pool is like.
#[repr(C)]
#[derive(Debug)]
pub struct PoolProperties {
    /// [`MEM_ALLOCATION_PINNED`].
    pub allocation: c_int,
    /// Kinds of handle it can be exported by: none.
    pub handle_types: c_int,
    /// [`MEM_LOCATION_DEVICE`].
    pub location: c_int,
    /// The GPU.
    pub device: DeviceHandle,
    /// Windows only.
    pub security: *mut c_void,
    /// Its largest size, 0 for the device's; drivers before 12.2 want 0.
    pub max_bytes: usize,
    /// Zero.
    pub reserved: [u8; 56],
}

/// What a GPU may do with the memory of a pool.
#[repr(C)]
#[derive(Debug)]
pub struct PoolAccess {
    /// [`MEM_LOCATION_DEVICE`].
    pub location: c_int,
    /// The GPU.
    pub device: DeviceHandle,
    /// [`ACCESS_READ_WRITE`].
    pub access: c_int,
}

/// Permission to read and write.
pub const ACCESS_READ_WRITE: c_int = 3;

/// Kind of external memory: a file descriptor, which the driver owns once it has taken the memory
/// in.
pub const EXTERNAL_OPAQUE_FD: c_int = 1;

/// The memory that `cuImportExternalMemory` takes in.
#[repr(C)]
#[derive(Debug)]
pub struct ExternalMemoryDescription {
    /// [`EXTERNAL_OPAQUE_FD`].
    pub kind: c_int,
    /// A union of two pointers, whose first four bytes are the file descriptor.
    pub handle: ExternalFd,
    /// The size of the allocation.
    pub bytes: u64,
    /// Zero.
    pub flags: c_uint,
    /// Zero.
    pub reserved: [c_uint; 16],
}

/// A file descriptor in the union of an [`ExternalMemoryDescription`].
#[repr(C, align(8))]
#[derive(Debug)]
pub struct ExternalFd {
    /// The descriptor.
    pub fd: c_int,
    /// Zero.
    pub rest: [c_uint; 3],
}

/// The part of external memory that `cuExternalMemoryGetMappedBuffer` gives an address.
#[repr(C)]
#[derive(Debug)]
pub struct ExternalBufferDescription {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Zero.
    pub flags: c_uint,
    /// Zero.
    pub reserved: [c_uint; 16],
}
/// Tensor map: channels are not interleaved.
pub const MAP_INTERLEAVE_NONE: c_int = 0;
/// Tensor map: 16-byte chunks of rows of 128 bytes are permuted in shared memory.
pub const MAP_SWIZZLE_128: c_int = 3;
/// Tensor map: L2 fetches 256 bytes at a time.
pub const MAP_PROMOTE_256: c_int = 3;
/// Tensor map: what lies outside is zero.
pub const MAP_FILL_ZERO: c_int = 0;

/// What `cuLaunchKernelEx` launches.
#[repr(C)]
#[derive(Debug)]
pub struct LaunchDescription {
    /// Blocks.
    pub grid: [c_uint; 3],
    /// Threads of a block.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: StreamHandle,
    /// Attributes.
    pub attributes: *mut LaunchAttribute,
    /// How many.
    pub attribute_count: c_uint,
}

/// An attribute of a launch. The value is a union of 64 bytes of which Kiln uses the first three
/// words.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    /// [`ATTRIBUTE_COOPERATIVE`] or [`ATTRIBUTE_CLUSTER`].
    pub id: c_uint,
    /// Zero.
    pub pad: c_uint,
    /// The value.
    pub value: [c_uint; 16],
}

/// What a kernel node of a graph launches: `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Debug)]
pub struct KernelNodeDescription {
    /// The kernel.
    pub function: FunctionHandle,
    /// Blocks.
    pub grid: [c_uint; 3],
    /// Threads of a block.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: c_uint,
    /// The address of each parameter.
    pub parameters: *mut *mut c_void,
    /// Null: parameters are not packed.
    pub extra: *mut *mut c_void,
    /// Null: used where there is no function.
    pub kernel: *mut c_void,
    /// Null: used where there is no function.
    pub context: ContextHandle,
}

/// A kind of memory: a GPU's.
pub const MEMORY_DEVICE: c_uint = 2;

/// One side of a copy, in a [`CopyNodeDescription`].
#[repr(C)]
#[derive(Debug)]
pub struct CopySide {
    /// The first byte, row and slice, and a level of detail: 0.
    pub first: [usize; 4],
    /// [`MEMORY_DEVICE`].
    pub kind: c_uint,
    /// Null.
    pub host: *mut c_void,
    /// The address.
    pub device: Address,
    /// Null.
    pub array: *mut c_void,
    /// Null.
    pub reserved: *mut c_void,
    /// Bytes from a row to the next.
    pub pitch: usize,
    /// Rows from a slice to the next.
    pub height: usize,
}

/// What a copy node of a graph copies: `CUDA_MEMCPY3D_v2`.
#[repr(C)]
#[derive(Debug)]
pub struct CopyNodeDescription {
    /// Where from.
    pub from: CopySide,
    /// Where to.
    pub to: CopySide,
    /// Bytes of a row.
    pub bytes: usize,
    /// Rows.
    pub rows: usize,
    /// Slices.
    pub slices: usize,
}

/// What a fill node of a graph fills: `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub struct FillNodeDescription {
    /// Where.
    pub to: Address,
    /// Bytes from a row to the next; unused for one row.
    pub pitch: usize,
    /// With what.
    pub value: c_uint,
    /// Bytes of an element.
    pub element_bytes: c_uint,
    /// Elements of a row.
    pub elements: usize,
    /// Rows.
    pub rows: usize,
}

/// The value of a [`LaunchAttribute`] for `cuGraphKernelNodeSetAttribute`.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttributeValue(pub [c_uint; 16]);

/// Declares the table of entry points: those every driver Kiln accepts has, and those that came
/// later.
macro_rules! driver_functions {
    (
        required { $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)* }
        optional { $(fn $late:ident($($late_arg:ident: $late_ty:ty),* $(,)?);)* }
    ) => {
        /// The driver's entry points. Every method may fail with any error of [`CudaError`] that a
        /// call can have.
        ///
        /// # Safety
        /// The methods are unsafe as the C functions are: handles must be live, pointers valid for
        /// what the function reads and writes, and the right context current.
        #[allow(non_snake_case)]
        pub struct Api {
            $(pub(super) $name: unsafe extern "system" fn($($ty),*) -> Status,)*
            $(pub(super) $late: Option<unsafe extern "system" fn($($late_ty),*) -> Status>,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]
        impl Api {
            /// Looks every entry point up.
            pub(super) fn load(library: Library) -> Result<Api, CudaError> {
                let api = Api {
                    $($name: required(&library, stringify!($name))?,)*
                    $($late: optional(&library, stringify!($late)),)*
                };
                // The library is loaded for the life of the process: errors carry its constant
                // strings, and it does not survive being unloaded after its initialization anyway.
                std::mem::forget(library);
                Ok(api)
            }

            $(
                #[doc = concat!("The driver's `", stringify!($name), "`.")]
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), CudaError> {
                    // SAFETY: the caller keeps the function's contract; the table has its C
                    // signature.
                    self.check(stringify!($name), unsafe { (self.$name)($($arg),*) })
                }
            )*

            $(
                #[doc = concat!("The driver's `", stringify!($late), "`, an error where the driver is too old for it.")]
                pub unsafe fn $late(&self, $($late_arg: $late_ty),*) -> Result<(), CudaError> {
                    let Some(function) = self.$late else {
                        return Err(CudaError::SymbolMissing { symbol: stringify!($late) });
                    };
                    // SAFETY: as above.
                    self.check(stringify!($late), unsafe { function($($late_arg),*) })
                }
            )*
        }
    };
}

driver_functions! {
    required {
        fn cuInit(flags: c_uint);
        fn cuDriverGetVersion(version: *mut c_int);
        fn cuGetErrorName(status: Status, name: *mut *const c_char);
        fn cuGetErrorString(status: Status, text: *mut *const c_char);

        fn cuDeviceGetCount(count: *mut c_int);
        fn cuDeviceGet(device: *mut DeviceHandle, ordinal: c_int);
        fn cuDeviceGetName(name: *mut c_char, length: c_int, device: DeviceHandle);
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: DeviceHandle);
        fn cuDeviceTotalMem_v2(bytes: *mut usize, device: DeviceHandle);
        fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: DeviceHandle);
        fn cuDeviceCanAccessPeer(can: *mut c_int, device: DeviceHandle, owner: DeviceHandle);

        fn cuDevicePrimaryCtxRetain(context: *mut ContextHandle, device: DeviceHandle);
        fn cuDevicePrimaryCtxRelease_v2(device: DeviceHandle);
        fn cuCtxCreate_v2(context: *mut ContextHandle, flags: c_uint, device: DeviceHandle);
        fn cuCtxGetCurrent(context: *mut ContextHandle);
        fn cuCtxSetCurrent(context: ContextHandle);
        fn cuCtxSynchronize();
        fn cuCtxGetLimit(value: *mut usize, limit: c_int);
        fn cuCtxSetLimit(limit: c_int, value: usize);
        fn cuCtxEnablePeerAccess(owner: ContextHandle, flags: c_uint);
        fn cuModuleGetLoadingMode(mode: *mut c_int);

        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        fn cuMemAlloc_v2(address: *mut Address, bytes: usize);
        fn cuMemFree_v2(address: Address);
        fn cuMemPoolCreate(pool: *mut PoolHandle, properties: *const PoolProperties);
        fn cuMemPoolDestroy(pool: PoolHandle);
        fn cuMemPoolSetAttribute(pool: PoolHandle, attribute: c_int, value: *mut c_void);
        fn cuMemPoolGetAttribute(pool: PoolHandle, attribute: c_int, value: *mut c_void);
        fn cuMemPoolSetAccess(pool: PoolHandle, access: *const PoolAccess, count: usize);
        fn cuMemPoolTrimTo(pool: PoolHandle, keep: usize);
        fn cuMemAllocFromPoolAsync(address: *mut Address, bytes: usize, pool: PoolHandle, stream: StreamHandle);
        fn cuMemFreeAsync(address: Address, stream: StreamHandle);
        fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemFreeHost(pointer: *mut c_void);
        fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemHostUnregister(pointer: *mut c_void);
        fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, pointer: Address);
        fn cuMemHostGetDevicePointer_v2(address: *mut Address, pointer: *mut c_void, flags: c_uint);
        fn cuImportExternalMemory(memory: *mut ExternalMemoryHandle, description: *const ExternalMemoryDescription);
        fn cuExternalMemoryGetMappedBuffer(
            address: *mut Address, memory: ExternalMemoryHandle, description: *const ExternalBufferDescription,
        );
        fn cuDestroyExternalMemory(memory: ExternalMemoryHandle);
        fn cuMemcpyHtoDAsync_v2(destination: Address, source: *const c_void, bytes: usize, stream: StreamHandle);
        fn cuMemcpyDtoHAsync_v2(destination: *mut c_void, source: Address, bytes: usize, stream: StreamHandle);
        fn cuMemcpyDtoDAsync_v2(destination: Address, source: Address, bytes: usize, stream: StreamHandle);
        fn cuMemsetD8Async(destination: Address, value: u8, count: usize, stream: StreamHandle);
        fn cuMemsetD32Async(destination: Address, value: c_uint, count: usize, stream: StreamHandle);

        fn cuModuleLoadDataEx(
            module: *mut ModuleHandle, image: *const c_void, options: c_uint, keys: *mut c_int, values: *mut *mut c_void,
        );
        fn cuModuleUnload(module: ModuleHandle);
        fn cuModuleGetFunction(function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char);
        fn cuLinkCreate_v2(options: c_uint, keys: *mut c_int, values: *mut *mut c_void, link: *mut LinkHandle);
        fn cuLinkAddData_v2(
            link: LinkHandle, kind: c_int, data: *mut c_void, bytes: usize, name: *const c_char,
            options: c_uint, keys: *mut c_int, values: *mut *mut c_void,
        );
        fn cuLinkComplete(link: LinkHandle, cubin: *mut *mut c_void, bytes: *mut usize);
        fn cuLinkDestroy(link: LinkHandle);

        fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: FunctionHandle);
        fn cuFuncSetAttribute(function: FunctionHandle, attribute: c_int, value: c_int);
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int, function: FunctionHandle, threads: c_int, shared_bytes: usize,
        );
        fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: FunctionHandle, launch: *const LaunchDescription);
        fn cuLaunchKernel(
            function: FunctionHandle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared_bytes: c_uint, stream: StreamHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
        );
        fn cuLaunchKernelEx(
            launch: *const LaunchDescription, function: FunctionHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
        );

        fn cuStreamCreateWithPriority(stream: *mut StreamHandle, flags: c_uint, priority: c_int);
        fn cuLaunchHostFunc(stream: StreamHandle, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void);
        fn cuStreamDestroy_v2(stream: StreamHandle);
        fn cuStreamSynchronize(stream: StreamHandle);
        fn cuStreamQuery(stream: StreamHandle);
        fn cuStreamWaitEvent(stream: StreamHandle, event: EventHandle, flags: c_uint);
        fn cuStreamBeginCapture_v2(stream: StreamHandle, mode: c_int);
        fn cuStreamEndCapture(stream: StreamHandle, graph: *mut GraphHandle);
        fn cuStreamIsCapturing(stream: StreamHandle, status: *mut c_int);

        fn cuEventCreate(event: *mut EventHandle, flags: c_uint);
        fn cuEventDestroy_v2(event: EventHandle);
        fn cuEventRecord(event: EventHandle, stream: StreamHandle);
        fn cuEventQuery(event: EventHandle);
        fn cuEventSynchronize(event: EventHandle);
        fn cuEventElapsedTime(milliseconds: *mut f32, start: EventHandle, end: EventHandle);

        fn cuGraphInstantiateWithFlags(exec: *mut GraphExecHandle, graph: GraphHandle, flags: u64);
        fn cuGraphGetNodes(graph: GraphHandle, nodes: *mut *mut c_void, count: *mut usize);
        fn cuGraphUpload(exec: GraphExecHandle, stream: StreamHandle);
        fn cuGraphLaunch(exec: GraphExecHandle, stream: StreamHandle);
        fn cuGraphExecDestroy(exec: GraphExecHandle);
        fn cuGraphDestroy(graph: GraphHandle);
    }
    optional {
        // CUDA 12.4.
        fn cuFuncLoad(function: FunctionHandle);
        // CUDA 12.0.
        fn cuTensorMapEncodeTiled(
            map: *mut c_void, elem: c_int, rank: c_uint, base: Address, extents: *const u64, strides: *const u64,
            extents_of_box: *const c_uint, steps: *const c_uint, interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int,
        );
        // The parameters of kernel nodes as of CUDA 12.0; the others are older.
        fn cuGraphCreate(graph: *mut GraphHandle, flags: c_uint);
        fn cuGraphAddKernelNode_v2(
            node: *mut GraphNodeHandle, graph: GraphHandle, after: *const GraphNodeHandle, count: usize,
            description: *const KernelNodeDescription,
        );
        fn cuGraphKernelNodeSetAttribute(
            node: GraphNodeHandle, attribute: c_uint, value: *const LaunchAttributeValue,
        );
        fn cuGraphAddMemcpyNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, after: *const GraphNodeHandle, count: usize,
            description: *const CopyNodeDescription, context: ContextHandle,
        );
        fn cuGraphAddMemsetNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, after: *const GraphNodeHandle, count: usize,
            description: *const FillNodeDescription, context: ContextHandle,
        );
        fn cuGraphAddEmptyNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, after: *const GraphNodeHandle, count: usize,
        );
        fn cuGraphExecKernelNodeSetParams_v2(
            exec: GraphExecHandle, node: GraphNodeHandle, description: *const KernelNodeDescription,
        );
        fn cuFuncIsLoaded(state: *mut c_int, function: FunctionHandle);
    }
}

/// The address of an entry point. Not generic, as looking it up by its type would be: the table
/// has sixty types.
fn address(library: &Library, symbol: &'static str) -> Option<*const c_void> {
    // SAFETY: the address of a symbol is a pointer.
    unsafe { library.get::<*const c_void>(symbol) }.ok().map(|entry| *entry)
}

fn optional<F: Copy>(library: &Library, symbol: &'static str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: `F` is a function pointer with the C signature of this symbol, as declared in the
    // table above from NVIDIA's documentation, and so the symbol's address is one.
    address(library, symbol).map(|address| unsafe { std::mem::transmute_copy(&address) })
}

fn required<F: Copy>(library: &Library, symbol: &'static str) -> Result<F, CudaError> {
    optional(library, symbol).ok_or(CudaError::SymbolMissing { symbol })
}

impl Api {
    /// Turns the status of `call` into a result.
    #[inline]
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), CudaError> {
        if status == Status::SUCCESS { Ok(()) } else { Err(self.error(call, status)) }
    }

    /// The error for the status of `call`.
    #[cold]
    pub fn error(&self, call: &'static str, status: Status) -> CudaError {
        CudaError::from_status(call, status, self.name(status), self.text(self.cuGetErrorString, status))
    }

    /// The driver's name for a status.
    pub fn name(&self, status: Status) -> &'static str {
        self.text(self.cuGetErrorName, status)
    }

    /// One of the driver's texts about a status: constants of the library, which is never unloaded.
    fn text(
        &self,
        source: unsafe extern "system" fn(Status, *mut *const c_char) -> Status,
        status: Status,
    ) -> &'static str {
        let mut text = std::ptr::null();
        // SAFETY: `text` is writable; the driver stores the address of a constant string, or null
        // for a status it does not know.
        let answer = unsafe { source(status, &mut text) };
        if answer != Status::SUCCESS || text.is_null() {
            return "unknown to this driver";
        }
        // SAFETY: a constant, NUL-terminated string of the library.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("not text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The layouts of the driver's header on 64-bit targets.
    #[test]
    fn structures_match_the_driver() {
        assert_eq!(size_of::<PoolProperties>(), 88);
        assert_eq!(offset_of!(PoolProperties, security), 16);
        assert_eq!(offset_of!(PoolProperties, max_bytes), 24);
        assert_eq!(size_of::<PoolAccess>(), 12);
        assert_eq!(size_of::<ExternalMemoryDescription>(), 104);
        assert_eq!(offset_of!(ExternalMemoryDescription, handle), 8);
        assert_eq!(offset_of!(ExternalMemoryDescription, bytes), 24);
        assert_eq!(offset_of!(ExternalMemoryDescription, flags), 32);
        assert_eq!(size_of::<ExternalBufferDescription>(), 88);
        assert_eq!(size_of::<LaunchDescription>(), 56);
        assert_eq!(offset_of!(LaunchDescription, stream), 32);
        assert_eq!(offset_of!(LaunchDescription, attribute_count), 48);
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(offset_of!(LaunchAttribute, value), 8);
        assert_eq!(size_of::<KernelNodeDescription>(), 72);
        assert_eq!(offset_of!(KernelNodeDescription, shared_bytes), 32);
        assert_eq!(offset_of!(KernelNodeDescription, parameters), 40);
        assert_eq!(offset_of!(KernelNodeDescription, context), 64);
        assert_eq!(size_of::<CopyNodeDescription>(), 200);
        assert_eq!(offset_of!(CopySide, kind), 32);
        assert_eq!(offset_of!(CopySide, host), 40);
        assert_eq!(offset_of!(CopySide, pitch), 72);
        assert_eq!(offset_of!(CopyNodeDescription, to), 88);
        assert_eq!(offset_of!(CopyNodeDescription, bytes), 176);
        assert_eq!(size_of::<FillNodeDescription>(), 40);
        assert_eq!(offset_of!(FillNodeDescription, value), 16);
        assert_eq!(offset_of!(FillNodeDescription, elements), 24);
        assert_eq!(size_of::<LaunchAttributeValue>(), 64);
    }

    #[test]
    fn statuses_that_cost_the_context() {
        for lost in [214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719] {
            assert!(Status(lost).loses_context(), "{lost}");
        }
        for kept in [0, 1, 2, 200, 209, 218, 222, 304, 500, 600, 701, 704, 712, 713, 720, 800, 801, 900, 999]
        {
            assert!(!Status(kept).loses_context(), "{kept}");
        }
    }
}

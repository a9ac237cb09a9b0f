//! From a kernel with uniform control flow to machine code.
//!
//! Cranelift makes the control flow, the scalar arithmetic and the addresses; tiles are the
//! business of [`primitives`](kiln_cpu_primitives), which the code calls on scratch memory. See
//! `emitter.rs` for how values are represented.
//!
//! | file | holds |
//! |---|---|
//! | `emitter.rs` | the walk over operations, values, scratch memory |
//! | `asm.rs` | a thin layer over Cranelift |
//! | `liveness.rs`, `arena.rs` | when tiles die, where they lie |
//! | `scalar.rs` | scalar operations |
//! | `group.rs` | element-wise operations on tiles, fused chunk by chunk |
//! | `affine.rs`, `condition.rs`, `lane_values.rs` | values that follow from a lane's place |
//! | `lane_atomic.rs` | atomics of lanes |
//! | `lane_box.rs` | where conditions hold |
//! | `lane_constants.rs` | values of lanes that are known now |
//! | `lane_group.rs`, `lane_plan.rs` | operations of lanes, fused |
//! | `lane_loop.rs`, `pack.rs` | likewise, in registers |
//! | `warp.rs` | shuffles and votes |
//! | `boxes.rs`, `elements.rs` | access to memory by boxes and by indices |
//! | `atomic.rs` | atomics that are one instruction |
//! | `ordered.rs` | ordered accesses of elements and quads |
//! | `tile.rs` | reductions, scans, moves, matrix products |
//! | `control.rs` | branches and loops |
//! | `diagnostics.rs` | faults and prints |

mod affine;
mod arena;
mod asm;
mod atomic;
mod boxes;
mod condition;
mod control;
mod diagnostics;
mod elements;
mod emitter;
mod group;
mod lane_atomic;
mod lane_box;
mod lane_constants;
mod lane_group;
mod lane_loop;
mod lane_plan;
mod lane_values;
mod liveness;
mod ordered;
mod pack;
mod pending;
mod repr;
mod scalar;
mod tile;
mod warp;

use crate::frame::Entry;
use crate::memory::last_level_cache;
use crate::site::{Site, SiteKind};
use crate::spmd::Lockstep;
use asm::Asm;
use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};
use emitter::Emitter;
use kiln_backend::{Error, Result};
use kiln_ir::Kernel;
use std::sync::{LazyLock, OnceLock};

/// Machine code, and what it refers to.
pub(crate) struct Code {
    entry: Entry,
    /// Bytes of scratch memory a worker needs.
    pub(crate) scratch_bytes: usize,
    /// The places that fault or print.
    pub(crate) sites: Vec<Site>,
    /// Whether it has loops that look whether the launch is to stop.
    pub(crate) checks_time: bool,
    /// Owns the executable memory; taken when this is dropped.
    module: Option<JITModule>,
    /// Read by the code through their addresses.
    _constants: Vec<Box<[i64]>>,
}

// SAFETY: after compilation the module is only kept for its memory, which nothing writes and which
// is freed once, with exclusive access.
unsafe impl Send for Code {}
// SAFETY: as above; a shared reference gives out nothing but the entry point and plain data.
unsafe impl Sync for Code {}

impl Code {
    /// The function to run a program with. It must not be called after this is dropped.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: programs run only while a launch holds the program that owns this.
            unsafe { module.free_memory() };
        }
    }
}

/// What is compiled: a kernel whose control flow is uniform.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The kernel.
    pub(crate) kernel: &'a Kernel,
    /// What it was made from, if it was written for threads.
    pub(crate) lockstep: Option<&'a Lockstep>,
    /// How tiles pass through the caches.
    pub(crate) blocking: Blocking,
}

/// How tiles pass through the caches. Results do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    /// Elements of a tile that a group of element-wise operations works on at a time.
    pub(crate) chunk: usize,
    /// The largest view, in bytes, that streamed stores leave in the caches: inputs want room
    /// there, too.
    pub(crate) cached: u64,
}

impl Default for Blocking {
    /// A few chunks of 4-byte elements fit an L1 cache, and calls cost little beside the work; half
    /// of the last-level cache is an output's.
    fn default() -> Blocking {
        static CACHED: LazyLock<u64> =
            LazyLock::new(|| last_level_cache().map_or(16 << 20, |bytes| bytes / 2));
        Blocking { chunk: 1024, cached: *CACHED }
    }
}

/// Compiles a kernel.
pub(crate) fn compile(source: &Source<'_>) -> Result<Code> {
    let kernel = source.kernel;
    let isa = target().as_ref().map_err(|e| cannot(kernel, e.clone()))?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa.clone(), default_libcall_names()));
    let mut context = module.make_context();
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    context.func.signature = signature.clone();
    context.func.name = UserFuncName::user(0, 0);

    let mut frontend = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let mut emitter = Emitter::new(*source, Asm::new(builder, isa.default_call_conv()));
    emitter.function()?;
    let Emitter { asm, arena, sites, constants, .. } = emitter;
    let checks_time = sites.iter().any(|site| matches!(site.kind, SiteKind::Stopped));
    asm.finish(isa.frontend_config());

    let function =
        module.declare_anonymous_function(&signature).map_err(|e| cannot(kernel, format!("{e}")))?;
    module.define_function(function, &mut context).map_err(|e| cannot(kernel, format!("{e:?}")))?;
    module.finalize_definitions().map_err(|e| cannot(kernel, format!("{e}")))?;
    let entry = entry_point(&module, function);
    let (scratch_bytes, module) = (arena.bytes(), Some(module));
    Ok(Code { entry, scratch_bytes, sites, checks_time, module, _constants: constants })
}

/// What Cranelift makes of a kernel, before it selects instructions.
pub(crate) fn clif(source: &Source<'_>) -> Result<String> {
    let kernel = source.kernel;
    let isa = target().as_ref().map_err(|e| cannot(kernel, e.clone()))?;
    let mut function = cranelift_codegen::ir::Function::new();
    function.signature = Signature::new(isa.default_call_conv());
    function.signature.params.push(AbiParam::new(types::I64));
    function.signature.returns.push(AbiParam::new(types::I32));
    let mut frontend = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut function, &mut frontend);
    let mut emitter = Emitter::new(*source, Asm::new(builder, isa.default_call_conv()));
    emitter.function()?;
    emitter.asm.finish(isa.frontend_config());
    Ok(function.display().to_string())
}

fn entry_point(module: &JITModule, function: FuncId) -> Entry {
    let code = module.get_finalized_function(function);
    // SAFETY: the function was defined with this signature, in the platform's calling convention.
    unsafe { std::mem::transmute::<*const u8, Entry>(code) }
}

fn cannot(kernel: &Kernel, message: String) -> Error {
    let location = kiln_ir::UNKNOWN_LOCATION.into();
    Error::Compile { kernel: kernel.name.clone(), location, message }
}

/// This machine, for Cranelift.
fn target() -> &'static std::result::Result<OwnedTargetIsa, String> {
    static TARGET: OnceLock<std::result::Result<OwnedTargetIsa, String>> = OnceLock::new();
    TARGET.get_or_init(|| {
        let mut flags = settings::builder();
        let verify = if cfg!(debug_assertions) { "true" } else { "false" };
        for (name, value) in [
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("opt_level", "speed"),
            ("enable_verifier", verify),
            ("unwind_info", "false"),
        ] {
            flags.set(name, value).map_err(|e| format!("Cranelift has no setting {name}: {e}"))?;
        }
        let isa =
            cranelift_native::builder().map_err(|e| format!("Cranelift does not know this machine: {e}"))?;
        isa.finish(settings::Flags::new(flags))
            .map_err(|e| format!("Cranelift cannot target this machine: {e}"))
    })
}

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
//! | `add_each.rs` | sums at indices, in one call |
//! | `lane_box.rs` | where conditions hold |
//! | `lane_boxes.rs` | accesses of lanes that are a box of a view |
//! | `lane_constants.rs` | values of lanes that are known now |
//! | `lane_group.rs`, `lane_plan.rs` | operations of lanes, fused |
//! | `lane_loop.rs`, `pack.rs` | likewise, in registers |
//! | `streamed.rs`, `lane_stream.rs` | stores of lanes past the caches |
//! | `warp.rs` | shuffles and votes |
//! | `boxes.rs`, `elements.rs` | access to memory by boxes and by indices |
//! | `atomic.rs` | atomics that are one instruction |
//! | `ordered.rs` | ordered accesses of elements and quads |
//! | `tile.rs` | reductions, scans, moves, matrix products |
//! | `control.rs` | branches and loops |
//! | `diagnostics.rs` | faults and prints |

mod add_each;
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
mod lane_boxes;
mod lane_constants;
mod lane_group;
mod lane_loop;
mod lane_plan;
mod lane_stream;
mod lane_values;
mod liveness;
mod ordered;
mod pack;
mod pending;
mod repr;
mod scalar;
mod streamed;
mod tile;
mod warp;

use crate::link::{Object, Reference};
use crate::machine::target;
use crate::memory::last_level_cache;
use crate::site::{Site, SiteKind};
use crate::spmd::Lockstep;
use crate::symbol::Symbol;
use asm::Asm;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{AbiParam, ExternalName, Function, LibCall, Signature, types};
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use emitter::Emitter;
use kiln_backend::{Error, Result};
use kiln_ir::Kernel;
use std::sync::LazyLock;

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

/// Compiles a kernel: its code, and the places in it that fault or print.
pub(crate) fn compile(source: &Source<'_>) -> Result<(Object, Vec<Site>)> {
    let kernel = source.kernel;
    let isa = target().as_ref().map_err(|e| cannot(kernel, e.clone()))?;
    let mut context = Context::new();
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    context.func.signature = signature;

    let mut frontend = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let mut emitter = Emitter::new(*source, Asm::new(builder, isa.default_call_conv()));
    emitter.function()?;
    let Emitter { asm, arena, sites, constants, added, .. } = emitter;
    let checks_time = sites.iter().any(|site| matches!(site.kind, SiteKind::Stopped));
    let symbols = asm.finish(isa.frontend_config());

    let compiled = context.compile(&**isa, &mut Default::default());
    let compiled = compiled.map_err(|e| cannot(kernel, format!("{:?}", e.inner)))?;
    let (code, alignment) = (compiled.code_buffer().to_vec(), compiled.buffer.alignment);
    let relocations = compiled.buffer.relocs().to_vec();
    let references = relocations.iter().map(|r| reference(r, &context.func, &symbols));
    let references = references.collect::<Option<_>>();
    let references = references.ok_or_else(|| cannot(kernel, "code that cannot be linked".to_owned()))?;
    let scratch_bytes = u32::try_from(arena.bytes());
    let scratch_bytes =
        scratch_bytes.map_err(|_| cannot(kernel, "tiles of more than 4 GiB in a program".to_owned()))?;
    let added = added.into_iter().map(|(_, view)| view).collect();
    let words = constants;
    Ok((Object { code, alignment, references, words, scratch_bytes, checks_time, added }, sites))
}

/// What a relocation of Cranelift's says; `None` where it is no address of something that the
/// emitter names.
fn reference(relocation: &FinalizedMachReloc, function: &Function, symbols: &[Symbol]) -> Option<Reference> {
    let symbol = match &relocation.target {
        FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
            *symbols.get(function.params.user_named_funcs()[*name].index as usize)?
        }
        FinalizedRelocTarget::ExternalName(ExternalName::LibCall(LibCall::FmaF32)) => {
            Symbol::Function(crate::symbol::Function::Fma32)
        }
        FinalizedRelocTarget::ExternalName(ExternalName::LibCall(LibCall::FmaF64)) => {
            Symbol::Function(crate::symbol::Function::Fma64)
        }
        _ => return None,
    };
    let is_address = relocation.kind == Reloc::Abs8;
    is_address.then_some(Reference { at: relocation.offset, symbol, addend: relocation.addend })
}

/// What Cranelift makes of a kernel, before it selects instructions.
pub(crate) fn clif(source: &Source<'_>) -> Result<String> {
    let kernel = source.kernel;
    let isa = target().as_ref().map_err(|e| cannot(kernel, e.clone()))?;
    let mut function = Function::new();
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

fn cannot(kernel: &Kernel, message: String) -> Error {
    let location = kiln_ir::UNKNOWN_LOCATION.into();
    Error::Compile { kernel: kernel.name.clone(), location, message }
}

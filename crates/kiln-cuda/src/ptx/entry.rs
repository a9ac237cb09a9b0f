//! The head of a PTX module, the entry's parameters and memory, and the emitter's only public
//! function.

use super::explicit;
use super::parameters;
use super::records::Site;
use super::register::Class;
use super::target::{HOPPER_VERSION, Target};
use super::tensor_map::TensorMap;
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{Kernel, Level, OpKind, Space};
use std::fmt::Write as _;

/// A kernel as PTX.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The text.
    pub text: String,
    /// The name of the entry.
    pub entry: String,
    /// The block's extents.
    pub block: [u32; 3],
    /// Shared memory of a block, in bytes. Above [`STATIC_SHARED`] it must be asked for at the
    /// launch.
    pub shared: u32,
    /// 64-bit words of the parameters the user passes.
    pub words: u32,
    /// The words among them that are addresses of views, in order.
    pub addresses: Vec<u32>,
    /// Tensor maps, which come before the words.
    pub maps: Vec<TensorMap>,
    /// Blocks of a cluster, along x.
    pub cluster: u32,
    /// Whether the text means what it says only when it is compiled as a whole program, and not as
    /// code to be linked: it has register budgets, which the driver's linker ignores.
    pub whole_program: bool,
    /// What can fault or print. If there is any, or a barrier of the grid, two hidden words follow
    /// the parameters; see [`records`](super::records).
    pub sites: Vec<Site>,
    /// Whether all blocks of a launch wait for each other, so that they must run at the same time.
    pub grid_barrier: bool,
}

/// Shared memory that a kernel can declare statically; more is dynamic (CUDA C++ Programming Guide,
/// "Shared Memory").
pub const STATIC_SHARED: u32 = 48 * 1024;

/// Writes a kernel that was lowered to threads as PTX.
///
/// # Errors
/// `Error::Unsupported` for an operation this target does not have, by name and place;
/// `Error::Internal` if the kernel was not lowered.
pub fn emit(kernel: &Kernel, target: Target) -> Result<Module> {
    let Level::Thread { block } = kernel.level else {
        return Err(broken(format!("`{}` was not lowered to threads", kernel.name)));
    };
    let threads: u32 = block.iter().product();
    let words = parameters::first_word(kernel, kernel.params.len());
    let mut w = Writer::new(kernel, target);
    let (shared, local) = lay_out(kernel, &mut w);
    scalar_parameters(kernel, &mut w);
    w.find_members(threads);
    w.begin_explicit(threads, shared)?;
    w.begin_cluster();
    w.begin_deferring();
    w.begin_votes();
    w.begin_grid();
    for &op in &kernel.block(kernel.body).ops {
        w.before(op);
        w.op(op)?;
    }
    w.end_explicit();
    w.put(format_args!("ret"));

    let align = if w.explicit.used { 1024 } else { 128 };
    let entry = entry_name(&kernel.name);
    let hidden = if w.sites.is_empty() && w.grid.is_none() { 0 } else { 2 };
    let mut text = head(&w, &entry, block, words + hidden, threads == 32 && waits(kernel));
    text.push_str(&w.registers.declarations());
    if local > 0 {
        let _ = writeln!(text, "\t.local .align 16 .b8 local_memory[{local}];");
    }
    if shared > 0 && shared <= STATIC_SHARED {
        let _ = writeln!(text, "\t.shared .align {align} .b8 shared_memory[{shared}];");
    } else if shared > 0 {
        let at = text.find(".visible").unwrap_or(text.len());
        text.insert_str(at, &format!(".extern .shared .align {align} .b8 shared_memory[];\n"));
    }
    text.push_str(&w.text);
    text.push_str(&w.reports);
    text.push_str("}\n");
    Ok(Module {
        text,
        entry,
        block,
        shared,
        words: words as u32,
        addresses: parameters::addresses(kernel),
        maps: w.explicit.maps.all,
        cluster: kernel.cluster,
        whole_program: w.explicit.whole_program,
        sites: w.sites,
        grid_barrier: w.grid.is_some(),
    })
}

/// Whether a kernel loads what others store while it runs.
fn waits(kernel: &Kernel) -> bool {
    let mut waits = false;
    kernel.walk(|_, data| waits |= matches!(data.kind, OpKind::PtrOrderedLoad { .. }));
    waits
}

fn head(w: &Writer<'_>, entry: &str, block: [u32; 3], words: usize, roomy: bool) -> String {
    let (target, explicit) = (w.target, &w.explicit);
    let needed = if explicit.used { HOPPER_VERSION } else { target.least_version() };
    let (major, minor) = needed.max(w.version).min(target.ptx);
    let maps = (0..explicit.maps.all.len()).map(|i| format!("\t.param .align 64 .b8 m{i}[128]"));
    let params: Vec<String> = maps.chain((0..words).map(|i| format!("\t.param .b64 w{i}"))).collect();
    let [x, y, z] = block;
    // Instructions of this GPU alone.
    let family = if explicit.used { "a" } else { "" };
    // Without it the assembler ignores register budgets; and of a kernel of one warp that waits for
    // others, which runs alone on its multiprocessor, it spills registers to make room for more
    // blocks.
    let blocks = match w.kernel.hints.registers {
        Some(registers) => format!(".maxnreg {registers}\n"),
        None if explicit.budgets || roomy => ".minnctapersm 1\n".to_owned(),
        None => String::new(),
    };
    format!(
        ".version {major}.{minor}\n.target {}{family}\n.address_size 64\n\n.visible .entry {entry}(\n{}\n)\n.reqntid {x}, {y}, {z}\n{blocks}{{\n",
        target.name(),
        params.join(",\n")
    )
}

/// PTX identifiers take letters, digits, `_` and `$`.
fn entry_name(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("kiln_{}", plain.collect::<String>())
}

/// Gives every `alloc` its place after the scratch memory, and the bytes of shared and local memory
/// in all.
fn lay_out(kernel: &Kernel, w: &mut Writer<'_>) -> (u32, u32) {
    let (mut shared, mut local) = (kernel.scratch_bytes, 0u32);
    kernel.walk(|_, data| {
        if let OpKind::Alloc { space, elem, shape } = &data.kind {
            let bytes = shape.len() as u32 * elem.bytes();
            let (end, align) = if *space == Space::Local { (&mut local, 16) } else { (&mut shared, 128) };
            let offset = end.next_multiple_of(align);
            w.offsets[data.results[0].index()] = Some(offset);
            *end = offset + bytes;
        }
        if let Some((align, bytes)) = explicit::shared_memory(kernel, data) {
            let offset = shared.next_multiple_of(align);
            w.offsets[data.results[0].index()] = Some(offset);
            shared = offset + bytes;
        }
    });
    (shared, local)
}

fn scalar_parameters(kernel: &Kernel, w: &mut Writer<'_>) {
    let mut word = 0;
    for (param, &value) in kernel.params.iter().zip(&kernel.block(kernel.body).args) {
        if param.ty.as_view().is_none() {
            let to = w.define(value);
            match to.class {
                Class::Pred => {
                    let bits = w.reg(Class::B64);
                    w.put(format_args!("ld.param.b64 {bits}, [w{word}]"));
                    w.put(format_args!("setp.ne.u64 {to}, {bits}, 0"));
                }
                // Parameters are little-endian words: the low bytes are the value.
                class => w.put(format_args!("ld.param.{} {to}, [w{word}]", class.bits())),
            }
        }
        word += parameters::words(param);
    }
}

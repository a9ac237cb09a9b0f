//! A compiled kernel.

use crate::codegen::{self, Blocking, Code, Source};
use crate::cost::Cost;
use crate::report::SiteTable;
use crate::spmd::{self, Lockstep};
use kiln_backend::{ArgumentCount, Error, Program, Report, Result, Stages};
use kiln_compiler::{Target, pipeline};
use kiln_ir::{Kernel, Level, OpKind, Space, verify};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// The most threads of a block, as on GPUs.
pub(crate) const MAX_THREADS: u32 = 1024;
/// Block memory in bytes: what fits a core's second-level cache with room to spare.
pub(crate) const SHARED_MEMORY: u32 = 256 << 10;

/// A kernel compiled for this machine.
pub(crate) struct CpuProgram {
    pub(crate) code: Code,
    pub(crate) sites: Arc<SiteTable>,
    pub(crate) name: String,
    /// What a launch carries.
    pub(crate) arguments: ArgumentCount,
    threads: u32,
    pub(crate) cost: Cost,
}

impl CpuProgram {
    /// A program as this backend's.
    pub(crate) fn of(program: &dyn Program) -> Result<&CpuProgram> {
        let message = "a program of another backend".into();
        program.as_any().downcast_ref().ok_or(Error::Internal { place: "kiln-cpu", message })
    }

    /// Compiles a kernel, as a front end made it.
    pub(crate) fn new(kernel: &Kernel, blocking: Blocking) -> Result<(CpuProgram, Stages)> {
        let begun = Instant::now();
        let kernel = &prepare(kernel)?;
        let lowered = Lowered::of(kernel)?;
        let passes = begun.elapsed();
        let mut code = codegen::compile(&lowered.source(kernel, blocking))?;
        let stages = Stages { passes, emission: begun.elapsed() - passes, ..Stages::default() };
        let sites = SiteTable {
            kernel: kernel.name.clone(),
            messages: kernel.messages.clone(),
            sites: std::mem::take(&mut code.sites),
        };
        let arguments = ArgumentCount::of(kernel);
        let threads = lowered.0.map_or(1, |l| l.block.iter().product());
        let (sites, name, cost) = (Arc::new(sites), kernel.name.clone(), Cost::default());
        Ok((CpuProgram { code, sites, name, arguments, threads, cost }, stages))
    }
}

/// The Cranelift IR of a kernel, as text: what `kiln compile --emit clif` prints.
///
/// # Errors
/// As [`compile`](kiln_backend::Backend::compile).
pub fn clif(kernel: &Kernel) -> Result<String> {
    clif_of(kernel, Blocking::default())
}

/// The Cranelift IR of a kernel whose products are divided in this way.
pub(crate) fn clif_of(kernel: &Kernel, blocking: Blocking) -> Result<String> {
    let kernel = &prepare(kernel)?;
    codegen::clif(&Lowered::of(kernel)?.source(kernel, blocking))
}

/// Checks a kernel and optimizes it.
fn prepare(kernel: &Kernel) -> Result<Kernel> {
    if let Err(errors) = verify(kernel) {
        let messages: Vec<String> = errors.iter().map(|e| format!("{}, in `{}`", e.message, e.op)).collect();
        return Err(Error::Compile {
            kernel: kernel.name.clone(),
            location: errors.into_iter().next().map_or_else(String::new, |e| e.location),
            message: messages.join("; "),
        });
    }
    refuse_explicit(kernel)?;
    check_limits(kernel)?;
    let compiled = pipeline::compile(kernel, &Target::cpu(MAX_THREADS, SHARED_MEMORY)).map_err(|e| {
        Error::Internal { place: "the optimizer", message: format!("`{}`: {e}", kernel.name) }
    })?;
    Ok(compiled.kernel)
}

/// The explicit level and operations on fragments name what a GPU's units do side by side, of which
/// a CPU has none, and so do the operations of a kernel that was lowered to a GPU's threads.
fn refuse_explicit(kernel: &Kernel) -> Result<()> {
    const TILES: &str = "Write the kernel over tiles, with `dot`.";
    const LAUNCHES: &str = "Launch a kernel for each step: launches of a stream follow each other.";
    let (mut found, mut lowered) = (None, None);
    kernel.walk(|_, op| {
        let name = op.kind.mnemonic();
        let (of, hint) = if let OpKind::Explicit(_) = op.kind {
            ("the explicit level", TILES)
        } else if let OpKind::Fragment(_) = op.kind {
            ("a GPU's warps", TILES)
        } else if let OpKind::Cluster(_) = op.kind {
            ("a cluster's blocks", TILES)
        } else if let OpKind::InlinePtx(_) = op.kind {
            ("an NVIDIA GPU", "Write it with operations of the language.")
        } else if let OpKind::GridBarrier = op.kind {
            ("blocks that wait for each other", LAUNCHES)
        } else if matches!(op.kind, OpKind::LoadQuad(_) | OpKind::StoreQuad(_))
            && kernel.ty(op.view()).as_view().is_some_and(|v| v.space == Space::Shared)
        {
            ("shared memory", TILES)
        } else {
            if op.kind.is_below_tiles() {
                lowered.get_or_insert((format!("`{name}` of the code for GPUs"), op.loc, TILES));
            }
            return;
        };
        found.get_or_insert((format!("`{name}` of {of}"), op.loc, hint));
    });
    let Some((what, loc, hint)) = found.or(lowered) else { return Ok(()) };
    Err(Error::Unsupported {
        kernel: kernel.name.clone(),
        what,
        device: "cpu".into(),
        location: kernel.describe(loc),
        hint: hint.into(),
    })
}

fn check_limits(kernel: &Kernel) -> Result<()> {
    let check = |what: &str, given: u64, limit: u32| match given > limit.into() {
        true => Err(Error::LaunchLimit {
            kernel: kernel.name.clone(),
            what: what.into(),
            given,
            limit: limit.into(),
        }),
        false => Ok(()),
    };
    if let Level::Thread { block } = kernel.level {
        check("threads per block", block.iter().map(|&e| u64::from(e)).product(), MAX_THREADS)?;
    }
    let mut shared = 0;
    kernel.walk(|_, op| {
        if let OpKind::Alloc { space: Space::Shared, elem, shape } = &op.kind {
            shared += shape.len() as u64 * u64::from(elem.bytes());
        }
    });
    check("bytes of shared memory per block", shared, SHARED_MEMORY)
}

/// A kernel written for threads, in lockstep form; nothing for a kernel over tiles.
struct Lowered(Option<Lockstep>);

impl Lowered {
    fn of(kernel: &Kernel) -> Result<Lowered> {
        match kernel.level {
            Level::Tile { .. } => Ok(Lowered(None)),
            Level::Thread { block } => spmd::lockstep(kernel, block).map(|l| Lowered(Some(l))),
        }
    }

    fn source<'a>(&'a self, kernel: &'a Kernel, blocking: Blocking) -> Source<'a> {
        match &self.0 {
            Some(lockstep) => Source { kernel: &lockstep.kernel, lockstep: Some(lockstep), blocking },
            None => Source { kernel, lockstep: None, blocking },
        }
    }
}

impl Program for CpuProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        Report { threads: self.threads, spills: self.code.scratch_bytes as u32, ..Report::default() }
    }
}

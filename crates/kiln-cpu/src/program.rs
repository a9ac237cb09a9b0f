//! A compiled kernel.

use crate::codegen::{self, Code, Source};
use crate::report::SiteTable;
use crate::spmd::{self, Lockstep};
use kiln_backend::{Program, Report, Result};
use kiln_ir::{Kernel, Level};
use std::any::Any;
use std::sync::Arc;

/// A kernel compiled for this machine.
pub(crate) struct CpuProgram {
    pub(crate) code: Code,
    pub(crate) sites: Arc<SiteTable>,
    pub(crate) name: String,
    /// How many 64-bit words a launch passes.
    pub(crate) words: usize,
    threads: u32,
}

impl CpuProgram {
    /// Compiles a verified kernel.
    pub(crate) fn new(kernel: &Kernel) -> Result<CpuProgram> {
        let lowered = Lowered::of(kernel)?;
        let mut code = codegen::compile(&lowered.source(kernel))?;
        let sites = SiteTable {
            kernel: kernel.name.clone(),
            messages: kernel.messages.clone(),
            sites: std::mem::take(&mut code.sites),
        };
        let words = kernel.params.iter().map(|p| p.words()).sum();
        let threads = lowered.0.map_or(1, |l| l.block.iter().product());
        Ok(CpuProgram { code, sites: Arc::new(sites), name: kernel.name.clone(), words, threads })
    }
}

/// The Cranelift IR of a kernel, as text: what `kiln compile --emit clif` prints.
///
/// # Errors
/// As [`compile`](kiln_backend::Backend::compile).
pub fn clif(kernel: &Kernel) -> Result<String> {
    codegen::clif(&Lowered::of(kernel)?.source(kernel))
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

    fn source<'a>(&'a self, kernel: &'a Kernel) -> Source<'a> {
        match &self.0 {
            Some(lockstep) => Source { kernel: &lockstep.kernel, lockstep: Some(lockstep) },
            None => Source { kernel, lockstep: None },
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

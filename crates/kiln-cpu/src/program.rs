//! A compiled kernel.

use crate::codegen::{self, Code};
use crate::report::SiteTable;
use crate::spmd;
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
}

impl CpuProgram {
    /// Compiles a verified kernel.
    pub(crate) fn new(kernel: &Kernel) -> Result<CpuProgram> {
        let lockstep = lower(kernel)?;
        let mut code = codegen::compile(lockstep.as_ref().unwrap_or(kernel), lanes(kernel))?;
        let sites = SiteTable {
            kernel: kernel.name.clone(),
            messages: kernel.messages.clone(),
            sites: std::mem::take(&mut code.sites),
            block: lanes(kernel),
        };
        let words = kernel.params.iter().map(|p| p.words()).sum();
        Ok(CpuProgram { code, sites: Arc::new(sites), name: kernel.name.clone(), words })
    }
}

/// The Cranelift IR of a kernel, as text: what `kiln compile --emit clif` prints.
///
/// # Errors
/// As [`compile`](kiln_backend::Backend::compile).
pub fn clif(kernel: &Kernel) -> Result<String> {
    let lockstep = lower(kernel)?;
    codegen::clif(lockstep.as_ref().unwrap_or(kernel), lanes(kernel))
}

/// The kernel in lockstep form, if it was written for threads.
fn lower(kernel: &Kernel) -> Result<Option<Kernel>> {
    match kernel.level {
        Level::Tile { .. } => Ok(None),
        Level::Thread { .. } => spmd::lockstep(kernel).map(Some),
    }
}

fn lanes(kernel: &Kernel) -> Option<[u32; 3]> {
    match kernel.level {
        Level::Tile { .. } => None,
        Level::Thread { block } => Some(block),
    }
}

impl Program for CpuProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        let threads = self.sites.block.map_or(1, |b| b.iter().product());
        Report { threads, spills: self.code.scratch_bytes as u32, ..Report::default() }
    }
}

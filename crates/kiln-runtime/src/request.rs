//! A kernel with its arguments, behind an interface that does not depend on their types.

use crate::error::{Error, Result};
use kiln_ir::{Kernel, Level, VerifyError, verify};
use kiln_lang::param::{ArgSink, KernelFn, KernelParams, KernelSite, SpecKey, trace_function};

/// A kernel with its arguments.
///
/// Launching goes through this trait object, so that a program with hundreds of kernels has one
/// copy of the code that launches. A launch of a known kernel makes three indirect calls.
pub(crate) trait Request {
    /// The kernel's name.
    fn name(&self) -> &str;

    /// What distinguishes the specialization that these arguments ask for, but for the level.
    fn key(&self) -> SpecKey;

    /// The verified IR of that specialization.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    fn specialize(&self, level: Level) -> Result<Kernel>;

    /// Packs all arguments, in order.
    fn pack(&self, sink: &mut dyn ArgSink);
}

/// A kernel with its arguments, of known types.
pub(crate) struct Typed<P: KernelParams> {
    pub(crate) kernel: KernelFn<P>,
    pub(crate) args: P::Args,
}

impl<P: KernelParams> Request for Typed<P> {
    fn name(&self) -> &str {
        self.kernel.site().name
    }

    fn key(&self) -> SpecKey {
        self.kernel.key(&self.args)
    }

    fn specialize(&self, level: Level) -> Result<Kernel> {
        specialized(self.kernel.site(), level, self)
    }

    fn pack(&self, sink: &mut dyn ArgSink) {
        P::pack(&self.args, sink);
    }
}

/// A kernel function with its arguments, to be recorded.
trait Record {
    /// Declares the parameters and runs the body.
    fn record(&self);
}

impl<P: KernelParams> Record for Typed<P> {
    fn record(&self) {
        self.kernel.record(&self.args);
    }
}

/// The kernel that a function records, if it keeps the rules of the IR.
fn specialized(site: &KernelSite, level: Level, function: &dyn Record) -> Result<Kernel> {
    let refuse = |problems| Error::Kernel { kernel: site.name.to_owned(), problems };
    let kernel = trace_function(site, level, &mut || function.record())
        .map_err(|errors| refuse(errors.errors().iter().map(ToString::to_string).collect()))?;
    verify(&kernel).map_err(|errors| refuse(problems(site, &errors)))?;
    Ok(kernel)
}

/// The findings of the verifier, each once: a value that breaks a rule may be used many times.
fn problems(site: &KernelSite, errors: &[VerifyError]) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut problems = Vec::new();
    for error in errors {
        if !seen.contains(&error.message.as_str()) {
            seen.push(&error.message);
            problems.push(problem(site, error));
        }
    }
    problems
}

/// A finding of the verifier in words. One about the kernel as a whole is placed at the function.
fn problem(site: &KernelSite, error: &VerifyError) -> String {
    let location = &error.location;
    match location.contains(':') {
        true => format!("{location}: {}", error.message),
        false => format!("{}:{}:{}: {}", site.file, site.line, site.column, error.message),
    }
}

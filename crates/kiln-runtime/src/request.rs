//! A kernel with its arguments, behind an interface that does not depend on their types.

use crate::error::{Error, Result};
use kiln_ir::{Kernel, LaunchHints, Level, VerifyError, verify};
use kiln_lang::param::{ArgSink, FunctionId, KernelFn, KernelParams, KernelSite, SpecKey, trace_function};

/// A kernel with its arguments.
///
/// Launching goes through this trait object, so that a program with hundreds of kernels has one
/// copy of the code that launches. A launch of a known kernel makes three indirect calls.
pub(crate) trait Request {
    /// What the kernel is made from.
    fn origin(&self) -> Origin<'_>;

    /// Adds what distinguishes the specialization that these arguments ask for from others of the
    /// kernel, but for the level.
    fn add_to_key(&self, key: &mut SpecKey);

    /// Of a function: declares the parameters and runs the body, for [`specialize`].
    fn record(&self);

    /// Packs all arguments, in order.
    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>);
}

/// What a kernel is made from.
pub(crate) enum Origin<'a> {
    /// A function, to be recorded.
    Function(FunctionId),
    /// IR that was given.
    Ir(&'a dyn GivenIr),
}

/// A kernel that was given as IR, with its arguments.
pub(crate) trait GivenIr {
    /// The kernel's name.
    fn name(&self) -> &str;

    /// What the key of its specializations begins with.
    fn key(&self) -> SpecKey;

    /// The verified IR of the specialization that the arguments ask for.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    fn specialize(&self) -> Result<Kernel>;
}

impl dyn Request + '_ {
    /// What distinguishes the specialization that the arguments ask for, but for the level.
    pub(crate) fn key(&self) -> SpecKey {
        let mut key = match self.origin() {
            Origin::Function(function) => SpecKey::of_function(function),
            Origin::Ir(ir) => ir.key(),
        };
        self.add_to_key(&mut key);
        key
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> &str {
        match self.origin() {
            Origin::Function(function) => function.site.name,
            Origin::Ir(ir) => ir.name(),
        }
    }

    /// The verified IR of the specialization that the arguments ask for.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    pub(crate) fn specialize(&self, level: Level, hints: LaunchHints) -> Result<Kernel> {
        match self.origin() {
            Origin::Function(function) => specialized(function.site, (level, hints), self),
            Origin::Ir(ir) => ir.specialize(),
        }
    }
}

/// A kernel with its arguments, of known types.
pub(crate) struct Typed<P: KernelParams> {
    pub(crate) kernel: KernelFn<P>,
    pub(crate) args: P::Args,
}

impl<P: KernelParams> Request for Typed<P> {
    fn origin(&self) -> Origin<'_> {
        Origin::Function(self.kernel.id())
    }

    fn add_to_key(&self, key: &mut SpecKey) {
        P::key(&self.args, key);
    }

    fn record(&self) {
        self.kernel.record(&self.args);
    }

    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>) {
        P::pack(&self.args, sink);
    }
}

/// The kernel that a function records, if it keeps the rules of the IR.
fn specialized(
    site: &KernelSite,
    (level, hints): (Level, LaunchHints),
    function: &dyn Request,
) -> Result<Kernel> {
    let refuse = |problems| Error::Kernel { kernel: site.name.to_owned(), problems };
    let mut kernel = trace_function(site, level, &mut || function.record())
        .map_err(|errors| refuse(errors.errors().iter().map(ToString::to_string).collect()))?;
    kernel.hints = hints;
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

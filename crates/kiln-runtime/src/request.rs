//! A kernel with its arguments, behind an interface that does not depend on their types.

use kiln_ir::{Kernel, Level};
use kiln_lang::TraceErrors;
use kiln_lang::param::{ArgSink, KernelFn, KernelParams, KernelSite, SpecKey};

/// A kernel with its arguments.
///
/// Launching goes through this trait object, so that a program with hundreds of kernels has one copy
/// of the code that launches. A launch of a known kernel makes three indirect calls.
pub(crate) trait Request {
    /// Where the kernel stands in the source.
    fn site(&self) -> &'static KernelSite;

    /// What distinguishes the specialisation that these arguments ask for.
    fn key(&self) -> SpecKey;

    /// Records that specialisation.
    fn trace(&self, level: Level) -> Result<Kernel, TraceErrors>;

    /// Packs all arguments, in order.
    fn pack(&self, sink: &mut dyn ArgSink);
}

/// A kernel with its arguments, of known types.
pub(crate) struct Typed<P: KernelParams> {
    pub(crate) kernel: KernelFn<P>,
    pub(crate) args: P::Args,
}

impl<P: KernelParams> Request for Typed<P> {
    fn site(&self) -> &'static KernelSite {
        self.kernel.site()
    }

    fn key(&self) -> SpecKey {
        self.kernel.key(&self.args)
    }

    fn trace(&self, level: Level) -> Result<Kernel, TraceErrors> {
        self.kernel.trace(&self.args, level)
    }

    fn pack(&self, sink: &mut dyn ArgSink) {
        P::pack(&self.args, sink);
    }
}

//! Parameters that a kernel cannot have.
mod runtime {
    pub mod __private {
        pub use kiln_lang::__private::*;
        pub struct Launch<P: KernelParams>(P::Args);
        impl<P: KernelParams> Launch<P> {
            pub fn new(_: KernelFn<P>, args: P::Args) -> Self {
                Launch(args)
            }
        }
    }
}
use kiln_lang::prelude::*;

#[derive(Clone, Copy)]
enum Mode {
    Fast,
}

#[kernel(crate = crate::runtime)]
fn unknown(mode: Mode) {
    if matches!(mode, Mode::Fast) {
        device_print!("fast");
    }
}

fn main() {}

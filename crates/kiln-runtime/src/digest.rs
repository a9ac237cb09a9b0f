//! A digest of kernels.

use kiln_ir::Kernel;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The SHA-256 of a kernel's text, without places in the source.
pub(crate) fn of_kernel(kernel: &Kernel) -> [u8; 32] {
    struct Digest(Sha256);
    impl fmt::Write for Digest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text);
            Ok(())
        }
    }
    let mut digest = Digest(Sha256::new());
    // Neither the digest nor the printer of IR fails.
    let _ = fmt::Write::write_fmt(&mut digest, format_args!("{kernel}"));
    digest.0.finalize().into()
}

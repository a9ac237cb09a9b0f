//! Packages: files of compiled kernels that load without Kiln's compiler.
//!
//! | file | holds |
//! |---|---|
//! | `file.rs` | a package as a file |
//! | `programs.rs` | the programs of packages that a device has loaded |

mod file;
mod programs;

pub use file::{Package, PackageBuilder};
pub use programs::PackageStats;
pub(crate) use programs::{Packages, of_environment};

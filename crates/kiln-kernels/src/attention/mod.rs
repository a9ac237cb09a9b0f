//! Scaled dot-product attention.
//!
//! | file | holds |
//! |---|---|
//! | `hopper.rs` | for GPUs of compute capability 9.0, at the explicit level |
//! | `plain.rs` | for every device, at the tile level |

pub mod hopper;
pub mod plain;

pub use plain::attention;

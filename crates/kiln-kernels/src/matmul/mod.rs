//! Products of matrices.
//!
//! | file | holds |
//! |---|---|
//! | `hopper.rs` | for GPUs of compute capability 9.0, at the explicit level |

pub mod hopper;

//! Layouts: which thread and register holds which element of a tile.
//!
//! | file | holds |
//! |---|---|
//! | `linear.rs` | linear maps over GF(2) |
//! | `distributed.rs` | tiles over registers, lanes and warps |
//! | `fragments.rs` | the matrices of a product over fragments |
//! | `slot.rs` | matrices in shared memory, swizzled |
//! | `convert.rs` | ways from one layout to another and their cost |

mod convert;
mod distributed;
mod fragments;
mod linear;
mod slot;

pub use convert::{Conversion, Route, Staging};
pub use distributed::{AxisBits, Layout, Threads};
pub use fragments::{LANE_BITS, MMA, WarpGrid};
pub use linear::{Bases, Linear};
pub use slot::Slot;

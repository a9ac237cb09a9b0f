//! Layouts: which thread and register holds which element of a tile.
//!
//! | file | holds |
//! |---|---|
//! | `linear.rs` | linear maps over GF(2) |
//! | `distributed.rs` | tiles over registers, lanes and warps |
//! | `convert.rs` | ways from one layout to another and their cost |

mod convert;
mod distributed;
mod linear;

pub use convert::{Conversion, Route, Staging};
pub use distributed::{AxisBits, LANE_BITS, Layout};
pub use linear::{Bases, Linear};

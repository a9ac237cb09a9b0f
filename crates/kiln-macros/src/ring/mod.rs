//! Ring kernels. What the expansions rely on is described in `kiln-ring`.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` | `#[derive(Message)]`, `#[derive(State)]`: layout, struct for kernels |
//! | `kernel.rs` | `#[ring_kernel]`: the handler |
//! | `signature.rs` | what a handler's parameters and result may be |
//! | `body.rs` | names of messages, `Some`, `None`, `Ok` and `Err` in a handler's body |

mod body;
mod kernel;
mod layout;
mod signature;

pub use kernel::expand;
pub use layout::{Role, derive};

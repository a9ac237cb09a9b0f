//! What can go wrong. Below everything that can fail.
//!
//! | file | holds |
//! |---|---|
//! | `ring.rs` | [`RingError`]: runtimes and their actors |
//! | `channel.rs` | sending, receiving, asking |
//! | `checkpoint.rs` | [`CheckpointError`] |

mod channel;
mod checkpoint;
mod ring;

pub use channel::{AskError, ConfigError, RecvError, SendError, SendManyError};
pub use checkpoint::CheckpointError;
pub use ring::{Result, RingError};

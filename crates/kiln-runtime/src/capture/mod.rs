//! Recording launches, copies and fills instead of making them, for a [`Graph`](crate::Graph).
//!
//! | file | holds |
//! |---|---|
//! | `state.rs` | whether this thread records |
//! | `recording.rs` | what it records |
//! | `node.rs` | a launch, copy or fill that was recorded |
//! | `plan.rs` | the memory that they use, and their order |

pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod recording;
pub(crate) mod state;

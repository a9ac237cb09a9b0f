//! What can be known of a kernel without running it.

mod partition;
mod safety;

pub use partition::{GridRule, Partition, Unproven, partition};
pub use safety::{UnsafeOp, make_safe, promise};

//! What can be known of a kernel without running it.

mod partition;

pub use partition::{GridRule, Partition, Unproven, partition};

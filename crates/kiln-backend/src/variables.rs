//! Environment variables that backends read.

/// The environment variable that sets the limit of a launch: `30s`, `500ms`, `10m`, `2h`, or `off`.
pub const LAUNCH_LIMIT_VARIABLE: &str = "KILN_LAUNCH_LIMIT";

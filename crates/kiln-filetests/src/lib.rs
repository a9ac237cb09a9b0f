//! Tests of Kiln's IR, passes and backends.
//!
//! | file | holds |
//! |---|---|
//! | `generate/` | random well-formed kernels with arguments, for fuzzing |

pub mod generate;

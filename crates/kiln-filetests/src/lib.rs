//! Tests of Kiln's IR, passes and backends.
//!
//! Test files stand in `files/`, a folder for each subject; `cargo test -p kiln-filetests` runs
//! them all, `KILN_BLESS=1` in the environment writes what came out into the files instead. Random
//! kernels come from the crate `kiln-fuzz`; the tests here try a few hundred seeds each;
//! `KILN_FUZZ_SEEDS=1000..50000` in the environment chooses others.
//!
//! | file | holds |
//! |---|---|
//! | `file.rs` | the format of test files |
//! | `commands.rs` | what test files can ask for; `launch.rs` reads the arguments of launches |

pub mod commands;
pub mod file;
mod launch;

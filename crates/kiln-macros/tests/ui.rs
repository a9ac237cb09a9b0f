//! What the compiler answers to programs that are wrong, one a file, each with its message.
//!
//! Kernels are in `ui/`, messages and handlers of actors in `rings/`, and what newcomers write in
//! their first hour in `first_hour/` (programs of that kind that work, and those that are refused
//! when they are launched, are in kiln's `tests/all/first_hour.rs`). They are all in one crate,
//! because what such programs depend on is checked anew for each crate that has any.

#[test]
fn messages() {
    let cases = trybuild::TestCases::new();
    for programs in ["ui", "rings", "first_hour"] {
        cases.compile_fail(format!("tests/{programs}/*.rs"));
    }
}

//! What newcomers write in their first hour and what the compiler answers: one program a file in
//! `first_hour/`, each with its message. Programs of the kind that work, and those that are refused
//! when they are launched, are in kiln's `tests/all/first_hour.rs`.

#[test]
fn messages() {
    trybuild::TestCases::new().compile_fail("tests/first_hour/*.rs");
}

//! Kiln's intermediate representation: types, operations, text format, verifier.

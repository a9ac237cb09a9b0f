//! The examples as tests, and what the book must list.

// The modules of `examples/digits`, which refer to each other from the crate's root.
#[path = "../../../../examples/digits/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../../../../examples/digits/kernels.rs"]
mod kernels;
#[path = "../../../../examples/digits/model.rs"]
#[allow(missing_docs)]
mod model;

mod book;
mod digits;
mod first_hour;
mod operations;
mod puzzles;
mod ring;

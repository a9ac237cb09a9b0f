//! The kernel library.

//! The CPU backend: Cranelift for control flow and addressing, SIMD tile primitives compiled ahead.

//! Passes over Kiln IR: canonicalisation, analyses, layouts and the lowering from tiles to threads.

pub mod expand;
pub mod layout;

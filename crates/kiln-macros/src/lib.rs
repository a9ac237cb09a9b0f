//! The attribute and derive macros of the Kiln kernel language.

//! The reference interpreter of Kiln IR: the semantics every other backend is tested against.

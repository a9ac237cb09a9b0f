//! A box of a view as threads access it.

use super::barriers::AccessTarget;
use crate::layout::Layout;
use kiln_ir::{Reuse, Scalar, Shape, Value};

/// A box of a view under a layout.
pub(super) struct BoxAccess<'a> {
    pub view: Value,
    pub offsets: &'a [Value],
    pub shape: Shape,
    pub layout: Layout,
    pub elem: Scalar,
    pub reuse: Reuse,
    /// The threads of the layout that act, where several hold the same elements.
    pub first: Option<Value>,
    /// For the barrier pass.
    pub place: Option<AccessTarget>,
    /// Several threads of the layout hold the same elements.
    pub copies: bool,
    /// Register bits that step through an aligned vector, and how many of them belong to a vector
    /// that no edge of the view cuts.
    pub vector_bits: Vec<usize>,
    pub uncut_bits: usize,
}

//! The places in a kernel that may fault or print.

use kiln_ir::{Message, Scalar};

/// A place in a kernel that may fault or print.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Site {
    /// What happens there.
    pub(crate) kind: SiteKind,
    /// `file:line:column`.
    pub(crate) location: String,
    /// The block's extents, where a lane is a thread.
    pub(crate) block: Option<[u32; 3]>,
}

/// What a [`Site`] reports, and what its values are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SiteKind {
    /// A failed assertion; the values fill the message.
    Assert(Message, Vec<Scalar>),
    /// An index (first value) outside an extent (second value).
    Bounds,
    /// A zero divisor.
    Divisor,
    /// A loop that had not ended when the launch was asked to stop.
    Stopped,
    /// A print; the values fill the message.
    Print(Message, Vec<Scalar>),
}

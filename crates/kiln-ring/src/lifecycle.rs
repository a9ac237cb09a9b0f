//! The states of an actor.

use std::fmt;

/// Where an actor is in its life.
///
/// ```text
/// launched ──activate──▶ active ◀──reactivate── deactivated
///                        │  │  ───deactivate──▶
///                        │  └─ a handler fails ─▶ failed ──restart──▶ active
///                        └── terminate ─▶ draining ─▶ terminated        (from every state but the last)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// It is resident, and holds its messages.
    Launched,
    /// It handles messages.
    Active,
    /// It holds its messages until it is reactivated.
    Deactivated,
    /// It takes no more messages, and finishes or gives back those it has.
    Draining,
    /// It has gone. Replies that were not taken can still be received.
    Terminated,
    /// Its handler failed. It holds its messages until it is restarted or terminated.
    Failed,
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lifecycle::Launched => "launched",
            Lifecycle::Active => "active",
            Lifecycle::Deactivated => "deactivated",
            Lifecycle::Draining => "draining",
            Lifecycle::Terminated => "terminated",
            Lifecycle::Failed => "failed",
        })
    }
}

//! Rings of a priority: an actor has a queue of its own for each.
//!
//! Each priority is a ring of requests and a ring of answers of its own, so that a message of one
//! never waits in a row behind those of another. The number of messages under way is limited for
//! all of them together: a position is taken once there is a *credit* for it, and a credit comes
//! back when an answer was taken. Every priority has as many slots as the actor has credits, and so
//! none is full before the credits are used up.

use super::failure::LastFailure;
use super::held::Held;
use super::platform::Platform;
use super::queue::Queue;

/// One priority of a mailbox.
pub struct PriorityRing<P: Platform> {
    pub queue: Queue<P>,
    pub(super) last_failure: LastFailure,
    pub(super) held: Held,
}

impl<P: Platform> PriorityRing<P> {
    pub fn new(queue: Queue<P>) -> PriorityRing<P> {
        PriorityRing { queue, last_failure: LastFailure::default(), held: Held::default() }
    }
}

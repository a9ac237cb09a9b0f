//! Whether anything is still to come: actors that have nothing to do send nothing.

use super::Side;
use super::body::Body;
use crate::lifecycle::Lifecycle;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two checks whether a runtime has anything to do: they read from the device.
const LOOK: Duration = Duration::from_millis(2);

/// Whether the actors of a runtime have anything to do.
///
/// Messages come from the host or from handlers, and a handler runs for a message. So where no
/// actor that handles messages has one, none will ever have one, unless the host sends it. That is
/// detected by two readings of what was sent and what is done, which must agree: what is on its way
/// from one actor to the other changes a count between them.
pub(super) struct Quiet<'a> {
    side: &'a Side,
    next: Instant,
}

/// What an actor was sent and has done.
type Counts = (u64, u64, Vec<[u32; 2]>);

impl<'a> Quiet<'a> {
    pub fn new(side: &'a Side) -> Quiet<'a> {
        Quiet { side, next: Instant::now() }
    }

    /// Whether no actor has anything to do. It reads now and then, and gives `false` in between.
    pub fn is_quiet(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + LOOK;
        match self.idle() {
            Some(first) => self.idle() == Some(first),
            None => false,
        }
    }

    /// The counts of all actors, if all that was sent to those that handle messages is done.
    fn idle(&self) -> Option<Vec<(u32, Counts)>> {
        let bodies = self.side.shared.living();
        let counts = |body: &Arc<Body>| {
            let ((sent, answered), inbound_links) =
                (body.mailbox.progress(), body.side.inbound_link_counters()?);
            let idle = sent == answered && inbound_links.iter().all(|[tail, head]| tail == head);
            (idle || !body.acts()).then_some((body.number, (sent, answered, inbound_links)))
        };
        bodies.iter().map(counts).collect()
    }
}

impl Body {
    /// Whether it handles messages, gives them back, or will do so by itself. An actor whose lock
    /// another thread holds counts as one that does.
    fn acts(&self) -> bool {
        self.try_life().is_none_or(|life| match life.stage {
            Lifecycle::Active | Lifecycle::Draining => true,
            Lifecycle::Failed => life.due.is_some() || self.mailbox.is_closed(),
            Lifecycle::Launched | Lifecycle::Deactivated | Lifecycle::Terminated => false,
        })
    }
}

//! Sends with a priority, a deadline and a limit to waiting.

use super::mailbox::Mailbox;
use super::native::Native;
use super::priority_ring::PriorityRing;
use super::wait::Deadline;
use crate::error::SendError;
use crate::wire::slot::{PAYLOAD, deadline_header};
use std::time::Duration;

/// How a message is sent: by default in the lowest priority, without a deadline, and by a thread
/// that waits as long as it takes.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendOptions, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn echo(_ctx: &RingCtx, x: u32) -> u32 {
///     x
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(echo, RingConfig::default().priorities(2))?;
/// actor.send(1)?;
/// actor.send(2)?;
/// actor.send_with(99, SendOptions::default().priority(1))?; // sent last, handled first
/// actor.activate()?;
/// assert_eq!(actor.ask(3)?, Some(3)); // so all are handled
/// assert_eq!([actor.recv()?, actor.recv()?, actor.recv()?], [99, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendError, SendOptions, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().capacity(1).deadlines(true))?;
/// actor.send_with(1, SendOptions::default().deadline(u64::MAX))?;
/// // There is no room, and an actor that is not active makes none.
/// let brief = SendOptions::default().timeout(Duration::from_millis(1));
/// assert!(matches!(actor.send_with(2, brief), Err(SendError::TimedOut { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until something is sent with them"]
pub struct SendOptions {
    /// The priority: 0 is the lowest, and an actor has [as many as it was launched
    /// with](crate::RingConfig::priorities).
    pub priority: u8,
    /// By [the device's clock](crate::Actor::device_clock), in nanoseconds: if the message's turn
    /// comes later, it is not handled and becomes a dead letter. The actor must have been launched
    /// [with deadlines](crate::RingConfig::deadlines).
    pub deadline: Option<u64>,
    /// How long a thread waits for room, and for the reply of a request. Futures ignore it.
    pub timeout: Option<Duration>,
}

impl SendOptions {
    /// Sets the priority; 0 is the lowest.
    pub fn priority(self, priority: u8) -> Self {
        SendOptions { priority, ..self }
    }

    /// Sets the deadline, by the device's clock in nanoseconds.
    pub fn deadline(self, deadline: u64) -> Self {
        SendOptions { deadline: Some(deadline), ..self }
    }

    /// Sets how long the call waits at most.
    pub fn timeout(self, timeout: Duration) -> Self {
        SendOptions { timeout: Some(timeout), ..self }
    }

    /// The moment until which a thread waits.
    pub(super) fn until(&self) -> Option<Deadline> {
        self.timeout.map(Deadline::after)
    }
}

/// The priority of a mailbox that a message goes to, and the header of its slot.
pub(super) type Way<'a> = (&'a PriorityRing<Native>, Option<[u32; PAYLOAD]>);

impl Mailbox<Native> {
    /// Where a message goes, and with which header.
    pub(super) fn way(&self, options: &SendOptions) -> Result<Way<'_>, SendError> {
        let header = match options.deadline {
            None => self.header(),
            Some(deadline) if self.form().requests.slot().has_header() => Some(deadline_header(deadline)),
            Some(_) => return Err(SendError::NoDeadlines { actor: self.actor() }),
        };
        Ok((self.ring(options.priority)?, header))
    }
}

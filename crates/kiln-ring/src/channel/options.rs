//! Sends with a priority, a deadline and a limit to waiting.

use super::band::Band;
use super::error::{AskError, SendError, SendManyError};
use super::future::{AskFuture, SendFuture};
use super::mailbox::Sent;
use super::platform::Native;
use super::{Channel, Deadline, header};
use crate::layout::Layout;
use crate::message::Message;
use crate::slot::PAYLOAD;
use std::time::Duration;

/// How a message is sent: by default in the lowest band, without a deadline, and by a thread that
/// waits as long as it takes.
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
/// let actor = runtime.launch(echo, RingConfig::default().bands(2))?;
/// actor.send(1)?;
/// actor.send(2)?;
/// actor.send_with(99, SendOptions::default().priority(1))?; // sent last, handled first
/// actor.activate()?;
/// assert_eq!(actor.ask(3)?, Some(3)); // so all are handled
/// assert_eq!([actor.recv()?, actor.recv()?, actor.recv()?], [99, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until something is sent with them"]
pub struct SendOptions {
    /// The band: 0 is the lowest, and an actor has [as many as it was launched
    /// with](crate::RingConfig::bands).
    pub priority: u8,
    /// By the device's clock, in nanoseconds: if the message's turn comes later, it is not handled
    /// and becomes a dead letter.
    pub deadline: Option<u64>,
    /// How long a thread waits for room, and for the reply of a request. Futures do not heed it.
    pub timeout: Option<Duration>,
}

impl SendOptions {
    /// In this band; 0 is the lowest.
    pub fn priority(self, priority: u8) -> Self {
        SendOptions { priority, ..self }
    }

    /// With a deadline by the device's clock, in nanoseconds.
    pub fn deadline(self, deadline: u64) -> Self {
        SendOptions { deadline: Some(deadline), ..self }
    }

    /// Waiting no longer than this.
    pub fn timeout(self, timeout: Duration) -> Self {
        SendOptions { timeout: Some(timeout), ..self }
    }

    /// The moment until which a thread waits.
    fn until(&self) -> Option<Deadline> {
        self.timeout.map(Deadline::after)
    }
}

/// The band of a mailbox that a message goes to, and the header of its slot.
pub(super) type Way<'a> = (&'a Band<Native>, Option<[u32; PAYLOAD]>);

impl<M: Message, R: Layout> Channel<M, R> {
    /// Sends a message [in some way](SendOptions). A full queue does as its
    /// [`Overflow`](super::Overflow) says.
    ///
    /// # Errors
    ///
    /// The queue is closed, is full and rejects, or stayed full; it has no such band, or no
    /// deadlines.
    pub fn send_with(&self, message: &M, options: SendOptions) -> Result<Sent, SendError> {
        let (band, header) = self.mailbox.way(&options)?;
        self.holding(message, header, |words| self.mailbox.send(band, words, options.until()))
    }

    /// As [`send_with`](Self::send_with), without waiting: a queue that would have to wait is
    /// [`SendError::Full`].
    ///
    /// # Errors
    ///
    /// As of [`send_with`](Self::send_with), and a full queue.
    pub fn try_send_with(&self, message: &M, options: SendOptions) -> Result<Sent, SendError> {
        let (band, header) = self.mailbox.way(&options)?;
        self.holding(message, header, |words| self.mailbox.try_send(band, words))
    }

    /// As [`send_many`](Self::send_many), all of them [in some way](SendOptions).
    ///
    /// # Errors
    ///
    /// As of [`send_with`](Self::send_with), with the number of messages that were sent before.
    pub fn send_many_with(&self, messages: &[M], options: SendOptions) -> Result<usize, SendManyError> {
        let way = self.mailbox.way(&options).map_err(|error| SendManyError { sent: 0, error })?;
        self.send_all(messages, way, options.until())
    }

    /// As [`ask`](Self::ask), [in some way](SendOptions).
    ///
    /// # Errors
    ///
    /// As of [`ask`](Self::ask) and [`send_with`](Self::send_with), and when there was no reply in
    /// time.
    pub fn ask_with(&self, message: &M, options: SendOptions) -> Result<Option<R>, AskError> {
        self.ask_until(message, self.mailbox.way(&options)?, options.until())
    }

    /// As [`send_with`](Self::send_with), without holding a thread while it waits.
    pub fn send_async_with<'a>(&'a self, message: &'a M, options: SendOptions) -> SendFuture<'a, M> {
        SendFuture::new(self, message, options)
    }

    /// As [`ask_with`](Self::ask_with), without holding a thread while it waits.
    pub fn ask_async_with<'a>(&'a self, message: &'a M, options: SendOptions) -> AskFuture<'a, M, R> {
        AskFuture::new(self, message, options)
    }
}

impl super::Mailbox<Native> {
    /// Where a message goes, and with which header.
    pub(super) fn way(&self, options: &SendOptions) -> Result<Way<'_>, SendError> {
        let header = match options.deadline {
            None => self.header(),
            Some(deadline) if self.form().requests.slot().has_header() => Some(header(deadline)),
            Some(_) => return Err(SendError::NoDeadlines { actor: self.actor() }),
        };
        Ok((self.band(options.priority)?, header))
    }
}

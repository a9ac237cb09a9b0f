//! Sending and asking with [`SendOptions`], on typed channels.

use super::Channel;
use super::future::{AskFuture, SendFuture};
use super::mailbox::Sent;
use super::options::SendOptions;
use crate::error::{AskError, SendError, SendManyError};
use crate::layout::Layout;
use crate::message::Message;

impl<M: Message, R: Layout> Channel<M, R> {
    /// Sends a message [in some way](SendOptions). A full queue does as its
    /// [`Overflow`](super::Overflow) says.
    ///
    /// # Errors
    ///
    /// The queue is closed, is full and rejects, or stayed full; it has no such priority, or no
    /// deadlines.
    pub fn send_with(&self, message: &M, options: SendOptions) -> Result<Sent, SendError> {
        let (ring, header) = self.mailbox.way(&options)?;
        self.holding(message, header, |words| self.mailbox.send(ring, words, options.until()))
    }

    /// As [`send_with`](Self::send_with), without waiting: a queue that would have to wait is
    /// [`SendError::Full`].
    ///
    /// # Errors
    ///
    /// As of [`send_with`](Self::send_with), and a full queue.
    pub fn try_send_with(&self, message: &M, options: SendOptions) -> Result<Sent, SendError> {
        let (ring, header) = self.mailbox.way(&options)?;
        self.holding(message, header, |words| self.mailbox.try_send(ring, words))
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

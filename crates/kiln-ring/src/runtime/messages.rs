//! Sending to an actor, asking it, and receiving its replies. [`Channel`](crate::Channel) has the
//! same by reference.
//!
//! | | at once | waits | up to a time | future |
//! |---|---|---|---|---|
//! | a message | `try_send` | `send` | `send_timeout` | `send_async` |
//! | many | | `send_many` | `send_many_timeout` | `send_many_async` |
//! | a reply | `try_recv` | `recv` | `recv_timeout` | `recv_async` |
//! | many | `try_recv_many` | `recv_many` | `recv_many_timeout` | `recv_many_async` |
//! | a request | | `ask` | `ask_timeout` | `ask_async` |
//!
//! Each way of sending and asking also takes [options](SendOptions): `send_with`, `try_send_with`,
//! `send_many_with`, `send_async_with`, `ask_with`, `ask_async_with`.

use super::actor::Actor;
use crate::channel::{
    AskFuture, RecvFuture, RecvManyFuture, Reply, SendFuture, SendManyFuture, SendOptions, Sent,
};
use crate::error::{AskError, RecvError, SendError, SendManyError};
use crate::handler::Handler;
use std::time::Duration;

impl<H: Handler> Actor<H> {
    /// Sends a message. A full queue does as its overflow policy says.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// actor.send(41)?;
    /// assert_eq!(actor.recv()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The actor takes no more messages; its queue is full and rejects, or is full while the actor
    /// is not active, so that no room comes by itself; the message refers to a payload of another
    /// runtime, or one that could not be copied to the device.
    #[inline]
    pub fn send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.channel().send(&message)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use kiln_ring::Sent;
    /// assert!(matches!(actor.try_send(41)?, Sent::Queued(_))); // it is not active yet, and holds the message
    /// assert_eq!(actor.channel().unanswered(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`send`](Self::send), and where it would wait.
    #[inline]
    pub fn try_send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.channel().try_send(&message)
    }

    /// As [`send`](Self::send), waiting no longer than `timeout`, also for an actor that another
    /// thread is yet to activate.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendError, ring_kernel};
    /// # use std::time::Duration;
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default().capacity(1))?;
    /// actor.send(1)?;
    /// assert!(matches!(actor.send(2), Err(SendError::NotActive { .. }))); // full, and not active
    /// let late = actor.send_timeout(2, Duration::from_millis(1));
    /// assert!(matches!(late, Err(SendError::TimedOut { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use std::time::Duration;
    /// # actor.activate()?;
    /// actor.send_timeout(41, Duration::from_millis(10))?;
    /// assert_eq!(actor.recv()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`send`](Self::send), and when no room came in time.
    pub fn send_timeout(&self, message: H::Message, timeout: Duration) -> Result<Sent, SendError> {
        self.channel().send_timeout(&message, timeout)
    }

    /// Sends a message [with a priority, a deadline or a limit to waiting](SendOptions).
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send); no room in time; the actor has no such priority, or no
    /// deadlines.
    pub fn send_with(&self, message: H::Message, options: SendOptions) -> Result<Sent, SendError> {
        self.channel().send_with(&message, options)
    }

    /// As [`send_with`](Self::send_with), without waiting.
    ///
    /// # Errors
    /// As of [`send_with`](Self::send_with), and where it would wait.
    pub fn try_send_with(&self, message: H::Message, options: SendOptions) -> Result<Sent, SendError> {
        self.channel().try_send_with(&message, options)
    }

    /// Sends messages in order, cheaper than one by one, and gives how many: fewer only if the
    /// queue drops the newest.
    ///
    /// # Errors
    /// As of [`send`](Self::send), with the number of messages that were sent before.
    #[inline]
    pub fn send_many(&self, messages: &[H::Message]) -> Result<usize, SendManyError> {
        self.channel().send_many(messages)
    }

    /// As [`send_many`](Self::send_many), waiting no longer than `timeout` in all.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # use std::time::Duration;
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default().capacity(2))?;
    /// let error = actor.send_many_timeout(&[1, 2, 3], Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.sent, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`send_timeout`](Self::send_timeout), with the number of messages that were sent
    /// before.
    pub fn send_many_timeout(
        &self,
        messages: &[H::Message],
        timeout: Duration,
    ) -> Result<usize, SendManyError> {
        self.channel().send_many_timeout(messages, timeout)
    }

    /// As [`send_many`](Self::send_many), all of them [with options](SendOptions).
    ///
    /// # Errors
    /// As of [`send_with`](Self::send_with), with the number of messages that were sent before.
    pub fn send_many_with(
        &self,
        messages: &[H::Message],
        options: SendOptions,
    ) -> Result<usize, SendManyError> {
        self.channel().send_many_with(messages, options)
    }

    /// As [`send`](Self::send), without holding a thread while it waits: a future for any executor.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("interp")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default())?;
    /// actor.activate()?;
    /// let replies = async {
    ///     actor.send_async(&1).await?;
    ///     let sent = actor.recv_async().await?;
    ///     let asked = actor.ask_async(&10).await?;
    ///     Ok::<_, Box<dyn std::error::Error>>((sent, asked))
    /// };
    /// assert_eq!(pollster::block_on(replies)?, (2, Some(11)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_async<'a>(&'a self, message: &'a H::Message) -> SendFuture<'a, H::Message> {
        self.channel().send_async(message)
    }

    /// As [`send_with`](Self::send_with), without holding a thread while it waits.
    pub fn send_async_with<'a>(
        &'a self,
        message: &'a H::Message,
        options: SendOptions,
    ) -> SendFuture<'a, H::Message> {
        self.channel().send_async_with(message, options)
    }

    /// As [`send_many`](Self::send_many), without holding a thread while it waits.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default())?;
    /// actor.activate()?;
    /// let mut replies = Vec::new();
    /// pollster::block_on(async {
    ///     actor.send_many_async(&[1, 2, 3]).await?;
    ///     while replies.len() < 3 {
    ///         actor.recv_many_async(3, &mut replies).await?;
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// assert_eq!(replies, [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_many_async<'a>(&'a self, messages: &'a [H::Message]) -> SendManyFuture<'a, H::Message> {
        self.channel().send_many_async(messages)
    }

    /// Sends a request and waits for its reply; `None` if it is handled without one.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// assert_eq!(actor.ask(41)?, Some(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It was not sent or not handled, or there will be no reply: also where the actor is not
    /// active, or failed and is not restarted by its policy.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{AskError, Lifecycle, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn share(_ctx: &RingCtx, m: u32) -> u32 { 100 / m }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(share, RingConfig::default())?;
    /// let early = actor.ask(5);
    /// assert!(matches!(early, Err(AskError::NotActive { is: Lifecycle::Launched, .. })));
    /// actor.activate()?;
    /// assert_eq!(actor.ask(5)?, Some(20));
    /// let error = actor.ask(0).unwrap_err();
    /// assert!(error.to_string().contains("division by zero"), "{error}"); // and the line
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask(&self, message: H::Message) -> Result<Option<H::Reply>, AskError> {
        self.channel().ask(&message)
    }

    /// As [`ask`](Self::ask), waiting no longer than `timeout` in all.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use std::time::Duration;
    /// # actor.activate()?;
    /// assert_eq!(actor.ask_timeout(41, Duration::from_secs(5))?, Some(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`ask`](Self::ask), and when there was no reply in time.
    pub fn ask_timeout(&self, message: H::Message, timeout: Duration) -> Result<Option<H::Reply>, AskError> {
        self.channel().ask_timeout(&message, timeout)
    }

    /// As [`ask`](Self::ask), [with a priority, a deadline or a limit to waiting](SendOptions).
    ///
    /// # Errors
    /// As of [`ask`](Self::ask) and [`send_with`](Self::send_with), and when there was no reply in
    /// time.
    pub fn ask_with(&self, message: H::Message, options: SendOptions) -> Result<Option<H::Reply>, AskError> {
        self.channel().ask_with(&message, options)
    }

    /// As [`ask`](Self::ask), without holding a thread while it waits.
    pub fn ask_async<'a>(&'a self, message: &'a H::Message) -> AskFuture<'a, H::Message, H::Reply> {
        self.channel().ask_async(message)
    }

    /// As [`ask_with`](Self::ask_with), without holding a thread while it waits.
    pub fn ask_async_with<'a>(
        &'a self,
        message: &'a H::Message,
        options: SendOptions,
    ) -> AskFuture<'a, H::Message, H::Reply> {
        self.channel().ask_async_with(message, options)
    }
}

/// Receiving, from a handler that replies.
impl<H: Handler> Actor<H> {
    /// The next reply; where the actor has several priorities, the next of the highest in which
    /// there is one. Waits as long as one may come by itself: a thread that receives what other
    /// threads send uses [`recv_timeout`](Self::recv_timeout).
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RecvError, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn odd(_ctx: &RingCtx, m: u32) -> Option<u32> {
    ///     if m % 2 == 1 { Some(m) } else { None }
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(odd, RingConfig::default())?;
    /// actor.activate()?;
    /// actor.send_many(&[3, 4])?;
    /// assert_eq!(actor.recv()?, 3);
    /// assert!(matches!(actor.recv(), Err(RecvError::NothingSent { .. }))); // 4 has no reply
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// actor.send_many(&[1, 2])?;
    /// assert_eq!((actor.recv()?, actor.recv()?), (2, 3)); // in the order of the messages
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There will be none: the actor has ended, is lost, is not active, or failed and is not
    /// restarted by its policy; or all messages are answered and their replies taken.
    #[inline]
    pub fn recv(&self) -> Result<H::Reply, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().recv()
    }

    /// The next reply, if it is there.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use kiln_ring::RecvError;
    /// # actor.activate()?;
    /// assert!(matches!(actor.try_recv(), Err(RecvError::Empty { .. } | RecvError::NothingSent { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is none yet, or there will be none: the actor has ended, is lost, or failed and is not
    /// restarted by its policy.
    #[inline]
    pub fn try_recv(&self) -> Result<H::Reply, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().try_recv()
    }

    /// The next reply, waiting no longer than `timeout`, also for what other threads are yet to
    /// send, and for an actor that they are yet to activate. `Duration::MAX` has no limit.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use kiln_ring::RecvError;
    /// # use std::time::Duration;
    /// # actor.activate()?;
    /// let none = actor.recv_timeout(Duration::from_millis(1));
    /// assert!(matches!(none, Err(RecvError::TimedOut { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There was none in time; or there will be none, as of [`try_recv`](Self::try_recv).
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<H::Reply, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().recv_timeout(timeout)
    }

    /// Waits until there are replies and appends up to `most` to `replies`; gives how many.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// # let actor = runtime.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// actor.send_many(&[1, 2, 3])?;
    /// let mut replies = Vec::new();
    /// while actor.recv_many(16, &mut replies).is_ok() {}
    /// assert_eq!(replies, [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// actor.send_many(&[1, 2, 3])?;
    /// let mut replies = Vec::new();
    /// while replies.len() < 3 {
    ///     actor.recv_many(3, &mut replies)?; // those that are there, one at least
    /// }
    /// assert_eq!(replies, [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn recv_many(&self, most: usize, replies: &mut Vec<H::Reply>) -> Result<usize, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().recv_many(most, replies)
    }

    /// Appends up to `most` replies that are there to `replies`, without waiting; gives how many.
    ///
    /// # Errors
    /// As of [`try_recv`](Self::try_recv); but that there is none yet is no error.
    pub fn try_recv_many(&self, most: usize, replies: &mut Vec<H::Reply>) -> Result<usize, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().try_recv_many(most, replies)
    }

    /// As [`recv_many`](Self::recv_many), waiting no longer than `timeout`.
    ///
    /// # Errors
    /// As of [`recv_timeout`](Self::recv_timeout).
    pub fn recv_many_timeout(
        &self,
        most: usize,
        replies: &mut Vec<H::Reply>,
        timeout: Duration,
    ) -> Result<usize, RecvError>
    where
        H::Reply: Reply,
    {
        self.channel().recv_many_timeout(most, replies, timeout)
    }

    /// As [`recv`](Self::recv), without holding a thread while it waits.
    pub fn recv_async(&self) -> RecvFuture<'_, H::Reply>
    where
        H::Reply: Reply,
    {
        self.channel().recv_async()
    }

    /// As [`recv_many`](Self::recv_many), without holding a thread while it waits.
    pub fn recv_many_async<'a>(
        &'a self,
        most: usize,
        replies: &'a mut Vec<H::Reply>,
    ) -> RecvManyFuture<'a, H::Reply>
    where
        H::Reply: Reply,
    {
        self.channel().recv_many_async(most, replies)
    }
}

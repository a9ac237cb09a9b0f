//! Waiting for a pool without a thread.

use super::pool::Pool;
use crate::channel::{Mailbox, Native, Reply, SendFuture, Sent, wake_by_reply};
use crate::error::{RecvError, SendManyError};
use crate::handler::Handler;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl<H: Handler> Pool<H> {
    /// As [`send_many`](Self::send_many), without holding a thread while it waits. Dropped before
    /// its end, the future leaves the messages that it has sent with the actors.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn twice(_ctx: &RingCtx, x: u32) -> u32 { x * 2 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let pool = runtime.pool(twice, 2, Routing::RoundRobin, |_| RingConfig::default().capacity(4))?;
    /// pool.activate()?;
    /// let mut replies = Vec::new();
    /// pollster::block_on(async {
    ///     pool.send_many_async(&[1, 2, 3, 4]).await?;
    ///     while replies.len() < 4 {
    ///         pool.recv_many_async(4, &mut replies).await?;
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// replies.sort();
    /// assert_eq!(replies, [2, 4, 6, 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_many_async<'a>(&'a self, messages: &'a [H::Message]) -> PoolSendManyFuture<'a, H> {
        PoolSendManyFuture::new(self, messages)
    }

    /// As [`recv`](Self::recv), without holding a thread while it waits.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn twice(_ctx: &RingCtx, x: u32) -> u32 { x * 2 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let pool = runtime.pool(twice, 2, Routing::RoundRobin, |_| RingConfig::default())?;
    /// pool.activate()?;
    /// let reply = pollster::block_on(async {
    ///     pool.send_async(&4).await?;
    ///     Ok::<_, Box<dyn std::error::Error>>(pool.recv_async().await?)
    /// })?;
    /// assert_eq!(reply, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_async(&self) -> PoolFuture<'_, H> {
        PoolFuture::new(self)
    }

    /// As [`recv_many`](Self::recv_many), without holding a thread while it waits.
    pub fn recv_many_async<'a>(
        &'a self,
        most: usize,
        replies: &'a mut Vec<H::Reply>,
    ) -> PoolManyFuture<'a, H> {
        PoolManyFuture::new(self, most, replies)
    }
}

/// A reply of any actor of a pool to come: [`Pool::recv_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{PoolFuture, RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(double, 2, Routing::RoundRobin, |_| RingConfig::default())?;
/// pool.activate()?;
///
/// pool.send(5)?;
/// let reply: PoolFuture<'_, double> = pool.recv_async();
/// assert_eq!(pollster::block_on(reply)?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct PoolFuture<'a, H: Handler> {
    pool: &'a Pool<H>,
    /// One for each actor.
    tickets: Vec<Option<u64>>,
    reply: PhantomData<fn() -> H>,
}

impl<H: Handler> fmt::Debug for PoolFuture<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolFuture").field("pool", self.pool).finish_non_exhaustive()
    }
}

impl<'a, H: Handler> PoolFuture<'a, H> {
    pub(super) fn new(pool: &'a Pool<H>) -> Self {
        PoolFuture { pool, tickets: vec![None; pool.actors().len()], reply: PhantomData }
    }

    fn mailboxes(pool: &Pool<H>) -> impl Iterator<Item = &Arc<Mailbox<Native>>> {
        pool.actors().iter().map(|actor| actor.channel().mailbox())
    }
}

impl<H: Handler<Reply: Reply>> Future for PoolFuture<'_, H> {
    type Output = Result<H::Reply, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pool = self.pool;
        let mut reply = None;
        let received = pool.some(1, true, &mut |one| reply = Some(one));
        match (received, reply) {
            (_, Some(reply)) => return Poll::Ready(Ok(reply)),
            (Err(error), None) => return Poll::Ready(Err(error)),
            (Ok(_), None) => {}
        }
        self.wait(cx);
        Poll::Pending
    }
}

impl<H: Handler> PoolFuture<'_, H> {
    /// Has the task woken when a reply of any actor is there, or will never be.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let mut ready = false;
        for (mailbox, ticket) in Self::mailboxes(self.pool).zip(&mut self.tickets) {
            ready |= wake_by_reply(mailbox, ticket, cx.waker());
        }
        if ready {
            cx.waker().wake_by_ref();
        }
    }
}

/// Replies of any actors of a pool to come: [`Pool::recv_many_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{PoolManyFuture, RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(double, 2, Routing::RoundRobin, |_| RingConfig::default())?;
/// pool.activate()?;
///
/// pool.send_many(&[1, 2, 3])?;
/// let mut replies = Vec::new();
/// while replies.len() < 3 {
///     let some: PoolManyFuture<'_, double> = pool.recv_many_async(3, &mut replies);
///     assert!(pollster::block_on(some)? > 0);
/// }
/// replies.sort();
/// assert_eq!(replies, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct PoolManyFuture<'a, H: Handler> {
    waiting: PoolFuture<'a, H>,
    most: usize,
    replies: &'a mut Vec<H::Reply>,
}

impl<H: Handler> fmt::Debug for PoolManyFuture<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolManyFuture").field("pool", self.waiting.pool).finish_non_exhaustive()
    }
}

impl<'a, H: Handler> PoolManyFuture<'a, H> {
    pub(super) fn new(pool: &'a Pool<H>, most: usize, replies: &'a mut Vec<H::Reply>) -> Self {
        PoolManyFuture { waiting: PoolFuture::new(pool), most, replies }
    }
}

impl<H: Handler<Reply: Reply>> Future for PoolManyFuture<'_, H> {
    type Output = Result<usize, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let PoolManyFuture { waiting, most, replies } = &mut *self;
        let received = waiting.pool.some(*most, true, &mut |reply| replies.push(reply));
        if received == Ok(0) && *most > 0 {
            waiting.wait(cx);
            return Poll::Pending;
        }
        Poll::Ready(received)
    }
}

/// Sends to a pool under way: [`Pool::send_many_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{PoolSendManyFuture, RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(double, 2, Routing::RoundRobin, |_| RingConfig::default())?;
/// pool.activate()?;
///
/// let all: PoolSendManyFuture<'_, double> = pool.send_many_async(&[1, 2, 3]);
/// assert_eq!(pollster::block_on(all)?, 3);
/// assert_eq!([pool.recv()?, pool.recv()?, pool.recv()?].iter().sum::<u32>(), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct PoolSendManyFuture<'a, H: Handler> {
    pool: &'a Pool<H>,
    messages: &'a [H::Message],
    sent: usize,
    /// The send of the next message, once its actor is chosen.
    under_way: Option<SendFuture<'a, H::Message>>,
}

impl<H: Handler> fmt::Debug for PoolSendManyFuture<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSendManyFuture").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl<'a, H: Handler> PoolSendManyFuture<'a, H> {
    pub(super) fn new(pool: &'a Pool<H>, messages: &'a [H::Message]) -> Self {
        PoolSendManyFuture { pool, messages, sent: 0, under_way: None }
    }
}

impl<H: Handler> Future for PoolSendManyFuture<'_, H> {
    type Output = Result<usize, SendManyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let PoolSendManyFuture { pool, messages, sent, under_way } = &mut *self;
        while let Some(message) = messages.get(*sent) {
            let sending = under_way.get_or_insert_with(|| pool.send_async(message));
            let outcome = match Pin::new(sending).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(outcome) => outcome,
            };
            *under_way = None;
            match outcome {
                Ok(Sent::Queued(_)) => *sent += 1,
                Ok(Sent::Dropped) => break,
                Err(error) => return Poll::Ready(Err(SendManyError { sent: *sent, error })),
            }
        }
        Poll::Ready(Ok(*sent))
    }
}

impl<H: Handler> Drop for PoolFuture<'_, H> {
    fn drop(&mut self) {
        for (mailbox, ticket) in Self::mailboxes(self.pool).zip(&self.tickets) {
            ticket.iter().for_each(|ticket| mailbox.wakers.remove(*ticket));
        }
    }
}

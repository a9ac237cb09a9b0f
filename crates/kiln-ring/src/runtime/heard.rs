//! Waiting for outputs and for pools: whether anything is still to come, and futures.

use super::Side;
use super::body::Body;
use super::lifecycle::Lifecycle;
use super::outputs::Outputs;
use super::pool::Pool;
use crate::channel::{
    Awaited, DeviceSide, Mailbox, Native, RecvError, Reply, SendFuture, SendManyError, Sent, Watched,
    wake_by_reply, watch,
};
use crate::handler::Handler;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Between two looks whether a runtime has anything to do: they read from the device.
const LOOK: Duration = Duration::from_millis(2);

/// Whether the actors of a runtime have anything to do.
///
/// Messages come from the host or from handlers, and a handler runs for a message. So where no
/// actor that handles messages has one, none will ever have one, unless the host sends it. That is
/// seen by two looks at what was sent and what is done, which must find the same: what is on its
/// way from one actor to the other changes a count between them.
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

    /// Whether no actor has anything to do. It looks now and then, and gives `false` in between.
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
            let ((sent, answered), inlets) = (body.mailbox.progress(), body.side.inlet_counters()?);
            let idle = sent == answered && inlets.iter().all(|[tail, head]| tail == head);
            (idle || !body.acts()).then_some((body.number, (sent, answered, inlets)))
        };
        bodies.iter().map(counts).collect()
    }
}

impl Body {
    /// Whether it handles messages, gives them back, or will do so by itself. An actor about which
    /// somebody else is busy does, as far as is known.
    fn acts(&self) -> bool {
        self.try_life().is_none_or(|life| match life.stage {
            Lifecycle::Active | Lifecycle::Draining => true,
            Lifecycle::Failed => life.due.is_some() || self.mailbox.is_closed(),
            Lifecycle::Launched | Lifecycle::Deactivated | Lifecycle::Terminated => false,
        })
    }
}

/// An output to come: [`Outputs::recv_async`].
#[must_use = "futures do nothing unless awaited"]
pub struct OutputFuture<'a, R> {
    outputs: &'a Outputs<R>,
    ticket: Option<u64>,
}

impl<R> fmt::Debug for OutputFuture<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFuture").field("outputs", self.outputs).finish_non_exhaustive()
    }
}

impl<'a, R> OutputFuture<'a, R> {
    pub(super) fn new(outputs: &'a Outputs<R>) -> Self {
        OutputFuture { outputs, ticket: None }
    }
}

impl<R: Reply> Future for OutputFuture<'_, R> {
    type Output = Result<R, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.outputs.try_recv() {
            Err(RecvError::Empty { .. }) => {}
            received => return Poll::Ready(received),
        }
        self.wait(cx);
        Poll::Pending
    }
}

impl<R> OutputFuture<'_, R> {
    /// Has the task woken when an output is there, or will never be.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let side = self.outputs.side();
        let wakers = &side.inlets.outputs.wakers;
        let awaited = Awaited::Reply { sent_later: true };
        self.ticket = Some(wakers.add(self.ticket, awaited, cx.waker()));
        // It may have come before the waker was there. Without a thread that looks, the task looks
        // itself.
        if side.has_output() || side.see_to_outputs().is_err() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Outputs to come: [`Outputs::recv_many_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct OutputManyFuture<'a, R> {
    waiting: OutputFuture<'a, R>,
    most: usize,
    replies: &'a mut Vec<R>,
}

impl<'a, R> OutputManyFuture<'a, R> {
    pub(super) fn new(outputs: &'a Outputs<R>, most: usize, replies: &'a mut Vec<R>) -> Self {
        OutputManyFuture { waiting: OutputFuture::new(outputs), most, replies }
    }
}

impl<R: Reply> Future for OutputManyFuture<'_, R> {
    type Output = Result<usize, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let OutputManyFuture { waiting, most, replies } = &mut *self;
        let received = waiting.outputs.try_recv_many(*most, replies);
        if received == Ok(0) && *most > 0 {
            waiting.wait(cx);
            return Poll::Pending;
        }
        Poll::Ready(received)
    }
}

impl<R> Drop for OutputFuture<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.outputs.side().inlets.outputs.wakers.remove(ticket);
        }
    }
}

impl Side {
    /// Whether an output is there, or will never be.
    fn has_output(&self) -> bool {
        self.inlets.outputs.is_ready(&self.standing())
    }

    /// Sees to it that the outputs are looked at while a future waits for them.
    fn see_to_outputs(self: &Arc<Side>) -> std::io::Result<()> {
        let wakers = &self.inlets.outputs.wakers;
        if wakers.begin_watching() {
            let weak: Weak<dyn Watched> = Arc::downgrade(self) as Weak<dyn Watched>;
            return watch(weak).inspect_err(|_| wakers.stop_watching());
        }
        Ok(())
    }
}

impl Watched for Side {
    fn attend(&self) -> bool {
        self.pump();
        self.inlets.outputs.wakers.wake(|_| self.has_output())
    }

    fn is_done(&self) -> bool {
        self.inlets.outputs.wakers.is_unwatched()
    }
}

/// A reply of any actor of a pool to come: [`Pool::recv_async`].
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

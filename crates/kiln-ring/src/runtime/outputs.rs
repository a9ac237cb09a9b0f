//! Outputs: receiving what becomes of the messages that other actors sent.

use super::Side;
use super::output_ring::OutputRing;
use super::quiet::Quiet;
use super::supervisor::ShutdownGuard;
use crate::channel::{Deadline, DeviceSide, Reply, Wait};
use crate::error::RecvError;
use crate::layout::Layout;
use crate::standing::Standing;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The replies to messages that other actors sent, for the host.
///
/// Those of all inbound links come in the order in which they were made. Messages that were not
/// handled become [dead letters](crate::RingRuntime::dead_letters) when their turn comes. As many
/// may be there as the actor's queue has places. When they are not taken, the actor waits, and then
/// those that send to it: take the replies of a handler that replies to other actors.
///
/// Clones read the same outputs. While one thread takes some, others wait.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, Outputs, RingConfig, RingCtx, RingRuntime, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn add_one(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(add_one, RingConfig::default())?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(8)?))?;
/// last.activate()?;
/// first.activate()?;
///
/// let (outputs, second): (Outputs<u32>, _) = (last.outputs(), Duration::from_secs(1));
/// assert!(outputs.try_recv().is_err());
/// first.send_many(&[1, 2, 3])?;
/// let mut replies = vec![outputs.recv_timeout(second)?];
/// outputs.recv_many(8, &mut replies)?;
/// while replies.len() < 3 {
///     outputs.recv_many_timeout(8, &mut replies, second)?;
/// }
/// assert_eq!(replies, [2, 5, 10]);
/// assert_eq!(outputs.try_recv_many(8, &mut replies)?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Outputs<R> {
    side: Arc<Side>,
    replies: PhantomData<fn() -> R>,
    /// The last part.
    shutdown_guard: ShutdownGuard,
}

impl<R> Clone for Outputs<R> {
    fn clone(&self) -> Self {
        Outputs {
            side: Arc::clone(&self.side),
            replies: PhantomData,
            shutdown_guard: self.shutdown_guard.clone(),
        }
    }
}

impl<R> fmt::Debug for Outputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("actor", &self.ring().spec().actor).finish_non_exhaustive()
    }
}

impl<R> Outputs<R> {
    /// The side of the actor whose outputs they are.
    pub(super) fn side(&self) -> &Arc<Side> {
        &self.side
    }

    fn ring(&self) -> &OutputRing {
        &self.side.inbound_links.outputs
    }
}

impl<R: Layout> Outputs<R> {
    pub(super) fn new(side: &Arc<Side>) -> Outputs<R> {
        Outputs {
            side: Arc::clone(side),
            replies: PhantomData,
            shutdown_guard: ShutdownGuard::of(&side.shared),
        }
    }
}

impl<R: Layout> Outputs<R> {
    /// The next reply, if it is there.
    ///
    /// # Errors
    /// There is none yet, or there will be none: the actor has ended, or failed and is not
    /// restarted by its policy.
    pub fn try_recv(&self) -> Result<R, RecvError>
    where
        R: Reply,
    {
        let mut reply = None;
        self.some(1, |words| reply = Some(R::decode(words)))?;
        reply.ok_or(RecvError::Empty { actor: self.ring().spec().actor })
    }

    /// The next reply. Waits as long as one may come by itself: as long as an actor of the runtime
    /// has a message to handle.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Address, RecvError, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn share(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ///     ctx.send(next, 100 / x);
    /// }
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn echo(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let last = runtime.launch(echo, RingConfig::default())?;
    /// let first = runtime.launch(share, RingConfig::default().state(last.inbound_link(8)?))?;
    /// last.activate()?;
    /// first.activate()?;
    /// first.send_many(&[20, 0])?;
    /// let outputs = last.outputs();
    /// assert_eq!(outputs.recv(), Ok(5));
    /// // The first actor failed on 0, so that nothing more comes to the last.
    /// assert!(matches!(outputs.recv(), Err(RecvError::NothingSent { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`try_recv`](Self::try_recv); or the actor is not active; or no active actor of the
    /// runtime has a message to handle. Where actors of another runtime send to this one, their
    /// messages are waited for. To wait for what other threads are yet to send, use
    /// [`recv_timeout`](Self::recv_timeout).
    pub fn recv(&self) -> Result<R, RecvError>
    where
        R: Reply,
    {
        self.recv_until(None)
    }

    /// The next reply, waiting no longer than `timeout`, also for what other threads are yet to
    /// send; `Duration::MAX` has no limit.
    ///
    /// # Errors
    /// There was none in time; or there will be none, as of [`try_recv`](Self::try_recv).
    pub fn recv_timeout(&self, timeout: Duration) -> Result<R, RecvError>
    where
        R: Reply,
    {
        self.recv_until(Some(Deadline::after(timeout)))
    }

    fn recv_until(&self, until: Option<Deadline>) -> Result<R, RecvError> {
        let mut reply = None;
        self.some_until(1, until, |words| reply = Some(R::decode(words)))?;
        reply.ok_or(RecvError::Empty { actor: self.ring().spec().actor })
    }

    /// Waits until there are replies and appends up to `most` to `replies`; gives how many.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn recv_many(&self, most: usize, replies: &mut Vec<R>) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.some_until(most, None, |words| replies.push(R::decode(words)))
    }

    /// As [`recv_many`](Self::recv_many), waiting no longer than `timeout`.
    ///
    /// # Errors
    /// As of [`recv_timeout`](Self::recv_timeout).
    pub fn recv_many_timeout(
        &self,
        most: usize,
        replies: &mut Vec<R>,
        timeout: Duration,
    ) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.some_until(most, Some(Deadline::after(timeout)), |words| replies.push(R::decode(words)))
    }

    /// Appends up to `most` replies that are there to `replies`; gives how many.
    ///
    /// # Errors
    /// As of [`try_recv`](Self::try_recv); but that there is none yet is no error.
    pub fn try_recv_many(&self, most: usize, replies: &mut Vec<R>) -> Result<usize, RecvError>
    where
        R: Reply,
    {
        self.some(most, |words| replies.push(R::decode(words)))
    }

    fn some_until(
        &self,
        most: usize,
        until: Option<Deadline>,
        mut take: impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let actor = self.ring().spec().actor;
        let mut wait = Wait::new(self.ring().spec().wait, until.map(Deadline::end));
        let mut quiet = Quiet::new(&self.side);
        loop {
            let taken = self.some(most, &mut take)?;
            if taken > 0 || most == 0 {
                return Ok(taken);
            }
            let none = if until.is_some() { None } else { self.none_to_come(&mut quiet) };
            if let Some(error) = none {
                // What arrived before that was read is found now.
                let taken = self.some(most, &mut take)?;
                return if taken > 0 { Ok(taken) } else { Err(error) };
            }
            if !wait.step() {
                return Err(RecvError::TimedOut { actor, waited: Deadline::waited(until) });
            }
        }
    }

    /// Why no reply comes by itself, where none is there and the actor has not ended.
    fn none_to_come(&self, quiet: &mut Quiet<'_>) -> Option<RecvError> {
        let actor = self.ring().spec().actor;
        match self.side.standing() {
            Standing::Holds(is) => Some(RecvError::NotActive { actor, is }),
            Standing::Answers if quiet.is_quiet() => {
                // The last message may be one on which the handler failed.
                self.side.notice();
                let done = self.side.standing() == Standing::Answers;
                done.then_some(RecvError::NothingSent { actor })
            }
            _ => None,
        }
    }

    /// Takes up to `most` replies that are there.
    pub(super) fn some(&self, most: usize, mut take: impl FnMut(&[u32])) -> Result<usize, RecvError> {
        let ring = self.ring();
        let actor = ring.spec().actor;
        // Read first: what came before the end is found.
        let (closed, standing) = (ring.is_closed(), self.side.standing());
        let mut taken = ring.take(most, &mut take);
        if taken == 0 && !closed && self.side.pump() {
            taken = ring.take(most, &mut take);
        }
        if taken > 0 {
            self.side.shared.room_made();
        } else if closed {
            return Err(RecvError::Closed { actor });
        } else if let Standing::Failed(failed) = standing {
            return Err(RecvError::Failed { actor, failed });
        }
        Ok(taken)
    }
}

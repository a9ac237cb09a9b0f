//! Pools: several actors of one kind that share their work.

use super::actor::Actor;
use super::config::RingConfig;
use super::{Ending, RingRuntime};
use crate::channel::{AskFuture, Deadline, Reply, SendFuture, SendOptions, Sent, Wait};
use crate::error::{AskError, RecvError, Result, SendError, SendManyError};
use crate::handler::Handler;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Which actor of a pool a message goes to.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(double, 2, Routing::LeastLoaded, |_| RingConfig::default())?;
/// pool.actors()[0].send(1)?;
/// pool.actors()[0].send(2)?;
/// // The other one has fewer messages.
/// pool.send(3)?;
/// pool.send(4)?;
/// assert_eq!([0, 1].map(|i| pool.actors()[i].counts().sent), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// To one after the other.
    #[default]
    RoundRobin,
    /// To the one with the fewest messages that are not answered.
    LeastLoaded,
}

/// Actors of one kind, among which the host divides messages.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, Routing, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn count(_ctx: &RingCtx, n: &mut u32, x: u32) -> u32 {
///     *n += x;
///     *n
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(count, 3, Routing::RoundRobin, |_| RingConfig::default().state(0))?;
/// pool.activate()?;
/// for x in 1..=6 {
///     pool.send(x)?; // 1 and 4, 2 and 5, 3 and 6
/// }
/// let mut sums = [(); 6].map(|()| pool.recv().unwrap());
/// sums.sort();
/// assert_eq!(sums, [1, 2, 3, 5, 7, 9]);
/// let one = pool.of_key(b"customer 4711").ask(0)?; // always the same actor
/// assert_eq!(pool.of_key(b"customer 4711").ask(0)?, one);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Ending, RingConfig, RingCtx, RingRuntime, Routing, SendOptions, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let pool = runtime.pool(double, 2, Routing::RoundRobin, |_| RingConfig::default().priorities(2))?;
/// assert_eq!(pool.actors().len(), 2);
/// assert!(pool.try_recv().is_err());
/// pool.activate()?;
///
/// // All ways to send, and to receive what any of the actors replies.
/// let (second, high) = (Duration::from_secs(1), SendOptions::default().priority(1));
/// pool.try_send(1)?;
/// pool.send_timeout(2, second)?;
/// pool.send_with(3, high)?;
/// pool.send_many(&[4, 5])?;
/// pool.send_many_timeout(&[6], second)?;
/// let mut replies = vec![pool.recv_timeout(second)?];
/// pool.recv_many(8, &mut replies)?;
/// while replies.len() < 6 {
///     pool.recv_many_timeout(8, &mut replies, second)?;
/// }
/// replies.sort();
/// assert_eq!(replies, [2, 4, 6, 8, 10, 12]);
/// assert_eq!(pool.try_recv_many(8, &mut replies)?, 0); // there are no more
///
/// pool.broadcast(50)?;
/// assert_eq!([pool.recv()?, pool.recv()?], [100, 100]);
/// assert_eq!(pool.ask_timeout(7, second)?, Some(14));
/// assert_eq!(pool.ask_with(8, high)?, Some(16));
/// assert_eq!(pollster::block_on(pool.ask_async(&9))?, Some(18));
/// pool.terminate_with(Ending::Drain, second)?;
/// assert!(pool.send(1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "its actors are terminated when it is dropped"]
pub struct Pool<H: Handler> {
    actors: Vec<Actor<H>>,
    routing: Routing,
    /// Where the next message goes, and where the next poll for a reply begins.
    next: AtomicUsize,
    look: AtomicUsize,
}

impl<H: Handler> std::fmt::Debug for Pool<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("actors", &self.actors).field("routing", &self.routing).finish()
    }
}

impl RingRuntime {
    /// Launches a pool of `n` actors, at least one, each with its own configuration: `config` gets
    /// its number, from 0.
    ///
    /// # Errors
    /// As of [`launch`](Self::launch).
    #[track_caller]
    pub fn pool<H: Handler>(
        &self,
        handler: H,
        n: usize,
        routing: Routing,
        mut config: impl FnMut(usize) -> RingConfig<H::State>,
    ) -> Result<Pool<H>> {
        self.0.check_not_capturing("a pool of actors was launched")?;
        let actors = (0..n.max(1)).map(|i| self.launch(handler, config(i))).collect::<Result<_>>()?;
        Ok(Pool { actors, routing, next: AtomicUsize::new(0), look: AtomicUsize::new(0) })
    }
}

impl<H: Handler> Pool<H> {
    /// The actors.
    pub fn actors(&self) -> &[Actor<H>] {
        &self.actors
    }

    /// The actor that gets the next message.
    fn route(&self) -> &Actor<H> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.actors.len();
        match self.routing {
            Routing::RoundRobin => &self.actors[turn],
            Routing::LeastLoaded => {
                // Among equals, in turn.
                let (before, from) = self.actors.split_at(turn);
                let least = from.iter().chain(before).min_by_key(|actor| actor.channel().unanswered());
                least.unwrap_or(&self.actors[turn])
            }
        }
    }

    /// The actor of a key: always the same one, in every process, as long as the pool has as many
    /// actors. Keys spread evenly.
    pub fn of_key(&self, key: impl AsRef<[u8]>) -> &Actor<H> {
        // FNV-1a of 64 bits, whose bits a multiplication mixes (the finalizer of MurmurHash3); then
        // Lemire's reduction to a range.
        let hash = key.as_ref().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = hash ^ hash >> 33;
        &self.actors[((u128::from(hash) * self.actors.len() as u128) >> 64) as usize]
    }

    /// Sends a message to one of the actors.
    ///
    /// # Errors
    /// As of [`Actor::send`].
    pub fn send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.route().send(message)
    }

    /// Sends a message to one of the actors, [with a priority, a deadline or a limit to
    /// waiting](SendOptions).
    ///
    /// # Errors
    /// As of [`Actor::send_with`].
    pub fn send_with(&self, message: H::Message, options: SendOptions) -> Result<Sent, SendError> {
        self.route().send_with(message, options)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// As of [`Actor::try_send`].
    pub fn try_send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.route().try_send(message)
    }

    /// As [`send`](Self::send), waiting no longer than `timeout`.
    ///
    /// # Errors
    /// As of [`Actor::send_timeout`].
    pub fn send_timeout(&self, message: H::Message, timeout: Duration) -> Result<Sent, SendError> {
        self.route().send_timeout(message, timeout)
    }

    /// As [`send`](Self::send), without holding a thread while it waits.
    pub fn send_async<'a>(&'a self, message: &'a H::Message) -> SendFuture<'a, H::Message> {
        self.route().send_async(message)
    }

    /// Sends messages, each to one of the actors as [`send`](Self::send) does; gives how many:
    /// fewer only if the queue of one drops the newest.
    ///
    /// # Errors
    /// As of [`Actor::send_many`].
    pub fn send_many(&self, messages: &[H::Message]) -> Result<usize, SendManyError> {
        self.send_each(messages, |actor, message| actor.channel().send(message))
    }

    /// As [`send_many`](Self::send_many), waiting no longer than `timeout` in all.
    ///
    /// # Errors
    /// As of [`Actor::send_many_timeout`].
    pub fn send_many_timeout(
        &self,
        messages: &[H::Message],
        timeout: Duration,
    ) -> Result<usize, SendManyError> {
        let begun = Instant::now();
        self.send_each(messages, |actor, message| {
            let sent = actor.channel().send_timeout(message, timeout.saturating_sub(begun.elapsed()));
            sent.map_err(|error| match error {
                SendError::TimedOut { actor, .. } => SendError::TimedOut { actor, waited: begun.elapsed() },
                error => error,
            })
        })
    }

    fn send_each(
        &self,
        messages: &[H::Message],
        send: impl Fn(&Actor<H>, &H::Message) -> Result<Sent, SendError>,
    ) -> Result<usize, SendManyError> {
        for (sent, message) in messages.iter().enumerate() {
            match send(self.route(), message) {
                Ok(Sent::Queued(_)) => {}
                Ok(Sent::Dropped) => return Ok(sent),
                Err(error) => return Err(SendManyError { sent, error }),
            }
        }
        Ok(messages.len())
    }

    /// Sends a request to one of the actors, [with a priority, a deadline or a limit to
    /// waiting](SendOptions), and waits for its reply.
    ///
    /// # Errors
    /// As of [`Actor::ask_with`].
    pub fn ask_with(&self, message: H::Message, options: SendOptions) -> Result<Option<H::Reply>, AskError> {
        self.route().ask_with(message, options)
    }

    /// Sends a request to one of the actors and waits for its reply.
    ///
    /// # Errors
    /// As of [`Actor::ask`].
    pub fn ask(&self, message: H::Message) -> Result<Option<H::Reply>, AskError> {
        self.route().ask(message)
    }

    /// As [`ask`](Self::ask), waiting no longer than `timeout` in all.
    ///
    /// # Errors
    /// As of [`Actor::ask_timeout`].
    pub fn ask_timeout(&self, message: H::Message, timeout: Duration) -> Result<Option<H::Reply>, AskError> {
        self.route().ask_timeout(message, timeout)
    }

    /// As [`ask`](Self::ask), without holding a thread while it waits.
    pub fn ask_async<'a>(&'a self, message: &'a H::Message) -> AskFuture<'a, H::Message, H::Reply> {
        self.route().ask_async(message)
    }

    /// Sends a message to every actor.
    ///
    /// # Errors
    /// The first refusal; the actors before have the message.
    pub fn broadcast(&self, message: H::Message) -> Result<(), SendError>
    where
        H::Message: Clone,
    {
        self.actors.iter().try_for_each(|actor| actor.send(message.clone()).map(drop))
    }

    /// Activates all actors.
    ///
    /// # Errors
    /// The first failure; the actors before are active.
    #[track_caller]
    pub fn activate(&self) -> Result<()> {
        self.actors.first().map_or(Ok(()), |actor| actor.check_not_capturing("a pool was activated"))?;
        self.actors.iter().try_for_each(Actor::activate)
    }

    /// Terminates all actors; each is given as long.
    ///
    /// # Errors
    /// The first failure. All were commanded to end.
    pub fn terminate_with(&self, ending: Ending, timeout: Duration) -> Result<()> {
        let mut outcome = Ok(());
        for actor in &self.actors {
            let ended = actor.terminate_with(ending, timeout);
            outcome = outcome.and(ended);
        }
        outcome
    }
}

/// Receiving, from a handler that replies.
impl<H: Handler<Reply: Reply>> Pool<H> {
    /// A reply of any actor, if there is one.
    ///
    /// # Errors
    /// There is none yet; or there will be none, of no actor.
    pub fn try_recv(&self) -> Result<H::Reply, RecvError> {
        let mut reply = None;
        self.some(1, false, &mut |one| reply = Some(one))?;
        reply.ok_or(RecvError::Empty { actor: self.actors[0].number() })
    }

    /// A reply of any actor. Waits as long as one may come by itself.
    ///
    /// # Errors
    /// There will be none, of no actor, as of [`Actor::recv`].
    pub fn recv(&self) -> Result<H::Reply, RecvError> {
        self.recv_until(None)
    }

    /// A reply of any actor, waiting no longer than `timeout`, also for what other threads are yet
    /// to send.
    ///
    /// # Errors
    /// There was none in time; or there will be none, of no actor.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<H::Reply, RecvError> {
        self.recv_until(Some(Deadline::after(timeout)))
    }

    /// Waits until there are replies of any actors and appends up to `most` to `replies`; gives how
    /// many.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn recv_many(&self, most: usize, replies: &mut Vec<H::Reply>) -> Result<usize, RecvError> {
        self.some_until(most, None, &mut |reply| replies.push(reply))
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
    ) -> Result<usize, RecvError> {
        self.some_until(most, Some(Deadline::after(timeout)), &mut |reply| replies.push(reply))
    }

    /// Appends up to `most` replies that are there to `replies`; gives how many.
    ///
    /// # Errors
    /// There will be none, of no actor.
    pub fn try_recv_many(&self, most: usize, replies: &mut Vec<H::Reply>) -> Result<usize, RecvError> {
        self.some(most, false, &mut |reply| replies.push(reply))
    }

    fn recv_until(&self, until: Option<Deadline>) -> Result<H::Reply, RecvError> {
        let mut reply = None;
        self.some_until(1, until, &mut |one| reply = Some(one))?;
        reply.ok_or(RecvError::Empty { actor: self.actors[0].number() })
    }

    fn some_until(
        &self,
        most: usize,
        until: Option<Deadline>,
        take: &mut dyn FnMut(H::Reply),
    ) -> Result<usize, RecvError> {
        let policy = self.actors[0].channel().mailbox().wait_policy();
        let mut wait = Wait::new(policy, until.map(Deadline::end));
        loop {
            let taken = self.some(most, until.is_none(), take)?;
            if taken > 0 || most == 0 {
                return Ok(taken);
            }
            if !wait.step() {
                let actor = self.actors[0].number();
                return Err(RecvError::TimedOut { actor, waited: Deadline::waited(until) });
            }
        }
    }

    /// Takes up to `most` replies that are there. An error if none will come, of no actor; see
    /// `Mailbox::receive` for `for_ever`.
    pub(super) fn some(
        &self,
        most: usize,
        for_ever: bool,
        take: &mut dyn FnMut(H::Reply),
    ) -> Result<usize, RecvError> {
        let first = self.look.fetch_add(1, Ordering::Relaxed) % self.actors.len();
        let (before, from) = self.actors.split_at(first);
        let (mut taken, mut may_come, mut error) = (0, false, None);
        for actor in from.iter().chain(before) {
            match actor.channel().take_each(most - taken, for_ever, &mut *take) {
                Ok(some) => {
                    taken += some;
                    may_come = true;
                }
                // A failure says more than that an actor has nothing to do.
                Err(failed @ RecvError::Failed { .. }) => error = Some(failed),
                Err(none) => error = error.or(Some(none)),
            }
        }
        match error.filter(|_| taken == 0 && !may_come) {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }
}

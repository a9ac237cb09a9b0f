//! Actors, as the host sees them.

use super::body::{Body, Turn};
use super::checkpoint::Checkpoint;
use super::ending::Ending;
use super::supervisor::ShutdownGuard;
use crate::channel::{Channel, Counts};
use crate::device::ActorKind;
use crate::error::{Result, RingError};
use crate::handler::Handler;
use crate::layout::Layout;
use crate::lifecycle::Lifecycle;
use crate::telemetry::ActorTelemetry;
use crate::wire::record::gate;
use kiln_backend::BlockTime;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An actor: a handler on a device, with its state and its queue.
///
/// Any number of threads may use it at once. Dropping it terminates the actor and discards its
/// messages. The drop waits for this no longer than
/// [`acknowledge_within`](crate::RuntimeConfig::acknowledge_within).
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Ending, RingConfig, RingCtx, RingRuntime, SendOptions, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default().priorities(2))?;
/// let (second, high) = (Duration::from_secs(1), SendOptions::default().priority(1));
/// // Its messages wait until it is active; those of the higher priority are handled first.
/// actor.send(1)?;
/// actor.try_send_with(2, high)?;
/// actor.send_many_with(&[3, 4], high)?;
/// assert_eq!(actor.counts().sent, 4);
/// actor.activate()?;
/// let mut replies = Vec::new();
/// while replies.len() < 4 {
///     actor.recv_many_timeout(4, &mut replies, second)?;
/// }
/// assert_eq!(replies, [4, 6, 8, 2]);
/// assert_eq!(actor.try_recv_many(4, &mut replies)?, 0); // there are no more
///
/// assert_eq!(actor.ask_with(5, high)?, Some(10));
/// pollster::block_on(async {
///     actor.send_async_with(&6, high).await?;
///     assert_eq!(actor.ask_async_with(&7, high).await?, Some(14));
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// assert_eq!(actor.recv()?, 12);
/// assert_eq!(actor.undelivered()?, 0); // no actor sends to it
/// actor.terminate_with(Ending::Drain, second)?;
/// assert!(actor.send(1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an actor is terminated when it is dropped"]
pub struct Actor<H: Handler> {
    pub(super) body: Arc<Body>,
    channel: Channel<H::Message, H::Reply>,
    /// The last part.
    _shutdown_guard: ShutdownGuard,
}

impl<H: Handler> fmt::Debug for Actor<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("number", &self.number())
            .field("lifecycle", &self.lifecycle())
            .finish_non_exhaustive()
    }
}

impl<H: Handler> Actor<H> {
    pub(super) fn new(body: Arc<Body>, channel: Channel<H::Message, H::Reply>) -> Actor<H> {
        let _shutdown_guard = ShutdownGuard::of(&body.side.shared);
        Actor { body, channel, _shutdown_guard }
    }

    /// Returns the actor's number, unique in the runtime.
    pub fn number(&self) -> u32 {
        self.body.number
    }

    /// Returns the channel, for methods that this type does not wrap.
    pub fn channel(&self) -> &Channel<H::Message, H::Reply> {
        &self.channel
    }

    /// Returns the counts of the actor's messages.
    pub fn counts(&self) -> Counts {
        self.channel.counts()
    }

    /// Returns the device's clock in nanoseconds, by which
    /// [deadlines](crate::SendOptions::deadline) are given. The call sends a command to the actor's
    /// worker, and the time is that of its acknowledgement.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Reason, RingConfig, RingCtx, RingRuntime, SendOptions, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(increment, RingConfig::default().deadlines(true))?;
    /// let soon = actor.device_clock()? + 1_000;
    /// actor.send_with(1, SendOptions::default().deadline(soon))?;
    /// actor.send(2)?;
    /// std::thread::sleep(std::time::Duration::from_millis(1));
    /// actor.activate()?;
    /// assert_eq!(actor.recv()?, 3);
    /// assert_eq!(runtime.dead_letters().pop().map(|letter| letter.reason), Some(Reason::Expired));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The device does not answer.
    pub fn device_clock(&self) -> Result<u64> {
        self.body.side.device_clock()
    }

    /// Returns the actor's telemetry, read from the device while the actor runs.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # use kiln_lang::prelude::*;
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(ctx: &RingCtx, m: u32) -> u32 { m + 1 }
    /// # let device = kiln_runtime::Device::open("interp")?;
    /// # let actor = RingRuntime::new(&device)?.launch(increment, RingConfig::default())?;
    /// # actor.activate()?;
    /// actor.ask(1)?;
    /// let seen = actor.telemetry()?;
    /// assert_eq!((seen.processed, seen.failed, seen.depth), (1, 0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Failures of the device.
    pub fn telemetry(&self) -> Result<ActorTelemetry> {
        self.body.telemetry()
    }

    // ---- life

    /// Returns the state of the actor's lifecycle, as far as the host has seen it: a failure is
    /// seen when its answer arrives.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// # use kiln_ring::Lifecycle;
    /// actor.activate()?;
    /// assert_eq!(actor.lifecycle(), Lifecycle::Active);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lifecycle(&self) -> Lifecycle {
        self.body.life().stage
    }

    /// Activates the actor: from now on it handles messages.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// actor.send(1)?; // held until it is active
    /// actor.activate()?;
    /// assert_eq!(actor.recv()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It was activated before ([`reactivate`](Self::reactivate) follows
    /// [`deactivate`](Self::deactivate)), failed or has ended; the device does not answer; this
    /// thread captures a graph of the device (`kiln_runtime::Error::Capture`), as of all calls that
    /// change the actor's life.
    #[track_caller]
    pub fn activate(&self) -> Result<()> {
        self.check_not_capturing("an actor was activated")?;
        self.body.turn(&Turn {
            what: "activate",
            from: Lifecycle::Launched,
            needs: "launched",
            to: Lifecycle::Active,
            gate: gate::OPEN,
        })
    }

    /// Deactivates the actor: from now on its messages remain in the queue. The message being
    /// handled is finished first.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// actor.activate()?;
    /// actor.deactivate()?;
    /// actor.send(1)?; // held
    /// actor.reactivate()?;
    /// assert_eq!(actor.recv()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It is not active; the device does not answer.
    #[track_caller]
    pub fn deactivate(&self) -> Result<()> {
        self.check_not_capturing("an actor was deactivated")?;
        self.body.turn(&Turn {
            what: "deactivate",
            from: Lifecycle::Active,
            needs: "active",
            to: Lifecycle::Deactivated,
            gate: gate::HELD,
        })
    }

    /// Reactivates the actor: it handles messages again, those in the queue first.
    ///
    /// # Errors
    /// It is not deactivated; the device does not answer.
    #[track_caller]
    pub fn reactivate(&self) -> Result<()> {
        self.check_not_capturing("an actor was reactivated")?;
        self.body.turn(&Turn {
            what: "reactivate",
            from: Lifecycle::Deactivated,
            needs: "deactivated",
            to: Lifecycle::Active,
            gate: gate::OPEN,
        })
    }

    /// Restarts a failed actor with the state that it was launched with. It goes on with the
    /// messages in its queue; an actor that was given up begins with an empty queue.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Lifecycle, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn quotients(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    ///     *sum += 100 / x;
    ///     *sum
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(quotients, RingConfig::default().state(1))?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(10)?, Some(11));
    /// assert!(actor.ask(0).is_err());
    /// assert!(actor.restart().is_ok() && actor.restarts() == 1);
    /// assert_eq!(actor.ask(20)?, Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It has not failed; the device does not answer.
    #[track_caller]
    pub fn restart(&self) -> Result<()> {
        self.check_not_capturing("an actor was restarted")?;
        self.body.restart(false)
    }

    /// As [`restart`](Self::restart), with the state that the actor had before the message on which
    /// it failed. Elements of arrays that the failed handler had replaced in place remain replaced.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn quotients(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    ///     *sum += 100 / x;
    ///     *sum
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(quotients, RingConfig::default().state(0))?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(10)?, Some(10));
    /// assert!(actor.ask(0).is_err());
    /// actor.resume()?;
    /// assert_eq!(actor.ask(20)?, Some(15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`restart`](Self::restart).
    #[track_caller]
    pub fn resume(&self) -> Result<()> {
        self.check_not_capturing("an actor was restarted")?;
        self.body.restart(true)
    }

    /// The actor as it is now: its state, and the messages that it was sent and has not handled, in
    /// their order and with what is left until their deadlines. An active actor is held meanwhile:
    /// for two commands and a copy. Replies that were not received are not part of it.
    ///
    /// # Errors
    ///
    /// It is being terminated; its messages or its state refer to payloads or addresses, which mean
    /// nothing elsewhere, or it has inbound links
    /// ([`RingRuntime::snapshot`](crate::RingRuntime::snapshot) takes actors that send to each
    /// other); a sender stopped half-way; the device does not answer.
    #[track_caller]
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.check_not_capturing("a checkpoint was taken")?;
        self.body.checkpoint().map(|checkpoint| Checkpoint::clone(&self.body.keep(checkpoint)))
    }

    /// The last checkpoint that was taken, by [`checkpoint`](Self::checkpoint) or [by the
    /// clock](crate::RuntimeConfig::checkpoint_every).
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn sum(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    ///     *total += x;
    ///     *total
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(sum, RingConfig::default().state(0))?;
    /// actor.activate()?;
    /// assert!(actor.last_checkpoint().is_none());
    /// actor.ask(5)?;
    /// actor.checkpoint()?;
    /// actor.ask(6)?;
    /// // Another actor goes on from there.
    /// let last = actor.last_checkpoint().expect("one was taken");
    /// let again = runtime.restore(sum, RingConfig::default(), &last)?;
    /// again.activate()?;
    /// assert_eq!(again.ask(1)?, Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_checkpoint(&self) -> Option<Arc<Checkpoint>> {
        self.body.last_checkpoint()
    }

    /// Has another handler take over between two messages, with the state as it is. A handler that
    /// is new to the runtime is compiled while the old one works; no message is lost, and none is
    /// handled by both.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn sum(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    ///     *total += x;
    ///     *total
    /// }
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn sum_of_squares(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    ///     *total += x * x;
    ///     *total
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(sum, RingConfig::default().state(0))?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(3)?, Some(3));
    /// actor.replace(sum_of_squares)?;
    /// assert_eq!(actor.ask(3)?, Some(12));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A handler with another state, message or reply is an error of types:
    ///
    /// ```compile_fail,E0271
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Actor, RingCtx, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn sum(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    /// #     *total += x;
    /// #     *total
    /// # }
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn count(_ctx: &RingCtx, total: &mut u64, _x: u32) {
    ///     *total += 1;
    /// }
    ///
    /// fn upgrade(actor: &Actor<sum>) {
    ///     actor.replace(count);
    /// }
    /// ```
    ///
    /// # Errors
    /// A handler that is not well formed; an actor that is being terminated; the device does not
    /// answer.
    #[track_caller]
    pub fn replace<N>(&self, handler: N) -> Result<()>
    where
        N: Handler<State = H::State, Message = H::Message, Reply = H::Reply>,
    {
        self.check_not_capturing("a handler was replaced")?;
        self.body.replace(ActorKind { handler: Arc::new(handler), ..self.body.kind() })
    }

    /// How often it was restarted, by hand and by its [policy](crate::Restart).
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn hundred_by(_ctx: &RingCtx, x: u32) -> u32 { 100 / x }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(hundred_by, RingConfig::default())?;
    /// actor.activate()?;
    /// for times in 1..3 {
    ///     assert!(actor.ask(0).is_err());
    ///     actor.restart()?;
    ///     assert_eq!(actor.restarts(), times);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restarts(&self) -> u64 {
        self.body.restarts()
    }

    /// Links two actors, of one runtime or of two: when one of them fails for good, the other fails
    /// too and takes no more messages, and those that it held become dead letters. An actor fails
    /// for good when its policy does not restart it, or no more. One that is terminated leaves the
    /// other alone.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Lifecycle, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn share(_ctx: &RingCtx, x: u32) -> u32 {
    ///     1000 / x
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let (a, b) = (runtime.launch(share, RingConfig::default())?, runtime.launch(share, RingConfig::default())?);
    /// a.activate()?;
    /// a.link(&b);
    /// assert!(a.ask(0).is_err());
    /// while b.lifecycle() != Lifecycle::Failed {
    ///     std::thread::yield_now();
    /// }
    /// assert!(b.send(1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn link<O: Handler>(&self, other: &Actor<O>) {
        self.body.link(&other.body);
        self.body.side.nudge();
        other.body.side.nudge();
    }

    /// Undoes [`link`](Self::link).
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Lifecycle, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn share(_ctx: &RingCtx, x: u32) -> u32 { 1000 / x }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// # let (a, b) = (runtime.launch(share, RingConfig::default())?, runtime.launch(share, RingConfig::default())?);
    /// a.activate()?;
    /// b.activate()?;
    /// a.link(&b);
    /// a.unlink(&b);
    /// assert!(a.ask(0).is_err()); // a fails alone
    /// assert_eq!(b.ask(10)?, Some(100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unlink<O: Handler>(&self, other: &Actor<O>) {
        self.body.unlink(&other.body);
        other.body.unlink(&self.body);
    }

    #[track_caller]
    pub(super) fn check_not_capturing(&self, what: &str) -> Result<()> {
        self.body.side.shared.check_not_capturing(what)
    }

    /// A copy of its state. A message that is being handled meanwhile may have changed part of it:
    /// [deactivate](Self::deactivate) the actor first.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # use kiln_lang::prelude::*;
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn sum(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    /// #     *total += x;
    /// #     *total
    /// # }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(sum, RingConfig::default().state(0))?;
    /// actor.activate()?;
    /// actor.ask(5)?;
    /// assert_eq!(actor.state()?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Failures of the device.
    pub fn state(&self) -> Result<H::State> {
        let mut words = vec![0; H::State::WORDS];
        self.body.side.read_state(&mut words)?;
        Ok(H::State::decode(&words))
    }

    /// Ends its life: it takes no more messages, and its messages are handled, or given back as
    /// dead letters. Replies that are there can still be received. Handling needs an active actor:
    /// of another, messages are given back.
    ///
    /// # Errors
    /// It was terminated before; not all messages were handled or given back within `timeout`, or
    /// its worker did not answer in that time, because a handler does not end: then it goes on
    /// draining, and may be terminated again.
    pub fn terminate_with(&self, ending: Ending, timeout: Duration) -> Result<()> {
        self.body.terminate(ending, timeout)
    }

    /// As [`terminate_with`](Self::terminate_with), handling what it has, for as long as that
    /// takes. The limit is on progress: it waits no longer than
    /// [`acknowledge_within`](crate::RuntimeConfig::acknowledge_within) for one message to be done,
    /// without the time in which the worker had no processor.
    ///
    /// ```
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn increment(_ctx: &RingCtx, x: u32) -> u32 { x + 1 }
    /// # let actor = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.launch(increment, RingConfig::default())?;
    /// actor.activate()?;
    /// actor.send(1)?;
    /// actor.terminate()?; // once it has handled what it has
    /// assert_eq!(actor.recv()?, 2);
    /// assert!(actor.send(1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`terminate_with`](Self::terminate_with).
    pub fn terminate(&self) -> Result<()> {
        let held = || self.body.mailbox.unanswered() + self.body.side.backlog().unwrap_or(0);
        let (patience, time) = (self.body.side.patience(), || self.body.side.worker_time());
        let (mut before, mut since) = (held(), time());
        loop {
            match self.terminate_with(Ending::Drain, patience) {
                Err(RingError::NotDrained { left, .. }) if left < before => (before, since) = (left, time()),
                Err(RingError::NotDrained { .. }) if lacked_processor(since, time(), patience) => {}
                // The last message was done just in time: nothing was left for the worker to let go
                // of the actor, which has a limit of its own.
                Err(RingError::Unresponsive { .. }) if before > 0 && held() == 0 => before = 0,
                ended => return ended,
            }
        }
    }
}

/// Whether a worker that could run had less than this of a processor between two readings.
fn lacked_processor(since: Option<BlockTime>, now: Option<BlockTime>, time: Duration) -> bool {
    since.zip(now).is_some_and(|(since, now)| now.runnable && now.ran.saturating_sub(since.ran) < time)
}

impl<H: Handler> Drop for Actor<H> {
    fn drop(&mut self) {
        if self.lifecycle() != Lifecycle::Terminated {
            // An actor that does not end keeps its place and its memory, which the device may still
            // use.
            if self.terminate_with(Ending::Discard, self.body.side.patience()).is_err() {
                // It is no longer supervised: callers that wait for it must not do so for ever.
                self.body.strand("it was dropped, and its worker did not answer");
            }
        }
    }
}

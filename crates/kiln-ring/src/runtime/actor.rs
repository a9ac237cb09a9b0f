//! Actors, as the host sees them.

use super::Side;
use super::error::{Result, RingError};
use super::lifecycle::Lifecycle;
use crate::channel::{AskError, Channel, Counts, RecvError, SendError, Sent, Wait, WaitPolicy};
use crate::device::Operation;
use crate::device::record::gate;
use crate::handler::Handler;
use crate::layout::{Hold, Layout};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How an actor is terminated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It handles the messages it has.
    #[default]
    Drain,
    /// It gives them back as dead letters.
    Discard,
}

/// An actor: a handler that lives on a device, with its state and its queue.
///
/// Any number of threads may use it at once. When it is dropped, it is terminated and its messages are discarded.
pub struct Actor<H: Handler> {
    side: Arc<Side>,
    number: u32,
    channel: Channel<H::Message, H::Reply>,
    /// What a restart begins with.
    first_state: Vec<u32>,
    /// The arrays that it refers to.
    _held: Vec<Hold>,
    life: Mutex<Life>,
}

struct Life {
    stage: Lifecycle,
    /// How many failures were there when it was last (re)started.
    failures: u64,
}

impl<H: Handler> fmt::Debug for Actor<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("number", &self.number)
            .field("lifecycle", &self.lifecycle())
            .finish_non_exhaustive()
    }
}

impl<H: Handler> Actor<H> {
    pub(super) fn new(
        side: Arc<Side>,
        number: u32,
        channel: Channel<H::Message, H::Reply>,
        first_state: Vec<u32>,
        held: Vec<Hold>,
    ) -> Actor<H> {
        let life = Mutex::new(Life { stage: Lifecycle::Launched, failures: 0 });
        Actor { side, number, channel, first_state, _held: held, life }
    }

    /// Its number, of which every actor of the runtime has another.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its queue, for what this type does not wrap.
    pub fn channel(&self) -> &Channel<H::Message, H::Reply> {
        &self.channel
    }

    /// What became of its messages.
    pub fn counts(&self) -> Counts {
        self.channel.counts()
    }

    // ---- messages

    /// Sends a message. A full queue does as its overflow policy says.
    ///
    /// # Errors
    /// The actor takes no more messages, or its queue is full and rejects.
    #[inline]
    pub fn send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.channel.send(&message)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// As of [`send`](Self::send), and where it would wait.
    #[inline]
    pub fn try_send(&self, message: H::Message) -> Result<Sent, SendError> {
        self.channel.try_send(&message)
    }

    /// The next reply.
    ///
    /// # Errors
    /// There will be none.
    #[inline]
    pub fn recv(&self) -> Result<H::Reply, RecvError> {
        self.channel.recv()
    }

    /// The next reply, if it is there.
    ///
    /// # Errors
    /// There is none yet, or there will be none.
    #[inline]
    pub fn try_recv(&self) -> Result<H::Reply, RecvError> {
        self.channel.try_recv()
    }

    /// The next reply, waiting no longer than `timeout`.
    ///
    /// # Errors
    /// There was none in time, or there will be none.
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<H::Reply, RecvError> {
        self.channel.recv_timeout(timeout)
    }

    /// Sends a request and waits for its reply; `None` if it is handled without one.
    ///
    /// # Errors
    /// It was not sent or not handled, or there will be no reply.
    pub fn ask(&self, message: H::Message) -> Result<Option<H::Reply>, AskError> {
        self.channel.ask(&message)
    }

    // ---- life

    fn life(&self) -> MutexGuard<'_, Life> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel.tidy();
        let running = matches!(life.stage, Lifecycle::Active | Lifecycle::Deactivated | Lifecycle::Launched);
        if running && self.channel.counts().failed > life.failures {
            life.stage = Lifecycle::Failed;
        }
        life
    }

    /// Where it is in its life, as far as the host has heard: a failure is heard of when its answer is taken.
    pub fn lifecycle(&self) -> Lifecycle {
        self.life().stage
    }

    fn turn(
        &self,
        what: &'static str,
        from: &[Lifecycle],
        needs: &'static str,
        to: (Lifecycle, u32),
    ) -> Result<()> {
        let mut life = self.life();
        if !from.contains(&life.stage) {
            return Err(RingError::Illegal { actor: self.number, what, is: life.stage, needs });
        }
        self.side.tell(Operation::Gate, to.1)?;
        life.stage = to.0;
        Ok(())
    }

    /// From now on it handles messages.
    ///
    /// # Errors
    /// It is not just launched; the device does not answer.
    pub fn activate(&self) -> Result<()> {
        self.turn("activate", &[Lifecycle::Launched], "launched", (Lifecycle::Active, gate::OPEN))
    }

    /// From now on it holds its messages and answers nothing. The message being handled is finished first.
    ///
    /// # Errors
    /// It is not active; the device does not answer.
    pub fn deactivate(&self) -> Result<()> {
        self.turn("deactivate", &[Lifecycle::Active], "active", (Lifecycle::Deactivated, gate::HELD))
    }

    /// From now on it handles messages again, those it held first.
    ///
    /// # Errors
    /// It is not deactivated; the device does not answer.
    pub fn reactivate(&self) -> Result<()> {
        self.turn("reactivate", &[Lifecycle::Deactivated], "deactivated", (Lifecycle::Active, gate::OPEN))
    }

    /// Brings a failed actor back, with the state it was launched with. The messages it held are handled then.
    ///
    /// # Errors
    /// It has not failed; the device does not answer.
    pub fn restart(&self) -> Result<()> {
        let failures = self.channel.counts().failed;
        {
            let life = self.life();
            if life.stage == Lifecycle::Failed {
                self.side.write_state(&self.first_state)?;
            }
        }
        self.turn("restart", &[Lifecycle::Failed], "failed", (Lifecycle::Active, gate::OPEN))?;
        self.life.lock().unwrap_or_else(PoisonError::into_inner).failures = failures;
        Ok(())
    }

    /// A copy of its state. A message that is being handled meanwhile may have changed part of it: [deactivate](Self::deactivate) the actor first.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn state(&self) -> Result<H::State> {
        let mut words = vec![0; H::State::WORDS];
        self.side.read_state(&mut words)?;
        Ok(H::State::decode(&words))
    }

    /// Ends its life: it takes no more messages, and its messages are handled, or given back as dead letters. Replies that are there can
    /// still be received. Handling needs an active actor: of another, messages are given back.
    ///
    /// # Errors
    /// It was terminated before; not all messages were handled or given back within `timeout`, and then it goes on draining.
    pub fn terminate_with(&self, ending: Ending, timeout: Duration) -> Result<()> {
        let mut life = self.life();
        if life.stage == Lifecycle::Terminated {
            let needs = "not terminated";
            return Err(RingError::Illegal { actor: self.number, what: "terminate", is: life.stage, needs });
        }
        self.channel.close();
        if ending == Ending::Discard || life.stage != Lifecycle::Active {
            self.side.tell(Operation::Gate, gate::RETURNING)?;
        }
        life.stage = Lifecycle::Draining;
        let begun = Instant::now();
        let mut wait = Wait::new(WaitPolicy::default(), begun.checked_add(timeout));
        loop {
            let left = self.channel.unanswered();
            if left == 0 {
                break;
            }
            if self.channel.counts().failed > life.failures {
                life.failures = self.channel.counts().failed;
                self.side.tell(Operation::Gate, gate::RETURNING)?;
            }
            self.channel.tidy();
            if !self.channel.pump() && !wait.step() {
                return Err(RingError::NotDrained { actor: self.number, left, waited: begun.elapsed() });
            }
        }
        self.side.remove()?;
        life.stage = Lifecycle::Terminated;
        Ok(())
    }

    /// As [`terminate_with`](Self::terminate_with), handling what it has, within five seconds.
    ///
    /// # Errors
    /// As of [`terminate_with`](Self::terminate_with).
    pub fn terminate(&self) -> Result<()> {
        self.terminate_with(Ending::Drain, Duration::from_secs(5))
    }
}

impl<H: Handler> Drop for Actor<H> {
    fn drop(&mut self) {
        if self.lifecycle() != Lifecycle::Terminated {
            // An actor that does not end keeps its place and its memory, which the device may still use.
            let _ = self.terminate_with(Ending::Discard, Duration::from_secs(1));
        }
    }
}

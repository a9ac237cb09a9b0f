//! What an actor is whatever its types: its place, its queue in words, and its life.

use super::Side;
use super::checkpoint::Checkpoint;
use super::cluster_mate::ClusterMate;
use super::events::What;
use super::limit::Limit;
use super::restart_policy::{Decision, History, Restart};
use super::untaken::Waiting;
use crate::channel::{ChannelConfig, Mailbox, Native, Settled};
use crate::device::ActorKind;
use crate::error::{Result, RingError};
use crate::lifecycle::Lifecycle;
use crate::payload::Hold;
use crate::standing::{Failed, Standing};
use crate::wire::command::Operation;
use crate::wire::record::gate;
use crate::wire::slot::count_of;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::Instant;

/// An actor without its types.
pub(crate) struct Body {
    pub side: Arc<Side>,
    pub number: u32,
    /// The word of the arena at which its gauges begin.
    pub gauges: usize,
    pub launched: Instant,
    /// How many messages each priority had before, from the lowest.
    pub passed: Vec<u64>,
    /// Its handler.
    kind: Mutex<ActorKind>,
    pub mailbox: Arc<Mailbox<Native>>,
    pub(super) body_config: BodyConfig,
    /// What a restart begins with.
    first_state: Mutex<Vec<u32>>,
    /// The arrays to which that and the state refer that was set last.
    held: Mutex<[Vec<Hold>; 2]>,
    life: Mutex<Life>,
    /// What its worker does while its next message waits.
    pub(super) waiting: Mutex<Waiting>,
    /// Why its worker answers no more.
    stranded: OnceLock<String>,
    last_checkpoint: Mutex<Option<Arc<Checkpoint>>>,
    /// The actors that fail with it.
    links: Mutex<Vec<Weak<Body>>>,
}

/// How an actor was launched.
#[derive(Clone)]
pub(crate) struct BodyConfig {
    pub channel: ChannelConfig,
    pub restart: Restart,
    /// Whether restarts by that policy keep the state.
    pub resume: bool,
    /// What a restart begins with.
    pub first_state: Vec<u32>,
    /// The arrays that it refers to.
    pub held: Vec<Hold>,
    /// Whether messages or states name places in the device's memory.
    pub refers: bool,
    /// Whether they refer to arrays.
    pub holds: bool,
    /// The actor that it is to share a cluster with.
    pub beside: Option<ClusterMate>,
}

/// Where an actor is in its life. A change holds the lock until the device has acknowledged it.
pub(crate) struct Life {
    pub stage: Lifecycle,
    /// The failures that are over.
    pub(super) settled: Settled,
    pub(super) history: History,
    /// When it is to be restarted.
    pub(super) due: Option<Instant>,
    /// It is being terminated, and gives its messages back.
    pub(super) returning: bool,
    /// It failed, and only its owner can restart it.
    pub(super) fell: bool,
    /// The failure that it was not restarted from; none of one that fell with another.
    pub(super) failed: Option<Arc<Failed>>,
    /// Whether the actors that it is linked to were notified of its failure.
    pub(super) links_notified: bool,
    /// Whether the loss of its device or worker was recorded here.
    pub(super) lost: bool,
    /// When its last checkpoint by the clock was taken.
    checkpointed: Instant,
    /// It was said that it is left out of checkpoints by the clock.
    left_out: bool,
    /// How many messages had been sent and answered then.
    seen: (u64, u64),
}

/// A change of an actor's life: what it is called, from where, which state and gate it leads to.
pub(super) struct Turn {
    pub what: &'static str,
    pub from: Lifecycle,
    pub needs: &'static str,
    pub to: Lifecycle,
    pub gate: u32,
}

impl Life {
    /// How often the actor was restarted.
    pub fn restarts(&self) -> u64 {
        self.history.total
    }
}

impl Body {
    pub fn new(
        side: Arc<Side>,
        number: u32,
        gauges: usize,
        kind: ActorKind,
        mailbox: Arc<Mailbox<Native>>,
        body_config: BodyConfig,
    ) -> Arc<Body> {
        let life = Life {
            stage: Lifecycle::Launched,
            settled: mailbox.none_settled(),
            history: History::default(),
            due: None,
            returning: false,
            fell: false,
            failed: None,
            links_notified: false,
            lost: false,
            checkpointed: Instant::now(),
            left_out: false,
            seen: (u64::MAX, 0),
        };
        let first_state = Mutex::new(body_config.first_state.clone());
        let held = Mutex::new([body_config.held.clone(), Vec::new()]);
        side.standing.set(Standing::Holds(Lifecycle::Launched));
        let body = Arc::new(Body {
            side,
            number,
            gauges,
            launched: Instant::now(),
            passed: mailbox.rings().map(|ring| count_of(ring.queue.tail())).collect(),
            kind: Mutex::new(kind),
            mailbox,
            body_config,
            first_state,
            held,
            life: Mutex::new(life),
            waiting: Mutex::default(),
            stranded: OnceLock::new(),
            last_checkpoint: Mutex::default(),
            links: Mutex::default(),
        });
        // A side has one actor.
        let _ = body.side.body.set(Arc::downgrade(&body));
        body
    }

    /// Its handler, and the slots of its messages and answers.
    pub fn kind(&self) -> ActorKind {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on with another handler of the same layouts from the next message on.
    pub fn replace(&self, kind: ActorKind) -> Result<()> {
        self.lost()?;
        // Compiled while the actor goes on, and before any caller has to wait for it.
        let number = self.side.shared.kind(kind.clone())?;
        let life = self.life();
        if matches!(life.stage, Lifecycle::Draining | Lifecycle::Terminated) {
            return Err(self.illegal("another handler", life.stage, "not at its end"));
        }
        self.side.command(Operation::Kind, number)?;
        let name = kind.handler.signature().name;
        *self.kind.lock().unwrap_or_else(PoisonError::into_inner) = kind;
        self.publish(What::Replaced { by: name });
        Ok(())
    }

    /// The error of commanding an actor whose device or worker is lost.
    pub(super) fn lost(&self) -> Result<()> {
        self.side.shared.lost()?;
        let device = self.side.shared.device.id().to_owned();
        self.stranded.get().map_or(Ok(()), |reason| Err(RingError::Lost { device, reason: reason.clone() }))
    }

    /// Its worker no longer answers: waits end, and it fails. Returns whether that is new.
    pub fn strand(&self, why: &str) -> bool {
        let first = self.stranded.set(why.to_owned()).is_ok();
        self.mailbox.abandon();
        self.side.inbound_links.outputs.close();
        first
    }

    /// Its life, as far as the host has read it.
    pub fn life(&self) -> MutexGuard<'_, Life> {
        // Every change is made after the device has acknowledged it, in one go.
        self.noticed(self.life.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, if no other thread changes it until then.
    pub(super) fn life_by(&self, limit: Limit) -> Option<MutexGuard<'_, Life>> {
        limit.lock(&self.life).map(|life| self.noticed(life))
    }

    fn noticed<'a>(&self, mut life: MutexGuard<'a, Life>) -> MutexGuard<'a, Life> {
        self.mailbox.tidy();
        self.notice(&mut life);
        life
    }

    pub(super) fn publish(&self, what: What) {
        let name = self.kind().handler.signature().name;
        self.side.shared.events.publish(Some(self.number), name, what);
    }

    pub(super) fn illegal(&self, what: &'static str, is: Lifecycle, needs: &'static str) -> RingError {
        RingError::Illegal { actor: self.number, what, is, needs }
    }

    /// Detects a failure, and applies the policy.
    pub(super) fn notice(&self, life: &mut Life) {
        if !life.lost
            && life.stage != Lifecycle::Terminated
            && let Err(lost) = self.lost()
        {
            self.mailbox.abandon();
            self.side.inbound_links.outputs.close();
            (life.stage, life.lost, life.fell, life.due) = (Lifecycle::Failed, true, true, None);
            self.publish(What::Lost { why: lost.to_string() });
            return;
        }
        let running = matches!(life.stage, Lifecycle::Active | Lifecycle::Deactivated | Lifecycle::Launched);
        if !running {
            return;
        }
        let failure =
            self.mailbox.failure_since(&life.settled).map(|(position, reason)| (0, position, reason));
        let failure = failure.or_else(|| self.side.inbound_links.outputs.failure());
        // After the check for failures: a caller that sees that the actor failed finds the letter
        // too.
        self.mailbox.tidy();
        self.side.inbound_links.outputs.tidy();
        let Some((link, position, reason)) = failure else { return };
        life.stage = Lifecycle::Failed;
        let why = self.side.explain_message(reason, link, position);
        life.failed = Some(Arc::new(Failed { position, why: why.clone() }));
        self.publish(What::Failed { position, why });
        match life.history.decide(&self.body_config.restart, Instant::now()) {
            Decision::Leave => life.fell = true,
            Decision::At(due) => life.due = Some(due),
            Decision::GiveUp => {
                self.give_up(life);
                self.publish(What::GivenUp { times: life.history.total });
            }
        }
        self.stand(life);
    }

    /// Notifies the callers that wait whether the actor answers by itself from now on.
    pub(super) fn stand(&self, life: &Life) {
        let standing = match (life.stage, &life.failed) {
            (is @ (Lifecycle::Launched | Lifecycle::Deactivated), _) => Standing::Holds(is),
            // One that takes no more messages gives back those that it has.
            (Lifecycle::Failed, Some(failed)) if life.fell && !self.mailbox.is_closed() => {
                Standing::Failed(Arc::clone(failed))
            }
            _ => Standing::Answers,
        };
        self.side.standing.set(standing);
    }

    /// Refuses senders, and has the device give back what the failed actor holds.
    pub(super) fn give_up(&self, life: &mut Life) {
        life.fell = true;
        life.due = None;
        self.mailbox.close();
        self.side.inbound_links.outputs.close();
        self.stand(life);
        // Without an acknowledgement the messages remain where they are, as in any actor of a
        // worker that does not answer.
        let _ = self.side.command(Operation::Gate, gate::RETURNING);
        self.mailbox.tidy();
    }

    /// Makes a change, if the actor is where it begins.
    pub fn turn(&self, turn: &Turn) -> Result<()> {
        let mut life = self.life();
        if life.stage != turn.from {
            return Err(self.illegal(turn.what, life.stage, turn.needs));
        }
        self.lost()?;
        self.side.command(Operation::Gate, turn.gate)?;
        life.stage = turn.to;
        self.stand(&life);
        self.publish(What::StateChanged(turn.to));
        Ok(())
    }

    /// What a restart begins with.
    pub(super) fn first_state(&self) -> Vec<u32> {
        self.first_state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has restarts begin with this state.
    pub fn restart_with(&self, state: Vec<u32>) {
        *self.first_state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Keeps the arrays of a state that was set, with which restarts begin if it is the first.
    pub fn hold(&self, held: Vec<Hold>, first: bool) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(!first)] = held;
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.life().restarts()
    }

    // ---- supervision

    /// Whether a caller waits for its failures to be detected.
    pub fn is_supervised(&self) -> bool {
        self.body_config.restart != Restart::Never || !self.links().is_empty()
    }

    pub(super) fn links(&self) -> MutexGuard<'_, Vec<Weak<Body>>> {
        // Changed by pushes and removals only.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the two fail together.
    pub fn link(self: &Arc<Body>, other: &Arc<Body>) {
        for (one, two) in [(self, other), (other, self)] {
            one.unlink(two);
            one.links().push(Arc::downgrade(two));
            // An actor that failed before notifies its new links, too.
            one.life().links_notified = false;
        }
    }

    /// Ends what [`link`](Self::link) began, on this side.
    pub fn unlink(&self, other: &Arc<Body>) {
        let other = Arc::downgrade(other);
        self.links().retain(|linked| linked.strong_count() > 0 && !linked.ptr_eq(&other));
    }

    /// Takes a checkpoint if one is due and something has changed since the last.
    pub(super) fn checkpoint_by_the_clock(&self, life: &mut Life) {
        let Some(every) = self.side.shared.config.checkpoint_every else { return };
        let seen = self.mailbox.progress();
        if life.stage != Lifecycle::Active || life.seen == seen || life.checkpointed.elapsed() < every {
            return;
        }
        if let Err(error) = self.check_portable() {
            // Once: it will not change while the actor has its inbound links.
            if !std::mem::replace(&mut life.left_out, true) {
                self.publish(What::NoCheckpoint { why: error.to_string() });
            }
            return;
        }
        life.checkpointed = Instant::now();
        match self.capture(life) {
            Ok(checkpoint) => {
                let answered = checkpoint.position();
                life.seen = (answered + checkpoint.messages() as u64, answered);
                self.keep(checkpoint);
            }
            Err(error) => self.publish(What::NoCheckpoint { why: error.to_string() }),
        }
    }

    /// Keeps a checkpoint as the last one.
    pub fn keep(&self, checkpoint: Checkpoint) -> Arc<Checkpoint> {
        let checkpoint = Arc::new(checkpoint);
        *self.last_checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&checkpoint));
        checkpoint
    }

    /// The last checkpoint that was taken.
    pub fn last_checkpoint(&self) -> Option<Arc<Checkpoint>> {
        self.last_checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn try_life(&self) -> Option<MutexGuard<'_, Life>> {
        match self.life.try_lock() {
            Ok(life) => Some(life),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

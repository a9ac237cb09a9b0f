//! Events of actors and devices, and their readers.

use crate::lifecycle::Lifecycle;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// The most events that wait for a reader.
const KEPT: usize = 4096;

/// Something that happened to an actor, or to its device.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Event, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let events = runtime.events();
/// runtime.launch(double, RingConfig::default())?.activate()?;
/// let event: Event = events.try_next().expect("an actor was activated");
/// assert_eq!(event.name, "double");
/// assert!(event.to_string().contains("double"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When the host saw it.
    pub at: SystemTime,
    /// The actor's number; `None` for what happened to the device.
    pub actor: Option<u32>,
    /// The name of its handler; of the device for what happened to it.
    pub name: String,
    /// What happened.
    pub what: What,
}

/// The kinds of events.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Event, Lifecycle, RingConfig, RingCtx, RingRuntime, What, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let events = runtime.events();
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// actor.terminate()?;
/// let mut states = Vec::new();
/// while let Some(Event { what, .. }) = events.try_next() {
///     if let What::StateChanged(state) = what {
///         states.push(state);
///     }
/// }
/// assert_eq!((states.first(), states.last()), (Some(&Lifecycle::Active), Some(&Lifecycle::Terminated)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The actor went to another state by command.
    StateChanged(Lifecycle),
    /// Its handler failed on a message.
    Failed {
        /// The message's position in its queue.
        position: u64,
        /// Why, in words.
        why: String,
    },
    /// It was restarted.
    Restarted {
        /// How often it was by now.
        times: u64,
    },
    /// It failed more often than its policy restarts it: it takes no more messages.
    GivenUp {
        /// How often it was restarted before.
        times: u64,
    },
    /// Another handler took over.
    Replaced {
        /// Its name.
        by: &'static str,
    },
    /// No checkpoint could be taken when one was due.
    NoCheckpoint {
        /// Why.
        why: String,
    },
    /// The actor is lost with its device or its worker, which answers no more.
    Lost {
        /// Why.
        why: String,
    },
    /// The device is lost, and all its actors with it.
    DeviceLost {
        /// Why.
        why: String,
    },
    /// A worker's heartbeat has stopped: a handler does not end. Its actors are lost.
    Stalled {
        /// The worker.
        worker: usize,
    },
    /// It failed because an actor that it is linked to did.
    FellWith {
        /// The other's number.
        actor: u32,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(actor) = self.actor {
            write!(f, "actor {actor} (")?;
        }
        f.write_str(&self.name)?;
        if self.actor.is_some() {
            f.write_str(")")?;
        }
        f.write_str(" ")?;
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::StateChanged(to) => write!(f, "is {to}"),
            What::Failed { position, why } => write!(f, "failed on message {position}: {why}"),
            What::Restarted { times } => write!(f, "was restarted, {times} times in all"),
            What::GivenUp { times } => write!(f, "was given up after {times} restarts"),
            What::Replaced { by } => write!(f, "goes on as {by}"),
            What::NoCheckpoint { why } => write!(f, "could not be checkpointed: {why}"),
            What::Lost { why } => write!(f, "is lost: {why}"),
            What::DeviceLost { why } => write!(f, "is lost: {why}"),
            What::Stalled { worker } => {
                write!(f, "has a worker, number {worker}, that shows no sign of life: a handler does not end")
            }
            What::FellWith { actor } => write!(f, "failed with actor {actor}, to which it is linked"),
        }
    }
}

impl What {
    /// Whether the event is logged as a warning.
    fn is_trouble(&self) -> bool {
        !matches!(self, What::StateChanged(_) | What::Restarted { .. } | What::Replaced { .. })
    }
}

/// A reader of a runtime's events, from its making on. Up to 4096 wait for it; then the oldest are
/// given up, and [counted](Self::missed).
///
/// ```
/// # use kiln_ring::{Lifecycle, RingConfig, RingCtx, RingRuntime, What, ring_kernel};
/// # use std::time::Duration;
/// #[ring_kernel(crate = kiln_ring)]
/// fn half(_ctx: &RingCtx, x: u32) -> u32 {
///     x / 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("interp")?)?;
/// let events = runtime.events();
/// let actor = runtime.launch(half, RingConfig::default())?;
/// actor.activate()?;
/// let event = events.next_timeout(Duration::from_secs(1)).expect("it was activated");
/// assert_eq!((event.actor, event.what), (Some(actor.number()), What::StateChanged(Lifecycle::Active)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "events are kept for a reader that is there"]
pub struct Events(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    kept: Mutex<Kept>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    missed: u64,
}

impl Waiting {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every change is complete before anything can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// The next event, if there is one.
    ///
    /// ```
    /// # use kiln_ring::RingRuntime;
    /// let events = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?.events();
    /// assert!(events.try_next().is_none() && events.missed() == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_next(&self) -> Option<Event> {
        self.0.kept().events.pop_front()
    }

    /// The next event, waiting no longer than `timeout`.
    pub fn next_timeout(&self, timeout: Duration) -> Option<Event> {
        let begun = Instant::now();
        let mut kept = self.0.kept();
        loop {
            if let Some(event) = kept.events.pop_front() {
                return Some(event);
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            kept = self.0.arrived.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many events were dropped because they were not read.
    pub fn missed(&self) -> u64 {
        self.0.kept().missed
    }
}

/// Who reads the events of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Bus(Mutex<Vec<Weak<Waiting>>>);

impl Bus {
    /// A new reader.
    pub fn subscribe(&self) -> Events {
        let events = Events(Arc::default());
        self.readers().push(Arc::downgrade(&events.0));
        events
    }

    /// Publishes it to all readers, and to the log.
    pub fn publish(&self, actor: Option<u32>, name: &str, what: What) {
        let event = Event { at: SystemTime::now(), actor, name: name.to_owned(), what };
        if event.what.is_trouble() {
            tracing::warn!(target: "kiln_ring", actor, "{event}");
        } else {
            tracing::info!(target: "kiln_ring", actor, "{event}");
        }
        self.readers().retain(|reader| {
            let Some(reader) = reader.upgrade() else { return false };
            let mut kept = reader.kept();
            if kept.events.len() == KEPT {
                kept.events.pop_front();
                kept.missed += 1;
            }
            kept.events.push_back(event.clone());
            drop(kept);
            reader.arrived.notify_one();
            true
        });
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_get_what_comes_after_them_and_slow_ones_lose_the_oldest() {
        let bus = Bus::default();
        bus.publish(Some(1), "a", What::StateChanged(Lifecycle::Active));
        let (slow, quick) = (bus.subscribe(), bus.subscribe());
        assert!(quick.try_next().is_none());
        for times in 0..KEPT as u64 + 3 {
            bus.publish(Some(1), "a", What::Restarted { times });
            assert_eq!(quick.try_next().map(|event| event.what), Some(What::Restarted { times }));
        }
        assert_eq!((slow.missed(), quick.missed()), (3, 0));
        assert_eq!(slow.try_next().map(|event| event.what), Some(What::Restarted { times: 3 }));
        assert!(quick.next_timeout(Duration::from_millis(2)).is_none());
        drop(slow);
        bus.publish(None, "cuda:0", What::GivenUp { times: 0 });
        assert_eq!(bus.readers().len(), 1);
        let text = quick.next_timeout(Duration::ZERO).map(|event| event.to_string());
        assert_eq!(text.as_deref(), Some("cuda:0 was given up after 0 restarts"));
    }
}

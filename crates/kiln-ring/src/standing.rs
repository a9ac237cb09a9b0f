//! Whether an actor handles messages, as the host last recorded.
//!
//! A device cannot wake a thread of the host. So a thread that waits for an answer checks whether
//! the actor handles messages at all; otherwise it might wait forever.

use crate::lifecycle::Lifecycle;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether an actor answers what it is sent without another command of the host.
///
/// Calls without a limit end with an error where it does not.
///
/// ```
/// use kiln_ring::{DeviceSide, Lifecycle, Standing};
///
/// /// The device's side of an actor that nobody has activated.
/// struct Launched;
///
/// impl DeviceSide for Launched {
///     fn skip(&self, _position: u64) {}
///
///     fn standing(&self) -> Standing {
///         Standing::Holds(Lifecycle::Launched)
///     }
/// }
///
/// assert_eq!(Standing::default(), Standing::Answers);
/// assert_ne!(Launched.standing(), Standing::Answers);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It handles its messages, gives them back, or will be restarted by its policy.
    #[default]
    Answers,
    /// It holds its messages until it is activated: it is launched or deactivated.
    Holds(Lifecycle),
    /// Its handler failed, and it holds its messages until it is restarted by hand.
    Failed(Arc<Failed>),
}

/// The failure that an actor has not been restarted from.
///
/// ```
/// # use kiln_lang::prelude::*;
/// use kiln_ring::{Failed, RecvError, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn hundred_by(_ctx: &RingCtx, x: u32) -> u32 {
///     100 / x
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(hundred_by, RingConfig::default())?;
/// actor.activate()?;
/// actor.send_many(&[50, 0])?;
/// assert_eq!(actor.recv()?, 2);
/// let Err(RecvError::Failed { failed, .. }) = actor.recv() else { panic!("it failed on 0") };
/// let failed: &Failed = &failed;
/// assert_eq!(failed.position, 1);
/// assert!(failed.why.contains("division by zero"), "{}", failed.why);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The position of the message in the actor's queue, or in its inbound link.
    pub position: u64,
    /// Why the handler failed: in words, with the place in its source.
    pub why: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it failed on message {}: {}", self.position, self.why)
    }
}

/// The standing of an actor, which its runtime sets and those who wait read.
#[derive(Debug, Default)]
pub(crate) struct StandingCell {
    /// Read at every poll that finds nothing. So the lock is taken only after a change.
    holds: AtomicBool,
    standing: Mutex<Standing>,
}

impl StandingCell {
    pub fn set(&self, standing: Standing) {
        let holds = standing != Standing::Answers;
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        self.holds.store(holds, Ordering::Release);
    }

    pub fn get(&self) -> Standing {
        if !self.holds.load(Ordering::Acquire) {
            return Standing::Answers;
        }
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What to do about an actor that holds its messages.
pub(crate) fn advice(is: Lifecycle) -> &'static str {
    match is {
        Lifecycle::Launched => "call `activate` first",
        Lifecycle::Deactivated => "call `reactivate` first",
        Lifecycle::Failed => "call `restart`, or launch it with a `Restart` policy",
        Lifecycle::Active | Lifecycle::Draining | Lifecycle::Terminated => "launch another one",
    }
}

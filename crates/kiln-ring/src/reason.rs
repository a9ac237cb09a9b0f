//! Why a message was not handled.

use crate::wire::record::{cause, refusal};
use std::fmt;

/// Why a message was not handled, or its reply not taken: in [dead letters](crate::Letter), and in
/// [`AskError::Unhandled`](crate::AskError::Unhandled).
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{AskError, Reason, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn half(_ctx: &RingCtx, x: u32) -> Result<u32, u32> {
///     if x % 2 == 1 {
///         return Err(7);
///     }
///     Ok(x / 2)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(half, RingConfig::default())?;
/// actor.activate()?;
/// let Err(AskError::Unhandled { reason, .. }) = actor.ask(3) else { panic!("it failed") };
/// assert_eq!(reason, Reason::Failed { cause: 1, number: 7 });
/// assert_eq!(reason.to_string(), "the handler returned the error 7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Its deadline had passed when its turn came.
    Expired,
    /// The handler failed on it: the cause and its number, as the device reported them.
    /// [`RingRuntime::explain`](crate::RingRuntime::explain) says in words what that was, and
    /// where.
    Failed {
        /// 1: it returned an error. 2: a check failed, or the step budget was exceeded. 3: it sent
        /// what cannot be sent.
        cause: u32,
        /// The code that it returned; the number of the check, or `u32::MAX` for the budget; why it
        /// could not be sent.
        number: u32,
    },
    /// It was the oldest in a full queue that drops the oldest, or the oldest of the lowest
    /// priority where a message of a higher one came.
    Dropped,
    /// The actor had stopped, or stopped before its turn came.
    Undeliverable,
    /// It was handled, but its asker no longer waited for the reply. The words are the reply's.
    Unclaimed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Expired => f.write_str("its deadline had passed"),
            Reason::Failed { cause, number } => failed(f, *cause, *number),
            Reason::Dropped => f.write_str("it was dropped from a full queue"),
            Reason::Undeliverable => f.write_str("the actor had stopped"),
            Reason::Unclaimed => f.write_str("its caller no longer waited for the reply"),
        }
    }
}

/// Why a handler failed, as far as it can be said without its runtime.
fn failed(f: &mut fmt::Formatter<'_>, cause: u32, number: u32) -> fmt::Result {
    let refused = match (cause, number) {
        (cause::RETURNED, _) => return write!(f, "the handler returned the error {number}"),
        (cause::FAULT, u32::MAX) => "the handler took more steps than its budget",
        (cause::FAULT, _) => {
            return write!(
                f,
                "a check in the handler failed, number {number}: `RingRuntime::explain` says where"
            );
        }
        (cause::SEND, refusal::TAKEN) => {
            "the handler sent to an address that another actor sends to: make an inbound link for each sender"
        }
        (cause::SEND, refusal::NOT_IN_CLUSTER) => {
            "the handler sent to a queue in the shared memory of another cluster: launch the actor with `RingConfig::beside` the receiver, or use `Actor::inbound_link`"
        }
        (cause::SEND, refusal::TOO_MANY) => {
            "the handler sent more messages at once than the receiver's queue holds: give it a larger capacity"
        }
        (cause::SEND, refusal::UNHELD) => {
            "the handler handed on a payload that is not there any more, or one of another runtime, or one of more than the runtime has lines for: a reference that a handler keeps in its state does not keep the array. Keep a clone of it on the host, and give the runtime a larger `arena_bytes` for more payloads"
        }
        _ => return write!(f, "the handler failed (cause {cause}, number {number})"),
    };
    f.write_str(refused)
}

//! The newest failure of a handler, as its queue shows it.
//!
//! Failures are answers, and answers are received in order: a failure may be queued behind replies
//! that no thread receives. So a check for failures reads the newest answers directly, together
//! with the failure that was recorded when its answer was received.

use super::platform::Platform;
use super::queue::Answer;
use crate::reason::Reason;
use crate::wire::slot::Kind;
use std::sync::{Mutex, PoisonError};

/// The message on which a handler failed: its position, and why.
pub type Failure = (u64, Reason);

/// The last failure whose answer was received.
#[derive(Debug, Default)]
pub struct LastFailure(Mutex<Option<Failure>>);

impl LastFailure {
    /// Records the answer of a failure; no other.
    #[cold]
    pub fn record<P: Platform>(&self, answer: &Answer<'_, P>) {
        let Some(reason) = answer.reason().filter(|_| answer.kind == Kind::Failed) else { return };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|(position, _)| position <= answer.position) {
            *last = Some((answer.position, reason));
        }
    }

    /// The failure, if there was one.
    pub fn get(&self) -> Option<Failure> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

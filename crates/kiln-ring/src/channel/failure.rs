//! The newest failure of a handler, as its queue shows it.
//!
//! Failures are answers, and answers are taken in order: one may lie behind replies that nobody
//! receives. So whoever looks after an actor looks at the newest answers themselves, and at what
//! was noted when the answer of a failure was taken.

use super::platform::Platform;
use super::queue::Answer;
use crate::reason::Reason;
use crate::wire::slot::Kind;
use std::sync::{Mutex, PoisonError};

/// The message on which a handler failed: its position, and why.
pub type Failure = (u64, Reason);

/// The last failure whose answer was taken.
#[derive(Debug, Default)]
pub struct Noted(Mutex<Option<Failure>>);

impl Noted {
    /// Notes the answer of a failure; no other.
    #[cold]
    pub fn note<P: Platform>(&self, answer: &Answer<'_, P>) {
        let Some(reason) = answer.reason().filter(|_| answer.kind == Kind::Failed) else { return };
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none_or(|(position, _)| position <= answer.position) {
            *noted = Some((answer.position, reason));
        }
    }

    /// It, if there was one.
    pub fn get(&self) -> Option<Failure> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Arrays that messages under way refer to.

use crate::payload::Hold;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The arrays of messages that are not answered, by the messages' positions, of one priority.
#[derive(Default)]
pub struct Held(Mutex<VecDeque<(u64, Vec<Hold>)>>);

impl Held {
    /// The arrays, by the positions of their messages.
    pub fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Vec<Hold>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

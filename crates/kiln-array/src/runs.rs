//! What a device remembers of the schedules that ran on it.

use crate::schedule::Schedule;
use kiln_runtime::CommandList;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The runs of schedules on a device.
#[derive(Default)]
pub(crate) struct Runs(Mutex<HashMap<u64, Entry>>);

struct Entry {
    /// What is remembered goes when the schedule is gone.
    schedule: Weak<Schedule>,
    known: Arc<Known>,
}

/// What is known of a schedule on a device.
#[derive(Default)]
pub(crate) struct Known {
    /// How often it ran.
    runs: AtomicUsize,
    /// Its launches, if there is such a list.
    list: OnceLock<Option<CommandList>>,
}

impl Runs {
    /// What is known of a schedule.
    pub(crate) fn of(&self, schedule: &Arc<Schedule>) -> Arc<Known> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.get(&schedule.number) {
            return entry.known.clone();
        }
        // Now and then what is left of schedules that are gone.
        if all.len().is_power_of_two() {
            all.retain(|_, entry| entry.schedule.strong_count() > 0);
        }
        let known = Arc::<Known>::default();
        all.insert(schedule.number, Entry { schedule: Arc::downgrade(schedule), known: known.clone() });
        known
    }
}

impl Known {
    /// Counts a run: how many there were before it.
    pub(crate) fn count(&self) -> usize {
        self.runs.fetch_add(1, Relaxed)
    }

    /// Its list of commands, made once.
    pub(crate) fn list(&self, make: impl FnOnce() -> Option<CommandList>) -> Option<&CommandList> {
        self.list.get_or_init(make).as_ref()
    }
}

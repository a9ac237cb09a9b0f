//! Parking: a grid that has had nothing to do for a while leaves the device, and comes back with
//! the next message.
//!
//! A worker that polls for messages costs power, and a core where the device is a CPU. It first
//! polls without a pause, then sleeps between polls; the last stage is this one, where nothing
//! polls any more. A send to an actor of a parked grid launches it again.

use super::Shared;
use super::body::Body;
use crate::channel::QueueMemory;
use crate::wire::record::{HEARTBEAT, LINE};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a grid has had nothing to do, by the last readings.
#[derive(Default)]
pub(super) struct Rest {
    /// How often each worker had found something to do.
    works: Vec<u32>,
    since: Option<Instant>,
}

impl Rest {
    /// Whether nothing was done, and nothing is to be done, since at least `for_long`.
    fn is_over(&mut self, works: Vec<u32>, busy: bool, for_long: Duration, now: Instant) -> bool {
        if busy || works != self.works {
            *self = Rest { works, since: None };
            return false;
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= for_long
    }
}

impl Shared {
    /// Parks the grid if it has had nothing to do for as long as the configuration says.
    pub(super) fn consider_parking(&self, wards: &[Arc<Body>], rest: &mut Rest) {
        let Some(for_long) = self.config.park_after else { return };
        let busy = wards.iter().any(|ward| ward.mailbox.unanswered() > 0);
        let workers = self.grid().workers();
        let works = (0..workers)
            .map(|worker| self.memory.outbox_words.load_quad(worker * LINE + HEARTBEAT)[1])
            .collect();
        if rest.is_over(works, busy, for_long, Instant::now()) {
            self.park();
            *rest = Rest::default();
        }
    }

    /// Has the grid leave, unless a message came meanwhile.
    fn park(&self) {
        // Dropped after the grid, which the end of an actor locks.
        let wards: Vec<Arc<Body>>;
        // Held until the grid has left: who wakes it waits for that.
        let mut grid = self.grid();
        if !grid.is_here() {
            return;
        }
        // Those of now. An actor may have been launched and activated since its supervisor listed
        // them: one that is not told would not bring the grid back.
        wards = self.supervisor.wards().iter().filter_map(Weak::upgrade).collect();
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        for ward in &wards {
            ward.mailbox.set_parked(true);
            parked.push(Arc::downgrade(ward));
        }
        drop(parked);
        // A sender whose message is not seen here sees that it must wake the grid.
        let left =
            wards.iter().all(|ward| ward.mailbox.unanswered() == 0) && grid.leave(&self.memory).is_ok();
        if left {
            self.parkings.fetch_add(1, Ordering::Relaxed);
        } else {
            self.unpark();
        }
    }

    fn unpark(&self) {
        let parked = std::mem::take(&mut *self.parked.lock().unwrap_or_else(PoisonError::into_inner));
        for ward in parked.iter().filter_map(Weak::upgrade) {
            ward.mailbox.set_parked(false);
        }
    }

    /// Brings the grid back if it is parked, and has a device go on that does not run by itself: a
    /// caller made room for which actors may wait.
    pub(super) fn room_made(&self) {
        if self.within {
            self.room.store(true, Ordering::Relaxed);
        }
        let parked = !self.parked.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if parked {
            self.wake();
        }
    }

    /// Brings a parked grid back.
    pub(super) fn wake(&self) {
        let mut grid = self.present();
        self.unpark();
        let back = grid.ensure_resident(&self.memory);
        drop(grid);
        // No other call would detect it: the message that woke it waits for the grid.
        if let Err(error) = back {
            self.lose(&error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel};
    use kiln_runtime::Device;

    #[ring_kernel(crate = crate)]
    fn twice(_ctx: &RingCtx, x: u32) -> u32 {
        x * 2
    }

    /// An actor that was activated after the supervisor had listed those that it looks after: its
    /// message brings the grid back all the same.
    #[test]
    fn an_actor_that_came_in_between_wakes_the_grid() {
        let config = RuntimeConfig::default().workers(1).park_after(Some(Duration::ZERO));
        let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config).unwrap();
        let actor = rt.launch(twice, RingConfig::default()).unwrap();
        actor.activate().unwrap();
        let (mut rest, parkings) = (Rest::default(), rt.parkings());
        while rt.parkings() == parkings {
            rt.0.consider_parking(&[], &mut rest);
        }
        actor.send(4).unwrap();
        assert_eq!(actor.recv_timeout(Duration::from_secs(60)), Ok(8));
    }

    #[test]
    fn rest_is_counted_from_the_last_work() {
        let (begun, long) = (Instant::now(), Duration::from_millis(5));
        let mut rest = Rest::default();
        let mut is_over = |works: [u32; 2], busy, ms| {
            rest.is_over(works.to_vec(), busy, long, begun + Duration::from_millis(ms))
        };
        assert!(!is_over([1, 2], false, 0), "it was not known what was done before");
        assert!(!is_over([1, 2], false, 6), "not for long enough");
        assert!(!is_over([1, 3], false, 20), "a worker found something");
        assert!(!is_over([1, 3], false, 30));
        assert!(!is_over([1, 3], true, 40), "there is something to do");
        assert!(!is_over([1, 3], false, 50));
        assert!(!is_over([1, 3], false, 54));
        assert!(is_over([1, 3], false, 55));
    }
}

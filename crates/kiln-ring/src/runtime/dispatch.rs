//! Dispatches: how a grid goes on where a device has no resident kernels.
//!
//! A *round* is a dispatch of all workers, or one of each, and ends by itself: when the workers
//! have found nothing to do, or after so many turns. A caller that waits for an actor has a round
//! run and waits for it. Where that one did not do all there was, the next one is begun before its
//! results are waited for, so that the device goes on while the host takes them.
//!
//! Where no caller waits, the supervisor detects that something was sent, and has rounds run until
//! one has found nothing to do. So a device whose actors have nothing to do has nothing to do
//! either.

use super::Shared;
use super::body::Body;
use crate::channel::QueueMemory;
use crate::wire::record::{HEARTBEAT, LINE};
use kiln_backend::ResidentId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rounds that are under way at most.
const MOST: usize = 2;

/// Turns of a worker in a dispatch at most, each of about a message. So actors that send to each
/// other without an end do not hold up the host, nor have a driver's watchdog end the dispatch.
/// Mesa's driver for processors ends the loops of a thread after 65,535 rounds in all, which is a
/// fault of the kernel; so few turns leave a thousand rounds for each.
pub(super) const TURNS: u64 = 64;

/// How long the supervisor has rounds run before it checks its actors again.
const A_WHILE: Duration = Duration::from_millis(20);

/// The rounds of a grid.
pub(super) struct Rounds {
    /// What time is counted from.
    begun: Instant,
    /// The last dispatch of each round that is under way.
    under_way: VecDeque<ResidentId>,
    /// Whether a worker left the last round that is over though there was more to do.
    unfinished: bool,
    /// Whether a worker found something to do in it.
    worked: bool,
}

impl Rounds {
    pub fn new() -> Rounds {
        let (unfinished, worked) = (false, false);
        Rounds { begun: Instant::now(), under_way: VecDeque::new(), unfinished, worked }
    }

    /// The time, in nanoseconds: the workers' clock.
    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Whether another round is to be begun before one is waited for.
    pub fn wants_more(&self) -> bool {
        self.under_way.is_empty() || self.unfinished && self.under_way.len() < MOST
    }

    /// Records a round by its last dispatch.
    pub fn push(&mut self, last: ResidentId) {
        self.under_way.push_back(last);
    }

    /// The round to be waited for.
    pub fn first(&mut self) -> Option<ResidentId> {
        self.under_way.pop_front()
    }

    /// Records what a round that is over has done: the workers say so in the outbox.
    pub fn over(&mut self, outbox: &impl QueueMemory, workers: usize) {
        let left = (0..workers).map(|worker| outbox.load_quad(worker * LINE + HEARTBEAT));
        (self.worked, self.unfinished) = left.fold((false, false), |(worked, unfinished), quad| {
            (worked || quad[1] != 0, unfinished || quad[2] != 0)
        });
    }

    /// Whether the last round found something to do, so that there may be more.
    pub fn go_on(&self) -> bool {
        self.worked || !self.under_way.is_empty()
    }
}

/// What the supervisor has read of messages, to detect new ones.
#[derive(Default)]
pub(super) struct Sent(u64);

impl Shared {
    /// Where the device runs dispatches: has it go on if there is something to do, for a while.
    /// Whether there is more.
    pub(super) fn go_on(&self, wards: &[Arc<Body>], seen: &mut Sent) -> bool {
        if !self.within || !self.grid().is_dispatched() || self.loss.get().is_some() {
            return false;
        }
        let sent = wards.iter().map(|ward| ward.mailbox.progress().0).fold(0, u64::wrapping_add);
        let new = std::mem::replace(&mut seen.0, sent) != sent;
        let room = self.room.swap(false, Ordering::Relaxed);
        let begun = Instant::now();
        let mut more = new || room || self.grid().goes_on();
        while more && begun.elapsed() < A_WHILE {
            let mut grid = self.grid();
            let pumped = grid.pump(&self.memory);
            more = grid.goes_on();
            drop(grid);
            more &= self.record_loss(pumped).unwrap_or(false);
        }
        more
    }
}

//! Messages that a worker does not take, although it goes on.
//!
//! A worker polls all its endpoints within some turns of its loop, and its heartbeat counts those.
//! So a message that stands whole in its ring, of an active actor whose handler never waits for
//! room, is taken a few turns later. Where it is not, something is wrong with the device, its
//! driver or the transport, or with Kiln: an answer will never come, and nothing else would tell
//! the caller that waits for it.

use super::Shared;
use super::body::Body;
use crate::channel::QueueMemory;
use crate::lifecycle::Lifecycle;
use crate::wire::record::{HEARTBEAT, LINE};
use kiln_backend::ResidentId;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, Weak};
use std::time::{Duration, Instant};

/// Turns of its loop, more than four for each of its endpoints, in which a worker takes whatever is
/// there: some heartbeats, of 64 turns each.
const TURNS: u32 = 256;

/// What a worker does while the next message of an actor waits.
#[derive(Default)]
pub(super) struct Waiting(Option<Since>);

/// The reading of which the message was the next for the first time.
struct Since {
    answered: u64,
    grid: ResidentId,
    turns: u32,
    at: Instant,
}

impl Waiting {
    /// Takes a reading: how many messages were answered, in which launch of the grid, and the turns
    /// of the worker; `None` where no message waits. Returns for how many turns and how long the
    /// same message has been the next.
    fn read(&mut self, seen: Option<(u64, ResidentId, u32)>, now: Instant) -> Option<(u32, Duration)> {
        let Some((answered, grid, turns)) = seen else {
            self.0 = None;
            return None;
        };
        let same = self.0.take().filter(|since| (since.answered, since.grid) == (answered, grid));
        let since = self.0.insert(same.unwrap_or(Since { answered, grid, turns, at: now }));
        Some((turns.wrapping_sub(since.turns), now.saturating_duration_since(since.at)))
    }
}

impl Shared {
    /// Gives up the actors whose messages their workers do not take. `grid` is on the device.
    pub(super) fn find_untaken(&self, grid: Option<ResidentId>) {
        // Elsewhere it is the host that has the device go on.
        let Some(grid) = grid.filter(|_| !self.within) else { return };
        for ward in self.supervisor.wards().iter().filter_map(Weak::upgrade) {
            if let Some(why) = ward.untaken(grid) {
                // First: a caller that is notified of a lost actor may request recovery at once.
                self.stalled.store(true, Ordering::Release);
                ward.strand(&why);
            }
        }
    }
}

impl Body {
    /// Why the actor answers no more, if its worker does not take its next message.
    fn untaken(&self, grid: ResidentId) -> Option<String> {
        let (shared, worker) = (&self.side.shared, self.side.endpoints.first.worker);
        let (sent, answered) = self.mailbox.progress();
        let takes = |stage| stage == Lifecycle::Active;
        let waits = sent > answered && self.try_life().is_some_and(|life| takes(life.stage));
        let turns = shared.memory.outbox_words.load_quad(worker * LINE + HEARTBEAT)[0];
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (turns, time) = waiting.read(waits.then_some((answered, grid, turns)), Instant::now())?;
        let endpoints = shared.config.endpoints_per_worker.min(1 << 16) as u32;
        if time < shared.config.stalled_after || turns < TURNS + 4 * endpoints {
            return None;
        }
        // What follows takes long, and is done again after as much time.
        *waiting = Waiting::default();
        let position = self.mailbox.next_whole_request()?;
        // A handler that sends may wait for room for as long as others like.
        if shared.grid().may_hold_up() || self.mailbox.progress().1 != answered {
            return None;
        }
        Some(format!(
            "worker {worker} has polled for {time:.1?}, {turns} turns, and not taken message {position}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::command::Operation;
    use crate::wire::record::gate;
    use crate::{
        Actor, Address, RecvError, RingConfig, RingCtx, RingRuntime, RuntimeConfig, What, ring_kernel,
    };
    use kiln_runtime::Device;
    use std::thread::sleep;

    const PATIENCE: Duration = Duration::from_millis(200);

    fn runtime() -> RingRuntime {
        let config = RuntimeConfig { stalled_after: PATIENCE, ..RuntimeConfig::default() }.workers(2);
        RingRuntime::with(&Device::open("cpu").unwrap(), config).unwrap()
    }

    #[ring_kernel(crate = crate)]
    fn twice(_ctx: &RingCtx, x: u32) -> u32 {
        x * 2
    }

    /// Sends what it gets on.
    #[ring_kernel(crate = crate)]
    fn forward(ctx: &RingCtx, to: &mut Address<u32>, x: u32) {
        ctx.send(to, x);
    }

    #[test]
    fn turns_and_time_count_from_the_first_reading_of_a_message() {
        let (begun, mut waiting) = (Instant::now(), Waiting::default());
        let mut read = |seen: Option<(u64, u64, u32)>, ms| {
            let seen = seen.map(|(answered, grid, turns)| (answered, ResidentId(grid), turns));
            waiting.read(seen, begun + Duration::from_millis(ms))
        };
        let after = |turns, ms| Some((turns, Duration::from_millis(ms)));
        assert_eq!(read(Some((7, 0, u32::MAX)), 0), after(0, 0));
        assert_eq!(read(Some((7, 0, 63)), 5), after(64, 5));
        assert_eq!(read(Some((8, 0, 127)), 9), after(0, 0), "the next message");
        assert_eq!(read(Some((8, 1, 3)), 12), after(0, 0), "another launch, whose turns begin anew");
        assert_eq!(read(None, 13), None);
        assert_eq!(read(Some((8, 1, 64)), 14), after(0, 0), "none waited in between");
        assert_eq!(read(Some((8, 1, 128)), 15), after(64, 1));
    }

    /// A message that its worker goes past costs its actor, with the reason, and no other.
    #[test]
    fn a_message_that_is_not_taken_ends_the_wait_for_its_answer() {
        let rt = runtime();
        let events = rt.events();
        let launch = || rt.launch(twice, RingConfig::default()).unwrap();
        let (bad, good) = (launch(), launch());
        bad.activate().unwrap();
        good.activate().unwrap();
        assert_eq!(bad.ask(4).unwrap(), Some(8));
        // Behind the host's back: for the host the actor is active.
        bad.body.side.command(Operation::Gate, gate::HELD).unwrap();
        bad.send(5).unwrap();
        let begun = Instant::now();
        assert_eq!(bad.recv(), Err(RecvError::Lost { actor: bad.number(), unanswered: 1 }));
        assert!(begun.elapsed() >= PATIENCE, "{:?}", begun.elapsed());
        let why = loop {
            match events.next_timeout(Duration::from_secs(60)).unwrap().what {
                What::Lost { why } => break why,
                _ => continue,
            }
        };
        assert!(why.contains("not taken message 1"), "{why}");
        assert!(rt.is_lost());
        assert_eq!(good.ask(6).unwrap(), Some(12));
    }

    /// An actor that holds its messages, by command or because there is no room for what it sends,
    /// is as it should be.
    #[test]
    fn messages_that_are_held_are_not_lost() {
        let rt = runtime();
        let held = rt.launch(twice, RingConfig::default()).unwrap();
        held.send(1).unwrap();
        sleep(2 * PATIENCE);
        held.activate().unwrap();
        assert_eq!(held.recv(), Ok(2));

        let to: Actor<twice> = rt.launch(twice, RingConfig::default()).unwrap();
        let address = to.inbound_link(4).unwrap();
        let from = rt.launch(forward, RingConfig::default().state(address)).unwrap();
        from.activate().unwrap();
        // Four find room, and the receiver takes none.
        for x in 0..8 {
            from.send(x).unwrap();
        }
        sleep(3 * PATIENCE);
        assert!(!rt.is_lost());
        to.activate().unwrap();
        let outputs = to.outputs();
        for x in 0..8 {
            assert_eq!(outputs.recv().unwrap(), 2 * x);
        }
    }
}

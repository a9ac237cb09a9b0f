//! Messages that a worker does not take, although it goes on.
//!
//! A worker polls all its endpoints within some turns of its loop, and its heartbeat counts those.
//! So a message that stands whole in its ring, of an active actor whose handler never waits for
//! room, is taken a few turns later. Where it is not, something is wrong with the device, its
//! driver or the transport, or with Kiln: an answer will never come, and nothing else would tell
//! the caller that waits for it.

use kiln_backend::ResidentId;
use std::time::{Duration, Instant};

/// Turns of its loop, beside those for its endpoints, in which a worker takes whatever is there:
/// some heartbeats, of 64 turns each.
const TURNS: u32 = 256;

/// Turns in which a worker with so many endpoints has polled all of them more than once.
pub(super) fn turns_of(endpoints: usize) -> u32 {
    TURNS.saturating_add(4u32.saturating_mul(u32::try_from(endpoints).unwrap_or(u32::MAX)))
}

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
    pub fn read(&mut self, seen: Option<(u64, ResidentId, u32)>, now: Instant) -> Option<(u32, Duration)> {
        let Some((answered, grid, turns)) = seen else {
            self.0 = None;
            return None;
        };
        let same = self.0.take().filter(|since| (since.answered, since.grid) == (answered, grid));
        let since = self.0.insert(same.unwrap_or(Since { answered, grid, turns, at: now }));
        Some((turns.wrapping_sub(since.turns), now.saturating_duration_since(since.at)))
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

    /// Processor time of a worker, which must not pass between two of its heartbeats.
    const PATIENCE: Duration = Duration::from_millis(500);

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
        let begun = Instant::now();
        bad.send(5).unwrap();
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

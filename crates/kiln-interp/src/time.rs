//! How long a launch has left.

use std::time::{Duration, Instant};

/// Rounds of loops between two readings of the clock.
const ROUNDS: u32 = 16;

/// The time of a launch.
#[derive(Clone)]
pub struct Time {
    /// How long it may run, and until when.
    limit: Option<(Duration, Instant)>,
    /// Rounds of loops since the last reading of the clock.
    rounds: u32,
}

impl Time {
    /// That of a launch which begins now.
    pub fn new(limit: Option<Duration>) -> Time {
        let until = |limit| Some((limit, Instant::now().checked_add(limit)?));
        Time { limit: limit.and_then(until), rounds: 0 }
    }

    /// The limit, if the launch has run for longer. To be asked after each round of a loop.
    pub fn exceeded(&mut self) -> Option<Duration> {
        let (limit, until) = self.limit?;
        self.rounds += 1;
        if self.rounds < ROUNDS {
            return None;
        }
        self.rounds = 0;
        (Instant::now() >= until).then_some(limit)
    }
}

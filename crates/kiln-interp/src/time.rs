//! How long a launch has left.

use crate::machine::Machine;
use crate::value::Trap;
use kiln_backend::{Error, FaultKind};
use kiln_ir::OpData;
use std::time::{Duration, Instant};

/// Rounds of loops between two looks at the clock.
const ROUNDS: u32 = 16;

/// The time of a launch.
#[derive(Clone)]
pub struct Time {
    /// How long it may run, and until when.
    limit: Option<(Duration, Instant)>,
    /// Rounds of loops since the last look at the clock.
    rounds: u32,
}

impl Time {
    /// That of a launch which begins now.
    pub fn new(limit: Option<Duration>) -> Time {
        let until = |limit| Some((limit, Instant::now().checked_add(limit)?));
        Time { limit: limit.and_then(until), rounds: 0 }
    }
}

impl Machine<'_> {
    /// A fault at the loop whose round is over if the launch has run for too long.
    pub fn check_time(&mut self, data: &OpData) -> Result<(), Error> {
        let Some((limit, until)) = self.time.limit else { return Ok(()) };
        self.time.rounds += 1;
        if self.time.rounds < ROUNDS {
            return Ok(());
        }
        self.time.rounds = 0;
        if Instant::now() < until {
            return Ok(());
        }
        Err(self.error(Trap::Fault { kind: FaultKind::LaunchLimit { limit }, lane: None }, data.loc))
    }
}

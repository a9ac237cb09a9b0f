//! How actors end.

use super::body::{Body, Life};
use super::events::What;
use super::limit::Limit;
use crate::channel::Settled;
use crate::error::{Result, RingError};
use crate::lifecycle::Lifecycle;
use crate::wire::command::Operation;
use crate::wire::record::gate;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// How an actor is terminated.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Ending, RingConfig, RingCtx, RingRuntime, ring_kernel};
/// use std::time::Duration;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.send_many(&[1, 2, 3])?;
/// actor.terminate_with(Ending::Discard, Duration::from_secs(5))?;
/// assert_eq!(runtime.dead_letters().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It handles the messages it has.
    #[default]
    Drain,
    /// It gives them back as dead letters.
    Discard,
}

impl Body {
    /// Ends the actor's life, in this time or with an error. Other threads may read the actor's
    /// life meanwhile.
    pub fn terminate(&self, ending: Ending, timeout: Duration) -> Result<()> {
        let (begun, limit) = (Instant::now(), Limit::after(timeout));
        let Some(settled) = self.begin_to_end(ending, begun, limit)? else { return Ok(()) };
        self.drain(settled, begun, limit)?;
        let mut life = self.life_to_end(begun, limit)?;
        // Another thread may have been sooner.
        if life.stage != Lifecycle::Terminated {
            self.lost()?;
            self.side.remove(limit)?;
            life.stage = Lifecycle::Terminated;
            self.publish(What::StateChanged(Lifecycle::Terminated));
        }
        Ok(())
    }

    fn life_to_end(&self, begun: Instant, limit: Limit) -> Result<MutexGuard<'_, Life>> {
        self.life_by(limit).ok_or_else(|| self.not_drained(self.mailbox.unanswered(), begun))
    }

    fn not_drained(&self, left: u64, begun: Instant) -> RingError {
        RingError::NotDrained { actor: self.number, left, waited: begun.elapsed() }
    }

    /// Refuses senders, and has the device give back what the actor holds if it is to. Gives the
    /// failures before this; `None` of an actor that is lost, and so has ended.
    fn begin_to_end(&self, ending: Ending, begun: Instant, limit: Limit) -> Result<Option<Settled>> {
        let mut life = self.life_to_end(begun, limit)?;
        if life.stage == Lifecycle::Terminated {
            return Err(self.illegal("terminate", life.stage, "not terminated"));
        }
        self.mailbox.close();
        if life.lost {
            life.stage = Lifecycle::Terminated;
            return self.lost().map(|()| None);
        }
        // One that handles nothing has nothing to wait for.
        let handles = matches!(life.stage, Lifecycle::Active | Lifecycle::Draining);
        life.returning |= ending == Ending::Discard || !handles;
        life.due = None;
        if life.stage != Lifecycle::Draining {
            life.stage = Lifecycle::Draining;
            self.stand(&life);
            self.publish(What::StateChanged(Lifecycle::Draining));
        }
        self.side.close_inbound_links(limit)?;
        if life.returning {
            self.side.command_by(Operation::Gate, gate::RETURNING, limit)?;
        }
        Ok(Some(life.settled.clone()))
    }

    /// Waits until all messages are handled or given back. After a failure, all that come after it
    /// are given back.
    fn drain(&self, mut settled: Settled, begun: Instant, limit: Limit) -> Result<()> {
        let outputs = &self.side.inbound_links.outputs;
        let mut wait = limit.wait();
        loop {
            let left = self.mailbox.unanswered() + self.side.backlog()?;
            let failed_at = self.mailbox.failure_since(&settled).map(|(position, _)| position);
            if failed_at.is_some() || outputs.failure().is_some() {
                failed_at.into_iter().for_each(|position| settled.with(position));
                outputs.forgive();
                self.side.command_by(Operation::Gate, gate::RETURNING, limit)?;
            }
            self.mailbox.tidy();
            self.lost()?;
            outputs.make_room();
            if left == 0 {
                return Ok(());
            }
            let pumped = self.mailbox.pump();
            if wait.is_over_after(pumped) {
                return Err(self.not_drained(left, begun));
            }
        }
    }
}

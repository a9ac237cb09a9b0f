//! Restarting actors whose handlers failed: by hand, and by the supervisor.

use super::body::{Body, Life};
use super::events::What;
use crate::error::Result;
use crate::lifecycle::Lifecycle;
use crate::wire::command::Operation;
use crate::wire::record::gate;
use std::sync::Weak;
use std::time::Instant;

impl Body {
    /// Restarts the actor, if it has failed; `resume` has it keep its state.
    pub fn restart(&self, resume: bool) -> Result<()> {
        let mut life = self.life();
        if life.stage != Lifecycle::Failed {
            let what = if resume { "resume" } else { "restart" };
            return Err(self.illegal(what, life.stage, "failed"));
        }
        self.restart_now(&mut life, resume)
    }

    fn restart_now(&self, life: &mut Life, resume: bool) -> Result<()> {
        life.due = None;
        self.lost()?;
        if !resume {
            // A handler that fails leaves the state as it was before its message.
            self.side.write_state(&self.first_state())?;
        }
        // The gate is closed: whatever failed has been answered, and nothing else is until it
        // opens.
        self.side.remember_fault();
        life.settled = self.mailbox.settled_so_far();
        self.side.inbound_links.outputs.forgive();
        self.side.command(Operation::Gate, gate::OPEN)?;
        self.mailbox.reopen();
        self.side.inbound_links.outputs.reopen();
        life.history.restarted(&self.body_config.restart, Instant::now());
        (life.stage, life.fell, life.links_notified, life.failed) = (Lifecycle::Active, false, false, None);
        self.stand(life);
        self.publish(What::Restarted { times: life.history.total });
        Ok(())
    }

    /// Checks for a failure: restarts the actor where its policy says so, else notifies the actors
    /// that it is linked to. Does nothing while another thread has the actor locked. Returns
    /// whether a restart was tried.
    pub fn attend(&self) -> bool {
        let Some(mut life) = self.try_life() else { return false };
        self.notice(&mut life);
        let restarts = life.due.is_some_and(|due| due <= Instant::now());
        if restarts {
            // A device that does not answer leaves the actor failed; the next check of the device
            // reports it.
            life.fell = self.restart_now(&mut life, self.body_config.resume).is_err();
            self.stand(&life);
        }
        self.checkpoint_by_the_clock(&mut life);
        let notifies = life.fell && !life.links_notified;
        drop(life);
        if notifies {
            let links: Vec<_> = self.links().iter().filter_map(Weak::upgrade).collect();
            // Every one of them, also after one that could not.
            let all = links.iter().filter(|other| !other.fall_with(self.number)).count() == 0;
            if let Some(mut life) = self.try_life().filter(|_| all) {
                life.links_notified = life.fell;
            }
        }
        restarts
    }

    /// Fails because another one did; whether that is settled.
    fn fall_with(&self, actor: u32) -> bool {
        let Some(mut life) = self.try_life() else { return false };
        if !life.fell && !matches!(life.stage, Lifecycle::Draining | Lifecycle::Terminated) {
            life.stage = Lifecycle::Failed;
            self.give_up(&mut life);
            self.publish(What::FellWith { actor });
        }
        true
    }
}

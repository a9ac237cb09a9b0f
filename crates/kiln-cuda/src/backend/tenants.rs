//! Room for what the driver does not do beside a resident kernel: loading a program, and making
//! more streams than there ever were. It waits for every kernel of the context, and holds up the
//! calls of all other threads meanwhile, whatever the way of loading (measured by
//! `examples/resident_check`). So those who keep kernels on the GPU are asked to leave first, and
//! where a launch finds no multiprocessor with room for its blocks.

use super::crowd::Crowd;
use super::residents::Residents;
use kiln_backend::{Result, Tenant};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// How often tenants are requested to leave before a kernel that is still there counts as one
/// without a tenant. A launch may come in between.
const ATTEMPTS: usize = 10;

/// Who keeps kernels on the GPU.
#[derive(Default)]
pub(super) struct Tenants {
    known: Mutex<Vec<Weak<dyn Tenant>>>,
    /// Held for reading while a program is loaded or a large kernel enqueued, for writing while a
    /// resident launch begins.
    door: RwLock<()>,
    /// One thread at a time requests that the tenants leave.
    turn: Mutex<()>,
}

impl Tenants {
    pub(super) fn add(&self, tenant: Weak<dyn Tenant>) {
        let mut known = self.known();
        known.retain(|tenant| tenant.strong_count() > 0);
        known.push(tenant);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.known().iter().filter(|tenant| tenant.strong_count() > 0).count()
    }

    /// To be held while a resident launch begins.
    pub(super) fn enter(&self) -> RwLockWriteGuard<'_, ()> {
        self.door.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work`, which waits for all kernels, while no resident launch runs; `None` where one
    /// runs that no tenant ends.
    ///
    /// # Errors
    /// Those of `work` and of the tenants.
    pub(super) fn with_room<T>(
        &self,
        residents: &Residents,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        match self.beside(residents, |crowd| crowd.blocks == 0) {
            Some(_door) => work().map(Some),
            None => self.alone(residents)?.map(|_alone| work()).transpose(),
        }
    }

    /// Keeps resident launches from beginning, if those that run suit.
    pub(super) fn beside(
        &self,
        residents: &Residents,
        suit: impl FnOnce(&Crowd) -> bool,
    ) -> Option<RwLockReadGuard<'_, ()>> {
        let door = self.door.read().unwrap_or_else(PoisonError::into_inner);
        suit(&residents.crowd()).then_some(door)
    }

    /// Has all tenants leave; `None` where a resident launch runs that no tenant ends.
    ///
    /// # Errors
    /// Those of the tenants.
    pub(super) fn alone(&self, residents: &Residents) -> Result<Option<Alone<'_>>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS {
            // Who has not come yet hears no command.
            residents.wait_until_begun();
            let tenants = self.known().iter().filter_map(Weak::upgrade).collect();
            let away = Away::ask(tenants)?;
            if let Some(door) = self.beside(residents, |crowd| crowd.blocks == 0) {
                return Ok(Some(Alone { _door: door, _away: away, _turn: turn }));
            }
        }
        Ok(None)
    }

    fn known(&self) -> MutexGuard<'_, Vec<Weak<dyn Tenant>>> {
        // Changed by pushes and removals only, so a panic in between leaves nothing half-done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No resident launch runs, and none begins, until this drops: first the door opens, then the
/// tenants come back.
pub(super) struct Alone<'a> {
    _door: RwLockReadGuard<'a, ()>,
    _away: Away,
    _turn: MutexGuard<'a, ()>,
}

/// Tenants that have left, and come back when this drops.
struct Away(Vec<Arc<dyn Tenant>>);

impl Away {
    fn ask(tenants: Vec<Arc<dyn Tenant>>) -> Result<Away> {
        let mut away = Away(Vec::with_capacity(tenants.len()));
        for tenant in tenants {
            let left = tenant.leave();
            away.0.push(tenant);
            left?;
        }
        Ok(away)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.0.iter().for_each(|tenant| tenant.come_back());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::Error;

    #[derive(Default)]
    struct Noting {
        notes: Mutex<Vec<&'static str>>,
        refuses: bool,
    }

    impl Tenant for Noting {
        fn leave(&self) -> Result<()> {
            self.notes.lock().unwrap().push("leave");
            if self.refuses {
                return Err(Error::Internal { place: "test", message: "stays".into() });
            }
            Ok(())
        }

        fn come_back(&self) {
            self.notes.lock().unwrap().push("come back");
        }
    }

    /// One that does not leave: those asked before it and itself are called back, those after it
    /// are left alone.
    #[test]
    fn a_tenant_that_stays_is_an_error_and_the_others_come_back() {
        let tenants = [false, true, false].map(|refuses| Arc::new(Noting { refuses, ..Noting::default() }));
        let all = |tenants: &[Arc<Noting>]| tenants.iter().map(|t| t.clone() as Arc<dyn Tenant>).collect();
        assert!(Away::ask(all(&tenants)).is_err());
        let notes = tenants.each_ref().map(|tenant| tenant.notes.lock().unwrap().clone());
        assert_eq!(notes, [vec!["leave", "come back"], vec!["leave", "come back"], vec![]]);
        let away = Away::ask(all(&tenants[..1]));
        assert!(away.is_ok());
        assert_eq!(tenants[0].notes.lock().unwrap().len(), 3);
        drop(away);
        assert_eq!(tenants[0].notes.lock().unwrap()[2..], ["leave", "come back"]);
    }
}

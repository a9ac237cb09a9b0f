//! What handlers failed on: the checks, with their values.
//!
//! The answer of a failure has the number of the check. Its values stand in the actor's record in
//! the arena (see [`gauge`]), which the next failure replaces: that comes after a restart. So the
//! host reads the record when it sees the failure, at the latest before it restarts the actor, and
//! keeps the text.

use super::Side;
use crate::reason::Reason;
use crate::wire::gauge::{self, fault};
use crate::wire::record::cause;
use kiln_backend::fill_message;
use kiln_ir::{BUDGET_EXCEEDED, FaultSite, Literal, Scalar};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many texts an actor keeps for answers that were not taken: of more failures, the oldest are
/// reported without values.
const KEPT: usize = 1024;

/// A check of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    location: String,
    message: String,
    values: Vec<Scalar>,
}

impl Site {
    pub fn of(site: FaultSite) -> Site {
        Site { location: site.location, message: site.message, values: site.values }
    }

    /// What failed there, with `?` for each value that was not read.
    pub fn said(&self, values: &[u64]) -> String {
        let values = self.values.iter().zip(values).map(|(&ty, &bits)| Literal::from_bits(ty, bits));
        let known = values.len();
        let mut parts = self.message.split("{}");
        let with = parts.by_ref().take(known + 1).collect::<Vec<_>>().join("{}");
        let mut said = fill_message(&with, values);
        parts.for_each(|part| said.extend(["?", part]));
        format!("the handler failed: {}: {said}", self.location)
    }
}

/// A check that failed on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed {
    /// The link of the inbound link that the message came by; 0 for the host.
    link: u32,
    position: u64,
    /// The number of the check.
    site: u32,
}

/// What was said of the failures of an actor.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kept: Mutex<VecDeque<(Failed, String)>>,
}

impl Faults {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(Failed, String)>> {
        // Changed by pushes and removals only.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, failed: Failed) -> Option<String> {
        self.kept().iter().rev().find(|(kept, _)| *kept == failed).map(|(_, said)| said.clone())
    }

    fn keep(&self, failed: Failed, said: &str) {
        let mut kept = self.kept();
        kept.push_back((failed, said.to_owned()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

impl Side {
    /// Why the message in a position, of the host's or of an inbound link with this link, was not
    /// handled.
    pub(super) fn explain_message(&self, reason: Reason, link: u32, position: u64) -> String {
        let Reason::Failed { cause: cause::FAULT, number } = reason else {
            return self.shared.explain(reason);
        };
        if number == BUDGET_EXCEEDED {
            return self.shared.explain(reason);
        }
        let failed = Failed { link, position, site: number };
        if let Some(said) = self.faults.find(failed) {
            return said;
        }
        self.remember_fault();
        self.faults.find(failed).unwrap_or_else(|| self.shared.explain(reason))
    }

    /// Keeps what the actor's record says of the last check that failed, if that is not kept.
    pub(super) fn remember_fault(&self) {
        let Some((failed, values)) = self.recorded_fault() else { return };
        if self.faults.find(failed).is_none()
            && let Some(said) = self.shared.said(failed.site, &values)
        {
            self.faults.keep(failed, &said);
        }
    }

    fn recorded_fault(&self) -> Option<(Failed, [u64; fault::MOST])> {
        if self.shared.loss.get().is_some() {
            return None;
        }
        let body = self.body.get()?.upgrade()?;
        let mut words = [0; fault::WORDS];
        let at = body.gauges + gauge::fault(body.mailbox.form().priorities);
        self.shared.memory.read_arena(at, &mut words).ok()?;
        let long = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let failed =
            Failed { link: words[fault::LINK], position: long(fault::POSITION), site: words[fault::SITE] };
        let values = std::array::from_fn(|k| long(fault::VALUES + 2 * k));
        (failed.site != 0).then_some((failed, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(message: &str, values: &[Scalar]) -> Site {
        Site { location: "a.rs:1:2".into(), message: message.into(), values: values.to_vec() }
    }

    #[test]
    fn values_are_written_as_their_types_are() {
        let types = [Scalar::I64, Scalar::U64, Scalar::F32, Scalar::F64, Scalar::Bool];
        let values = [-9i64 as u64, u64::MAX, u64::from(0.1f32.to_bits()), (-0.1f64).to_bits(), 1];
        let said = site("{} {} {} {} {}", &types).said(&values);
        assert_eq!(said, "the handler failed: a.rs:1:2: -9 18446744073709551615 0.1 -0.1 true");
    }

    #[test]
    fn what_is_not_known_is_no_number() {
        let nine = site("{} of {}, or {{}}", &[Scalar::I64; 2]);
        assert_eq!(nine.said(&[]), "the handler failed: a.rs:1:2: ? of ?, or {?}");
        assert_eq!(nine.said(&[7]), "the handler failed: a.rs:1:2: 7 of ?, or {?}");
        assert_eq!(site("nothing", &[]).said(&[]), "the handler failed: a.rs:1:2: nothing");
    }

    #[test]
    fn the_oldest_text_goes_first() {
        let faults = Faults::default();
        let failed = |position| Failed { link: 0, position, site: 1 };
        (0..=KEPT as u64).for_each(|position| faults.keep(failed(position), &position.to_string()));
        assert_eq!((faults.find(failed(0)), faults.find(failed(1))), (None, Some("1".into())));
        assert_eq!(faults.find(Failed { link: 4, ..failed(1) }), None);
    }
}

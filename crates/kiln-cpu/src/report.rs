//! Faults and prints of a launch: the first fault in program order is kept, prints go to the sink.

use crate::limit::{Stop, Watched};
use crate::site::{Site, SiteKind};
use kiln_backend::{Fault, FaultKind, Prints, fill_message};
use kiln_ir::{Literal, Message, Scalar};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the reports of a kernel need to be readable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SiteTable {
    pub(crate) kernel: String,
    pub(crate) messages: Vec<String>,
    pub(crate) sites: Vec<Site>,
}

/// Where and when something was reported.
pub(crate) struct Incident {
    pub(crate) program: [i64; 3],
    pub(crate) grid: [i64; 3],
    pub(crate) site: usize,
    pub(crate) lane: u64,
}

/// The reports of one launch.
pub(crate) struct Reporter {
    table: Arc<SiteTable>,
    prints: Arc<Prints>,
    /// The linear index of the first program that is known to have faulted: later ones need not
    /// run.
    first: AtomicU64,
    fault: Mutex<Option<(u64, Fault)>>,
    /// The limit of the launch, if it has one, and loops that look whether it is over.
    watched: Option<Watched>,
    /// What loops poll where there is no limit: it is never set.
    unlimited: Stop,
}

impl Reporter {
    pub(crate) fn new(table: Arc<SiteTable>, prints: Arc<Prints>, watched: Option<Watched>) -> Reporter {
        let (first, fault) = (AtomicU64::new(u64::MAX), Mutex::new(None));
        Reporter { table, prints, first, fault, watched, unlimited: Stop::default() }
    }

    /// The byte that says whether the launch is to stop, for as long as this lives.
    pub(crate) fn stop(&self) -> *const u8 {
        self.watched.as_ref().map_or(&self.unlimited, |watched| &watched.stop).address()
    }

    fn limit(&self) -> Duration {
        self.watched.as_ref().map_or(Duration::MAX, |watched| watched.limit)
    }

    /// Whether a program must still run: one that comes before every fault so far. As programs
    /// begin in order, the fault that is left is the same in every run.
    pub(crate) fn wants(&self, linear: u64) -> bool {
        linear < self.first.load(Ordering::Relaxed)
    }

    /// The first fault in program order.
    pub(crate) fn into_fault(self) -> Option<Fault> {
        self.fault.into_inner().unwrap_or_else(PoisonError::into_inner).map(|(_, fault)| fault)
    }

    /// Takes the first fault in program order, where programs may still run.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(_, fault)| fault)
    }

    /// How many values a site reports.
    pub(crate) fn value_count(&self, site: usize) -> usize {
        match self.table.sites.get(site).map(|s| &s.kind) {
            Some(SiteKind::Assert(_, elems) | SiteKind::Print(_, elems)) => elems.len(),
            Some(SiteKind::Bounds) => 2,
            Some(SiteKind::Divisor | SiteKind::Stopped) | None => 0,
        }
    }

    pub(crate) fn report(&self, incident: Incident, values: &[u64]) {
        let Some(site) = self.table.sites.get(incident.site) else { return };
        let kind = match &site.kind {
            SiteKind::Print(message, elems) => {
                self.fill(*message, elems, values).lines().for_each(|line| self.prints.line(line));
                return;
            }
            SiteKind::Assert(message, elems) => {
                FaultKind::Assert { message: self.fill(*message, elems, values) }
            }
            SiteKind::Bounds => FaultKind::OutOfBounds { index: values[0] as i64, extent: values[1] as i64 },
            SiteKind::Divisor => FaultKind::DivisionByZero,
            SiteKind::Stopped => FaultKind::LaunchLimit { limit: self.limit() },
        };
        let [x, y, z] = incident.program;
        let linear = ((z * incident.grid[1] + y) * incident.grid[0] + x) as u64;
        let fault = Fault {
            kernel: self.table.kernel.clone(),
            kind,
            location: site.location.clone(),
            block: incident.program.map(|p| p as u32),
            thread: match site.kind {
                // The threads of a block go round a loop together.
                SiteKind::Stopped => None,
                _ => site.block.map(|block| thread_index(incident.lane, block)),
            },
        };
        self.first.fetch_min(linear, Ordering::Relaxed);
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(at, _)| linear < *at) {
            *first = Some((linear, fault));
        }
    }

    fn fill(&self, message: Message, elems: &[Scalar], values: &[u64]) -> String {
        let text = self.table.messages.get(message.0 as usize).map_or("", String::as_str);
        fill_message(text, elems.iter().zip(values).map(|(&e, &bits)| Literal::from_bits(e, bits)))
    }
}

fn thread_index(lane: u64, block: [u32; 3]) -> [u32; 3] {
    let lane = lane as u32;
    [lane % block[0], lane / block[0] % block[1], lane / block[0] / block[1]]
}

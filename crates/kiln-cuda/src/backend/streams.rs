//! Streams and events by number.

use super::reports::Reports;
use crate::driver::{Event, Result, Stream, StreamPlace};
use kiln_backend::{EventId, StreamId, StreamPriority};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// A stream and what its kernels report.
pub(super) struct Queue {
    pub(super) stream: Stream,
    reports: OnceLock<Reports>,
    /// Whether the tenancy has it among those with large kernels.
    pub(super) fills: AtomicBool,
}

impl Queue {
    pub(super) fn new(place: StreamPlace, priority: StreamPriority) -> Result<Arc<Queue>> {
        let priority = match priority {
            StreamPriority::Normal => 0,
            // The driver takes the device's highest.
            StreamPriority::High => i32::MIN,
        };
        let stream = Stream::in_place(place, priority)?;
        Ok(Arc::new(Queue { stream, reports: OnceLock::new(), fills: AtomicBool::new(false) }))
    }

    /// Its reports, if something that can report was launched in it.
    pub(super) fn reports(&self) -> Option<&Reports> {
        self.reports.get()
    }

    /// Its reports, made on the first call.
    pub(super) fn ready_reports(&self) -> Result<&Reports> {
        if let Some(reports) = self.reports.get() {
            return Ok(reports);
        }
        let fresh = Reports::new(&self.stream)?;
        // Another thread may have been faster; then its reports count.
        Ok(self.reports.get_or_init(|| fresh))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The kernels that still run write to their reports until they end: better to keep those
        // for ever than to take them away.
        if let Some(reports) = self.reports.take().filter(|_| !self.stream.is_idle().unwrap_or(false)) {
            std::mem::forget(reports);
        }
    }
}

/// The streams of a device. Number 0 is the default stream, an ordinary one: nothing is ordered
/// with it implicitly.
///
/// Numbers are not used twice. That of a destroyed stream means the default stream, which was made
/// to wait for its work.
pub(super) struct Streams {
    default: Arc<Queue>,
    others: RwLock<HashMap<u64, Arc<Queue>>>,
    next: AtomicU64,
    /// Destroyed streams with reports that were not read yet, which are reported with the default
    /// stream's, and those that still work: only then the driver has room for another.
    orphans: Mutex<Vec<Arc<Queue>>>,
    has_orphans: AtomicBool,
}

impl Streams {
    pub(super) fn new(place: StreamPlace) -> Result<Streams> {
        Ok(Streams {
            default: Queue::new(place, StreamPriority::Normal)?,
            others: RwLock::default(),
            next: AtomicU64::new(1),
            orphans: Mutex::default(),
            has_orphans: AtomicBool::new(false),
        })
    }

    pub(super) fn create(&self, place: StreamPlace, priority: StreamPriority) -> Result<StreamId> {
        let queue = Queue::new(place, priority)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.others.write().unwrap_or_else(PoisonError::into_inner).insert(number, queue);
        Ok(StreamId(number))
    }

    /// The stream of a number. The default stream, which most launches name, is there for as long
    /// as the device, so that its holders need not be counted.
    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Cow<'_, Arc<Queue>> {
        if id.0 == 0 { Cow::Borrowed(&self.default) } else { self.other(id) }
    }

    fn other(&self, id: StreamId) -> Cow<'_, Arc<Queue>> {
        // Insertions and removals are whole or not at all, so a panic elsewhere leaves the table
        // usable.
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        others.get(&id.0).map_or(Cow::Borrowed(&self.default), |queue| Cow::Owned(queue.clone()))
    }

    /// Makes the number mean the default stream, which from now on waits for the stream's work.
    pub(super) fn destroy(&self, id: StreamId) -> Result<()> {
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = others.get(&id.0) else { return Ok(()) };
        let end = Event::new(queue.stream.context())?;
        end.record(&queue.stream)?;
        self.default.stream.wait(&end)?;
        let is_orphan = queue.reports().is_some() || !queue.stream.is_idle()?;
        if let Some(queue) = others.remove(&id.0).filter(|_| is_orphan) {
            let mut orphans = self.orphans();
            // Nothing else ends those that report nothing where nobody synchronizes.
            orphans.retain(|orphan| orphan.reports().is_some() || !orphan.stream.is_idle().unwrap_or(false));
            orphans.push(queue);
            self.has_orphans.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The streams whose reports are due when the work of `queue`, now done, is reported: itself,
    /// and for the default stream the destroyed ones that are done too.
    pub(super) fn due(&self, queue: &Arc<Queue>) -> Result<Vec<Arc<Queue>>> {
        let mut due = Vec::new();
        if self.has_orphans.load(Ordering::Acquire) && Arc::ptr_eq(queue, &self.default) {
            let mut orphans = self.orphans();
            for orphan in std::mem::take(&mut *orphans) {
                if orphan.stream.is_idle()? {
                    due.push(orphan);
                } else {
                    orphans.push(orphan);
                }
            }
            self.has_orphans.store(!orphans.is_empty(), Ordering::Release);
        }
        if queue.reports().is_some() {
            due.push(queue.clone());
        }
        Ok(due)
    }

    /// A point after the work now in every stream.
    pub(super) fn ends(&self) -> Result<Vec<Event>> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let end = |queue: &Arc<Queue>| {
            let event = Event::new(queue.stream.context())?;
            event.record(&queue.stream)?;
            Ok(event)
        };
        std::iter::once(&self.default).chain(others.values()).map(end).collect()
    }

    /// Whether no stream has work that is not done.
    pub(super) fn are_idle(&self) -> Result<bool> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let orphans = self.orphans();
        for queue in std::iter::once(&self.default).chain(others.values()).chain(orphans.iter()) {
            if !queue.stream.is_idle()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn orphans(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a device. Driver events are kept and used again: making one costs more than
/// recording it.
#[derive(Default)]
pub(super) struct Events(Mutex<EventTable>);

#[derive(Default)]
struct EventTable {
    live: HashMap<u64, Recorded>,
    idle: [Vec<Event>; 2],
    last: u64,
}

struct Recorded {
    event: Arc<Event>,
    timing: bool,
}

impl Events {
    pub(super) fn record(&self, stream: &Stream, timing: bool) -> Result<EventId> {
        let kept = self.table().idle[usize::from(timing)].pop();
        let make = if timing { Event::timing } else { Event::new };
        let event = kept.map_or_else(|| make(stream.context()), Ok)?;
        event.record(stream)?;
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.live.insert(number, Recorded { event: Arc::new(event), timing });
        Ok(EventId(number))
    }

    pub(super) fn get(&self, id: EventId) -> Option<Arc<Event>> {
        self.table().live.get(&id.0).map(|recorded| recorded.event.clone())
    }

    pub(super) fn destroy(&self, id: EventId) {
        let mut table = self.table();
        let Some(recorded) = table.live.remove(&id.0) else { return };
        // Not while another thread uses it: then it is dropped by the last of them.
        if let Some(event) = Arc::into_inner(recorded.event) {
            table.idle[usize::from(recorded.timing)].push(event);
        }
    }

    fn table(&self) -> MutexGuard<'_, EventTable> {
        // Every change is one push, pop, insertion or removal, so a panic in between leaves nothing
        // half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

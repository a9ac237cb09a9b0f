//! Streams and events. A queue of wgpu's does all work in order, so that streams are names: what is
//! left of them is the faults that each has to report.

use super::gpu::refused;
use kiln_backend::{EventId, Result, StreamId};
use std::collections::{HashMap, HashSet};
use web_time::Instant;

/// The streams and events of a device.
pub(crate) struct Streams {
    /// Stream 0 is always there, and stands for those that are gone.
    live: HashSet<StreamId>,
    events: HashMap<EventId, Event>,
    next: u64,
}

/// A point in a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The recording that it follows.
    pub(crate) recording: u64,
    pub(crate) time: EventTime,
}

/// Where the time of an event is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventTime {
    /// It was recorded without timing.
    None,
    /// In a timestamp query of this number.
    Query(u32),
    /// The host's time when the work before it was done.
    Host(Instant),
}

impl Streams {
    /// The default stream alone.
    pub(crate) fn new() -> Streams {
        Streams { live: HashSet::from([StreamId::default()]), events: HashMap::new(), next: 1 }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn create(&mut self) -> StreamId {
        let stream = StreamId(self.fresh());
        self.live.insert(stream);
        stream
    }

    /// Forgets a stream; the default stream stays.
    pub(crate) fn destroy(&mut self, stream: StreamId) {
        if stream != StreamId::default() {
            self.live.remove(&stream);
        }
    }

    /// The live stream that a number means: a destroyed stream's number means the default stream.
    pub(crate) fn live(&self, stream: StreamId, call: &str) -> Result<StreamId> {
        if stream == StreamId::default() {
            return Ok(stream);
        }
        match stream.0 < self.next {
            true if self.live.contains(&stream) => Ok(stream),
            true => Ok(StreamId::default()),
            false => Err(refused(call, format!("there is no stream {}", stream.0))),
        }
    }

    pub(crate) fn add_event(&mut self, event: Event) -> EventId {
        let id = EventId(self.fresh());
        self.events.insert(id, event);
        id
    }

    pub(crate) fn event(&self, event: EventId, call: &str) -> Result<Event> {
        let found = self.events.get(&event).copied();
        found.ok_or_else(|| refused(call, format!("there is no event {}", event.0)))
    }

    pub(crate) fn remove_event(&mut self, event: EventId) -> Option<Event> {
        self.events.remove(&event)
    }
}

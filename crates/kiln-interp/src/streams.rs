//! Streams and events. All work is done when the call that enqueues it returns, so what is left is
//! names, times and pending faults.

use kiln_backend::{Error, EventId, Fault, Result, StreamId};
use std::collections::HashMap;
use std::time::Instant;

/// The streams and events of a device.
#[derive(Default)]
pub struct Streams {
    /// Each live stream's first fault that was not reported yet. Stream 0 is always there, and
    /// stands for those that are gone.
    faults: HashMap<StreamId, Option<Fault>>,
    events: HashMap<EventId, Event>,
    next: u64,
}

struct Event {
    time: Instant,
    timing: bool,
}

impl Streams {
    /// The default stream alone.
    pub fn new() -> Streams {
        let faults = HashMap::from([(StreamId::default(), None)]);
        Streams { faults, events: HashMap::new(), next: 1 }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// A new stream.
    pub fn create(&mut self) -> StreamId {
        let stream = StreamId(self.fresh());
        self.faults.insert(stream, None);
        stream
    }

    /// Forgets a stream; the default stream remains, and takes its fault over.
    pub fn destroy(&mut self, stream: StreamId) {
        if stream != StreamId::default()
            && let Some(Some(fault)) = self.faults.remove(&stream)
        {
            self.fail(StreamId::default(), fault);
        }
    }

    /// A live stream by that number: a destroyed stream's number means the default stream.
    fn live(&self, stream: StreamId) -> StreamId {
        if self.faults.contains_key(&stream) { stream } else { StreamId::default() }
    }

    /// An error unless the stream exists or existed.
    pub fn check(&self, stream: StreamId, call: &str) -> Result<()> {
        match stream.0 < self.next {
            true => Ok(()),
            false => Err(invalid(call, format!("there is no stream {}", stream.0))),
        }
    }

    /// Keeps a fault until it is reported, unless an earlier one waits.
    pub fn fail(&mut self, stream: StreamId, fault: Fault) {
        let stream = self.live(stream);
        if let Some(pending) = self.faults.get_mut(&stream) {
            pending.get_or_insert(fault);
        }
    }

    /// Reports the stream's fault once.
    pub fn report(&mut self, stream: StreamId, call: &str) -> Result<()> {
        self.check(stream, call)?;
        let stream = self.live(stream);
        match self.faults.get_mut(&stream).and_then(Option::take) {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// A new event, which has been reached.
    pub fn record(&mut self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.check(stream, "record")?;
        let event = EventId(self.fresh());
        self.events.insert(event, Event { time: Instant::now(), timing });
        Ok(event)
    }

    /// Forgets an event.
    pub fn destroy_event(&mut self, event: EventId) {
        self.events.remove(&event);
    }

    /// An error unless the event exists.
    pub fn check_event(&self, event: EventId, call: &str) -> Result<()> {
        self.event(event, call).map(|_| ())
    }

    fn event(&self, event: EventId, call: &str) -> Result<&Event> {
        self.events.get(&event).ok_or_else(|| invalid(call, format!("there is no event {}", event.0)))
    }

    /// Milliseconds of the host's clock between two timing events; negative if `end` came first.
    pub fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        let call = "elapsed_ms";
        let (start, end) = (self.event(start, call)?, self.event(end, call)?);
        if !start.timing || !end.timing {
            return Err(invalid(call, "an event was recorded without timing".into()));
        }
        let forward = end.time.saturating_duration_since(start.time);
        let backward = start.time.saturating_duration_since(end.time);
        Ok(((forward.as_secs_f64() - backward.as_secs_f64()) * 1e3) as f32)
    }
}

fn invalid(call: &str, message: String) -> Error {
    Error::Driver { call: format!("interp: {call}"), code: "invalid value".into(), message }
}

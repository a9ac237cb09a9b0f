//! Whether uses of memory in several streams are ordered: vector clocks, as a race detector has
//! them.

use std::collections::{BTreeMap, HashMap};

/// How much of each stream's work is known to be done.
type Clock = HashMap<u64, u64>;

/// A piece of work: its stream, and its number there.
type Stamp = (u64, u64);

#[derive(Default)]
pub struct Order {
    streams: HashMap<u64, Clock>,
    events: HashMap<u64, Clock>,
    /// What the host has waited for: true of all work that it enqueues later.
    host: Clock,
    allocations: BTreeMap<u64, Allocation>,
    violations: Vec<String>,
}

struct Allocation {
    bytes: u64,
    write: Stamp,
    reads: Vec<Stamp>,
}

fn join(into: &mut Clock, other: &Clock) {
    for (&stream, &done) in other {
        let known = into.entry(stream).or_default();
        *known = done.max(*known);
    }
}

impl Order {
    /// New work in a stream.
    fn work(&mut self, stream: u64) -> Stamp {
        let clock = self.streams.entry(stream).or_default();
        join(clock, &self.host);
        let count = clock.entry(stream).or_default();
        *count += 1;
        (stream, *count)
    }

    pub fn allocated(&mut self, at: u64, bytes: u64, stream: u64) {
        let write = self.work(stream);
        self.allocations.insert(at, Allocation { bytes, write, reads: Vec::new() });
    }

    pub fn freed(&mut self, at: u64, stream: u64) {
        self.touched(at, stream, true, "free");
        self.allocations.remove(&at);
    }

    /// Work of a stream reads or writes the allocation that an address lies in.
    pub fn touched(&mut self, at: u64, stream: u64, writes: bool, what: &str) {
        let now = self.work(stream);
        let clock = &self.streams[&stream];
        let is_before = |earlier: &Stamp| clock.get(&earlier.0).is_some_and(|&done| done >= earlier.1);
        let found = self.allocations.range_mut(..=at).next_back().filter(|(base, a)| at < **base + a.bytes);
        let Some((base, allocation)) = found else {
            self.violations.push(format!("{what} in stream {stream}: {at:#x} is no allocation"));
            return;
        };
        let earlier = std::iter::once(&allocation.write).chain(allocation.reads.iter().filter(|_| writes));
        for stamp in earlier.filter(|s| !is_before(s)) {
            self.violations.push(format!(
                "{what} of {base:#x} in stream {stream} is not ordered after work {} of stream {}",
                stamp.1, stamp.0
            ));
        }
        if writes {
            allocation.write = now;
            allocation.reads.clear();
        } else {
            allocation.reads.push(now);
        }
    }

    pub fn recorded(&mut self, event: u64, stream: u64) {
        self.work(stream);
        self.events.insert(event, self.streams[&stream].clone());
    }

    pub fn waited(&mut self, stream: u64, event: u64) {
        self.work(stream);
        if let (Some(clock), Some(event)) = (self.streams.get_mut(&stream), self.events.get(&event)) {
            join(clock, event);
        }
    }

    /// The host waited for a stream.
    pub fn synchronized(&mut self, stream: u64) {
        self.work(stream);
        join(&mut self.host, &self.streams[&stream]);
    }

    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    pub fn live_allocations(&self) -> usize {
        self.allocations.len()
    }
}

#[test]
fn unordered_work_is_noticed() {
    let mut order = Order::default();
    order.allocated(0x100, 64, 0);
    order.touched(0x120, 0, true, "fill");
    assert!(order.violations().is_empty());
    order.touched(0x120, 1, false, "copy");
    assert_eq!(order.violations().len(), 1, "{:?}", order.violations());
    order.recorded(7, 0);
    order.waited(1, 7);
    order.touched(0x100, 1, false, "copy");
    assert_eq!(order.violations().len(), 1);
    order.freed(0x100, 0);
    assert_eq!(order.violations().len(), 3, "two reads in stream 1 are open");
    order.touched(0x100, 0, false, "copy");
    assert!(order.violations()[3].contains("no allocation"));
}

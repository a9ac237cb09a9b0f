//! Inbound links: queues in device memory through which actors get messages of other actors.
//!
//! Each has a ring and a link's record in the arena, and an endpoint at its actor's worker; see
//! `device/send.rs`.

use super::actor::Actor;
use super::body::Body;
use super::chain::Chain;
use super::endpoints::Endpoint;
use super::limit::Limit;
use super::link_sender::{Sender, end_link, settle_owner};
use super::output_ring::{OutputRing, OutputSpec};
use super::outputs::Outputs;
use super::region::WordRange;
use super::{Shared, Side};
use crate::address::Address;
use crate::error::{ConfigError, Result};
use crate::handler::Handler;
use crate::layout::Layout;
use crate::lifecycle::Lifecycle;
use crate::payload::Hold;
use crate::wire::command::Operation;
use crate::wire::record::{actor, endpoint, link};
use crate::wire::slot::{MAX_CAPACITY, RingLayout, SlotLayout};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The inbound links of an actor.
pub(crate) struct InboundLinks {
    /// The layout of their slots.
    pub slot: SlotLayout,
    /// The record of the actor's endpoint for the host's messages: what those of its inbound links
    /// are made of.
    record: [u32; endpoint::WORDS],
    list: Mutex<Vec<InboundLink>>,
    pub outputs: OutputRing,
}

/// One inbound link.
pub(super) struct InboundLink {
    pub endpoint: Endpoint,
    pub ring: WordRange,
    /// The places of the ring.
    layout: RingLayout,
    /// Whether the ring lies in the worker's own memory.
    pub near: bool,
    pub link: WordRange,
    /// Whether no sender is left.
    closed: bool,
    /// The links of the topic's publisher that it is one of.
    pub chain: Option<Arc<Chain>>,
    /// The sender's end, where that belongs to another runtime.
    pub sender: Option<Sender>,
}

/// Whose messages come through an inbound link.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// Those of an actor of the same runtime.
    Actor,
    /// Those of an actor of the same cluster.
    Cluster,
    /// Those of a topic's publisher.
    Topic(&'a Arc<Chain>),
    /// Those of an actor of another runtime.
    Runtime(&'a Arc<Shared>),
}

impl InboundLink {
    /// Where the sender's record stands.
    fn senders_record(&self, own: &Arc<Shared>) -> (Option<Arc<Shared>>, usize) {
        match &self.sender {
            Some(sender) => sender.record(),
            None => (Some(Arc::clone(own)), self.link.at),
        }
    }
}

/// The serial number of the next link, unique in the process. A sender compares it with that of its
/// address, which differs if the address is of another runtime or its actor has ended.
static SERIALS: AtomicU32 = AtomicU32::new(1);

/// A number that no other link has. None is 0.
pub(super) fn next_serial() -> u32 {
    let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
    if serial == 0 { SERIALS.fetch_add(1, Ordering::Relaxed) } else { serial }
}

impl InboundLinks {
    pub fn new(slot: SlotLayout, record: [u32; endpoint::WORDS], spec: OutputSpec) -> InboundLinks {
        InboundLinks { slot, record, list: Mutex::default(), outputs: OutputRing::new(spec) }
    }

    pub(super) fn list(&self) -> MutexGuard<'_, Vec<InboundLink>> {
        // Every change is complete before anything can panic.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what the inbound links of an actor that has gone were made of.
    pub fn give_back(&self, shared: &Shared) {
        for inbound_link in self.list().drain(..) {
            shared.grid().give_endpoint(inbound_link.endpoint);
            inbound_link.sender.iter().for_each(Sender::give_back);
            let mut free = shared.free();
            free.release_ring(inbound_link.near.then_some(inbound_link.endpoint.worker), inbound_link.ring);
            free.arena.release(inbound_link.link);
        }
        self.outputs.give_up();
        if let Some([outputs, taken]) = self.outputs.ranges() {
            let mut free = shared.free();
            free.outbox.release(outputs);
            free.inbox.release(taken);
        }
    }
}

impl Side {
    /// Makes an inbound link; gives the place of its sender's record, and its serial number. It is
    /// appended to a publisher's links, if any.
    ///
    /// It had `passed` messages before.
    pub(super) fn add_inbound_link(
        &self,
        kind: u32,
        (capacity, passed): (usize, u64),
        from: Origin<'_>,
    ) -> Result<(u32, u32)> {
        match capacity {
            0 => return Err(ConfigError::ZeroCapacity.into()),
            capacity if capacity > MAX_CAPACITY => return Err(ConfigError::TooLarge { capacity }.into()),
            _ => {}
        }
        let (shared, inbound_links) = (&self.shared, &self.inbound_links);
        let mut list = inbound_links.list();
        let spec = inbound_links.outputs.spec();
        shared.grid().check_output(spec)?;
        if spec.references.any() {
            shared.count_references()?;
        }
        inbound_links.outputs.make(self)?;
        let layout = RingLayout::new(inbound_links.slot, capacity);
        let endpoint = shared.grid().take_endpoint_of(self.endpoints.first.worker)?;
        let near = matches!(from, Origin::Cluster);
        let ranges = shared
            .with_room(|| shared.allocate_inbound_link(near.then_some(endpoint.worker), layout.words()));
        let [ring, link] = ranges.inspect_err(|_| shared.grid().give_endpoint(endpoint))?;
        let serial = next_serial();
        let made = self.load_inbound_link((endpoint, kind), [ring, link], near, &layout, (serial, passed));
        // The worker may have it cached even where it did not say so.
        let closed = made.is_err();
        list.push(InboundLink { endpoint, ring, layout, near, link, closed, chain: None, sender: None });
        let record = made?;
        let at = match from {
            Origin::Actor | Origin::Cluster => link.at,
            Origin::Topic(chain) => {
                if let Some(inbound_link) = list.last_mut() {
                    inbound_link.chain = Some(Arc::clone(chain));
                }
                chain.append(shared, link.at as u32)?;
                link.at
            }
            Origin::Runtime(other) => {
                let sender = Sender::new(other, shared, link.at, record)?;
                let (_, at) = sender.record();
                if let Some(inbound_link) = list.last_mut() {
                    inbound_link.sender = Some(sender);
                }
                at
            }
        };
        Ok((at as u32, serial))
    }

    fn load_inbound_link(
        &self,
        (place, kind): (Endpoint, u32),
        ranges: [WordRange; 2],
        near: bool,
        layout: &RingLayout,
        (serial, passed): (u32, u64),
    ) -> Result<[u32; link::WORDS]> {
        let (shared, [ring, at]) = (&self.shared, ranges);
        let mut words = [0; link::WORDS];
        if near {
            // The worker clears it when it takes up the endpoint.
            words[link::NEAR] = place.worker as u32 + 1;
        } else {
            shared.clear_arena(ring)?;
        }
        words[link::SERIAL] = serial;
        words[link::RING] = ring.at as u32;
        words[link::LOG2_SLOTS] = layout.log2_slots();
        words[link::STRIDE] = layout.slot().stride() as u32;
        words[link::HEADERS] = u32::from(layout.slot().has_header());
        words[link::PEER] = at.at as u32;
        let [low, high] = [passed as u32, (passed >> 32) as u32];
        words[link::TAIL..][..2].copy_from_slice(&[low, high]);
        (words[link::HEAD], words[link::HEAD_SEEN]) = (low, low);
        shared.memory.write_arena(at.at, &words)?;
        let mut record = self.inbound_links.record;
        record[endpoint::KIND] = kind;
        record[endpoint::REQUESTS] = ring.at as u32;
        record[endpoint::ANSWERS] = 0;
        (record[endpoint::POSITION], record[endpoint::POSITION + 1], record[endpoint::SKIP]) =
            (low, high, low);
        record[endpoint::LOG2_SLOTS] = layout.log2_slots();
        record[endpoint::LINK] = at.at as u32;
        if near {
            record[endpoint::REQUEST_QUADS] |= endpoint::NEAR;
        }
        shared.load(place, &record, Limit::NONE)?;
        Ok(words)
    }

    /// Ends all sends to the actor; then everything that was sent is in its queues.
    pub fn close_inbound_links(&self, limit: Limit) -> Result<()> {
        let shared = &self.shared;
        for inbound_link in self.inbound_links.list().iter_mut().filter(|inbound_link| !inbound_link.closed) {
            // An actor that claims the address from now on finds that it has ended. One that has
            // claimed it does so when it next handles a message.
            match (&inbound_link.chain, inbound_link.senders_record(shared)) {
                (Some(chain), _) => {
                    settle_owner(shared, chain.remove(shared, inbound_link.link.at as u32)? as usize, limit)?
                }
                (None, (Some(runtime), at)) => end_link(&runtime, at, limit)?,
                // The sender's runtime is gone.
                (None, (None, _)) => {}
            }
            inbound_link.closed = true;
        }
        Ok(())
    }

    /// The positions of senders and actor in each inbound link; `None` where a sender of another
    /// runtime hides them.
    pub fn inbound_link_counters(&self) -> Option<Vec<[u32; 2]>> {
        let list = self.inbound_links.list();
        let read = |inbound_link: &InboundLink| {
            let (mut tail, mut head) = ([0], [0]);
            let memory = &self.shared.memory;
            if inbound_link.sender.is_some() {
                return None;
            }
            memory.read_arena(inbound_link.link.at + link::HEAD, &mut head).ok()?;
            memory.read_arena(inbound_link.link.at + link::TAIL, &mut tail).ok()?;
            Some([tail[0], head[0]])
        };
        list.iter().map(read).collect()
    }

    /// The message in a position of an inbound link, as long as its place was not used again.
    pub fn message_of_inbound_link(&self, at: u32, position: u64) -> Option<Vec<u32>> {
        let (place, layout) = {
            let list = self.inbound_links.list();
            let inbound_link =
                list.iter().find(|inbound_link| inbound_link.link.at as u32 == at && !inbound_link.near)?;
            (inbound_link.ring.at + inbound_link.layout.at(position), inbound_link.layout)
        };
        let mut slot = vec![0; layout.slot().stride()];
        self.shared.memory.read_arena(place, &mut slot).ok()?;
        let mut words = vec![0; layout.slot().payload_words()];
        layout.slot().decode(layout.lap(position), &slot, &mut words)?;
        Some(words)
    }

    /// Whether other actors may send to it.
    pub fn has_inbound_links(&self) -> bool {
        !self.inbound_links.list().is_empty()
    }

    /// How many messages of other actors wait.
    pub fn backlog(&self) -> Result<u64> {
        let mut left = 0;
        for inbound_link in self.inbound_links.list().iter() {
            let (mut tail, mut head) = ([0], [0]);
            self.shared.memory.read_arena(inbound_link.link.at + link::HEAD, &mut head)?;
            let (Some(sender), at) = inbound_link.senders_record(&self.shared) else { continue };
            sender.memory.read_arena(at + link::TAIL, &mut tail)?;
            left += u64::from(tail[0].wrapping_sub(head[0]));
        }
        Ok(left)
    }

    /// Has the worker forget the inbound links.
    pub fn remove_inbound_links(&self, limit: Limit) -> Result<()> {
        for inbound_link in self.inbound_links.list().iter() {
            self.shared.load(inbound_link.endpoint, &[0; endpoint::WORDS], limit)?;
        }
        self.inbound_links.outputs.close();
        Ok(())
    }

    /// How many messages its handler sent to actors that had ended.
    fn undelivered(&self) -> Result<u32> {
        let mut count = [0];
        self.shared.memory.read_arena(self.ranges[2].at + actor::UNDELIVERED, &mut count)?;
        Ok(count[0])
    }
}

impl Shared {
    /// Memory for an inbound link: its ring, which is to lie in a worker's own memory or in the
    /// arena, and its link's record.
    fn allocate_inbound_link(&self, worker: Option<usize>, words: usize) -> Result<[WordRange; 2]> {
        let mut free = self.free();
        let ring = match worker {
            Some(worker) => free.near[worker].allocate(words)?,
            None => free.arena.allocate(words)?,
        };
        match free.arena.allocate(link::WORDS) {
            Ok(link) => Ok([ring, link]),
            Err(error) => {
                free.release_ring(worker, ring);
                Err(error)
            }
        }
    }
}

impl<H: Handler> Actor<H> {
    /// Makes a queue for as many messages of *one* other actor, and gives the address to send to:
    /// put it into that actor's state, or send it there. The number of places is rounded up to a
    /// power of two.
    ///
    /// The messages are handled as those of the host are, in turn with them. What the handler
    /// replies to them goes to the actor's [outputs](Self::outputs). The memory is taken from
    /// [`RuntimeConfig::arena_bytes`](crate::RuntimeConfig::arena_bytes), and given back when the
    /// actor has ended.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
    ///
    /// /// Sends the squares of what it gets to another actor.
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ///     ctx.send(next, x * x);
    /// }
    ///
    /// /// Adds up what it gets.
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    ///     *sum += x;
    ///     *sum
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let last = runtime.launch(total, RingConfig::default().state(0))?;
    /// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(64)?))?;
    /// last.activate()?;
    /// first.activate()?;
    /// for x in 1..=3 {
    ///     first.send(x)?;
    /// }
    /// let sums = [(); 3].map(|()| last.outputs().recv());
    /// assert_eq!(sums, [Ok(1), Ok(5), Ok(14)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The actor has ended; a capacity of 0, or of more than [`MAX_CAPACITY`]; no place or memory
    /// left; failures of the device.
    pub fn inbound_link(&self, capacity: usize) -> Result<Address<H::Message>> {
        let (link, serial) = self.body.add_inbound_link(capacity, Origin::Actor)?;
        Ok(Address::new(link, serial))
    }

    /// The replies to messages that came through the actor's inbound links.
    pub fn outputs(&self) -> Outputs<H::Reply> {
        Outputs::new(&self.body.side)
    }

    /// Replaces the state of an actor that handles nothing: one that was just launched, whose
    /// restarts begin with this state too; or one that is deactivated or has failed. So actors can
    /// be made that send to each other in a circle.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
    ///
    /// /// Passes a number on until it is 0.
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn countdown(ctx: &RingCtx, other: &mut Address<u32>, x: u32) -> Option<u32> {
    ///     if x > 0 {
    ///         ctx.send(other, x - 1);
    ///         return None;
    ///     }
    ///     Some(7)
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let a = runtime.launch(countdown, RingConfig::default().state(Address::none()))?;
    /// let b = runtime.launch(countdown, RingConfig::default().state(a.inbound_link(4)?))?;
    /// a.set_state(b.inbound_link(4)?)?;
    /// a.activate()?;
    /// b.activate()?;
    /// a.send(11)?;
    /// assert_eq!(b.outputs().recv(), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The actor is active or has ended; the state refers to a payload of another runtime; failures
    /// of the device.
    pub fn set_state(&self, state: H::State) -> Result<()> {
        let mut words = vec![0; H::State::WORDS];
        state.encode(&mut words);
        self.body.set_state(words, self.body.side.shared.held_by(&state)?)
    }

    /// How many messages its handler has sent to actors that had ended, modulo 2^32. They are gone.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn undelivered(&self) -> Result<u32> {
        self.body.side.undelivered()
    }
}

impl Body {
    pub(super) fn add_inbound_link(&self, capacity: usize, from: Origin<'_>) -> Result<(u32, u32)> {
        self.add_inbound_link_at((capacity, 0), from)
    }

    /// The same, of an inbound link that had so many messages before.
    pub(super) fn add_inbound_link_at(
        &self,
        (capacity, passed): (usize, u64),
        from: Origin<'_>,
    ) -> Result<(u32, u32)> {
        let life = self.life();
        if matches!(life.stage, Lifecycle::Draining | Lifecycle::Terminated) {
            return Err(self.illegal("make an inbound link", life.stage, "not terminated"));
        }
        self.lost()?;
        self.side.shared.open_inbound_links()?;
        let kind = self.side.shared.kind(self.kind())?;
        self.side.add_inbound_link(kind, (capacity, passed), from)
    }

    fn set_state(&self, words: Vec<u32>, held: Vec<Hold>) -> Result<()> {
        let life = self.life();
        if !matches!(life.stage, Lifecycle::Launched | Lifecycle::Deactivated | Lifecycle::Failed) {
            return Err(self.illegal("set the state", life.stage, "launched, deactivated or failed"));
        }
        self.side.write_state(&words)?;
        // The worker's caches may hold what was there before.
        self.side.command(Operation::Settle, 0)?;
        let first = life.stage == Lifecycle::Launched;
        if first {
            self.restart_with(words);
        }
        self.hold(held, first);
        Ok(())
    }
}

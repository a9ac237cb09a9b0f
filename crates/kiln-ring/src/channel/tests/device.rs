//! A device that is played by the test.

use crate::channel::memory::RingMemory;
use crate::channel::platform::QueueMemory;
use crate::channel::queue::{Form, Protocol};
use crate::channel::{Channel, ChannelConfig, DeviceSide, Parts};
use crate::wire::slot::{self, Kind, PAYLOAD, QUAD};
use crate::{DeadLetters, Layout, Message};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// A cache line.
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u32; 16]);

/// Zeroed memory, as the host and the device reach it.
pub fn memory(words: usize, write_combined: bool) -> (RingMemory, RingMemory) {
    let mut lines: Vec<Line> = (0..words.div_ceil(16)).map(|_| Line([0; 16])).collect();
    let base = NonNull::from(lines.as_mut_slice()).cast::<u32>();
    let owner: Arc<Vec<Line>> = Arc::new(lines);
    // SAFETY: the lines are zeroed, aligned and live as long as the vector, which no other code
    // reads. Host and device are both played here, through a value each.
    unsafe {
        (
            RingMemory::new(base, words, write_combined, owner.clone()),
            RingMemory::new(base, words, false, owner),
        )
    }
}

/// The device's side of one channel.
pub struct Device<M> {
    pub form: Form,
    pub requests: M,
    pub answers: M,
    pub position: u64,
}

impl<M: QueueMemory> Device<M> {
    /// The next request, once it is complete: its position, header and payload.
    pub fn take(&mut self) -> Option<(u64, [u32; PAYLOAD], Vec<u32>)> {
        let ring = &self.form.requests;
        let (layout, at) = (ring.slot(), ring.at(self.position));
        let want = slot::stamp(ring.lap(self.position), Kind::Request);
        if self.form.protocol == Protocol::Ordered && self.requests.load_acquire(at + PAYLOAD) != want {
            return None;
        }
        let quads: Vec<[u32; QUAD]> =
            (0..layout.quads()).map(|q| self.requests.load_quad(at + q * QUAD)).collect();
        if self.form.protocol == Protocol::Stamped && quads.iter().any(|quad| quad[PAYLOAD] != want) {
            return None;
        }
        let mut words: Vec<u32> = quads.iter().flat_map(|quad| quad[..PAYLOAD].to_vec()).collect();
        let mut header = [0; PAYLOAD];
        if layout.has_header() {
            header.copy_from_slice(&words[..PAYLOAD]);
            words.drain(..PAYLOAD);
        }
        words.truncate(layout.payload_words());
        self.position += 1;
        Some((self.position - 1, header, words))
    }

    /// Answers a request.
    pub fn answer(&self, position: u64, kind: Kind, payload: &[u32]) {
        let ring = &self.form.answers;
        let (layout, at) = (ring.slot(), ring.at(position));
        let stamp = slot::stamp(ring.lap(position), kind);
        let quads = slot::quads_for(payload.len());
        let stamped = self.form.protocol == Protocol::Stamped;
        // Backwards: the quad that is polled first comes last.
        for q in (0..quads).rev() {
            let quad = layout.quad(q, [0; PAYLOAD], payload, stamp);
            if q == 0 && !stamped {
                self.answers.store_quad_release(at, quad);
            } else {
                self.answers.store_quad(at + q * QUAD, quad);
            }
        }
    }
}

/// What a channel requires of its device.
#[derive(Default)]
pub struct Control {
    /// Requests below this are to be skipped.
    pub skip: AtomicU64,
    /// How often it was woken.
    pub woken: AtomicUsize,
}

impl DeviceSide for Control {
    fn skip(&self, position: u64) {
        self.skip.fetch_max(position, SeqCst);
    }

    fn wake(&self) {
        self.woken.fetch_add(1, SeqCst);
    }
}

/// A channel and its device.
pub struct Rig<M, R> {
    pub channel: Channel<M, R>,
    pub device: Device<RingMemory>,
    pub control: Arc<Control>,
    pub letters: Arc<DeadLetters>,
}

/// A channel of this kind, whose first message has the position `first`.
pub fn rig_from<M: Message, R: Layout>(config: ChannelConfig, protocol: Protocol, first: u64) -> Rig<M, R> {
    let form = config.form::<M, R>(protocol).unwrap();
    let (requests, device_requests) = memory(form.requests.words(), protocol == Protocol::Stamped);
    let (answers, device_answers) = memory(form.answers.words(), false);
    let (control, letters) = (Arc::<Control>::default(), Arc::new(DeadLetters::new(1000)));
    let parts = Parts {
        actor: 3,
        requests,
        answers,
        passed: vec![first],
        letters: letters.clone(),
        device: control.clone(),
    };
    let channel = Channel::new(&config, protocol, parts).unwrap();
    let device = Device { form, requests: device_requests, answers: device_answers, position: first };
    Rig { channel, device, control, letters }
}

/// A channel of this kind.
pub fn rig<M: Message, R: Layout>(config: ChannelConfig, protocol: Protocol) -> Rig<M, R> {
    rig_from(config, protocol, 0)
}

impl<M: Message, R: Layout> Rig<M, R> {
    /// Takes the next request, which is there.
    #[track_caller]
    pub fn handle(&mut self) -> (u64, M) {
        let (position, _, words) = self.device.take().expect("a request is there");
        (position, M::decode(&words))
    }

    /// Answers with a reply.
    pub fn reply(&self, position: u64, reply: &R) {
        let mut words = vec![0; R::WORDS];
        reply.encode(&mut words);
        self.device.answer(position, Kind::Reply, &words);
    }

    /// Answers that a message was not handled; the message comes back.
    pub fn give_back(&self, position: u64, kind: Kind, message: &M) {
        let mut words = vec![0; M::WORDS];
        message.encode(&mut words);
        self.device.answer(position, kind, &words);
    }
}

//! The queue under loom, which runs a model again and again, over the interleavings of its threads
//! and the values that loads may see.
//!
//! Loom plays the memory too. With the stamped protocol, a quad is one relaxed variable, so quads
//! of a slot are seen in any order; with the ordered one, payload and stamp are variables of their
//! own. Loops that wait give way to the other threads.

use super::device::Device;
use crate::DeadLetters;
use crate::channel::DeviceSide;
use crate::channel::credits::Credits;
use crate::channel::lines::SLACK;
use crate::channel::mailbox::{ChannelPolicy, Mailbox, Sent};
use crate::channel::platform::{Atomic, Platform, QueueMemory};
use crate::channel::queue::{Form, Protocol, Queue};
use crate::channel::wait::Wait;
use crate::channel::{Overflow, Replies, WaitPolicy};
use crate::error::SendError;
use crate::wire::slot::{Kind, PAYLOAD, QUAD, RingLayout, SlotLayout};
use loom::sync::atomic::{self, AtomicU8, AtomicU32, AtomicU64};
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

struct Modeled;

impl Platform for Modeled {
    type U64 = AtomicU64;
    type U8 = AtomicU8;
    type Memory = Arc<Quads>;

    fn fence(order: Ordering) {
        atomic::fence(order);
    }

    const LOOKS: usize = 1;

    fn pause() {
        thread::yield_now();
    }

    fn step(_: &mut Wait) -> bool {
        thread::yield_now();
        true
    }
}

macro_rules! modeled {
    ($($atomic:ident $t:ty;)*) => {$(
        impl Atomic<$t> for $atomic {
            fn new(value: $t) -> Self {
                Self::new(value)
            }

            fn load(&self, order: Ordering) -> $t {
                self.load(order)
            }

            fn store(&self, value: $t, order: Ordering) {
                self.store(value, order);
            }

            fn swap(&self, value: $t, order: Ordering) -> $t {
                self.swap(value, order)
            }

            fn compare_exchange_weak(&self, current: $t, new: $t, success: Ordering, failure: Ordering) -> Result<$t, $t> {
                self.compare_exchange_weak(current, new, success, failure)
            }

            fn compare_exchange(&self, current: $t, new: $t, success: Ordering, failure: Ordering) -> Result<$t, $t> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    )*};
}
modeled! { AtomicU64 u64; AtomicU8 u8; }

/// Memory of quads, of which the first word and the stamp are kept: the tests' payload is one word
/// in each quad.
struct Quads {
    protocol: Protocol,
    /// Stamped: word and stamp in one.
    whole: Vec<AtomicU64>,
    /// Ordered: each by itself.
    words: Vec<AtomicU32>,
    stamps: Vec<AtomicU32>,
}

impl Quads {
    fn new(words: usize, protocol: Protocol) -> Arc<Quads> {
        let count = |of: Protocol| if of == protocol { words / QUAD } else { 0 };
        Arc::new(Quads {
            protocol,
            whole: (0..count(Protocol::Stamped)).map(|_| AtomicU64::new(0)).collect(),
            words: (0..count(Protocol::Ordered)).map(|_| AtomicU32::new(0)).collect(),
            stamps: (0..count(Protocol::Ordered)).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    fn store(&self, at: usize, quad: [u32; QUAD], order: Ordering) {
        let [word, 0, 0, stamp] = quad else { panic!("the tests use a word of each quad: {quad:?}") };
        if self.protocol == Protocol::Stamped {
            return self.whole[at / QUAD].store(u64::from(word) << 32 | u64::from(stamp), order);
        }
        self.words[at / QUAD].store(word, Relaxed);
        self.stamps[at / QUAD].store(stamp, order);
    }
}

impl QueueMemory for Arc<Quads> {
    fn store_quad(&self, at: usize, quad: [u32; QUAD]) {
        self.store(at, quad, Relaxed);
    }

    fn store_quad_release(&self, at: usize, quad: [u32; QUAD]) {
        self.store(at, quad, Release);
    }

    fn load_quad(&self, at: usize) -> [u32; QUAD] {
        if self.protocol == Protocol::Stamped {
            let both = self.whole[at / QUAD].load(Relaxed);
            return [(both >> 32) as u32, 0, 0, both as u32];
        }
        [self.words[at / QUAD].load(Relaxed), 0, 0, self.stamps[at / QUAD].load(Relaxed)]
    }

    fn load_acquire(&self, at: usize) -> u32 {
        self.stamps[at / QUAD].load(Acquire)
    }

    fn flush(&self) {}
}

struct Nothing;

impl DeviceSide for Nothing {
    fn skip(&self, _: u64) {}
}

/// A mailbox for messages and replies of `quads` words, one in each quad, and its device.
fn mailbox(
    protocol: Protocol,
    capacity: usize,
    quads: usize,
    overflow: Overflow,
) -> (Arc<Mailbox<Modeled>>, Device<Arc<Quads>>) {
    let words = (quads - 1) * PAYLOAD + 1;
    let ring = RingLayout::new(SlotLayout::new(words, false), capacity);
    let form = Form { protocol, capacity, priorities: 1, requests: ring, answers: ring, reply_words: words };
    let (requests, answers) = (Quads::new(ring.words(), protocol), Quads::new(ring.words(), protocol));
    let queue = Queue::new(form, requests.clone(), answers.clone(), 0);
    (Arc::new(Mailbox::new(queue, policy(overflow))), Device { form, requests, answers, position: 0 })
}

fn policy(overflow: Overflow) -> ChannelPolicy {
    ChannelPolicy {
        actor: 0,
        overflow,
        wait: WaitPolicy::default(),
        replies: Replies::default(),
        message_layout: 0,
        reply_layout: 0,
        letters: Arc::new(DeadLetters::new(8)),
        device: Arc::new(Nothing),
    }
}

/// A payload with its number in each quad.
fn payload(number: u32, quads: usize) -> Vec<u32> {
    (0..(quads - 1) * PAYLOAD + 1)
        .map(|i| if i % PAYLOAD == 0 { number * 10 + i as u32 } else { 0 })
        .collect()
}

/// The same as it lies in a slot.
fn laid(number: u32, quads: usize) -> Vec<u32> {
    let mut words = payload(number, quads);
    words.resize(quads * PAYLOAD, 0);
    words
}

/// Checks that a payload is whole, and gives its number.
#[track_caller]
fn number(words: &[u32]) -> u32 {
    let number = words[0] / 10;
    let quads = words.len().div_ceil(PAYLOAD);
    assert_eq!(words, payload(number, quads), "torn");
    number
}

/// The device polls once, and echoes what it finds. Between reading a message and answering it,
/// whatever the host did before is visible to it.
fn serve(device: &mut Device<Arc<Quads>>) -> bool {
    let Some((position, _, words)) = device.take() else { return false };
    number(&words);
    atomic::fence(Ordering::AcqRel);
    device.answer(position, Kind::Reply, &words);
    true
}

/// Receives the next reply, if it is there.
fn receive(mailbox: &Mailbox<Modeled>) -> Option<u32> {
    let mut got = None;
    let received =
        mailbox.receive(1, false, &mut [0; 2 * PAYLOAD + SLACK], |words| got = Some(number(words)));
    assert!(received.is_ok());
    got
}

/// Sends a message; whether there was room.
fn send(mailbox: &Mailbox<Modeled>, number: u32, quads: usize) -> bool {
    match mailbox.try_send(mailbox.lowest(), &laid(number, quads)) {
        Ok(sent) => matches!(sent, Sent::Queued(_)),
        Err(error) => {
            assert!(matches!(error, SendError::Full { .. }));
            false
        }
    }
}

/// Explores a model with up to so many preemptions of threads.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Two senders of messages of two quads, beside the device and the receiver: what was sent is
/// received, nothing else, whole, once, and in order within a sender. There is room for one of the
/// three messages only once the first reply was taken: then its slot is used again.
fn two_senders(protocol: Protocol) {
    explore(2, move || {
        let (mailbox, mut device) = mailbox(protocol, 2, 2, Overflow::Block);
        let senders = [&[10, 11][..], &[20]].map(|numbers| {
            let mailbox = mailbox.clone();
            thread::spawn(move || {
                numbers.iter().copied().filter(|n| send(&mailbox, *n, 2)).collect::<Vec<_>>()
            })
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            serve(&mut device);
            got.extend(receive(&mailbox));
        }
        let sent = senders.map(|s| s.join().unwrap());
        while serve(&mut device) {}
        got.extend(std::iter::from_fn(|| receive(&mailbox)));
        for (sent, first) in sent.iter().zip([1, 2]) {
            let of_one: Vec<u32> = got.iter().copied().filter(|n| n / 10 == first).collect();
            assert_eq!(of_one, *sent);
        }
        assert_eq!(got.len(), sent.concat().len());
        assert_eq!(mailbox.counts().under_way(), 0);
    });
}

#[test]
fn two_senders_stamped() {
    two_senders(Protocol::Stamped);
}

#[test]
fn two_senders_ordered() {
    two_senders(Protocol::Ordered);
}

/// One thread asks while another one sends and receives: each gets its own, and the slots are all
/// free at the end.
fn asker_and_receiver(protocol: Protocol) {
    explore(3, move || {
        let (mailbox, mut device) = mailbox(protocol, 2, 1, Overflow::Block);
        let asking = mailbox.clone();
        let asker = thread::spawn(move || {
            let position = asking.try_request(asking.lowest(), &laid(7, 1)).unwrap();
            let mut reply = [0];
            (position, asking.poll_request(position, &mut reply).map(|answer| (answer, reply)))
        });
        assert!(send(&mailbox, 8, 1));
        let mut got = Vec::new();
        for _ in 0..2 {
            serve(&mut device);
            got.extend(receive(&mailbox));
        }
        let (position, answer) = asker.join().unwrap();
        while serve(&mut device) {}
        let (answer, reply) = answer.unwrap_or_else(|| {
            let mut reply = [0];
            (mailbox.poll_request(position, &mut reply).unwrap(), reply)
        });
        assert_eq!((answer, number(&reply)), (Ok(true), 7));
        got.extend(std::iter::from_fn(|| receive(&mailbox)));
        assert_eq!(got, [8]);
        assert_eq!(mailbox.counts().under_way(), 0);
        assert!(mailbox.letters().is_empty());
    });
}

#[test]
fn asker_and_receiver_stamped() {
    asker_and_receiver(Protocol::Stamped);
}

#[test]
fn asker_and_receiver_ordered() {
    asker_and_receiver(Protocol::Ordered);
}

/// An asker gives up while the answer arrives and another thread sweeps: the reply is a dead
/// letter, once, and the slot is free.
#[test]
fn a_request_given_up() {
    explore(3, || {
        let (mailbox, mut device) = mailbox(Protocol::Stamped, 1, 1, Overflow::Block);
        let asking = mailbox.clone();
        let asker = thread::spawn(move || {
            let position = asking.try_request(asking.lowest(), &laid(7, 1)).unwrap();
            let mut reply = [0];
            match asking.poll_request(position, &mut reply) {
                Some(answer) => assert_eq!((answer, number(&reply)), (Ok(true), 7)),
                None => asking.lowest().queue.give_up(position),
            }
            reply[0] != 0
        });
        serve(&mut device);
        mailbox.tidy();
        let taken = asker.join().unwrap();
        serve(&mut device);
        mailbox.tidy();
        assert_eq!(mailbox.counts().under_way(), 0);
        assert_eq!(mailbox.letters().len(), usize::from(!taken));
    });
}

/// Two receivers: each reply goes to one of them, and the one slot is not used again before the
/// first lap's reply was read.
#[test]
fn two_receivers() {
    explore(3, || {
        let (mailbox, mut device) = mailbox(Protocol::Stamped, 1, 1, Overflow::Block);
        let other = mailbox.clone();
        let receiver = thread::spawn(move || [receive(&other), receive(&other)]);
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for n in [1, 2] {
            sent.extend(send(&mailbox, n, 1).then_some(n));
            serve(&mut device);
            got.extend(receive(&mailbox));
        }
        got.extend(receiver.join().unwrap().into_iter().flatten());
        got.extend(receive(&mailbox));
        got.sort_unstable();
        assert_eq!(got, sent);
        assert_eq!(mailbox.counts().under_way(), 0);
    });
}

/// A queue that closes during a send: the message is either sent and answered, or refused.
#[test]
fn closing_while_sending() {
    explore(3, || {
        let (mailbox, mut device) = mailbox(Protocol::Ordered, 2, 1, Overflow::Block);
        let sending = mailbox.clone();
        let sender = thread::spawn(move || sending.send(sending.lowest(), &laid(1, 1), None));
        mailbox.close();
        let tail = mailbox.lowest().queue.tail();
        let sent = sender.join().unwrap();
        assert_eq!(mailbox.lowest().queue.tail(), tail, "a position was taken after the queue closed");
        match sent {
            Ok(sent) => assert_eq!((sent, tail), (Sent::Queued(0), 1)),
            Err(error) => assert_eq!((error, tail), (SendError::Closed { actor: 0 }, 0)),
        }
        assert_eq!(device.take().is_some(), sent.is_ok());
    });
}

/// A sender that stops half-way: its message is never seen, nor any that comes after it, and
/// nothing that is seen is torn.
#[test]
fn a_sender_that_stops_half_way() {
    for written in 0..4u32 {
        explore(3, move || {
            let (mailbox, mut device) = mailbox(Protocol::Stamped, 2, 2, Overflow::Block);
            let stopped = mailbox.clone();
            let memory = device.requests.clone();
            let sender = thread::spawn(move || {
                let position = stopped.lowest().queue.reserve(1).unwrap().start;
                // What `write` stores, of which some quads never leave.
                let ring = stopped.lowest().queue.form().requests;
                let stamp = crate::wire::slot::stamp(ring.lap(position), Kind::Request);
                for q in (0..2).filter(|q| written >> q & 1 == 1) {
                    let quad = ring.slot().quad(q, [0; PAYLOAD], &payload(1, 2), stamp);
                    memory.store_quad(ring.at(position) + q * QUAD, quad);
                }
                position
            });
            let other = mailbox.clone();
            let second = thread::spawn(move || {
                let Ok(Sent::Queued(position)) = other.send(other.lowest(), &laid(2, 2), None) else {
                    unreachable!()
                };
                position
            });
            let mut seen = Vec::new();
            for _ in 0..2 {
                if let Some((position, _, words)) = device.take() {
                    seen.push((position, number(&words)));
                }
            }
            let (torn, whole) = (sender.join().unwrap(), second.join().unwrap());
            while let Some((position, _, words)) = device.take() {
                seen.push((position, number(&words)));
            }
            let want = match (written, whole < torn) {
                (3, true) => vec![(0, 2), (1, 1)],
                (3, false) => vec![(0, 1), (1, 2)],
                (_, true) => vec![(0, 2)],
                (_, false) => vec![],
            };
            assert_eq!(seen, want);
        });
    }
}

/// A mailbox of two priorities for messages and replies of one word, and their devices, the lower
/// one's first.
fn two_priorities(capacity: usize) -> (Arc<Mailbox<Modeled>>, [Device<Arc<Quads>>; 2]) {
    let ring = RingLayout::new(SlotLayout::new(1, false), capacity);
    let protocol = Protocol::Stamped;
    let form = Form { protocol, capacity, priorities: 2, requests: ring, answers: ring, reply_words: 1 };
    let credits = Arc::new(Credits::new(form.capacity));
    let of = |priority| {
        let (requests, answers) = (Quads::new(ring.words(), protocol), Quads::new(ring.words(), protocol));
        let first = crate::wire::slot::in_priority(priority, 0);
        let queue = Queue::new(form, requests.clone(), answers.clone(), first).of_priority(&credits);
        (queue, Device { form, requests, answers, position: first })
    };
    let ((lowest, low), (higher, high)) = (of(0), of(1));
    let mailbox = Mailbox::with_priorities(lowest, vec![higher], policy(Overflow::Reject));
    (Arc::new(mailbox), [low, high])
}

/// A reply that was given before one of a lower priority is received before it, whenever the
/// receiver looks.
#[test]
fn what_came_first_in_a_higher_priority_is_received_first() {
    explore(3, || {
        let (mailbox, [mut low, mut high]) = two_priorities(2);
        assert!(send(&mailbox, 1, 1) && mailbox.try_send(mailbox.ring(1).unwrap(), &laid(2, 1)).is_ok());
        let device = thread::spawn(move || assert!(serve(&mut high) && serve(&mut low)));
        let mut got: Vec<u32> = (0..2).filter_map(|_| receive(&mailbox)).collect();
        device.join().unwrap();
        got.extend(std::iter::from_fn(|| receive(&mailbox)));
        assert_eq!(got, [2, 1]);
    });
}

/// Two priorities with room for one message between them: whichever gets it, its slot is free;
/// nothing is lost, and the room comes back.
#[test]
fn two_priorities_share_the_room() {
    explore(2, || {
        let (mailbox, mut devices) = two_priorities(1);
        let other = mailbox.clone();
        let sender = thread::spawn(move || {
            let priority = other.ring(1).unwrap();
            other.try_send(priority, &laid(1, 1)).is_ok().then_some(1)
        });
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for n in [11, 12] {
            sent.extend(send(&mailbox, n, 1).then_some(n));
            for device in devices.iter_mut().rev() {
                serve(device);
            }
            got.extend(receive(&mailbox));
            assert!(mailbox.unanswered() <= 1, "more are under way than there is room for");
        }
        sent.extend(sender.join().unwrap());
        for device in &mut devices {
            serve(device);
        }
        got.extend(std::iter::from_fn(|| receive(&mailbox)));
        sent.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, sent);
        assert_eq!(mailbox.counts().under_way(), 0);
        assert!(send(&mailbox, 3, 1), "the room is there again");
        assert!(mailbox.try_send(mailbox.ring(1).unwrap(), &laid(4, 1)).is_err(), "and not twice");
    });
}

//! The protocol between host and device, as a model of which every state is visited.
//!
//! A queue of two slots, two senders, one receiver, and a device that holds up to two messages and
//! answers them in any order. Messages and replies are two quads. A quad that is stored flies for a
//! while and then arrives whole, in no order with respect to others; the device and the receiver
//! read the quads of a slot one at a time. Stamps, laps and slots are those of the code.

use kiln_ring::slot::{Kind, RingLayout, SlotLayout, stamp};
use std::collections::HashMap;

/// Two quads, two slots.
const RING: RingLayout = RingLayout::new(SlotLayout::new(4, false), 2);
const QUADS: usize = 2;
const CAPACITY: u8 = 2;
const EACH: u8 = 2;
const MESSAGES: usize = 2 * EACH as usize;

/// What a quad holds: the number of a message, and a stamp.
type Quad = (u8, u32);

/// A place in memory: what is there, and a store that is on its way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct QuadCell {
    here: Quad,
    flying: Option<Quad>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sender {
    /// About to send its message with this number.
    At(u8),
    SawTail(u8, u8),
    /// Saw the tail, and the head after it.
    SawHead(u8, u8, u8),
    /// Has a position; these quads are stored.
    Writing(u8, u8, u8),
    Stopped,
}

/// A message that the device holds: its position, its number, and the quads of its answer that are
/// stored.
type Held = (u8, u8, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ProtocolState {
    tail: u8,
    head: u8,
    senders: [Sender; 2],
    requests: [[QuadCell; QUADS]; 2],
    answers: [[QuadCell; QUADS]; 2],
    /// The position the device looks at, and the first quad it read there.
    device: u8,
    device_read: Option<Quad>,
    held: Vec<Held>,
    receiver_read: Option<Quad>,
    received: Vec<u8>,
}

impl ProtocolState {
    fn new() -> ProtocolState {
        ProtocolState {
            tail: 0,
            head: 0,
            senders: [Sender::At(0), Sender::At(0)],
            requests: Default::default(),
            answers: Default::default(),
            device: 0,
            device_read: None,
            held: Vec::new(),
            receiver_read: None,
            received: Vec::new(),
        }
    }

    fn is_done(&self) -> bool {
        let all = self.requests.iter().chain(&self.answers).flatten();
        self.received.len() == MESSAGES
            && self.head == self.tail
            && self.held.is_empty()
            && all.clone().all(|p| p.flying.is_none())
            && self.senders.iter().all(|s| *s == Sender::At(EACH))
    }

    /// Every state that one step of any party leads to. `stop` is the message of the first sender,
    /// and the quads of it, after which it stops.
    fn next(&self, stop: Option<(u8, u8)>) -> Vec<ProtocolState> {
        let mut next = Vec::new();
        (0..2).for_each(|s| self.sender(s, stop, &mut next));
        self.memory(&mut next);
        self.device(&mut next);
        self.receiver(&mut next);
        next
    }

    fn sender(&self, who: usize, stop: Option<(u8, u8)>, next: &mut Vec<ProtocolState>) {
        let mut to = |sender: Sender, change: &dyn Fn(&mut ProtocolState)| {
            let mut state = self.clone();
            state.senders[who] = sender;
            change(&mut state);
            next.push(state);
        };
        match self.senders[who] {
            Sender::At(i) if i < EACH => to(Sender::SawTail(i, self.tail), &|_| {}),
            Sender::SawTail(i, tail) => to(Sender::SawHead(i, tail, self.head), &|_| {}),
            // Full, by what it saw: once more.
            Sender::SawHead(i, tail, head) if tail >= head + CAPACITY => to(Sender::At(i), &|_| {}),
            Sender::SawHead(i, tail, _) if tail == self.tail => {
                to(Sender::Writing(i, tail, 0), &|s| s.tail += 1)
            }
            // The exchange fails.
            Sender::SawHead(i, ..) => to(Sender::At(i), &|_| {}),
            Sender::Writing(i, position, stored) => {
                let all = match stop {
                    Some((message, quads)) if who == 0 && message == i => quads,
                    _ => (1 << QUADS) - 1,
                };
                if stored == all && all < (1 << QUADS) - 1 {
                    return to(Sender::Stopped, &|_| {});
                }
                if stored == (1 << QUADS) - 1 {
                    return to(Sender::At(i + 1), &|_| {});
                }
                for q in (0..QUADS).filter(|q| (all & !stored) >> q & 1 == 1) {
                    to(Sender::Writing(i, position, stored | 1 << q), &|s| {
                        let place = &mut s.requests[RING.index(position.into())][q];
                        assert_eq!(place.flying, None, "a store overtakes another of the same place");
                        place.flying =
                            Some((number(who, i), stamp(RING.lap(position.into()), Kind::Request)));
                    });
                }
            }
            Sender::At(_) | Sender::Stopped => {}
        }
    }

    /// Stores arrive.
    fn memory(&self, next: &mut Vec<ProtocolState>) {
        for (slot, q) in (0..2).flat_map(|slot| (0..QUADS).map(move |q| (slot, q))) {
            for to_device in [true, false] {
                let mut state = self.clone();
                let ring = if to_device { &mut state.requests } else { &mut state.answers };
                let place = &mut ring[slot][q];
                if let Some(quad) = place.flying.take() {
                    place.here = quad;
                    next.push(state);
                }
            }
        }
    }

    fn device(&self, next: &mut Vec<ProtocolState>) {
        let position = u64::from(self.device);
        let slot = &self.requests[RING.index(position)];
        let want = stamp(RING.lap(position), Kind::Request);
        if self.held.len() < 2 {
            let mut state = self.clone();
            match self.device_read {
                None if slot[0].here.1 == want => {
                    state.device_read = Some(slot[0].here);
                    next.push(state);
                }
                Some(first) if slot[1].here.1 == want => {
                    assert_eq!(first.0, slot[1].here.0, "the device took a torn message: {self:?}");
                    state.device_read = None;
                    state.held.push((self.device, first.0, 0));
                    state.device += 1;
                    next.push(state);
                }
                _ => {}
            }
        }
        for (h, &(position, number, stored)) in self.held.iter().enumerate() {
            for q in (0..QUADS).filter(|q| stored >> q & 1 == 0) {
                let mut state = self.clone();
                let place = &mut state.answers[RING.index(position.into())][q];
                assert_eq!(place.flying, None, "a store overtakes another of the same place");
                place.flying = Some((number, stamp(RING.lap(position.into()), Kind::Reply)));
                state.held[h].2 |= 1 << q;
                if state.held[h].2 == (1 << QUADS) - 1 {
                    state.held.remove(h);
                }
                next.push(state);
            }
        }
    }

    fn receiver(&self, next: &mut Vec<ProtocolState>) {
        let position = u64::from(self.head);
        let slot = &self.answers[RING.index(position)];
        let want = stamp(RING.lap(position), Kind::Reply);
        let mut state = self.clone();
        match self.receiver_read {
            None if slot[0].here.1 == want => state.receiver_read = Some(slot[0].here),
            Some(first) if slot[1].here.1 == want => {
                assert_eq!(first.0, slot[1].here.0, "a torn reply was received: {self:?}");
                state.receiver_read = None;
                state.received.push(first.0);
                state.head += 1;
            }
            _ => return,
        }
        next.push(state);
    }

    /// What must hold in every state.
    fn check(&self) {
        for who in 0..2 {
            let of_one: Vec<u8> = self.received.iter().copied().filter(|n| n / 10 == who + 1).collect();
            let want: Vec<u8> = (0..of_one.len() as u8).map(|i| number(who.into(), i)).collect();
            assert_eq!(of_one, want, "lost, duplicated or reordered: {self:?}");
        }
        assert!(self.head <= self.tail && self.tail <= self.head + CAPACITY);
    }
}

/// The number of a sender's message.
fn number(who: usize, message: u8) -> u8 {
    10 * (who as u8 + 1) + message
}

/// Every state that can be reached, and where each leads.
fn explore(stop: Option<(u8, u8)>) -> (Vec<ProtocolState>, Vec<Vec<usize>>) {
    let (mut states, mut numbers) = (vec![ProtocolState::new()], HashMap::from([(ProtocolState::new(), 0)]));
    let mut leads = Vec::new();
    while leads.len() < states.len() {
        let next = states[leads.len()].next(stop);
        let next = next.into_iter().map(|state| {
            *numbers.entry(state).or_insert_with_key(|state| {
                state.check();
                states.push(state.clone());
                states.len() - 1
            })
        });
        let next = next.collect();
        leads.push(next);
    }
    (states, leads)
}

/// Nothing is lost, duplicated, torn or reordered; and from every state the end can still be
/// reached.
#[test]
fn every_message_arrives() {
    let (states, leads) = explore(None);
    let mut back = vec![Vec::new(); states.len()];
    for (from, to) in leads.iter().enumerate() {
        to.iter().for_each(|&to| back[to].push(from));
    }
    let mut ends: Vec<usize> = (0..states.len()).filter(|&s| states[s].is_done()).collect();
    assert!(!ends.is_empty());
    let mut reaches = vec![false; states.len()];
    while let Some(s) = ends.pop() {
        if !std::mem::replace(&mut reaches[s], true) {
            ends.extend(&back[s]);
        }
    }
    let stuck = reaches.iter().position(|r| !r).map(|s| &states[s]);
    assert_eq!(stuck, None, "{} states", states.len());
}

/// A sender that stops with some quads of a message stored: it is never seen, in whole or in part,
/// nor is any message after it.
#[test]
fn a_message_that_is_not_whole_never_arrives() {
    for (message, quads) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)] {
        let (states, _) = explore(Some((message, quads)));
        let torn = number(0, message);
        assert!(states.iter().any(|s| s.senders[0] == Sender::Stopped));
        assert!(states.iter().all(|s| !s.received.contains(&torn) && s.held.iter().all(|h| h.1 != torn)));
        // What was sent before it may arrive: all of the other sender's, if that was quicker.
        let most = states.iter().map(|s| s.received.len()).max();
        assert_eq!(most, Some((message + EACH).into()));
    }
}

//! What a handler sends to other actors: whether there is room for it, and writing it.
//!
//! A *link* is a queue of one sender: its ring lies where the receiver's worker polls it, and its
//! record, in the arena, has both ends' positions. The sender counts the messages it wrote, and
//! reads how many the receiver has handled only when its ring seems full. The link of a topic's
//! publisher carries nothing itself, and leads to those of the subscribers, one after the other.
//!
//! Neither end needs a fence. A slot is complete when its stamps match. It is used again once the
//! receiver has said that it handled the message, which it says behind branches on what it loaded
//! from the slot, so that those loads are over.

use super::cluster::Near;
use super::plan::{GridPlan, host};
use super::position::{join, stamp_and_slot};
use super::ref_counts::RefCounting;
use super::words::Words;
use super::worker::WorkerMemory;
use super::write_slot::{NeighborTarget, Slot, SlotTarget};
use crate::outgoing::Sending;
use crate::payload::ArrayMemory;
use crate::wire::record::{link, refusal};
use crate::wire::slot::Kind;
use kiln_lang::IntoDevice;
use kiln_lang::prelude::*;

/// What a handler sends, checked before any of it goes out.
pub(super) struct Checked<'a> {
    sends: &'a [Sending],
    /// Where each goes.
    places: Vec<Next>,
    /// Why the handler may not send what it sends: one of [`refusal`], or 0.
    pub refused: Val<u32>,
    /// How many messages are for actors that have ended.
    pub gone: Val<u32>,
}

/// Where the next message of a link goes. Read before any message goes out: what is stored
/// meanwhile makes the compiler read again.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Next {
    /// Whether it goes into the link's own ring.
    plain: Val<bool>,
    /// Whether it goes into those of a topic's subscribers.
    topic: Val<bool>,
    pub(super) tail: Val<u64>,
    pub(super) log2_slots: Val<u32>,
    ring: Val<u32>,
    stride: Val<u32>,
    headers: Val<u32>,
    /// How far the receiver's arena lies behind this one, in words, where actors send to other
    /// runtimes.
    far: Val<i64>,
    /// The number of the receiver's worker, plus 1, where the ring lies in its own memory; else 0.
    near: Val<u32>,
}

impl Next {
    pub(super) fn of(plan: &GridPlan, memory: &WorkerMemory, at: Val<u32>) -> Next {
        Next {
            plain: true.into_val(),
            topic: false.into_val(),
            tail: join(field(memory, at, link::TAIL), field(memory, at, link::TAIL + 1)),
            log2_slots: field(memory, at, link::LOG2_SLOTS),
            ring: field(memory, at, link::RING),
            stride: field(memory, at, link::STRIDE),
            headers: field(memory, at, link::HEADERS),
            far: if host(plan.peers) { far(memory, at) } else { val(0) },
            near: if host(memory.near.is_some()) { field(memory, at, link::NEAR) } else { val(0) },
        }
    }

    pub(super) fn none() -> Next {
        Next {
            plain: false.into_val(),
            topic: false.into_val(),
            tail: 0.into_val(),
            log2_slots: val(0),
            ring: val(0),
            stride: val(0),
            headers: val(0),
            far: val(0),
            near: val(0),
        }
    }
}

impl Next {
    /// The slot, but for the message.
    pub(super) fn slot(&self) -> Slot {
        let (stamp, number) = stamp_and_slot(self.tail, self.log2_slots, Kind::Request as u32);
        Slot {
            at: self.ring + number * self.stride,
            stamp,
            headers: self.headers,
            // A deadline that never passes.
            header: [val(u32::MAX), val(u32::MAX), val(0)],
        }
    }

    /// Goes on to the slot after it, in the link's record too.
    #[device(crate = kiln_lang)]
    pub(super) fn pass(&mut self, memory: &WorkerMemory, at: Val<u32>) {
        self.tail += 1;
        set(memory, at, link::TAIL, self.tail.cast::<u32>());
        set(memory, at, link::TAIL + 1, (self.tail >> 32).cast::<u32>());
    }
}

/// Whether an address can be sent to.
mod standing {
    pub const FINE: u32 = 0;
    /// The receiver has ended.
    pub const GONE: u32 = 1;
    /// Another actor sends to it.
    pub const TAKEN: u32 = 2;
    /// Its queue lies in the shared memory of another cluster.
    pub const FAR: u32 = 3;
}

impl<'a> Checked<'a> {
    /// Checks what actor `actor` sends, if anything: `wanted`.
    #[device(crate = kiln_lang)]
    pub fn of(
        plan: &GridPlan,
        memory: &WorkerMemory,
        actor: Val<u32>,
        sends: &'a [Sending],
        wanted: Val<bool>,
    ) -> Checked<'a> {
        let (mut refused, mut gone): (Val<u32>, Val<u32>) = (val(0), val(0));
        let sender = actor + 1;
        // An address of another runtime may name a word that this one does not have.
        let end = memory.arena.extent(0).cast::<u32>() - link::WORDS as u32;
        let mut places = Vec::with_capacity(sends.len());
        for i in 0..sends.len() {
            let send = &sends[i];
            let wants = wanted & send.sent & send.link.ne(0);
            let known = send.link.le(end);
            gone += (wants & !known).cast::<u32>();
            let mut next = Next::none();
            if block_uniform(wants & known) {
                // With those that were sent to the same address before.
                let mut needed: Val<u32> = 1;
                for other in &sends[..i] {
                    needed += (other.sent & other.link.eq(send.link)).cast::<u32>();
                }
                next = Next::of(plan, memory, send.link);
                let plain = field(memory, send.link, link::IS_TOPIC).eq(0);
                let used = next.tail.cast::<u32>() - field(memory, send.link, link::HEAD_SEEN);
                let fits = (used + needed).le(val::<u32>(1) << next.log2_slots);
                if block_uniform(!(plain & is_own(memory, send, sender) & fits)) {
                    // All but the most common case.
                    let standing = claim(memory, send, sender);
                    next = Next::none();
                    if standing == standing::FINE {
                        let topic = is_topic(memory, send.link);
                        let ever = ever_fit(memory, send.link, topic, needed);
                        refused = select(ever, refused, refusal::TOO_MANY);
                        next = Next::of(plan, memory, send.link);
                        next.topic = topic;
                        next.plain = !topic;
                    } else {
                        gone += standing.eq(standing::GONE).cast::<u32>();
                        refused = select(standing.eq(standing::TAKEN), refusal::TAKEN, refused);
                        refused = select(standing.eq(standing::FAR), refusal::NOT_IN_CLUSTER, refused);
                    }
                }
                next.tail += (needed - 1).cast::<u64>();
            }
            places.push(next.into_device());
        }
        Checked { sends, places, refused: refused.into_val(), gone: gone.into_val() }
    }

    /// Of a handler that sends from one place: whether it sent to an actor, and what.
    pub fn only(&self) -> Option<(Val<bool>, &Sending)> {
        let ([send], [to]) = (self.sends, self.places.as_slice()) else { return None };
        Some((to.plain, send))
    }

    /// Writes all messages. There is room.
    #[device(crate = kiln_lang)]
    pub fn send(
        &self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        arrays: &ArrayMemory,
        ref_counting: &RefCounting<'_>,
    ) {
        for i in 0..self.sends.len() {
            let (send, to) = (&self.sends[i], &self.places[i]);
            let words = Words { words: &send.words, inlines: &send.inlines, memory: arrays };
            if block_uniform(to.plain) {
                ref_counting.send(plan, memory, i);
                write(plan, memory, send.link, to, &words);
            }
            if block_uniform(to.topic) {
                // A subscriber that came since has an empty queue.
                let mut at = next(memory, send.link);
                while at != 0 {
                    ref_counting.send(plan, memory, i);
                    write(plan, memory, at, &Next::of(plan, memory, at), &words);
                    at = next(memory, at);
                }
            }
        }
    }
}

/// Whether so many messages fit into all queues of an address once those are empty.
#[device(crate = kiln_lang)]
fn ever_fit(memory: &WorkerMemory, link: Val<u32>, topic: Val<bool>, needed: Val<u32>) -> Val<bool> {
    let mut ever: Val<bool> = true.into_val();
    if topic {
        let mut at = next(memory, link);
        while at != 0 {
            ever = ever & needed.le(slots(memory, at));
            at = next(memory, at);
        }
    } else {
        ever = needed.le(slots(memory, link));
    }
    block_uniform(ever)
}

/// Whether `most` messages, or as many as its queue ever holds, fit into the queue of `sender`'s
/// own address of one actor, by what is in its record.
pub(super) fn fits_now(
    memory: &WorkerMemory,
    (at, serial): (Val<u32>, Val<u32>),
    sender: Val<u32>,
    most: u32,
) -> Val<bool> {
    let end = memory.arena.extent(0).cast::<u32>() - link::WORDS as u32;
    let known = at.le(end);
    // One without a cached record is read where every arena has words.
    let record = select(known, at, 0);
    let fits = fits(memory, record, slots(memory, record).minimum(most));
    at.eq(0) | (known & is_plain_and_of(memory, (record, serial), sender) & fits)
}

/// Whether an address, whose record lies in the arena, is `sender`'s own and leads to one actor.
pub(super) fn is_plain_and_of(
    memory: &WorkerMemory,
    (at, serial): (Val<u32>, Val<u32>),
    sender: Val<u32>,
) -> Val<bool> {
    let own = field(memory, at, link::SERIAL).eq(serial) & field(memory, at, link::OWNER).eq(sender);
    own & field(memory, at, link::IS_TOPIC).eq(0)
}

/// Whether up to `most` messages, or as many as a queue ever holds, fit into all queues of an
/// address now, as far as that is for `sender` to fill. An address without an owner keeps none: an
/// actor that only passes it on must not become its owner.
#[device(crate = kiln_lang)]
pub(super) fn has_room_for(
    plan: &GridPlan,
    memory: &WorkerMemory,
    (at, serial): (Val<u32>, Val<u32>),
    sender: Val<u32>,
    most: u32,
) -> Val<bool> {
    let mut room: Val<bool> = true.into_val();
    // An address of another runtime may name a word that this one does not have.
    let end = memory.arena.extent(0).cast::<u32>() - link::WORDS as u32;
    if block_uniform(at.ne(0) & at.le(end)) {
        let mut own = field(memory, at, link::SERIAL).eq(serial) & field(memory, at, link::OWNER).eq(sender);
        if block_uniform(!own) {
            // The first cache of this core may still hold what lay there before.
            // SAFETY: the word lies in the arena.
            let [there, owner] = unsafe {
                [link::SERIAL, link::OWNER].map(|word| {
                    let word = at + word as u32;
                    memory.arena.get_ordered_unchecked(word, Order::Acquire, Scope::System)
                })
            };
            fence();
            own = there.eq(serial) & (owner.eq(0) | owner.eq(sender));
        }
        if block_uniform(own) {
            if is_topic(memory, at) {
                let mut one = next(memory, at);
                while one != 0 {
                    room = room & look(plan, memory, one, slots(memory, one).minimum(most));
                    one = next(memory, one);
                }
            } else {
                room = look(plan, memory, at, slots(memory, at).minimum(most));
            }
        }
    }
    block_uniform(room)
}

/// Whether messages fit into a queue, by what the sender last saw of its receiver.
fn fits(memory: &WorkerMemory, at: Val<u32>, needed: Val<u32>) -> Val<bool> {
    let used = field(memory, at, link::TAIL) - field(memory, at, link::HEAD_SEEN);
    (used + needed).le(slots(memory, at))
}

fn slots(memory: &WorkerMemory, at: Val<u32>) -> Val<u32> {
    val::<u32>(1) << field(memory, at, link::LOG2_SLOTS)
}

/// As [`fits`], but reads the receiver's head again where there seems to be no room.
#[device(crate = kiln_lang)]
fn look(plan: &GridPlan, memory: &WorkerMemory, at: Val<u32>, needed: Val<u32>) -> Val<bool> {
    let mut now = fits(memory, at, needed);
    if block_uniform(!now) {
        see_head(plan, memory, at);
        now = fits(memory, at, needed);
    }
    block_uniform(now)
}

/// Reads the head of a link's receiver and caches it.
#[device(crate = kiln_lang)]
pub(super) fn see_head(plan: &GridPlan, memory: &WorkerMemory, at: Val<u32>) -> Val<u32> {
    // SAFETY: the receiver's record lies in its arena, which is this one or lies so far behind it.
    let head = unsafe {
        if host(plan.peers) {
            let there = (field(memory, at, link::PEER) + link::HEAD as u32).cast::<i64>() + far(memory, at);
            memory.arena.get_ordered_unchecked(there, Order::Relaxed, Scope::System)
        } else {
            memory.arena.get_ordered_unchecked(at + link::HEAD as u32, Order::Relaxed, Scope::System)
        }
    };
    let head = block_uniform(head);
    set(memory, at, link::HEAD_SEEN, head);
    head
}

/// How far the receiver's arena lies behind this one, in words.
fn far(memory: &WorkerMemory, at: Val<u32>) -> Val<i64> {
    join(field(memory, at, link::FAR), field(memory, at, link::FAR + 1)).bitcast::<i64>()
}

fn is_own(memory: &WorkerMemory, send: &Sending, sender: Val<u32>) -> Val<bool> {
    field(memory, send.link, link::SERIAL).eq(send.serial) & field(memory, send.link, link::OWNER).eq(sender)
}

/// Whether `sender` may send to an address; takes ownership of one that has none.
#[device(crate = kiln_lang)]
fn claim(memory: &WorkerMemory, send: &Sending, sender: Val<u32>) -> Val<u32> {
    let mut standing: Val<u32> = standing::FINE;
    let at = send.link;
    if block_uniform(!is_own(memory, send, sender)) {
        // The first cache of this core may still hold what lay there before.
        // SAFETY: addresses are made by the host, and name words of the arena.
        let serial = unsafe {
            memory.arena.get_ordered_unchecked(at + link::SERIAL as u32, Order::Acquire, Scope::System)
        };
        if block_uniform(serial.ne(send.serial)) {
            standing = standing::GONE;
        } else if is_far(memory, at) {
            standing = standing::FAR;
        } else {
            // Of the lanes, all of which try, one finds no owner, and the others find it. SAFETY:
            // as above.
            let before = unsafe { memory.arena.atomic_cas_unchecked(at + link::OWNER as u32, 0, sender) };
            if block_uniform(before.ne(0) & before.ne(sender)) {
                standing = standing::TAKEN;
            }
            fence();
        }
    }
    standing
}

/// Whether a link's ring lies in the memory of a worker that this one cannot reach.
fn is_far(memory: &WorkerMemory, at: Val<u32>) -> Val<bool> {
    let Some(near) = memory.near else { return false.into_val() };
    // The first cache of this core may still hold what lay there before.
    // SAFETY: links lie in the arena.
    let worker =
        unsafe { memory.arena.get_ordered_unchecked(at + link::NEAR as u32, Order::Relaxed, Scope::System) };
    block_uniform(worker.ne(0) & !near.are_neighbors(worker - 1, memory.number.cast::<u32>()))
}

/// Writes a message to a link's ring.
#[device(crate = kiln_lang)]
fn write(plan: &GridPlan, memory: &WorkerMemory, at: Val<u32>, to: &Next, words: &Words<'_>) {
    write_slot(plan, memory, to, to.slot(), words);
    let mut to = *to;
    to.pass(memory, at);
}

/// Writes a message to a slot of a link's ring.
pub(super) fn write_slot(plan: &GridPlan, memory: &WorkerMemory, to: &Next, slot: Slot, words: &Words<'_>) {
    let beside =
        |near: Near| NeighborTarget { memory: near.memory, is: to.near.ne(0), rank: near.rank(to.near - 1) };
    let (far, near) = (plan.peers.then_some(to.far), memory.near.map(beside));
    // SAFETY: the slot lies in the arena, or in the memory of a worker of this cluster, as the
    // record says. It is free, and this worker's actor is the only one that sends here.
    unsafe { slot.write(plan, SlotTarget { memory: &memory.arena, far, near }, words) };
}

fn is_topic(memory: &WorkerMemory, at: Val<u32>) -> Val<bool> {
    block_uniform(field(memory, at, link::IS_TOPIC)).ne(0)
}

/// The link after this one, or 0. The host appends others while kernels run.
fn next(memory: &WorkerMemory, at: Val<u32>) -> Val<u32> {
    // SAFETY: links lie in the arena.
    block_uniform(unsafe {
        memory.arena.get_ordered_unchecked(at + link::NEXT as u32, Order::Relaxed, Scope::System)
    })
}

pub(super) fn field(memory: &WorkerMemory, at: Val<u32>, word: usize) -> Val<u32> {
    // SAFETY: links lie in the arena: what a handler names was checked.
    unsafe { memory.word(at, word) }
}

fn set(memory: &WorkerMemory, at: Val<u32>, word: usize, value: Val<u32>) {
    // SAFETY: these words of a link are the sender's, which this worker serves; all lanes store the
    // same.
    unsafe { memory.set_word(at, word, value) };
}

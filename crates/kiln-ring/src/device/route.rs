//! Where a worker sends next, as it stands before the message is there.
//!
//! Most actors send on to the same actor again and again. What that needs (the link's owner, the
//! address of its next slot, whether there is room) takes a dozen loads, one after the other where
//! the address comes from the state, all on the path of the message. So a worker caches it for one
//! link, and a handler that sends one message there needs no more than a comparison. For a handler
//! that can send to one address alone this is read before the handler runs, with what says whether
//! there is room; for the others, after they sent there twice in a row. All other sends take the
//! path of [`Checked`].
//!
//! It may be trusted until the next command: all but the head is the sender's own, or changes with
//! a command; and the head only gives more room.

use super::delivery::Delivery;
use super::plan::GridPlan;
use super::send::{Checked, Next, field, is_plain_and_of, see_head, write_slot};
use super::words::Words;
use super::worker::WorkerMemory;
use super::write_slot::Slot;
use crate::outgoing::Sending;
use crate::payload::ArrayMemory;
use crate::wire::record::link;
use kiln_lang::prelude::*;

/// The link record that a worker caches in registers.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Route {
    /// Its record's place in the arena; 0 for none.
    link: Val<u32>,
    /// Where the last message went, if it did not go there.
    other: Val<u32>,
    /// The link's serial number.
    serial: Val<u32>,
    /// The number of the actor that sends there, plus 1.
    owner: Val<u32>,
    /// Whether a message went there before the last one: then the next one is predicted to, and the
    /// head is read before it comes.
    settled: Val<bool>,
    /// Whether what follows was read since the last command.
    known: Val<bool>,
    /// For how many more messages there is room, by the last read of the head.
    room: Val<u32>,
    next: Next,
    /// The slot of the next message.
    slot: Slot,
    /// The record of the inbound link whose message led to the last one sent there; [`NO_ENDPOINT`]
    /// if there is none.
    pub(super) endpoint: Val<u32>,
}

/// No record's place in a table.
const NO_ENDPOINT: u32 = u32::MAX;

impl Route {
    /// None yet.
    pub fn none() -> Route {
        Route {
            link: val(0),
            other: val(0),
            serial: val(0),
            owner: val(0),
            settled: false.into_val(),
            known: false.into_val(),
            room: val(0),
            next: Next::none(),
            slot: Slot { at: val(0), stamp: val(0), headers: val(0), header: [val(0), val(0), val(0)] },
            endpoint: val(NO_ENDPOINT),
        }
    }

    /// Reads what is not cached of the link, before the worker polls for messages: after a command
    /// all of it, and else the receiver's head, before there is no room left.
    #[device(crate = kiln_lang)]
    pub fn renew(&mut self, plan: &GridPlan, memory: &WorkerMemory) {
        if block_uniform(self.settled & self.link.ne(0)) {
            let at = self.link;
            if block_uniform(!self.known) {
                self.next = Next::of(plan, memory, at);
                self.slot = self.next.slot();
                self.known = true.into_val();
                let same = field(memory, at, link::SERIAL).eq(self.serial);
                if block_uniform(!same | field(memory, at, link::OWNER).ne(self.owner)) {
                    // The receiver has ended. What lies there may soon be something else.
                    self.link = val(0);
                }
            }
            let slots = val::<u32>(1) << self.next.log2_slots;
            if block_uniform(self.link.ne(0) & (self.room * 2).le(slots)) {
                self.room = slots - (self.next.tail.cast::<u32>() - see_head(plan, memory, at));
            }
        }
    }

    /// After a command, which may have changed whatever the host writes.
    #[device(crate = kiln_lang)]
    pub fn forget(&mut self) {
        self.known = false.into_val();
        self.room = val(0);
        self.endpoint = val(NO_ENDPOINT);
    }

    /// Says that messages go there again and again.
    pub fn settle(&mut self) {
        self.settled = true.into_val();
    }

    /// Whether there is room for a message.
    pub fn has_room(&self) -> Val<bool> {
        block_uniform(self.room.ne(0))
    }

    /// Whether there is room for a message at actor `actor`'s own address of one actor, to which
    /// the route leads from now on. All other addresses take the checked path; then the route leads
    /// nowhere.
    #[device(crate = kiln_lang)]
    pub fn turn_to(
        &mut self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        actor: Val<u32>,
        (link, serial): (Val<u32>, Val<u32>),
    ) -> Val<bool> {
        let mut leads: Val<bool> = self.leads(actor, (link, serial), 1);
        self.settled = leads;
        if block_uniform(!leads) {
            // An address of another runtime may name a word that this one does not have. All loads
            // are under way at once: nothing is decided before the last of them.
            let end = memory.arena.extent(0).cast::<u32>() - link::WORDS as u32;
            let known = link.ne(0) & link.le(end);
            let record = select(known, link, 0);
            let mine = known & is_plain_and_of(memory, (record, serial), actor + 1);
            let next = Next::of(plan, memory, record);
            let (slots, tail) = (val::<u32>(1) << next.log2_slots, next.tail.cast::<u32>());
            let mut room = slots - (tail - field(memory, record, link::HEAD_SEEN));
            if block_uniform(mine & room.eq(0)) {
                room = slots - (tail - see_head(plan, memory, record));
            }
            self.link = select(mine, link, 0);
            self.serial = serial;
            self.owner = actor + 1;
            self.known = true.into_val();
            self.room = select(mine, room, 0);
            self.next = next;
            self.slot = next.slot();
            self.endpoint = val(NO_ENDPOINT);
            leads = self.room.ne(0);
        }
        leads
    }

    /// Whether it leads to an address of actor `actor`, with room for so many messages.
    pub fn leads(&self, actor: Val<u32>, (link, serial): (Val<u32>, Val<u32>), most: u32) -> Val<bool> {
        let same = link.eq(self.link) & serial.eq(self.serial) & self.owner.eq(actor + 1);
        same & self.room.ge(most)
    }

    /// Whether all that a handler of actor `actor` sends is one message that goes there.
    pub fn takes(&self, actor: Val<u32>, sends: &[Sending]) -> Val<bool> {
        let [send] = sends else { return false.into_val() };
        let same = send.link.eq(self.link) & send.serial.eq(self.serial) & self.owner.eq(actor + 1);
        send.sent & same & self.room.ne(0)
    }

    /// Writes that message, to which the one at `at` led.
    #[device(crate = kiln_lang)]
    pub fn send(
        &mut self,
        plan: &GridPlan,
        memory: &WorkerMemory,
        delivery: &Delivery,
        sends: &[Sending],
        arrays: &ArrayMemory,
    ) {
        if let [send] = sends {
            let words = Words { words: &send.words, inlines: &send.inlines, memory: arrays };
            write_slot(plan, memory, &self.next, self.slot, &words);
            self.next.pass(memory, self.link);
            self.room -= 1;
            self.other = val(0);
            self.slot = self.next.slot();
            self.endpoint = select(delivery.inbound_link, delivery.record, val(NO_ENDPOINT));
        }
    }

    /// Records the destination of a message of actor `actor` that was not sent by this route. Where
    /// two in a row went, the next is predicted to go: a worker that serves several senders would
    /// read another record in each turn.
    #[device(crate = kiln_lang)]
    pub fn learn(&mut self, actor: Val<u32>, checked: &Checked<'_>) {
        if let Some((to, send)) = checked.only() {
            if block_uniform(to) {
                if block_uniform(send.link.eq(self.other)) {
                    self.link = send.link;
                    self.serial = send.serial;
                    self.owner = actor + 1;
                    self.settled = true.into_val();
                }
                self.other = send.link;
                if block_uniform(send.link.eq(self.link)) {
                    // The message has moved the link's tail.
                    self.forget();
                }
            }
        }
    }
}

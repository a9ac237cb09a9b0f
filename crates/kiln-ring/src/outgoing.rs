//! What a handler sends, while it is traced.
//!
//! A handler sends from some places in its body, each under the conditions that it stands under.
//! For each place there are variables of the trace: whether it has sent, where to, and the message.
//! They live where the context was made, around the handler's fault region, so that a handler that
//! faults has sent nothing, and the code that traces it decides afterwards what becomes of them.

use crate::address::AddressVal;
use crate::message::Message;
use kiln_lang::{Anchor, IntoVal, Val, device_assert, val};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// One place in a handler that sends: variables of the trace.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    /// Whether it has sent.
    pub sent: Val<bool>,
    /// Where to: an address.
    pub link: Val<u32>,
    pub serial: Val<u32>,
    /// The message.
    pub words: Vec<Val<u32>>,
    /// Its arrays.
    pub inlines: Vec<Range<usize>>,
    /// The first words of its references to arrays.
    pub references: Vec<usize>,
    /// The layout of the message.
    pub message: u64,
}

/// All places of a handler that send.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    anchor: Anchor,
    places: Rc<RefCell<Vec<Sending>>>,
}

impl Outgoing {
    /// None yet. Their variables will live where control is now.
    pub fn new() -> Outgoing {
        Outgoing { anchor: Anchor::here(), places: Rc::default() }
    }

    /// Records a place that sends.
    #[track_caller]
    pub fn send<M: Message>(&self, to: &AddressVal<M>, message: &M::Device) {
        let (anchor, words) = (&self.anchor, M::store(message));
        let sent = anchor.variable(&val(false));
        device_assert!(
            !sent,
            "a message is sent from here a second time: a loop on the device sends one for each message that is handled. Unroll it on the \
             host, or send an array"
        );
        let place = Sending {
            sent,
            link: anchor.variable(&to.link),
            serial: anchor.variable(&to.serial),
            words: Vec::with_capacity(words.len()),
            inlines: Vec::new(),
            references: Vec::new(),
            message: M::ID,
        };
        anchor.set(&place.sent, true.into_val());
        anchor.set(&place.link, to.link);
        anchor.set(&place.serial, to.serial);
        let mut place = place;
        M::inlines(0, &mut place.inlines);
        M::references(0, &mut place.references);
        let said = |w: usize| place.inlines.iter().all(|array| w <= array.start + 1 || w >= array.end);
        for (w, word) in words.into_iter().enumerate() {
            if !said(w) {
                // As the word before: where in memory the rest of an array lies needs no words.
                place.words.push(place.words[w - 1]);
                continue;
            }
            let kept = anchor.variable(&word);
            anchor.set(&kept, word);
            place.words.push(kept);
        }
        self.places.borrow_mut().push(place);
    }

    /// The places, when the handler has been traced.
    pub fn places(&self) -> Vec<Sending> {
        self.places.borrow().clone()
    }
}

//! Slots: how messages lie in the memory that host and device share. Used by both: the functions
//! count words and use no pointers.
//!
//! A slot is a row of *quads*, each four words of 32 bits: three words of payload and a *stamp*. An
//! optional header quad comes first.
//!
//! ```text
//! word   0    1    2    3      4    5    6    7      8    9   10   11
//!       p0   p1   p2   stamp  p3   p4   p5   stamp  p6   p7   p8   stamp        without a header
//!       lo   hi    0   stamp  p0   p1   p2   stamp  p3   p4   p5   stamp        with one: the deadline in nanoseconds
//! ```
//!
//! A stamp says which lap of the ring the quad belongs to, and of what kind the slot is. An aligned
//! store of 16 bytes arrives whole, so that a slot whose stamps all match is complete, without any
//! fence; one whose stamps do not match yet is not there yet. Where such a store may arrive in
//! parts, the first stamp is stored last ([`Protocol::Ordered`](crate::Protocol::Ordered)).
//!
//! A channel is two rings with as many slots: the answer to the request in position *i* stands in
//! position *i*. An actor with several priorities has two rings for each *priority* of them; the
//! uppermost byte of a position is the number of its priority, 0 for the lowest.
//!
//! ```
//! use kiln_ring::slot::{
//!     Kind, QUAD, RingLayout, SlotLayout, count_of, in_priority, is_of_lap, priority_of, quads_for, stamp,
//! };
//!
//! // A slot for 5 words of payload, without a header: two quads.
//! let slot = SlotLayout::new(5, false);
//! assert_eq!((slot.payload_words(), slot.has_header(), slot.quads()), (5, false, quads_for(5)));
//! assert_eq!((slot.stride(), slot.pitch()), (2 * QUAD, 6));
//! assert_eq!((slot.payload_at(3), slot.stamp_at(1)), (4, 7));
//!
//! // A message in it is complete when all stamps are of its lap.
//! let (words, of_lap) = ([10, 20, 30, 40, 50], stamp(3, Kind::Request));
//! let mut memory = vec![0; slot.stride()];
//! slot.encode([0; 3], &words, of_lap, &mut memory);
//! assert_eq!(memory[4..], slot.quad(1, [0; 3], &words, of_lap));
//! let mut read = [0; 5];
//! assert_eq!((slot.decode(3, &memory, &mut read), read), (Some(Kind::Request), words));
//! memory[slot.stamp_at(1)] = stamp(2, Kind::Request);
//! assert_eq!(slot.decode(3, &memory, &mut read), None);
//! assert!(is_of_lap(of_lap, 3) && !is_of_lap(of_lap, 4));
//! assert_eq!((Kind::of_stamp(of_lap), Kind::from_code(0)), (Some(Kind::Request), None));
//!
//! // A ring of them: the slot of a position, and its lap.
//! let ring = RingLayout::new(slot, 5);
//! assert_eq!((ring.slots(), ring.log2_slots(), ring.words()), (8, 3, 8 * ring.slot().stride()));
//! assert_eq!((ring.index(10), ring.at(10), ring.lap(10)), (2, 2 * slot.stride(), 2));
//! // A position of the second priority has the same slot.
//! let position = in_priority(1, 10);
//! assert_eq!((priority_of(position), count_of(position), ring.at(position)), (1, 10, ring.at(10)));
//! ```

/// The most messages that can be under way in a channel.
pub const MAX_CAPACITY: usize = 1 << 24;

/// The most priorities that an actor can have.
pub const MAX_PRIORITIES: usize = 8;

/// Words in a quad.
pub const QUAD: usize = 4;

/// Words of payload in a quad.
pub const PAYLOAD: usize = 3;

/// The lowest of a position's bits that hold its priority.
pub const PRIORITY_SHIFT: u32 = 56;

/// The priority of a position.
#[inline]
pub const fn priority_of(position: u64) -> usize {
    (position >> PRIORITY_SHIFT) as usize
}

/// A position of a priority, counted from the priority's first.
#[inline]
pub const fn in_priority(priority: usize, count: u64) -> u64 {
    (priority as u64) << PRIORITY_SHIFT | count
}

/// How many positions of its priority come before this one.
#[inline]
pub const fn count_of(position: u64) -> u64 {
    position & ((1 << PRIORITY_SHIFT) - 1)
}

/// The words of a header with a deadline.
#[inline]
pub(crate) const fn deadline_header(deadline: u64) -> [u32; PAYLOAD] {
    [deadline as u32, (deadline >> 32) as u32, 0]
}

/// Words in a cache line: slots of more than one line are a whole number of lines.
pub(crate) const LINE: usize = 16;

/// The bits of a stamp that hold the lap.
pub(crate) const LAP_MASK: u32 = 0x00ff_ffff;

/// What stands in a slot.
///
/// | kind | payload |
/// |---|---|
/// | `Request` | the message |
/// | `Reply` | the reply |
/// | `None` | nothing: one quad |
/// | `Failed` | why, in one quad: the cause and its number |
/// | `Expired`, `Dropped`, `Undeliverable` | the message, as it was sent |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A message to an actor.
    Request = 1,
    /// An answer: the handler's reply.
    Reply = 2,
    /// An answer: handled, without a reply.
    None = 3,
    /// An answer: its deadline had passed when its turn came.
    Expired = 4,
    /// An answer: the handler failed.
    Failed = 5,
    /// An answer: given up unhandled, to make room for others.
    Dropped = 6,
    /// An answer: the actor handles no more messages.
    Undeliverable = 7,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Request,
        Kind::Reply,
        Kind::None,
        Kind::Expired,
        Kind::Failed,
        Kind::Dropped,
        Kind::Undeliverable,
    ];

    /// The kind with this number.
    #[inline]
    pub const fn from_code(code: u32) -> Option<Kind> {
        match code {
            1..=7 => Some(Kind::ALL[code as usize - 1]),
            _ => None,
        }
    }

    /// The kind in a stamp; `None` for memory that was never written.
    #[inline]
    pub const fn of_stamp(stamp: u32) -> Option<Kind> {
        Kind::from_code(stamp >> 24)
    }
}

/// The stamp of a slot's quads. Laps count from 1; a stamp holds their low 24 bits, and is never 0.
#[inline]
pub const fn stamp(lap: u64, kind: Kind) -> u32 {
    lap as u32 & LAP_MASK | (kind as u32) << 24
}

/// Whether a stamp is of this lap, whatever its kind.
#[inline]
pub const fn is_of_lap(stamp: u32, lap: u64) -> bool {
    stamp & LAP_MASK == lap as u32 & LAP_MASK && stamp >> 24 != 0
}

/// How many quads hold some words of payload: at least one, for its stamp.
#[inline]
pub const fn quads_for(payload_words: usize) -> usize {
    match payload_words.div_ceil(PAYLOAD) {
        0 => 1,
        quads => quads,
    }
}

/// The layout of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    payload_words: usize,
    header: bool,
}

impl SlotLayout {
    /// A slot for as many words of payload, with or without a header.
    #[inline]
    pub const fn new(payload_words: usize, header: bool) -> SlotLayout {
        SlotLayout { payload_words, header }
    }

    /// The most words of payload it holds.
    #[inline]
    pub const fn payload_words(&self) -> usize {
        self.payload_words
    }

    /// Whether it has a header.
    #[inline]
    pub const fn has_header(&self) -> bool {
        self.header
    }

    /// Quads in use, the header included.
    #[inline]
    pub const fn quads(&self) -> usize {
        quads_for(self.payload_words) + self.header as usize
    }

    /// Words from one slot to the next: one or two quads, or whole cache lines of four, so that no
    /// slot straddles a line more than it must.
    #[inline]
    pub const fn stride(&self) -> usize {
        match self.quads() {
            quads @ 1..=2 => quads * QUAD,
            quads => (quads * QUAD).next_multiple_of(LINE),
        }
    }

    /// Words of a whole slot of which none is a stamp: header, payload, and what is left over.
    #[inline]
    pub const fn pitch(&self) -> usize {
        self.stride() / QUAD * PAYLOAD
    }

    /// Where a word of the payload stands in the slot.
    #[inline]
    pub const fn payload_at(&self, word: usize) -> usize {
        (word / PAYLOAD + self.header as usize) * QUAD + word % PAYLOAD
    }

    /// Where the stamp of a quad stands in the slot.
    #[inline]
    pub const fn stamp_at(&self, quad: usize) -> usize {
        quad * QUAD + PAYLOAD
    }

    /// A quad of a slot that holds `payload`; what lies beyond the payload is zero.
    #[inline]
    pub fn quad(&self, quad: usize, header: [u32; PAYLOAD], payload: &[u32], stamp: u32) -> [u32; QUAD] {
        let words = match quad.checked_sub(self.header as usize) {
            None => header,
            // All but the last quad are full: no word needs a check of the length by itself.
            Some(first) => match payload.get(first * PAYLOAD..).and_then(|rest| rest.first_chunk()) {
                Some(words) => *words,
                None => std::array::from_fn(|i| payload.get(first * PAYLOAD + i).copied().unwrap_or(0)),
            },
        };
        [words[0], words[1], words[2], stamp]
    }

    /// Writes a whole slot of [`stride`](Self::stride) words. Words beyond the last quad are left
    /// alone.
    pub fn encode(&self, header: [u32; PAYLOAD], payload: &[u32], stamp: u32, slot: &mut [u32]) {
        for (q, quad) in slot.chunks_exact_mut(QUAD).take(self.quads()).enumerate() {
            quad.copy_from_slice(&self.quad(q, header, payload, stamp));
        }
    }

    /// Reads the payload of a slot, if it is complete: if as many quads as `payload` needs bear the
    /// same stamp of this lap. Gives the kind.
    pub fn decode(&self, lap: u64, slot: &[u32], payload: &mut [u32]) -> Option<Kind> {
        let quads = quads_for(payload.len()) + self.header as usize;
        let first = *slot.get(PAYLOAD)?;
        let stamped = |q: usize| slot.get(self.stamp_at(q)) == Some(&first);
        if !is_of_lap(first, lap) || !(0..quads).all(stamped) {
            return None;
        }
        for (i, word) in payload.iter_mut().enumerate() {
            *word = *slot.get(self.payload_at(i))?;
        }
        Kind::of_stamp(first)
    }
}

/// A ring of slots. Positions count on for ever; the slot of a position, and its lap, follow from
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    slot: SlotLayout,
    log2_slots: u32,
}

impl RingLayout {
    /// A ring of at least `slots` slots: the next power of two.
    #[inline]
    pub const fn new(slot: SlotLayout, slots: usize) -> RingLayout {
        RingLayout { slot, log2_slots: slots.next_power_of_two().trailing_zeros() }
    }

    /// The layout of a slot.
    #[inline]
    pub const fn slot(&self) -> SlotLayout {
        self.slot
    }

    /// How many slots there are: a power of two.
    #[inline]
    pub const fn slots(&self) -> usize {
        1 << self.log2_slots
    }

    /// The binary logarithm of the number of slots.
    #[inline]
    pub const fn log2_slots(&self) -> u32 {
        self.log2_slots
    }

    /// Words of memory that the ring takes.
    #[inline]
    pub const fn words(&self) -> usize {
        self.slots() * self.slot.stride()
    }

    /// The number of a position's slot.
    #[inline]
    pub const fn index(&self, position: u64) -> usize {
        (position & ((1 << self.log2_slots) - 1)) as usize
    }

    /// The word at which a position's slot begins.
    #[inline]
    pub const fn at(&self, position: u64) -> usize {
        self.index(position) * self.slot.stride()
    }

    /// The lap of a position, from 1.
    #[inline]
    pub const fn lap(&self, position: u64) -> u64 {
        (position >> self.log2_slots) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Priorities differ in positions alone: not in laps as stamps hold them, nor in slots.
    #[test]
    fn a_priority_changes_neither_slots_nor_stamps() {
        for log2 in [0, 3, 24] {
            let ring = RingLayout::new(SlotLayout::new(1, false), 1 << log2);
            for count in [0, 1, 7, 1 << 24, (1 << 48) + 5] {
                for priority in 0..8 {
                    let position = in_priority(priority, count);
                    assert_eq!((priority_of(position), count_of(position)), (priority, count));
                    assert_eq!(ring.at(position), ring.at(count));
                    let of = |position| stamp(ring.lap(position), Kind::Request);
                    assert_eq!(of(position), of(count));
                }
            }
        }
    }

    #[test]
    fn strides_follow_cache_lines() {
        let stride = |words, header| SlotLayout::new(words, header).stride();
        let cases = [(0, 4), (1, 4), (3, 4), (4, 8), (6, 8), (7, 16), (12, 16), (13, 32), (24, 32), (25, 48)];
        for (words, want) in cases {
            assert_eq!(stride(words, false), want, "{words} words");
        }
        assert_eq!((stride(3, true), stride(6, true), stride(9, true), stride(12, true)), (8, 16, 16, 32));
    }

    #[test]
    fn a_slot_survives_the_round_trip() {
        for words in 0..40 {
            for header in [false, true] {
                let slot = SlotLayout::new(words, header);
                let payload: Vec<u32> = (0..words as u32).map(|i| i + 100).collect();
                let mut memory = vec![0xdead_beef; slot.stride()];
                slot.encode([1, 2, 3], &payload, stamp(7, Kind::Request), &mut memory);
                let mut out = vec![0; words];
                assert_eq!(slot.decode(7, &memory, &mut out), Some(Kind::Request));
                assert_eq!(out, payload);
                assert_eq!(slot.decode(8, &memory, &mut out), None);
                if header {
                    assert_eq!(memory[..3], [1, 2, 3]);
                }
                assert!(memory[slot.quads() * QUAD..].iter().all(|w| *w == 0xdead_beef));
            }
        }
    }

    /// A slot is not read while any quad that the payload needs is still of another lap, whichever
    /// it is.
    #[test]
    fn a_torn_slot_is_not_read() {
        let slot = SlotLayout::new(10, true);
        let (old, new) = ([5; 10], [6; 10]);
        for written in 0u32..1 << slot.quads() {
            let mut memory = vec![0; slot.stride()];
            slot.encode([0; 3], &old, stamp(1, Kind::Request), &mut memory);
            for q in (0..slot.quads()).filter(|q| written >> q & 1 == 1) {
                let quad = slot.quad(q, [0; 3], &new, stamp(2, Kind::Request));
                memory[q * QUAD..][..QUAD].copy_from_slice(&quad);
            }
            let mut out = [0; 10];
            let whole = written == (1 << slot.quads()) - 1;
            assert_eq!(slot.decode(2, &memory, &mut out), whole.then_some(Kind::Request), "{written:b}");
            assert_eq!(out, if whole { new } else { [0; 10] });
        }
    }

    #[test]
    fn stamps() {
        assert_eq!(Kind::of_stamp(0), None);
        assert!(!is_of_lap(0, 0) && !is_of_lap(0, 1 << 24));
        for kind in Kind::ALL {
            assert_eq!(Kind::of_stamp(stamp(1 << 24, kind)), Some(kind));
            assert_ne!(stamp(1 << 24, kind), 0);
            assert_eq!(stamp(3 + (1 << 24), kind), stamp(3, kind));
            assert!(is_of_lap(stamp(3, kind), 3) && !is_of_lap(stamp(3, kind), 4));
        }
        assert_eq!((Kind::from_code(0), Kind::from_code(8)), (None, None));
    }

    #[test]
    fn positions() {
        let ring = RingLayout::new(SlotLayout::new(12, false), 5);
        assert_eq!((ring.slots(), ring.words()), (8, 128));
        assert_eq!((ring.at(0), ring.at(7), ring.at(8), ring.at(17)), (0, 112, 0, 16));
        assert_eq!((ring.lap(0), ring.lap(7), ring.lap(8), ring.lap(17)), (1, 1, 2, 3));
        assert_eq!(RingLayout::new(SlotLayout::new(1, false), 1).slots(), 1);
    }
}

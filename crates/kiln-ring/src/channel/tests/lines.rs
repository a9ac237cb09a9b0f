//! Rows of quads by every width of vectors, against quads one by one.

use super::device::memory;
use crate::channel::lines::{SLACK, Slots, Width};
use crate::channel::memory::RingMemory;
use crate::channel::platform::QueueMemory;
use crate::wire::slot::{PAYLOAD, QUAD, SlotLayout};

const STAMP: u32 = 0x0100_0007;
const POISON: [u32; QUAD] = [0xdead_beef; QUAD];

/// All widths that this processor has, the widest last.
fn widths() -> impl Iterator<Item = Width> {
    [Width::Quad, Width::Half, Width::Line].into_iter().take_while(|width| *width <= Width::detect())
}

fn quads(memory: &RingMemory) -> Vec<[u32; QUAD]> {
    (0..memory.words() / QUAD).map(|q| memory.load_quad(q * QUAD)).collect()
}

/// From any quad on, as many quads as there may be, into ordinary and write-combined memory: they
/// are stored with their stamps, and nothing else is.
#[test]
fn stores_of_any_width_are_those_of_quads() {
    for (width, combined) in widths().flat_map(|width| [(width, false), (width, true)]) {
        for (first, count) in (0..9).flat_map(|first| (0..20).map(move |count| (first, count))) {
            let (host, device) = memory(32 * QUAD, combined);
            (0..32).for_each(|q| device.store_quad(q * QUAD, POISON));
            let words: Vec<u32> = (0..(count * PAYLOAD) as u32).map(|i| 1000 + i).collect();
            host.with_width(width).store_quads(first * QUAD, &words, STAMP);
            host.flush();
            for (q, quad) in quads(&device).into_iter().enumerate() {
                let want = match q.checked_sub(first).filter(|q| *q < count) {
                    Some(q) => [words[3 * q], words[3 * q + 1], words[3 * q + 2], STAMP],
                    None => POISON,
                };
                assert_eq!(quad, want, "{width:?} {combined} {first} {count} {q}");
            }
        }
    }
}

/// Slots of any stride, of which a prefix is complete and then one quad of one slot is not: as many
/// are loaded, with their words.
#[test]
fn loads_of_any_width_stop_where_a_quad_is_not_there() {
    const SLOTS: usize = 5;
    for width in widths() {
        for (payload, used) in
            (1..30).flat_map(|payload| (1..=payload).step_by(3).map(move |used| (payload, used)))
        {
            let stride = SlotLayout::new(payload, false).stride();
            let quads = used.div_ceil(PAYLOAD);
            for missing in 0..=SLOTS * quads {
                let (host, device) = memory(SLOTS * stride, false);
                for (slot, q) in (0..SLOTS).flat_map(|slot| (0..quads).map(move |q| (slot, q))) {
                    let number = (slot * quads + q) as u32;
                    let stamp = if number == missing as u32 { STAMP - 1 } else { STAMP };
                    device.store_quad(slot * stride + q * QUAD, [number, number + 100, number + 200, stamp]);
                }
                let mut words = vec![7; SLOTS * quads * PAYLOAD + SLACK];
                let slots = Slots { at: 0, stride, quads, count: SLOTS, stamp: STAMP };
                let there = host.with_width(width).load_slots(&slots, &mut words);
                assert_eq!(there, missing / quads, "{width:?} {payload} {used} {missing}");
                for (number, words) in words.chunks_exact(PAYLOAD).take(there * quads).enumerate() {
                    let number = number as u32;
                    assert_eq!(words, [number, number + 100, number + 200], "{width:?} {payload} {used}");
                }
            }
        }
    }
}

/// A buffer without room for all slots gets as many as fit.
#[test]
fn loads_stay_inside_the_buffer() {
    for width in widths() {
        let (host, device) = memory(8 * 16, false);
        (0..32).for_each(|q| device.store_quad(q * QUAD, [1, 2, 3, STAMP]));
        let mut words = vec![7; 2 * 12 + SLACK];
        let slots = Slots { at: 0, stride: 16, quads: 4, count: 8, stamp: STAMP };
        assert_eq!(host.with_width(width).load_slots(&slots, &mut words), 2, "{width:?}");
    }
}

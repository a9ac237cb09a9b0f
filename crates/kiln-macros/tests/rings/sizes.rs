//! Messages that are too large or empty.

use kiln_ring::{Message, RingCtx, State, ring_kernel};

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Image {
    pixels: [f32; 16 * 1024],
    width: u32,
}

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Nothing;

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Largest {
    table: [[u64; 128]; 64],
}

#[ring_kernel(crate = kiln_ring)]
fn large(_ctx: &RingCtx, m: [f32; 20_000]) {}

fn main() {}

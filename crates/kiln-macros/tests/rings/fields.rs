//! Fields that have no fixed layout are named.

use kiln_ring::Message;

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Reading {
    channel: u8,
    values: [u16; 4],
    label: String,
    pair: (u32, u32),
    text: &'static str,
    rest: Vec<f32>,
    best: Option<f32>,
    index: usize,
}

fn main() {}

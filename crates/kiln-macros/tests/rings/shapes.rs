//! Types that are not messages.

use kiln_ring::{Message, State};

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Generic<T> {
    value: T,
}

#[derive(Message)]
#[kiln(crate = kiln_ring)]
enum Command {
    Start,
    Stop,
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
union Bits {
    f: f32,
    u: u32,
}

fn main() {}

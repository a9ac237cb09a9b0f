//! Handlers of types that are not messages, and bodies that return something else.

use kiln_ring::{Message, RingCtx, ring_kernel};

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Ping {
    x: u32,
}

struct Other;

#[ring_kernel(crate = kiln_ring)]
fn unknown(ctx: &RingCtx, m: Other) {}

#[ring_kernel(crate = kiln_ring)]
fn wrong_field(ctx: &RingCtx, m: Ping) -> Option<Ping> {
    Some(Ping { x: m.x.cast::<f32>() })
}

#[ring_kernel(crate = kiln_ring)]
fn wrong_reply(ctx: &RingCtx, m: Ping) -> Ping {
    m.x
}

#[ring_kernel(crate = kiln_ring)]
fn wrong_context(ctx: &Ping, m: Ping) {}

fn main() {}

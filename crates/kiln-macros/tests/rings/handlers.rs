//! Handlers whose signature is not one.

use kiln_ring::{Message, RingCtx, ring_kernel};

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Ping {
    x: u32,
}

struct Other;

#[ring_kernel(crate = kiln_ring)]
fn no_parameters() {}

#[ring_kernel(crate = kiln_ring)]
fn no_message(ctx: &RingCtx) {}

#[ring_kernel(crate = kiln_ring)]
fn too_many(ctx: &RingCtx, s: &mut u32, m: Ping, n: Ping) {}

#[ring_kernel(crate = kiln_ring)]
fn context_by_value(ctx: RingCtx, m: Ping) {}

#[ring_kernel(crate = kiln_ring)]
fn state_by_value(ctx: &RingCtx, s: u32, m: Ping) {}

#[ring_kernel(crate = kiln_ring)]
fn message_by_reference(ctx: &RingCtx, m: &Ping) {}

#[ring_kernel(crate = kiln_ring)]
fn generic<T>(ctx: &RingCtx, m: T) {}

#[ring_kernel(crate = kiln_ring)]
fn text_error(ctx: &RingCtx, m: Ping) -> Result<u32, String> {
    Ok(m.x)
}

#[ring_kernel(crate = kiln_ring)]
unsafe fn not_safe(ctx: &RingCtx, m: Ping) {}

#[ring_kernel(crate = kiln_ring, contract)]
fn contracted(ctx: &RingCtx, m: Ping) {}

fn main() {}

//! The macros of ring kernels find the crate `kiln` by themselves.

use kiln::prelude::*;
use kiln::ring::{ErasedHandler, Handler, Layout, Message, RingCtx, State, ring_kernel};

#[derive(Message)]
struct Sample {
    channel: u32,
    value: f32,
}

#[derive(State)]
struct Seen {
    largest: f32,
}

#[ring_kernel]
fn record(_ctx: &RingCtx, seen: &mut Seen, m: Sample) -> Option<Sample> {
    if m.value > seen.largest {
        seen.largest = m.value;
        return Some(Sample { channel: m.channel, value: m.value });
    }
    None
}

#[test]
fn a_handler_by_the_default_path() {
    assert_eq!((record.name(), Sample::WORDS, Seen::WORDS), ("record", 2, 1));
    let kernel = trace("k", Level::Thread { block: [1, 1, 1] }, |p| {
        let ctx = RingCtx::new(val(0), val(0), 1, p.view_mut("arena", Default::default()));
        let outcome = record.trace_words(&ctx, &[val(0)], &[val(1), val(2)]);
        assert_eq!((outcome.state.len(), outcome.reply.len()), (1, 2));
    });
    assert!(kernel.is_ok(), "{kernel:?}");
}

//! The message of 48 bytes that all rows send, and what answers it.

use crate::failure::Failure;
use kiln_backend::MappedPlace;
use kiln_ring::{
    Actor, Events, Handler, Message, RingConfig, RingCtx, RingRuntime, RuntimeConfig, Transport, WaitPolicy,
    What, ring_kernel,
};
use kiln_runtime::{Device, Execution};
use std::time::Duration;

/// Words of a message: 48 bytes.
pub const WORDS: usize = 12;

#[derive(Message, Clone, Copy, PartialEq, Debug)]
#[kiln(crate = kiln_ring)]
pub struct Ping {
    pub words: [u32; WORDS],
}

/// Answers with every word raised by 1.
#[ring_kernel(crate = kiln_ring)]
pub fn echo(_ctx: &RingCtx, m: Ping) -> Ping {
    Ping { words: m.words.map(|word| word + 1) }
}

/// Answers with every word raised by the number of messages before this one: a message that was
/// lost or handled twice shows in all later ones.
#[ring_kernel(crate = kiln_ring)]
pub fn count(_ctx: &RingCtx, seen: &mut u32, m: Ping) -> Ping {
    let before = *seen;
    *seen += 1;
    Ping { words: m.words.map(|word| word + before) }
}

impl Ping {
    #[inline]
    pub fn numbered(number: u32) -> Ping {
        Ping { words: std::array::from_fn(|i| number.wrapping_mul(31).wrapping_add(i as u32)) }
    }

    #[inline]
    pub fn raised(self, by: u32) -> Ping {
        Ping { words: self.words.map(|word| word.wrapping_add(by)) }
    }

    /// Whether every word is that of another, without a branch for each.
    #[inline]
    pub fn is(&self, other: &Ping) -> bool {
        self.words.iter().zip(other.words).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

pub fn wrong(sent: Ping, got: Ping) -> Failure {
    Failure::Wrong(format!("an answer was wrong: {:?} came back for {:?}", got.words, sent.words))
}

pub fn config(place: MappedPlace, workers: usize) -> RuntimeConfig {
    let transport = if place == MappedPlace::Device { Transport::Bar } else { Transport::Pinned };
    RuntimeConfig::default().workers(workers).endpoints_per_worker(8).transport(transport)
}

/// An actor that handles its messages, and is waited for by spinning.
pub fn active<H: Handler>(
    runtime: &RingRuntime,
    handler: H,
    config: RingConfig<H::State>,
) -> Result<Actor<H>, Failure> {
    let actor = runtime.launch(handler, config.wait(WaitPolicy::SPIN))?;
    actor.activate()?;
    Ok(actor)
}

/// A result, with the reason where it is an error because an actor was lost. The events are those
/// of its runtime.
pub fn explained<T>(result: Result<T, Failure>, events: &Events) -> Result<T, Failure> {
    /// Until the supervisor has found the loss.
    const SOON: Duration = Duration::from_millis(200);
    result.map_err(|failure| {
        let lost = std::iter::from_fn(|| events.next_timeout(SOON))
            .find(|event| matches!(event.what, What::Lost { .. } | What::DeviceLost { .. }));
        lost.map_or(failure, |event| Failure::Wrong(event.to_string()))
    })
}

/// What messages go through.
pub fn transport(device: &Device, place: MappedPlace) -> String {
    match (device.capabilities().execution, place) {
        (Execution::Simt, MappedPlace::Device) => "bar".into(),
        (Execution::Simt, MappedPlace::Host) => "pinned".into(),
        _ => device.id().to_owned(),
    }
}

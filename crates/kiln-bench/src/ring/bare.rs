//! The least that a machine needs for a message there and back: a kernel that does nothing but poll
//! one slot, by which the rows of actors are judged. Machines of one kind differ.

use super::message::{Ping, transport};
use super::places::Places;
use super::row::Row;
use super::undisturbed;
use crate::failure::Failure;
use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, Mapped, MappedPlace};
use kiln_ir::{Facts, IntFact};
use kiln_lang::prelude::*;
use kiln_runtime::Device;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const ROUND_TRIP: &str = "ring.bare_round_trip_48B";

/// Round trips of a slice, and how many before those that count.
const ROUNDS: u32 = 16_000;
const WARM_UP: u32 = 1000;

/// Polls after which a kernel leaves that gets no messages: seconds.
const PATIENCE: u32 = 20_000_000;

/// Words of a slot of four quads, each of three words of payload and a stamp.
const SLOT: usize = 16;

/// How long the host waits for anything here.
const WAIT: Duration = Duration::from_secs(5);

pub fn facts() -> Facts {
    let unit = IntFact { divisor: 1, equals: Some(1), fits_i32: true };
    Facts { align: 256, strides: [unit].into_iter().collect(), ..Facts::default() }
}

/// Answers message 1, 2, … with every word raised by 1.
#[device(crate = kiln_lang)]
fn echo(inbox: View<u32, 1>, outbox: ViewMut<u32, 1>, rounds: Val<u32>) {
    let lane = lane_id().cast::<u32>();
    let at = (lane & 3) * 4;
    let (mut number, mut polls): (Val<u32>, Val<u32>) = (val(1), val(0));
    while number <= rounds && polls < PATIENCE {
        // SAFETY: the slot lies at the beginning of the inbox, which has 16 words and a stride
        // of 1.
        let quad = unsafe { inbox.get_quad_unchecked(at) };
        polls += 1;
        if vote_all(quad[3].eq(number)) {
            if lane < 4 {
                // SAFETY: as above; the host reads quads whose stamps match.
                unsafe { outbox.set_quad_unchecked(at, [quad[0] + 1, quad[1] + 1, quad[2] + 1, number]) };
            }
            number += 1;
            polls = 0;
        }
    }
}

/// Mapped memory of one slot.
struct Slot<'a> {
    backend: &'a dyn Backend,
    mapped: Option<Mapped>,
    words: NonNull<u32>,
    device: DevicePtr,
    write_combined: bool,
}

impl Slot<'_> {
    fn new(backend: &dyn Backend, place: MappedPlace) -> Result<Slot<'_>, Failure> {
        let mapped = backend.need_mapped_memory()?.map(SLOT * 4, place)?;
        let (words, device, write_combined) = (mapped.host.cast(), mapped.device, mapped.write_combined);
        Ok(Slot { backend, mapped: Some(mapped), words, device, write_combined })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < SLOT);
        // SAFETY: one of 16 mapped words, which live as long as this; the host accesses them by
        // atomics and by the stores of `write` alone.
        unsafe { AtomicU32::from_ptr(self.words.as_ptr().add(at)) }
    }

    /// Writes a message: each quad whole, or its stamp last.
    #[inline]
    fn write(&self, message: &Ping, stamp: u32) {
        let words = &message.words;
        let quad = |q: usize| [words[q * 3], words[q * 3 + 1], words[q * 3 + 2], stamp];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_set_epi32, _mm_sfence, _mm_store_si128, _mm_stream_si128};
            for q in 0..4 {
                let [a, b, c, d] = quad(q).map(|word| word as i32);
                // SAFETY: a quad of the 16 mapped words, at a multiple of 16 bytes; every x86-64
                // processor has SSE2.
                unsafe {
                    let to = self.words.as_ptr().add(q * 4).cast();
                    let value = _mm_set_epi32(d, c, b, a);
                    if self.write_combined { _mm_stream_si128(to, value) } else { _mm_store_si128(to, value) }
                }
            }
            // SAFETY: every x86-64 processor has it.
            unsafe { _mm_sfence() };
        }
        #[cfg(not(target_arch = "x86_64"))]
        for q in 0..4 {
            for (i, word) in quad(q).into_iter().enumerate() {
                self.word(q * 4 + i).store(word, Ordering::Release);
            }
        }
    }

    /// The payload, once all stamps are there; `None` if they do not come.
    #[inline]
    fn read(&self, stamp: u32) -> Option<Ping> {
        let mut begun = None;
        for q in 0..4 {
            let mut polls = 0u32;
            while self.word(q * 4 + 3).load(Ordering::Acquire) != stamp {
                polls += 1;
                if polls.is_multiple_of(1 << 16) && begun.get_or_insert_with(Instant::now).elapsed() > WAIT {
                    return None;
                }
            }
        }
        Some(Ping { words: std::array::from_fn(|i| self.word(i / 3 * 4 + i % 3).load(Ordering::Relaxed)) })
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and every launch that used it was waited for.
        self.mapped.take().into_iter().for_each(|mapped| unsafe { self.backend.unmap(mapped) });
    }
}

/// One message in flight, and nothing around it.
pub fn round_trip(device: &Device, place: MappedPlace) -> Result<Row, Failure> {
    let backend = device.backend();
    let kernel = trace("bare_echo", Level::Thread { block: [32, 1, 1] }, |p| {
        let (inbox, outbox) = (p.view("inbox", facts()), p.view_mut("outbox", facts()));
        echo(inbox, outbox, p.scalar("rounds", IntFact::default()));
    });
    let kernel = kernel.map_err(|errors| Failure::Wrong(errors.to_string()))?;
    let program = device.program(&kernel)?;
    let stream = backend.create_stream()?;
    let rounds = ROUNDS + WARM_UP;
    let extent = [SLOT as u64];
    let residents = backend.need_residents()?;
    let mut places = Places::new(backend, place);
    let mut slice = || {
        places.change()?;
        let (inbox, outbox) = (Slot::new(backend, place)?, Slot::new(backend, MappedPlace::Host)?);
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(inbox.device), &extent)
            .view(BufferBinding::write(outbox.device), &extent)
            .scalar(rounds.into());
        let launch = arguments.launch([1, 1, 1], stream);
        // SAFETY: two views of mapped memory that lives until the kernel has ended, and a number.
        let id = unsafe { residents.launch_resident(&program, launch)? };
        let times_us = bounced(&inbox, &outbox);
        // A kernel that got no message leaves by itself.
        let left = residents.resident_wait(id, Duration::from_secs(60))?;
        match times_us {
            Ok(_) if !left => Err(Failure::Wrong("the bare kernel does not leave".into())),
            times_us => times_us.map_err(Failure::Wrong),
        }
    };
    let slices = undisturbed::measure(&mut slice);
    backend.destroy_stream(stream);
    Ok(slices?.times(ROUND_TRIP, &transport(device, place)))
}

/// The host's side of a slice: the times of round trips in microseconds, or what went wrong.
fn bounced(inbox: &Slot<'_>, outbox: &Slot<'_>) -> Result<Vec<f64>, String> {
    let mut times_us = Vec::with_capacity(ROUNDS as usize);
    for round in 1..=ROUNDS + WARM_UP {
        let message = Ping::numbered(round);
        let start = Instant::now();
        inbox.write(&message, round);
        let reply = outbox.read(round).ok_or_else(|| format!("no answer to bare message {round}"))?;
        let good = reply.is(&message.raised(1));
        let time = start.elapsed();
        if !good {
            let (sent, got) = (message.words, reply.words);
            return Err(format!("a bare answer was wrong: {got:?} came back for {sent:?}"));
        }
        if round > WARM_UP {
            times_us.push(time.as_secs_f64() * 1e6);
        }
    }
    Ok(times_us)
}

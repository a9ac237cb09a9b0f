//! The least that many messages need: a kernel whose warps do nothing but answer what stands in
//! their rings, and a thread of the host that does nothing but store messages and compare answers,
//! a line of 64 bytes each.

use super::bare::facts;
use super::message::transport;
use super::places::Places;
use super::row::Row;
use super::undisturbed;
use crate::failure::Failure;
use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, Mapped, MappedPlace};
use kiln_ir::IntFact;
use kiln_lang::prelude::*;
use kiln_runtime::Device;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Numbers of warps, and of messages in flight to each: those of some rows of `echo.rs`.
pub const SIZES: [(usize, usize); 5] = [(16, 1024), (16, 4096), (64, 1024), (132, 64), (132, 1024)];

/// Messages of a slice.
const MESSAGES: usize = 3 << 20;

/// Polls without a message after which a warp leaves.
const PATIENCE: u32 = 4_000_000;

/// Words of a slot: four quads, each of three words of payload and a stamp.
const SLOT: usize = 16;

/// Lines ahead of the one that the host reads which are asked for.
const AHEAD: usize = 8;

/// How long the host waits for an answer.
const WAIT: Duration = Duration::from_secs(5);

pub fn name(warps: usize, window: usize) -> String {
    format!("ring.bare_echo_48B_{warps}x{window}")
}

/// Each warp polls the next eight slots of its ring, a quad a lane, and answers those that are
/// there: every word raised by 1.
#[device(crate = kiln_lang)]
fn echo(inbox: View<u32, 1>, outbox: ViewMut<u32, 1>, log2_slots: Val<u32>, rounds: Val<u32>) {
    let lane = lane_id().cast::<u32>();
    let (group, quad_at) = (lane / 4, (lane & 3) * 4);
    let base = program_id(0).cast::<u32>() << log2_slots;
    let (mut next, mut polls): (Val<u32>, Val<u32>) = (val(0), val(0));
    while next < rounds && polls < PATIENCE {
        let position = next + group;
        let slot = base + (position & ((val::<u32>(1) << log2_slots) - 1));
        let at = slot * SLOT as u32 + quad_at;
        let stamp = (position >> log2_slots) + 1;
        // SAFETY: the inbox has as many slots for each warp.
        let quad = unsafe { inbox.get_quad_unchecked(at) };
        let missing = ballot(quad[3].ne(stamp));
        // Those before the first that is not there, whole.
        let there = ((missing & (val::<u32>(0) - missing)) - 1).popcount() / 4;
        if group < there {
            // SAFETY: as above; the host has taken what stood there, and reads quads whose stamps
            // match.
            unsafe { outbox.set_quad_unchecked(at, [quad[0] + 1, quad[1] + 1, quad[2] + 1, stamp]) };
        }
        next += there;
        polls = select(there.eq(0), polls + 1, 0);
    }
}

/// A slot with a message: its words count on from a number of its own.
#[inline(always)]
fn line(first: u32, stamp: u32) -> [u32; SLOT] {
    std::array::from_fn(|i| if i % 4 == 3 { stamp } else { first.wrapping_add((i / 4 * 3 + i % 4) as u32) })
}

/// A message's first word.
#[inline(always)]
fn first(number: u32) -> u32 {
    number.wrapping_mul(31)
}

/// Mapped memory of slots.
struct Slots<'a> {
    backend: &'a dyn Backend,
    mapped: Option<Mapped>,
    words: NonNull<u32>,
    device: DevicePtr,
    count: usize,
    /// Whether stores go past the caches.
    stream: bool,
}

impl Slots<'_> {
    fn new(backend: &dyn Backend, place: MappedPlace, count: usize) -> Result<Slots<'_>, Failure> {
        let mapped = backend.need_mapped_memory()?.map(count * SLOT * 4, place)?;
        let (words, device, stream) = (mapped.host.cast(), mapped.device, mapped.write_combined);
        Ok(Slots { backend, mapped: Some(mapped), words, device, count, stream })
    }

    /// How many words it has.
    fn length(&self) -> u64 {
        (self.count * SLOT) as u64
    }

    /// Takes all messages away.
    fn clear(&self) {
        for slot in 0..self.count {
            // SAFETY: the slot lies inside, aligned to 64 bytes, and no kernel uses it.
            unsafe { store::<false>(self.slot(slot), [0; SLOT], self.stream) };
        }
        fence();
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> *mut [u32; SLOT] {
        assert!(slot < self.count);
        // SAFETY: inside.
        unsafe { self.words.as_ptr().cast::<[u32; SLOT]>().add(slot) }
    }
}

impl Drop for Slots<'_> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and every launch that used it was waited for.
        self.mapped.take().into_iter().for_each(|mapped| unsafe { self.backend.unmap(mapped) });
    }
}

/// The host's side of all rings.
struct Host<'a> {
    requests: &'a Slots<'a>,
    answers: &'a Slots<'a>,
    warps: usize,
    log2_slots: u32,
    rounds: u32,
}

/// A thread's side of a ring: how many messages it sent, and how many answers it took.
#[derive(Clone, Copy, Default)]
struct Flow {
    sent: u32,
    seen: u32,
}

impl Host<'_> {
    #[inline(always)]
    fn slot(&self, warp: usize, position: u32) -> (usize, u32) {
        let slots = 1 << self.log2_slots;
        (warp * slots + (position as usize & (slots - 1)), (position >> self.log2_slots) + 1)
    }

    /// Sends what there is room for, as soon as that is a quarter of the ring.
    #[inline(always)]
    fn send<const WIDE: bool>(&self, warp: usize, flow: &mut Flow) {
        let slots = 1u32 << self.log2_slots;
        let room = (slots - (flow.sent - flow.seen)).min(self.rounds - flow.sent);
        if room < slots / 4 && flow.sent + room < self.rounds {
            return;
        }
        for position in flow.sent..flow.sent + room {
            let (slot, stamp) = self.slot(warp, position);
            let (to, line) = (self.requests.slot(slot), line(first(position), stamp));
            // SAFETY: the slot lies inside, aligned to 64 bytes, and is the host's until its stamp
            // is there; each quad of it arrives whole.
            unsafe { store::<WIDE>(to, line, self.requests.stream) };
        }
        flow.sent += room;
        fence();
    }

    /// Takes the answers that are there; `None` for a wrong one.
    #[inline(always)]
    fn receive(&self, warp: usize, flow: &mut Flow) -> Option<()> {
        while flow.seen < flow.sent {
            let (slot, stamp) = self.slot(warp, flow.seen);
            let from = self.answers.slot(slot);
            prefetch(from.wrapping_add(AHEAD));
            // SAFETY: the slot lies inside; the device writes it meanwhile by quads, of which each
            // counts once its stamp is there.
            let got = unsafe { from.read_volatile() };
            let want = line(first(flow.seen).wrapping_add(1), stamp);
            if differ(&got, &want) {
                let there = (0..4).all(|q| got[q * 4 + 3] == stamp);
                return if there { None } else { Some(()) };
            }
            flow.seen += 1;
        }
        Some(())
    }

    #[inline(always)]
    fn run<const WIDE: bool>(&self) -> Result<(), String> {
        let mut flows = vec![Flow::default(); self.warps];
        let mut begun = Instant::now();
        loop {
            let (mut taken, mut left) = (false, false);
            for (warp, flow) in flows.iter_mut().enumerate() {
                self.send::<WIDE>(warp, flow);
                let before = flow.seen;
                self.receive(warp, flow).ok_or("a bare answer was wrong")?;
                taken |= flow.seen != before;
                left |= flow.seen != self.rounds;
            }
            match (left, taken) {
                (false, _) => return Ok(()),
                (_, true) => begun = Instant::now(),
                _ if begun.elapsed() > WAIT => return Err("no answer to a bare message".into()),
                _ => {}
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn run_wide(&self) -> Result<(), String> {
        self.run::<true>()
    }

    fn run_widest(&self) -> Result<(), String> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it.
            return unsafe { self.run_wide() };
        }
        self.run::<false>()
    }
}

/// Whether two lines differ, without a branch for each word.
#[inline(always)]
fn differ(a: &[u32; SLOT], b: &[u32; SLOT]) -> bool {
    a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) != 0
}

/// Stores a line, past the caches if `stream` says so.
///
/// # Safety
/// It is valid, aligned to 64 bytes; `WIDE` only where the processor has AVX-512.
#[inline(always)]
unsafe fn store<const WIDE: bool>(to: *mut [u32; SLOT], line: [u32; SLOT], stream: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, __m512i, _mm_stream_si128, _mm512_stream_si512};
        // SAFETY: the caller's promises; every x86-64 processor has SSE2.
        unsafe {
            if WIDE {
                let line: __m512i = std::mem::transmute(line);
                let to = to.cast::<__m512i>();
                if stream { _mm512_stream_si512(to, line) } else { to.write_volatile(line) }
            } else {
                let quads: [__m128i; 4] = std::mem::transmute(line);
                for (q, quad) in quads.into_iter().enumerate() {
                    let to = to.cast::<__m128i>().add(q);
                    if stream { _mm_stream_si128(to, quad) } else { to.write_volatile(quad) }
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = stream;
        // SAFETY: the caller's promises.
        unsafe { to.write_volatile(line) };
    }
}

/// Pushes out what was stored past the caches.
#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[inline(always)]
fn prefetch(line: *const [u32; SLOT]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch may have any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// As many messages in flight as the window, to each of some warps.
pub fn rate(device: &Device, place: MappedPlace, warps: usize, window: usize) -> Result<Row, Failure> {
    let backend = device.backend();
    let kernel = trace("bare_echoes", Level::Thread { block: [32, 1, 1] }, |p| {
        let (inbox, outbox) = (p.view("inbox", facts()), p.view_mut("outbox", facts()));
        let log2_slots = p.scalar("log2_slots", IntFact::default());
        echo(inbox, outbox, log2_slots, p.scalar("rounds", IntFact::default()));
    });
    let kernel = kernel.map_err(|errors| Failure::Wrong(errors.to_string()))?;
    let program = device.program(&kernel)?;
    let slots = window.next_power_of_two();
    let (rounds, log2_slots) = ((MESSAGES / warps) as u32, slots.trailing_zeros());
    let stream = backend.create_stream()?;
    let residents = backend.need_residents()?;
    let mut places = Places::new(backend, place);
    let mut slice = || {
        places.change()?;
        let requests = Slots::new(backend, place, warps * slots)?;
        let answers = Slots::new(backend, MappedPlace::Host, warps * slots)?;
        requests.clear();
        answers.clear();
        let host = Host { requests: &requests, answers: &answers, warps, log2_slots, rounds };
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(requests.device), &[requests.length()])
            .view(BufferBinding::write(answers.device), &[answers.length()])
            .scalar(log2_slots.into())
            .scalar(rounds.into());
        let launch = arguments.launch([warps as u32, 1, 1], stream);
        // SAFETY: two views of mapped memory that lives until the kernel has ended, and numbers.
        let id = unsafe { residents.launch_resident(&program, launch)? };
        let begun = Instant::now();
        let outcome = host.run_widest();
        let took = begun.elapsed();
        // Warps that get no message leave by themselves.
        let left = residents.resident_wait(id, Duration::from_secs(60))?;
        outcome.map_err(Failure::Wrong)?;
        if !left {
            return Err(Failure::Wrong("the bare kernel does not leave".into()));
        }
        Ok(undisturbed::rate(u64::from(rounds) * warps as u64, took))
    };
    let slices = undisturbed::measure(&mut slice);
    backend.destroy_stream(stream);
    Ok(slices?.rate(&name(warps, window), &transport(device, place)))
}

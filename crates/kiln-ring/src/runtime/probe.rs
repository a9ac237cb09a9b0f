//! The test of a transport: whether what is written by one side ever is seen in part by the other.
//!
//! Before a runtime's memory is used, the host writes slots into it, in the ways in which it writes
//! messages, while a kernel polls them without a pause, and the kernel answers in the way in which
//! workers do, while the host polls. Every word is another in each round. A test that finds nothing
//! proves nothing, but what is wrong with a machine shows within its first messages.

use super::memory::SharedMemory;
use super::transport::{Transport, Verdict};
use crate::channel::{Protocol, QueueMemory, RingMemory, Slots};
use crate::device::probe::{QUADS, trace_probe, word};
use crate::error::{Result, RingError};
use crate::wire::record::LINE;
use crate::wire::slot::{Kind, PAYLOAD, QUAD, stamp};
use kiln_backend::Launch;
use kiln_runtime::Device;
use std::time::{Duration, Instant};

/// Slots of a round at most: a multiple of eight, so that the lanes of a warp have as many quads
/// each.
const SLOTS: usize = 32;
const ROUNDS: u32 = 256;
/// As many where both sides share processors: each round may cost a switch of threads, and what
/// is tested goes through one cache.
const SHARED_ROUNDS: u32 = 64;
/// How long one side waits for the other where both have processors of their own: no round takes a
/// hundredth of it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same where they share processors, with each other and with other programs. Nothing gets lost
/// on the way there.
const SHARED_PATIENCE: Duration = Duration::from_secs(3600);

/// How the host writes quads with a stamp: at this word of the memory, three words of each. The
/// last argument gives the processor time that the kernel has had, where the device says so.
pub(super) struct Write(pub fn(&RingMemory, usize, &[u32], u32, Ran<'_>));

type Ran<'a> = &'a dyn Fn() -> Option<Duration>;

impl Write {
    /// As messages are written: in lines and by quads.
    pub fn whole() -> Write {
        Write(|memory, at, words, stamp, _| {
            if stamp.is_multiple_of(2) {
                memory.store_quads(at, words, stamp);
            } else {
                memory.store_each(at, words, stamp);
            }
        })
    }
}

/// What the two sides share for a test.
struct Bench {
    requests: RingMemory,
    answers: RingMemory,
    slots: usize,
    protocol: Protocol,
    rounds: u32,
    patience: Duration,
}

/// Tests a transport over memory that nothing else uses.
pub(super) fn test(
    device: &Device,
    memory: &SharedMemory,
    workers: usize,
    transport: Transport,
    write: &Write,
) -> Result<Verdict> {
    let (begin, line) = (workers * LINE, QUADS * QUAD);
    let words = memory.inbox_words.words().min(memory.outbox_words.words()).saturating_sub(begin + LINE);
    let slots = (words / line).min(SLOTS) / 8 * 8;
    if slots == 0 {
        return Ok(Ok("not tested: the runtime's memory is too small for that".to_owned()));
    }
    let on_host = device.properties().capabilities.on_host;
    let rounds = if on_host { SHARED_ROUNDS } else { ROUNDS };
    let bench = Bench {
        requests: memory.inbox_part(begin, slots * line),
        answers: memory.outbox_part(begin, slots * line + QUAD),
        slots,
        protocol: transport.protocol(),
        rounds,
        patience: if on_host { SHARED_PATIENCE } else { PATIENCE },
    };
    let begun = Instant::now();
    let verdict = bench.run(device, memory, begin, write)?;
    SharedMemory::clear(&bench.requests);
    SharedMemory::clear(&bench.answers);
    let quads = 2 * rounds as usize * slots * QUADS;
    Ok(verdict.map(|()| format!("{quads} quads came whole, tested in {:.1?}", begun.elapsed())))
}

impl Bench {
    fn run(
        &self,
        device: &Device,
        memory: &SharedMemory,
        begin: usize,
        write: &Write,
    ) -> Result<std::result::Result<(), String>> {
        let lanes = if device.properties().capabilities.is_simt() { 32 } else { 1 };
        let refuse = |problems| RingError::Handler { handlers: "the transport's test".to_owned(), problems };
        let kernel = trace_probe(lanes, self.protocol == Protocol::Ordered)
            .map_err(|errors| refuse(errors.errors().iter().map(ToString::to_string).collect()))?;
        let program = device.program(&kernel)?;
        let ([inbox, outbox, _], mut numbers) = (memory.views(), memory.extents(false)[..4].to_vec());
        let scalars = [begin, self.slots, self.rounds as usize, self.patience.as_millis() as usize];
        numbers.extend(scalars.map(|scalar| scalar as u64));
        let (buffers, stream) = ([inbox, outbox], memory.stream());
        let launch = Launch { grid: [1, 1, 1], buffers: &buffers, numbers: &numbers, stream };
        // SAFETY: buffers and numbers are those of the kernel's parameters: two views, of which it
        // writes the second alone, of memory that has so many words and that lives on if the kernel
        // does not end; and four numbers.
        let id = unsafe { device.backend().need_residents()?.launch_resident(&program, launch)? };
        let (mut torn, mut silent) = (0, None);
        let ran = || Some(device.backend().residents()?.block_time(id, 0)?.ran);
        for round in 1..=self.rounds {
            self.write(round, write, &ran);
            match self.read(round) {
                Ok(seen) => torn += seen,
                Err(slot) => {
                    silent = Some((round, slot));
                    break;
                }
            }
        }
        let waited = 4 * self.patience;
        if !device.backend().need_residents()?.resident_wait(id, waited)? {
            return Err(RingError::Unresponsive { worker: 0, what: "end the transport's test", waited });
        }
        let [there, rounds, ..] = self.answers.load_quad(self.slots * QUADS * QUAD);
        Ok(if there > 0 || torn > 0 {
            let all = self.rounds as usize * self.slots * QUADS;
            Err(format!(
                "among {all} quads each way, the device saw stamps before their words {there} times, and the host {torn} times"
            ))
        } else if let Some((round, slot)) = silent {
            Err(format!(
                "in round {round} of its test, no answer came in slot {slot} within {:?} (the device saw {rounds} rounds)",
                self.patience
            ))
        } else {
            Ok(())
        })
    }

    /// Writes the slots of a round.
    fn write(&self, round: u32, write: &Write, ran: Ran<'_>) {
        let stamp = stamp(round.into(), Kind::Request);
        let words: Vec<u32> = (0..(self.slots * QUADS * PAYLOAD) as u32)
            .map(|w| word(round, w / PAYLOAD as u32, w as usize % PAYLOAD))
            .collect();
        match self.protocol {
            Protocol::Stamped => (write.0)(&self.requests, 0, &words, stamp, ran),
            Protocol::Ordered => {
                for (slot, words) in words.chunks_exact(QUADS * PAYLOAD).enumerate() {
                    let (at, (first, others)) = (slot * QUADS * QUAD, words.split_at(PAYLOAD));
                    self.requests.store_each(at + QUAD, others, stamp);
                    self.requests.store_quad_release(at, [first[0], first[1], first[2], stamp]);
                }
            }
        }
        self.requests.flush();
    }

    /// Reads the answers of a round; gives how many quads held other words than they should, or the
    /// slot in which none came.
    fn read(&self, round: u32) -> std::result::Result<usize, usize> {
        let stamp = stamp(round.into(), Kind::Reply);
        let begun = Instant::now();
        let (mut slot, mut torn) = (0, 0);
        let mut words = [0; SLOTS * QUADS * PAYLOAD + crate::channel::SLACK];
        while slot < self.slots {
            let there = self.read_some(slot, round, stamp, &mut words);
            for (w, got) in words[..there * QUADS * PAYLOAD].iter().enumerate() {
                let quad = (slot * QUADS + w / PAYLOAD) as u32;
                torn += usize::from(*got != !word(round, quad, w % PAYLOAD));
            }
            slot += there;
            if there == 0 && begun.elapsed() > self.patience {
                return Err(slot);
            }
            if there == 0 && self.patience == SHARED_PATIENCE {
                std::thread::yield_now();
            }
        }
        Ok(torn)
    }

    /// Reads answers from a slot on, as far as they are there; gives how many. In lines or by
    /// quads, as a receiver of many or of one does.
    fn read_some(&self, slot: usize, round: u32, stamp: u32, words: &mut [u32]) -> usize {
        let (at, stride) = (slot * QUADS * QUAD, QUADS * QUAD);
        let slots = |count| Slots { at, stride, quads: QUADS, count, stamp };
        match self.protocol {
            Protocol::Stamped if round.is_multiple_of(2) => {
                self.answers.load_slots(&slots(self.slots - slot), words)
            }
            Protocol::Stamped => self.answers.load_each(&slots(1), words),
            Protocol::Ordered if self.answers.load_acquire(at + PAYLOAD) != stamp => 0,
            Protocol::Ordered => self.answers.load_each(&slots(1), words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose_transport::choose_by;
    use super::*;
    use crate::wire::slot::LAP_MASK;
    use crate::{RingConfig, RingCtx, RingRuntime, RuntimeConfig, ring_kernel};

    /// The device that `KILN_DEVICE` names: on one of another kind than a CPU, this is the test by
    /// which its transports are chosen.
    fn device() -> Device {
        Device::open(&std::env::var("KILN_DEVICE").unwrap_or("cpu".to_owned())).unwrap()
    }

    /// Stamps first, and the words later: in the first rounds not before the device has polled in
    /// between, however long it has to wait for a processor.
    fn torn() -> Write {
        Write(|memory, at, words, stamp, ran| {
            for (q, words) in words.chunks_exact(PAYLOAD).enumerate() {
                memory.store_quad(at + q * QUAD, [0, 0, 0, stamp]);
                memory.flush();
                if (at, q) == (0, 0) && stamp & LAP_MASK <= 4 {
                    wait_until_polled(ran);
                }
                memory.store_quad(at + q * QUAD, [words[0], words[1], words[2], stamp]);
            }
        })
    }

    /// Waits until the device has had a tenth of a millisecond, which is hundreds of polls.
    fn wait_until_polled(ran: Ran<'_>) {
        let Some(before) = ran() else { return std::thread::sleep(Duration::from_millis(5)) };
        while ran().is_some_and(|now| now.saturating_sub(before) < Duration::from_micros(100)) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// A transport passes its test as it is, and fails it where stamps come before their words:
    /// then the next one is taken, and what was found can be read.
    #[test]
    fn torn_stores_are_found_and_the_next_transport_is_taken() {
        let (device, config) = (device(), RuntimeConfig::default());
        let find = |broken: &[Transport]| {
            let mut test = |memory: &SharedMemory, workers: usize, transport: Transport| {
                let write = if broken.contains(&transport) { torn() } else { Write::whole() };
                test(&device, memory, workers, transport, &write)
            };
            let (mut memory, _, choice) = choose_by(&device, &config, Transport::Auto, 2, &mut test).unwrap();
            // SAFETY: the tests have ended.
            unsafe { memory.release() };
            println!("{broken:?} broken: {choice}");
            choice
        };
        let first = find(&[]).transport;
        assert_ne!(first, Transport::Ordered);
        let second = find(&[Transport::Bar]);
        assert_eq!(second.transport, Transport::Pinned, "{second}");
        let last = find(&[Transport::Bar, Transport::Pinned]);
        assert_eq!((last.transport, last.refused.len()), (Transport::Ordered, 2), "{last}");
        let (transport, why) = &last.refused[1];
        assert!(*transport == Transport::Pinned && why.contains("saw stamps before their words"), "{why}");
        if first == Transport::Bar {
            assert!(last.refused[0].1.contains("saw stamps before their words"), "{last}");
        }
    }

    #[ring_kernel(crate = crate)]
    fn halved(_ctx: &RingCtx, m: [u32; 13]) -> [u32; 13] {
        m.map(|word| word / 2)
    }

    /// A named transport that fails its test is refused, by its name.
    #[test]
    fn a_named_transport_that_fails_is_refused() {
        let (device, config) = (device(), RuntimeConfig::default());
        let refused = choose_by(&device, &config, Transport::Pinned, 1, &mut |memory, workers, transport| {
            test(&device, memory, workers, transport, &torn())
        });
        let error = refused.map(|(_, _, choice)| choice).unwrap_err().to_string();
        assert!(error.contains("not pinned: among "), "{error}");
        let runtime = RingRuntime::with(&device, config.transport(Transport::Ordered).workers(1)).unwrap();
        let actor = runtime.launch(halved, RingConfig::default()).unwrap();
        actor.activate().unwrap();
        for n in 0..1000 {
            assert_eq!(actor.ask([2 * n; 13]), Ok(Some([n; 13])));
        }
    }
}

//! The least that a message needs from one block of a cluster to another: what a worker has to do
//! for it, by hand, and nothing else.

use super::flags::{BATCHES, HOPS, PATIENCE, ways};
use super::row::Row;
use crate::failure::Failure;
use kiln_lang::prelude::*;
use kiln_lang::{cluster_barrier, explicit};
use kiln_runtime::{Device, Tensor};

pub const CLUSTER: &str = "ring.bare_hop_cluster";

/// Slots of a block's ring, and words of each: four quads of three words and a stamp.
const SLOTS: u32 = 16;
const SLOT: u32 = 16;

/// Where the other block says how many messages it has handled: four quads behind the ring. A lane
/// reads one of them, and a vote decides. Of one quad that all read the assembler assumes that they
/// find the same, which nothing promises while it is stored: the warp could come apart.
const HEAD: u32 = SLOTS * SLOT;

/// All words of a block's memory.
const MEMORY: u32 = HEAD + SLOT;

/// Words of a message: 48 bytes. The first says how often it is still to be sent.
const WORDS: usize = 12;

type Message = [Val<u32>; WORDS];

/// A block's side of its ring and of the other's.
#[derive(Clone, Copy)]
struct Ends {
    memory: Shared<u32, 1>,
    other: Idx,
    lane: Val<u32>,
}

/// A stamp and a slot's first word, of the message with this number, from 0.
fn place(number: Val<u32>) -> (Val<u32>, Val<u32>) {
    (number / SLOTS + 1, number % SLOTS * SLOT)
}

impl Ends {
    /// Waits for a message: each lane polls a quad, and when all are there, all get all words.
    #[device(crate = kiln_lang)]
    fn receive(&self, number: Val<u32>, polls: &mut Val<u32>) -> Message {
        let (stamp, slot) = place(number);
        let at = slot + (self.lane & 3) * 4;
        let mut quad = [val::<u32>(0); 4];
        let mut waiting = true.into_val();
        while waiting {
            // SAFETY: a quad of the ring.
            quad = unsafe { self.memory.get_quad_unchecked(at) };
            *polls += 1;
            waiting = !vote_all(quad[3].eq(stamp)) & polls.lt(PATIENCE);
        }
        std::array::from_fn(|i| shuffle_idx(quad[i % 3], (i / 3) as u32))
    }

    /// Sends a message, a quad a lane, when there is room by what was seen of the other's head.
    #[device(crate = kiln_lang)]
    fn send(&self, number: Val<u32>, seen: &mut Val<u32>, words: &Message) {
        let mut full = vote_any((number - *seen).ge(SLOTS));
        while full {
            // SAFETY: one of the quads behind the ring.
            *seen = unsafe { self.memory.get_quad_unchecked(HEAD + (self.lane & 3) * 4) }[0];
            full = vote_any((number - *seen).ge(SLOTS));
        }
        let (stamp, slot) = place(number);
        let mut mine = [val::<u32>(0); 3];
        for q in 0..4 {
            mine = std::array::from_fn(|i| select(self.lane.eq(q as u32), words[q * 3 + i], mine[i]));
        }
        let [a, b, c] = mine;
        if self.lane < 4 {
            // SAFETY: a quad of the other's ring, which is free: its block has handled what stood
            // there.
            unsafe { self.memory.set_quad_of(self.other, slot + self.lane * 4, [a, b, c, stamp]) };
        }
    }
}

/// Two blocks bounce a message. The first times each batch by the device's clock, in nanoseconds,
/// and stores the words of the last one.
#[kernel(crate = kiln_runtime)]
fn hop(last: &mut Tensor<u32, 1>, times: &mut Tensor<u64, 1>) {
    explicit::cluster(2);
    let me = program_id(0);
    let lane = lane_id().cast::<u32>();
    let ends = Ends { memory: shared([MEMORY as usize]), other: 1 - me, lane };
    for at in range_step(lane * 4, MEMORY, 128) {
        // SAFETY: in the memory, a quad a lane.
        unsafe { ends.memory.set_quad_unchecked(at, [val(0); 4]) };
    }
    cluster_barrier();
    let (mut sent, mut received, mut polls): (Val<u32>, Val<u32>, Val<u32>) = (val(0), val(0), val(0));
    let mut seen: Val<u32> = 0;
    let mut message: Message = std::array::from_fn(|i| val(i as u32 * 1000));
    for batch in 0..times.extent(0) {
        let begun = clock_ns();
        for _hop in 0..HOPS {
            if me == 0 {
                ends.send(sent, &mut seen, &message);
                sent += 1;
            }
            message = ends.receive(received, &mut polls);
            message = std::array::from_fn(|i| if i == 0 { message[i] - 1 } else { message[i] + 1 });
            received += 1;
            if me != 0 {
                ends.send(sent, &mut seen, &message);
                sent += 1;
            }
            // After the message, which is latency-critical.
            if lane < 4 {
                let head = [received, val(0), val(0), val(0)];
                // SAFETY: one of the other's quads behind its ring.
                unsafe { ends.memory.set_quad_of(ends.other, HEAD + lane * 4, head) };
            }
        }
        if me == 0 {
            if lane == 0 {
                // SAFETY: there is a word for each batch, which one thread stores.
                unsafe { times.scatter(batch, clock_ns() - begun) };
            }
        }
    }
    if me == 0 {
        for i in 0..WORDS {
            // SAFETY: there are as many words, and all lanes store the same.
            unsafe { last.scatter(i as i64, message[i]) };
        }
    }
    cluster_barrier();
}

/// One message from block to block of a cluster; `None` where there are no clusters.
pub fn cluster(device: &Device) -> Result<Option<Row>, Failure> {
    if !device.capabilities().has_clusters() || !device.capabilities().is_simt() {
        return Ok(None);
    }
    let mut last = device.zeros::<u32, 1>([WORDS])?;
    let mut times = device.zeros::<u64, 1>([BATCHES])?;
    hop(&mut last, &mut times).grid([2, 1, 1]).block([32]).launch(device)?;
    let ways_ns = times.to_vec()?;
    // The second block adds 1 for each message, and so does the first.
    let hops = 2 * HOPS * BATCHES as u32;
    let want = |i: u32| if i == 0 { 0u32.wrapping_sub(hops) } else { i * 1000 + hops };
    let last = last.to_vec()?;
    if !last.iter().copied().eq((0..WORDS as u32).map(want)) {
        return Err(Failure::Wrong(format!("{CLUSTER}: {last:?} came back")));
    }
    ways(CLUSTER, &[ways_ns]).map(Some)
}

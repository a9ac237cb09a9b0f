//! The least that a machine needs from one block to another: a word that each sets and awaits in
//! turn.

use super::row::Row;
use crate::failure::Failure;
use kiln_cuda::driver::{
    Context, CudaError, DeviceBuffer, JitOptions, LaunchShape, Module, PinnedBuffer, Stream,
};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};

pub const GLOBAL: &str = "ring.bare_flag_global";
pub const CLUSTER: &str = "ring.bare_flag_cluster";

/// Batches, of which each is timed, and there-and-backs in a batch.
pub const BATCHES: usize = 1000;
pub const HOPS: u32 = 50;

/// Places of the flags in global memory, batches at each, and words from one to the next. A place
/// belongs to a part of L2, and the parts are not equally far from a multiprocessor: at one place a
/// way takes 4 % longer than at another, whichever kernel it is. At each place other
/// multiprocessors exchange the word.
const PLACES: usize = 32;
const BATCHES_AT_PLACE: usize = 40;
const PLACE: usize = 1 << 14;

/// Polls in all after which a block no longer waits.
pub const PATIENCE: u32 = 100_000_000;

/// Blocks `first` and `second` of all set and await each other's flag. The first times each batch
/// by the device's clock, in nanoseconds.
#[kernel(crate = kiln_runtime)]
fn bounce(flags: &mut Tensor<u32, 1>, times: &mut Tensor<u64, 1>, first: i64, second: i64) {
    let me = program_id(0);
    if me == first || me == second {
        let mut side: Val<i64> = 0;
        if me == second {
            side = 1;
        }
        let (own, other) = (side * 32, (1 - side) * 32);
        let (mut number, mut polls): (Val<u32>, Val<u32>) = (val(0), val(0));
        for batch in 0..times.extent(0) {
            let begun = clock_ns();
            for _hop in range(0, i64::from(HOPS)) {
                number += 1;
                if side == 0 {
                    // SAFETY: the words are accessed in order alone.
                    unsafe { flags.set_ordered(other, number, Order::Relaxed, Scope::Device) };
                }
                let mut seen: Val<u32> = 0;
                while seen != number && polls < PATIENCE {
                    seen = flags.get_ordered(own, Order::Relaxed, Scope::Device);
                    polls += 1;
                }
                if side != 0 {
                    // SAFETY: as above.
                    unsafe { flags.set_ordered(other, number, Order::Relaxed, Scope::Device) };
                }
            }
            if side == 0 {
                // SAFETY: there is a word for each batch, and the first block alone stores them.
                unsafe { times.scatter(batch, clock_ns() - begun) };
            }
        }
    }
}

/// The same with flags in the shared memory of two blocks of a cluster, for the driver.
const BOUNCE_IN_CLUSTER: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry bounce(.param .u64 times, .param .u64 batches, .param .u64 hops, .param .u64 patience)
{
    .reg .b32 %rank, %peer, %own, %there, %number, %seen, %batch, %batches, %hop, %hops, %polls, %patience;
    .reg .b64 %times, %begun, %now, %at, %wide;
    .reg .pred %first, %second, %again;
    .shared .align 16 .b32 flag;
    ld.param.u64 %times, [times];
    ld.param.u64 %wide, [batches];
    cvt.u32.u64 %batches, %wide;
    ld.param.u64 %wide, [hops];
    cvt.u32.u64 %hops, %wide;
    ld.param.u64 %wide, [patience];
    cvt.u32.u64 %patience, %wide;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %rank, 0;
    setp.ne.u32 %second, %rank, 0;
    xor.b32 %peer, %rank, 1;
    mov.u32 %own, flag;
    mapa.shared::cluster.u32 %there, %own, %peer;
    mov.u32 %number, 0;
    mov.u32 %polls, 0;
    st.shared.u32 [%own], 0;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    mov.u32 %batch, 0;
BATCH:
    mov.u64 %begun, %globaltimer;
    mov.u32 %hop, 0;
HOP:
    add.u32 %number, %number, 1;
    @%first st.relaxed.cluster.shared::cluster.u32 [%there], %number;
WAIT:
    ld.relaxed.cluster.shared::cta.u32 %seen, [%own];
    add.u32 %polls, %polls, 1;
    setp.ne.u32 %again, %seen, %number;
    setp.lt.and.u32 %again, %polls, %patience, %again;
    @%again bra WAIT;
    @%second st.relaxed.cluster.shared::cluster.u32 [%there], %number;
    add.u32 %hop, %hop, 1;
    setp.lt.u32 %again, %hop, %hops;
    @%again bra HOP;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begun;
    mul.wide.u32 %at, %batch, 8;
    add.u64 %at, %at, %times;
    @%first st.global.u64 [%at], %now;
    add.u32 %batch, %batch, 1;
    setp.lt.u32 %again, %batch, %batches;
    @%again bra BATCH;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    ret;
}
";

/// One word from block to block through global memory.
pub fn global(device: &Device) -> Result<Row, Failure> {
    let mut runs = Vec::with_capacity(PLACES);
    let mut places = Vec::with_capacity(PLACES);
    let blocks = device.properties().units.max(2);
    for place in 0..PLACES as u32 {
        // Two blocks that differ, each time others.
        let first = place * 7 % blocks;
        let second = (first + 1 + place * 11 % (blocks - 1)) % blocks;
        let mut flags = device.zeros::<u32, 1>([PLACE])?;
        let mut times = device.zeros::<u64, 1>([BATCHES_AT_PLACE])?;
        bounce(&mut flags, &mut times, first.into(), second.into())
            .grid([blocks, 1, 1])
            .block([1])
            .launch(device)?;
        runs.push(times.to_vec()?);
        // Kept, so that the next ones lie elsewhere.
        places.push(flags);
    }
    ways(GLOBAL, &runs)
}

/// One word from block to block of a cluster, through shared memory; `None` where there are no
/// clusters.
pub fn cluster(device: &Device) -> Result<Option<Row>, Failure> {
    if !device.capabilities().has_clusters() || device.properties().compute_capability.is_none() {
        return Ok(None);
    }
    let refused = |error: CudaError| Failure::from(error.into_backend(device.id()));
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let context = Context::new(index).map_err(refused)?;
    let stream = Stream::new(&context).map_err(refused)?;
    let (module, _) =
        Module::from_ptx(&context, "bounce", BOUNCE_IN_CLUSTER, &JitOptions::default()).map_err(refused)?;
    let function = module.function("bounce").map_err(refused)?;
    let times = DeviceBuffer::new(&stream, BATCHES * 8).map_err(refused)?;
    let pinned = PinnedBuffer::new(&context, BATCHES * 8).map_err(refused)?;
    let words = [times.pointer().0, BATCHES as u64, HOPS.into(), PATIENCE.into()];
    let shape = LaunchShape { cluster: Some([2, 1, 1]), ..LaunchShape::new([2, 1, 1], [1, 1, 1]) };
    // SAFETY: there is a word for each batch, and all memory lives until the wait.
    unsafe {
        function.launch(&stream, &shape, &words).map_err(refused)?;
        stream.download_pinned(&pinned, 0..BATCHES * 8, times.pointer()).map_err(refused)?;
    }
    stream.synchronize().map_err(refused)?;
    let from = pinned.host_pointer().as_ptr().cast::<u64>();
    // SAFETY: the copy has filled as many words.
    let batches: Vec<u64> = (0..BATCHES).map(|i| unsafe { from.add(i).read_volatile() }).collect();
    ways(CLUSTER, &[batches]).map(Some)
}

/// The times of one way in microseconds, from those of batches in nanoseconds, of which the first
/// of a run do not count.
pub fn ways(name: &str, runs: &[Vec<u64>]) -> Result<Row, Failure> {
    let us = |ns: &u64| *ns as f64 / 1e3 / f64::from(2 * HOPS);
    let counted = runs.iter().flat_map(|batches| batches.iter().skip(batches.len() / 10));
    let times_us: Vec<f64> = counted.map(us).collect();
    // Blocks that gave up waiting took no time for a way at all, or seconds.
    match times_us.iter().find(|us| !(0.01..1e3).contains(*us)) {
        Some(us) => Err(Failure::Wrong(format!("{name}: one way took {us} us"))),
        None => Ok(Row::times(name, "device", times_us)),
    }
}

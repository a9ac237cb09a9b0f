//! How to bring a tile from one layout to another, and what that costs.

use super::distributed::Layout;
use super::linear::{Bases, Linear};
use kiln_backend::CostModel;
use std::fmt;

/// Bytes of a bank of shared memory.
const BANK_BYTES: u32 = 4;

/// A way from one layout to another.
///
/// ```
/// use kiln_backend::CostModel;
/// use kiln_compiler::layout::{Conversion, Layout};
/// use kiln_ir::Shape;
/// let shape = Shape::new(&[32, 32]);
/// let (rows, columns) = (Layout::coalesced(&shape, 1, 4, 1), Layout::coalesced(&shape, 0, 4, 1));
/// let conversion = Conversion::between(&rows, &columns, 4, &CostModel::H200);
/// assert!(conversion.to_string().starts_with("through scratch"));
/// assert_eq!(Conversion::between(&rows, &rows, 4, &CostModel::H200).cost, 0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// What to do.
    pub route: Route,
    /// An estimate of the time it takes, in cycles of a block that has a multiprocessor for itself.
    pub cost: u32,
}

/// What a conversion does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Every thread has what it needs: only register names change. Target register `r` is source
    /// register `registers.apply(r)`.
    Registers {
        /// From target to source registers.
        registers: Linear,
    },
    /// Every thread has what it needs, but which register holds it depends on the thread.
    Select {
        /// From target to source registers, for thread 0.
        registers: Linear,
        /// For each bit of the thread index, what it adds to the source register.
        thread: Bases,
    },
    /// Threads need elements of other lanes of their warp.
    Shuffle {
        /// From target to source registers.
        registers: Linear,
        /// From target registers to what they add to the source lane.
        register_lanes: Linear,
        /// From target to source lanes, for register 0. Bases are zero or distinct powers of two.
        lanes: Linear,
    },
    /// Through scratch memory, with a barrier.
    Scratch(Staging),
}

/// A tile in scratch memory: row-major, with padding after every so many elements to spread columns
/// over the banks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staging {
    /// Bytes of an element.
    pub bytes: u32,
    /// Padding follows every `1 << pad_after` elements.
    pub pad_after: u32,
    /// Bytes of padding.
    pub pad: u32,
    /// Bytes in all.
    pub size: u32,
}

impl Staging {
    /// A tile of `len` elements (a power of two) without padding.
    pub fn packed(len: u32, bytes: u32) -> Staging {
        Staging::padded(len, bytes, len.trailing_zeros(), 0)
    }

    /// A tile of `len` elements (a power of two) with `pad` bytes after every `1 << pad_after`
    /// elements.
    pub fn padded(len: u32, bytes: u32, pad_after: u32, pad: u32) -> Staging {
        Staging { bytes, pad_after, pad, size: len * bytes + (len >> pad_after) * pad }
    }

    /// The byte offset of an element. It is additive: where two indices have no bit in common, the
    /// offset of their sum is the sum of their offsets.
    pub fn offset(&self, flat: u32) -> u32 {
        flat * self.bytes + (flat >> self.pad_after) * self.pad
    }

    /// Where an element lies, in elements: additive too. Padding is a multiple of an element.
    pub fn index(&self, flat: u32) -> u32 {
        self.offset(flat) / self.bytes
    }

    /// How many adjacent elements a thread with this layout can move at a time, up to 16 bytes.
    pub fn vector(&self, layout: &Layout) -> u32 {
        let most = (16 / self.bytes).trailing_zeros().min(self.pad_after);
        let held = (0..most).take_while(|bit| layout.register().contains(&(1 << bit))).count();
        let mut vector = 1 << held;
        while !self.pad.is_multiple_of(vector * self.bytes) {
            vector /= 2;
        }
        vector
    }

    /// How many 128-byte wavefronts moving a tile of this layout takes: the shared-memory unit's
    /// time in cycles.
    fn wavefronts(&self, layout: &Layout, banks: u32) -> u32 {
        let vector = self.vector(layout);
        let access = (vector * self.bytes).max(BANK_BYTES);
        let (lanes, width) = (Linear::new(layout.lane()), 1 << layout.lane().len());
        // The hardware serves as many lanes together as fill all banks once.
        let together = (banks * BANK_BYTES / access).min(width);
        let mut waves = 0;
        for group in 0..width / together {
            let mut words: Vec<u32> = (group * together..(group + 1) * together)
                .flat_map(|lane| {
                    let from = self.offset(lanes.apply(lane)) / BANK_BYTES;
                    from..from + access / BANK_BYTES
                })
                .collect();
            words.sort_unstable();
            words.dedup();
            let mut load = vec![0; banks as usize];
            words.iter().for_each(|word| load[(word % banks) as usize] += 1);
            waves += load.into_iter().max().unwrap_or(0);
        }
        let warps = 1 << layout.warp().iter().filter(|b| **b != 0).count();
        waves * (layout.registers() as u32 / vector) * warps
    }

    /// The padding under which one layout is written and the other read fastest, with the time of
    /// both.
    fn best(from: &Layout, to: &Layout, bytes: u32, banks: u32) -> (Staging, u32) {
        let len = elements(from);
        let time =
            |staging: Staging| (staging, staging.wavefronts(from, banks) + staging.wavefronts(to, banks));
        let mut best = time(Staging::packed(len, bytes));
        let first = (banks * BANK_BYTES / bytes).trailing_zeros();
        for pad_after in first..len.trailing_zeros() {
            for pad in [16, bytes.max(4)] {
                let candidate = time(Staging::padded(len, bytes, pad_after, pad));
                if candidate.1 < best.1 {
                    best = candidate;
                }
            }
        }
        best
    }
}

fn elements(layout: &Layout) -> u32 {
    1 << layout.linear().bases().iter().filter(|b| **b != 0).count()
}

impl Conversion {
    /// The cheapest way to bring elements of so many bytes from one layout to another of the same
    /// tile, on a GPU with these costs.
    pub fn between(from: &Layout, to: &Layout, bytes: u32, costs: &CostModel) -> Conversion {
        within_threads(from, to)
            .or_else(|| within_warps(from, to, bytes, costs))
            .unwrap_or_else(|| through_scratch(from, to, bytes, costs))
    }
}

/// Where each hardware bit of the target finds its element in the source: words of register, lane
/// and warp bits of the source.
fn sources(from: &Layout, to: &Layout) -> Option<Bases> {
    let inverse = from.linear().right_inverse(elements(from).trailing_zeros())?;
    Some(inverse.compose(&to.linear()).bases().into())
}

/// As [`sources`], but where source threads hold copies each thread is its own source.
fn own_sources(from: &Layout, to: &Layout) -> Option<Bases> {
    let mut map = sources(from, to)?;
    let (mine, theirs) = (to.register().len(), from.register().len());
    for (bit, base) in from.thread().iter().enumerate() {
        if *base == 0 {
            map[mine + bit] |= 1 << (theirs + bit);
        }
    }
    Some(map)
}

fn within_threads(from: &Layout, to: &Layout) -> Option<Conversion> {
    let map = own_sources(from, to)?;
    let (mine, theirs) = (to.register().len(), from.register().len());
    let in_registers = (1u32 << theirs) - 1;
    let (registers, threads) = map.split_at(mine);
    let stays = threads.iter().enumerate().all(|(i, b)| b & !in_registers == 1 << (theirs + i));
    if !stays || registers.iter().any(|b| b & !in_registers != 0) {
        return None;
    }
    let registers = Linear::new(registers);
    let thread: Bases = threads.iter().map(|b| b & in_registers).collect();
    let depends = thread.iter().filter(|b| **b != 0).count() as u32;
    Some(if depends == 0 {
        Conversion { route: Route::Registers { registers }, cost: 0 }
    } else {
        let warps = 1 << to.warp().len();
        let cost = ((to.registers() as u32 * warps / 4) << depends).max(1);
        Conversion { route: Route::Select { registers, thread }, cost }
    })
}

fn within_warps(from: &Layout, to: &Layout, bytes: u32, costs: &CostModel) -> Option<Conversion> {
    // Lanes may read any copy; a warp has only its own.
    let (map, own) = (sources(from, to)?, own_sources(from, to)?);
    let (mine, theirs) = (to.register().len(), from.register().len());
    let in_registers = (1u32 << theirs) - 1;
    let lane_bits = to.lane().len();
    let in_lanes = ((1u32 << lane_bits) - 1) << theirs;
    let (registers, lanes) = map[..mine + lane_bits].split_at(mine);
    let warps = &own[mine + lane_bits..];
    let stays = warps.iter().enumerate().all(|(i, b)| *b == 1 << (theirs + lane_bits + i));
    let fixed = lanes.iter().all(|b| b & !in_lanes == 0);
    if !stays || !fixed || registers.iter().any(|b| b & !(in_registers | in_lanes) != 0) {
        return None;
    }
    let part = |words: &[u32], mask: u32, down: usize| {
        Linear::new(&words.iter().map(|b| (b & mask) >> down).collect::<Bases>())
    };
    let route = Route::Shuffle {
        registers: part(registers, in_registers, 0),
        register_lanes: part(registers, in_lanes, theirs),
        lanes: part(lanes, in_lanes, theirs),
    };
    let cost = (2 * to.registers() as u32 * bytes.div_ceil(4)) << warps.len();
    let through = through_scratch(from, to, bytes, costs);
    (cost <= through.cost).then_some(Conversion { route, cost })
}

fn through_scratch(from: &Layout, to: &Layout, bytes: u32, costs: &CostModel) -> Conversion {
    let (staging, waves) = Staging::best(from, to, bytes, costs.memory.banks);
    Conversion { route: Route::Scratch(staging), cost: waves + costs.latencies.barrier }
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.route {
            Route::Registers { registers } => write!(f, "rename registers {registers}")?,
            Route::Select { thread, .. } => write!(f, "select registers by thread {thread:?}")?,
            Route::Shuffle { lanes, .. } => write!(f, "shuffle lanes {lanes}")?,
            Route::Scratch(s) => {
                write!(f, "through scratch, {} bytes", s.size)?;
                if s.pad > 0 {
                    write!(f, " with {} after every {}", s.pad, 1 << s.pad_after)?;
                }
            }
        }
        write!(f, ", cost {}", self.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::Shape;

    /// Moves flat indices by the route and checks that every thread ends up with what its layout
    /// says.
    fn check(from: &Layout, to: &Layout, bytes: u32) -> Conversion {
        let conversion = Conversion::between(from, to, bytes, &CostModel::H200);
        if let Route::Shuffle { lanes, .. } = &conversion.route {
            let mut seen = 0;
            for &base in lanes.bases().iter().filter(|b| **b != 0) {
                assert!(base.is_power_of_two() && seen & base == 0, "{lanes}");
                seen |= base;
            }
        }
        let lane_bits = to.lane().len();
        let lanes_of = |thread: u32| (thread & ((1 << lane_bits) - 1), thread >> lane_bits);
        for thread in 0..1u32 << to.thread().len() {
            let (lane, warp) = lanes_of(thread);
            for register in 0..to.registers() {
                let wanted = to.index(register, lane, warp);
                let (source, read_lane) = match &conversion.route {
                    Route::Registers { registers } => (registers.apply(register as u32), lane),
                    Route::Select { registers, thread: bases } => {
                        (registers.apply(register as u32) ^ Linear::new(bases).apply(thread), lane)
                    }
                    Route::Shuffle { registers, register_lanes, lanes } => (
                        registers.apply(register as u32),
                        lanes.apply(lane) ^ register_lanes.apply(register as u32),
                    ),
                    Route::Scratch(_) => continue,
                };
                assert_eq!(from.index(source as usize, read_lane, warp), wanted, "{from} to {to}");
            }
        }
        conversion
    }

    fn is_scratch(conversion: &Conversion) -> bool {
        matches!(conversion.route, Route::Scratch(_))
    }

    #[test]
    fn routes_deliver_what_the_target_says() {
        let mut kinds = [0; 4];
        for shape in [&[256u32][..], &[16], &[4, 4], &[16, 16], &[64, 8], &[32, 1], &[4, 256]] {
            let shape = Shape::new(shape);
            let mut layouts = vec![];
            for axis in 0..shape.rank() {
                for vector in [1, 2, 4, 8] {
                    layouts.push(Layout::coalesced(&shape, axis, vector, 2));
                }
            }
            if shape.rank() == 2 {
                layouts.push(Layout::product(&shape, 2));
            }
            // Everything in the registers of every thread, as after a reduction.
            let tall = Shape::new(&[shape.len() as u32, 64]);
            layouts.push(Layout::coalesced(&tall, 1, 1, 2).without(&tall, 1));
            for from in &layouts {
                for to in &layouts {
                    let kind = match check(from, to, 4).route {
                        Route::Registers { .. } => 0,
                        Route::Select { .. } => 1,
                        Route::Shuffle { .. } => 2,
                        Route::Scratch(_) => 3,
                    };
                    kinds[kind] += 1;
                }
            }
        }
        assert!(kinds.iter().all(|&k| k > 0), "{kinds:?}");
    }

    #[test]
    fn a_transpose_is_padded_against_conflicts() {
        let shape = Shape::new(&[64, 64]);
        let rows = Layout::coalesced(&shape, 1, 4, 4);
        let columns = Layout::coalesced(&shape, 0, 1, 4);
        let conversion = Conversion::between(&rows, &columns, 4, &CostModel::H200);
        let Route::Scratch(staging) = conversion.route else { panic!("{conversion}") };
        assert!(staging.pad > 0);
        // 4096 elements of 4 bytes are 128 wavefronts each way at best; without padding reading
        // takes 32 times that.
        assert!(conversion.cost - CostModel::H200.latencies.barrier <= 4 * 128 + 128, "{conversion}");
        assert_eq!(Staging::packed(4096, 4).wavefronts(&columns, 32), 32 * 128);
    }

    #[test]
    fn staging_offsets_are_additive_and_apart() {
        let staging = Staging::padded(256, 4, 5, 4);
        let offsets: Vec<u32> = (0..256).map(|i| staging.offset(i)).collect();
        assert!(offsets.windows(2).all(|w| w[1] >= w[0] + 4));
        assert!(offsets[255] + 4 <= staging.size);
        assert_eq!(staging.offset(0b10100101), staging.offset(0b10000001) + staging.offset(0b100100));
    }

    #[test]
    fn one_warp_to_another_needs_scratch() {
        let shape = Shape::new(&[64]);
        let a = Layout::coalesced(&shape, 0, 1, 2);
        let b = Layout::coalesced(&shape, 0, 1, 1);
        assert!(!is_scratch(&check(&b, &b, 4)));
        let both = Layout::coalesced(&Shape::new(&[64, 64]), 1, 2, 2).without(&Shape::new(&[64, 64]), 1);
        assert!(is_scratch(&check(&a, &both, 4)));
    }
}

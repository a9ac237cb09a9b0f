//! Where a thread stands, and what its warp multiplies.

use super::sizes::{NOWHERE, Sizes, WARP};
use kiln::prelude::*;

/// Four words of weights.
pub type Quad = [Val<u32>; 4];

/// A matrix, or those of all layers, among the weights.
#[derive(Clone, Copy)]
pub struct Rows {
    /// All weights.
    pub weights: View<u32, 1>,
    /// The word that it begins with.
    pub first: usize,
    /// Numbers of a row.
    pub columns: usize,
}

/// Where a thread stands.
#[derive(Clone, Copy)]
pub struct Place {
    pub sizes: Sizes,
    pub block: Idx,
    pub thread: Idx,
    pub lane: Idx,
    pub warp: Idx,
    /// Whether its warp multiplies.
    pub works: Val<bool>,
}

impl Place {
    pub fn new(sizes: Sizes) -> Place {
        let warp = warp_id();
        let works = warp.lt(sizes.warps);
        Place { sizes, block: program_id(0), thread: thread_id(0), lane: lane_id(), warp, works }
    }

    /// The warp's row in a round, of so many; `NOWHERE` if it has none.
    pub fn row(self, round: impl IntoIndex, rows: usize) -> Idx {
        let all = (self.sizes.blocks * self.sizes.warps) as i64;
        let row = self.warp * self.sizes.blocks as i64 + self.block + round.into_index() * all;
        select(self.works & row.lt(rows), row, NOWHERE)
    }

    /// In how many rounds all rows are done.
    pub fn rounds(self, rows: usize) -> usize {
        rows.div_ceil(self.sizes.blocks * self.sizes.warps)
    }

    /// The elements of a vector that belong to the thread; `NOWHERE` where it has fewer.
    pub fn own(self, length: usize) -> Vec<Idx> {
        let workers = self.sizes.workers();
        let own = (0..length.div_ceil(workers)).map(|i| {
            let element = self.thread + (i * workers) as i64;
            select(self.works & element.lt(length), element, NOWHERE)
        });
        own.collect()
    }

    /// Begins to load the lane's quads of a part of a row of so many quads, from one on.
    pub fn load(self, rows: Rows, row: Idx, first: Idx, quads: usize) -> Vec<Quad> {
        let row_quads = rows.columns / self.sizes.quad();
        let loads = (0..quads.div_ceil(WARP)).map(|i| {
            let quad = self.lane + (i * WARP) as i64;
            let inside = row.ge(0) & quad.lt(quads) & (first + quad).lt(row_quads);
            let at = (row * row_quads as i64 + first + quad) * 4 + rows.first as i64;
            rows.weights.get_quad(select(inside, at, NOWHERE))
        });
        loads.collect()
    }
}

/// A vector in shared memory, as products read it: where a quad of weights is eight numbers, the
/// first four of each such run come first, so that the lanes of a warp read adjacent ones.
#[derive(Clone, Copy)]
pub struct Factor {
    memory: Shared<u32, 1>,
    sizes: Sizes,
    length: usize,
}

impl Factor {
    pub fn new(sizes: Sizes, length: usize) -> Factor {
        Factor { memory: shared::<u32, 1>([length]), sizes, length }
    }

    pub fn place(self, element: Idx) -> Idx {
        if !self.sizes.half {
            return element;
        }
        let within = element % 8;
        (element / 8) * 4 + within % 4 + (within / 4) * (self.length / 2) as i64
    }

    /// Stores an element, which is one of the thread's own or `NOWHERE`.
    pub fn put(self, element: Idx, value: Val<f32>) {
        let at = select(element.ge(0), self.place(element), NOWHERE);
        // SAFETY: each thread has elements of its own, and a barrier comes before they are read.
        unsafe { self.memory.scatter(at, value.bitcast::<u32>()) };
    }

    /// The numbers that the lane's quads of weights are multiplied with. Behind the end they are
    /// others, whose weights are zeros.
    pub fn quads(self, place: Place, first: Idx, quads: usize) -> Vec<Vec<Val<f32>>> {
        let all = self.length / self.sizes.quad();
        let part = |at: Idx| {
            // SAFETY: a whole quad of the memory.
            unsafe { self.memory.get_quad_unchecked(at * 4) }.map(|word| word.bitcast::<f32>())
        };
        let loads = (0..quads.div_ceil(WARP)).map(|i| {
            let quad = (first + place.lane + (i * WARP) as i64).min(all as i64 - 1);
            let mut numbers = part(quad).to_vec();
            if self.sizes.half {
                numbers.extend(part(quad + all as i64));
            }
            numbers
        });
        loads.collect()
    }
}

/// The numbers of a quad of weights.
fn numbers(sizes: Sizes, quad: &Quad) -> Vec<Val<f32>> {
    if !sizes.half {
        return quad.iter().map(|word| word.bitcast::<f32>()).collect();
    }
    let both = |word: &Val<u32>| [(*word << 16).bitcast::<f32>(), (*word & 0xffff_0000u32).bitcast::<f32>()];
    quad.iter().flat_map(both).collect()
}

/// The product of a row and a vector, in all lanes of the warp.
pub fn product(sizes: Sizes, weights: &[Quad], x: &[Vec<Val<f32>>]) -> Val<f32> {
    let mut sums = [val(0.0f32); 2];
    for (quad, x) in weights.iter().zip(x) {
        for (i, (weight, x)) in numbers(sizes, quad).into_iter().zip(x).enumerate() {
            sums[i % 2] = weight.fma(*x, sums[i % 2]);
        }
    }
    sum_of_lanes(sums[0] + sums[1], WARP)
}

/// The sum over groups of so many lanes, in each of them.
pub fn sum_of_lanes(value: Val<f32>, lanes: usize) -> Val<f32> {
    let mut sum = value;
    for step in 0..lanes.ilog2() {
        sum += shuffle_xor(sum, 1i64 << step);
    }
    sum
}

/// The greater of two scores, or that of the lower token.
pub fn better(a: (Val<f32>, Val<i32>), b: (Val<f32>, Val<i32>)) -> (Val<f32>, Val<i32>) {
    let first = a.0.gt(b.0) | (a.0.eq(b.0) & a.1.lt(b.1));
    (select(first, a.0, b.0), select(first, a.1, b.1))
}

/// The best of all lanes.
pub fn best_of_lanes(mine: (Val<f32>, Val<i32>)) -> (Val<f32>, Val<i32>) {
    let mut best = mine;
    for step in 0..WARP.ilog2() {
        let by = 1i64 << step;
        best = better(best, (shuffle_xor(best.0, by), shuffle_xor(best.1, by)));
    }
    best
}

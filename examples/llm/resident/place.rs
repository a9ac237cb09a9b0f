//! Where a thread stands, and what its warp multiplies.
//!
//! Indices are not checked: all of them follow from the sizes, as the lengths of the tensors do.
//! They are 32 bits wide, so that they take fewer instructions.

use super::sizes::{Sizes, WARP};
use kiln::prelude::*;

/// An index.
pub type Int = Val<i32>;

/// Four words of weights.
pub type Quad = [Val<u32>; 4];

/// An element of memory.
pub fn at<T: Elem>(view: View<T, 1>, index: Int) -> Val<T> {
    // SAFETY: see the module.
    unsafe { view.get_unchecked(index) }
}

/// Stores an element of the block's memory, where a condition holds.
#[device]
pub fn put<T: Elem>(memory: Shared<T, 1>, condition: Val<bool>, index: Int, value: Val<T>) {
    if condition {
        // SAFETY: the index is inside, as the module says. One thread of the block has it, and a
        // barrier stands between this and every access by others.
        unsafe { memory.scatter_unchecked(index, value) };
    }
}

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
    pub block: Int,
    pub thread: Int,
    pub lane: Int,
    pub warp: Int,
    /// Whether its warp multiplies.
    pub works: Val<bool>,
}

/// An element or a row that may be a thread's or a warp's own.
#[derive(Clone, Copy)]
pub struct Own {
    /// Its number, or another one where it is not.
    pub number: Int,
    /// Whether it is.
    pub is: Val<bool>,
}

impl Place {
    pub fn new(sizes: Sizes) -> Place {
        let [block, thread] = [program_id(0), thread_id(0)].map(|index| index.cast::<i32>());
        let (warp, lane) = (thread / WARP as i32, thread % WARP as i32);
        Place { sizes, block, thread, lane, warp, works: warp.lt(sizes.warps as i32) }
    }

    /// The warp's row in a round, of so many.
    pub fn row(self, round: impl IntoVal<i32>, rows: usize) -> Own {
        let all = (self.sizes.blocks * self.sizes.warps) as i32;
        let row = self.warp * self.sizes.blocks as i32 + self.block + round.into_val() * all;
        Own { number: row.min(rows as i32 - 1), is: self.works & row.lt(rows as i32) }
    }

    /// In how many rounds all rows are done.
    pub fn rounds(self, rows: usize) -> usize {
        rows.div_ceil(self.sizes.blocks * self.sizes.warps)
    }

    /// The elements of a vector that belong to the thread.
    pub fn own(self, length: usize) -> Vec<Own> {
        let workers = self.sizes.workers();
        let own = (0..length.div_ceil(workers)).map(|i| {
            let element = self.thread + (i * workers) as i32;
            let is = self.works & element.lt(length as i32);
            Own { number: element.min(length as i32 - 1), is }
        });
        own.collect()
    }

    /// Begins to load the lane's quads of a part of a row, from one on. Lanes behind the end of the
    /// row load its last quad, which is multiplied with zeros.
    pub fn load(self, rows: Rows, row: Int, first: Int, quads: usize) -> Vec<Quad> {
        let row_quads = (rows.columns / self.sizes.quad()) as i32;
        let begin = row * row_quads;
        let loads = (0..quads.div_ceil(WARP)).map(|i| {
            let quad = (first + self.lane + (i * WARP) as i32).min(row_quads - 1);
            // SAFETY: see the module. The matrices begin at whole quads.
            unsafe { rows.weights.get_quad_unchecked((begin + quad) * 4 + rows.first as i32) }
        });
        loads.collect()
    }
}

/// A vector in shared memory, as products read it: where a quad of weights is eight numbers, the
/// first four of each such run come first, so that the lanes of a warp read adjacent ones. Behind
/// its end there are zeros, up to a whole number of quads for each lane of a warp.
#[derive(Clone, Copy)]
pub struct Factor {
    memory: Shared<u32, 1>,
    sizes: Sizes,
    /// Numbers, with the zeros behind.
    length: usize,
}

impl Factor {
    /// A vector that products read in parts of so many quads.
    pub fn new(place: Place, length: usize, part: usize) -> Factor {
        let (sizes, quad) = (place.sizes, place.sizes.quad());
        let parts = length.div_ceil(part * quad);
        let length = ((parts - 1) * part + part.next_multiple_of(WARP)) * quad;
        let factor = Factor { memory: shared::<u32, 1>([length]), sizes, length };
        for own in place.own(length) {
            put(factor.memory, own.is, own.number, val(0u32));
        }
        factor
    }

    /// Stores an element of the thread's own.
    pub fn put(self, own: Own, value: Val<f32>) {
        let element = own.number;
        let place = if self.sizes.half {
            let within = element % 8;
            (element / 8) * 4 + within % 4 + (within / 4) * (self.length / 2) as i32
        } else {
            element
        };
        put(self.memory, own.is, place, value.bitcast::<u32>());
    }

    /// The numbers that the lane's quads of weights are multiplied with.
    pub fn quads(self, place: Place, first: Int, quads: usize) -> Vec<Vec<Val<f32>>> {
        let all = (self.length / self.sizes.quad()) as i32;
        let part = |at: Int| {
            // SAFETY: a whole quad of the memory.
            unsafe { self.memory.get_quad_unchecked(at * 4) }.map(|word| word.bitcast::<f32>())
        };
        let loads = (0..quads.div_ceil(WARP)).map(|i| {
            let quad = first + place.lane + (i * WARP) as i32;
            let mut numbers = part(quad).to_vec();
            if self.sizes.half {
                numbers.extend(part(quad + all));
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

/// The greatest of all lanes.
pub fn greatest_of_lanes(value: Val<f32>) -> Val<f32> {
    (0..WARP.ilog2()).fold(value, |most, step| most.max(shuffle_xor(most, 1i64 << step)))
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

//! Numbers that blocks hand on to each other.
//!
//! Between products blocks wait at a barrier of the grid, or, on request, for the numbers alone.
//! Then each number travels in one word of 64 bits with the stamp of its layer. Who reads it loads
//! until the stamp is there: a store and a load, where a barrier takes a fence, a count and then
//! the load. A word is written anew in the next layer at the earliest. Its writer has read numbers
//! of the last product from every block by then, each of which that block stored after all that it
//! has read in the layer before; so nobody waits any more for what is overwritten.

use kiln::prelude::*;

/// Numbers read at once, at most.
pub const AT_ONCE: usize = 12;

/// Where numbers are handed on, and the stamp of the present layer.
#[derive(Clone, Copy)]
pub struct Line {
    /// The numbers' bits, with stamps in the upper halves.
    pub passed: ViewMut<u64, 1>,
    /// The stamp.
    pub stamp: Val<u32>,
    /// Whether stamps are looked at; else a barrier of the grid stands between.
    pub stamped: bool,
}

/// Leaves a number's bits for other blocks, where a condition holds. The place is inside.
#[device]
pub fn pass(line: Line, condition: Val<bool>, at: Val<i32>, bits: Val<u32>) {
    if condition {
        let word = bits.cast::<u64>() | (line.stamp.cast::<u64>() << 32);
        if line.stamped {
            // SAFETY: one thread of the launch has the place, and others load it in order.
            unsafe { line.passed.set_ordered_unchecked(at, word, Order::Relaxed, Scope::Device) };
        } else {
            // SAFETY: one thread of the launch has the place, and nobody reads it before the next
            // barrier of the grid.
            unsafe { line.passed.scatter_unchecked(at, word) };
        }
    }
}

/// The bits of numbers that other blocks leave at some places, at most [`AT_ONCE`].
#[device]
pub fn receive(line: Line, at: &[Val<i32>]) -> Vec<Val<u32>> {
    let count = at.len();
    let mut words = [val(0u64); AT_ONCE];
    if line.stamped {
        let mut waits = val(true);
        while waits {
            let load = |i: usize| match i < count {
                // SAFETY: the place is inside.
                true => unsafe { line.passed.get_ordered_unchecked(at[i], Order::Relaxed, Scope::Device) },
                false => val(0u64),
            };
            let fresh: [Val<u64>; AT_ONCE] = std::array::from_fn(load);
            let is_there = |i: usize| (fresh[i] >> 32).cast::<u32>().eq(line.stamp);
            let all = (1..count).fold(is_there(0), |all, i| all & is_there(i));
            words = fresh;
            waits = !all;
        }
    } else {
        words = std::array::from_fn(|i| match i < count {
            // SAFETY: the place is inside.
            true => unsafe { line.passed.get_unchecked(at[i]) },
            false => val(0u64),
        });
    }
    (0..count).map(|i| words[i].cast::<u32>()).collect()
}

/// The numbers that other blocks leave at places behind a first one.
pub fn numbers(line: Line, first: usize, places: &[Val<i32>]) -> Vec<Val<f32>> {
    let at: Vec<Val<i32>> = places.iter().map(|&place| place + first as i32).collect();
    at.chunks(AT_ONCE).flat_map(|at| receive(line, at)).map(|bits| bits.bitcast::<f32>()).collect()
}

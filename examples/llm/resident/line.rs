//! Numbers that blocks hand on to each other through memory of the device, on either side of a
//! barrier of the grid.

use super::place::Int;
use kiln::prelude::*;

/// Where numbers are handed on, as their bits.
pub type Line = ViewMut<u32, 1>;

/// Leaves a number's bits for other blocks, where a condition holds. The place is inside.
#[device]
pub fn pass(line: Line, condition: Val<bool>, at: Int, bits: Val<u32>) {
    if condition {
        // SAFETY: one thread of the launch has the place, and nobody reads it before the next
        // barrier of the grid.
        unsafe { line.scatter_unchecked(at, bits) };
    }
}

/// The bits of a number that another block has left. The place is inside.
pub fn receive(line: Line, at: Int) -> Val<u32> {
    // SAFETY: the place is inside.
    unsafe { line.get_unchecked(at) }
}

/// The numbers that other blocks have left at places behind a first one.
pub fn numbers(line: Line, first: usize, places: &[Int]) -> Vec<Val<f32>> {
    places.iter().map(|&place| receive(line, place + first as i32).bitcast::<f32>()).collect()
}

//! The weights of a warp: its rows of each matrix, or parts of them, one after the other. A warp
//! loads each of them while it multiplies the one before, also past a barrier.

use super::place::{Int, Place, Quad};
use super::sizes::{ITEM, Sizes, WARP};
use kiln::prelude::*;

/// Quads of a lane: of a row, or of a part of one.
pub type Item = [Quad; ITEM];

/// The matrices of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// Queries, keys and values.
    Qkv,
    /// The attention's product.
    Output,
    /// Gates.
    Gate,
    /// What gates are multiplied with.
    Up,
    /// The last product, whose rows are divided into parts.
    Down,
}

/// Where an item of a warp begins, in quads, and its last quad from there on.
#[derive(Clone, Copy)]
pub struct Spot {
    first: Int,
    last: Int,
    /// Quads of a lane, and whether all lanes have as many.
    quads: usize,
    whole: bool,
}

/// All weights, by layers.
#[derive(Clone, Copy)]
pub struct Weights {
    pub place: Place,
    pub all: View<u32, 1>,
}

impl Weights {
    /// Rows of a matrix in a layer, and parts of a row.
    fn rows(sizes: Sizes, matrix: Matrix) -> (usize, usize) {
        match matrix {
            Matrix::Qkv => (sizes.qkv(), 1),
            Matrix::Output => (sizes.width, 1),
            Matrix::Gate | Matrix::Up => (sizes.inner, 1),
            Matrix::Down => (sizes.width, sizes.row_parts()),
        }
    }

    /// Rounds in which all of a matrix is multiplied.
    pub fn rounds(self, matrix: Matrix) -> usize {
        let (rows, parts) = Weights::rows(self.place.sizes, matrix);
        self.place.rounds(rows * parts)
    }

    /// The warp's item of a round.
    pub fn spot(self, matrix: Matrix, round: Int, layer: Int) -> Spot {
        let sizes = self.place.sizes;
        let (rows, parts) = Weights::rows(sizes, matrix);
        let [qkv, output, gates, down, ..] = sizes.weights();
        // Of each layer gates come before what they are multiplied with.
        let (begin, columns, before, of_layer) = match matrix {
            Matrix::Qkv => (qkv, sizes.width, 0, rows),
            Matrix::Output => (output, sizes.heads * sizes.head, 0, rows),
            Matrix::Gate => (gates, sizes.width, 0, 2 * rows),
            Matrix::Up => (gates, sizes.width, rows, 2 * rows),
            Matrix::Down => (down, sizes.inner, 0, rows),
        };
        let quads = columns / sizes.quad();
        let part = if parts == 1 { quads } else { sizes.part_quads() };
        let unit = self.place.row(round, rows * parts).number;
        let (row, at) = (unit / parts as i32, unit % parts as i32 * part as i32);
        let row = row + layer * of_layer as i32 + before as i32;
        Spot {
            first: row * quads as i32 + at + (begin / 4) as i32,
            last: (val(quads as i32 - 1) - at).min(part as i32 - 1),
            quads: part.div_ceil(WARP),
            whole: part.is_multiple_of(WARP) && quads.is_multiple_of(WARP),
        }
    }

    /// Begins to load an item. Lanes behind its end load its last quad, which is multiplied with
    /// zeros.
    pub fn load(self, spot: Spot) -> Item {
        std::array::from_fn(|i| {
            if i >= spot.quads {
                return [val(0u32); 4];
            }
            let lane = self.place.lane + (i * WARP) as i32;
            let quad = if spot.whole { lane } else { lane.min(spot.last) };
            // SAFETY: all of it follows from the sizes, as the length of the weights does, and the
            // matrices begin at whole quads.
            unsafe { self.all.get_quad_unchecked((spot.first + quad) * 4) }
        })
    }
}

/// The first of two spots if a condition holds, else the other.
pub fn either(condition: Val<bool>, yes: Spot, no: Spot) -> Spot {
    Spot {
        first: select(condition, yes.first, no.first),
        last: select(condition, yes.last, no.last),
        quads: yes.quads.max(no.quads),
        whole: yes.whole && no.whole && yes.quads == no.quads,
    }
}

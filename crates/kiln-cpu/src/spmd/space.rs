//! The lanes of a block, as places on axes.

use kiln_ir::Axis;

/// The lanes from which on sums at indices are one call for all of them.
pub(crate) const ENOUGH_LANES: u32 = 32;

/// The places of a block's lanes. Axes with one thread are left out, so that lanes which follow
/// each other differ on the first axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSpace {
    /// The number of places on each axis; the first is the fastest.
    pub(crate) extents: [u32; 3],
    /// Which of them an axis of threads is.
    axes: [usize; 3],
}

impl LaneSpace {
    /// The lanes of a block. Where it has more lanes than threads they have no places but their
    /// number.
    pub(crate) fn of(block: [u32; 3], lanes: u32) -> LaneSpace {
        let mut space = LaneSpace { extents: [1; 3], axes: [0; 3] };
        if block.iter().product::<u32>() != lanes {
            space.extents[0] = lanes;
            return space;
        }
        let wide = (0..3).filter(|&axis| block[axis] > 1);
        for (next, axis) in wide.enumerate() {
            space.extents[next] = block[axis];
            space.axes[axis] = next;
        }
        space
    }

    /// The number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.extents.iter().product::<u32>() as usize
    }

    /// The axis of lanes that an axis of threads with more than one is.
    pub(crate) fn axis(&self, axis: Axis) -> usize {
        self.axes[axis as usize]
    }

    /// How many lanes that follow each other are done at a time.
    pub(crate) fn width(&self) -> usize {
        match self.extents[0] {
            0..4 => 1,
            4..8 => 4,
            8.. => 8,
        }
    }
}

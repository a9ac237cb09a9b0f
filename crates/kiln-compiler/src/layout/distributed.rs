//! Which thread and register holds which element of a tile.

use super::linear::{Bases, Linear};
use crate::target::WARP;
use kiln_ir::Shape;
use smallvec::SmallVec;
use std::fmt;

/// The threads that hold a tile: warps of so many threads. Both are powers of two.
///
/// A number stands for so many warps of [`WARP`] threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Threads {
    /// Threads of a warp.
    pub width: u32,
    /// Warps.
    pub warps: u32,
}

impl From<u32> for Threads {
    fn from(warps: u32) -> Threads {
        Threads { width: WARP, warps }
    }
}

impl Threads {
    /// Bits of the index of a thread.
    fn bits(self) -> u32 {
        self.width.trailing_zeros() + self.warps.trailing_zeros()
    }
}

/// A distributed layout: a linear map from (register, lane, warp) to the row-major index of an
/// element.
///
/// Every base is zero or a power of two, and the powers of two that occur are distinct and cover
/// the tile. A zero lane or warp base means that the threads which differ in that bit hold the same
/// elements; register bases are never zero.
///
/// Because bases are flat indices, reshaping a tile leaves its layout alone.
///
/// ```
/// use kiln_compiler::layout::{Layout, Threads};
/// use kiln_ir::Shape;
/// // 256 elements over one warp: 4 adjacent elements a thread, twice.
/// let layout = Layout::coalesced(&Shape::new(&[256]), 0, 4, 1);
/// assert_eq!(layout.to_string(), "registers [1, 2, 128] lanes [4, 8, 16, 32, 64] warps []");
/// assert_eq!(layout.index(0b101, 3, 0), 1 + 128 + 12);
/// // Over four warps of 8 threads: twice, too.
/// let layout = Layout::coalesced(&Shape::new(&[256]), 0, 4, Threads { width: 8, warps: 4 });
/// assert_eq!(layout.to_string(), "registers [1, 2, 128] lanes [4, 8, 16] warps [32, 64]");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    register: Bases,
    lane: Bases,
    warp: Bases,
}

/// The place of an axis in a flat index whose extents are powers of two: `count` bits from bit
/// `shift` up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisBits {
    /// The lowest bit.
    pub shift: u32,
    /// How many.
    pub count: u32,
}

impl AxisBits {
    /// The bits of an axis.
    pub fn of(shape: &Shape, axis: usize) -> AxisBits {
        let (_, extent, inner) = shape.around(axis);
        AxisBits { shift: inner.trailing_zeros(), count: extent.trailing_zeros() }
    }

    /// The coordinate on this axis of a flat index.
    pub fn coordinate(self, flat: u32) -> u32 {
        flat >> self.shift & ((1 << self.count) - 1)
    }

    /// The flat index without this axis.
    pub fn remove(self, flat: u32) -> u32 {
        let low = flat & ((1 << self.shift) - 1);
        (flat >> (self.shift + self.count)) << self.shift | low
    }

    /// Whether a flat index has a set bit on this axis.
    pub fn touches(self, flat: u32) -> bool {
        self.coordinate(flat) != 0
    }
}

impl Layout {
    /// The layout of a scalar: every thread holds it.
    pub fn scalar(threads: impl Into<Threads>) -> Layout {
        Layout::deal([], 0, threads.into())
    }

    /// Deals the bits of a flat index, in the order given: `vector` bits to registers, then one to
    /// each bit of the lane index, one to each bit of the warp index, the rest to registers. Lane
    /// and warp bits for which nothing is left hold copies.
    fn deal(bits: impl IntoIterator<Item = u32>, vector: u32, threads: Threads) -> Layout {
        let mut bases = bits.into_iter().map(|bit| 1u32 << bit);
        let mut register: Bases = bases.by_ref().take(vector as usize).collect();
        let lane = (0..threads.width.trailing_zeros()).map(|_| bases.next().unwrap_or(0)).collect();
        let warp = (0..threads.warps.trailing_zeros()).map(|_| bases.next().unwrap_or(0)).collect();
        register.extend(bases);
        Layout { register, lane, warp }
    }

    /// The layout with these bases.
    pub(super) fn of_bases(register: Bases, lane: Bases, warp: Bases) -> Layout {
        Layout { register, lane, warp }
    }

    /// The layout for memory that is contiguous along `axis`: threads hold `vector` adjacent
    /// elements, neighboring lanes neighboring vectors. The vector is shortened where otherwise
    /// threads would go without elements.
    pub fn coalesced(shape: &Shape, axis: usize, vector: u32, threads: impl Into<Threads>) -> Layout {
        let threads = threads.into();
        let mut bits: SmallVec<[u32; 20]> = SmallVec::new();
        if shape.rank() > 0 {
            let others = (0..shape.rank()).rev().filter(|&a| a != axis);
            for a in std::iter::once(axis).chain(others) {
                let place = AxisBits::of(shape, a);
                bits.extend(place.shift..place.shift + place.count);
            }
        }
        let spare = (bits.len() as u32).saturating_sub(threads.bits());
        Layout::deal(bits, vector.trailing_zeros().min(spare), threads)
    }

    /// The layout for elements that are adjacent along one axis of memory and another of a slot of
    /// shared memory: threads hold up to `vector` neighbors along the first, and along the second
    /// as many of `chunk` as leave no thread without elements. The eight lanes that store chunks at
    /// a time have different banks of a slot: two lines, four apart, and four chunks of each. The
    /// lanes beyond go on along the first axis, where memory is read by sectors, and so does what
    /// is left for registers: along the second each would need an address of its own.
    pub fn transposing(
        shape: &Shape,
        [from, to]: [usize; 2],
        [vector, chunk]: [u32; 2],
        threads: impl Into<Threads>,
    ) -> Layout {
        let threads = threads.into();
        let [from, to] = [from, to].map(|axis| AxisBits::of(shape, axis));
        let spare = (from.count + to.count).saturating_sub(threads.bits());
        let wide = vector.trailing_zeros().min(from.count).min(spare);
        let deep = chunk.trailing_zeros().min(to.count).min(spare - wide);
        let bits = |of: AxisBits, range: std::ops::Range<u32>| {
            (range.start..range.end.min(of.count)).map(move |bit| of.shift + bit)
        };
        let order = bits(from, 0..wide)
            .chain(bits(to, 0..deep))
            .chain(bits(from, wide..wide + 1))
            .chain(bits(to, deep..deep + 2))
            .chain(bits(from, wide + 1..wide + 3))
            .chain(bits(to, deep + 2..to.count))
            .chain(bits(from, wide + 3..from.count));
        Layout::deal(order, wide + deep, threads)
    }

    /// The layout in which threads accumulate a product of matrices `[m, n]`: each owns blocks of
    /// up to 8 × 8 elements, columns in vectors of 4.
    pub fn product(shape: &Shape, threads: impl Into<Threads>) -> Layout {
        let threads = threads.into();
        let (rows, columns) = (AxisBits::of(shape, 0), AxisBits::of(shape, 1));
        let spare = (rows.count + columns.count).saturating_sub(threads.bits());
        let high = rows.count.min(3).min(spare / 2);
        let wide = columns.count.min(2).min(spare - high);
        let mut row = rows.shift..rows.shift + rows.count;
        let mut column = columns.shift..columns.shift + columns.count;
        let mut bits: SmallVec<[u32; 20]> = SmallVec::new();
        bits.extend(column.by_ref().take(wide as usize));
        bits.extend(row.by_ref().take(high as usize));
        bits.extend(column.by_ref().take(3)); // 8 lanes side by side, 4 one above the other
        bits.extend(row.by_ref().take(2));
        bits.extend(row);
        bits.extend(column);
        Layout::deal(bits, wide + high, threads)
    }

    /// The layout in which warpgroups accumulate a product `[m, n]` (PTX ISA, "wgmma.mma_async",
    /// register fragments): each of them 64 rows, 16 a warp; a thread has pairs of adjacent
    /// columns, 8 apart, in two rows that are 8 apart. Rows beyond those of the warps are in
    /// registers.
    pub fn wgmma(shape: &Shape, warps: u32) -> Layout {
        let (rows, columns) = (AxisBits::of(shape, 0), AxisBits::of(shape, 1));
        let row = |i: std::ops::Range<u32>| i.filter(|i| *i < rows.count).map(|i| rows.shift + i);
        let column = |i: std::ops::Range<u32>| i.filter(|i| *i < columns.count).map(|i| columns.shift + i);
        let by_warps = 4 + warps.trailing_zeros();
        let bits = column(0..1)
            .chain(row(3..4))
            .chain(column(1..3))
            .chain(row(0..3))
            .chain(row(4..by_warps))
            .chain(column(3..32))
            .chain(row(by_warps..32));
        Layout::deal(bits, 2, warps.into())
    }

    /// The layout in which a product takes a tile from registers whose elements, packed by pairs,
    /// have this shape: that of [`Layout::wgmma`], of which a register holds two neighbors.
    pub fn wgmma_pairs(shape: &Shape, warps: u32) -> Layout {
        let elements = Shape::new(&[shape[0], 2 * shape[1]]);
        Layout::wgmma(&elements, warps).map(|b| b >> 1)
    }

    /// The layout of a tile whose pairs of neighbors have this one: both in one thread, the first
    /// register bit between them.
    pub fn before_pairs(&self) -> Layout {
        let mut tile = self.map(|b| b << 1);
        tile.register.insert(0, 1);
        tile
    }

    /// The layout for a scan along `axis`: adjacent elements in registers, then lanes, then warps,
    /// so that threads in order hold runs in order.
    pub fn scanning(shape: &Shape, axis: usize, threads: impl Into<Threads>) -> Layout {
        let (threads, place) = (threads.into(), AxisBits::of(shape, axis));
        let spare = place.count.saturating_sub(threads.bits()).min(2);
        Layout::coalesced(shape, axis, 1 << spare, threads)
    }

    /// The number of elements a thread holds.
    pub fn registers(&self) -> usize {
        1 << self.register.len()
    }

    /// Bases of the register index, lowest bit first.
    pub fn register(&self) -> &[u32] {
        &self.register
    }

    /// Bases of the lane index.
    pub fn lane(&self) -> &[u32] {
        &self.lane
    }

    /// Bases of the warp index.
    pub fn warp(&self) -> &[u32] {
        &self.warp
    }

    /// Bases of the index of the thread in its block: lanes, then warps.
    pub fn thread(&self) -> Bases {
        self.lane.iter().chain(&self.warp).copied().collect()
    }

    /// The whole map, with registers in the low input bits, then lanes, then warps.
    pub fn linear(&self) -> Linear {
        let all: Bases = self.register.iter().chain(&self.lane).chain(&self.warp).copied().collect();
        Linear::new(&all)
    }

    /// The flat index of an element.
    pub fn index(&self, register: usize, lane: u32, warp: u32) -> u32 {
        let lanes = self.lane.len() as u32;
        self.register_index(register)
            ^ Linear::new(&self.thread()).apply(lane & ((1 << lanes) - 1) | warp << lanes)
    }

    /// What the register adds to the flat index.
    pub fn register_index(&self, register: usize) -> u32 {
        self.register.iter().enumerate().filter(|(i, _)| register >> i & 1 == 1).map(|(_, b)| b).sum()
    }

    /// The register that holds the element whose flat index differs from that of register 0 by
    /// `flat`'s bits. Bits that no register has are ignored.
    pub fn find_register(&self, flat: u32) -> usize {
        self.register.iter().enumerate().filter(|(_, b)| flat & *b != 0).map(|(i, _)| 1 << i).sum()
    }

    /// The bits of the thread index that make no difference to what a thread holds, as a mask.
    pub fn copies(&self) -> u32 {
        self.thread().iter().enumerate().filter(|(_, b)| **b == 0).map(|(i, _)| 1 << i).sum()
    }

    fn map(&self, f: impl Fn(u32) -> u32) -> Layout {
        Layout {
            register: self.register.iter().map(|&b| f(b)).filter(|&b| b != 0).collect(),
            lane: self.lane.iter().map(|&b| f(b)).collect(),
            warp: self.warp.iter().map(|&b| f(b)).collect(),
        }
    }

    /// The layout of a tile of which this one's elements are vectors of `1 << bits` along an axis
    /// of `shape`: the elements of a vector in one thread, the first register bits between them.
    pub fn of_vectors(&self, shape: &Shape, axis: usize, bits: u32) -> Layout {
        let place = AxisBits::of(shape, axis);
        let spread = |b: u32| {
            let low = b & ((1 << place.shift) - 1);
            b >> place.shift << (place.shift + bits) | low
        };
        let mut tile = self.map(spread);
        (0..bits).for_each(|bit| tile.register.insert(bit as usize, 1 << (place.shift + bit)));
        tile
    }

    /// The layout without an axis of `shape`: what is left of this one when the axis is reduced
    /// away, or what to broadcast along the axis from.
    pub fn without(&self, shape: &Shape, axis: usize) -> Layout {
        let place = AxisBits::of(shape, axis);
        self.map(|b| place.remove(b))
    }

    /// The layout an operand must have so that its broadcast to `to` has this one, without moving
    /// an element.
    pub fn before_broadcast(&self, from: &Shape, to: &Shape) -> Layout {
        let places: SmallVec<[AxisBits; 4]> =
            (0..to.rank()).filter(|&a| from[a] != to[a]).map(|a| AxisBits::of(to, a)).collect();
        // From the outermost axis inwards, removing one leaves the places of those still to come.
        self.map(|b| places.iter().fold(b, |b, place| place.remove(b)))
    }

    /// The layout an operand of shape `from` must have so that its transpose by `perm` has this
    /// one.
    pub fn before_transpose(&self, from: &Shape, perm: &Shape) -> Layout {
        self.map(|b| transposed_index(b, from, perm, false))
    }

    /// The layout of the transpose by `perm` of a tile of shape `from` that has this layout.
    pub fn after_transpose(&self, from: &Shape, perm: &Shape) -> Layout {
        self.map(|b| transposed_index(b, from, perm, true))
    }
}

/// Maps a flat index between a tile of shape `from` and its transpose: forwards from the operand to
/// the result, or back.
fn transposed_index(flat: u32, from: &Shape, perm: &Shape, forwards: bool) -> u32 {
    let extents: SmallVec<[u32; 4]> = perm.extents().iter().map(|&p| from[p as usize]).collect();
    let to = Shape::new(&extents);
    (0..perm.rank()).fold(0, |moved, axis| {
        let there = AxisBits::of(&to, axis);
        let here = AxisBits::of(from, perm[axis] as usize);
        let (source, target) = if forwards { (here, there) } else { (there, here) };
        moved | source.coordinate(flat) << target.shift
    })
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "registers {:?} lanes {:?} warps {:?}", self.register, self.lane, self.warp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the invariant and that every element of the tile is held.
    fn check(layout: &Layout, len: usize) {
        let mut seen = 0u32;
        for &base in layout.linear().bases().iter().filter(|b| **b != 0) {
            assert!(base.is_power_of_two() && seen & base == 0, "{layout}");
            seen |= base;
        }
        assert!(layout.register().iter().all(|b| *b != 0), "{layout}");
        assert_eq!(seen as usize, len - 1, "{layout}");
    }

    #[test]
    fn coalesced_layouts_cover_tiles_of_every_size() {
        for shape in [&[1u32][..], &[2], &[16], &[32], &[4096], &[64, 64], &[8, 1, 4], &[1, 128], &[256, 2]] {
            let shape = Shape::new(shape);
            for axis in 0..shape.rank() {
                for warps in [1, 4, 16] {
                    for vector in [1, 4, 8] {
                        check(&Layout::coalesced(&shape, axis, vector, warps), shape.len());
                    }
                }
            }
        }
    }

    #[test]
    fn transposing_layouts_cover_tiles_of_every_size() {
        for shape in [&[16u32, 32][..], &[32, 8], &[128, 256], &[1, 64, 64], &[256, 16]] {
            let shape = Shape::new(shape);
            let axes = [shape.rank() - 2, shape.rank() - 1];
            for warps in [1, 4, 16] {
                for (vector, chunk) in [(1, 16), (4, 16), (4, 4)] {
                    for transposed in [axes, [axes[1], axes[0]]] {
                        check(&Layout::transposing(&shape, transposed, [vector, chunk], warps), shape.len());
                    }
                }
            }
        }
    }

    #[test]
    fn transposing_lanes_store_to_different_banks() {
        for (shape, elem) in [([128, 64], 1), ([128, 256], 1), ([32, 64], 4), ([64, 128], 2)] {
            let shape = Shape::new(&shape);
            let layout = Layout::transposing(&shape, [1, 0], [4, 16 / elem], 4);
            let slot = crate::layout::Slot::new(&shape, 0, elem);
            assert_eq!(slot.adjacent(&layout).len(), (16 / elem).trailing_zeros() as usize, "{layout}");
            for first in (0..32).step_by(8) {
                let bank = |lane| slot.offset(layout.index(0, lane, 0)) % 128 / 16;
                let banks: std::collections::HashSet<u32> = (first..first + 8).map(bank).collect();
                assert_eq!(banks.len(), 8, "{layout}");
            }
        }
    }

    #[test]
    fn product_layouts_cover_and_block() {
        for (m, n) in [(1, 1), (16, 16), (64, 64), (128, 32), (2, 256), (256, 1)] {
            for warps in [1, 4, 8] {
                let shape = Shape::new(&[m, n]);
                check(&Layout::product(&shape, warps), shape.len());
            }
        }
        let layout = Layout::product(&Shape::new(&[64, 64]), 4);
        assert_eq!(layout.register()[..4], [1, 2, 64, 128]);
    }

    #[test]
    fn small_tiles_leave_copies() {
        let layout = Layout::coalesced(&Shape::new(&[8]), 0, 4, 2);
        assert_eq!(layout.registers(), 1);
        assert_eq!(layout.copies(), 0b111000);
        assert_eq!(Layout::scalar(4).copies(), 0b1111111);
    }

    #[test]
    fn removing_an_axis_keeps_coordinates_of_the_others() {
        let shape = Shape::new(&[16, 8, 4]);
        let layout = Layout::coalesced(&shape, 2, 4, 2);
        for axis in 0..3 {
            let less = layout.without(&shape, axis);
            check(&less, shape.without(axis).len());
            for register in 0..layout.registers() {
                for lane in 0..32 {
                    for warp in 0..2 {
                        let flat = layout.index(register, lane, warp);
                        let expected = AxisBits::of(&shape, axis).remove(flat);
                        let part = AxisBits::of(&shape, axis).remove(layout.register_index(register));
                        assert_eq!(less.index(less.find_register(part), lane, warp), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn transposes_map_coordinates() {
        let (from, perm) = (Shape::new(&[4, 8, 2]), Shape::new(&[2, 0, 1]));
        let layout = Layout::coalesced(&from, 2, 2, 1);
        let after = layout.after_transpose(&from, &perm);
        let to = Shape::new(&[2, 4, 8]);
        for register in 0..layout.registers() {
            for lane in 0..32 {
                let (a, b) = (layout.index(register, lane, 0), after.index(register, lane, 0));
                for axis in 0..3 {
                    assert_eq!(
                        AxisBits::of(&to, axis).coordinate(b),
                        AxisBits::of(&from, perm[axis] as usize).coordinate(a)
                    );
                }
            }
        }
        assert_eq!(after.before_transpose(&from, &perm), layout);
    }

    #[test]
    fn broadcast_removes_stretched_axes() {
        let (from, to) = (Shape::new(&[1, 8, 1]), Shape::new(&[4, 8, 16]));
        let layout = Layout::coalesced(&to, 2, 4, 1);
        let before = layout.before_broadcast(&from, &to);
        check(&before, 8);
        for register in 0..layout.registers() {
            for lane in 0..32 {
                let flat = layout.index(register, lane, 0);
                let source =
                    before.find_register(AxisBits::of(&to, 1).coordinate(layout.register_index(register)));
                assert_eq!(before.index(source, lane, 0), AxisBits::of(&to, 1).coordinate(flat));
            }
        }
    }
}

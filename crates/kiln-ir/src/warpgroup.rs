//! Products of warpgroups, four warps each, from matrices in shared memory (PTX ISA 8.0,
//! "wgmma.mma_async"), and how these matrices lie there.

use crate::factor::Factors;

/// Bytes that all banks of shared memory give at once: the longest line of a panel.
const BANKS: u32 = 128;
/// Bytes of a chunk, which a swizzle leaves whole.
const CHUNK: u32 = 16;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// A matrix in shared memory: *lines* of elements that are adjacent in it, cut into panels of up to
/// 128 bytes. Within a panel lines follow each other, and chunks of 16 bytes change places within
/// their line, so that eight lines have each chunk in different banks: by exclusive or with the
/// number of the 128 bytes that they lie in, modulo the chunks of a line. These are the swizzles of
/// 128, 64 and 32 bytes of matrix descriptors.
///
/// The offset of an element is linear over GF(2) in the bits of its line and its place.
///
/// ```
/// use kiln_ir::Panels;
/// let panels = Panels { lines: 16, bytes: 128 };
/// assert_eq!((panels.offset(0, 16), panels.offset(1, 0), panels.offset(1, 16)), (16, 128 + 16, 128));
/// let narrow = Panels { lines: 16, bytes: 64 };
/// assert_eq!((narrow.offset(1, 0), narrow.offset(2, 0), narrow.offset(8, 0)), (64, 128 + 16, 512));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Panels {
    /// How many lines.
    pub lines: u32,
    /// The length of a line, a power of two, 16 or more.
    pub bytes: u32,
}

impl Panels {
    /// Bytes of a line within a panel.
    ///
    /// ```
    /// use kiln_ir::Panels;
    /// // 256 bytes of a line are two panels of 128, in which the swizzle begins anew every 8 lines.
    /// let panels = Panels { lines: 16, bytes: 256 };
    /// assert_eq!((panels.width(), panels.period()), (128, 1024));
    /// assert_eq!((panels.offset_of_chunks(1, 0, 16), panels.offset_of_chunks(1, 0, 32)), (128 + 16, 128 + 32));
    /// ```
    pub fn width(self) -> u32 {
        self.bytes.min(BANKS)
    }

    /// Where the swizzle begins anew, in bytes; the address of a matrix that a warpgroup multiplies
    /// is a multiple of it.
    pub fn period(self) -> u32 {
        8 * self.width()
    }

    /// The distance of a byte of a line from the beginning.
    pub fn offset(self, line: u32, byte: u32) -> u32 {
        self.offset_of_chunks(line, byte, CHUNK)
    }

    /// The same where chunks of so many bytes, a power of two from 16 and at most a line's, change
    /// places: what threads read that do not take 16 bytes at a time.
    pub fn offset_of_chunks(self, line: u32, byte: u32, chunk: u32) -> u32 {
        let width = self.width();
        let within = line * width + byte % width;
        byte / width * self.lines * width + (within ^ (within / BANKS % (width / chunk) * chunk))
    }
}

/// Along what the lines of a factor run.
///
/// ```
/// use kiln_ir::{Factors, GroupProduct, Lines, Panels, Scalar};
/// let factors = Factors::of(Scalar::BF16, Scalar::BF16).unwrap();
/// let product = GroupProduct { factors, extents: [64, 128, 32], left: None, right: Lines::Across, keep: true };
/// // The right factor is [32, 128]: 32 lines of 128 elements, or 128 lines of 32.
/// assert_eq!(product.panels(Lines::Across, 128), Panels { lines: 32, bytes: 256 });
/// assert_eq!(product.panels(Lines::Depth, 128), Panels { lines: 128, bytes: 64 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lines {
    /// What is summed over.
    Depth,
    /// The rows (of the left factor) or columns (of the right) of the result.
    Across,
}

/// A product `[m, n]` of depth k by all warpgroups of a block, of which each has 64 rows, then
/// those so many times 64 below. A thread holds pairs of neighboring columns: of lane `l` of warp
/// `w`, `(16 w + l / 4, 2 * (l % 4))`, the same 8 rows below, then both 8 columns further on, and
/// so on, then further blocks of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupProduct {
    /// The elements of both factors.
    pub factors: Factors,
    /// `[m, n, k]`: powers of two, multiples of 64 for each warpgroup, of 16 up to 256, and of 32
    /// bytes.
    pub extents: [u32; 3],
    /// How the left factor lies in shared memory; `None` if it comes from registers.
    pub left: Option<Lines>,
    /// How the right factor lies there. Elements of other than 16 bits lie along the depth.
    pub right: Lines,
    /// Whether the product is added to what is there, or stands alone.
    pub keep: bool,
}

impl GroupProduct {
    /// How a factor lies in shared memory.
    pub fn panels(&self, lines: Lines, outer: u32) -> Panels {
        let depth = self.extents[2];
        match lines {
            Lines::Depth => Panels { lines: outer, bytes: depth * self.factors.bytes() },
            Lines::Across => Panels { lines: depth, bytes: outer * self.factors.bytes() },
        }
    }

    /// How many sums a thread has for one block of 64 rows.
    ///
    /// ```
    /// use kiln_ir::{Factors, GroupProduct, Lines, Scalar};
    /// let factors = Factors::of(Scalar::BF16, Scalar::BF16).unwrap();
    /// let product = GroupProduct { factors, extents: [64, 128, 32], left: None, right: Lines::Depth, keep: true };
    /// // 64 × 128 sums and 64 × 32 elements, two a word, among 128 threads.
    /// assert_eq!((product.sums(), product.words()), (64, 8));
    /// assert_eq!(product.panels(product.right, 128).lines, 128);
    /// ```
    pub fn sums(&self) -> usize {
        self.extents[1] as usize / 2
    }

    /// How many words of the left factor a thread has for one block of 64 rows: four of each step
    /// of 32 bytes.
    pub fn words(&self) -> usize {
        4 * (self.extents[2] / self.factors.depth()) as usize
    }

    /// Blocks of 64 rows of each warpgroup, for so many threads; `None` if they do not divide
    /// evenly.
    ///
    /// ```
    /// use kiln_ir::{Factors, GroupProduct, Lines, Scalar};
    /// let factors = Factors::of(Scalar::BF16, Scalar::BF16).unwrap();
    /// let product = GroupProduct { factors, extents: [256, 128, 64], left: None, right: Lines::Depth, keep: true };
    /// assert_eq!((product.blocks(256), product.blocks(96)), (Some(2), None));
    /// ```
    pub fn blocks(&self, threads: u32) -> Option<u32> {
        let rows = threads / WARPGROUP * 64;
        let fits = threads.is_multiple_of(WARPGROUP) && rows > 0 && self.extents[0].is_multiple_of(rows);
        fits.then(|| self.extents[0] / rows)
    }

    /// How the factors lie, as numbers of the text format.
    pub(crate) fn codes(&self) -> [u32; 2] {
        let code = |lines: Option<Lines>| match lines {
            None => 0,
            Some(Lines::Depth) => 1,
            Some(Lines::Across) => 2,
        };
        [code(self.left), code(Some(self.right))]
    }

    /// What such a number says.
    pub(crate) fn lines(code: u32) -> Option<Lines> {
        match code {
            0 => None,
            1 => Some(Lines::Depth),
            _ => Some(Lines::Across),
        }
    }
}

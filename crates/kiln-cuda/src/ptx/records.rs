//! What faults and prints leave in memory for the host.
//!
//! Two hidden words follow a kernel's parameters if it has any site or a barrier of the grid: the
//! address of the [`Control`] block in device memory, and the number of the program. The first
//! thread to fault claims the control block, fills the [`FaultRecord`] in mapped host memory, sets
//! its `ready` word and exits; every other faulting thread just exits. So nothing traps and the
//! context survives. Prints append records to a mapped ring, whose end is the control block's
//! cursor.

use kiln_ir::Scalar;

/// Values a site can report.
pub const MAX_VALUES: usize = 8;

/// The control block, in device memory. Zeroed `claimed`, `cursor` and `lost` arm it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Control {
    /// 1 once a thread has faulted.
    pub claimed: u32,
    /// Where the next print record goes, in 4-byte words; runs past the capacity when the ring is
    /// full.
    pub cursor: u32,
    /// Print records that found no room.
    pub lost: u32,
    /// Words in the print ring.
    pub capacity: u32,
    /// Device address of the [`FaultRecord`].
    pub fault: u64,
    /// Device address of the print ring.
    pub prints: u64,
    /// How many blocks of the present launch have come to barriers of the grid, all barriers
    /// together. The topmost bit says that a thread has faulted, so that no block waits any more.
    /// A launch with such barriers begins with 0.
    pub arrived: u64,
}

/// What a faulting thread reports, in mapped host memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRecord {
    /// 1 once the rest is written.
    pub ready: u32,
    /// The program, as in the hidden word; never 0.
    pub program: u32,
    /// The site in the program.
    pub site: u32,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index.
    pub thread: [u32; 3],
    /// Padding.
    pub reserved: u32,
    /// The values, zero-extended.
    pub values: [u64; MAX_VALUES],
}

/// Words of a print record before its values: program (never 0), site, block, thread. Each value
/// takes two words.
pub const PRINT_HEADER: u32 = 8;

/// A place in a kernel that can report.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// What happened there.
    pub kind: SiteKind,
    /// `file:line:column`.
    pub location: String,
    /// The types of the values it reports.
    pub values: Vec<Scalar>,
}

/// What a site reports.
#[derive(Debug, Clone, PartialEq)]
pub enum SiteKind {
    /// A failed assertion, with the text and its `{}`.
    Assert(String),
    /// An index and the extent it missed.
    Bounds,
    /// A division by zero.
    Divisor,
    /// A print, with the text and its `{}`.
    Print(String),
}

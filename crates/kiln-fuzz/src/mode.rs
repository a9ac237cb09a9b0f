//! Kinds of kernels to make.

use crate::generate::Options;
use kiln_ir::Scalar;

/// What kernels of a campaign are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Kernels over tiles.
    Tile,
    /// Kernels over threads.
    Thread,
    /// Kernels of both levels with fault regions: faults as values.
    FaultRegions,
    /// Kernels whose tiles have powers of two as extents.
    Powers,
    /// Kernels that may end with a fault.
    Faults,
    /// Kernels that print.
    Prints,
    /// Kernels that store several times to one place and load it again, in boxes of several shapes.
    Stores,
    /// Kernels that load and store the types for storage: floats and integers of 8 bits.
    Storage,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 8] = [
        Mode::Tile,
        Mode::Thread,
        Mode::FaultRegions,
        Mode::Powers,
        Mode::Faults,
        Mode::Prints,
        Mode::Stores,
        Mode::Storage,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Tile => "tile",
            Mode::Thread => "thread",
            Mode::FaultRegions => "fault_regions",
            Mode::Powers => "powers",
            Mode::Faults => "faults",
            Mode::Prints => "prints",
            Mode::Stores => "stores",
            Mode::Storage => "storage",
        }
    }

    /// The mode of a name.
    ///
    /// ```
    /// use kiln_fuzz::Mode;
    /// assert!(Mode::ALL.iter().all(|mode| Mode::from_name(mode.name()) == Some(*mode)));
    /// ```
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The kernels of a seed. `gpu` keeps to what the lowering to threads takes: blocks of whole
    /// warps.
    pub fn options(self, seed: u64, gpu: bool) -> Options {
        let threads = match self {
            Mode::Tile => false,
            Mode::Thread => true,
            _ => seed % 2 == 1,
        };
        let mut options = Options::new(threads);
        options.exact = true;
        options.whole_warps = gpu;
        (options.statements, options.depth) = match seed / 2 % 16 {
            0 => (60, 4),
            1..=5 => (8, 2),
            _ => (24, 3),
        };
        match self {
            Mode::Tile | Mode::Thread => {}
            Mode::FaultRegions => options.fault_regions = true,
            Mode::Powers => options.powers_of_two = true,
            Mode::Faults => options.faults = true,
            Mode::Prints => options.prints = true,
            Mode::Stores => options.overlapping = true,
            Mode::Storage => {
                options.storage = Scalar::ALL.into_iter().filter(|elem| elem.is_storage()).collect();
            }
        }
        options
    }
}

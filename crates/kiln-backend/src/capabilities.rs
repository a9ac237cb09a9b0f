//! What a device can do beyond the core that every device has.
//!
//! Code above the backends checks for a capability, never for the name of a device: a backend that
//! is added later then gets what it can do, and is refused by the capability's name what it cannot.

use std::fmt;

/// How a device executes the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// Hardware threads in subgroups that move together, as GPUs have: tiles lie in registers, and
    /// many blocks run on a multiprocessor at once.
    Simt,
    /// A core runs one block at a time and its threads as lanes of vector instructions: tiles lie
    /// in the core's caches.
    Simd,
    /// In software, operation by operation: orders of magnitude slower than the others.
    Interpreted,
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Execution::Simt => "SIMT",
            Execution::Simd => "SIMD",
            Execution::Interpreted => "interpreted",
        })
    }
}

/// What the times of events are times of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The device's own work: it takes the time as it passes an event, while the host goes on.
    Device,
    /// The host's calls.
    Host,
    /// Nothing that compares with real hardware. Clocks that kernels read count operations.
    Operations,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Device => "device time",
            Clock::Host => "host time",
            Clock::Operations => "no meaningful time",
        })
    }
}

/// A format of factors that matrix units multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixFormat {
    /// f16 and bf16.
    Float16,
    /// f32 rounded to tf32.
    Tf32,
    /// i8 and u8.
    Int8,
    /// The 8-bit floats e4m3 and e5m2.
    Float8,
    /// f64.
    Float64,
}

impl MatrixFormat {
    /// All of them.
    pub const ALL: [MatrixFormat; 5] = [
        MatrixFormat::Float16,
        MatrixFormat::Tf32,
        MatrixFormat::Int8,
        MatrixFormat::Float8,
        MatrixFormat::Float64,
    ];
}

impl fmt::Display for MatrixFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MatrixFormat::Float16 => "16-bit floats",
            MatrixFormat::Tf32 => "tf32",
            MatrixFormat::Int8 => "8-bit integers",
            MatrixFormat::Float8 => "8-bit floats",
            MatrixFormat::Float64 => "f64",
        })
    }
}

/// A device's matrix units: the formats of factors that they multiply. A device without matrix
/// units has the empty set.
///
/// ```
/// use kiln_backend::{MatrixFormat, MatrixUnits};
/// let units = MatrixUnits::NONE.with(MatrixFormat::Float16);
/// assert!(units.multiply(MatrixFormat::Float16) && !units.multiply(MatrixFormat::Float8));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatrixUnits(u8);

impl MatrixUnits {
    /// No matrix units.
    pub const NONE: MatrixUnits = MatrixUnits(0);

    /// The units that multiply this format too.
    #[must_use]
    pub const fn with(self, format: MatrixFormat) -> MatrixUnits {
        MatrixUnits(self.0 | 1 << format as u8)
    }

    /// Whether they multiply factors of a format.
    pub const fn multiply(self, format: MatrixFormat) -> bool {
        self.0 & 1 << format as u8 != 0
    }

    /// The formats, in the order of [`MatrixFormat::ALL`].
    pub fn formats(self) -> impl Iterator<Item = MatrixFormat> {
        MatrixFormat::ALL.into_iter().filter(move |format| self.multiply(*format))
    }
}

/// What a device can do beyond the core that every device has.
///
/// Limits such as shared memory, the subgroup's width and the extents of grids are in
/// [`Properties`](crate::Properties); where mapped memory can lie is found by
/// [`MappedPlaces`](crate::MappedPlaces), which takes longer.
///
/// ```
/// use kiln_backend::{Capabilities, Execution};
/// let device = Capabilities { clusters: 8, ..Capabilities::new(Execution::Simt) };
/// assert!(device.has_clusters() && !device.bulk_copies);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// How it executes threads.
    pub execution: Execution,
    /// Whether kernels run on the host's own processors, with the host's memory order.
    pub on_host: bool,
    /// Whether a driver runs code for GPUs on the host's processors, as Mesa's does. Threads of a
    /// block take turns there at barriers, and the time to compile a kernel grows with the square
    /// of their number.
    pub software: bool,
    /// What its matrix units multiply.
    pub matrix_units: MatrixUnits,
    /// Whether four subgroups together multiply tiles in shared memory asynchronously (`wgmma`).
    pub warpgroup_products: bool,
    /// Whether one thread can begin an asynchronous copy of a box of a tensor (TMA).
    pub bulk_copies: bool,
    /// The most blocks of a cluster, which reach each other's shared memory; 1 without clusters.
    pub clusters: u32,
    /// Whether kernels of the explicit level run: shared buffers, mbarriers, tasks.
    pub explicit_level: bool,
    /// Whether the blocks of one small launch run at the same time, so that one may wait for
    /// another. Elsewhere they may run one after the other.
    pub concurrent_blocks: bool,
    /// Whether kernels can have barriers of the grid: all blocks of a launch run at the same time
    /// there, and more than there is room for are refused.
    pub grid_barriers: bool,
    /// Whether kernels can have instructions of PTX (`ptx`). Elsewhere they are refused.
    pub inline_ptx: bool,
    /// Whether kernels can have atomics of 128 bits. Elsewhere they are refused.
    pub atomic_128: bool,
    /// Whether programs are loaded while resident launches run. Elsewhere the
    /// [tenants](crate::Tenant) leave for a moment.
    pub loads_beside_residents: bool,
    /// Whether kernels can reach the memory of other devices of the same backend.
    pub peer_access: bool,
    /// Whether a product and a sum round once where a kernel allows that (`contract`). Elsewhere
    /// they always round one by one.
    pub contraction: bool,
    /// Whether subnormal numbers of f32 and bf16 count in full. Elsewhere an operation may take
    /// them, and give them, as zeros.
    pub subnormals: bool,
    /// Whether launches end at the launch limit.
    pub launch_limit: bool,
    /// Whether races, missing barriers and reads of memory that nothing has written are faults.
    pub sanitizer: bool,
    /// What the times of events are times of.
    pub clock: Clock,
}

impl Capabilities {
    /// A device that has only the core.
    pub const fn new(execution: Execution) -> Capabilities {
        Capabilities {
            execution,
            on_host: false,
            software: false,
            matrix_units: MatrixUnits::NONE,
            warpgroup_products: false,
            bulk_copies: false,
            clusters: 1,
            explicit_level: false,
            concurrent_blocks: false,
            grid_barriers: false,
            inline_ptx: false,
            atomic_128: false,
            loads_beside_residents: true,
            peer_access: false,
            contraction: false,
            subnormals: true,
            launch_limit: false,
            sanitizer: false,
            clock: Clock::Host,
        }
    }

    /// Whether blocks can form clusters.
    pub const fn has_clusters(&self) -> bool {
        self.clusters > 1
    }

    /// Whether its threads are hardware threads in subgroups.
    pub const fn is_simt(&self) -> bool {
        matches!(self.execution, Execution::Simt)
    }

    /// Whether it interprets kernels, so that work must be small.
    pub const fn is_interpreted(&self) -> bool {
        matches!(self.execution, Execution::Interpreted)
    }

    /// Every capability in words: what it is called, whether it is there, and what to say of it
    /// where it is. A table has a row for each.
    ///
    /// ```
    /// use kiln_backend::{Capabilities, Execution};
    /// let plain = Capabilities::new(Execution::Simd);
    /// assert!(plain.described().iter().any(|&(name, there, _)| name == "clusters" && !there));
    /// ```
    pub fn described(&self) -> [(&'static str, bool, String); 19] {
        // Named one by one, so that a new capability must get its words.
        let Capabilities {
            execution,
            on_host,
            software,
            matrix_units,
            warpgroup_products,
            bulk_copies,
            clusters,
            explicit_level,
            concurrent_blocks,
            grid_barriers,
            inline_ptx,
            atomic_128,
            loads_beside_residents,
            peer_access,
            contraction,
            subnormals,
            launch_limit,
            sanitizer,
            clock,
        } = *self;
        let units: Vec<String> = matrix_units.formats().map(|format| format.to_string()).collect();
        let named = |name: &'static str, there| (name, there, name.to_owned());
        [
            ("execution", true, execution.to_string()),
            named("on the host's processors", on_host),
            ("software", software, "a GPU in software".to_owned()),
            ("matrix units", !units.is_empty(), format!("matrix units ({})", units.join(", "))),
            named("warpgroup products", warpgroup_products),
            named("bulk copies", bulk_copies),
            ("clusters", clusters > 1, format!("clusters of {clusters} blocks")),
            named("explicit level", explicit_level),
            named("concurrent blocks", concurrent_blocks),
            named("grid barriers", grid_barriers),
            named("inline PTX", inline_ptx),
            named("128-bit atomics", atomic_128),
            named("loading beside resident launches", loads_beside_residents),
            named("peer access", peer_access),
            named("contraction", contraction),
            named("subnormal numbers", subnormals),
            named("launch limit", launch_limit),
            named("sanitizer", sanitizer),
            ("times of events", true, clock.to_string()),
        ]
    }

    /// What it has, in words, for people: each capability that is there.
    pub fn names(&self) -> Vec<String> {
        self.described().into_iter().filter(|(_, there, _)| *there).map(|(.., words)| words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_units_are_the_formats_that_they_were_given() {
        let units = MatrixUnits::NONE.with(MatrixFormat::Int8).with(MatrixFormat::Float16);
        let formats: Vec<MatrixFormat> = units.formats().collect();
        assert_eq!(formats, [MatrixFormat::Float16, MatrixFormat::Int8]);
        assert_eq!(units.with(MatrixFormat::Int8), units);
        assert_eq!(MatrixUnits::NONE.formats().count(), 0);
    }

    #[test]
    fn what_is_not_there_is_not_named() {
        let least = Capabilities {
            loads_beside_residents: false,
            subnormals: false,
            ..Capabilities::new(Execution::Simt)
        };
        assert_eq!(least.names(), ["SIMT", "host time"]);
        let more = Capabilities {
            matrix_units: MatrixUnits::NONE.with(MatrixFormat::Float16).with(MatrixFormat::Float8),
            clusters: 8,
            sanitizer: true,
            ..least
        };
        assert_eq!(
            more.names(),
            [
                "SIMT",
                "matrix units (16-bit floats, 8-bit floats)",
                "clusters of 8 blocks",
                "sanitizer",
                "host time"
            ]
        );
    }
}

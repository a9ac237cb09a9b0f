//! What work costs on a GPU: the figures by which the compiler and the kernel library choose how to
//! divide it.
//!
//! Choices compare estimates with each other, so only ratios of figures matter. Times are cycles of
//! a multiprocessor's clock, rates are bytes a cycle. Figures marked *data sheet* are the vendor's,
//! rounded. All others are those of the H200 that the kernels were tuned on: `bench/notes.md` has
//! the measurements that were written down, and the rest are estimates that gave the plans there.

use std::hash::{Hash, Hasher};

/// The cost model of a GPU.
///
/// [`Properties::cost_model`](crate::Properties::cost_model) gives that of a device.
///
/// ```
/// use kiln_backend::CostModel;
/// let hopper = CostModel::of_capability(Some((9, 0)));
/// assert_eq!((hopper.units, hopper.rates.memory), (132, 2400));
/// // A GPU with fewer multiprocessors and 300 GB/s at 1.7 GHz.
/// let mut small = CostModel { units: 40, ..hopper };
/// small.rates.memory = 300 * 10 / 17;
/// assert_ne!(small, hopper);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Multiprocessors (data sheet).
    pub units: usize,
    /// Shared memory that a block can have, in bytes (data sheet).
    pub shared_memory: usize,
    /// How fast data moves and is multiplied.
    pub rates: Rates,
    /// How long single steps take.
    pub latencies: Latencies,
    /// What else decides how a product is divided among programs.
    pub products: ProductCosts,
    /// When a loop of products gains from a task that copies.
    pub copy_task: CopyTaskLimits,
    /// How memory is reached.
    pub memory: MemoryCosts,
    /// How much of a tensor a program and its threads take in kernels that stream.
    pub streaming: StreamingSizes,
}

/// Rates of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a cycle that all multiprocessors together get from device memory (data sheet:
    /// bandwidth over clock).
    pub memory: u32,
    /// Bytes a cycle that a multiprocessor gets from the L2 cache.
    pub l2: u32,
    /// Bytes a cycle that a multiprocessor's shared memory gives (data sheet).
    pub shared: u32,
    /// Multiply-adds of 16-bit floats a cycle that a multiprocessor's matrix units do; of narrower
    /// and wider factors as many bytes (data sheet).
    pub multiply_adds: u32,
    /// Bytes a cycle in which a program stores sums from registers to memory.
    pub store: u32,
    /// Bytes a cycle in which a program leaves sums for another, or takes them.
    pub exchange: u32,
    /// Bytes a cycle in which a launch adds up parts of sums.
    pub add_up: u32,
}

/// Latencies of a GPU, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// From the beginning of a program to its first product, and from its last one to its end,
    /// without the stores.
    pub program: u32,
    /// Until a program sees a signal of another.
    pub signal: u32,
    /// A second launch, which adds up parts of sums.
    pub launch: u32,
    /// What the thread that copies takes for a stage, and for each copy in it.
    pub stage_copy: u32,
    /// See `stage_copy`.
    pub box_copy: u32,
    /// Between two instructions of the matrix units.
    pub instruction: u32,
    /// Between two stages.
    pub stage: u32,
    /// A barrier of a block.
    pub barrier: u32,
}

/// What decides how a product is divided among programs, beside rates and latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductCosts {
    /// With two levels of sums: cycles that a task waits for the product of a stage.
    pub partial_wait: u32,
    /// With two levels of sums: columns of 64 rows that a task adds to its sums in a cycle.
    pub columns_added: u32,
    /// How much of the time of adding the matrix units are idle where two tasks may add at once,
    /// in percent.
    pub idle_percent: u32,
    /// How long a step takes of tiles that programs share, compared with other steps, in percent:
    /// programs are not all at the same step, and find less in the L2 cache.
    pub shared_step_percent: u32,
    /// How long everything takes where no program is idle, in percent: the clock falls.
    pub busy_percent: u32,
    /// The fewest steps of a part of the inner extent.
    pub least_steps: usize,
    /// Numerator and denominator of the most of a round that may be left over by whole rounds for
    /// stream-K to be faster.
    pub stream_k_rest: [usize; 2],
    /// Columns from which on programs that begin at different steps are slower: they share more of
    /// what they read.
    pub staggered_below: usize,
    /// The most rows and columns of 16-bit factors' tiles that warps multiply by themselves.
    pub tile_of_warps: [usize; 2],
}

/// When a loop of products gains from a task that copies (warp specialization).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTaskLimits {
    /// The most sums of a thread: beside a warp that copies, a block leaves it 168 registers.
    pub most_sums: u32,
    /// As many, of sums that a round looks at, which need as many registers again.
    pub most_sums_seen: u32,
    /// The fewest sums of a product that a round only adds to: smaller tiles are those of small
    /// matrices, where the first copy comes later than without tasks.
    pub fewest_sums: u32,
}

/// How memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCosts {
    /// Banks of shared memory, each 4 bytes wide (data sheet).
    pub banks: u32,
    /// The unit in which device memory is fetched, in bytes (data sheet).
    pub sector: u32,
    /// The most rounds of a loop that have their copies in shared memory at a time: more hide no
    /// longer latency.
    pub most_stages: u32,
}

/// How much a program and its threads take of tensors that are read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamingSizes {
    /// Bytes of each operand of an element-wise program: several accesses of 16 bytes a thread.
    pub program_bytes: usize,
    /// Programs of a multiprocessor of a kernel that strides over its input.
    pub programs: usize,
    /// Bytes of a row that a thread of softmax takes.
    pub softmax_thread_bytes: usize,
    /// Bytes of a row that a thread of layer norm takes.
    pub layer_norm_thread_bytes: usize,
    /// The most warps of a program that takes a row.
    pub row_warps: usize,
    /// How a sum of everything is divided.
    pub sum: SumSizes,
}

/// How a sum of a whole tensor is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumSizes {
    /// Bytes of the tile that a program adds at a time.
    pub tile_bytes: usize,
    /// Programs of a multiprocessor.
    pub programs: usize,
    /// Warps of a program; `None` for what the tile asks for.
    pub warps: Option<u32>,
}

impl CostModel {
    /// NVIDIA's H200 (SXM): 132 multiprocessors at 1.98 GHz, 4.8 TB/s, 989 TFLOP/s of 16-bit
    /// floats.
    pub const H200: CostModel = CostModel {
        units: 132,
        shared_memory: 227 << 10,
        rates: Rates {
            memory: 2400,
            l2: 40,
            shared: 128,
            multiply_adds: 2048,
            store: 24,
            exchange: 24,
            add_up: 2000,
        },
        latencies: Latencies {
            program: 3500,
            signal: 1500,
            launch: 28000,
            stage_copy: 100,
            box_copy: 25,
            instruction: 2,
            stage: 30,
            barrier: 100,
        },
        products: ProductCosts {
            partial_wait: 60,
            columns_added: 2,
            idle_percent: 75,
            shared_step_percent: 110,
            busy_percent: 103,
            least_steps: 6,
            stream_k_rest: [5, 9],
            staggered_below: 64,
            tile_of_warps: [128, 128],
        },
        copy_task: CopyTaskLimits { most_sums: 128, most_sums_seen: 96, fewest_sums: 128 * 128 },
        memory: MemoryCosts { banks: 32, sector: 32, most_stages: 4 },
        streaming: StreamingSizes {
            program_bytes: 4096,
            programs: 16,
            softmax_thread_bytes: 32,
            layer_norm_thread_bytes: 64,
            row_warps: 16,
            sum: SumSizes { tile_bytes: 8192, programs: 16, warps: None },
        },
    };

    /// NVIDIA's A100 (SXM, 80 GB): 108 multiprocessors at 1.41 GHz, 2.04 TB/s, 312 TFLOP/s of
    /// 16-bit floats. What its data sheet does not say is as on an H200.
    pub const A100: CostModel = CostModel {
        units: 108,
        shared_memory: 163 << 10,
        rates: Rates { memory: 1446, multiply_adds: 1024, ..CostModel::H200.rates },
        ..CostModel::H200
    };

    /// A graphics card that is reached through another interface than its vendor's: as an H200, and
    /// what was measured of one through Vulkan (bench/notes.md).
    pub const CARD: CostModel = CostModel {
        products: ProductCosts { tile_of_warps: [128, 256], ..CostModel::H200.products },
        streaming: StreamingSizes {
            sum: SumSizes { tile_bytes: 32768, programs: 8, warps: Some(8) },
            ..CostModel::H200.streaming
        },
        ..CostModel::H200
    };

    /// The model of the GPUs of a compute capability, such as (9, 0).
    ///
    /// NVIDIA GPUs that are not known have the model of an H200, and those without a compute
    /// capability that of a [card](CostModel::CARD), until one of them was measured: ratios of
    /// rates differ less between GPUs than the numbers of multiprocessors do, which
    /// [`Properties::cost_model`](crate::Properties::cost_model) takes from the device.
    pub const fn of_capability(capability: Option<(u32, u32)>) -> CostModel {
        match capability {
            Some((8, 0)) => CostModel::A100,
            Some(_) => CostModel::H200,
            None => CostModel::CARD,
        }
    }
}

/// Models that differ in figures alone are rare: the size of a GPU distinguishes most of them.
impl Hash for CostModel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.units, self.shared_memory).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of NVIDIA's data sheets: bytes a second, cycles a second, operations a second of
    /// dense products of 16-bit floats.
    #[test]
    fn rates_are_those_of_data_sheets() {
        for (model, memory, clock, operations) in
            [(CostModel::H200, 4.8e12, 1.98e9, 989.4e12), (CostModel::A100, 2.039e12, 1.41e9, 312e12)]
        {
            let within = |got: f64, want: f64, part: f64| (got / want - 1.0).abs() < part;
            assert!(within(f64::from(model.rates.memory), memory / clock, 0.02), "{model:?}");
            // The peak of the H200 is at a lower clock than it boosts to.
            let multiply_adds = operations / 2.0 / clock / model.units as f64;
            assert!(within(f64::from(model.rates.multiply_adds), multiply_adds, 0.1), "{model:?}");
        }
    }

    #[test]
    fn unknown_gpus_have_the_model_of_an_h200_or_of_a_card() {
        for capability in [(7, 5), (9, 0), (12, 0)] {
            assert_eq!(CostModel::of_capability(Some(capability)), CostModel::H200);
        }
        assert_eq!(CostModel::of_capability(None), CostModel::CARD);
        assert_eq!(CostModel::of_capability(Some((8, 0))).units, 108);
    }
}

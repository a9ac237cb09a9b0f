//! How many blocks of a kernel a multiprocessor runs at once: the driver counts them, and what
//! allows no more is found by the figures of the GPU.

use crate::driver::{DeviceProperties, FunctionAttributes};
use kiln_backend::{Occupancy, OccupancyLimit};

/// Bytes of shared memory that a block gets a multiple of, from compute capability 8.0 on. This and
/// the figures below are those of NVIDIA's occupancy calculator (Nsight Compute).
const SHARED_UNIT: u32 = 128;

/// Registers that a warp gets a multiple of.
const REGISTER_UNIT: u32 = 256;

/// Parts of a multiprocessor, each of which has its own warps and its own part of the registers.
pub(super) const PARTS: u32 = 4;

/// What a block takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) warps: u32,
    /// Registers of a warp.
    pub(super) registers: u32,
    /// Bytes of shared memory, with those that the system has of each block.
    pub(super) shared: u32,
}

impl Block {
    /// That of a kernel by as many threads and bytes of dynamic shared memory.
    pub(super) fn of(gpu: &DeviceProperties, used: &FunctionAttributes, threads: u32, dynamic: u32) -> Block {
        let own = used.shared_bytes.saturating_add(dynamic);
        let shared = own.saturating_add(gpu.shared_reserved).checked_next_multiple_of(SHARED_UNIT);
        Block {
            warps: threads.div_ceil(gpu.warp.max(1)).max(1),
            registers: (used.registers.max(1) * gpu.warp).next_multiple_of(REGISTER_UNIT),
            shared: shared.unwrap_or(u32::MAX),
        }
    }
}

/// The occupancy of a kernel of which the driver puts `blocks` on a multiprocessor, with as many
/// threads and bytes of dynamic shared memory each.
pub(super) fn occupancy(
    gpu: &DeviceProperties,
    used: &FunctionAttributes,
    threads: u32,
    dynamic: u32,
    blocks: u32,
) -> Occupancy {
    let Block { warps, registers, shared, .. } = Block::of(gpu, used, threads, dynamic);
    let max_warps = gpu.max_threads_per_multiprocessor / gpu.warp.max(1);
    let by_shared = gpu.shared_per_multiprocessor.checked_div(shared).unwrap_or(u32::MAX);
    let by_registers = gpu.registers_per_multiprocessor / PARTS / registers * PARTS / warps;
    let bounds = [
        (OccupancyLimit::Threads, max_warps / warps),
        (OccupancyLimit::Blocks, gpu.max_blocks_per_multiprocessor),
        (OccupancyLimit::SharedMemory, by_shared),
        (OccupancyLimit::Registers, by_registers),
    ];
    let found = bounds.into_iter().find(|&(_, bound)| bound == blocks);
    let limit = found.map_or(OccupancyLimit::Other, |(limit, _)| limit);
    Occupancy { blocks, warps: blocks * warps, max_warps, limit }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::driver::ComputeCapability;

    /// The figures of an H100 that matter here.
    pub(crate) fn h100() -> DeviceProperties {
        DeviceProperties {
            name: "H100".into(),
            compute_capability: ComputeCapability { major: 9, minor: 0 },
            multiprocessors: 132,
            warp: 32,
            max_threads_per_block: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [i32::MAX as u32, 65_535, 65_535],
            max_threads_per_multiprocessor: 2048,
            max_blocks_per_multiprocessor: 32,
            shared_per_block: 48 << 10,
            shared_per_block_opt_in: 227 << 10,
            shared_per_multiprocessor: 228 << 10,
            shared_reserved: 1 << 10,
            registers_per_block: 65_536,
            registers_per_multiprocessor: 65_536,
            l2_bytes: 50 << 20,
            memory_bytes: 80 << 30,
            clock_khz: 1_980_000,
            memory_clock_khz: 2_619_000,
            memory_bus_bits: 5120,
            copy_engines: 3,
            integrated: false,
            maps_host_memory: true,
            memory_pools: true,
            cooperative_launch: true,
            clusters: true,
            tensor_maps: true,
        }
    }

    fn of(registers: u32, threads: u32, (fixed, dynamic): (u32, u32), blocks: u32) -> Occupancy {
        let used = FunctionAttributes {
            registers,
            local_bytes: 0,
            shared_bytes: fixed,
            constant_bytes: 0,
            max_threads: 1024,
            binary_version: 90,
        };
        occupancy(&h100(), &used, threads, dynamic, blocks)
    }

    /// The counts are worked out by hand, from what NVIDIA says of compute capability 9.0.
    #[test]
    fn what_allows_no_more_blocks_is_named() {
        let cases = [
            ((32, 256, (0, 0), 8), OccupancyLimit::Threads),
            ((16, 32, (0, 0), 32), OccupancyLimit::Blocks),
            ((32, 128, (40 << 10, 0), 5), OccupancyLimit::SharedMemory),
            ((32, 128, (0, 227 << 10), 1), OccupancyLimit::SharedMemory),
            ((64, 256, (0, 0), 4), OccupancyLimit::Registers),
            // 65 registers take as much as 72: 28 warps, 7 in each part.
            ((65, 128, (0, 0), 7), OccupancyLimit::Registers),
            // The same 28 warps are 4 blocks of 7.
            ((65, 224, (0, 0), 4), OccupancyLimit::Registers),
            // With the system's 1,024 bytes these are 8,417, which take 8,448.
            ((16, 32, (7 << 10, 225), 27), OccupancyLimit::SharedMemory),
        ];
        for ((registers, threads, shared, blocks), limit) in cases {
            let found = of(registers, threads, shared, blocks);
            assert_eq!(found.limit, limit, "{registers} registers, {threads} threads, {shared:?}");
            assert_eq!((found.blocks, found.max_warps), (blocks, 64));
            assert_eq!(found.warps, blocks * threads / 32);
        }
        assert_eq!(of(64, 256, (0, 0), 4).fraction(), 0.5);
    }

    #[test]
    fn a_limit_that_no_figure_explains_is_not_guessed() {
        assert_eq!(of(32, 256, (0, 0), 3).limit, OccupancyLimit::Other);
        // Part of a warp counts as one.
        assert_eq!(of(32, 33, (0, 0), 32).warps, 64);
        assert_eq!(of(32, 33, (0, 0), 32).limit, OccupancyLimit::Threads);
    }
}

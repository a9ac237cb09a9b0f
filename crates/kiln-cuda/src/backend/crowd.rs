//! Whether a launch finds room beside the blocks of resident ones.
//!
//! A kernel whose blocks need more of a multiprocessor than those leave waits for their end, which
//! may never come. What is left is counted as the hardware does (`occupancy.rs`), for the
//! multiprocessor that has the fewest of them; `resident_check room` measures where that ends.

use super::occupancy::{Block, PARTS};
use crate::driver::DeviceProperties;

/// The most graphics processing clusters of a GPU, rounded up (GB202 has 12): the blocks of a
/// cluster run in one of them.
const MOST_CLUSTERS_OF_PROCESSORS: u64 = 16;

/// What a launch asks of the multiprocessors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) block: Block,
    pub(super) together: Together,
}

/// Which of its blocks run at the same time, or none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// Each runs by itself.
    One,
    /// Those of a cluster of so many.
    Cluster(u32),
    /// All of so many, of which a multiprocessor takes `each`.
    All { blocks: u64, each: u64 },
}

/// The resident blocks of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    pub(super) blocks: u64,
    /// What each of them takes at most.
    pub(super) largest: Block,
    /// Whether their multiprocessors have as much shared memory as they can.
    pub(super) leaves_shared: bool,
}

impl Crowd {
    /// No blocks.
    pub(super) const NONE: Crowd =
        Crowd { blocks: 0, largest: Block { warps: 0, registers: 0, shared: 0 }, leaves_shared: true };

    /// A warp with 128 registers a thread and up to 8 KiB of shared memory on each multiprocessor:
    /// a grid of actors.
    pub(super) fn typical(gpu: &DeviceProperties) -> Crowd {
        let block = Block { warps: 1, registers: 128 * gpu.warp, shared: (8 << 10) + gpu.shared_reserved };
        Crowd { blocks: gpu.multiprocessors.into(), largest: block, leaves_shared: true }
    }

    /// This and a launch of so many blocks.
    pub(super) fn with(self, block: Block, blocks: u64, leaves_shared: bool) -> Crowd {
        let largest = Block {
            warps: self.largest.warps.max(block.warps),
            registers: self.largest.registers.max(block.registers),
            shared: self.largest.shared.max(block.shared),
        };
        let leaves_shared = self.leaves_shared && leaves_shared;
        Crowd { blocks: self.blocks.saturating_add(blocks), largest, leaves_shared }
    }

    /// Whether whatever finds room beside another crowd does so beside this one.
    pub(super) fn is_within(&self, other: &Crowd) -> bool {
        let (own, others) = (&self.largest, &other.largest);
        self.blocks <= other.blocks
            && own.warps <= others.warps
            && own.registers <= others.registers
            && own.shared <= others.shared
            && self.leaves_shared
    }

    /// Whether a launch runs beside them, if only on few multiprocessors. Where it is not certain
    /// which ones they are on, it does not.
    pub(super) fn has_room(&self, gpu: &DeviceProperties, claim: &Claim) -> bool {
        let processors = u64::from(gpu.multiprocessors).max(1);
        let free = processors.saturating_sub(self.blocks);
        match claim.together {
            _ if self.blocks == 0 => true,
            Together::One => free > 0 || self.fits(gpu, &claim.block, self.blocks / processors),
            // Of so many free ones a part has enough.
            Together::Cluster(blocks) => {
                free > MOST_CLUSTERS_OF_PROCESSORS * u64::from(blocks.saturating_sub(1))
            }
            Together::All { blocks, each } => blocks <= free.saturating_mul(each),
        }
    }

    /// Whether a block fits on a multiprocessor with so many of these.
    fn fits(&self, gpu: &DeviceProperties, block: &Block, count: u64) -> bool {
        let with =
            |one: u32, of_each: u32| u64::from(one).saturating_add(count.saturating_mul(of_each.into()));
        // In the part that has the most warps of each.
        let registers = |block: &Block| block.warps.div_ceil(PARTS) * block.registers;
        let max_warps = gpu.max_threads_per_multiprocessor / gpu.warp.max(1);
        with(block.warps, self.largest.warps) <= max_warps.into()
            && with(1, 1) <= gpu.max_blocks_per_multiprocessor.into()
            && with(registers(block), registers(&self.largest))
                <= (gpu.registers_per_multiprocessor / PARTS).into()
            // Of its own it has none where it takes no more than the system has of each.
            && (block.shared <= gpu.shared_reserved
                || self.leaves_shared
                    && with(block.shared, self.largest.shared) <= gpu.shared_per_multiprocessor.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::occupancy::tests::h100;
    use super::*;
    use crate::driver::FunctionAttributes;

    fn block(registers: u32, threads: u32, shared: u32) -> Block {
        let used = FunctionAttributes {
            registers,
            local_bytes: 0,
            shared_bytes: 0,
            constant_bytes: 0,
            max_threads: 1024,
            binary_version: 90,
        };
        Block::of(&h100(), &used, threads, shared)
    }

    fn one(block: Block) -> Claim {
        Claim { block, together: Together::One }
    }

    /// What `resident_check room` found on an H200 beside 132 warps that use nothing.
    #[test]
    fn beside_a_warp_on_each_multiprocessor() {
        let gpu = h100();
        let crowd = Crowd::NONE.with(block(16, 1, 0), 132, true);
        for (kib, fits) in [(0, true), (1, true), (100, true), (226, true), (227, false)] {
            assert_eq!(crowd.has_room(&gpu, &one(block(16, 32, kib << 10))), fits, "{kib} KiB");
        }
        // Where the first cache has what is left of the memory.
        let unsure = Crowd { leaves_shared: false, ..crowd };
        assert!(unsure.has_room(&gpu, &one(block(16, 32, 0))));
        assert!(!unsure.has_room(&gpu, &one(block(16, 32, 1 << 10))));
        assert!(crowd.has_room(&gpu, &one(block(63, 896, 0))));
        assert!(!crowd.has_room(&gpu, &one(block(63, 1024, 0))));
    }

    #[test]
    fn a_free_multiprocessor_has_room_for_every_block() {
        let gpu = h100();
        let whole = one(block(63, 1024, 227 << 10));
        for (blocks, fits) in [(0, true), (1, true), (131, true), (132, false), (400, false)] {
            let crowd = Crowd::NONE.with(block(128, 32, 0), blocks, true);
            assert_eq!(crowd.has_room(&gpu, &whole), fits, "{blocks} blocks");
        }
        // 32 blocks on each leave no place for another.
        let crowd = Crowd::NONE.with(block(16, 32, 0), 132 * 32, true);
        assert!(!crowd.has_room(&gpu, &one(block(16, 32, 0))));
    }

    #[test]
    fn blocks_that_run_together_need_free_multiprocessors() {
        let gpu = h100();
        let small = block(16, 32, 0);
        let claim = |together| Claim { block: small, together };
        let beside =
            |blocks, together| Crowd::NONE.with(small, blocks, true).has_room(&gpu, &claim(together));
        let all = |blocks| Together::All { blocks, each: 2 };
        assert!(beside(0, all(264)) && !beside(1, all(264)));
        assert!(beside(100, all(64)) && !beside(100, all(65)));
        assert!(!beside(132, all(1)));
        // 17 free ones are two in one of 16 parts; of 16 each part may have one.
        assert!(beside(115, Together::Cluster(2)) && !beside(116, Together::Cluster(2)));
        assert!(beside(132, Together::One) && !beside(132, Together::Cluster(2)));
    }

    #[test]
    fn what_is_within_a_typical_grid() {
        let gpu = h100();
        let typical = Crowd::typical(&gpu);
        assert!(Crowd::NONE.is_within(&typical));
        assert!(Crowd::NONE.with(block(128, 32, 8 << 10), 132, true).is_within(&typical));
        for crowd in [
            Crowd::NONE.with(block(128, 32, 0), 133, true),
            Crowd::NONE.with(block(129, 32, 0), 1, true),
            Crowd::NONE.with(block(32, 33, 0), 1, true),
            Crowd::NONE.with(block(32, 32, 9 << 10), 1, true),
            Crowd::NONE.with(block(32, 32, 0), 1, false),
        ] {
            assert!(!crowd.is_within(&typical), "{crowd:?}");
        }
    }
}

//! The order in which the blocks of a launch run, and the seed for that of their threads.

/// An order of blocks: each comes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    blocks: u64,
    factor: u64,
    first: u64,
    /// The seed of the order of threads; without one they run in lockstep.
    pub threads: Option<u64>,
}

impl Order {
    /// Increasing.
    pub fn increasing(blocks: u64) -> Order {
        Order { blocks, factor: 1, first: 0, threads: None }
    }

    /// One that follows from a seed and the number of the launch.
    pub fn seeded(blocks: u64, seed: u64, launch: u64) -> Order {
        let bits = mixed(seed ^ mixed(launch));
        let blocks = blocks.max(1);
        let mut factor = 1 + (bits >> 32) % blocks;
        // Only with such a factor do the multiples of all numbers of blocks differ modulo their
        // number.
        while divisor(factor, blocks) != 1 {
            factor = 1 + factor % blocks;
        }
        Order { blocks, factor, first: (bits & 0xffff_ffff) % blocks, threads: Some(mixed(bits)) }
    }

    /// The same order of blocks.
    pub fn with_threads_in_lockstep(self) -> Order {
        Order { threads: None, ..self }
    }

    /// The same order of threads, with blocks in increasing order: a block may wait for an earlier
    /// one, and here each runs to its end before the next.
    pub fn with_blocks_increasing(self) -> Order {
        Order { factor: 1, first: 0, ..self }
    }

    /// The block that runs after `earlier` others.
    pub fn block(&self, earlier: u64) -> u64 {
        ((u128::from(self.factor) * u128::from(earlier) + u128::from(self.first))
            % u128::from(self.blocks.max(1))) as u64
    }
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
pub fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_block_comes_once() {
        for blocks in [1, 2, 3, 4, 6, 7, 12, 100, 997] {
            for seed in 0..20 {
                let order = Order::seeded(blocks, seed, 3);
                let seen: HashSet<u64> = (0..blocks).map(|n| order.block(n)).collect();
                assert_eq!(seen, (0..blocks).collect(), "{order:?}");
            }
        }
        assert!((0..9).eq((0..9).map(|n| Order::increasing(9).block(n))));
        let seeded = Order::seeded(9, 4, 3);
        let increasing = seeded.with_blocks_increasing();
        assert!((0..9).eq((0..9).map(|n| increasing.block(n))) && increasing.threads == seeded.threads);
        // The largest grid there is.
        let blocks = u64::from(i32::MAX as u32) * 65535 * 65535;
        assert!(Order::seeded(blocks, 1, 1).block(blocks - 1) < blocks);
    }

    #[test]
    fn seeds_and_launches_have_orders_of_their_own_and_keep_them() {
        let orders = |launch| (0..64).map(move |seed| Order::seeded(12, seed, launch));
        let distinct = |launch| orders(launch).map(|o| (o.factor, o.first)).collect::<HashSet<_>>().len();
        assert!(distinct(0) > 20 && orders(0).ne(orders(1)));
        assert!(orders(5).eq(orders(5)));
    }
}

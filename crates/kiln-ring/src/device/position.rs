//! Arithmetic of positions, stamps and lanes.

use kiln_lang::prelude::*;

/// The first lane of the first group that is ready.
pub(super) fn first_lane(ready: Val<u32>) -> Val<u32> {
    ((ready & (val::<u32>(0) - ready)) - 1).popcount()
}

/// A number from its halves.
pub(super) fn join(low: Val<u32>, high: Val<u32>) -> Val<u64> {
    low.cast::<u64>() | high.cast::<u64>() << 32
}

/// Whether one position comes before another, by their low halves: they lie less than 2^31 apart.
pub(super) fn is_before(low: Val<u32>, other: Val<u32>) -> Val<bool> {
    (low - other).bitcast::<i32>().lt(0)
}

/// The stamp of a position's slot, for a kind, and the slot's number; see `slot.rs`.
pub(super) fn stamp_and_slot(
    position: Val<u64>,
    log2_slots: Val<u32>,
    kind: impl IntoVal<u32>,
) -> (Val<u32>, Val<u32>) {
    let lap = ((position >> log2_slots.cast::<u64>()) + 1).cast::<u32>() & 0x00ff_ffff;
    let slot = position.cast::<u32>() & ((val::<u32>(1) << log2_slots) - 1);
    (lap | kind.into_val() << 24, slot)
}

//! Grids of any extents as dispatches, whose extents adapters limit.
//!
//! A grid that fits is dispatched as it is. Another is *folded*: its blocks are numbered, x
//! fastest, and dispatched in rows of workgroups, the last of which has some too many. Each
//! workgroup finds the block's index from its number; those that are too many leave at once.

/// How a grid is dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Workgroups on x, y and z.
    pub groups: [u32; 3],
    /// The field [`Parameter::Fold`](crate::Parameter::Fold): workgroups of a row; 0 where
    /// workgroups lie as blocks do.
    pub fold: u32,
}

impl Dispatch {
    /// The dispatch of a grid on an adapter with at most so many workgroups on each axis
    /// (`max_compute_workgroups_per_dimension`); `None` for one of more than `limit` rows, of 2^31
    /// blocks or more on an axis, or of 2^32 in all.
    ///
    /// ```
    /// use kiln_wgpu::Dispatch;
    /// assert_eq!(Dispatch::of([65_535, 2, 1], 65_535), Some(Dispatch { groups: [65_535, 2, 1], fold: 0 }));
    /// assert_eq!(Dispatch::of([65_536, 1, 1], 65_535), Some(Dispatch { groups: [32_768, 2, 1], fold: 32_768 }));
    /// assert_eq!(Dispatch::of([1 << 20, 1 << 20, 1], 65_535), None);
    /// ```
    pub fn of(grid: [u32; 3], limit: u32) -> Option<Dispatch> {
        if grid.iter().any(|&extent| extent > i32::MAX as u32) {
            return None;
        }
        if grid.iter().all(|&extent| extent <= limit) {
            return Some(Dispatch { groups: grid, fold: 0 });
        }
        let blocks = grid.iter().try_fold(1u32, |blocks, &extent| blocks.checked_mul(extent))?;
        if blocks == 0 {
            return Some(Dispatch { groups: [0; 3], fold: 0 });
        }
        // Rows of the same length leave the fewest workgroups over.
        let rows = blocks.div_ceil(limit.max(1));
        let width = blocks.div_ceil(rows);
        let is_word = u64::from(width) * u64::from(rows) <= 1 << 32;
        (rows <= limit && is_word).then_some(Dispatch { groups: [width, rows, 1], fold: width })
    }
}

#[cfg(test)]
mod tests {
    use super::Dispatch;

    #[test]
    fn every_block_has_a_workgroup() {
        for (grid, limit) in [
            ([65_536, 1, 1], 65_535),
            ([1, 70_000, 3], 65_535),
            ([1, 1, 4_000_000], 65_535),
            ([7, 11, 1], 10),
            ([1 << 16, 1 << 14, 2], 65_535),
            ([33, 1, 1], 32),
        ] {
            let blocks: u64 = grid.iter().map(|&extent| u64::from(extent)).product();
            let Some(Dispatch { groups, fold }) = Dispatch::of(grid, limit) else { panic!("{grid:?}") };
            let there = u64::from(groups[0]) * u64::from(groups[1]);
            assert!(groups.iter().all(|&extent| extent <= limit), "{groups:?}");
            assert!(fold == groups[0] && there >= blocks, "{groups:?} of {grid:?}");
            // Numbers of workgroups are words.
            assert!(there <= 1 << 32 && there - blocks < u64::from(groups[1]), "{groups:?} of {grid:?}");
        }
    }

    #[test]
    fn grids_that_are_too_large_have_none() {
        assert_eq!(Dispatch::of([33, 32, 1], 32), None);
        assert_eq!(Dispatch::of([u32::MAX, 2, 1], 65_535), None);
        assert_eq!(Dispatch::of([u32::MAX, 1, 1], 65_535), None);
    }

    #[test]
    fn a_grid_without_blocks_stays_empty() {
        assert_eq!(Dispatch::of([0, 5, 1], 8), Some(Dispatch { groups: [0, 5, 1], fold: 0 }));
        assert_eq!(Dispatch::of([0, 50, 1], 8), Some(Dispatch { groups: [0; 3], fold: 0 }));
    }
}

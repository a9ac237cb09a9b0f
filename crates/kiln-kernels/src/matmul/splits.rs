//! Adding up the parts of sums, where a long inner extent was divided among programs.

use super::epilogue::{Epilogue, TilePosition};
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

/// Kernels, for launches of one's own.
pub mod kernels {
    use super::*;

    /// c = the sums of `splits` matrices of `parts` each, in their order, through the epilogue: a
    /// tile a program.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn add_up<S: Num, O: Numeric, E: Epilogue<S>>(
        parts: &Tensor<S, 3>,
        c: &mut Tensor<O, 3>,
        epilogue: E,
        splits: usize,
        rows: usize,
        columns: usize,
    ) {
        let (batch, row, column) = (program_id(2), program_id(1) * rows, program_id(0) * columns);
        let mut sums = zeros::<S>((rows, columns));
        for split in 0..splits {
            let part = parts.row(batch * splits + split);
            sums += part.tile((row, column), (rows, columns)).load(0);
        }
        let place = TilePosition { batch, row, column, shape: [rows, columns] };
        let result = E::apply(&epilogue, sums, &place).cast::<O>();
        c.row(batch).tile((row, column), (rows, columns)).store(result);
    }
}

/// c = the sums of parts, through the epilogue.
pub(super) fn add_up<S: Num, O: Numeric, E: Epilogue<S>>(
    parts: &Tensor<S, 3>,
    c: &mut Tensor<O, 3>,
    epilogue: E,
    splits: usize,
) -> Result<()> {
    let device = c.device().clone();
    let columns = c.shape()[2].next_power_of_two().min(128);
    kernels::add_up::<S, O, E>(parts, c, epilogue, splits, 1024 / columns, columns).launch(&device)
}

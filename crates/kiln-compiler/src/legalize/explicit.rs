//! The explicit level: products keep their one instruction and give their result side by side, one
//! tile for each part of its columns; tiles are packed and stored part by part.

use super::Legalizer;
use crate::error::CompileError;
use kiln_ir::{ExplicitOp, OpData, OpKind, Operand, Scalar, Type, Value};

impl<'a> Legalizer<'a> {
    pub(super) fn explicit(&mut self, data: &'a OpData, kind: &ExplicitOp) -> Result<(), CompileError> {
        match kind {
            ExplicitOp::Exp2Flushed => self.each(data, |_, _, _| ()),
            ExplicitOp::Wgmma { .. } | ExplicitOp::WgmmaRegisters { .. } | ExplicitOp::WgmmaWait { .. } => {
                let mut tiles = data.operands.iter().chain(&data.results);
                if tiles.any(|&v| self.has_split_rows(v)) {
                    return Err(self.unsupported(
                        data,
                        "use rows that are a power of two, and any multiple of 8 columns",
                    ));
                }
                self.carried(data)?;
            }
            ExplicitOp::PackPairs { .. } => self.pack_pairs(data),
            ExplicitOp::SharedStore { column } => self.shared_store(data, *column)?,
            ExplicitOp::SharedTile { .. }
            | ExplicitOp::Mbarrier { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::MbarrierWait
            | ExplicitOp::TmaLoad { .. }
            | ExplicitOp::TmaStore
            | ExplicitOp::TmaReduce(_)
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::TmaStoreWait { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskBarrier
            | ExplicitOp::Signal
            | ExplicitOp::SignalWait
            | ExplicitOp::SharedLoad
            | ExplicitOp::Tasks(_)
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => {
                return Err(self.unsupported(data, "use extents that are powers of two"));
            }
        }
        Ok(())
    }

    fn has_split_rows(&self, value: Value) -> bool {
        self.src.shape(value).extents().first().is_some_and(|rows| !rows.is_power_of_two())
    }

    /// Half of the columns: its parts are those of the tile, halved.
    fn pack_pairs(&mut self, data: &OpData) {
        let (operand, result) = (data.operand(Operand::Registers), data.results[0]);
        let grid = self.grid(result);
        for (at, cell) in grid.cells().iter().enumerate() {
            let part = self.values[operand.index()][at];
            let ty = Type::tile(Scalar::U32, grid.shape(cell));
            let op = self.b.op(data.kind.clone(), &[part], &[ty]);
            let packed = self.b.kernel.result(op);
            self.values[result.index()].push(packed);
        }
    }

    /// The columns that are stored lie in one part.
    fn shared_store(&mut self, data: &OpData, column: u32) -> Result<(), CompileError> {
        let tile = data.stored_value();
        let made = self.src.defining_op(data.tile()).map(|made| &made.kind);
        let Some(OpKind::Explicit(ExplicitOp::SharedTile { columns, .. })) = made else {
            return Err(self.unsupported(data, "store to a shared tile"));
        };
        let paired = self.src.ty(tile).elem().bytes() / self.src.ty(data.tile()).elem().bytes();
        let (first, columns) = (column / paired, columns / paired);
        let grid = self.grid(tile);
        for (at, cell) in grid.cells().iter().enumerate() {
            let (begin, shape) = (grid.begin(cell), grid.shape(cell));
            let inside = begin[1] <= first && first + columns <= begin[1] + shape[1];
            if inside && !self.has_split_rows(tile) {
                let column = (first - begin[1]) * paired;
                let [to, stage] = [data.tile(), data.stage()].map(|v| self.values[v.index()][0]);
                let operands = [self.values[tile.index()][at], to, stage];
                self.b.op(OpKind::Explicit(ExplicitOp::SharedStore { column }), &operands, &[]);
                return Ok(());
            }
        }
        Err(self.unsupported(
            data,
            "store columns of one of the powers of two whose sum the extent is, such as each 64 of 192",
        ))
    }
}

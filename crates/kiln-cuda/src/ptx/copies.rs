//! Bulk tensor copies (PTX ISA 8.0, "cp.async.bulk.tensor").

use super::explicit::{PANEL, SharedTile};
use super::parameters::first_word;
use super::register::{Class, Reg};
use super::team::Team;
use super::tensor_map::{TensorMap, Way, stored_as};
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{BulkReduce, Def, OpData, Scalar, Value};

/// A part of a box that one instruction moves: the distance from the first of the rows in shared
/// memory, in bytes, and from the first element of the box along the last axis.
type Piece = (u32, u32);

/// The panels of a shared tile.
fn panels(tile: &SharedTile) -> Vec<Piece> {
    (0..tile.panels()).map(|panel| (panel * tile.rows * PANEL, panel * tile.panel_columns())).collect()
}

/// The parts of the box of a view of so many axes that is rows of a shared tile.
///
/// A panel is one part. Of a vector, whose box is the tile's rows one after the other, each row of
/// a panel is: it is swizzled as the panel is, since the hardware takes the swizzle from the
/// address in shared memory (CUDA C++ Programming Guide, "TMA Swizzle").
fn pieces(rank: usize, rows: u32, tile: &SharedTile) -> Vec<Piece> {
    if rank > 1 {
        return panels(tile);
    }
    let of_row = |row| {
        let moved = move |(bytes, column)| (bytes + row * PANEL, column + row * tile.columns);
        panels(tile).into_iter().map(moved)
    };
    (0..rows).flat_map(of_row).collect()
}

impl Writer<'_> {
    pub(super) fn tma_load(
        &mut self,
        data: &OpData,
        team: Team,
        rows: u32,
        multicast: u32,
        way: Way,
    ) -> Result<()> {
        let rank = data.coordinates().len();
        let tile = self.shared_tile(data.tile(), data.stage())?;
        let row = self.narrow(data.row())?;
        let to = self.reg(Class::B32);
        self.put(format_args!("mad.lo.u32 {to}, {row}, {PANEL}, {}", tile.address));
        let barrier = self.mbarrier(data)?;
        let map = self.tensor_map((data.view(), tile.elem), way, [rows, tile.panel_columns()])?;
        let mut offsets = self.tensor_offsets(data.coordinates())?;
        if way == Way::LoadTransposed {
            offsets.swap(0, 1);
        }
        let cast = if multicast > 0 { ".multicast::cluster" } else { "" };
        let mask = match multicast {
            0 => String::new(),
            mask => {
                let bits = self.reg(Class::B16);
                self.put(format_args!("mov.b16 {bits}, {mask}"));
                format!(", {bits}")
            }
        };
        for (bytes, column) in pieces(rank, rows, &tile) {
            let at = self.piece_coordinates(&offsets, column);
            self.put(format_args!(
                "{}cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{cast} [{to}+{bytes}], [{map}, {at}], [{barrier}]{mask}",
                team.first,
            ));
        }
        Ok(())
    }

    /// Stores boxes, or combines what is there with them.
    pub(super) fn tma_store(&mut self, data: &OpData, team: Team, combine: Option<BulkReduce>) -> Result<()> {
        let tile = self.shared_tile(data.tile(), data.stage())?;
        let extents = [tile.rows, tile.panel_columns()];
        let map = self.tensor_map((data.view(), stored_as(tile.elem, combine)), Way::Store, extents)?;
        let (name, how) = match combine {
            None => ("cp.async", String::new()),
            Some(op) => ("cp.reduce.async", format!(".{}.tile", op.word())),
        };
        let rank = data.coordinates().len();
        let offsets = self.tensor_offsets(data.coordinates())?;
        for (bytes, column) in pieces(rank, tile.rows, &tile) {
            let at = self.piece_coordinates(&offsets, column);
            self.put(format_args!(
                "{}{name}.bulk.tensor.{rank}d.global.shared::cta{how}.bulk_group [{map}, {at}], [{}+{bytes}]",
                team.first, tile.address,
            ));
        }
        self.put(format_args!("{}cp.async.bulk.commit_group", team.first));
        Ok(())
    }

    /// Brings a box to the L2 cache, part by part as a load does, whose map it takes.
    pub(super) fn tma_prefetch(
        &mut self,
        data: &OpData,
        team: Team,
        [rows, columns]: [u32; 2],
    ) -> Result<()> {
        let (view, elem) = (data.view(), self.elem(data.view()));
        let width = PANEL / elem.bytes();
        let map = self.tensor_map((view, elem), Way::Load, [rows, width])?;
        let rank = data.coordinates().len();
        let offsets = self.tensor_offsets(data.coordinates())?;
        // The rows of a vector's box follow each other, so its parts do.
        let all = if rank == 1 { rows * columns } else { columns };
        for column in (0..all).step_by(width as usize) {
            let at = self.piece_coordinates(&offsets, column);
            self.put(format_args!(
                "{}cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [{map}, {at}]",
                team.first,
            ));
        }
        Ok(())
    }

    /// Offsets as 32-bit registers, last axis first.
    fn tensor_offsets(&mut self, offsets: &[Value]) -> Result<Vec<Reg>> {
        offsets.iter().rev().map(|&v| self.narrow(v)).collect()
    }

    /// The coordinates of a part in braces.
    fn piece_coordinates(&mut self, offsets: &[Reg], column: u32) -> String {
        let mut all: Vec<String> = offsets.iter().map(Reg::to_string).collect();
        if column > 0 {
            let moved = self.reg(Class::B32);
            self.put(format_args!("add.u32 {moved}, {}, {column}", offsets[0]));
            all[0] = moved.to_string();
        }
        format!("{{{}}}", all.join(", "))
    }

    /// Fetches the map that a copy will need: that takes about as long as everything else at the
    /// beginning.
    pub(super) fn prefetch_map(
        &mut self,
        (view, elem): (Value, Scalar),
        way: Way,
        rows: u32,
        team: Team,
    ) -> Result<()> {
        let known = self.explicit.maps.all.len();
        let map = self.tensor_map((view, elem), way, [rows, PANEL / elem.bytes()])?;
        if self.explicit.maps.all.len() > known {
            self.put(format_args!("{}prefetch.tensormap [{map}]", team.first));
        }
        Ok(())
    }

    /// The address of the map of a view parameter, whose elements are seen as these, for boxes of
    /// these extents.
    fn tensor_map(
        &mut self,
        (view, elem): (Value, Scalar),
        way: Way,
        [rows, columns]: [u32; 2],
    ) -> Result<Reg> {
        let kernel = self.kernel;
        let (Def::Arg(_, position), Some(ty)) = (kernel.def(view), kernel.ty(view).as_view()) else {
            return Err(broken("a copy of a view that is no parameter"));
        };
        let word = first_word(kernel, position as usize);
        let name = kernel.params[position as usize].name.clone();
        // The rows of a vector are moved one by one, however many a copy has.
        let extents = [if ty.rank == 1 { 1 } else { rows }, columns];
        let map = TensorMap { name, word: word as u32, rank: ty.rank, elem, extents, way };
        let number = self.explicit.maps.number(map);
        let (param, address) = (self.reg(Class::B64), self.reg(Class::B64));
        self.put(format_args!("mov.b64 {param}, m{number}"));
        self.put(format_args!("cvta.param.u64 {address}, {param}"));
        Ok(address)
    }
}

//! Bulk tensor copies (PTX ISA 8.0, "cp.async.bulk.tensor").

use super::explicit::PANEL;
use super::parameters::first_word;
use super::register::{Class, Reg};
use super::team::Team;
use super::tensor_map::{TensorMap, Way};
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{Def, OpData, Value};

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
        let map = self.tensor_map(data.view(), way, [rows, tile.panel_columns()])?;
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
        for panel in 0..tile.panels() {
            let at = self.panel_coordinates(&offsets, panel * tile.panel_columns());
            self.put(format_args!(
                "{}cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{cast} [{to}+{}], [{map}, {at}], [{barrier}]{mask}",
                team.first,
                panel * tile.rows * PANEL,
            ));
        }
        Ok(())
    }

    pub(super) fn tma_store(&mut self, data: &OpData, team: Team) -> Result<()> {
        let tile = self.shared_tile(data.tile(), data.stage())?;
        let map = self.tensor_map(data.view(), Way::Store, [tile.rows, tile.panel_columns()])?;
        let rank = data.coordinates().len();
        let offsets = self.tensor_offsets(data.coordinates())?;
        for panel in 0..tile.panels() {
            let at = self.panel_coordinates(&offsets, panel * tile.panel_columns());
            self.put(format_args!(
                "{}cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [{map}, {at}], [{}+{}]",
                team.first,
                tile.address,
                panel * tile.rows * PANEL,
            ));
        }
        self.put(format_args!("{}cp.async.bulk.commit_group", team.first));
        Ok(())
    }

    /// Offsets as 32-bit registers, last axis first.
    fn tensor_offsets(&mut self, offsets: &[Value]) -> Result<Vec<Reg>> {
        offsets.iter().rev().map(|&v| self.narrow(v)).collect()
    }

    /// The coordinates of a panel in braces.
    fn panel_coordinates(&mut self, offsets: &[Reg], column: u32) -> String {
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
    pub(super) fn prefetch_map(&mut self, view: Value, way: Way, rows: u32, team: Team) -> Result<()> {
        let known = self.explicit.maps.all.len();
        let map = self.tensor_map(view, way, [rows, PANEL / self.elem(view).bytes()])?;
        if self.explicit.maps.all.len() > known {
            self.put(format_args!("{}prefetch.tensormap [{map}]", team.first));
        }
        Ok(())
    }

    /// The address of the map of a view parameter for boxes of these extents.
    fn tensor_map(&mut self, view: Value, way: Way, extents: [u32; 2]) -> Result<Reg> {
        let kernel = self.kernel;
        let (Def::Arg(_, position), Some(ty)) = (kernel.def(view), kernel.ty(view).as_view()) else {
            return Err(broken("a copy of a view that is no parameter"));
        };
        let word = first_word(kernel, position as usize);
        let name = kernel.params[position as usize].name.clone();
        let map = TensorMap { name, word: word as u32, rank: ty.rank, elem: ty.elem, extents, way };
        let number = self.explicit.maps.number(map);
        let (param, address) = (self.reg(Class::B64), self.reg(Class::B64));
        self.put(format_args!("mov.b64 {param}, m{number}"));
        self.put(format_args!("cvta.param.u64 {address}, {param}"));
        Ok(address)
    }
}

//! Ordered accesses: one after the other in the order of the lanes, each at a place of its own.

use super::rewrite::Rewrite;
use kiln_backend::Result;
use kiln_ir::{OpData, OpKind, Type};

impl Rewrite<'_> {
    /// With one thread, the operation as it is. With several, the same on lanes, with a mask after
    /// the indices.
    pub(super) fn ordered(&mut self, data: &OpData) -> Result<()> {
        if self.lanes == 1 {
            return self.plain(data);
        }
        let indices = data.coordinates();
        let values = if let OpKind::Atomic128 { .. } = data.kind {
            data.access_values()
        } else {
            data.stored_values()
        };
        let mut operands = vec![self.uniform(data.view())?];
        operands.extend(self.all_lanes(indices)?);
        operands.push(self.mask_or_all());
        operands.extend(self.all_lanes(values)?);
        let types: Vec<Type> = data.results.iter().map(|&r| self.lanes_type(self.old.ty(r).elem())).collect();
        let op = self.b.op(data.kind.clone(), &operands, &types);
        for (i, &result) in data.results.iter().enumerate() {
            let value = self.b.kernel.op(op).results[i];
            self.set_lanes(result, value);
        }
        Ok(())
    }
}

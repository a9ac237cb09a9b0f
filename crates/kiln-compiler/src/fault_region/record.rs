//! The values of a check that failed, which the fault region's record gets. All of it stands in the
//! arm of the fault, so that a check that holds costs what it would without a record.

use super::Lowering;
use super::region::Check;
use kiln_ir::{
    BinaryOp, Block, Bounds, Builder, CompareOp, Literal, OpData, OpKind, ReduceOp, Scalar, Shape, UnaryOp,
    Value,
};

impl Lowering<'_> {
    /// Appends what records the fault of a check, if the fault region has a record.
    pub(super) fn record_fault(&mut self, at: Block, number: u32, check: Check) {
        let Some(record) = self.record else { return };
        let room = self.kernel.alloc_shape(record).map_or(0, |shape| shape.len());
        let data = self.kernel.op(check.op).clone();
        let write = |b: &mut Builder<'_>| {
            let mut words = vec![b.constant(Literal::from_bits(Scalar::U64, number.into()))];
            let values = reported(b, &data);
            words.extend(values.into_iter().map(|value| bits(b, value)));
            for (at, word) in words.into_iter().take(room).enumerate() {
                let index = b.index(at as i64);
                b.scatter(record, &[index], None, word, Bounds::Trust);
            }
        };
        match check.own {
            None => write(&mut self.at(at)),
            Some(own) => {
                let failed = self.at(at).unary(UnaryOp::Not, own);
                self.only_where(at, failed, write);
            }
        }
    }
}

/// The values that a check reports.
fn reported(b: &mut Builder<'_>, data: &OpData) -> Vec<Value> {
    if let OpKind::Assert(_) = data.kind {
        data.shown().to_vec()
    } else if data.kind.divides() {
        Vec::new()
    } else {
        first_outside(b, data)
    }
}

/// The index and the extent of the first axis that an access leaves.
fn first_outside(b: &mut Builder<'_>, data: &OpData) -> Vec<Value> {
    let view = data.view();
    let rank = b.kernel.ty(view).as_view().map_or(0, |v| v.rank);
    let chosen = data.mask();
    let mut first: Option<[Value; 2]> = None;
    for axis in (0..rank).rev() {
        let index = b.cast(data.coordinates()[axis as usize], Scalar::I64);
        let extent = b.extent(view, axis);
        let (leaves, index) = outside(b, index, extent, chosen);
        first = Some(match first {
            None => [index, extent],
            Some([later, its]) => [b.select(leaves, index, later), b.select(leaves, extent, its)],
        });
    }
    first.map_or_else(Vec::new, Vec::from)
}

/// Whether an access leaves an axis, and the index there; of a tile, the least one that does.
fn outside(b: &mut Builder<'_>, index: Value, extent: Value, chosen: Option<Value>) -> (Value, Value) {
    let shape = b.kernel.shape(index);
    let (place, end) = (b.cast(index, Scalar::U64), b.cast(extent, Scalar::U64));
    let end = b.broadcast(end, shape.clone());
    let mut leaves = b.compare(CompareOp::Ge, place, end);
    if let Some(chosen) = chosen {
        leaves = b.binary(BinaryOp::And, leaves, chosen);
    }
    if shape.rank() == 0 {
        return (leaves, index);
    }
    let none = b.splat(Literal::index(i64::MAX), shape.clone());
    let index = b.select(leaves, index, none);
    let [leaves, index] = [leaves, index].map(|tile| b.reshape(tile, Shape::new(&[shape.len() as u32])));
    (b.reduce(ReduceOp::Or, 0, leaves), b.reduce(ReduceOp::Min, 0, index))
}

/// A value as a record holds it; see [`kiln_ir::recorded`].
fn bits(b: &mut Builder<'_>, value: Value) -> Value {
    let to = kiln_ir::recorded(b.kernel.ty(value).elem());
    let value = b.cast(value, to);
    match to {
        Scalar::F32 => {
            let word = b.bitcast(value, Scalar::U32);
            b.cast(word, Scalar::U64)
        }
        Scalar::F64 => b.bitcast(value, Scalar::U64),
        _ => b.cast(value, Scalar::U64),
    }
}

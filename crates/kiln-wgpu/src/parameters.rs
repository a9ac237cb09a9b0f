//! The block of parameters: element offsets, extents and strides of views, and scalars.
//!
//! It is recorded with the launch where the adapter has immediates of its size, and one uniform
//! buffer elsewhere. A field has the low bytes of the 64-bit word that a launch has for it,
//! little-endian, so that one rule fills them all.

use crate::body::Expr;
use crate::features::Features;
use kiln_ir::{Kernel, OpKind, Operand};
use std::collections::BTreeSet;

/// What a field of the parameter block holds. Parameters of the kernel are named by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parameter {
    /// Where element 0 of a view lies in its buffer, in elements.
    Offset(usize),
    /// The extent of a view on an axis.
    Extent(usize, u32),
    /// The stride of a view on an axis, in elements.
    Stride(usize, u32),
    /// The bits of a scalar, zero-extended.
    Scalar(usize),
    /// The extent of the launch's grid on an axis, in blocks.
    Grid(u32),
    /// How the grid is dispatched: [`Dispatch::fold`](crate::Dispatch::fold).
    Fold,
    /// The number, other than 0, by which [`read_report`](crate::read_report) finds the module's
    /// [`Report`](crate::Report).
    Program,
}

/// A field of the parameter block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// What it holds.
    pub parameter: Parameter,
    /// Its name in the module.
    pub name: String,
    /// Where it begins, in bytes.
    pub offset: u32,
    /// Its size in bytes, 4 or 8: as many low bytes of the value as a 64-bit word.
    pub bytes: u32,
}

/// The block's fields, and each field's value.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) fields: Vec<Field>,
    pub(crate) values: Vec<Expr>,
    /// The size of the block in bytes.
    pub(crate) size: u32,
}

impl Parameters {
    /// Whether a launch has them as immediates.
    pub(crate) fn are_immediate(&self, features: Features) -> bool {
        self.size <= features.immediate_bytes
    }
}

/// The fields that a kernel reads. It has a report if it can fault or print.
pub(crate) fn read(kernel: &Kernel, reports: bool) -> BTreeSet<Parameter> {
    let args = &kernel.block(kernel.body).args;
    let mut fields: BTreeSet<Parameter> = (0..3).map(Parameter::Grid).chain([Parameter::Fold]).collect();
    fields.extend(reports.then_some(Parameter::Program));
    for (i, param) in kernel.params.iter().enumerate() {
        fields.insert(if param.ty.as_view().is_some() { Parameter::Offset(i) } else { Parameter::Scalar(i) });
    }
    kernel.walk(|_, data| {
        let Some(param) =
            data.named(Operand::View).first().and_then(|view| args.iter().position(|arg| arg == view))
        else {
            return;
        };
        let rank = kernel.params[param].ty.as_view().map_or(0, |view| view.rank);
        if let OpKind::Extent(axis) = data.kind {
            fields.insert(Parameter::Extent(param, axis));
        } else if let OpKind::Stride(axis) = data.kind {
            fields.insert(Parameter::Stride(param, axis));
        } else if !matches!(data.kind, OpKind::Linear { .. }) {
            for axis in 0..rank {
                fields.insert(Parameter::Extent(param, axis));
                fields.insert(Parameter::Stride(param, axis));
            }
        }
    });
    fields
}

//! Elements of a view at indices, where a mask selects them: what gathers, scatters and atomics are
//! about.

use super::core::ViewCore;
use super::made::{Placed, placed};
use crate::ops::common_shape;
use crate::trace::{Id, Raw, Recorder, Site, with};
use kiln_ir::{Bounds, OpKind, Scalar, Shape, Type};
use smallvec::SmallVec;

/// Elements of a view that are reached by indices, whatever their type.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub view: &'a ViewCore,
    /// One for each axis that is not fixed.
    pub indices: &'a [Raw],
    pub mask: Option<Raw>,
}

/// What an operation on a selection needs.
pub(super) struct Access {
    /// The view, the indices and the mask.
    pub operands: SmallVec<[Id; 4]>,
    pub shape: Shape,
}

impl Placed {
    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { view: &self.view, indices: &self.index, mask: self.mask }
    }
}

impl Selection<'_> {
    /// Stretches view, indices and mask to one shape, that of the value too.
    pub(super) fn access(&self, r: &mut Recorder, value: Option<Raw>, site: Site) -> Option<Access> {
        let mut all: SmallVec<[Raw; 8]> = SmallVec::from_slice(self.indices);
        all.extend(self.mask);
        all.extend(value);
        let shape = common_shape(r, &all, site)?;
        let mut operands = self.view.operands(r, self.indices, &shape, site)?;
        if let Some(mask) = self.mask {
            operands.push(r.read_as(mask, &shape, site)?);
        }
        Some(Access { operands, shape })
    }

    /// The same elements of the view that this one was made of, if the kernel made it.
    pub(super) fn placed(&self, bounds: Bounds, site: Site) -> Option<Placed> {
        placed(self.view, self.indices, self.mask, bounds, site)
    }

    pub(super) fn gather(&self, other: Raw, bounds: Bounds, elem: Scalar, site: Site) -> Raw {
        if let Some(below) = self.placed(bounds, site) {
            return below.selection().gather(other, bounds, elem, site);
        }
        let id = with(|r| {
            let mut access = self.access(r, None, site)?;
            access.operands.push(r.read_as(other, &Shape::scalar(), site)?);
            let kind = OpKind::Gather { bounds, masked: self.mask.is_some() };
            Some(r.op(kind, &access.operands, Type::tile(elem, access.shape), site))
        });
        Raw::of(id.flatten())
    }

    pub(super) fn scatter(&self, value: Raw, bounds: Bounds, site: Site) {
        self.store(value, bounds, false, site);
    }

    /// Stores elements of shared memory that may arrive when the thread waits for them.
    pub(super) fn begin_copy(&self, value: Raw, bounds: Bounds, site: Site) {
        self.store(value, bounds, true, site);
    }

    fn store(&self, value: Raw, bounds: Bounds, asynchronous: bool, site: Site) {
        if let Some(below) = self.placed(bounds, site) {
            return below.selection().store(value, bounds, asynchronous, site);
        }
        with(|r| {
            let mut access = self.access(r, Some(value), site)?;
            access.operands.push(r.read_as(value, &access.shape, site)?);
            let kind = OpKind::Scatter { bounds, masked: self.mask.is_some(), asynchronous };
            r.effect(kind, &access.operands, site);
            Some(())
        });
    }
}

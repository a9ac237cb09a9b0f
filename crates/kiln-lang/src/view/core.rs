//! A view of the IR, with some axes fixed at an index.
//!
//! `x.row(i)` is no operation: the index is kept beside the view, and loads and stores add it
//! again. Nor is a view that the kernel makes of another one (`made.rs`).

use crate::trace::{Id, MadeId, MadeView, Raw, Recorder, Site, error, with};
use crate::val::{Idx, Val, now};
use kiln_ir::{MAX_VIEW_RANK, OpKind, Scalar, Shape, Type};
use smallvec::SmallVec;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewCore {
    view: Raw,
    rank: usize,
    fixed: [Option<Raw>; MAX_VIEW_RANK],
    /// Where the kernel made the view, what it is; then `view` is that which it was made of.
    made: Option<MadeId>,
}

impl ViewCore {
    /// The view a value is.
    pub fn new(view: Id, rank: usize) -> ViewCore {
        ViewCore { view: Raw::Value(view), rank, fixed: [None; MAX_VIEW_RANK], made: None }
    }

    /// What is wrong with a view of this rank, and what to write instead; `None` if there is room
    /// for its axes.
    pub fn refusal(rank: usize) -> Option<(String, &'static str)> {
        (rank > MAX_VIEW_RANK).then(|| {
            let message = format!("a view of rank {rank}: a view has at most {MAX_VIEW_RANK} axes");
            (message, "combine axes that are contiguous, or fix some of them before the launch")
        })
    }

    /// A view of rank 1 seen from the element `offset` on by other extents and strides.
    pub fn seen_from(&self, offset: Raw, extents: &[Raw], strides: &[Raw], site: Site) -> ViewCore {
        let rank = extents.len();
        if let Some((message, help)) = Self::refusal(rank) {
            error(site, message, help);
            return ViewCore::poison();
        }
        if matches!(self.view, Raw::Poison) {
            return *self;
        }
        let held = |raws: &[Raw]| -> [Raw; MAX_VIEW_RANK] {
            std::array::from_fn(|axis| raws.get(axis).map_or(Raw::Poison, |&raw| now(raw, site)))
        };
        let view = MadeView {
            view: self.view,
            rank: self.rank,
            fixed: self.fixed,
            made: self.made,
            offset: now(offset, site),
            extents: held(extents),
            strides: held(strides),
        };
        match with(|r| r.make_view(view)) {
            Some(id) => ViewCore { view: self.view, rank, fixed: [None; MAX_VIEW_RANK], made: Some(id) },
            None => ViewCore::poison(),
        }
    }

    /// What the view is, where the kernel made it, and the view that it was made of.
    pub fn made(&self) -> Option<(MadeView, ViewCore)> {
        let id = self.made?;
        let made = with(|r| r.made_view(id)).flatten()?;
        let MadeView { view, rank, fixed, made: below, .. } = made;
        Some((made, ViewCore { view, rank, fixed, made: below }))
    }

    /// An index for every axis, given those of the axes that are not fixed.
    pub fn indices(&self, free: &[Raw]) -> Option<SmallVec<[Raw; MAX_VIEW_RANK]>> {
        let mut free = free.iter().copied();
        (0..self.rank).map(|axis| self.fixed[axis].or_else(|| free.next())).collect()
    }

    /// The value of the whole view.
    pub fn whole(&self, r: &mut Recorder, site: Site) -> Option<Id> {
        self.is_known(r, site).then(|| r.read(self.view, site)).flatten()
    }

    /// Whether the launch knows the view; reports one that the kernel made.
    fn is_known(&self, r: &mut Recorder, site: Site) -> bool {
        if self.made.is_some() {
            let message = "this operation needs a view that the launch knows, and the kernel made this one";
            r.error(
                site,
                message,
                "use `get`, `write`, boxes, `scatter` or atomics, or the view it is made of",
            );
        }
        self.made.is_none()
    }

    /// A view after an error.
    pub fn poison() -> ViewCore {
        ViewCore { view: Raw::Poison, rank: 0, fixed: [None; MAX_VIEW_RANK], made: None }
    }

    /// The handle of the view, if none of its axes is fixed.
    pub fn all(&self) -> Option<Raw> {
        (self.made.is_none() && self.fixed.iter().all(Option::is_none)).then_some(self.view)
    }

    /// Calls `visit` on every handle.
    pub fn handles(&self, mut visit: impl FnMut(Raw)) {
        std::iter::once(self.view).chain(self.fixed.into_iter().flatten()).for_each(&mut visit);
        if let Some((made, below)) = self.made() {
            below.handles_erased(&mut visit);
            visit(made.offset);
            made.extents.into_iter().chain(made.strides).for_each(visit);
        }
    }

    fn handles_erased(&self, visit: &mut dyn FnMut(Raw)) {
        self.handles(visit);
    }

    /// The axes that are not fixed.
    fn free_axes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rank).filter(|&a| self.fixed[a].is_none())
    }

    /// Whether this is a row or column of the view.
    pub fn is_part(&self) -> bool {
        self.fixed.iter().any(Option::is_some)
    }

    /// The view with one more of its free axes fixed.
    pub fn fix(mut self, axis: usize, index: Raw, site: Site) -> ViewCore {
        let Some(axis) = self.free_axis(axis, site) else { return ViewCore::poison() };
        self.fixed[axis] = Some(now(index, site));
        self
    }

    /// The extent of a free axis.
    pub fn extent(&self, axis: usize, site: Site) -> Idx {
        self.query(OpKind::Extent, |made| made.extents, axis, site)
    }

    /// The stride of a free axis.
    pub fn stride(&self, axis: usize, site: Site) -> Idx {
        self.query(OpKind::Stride, |made| made.strides, axis, site)
    }

    fn query(
        &self,
        kind: fn(u32) -> OpKind,
        of_made: fn(&MadeView) -> [Raw; MAX_VIEW_RANK],
        axis: usize,
        site: Site,
    ) -> Idx {
        let Some(axis) = self.free_axis(axis, site) else { return Idx::poison() };
        if let Some((made, _)) = self.made() {
            return Val::from_raw(of_made(&made)[axis]);
        }
        let id = with(|r| {
            let view = r.read(self.view, site)?;
            Some(r.op(kind(axis as u32), &[view], Type::scalar(Scalar::I64), site))
        });
        Val::from_id(id.flatten())
    }

    /// The axis with this number among those that are not fixed; reports one that is not there.
    fn free_axis(&self, axis: usize, site: Site) -> Option<usize> {
        let found = self.free_axes().nth(axis);
        if found.is_none() {
            let rank = self.free_axes().count();
            error(site, format!("a view of rank {rank} has no axis {axis}"), "axes count from 0");
        }
        found
    }

    /// The view's value and an operand for every axis, fixed or not, each stretched to `shape`.
    pub fn operands(
        &self,
        r: &mut Recorder,
        free: &[Raw],
        shape: &Shape,
        site: Site,
    ) -> Option<SmallVec<[Id; 4]>> {
        let mut ids = SmallVec::new();
        ids.push(self.whole(r, site)?);
        let mut free = free.iter();
        for axis in 0..self.rank {
            let index = match self.fixed[axis] {
                Some(index) => index,
                None => *free.next()?,
            };
            ids.push(r.read_as(index, shape, site)?);
        }
        Some(ids)
    }

    /// The extents of a box of the whole view, given those on the axes that are not fixed.
    pub fn box_shape(&self, free: &Shape) -> Shape {
        let mut free = free.extents().iter();
        let extents: SmallVec<[u32; 4]> = (0..self.rank)
            .map(|a| if self.fixed[a].is_some() { 1 } else { free.next().copied().unwrap_or(1) })
            .collect();
        Shape::new(&extents)
    }
}

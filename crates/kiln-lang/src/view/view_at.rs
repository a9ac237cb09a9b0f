//! Views that a kernel makes of another one: an offset, extents and strides that the device knows.

use super::{Offsets, View, ViewMut};
use crate::elem::Elem;
use crate::val::IntoIndex;
use std::panic::Location;

impl<T: Elem> View<T, 1> {
    /// The elements of this view in another shape, which the device knows: element `(i, j, …)` is
    /// element `offset + i * strides.0 + j * strides.1 + …` of this one.
    ///
    /// Nothing outside this view can be reached. What lies outside of it, or outside the extents,
    /// is padding on a load and a fault where [`get`](View::get) checks its index. Strides may be
    /// 0 or negative. A program reads such a view by indices: boxes of a tensor's own shape, and of
    /// a view made on the host, are faster.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    ///
    /// /// Products of groups: each has its own matrices, of its own extents, in one long tensor.
    /// #[device(crate = kiln_lang)]
    /// fn rows_of_a_group(data: View<f32, 1>, groups: View<i64, 2>, group: Val<i64>) -> Val<f32> {
    ///     let (start, rows, columns) =
    ///         (groups.get((group, 0)), groups.get((group, 1)), groups.get((group, 2)));
    ///     let matrix = data.view_at(start, (rows, columns), (columns, 1));
    ///     matrix.tile((0, 0), (16, 32)).load(0.0)
    /// }
    /// # use kiln_lang::param::Facts;
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let (data, groups) = (p.view("data", Facts::default()), p.view("groups", Facts::default()));
    /// assert_eq!(rows_of_a_group(data, groups, program_id(0)).shape(), [16, 32]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn view_at<const S: usize>(
        &self,
        offset: impl IntoIndex,
        extents: impl Offsets<S>,
        strides: impl Offsets<S>,
    ) -> View<T, S> {
        let (offset, extents, strides) = (offset.into_index(), extents.offsets(), strides.offsets());
        View::from_core(self.core.seen_from(offset.raw(), &extents, &strides, Location::caller()))
    }
}

impl<T: Elem> ViewMut<T, 1> {
    /// As [`view_at`](View::view_at), to be stored to as well. Stores outside this view, or outside
    /// the extents, are dropped, or faults where [`write`](ViewMut::write) checks its index.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// # let starts = p.view::<i64, 1>("starts", Facts::default());
    /// let (start, end) = (starts.get(program_id(0)), starts.get(program_id(0) + 1));
    /// // SAFETY: the runs of two programs do not overlap.
    /// let run = unsafe { y.view_at_mut(start, end - start, 1) };
    /// run.store(x.view_at(start, end - start, 1).load(64, 0.0) * 2.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// What is stored through the view, safely or not, is stored to places of its own: no other
    /// thread or program of the launch reads or writes such an element, unless a barrier or an
    /// atomic orders the two. Different indices of this view are different places too, unless
    /// nothing is stored to them.
    #[track_caller]
    pub unsafe fn view_at_mut<const S: usize>(
        &self,
        offset: impl IntoIndex,
        extents: impl Offsets<S>,
        strides: impl Offsets<S>,
    ) -> ViewMut<T, S> {
        let view = self.view.view_at(offset, extents, strides);
        ViewMut::from_core(view.core)
    }
}

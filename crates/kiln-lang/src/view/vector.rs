//! Several adjacent elements, which a thread loads or stores at once.

use super::element::Indices;
use super::{View, ViewMut};
use crate::elem::Elem;
use crate::trace::{Raw, Site};
use crate::val::{Idx, IntoIndex, Val};
use kiln_ir::{Bounds, Literal};
use std::panic::Location;

/// The first element of a vector of `N`, and the others behind it; the last first, whose check is
/// one for all of them.
fn elements<const N: usize>(index: Idx) -> impl Iterator<Item = (usize, Idx, Bounds)> {
    const { assert!(N.is_power_of_two() && N <= 16, "a vector has 1, 2, 4, 8 or 16 elements") };
    let first = index * N as i64;
    let bounds = |lane| if lane == N - 1 { Bounds::Check } else { Bounds::Trust };
    std::iter::once(N - 1).chain(0..N - 1).map(move |lane| (lane, first + lane as i64, bounds(lane)))
}

impl<T: Elem> View<T, 1> {
    fn vector<const N: usize>(&self, index: Idx, site: Site) -> [Val<T>; N] {
        let zero = Raw::Const(Literal::zero(T::SCALAR));
        let mut all = [Val::poison(); N];
        for (lane, at, bounds) in elements::<N>(index) {
            all[lane] = Val::from_raw(self.at(&at.indices(), None).gather(zero, bounds, T::SCALAR, site));
        }
        all
    }

    /// The elements `N * index` to `N * index + N - 1`, what CUDA reads through a pointer to
    /// `float4` for four of f32. `N` is 1, 2, 4, 8 or 16. A vector that is not wholly inside the
    /// view ends the kernel with a fault.
    ///
    /// On NVIDIA GPUs it is one load of up to 16 bytes where the view begins at a multiple of that,
    /// as tensors do when they are allocated, and their rows if the number of columns is a multiple
    /// of `N`.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// let i = thread_index();
    /// memory.set(i, i.get().cast::<u32>());
    /// barrier();
    /// let [a, b, c, d] = memory.get_vec::<4>(thread_id(0) / 4);
    /// device_assert!(a.eq((thread_id(0) / 4 * 4).cast::<u32>()) & (a + b + c + d).eq(a * 4 + 6));
    /// # });
    /// ```
    #[track_caller]
    pub fn get_vec<const N: usize>(&self, index: impl IntoIndex) -> [Val<T>; N] {
        self.vector(index.into_index(), Location::caller())
    }
}

impl<T: Elem> ViewMut<T, 1> {
    fn put_vector<const N: usize>(&self, index: Idx, values: [Val<T>; N], site: Site) {
        for (lane, at, bounds) in elements::<N>(index) {
            self.at(&at.indices(), None).scatter(values[lane].raw(), bounds, site);
        }
    }

    /// Stores the elements `N * index` to `N * index + N - 1`: [`get_vec`](View::get_vec) the other
    /// way round.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let i = thread_index();
    /// let v = x.get_vec::<4>(i);
    /// // SAFETY: each thread has four elements of its own.
    /// unsafe { y.write_vec(i, v.map(|x| x * 2.0)) };
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// No other thread of the launch may read or write one of the elements, unless a barrier or an
    /// atomic orders the two.
    #[track_caller]
    pub unsafe fn write_vec<const N: usize>(&self, index: impl IntoIndex, values: [Val<T>; N]) {
        self.put_vector(index.into_index(), values, Location::caller());
    }
}

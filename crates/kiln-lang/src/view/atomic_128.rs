//! Atomic operations of 128 bits: on two adjacent elements of `u64`.

use super::ViewMut;
use super::atomic::{Atomics, Ordering, RELAXED};
use crate::diag;
use crate::thread::block;
use crate::trace::{Raw, Site, error, with};
use crate::val::{IntoIndex, IntoVal, Val};
use kiln_ir::{Atomic128Op, OpKind, Scalar, Shape, Type};
use smallvec::SmallVec;
use std::panic::Location;

impl ViewMut<u64, 1> {
    #[track_caller]
    fn atomic_128(
        &self,
        op: Atomic128Op,
        index: Raw,
        values: &[Val<u64>],
        ordering: Ordering,
    ) -> [Val<u64>; 2] {
        let none = [Val::poison(); 2];
        let site = Location::caller();
        if block("atomics of 128 bits", site).is_none() || !self.has_pairs(site) {
            return none;
        }
        let made = with(|r| {
            let mut operands = self.core.operands(r, &[index], &Shape::scalar(), site)?;
            for value in values {
                operands.push(r.read_as(value.raw(), &Shape::scalar(), site)?);
            }
            let types = [Scalar::U64, Scalar::U64, Scalar::Bool].map(Type::scalar);
            let kind = OpKind::Atomic128 { op, scope: ordering.scope() };
            ordering.before(r, site);
            let ids = r.op_of(kind, &operands, types, site);
            ordering.after(r, site);
            Some(ids)
        });
        let Some([first, second, found]) = made.flatten() else { return none };
        let text = "128 bits at index {} of {} elements: the index must be that of two elements inside the tensor, the first at a multiple of 16 bytes";
        let extent = self.core.extent(0, site);
        diag::assert(Val::<bool>::from_id(Some(found)), text, &[index, extent.raw()]);
        [first, second].map(|id| Val::from_id(Some(id)))
    }

    /// Whether the view is one of a launch, with elements one after the other; reports if not.
    fn has_pairs(&self, site: Site) -> bool {
        let whole = !self.core.is_part() && self.core.made().is_none();
        if !whole {
            let help = "pass the tensor as one of rank 1, and compute the index in it";
            error(site, "a part of a view has no atomics of 128 bits", help);
        }
        whole
    }

    /// Atomically replaces two adjacent elements, the one at the index first; gives the old ones.
    /// Relaxed; [`Atomics::exchange_128`] has an order.
    ///
    /// The two elements lie at a multiple of 16 bytes: at an even index of a tensor as it was
    /// allocated. An index without two such elements is a fault. The operation is atomic with
    /// respect to other operations of 128 bits; others may see one of the two elements new and the
    /// other old.
    ///
    /// NVIDIA GPUs of compute capability 9.0 and newer, `cpu` and `interp` have such operations;
    /// other devices refuse the launch by name.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let slots = p.view_mut::<u64, 1>("slots", Facts::default());
    /// let i = thread_id(0);
    /// let [key, value] = slots.atomic_exchange_128(2 * (i % 8), [i.cast::<u64>(), val(7)]);
    /// # _ = (key, value);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn atomic_exchange_128(
        &self,
        index: impl IntoIndex,
        values: [impl IntoVal<u64>; 2],
    ) -> [Val<u64>; 2] {
        let values = values.map(IntoVal::into_val);
        self.atomic_128(Atomic128Op::Exchange, index.into_index().raw(), &values, RELAXED)
    }

    /// Atomically replaces two adjacent elements if both are as expected; gives the old ones. As
    /// [`atomic_exchange_128`](Self::atomic_exchange_128) otherwise.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # #[device(crate = kiln_lang)]
    /// # fn push(head: ViewMut<u64, 1>, node: Val<u64>) {
    /// // A pointer and a count of its changes, so that an old pointer is never taken for a new one.
    /// let mut seen = head.atomic_cas_128(0, [0, 0], [0, 0]); // reads both
    /// let mut pushed: Val<bool> = false;
    /// while !pushed {
    ///     let [first, count] = seen;
    ///     let found = head.atomic_cas_128(0, [first, count], [node, count + 1]);
    ///     pushed = (found[0] == first) & (found[1] == count);
    ///     seen = found;
    /// }
    /// # }
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// #     push(p.view_mut::<u64, 1>("head", Facts::default()), thread_id(0).cast::<u64>());
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn atomic_cas_128(
        &self,
        index: impl IntoIndex,
        expected: [impl IntoVal<u64>; 2],
        desired: [impl IntoVal<u64>; 2],
    ) -> [Val<u64>; 2] {
        let values = joined(expected.map(IntoVal::into_val), desired.map(IntoVal::into_val));
        self.atomic_128(Atomic128Op::CompareExchange, index.into_index().raw(), &values, RELAXED)
    }
}

impl Atomics<u64, 1> {
    /// Replaces two adjacent elements: as
    /// [`atomic_exchange_128`](ViewMut::atomic_exchange_128), in the order.
    ///
    /// ```
    /// # use kiln_lang::{AtomicOrder, param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// # let slots = p.view_mut::<u64, 1>("slots", Facts::default());
    /// let ordered = slots.atomics(AtomicOrder::AcqRel, Scope::Device);
    /// let [state, ticket] = ordered.exchange_128(0, [1, 2]);
    /// let [found, _] = ordered.compare_exchange_128(2, [state, ticket], [state + 1, ticket]);
    /// # _ = found;
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn exchange_128(&self, index: impl IntoIndex, values: [impl IntoVal<u64>; 2]) -> [Val<u64>; 2] {
        let (index, values) = (index.into_index().raw(), values.map(IntoVal::into_val));
        self.view.atomic_128(Atomic128Op::Exchange, index, &values, self.ordering)
    }

    /// Replaces two adjacent elements if both are as expected: as
    /// [`atomic_cas_128`](ViewMut::atomic_cas_128), in the order.
    #[track_caller]
    pub fn compare_exchange_128(
        &self,
        index: impl IntoIndex,
        expected: [impl IntoVal<u64>; 2],
        desired: [impl IntoVal<u64>; 2],
    ) -> [Val<u64>; 2] {
        let values = joined(expected.map(IntoVal::into_val), desired.map(IntoVal::into_val));
        let index = index.into_index().raw();
        self.view.atomic_128(Atomic128Op::CompareExchange, index, &values, self.ordering)
    }
}

fn joined(expected: [Val<u64>; 2], desired: [Val<u64>; 2]) -> SmallVec<[Val<u64>; 4]> {
    expected.into_iter().chain(desired).collect()
}

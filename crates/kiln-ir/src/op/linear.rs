//! Accesses of a view at one linear index: how threads reach memory on a device that has no
//! addresses.
//!
//! The lowering to threads makes them of accesses with an index for each axis. The *linear index*
//! of an element counts elements from element 0 of the view, strides included, so that it may be
//! negative and lie beyond every extent. Nothing checks it: the predicate says where an access
//! takes place.
//!
//! ```text
//! %v0, %v1 = view_load.x2 %x[%i] where %p : f32, f32
//! view_store.x2 %y[%i] where %p = %v0, %v1
//! %old = view_atomic.add.device %count[%i] = %one : i32
//! ```

use super::{AtomicOp, Order, Reuse, Scope};

/// An access of a view at a linear index. Its operands are `(view, i32 or i64 index, [bool
/// predicate], …)` and those that it names below.
///
/// ```
/// use kiln_ir::{LinearOp, OpKind, Reuse, parse};
/// let kernel = parse("kernel @k(%x: view<f32, 1, global>, %i: i32) thread [32, 1, 1] {\n  %0, %1 = view_load.x2 %x[%i] : f32, f32\n}")?;
/// let load = kernel.op(kernel.block(kernel.body).ops[0]);
/// let op = LinearOp::Load { lanes: 2, reuse: Reuse::Normal };
/// assert_eq!(load.kind, OpKind::Linear { op, predicated: false });
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinearOp {
    /// `-> elem × lanes`: a load of adjacent elements; zeros where the predicate is false.
    Load {
        /// How many adjacent elements, 1 to 16; `lanes * size` is at most 16 bytes, and the place
        /// of the first element in memory is a multiple of it.
        lanes: u32,
        /// Cache use.
        reuse: Reuse,
    },
    /// `elem × lanes`: a store of adjacent elements.
    Store {
        /// As for `Load`.
        lanes: u32,
        /// Cache use.
        reuse: Reuse,
        /// As for [`OpKind::Scatter`](crate::OpKind::Scatter).
        asynchronous: bool,
    },
    /// `value -> old value`: zero where the predicate is false.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Among whom it is atomic.
        scope: Scope,
    },
    /// `expected, desired -> old value`.
    AtomicCas {
        /// Among whom it is atomic.
        scope: Scope,
    },
    /// `-> value`: an ordered load of an element of 4 or 8 bytes; zero where the predicate is
    /// false.
    OrderedLoad {
        /// `Relaxed` or `Acquire`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
    },
    /// `value`: an ordered store.
    OrderedStore {
        /// `Relaxed` or `Release`.
        order: Order,
        /// Among whom it is ordered.
        scope: Scope,
    },
    /// `-> u64`: the address of the element, of which nothing need be there. For what has no other
    /// form, such as asynchronous copies. It has no predicate.
    Address,
}

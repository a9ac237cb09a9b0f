//! Copies from global to shared memory that go on while the thread does.
//!
//! A thread begins copies, gathers those that it has begun in a *group*, and waits until all but
//! some of its youngest groups have arrived (PTX ISA, `cp.async`). Other threads see them after a
//! barrier that follows the wait.
//!
//! ```text
//! %v = gather.check %x[%i] pad %zero : f32
//! scatter.check.async %tile[%j] = %v          the element is under way
//! cp_async_commit                             as one of a group
//! cp_async_wait pending 0                     and here at last
//! barrier
//! ```
//!
//! A front end says by an asynchronous [`Scatter`](crate::OpKind::Scatter) that an element may
//! arrive late. A device without such copies stores it at once. The lowering to threads makes a
//! [`Copy`](AsyncCopyOp::Copy) of a load and such a store.

use smallvec::SmallVec;

/// An operation of a thread on its copies in flight.
///
/// ```
/// use kiln_ir::AsyncCopyOp;
/// let wait = AsyncCopyOp::Wait { pending: 2 };
/// assert_eq!((wait.name(), &wait.attributes()[..]), ("cp_async_wait", &[("pending", 2)][..]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AsyncCopyOp {
    /// `(u64 shared address, u64 global address, u32 bytes)`: begins to copy so many bytes (at most
    /// `width`, and a multiple of 4) to `width` bytes of shared memory, and zeros after them. Both
    /// addresses are multiples of the width. What is there is not defined until a
    /// [`Wait`](AsyncCopyOp::Wait) of this thread. The lowering makes it.
    Copy {
        /// 4, 8 or 16.
        width: u32,
    },
    /// `()`: the copies that this thread began since the last such operation are a group.
    Commit,
    /// `()`: waits until all but the last `pending` groups of this thread have arrived.
    Wait {
        /// How many may still be on their way.
        pending: u32,
    },
}

impl AsyncCopyOp {
    /// Its numbers, in the order of the text format.
    pub fn attributes(self) -> SmallVec<[(&'static str, u32); 6]> {
        match self {
            AsyncCopyOp::Copy { width } => SmallVec::from_slice(&[("width", width)]),
            AsyncCopyOp::Commit => SmallVec::new(),
            AsyncCopyOp::Wait { pending } => SmallVec::from_slice(&[("pending", pending)]),
        }
    }

    /// The operation with this word in the text format, whose numbers `number` reads. `Ok(None)`
    /// for a word that names none.
    ///
    /// # Errors
    /// Those of `number`.
    pub(crate) fn read<E>(
        name: &str,
        mut number: impl FnMut(&'static str) -> Result<u32, E>,
    ) -> Result<Option<AsyncCopyOp>, E> {
        Ok(Some(match name {
            "cp_async" => AsyncCopyOp::Copy { width: number("width")? },
            "cp_async_commit" => AsyncCopyOp::Commit,
            "cp_async_wait" => AsyncCopyOp::Wait { pending: number("pending")? },
            _ => return Ok(None),
        }))
    }
}

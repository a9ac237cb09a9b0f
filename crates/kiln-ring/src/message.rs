//! What actors are sent, what they answer, and what they keep.

use crate::layout::Layout;
use half::{bf16, f16};

/// What can be sent to an actor, or be its reply.
///
/// `#[derive(Message)]` implements it, and [`Layout`], for a struct of 4 bytes to 64 KiB, and makes
/// a struct for kernels beside it: for `Sample { channel: u32, value: f32 }` that is
/// `SampleVal { channel: Val<u32>, value: Val<f32> }`. Numbers, `bool`, [`Inline`](crate::Inline)
/// arrays, [`Payload`](crate::Payload)s, [`Address`](crate::Address)es and arrays of messages are
/// messages too.
///
/// The derive refers to the crate `::kiln`; `#[kiln(crate = path)]` names another.
///
/// A field of any other type is an error at the field:
///
/// ```compile_fail,E0277
/// struct Opaque;
///
/// #[derive(kiln_ring::Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Reading { n: u32, opaque: [Opaque; 2] }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    note = "for a struct, add `#[derive(Message)]`"
)]
pub trait Message: Layout {
    /// The type's name.
    const NAME: &'static str;
}

/// What an actor keeps from one message to the next: anything that is a [`Message`], and structs
/// with `#[derive(State)]`, which works as `#[derive(Message)]` does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of an actor",
    note = "for a struct, add `#[derive(State)]`; a struct that is a message as well derives `Message` alone"
)]
pub trait State: Layout {}

impl<M: Message> State for M {}

/// A handler without state.
impl State for () {}

macro_rules! numbers {
    ($($t:ident)*) => {$(
        impl Message for $t {
            const NAME: &'static str = stringify!($t);
        }
    )*};
}
numbers! { bool u32 i32 u64 i64 f32 f64 f16 bf16 }

impl<M: Message, const N: usize> Message for [M; N] {
    const NAME: &'static str = "array";
}

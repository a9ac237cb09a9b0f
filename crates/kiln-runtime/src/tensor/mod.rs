//! Tensors: strided windows on a buffer of a device.
//!
//! | file | holds |
//! |---|---|
//! | `dynamic.rs` | [`DynTensor`]: element type and rank at run time; contents, order, checks |
//! | `views.rs` | its views: slices, axes in other orders, other shapes |
//! | `typed.rs`, `axes.rs` | [`Tensor`]: the same tensor under a static element type and rank |
//! | `records.rs` | [`Records`]: elements that are structs, a tensor for each field |
//! | `awaited.rs` | reads of both that are awaited |
//! | `pinned.rs` | [`PinnedTensor`]: elements in page-locked memory of the host |
//! | `raw.rs` | their addresses for other libraries, and tensors over the memory of these |
//! | `display.rs` | what `{}` prints of both |
//! | `ndarrays.rs` | arrays of the crate `ndarray` (feature `ndarray`) |
//! | `layout.rs` | where the elements lie |

mod awaited;
mod axes;
mod copy;
mod display;
mod dynamic;
mod layout;
#[cfg(feature = "ndarray")]
mod ndarrays;
mod pinned;
mod raw;
mod records;
mod typed;
mod views;

pub use dynamic::DynTensor;
pub(crate) use layout::Layout;
pub use pinned::PinnedTensor;
pub use records::Records;
pub use typed::Tensor;

//! What `#[kernel]` and `#[device]` turn control flow into.
//!
//! The macros see syntax, not types. Wherever the meaning depends on whether a value lives on the host or on the device, they
//! emit a *probe*: a wrapper with an inherent method for device values and a trait method of the same name for everything else.
//! The compiler prefers the inherent one where its bounds hold, so type inference alone tells the two apart, with no annotation.
//!
//! | file | holds |
//! |---|---|
//! | `value.rs` | [`DeviceValue`]: values, tuples, arrays and structs of them |
//! | `variable.rs` | `let mut`, reads, assignment |
//! | `condition.rs` | [`Condition`]: what `if` and `while` decide on |
//! | `branch.rs` | `if` and the guards behind exits |
//! | `loops.rs` | `for`, `while`, `loop` |
//! | `range.rs` | ranges with device bounds |
//! | `exit.rs` | `break`, `continue`, `return` and the values they carry |
//! | `compare.rs` | comparison operators |
//! | `logic.rs` | `&&` and `\|\|` |
//! | `refuse.rs` | errors for what cannot be traced |

pub mod branch;
pub mod compare;
pub mod condition;
pub mod exit;
pub mod logic;
pub mod loops;
pub mod range;
pub mod refuse;
mod value;
pub mod variable;

pub use condition::Condition;
pub use range::{DeviceRange, range, range_step};
pub(crate) use value::Places;
pub use value::{DeviceValue, FieldProbe, HostField, IntoDevice, Zip};

//! What `#[kernel]` and `#[device]` turn control flow into.
//!
//! The macros see syntax, not types. Wherever the meaning depends on whether a value lives on the
//! host or on the device, they emit a *probe*: a wrapper with an inherent method for device values
//! and a trait method of the same name for everything else. The compiler prefers the inherent one
//! where its bounds hold, so type inference alone distinguishes the two, with no annotation.
//!
//! | file | holds |
//! |---|---|
//! | `value.rs` | [`DeviceValue`]: values, tuples, arrays and structs of them |
//! | `variable.rs` | `let mut`, reads, assignment |
//! | `naming.rs` | names, for a debugger |
//! | `watch.rs` | changes by plain Rust: `mem::swap`, methods, functions without the attribute |
//! | `condition.rs` | [`Condition`]: what `if` and `while` decide on |
//! | `branch.rs` | `if`, and the predicates on what follows an exit |
//! | `fault_region.rs` | faults as values |
//! | `anchor.rs` | variables declared late |
//! | `loops.rs` | `for`, `while`, `loop` |
//! | `range.rs` | ranges with device bounds |
//! | `exit.rs` | `break`, `continue`, `return` and the values they carry |
//! | `compare.rs` | comparison operators |
//! | `logic.rs` | `&&` and `\|\|` |
//! | `refuse.rs` | errors for what cannot be traced |
//!
//! What follows from seeing syntax alone:
//!
//! - both arms of an `if` are compiled one after the other, so a host value that is not `Copy`
//!   cannot be moved in both;
//! - a type parameter without the bound [`DeviceValue`] counts as a host type: variables of it are
//!   not seen by the device;
//! - a change by plain Rust is found where a call borrows a place (`&mut x`, a method's
//!   receiver, a name of a mutable reference). What changes through a shared reference is found for
//!   the cells and locks of the standard library alone, and only where the method is called by its
//!   own name;
//! - a function without the attribute that returns an element of a borrowed array of variables
//!   returns the variable: bind it in code with the attribute, where reads take snapshots.

mod anchor;
pub mod branch;
pub mod compare;
pub mod condition;
pub mod exit;
pub mod fault_region;
pub mod logic;
pub mod loops;
pub mod naming;
pub mod range;
pub mod refuse;
mod value;
pub mod variable;
pub mod watch;

pub use anchor::Anchor;
pub use condition::Condition;
pub use fault_region::{fault_region, fault_region_into};
pub use range::{DeviceRange, RangeBounds, range, range_step};
pub(crate) use value::Places;
pub use value::{DeviceValue, FieldProbe, HostField, IntoDevice, Zip};

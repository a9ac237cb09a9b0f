//! The debugger: a session of commands beside the launches of a device.
//!
//! The machine asks the session before each operation. Where the session stops, it reads commands
//! from its terminal, within the launch, until one of them goes on.
//!
//! | file | holds |
//! |---|---|
//! | `hook.rs` | what the machine calls, and when a launch stops |
//! | `session.rs` | [`Session`]: breakpoints, selection, where to stop next |
//! | `command.rs` | the commands as text |
//! | `answer.rs` | what each command does |
//! | `breakpoint.rs` | breakpoints, and which lines they mean in a kernel |
//! | `names.rs` | what a name stands for at a place of a kernel |
//! | `show.rs` | values as text |
//! | `source.rs` | source files |

mod answer;
mod breakpoint;
mod command;
mod hook;
mod names;
mod session;
mod show;
mod source;

pub use session::{Debugging, Session, Terminal};

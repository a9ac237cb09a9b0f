//! Devices in processes of their own.
//!
//! After a trap (an access where there is no memory, in `unsafe` code of a kernel), NVIDIA's driver
//! fails every call of the process, also for new contexts; on a CPU the process ends. A device
//! whose name begins with `isolated:` runs in a child of this process: a trap costs the child
//! alone. Here it is a [lost](kiln_backend::Error::Lost) device, which
//! [`Device::reopen`](crate::Device::reopen) brings back with the next child. That one is started
//! with the first, and has the device open when it is needed.
//!
//! The child is the same program, started again; [`init`] at the beginning of `main` makes it one.
//! Kernels cross as the text of their IR, calls as frames over a socket, copies with them. [Mapped
//! memory](kiln_backend::MappedPlace::Host) is shared by both processes and the device, so that a
//! message to a resident kernel costs no call. It is for systems with Unix sockets, for `cpu` and
//! `cuda:N`; kernels print on the child's standard output, which is this process's.
//!
//! ```no_run
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     kiln_runtime::isolate::init();
//!     let device = kiln_runtime::Device::open("isolated:cuda:0")?;
//!     println!("{}", device.properties().name);
//!     Ok(())
//! }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `proxy.rs` | this process's side: a backend |
//! | `invitation.rs` | what makes a process the child |
//! | `link.rs` | the socket, and the child's life |
//! | `server.rs` | the child's side |
//! | `memory.rs` | memory that both map |
//! | `wire.rs` | what they say to each other |

#[cfg(unix)]
mod invitation;
#[cfg(unix)]
mod link;
#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod wire;

use crate::backends;
use crate::error::Result;
use kiln_backend::Backend;

/// What the names of such devices begin with.
pub(crate) const PREFIX: &str = "isolated:";

/// The variable that makes a process one for a device. Its value is an
/// [`Invitation`](invitation::Invitation), which counts only with the token that the parent has put
/// into the socket: set by accident, it does nothing.
#[cfg(unix)]
const CHILD: &str = "KILN_ISOLATED";

/// Opens a device by name, in a process of its own if the name says so.
///
/// # Errors
/// As of [`backends::open`], and if there can be no such process.
pub(crate) fn open_backend(name: &str) -> Result<Box<dyn Backend>> {
    name.strip_prefix(PREFIX).map_or_else(|| backends::open(name), open)
}

/// A device in a new process.
#[cfg(unix)]
fn open(name: &str) -> Result<Box<dyn Backend>> {
    if invitation::Invitation::of_this_process().is_some() {
        // Without `init` it would start another process of its kind, and so on.
        return Err(unavailable(name, "this process was to become one for a device itself").into());
    }
    Ok(Box::new(proxy::Isolated::start(name)?))
}

/// A device in a new process.
#[cfg(not(unix))]
fn open(name: &str) -> Result<Box<dyn Backend>> {
    Err(unavailable(name, "this system has no Unix sockets").into())
}

fn unavailable(name: &str, reason: &str) -> kiln_backend::Error {
    kiln_backend::Error::Unavailable {
        device: format!("a process for {name}"),
        reason: reason.to_owned(),
        hint: "Call `kiln::isolate::init()` first in `main`, on a Unix system.".to_owned(),
    }
}

/// In a process that was started for a device, serves it and ends the process; in every other,
/// returns at once. To be called first in `main`.
pub fn init() {
    #[cfg(unix)]
    if let Some(invitation) = invitation::Invitation::of_this_process().filter(|i| i.accept()) {
        child::run(&invitation.device);
    }
}

#[cfg(unix)]
mod child {
    use super::server::Server;
    use super::wire::{DONE, Frame, failure};
    use crate::error::Error;
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Serves a device over the socket that is this process's standard input.
    pub fn run(name: &str) -> ! {
        let served = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).and_then(|mut socket| {
            match super::open_backend(name) {
                Ok(backend) => {
                    Frame::new(DONE).send(&mut socket)?;
                    Server::new(backend).serve(socket)
                }
                Err(error) => failure(&explained(name, error)).send(&mut socket),
            }
        });
        // What the device still runs ends with the process.
        std::process::exit(i32::from(served.is_err()))
    }

    fn explained(name: &str, error: Error) -> kiln_backend::Error {
        match error {
            Error::Device(error) => error,
            other => kiln_backend::Error::Unavailable {
                device: name.to_owned(),
                reason: other.to_string(),
                hint: "Take the name of a device that can be isolated: `cpu` or `cuda:N`.".to_owned(),
            },
        }
    }
}

//! The socket to the other process, and its life.

use super::CHILD;
use super::invitation::Invitation;
use super::wire::{DONE, Fields, Frame, error};
use kiln_backend::{Error, Result};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the other process has for its first words.
const GREETING: Duration = Duration::from_secs(30);
/// How long it has to end by itself.
const SHUTDOWN_PATIENCE: Duration = Duration::from_millis(500);
/// How long one that has closed its socket may take to end: it writes a memory image, or its driver
/// tidies up.
const ENDING: Duration = Duration::from_secs(20);

/// The way to another process.
pub struct Link {
    name: String,
    talk: Mutex<Talk>,
}

struct Talk {
    socket: UnixStream,
    child: Child,
    /// What was seen when it ended.
    lost: Option<String>,
}

impl Link {
    /// Starts this program again, as the process of a device. It opens the device meanwhile:
    /// [`greet`](Self::greet) waits for that.
    pub fn start(name: &str) -> Result<Link> {
        let failed = |call: &'static str| {
            move |error: io::Error| Error::Driver {
                call: call.to_owned(),
                code: error.kind().to_string(),
                message: error.to_string(),
            }
        };
        let program = std::env::current_exe().map_err(failed("finding this program"))?;
        let (here, there) = UnixStream::pair().map_err(failed("making a socket"))?;
        let invitation = Invitation::new(name);
        invitation.send(&here).map_err(failed("writing to a socket"))?;
        let child = Command::new(program)
            .env(CHILD, invitation.value())
            .stdin(Stdio::from(OwnedFd::from(there)))
            .spawn()
            .map_err(failed("starting a process for the device"))?;
        let talk = Mutex::new(Talk { socket: here, child, lost: None });
        Ok(Link { name: name.to_owned(), talk })
    }

    /// Waits until the other process says that it has the device, or why not.
    pub fn greet(&self) -> Result<()> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let timed = talk.socket.set_read_timeout(Some(GREETING));
        let greeting = timed.and_then(|()| Fields::receive(&mut talk.socket));
        let forever = talk.socket.set_read_timeout(None);
        match (greeting, forever) {
            (Ok(Some((DONE, _))), Ok(())) => Ok(()),
            (Ok(Some((_, mut fields))), _) => Err(error(&mut fields)),
            _ => Err(super::unavailable(&self.name, "the program that was started again did not become one")),
        }
    }

    /// Has the other process end, and does not wait for it.
    pub fn hang_up(&self) {
        let talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        // It may be gone already.
        let _ = talk.socket.shutdown(Shutdown::Both);
    }

    /// Sends a request and waits for its reply.
    pub fn call(&self, frame: Frame) -> Result<Fields> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        if talk.lost.is_none() {
            let sent = frame.send(&mut talk.socket);
            match sent.and_then(|()| Fields::receive(&mut talk.socket)) {
                Ok(Some((DONE, fields))) => return Ok(fields),
                Ok(Some((_, mut fields))) => return Err(error(&mut fields)),
                Ok(None) => talk.lost = Some(talk.end(ENDING)),
                Err(error) => talk.lost = Some(format!("{}: {error}", talk.end(ENDING))),
            }
        }
        let reason = talk.lost.clone().unwrap_or_default();
        Err(Error::Lost { device: format!("{}{}", super::PREFIX, self.name), reason })
    }
}

impl Talk {
    /// Ends the process, if it does not end within `patience`; how it did.
    fn end(&mut self, patience: Duration) -> String {
        // Closed for its own side too, as the signal to it.
        let _ = self.socket.shutdown(Shutdown::Both);
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("its process ended with {status}"),
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => break,
            }
        }
        // A process whose device does not let go of it is not waited for.
        let _ = self.child.kill();
        "its process did not answer, and was ended".to_owned()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let talk = self.talk.get_mut().unwrap_or_else(PoisonError::into_inner);
        if talk.lost.is_none() {
            talk.end(SHUTDOWN_PATIENCE);
        }
    }
}

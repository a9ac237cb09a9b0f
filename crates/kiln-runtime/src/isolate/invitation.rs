//! What makes a process one for a device: a variable of the environment, and a token that waits in
//! the socket that is its standard input. The variable may have been inherited or set by hand; the
//! token only the parent can have put there.

use super::CHILD;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Write};

/// What a value of ours begins with.
const PREFIX: &str = "kiln-1";

/// A value of the variable.
#[derive(Debug, PartialEq)]
pub struct Invitation {
    token: String,
    /// The name of the device that is to be served.
    pub device: String,
}

impl Invitation {
    pub fn new(device: &str) -> Invitation {
        // The standard library seeds each from the system's random numbers.
        let random = || RandomState::new().hash_one(device);
        Invitation { token: format!("{:016x}{:016x}", random(), random()), device: device.to_owned() }
    }

    /// That of this process, if it was started by one of ours.
    pub fn of_this_process() -> Option<Invitation> {
        Invitation::parse(&std::env::var(CHILD).ok()?)
    }

    fn parse(value: &str) -> Option<Invitation> {
        let mut parts = value.splitn(3, '/');
        let (prefix, token, device) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = prefix == PREFIX && token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| Invitation { token: token.to_owned(), device: device.to_owned() })
    }

    /// The value of the variable.
    pub fn value(&self) -> String {
        format!("{PREFIX}/{}/{}", self.token, self.device)
    }

    /// Puts the token into the parent's end of the socket, before the child starts.
    pub fn send(&self, mut socket: impl Write) -> io::Result<()> {
        socket.write_all(self.token.as_bytes())
    }

    /// Takes the token from standard input. Where something else is, nothing is taken.
    pub fn accept(&self) -> bool {
        // Neither call waits: the token was there before this process was.
        let receive = |flags| {
            let mut found = [0u8; 32];
            // SAFETY: a buffer of this length. What standard input is, the system checks.
            let count = unsafe {
                let flags = flags | libc::MSG_DONTWAIT;
                libc::recv(libc::STDIN_FILENO, found.as_mut_ptr().cast(), found.len(), flags)
            };
            count == 32 && found == self.token.as_bytes()
        };
        receive(libc::MSG_PEEK) && receive(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let invitation = Invitation::new("cuda:0");
        assert_eq!(Invitation::parse(&invitation.value()).as_ref(), Some(&invitation));
        assert_ne!(invitation, Invitation::new("cuda:0"), "a token of its own");
        for accident in [
            "",
            "1",
            "cpu",
            "kiln-1",
            "kiln-1/cpu",
            "kiln-1/00/cpu",
            "kiln-2/0123456789abcdef0123456789abcdef/cpu",
        ] {
            assert_eq!(Invitation::parse(accident), None, "{accident}");
        }
    }

    #[test]
    fn no_token_is_no_invitation() {
        // The standard input of a test is no socket, or one without this token.
        assert!(!Invitation::new("cpu").accept());
    }
}

//! How much may be written to a large folder before somebody looks at all of it again.
//!
//! A look reads the folder's list and the size of each file, which takes long where there are tens
//! of thousands. So a process that has looked leaves a number of bytes for those that come: each
//! takes a part of it at its first write, and looks only if little is left, if the limit is another
//! one, or after a day. Two that take at the same time may take the same part; that is why half of
//! what was free is not given away.

use super::entry::Entry;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Looking at fewer files than these takes less time than compiling a program, and needs no file.
pub(super) const MANY: usize = 1000;
/// The name of the file, and what it ends with.
const NAME: &str = "room";
/// Each process takes this part of what is left.
const PART: u64 = 64;
/// What other versions of Kiln write and a user adds or removes is seen after this time.
const AGE: Duration = Duration::from_secs(86_400);

/// Bytes that may be written.
struct Room {
    limit: u64,
    bytes: u64,
    /// Seconds since 1970.
    looked: u64,
}

/// The file.
pub(super) fn entry(folder: &Path) -> Entry {
    Entry::new(folder, NAME, NAME)
}

/// Leaves half of what is free. Where that cannot be written, everybody looks.
pub(super) fn leave(folder: &Path, limit: u64, free: u64) {
    let Some(looked) = now() else { return };
    Room { limit, bytes: free / 2, looked }.write(folder);
}

/// How many bytes a process may write that has written so many, which count; none if it must look.
pub(super) fn take(folder: &Path, limit: u64, written: u64) -> Option<u64> {
    let room = Room::read(folder)?;
    let age = now()?.checked_sub(room.looked)?;
    let part = room.bytes / PART;
    if room.limit != limit || age > AGE.as_secs() || part < written {
        return None;
    }
    Room { bytes: room.bytes - part, ..room }.write(folder).then_some(part)
}

impl Room {
    fn read(folder: &Path) -> Option<Room> {
        let text = String::from_utf8(entry(folder).read().ok()?).ok()?;
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
        let [limit, bytes, looked] = [numbers.next()??, numbers.next()??, numbers.next()??];
        Some(Room { limit, bytes, looked })
    }

    fn write(&self, folder: &Path) -> bool {
        let text = format!("{} {} {}", self.limit, self.bytes, self.looked);
        entry(folder).write(text.as_bytes()).is_ok()
    }
}

fn now() -> Option<u64> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(|time| time.as_secs())
}

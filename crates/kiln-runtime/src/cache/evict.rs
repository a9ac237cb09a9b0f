//! Removing the programs that were not used for longest.
//!
//! The time of a file's last change is the time of its last use: a reader sets it, once a minute at
//! most. Several processes may remove at once, and read what another removes: a file that is gone
//! is a miss, and one that is open can be read to its end.

use super::room;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// A file that is kept.
pub(super) struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// The files of a folder whose names have this end.
pub(super) fn kept(folder: &Path, kind: &str) -> Vec<Kept> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = entries.filter(|path| path.extension().is_some_and(|end| end == kind));
    let all = ours.filter_map(|path| {
        let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some(Kept { bytes: metadata.len(), used: metadata.modified().ok()?, path })
    });
    all.collect()
}

/// Removes the files that were last used before a time. Gives how many, and their bytes.
pub(super) fn older_than(files: Vec<Kept>, time: SystemTime) -> (u64, u64) {
    remove(files.into_iter().filter(|file| file.used < time))
}

/// Removes files, those that were not used for longest first, until the rest has at most so many
/// bytes. `spared` is not removed.
pub(super) fn down_to(mut files: Vec<Kept>, bytes: u64, spared: Option<&Path>) -> (u64, u64) {
    let mut total: u64 = files.iter().map(|file| file.bytes).sum();
    files.sort_by_key(|file| file.used);
    let excess = files.into_iter().filter(|file| Some(file.path.as_path()) != spared);
    remove(excess.take_while(|file| {
        let is_excess = total > bytes;
        total -= file.bytes;
        is_excess
    }))
}

/// What another process has removed meanwhile is not counted.
fn remove(files: impl Iterator<Item = Kept>) -> (u64, u64) {
    let gone = files.filter(|file| fs::remove_file(&file.path).is_ok());
    gone.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes))
}

/// When a process looks at the whole folder: listing it after each program would take longer than
/// writing that.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    /// Bytes that this process wrote since it looked, or took a part of what another left.
    since: u64,
    /// How many it may write before it looks again; none before the first look.
    allowed: u64,
}

/// A process looks again when it has written this part of what was free: 16 that write at once
/// keep the limit, more of them exceed it by what they write in between.
const PART: u64 = 16;

impl Watch {
    /// Removes what is too much after a program of so many bytes was written. Gives how many were
    /// removed, if it has looked at the folder.
    pub(super) fn wrote(&self, (folder, kind): (&Path, &str), new: (&Path, u64), limit: u64) -> Option<u64> {
        // It holds two numbers, which are right at any time.
        let mut written = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        written.since += new.1;
        if written.since <= written.allowed {
            return None;
        }
        if let Some(allowed) = room::take(folder, limit, new.1) {
            *written = Written { since: new.1, allowed };
            return None;
        }
        let files = kept(folder, kind);
        let (count, total) = (files.len(), files.iter().map(|file| file.bytes).sum::<u64>());
        let mut removed = (0, 0);
        if total > limit {
            // A little more than is needed, so that not every program lists the folder.
            removed = down_to(files, limit - limit / 8, Some(new.0));
        }
        let free = limit.saturating_sub(total - removed.1.min(total));
        if count >= room::MANY {
            room::leave(folder, limit, free);
        }
        *written = Written { since: 0, allowed: free / PART };
        Some(removed.0)
    }
}

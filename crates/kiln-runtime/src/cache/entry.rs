//! One file of the disk cache: how it is written, read and verified.

use sha2::{Digest, Sha256};
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8; 8] = b"kiln\0\x02\r\n";
const DIGEST: usize = 32;
/// The most bytes of a file: what is larger is none of ours, and is not read into memory.
const LARGEST: u64 = 1 << 30;
/// What the ends of names of unfinished files begin with.
const UNFINISHED: &str = "tmp-";
/// A file that has been unfinished for so long is one that a crash left: writing takes
/// milliseconds.
const ABANDONED: Duration = Duration::from_secs(3600);

/// How exactly a program's last use is known.
const USED_WITHIN: Duration = Duration::from_secs(60);

/// A file under a key.
pub(super) struct Entry {
    folder: PathBuf,
    key: String,
    kind: &'static str,
}

impl Entry {
    pub(super) fn new(folder: &Path, key: &str, kind: &'static str) -> Entry {
        Entry { folder: folder.to_owned(), key: key.to_owned(), kind }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.{}", self.key, self.kind))
    }

    /// How many bytes the file of a payload has.
    pub(super) fn length(payload: &[u8]) -> u64 {
        (MAGIC.len() + DIGEST + payload.len()) as u64
    }

    /// The bytes of a whole file that was written under this key.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let (file, metadata) = open_regular(&self.path())?;
        note_use(&file, &metadata);
        let length = metadata.len() as usize;
        // Room for all of it and one byte more, so that one call reads it and the next finds the
        // end: a reader with a limit does not know how much is coming.
        let mut bytes = Vec::with_capacity(length + 1);
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a damaged or renamed file");
        let body = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_at_checked(DIGEST));
        let (digest, payload) = body.ok_or_else(damaged)?;
        if self.digest(payload) != digest {
            return Err(damaged());
        }
        // In place: a copy would cost as much as reading the file did.
        bytes.drain(..MAGIC.len() + DIGEST);
        Ok(bytes)
    }

    /// Writes the file whole, in place of one that may be there.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let own = self.write_aside(bytes)?;
        fs::rename(&own, self.path()).inspect_err(|_| {
            let _ = fs::remove_file(&own);
        })
    }

    /// Whether a file can be written and removed.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        fs::remove_file(self.write_aside(b"")?)
    }

    /// Writes the bytes under a name that no other process has or can foresee.
    fn write_aside(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        create_folder(&self.folder)?;
        let (path, mut file) = loop {
            // The standard library seeds it from the system's random numbers.
            let random = RandomState::new().hash_one(&self.key);
            let path = self.folder.join(format!("{}.{UNFINISHED}{random:016x}", self.key));
            // A new file: what stands there, a symbolic link too, is an error.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => break (path, opened?),
            }
        };
        let pieces: [&[u8]; 3] = [MAGIC, &self.digest(bytes), bytes];
        let written = pieces.into_iter().try_for_each(|piece| file.write_all(piece));
        written.map(|()| path.clone()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })
    }

    /// Of the name and the contents: a file that was renamed is not what its new name says.
    fn digest(&self, bytes: &[u8]) -> [u8; DIGEST] {
        let mut hash = Sha256::new();
        for part in [self.kind.as_bytes(), self.key.as_bytes(), bytes] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Removes what crashes have left in the folder. What cannot be removed is left.
    pub(super) fn remove_leftovers(&self) {
        let is_old = |path: &PathBuf| {
            let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED))
        };
        for path in leftovers(&self.folder).into_iter().filter(is_old) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The unfinished files of a folder, those of other processes among them.
pub(super) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| is_unfinished(path)).collect()
}

fn is_unfinished(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    // Kiln 0.1 named them by process and number, after a key of 64 digits.
    let key = path.file_stem().is_some_and(|stem| stem.len() == 64);
    let numbered = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    end.starts_with(UNFINISHED) || key && end.split_once('-').is_some_and(|(a, b)| numbered(a) && numbered(b))
}

/// Notes that a file is used: what is not used goes first when the cache is full. Where the system
/// refuses it, the file counts as old.
fn note_use(file: &File, metadata: &fs::Metadata) {
    let is_noted = |time: SystemTime| time.elapsed().is_ok_and(|age| age < USED_WITHIN);
    if !metadata.modified().is_ok_and(is_noted) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Opens a regular file for reading: no symbolic link, folder or device, and no pipe, which would
/// wait for a writer.
fn open_regular(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    #[cfg(not(unix))]
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file of a program's size"));
    }
    Ok((file, metadata))
}

/// Makes a folder and those above it, for this user alone: programs in it are run.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

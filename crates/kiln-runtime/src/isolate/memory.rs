//! Memory that two processes map.
//!
//! It is reserved when it is made: a file that was only given a length takes its pages when they
//! are touched, and a process that touches one when the file system is full is ended by SIGBUS.

use kiln_backend::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A piece of memory behind a file without a disk, until both sides have mapped it; zeroed.
pub struct Shared {
    map: MmapRaw,
    path: PathBuf,
}

impl Shared {
    /// A new piece of `bytes`, at least one, and the file by which the other process finds it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the file system has no room for it; `device` is the one that
    /// the memory is for.
    pub fn create(bytes: usize, device: &str) -> Result<Shared> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = folder();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("kiln-{}-{number}", std::process::id()));
        let reserved = || {
            let (file, bytes) = (options().create_new(true).open(&path)?, bytes.max(1) as u64);
            reserve(&file, bytes, &folder).and_then(|()| map(&file)).inspect_err(|_| remove(&path))
        };
        match reserved() {
            Ok(map) => Ok(Shared { map, path }),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let (free, total) = room(&folder).unwrap_or_default();
                let device = format!("{} (shared memory of {device})", folder.display());
                Err(Error::OutOfMemory { device, requested: bytes as u64, free, total })
            }
            Err(error) => Err(Error::Driver {
                call: format!("making memory that two processes share in {}", folder.display()),
                code: error.kind().to_string(),
                message: error.to_string(),
            }),
        }
    }

    /// The piece behind a file.
    pub fn open(path: &str) -> io::Result<Shared> {
        let map = map(&options().open(path)?)?;
        Ok(Shared { map, path: path.into() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file: no other process maps the range from now on.
    pub fn forget_path(&self) {
        remove(&self.path);
    }

    /// The first byte, aligned to a page.
    pub fn pointer(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.map.as_mut_ptr())
    }
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options
}

/// Where shared memory is: a file system in memory, if there is one.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Gives an empty file as many bytes, all of which can be touched.
fn reserve(file: &File, bytes: u64, folder: &Path) -> io::Result<()> {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let length = libc::off_t::try_from(bytes).map_err(|_| full())?;
    // Before pages are taken one by one: what does not fit would take from others all that there
    // is, until it fails.
    if room(folder).is_some_and(|(free, _)| bytes > free) {
        return Err(full());
    }
    file.set_len(bytes)?;
    allocate(file, bytes, length)
}

#[cfg(not(target_vendor = "apple"))]
fn allocate(file: &File, bytes: u64, length: libc::off_t) -> io::Result<()> {
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(file);
    loop {
        // SAFETY: a file of ours, open for writing.
        match unsafe { libc::posix_fallocate(descriptor, 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            libc::ENOSPC | libc::EFBIG => return Err(io::ErrorKind::StorageFull.into()),
            libc::EINVAL | libc::EOPNOTSUPP => return write_zeros(file, bytes),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Apple's systems have no `posix_fallocate`.
#[cfg(target_vendor = "apple")]
fn allocate(file: &File, bytes: u64, _length: libc::off_t) -> io::Result<()> {
    write_zeros(file, bytes)
}

/// Reserves the bytes of a file where the file system cannot do it at once.
fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut file).map(drop)
}

/// Bytes that are free in a file system, and that it has.
fn room(folder: &Path) -> Option<(u64, u64)> {
    let name = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: zeros are a value of this structure of numbers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string that ends with zero, and a structure to write.
    if unsafe { libc::statvfs(name.as_ptr(), &mut found) } != 0 {
        return None;
    }
    // Of other widths on other systems.
    #[allow(clippy::unnecessary_cast)]
    let of = |blocks| (blocks as u64).saturating_mul(found.f_frsize as u64);
    Some((of(found.f_bavail), of(found.f_blocks)))
}

fn map(file: &File) -> io::Result<MmapRaw> {
    MmapOptions::new().map_raw(file)
}

fn remove(path: &Path) {
    // One that is not removed takes memory until the system restarts; the error cannot be reported.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let here = Shared::create(5000, "cpu").unwrap();
        let there = Shared::open(here.path().to_str().unwrap()).unwrap();
        here.forget_path();
        assert!(!here.path().exists());
        let (a, b) = (here.pointer().unwrap(), there.pointer().unwrap());
        assert_ne!(a, b);
        // SAFETY: both are mapped, 5000 bytes long, and used by this thread alone.
        unsafe {
            assert_eq!(b.add(4999).read(), 0);
            a.add(4999).write(7);
            assert_eq!(b.add(4999).read(), 7);
        }
        assert!(Shared::open("/nowhere").is_err());
    }

    /// What has no room is refused before anything touches it. A file of that length could be made
    /// and mapped.
    #[test]
    fn what_does_not_fit_is_out_of_memory() {
        let (free, total) = room(&folder()).unwrap();
        for bytes in [free + (1 << 30), u64::MAX / 4, u64::MAX] {
            let error = Shared::create(bytes as usize, "isolated:cpu").err().unwrap();
            let Error::OutOfMemory { device, requested, total: of, .. } = &error else { panic!("{error}") };
            assert!(
                device.contains("isolated:cpu") && device.contains(folder().to_str().unwrap()),
                "{device}"
            );
            assert_eq!((*requested, *of), (bytes, total));
        }
        let prefix = format!("kiln-{}-", std::process::id());
        let left = fs::read_dir(folder()).unwrap().flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        // One at most: that of the test beside this one.
        assert!(left.count() <= 1);
    }

    #[test]
    fn all_of_a_piece_is_reserved() {
        use std::os::unix::fs::MetadataExt;
        let piece = Shared::create(1 << 20, "cpu").unwrap();
        let metadata = fs::metadata(piece.path()).unwrap();
        piece.forget_path();
        assert!(metadata.len() == 1 << 20 && metadata.blocks() * 512 >= 1 << 20, "{metadata:?}");
    }
}

//! Memory that two processes map.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A piece of memory behind a file without a disk, until both sides have mapped it; zeroed.
pub struct Shared {
    map: MmapRaw,
    path: PathBuf,
}

impl Shared {
    /// A new piece, and the file by which the other process finds it.
    pub fn create(bytes: usize) -> io::Result<Shared> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = Path::new("/dev/shm");
        let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("kiln-{}-{number}", std::process::id()));
        let file = options().create_new(true).open(&path)?;
        let mapped = file.set_len(bytes.max(1) as u64).and_then(|()| map(&file));
        let map = mapped.inspect_err(|_| remove(&path))?;
        Ok(Shared { map, path })
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

    /// Removes the file: nobody else maps the piece from now on.
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
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn map(file: &File) -> io::Result<MmapRaw> {
    MmapOptions::new().map_raw(file)
}

fn remove(path: &Path) {
    // One that stays takes memory until the system restarts; there is nobody to tell.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let here = Shared::create(5000).unwrap();
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
}

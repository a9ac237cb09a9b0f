//! The folder in which programs publish what their actors do, and how files in it are written and
//! read.
//!
//! Other users of the machine may write in the folder for temporary files. So the folder within it
//! must belong to this user alone, and no symbolic link in it is followed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A published file is no longer than this: some 10,000 actors.
const LONGEST: u64 = 64 << 20;

/// How many names of a new file are tried.
const NAMES: u32 = 16;

/// The folder in which `kiln ring top` finds runtimes: `kiln` in `XDG_RUNTIME_DIR`. Where that is
/// not set, it is `kiln-` and the number of the user in the folder for temporary files.
///
/// [`RingRuntime::publish`](crate::RingRuntime::publish) makes this folder for its user alone, and
/// refuses one that belongs to another user or that others can write to.
///
/// ```
/// let folder = kiln_ring::telemetry_dir();
/// assert!(folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kiln")));
/// ```
pub fn telemetry_dir() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    match runtime {
        Some(runtime) => runtime.join("kiln"),
        None => std::env::temp_dir().join(own_name()),
    }
}

/// Reads a file that a program published, or says why it is none: a symbolic link, a pipe, a file
/// of another user, or one that is too long. It never waits for a writer.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("kiln-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("ring-1-0.prom"), "kiln_ring_up 1\n")?;
/// assert_eq!(kiln_ring::read_telemetry(&folder.join("ring-1-0.prom"))?, "kiln_ring_up 1\n");
/// assert!(kiln_ring::read_telemetry(&folder).is_err());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read, or is not one that this user or the superuser published.
pub fn read_telemetry(path: &Path) -> io::Result<String> {
    let file = open_to_read(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused(path, "it is no plain file"));
    }
    check_owner(path, &metadata)?;
    let mut text = String::new();
    if file.take(LONGEST + 1).read_to_string(&mut text)? as u64 > LONGEST {
        return Err(refused(path, "it is too long"));
    }
    Ok(text)
}

/// Makes a folder for this user alone.
///
/// # Errors
/// It cannot be made; or it is there, and is a symbolic link, belongs to another user, or can be
/// written to by others.
pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    match make_folder(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Of the link, if it is one.
    let metadata = std::fs::symlink_metadata(directory)?;
    if !metadata.is_dir() {
        return Err(refused(directory, "it is no folder"));
    }
    check_private(directory, &metadata)
}

/// Writes a file aside and renames it.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (aside, mut file) = create_aside(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        // A file that could not be renamed is of no use.
        let _ = std::fs::remove_file(&aside);
    }
    written
}

/// A new file beside another one, and its name.
fn create_aside(path: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..NAMES {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let aside = path.with_extension(format!("{number}.new"));
        // `create_new` follows no link, and never opens what is there.
        match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

fn refused(path: &Path, why: &str) -> io::Error {
    let text = format!(
        "{} is not used for telemetry: {why}. Remove it, or set XDG_RUNTIME_DIR to a folder of your own",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(unix)]
mod system {
    use super::refused;
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// The number of the user of this process.
    fn user() -> u32 {
        // SAFETY: the call has no arguments, reads nothing of this process's memory and cannot
        // fail.
        unsafe { libc::geteuid() }
    }

    pub fn own_name() -> String {
        format!("kiln-{}", user())
    }

    pub fn make_folder(directory: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(directory)
    }

    /// Opens no symbolic link, and does not wait for the writer of a pipe.
    pub fn open_to_read(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
    }

    pub fn check_owner(path: &Path, metadata: &Metadata) -> io::Result<()> {
        match metadata.uid() {
            0 => Ok(()),
            owner if owner == user() => Ok(()),
            owner => Err(refused(path, &format!("it belongs to user {owner}"))),
        }
    }

    pub fn check_private(directory: &Path, metadata: &Metadata) -> io::Result<()> {
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
        if owner != user() {
            return Err(refused(directory, &format!("it belongs to user {owner}")));
        }
        if mode & 0o022 != 0 {
            return Err(refused(directory, &format!("others can write to it (mode {mode:o})")));
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod system {
    //! Systems whose folder for temporary files is each user's own.

    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;

    pub fn own_name() -> String {
        "kiln".to_owned()
    }

    pub fn make_folder(directory: &Path) -> io::Result<()> {
        std::fs::create_dir(directory)
    }

    pub fn open_to_read(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub fn check_owner(_path: &Path, _metadata: &Metadata) -> io::Result<()> {
        Ok(())
    }

    pub fn check_private(_directory: &Path, _metadata: &Metadata) -> io::Result<()> {
        Ok(())
    }
}

use system::{check_owner, check_private, make_folder, open_to_read, own_name};

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// An empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kiln-folder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn links_are_replaced_and_never_followed() {
        let folder = folder("links");
        let (victim, path) = (folder.join("victim"), folder.join("ring-1-0.prom"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        // The name that earlier versions wrote aside to, and the next ones of this.
        symlink(&victim, path.with_extension("new")).unwrap();
        for number in 0..8 {
            let _ = symlink(&victim, path.with_extension(format!("{number}.new")));
        }
        replace(&path, "telemetry").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(read_telemetry(&path).unwrap(), "telemetry");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_reach_is_refused() {
        let folder = folder("private");
        let own = folder.join("own");
        make_private(&own).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        make_private(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = make_private(&own).unwrap_err().to_string();
        assert!(refused.contains("others can write to it (mode 777)"), "{refused}");
        let link = folder.join("link");
        symlink(&folder, &link).unwrap();
        assert!(make_private(&link).unwrap_err().to_string().contains("no folder"));
        let file = folder.join("file");
        std::fs::write(&file, "").unwrap();
        assert!(make_private(&file).unwrap_err().to_string().contains("no folder"));
        // Only the superuser can make one that belongs to another user.
        if std::os::unix::fs::chown(&own, Some(12345), None).is_ok() {
            let refused = make_private(&own).unwrap_err().to_string();
            assert!(refused.contains("it belongs to user 12345"), "{refused}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A pipe without a writer would hold up a reader for ever.
    #[test]
    fn what_is_no_plain_file_is_not_read() {
        let folder = folder("read");
        let pipe = folder.join("ring-1-1.prom");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(read_telemetry(&pipe).unwrap_err().to_string().contains("no plain file"));
        }
        let (file, link) = (folder.join("file"), folder.join("ring-1-2.prom"));
        std::fs::write(&file, "secret").unwrap();
        symlink(&file, &link).unwrap();
        assert!(read_telemetry(&link).is_err());
        if std::os::unix::fs::chown(&file, Some(12345), None).is_ok() {
            assert!(read_telemetry(&file).unwrap_err().to_string().contains("belongs to user 12345"));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

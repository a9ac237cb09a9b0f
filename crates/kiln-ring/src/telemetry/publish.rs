//! A file with the state of a runtime's actors, for other processes.

use super::folder;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Writes a file again and again, until it is dropped:
/// [`RingRuntime::publish`](crate::RingRuntime::publish). Then the file goes.
///
/// Each version is written to a new file, which is then renamed: a reader finds all of one version,
/// and a symbolic link in the folder is replaced, never followed.
///
/// ```
/// # use kiln_ring::{Publisher, RingRuntime};
/// # use std::time::Duration;
/// let folder = std::env::temp_dir().join(format!("kiln-doc-publisher-{}", std::process::id()));
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let publisher: Publisher = runtime.publish(&folder, Duration::from_secs(1))?;
/// assert!(publisher.path().starts_with(&folder) && publisher.path().exists());
/// # drop(publisher);
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the file goes when the publisher is dropped"]
pub struct Publisher {
    path: PathBuf,
    /// Dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Begins to write. `text` gives the next version, or `Some(None)` to leave the last one, or
    /// `None` when there is nothing to publish any more.
    pub(crate) fn start(
        directory: &Path,
        every: Duration,
        text: impl Fn() -> Option<Option<String>> + Send + 'static,
    ) -> io::Result<Publisher> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        if directory == folder::telemetry_dir() {
            folder::make_private(directory)?;
        } else {
            std::fs::create_dir_all(directory)?;
        }
        let path = directory.join(format!("ring-{}-{number}.prom", std::process::id()));
        if let Some(Some(text)) = text() {
            folder::replace(&path, &text)?;
        }
        // Never a loop without a pause.
        let every = every.max(Duration::from_millis(1));
        let (running, ended) = mpsc::channel::<()>();
        let to = path.clone();
        let thread = std::thread::Builder::new().name("kiln-ring-publisher".to_owned()).spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                match text() {
                    // A disk that is full for a while is no reason to stop.
                    Some(Some(text)) => drop(folder::replace(&to, &text)),
                    Some(None) => {}
                    None => break,
                }
            }
        })?;
        Ok(Publisher { path, running: Some(running), thread: Some(thread) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        drop(self.running.take());
        // A thread that panicked has ended too.
        let _ = self.thread.take().map(JoinHandle::join);
        // No other process removes it, and one that is gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

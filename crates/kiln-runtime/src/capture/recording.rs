//! What a thread records while it captures a graph.

use super::node::{Launched, Place, Recorded, Work};
use super::state::{self, Capturing, Mode};
use crate::activity::CallSite;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::residency::Named;
use crate::stream::Queue;
use kiln_backend::GraphWork;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// What this thread has recorded since it began to capture.
    static NODES: RefCell<Vec<Recorded>> = const { RefCell::new(Vec::new()) };
}

/// A capture that is under way on this thread. Dropped, it forgets what was recorded.
pub(crate) struct Recording {
    _capturing: Capturing,
}

impl Recording {
    /// Begins to record the calls of a device.
    ///
    /// # Errors
    /// [`Error::Capture`] where this thread records already.
    pub(crate) fn begin(device: &Device, mode: Mode, site: CallSite) -> Result<Recording> {
        let nested = || Error::Capture {
            what: "another graph was captured".to_owned(),
            device: device.id().to_owned(),
            location: site,
        };
        Ok(Recording { _capturing: Capturing::begin(device.identity(), mode).ok_or_else(nested)? })
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        NODES.with_borrow(Vec::len)
    }

    /// Ends, with what was recorded.
    pub(crate) fn end(self) -> Vec<Recorded> {
        NODES.take()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // What it drops may free memory, which is no part of a capture any more.
        let nodes = NODES.try_with(RefCell::take);
        drop(nodes);
    }
}

/// Adds a node, unless the thread only compiles what it would be.
fn add(work: Work, queue: &Queue, site: CallSite) {
    if state::is_precompiling() {
        return;
    }
    NODES.with_borrow_mut(|nodes| nodes.push(Recorded { work, queue: queue.clone(), site }));
}

/// How much this thread has recorded so far.
pub(crate) fn recorded() -> usize {
    NODES.with_borrow(Vec::len)
}

/// Forgets what this thread has recorded since there was so much.
pub(crate) fn forget_after(recorded: usize) {
    let gone = NODES.with_borrow_mut(|nodes| nodes.split_off(recorded.min(nodes.len())));
    // Outside of the borrow: what it drops may free memory.
    drop(gone);
}

/// Records a launch.
pub(crate) fn launch(launch: Launched, queue: &Queue, site: CallSite) {
    add(Work::Launch(Box::new(launch)), queue, site);
}

/// Records a fill of all of a buffer.
pub(crate) fn fill(buffer: &Arc<Buffer>, byte: u8, site: CallSite) {
    for (offset, bytes) in parts(buffer.bytes()) {
        let to = Place { buffer: buffer.clone(), offset };
        add(Work::Fill { to, byte, bytes }, &Queue::default(), site);
    }
}

/// Records a copy between two buffers.
pub(crate) fn copy(to: &Place, from: &Place, bytes: usize, site: CallSite) {
    for (offset, bytes) in parts(bytes) {
        let at = |place: &Place| Place { buffer: place.buffer.clone(), offset: place.offset + offset };
        add(Work::Copy { to: at(to), from: at(from), bytes }, &Queue::default(), site);
    }
}

/// Records that these bytes are written: as a copy of memory that the graph owns, which has them
/// from now on.
///
/// # Errors
/// Out of memory.
pub(crate) fn write(to: &Place, data: &[u8], log: &mut Log) -> Result<()> {
    if data.is_empty() || state::is_precompiling() {
        return Ok(());
    }
    if state::mode(to.buffer.device().identity()) == Some(Mode::Commands) {
        let what = "elements were copied from the host, which a list of commands does not keep".to_owned();
        return Err(Error::Commands { what, location: log.site() });
    }
    let constant = Arc::new(Buffer::new(to.buffer.device(), data.len(), log)?);
    constant.access(Named::Tensor)?.write(0, data, log)?;
    copy(to, &Place { buffer: constant, offset: 0 }, data.len(), log.site());
    Ok(())
}

/// The parts of so many bytes that a node can move, by offset and length.
fn parts(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = GraphWork::MOST_BYTES;
    (0..bytes).step_by(most).map(move |offset| (offset, most.min(bytes - offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_bytes() {
        let most = GraphWork::MOST_BYTES;
        assert_eq!(parts(0).count(), 0);
        assert_eq!(parts(7).collect::<Vec<_>>(), [(0, 7)]);
        assert_eq!(parts(most).collect::<Vec<_>>(), [(0, most)]);
        assert_eq!(parts(2 * most + 5).collect::<Vec<_>>(), [(0, most), (most, most), (2 * most, 5)]);
    }
}

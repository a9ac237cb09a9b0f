//! What the memory that trials write held before.

use crate::activity::CallSite;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::graph::Graph;
use crate::log::Log;
use crate::residency::Named;
use std::sync::Arc;

/// Bytes of memory that nothing had written: they are NaN in every float type, so that a check
/// finds elements that a candidate leaves out.
const UNWRITTEN: u8 = 0xff;

/// The contents of the buffers that trials write. Dropped, it sets them back.
pub(super) struct Snapshot {
    /// The user's call.
    site: CallSite,
    saved: Vec<Saved>,
}

struct Saved {
    buffer: Arc<Buffer>,
    /// `None` for one that nothing had written.
    copy: Option<Buffer>,
}

impl Snapshot {
    pub(super) fn new(site: CallSite) -> Snapshot {
        Snapshot { site, saved: Vec::new() }
    }

    /// Copies what the graph writes and no trial has written so far.
    pub(super) fn include(&mut self, graph: &Graph) -> Result<()> {
        // Memory of earlier candidates' own.
        self.saved.retain(|saved| Arc::strong_count(&saved.buffer) > 1);
        for planned in graph.plan.buffers.iter().filter(|planned| planned.writes) {
            if !self.saved.iter().any(|saved| Arc::ptr_eq(&saved.buffer, &planned.buffer)) {
                let (buffer, copy) = (planned.buffer.clone(), self.copy(&planned.buffer)?);
                self.saved.push(Saved { buffer, copy });
            }
        }
        Ok(())
    }

    /// A copy of a buffer, if anything has written it.
    fn copy(&self, buffer: &Buffer) -> Result<Option<Buffer>> {
        if !buffer.access(Named::Tensor)?.is_written() {
            return Ok(None);
        }
        let log = &mut Log::at(self.site);
        let copy = Buffer::new(buffer.device(), buffer.bytes(), log)?;
        copy.set_to(buffer, log)?;
        Ok(Some(copy))
    }

    /// Enqueues that all of it is as it was.
    pub(super) fn restore(&self) -> Result<()> {
        self.saved.iter().try_for_each(|Saved { buffer, copy }| {
            let log = &mut Log::at(self.site);
            match copy {
                Some(copy) => buffer.set_to(copy, log),
                None => buffer.access(Named::Tensor)?.fill(UNWRITTEN, log),
            }
        })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // If it fails the device is lost, and the contents with it.
        let _ = self.restore();
    }
}

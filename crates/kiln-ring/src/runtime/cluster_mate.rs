//! Which actor another one is to share a cluster with.

use super::Shared;
use std::sync::Arc;

/// Which actor another one is to share a cluster with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterMate {
    /// The address of its runtime.
    runtime: usize,
    actor: u32,
}

impl ClusterMate {
    /// That actor of a runtime.
    pub fn of(shared: &Arc<Shared>, actor: u32) -> ClusterMate {
        ClusterMate { runtime: Arc::as_ptr(shared).addr(), actor }
    }

    /// Its worker, if it is one of this runtime's, and has not ended.
    pub(super) fn worker_in(self, shared: &Arc<Shared>) -> Option<usize> {
        let own = Arc::as_ptr(shared).addr() == self.runtime;
        own.then(|| shared.place_of(self.actor)).flatten().map(|endpoint| endpoint.worker)
    }
}

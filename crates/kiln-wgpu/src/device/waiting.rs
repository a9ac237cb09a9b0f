//! Waiting for a future of wgpu's where a thread may wait.

use std::future::Future;

/// What a future gives; `None` in a browser, where a thread that waits keeps the future from its
/// end.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> Option<T> {
    Some(pollster::block_on(future))
}

/// What a future gives; `None` in a browser, where a thread that waits keeps the future from its
/// end.
#[cfg(target_family = "wasm")]
pub(crate) fn wait_for<T>(_: impl Future<Output = T>) -> Option<T> {
    None
}

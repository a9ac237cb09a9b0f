//! Places for streams that are made without waiting for kernels.

use super::context::Context;

/// A place for a stream of a context, which is free again when this drops.
pub struct StreamPlace {
    context: Context,
    /// Whether the driver has no room for it yet.
    is_new: bool,
}

impl Context {
    /// A place for a stream that is made without waiting for kernels; `None` if the driver would
    /// wait.
    pub fn stream_place(&self) -> Option<StreamPlace> {
        self.stream_room().take().then(|| StreamPlace { context: self.clone(), is_new: false })
    }
}

impl StreamPlace {
    /// A place that the driver may have to make room for.
    pub(crate) fn any(context: &Context) -> StreamPlace {
        context.stream_place().unwrap_or_else(|| {
            context.stream_room().take_new();
            StreamPlace { context: context.clone(), is_new: true }
        })
    }

    /// Says that its stream was made.
    pub(super) fn is_used(&mut self) {
        if std::mem::take(&mut self.is_new) {
            self.context.stream_room().grow();
        }
    }

    /// The context.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.context.stream_room().leave();
    }
}

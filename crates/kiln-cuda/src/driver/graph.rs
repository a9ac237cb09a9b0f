//! Graphs: work recorded once and launched many times at the cost of one launch.

use super::context::Context;
use super::error::{CudaError, Result};
use super::ffi::{self, GraphExecHandle, GraphHandle};
use super::stream::Stream;
use std::ptr::null_mut;

/// Recorded work, ready to launch.
pub struct Graph {
    context: Context,
    exec: GraphExecHandle,
    nodes: usize,
}

impl Graph {
    /// Records what `record` enqueues in the stream, instead of running it. Work in other streams
    /// is recorded too if they wait for an event of this one and this one waits for them at the
    /// end.
    ///
    /// While recording, this thread cannot wait for the device, allocate or free: the call that
    /// tries fails, and with it the recording.
    ///
    /// # Errors
    /// The error of `record`; those of the calls.
    pub fn capture<E: From<CudaError>>(
        stream: &Stream,
        record: impl FnOnce(&Stream) -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let recording = Recording::begin(stream)?;
        record(stream)?;
        Ok(recording.end()?.instantiate(stream)?)
    }

    /// How many launches, copies and fills it consists of.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Enqueues all of it in a stream.
    ///
    /// # Errors
    /// Those of the calls, and of earlier work in the context.
    ///
    /// # Safety
    /// Everything that the recorded work uses (memory, modules) is alive until this run of it is
    /// done: the promises made for the recorded launches hold for each run.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: graph and stream are live; the rest is the caller's promise.
        unsafe { self.context.api().cuGraphLaunch(self.exec, stream.handle()) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made by `instantiate`, destroyed here alone; the driver finishes a run that
            // is under way. A failure cannot be reported.
            let _ = unsafe { self.context.api().cuGraphExecDestroy(self.exec) };
        }
    }
}

/// A stream that is recording. Dropped early, by an error or a panic, it gives the stream back and
/// forgets the record.
struct Recording<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl<'a> Recording<'a> {
    fn begin(stream: &'a Stream) -> Result<Recording<'a>> {
        stream.context().bind()?;
        // SAFETY: the stream is live. Other threads go on undisturbed in this mode.
        unsafe {
            stream.context().api().cuStreamBeginCapture_v2(stream.handle(), ffi::CAPTURE_THREAD_LOCAL)
        }?;
        Ok(Recording { stream, ended: false })
    }

    fn end(mut self) -> Result<Record> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Record> {
        self.ended = true;
        let context = self.stream.context();
        context.bind()?;
        let mut record = Record { context: context.clone(), graph: GraphHandle::NULL };
        // SAFETY: the stream is recording, `graph` is writable.
        unsafe { context.api().cuStreamEndCapture(self.stream.handle(), &mut record.graph) }?;
        Ok(record)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // A failed call made the record useless, and its error is on its way to the caller.
            let _ = self.finish();
        }
    }
}

/// Work as recorded.
struct Record {
    context: Context,
    graph: GraphHandle,
}

impl Record {
    fn instantiate(&self, stream: &Stream) -> Result<Graph> {
        let api = self.context.api();
        let mut graph = Graph { context: self.context.clone(), exec: GraphExecHandle::NULL, nodes: 0 };
        // SAFETY: the graph is live; null asks for the number of nodes only; the results are
        // writable.
        unsafe {
            api.cuGraphGetNodes(self.graph, null_mut(), &mut graph.nodes)?;
            api.cuGraphInstantiateWithFlags(&mut graph.exec, self.graph, 0)?;
            // So that the first launch costs what the later ones do.
            api.cuGraphUpload(graph.exec, stream.handle())?;
        }
        Ok(graph)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.graph != GraphHandle::NULL && self.context.bind().is_ok() {
            // SAFETY: made by the capture, destroyed here alone. A failure cannot be reported.
            let _ = unsafe { self.context.api().cuGraphDestroy(self.graph) };
        }
    }
}

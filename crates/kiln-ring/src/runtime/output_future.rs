//! Waiting for outputs without a thread.

use super::Side;
use super::outputs::Outputs;
use crate::channel::{Awaited, DeviceSide, Reply, Watched, watch};
use crate::error::RecvError;
use crate::layout::Layout;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

impl<R: Layout> Outputs<R> {
    /// As [`recv_timeout`](Self::recv_timeout) without a limit, and without holding a thread while
    /// it waits.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn twice(ctx: &RingCtx, next: &mut Address<u32>, x: u32) { ctx.send(next, x * 2); }
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn echo(_ctx: &RingCtx, x: u32) -> u32 { x }
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// # let last = runtime.launch(echo, RingConfig::default())?;
    /// # let first = runtime.launch(twice, RingConfig::default().state(last.inbound_link(8)?))?;
    /// # last.activate()?;
    /// # first.activate()?;
    /// let outputs = last.outputs();
    /// let reply = pollster::block_on(async {
    ///     first.send_many_async(&[21, 22, 23]).await?;
    ///     let (first, mut others) = (outputs.recv_async().await?, Vec::new());
    ///     while others.len() < 2 {
    ///         outputs.recv_many_async(2, &mut others).await?;
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>((first, others))
    /// })?;
    /// assert_eq!(reply, (42, vec![44, 46]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_async(&self) -> OutputFuture<'_, R>
    where
        R: Reply,
    {
        OutputFuture::new(self)
    }

    /// As [`recv_many_timeout`](Self::recv_many_timeout) without a limit, and without holding a
    /// thread while it waits.
    pub fn recv_many_async<'a>(&'a self, most: usize, replies: &'a mut Vec<R>) -> OutputManyFuture<'a, R>
    where
        R: Reply,
    {
        OutputManyFuture::new(self, most, replies)
    }
}

/// An output to come: [`Outputs::recv_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, OutputFuture, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn add_one(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(add_one, RingConfig::default())?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(8)?))?;
/// last.activate()?;
/// first.activate()?;
///
/// first.send(3)?;
/// let outputs = last.outputs();
/// let next: OutputFuture<'_, u32> = outputs.recv_async();
/// assert_eq!(pollster::block_on(next)?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct OutputFuture<'a, R> {
    outputs: &'a Outputs<R>,
    ticket: Option<u64>,
}

impl<R> fmt::Debug for OutputFuture<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFuture").field("outputs", self.outputs).finish_non_exhaustive()
    }
}

impl<'a, R> OutputFuture<'a, R> {
    pub(super) fn new(outputs: &'a Outputs<R>) -> Self {
        OutputFuture { outputs, ticket: None }
    }
}

impl<R: Reply> Future for OutputFuture<'_, R> {
    type Output = Result<R, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.outputs.try_recv() {
            Err(RecvError::Empty { .. }) => {}
            received => return Poll::Ready(received),
        }
        self.wait(cx);
        Poll::Pending
    }
}

impl<R> OutputFuture<'_, R> {
    /// Has the task woken when an output is there, or will never be.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let side = self.outputs.side();
        let wakers = &side.inbound_links.outputs.wakers;
        let awaited = Awaited::Reply { sent_later: true };
        self.ticket = Some(wakers.add(self.ticket, awaited, cx.waker()));
        // The answer may have arrived before the waker was registered. Without a polling thread,
        // the task polls by itself.
        if side.has_output() || side.see_to_outputs().is_err() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Outputs to come: [`Outputs::recv_many_async`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, OutputManyFuture, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn add_one(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(add_one, RingConfig::default())?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(8)?))?;
/// last.activate()?;
/// first.activate()?;
///
/// first.send_many(&[1, 2])?;
/// let (outputs, mut replies) = (last.outputs(), Vec::new());
/// while replies.len() < 2 {
///     let some: OutputManyFuture<'_, u32> = outputs.recv_many_async(2, &mut replies);
///     assert!(pollster::block_on(some)? > 0);
/// }
/// assert_eq!(replies, [2, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct OutputManyFuture<'a, R> {
    waiting: OutputFuture<'a, R>,
    most: usize,
    replies: &'a mut Vec<R>,
}

impl<'a, R> OutputManyFuture<'a, R> {
    pub(super) fn new(outputs: &'a Outputs<R>, most: usize, replies: &'a mut Vec<R>) -> Self {
        OutputManyFuture { waiting: OutputFuture::new(outputs), most, replies }
    }
}

impl<R: Reply> Future for OutputManyFuture<'_, R> {
    type Output = Result<usize, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let OutputManyFuture { waiting, most, replies } = &mut *self;
        let received = waiting.outputs.try_recv_many(*most, replies);
        if received == Ok(0) && *most > 0 {
            waiting.wait(cx);
            return Poll::Pending;
        }
        Poll::Ready(received)
    }
}

impl<R> Drop for OutputFuture<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.outputs.side().inbound_links.outputs.wakers.remove(ticket);
        }
    }
}

impl Side {
    /// Whether an output is there, or will never be.
    fn has_output(&self) -> bool {
        self.inbound_links.outputs.is_ready(&self.standing())
    }

    /// Has the outputs polled while a future waits for them.
    fn see_to_outputs(self: &Arc<Side>) -> std::io::Result<()> {
        let wakers = &self.inbound_links.outputs.wakers;
        if wakers.begin_watching() {
            let weak: Weak<dyn Watched> = Arc::downgrade(self) as Weak<dyn Watched>;
            return watch(weak).inspect_err(|_| wakers.stop_watching());
        }
        Ok(())
    }
}

impl Watched for Side {
    fn attend(&self) -> bool {
        self.pump();
        self.inbound_links.outputs.wakers.wake(|_| self.has_output())
    }

    fn is_done(&self) -> bool {
        self.inbound_links.outputs.wakers.is_unwatched()
    }
}

//! Results that come later: waiting for a device without blocking a thread.
//!
//! [`Asynchronous`] is what a device hands out whose work can be awaited. [`promise`] makes a
//! future of what a callback is given, and [`on_thread`] one of a call that blocks.

use crate::{DevicePtr, Error, Result, StreamId};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A result that comes later. It needs no particular executor.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Waiting without blocking: [`Backend::asynchronous`](crate::Backend::asynchronous).
///
/// Both calls enqueue what they need at once; only its end is awaited. What is enqueued later does
/// not change what they give. A future that is dropped takes the faults with it that it would have
/// reported.
pub trait Asynchronous {
    /// [`synchronize`](crate::Backend::synchronize), for what is in the stream now.
    fn synchronize_later(&self, stream: StreamId) -> Later<'_, ()>;

    /// [`download`](crate::Backend::download), of what the stream's work now enqueued leaves there.
    ///
    /// # Safety
    /// `src` points to at least `bytes` bytes of this device's memory.
    unsafe fn download_later(&self, src: DevicePtr, bytes: usize, stream: StreamId) -> Later<'_, Vec<u8>>;
}

/// One value, on its way from a [`Promise`] to its [`Promised`].
struct Slot<T> {
    value: Option<T>,
    /// Whether the promise is gone.
    is_over: bool,
    waker: Option<Waker>,
}

type Shared<T> = Arc<Mutex<Slot<T>>>;

/// Where the value of a [`Promised`] is put.
pub struct Promise<T>(Shared<T>);

/// The value that a [`Promise`] is given, as a future: `None` if that was dropped without one.
pub struct Promised<T>(Shared<T>);

/// A value that comes later, and where to put it.
///
/// ```
/// use kiln_backend::promise;
/// let (promise, promised) = promise();
/// std::thread::spawn(move || promise.keep(7));
/// assert_eq!(pollster::block_on(promised), Some(7));
/// ```
pub fn promise<T>() -> (Promise<T>, Promised<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, is_over: false, waker: None }));
    (Promise(slot.clone()), Promised(slot))
}

impl<T> Promise<T> {
    /// Gives the value to the one who waits for it.
    pub fn keep(self, value: T) {
        locked(&self.0).value = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = locked(&self.0);
            slot.is_over = true;
            slot.waker.take()
        };
        // Not under the lock: it may poll at once.
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Promised<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = locked(&self.0);
        if slot.is_over {
            return Poll::Ready(slot.value.take());
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

fn locked<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    // Assignments alone while it is locked: a panic elsewhere leaves nothing half-done.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call that blocks gives, made on a thread of its own. Where there are no threads, as in a
/// browser, it is made here and now.
///
/// ```
/// use kiln_backend::on_thread;
/// assert_eq!(pollster::block_on(on_thread(|| 6 * 7)).unwrap(), 42);
/// ```
///
/// # Errors
/// [`Error::Driver`] if the system gives no thread, [`Error::Internal`] if the call panics.
pub fn on_thread<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'static {
    let (promise, promised) = promise();
    let started = if cfg!(target_family = "wasm") {
        promise.keep(call());
        Ok(())
    } else {
        let started =
            std::thread::Builder::new().name("kiln-wait".to_owned()).spawn(move || promise.keep(call()));
        started.map(drop)
    };
    async move {
        started.map_err(|error| Error::Driver {
            call: "starting a thread".to_owned(),
            code: error.kind().to_string(),
            message: error.to_string(),
        })?;
        promised.await.ok_or_else(|| Error::Internal {
            place: "a thread that waits",
            message: "its call has panicked".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_promise_wakes_who_waits_for_it_whether_it_is_kept_or_dropped() {
        for kept in [Some(3), None] {
            let (promise, mut promised) = promise();
            let woken = Arc::new(Woken::default());
            let waker = woken.clone().into();
            let context = &mut Context::from_waker(&waker);
            assert!(Pin::new(&mut promised).poll(context).is_pending());
            match kept {
                Some(value) => promise.keep(value),
                None => drop(promise),
            }
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            assert_eq!(Pin::new(&mut promised).poll(context), Poll::Ready(kept));
        }
    }

    #[test]
    fn a_call_that_panics_is_an_error() {
        let failed = pollster::block_on(on_thread(|| -> u32 { std::panic::panic_any("as the test wants") }));
        assert!(matches!(failed, Err(Error::Internal { .. })), "{failed:?}");
    }
}

//! Batches of examples, in a random order, made ahead of their use.

use super::random::Key;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// The numbers of examples, a batch at a time, each example once.
///
/// The last batch is left out where it is smaller, so that all have one shape.
///
/// ```
/// use kiln_array::nn::{Batches, Key};
/// let mut seen: Vec<usize> = Batches::new(10, 3).shuffled(Key::new(1)).flatten().collect();
/// assert_eq!(seen.len(), 9);
/// seen.sort_unstable();
/// seen.dedup();
/// assert_eq!(seen.len(), 9);
/// assert_eq!(Batches::new(4, 2).collect::<Vec<_>>(), [[0, 1], [2, 3]]);
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    size: usize,
    at: usize,
}

impl Batches {
    /// The batches of `count` examples, in order. A size of 0 gives none.
    pub fn new(count: usize, size: usize) -> Batches {
        Batches { order: (0..count).collect(), size, at: 0 }
    }

    /// The examples in the order of a key.
    pub fn shuffled(mut self, key: Key) -> Batches {
        for last in (1..self.order.len()).rev() {
            self.order.swap(last, key.fold(last as u64).index(last + 1));
        }
        self
    }
}

impl Iterator for Batches {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let batch = self.order.get(self.at..self.at + self.size).filter(|batch| !batch.is_empty())?;
        self.at += self.size;
        Some(batch.to_vec())
    }
}

/// Items of an iterator that a thread computes ahead. See [`prefetch`].
///
/// ```
/// use kiln_array::nn::{Batches, Prefetched, prefetch};
///
/// /// The batches of an epoch, as sums here, made while the one before is used.
/// fn epoch(count: usize) -> Prefetched<usize> {
///     prefetch(2, Batches::new(count, 2).map(|batch| batch.iter().sum()))
/// }
///
/// assert_eq!(epoch(6).collect::<Vec<_>>(), [1, 5, 9]);
/// drop(epoch(1_000_000)); // the thread ends
/// ```
#[derive(Debug)]
pub struct Prefetched<T> {
    items: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

/// Computes the items of an iterator in a thread, up to `ahead` of them before they are asked for.
///
/// The thread ends with the iterator or when the result is dropped. A panic of the iterator is one
/// of `next`.
///
/// ```
/// use kiln_array::nn::{Batches, prefetch};
/// let sums = prefetch(2, Batches::new(6, 2).map(|batch| batch.iter().sum::<usize>()));
/// assert_eq!(sums.collect::<Vec<_>>(), [1, 5, 9]);
/// ```
pub fn prefetch<T: Send + 'static>(
    ahead: usize,
    items: impl Iterator<Item = T> + Send + 'static,
) -> Prefetched<T> {
    let (sender, receiver) = sync_channel(ahead);
    let thread = std::thread::spawn(move || {
        for item in items {
            if sender.send(item).is_err() {
                return;
            }
        }
    });
    Prefetched { items: Some(receiver), thread: Some(thread) }
}

impl<T> Iterator for Prefetched<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Ok(item) = self.items.as_ref()?.recv() {
            return Some(item);
        }
        self.items = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        None
    }
}

impl<T> Drop for Prefetched<T> {
    fn drop(&mut self) {
        // The thread sees that nobody receives, and ends.
        self.items = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

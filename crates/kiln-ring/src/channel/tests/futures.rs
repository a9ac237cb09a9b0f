//! Waiting without a thread.

use super::device::{Rig, rig};
use crate::Reason;
use crate::channel::{ChannelConfig, Overflow, Protocol, Sent};
use crate::error::{AskError, RecvError, SendError};
use pollster::block_on;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// What has not come by then never comes, however busy the machine is.
const NEVER: Duration = Duration::from_secs(20 * 60);

fn config(capacity: usize) -> ChannelConfig {
    ChannelConfig::default().capacity(capacity)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    /// Waits until it was woken at least so often.
    fn wait_for(&self, times: usize) {
        let begun = Instant::now();
        while self.0.load(SeqCst) < times {
            assert!(begun.elapsed() < NEVER, "not woken within {NEVER:?}");
            thread::yield_now();
        }
    }
}

fn poll<F: Future>(future: &mut Pin<&mut F>, count: &Arc<Count>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

/// Polls a future as an executor does: again after each wake-up, until it is ready.
///
/// A future may be woken, and find that the poller's thread is taking answers at this moment. Then
/// it is pending once more and is woken again, which the contract of futures allows.
fn ready<F: Future>(future: &mut Pin<&mut F>, count: &Arc<Count>) -> F::Output {
    loop {
        let woken = count.0.load(SeqCst);
        match poll(future, count) {
            Poll::Ready(output) => return output,
            Poll::Pending => count.wait_for(woken + 1),
        }
    }
}

/// The device answers while the task sleeps; only the poller reads the ring.
#[test]
fn a_task_is_woken_by_a_reply() {
    let mut rig: Rig<u32, u32> = rig(config(4), Protocol::Stamped);
    let channel = rig.channel.clone();
    for i in 0..3 {
        let (count, mut reply) = (Arc::<Count>::default(), pin!(channel.recv_async()));
        rig.channel.send(&i).unwrap();
        assert!(poll(&mut reply, &count).is_pending());
        let (position, _) = rig.handle();
        thread::sleep(Duration::from_millis(1));
        assert_eq!(count.0.load(SeqCst), 0, "woken before there was a reply");
        rig.reply(position, &(i + 10));
        count.wait_for(1);
        assert_eq!(ready(&mut reply, &count), Ok(i + 10));
    }
}

#[test]
fn a_task_is_woken_by_room() {
    let mut rig: Rig<u32, u32> = rig(config(1), Protocol::Ordered);
    let channel = rig.channel.clone();
    assert_eq!(block_on(channel.send_async(&1)), Ok(Sent::Queued(0)));
    let (count, mut sending) = (Arc::<Count>::default(), pin!(channel.send_async(&2)));
    assert!(poll(&mut sending, &count).is_pending());
    let (position, _) = rig.handle();
    // A message that is handled without a reply makes room though no thread receives.
    rig.device.answer(position, crate::wire::slot::Kind::None, &[]);
    count.wait_for(1);
    assert_eq!(ready(&mut sending, &count), Ok(Sent::Queued(1)));
}

#[test]
fn a_task_is_woken_by_its_answer_alone() {
    let mut rig: Rig<u32, [u32; 8]> = rig(config(4), Protocol::Stamped);
    let channel = rig.channel.clone();
    let counts = [Arc::<Count>::default(), Arc::<Count>::default()];
    let (mut first, mut second) = (pin!(channel.ask_async(&1)), pin!(channel.ask_async(&2)));
    assert!(poll(&mut first, &counts[0]).is_pending() && poll(&mut second, &counts[1]).is_pending());
    let (a, b) = (rig.handle().0, rig.handle().0);
    rig.reply(b, &[2; 8]);
    counts[1].wait_for(1);
    assert_eq!(ready(&mut second, &counts[1]), Ok(Some([2; 8])));
    assert_eq!(counts[0].0.load(SeqCst), 0);
    rig.device.answer(a, crate::wire::slot::Kind::Failed, &[4, 5]);
    counts[0].wait_for(1);
    let reason = Reason::Failed { cause: 4, number: 5 };
    let why = reason.to_string().into();
    assert_eq!(ready(&mut first, &counts[0]), Err(AskError::Unhandled { actor: 3, reason, why }));
}

#[test]
fn a_task_is_woken_by_the_end() {
    let rig: Rig<u32, u32> = rig(config(1), Protocol::Ordered);
    let channel = rig.channel.clone();
    let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::default());
    let (mut ask, mut send, mut recv) =
        (pin!(channel.ask_async(&1)), pin!(channel.send_async(&2)), pin!(channel.recv_async()));
    assert!(poll(&mut ask, &counts[0]).is_pending());
    assert!(poll(&mut send, &counts[1]).is_pending());
    assert!(poll(&mut recv, &counts[2]).is_pending());
    rig.channel.abandon();
    counts.iter().for_each(|count| count.wait_for(1));
    assert_eq!(ready(&mut ask, &counts[0]), Err(AskError::Lost { actor: 3 }));
    assert_eq!(ready(&mut send, &counts[1]), Err(SendError::Closed { actor: 3 }));
    assert_eq!(ready(&mut recv, &counts[2]), Err(RecvError::Lost { actor: 3, unanswered: 1 }));
}

/// A request whose future is dropped is still handled; its reply is a dead letter, and its slot
/// serves again.
#[test]
fn a_dropped_request() {
    let mut rig: Rig<u32, u32> = rig(config(1), Protocol::Stamped);
    let channel = rig.channel.clone();
    for i in 0..3 {
        let (position, got) = {
            let (count, mut ask) = (Arc::<Count>::default(), pin!(channel.ask_async(&i)));
            // The slot of the request before is free once its answer was taken: by this future, or
            // by the poller's thread, for which it waits.
            loop {
                let woken = count.0.load(SeqCst);
                assert!(poll(&mut ask, &count).is_pending());
                match rig.device.take() {
                    Some((position, _, words)) => break (position, words[0]),
                    None => count.wait_for(woken + 1),
                }
            }
        };
        assert_eq!(got, i);
        rig.reply(position, &(i + 70));
    }
    // The poller's thread may be taking them.
    while channel.counts().under_way() > 0 {
        channel.tidy();
        thread::yield_now();
    }
    let unclaimed: Vec<_> = rig.letters.drain().iter().map(|l| (l.reason, l.decode::<u32>())).collect();
    assert_eq!(unclaimed, [70, 71, 72].map(|r| (Reason::Unclaimed, Some(r))));
}

/// An answer that was asked for and not taken does not wake receivers; once it is taken, what comes
/// after it does.
#[test]
fn a_receiver_is_not_woken_by_somebody_elses_answer() {
    let mut rig: Rig<u32, u32> = rig(config(4), Protocol::Stamped);
    let channel = rig.channel.clone();
    let (asking, receiving) = (Arc::<Count>::default(), Arc::<Count>::default());
    let (mut ask, mut recv) = (pin!(channel.ask_async(&1)), pin!(channel.recv_async()));
    assert!(poll(&mut ask, &asking).is_pending());
    rig.channel.send(&2).unwrap();
    assert!(poll(&mut recv, &receiving).is_pending());
    for i in [1, 2] {
        let (position, _) = rig.handle();
        rig.reply(position, &(i * 10));
    }
    asking.wait_for(1);
    thread::sleep(Duration::from_millis(2));
    assert_eq!(receiving.0.load(SeqCst), 0);
    assert_eq!(ready(&mut ask, &asking), Ok(Some(10)));
    receiving.wait_for(1);
    assert_eq!(ready(&mut recv, &receiving), Ok(20));
}

#[test]
fn a_queue_that_rejects_or_drops_does_not_wait() {
    for (overflow, want) in [
        (Overflow::Reject, Err(SendError::Full { actor: 3, capacity: 1 })),
        (Overflow::DropNewest, Ok(Sent::Dropped)),
    ] {
        let rig: Rig<u32, u32> = rig(config(1).overflow(overflow), Protocol::Ordered);
        rig.channel.send(&1).unwrap();
        assert_eq!(block_on(rig.channel.send_async(&2)), want);
    }
}

/// Tasks on threads of their own, and a device that runs beside them.
#[test]
fn many_tasks() {
    let each = 300u32;
    let mut rig: Rig<[u32; 4], [u32; 4]> = rig(config(4), Protocol::Stamped);
    let channel = rig.channel.clone();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !done.load(SeqCst) {
                while let Some((position, _, words)) = rig.device.take() {
                    rig.device.answer(position, crate::wire::slot::Kind::Reply, &words);
                }
                thread::yield_now();
            }
        });
        let askers: Vec<_> = (0..3u32)
            .map(|t| {
                let channel = channel.clone();
                s.spawn(move || {
                    block_on(async {
                        for i in 0..each {
                            let m = [t, i, !i, 7];
                            assert_eq!(channel.ask_async(&m).await, Ok(Some(m)));
                        }
                    })
                })
            })
            .collect();
        let sender = {
            let channel = channel.clone();
            s.spawn(move || {
                block_on(async {
                    for i in 0..each {
                        channel.send_async(&[9, i, 0, 0]).await.unwrap();
                    }
                })
            })
        };
        block_on(async {
            for i in 0..each {
                assert_eq!(channel.recv_async().sent_later().await, Ok([9, i, 0, 0]));
            }
        });
        sender.join().unwrap();
        askers.into_iter().for_each(|t| t.join().unwrap());
        done.store(true, SeqCst);
    });
}

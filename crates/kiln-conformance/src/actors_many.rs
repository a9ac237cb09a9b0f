//! Ring kernels: many actors, which come and go; many messages at once, and messages that tasks
//! wait for.

use crate::actors::{SOON, active, defaults, running_sum, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_backend::{Execution, Residency};
use kiln_ring::{Actor, AskError, Ending, RecvError, RingConfig, RingRuntime, RuntimeConfig, SendError};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["actors_many":
        thousands_come_and_go;
        many_at_once;
        tasks_wait_for_room_and_replies;
    ]
}

/// Half of them are there at once. One that lives on is asked all the while, and misses nothing.
fn thousands_come_and_go(trial: &mut Trial<'_>) -> Verdict {
    let (all, workers, ports) = match trial.device.capabilities().execution {
        _ if trial.device.properties().residency == Residency::Dispatched => (24, Some(2), 32),
        Execution::Simt => (4000, None, 64),
        Execution::Simd => (2000, Some(2), 512),
        Execution::Interpreted => (24, Some(2), 32),
    };
    let config = RuntimeConfig { workers, endpoints_per_worker: ports, ..defaults() };
    let rt = RingRuntime::with(trial.device, config)?;
    let steady = active(&rt, running_sum, RingConfig::default().state(0))?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut asked = 0;
            while asked == 0 || !done.load(Ordering::Relaxed) {
                asked += 1;
                same("the one that stays", steady.channel().ask_timeout(&1, SOON)?, Some(asked))?;
            }
            Ok::<_, Stop>(())
        });
        let went = come_and_go(&rt, all);
        done.store(true, Ordering::Relaxed);
        asker.join().unwrap_or_else(|_| Err(Stop::wrong("the asker panicked".to_owned())))?;
        went
    })?;
    same("left", rt.telemetry()?.actors.len(), 1)?;
    same("letters", rt.dead_letters().arrived(), 0)
}

fn come_and_go(rt: &RingRuntime, all: u32) -> Verdict {
    let ends = |(x, actor): (u32, Actor<running_sum>)| {
        same("sum", actor.recv_timeout(SOON)?, 2 * u64::from(x))?;
        Ok::<_, Stop>(actor.terminate_with(Ending::Drain, SOON)?)
    };
    let mut here = VecDeque::new();
    for x in 0..all {
        let actor = active(rt, running_sum, RingConfig::default().state(u64::from(x)).capacity(2))?;
        actor.send(x)?;
        here.push_back((x, actor));
        if here.len() > all as usize / 2 {
            here.pop_front().map_or(Ok(()), ends)?;
        }
    }
    here.into_iter().try_for_each(ends)
}

fn many_at_once(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, running_sum, RingConfig::default().state(0).capacity(16))?;
        let (mut sums, mut last) = (Vec::new(), 0);
        for round in 0..20u32 {
            let part: Vec<u32> = (0..1 + round % 16).collect();
            same("sent", actor.send_many(&part)?, part.len())?;
            let begun = Instant::now();
            while sums.len() < part.len() {
                actor.recv_many(part.len() - sums.len(), &mut sums)?;
                ensure(begun.elapsed() < SOON, || format!("{} of {} replies", sums.len(), part.len()))?;
            }
            for (sum, x) in sums.drain(..).zip(part) {
                last += u64::from(x);
                same("sum", sum, last)?;
            }
        }
        same("none", actor.send_many(&[])?, 0)?;
        let all: Vec<u32> = vec![1; 20];
        let held = rt.launch(
            running_sum,
            RingConfig::default().state(0).capacity(16).overflow(kiln_ring::Overflow::Reject),
        )?;
        let refused = held.send_many(&all).map_err(|error| (error.sent, error.error));
        ensure(matches!(refused, Err((16, SendError::Full { .. }))), || format!("20 in 16: {refused:?}"))?;
    }
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The simplest executor there is. A task that is never woken is an error.
fn run<T>(task: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = pin!(task);
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return ended;
        }
        thread::park_timeout(SOON);
    }
    Err(Stop::wrong("a task was not woken".to_owned()))
}

fn tasks_wait_for_room_and_replies(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, running_sum, RingConfig::default().state(0).capacity(3))?;
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                run(async {
                    for x in 1..=30 {
                        actor.send_async(&x).await?;
                    }
                    Ok(())
                })
            });
            let received = run(async {
                for n in 1..=30u64 {
                    same("sum", actor.recv_async().sent_later().await?, n * (n + 1) / 2)?;
                }
                Ok(())
            });
            sender.join().unwrap_or_else(|_| Err(Stop::wrong("the sender panicked".to_owned())))?;
            received
        })?;
        same("asked", run(async { Ok(actor.ask_async(&35).await?) })?, Some(500))?;
        actor.terminate_with(Ending::Drain, SOON)?;
        let asked = run(async { Ok(actor.ask_async(&1).await) })?;
        ensure(matches!(asked, Err(AskError::Send(SendError::Closed { .. }))), || format!("{asked:?}"))?;
        let ended = run(async { Ok(actor.recv_async().await) })?;
        ensure(matches!(ended, Err(RecvError::Closed { .. })), || format!("{ended:?}"))?;
    }
    Ok(())
}

//! Many senders and receivers at once, with a device that runs beside them.

use super::device::{Rig, rig};
use crate::channel::{ChannelConfig, Protocol};
use crate::error::{RecvError, SendError};
use crate::wire::slot::Kind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const SENDERS: u32 = 3;

/// Echoes until `done`, at least what was sent before. Every seventh message gets no reply.
fn echo(rig: &mut Rig<[u32; 5], [u32; 5]>, done: &AtomicBool) {
    loop {
        let last = done.load(SeqCst);
        while let Some((position, _, words)) = rig.device.take() {
            let kind = if words[1] % 7 == 3 { Kind::None } else { Kind::Reply };
            rig.device.answer(position, kind, if kind == Kind::Reply { &words } else { &[] });
        }
        if last {
            return;
        }
        thread::yield_now();
    }
}

fn message(sender: u32, i: u32) -> [u32; 5] {
    [sender, i, i ^ 0x5555_5555, sender.wrapping_mul(i), !i]
}

/// Nothing is lost, duplicated, torn or reordered within a sender.
#[test]
fn many_senders_and_two_receivers() {
    for (protocol, capacity) in [(Protocol::Stamped, 64), (Protocol::Ordered, 5)] {
        let each = 3000;
        let mut rig: Rig<[u32; 5], [u32; 5]> = rig(ChannelConfig::default().capacity(capacity), protocol);
        let channel = rig.channel.clone();
        let done = AtomicBool::new(false);
        let received = thread::scope(|s| {
            s.spawn(|| echo(&mut rig, &done));
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let channel = channel.clone();
                    s.spawn(move || {
                        let all: Vec<_> = (0..each).map(|i| message(sender, i)).collect();
                        for (k, some) in all.chunks(50).enumerate() {
                            if k % 2 == 0 {
                                some.iter().for_each(|m| assert!(channel.send(m).is_ok()));
                            } else {
                                assert_eq!(channel.send_many(some), Ok(some.len()));
                            }
                        }
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    let channel = channel.clone();
                    s.spawn(move || {
                        let mut received = Vec::new();
                        loop {
                            match channel.recv_timeout(Duration::MAX) {
                                Ok(reply) => received.push(reply),
                                Err(RecvError::Closed { .. }) => return received,
                                Err(e) => panic!("{e}"),
                            }
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|t| t.join().unwrap());
            channel.close();
            let received: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            done.store(true, SeqCst);
            received
        });
        for of_one in &received {
            for sender in 0..SENDERS {
                let order: Vec<u32> = of_one.iter().filter(|m| m[0] == sender).map(|m| m[1]).collect();
                assert!(order.is_sorted(), "sender {sender} was reordered");
            }
        }
        let mut all: Vec<[u32; 5]> = received.concat();
        all.sort_unstable();
        let mut want: Vec<_> =
            (0..SENDERS).flat_map(|s| (0..each).filter(|i| i % 7 != 3).map(move |i| message(s, i))).collect();
        want.sort_unstable();
        assert_eq!(all.len(), want.len());
        assert!(all == want, "messages were torn or duplicated");
        assert_eq!(channel.counts().under_way(), 0);
    }
}

/// Every asker gets the answer to its own question, while others send and receive.
#[test]
fn askers_beside_senders() {
    let each = 1000;
    let mut rig: Rig<[u32; 5], [u32; 5]> = rig(ChannelConfig::default().capacity(8), Protocol::Stamped);
    let (channel, letters) = (rig.channel.clone(), rig.letters.clone());
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| echo(&mut rig, &done));
        let askers: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let channel = channel.clone();
                s.spawn(move || {
                    for i in 0..each {
                        let m = message(sender, i);
                        assert_eq!(channel.ask(&m), Ok((i % 7 != 3).then_some(m)));
                    }
                })
            })
            .collect();
        let mut received = 0;
        for i in 0..each {
            // Not `send`: replies that only this thread receives may be what fills the queue.
            loop {
                while let Ok(reply) = channel.try_recv() {
                    assert_eq!(reply[0], 9);
                    received += 1;
                }
                match channel.try_send(&message(9, i)) {
                    Ok(_) => break,
                    Err(SendError::Full { .. }) => thread::yield_now(),
                    Err(e) => panic!("{e}"),
                }
            }
        }
        // Replies that are not received take the room that askers need.
        while received < (0..each).filter(|i| i % 7 != 3).count() {
            assert_eq!(channel.recv().unwrap()[0], 9);
            received += 1;
        }
        askers.into_iter().for_each(|t| t.join().unwrap());
        done.store(true, SeqCst);
        assert!(channel.try_recv().is_err());
    });
    assert!(letters.is_empty());
}

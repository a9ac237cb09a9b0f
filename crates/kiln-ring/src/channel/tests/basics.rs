//! Each operation and error by itself.

use super::device::{Rig, memory, rig, rig_from};
use crate::channel::{Channel, ChannelConfig, Overflow, Parts, Protocol, Sent, WaitPolicy};
use crate::error::{AskError, ConfigError, RecvError, SendError, SendManyError};
use crate::wire::slot::{Kind, MAX_CAPACITY};
use crate::{DeadLetters, Layout, Reason};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const PROTOCOLS: [Protocol; 2] = [Protocol::Stamped, Protocol::Ordered];
const SHORT: Duration = Duration::from_millis(2);

fn config(capacity: usize) -> ChannelConfig {
    ChannelConfig::default().capacity(capacity)
}

/// A message of `N` words, each of which holds its number.
fn message<const N: usize>(number: u32) -> [u32; N] {
    std::array::from_fn(|i| number * 1000 + i as u32)
}

/// Messages of every shape of slot go there and back, over several laps, for a first lap, a late
/// one, and one whose stamps begin anew.
#[test]
fn messages_go_there_and_back() {
    fn check<const N: usize, const R: usize>(protocol: Protocol, deadlines: bool, first: u64) {
        let mut rig: Rig<[u32; N], [u32; R]> = rig_from(config(5).deadlines(deadlines), protocol, first);
        for round in 0..9u32 {
            let batch = round % 5 + 1;
            for i in 0..batch {
                assert!(matches!(rig.channel.send(&message(round * 10 + i)), Ok(Sent::Queued(_))));
            }
            for i in 0..batch {
                let (position, got) = rig.handle();
                assert_eq!(got, message(round * 10 + i), "{N} {R} {protocol:?} {deadlines} {first}");
                rig.reply(position, &message(round * 10 + i + 500));
            }
            for i in 0..batch {
                assert_eq!(rig.channel.recv(), Ok(message(round * 10 + i + 500)));
            }
            assert_eq!(rig.channel.try_recv(), Err(RecvError::Empty { actor: 3 }));
            assert!(rig.device.take().is_none());
        }
    }
    for protocol in PROTOCOLS {
        for deadlines in [false, true] {
            for first in [0, 12_345, (8 << 24) - 17, 1 << 40] {
                check::<1, 1>(protocol, deadlines, first);
                check::<3, 4>(protocol, deadlines, first);
                check::<4, 3>(protocol, deadlines, first);
                check::<12, 12>(protocol, deadlines, first);
                check::<13, 1>(protocol, deadlines, first);
                check::<61, 40>(protocol, deadlines, first);
                check::<1030, 2>(protocol, deadlines, first);
            }
        }
    }
}

#[test]
fn a_reply_that_is_not_whole_is_not_received() {
    let mut rig: Rig<u32, [u32; 7]> = rig(config(2), Protocol::Stamped);
    rig.channel.send(&1).unwrap();
    let (position, _) = rig.handle();
    let ring = rig.device.form.answers;
    let stamp = crate::wire::slot::stamp(1, Kind::Reply);
    for q in [1, 0, 2] {
        assert!(rig.channel.try_recv().is_err());
        let quad = ring.slot().quad(q, [0; 3], &[1, 2, 3, 4, 5, 6, 7], stamp);
        crate::channel::platform::QueueMemory::store_quad(
            &rig.device.answers,
            ring.at(position) + 4 * q,
            quad,
        );
    }
    assert_eq!(rig.channel.try_recv(), Ok([1, 2, 3, 4, 5, 6, 7]));
}

#[test]
fn replies_come_in_order_whatever_the_order_of_answers() {
    let mut rig: Rig<u32, u32> = rig(config(4), Protocol::Ordered);
    (0..4).for_each(|i| assert!(rig.channel.send(&i).is_ok()));
    let positions: Vec<u64> = (0..4).map(|_| rig.handle().0).collect();
    for i in [2, 3, 1] {
        rig.reply(positions[i], &(i as u32));
        assert!(rig.channel.try_recv().is_err());
    }
    rig.reply(positions[0], &0);
    let mut replies = vec![9];
    assert_eq!(rig.channel.try_recv_many(3, &mut replies), Ok(3));
    assert_eq!(rig.channel.try_recv_many(3, &mut replies), Ok(1));
    assert_eq!(rig.channel.try_recv_many(3, &mut replies), Ok(0));
    assert_eq!(replies, [9, 0, 1, 2, 3]);
}

#[test]
fn batches() {
    for protocol in PROTOCOLS {
        let mut rig: Rig<[u32; 5], u32> = rig(config(1000), protocol);
        let messages: Vec<[u32; 5]> = (0..777).map(message).collect();
        assert_eq!(rig.channel.send_many(&messages), Ok(777));
        assert_eq!(rig.channel.send_many(&[]), Ok(0));
        messages.iter().for_each(|m| assert_eq!(rig.handle().1, *m));
        assert!(rig.device.take().is_none());
    }
}

/// A message of a batch has no deadline, as one by itself.
#[test]
fn batches_have_no_deadline() {
    for protocol in PROTOCOLS {
        let mut rig: Rig<[u32; 5], u32> = rig(config(50).deadlines(true), protocol);
        rig.channel.send(&message(0)).unwrap();
        assert_eq!(rig.channel.send_many(&(1..40).map(message).collect::<Vec<_>>()), Ok(39));
        for number in 0..40 {
            let (_, header, words) = rig.device.take().unwrap();
            assert_eq!((header, words), ([u32::MAX, u32::MAX, 0], message::<5>(number).to_vec()));
        }
    }
}

/// Replies are taken in order whatever comes between them, and others remain.
#[test]
fn many_are_received_in_order() {
    for protocol in PROTOCOLS {
        let mut rig: Rig<u32, [u32; 7]> = rig(config(100), protocol);
        let mut got = Vec::new();
        for lap in 0..5 {
            (0..100).for_each(|i| assert!(rig.channel.send(&(lap * 100 + i)).is_ok()));
            for i in 0..100 {
                let (position, number) = rig.handle();
                match i % 9 {
                    4 => rig.device.answer(position, Kind::None, &[]),
                    _ => rig.reply(position, &message(number)),
                }
            }
            assert_eq!(rig.channel.try_recv_each(40, |reply| got.push(reply)), Ok(40));
            assert_eq!(rig.channel.try_recv_each(1000, |reply| got.push(reply)), Ok(49));
            assert_eq!(rig.channel.try_recv_each(1000, |reply| got.push(reply)), Ok(0));
        }
        let want: Vec<[u32; 7]> = (0..500).filter(|n| n % 100 % 9 != 4).map(message).collect();
        assert!(got == want, "{protocol:?}");
    }
}

/// A reply that was being taken when its taker panicked is not lost, and those before it are not
/// given twice.
#[test]
fn a_taker_that_panics_loses_nothing() {
    let mut rig: Rig<u32, u32> = rig(config(10), Protocol::Stamped);
    for number in 0..5 {
        rig.channel.send(&number).unwrap();
        let (position, number) = rig.handle();
        rig.reply(position, &number);
    }
    let taking = std::panic::AssertUnwindSafe(|| rig.channel.try_recv_each(5, |reply| assert!(reply < 3)));
    assert!(std::panic::catch_unwind(taking).is_err());
    assert_eq!((rig.channel.recv(), rig.channel.recv()), (Ok(3), Ok(4)));
}

#[test]
fn a_batch_larger_than_the_queue_says_how_far_it_came() {
    let rig: Rig<u32, u32> = rig(config(10).overflow(Overflow::Reject), Protocol::Ordered);
    let messages: Vec<u32> = (0..15).collect();
    let full = SendError::Full { actor: 3, capacity: 10 };
    assert_eq!(rig.channel.send_many(&messages), Err(SendManyError { sent: 10, error: full }));
    let newest: Rig<u32, u32> =
        super::device::rig(config(10).overflow(Overflow::DropNewest), Protocol::Ordered);
    assert_eq!(newest.channel.send_many(&messages), Ok(10));
    assert_eq!(newest.channel.counts().dropped_newest, 5);
}

#[test]
fn messages_that_are_not_handled_become_dead_letters() {
    let mut rig: Rig<[u32; 4], [u32; 9]> = rig(config(8), Protocol::Stamped);
    (0..6).for_each(|i| assert!(rig.channel.send(&message(i)).is_ok()));
    let taken: Vec<_> = (0..6).map(|_| rig.handle()).collect();
    rig.device.answer(0, Kind::None, &[]);
    for (i, kind) in [(1, Kind::Expired), (2, Kind::Dropped), (3, Kind::Undeliverable)] {
        rig.give_back(i, kind, &taken[i as usize].1);
    }
    rig.device.answer(4, Kind::Failed, &[7, 99]);
    rig.reply(5, &message(5));
    assert_eq!(rig.channel.recv(), Ok(message(5)));
    let letters = rig.letters.drain();
    let reasons: Vec<Reason> = letters.iter().map(|l| l.reason).collect();
    let failed = Reason::Failed { cause: 7, number: 99 };
    assert_eq!(reasons, [Reason::Expired, Reason::Dropped, Reason::Undeliverable, failed]);
    for (letter, i) in letters.iter().zip(1u32..) {
        assert_eq!((letter.actor, letter.position, letter.layout), (3, u64::from(i), <[u32; 4]>::ID));
        assert_eq!(letter.decode::<[u32; 4]>(), (i < 4).then(|| message(i)));
    }
    let counts = rig.channel.counts();
    assert_eq!((counts.expired, counts.dropped_oldest, counts.undeliverable, counts.failed), (1, 1, 1, 1));
    assert_eq!((counts.sent, counts.answered, counts.under_way()), (6, 6, 0));
}

#[test]
fn a_request_is_answered_to_whoever_asked() {
    for protocol in PROTOCOLS {
        let mut rig: Rig<u32, [u32; 4]> = rig(config(4), protocol);
        let channel = rig.channel.clone();
        let asker = std::thread::spawn(move || channel.ask(&7));
        let position = loop {
            if let Some((position, _, words)) = rig.device.take() {
                assert_eq!(words, [7]);
                break position;
            }
            std::thread::yield_now();
        };
        rig.channel.send(&8).unwrap();
        rig.handle();
        rig.reply(position + 1, &message(8));
        assert!(rig.channel.try_recv().is_err(), "the request before has no answer");
        rig.reply(position, &message(7));
        assert_eq!(asker.join().unwrap(), Ok(Some(message(7))));
        assert_eq!(rig.channel.recv(), Ok(message(8)));
        assert!(rig.letters.is_empty());
    }
}

#[test]
fn what_becomes_of_requests() {
    let outcomes = [
        (Kind::Reply, &[42][..], Ok(Some(42))),
        (Kind::None, &[], Ok(None)),
        (Kind::Failed, &[1, 2], Err(Reason::Failed { cause: 1, number: 2 })),
        (Kind::Expired, &[5], Err(Reason::Expired)),
        (Kind::Undeliverable, &[5], Err(Reason::Undeliverable)),
    ];
    let mut rig: Rig<u32, u32> = rig(config(2), Protocol::Stamped);
    for (kind, words, want) in outcomes {
        let channel = rig.channel.clone();
        let asker = std::thread::spawn(move || channel.ask_timeout(&5, Duration::MAX));
        let position = loop {
            match rig.device.take() {
                Some((position, ..)) => break position,
                None => std::thread::yield_now(),
            }
        };
        rig.device.answer(position, kind, words);
        let want = want.map_err(|reason| {
            let why = reason.to_string().into();
            AskError::Unhandled { actor: 3, reason, why }
        });
        assert_eq!(asker.join().unwrap(), want);
    }
    assert!(rig.letters.is_empty(), "the asker knows");
    assert_eq!(rig.channel.counts().under_way(), 0);
}

#[test]
fn a_reply_that_comes_too_late_is_a_dead_letter() {
    let mut rig: Rig<u32, u32> = rig(config(2), Protocol::Ordered);
    let asked = rig.channel.ask_timeout(&5, SHORT);
    assert!(matches!(asked, Err(AskError::TimedOut { actor: 3, waited }) if waited >= SHORT), "{asked:?}");
    let (position, _) = rig.handle();
    rig.reply(position, &55);
    rig.channel.send(&6).unwrap();
    let (position, _) = rig.handle();
    rig.reply(position, &66);
    assert_eq!(rig.channel.recv(), Ok(66));
    let letter = rig.letters.pop().unwrap();
    assert_eq!((letter.reason, letter.decode::<u32>()), (Reason::Unclaimed, Some(55)));
    assert_eq!(rig.channel.counts().unclaimed, 1);
}

#[test]
fn a_slot_that_was_asked_for_serves_again() {
    let mut rig: Rig<u32, u32> = rig(config(1), Protocol::Stamped);
    for i in 0..10 {
        let timeout = if i % 2 == 0 { SHORT } else { Duration::ZERO };
        assert!(matches!(rig.channel.ask_timeout(&i, timeout), Err(AskError::TimedOut { .. })));
        let (position, _) = rig.handle();
        rig.reply(position, &i);
        assert_eq!(rig.channel.send(&100), Ok(Sent::Queued(position + 1)), "the late reply makes room");
        rig.handle();
        rig.reply(position + 1, &(i + 200));
        assert_eq!(rig.channel.recv(), Ok(i + 200));
    }
}

#[test]
fn closing() {
    let mut rig: Rig<u32, u32> = rig(config(4), Protocol::Ordered);
    rig.channel.send(&1).unwrap();
    rig.channel.send(&2).unwrap();
    rig.channel.close();
    let closed = SendError::Closed { actor: 3 };
    assert_eq!(rig.channel.send(&3), Err(closed));
    assert_eq!(rig.channel.try_send(&3), Err(closed));
    assert_eq!(rig.channel.send_many(&[3, 4]), Err(SendManyError { sent: 0, error: closed }));
    assert_eq!(rig.channel.ask(&3), Err(AskError::Send(closed)));
    assert!(matches!(rig.channel.recv_timeout(SHORT), Err(RecvError::TimedOut { .. })));
    for i in 0..2 {
        rig.handle();
        rig.reply(i, &(i as u32));
        assert_eq!(rig.channel.recv(), Ok(i as u32));
    }
    assert_eq!(rig.channel.recv(), Err(RecvError::Closed { actor: 3 }));
    rig.channel.reopen();
    assert_eq!(rig.channel.send(&5), Ok(Sent::Queued(2)));
}

/// Where there is no time to wait, why no reply will come is said all the same, however a thread
/// waits.
#[test]
fn a_reason_comes_before_a_time_limit() {
    let gentle = WaitPolicy { spins: 0, yields: 0, sleep: Some(SHORT) };
    for wait in [WaitPolicy::SPIN, WaitPolicy::default(), gentle] {
        let rig: Rig<u32, u32> = rig(config(4).wait(wait), Protocol::Stamped);
        rig.channel.close();
        assert_eq!(rig.channel.recv_timeout(Duration::ZERO), Err(RecvError::Closed { actor: 3 }));
        rig.channel.reopen();
        rig.channel.send(&1).unwrap();
        let timed_out = rig.channel.recv_timeout(Duration::ZERO);
        assert!(matches!(timed_out, Err(RecvError::TimedOut { actor: 3, .. })), "{timed_out:?}");
        rig.channel.abandon();
        let lost = Err(RecvError::Lost { actor: 3, unanswered: 1 });
        assert_eq!(rig.channel.recv_timeout(Duration::ZERO), lost);
        assert_eq!(rig.channel.recv(), lost);
    }
}

#[test]
fn a_device_that_is_lost() {
    let mut rig: Rig<u32, u32> = rig(config(4), Protocol::Stamped);
    rig.channel.send(&1).unwrap();
    rig.channel.send(&2).unwrap();
    let channel = rig.channel.clone();
    let asker = std::thread::spawn(move || channel.ask(&3));
    assert_eq!((rig.handle().1, rig.handle().1), (1, 2));
    while rig.device.take().is_none() {
        std::thread::yield_now();
    }
    rig.reply(0, &11);
    rig.channel.abandon();
    assert_eq!(asker.join().unwrap(), Err(AskError::Lost { actor: 3 }));
    assert_eq!(rig.channel.recv(), Ok(11), "an answer that is there is received");
    assert_eq!(rig.channel.recv(), Err(RecvError::Lost { actor: 3, unanswered: 2 }));
    assert_eq!(rig.channel.send(&4), Err(SendError::Closed { actor: 3 }));
}

#[test]
fn a_sender_that_waits_is_told_when_the_queue_closes() {
    let rig: Rig<u32, u32> = rig(config(1), Protocol::Ordered);
    rig.channel.send(&1).unwrap();
    let timed_out = rig.channel.send_timeout(&2, SHORT);
    assert!(matches!(timed_out, Err(SendError::TimedOut { actor: 3, waited }) if waited >= SHORT));
    assert_eq!(rig.channel.try_send(&2), Err(SendError::Full { actor: 3, capacity: 1 }));
    let channel = rig.channel.clone();
    let sender = std::thread::spawn(move || channel.send(&2));
    std::thread::sleep(SHORT);
    rig.channel.close();
    assert_eq!(sender.join().unwrap(), Err(SendError::Closed { actor: 3 }));
}

#[test]
fn deadlines() {
    let mut rig: Rig<u32, u32> = rig(config(4).deadlines(true), Protocol::Stamped);
    rig.channel.send_by(&1, 0x1234_5678_9abc_def0).unwrap();
    rig.channel.send(&2).unwrap();
    assert_eq!(rig.device.take(), Some((0, [0x9abc_def0, 0x1234_5678, 0], vec![1])));
    assert_eq!(rig.device.take(), Some((1, [u32::MAX, u32::MAX, 0], vec![2])));
    let without: Rig<u32, u32> = super::device::rig(config(4), Protocol::Stamped);
    assert_eq!(without.channel.send_by(&1, 5), Err(SendError::NoDeadlines { actor: 3 }));
}

#[test]
fn a_parked_device_is_woken() {
    let rig: Rig<u32, u32> = rig(config(4), Protocol::Ordered);
    rig.channel.send(&1).unwrap();
    assert_eq!(rig.control.woken.load(SeqCst), 0);
    rig.channel.set_parked(true);
    rig.channel.send(&1).unwrap();
    rig.channel.try_send(&1).unwrap();
    assert_eq!(rig.control.woken.load(SeqCst), 2);
    rig.channel.set_parked(false);
    rig.channel.send(&1).unwrap();
    assert_eq!(rig.control.woken.load(SeqCst), 2);
}

#[test]
fn waits_end_in_time() {
    let policies = [
        WaitPolicy::SPIN,
        WaitPolicy::default(),
        WaitPolicy { spins: 0, yields: 0, sleep: Some(Duration::from_secs(7200)) },
    ];
    for wait in policies {
        let rig: Rig<u32, u32> = rig(config(1).wait(wait), Protocol::Ordered);
        let begun = Instant::now();
        assert!(matches!(rig.channel.recv_timeout(SHORT), Err(RecvError::TimedOut { .. })));
        assert!(begun.elapsed() >= SHORT && begun.elapsed() < Duration::from_secs(3600));
    }
}

#[test]
fn channels_that_cannot_be() {
    let form = |capacity| config(capacity).form::<u32, u32>(Protocol::Stamped);
    assert_eq!(form(0), Err(ConfigError::ZeroCapacity));
    assert_eq!(form(MAX_CAPACITY + 1), Err(ConfigError::TooLarge { capacity: MAX_CAPACITY + 1 }));
    assert_eq!(form(MAX_CAPACITY).map(|f| f.requests.slots()), Ok(MAX_CAPACITY));

    let make = |requests, answers, protocol| {
        let parts = Parts {
            actor: 0,
            requests,
            answers,
            passed: Vec::new(),
            letters: Arc::new(DeadLetters::new(1)),
            device: Arc::<super::device::Control>::default(),
        };
        Channel::<u32, u32>::new(&config(16), protocol, parts).map(drop)
    };
    let words = form(16).unwrap().requests.words();
    let of = |words, combined| memory(words, combined).0;
    assert_eq!(make(of(words, true), of(words, false), Protocol::Stamped), Ok(()));
    for (requests, answers, protocol, ring) in [
        (of(words - 1, false), of(words, false), Protocol::Stamped, "requests"),
        (of(words, false), of(words - 1, false), Protocol::Stamped, "answers"),
        (of(words, false), of(words, true), Protocol::Stamped, "answers"),
        (of(words, true), of(words, false), Protocol::Ordered, "requests"),
    ] {
        let made = make(requests, answers, protocol);
        assert!(matches!(&made, Err(ConfigError::Memory { ring: r, .. }) if *r == ring), "{made:?}");
    }
}

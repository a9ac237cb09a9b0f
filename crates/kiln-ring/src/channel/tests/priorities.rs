//! Several priorities with one capacity, over a device that is played.

use super::device::{Control, Device, memory};
use crate::channel::memory::RingMemory;
use crate::channel::{Channel, ChannelConfig, Overflow, Parts, Protocol, SendOptions, Sent};
use crate::error::{ConfigError, RecvError, SendError};
use crate::wire::slot::{Kind, count_of, in_priority, priority_of};
use crate::{DeadLetters, Reason};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

struct Rig {
    channel: Channel<u32, u32>,
    /// From the lowest priority.
    devices: Vec<Device<RingMemory>>,
    control: Arc<Control>,
    letters: Arc<DeadLetters>,
}

fn rig(config: ChannelConfig) -> Rig {
    let form = config.form::<u32, u32>(Protocol::Stamped).unwrap();
    let (requests, device_requests) = memory(form.priorities * form.request_words(), true);
    let (answers, device_answers) = memory(form.priorities * form.answer_words(), false);
    let (control, letters) = (Arc::<Control>::default(), Arc::new(DeadLetters::new(100)));
    let devices = (0..form.priorities).map(|priority| {
        // SAFETY: inside, as large as the form says; the memory lives as long as its owner.
        let (requests, answers) = unsafe {
            (
                device_requests.part(priority * form.request_words(), form.requests.words()),
                device_answers.part(priority * form.answer_words(), form.answers.words()),
            )
        };
        Device { form, requests, answers, position: in_priority(priority, 5 * priority as u64) }
    });
    let devices = devices.collect();
    // The lowest begins at 0, each other one five positions further.
    let passed = (0..form.priorities as u64).map(|priority| 5 * priority).collect();
    let parts =
        Parts { actor: 3, requests, answers, passed, letters: letters.clone(), device: control.clone() };
    Rig { channel: Channel::new(&config, Protocol::Stamped, parts).unwrap(), devices, control, letters }
}

fn at(priority: u8) -> SendOptions {
    SendOptions::default().priority(priority)
}

impl Rig {
    /// The next message of a priority, with its position.
    fn take(&mut self, priority: usize) -> Option<(u64, u32)> {
        self.devices[priority].take().map(|(position, _, words)| (position, words[0]))
    }

    fn reply(&self, position: u64, reply: u32) {
        self.devices[priority_of(position)].answer(position, Kind::Reply, &[reply]);
    }
}

#[test]
fn each_priority_has_its_own_order_and_replies_of_higher_ones_come_first() {
    let mut rig = rig(ChannelConfig::default().capacity(6).priorities(3));
    for (x, priority) in [(1, 0), (2, 2), (3, 0), (4, 1), (5, 2)] {
        let sent = rig.channel.send_with(&x, at(priority)).unwrap();
        let Sent::Queued(position) = sent else { panic!("{x} was dropped") };
        assert_eq!(priority_of(position), usize::from(priority));
    }
    let mut positions = Vec::new();
    for priority in 0..3 {
        while let Some((position, x)) = rig.take(priority) {
            positions.push((priority_of(position), count_of(position), x));
            rig.reply(position, 10 * x);
        }
    }
    assert_eq!(positions, [(0, 0, 1), (0, 1, 3), (1, 5, 4), (2, 10, 2), (2, 11, 5)]);
    let mut replies = Vec::new();
    assert_eq!(rig.channel.try_recv_many(10, &mut replies), Ok(5));
    assert_eq!(replies, [20, 50, 40, 10, 30]);
    rig.channel.close();
    assert_eq!(rig.channel.recv(), Err(RecvError::Closed { actor: 3 }));
    assert_eq!(rig.channel.send_with(&1, at(2)), Err(SendError::Closed { actor: 3 }));
}

/// Room that one priority leaves is another's, whichever has it; many laps of all rings.
#[test]
fn the_capacity_is_shared() {
    let mut rig = rig(ChannelConfig::default().capacity(3).priorities(2).overflow(Overflow::Reject));
    let (mut x, mut want) = (0, [0u64; 2]);
    for round in 0..200u32 {
        for n in 0..3 {
            let priority = (round >> n & 1) as u8;
            assert!(rig.channel.try_send_with(&x, at(priority)).is_ok(), "{round}");
            want[usize::from(priority)] += 1;
            x += 1;
        }
        for priority in 0..2 {
            let full = rig.channel.try_send_with(&x, at(priority));
            assert_eq!(full, Err(SendError::Full { actor: 3, capacity: 3 }));
        }
        assert_eq!((rig.channel.unanswered(), rig.channel.counts().under_way()), (3, 3));
        for priority in 0..2 {
            while let Some((position, x)) = rig.take(priority) {
                rig.reply(position, x);
            }
        }
        let received = (0..3).map(|_| rig.channel.try_recv().unwrap()).collect::<Vec<_>>();
        assert_eq!(received.len(), 3);
    }
    assert_eq!(rig.channel.counts().sent, want.iter().sum::<u64>() + 5);
    assert_eq!(rig.channel.counts().under_way(), 0);
}

#[test]
fn many_at_once_are_cut_where_the_room_ends() {
    let mut rig = rig(ChannelConfig::default().capacity(5).priorities(2).overflow(Overflow::DropNewest));
    rig.channel.send_with(&99, at(1)).unwrap();
    assert_eq!(rig.channel.send_many_with(&[1, 2, 3, 4, 5, 6, 7], at(0)), Ok(4));
    assert_eq!((rig.channel.counts().dropped_newest, rig.channel.unanswered()), (3, 5));
    let seen: Vec<u32> = std::iter::from_fn(|| rig.take(0)).map(|(_, x)| x).collect();
    assert_eq!(seen, [1, 2, 3, 4]);
}

/// The device is commanded to drop the oldest of the lowest priority; its answer makes room for the
/// higher one.
#[test]
fn what_gives_way_has_the_lowest_priority() {
    for overflow in [Overflow::DropOldest, Overflow::DropNewest] {
        let mut rig = rig(ChannelConfig::default().capacity(2).priorities(3).overflow(overflow));
        rig.channel.send_with(&1, at(1)).unwrap();
        rig.channel.send_with(&2, at(2)).unwrap();
        assert_eq!(rig.channel.send_with(&3, at(0)), Ok(Sent::Dropped), "all that is there is above it");
        assert_eq!(rig.control.skip.load(SeqCst), 0);
        let full = rig.channel.try_send_with(&4, at(2));
        assert_eq!(full, Err(SendError::Full { actor: 3, capacity: 2 }), "the device has not answered yet");
        assert_eq!(rig.control.skip.load(SeqCst), in_priority(1, 6));
        let (position, x) = rig.take(1).unwrap();
        rig.devices[1].answer(position, Kind::Dropped, &[x]);
        assert!(matches!(rig.channel.try_send_with(&4, at(2)), Ok(Sent::Queued(_))));
        let letter = rig.letters.pop().unwrap();
        assert_eq!(
            (letter.reason, letter.position, letter.words),
            (Reason::Dropped, in_priority(1, 5), vec![1])
        );
        let counts = rig.channel.counts();
        assert_eq!((counts.dropped_oldest, counts.dropped_newest, counts.sent), (1, 1, 5 + 10 + 3));
    }
}

#[test]
fn requests_of_all_priorities_are_answered_to_who_asked() {
    let mut rig = rig(ChannelConfig::default().capacity(8).priorities(2));
    rig.channel.send_with(&1, at(1)).unwrap();
    let channel = rig.channel.clone();
    let asker = std::thread::spawn(move || channel.ask_with(&2, at(1)));
    while rig.channel.counts().sent < 5 + 2 {
        std::thread::yield_now();
    }
    let mut seen = 0;
    while seen < 2 {
        if let Some((position, x)) = rig.take(1) {
            rig.reply(position, x + 100);
            seen += 1;
        }
    }
    assert_eq!(asker.join().unwrap(), Ok(Some(102)));
    assert_eq!(rig.channel.recv(), Ok(101));
    let given_up = rig.channel.ask_with(&3, at(0).timeout(std::time::Duration::from_millis(1)));
    assert!(given_up.is_err());
    rig.channel.tidy();
    assert_eq!(rig.channel.counts().under_way(), 1);
}

#[test]
fn priorities_that_cannot_be_are_refused() {
    for priorities in [0, 9] {
        let refused = ChannelConfig::default().priorities(priorities).form::<u32, u32>(Protocol::Stamped);
        assert_eq!(refused, Err(ConfigError::Priorities { priorities }));
    }
    let rig = rig(ChannelConfig::default().priorities(2));
    let refused = rig.channel.send_with(&1, at(2));
    assert_eq!(refused, Err(SendError::NoPriority { actor: 3, priority: 2, priorities: 2 }));
    let refused = rig.channel.send_with(&1, at(1).deadline(7));
    assert_eq!(refused, Err(SendError::NoDeadlines { actor: 3 }));
}

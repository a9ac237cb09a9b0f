//! Full queues against a reference model.

use super::device::{Rig, rig};
use crate::channel::{ChannelConfig, Counts, Overflow, Protocol, Sent};
use crate::error::{RecvError, SendError};
use crate::wire::slot::Kind;
use crate::{Letter, Reason};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone, Debug)]
enum Step {
    Send,
    /// The device begins the next message.
    Begin,
    /// The device answers the message it began.
    Answer(Kind),
    Receive,
    Tidy,
    Close,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        6 => Just(Kind::Reply),
        2 => Just(Kind::None),
        1 => Just(Kind::Expired),
        1 => Just(Kind::Failed),
    ];
    prop_oneof![
        12 => Just(Step::Send),
        8 => Just(Step::Begin),
        8 => kind.prop_map(Step::Answer),
        5 => Just(Step::Receive),
        1 => Just(Step::Tidy),
        1 => Just(Step::Close),
        2 => Just(Step::Reopen),
    ]
}

/// A message under way, in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Waiting,
    Begun,
    Answered(Kind),
}

/// What a channel is meant to be: a list of messages.
struct Model {
    capacity: usize,
    overflow: Overflow,
    closed: bool,
    /// Numbers of messages, and how far they are. The position is the first one's and on.
    under_way: VecDeque<(u32, Stage)>,
    head: u64,
    letters: Vec<(u64, Reason)>,
    counts: Counts,
}

impl Model {
    /// Takes answers that no thread receives.
    fn tidy(&mut self) {
        while let Some(&(_, Stage::Answered(kind))) = self.under_way.front()
            && kind != Kind::Reply
        {
            let (counter, reason) = match kind {
                Kind::Expired => (&mut self.counts.expired, Reason::Expired),
                Kind::Failed => (&mut self.counts.failed, Reason::Failed { cause: 1, number: 2 }),
                Kind::Dropped => (&mut self.counts.dropped_oldest, Reason::Dropped),
                _ => {
                    self.pass();
                    continue;
                }
            };
            *counter += 1;
            self.letters.push((self.head, reason));
            self.pass();
        }
    }

    fn pass(&mut self) {
        self.under_way.pop_front();
        self.head += 1;
        self.counts.answered += 1;
    }

    fn is_full(&self) -> bool {
        self.under_way.len() == self.capacity
    }

    /// A send that does not wait; whether the device is to skip what it has not begun.
    fn send(&mut self, number: u32) -> Result<bool, SendError> {
        if self.closed {
            return Err(SendError::Closed { actor: 3 });
        }
        let full = Err(SendError::Full { actor: 3, capacity: self.capacity });
        if self.is_full() {
            self.tidy();
        }
        if self.is_full() {
            match self.overflow {
                Overflow::Block => return full,
                Overflow::Reject => {
                    self.counts.rejected += 1;
                    return full;
                }
                Overflow::DropNewest => {
                    self.counts.dropped_newest += 1;
                    return Ok(false);
                }
                Overflow::DropOldest => {
                    let Some(&(_, Stage::Answered(_))) = self.under_way.front() else { return full };
                    self.counts.dropped_oldest += 1;
                    self.letters.push((self.head, Reason::Dropped));
                    self.pass();
                }
            }
        }
        self.under_way.push_back((number, Stage::Waiting));
        self.counts.sent += 1;
        Ok(true)
    }

    fn receive(&mut self) -> Result<u32, RecvError> {
        self.tidy();
        match self.under_way.front() {
            Some(&(number, Stage::Answered(_))) => {
                self.pass();
                Ok(number)
            }
            None if self.closed => Err(RecvError::Closed { actor: 3 }),
            _ => Err(RecvError::Empty { actor: 3 }),
        }
    }
}

/// What the device does with requests below the position to skip.
fn skip(rig: &mut Rig<[u32; 5], u32>, model: &mut Model) {
    let below = rig.control.skip.load(SeqCst);
    while rig.device.position < below
        && let Some((position, _, words)) = rig.device.take()
    {
        rig.device.answer(position, Kind::Dropped, &words);
        model.under_way[(position - model.head) as usize].1 = Stage::Answered(Kind::Dropped);
    }
}

fn run(capacity: usize, overflow: Overflow, protocol: Protocol, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut rig: Rig<[u32; 5], u32> =
        rig(ChannelConfig::default().capacity(capacity).overflow(overflow), protocol);
    let mut model = Model {
        capacity,
        overflow,
        closed: false,
        under_way: VecDeque::new(),
        head: 0,
        letters: Vec::new(),
        counts: Counts::default(),
    };
    let mut begun = VecDeque::new();
    for (number, step) in (0u32..).zip(steps) {
        match step {
            Step::Send => {
                let position = model.head + model.under_way.len() as u64;
                let want = model
                    .send(number)
                    .map(|queued| if queued { Sent::Queued(position) } else { Sent::Dropped });
                // Where the model passed a reply, the position is the same: its slot became free.
                prop_assert_eq!(rig.channel.try_send(&[number, 1, 2, 3, !number]), want);
                skip(&mut rig, &mut model);
            }
            Step::Begin => {
                if let Some((position, _, words)) = rig.device.take() {
                    let at = (position - model.head) as usize;
                    prop_assert_eq!(&model.under_way[at], &(words[0], Stage::Waiting));
                    prop_assert_eq!(words[4], !words[0]);
                    model.under_way[at].1 = Stage::Begun;
                    begun.push_back((position, words));
                }
            }
            Step::Answer(kind) => {
                let Some((position, words)) = begun.pop_front() else { continue };
                match kind {
                    Kind::Reply => rig.reply(position, &words[0]),
                    Kind::None => rig.device.answer(position, Kind::None, &[]),
                    Kind::Failed => rig.device.answer(position, Kind::Failed, &[1, 2]),
                    kind => rig.device.answer(position, *kind, &words),
                }
                model.under_way[(position - model.head) as usize].1 = Stage::Answered(*kind);
            }
            Step::Receive => prop_assert_eq!(rig.channel.try_recv(), model.receive()),
            Step::Tidy => {
                rig.channel.tidy();
                model.tidy();
            }
            Step::Close => {
                rig.channel.close();
                model.closed = true;
            }
            Step::Reopen => {
                rig.channel.reopen();
                model.closed = false;
            }
        }
        prop_assert_eq!(rig.channel.counts(), model.counts);
    }
    let letters = rig.letters.drain();
    let reasons: Vec<_> = letters.iter().map(|l: &Letter| (l.position, l.reason)).collect();
    prop_assert_eq!(reasons, model.letters);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_channel_is_what_it_is_meant_to_be(
        capacity in 1usize..6,
        overflow in prop_oneof![
            Just(Overflow::Block), Just(Overflow::Reject), Just(Overflow::DropNewest), Just(Overflow::DropOldest)
        ],
        stamped in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let protocol = if stamped { Protocol::Stamped } else { Protocol::Ordered };
        run(capacity, overflow, protocol, &steps)?;
    }
}

/// A send that may wait gets the slot of the oldest message once the device has given that up, or
/// is done with it.
#[test]
fn a_send_that_drops_the_oldest_waits_for_its_slot() {
    let config = ChannelConfig::default().capacity(2).overflow(Overflow::DropOldest);
    let mut rig: Rig<[u32; 5], u32> = rig(config, Protocol::Stamped);
    let channel = rig.channel.clone();
    let sender =
        std::thread::spawn(move || (0..5).map(|i| channel.send(&[i; 5]).unwrap()).collect::<Vec<_>>());
    let mut dropped = 0;
    while rig.device.position < 3 {
        let below = rig.control.skip.load(SeqCst);
        if rig.device.position < below
            && let Some((position, _, words)) = rig.device.take()
        {
            rig.device.answer(position, Kind::Dropped, &words);
            dropped += 1;
        }
        std::thread::yield_now();
    }
    let sent = sender.join().unwrap();
    assert_eq!((sent, dropped), ((0..5).map(Sent::Queued).collect(), 3));
    assert_eq!((rig.handle().1, rig.handle().1), ([3; 5], [4; 5]));
    assert_eq!(rig.letters.drain().iter().map(|l| l.words[0]).collect::<Vec<_>>(), [0, 1, 2]);
}

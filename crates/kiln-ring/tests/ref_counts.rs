//! Who has an array that actors hand on, as a model of which every state is visited.
//!
//! One array; a host that sends it to an actor, which hands it on to a second one, which hands it
//! back in an output, or on to a third one, or does not. The host may let go of it at any time, and
//! of what it took from an output, and send that again. A sweep checks whether the array has a
//! reference, and frees its memory. Which party counts what, and in which order, is as
//! `runtime/ref_counts.rs` and `device/ref_counts.rs` say; each of the other orders below is shown
//! to fail.

use std::collections::HashSet;

/// Orders of which one is another one than the code's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    AsWritten,
    /// An actor sends before it counts.
    SendsFirst,
    /// An actor answers its message before it counts what it handed on.
    AnswersFirst,
    /// An actor lets go of its message before it counts what its reply refers to.
    LetsGoFirst,
    /// The receiver of an output counts that before it has the array.
    TakesFirst,
    /// A sweep reads the device's count before the host's.
    CountsFirst,
    /// A sweep does not check again whether the array was found meanwhile.
    LooksOnce,
}

/// How often the host sends, and finds the array in a dead letter.
const SENDS: u8 = 3;
const LETTERS: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct CountState {
    /// The device's count and the host's.
    count: u8,
    taken: u8,
    /// References that the host's user has, and how often the array was found when there was none.
    held: u8,
    found: u8,
    given_back: bool,
    /// How often it was found by the words of a dead letter, which keeps no array.
    letters: u8,
    sends: u8,
    /// The host's message to the first actor, and how far that is with it.
    message: bool,
    first: u8,
    /// Messages to the second actor, and how far that is with one.
    queue: u8,
    second: u8,
    /// The same of the third.
    passed: u8,
    third: u8,
    /// Outputs that hold the array, and how far the receiver of one is.
    outputs: u8,
    taking: u8,
    sweep: Sweep,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Sweep {
    step: u8,
    found: u8,
    taken: u8,
    count: u8,
}

impl CountState {
    /// References on the host: with those of a message that is not answered.
    fn on_host(&self) -> u8 {
        self.held + u8::from(self.message)
    }

    /// Whether the array has a reference.
    fn is_had(&self) -> bool {
        self.on_host()
            + self.first
            + self.queue
            + self.second
            + self.passed
            + self.third
            + self.outputs
            + self.taking
            > 0
    }

    fn next(self, order: Order) -> Vec<CountState> {
        let mut next = Vec::new();
        self.user(order, &mut next);
        self.first(order, &mut next);
        self.second(order, &mut next);
        self.third(&mut next);
        self.sweep(order, &mut next);
        next
    }

    fn user(self, order: Order, next: &mut Vec<CountState>) {
        if self.held > 0 {
            next.push(CountState { held: self.held - 1, ..self });
            if self.sends < SENDS && !self.message {
                next.push(CountState { sends: self.sends + 1, message: true, first: 1, ..self });
            }
        }
        let find = |s: CountState| {
            // What is gone is not found.
            assert!(!s.given_back || s.held > 0, "an output of what is gone: {s:?}");
            CountState { held: s.held + 1, found: s.found + u8::from(s.on_host() == 0), ..s }
        };
        if self.letters < LETTERS && !self.given_back {
            next.push(CountState { letters: self.letters + 1, ..find(self) });
        }
        let count = |s: CountState| CountState { taken: s.taken + 1, ..s };
        match self.taking {
            0 if self.outputs > 0 => {
                let s = CountState { outputs: self.outputs - 1, taking: 1, ..self };
                next.push(if order == Order::TakesFirst { count(s) } else { find(s) });
            }
            1 => {
                let s = CountState { taking: 0, ..self };
                next.push(if order == Order::TakesFirst { find(s) } else { count(s) });
            }
            _ => {}
        }
    }

    /// Counts, sends, answers.
    fn first(self, order: Order, next: &mut Vec<CountState>) {
        let steps: [u8; 3] = match order {
            Order::SendsFirst => [1, 0, 2],
            Order::AnswersFirst => [2, 0, 1],
            _ => [0, 1, 2],
        };
        if self.first == 0 {
            return;
        }
        let s = CountState { first: (self.first + 1) % 4, ..self };
        next.push(match steps[usize::from(self.first) - 1] {
            0 => CountState { count: s.count.wrapping_add(1), ..s },
            1 => CountState { queue: s.queue + 1, ..s },
            _ => CountState { message: false, ..s },
        });
    }

    /// Counts what its reply refers to, lets go of the message, replies; or only lets go; or
    /// counts, sends, and lets go.
    fn second(self, order: Order, next: &mut Vec<CountState>) {
        match self.second {
            0 if self.queue > 0 => {
                let s = CountState { queue: self.queue - 1, ..self };
                next.push(CountState { second: 1, ..s });
                next.push(CountState { second: 4, ..s });
                next.push(CountState { second: 5, ..s });
            }
            1 | 2 => {
                let s = CountState { second: self.second + 1, ..self };
                let counts = (self.second == 1) != (order == Order::LetsGoFirst);
                let count = if counts { s.count.wrapping_add(1) } else { s.count.wrapping_sub(1) };
                next.push(CountState { count, ..s });
            }
            3 => next.push(CountState { second: 0, outputs: self.outputs + 1, ..self }),
            4 => next.push(CountState { second: 0, count: self.count.wrapping_sub(1), ..self }),
            5 | 6 => {
                let s = CountState { second: if self.second == 5 { 6 } else { 4 }, ..self };
                let counts = (self.second == 5) != (order == Order::SendsFirst);
                let sent = CountState { passed: s.passed + 1, ..s };
                next.push(if counts { CountState { count: s.count.wrapping_add(1), ..s } } else { sent });
            }
            _ => {}
        }
    }

    /// Only lets go.
    fn third(self, next: &mut Vec<CountState>) {
        if self.third > 0 {
            next.push(CountState { third: 0, count: self.count.wrapping_sub(1), ..self });
        } else if self.passed > 0 {
            next.push(CountState { third: 1, passed: self.passed - 1, ..self });
        }
    }

    /// Checks that the host has no reference to the array, and how many came back; reads the count;
    /// frees the memory if they agree and no reference was found since.
    fn sweep(self, order: Order, next: &mut Vec<CountState>) {
        if self.given_back {
            return;
        }
        let sees =
            |s: CountState| (s.on_host() == 0).then_some(Sweep { found: s.found, taken: s.taken, ..s.sweep });
        let reads = |s: CountState| Some(Sweep { count: s.count, ..s.sweep });
        let seen = match (self.sweep.step, order == Order::CountsFirst) {
            (0, false) | (1, true) => sees(self),
            (0, true) | (1, false) => reads(self),
            _ => {
                let again = order == Order::LooksOnce || self.sweep.found == self.found;
                let gives = again && self.sweep.count == self.sweep.taken;
                next.push(CountState { given_back: gives, sweep: Sweep::default(), ..self });
                return;
            }
        };
        let sweep = seen.map_or(Sweep::default(), |sweep| Sweep { step: self.sweep.step + 1, ..sweep });
        next.push(CountState { sweep, ..self });
    }
}

/// Visits every state; returns one in which memory was freed while it had a reference, if there is
/// one.
fn search(order: Order) -> Option<CountState> {
    let begin = CountState { held: 1, ..CountState::default() };
    let (mut seen, mut open) = (HashSet::from([begin]), vec![begin]);
    while let Some(state) = open.pop() {
        if state.given_back && state.is_had() {
            return Some(state);
        }
        let next = state.next(order);
        if !state.is_had() {
            // Whatever happened, the next sweep but one gives the memory back.
            assert!(state.given_back || sweeps_back(state), "memory that never comes back: {state:?}");
        }
        open.extend(next.into_iter().filter(|state| seen.insert(*state)));
    }
    assert!(seen.len() > 1000, "the model has only {} states", seen.len());
    None
}

fn sweeps_back(mut state: CountState) -> bool {
    for _ in 0..6 {
        let mut next = Vec::new();
        state.sweep(Order::AsWritten, &mut next);
        state = next.pop().unwrap_or(state);
    }
    state.given_back
}

#[test]
fn memory_comes_back_when_nobody_has_it_and_not_before() {
    assert_eq!(search(Order::AsWritten), None);
}

#[test]
fn every_other_order_is_found_out() {
    for order in
        [Order::SendsFirst, Order::AnswersFirst, Order::LetsGoFirst, Order::CountsFirst, Order::LooksOnce]
    {
        assert!(search(order).is_some(), "{order:?}");
    }
    let lost = std::panic::catch_unwind(|| search(Order::TakesFirst));
    assert!(lost.is_err() || lost.is_ok_and(|found| found.is_some()), "an output's array is never lost");
}

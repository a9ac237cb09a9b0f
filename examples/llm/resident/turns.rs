//! Whose turn it is: the host's requests, and the tokens that go back while the kernel runs.
//!
//! ```text
//! inbox, u32   requests, a ring ── number, conversation, first, known, until, temperature, seed (2)
//!              prompts ── a row of tokens for each conversation
//! outbox, u64  requests that were taken │ a row for each conversation: request << 32 | token
//! ```
//!
//! One thread of the launch, the *clerk*, reads the inbox and says which conversation the next step
//! is of. It says so before the barrier of the grid that ends a step, after which all blocks know
//! it: a turn costs no barrier of its own. Conversations take turns, a token each.

use super::line::{Line, pass, receive};
use super::place::{Int, Place, at, put};
use super::sizes::{Sizes, TURN};
use kiln::prelude::*;

/// Requests that there is room for.
pub const REQUESTS: usize = 32;
/// Words of a request.
pub const REQUEST: usize = 8;
/// The conversation of a request that ends the kernel.
pub const END: u32 = u32::MAX;

/// Of a turn: its conversation.
pub const WHO: usize = 0;
/// The place of the token that is read.
pub const AT: usize = 1;
/// The token.
pub const TOKEN: usize = 2;
/// Whether the next token is chosen.
pub const CHOOSES: usize = 3;
/// The number of the request.
const NUMBER: usize = 4;
/// How much chance decides, and by which seed, in two words.
pub const TEMPERATURE: usize = 5;
pub const SEED: usize = 6;

/// Nobody's turn.
pub const NOBODY: u32 = u32::MAX - 1;
/// The token that is chosen in the step before.
pub const AS_CHOSEN: u32 = u32::MAX;

/// Words of what the clerk keeps of a conversation, as a request has them; in the place of the
/// conversation the last token that was chosen.
pub const KEPT_WORDS: usize = REQUEST;
const LAST: usize = 1;
const NEXT: usize = 2;
const KNOWN: usize = 3;
const UNTIL: usize = 4;

/// What the clerk works with.
#[derive(Clone, Copy)]
pub struct Desk {
    pub sizes: Sizes,
    pub line: Line,
    /// What the clerk keeps: of each conversation, then how many requests it has taken, and whether
    /// the kernel is to end.
    pub kept: ViewMut<u32, 1>,
    pub inbox: ViewMut<u32, 1>,
    pub outbox: ViewMut<u64, 1>,
    /// The token that ends an answer.
    pub end: Val<u32>,
    /// Whether the thread is the clerk.
    pub is: Val<bool>,
}

impl Desk {
    /// The clerk is a thread of the warp that has no rows.
    pub fn is_clerk(place: Place) -> Val<bool> {
        place.block.eq(0) & place.thread.eq(place.sizes.workers() as i32)
    }

    fn kept(self, word: Int) -> Val<u32> {
        // SAFETY: inside, as what callers name.
        unsafe { self.kept.get_unchecked(word) }
    }

    fn keep(self, word: Int, value: Val<u32>) {
        // SAFETY: inside; the clerk alone reads and writes it.
        unsafe { self.kept.scatter_unchecked(word, value) };
    }

    fn received(self, word: Int, order: Order) -> Val<u32> {
        // SAFETY: inside, as what callers name.
        unsafe { self.inbox.get_ordered_unchecked(word, order, Scope::System) }
    }

    fn taken(self) -> i32 {
        (self.sizes.conversations * KEPT_WORDS) as i32
    }
}

/// Takes the next request, if it has come.
#[device]
fn take(desk: Desk) {
    let at_taken = desk.taken();
    let number = desk.kept(val(at_taken)) + 1;
    let first = ((number - 1) % REQUESTS as u32 * REQUEST as u32).cast::<i32>();
    // An acquire is dear, and needed only once it has come.
    if desk.received(first, Order::Relaxed) == number {
        let come = desk.received(first, Order::Acquire);
        let words: Vec<Val<u32>> =
            (1..REQUEST).map(|i| desk.received(first + i as i32, Order::Relaxed)).collect();
        if words[0] == END {
            desk.keep(val(at_taken + 1), val(1u32));
        } else {
            let conversation = words[0].cast::<i32>() * KEPT_WORDS as i32;
            desk.keep(conversation, come);
            for (i, word) in words.iter().enumerate().skip(1) {
                desk.keep(conversation + (i + 1) as i32, *word);
            }
        }
        desk.keep(val(at_taken), number);
        // SAFETY: inside; the host reads it by atomic operations.
        unsafe { desk.outbox.set_ordered_unchecked(0, number.cast::<u64>(), Order::Release, Scope::System) };
    }
}

/// Leaves the turn after one of a conversation at a place of the line: of the next conversation
/// that has something to read. `chooses` says whether the token of the turn before is still to be
/// chosen. Gives the conversation.
#[device]
fn plan(desk: Desk, before: Val<u32>, chooses: Val<bool>, to: usize) -> Val<u32> {
    take(desk);
    let count = desk.sizes.conversations as i32;
    let before = before.cast::<i32>();
    let mut who = val(NOBODY);
    for i in (1..=count).rev() {
        let other = (before + i) % count;
        let waits = desk
            .kept(other * KEPT_WORDS as i32 + NEXT as i32)
            .lt(desk.kept(other * KEPT_WORDS as i32 + UNTIL as i32));
        who = select(waits, other.cast::<u32>(), who);
    }
    if desk.kept(val(desk.taken() + 1)) == 1 {
        who = val(END);
    }
    let mut turn = [val(0u32); TURN];
    turn[WHO] = who;
    if who < NOBODY {
        let first = who.cast::<i32>() * KEPT_WORDS as i32;
        let kept = |word: usize| desk.kept(first + word as i32);
        let (next, known) = (kept(NEXT), kept(KNOWN));
        turn[AT] = next;
        turn[CHOOSES] = select((next + 1).ge(known), 1u32, 0u32);
        turn[NUMBER] = kept(0);
        for i in TEMPERATURE..TURN {
            turn[i] = kept(i);
        }
        if next < known {
            let row = who * desk.sizes.context as u32 + (REQUESTS * REQUEST) as u32;
            turn[TOKEN] = desk.received((row + next).cast::<i32>(), Order::Relaxed);
        } else {
            let fresh = chooses & who.eq(before.cast::<u32>());
            turn[TOKEN] = select(fresh, AS_CHOSEN, kept(LAST));
        }
        desk.keep(first + NEXT as i32, next + 1);
    }
    for (i, word) in turn.iter().enumerate() {
        pass(desk.line, val(true), val((to + i) as i32), *word);
    }
    who
}

/// Leaves the next turn, or nobody's, before the token of the present one is chosen.
#[device]
pub fn look_ahead(desk: Desk, turn: Turn, to: usize) {
    if desk.is {
        plan(desk, turn.word(WHO), turn.word(CHOOSES).eq(1), to);
    }
}

/// Waits until it is somebody's turn, and leaves it.
#[device]
pub fn wait(desk: Desk, before: Val<u32>, to: usize) {
    if desk.is {
        let mut who = val(NOBODY);
        while who == NOBODY {
            who = plan(desk, before, val(false), to);
        }
    }
}

/// A turn, in the block's memory: words that each thread kept for itself would cost registers.
#[derive(Clone, Copy)]
pub struct Turn(Shared<u32, 1>);

impl Turn {
    pub fn new() -> Turn {
        Turn(shared::<u32, 1>([TURN]))
    }

    pub fn word(self, word: usize) -> Val<u32> {
        at(**self.0, val(word as i32))
    }

    /// Becomes the turn that was left at a place of the line, after a barrier of the grid.
    pub fn become_that_at(self, place: Place, line: Line, from: usize) {
        let word = place.thread.min(TURN as i32 - 1);
        let new = receive(line, word + from as i32);
        // All have read the old one.
        barrier();
        put(self.0, place.thread.lt(TURN as i32), word, new);
        barrier();
    }
}

/// Sends the token that was chosen to the host, unless the answer has ended or its request was
/// replaced.
#[device]
pub fn send(desk: Desk, turn: Turn, token: Int) {
    if desk.is {
        let first = turn.word(WHO).cast::<i32>() * KEPT_WORDS as i32;
        let is_asked =
            desk.kept(first).eq(turn.word(NUMBER)) & turn.word(AT).lt(desk.kept(first + UNTIL as i32));
        if is_asked & turn.word(CHOOSES).eq(1) {
            let token = token.cast::<u32>();
            let word = (turn.word(NUMBER).cast::<u64>() << 32) | token.cast::<u64>();
            let place = turn.word(WHO) * desk.sizes.context as u32 + turn.word(AT) + 2;
            // SAFETY: inside, for no request reads the last place of the context. The host reads it
            // by atomic operations. The word is all of the message, and arrives whole.
            unsafe {
                desk.outbox.set_ordered_unchecked(place.cast::<i32>(), word, Order::Relaxed, Scope::System);
            }
            desk.keep(first + LAST as i32, token);
            if token == desk.end {
                desk.keep(first + UNTIL as i32, turn.word(AT) + 1);
            }
        }
    }
}

//! What the sanitizer remembers of memory: which bytes were written, and who touched them in the
//! current launch.
//!
//! Two accesses of one byte race if they are by different threads of a block with no barrier
//! between, or by different blocks, and one of them writes, and not both are atomic. A write of
//! what the byte already holds is no race.
//!
//! The operations on tiles of a program follow each other. Beside threads, in a kernel over
//! threads, an operation on tiles is one more party: its threads share the work in a way that no
//! thread can know, so that only a barrier orders it and what a thread does alone.

use crate::thread_order::Seen;
use kiln_backend::Finding;
use kiln_ir::Op;
use std::alloc::{Layout, alloc_zeroed};
use std::num::NonZeroU32;
use std::ops::Range;
use std::ptr::NonNull;

/// Who makes an access, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor<'a> {
    /// The linear index of the block.
    pub block: u32,
    /// The linear index of the thread; `None` for a tile operation, which the block does as one.
    pub lane: Option<usize>,
    /// How many barriers the block has passed, those of its warps among them.
    pub now: u32,
    /// The number of the last one that was of the whole block.
    pub since: u32,
    /// What barriers of its warp have ordered, if the kernel has any.
    pub seen: Option<Seen<'a>>,
    /// Whether the access is part of an atomic operation.
    pub atomic: bool,
    /// Whether the kernel orders its blocks itself, by fences and atomics, which the sanitizer does
    /// not follow.
    pub fenced: bool,
    /// Whether it orders threads of a block so, by loads that acquire.
    pub acquires: bool,
    /// The operation that makes it.
    pub op: Option<Op>,
}

/// A broken rule of memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// One that concerns the access by itself, in words.
    Access(Finding, String),
    /// A read of what nothing has written, so many bytes behind the beginning of the access.
    Uninitialized(usize),
    /// Two accesses that nothing orders.
    Race(Race),
}

/// Two accesses of one byte that nothing orders.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// How far behind the beginning of the later access the byte lies.
    pub skip: usize,
    /// What the later one did: `read` or `written`.
    pub now: &'static str,
    /// Who made it.
    pub by: String,
    /// What the earlier one did.
    pub before: &'static str,
    /// Who made it.
    pub by_before: String,
    /// The earlier operation.
    pub earlier: Option<Op>,
    /// Whether both are of one block.
    pub within_block: bool,
}

/// One access of a byte. The table has many for each byte, so that it is packed into 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Touch {
    block: u32,
    epoch: u32,
    /// The operation's index, plus 1.
    op: Option<NonZeroU32>,
    /// The thread's index, unless it is an operation on tiles, which is no thread's.
    thread: u16,
    tile: bool,
    atomic: bool,
}

impl Touch {
    fn by(actor: Actor<'_>) -> Touch {
        let Actor { block, lane, now: epoch, atomic, op, .. } = actor;
        let op = op.and_then(|op| NonZeroU32::new(op.index() as u32 + 1));
        Touch { block, epoch, op, thread: lane.map_or(0, |l| l as u16), tile: lane.is_none(), atomic }
    }

    fn op(self) -> Option<Op> {
        self.op.map(|number| Op::from_index(number.get() as usize - 1))
    }

    fn same_thread(self, other: Touch) -> bool {
        (self.block, self.thread, self.tile) == (other.block, other.thread, other.tile)
    }

    /// Whether this touch comes before another one by `actor`, of the same block, in every order.
    fn precedes(self, later: Touch, actor: Actor<'_>) -> bool {
        let in_warp = || actor.seen.is_some_and(|seen| seen.is_after(self.thread.into(), self.epoch));
        let before = || self.epoch < actor.since || (!self.tile && in_warp());
        self.same_thread(later) || (self.block == later.block && before())
    }

    /// Whether nothing orders this touch, before now, and another by `actor`.
    fn conflicts(self, other: Touch, actor: Actor<'_>) -> bool {
        if self.atomic && other.atomic {
            return false;
        }
        if self.block != other.block {
            return !actor.fenced;
        }
        !actor.acquires && !self.precedes(other, actor)
    }

    fn describe(self) -> String {
        match self.tile {
            false => format!("thread {} of block {}", self.thread, self.block),
            true => format!("block {}", self.block),
        }
    }
}

/// The writes of a byte in this launch, or its reads, that stand for all of them: if a later access
/// races with any, it races with one of these. There may be any number that do not race with each
/// other: of reads, of atomic operations, and of writes that change nothing.
///
/// An access that is not atomic races with those of other threads since the last barrier, and with
/// those of other blocks. So it needs two threads of the last epoch, of which it can be only one,
/// and a touch by another block. An atomic access needs the same of the touches that are not
/// atomic. Both have what they need where one that is not atomic is kept rather than one that is,
/// as it races with all that the other races with. `plain` has one from before the last barrier,
/// which only other blocks race with.
///
/// Where warps have barriers of their own, one of two threads is of another warp if there was any:
/// it races with all accesses by the last one's warp. A race may be missed of three threads of one
/// warp, of which a barrier orders two and not the third, and of accesses of which some are atomic.
///
/// Blocks run one after the other, and so the block that touches a byte next is none of those that
/// have gone before. Blocks of a cluster take turns: there, of three that touch a byte, two of them
/// by atomic operations alone, a race may be missed.
#[derive(Debug, Clone, Copy, Default)]
struct Touches {
    /// By two threads of the block that was last, since its last barrier.
    recent: [Option<Touch>; 2],
    /// By that block before its last barrier, and not atomic.
    plain: Option<Touch>,
    /// By a block before.
    foreign: Option<Touch>,
}

impl Touches {
    /// Adds a touch. Most are of a byte that no thread has touched, or the same thread has.
    #[inline]
    fn add(&mut self, touch: Touch, actor: Actor<'_>) {
        match &mut self.recent[0] {
            Some(last) if last.same_thread(touch) && last.epoch >= actor.since => {
                if last.atomic || !touch.atomic {
                    *last = touch;
                }
            }
            Some(_) => self.add_another(touch, actor),
            none => *none = Some(touch),
        }
    }

    fn add_another(&mut self, touch: Touch, actor: Actor<'_>) {
        let in_warp =
            |other: Touch| actor.seen.is_some_and(|seen| !other.tile && seen.has(other.thread.into()));
        match self.recent {
            [Some(last), _] if last.block != touch.block => {
                let plain = self.all().find(|touch| !touch.atomic);
                *self = Touches { foreign: plain.or(Some(last)), ..Touches::default() };
                self.recent[0] = Some(touch);
            }
            [Some(last), other] if last.epoch < actor.since => {
                let plain = [Some(last), other].into_iter().flatten().find(|touch| !touch.atomic);
                self.plain = plain.or(self.plain);
                self.recent = [Some(touch), None];
            }
            [Some(last), Some(other)] if other.same_thread(touch) => {
                let stays = if other.atomic || !touch.atomic { touch } else { other };
                self.recent = [Some(stays), Some(last)];
            }
            // A third thread: one that is not atomic goes only for another one.
            [Some(last), Some(other)] if touch.atomic && !other.atomic => {
                if last.atomic {
                    self.recent[0] = Some(touch);
                }
            }
            [Some(last), Some(other)] if last.atomic && !other.atomic => {
                self.recent = [Some(touch), Some(other)];
            }
            [Some(last), Some(other)] if in_warp(last) && actor.seen.is_some() && !in_warp(other) => {
                self.recent = [Some(touch), Some(other)];
            }
            [last, _] => self.recent = [Some(touch), last],
        }
    }

    fn all(&self) -> impl Iterator<Item = Touch> {
        let Touches { recent: [last, other], plain, foreign } = *self;
        [last, other, plain, foreign].into_iter().flatten()
    }

    /// The one that a later access races with.
    #[inline]
    fn conflict(&self, later: Touch, actor: Actor<'_>) -> Option<Touch> {
        // No thread has touched the byte.
        self.recent[0]?;
        for touch in [&self.recent[0], &self.recent[1], &self.plain, &self.foreign] {
            if let Some(touch) = touch
                && touch.conflicts(later, actor)
            {
                return Some(*touch);
            }
        }
        None
    }
}

/// The accesses of a byte in this launch.
#[derive(Debug, Clone, Copy, Default)]
struct Accesses {
    writes: Touches,
    reads: Touches,
}

impl Accesses {
    /// The write that a read races with.
    ///
    /// Writes that are not atomic and that nothing orders have all written the same, or a race was
    /// reported. Who has written it too reads that, whatever the others' order is.
    fn conflict_of_read(&self, read: Touch, actor: Actor<'_>) -> Option<Touch> {
        let write = self.writes.conflict(read, actor)?;
        let own = self.writes.recent.iter().flatten().any(|own| !own.atomic && own.precedes(read, actor));
        if own {
            return self.writes.all().find(|write| write.atomic && write.conflicts(read, actor));
        }
        Some(write)
    }
}

/// How many bytes share one page of the table of accesses, which is made when the first of them is
/// touched. A kernel that touches a few words of a large buffer pays for little more than those.
const PAGE: usize = 64;

/// The most bytes that share an entry of a page.
const UNIT: usize = 16;

/// The accesses of adjacent bytes.
#[derive(Debug)]
struct Page {
    /// The launch that they are of: those of an earlier one do not count.
    launch: u64,
    /// How many bytes share an entry, since all accesses so far were of all of them: a power of
    /// two, up to [`UNIT`].
    unit: usize,
    /// One entry for each so many bytes.
    accesses: Vec<Accesses>,
}

impl Page {
    fn new(launch: u64, unit: usize) -> Page {
        Page { launch, unit, accesses: vec![Accesses::default(); PAGE / unit] }
    }

    /// The page for an access in a launch that begins and ends at multiples of `unit` bytes.
    fn renew(&mut self, launch: u64, unit: usize) {
        if self.launch != launch {
            self.launch = launch;
            self.accesses.fill(Accesses::default());
        }
        if unit < self.unit {
            let shared = self.unit / unit;
            self.accesses = self.accesses.iter().flat_map(|all| std::iter::repeat_n(*all, shared)).collect();
            self.unit = unit;
        }
    }
}

/// The shadow of a range of memory.
#[derive(Debug)]
pub struct Shadow {
    written: Vec<bool>,
    /// Which of the written bytes were filled by the host, and not written since.
    filled: Vec<bool>,
    pages: Vec<Option<Box<Page>>>,
    launch: u64,
}

/// `len` flags that are not set. `None` if the system has no more memory. The pages of large ones
/// are not touched.
fn cleared(len: usize) -> Option<Vec<bool>> {
    let layout = Layout::array::<bool>(len).ok().filter(|layout| layout.size() > 0);
    let Some(layout) = layout else { return (len == 0).then(Vec::new) };
    // SAFETY: the layout's size is not zero.
    let flags = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    // SAFETY: the allocator of vectors gave these `len` bytes, with the layout of a vector of that
    // capacity, and a byte of zero is `false`.
    Some(unsafe { Vec::from_raw_parts(flags.as_ptr().cast(), len, len) })
}

impl Shadow {
    /// The shadow of memory that nothing has written. `None` if the system has no more memory.
    pub fn new(len: usize) -> Option<Shadow> {
        let (mut pages, count) = (Vec::new(), len.div_ceil(PAGE));
        pages.try_reserve_exact(count).ok()?;
        pages.resize_with(count, || None);
        Some(Shadow { written: cleared(len)?, filled: cleared(len)?, pages, launch: 0 })
    }

    /// Forgets who touched what.
    pub fn begin_launch(&mut self) {
        self.launch += 1;
    }

    /// Makes everything untouched and not written.
    pub fn reset(&mut self) {
        self.written.fill(false);
        self.begin_launch();
    }

    /// Makes a range untouched and not written.
    pub fn forget(&mut self, start: usize, len: usize) {
        self.written[start..start + len].fill(false);
        for at in start..start + len {
            if let Some(page) = &mut self.pages[at / PAGE] {
                page.renew(self.launch, 1);
                page.accesses[at % PAGE] = Accesses::default();
            }
        }
    }

    /// Calls `visit` on the accesses of each part of a range, and its place there.
    fn visit(
        &mut self,
        start: usize,
        len: usize,
        mut visit: impl FnMut(&[bool], Range<usize>, &mut Accesses) -> Result<(), Report>,
    ) -> Result<(), Report> {
        let (mut at, end, launch) = (start, start + len, self.launch);
        while at < end {
            let stop = end.min((at / PAGE + 1) * PAGE);
            let unit = UNIT.min(1 << (at | stop).trailing_zeros());
            let page = self.pages[at / PAGE].get_or_insert_with(|| Box::new(Page::new(launch, unit)));
            page.renew(launch, unit);
            while at < stop {
                let next = at + page.unit;
                visit(&self.written, at..next, &mut page.accesses[at % PAGE / page.unit])?;
                at = next;
            }
        }
        Ok(())
    }

    /// Notes a read by a kernel.
    pub fn read(&mut self, start: usize, len: usize, actor: Actor<'_>) -> Result<(), Report> {
        if let Some(skip) = self.written[start..start + len].iter().position(|&written| !written) {
            return Err(Report::Uninitialized(skip));
        }
        let touch = Touch::by(actor);
        self.visit(start, len, |_, part, accesses| {
            match accesses.conflict_of_read(touch, actor) {
                Some(write) => return Err(race(part.start - start, ("read", touch), ("written", write))),
                None => accesses.reads.add(touch, actor),
            }
            Ok(())
        })
    }

    /// Notes a write by a kernel. `same` says that the bytes there are already those that are
    /// written.
    pub fn write(&mut self, start: usize, len: usize, actor: Actor<'_>, same: bool) -> Result<(), Report> {
        let touch = Touch::by(actor);
        self.visit(start, len, |written, part, accesses| {
            let same = same && written[part.clone()].iter().all(|&written| written);
            if !same {
                let skip = part.start - start;
                if let Some(write) = accesses.writes.conflict(touch, actor) {
                    return Err(race(skip, ("written", touch), ("written", write)));
                }
                if let Some(read) = accesses.reads.conflict(touch, actor) {
                    return Err(race(skip, ("written", touch), ("read", read)));
                }
            }
            accesses.writes.add(touch, actor);
            Ok(())
        })?;
        self.set_written(start, len);
        Ok(())
    }

    /// Notes a write by the host.
    pub fn set_written(&mut self, start: usize, len: usize) {
        self.written[start..start + len].fill(true);
        self.filled[start..start + len].fill(false);
    }

    /// Notes that the host fills a range.
    pub fn set_filled(&mut self, start: usize, len: usize) {
        self.written[start..start + len].fill(true);
        self.filled[start..start + len].fill(true);
    }

    /// The parts of a range that nothing has written, or with `filled` nothing but a fill, counted
    /// from its start.
    pub fn unwritten(&self, start: usize, len: usize, filled: bool) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for at in 0..len {
            if self.written[start + at] && !(filled && self.filled[start + at]) {
                continue;
            }
            match parts.last_mut() {
                Some(part) if part.end == at => part.end = at + 1,
                _ => parts.push(at..at + 1),
            }
        }
        parts
    }

    /// Which bytes of a range were written.
    pub fn written(&self, start: usize, len: usize) -> &[bool] {
        &self.written[start..start + len]
    }

    /// Makes a range as written or not as another one is.
    pub fn copy_written(&mut self, start: usize, written: &[bool]) {
        self.written[start..start + written.len()].copy_from_slice(written);
    }
}

fn race(skip: usize, (now, touch): (&'static str, Touch), (before, other): (&'static str, Touch)) -> Report {
    Report::Race(Race {
        skip,
        now,
        by: touch.describe(),
        before,
        by_before: other.describe(),
        earlier: other.op(),
        within_block: touch.block == other.block,
    })
}

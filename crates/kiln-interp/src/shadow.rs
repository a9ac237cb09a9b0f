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

use kiln_backend::Finding;
use kiln_ir::Op;
use std::ops::Range;

/// Who makes an access, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor {
    /// The linear index of the block.
    pub block: u32,
    /// The linear index of the thread; `None` for a tile operation, which the block does as one.
    pub lane: Option<usize>,
    /// How many barriers the block has passed.
    pub epoch: u32,
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

/// One access of a byte.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Touch {
    block: u32,
    epoch: u32,
    /// The thread's index; a tile operation is no thread's.
    thread: Option<u16>,
    atomic: bool,
    op: Option<Op>,
}

impl Touch {
    fn by(actor: Actor) -> Touch {
        let Actor { block, lane, epoch, atomic, op, .. } = actor;
        Touch { block, epoch, thread: lane.map(|l| l as u16), atomic, op }
    }

    fn same_thread(self, other: Touch) -> bool {
        (self.block, self.thread) == (other.block, other.thread)
    }

    /// Whether nothing orders this touch, before now, and another by `actor`.
    fn conflicts(self, other: Touch, actor: Actor) -> bool {
        if self.atomic && other.atomic {
            return false;
        }
        if self.block != other.block {
            return !actor.fenced;
        }
        !actor.acquires && self.epoch == other.epoch && self.thread != other.thread
    }

    fn describe(self) -> String {
        match self.thread {
            Some(thread) => format!("thread {thread} of block {}", self.block),
            None => format!("block {}", self.block),
        }
    }
}

/// The accesses of a byte in this launch that a later one can race with.
#[derive(Debug, Clone, Copy, Default)]
struct Touches {
    /// The last write. It stands for all earlier ones, which it did not race with.
    write: Option<Touch>,
    /// The last reads by two different threads of the block that read last: any writer differs from
    /// one of them.
    reads: [Option<Touch>; 2],
    /// The last read by another block.
    foreign: Option<Touch>,
}

impl Touches {
    fn read(&mut self, touch: Touch) {
        match self.reads[0] {
            Some(last) if last.block != touch.block => {
                self.foreign = Some(last);
                self.reads = [Some(touch), None];
            }
            Some(last) if !last.same_thread(touch) => self.reads = [Some(touch), Some(last)],
            _ => self.reads[0] = Some(touch),
        }
    }

    fn readers(&self) -> impl Iterator<Item = Touch> {
        [self.reads[0], self.reads[1], self.foreign].into_iter().flatten()
    }
}

/// How many bytes share one page of the table of touches, which is made when the first of them is
/// touched. A kernel that touches a few words of a large buffer pays for little more than those.
const PAGE: usize = 64;

/// The touches of adjacent bytes.
#[derive(Debug)]
struct Page {
    /// The launch that they are of: those of an earlier one do not count.
    launch: u64,
    touches: [Touches; PAGE],
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

impl Shadow {
    /// The shadow of memory that nothing has written.
    pub fn new(len: usize) -> Shadow {
        let mut pages = Vec::new();
        pages.resize_with(len.div_ceil(PAGE), || None);
        Shadow { written: vec![false; len], filled: vec![false; len], pages, launch: 0 }
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
                page.touches[at % PAGE] = Touches::default();
            }
        }
    }

    fn touches(&mut self, at: usize) -> &mut Touches {
        let launch = self.launch;
        let page = self.pages[at / PAGE]
            .get_or_insert_with(|| Box::new(Page { launch, touches: [Touches::default(); PAGE] }));
        if page.launch != launch {
            page.launch = launch;
            page.touches = [Touches::default(); PAGE];
        }
        &mut page.touches[at % PAGE]
    }

    /// Notes a read by a kernel.
    pub fn read(&mut self, start: usize, len: usize, actor: Actor) -> Result<(), Report> {
        if let Some(skip) = self.written[start..start + len].iter().position(|&written| !written) {
            return Err(Report::Uninitialized(skip));
        }
        let touch = Touch::by(actor);
        for at in start..start + len {
            let touches = self.touches(at);
            match touches.write.filter(|write| write.conflicts(touch, actor)) {
                Some(write) => return Err(race(at - start, ("read", touch), ("written", write))),
                None => touches.read(touch),
            }
        }
        Ok(())
    }

    /// Notes a write by a kernel. `same` says that the bytes there are already those that are
    /// written.
    pub fn write(&mut self, start: usize, len: usize, actor: Actor, same: bool) -> Result<(), Report> {
        let touch = Touch::by(actor);
        for at in start..start + len {
            let same = same && self.written[at];
            let touches = self.touches(at);
            if !same {
                if let Some(write) = touches.write.filter(|w| w.conflicts(touch, actor)) {
                    return Err(race(at - start, ("written", touch), ("written", write)));
                }
                if let Some(read) = touches.readers().find(|r| r.conflicts(touch, actor)) {
                    return Err(race(at - start, ("written", touch), ("read", read)));
                }
            }
            touches.write = Some(touch);
        }
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
        earlier: other.op,
        within_block: touch.block == other.block,
    })
}

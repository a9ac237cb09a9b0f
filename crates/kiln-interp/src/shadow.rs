//! What the sanitizer remembers of every byte: whether it was written, and who touched it since the last barrier.

use kiln_backend::Finding;

/// Who makes an access, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Actor {
    /// The linear index of the thread; `None` for a tile operation, which the block does as one.
    pub lane: Option<usize>,
    /// How many barriers the block has passed.
    pub epoch: u32,
    /// Whether the access is part of an atomic operation.
    pub atomic: bool,
}

/// A broken rule, in words.
pub type Report = (Finding, String);

/// One access of a byte.
#[derive(Debug, Clone, Copy, Default)]
struct Touch {
    /// The thread's index + 1; 0 is nobody.
    thread: u32,
    epoch: u32,
    atomic: bool,
}

impl Touch {
    fn by(actor: Actor) -> Touch {
        Touch { thread: actor.lane.map_or(0, |l| l as u32 + 1), epoch: actor.epoch, atomic: actor.atomic }
    }

    /// Whether another thread did this with no barrier since, and not both as atomics.
    fn conflicts(self, other: Touch) -> bool {
        self.thread != 0
            && other.thread != 0
            && self.thread != other.thread
            && self.epoch == other.epoch
            && !(self.atomic && other.atomic)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Byte {
    written: bool,
    write: Touch,
    read: Touch,
}

/// The shadow of a range of memory.
#[derive(Debug)]
pub struct Shadow {
    bytes: Vec<Byte>,
}

impl Shadow {
    /// The shadow of memory that nothing has touched.
    pub fn new(len: usize) -> Shadow {
        Shadow { bytes: vec![Byte::default(); len] }
    }

    /// Makes a range untouched again.
    pub fn forget(&mut self, start: usize, len: usize) {
        self.bytes[start..start + len].fill(Byte::default());
    }

    /// Notes a read; `None` as the actor is a copy by the host or of global memory, where only initialisation is checked.
    pub fn read(&mut self, start: usize, len: usize, actor: Option<Actor>) -> Result<(), Report> {
        for byte in &mut self.bytes[start..start + len] {
            if !byte.written {
                return Err((Finding::Uninitialised, "nothing has been written there".into()));
            }
            let Some(actor) = actor else { continue };
            let touch = Touch::by(actor);
            if byte.write.conflicts(touch) {
                return Err(race("read", touch, "written", byte.write));
            }
            // Of several readers one is kept, and never a writer's own read in place of another's: any of them conflicts with a later writer.
            if byte.read.epoch != touch.epoch
                || byte.read.thread == 0
                || byte.read.thread == byte.write.thread
            {
                byte.read = touch;
            }
        }
        Ok(())
    }

    /// Notes a write. `same` says that the bytes there are already those that are written, which is no race.
    pub fn write(
        &mut self,
        start: usize,
        len: usize,
        actor: Option<Actor>,
        same: bool,
    ) -> Result<(), Report> {
        for byte in &mut self.bytes[start..start + len] {
            if let Some(actor) = actor {
                let touch = Touch::by(actor);
                if !same && byte.written && byte.write.conflicts(touch) {
                    return Err(race("written", touch, "written", byte.write));
                }
                if !same && byte.read.conflicts(touch) {
                    return Err(race("written", touch, "read", byte.read));
                }
                byte.write = touch;
            }
            byte.written = true;
        }
        Ok(())
    }

    /// Whether every byte of a range was written.
    pub fn written(&self, start: usize, len: usize) -> impl Iterator<Item = bool> + '_ {
        self.bytes[start..start + len].iter().map(|b| b.written)
    }

    /// Makes a range as written or not as another one is.
    pub fn set_written(&mut self, start: usize, written: &[bool]) {
        for (byte, &w) in self.bytes[start..].iter_mut().zip(written) {
            *byte = Byte { written: w, ..Byte::default() };
        }
    }
}

fn race(now: &str, touch: Touch, before: &str, other: Touch) -> Report {
    let (a, b) = (touch.thread - 1, other.thread - 1);
    (Finding::Race, format!("{now} by thread {a} and {before} by thread {b} with no barrier between"))
}

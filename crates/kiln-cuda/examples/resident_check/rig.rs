//! What the checks work on, and a resident kernel.

use kiln_cuda::driver::{Context, Function, JitOptions, LaunchShape, MappedWords, Module, Stream, ffi};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub const MAILBOX: &str = include_str!("../ptx/mailbox.ptx");

pub type Outcome = Result<(), Box<dyn Error>>;

pub struct Rig {
    pub context: Context,
    /// For ordinary work.
    pub stream: Stream,
    /// For the resident kernel.
    pub resident: Stream,
    pub module: Module,
}

impl Rig {
    pub fn new() -> Result<Rig, Box<dyn Error>> {
        let context = Context::new(0)?;
        let mut mode = 0;
        // SAFETY: `mode` is writable.
        unsafe { context.api().cuModuleGetLoadingMode(&mut mode) }?;
        let mode = if mode == ffi::EAGER_LOADING { "eager" } else { "lazy" };
        println!("{}, modules are loaded {mode}ly", context.properties().name);
        let (module, _) = Module::from_ptx(&context, "mailbox", MAILBOX, &JitOptions::default())?;
        let (stream, resident) = (Stream::new(&context)?, Stream::new(&context)?);
        Ok(Rig { context, stream, resident, module })
    }

    pub fn function(&self, name: &str) -> Result<Function, Box<dyn Error>> {
        Ok(self.module.function(name)?)
    }

    /// Starts a resident kernel until it is let go, or until the limit.
    pub fn stay(&self, limit: Duration) -> Result<Staying, Box<dyn Error>> {
        self.stay_in(&self.resident, limit, 1)
    }

    /// The same in a stream, by some blocks.
    pub fn stay_in(&self, stream: &Stream, limit: Duration, blocks: u32) -> Result<Staying, Box<dyn Error>> {
        let words = MappedWords::new(&self.context, 2)?;
        let arguments = [words.device_pointer().0, limit.as_nanos() as u64];
        let shape = LaunchShape::new([blocks, 1, 1], [1, 1, 1]);
        // SAFETY: two words, which live until the kernel has ended: see `Staying::end`.
        unsafe { self.function("stay")?.launch(stream, &shape, &arguments)? };
        Ok(Staying { stream: stream.clone(), words })
    }
}

/// A resident kernel.
pub struct Staying {
    stream: Stream,
    words: MappedWords,
}

impl Staying {
    /// Lets it go.
    pub fn release(&self) {
        self.words.words()[0].store(1, Ordering::Release);
    }

    /// Lets it go, and waits until it has ended. Whether it was still there.
    pub fn end(self) -> Result<bool, Box<dyn Error>> {
        self.release();
        self.stream.synchronize()?;
        Ok(self.words.words()[1].load(Ordering::Acquire) == 1)
    }
}

/// The kernels as text that no cache has seen.
pub fn fresh_ptx() -> String {
    let nonce = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // A constant, and not only a comment, so that no cache of a compiler takes the two for one.
    MAILBOX.replacen("1023", &(1023 + (nonce % 1000) as u32 * 1024).to_string(), 1) + &format!("// {nonce}\n")
}

pub fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed()))
}

/// Whether the work of a stream ends in time; waits no longer.
pub fn ends(stream: &Stream, time: Duration) -> Result<bool, Box<dyn Error>> {
    let begun = Instant::now();
    while !stream.is_idle()? {
        if begun.elapsed() > time {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("does not hold: {what}").into()) }
}

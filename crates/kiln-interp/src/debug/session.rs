//! A session: what the user has asked for so far.

use super::breakpoint::{Breakpoint, Target};
use super::source::Sources;
use crate::mask::Mask;
use kiln_ir::{Kernel, Loc};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a session reads its commands, and writes what they print.
pub trait Terminal: Send {
    /// The next line; `None` at the end, after which the program runs on without a stop.
    fn read(&mut self, prompt: &str) -> Option<String>;
    /// Writes text.
    fn write(&mut self, text: &str);
    /// Ends the program, as the user asks for; if it returns, the program runs on without a stop.
    fn quit(&mut self);
    /// Whether an empty line repeats the last command.
    fn repeats(&self) -> bool {
        false
    }
}

/// A debugger's session: devices that it was given to
/// ([`Interp::debugged`](crate::Interp::debugged)) stop at breakpoints, and read commands then.
///
/// ```
/// use kiln_interp::{Interp, Options, Session, Terminal};
/// use std::sync::Arc;
///
/// struct Script(Vec<&'static str>);
///
/// impl Terminal for Script {
///     fn read(&mut self, _: &str) -> Option<String> {
///         self.0.pop().map(str::to_owned)
///     }
///     fn write(&mut self, text: &str) {
///         print!("{text}");
///     }
///     fn quit(&mut self) {}
/// }
///
/// let session = Arc::new(Session::new(Box::new(Script(vec!["run", "break softmax"]))));
/// session.begin();
/// let device = Interp::new(Options::default()).debugged(session);
/// assert!(device.sanitizes());
/// ```
pub struct Session(Mutex<SessionState>);

/// Where a launch stops next, beside breakpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Run,
    /// At the next line of this block of this launch, or the first of a later launch.
    Step {
        launch: u64,
        block: u64,
    },
    /// At the next line of any.
    StepAny,
    /// At the end of this block.
    Finish {
        launch: u64,
        block: u64,
    },
    /// At the first line of this block.
    To {
        launch: u64,
        block: u64,
    },
    /// Nowhere any more.
    Detached,
}

/// Why a launch stops.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    Breakpoint(usize),
    Step,
    Fault(String),
    /// The end of a block.
    End,
}

/// What a session remembers.
pub struct SessionState {
    pub terminal: Box<dyn Terminal>,
    pub sources: Sources,
    pub breakpoints: Vec<Breakpoint>,
    pub last_id: usize,
    pub mode: Mode,
    /// The selected thread.
    pub thread: usize,
    /// The launch of the last stop, its block, and the file.
    pub shown: Option<(u64, u64, u32)>,
    /// The file and line that `list` shows next.
    pub listed: Option<(String, u32)>,
    pub last_command: String,
    /// The launches so far.
    pub launches: u64,
    /// The blocks of this launch that have ended.
    pub ended: HashSet<u64>,
    /// The launch whose fault was shown.
    pub faulted: u64,
    /// The places of breakpoints in the kernel of a launch.
    places: Vec<(usize, u32, u32)>,
    placed: Option<u64>,
}

/// Where the machine is: what decides whether it stops.
pub struct Moment<'a> {
    pub kernel: &'a Kernel,
    pub launch: u64,
    pub block: u64,
    pub loc: Loc,
    /// The threads that come to this line now.
    pub fresh: &'a Mask,
    /// Whether the block begins.
    pub begins: bool,
}

impl Session {
    /// A session that has not begun.
    pub fn new(terminal: Box<dyn Terminal>) -> Session {
        Session(Mutex::new(SessionState {
            terminal,
            sources: Sources::default(),
            breakpoints: Vec::new(),
            last_id: 0,
            mode: Mode::Run,
            thread: 0,
            shown: None,
            listed: None,
            last_command: String::new(),
            launches: 0,
            ended: HashSet::new(),
            faulted: 0,
            places: Vec::new(),
            placed: None,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session beside a launch.
#[derive(Clone)]
pub struct Debugging<'a> {
    pub(super) session: &'a Session,
    /// The number of the launch, from 1.
    pub(super) launch: u64,
    /// The file and the line that each thread is in; 0 where it comes to any line anew.
    pub(super) lines: Vec<u64>,
    /// Where the block was last.
    pub(super) last: Loc,
    /// Whether the block has run an operation.
    pub(super) begun: bool,
}

impl<'a> Debugging<'a> {
    /// A launch of so many threads a block begins.
    pub fn new(session: &'a Session, lanes: usize) -> Debugging<'a> {
        let mut state = session.lock();
        state.launches += 1;
        state.ended.clear();
        Debugging {
            session,
            launch: state.launches,
            lines: vec![0; lanes],
            last: Loc::default(),
            begun: false,
        }
    }
}

impl SessionState {
    /// Why a launch stops here, if it does.
    pub fn reason(&mut self, at: &Moment<'_>) -> Option<Reason> {
        if self.placed != Some(at.launch) {
            let place = |b: &Breakpoint| b.place(at.kernel).map(|(file, line)| (b.id, file, line));
            self.places = self.breakpoints.iter().filter_map(place).collect();
            self.placed = Some(at.launch);
        }
        let line = at.loc.line > 0;
        let fresh = !at.fresh.is_empty();
        let stepped = match self.mode {
            Mode::Detached => return None,
            Mode::Run => false,
            Mode::To { launch, block } => {
                if (launch, block) == (at.launch, at.block) {
                    return Some(Reason::Step);
                }
                if launch == at.launch {
                    return None;
                }
                line
            }
            Mode::StepAny => line && fresh,
            Mode::Step { launch, block } if launch == at.launch => {
                let mine = self.thread < at.fresh.width() && at.fresh.has(self.thread);
                line && block == at.block && mine
            }
            Mode::Step { launch, .. } | Mode::Finish { launch, .. } => line && launch != at.launch,
        };
        let (places, first) = (&self.places, at.begins && self.ended.is_empty());
        let hit = self.breakpoints.iter_mut().find(|b| {
            let here = match &b.target {
                Target::Kernel(name) => {
                    let begins = if b.block.is_some() { at.begins } else { first };
                    begins && *name == at.kernel.name
                }
                Target::Line(..) => fresh && line && places.contains(&(b.id, at.loc.file, at.loc.line)),
            };
            let thread = |thread: usize| thread < at.fresh.width() && at.fresh.has(thread);
            here && b.block.is_none_or(|block| block == at.block) && b.thread.is_none_or(thread)
        });
        if let Some(hit) = hit {
            hit.hits += 1;
            self.thread = hit.thread.unwrap_or(self.thread);
            return Some(Reason::Breakpoint(hit.id));
        }
        stepped.then_some(Reason::Step)
    }

    /// Breakpoints have changed.
    pub fn changed(&mut self) {
        self.placed = None;
    }
}

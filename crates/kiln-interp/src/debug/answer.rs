//! What each command does.

use super::breakpoint::{Breakpoint, Target};
use super::command::{Command, HELP, Index, Info, Printed, parse};
use super::names::{self, Path};
use super::session::{Mode, Reason, Session, SessionState};
use super::show::ranges;
use crate::machine::Machine;
use crate::mask::Mask;
use crate::threads::thread_index;
use kiln_ir::{Loc, Named, Op, OpKind, Value};

/// The prompt.
const PROMPT: &str = "(kiln) ";
/// Lines that `list` prints.
const LISTED: u32 = 10;

/// Where a launch has stopped.
pub struct Stop<'s, 'm> {
    pub machine: &'s mut Machine<'m>,
    /// The operation that comes next; `None` at the end of the block.
    pub op: Option<Op>,
    pub loc: Loc,
    /// The threads that run it.
    pub mask: &'s Mask,
    pub reason: Reason,
    pub launch: u64,
    pub block: u64,
}

/// What a command that needs a stop says before there is one.
const NOWHERE: &str =
    "no kernel has begun yet: `run` goes on to the first breakpoint, `step` into the first kernel";

impl Session {
    /// Reads commands before the first launch, such as those that set breakpoints, until one of
    /// them goes on.
    pub fn begin(&self) {
        converse(&mut self.lock(), None);
    }
}

/// Shows where the launch is, and reads commands until one goes on.
pub fn converse(state: &mut SessionState, mut stop: Option<&mut Stop<'_, '_>>) {
    if let Some(stop) = stop.as_deref_mut() {
        let text = stop.arrived(state);
        state.terminal.write(&text);
    }
    loop {
        let Some(line) = state.terminal.read(PROMPT) else {
            state.mode = Mode::Detached;
            return;
        };
        let mut line = line.trim().to_owned();
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            if !state.terminal.repeats() || state.last_command.is_empty() {
                continue;
            }
            line = state.last_command.clone();
        }
        state.last_command = line.clone();
        match parse(&line).and_then(|command| answer(state, stop.as_deref_mut(), command)) {
            Ok(Next::Stay(text)) => state.terminal.write(&text),
            Ok(Next::Go(mode)) => {
                state.mode = mode;
                return;
            }
            Err(error) => state.terminal.write(&format!("{error}\n")),
        }
    }
}

/// What follows a command.
enum Next {
    /// This is printed, and the next command is read.
    Stay(String),
    /// The launch goes on.
    Go(Mode),
}

fn answer(
    state: &mut SessionState,
    stop: Option<&mut Stop<'_, '_>>,
    command: Command,
) -> Result<Next, String> {
    let stop = match (command, stop) {
        (Command::Help, _) => return Ok(Next::Stay(HELP.to_owned())),
        (Command::Quit, _) => {
            state.terminal.quit();
            return Ok(Next::Go(Mode::Detached));
        }
        (Command::Continue, _) => return Ok(Next::Go(Mode::Run)),
        (Command::Directory(folder), _) => {
            if !std::path::Path::new(&folder).is_dir() {
                return Err(format!("there is no folder `{folder}`"));
            }
            state.sources.add_folder(&folder);
            return Ok(Next::Stay(String::new()));
        }
        (Command::Delete(id), _) => return state.delete(id).map(Next::Stay),
        (Command::Info(Info::Breakpoints), _) => return Ok(Next::Stay(state.breakpoints())),
        (Command::Break { target, block, thread }, stop) => {
            return state.add(target, block, thread, stop).map(Next::Stay);
        }
        (Command::Step, None) => return Ok(Next::Go(Mode::StepAny)),
        (_, None) => return Err(NOWHERE.to_owned()),
        (command, Some(stop)) => (command, stop),
    };
    let (command, stop) = stop;
    let (launch, block) = (stop.launch, stop.block);
    Ok(match command {
        Command::Step if stop.reason == Reason::End => Next::Go(Mode::StepAny),
        Command::Step => Next::Go(Mode::Step { launch, block }),
        Command::Finish if stop.reason == Reason::End => return Err("this block is at its end".to_owned()),
        Command::Finish => Next::Go(Mode::Finish { launch, block }),
        Command::Print(printed) => Next::Stay(stop.print(state.thread, &printed)?),
        Command::Info(Info::Locals) => Next::Stay(stop.locals(state.thread)),
        Command::Info(Info::Threads) => Next::Stay(stop.threads()),
        Command::Info(_) => Next::Stay(stop.arguments(state.thread)),
        Command::Where => Next::Stay(stop.whereabouts(state.thread)),
        Command::List(line) => Next::Stay(stop.list(state, line)?),
        Command::Block(None) => Next::Stay(format!("{}\n", stop.describe_block())),
        Command::Block(Some(index)) => Next::Go(stop.to_block(state, index)?),
        Command::Thread(None) => Next::Stay(format!("{}\n", stop.describe_thread(state.thread))),
        Command::Thread(Some(index)) => {
            state.thread = stop.thread(index)?;
            Next::Stay(format!("{}\n", stop.describe_thread(state.thread)))
        }
        other => return Err(format!("{other:?} has been answered")),
    })
}

impl SessionState {
    fn add(
        &mut self,
        target: Target,
        block: Option<u64>,
        thread: Option<usize>,
        stop: Option<&mut Stop<'_, '_>>,
    ) -> Result<String, String> {
        let target = match (target, &stop) {
            (Target::Line(None, line), Some(stop)) => Target::Line(stop.file(), line),
            (target, _) => target,
        };
        if let Target::Line(Some(file), line) = &target
            && let Some(lines) = self.sources.lines(file)
            && (*line == 0 || *line as usize > lines.len())
        {
            return Err(format!("`{file}` has {} lines", lines.len()));
        }
        self.last_id += 1;
        let added = Breakpoint { id: self.last_id, target, block, thread, hits: 0 };
        let mut text = format!("breakpoint {} at {}", added.id, described(&added));
        if let (Some(stop), Target::Line(file, line)) = (stop, &added.target) {
            let kernel = stop.machine.kernel;
            match added.place(kernel) {
                Some((_, at)) if at != *line => text += &format!(", in `{}` line {at}", kernel.name),
                None if file.as_ref().is_some_and(|file| self.sources.lines(file).is_none()) => {
                    text += ", a file that is not here and of which this kernel has no line";
                }
                _ => {}
            }
        }
        self.breakpoints.push(added);
        self.changed();
        Ok(format!("{text}\n"))
    }

    fn delete(&mut self, id: Option<usize>) -> Result<String, String> {
        let before = self.breakpoints.len();
        self.breakpoints.retain(|b| id.is_some_and(|id| b.id != id));
        self.changed();
        match id {
            Some(id) if self.breakpoints.len() == before => {
                Err(format!("there is no breakpoint {id}; `info break` lists them"))
            }
            _ => Ok(String::new()),
        }
    }

    fn breakpoints(&self) -> String {
        let line = |b: &Breakpoint| {
            let times = if b.hits == 1 { "time" } else { "times" };
            format!("{}: {}, reached {} {times}\n", b.id, described(b), b.hits)
        };
        let lines: String = self.breakpoints.iter().map(line).collect();
        if lines.is_empty() { "no breakpoints\n".to_owned() } else { lines }
    }
}

fn described(b: &Breakpoint) -> String {
    let block = b.block.map_or_else(String::new, |block| format!(", block {block}"));
    let thread = b.thread.map_or_else(String::new, |thread| format!(", thread {thread}"));
    format!("{}{block}{thread}", b.target)
}

impl Stop<'_, '_> {
    /// The file of the place.
    fn file(&self) -> Option<String> {
        let known = (self.loc.line > 0).then(|| self.machine.kernel.files.get(self.loc.file as usize));
        known.flatten().cloned()
    }

    /// What is printed when a launch stops here.
    fn arrived(&mut self, state: &mut SessionState) -> String {
        let running = self.mask.width() > state.thread && self.mask.has(state.thread);
        if !running {
            state.thread = self.mask.first().unwrap_or(0);
        }
        let here = (self.launch, self.block, self.loc.file);
        let known = state.shown.replace(here) == Some(here);
        let file = self.file();
        state.listed = file.clone().map(|file| (file, self.loc.line.saturating_sub(LISTED / 2)));
        let place = match &file {
            Some(file) => format!("{file}:{}", self.loc.line),
            None => "an unknown line".to_owned(),
        };
        let thread = match self.machine.loaded.threaded {
            true => format!(", {}", self.index_of_thread(state.thread)),
            false => String::new(),
        };
        let name = &self.machine.kernel.name;
        let at = format!("`{name}` at {place}, {}{thread}", self.index_of_block());
        let mut text = match &self.reason {
            Reason::Breakpoint(id) => format!("breakpoint {id}: {at}\n"),
            Reason::Fault(fault) => format!("fault: {fault}\n"),
            Reason::End => format!("end of {} of `{name}`\n", self.index_of_block()),
            Reason::Step if known && running => String::new(),
            Reason::Step => format!("{at}\n"),
        };
        if self.reason != Reason::End
            && let Some(line) = file.and_then(|file| state.sources.line(&file, self.loc.line))
        {
            text += &format!("{line}\n");
        }
        text
    }

    fn index_of_block(&self) -> String {
        format!("block {:?}", self.machine.block)
    }

    fn index_of_thread(&self, lane: usize) -> String {
        format!("thread {:?}", thread_index(lane, self.machine.loaded.block))
    }

    fn describe_block(&self) -> String {
        format!("{} of a grid of {:?}", self.index_of_block(), self.machine.grid)
    }

    fn describe_thread(&self, lane: usize) -> String {
        let here = if self.mask.has(lane) { "" } else { ", which does not run this line" };
        format!("{}{here}", self.index_of_thread(lane))
    }

    fn path(&self) -> Path {
        names::path(self.machine.kernel, self.op)
    }

    fn print(&mut self, lane: usize, printed: &Printed) -> Result<String, String> {
        let kernel = self.machine.kernel;
        let path = self.path();
        let scope = names::in_scope(kernel, &path, self.loc);
        let find =
            |name: &str| scope.iter().find(|(known, _)| *known == name).map(|(_, what)| (*what).clone());
        let parameter =
            |name: &str| self.parameters().find(|(known, _)| *known == name).map(|(_, v)| Named::Value(v));
        let exact = find(&printed.whole).map(|what| (what, Vec::new()));
        let sliced =
            || find(&printed.name).or_else(|| parameter(&printed.name)).map(|w| (w, printed.slice.clone()));
        let Some((what, slice)) = exact.or_else(sliced) else {
            let mut known: Vec<&str> = scope.iter().map(|(name, _)| *name).collect();
            known.extend(
                self.parameters().map(|(name, _)| name).filter(|name| !scope.iter().any(|(n, _)| n == name)),
            );
            known.sort_unstable();
            let there = if known.is_empty() { "no names".to_owned() } else { known.join(", ") };
            return Err(format!(
                "`{}` is no name of a number, a tile or a tensor here; there are {there}",
                printed.name
            ));
        };
        let text = match what {
            Named::Host(text) if slice.is_empty() => text,
            Named::Host(_) => {
                return Err(format!("`{}` is a constant of the host: it has no elements", printed.name));
            }
            Named::Value(value) if printed.threads => self.machine.shown_in_threads(value, self.mask)?,
            Named::Value(value) => self.machine.shown(value, lane, &slice)?,
        };
        Ok(format!("{} = {text}\n", printed.whole))
    }

    fn locals(&mut self, lane: usize) -> String {
        let kernel = self.machine.kernel;
        let mut names = names::in_scope(kernel, &self.path(), self.loc);
        names.reverse();
        let parameters: Vec<Value> = kernel.block(kernel.body).args.to_vec();
        names.retain(|(_, what)| !matches!(what, Named::Value(value) if parameters.contains(value)));
        let mut text = String::new();
        for (name, what) in names {
            let value = match what {
                Named::Host(text) => Ok(text.clone()),
                Named::Value(value) => self.machine.shown(*value, lane, &[]),
            };
            text += &value.map_or_else(|_| String::new(), |value| format!("{name} = {value}\n"));
        }
        if text.is_empty() {
            "no names in scope beside the parameters; builds for speed keep none\n".to_owned()
        } else {
            text
        }
    }

    fn parameters(&self) -> impl Iterator<Item = (&'_ str, Value)> + use<'_> {
        let kernel = self.machine.kernel;
        let values = kernel.block(kernel.body).args.iter().copied();
        kernel.params.iter().map(|param| param.name.as_str()).zip(values)
    }

    fn arguments(&mut self, lane: usize) -> String {
        let parameters: Vec<(String, Value)> =
            self.parameters().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut text = String::new();
        for (name, value) in parameters {
            let shown = self.machine.shown(value, lane, &[]);
            text += &shown.map_or_else(|_| String::new(), |shown| format!("{name} = {shown}\n"));
        }
        text
    }

    fn threads(&self) -> String {
        if !self.machine.loaded.threaded {
            return "a program over tiles, whose threads are not visible\n".to_owned();
        }
        let lanes: Vec<usize> = self.mask.lanes().collect();
        format!("of {} threads {} run this line\n", self.mask.width(), ranges(&lanes))
    }

    fn whereabouts(&mut self, lane: usize) -> String {
        let kernel = self.machine.kernel;
        let thread = match self.machine.loaded.threaded {
            true => format!(", {}", self.describe_thread(lane)),
            false => String::new(),
        };
        let place = if self.op.is_some() { kernel.describe(self.loc) } else { "its end".to_owned() };
        let mut text = format!(
            "`{}` at {place}, launch {}, {}{thread}\n",
            kernel.name,
            self.launch,
            self.describe_block()
        );
        let path = self.path();
        for (&(block, number), &(inner, _)) in path.iter().zip(path.iter().skip(1)).rev() {
            let data = kernel.op(kernel.block(block).ops[number]);
            let what = if data.kind == OpKind::If {
                "the branch"
            } else if matches!(data.kind, OpKind::For | OpKind::While) {
                "the loop"
            } else {
                continue;
            };
            text += &format!("  in {what} at {}", kernel.describe(data.loc));
            if let (OpKind::For, Some(&index)) = (&data.kind, kernel.block(inner).args.first())
                && let Ok(shown) = self.machine.shown(index, lane, &[])
            {
                text += &format!(", index {shown}");
            }
            text.push('\n');
        }
        text
    }

    fn list(&self, state: &mut SessionState, line: Option<u32>) -> Result<String, String> {
        let Some(file) = self.file() else { return Err("this place has no line".to_owned()) };
        let lines = state.sources.lines(&file);
        let lines =
            lines.ok_or_else(|| format!("`{file}` is not found; `directory FOLDER` says where to look"))?;
        let next = state.listed.as_ref().filter(|(listed, _)| *listed == file).map_or(1, |(_, line)| *line);
        let first = line.map_or(next, |line| line.saturating_sub(LISTED / 2)).max(1);
        let shown = lines.iter().zip(1u32..).filter(|(_, n)| (first..first + LISTED).contains(n));
        let mark = |n: u32| if n == self.loc.line { '>' } else { ' ' };
        let text: String = shown.map(|(text, n)| format!("{}{n:<5} {text}\n", mark(n))).collect();
        if text.is_empty() {
            return Err(format!("`{file}` has {} lines", lines.len()));
        }
        state.listed = Some((file, first + LISTED));
        Ok(text)
    }

    fn to_block(&self, state: &SessionState, index: Index) -> Result<Mode, String> {
        let grid = self.machine.grid.map(u64::from);
        let block = linear(index, grid).ok_or_else(|| format!("the grid has {grid:?} blocks"))?;
        if block == self.block {
            return Err(format!("this is {}", self.describe_block()));
        }
        if state.ended.contains(&block) {
            return Err(format!("block {block} has ended: blocks run one after the other"));
        }
        Ok(Mode::To { launch: self.launch, block })
    }

    fn thread(&self, index: Index) -> Result<usize, String> {
        if !self.machine.loaded.threaded {
            return Err("a program over tiles has no threads that can be selected".to_owned());
        }
        let extents = self.machine.loaded.block.map(u64::from);
        let lane = linear(index, extents).and_then(|lane| usize::try_from(lane).ok());
        lane.ok_or_else(|| format!("a block has {extents:?} threads"))
    }
}

/// The number of a block or thread, if there is one.
fn linear(index: Index, extents: [u64; 3]) -> Option<u64> {
    match index {
        Index::Linear(n) => (n < extents.iter().product()).then_some(n),
        Index::Axes(axes) => {
            let inside = axes.iter().zip(extents).all(|(&i, extent)| i < extent);
            inside.then(|| axes[0] + extents[0] * (axes[1] + extents[1] * axes[2]))
        }
    }
}

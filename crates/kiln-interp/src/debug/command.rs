//! Commands as text.

use super::breakpoint::Target;
use std::ops::Range;

/// What a user asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    Break { target: Target, block: Option<u64>, thread: Option<usize> },
    Delete(Option<usize>),
    Continue,
    Step,
    Finish,
    Print(Printed),
    Info(Info),
    Where,
    List(Option<u32>),
    Block(Option<Index>),
    Thread(Option<Index>),
    Directory(String),
    Help,
    Quit,
}

/// What `info` is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Info {
    Locals,
    Args,
    Breakpoints,
    Threads,
}

/// A block or thread: its number, or its index on x, y and z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    Linear(u64),
    Axes([u64; 3]),
}

/// What `print` prints.
#[derive(Clone, PartialEq, Debug)]
pub struct Printed {
    /// The text without the slice, and with it: a name may contain brackets.
    pub name: String,
    pub whole: String,
    /// For each axis the elements, or an index.
    pub slice: Vec<Part>,
    /// Whether the value of every thread is asked for.
    pub threads: bool,
}

/// What is printed of an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    At(usize),
    From(Range<usize>),
    All,
}

/// The commands, as `help` prints them.
pub const HELP: &str = "\
break FILE:LINE | LINE | KERNEL [block N] [thread N]   b    stop there
delete [N]                                             d    remove breakpoint N, or all
run, continue                                          r, c go on
step, next                                             s, n to the next line that the selected thread runs
finish                                                 fin  to the end of this block
print NAME[SLICE] [threads]                            p    a value: print e, print x[0, 2..5], print i threads
info locals | args | break | threads                   i    values in scope, parameters, breakpoints, threads
where                                                  w    kernel, line, block, thread, loops around
list [LINE]                                            l    source lines
block [N | X,Y,Z]                                      bl   go on to the block
thread [N | X,Y,Z]                                     t    select a thread
directory FOLDER                                       dir  look for source files there too
quit                                                   q    end the program
";

const NAMES: [(&str, &[&str]); 15] = [
    ("break", &["b"]),
    ("delete", &["d"]),
    ("run", &["r"]),
    ("continue", &["c"]),
    ("step", &["s"]),
    ("next", &["n"]),
    ("finish", &["fin"]),
    ("print", &["p"]),
    ("info", &["i"]),
    ("where", &["w", "bt", "backtrace"]),
    ("list", &["l"]),
    ("block", &["bl"]),
    ("thread", &["t"]),
    ("directory", &["dir"]),
    ("quit", &["q", "exit"]),
];

/// Reads a command.
///
/// # Errors
/// What is wrong with it, and what there is.
pub fn parse(text: &str) -> Result<Command, String> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    if word == "help" || word == "h" {
        return Ok(Command::Help);
    }
    let known = NAMES.iter().find(|(name, short)| *name == word || short.contains(&word));
    let Some((name, _)) = known else {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no command `{word}`; there are {}, help", names.join(", ")));
    };
    let none = |command: Command| match rest {
        "" => Ok(command),
        _ => Err(format!("`{name}` takes nothing after it, and found `{rest}`")),
    };
    match *name {
        "break" => breakpoint(rest),
        "delete" if rest.is_empty() => Ok(Command::Delete(None)),
        "delete" => Ok(Command::Delete(Some(number(rest, "the number of a breakpoint")?))),
        "run" | "continue" => none(Command::Continue),
        "step" | "next" => none(Command::Step),
        "finish" => none(Command::Finish),
        "print" => print(rest).map(Command::Print),
        "info" => info(rest),
        "where" => none(Command::Where),
        "list" if rest.is_empty() => Ok(Command::List(None)),
        "list" => Ok(Command::List(Some(number(rest, "a line")?))),
        "block" => index(rest).map(Command::Block),
        "thread" => index(rest).map(Command::Thread),
        "directory" if rest.is_empty() => Err("`directory` needs a folder: `directory ../shop`".to_owned()),
        "directory" => Ok(Command::Directory(rest.to_owned())),
        _ => none(Command::Quit),
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not {what}"))
}

fn breakpoint(rest: &str) -> Result<Command, String> {
    let mut words = rest.split_whitespace();
    let Some(place) = words.next() else {
        return Err("`break` needs a place: `break src/main.rs:12`, `break 12` or `break softmax`".to_owned());
    };
    let target = if let Ok(line) = place.parse() {
        Target::Line(None, line)
    } else if let Some((file, line)) = place.rsplit_once(':') {
        Target::Line(Some(file.to_owned()), number(line, "a line")?)
    } else {
        Target::Kernel(place.to_owned())
    };
    let (mut block, mut thread) = (None, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match word {
            "if" => return Err("a breakpoint has no condition but `block N` and `thread N`".to_owned()),
            "block" => block = Some(number(value, "the number of a block")?),
            "thread" => thread = Some(number(value, "the number of a thread")?),
            other => {
                return Err(format!("after the place come `block N` and `thread N`, and not `{other}`"));
            }
        }
    }
    Ok(Command::Break { target, block, thread })
}

fn info(rest: &str) -> Result<Command, String> {
    Ok(match rest {
        "locals" | "l" => Command::Info(Info::Locals),
        "args" | "a" => Command::Info(Info::Args),
        "break" | "breakpoints" | "b" => Command::Info(Info::Breakpoints),
        "threads" | "t" => Command::Info(Info::Threads),
        "where" | "w" => Command::Where,
        other => {
            return Err(format!("there is no `info {other}`; there are locals, args, break, threads, where"));
        }
    })
}

fn index(rest: &str) -> Result<Option<Index>, String> {
    if rest.is_empty() {
        return Ok(None);
    }
    let inner = rest.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    if !inner.contains(',') {
        return number(inner, "a number, or an index such as 0,2,0").map(|n| Some(Index::Linear(n)));
    }
    let mut axes = [0; 3];
    let parts: Vec<&str> = inner.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{rest}` has more than three axes"));
    }
    for (axis, part) in axes.iter_mut().zip(parts) {
        *axis = number(part, "an index")?;
    }
    Ok(Some(Index::Axes(axes)))
}

fn print(rest: &str) -> Result<Printed, String> {
    let (text, threads) = match rest.strip_suffix("threads") {
        Some(text) if text.ends_with(char::is_whitespace) => (text.trim(), true),
        _ => (rest, false),
    };
    if text.is_empty() {
        return Err("`print` needs a name: `print x`; `info locals` lists those in scope".to_owned());
    }
    let whole = text.to_owned();
    let Some((name, slice)) = text.split_once('[') else {
        return Ok(Printed { name: whole.clone(), whole, slice: Vec::new(), threads });
    };
    let Some(slice) = slice.strip_suffix(']') else {
        return Err(format!("`{text}` lacks its `]`"));
    };
    let slice = slice.split(',').map(|part| self::part(part.trim())).collect::<Result<_, _>>()?;
    Ok(Printed { name: name.trim().to_owned(), whole, slice, threads })
}

fn part(text: &str) -> Result<Part, String> {
    let Some((from, to)) = text.split_once("..") else {
        return number(text, "an index: write `x[3]` or `x[0, 2..5]`").map(Part::At);
    };
    match (from.trim(), to.trim()) {
        ("", "") => Ok(Part::All),
        ("", to) => Ok(Part::From(0..number(to, "an index")?)),
        (from, "") => Ok(Part::From(number(from, "an index")?..usize::MAX)),
        (from, to) => Ok(Part::From(number(from, "an index")?..number(to, "an index")?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let line = |file: Option<&str>, line| Target::Line(file.map(str::to_owned), line);
        let stop = |target| Command::Break { target, block: None, thread: None };
        assert_eq!(parse("b 12"), Ok(stop(line(None, 12))));
        assert_eq!(parse(" break src/main.rs:7 "), Ok(stop(line(Some("src/main.rs"), 7))));
        let wanted = Command::Break { target: Target::Kernel("k".into()), block: Some(3), thread: Some(1) };
        assert_eq!(parse("break k block 3 thread 1"), Ok(wanted));
        assert_eq!(parse("thread 1,2"), Ok(Command::Thread(Some(Index::Axes([1, 2, 0])))));
        let Ok(Command::Print(printed)) = parse("p x[1, 2..5, ..]") else { panic!("no print") };
        assert_eq!(printed.slice, [Part::At(1), Part::From(2..5), Part::All]);
        let Ok(Command::Print(printed)) = parse("p i threads") else { panic!("no print") };
        assert!(printed.threads && printed.name == "i");
    }

    #[test]
    fn wrong_commands_say_what_there_is() {
        for (text, said) in [
            ("jump", "there is no command `jump`; there are break, delete, run"),
            ("break", "`break` needs a place"),
            ("break a:b", "`b` is not a line"),
            ("break 3 if x", "no condition but `block N`"),
            ("info registers", "there is no `info registers`; there are locals, args"),
            ("print", "`print` needs a name"),
            ("print x[1", "lacks its `]`"),
            ("print x[a]", "`a` is not an index"),
            ("step 3", "`step` takes nothing after it"),
            ("thread x", "is not a number, or an index"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

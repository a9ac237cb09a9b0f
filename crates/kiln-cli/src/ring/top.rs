//! `kiln ring top`: the actors of running programs, in the terminal.

use super::seen::{Actor, Runtime, read};
use crate::failure::Failure;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read as read_event};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue, style, terminal};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shows the actors of running programs: messages per second, queue lengths and handling times.
///
/// A program publishes its actors with `RingRuntime::publish`. The key `q` quits.
#[derive(clap::Args)]
pub struct Args {
    /// Prints the actors once and exits
    #[arg(long)]
    once: bool,
    /// Prints the actors once as one JSON object, and exits
    #[arg(long)]
    json: bool,
    /// The time between two refreshes, in seconds
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// The folder in which programs publish [default: `kiln` in XDG_RUNTIME_DIR, else `kiln-USER`
    /// in the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.05..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.05 to 3600 seconds".to_owned()) }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let directory = args.dir.clone().unwrap_or_else(kiln_ring::telemetry_dir);
    if !args.once && !args.json && stdout().is_terminal() {
        return live(&directory, Duration::from_secs_f64(args.every));
    }
    let runtimes = look(&directory)?;
    let lines = lines(&runtimes, &Past::new());
    if args.json {
        let actors: Vec<Value> = lines.iter().map(Line::json).collect();
        writeln!(stdout(), "{:#}", json!({ "directory": directory, "actors": actors }))?;
    } else {
        write!(stdout(), "{}", table(&lines, &directory))?;
    }
    Ok(())
}

fn look(directory: &Path) -> Result<Vec<Runtime>, Failure> {
    read(directory).map_err(|source| Failure::File { path: directory.to_owned(), source })
}

/// An actor's runtime and number, with the messages and the uptime of the last look.
type Past = HashMap<(String, u32), (f64, f64)>;

/// An actor on a line.
struct Line<'a> {
    runtime: &'a Runtime,
    number: u32,
    actor: &'a Actor,
    per_second: f64,
}

/// The actors of all runtimes, the busiest first. Rates are those since the last look; of an actor
/// that is new, since it was launched.
fn lines<'a>(runtimes: &'a [Runtime], past: &Past) -> Vec<Line<'a>> {
    let all = runtimes.iter().flat_map(|runtime| runtime.actors.iter().map(move |actor| (runtime, actor)));
    let mut lines: Vec<Line<'a>> = all
        .map(|(runtime, (&number, actor))| {
            let (done, uptime) = (actor.value("processed_total"), actor.value("uptime_seconds"));
            let (before, then) = past.get(&(runtime.file.clone(), number)).copied().unwrap_or((0.0, 0.0));
            let per_second = if uptime > then { (done - before).max(0.0) / (uptime - then) } else { 0.0 };
            Line { runtime, number, actor, per_second }
        })
        .collect();
    lines.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    lines
}

fn remember(runtimes: &[Runtime]) -> Past {
    let all = runtimes.iter().flat_map(|runtime| runtime.actors.iter().map(move |actor| (runtime, actor)));
    all.map(|(runtime, (&number, actor))| {
        let now = (actor.value("processed_total"), actor.value("uptime_seconds"));
        ((runtime.file.clone(), number), now)
    })
    .collect()
}

impl Line<'_> {
    fn json(&self) -> Value {
        // Counters are published as floats, exactly.
        let count = |metric: &str| self.actor.value(metric) as u64;
        let depths: Vec<u64> = self.actor.priorities.values().map(|&n| n as u64).collect();
        json!({
            "process": self.runtime.process, "device": self.runtime.device, "actor": self.number,
            "handler": self.actor.handler, "state": self.actor.state,
            "msgs_per_s": self.per_second,
            "processed": count("processed_total"), "failed": count("failed_total"),
            "depth": count("queue_depth"), "depths": depths, "restarts": count("restarts_total"),
            "handling_p50_us": self.actor.quantile(0.5).map(|s| s * 1e6),
            "handling_p99_us": self.actor.quantile(0.99).map(|s| s * 1e6),
            "uptime_s": self.actor.value("uptime_seconds"),
        })
    }
}

/// A number in few characters.
fn short(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// How many messages wait; behind that, where there are several priorities, how many in
/// each, the highest first.
fn queued(actor: &Actor) -> String {
    let all = short(actor.value("queue_depth"));
    if actor.priorities.is_empty() {
        return all;
    }
    let priorities: Vec<String> = actor.priorities.values().rev().map(|depth| short(*depth)).collect();
    format!("{all} ({})", priorities.join("/"))
}

fn table(lines: &[Line<'_>], directory: &Path) -> String {
    let mut out = format!(
        "{:>8} {:8} {:>6} {:20} {:11} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9}\n",
        "process", "device", "actor", "handler", "state", "msgs/s", "done", "failed", "queued", "p50", "p99"
    );
    for line in lines {
        let time =
            |fraction| line.actor.quantile(fraction).map_or("-".into(), |s| format!("{:.2} us", s * 1e6));
        let value = |name| short(line.actor.value(name));
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{:>8} {:8} {:>6} {:20} {:11} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9}",
            line.runtime.process,
            line.runtime.device,
            line.number,
            line.actor.handler,
            line.actor.state,
            short(line.per_second),
            value("processed_total"),
            value("failed_total"),
            queued(line.actor),
            time(0.5),
            time(0.99),
        );
    }
    if lines.is_empty() {
        let _ = writeln!(out, "no actor is published in {}", directory.display());
    }
    out
}

/// The terminal, while it shows the table; it is as before afterwards, whatever happens.
struct Screen;

impl Screen {
    fn new() -> std::io::Result<Screen> {
        enable_raw_mode()?;
        let screen = Screen;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    fn show(&self, text: &str) -> std::io::Result<()> {
        let (columns, rows) = size()?;
        let mut out = stdout();
        for (row, line) in text.lines().take(rows.into()).enumerate() {
            let line: String = line.chars().take(columns.into()).collect();
            queue!(out, cursor::MoveTo(0, row as u16), style::Print(line), until_end_of_line())?;
        }
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
        out.flush()
    }
}

fn until_end_of_line() -> terminal::Clear {
    terminal::Clear(terminal::ClearType::UntilNewLine)
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Shows the table again and again.
fn live(directory: &Path, every: Duration) -> Result<(), Failure> {
    let screen = Screen::new()?;
    let mut past = Past::new();
    loop {
        let runtimes = look(directory)?;
        let text = table(&lines(&runtimes, &past), directory);
        past = remember(&runtimes);
        screen.show(&text)?;
        if quits(every)? {
            return Ok(());
        }
    }
}

/// Whether the user quits within this time.
fn quits(within: Duration) -> std::io::Result<bool> {
    let begun = std::time::Instant::now();
    while poll(within.saturating_sub(begun.elapsed()))? {
        if let Event::Key(key) = read_event()?
            && key.kind == KeyEventKind::Press
        {
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(processed: f64, uptime: f64) -> Runtime {
        let mut actor = Actor { handler: "sum".into(), state: "active".into(), ..Actor::default() };
        actor.values.insert("processed_total".into(), processed);
        actor.values.insert("uptime_seconds".into(), uptime);
        actor.handling = vec![(1e-6, 1.0), (2e-6, 99.0), (3e-6, 100.0), (f64::INFINITY, 100.0)];
        let quiet = Actor::default();
        Runtime {
            file: "ring-1-0.prom".into(),
            actors: [(7, actor), (3, quiet)].into(),
            ..Runtime::default()
        }
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let (first, second) = ([runtime(100.0, 10.0)], [runtime(400.0, 12.0)]);
        assert_eq!(lines(&first, &Past::new())[0].per_second, 10.0);
        let later = lines(&second, &remember(&first));
        let rates: Vec<(u32, f64)> = later.iter().map(|line| (line.number, line.per_second)).collect();
        assert_eq!(rates, [(7, 150.0), (3, 0.0)]);
        // The same file again: nothing new is known.
        assert_eq!(lines(&second, &remember(&second))[0].per_second, 0.0);
        let text = table(&later, Path::new("/nowhere"));
        assert!(text.contains("sum") && text.contains("2.00 us") && text.lines().count() == 3, "{text}");
        assert!(table(&[], Path::new("/nowhere")).contains("no actor is published in /nowhere"));
    }

    #[test]
    fn counts_are_integers_in_json() {
        let runtimes = [runtime(100.0, 10.0)];
        let json = lines(&runtimes, &Past::new())[0].json();
        assert_eq!((&json["processed"], &json["failed"]), (&json!(100), &json!(0)));
        assert_eq!((&json["uptime_s"], &json["depths"]), (&json!(10.0), &json!([])));
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 9999.0, 12_345.0, 1_234_567.0, 2.5e9].map(short);
        assert_eq!(all, ["0", "9999", "12.3 k", "1.23 M", "2.50 G"]);
    }
}

//! What programs publish of their actors: files in the Prometheus text format, as
//! `RingRuntime::publish` writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How old a file may be where it cannot be asked whether its process is there.
const STALE: Duration = Duration::from_secs(60);

/// A runtime of a running program.
#[derive(Debug, Default, PartialEq)]
pub struct Runtime {
    /// The name of its file.
    pub file: String,
    pub process: u32,
    pub device: String,
    pub uptime: f64,
    pub dead_letters: f64,
    pub actors: BTreeMap<u32, Actor>,
}

/// One of its actors.
#[derive(Debug, Default, PartialEq)]
pub struct Actor {
    pub handler: String,
    pub state: String,
    /// By the metric's name, without `kiln_ring_`.
    pub values: BTreeMap<String, f64>,
    /// Messages that wait in each priority, by its number; none for an actor with one priority.
    pub priorities: BTreeMap<u32, f64>,
    /// Bounds in seconds, and how many handling times do not exceed them.
    pub handling: Vec<(f64, f64)>,
}

impl Actor {
    /// The value of a metric; 0 where it is not there.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// The handling time in seconds that this fraction does not exceed.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        let all = self.handling.last()?.1;
        let rank = (all * fraction).ceil().max(1.0);
        self.handling
            .iter()
            .find(|(bound, below)| bound.is_finite() && *below >= rank)
            .map(|(bound, _)| *bound)
    }
}

/// The runtimes that publish in a directory. One that is not there holds none.
pub fn read(directory: &Path) -> std::io::Result<Vec<Runtime>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut runtimes = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Some((file, process)) = named(&path).filter(|&(_, process)| runs(process, &path)) else {
            continue;
        };
        // It may have gone since.
        let Ok(text) = kiln_ring::read_telemetry(&path) else { continue };
        let mut runtime = Runtime { file: file.to_owned(), process, ..Runtime::default() };
        text.lines().for_each(|line| runtime.take(line));
        runtimes.push(runtime);
    }
    runtimes.sort_unstable_by(|a, b| a.file.cmp(&b.file));
    Ok(runtimes)
}

/// The name and the process of a file that `publish` wrote.
fn named(path: &Path) -> Option<(&str, u32)> {
    let file = path.file_name()?.to_str()?;
    let (process, _) = file.strip_prefix("ring-")?.strip_suffix(".prom")?.split_once('-')?;
    Some((file, process.parse().ok()?))
}

/// Whether the process is there: a file outlives one that was killed.
fn runs(process: u32, path: &Path) -> bool {
    if Path::new("/proc/self").exists() {
        return Path::new(&format!("/proc/{process}")).exists();
    }
    let age = path.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < STALE)
}

impl Runtime {
    /// Takes a line of the format; what it does not know is left out.
    fn take(&mut self, line: &str) {
        let Some((name, labels, value)) = metric(line) else { return };
        let Some(name) = name.strip_prefix("kiln_ring_") else { return };
        let label = |key: &str| labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        if let Some(device) = label("device") {
            device.clone_into(&mut self.device);
        }
        match name {
            "runtime_uptime_seconds" => self.uptime = value,
            "dead_letters_total" => self.dead_letters = value,
            _ => {}
        }
        let Some(number) = label("actor").and_then(|n| n.parse().ok()) else { return };
        let actor = self.actors.entry(number).or_default();
        label("handler").unwrap_or_default().clone_into(&mut actor.handler);
        match name {
            "lifecycle" => label("state").unwrap_or_default().clone_into(&mut actor.state),
            "handling_seconds_bucket" => {
                let bound = label("le").and_then(|le| le.replace("+Inf", "inf").parse().ok());
                actor.handling.extend(bound.map(|bound| (bound, value)));
            }
            "priority_depth" => {
                actor.priorities.extend(label("priority").and_then(|b| b.parse().ok()).map(|b| (b, value)))
            }
            _ => drop(actor.values.insert(name.to_owned(), value)),
        }
    }
}

/// Names and values.
type Labels = Vec<(String, String)>;

/// A metric's name, labels and value.
fn metric(line: &str) -> Option<(&str, Labels, f64)> {
    let (name, rest) = line.split_once('{').filter(|_| !line.starts_with('#'))?;
    let (mut labels, mut rest) = (Vec::new(), rest);
    while !rest.starts_with('}') {
        let (key, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
        let (value, after) = unquoted(quoted)?;
        labels.push((key.to_owned(), value));
        rest = after;
    }
    Some((name, labels, rest[1..].trim().parse().ok()?))
}

/// The character, or a mark in the place of one that controls a terminal or changes how others are
/// shown: what is in a file is not to be trusted.
fn printable(c: char) -> char {
    let invisible =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if c.is_control() || invisible { '\u{fffd}' } else { c }
}

/// A label's value up to the quotation mark that ends it, and what comes after that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            'n' if escaped => value.push(' '),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '"' if !escaped => return Some((value, &text[at + 1..])),
            c => value.push(printable(c)),
        }
        escaped = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_with_their_labels() {
        let (name, labels, value) = metric(r#"a_b{x="1",y="q\"}\\,\n",z=""} 2.5"#).unwrap();
        assert_eq!((name, value), ("a_b", 2.5));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(labels, [("x", "1"), ("y", "q\"}\\, "), ("z", "")]);
        for broken in ["", "# TYPE a{} 1", "a 1", "a{x=\"1\" 1", "a{x=\"1", "a{x=1} 1", "a{x=\"1\"} one"] {
            assert!(metric(broken).is_none(), "{broken}");
        }
    }

    /// A terminal acts on control characters: a name must not move the cursor or set the title.
    #[test]
    fn what_a_terminal_would_obey_is_not_read() {
        let (_, labels, _) = metric("a{x=\"\u{1b}]0;title\u{7}b\u{9b}2J\r\u{202e}c\"} 1").unwrap();
        assert_eq!(labels[0].1, "\u{fffd}]0;title\u{fffd}b\u{fffd}2J\u{fffd}\u{fffd}c");
    }

    /// What a runtime writes is what is read.
    #[test]
    fn what_is_published_is_read() {
        let device = kiln_runtime::Device::open("interp").unwrap();
        let runtime = kiln_ring::RingRuntime::new(&device).unwrap();
        let actor = runtime.launch(halved, kiln_ring::RingConfig::default()).unwrap();
        actor.activate().unwrap();
        (0..40).for_each(|x| assert_eq!(actor.ask(2 * x), Ok(Some(x))));
        let prioritized = runtime.launch(halved, kiln_ring::RingConfig::default().priorities(3)).unwrap();
        for (x, priority) in [(1, 0), (2, 2), (3, 2)] {
            prioritized.send_with(x, kiln_ring::SendOptions::default().priority(priority)).unwrap();
        }
        let directory = std::env::temp_dir().join(format!("kiln-seen-{}", std::process::id()));
        let publisher = runtime.publish(&directory, Duration::from_secs(3600)).unwrap();
        // One that was killed, something else, and one whose process is not there.
        std::fs::write(directory.join("ring-4294967295-0.prom"), "").unwrap();
        std::fs::write(directory.join("ring-1.prom"), "").unwrap();
        let seen = read(&directory).unwrap();
        drop(publisher);
        assert_eq!(read(&directory).unwrap(), []);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(read(&directory).unwrap(), []);
        let [one] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((one.process, one.device.as_str()), (std::process::id(), "interp"));
        let depths: Vec<(u32, f64)> = one.actors[&1].priorities.clone().into_iter().collect();
        assert_eq!((depths, one.actors[&1].value("queue_depth")), (vec![(0, 1.0), (1, 0.0), (2, 2.0)], 3.0));
        let actor = &one.actors[&0];
        assert!(actor.priorities.is_empty());
        assert_eq!((actor.handler.as_str(), actor.state.as_str()), ("halved", "active"));
        assert_eq!((actor.value("processed_total"), actor.value("queue_depth")), (40.0, 0.0));
        assert!(actor.quantile(0.5) <= actor.quantile(0.99) && actor.quantile(0.5) > Some(0.0), "{actor:?}");
    }

    #[kiln_ring::ring_kernel(crate = kiln_ring)]
    fn halved(_ctx: &kiln_ring::RingCtx, m: u32) -> u32 {
        m / 2
    }
}

//! `kiln bench wgpu`: a device through wgpu against what it is made of.
//!
//! Launches are compared with the same shader dispatched by wgpu itself, and kernels with the same
//! kernels on another device of this machine: `cuda:0`, or else the CPU. What is compared is
//! measured in turns. A row that fails has its error in place of times, and the others go on.
//!
//! | file | holds |
//! |---|---|
//! | `raw.rs` | dispatches by wgpu itself |
//! | `launches.rs` | the rows of host times |
//! | `first.rs` | the first kernel of a process |
//! | `kernels.rs` | the rows of kernels, against another device |

mod first;
mod kernels;
mod launches;
mod raw;

use super::table;
use crate::device;
use crate::failure::Failure;
use kiln_runtime::Device;
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::Path;

pub use first::{Side, first_kernel};

/// What the times of a row are compared with.
#[derive(Clone, Copy)]
enum Goal {
    /// At most so many times as long as the peer.
    Within(f64),
    /// At least so much of the peer's speed.
    Reaches(f64),
    /// At most so many microseconds.
    Below(f64),
}

impl Goal {
    /// What is compared: a quotient of times or of speeds, or a time.
    fn figure(self, own: f64, peer: Option<f64>) -> Option<f64> {
        match self {
            Goal::Within(_) => peer.map(|peer| own / peer),
            Goal::Reaches(_) => peer.map(|peer| peer / own),
            Goal::Below(_) => Some(own),
        }
    }

    fn holds(self, figure: f64) -> bool {
        match self {
            Goal::Within(most) | Goal::Below(most) => figure <= most,
            Goal::Reaches(least) => figure >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Goal::Within(most) => format!("<= {most}x"),
            Goal::Reaches(least) => format!(">= {least}x"),
            Goal::Below(most) => format!("<= {:.0} ms", most * 1e-3),
        }
    }
}

/// Times in microseconds of a row and of what it is compared with.
struct Times {
    own: Vec<f64>,
    peer: Vec<f64>,
}

/// A row that was measured.
struct Measured {
    name: &'static str,
    /// Who the peer is.
    peer: String,
    goal: Goal,
    /// Bytes that the work moves; 0 for host times.
    bytes: u64,
    times: Result<Times, String>,
}

impl Measured {
    fn medians(&self) -> Option<(f64, Option<f64>)> {
        let times = self.times.as_ref().ok()?;
        let peer = (!times.peer.is_empty()).then(|| table::median(&times.peer));
        Some((table::median(&times.own), peer))
    }

    fn json(&self) -> Value {
        let Some((own, peer)) = self.medians() else {
            return json!({"name": self.name, "peer": self.peer, "error": self.times.as_ref().err()});
        };
        let figure = self.goal.figure(own, peer);
        let rate = (self.bytes > 0).then(|| self.bytes as f64 / own / 1e3);
        json!({
            "name": self.name,
            "us": own,
            "peer": self.peer,
            "peer_us": peer,
            "GB/s": rate,
            "figure": figure,
            "goal": self.goal.text(),
            "holds": figure.map(|figure| self.goal.holds(figure)),
        })
    }

    fn line(&self) -> String {
        let Some((own, peer)) = self.medians() else {
            let error = self.times.as_ref().err().map_or("", String::as_str);
            return format!("{:24} failed: {error}", self.name);
        };
        let peer_us = peer.map_or_else(|| "-".to_owned(), |peer| format!("{peer:.2}"));
        let figure = self.goal.figure(own, peer);
        let verdict = match figure.map(|figure| (figure, self.goal)) {
            Some((_, goal @ Goal::Below(_))) => format!("{} {}", goal.text(), yes(goal.holds(own))),
            Some((figure, goal)) => format!("{figure:.2}x, {} {}", goal.text(), yes(goal.holds(figure))),
            None => String::new(),
        };
        format!("{:24} {own:12.2} {peer_us:>12} {:8} {verdict}", self.name, self.peer)
    }
}

fn yes(holds: bool) -> &'static str {
    if holds { "holds" } else { "MISSED" }
}

/// Measures the rows whose names contain `only`.
pub fn run(name: Option<&str>, only: Option<&str>, json: Option<&Path>, commit: &str) -> Result<(), Failure> {
    let device = device::open(Some(name.unwrap_or("wgpu")))?;
    let adapters = kiln_wgpu::adapters();
    let Some(adapter) = adapters.iter().find(|adapter| adapter.id == device.id()) else {
        let wrong =
            format!("`kiln bench wgpu` measures adapters, and {} is none: `kiln doctor`", device.id());
        return Err(Failure::Usage(wrong));
    };
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let mut results = launches::measure(&device, wanted);
    results.extend(first::measure(&device, wanted));
    results.extend(kernels::measure(&device, adapter.is_software, wanted));
    if let Some(path) = json {
        let rows: Vec<Value> = results.iter().map(Measured::json).collect();
        let properties = device.properties();
        let all = json!({
            "device": device.id(),
            "adapter": properties.name,
            "driver": properties.driver,
            "lacks": adapter.lacks.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "commit": commit,
            "date": table::today(),
            "rows": rows,
        });
        table::write_text(path, &format!("{all:#}\n"))?;
        if path == Path::new("-") {
            return Ok(());
        }
    }
    Ok(print(&device, &results)?)
}

fn print(device: &Device, results: &[Measured]) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}: {}", device.id(), device.properties().name)?;
    writeln!(out, "{:24} {:>12} {:>12} {:8}", "row", "us", "peer's us", "peer")?;
    results.iter().try_for_each(|result| writeln!(out, "{}", result.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_compared_as_its_goal_says() {
        assert_eq!(Goal::Within(1.5).figure(3.0, Some(2.0)), Some(1.5));
        assert_eq!(Goal::Reaches(0.95).figure(4.0, Some(2.0)), Some(0.5));
        assert!(Goal::Within(1.5).holds(1.5) && !Goal::Within(1.5).holds(1.6));
        assert!(!Goal::Reaches(0.95).holds(0.5) && Goal::Below(3e5).holds(1e5));
    }

    #[test]
    fn a_row_that_fails_says_why() {
        let times = Err("no room".to_owned());
        let row = Measured { name: "add", peer: "cpu".into(), goal: Goal::Reaches(0.9), bytes: 8, times };
        assert_eq!(row.json()["error"], "no room");
        assert!(row.line().ends_with("failed: no room"));
    }
}

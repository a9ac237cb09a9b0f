//! The findings as text for people and as JSON.

use super::{Findings, Found, Mailbox};
use crate::units::{bytes, count};
use serde_json::{Value, json};
use std::fmt::Write as _;

impl Findings {
    pub(super) fn to_text(&self) -> String {
        let mut sections = vec![format!("Kiln {}\n", env!("CARGO_PKG_VERSION"))];
        let devices = self.devices.iter().map(|d| vec![d.id.clone(), d.name.clone(), d.details()]);
        sections.push(section("Devices", devices.collect()));
        let capabilities = self.devices.iter().map(|d| vec![d.id.clone(), d.capabilities_text()]);
        sections.push(section("Capabilities", capabilities.collect()));
        if !self.adapters.is_empty() {
            let adapters = self.adapters.iter().flat_map(|adapter| adapter.rows());
            sections.push(section("Adapters", adapters.collect()));
        }
        let mut system = vec![vec!["default".into(), format!("{} ({})", self.default.0, self.default.1)]];
        if let Some(nvidia) = &self.nvidia {
            let release = nvidia.release.as_deref().unwrap_or("of unknown version");
            let driver = format!("{release}, CUDA {}, PTX up to {}", nvidia.cuda, nvidia.ptx);
            system.push(vec!["NVIDIA driver".into(), driver]);
        }
        system.push(vec!["program cache".into(), self.cache_text()]);
        sections.push(section("System", system));
        sections.push(section("Mailboxes", self.mailboxes.iter().flat_map(Mailbox::rows).collect()));
        let transports = self.transports.iter().map(|row| row.to_vec()).collect();
        sections.push(section("Transports of ring kernels", transports));
        let mut missing: Vec<Vec<String>> = Vec::new();
        for entry in &self.missing {
            missing.push(vec![entry.what.to_owned(), entry.why.clone()]);
            missing.extend(entry.how.iter().map(|how| vec![String::new(), format!("→ {how}")]));
        }
        if missing.is_empty() {
            missing.push(vec!["nothing".into()]);
        }
        sections.push(section("Missing", missing));
        sections.join("\n")
    }

    fn cache_text(&self) -> String {
        let folder = self.cache.folder.as_deref().unwrap_or("none");
        let writable = if self.cache.problem.is_none() { "writable" } else { "not writable" };
        let programs = count(self.cache.programs as u64, "program");
        format!("{folder}: {writable}, {programs}, {}", bytes(self.cache.bytes))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "devices": self.devices.iter().map(Found::to_json).collect::<Vec<_>>(),
            "adapters": self.adapters.iter().map(|adapter| adapter.to_json()).collect::<Vec<_>>(),
            "default": self.default.0,
            "driver": self.nvidia.as_ref().map(|n| json!({ "release": n.release, "cuda": n.cuda, "ptx": n.ptx })),
            "cache": {
                "folder": self.cache.folder,
                "writable": self.cache.problem.is_none(),
                "programs": self.cache.programs,
                "bytes": self.cache.bytes,
            },
            "transports": self.transports.iter().map(|[device, choice]| json!({ "device": device, "choice": choice })).collect::<Vec<_>>(),
            "mailboxes": self.mailboxes.iter().map(Mailbox::to_json).collect::<Vec<_>>(),
            "missing": self.missing.iter().map(|m| json!({ "what": m.what, "why": m.why, "how": m.how })).collect::<Vec<_>>(),
        })
    }
}

impl Mailbox {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |text| vec![self.device.clone(), self.place.to_string(), text];
        match &self.found {
            Ok(what) => vec![row(what.clone())],
            Err(why) => {
                vec![
                    row(format!("none: {why}")),
                    vec![String::new(), String::new(), format!("→ {}", why.hint())],
                ]
            }
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "device": self.device,
            "place": self.place.to_string(),
            "what": self.found.as_ref().ok(),
            "why": self.found.as_ref().err().map(ToString::to_string),
            "how": self.found.as_ref().err().map(|obstacle| obstacle.hint()),
        })
    }
}

impl Found {
    fn details(&self) -> String {
        let unit = if self.compute_capability.is_some() { "multiprocessor" } else { "core" };
        let mut parts = vec![count(u64::from(self.units), unit), format!("{} of memory", bytes(self.memory))];
        if self.cache > 0 {
            parts.push(format!("{} of cache", bytes(self.cache)));
        }
        if let Some((major, minor)) = self.compute_capability {
            parts.push(format!("compute capability {major}.{minor}"));
        }
        parts.extend(self.simd.clone());
        parts.join(", ")
    }

    /// The limits of a block, and each capability that is there.
    fn capabilities_text(&self) -> String {
        let limits = [
            format!("subgroups of {}", self.subgroup),
            format!("{} of shared memory", bytes(self.shared_memory.into())),
        ];
        self.capabilities.names().into_iter().chain(limits).collect::<Vec<_>>().join(", ")
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "units": self.units,
            "memory": self.memory,
            "cache": self.cache,
            "compute_capability": self.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
            "simd": self.simd,
            "max_threads": self.max_threads,
            "subgroup": self.subgroup,
            "shared_memory": self.shared_memory,
            "capabilities": self.capabilities.names(),
        })
    }
}

/// A heading and rows whose columns line up.
fn section(title: &str, rows: Vec<Vec<String>>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = format!("{title}\n");
    for row in &rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            let _ = write!(line, "  {cell:width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::{MapObstacle, MappedPlace};

    #[test]
    fn a_mailbox_that_is_missing_says_why_and_what_to_do() {
        let obstacle = MapObstacle::Library { library: "libvulkan.so.1", reason: "no such file".into() };
        let (device, place) = ("cuda:0".to_owned(), MappedPlace::Device);
        let mailbox = Mailbox { device, place, found: Err(obstacle) };
        let text = section("Mailboxes", mailbox.rows());
        assert!(
            text.contains("cuda:0  device memory  none: libvulkan.so.1 could not be loaded: no such file\n"),
            "{text}"
        );
        assert!(text.contains("→ Install it"), "{text}");
        let json = mailbox.to_json();
        assert!(json["what"].is_null() && json["why"].is_string() && json["how"].is_string(), "{json}");
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "long cell".into(), "x".into()], vec!["bcd".into(), "e".into()]];
        assert_eq!(section("Title", rows), "Title\n  a    long cell  x\n  bcd  e\n");
    }
}

//! The adapters of Vulkan, Metal and DX12, and what each lacks.

use serde_json::{Value, json};

/// An adapter.
pub(super) struct Found {
    id: String,
    name: String,
    /// The API and the driver.
    through: String,
    is_software: bool,
    /// After how many rounds the driver ends the loops of a thread, if it does.
    loop_rounds: Option<u32>,
    /// The features that it does not have, and what each is for.
    lacks: Vec<(&'static str, &'static str)>,
}

/// The adapters of this machine, best first.
#[cfg(feature = "wgpu")]
pub(super) fn found() -> Vec<Found> {
    let found = |adapter: kiln_wgpu::Adapter| Found {
        id: adapter.id,
        name: adapter.name,
        through: format!("{}, {}", adapter.api, adapter.driver),
        is_software: adapter.is_software,
        loop_rounds: adapter.loop_rounds,
        lacks: adapter.lacks,
    };
    kiln_wgpu::adapters().into_iter().map(found).collect()
}

/// A build without the backend has none.
#[cfg(not(feature = "wgpu"))]
pub(super) fn found() -> Vec<Found> {
    Vec::new()
}

impl Found {
    /// A row for the adapter, and one for each feature that it lacks and for each limit.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let software = if self.is_software { ", software: taken by its name alone" } else { "" };
        let first = vec![self.id.clone(), self.name.clone(), format!("{}{software}", self.through)];
        let lacks = self.lacks.iter().map(|(feature, what)| format!("lacks {feature}: {what}"));
        let ends = self.loop_rounds.map(|rounds| {
            format!("ends the loops of a thread after {rounds} rounds: a longer one is a fault")
        });
        let more = lacks.chain(ends).map(|text| vec![String::new(), String::new(), text]);
        std::iter::once(first).chain(more).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "through": self.through,
            "software": self.is_software,
            "loop_rounds": self.loop_rounds,
            "lacks": self.lacks.iter().map(|(feature, _)| feature).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_adapter_lacks_follows_it() {
        let adapter = Found {
            id: "wgpu:1".into(),
            name: "a GPU".into(),
            through: "metal, 14".into(),
            is_software: false,
            loop_rounds: Some(9),
            lacks: vec![("SHADER_F64", "f64")],
        };
        let rows = adapter.rows();
        assert_eq!(rows[0], ["wgpu:1", "a GPU", "metal, 14"]);
        assert_eq!(rows[1], ["", "", "lacks SHADER_F64: f64"]);
        assert_eq!(rows[2], ["", "", "ends the loops of a thread after 9 rounds: a longer one is a fault"]);
        assert_eq!(adapter.to_json()["lacks"], json!(["SHADER_F64"]));
    }
}

//! Features that a user leaves out, so that an adapter runs what a lesser one would.

use kiln_backend::{Error, Result};
use wgpu::Features as F;

/// The environment variable with their names, and commas between them.
const VARIABLE: &str = "KILN_WGPU_WITHOUT";

/// What it may name, and wgpu's feature of that.
const NAMES: [(&str, F); 6] = [
    ("i64", F::SHADER_INT64),
    ("f64", F::SHADER_F64),
    ("f16", F::SHADER_F16),
    ("subgroups", F::SUBGROUP.union(F::SUBGROUP_BARRIER)),
    ("spirv", F::PASSTHROUGH_SHADERS),
    ("matrices", F::EXPERIMENTAL_COOPERATIVE_MATRIX),
];

/// The features that the environment leaves out.
///
/// # Errors
/// [`Error::Unavailable`] of this device for a name that is none.
pub(crate) fn masked(device: &str) -> Result<F> {
    let names = std::env::var(VARIABLE).unwrap_or_default();
    parse(&names).map_err(|name| Error::Unavailable {
        device: device.to_owned(),
        reason: format!("{VARIABLE} names `{name}`, which is no feature"),
        hint: format!("Name some of {}.", NAMES.map(|(name, _)| name).join(", ")),
    })
}

/// The features of a list of names, or the first name that is none.
fn parse(names: &str) -> std::result::Result<F, &str> {
    let mut named = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    named.try_fold(F::empty(), |all, name| {
        let feature = NAMES.iter().find(|(known, _)| *known == name);
        feature.map(|&(_, feature)| all | feature).ok_or(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_features() {
        assert_eq!(parse(""), Ok(F::empty()));
        assert_eq!(parse("i64, f16"), Ok(F::SHADER_INT64 | F::SHADER_F16));
        assert_eq!(parse("f64,int64"), Err("int64"));
    }
}

//! How long a launch may run.

use crate::error::{Error, Result};
use crate::variables::LAUNCH_LIMIT_VARIABLE;
use std::time::Duration;

/// How long a launch may run on the CPU and the interpreter if nothing else is said.
pub const LAUNCH_LIMIT: Duration = Duration::from_secs(600);

/// Reads a limit: a whole number with a unit (`ms`, `s`, `m`, `h`; none means seconds), or `off`.
///
/// ```
/// use kiln_backend::parse_launch_limit;
/// use std::time::Duration;
/// assert_eq!(parse_launch_limit("30s")?, Some(Duration::from_secs(30)));
/// assert_eq!(parse_launch_limit("off")?, None);
/// assert!(parse_launch_limit("soon").is_err());
/// # Ok::<(), kiln_backend::Error>(())
/// ```
///
/// # Errors
/// [`Error::Unavailable`] that says what may be written, for any other text.
pub fn parse_launch_limit(text: &str) -> Result<Option<Duration>> {
    let text = text.trim();
    if text == "off" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let millis: Option<u64> = match &text[digits.len()..] {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number = digits.parse::<u64>().ok().filter(|&n| n > 0);
    match number.zip(millis).and_then(|(number, millis)| number.checked_mul(millis)) {
        Some(millis) => Ok(Some(Duration::from_millis(millis))),
        None => Err(Error::Unavailable {
            device: "the launch limit".into(),
            reason: format!("`{text}` is no length of time"),
            hint: format!(
                "Write {LAUNCH_LIMIT_VARIABLE}=30s, with ms, s, m or h, or {LAUNCH_LIMIT_VARIABLE}=off."
            ),
        }),
    }
}

/// The limit that the environment sets: `None` if the variable is not set.
///
/// # Errors
/// As [`parse_launch_limit`].
pub fn launch_limit_of_environment() -> Result<Option<Option<Duration>>> {
    match std::env::var(LAUNCH_LIMIT_VARIABLE) {
        Ok(text) if !text.trim().is_empty() => parse_launch_limit(&text).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_units() {
        let of = |text| parse_launch_limit(text).unwrap().map(|limit| limit.as_millis());
        assert_eq!(
            ["7", "7s", " 7s ", "250ms", "3m", "1h"].map(of),
            [7000, 7000, 7000, 250, 180_000, 3_600_000].map(Some)
        );
        assert_eq!(of("off"), None);
        for wrong in ["", "s", "0s", "-1s", "1.5s", "1 d", "1d", "999999999999999999h", "Off"] {
            let error = parse_launch_limit(wrong).unwrap_err().to_string();
            assert!(error.contains("KILN_LAUNCH_LIMIT=30s"), "{wrong}: {error}");
        }
    }
}

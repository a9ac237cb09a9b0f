//! How many bytes of programs the disk cache keeps.

use kiln_backend::{Error, Result};

/// The environment variable that sets the limit: `2GB`, `500MiB`, or `off`.
const VARIABLE: &str = "KILN_CACHE_SIZE";

/// What is kept if nothing else is said: 4 GiB, which is thousands of programs.
pub(super) const DEFAULT: u64 = 4 << 30;

/// Reads a size: a whole number with a unit (`kB`, `MB`, `GB`, `TB` of powers of 1000, `KiB`,
/// `MiB`, `GiB`, `TiB` of powers of 1024, `B` or none for bytes), or `off` for no limit.
///
/// ```
/// use kiln_runtime::parse_cache_size;
/// assert_eq!(parse_cache_size("2GB")?, Some(2_000_000_000));
/// assert_eq!(parse_cache_size("512 MiB")?, Some(512 << 20));
/// assert_eq!(parse_cache_size("off")?, None);
/// assert!(parse_cache_size("plenty").is_err());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// # Errors
/// [`Error::Unavailable`] that says what may be written, for any other text.
pub fn parse_cache_size(text: &str) -> Result<Option<u64>> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: Option<u64> = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kb" => Some(1000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        "tb" => Some(1_000_000_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        "tib" => Some(1 << 40),
        _ => None,
    };
    let number = digits.trim_end().parse::<u64>().ok();
    let size = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    size.map(Some).ok_or_else(|| Error::Unavailable {
        device: "the size of the disk cache".into(),
        reason: format!("`{text}` is no number of bytes"),
        hint: format!("Write {VARIABLE}=2GB, with kB, MB, GB, KiB, MiB or GiB, or {VARIABLE}=off."),
    })
}

/// The limit that the environment sets, or the default.
///
/// # Errors
/// As [`parse_cache_size`].
pub(super) fn of_environment() -> Result<Option<u64>> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => parse_cache_size(&text),
        _ => Ok(Some(DEFAULT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let of = |text| parse_cache_size(text).unwrap().unwrap();
        assert_eq!(["7", "7B", " 7 kb ", "7KiB", "0"].map(of), [7, 7, 7000, 7168, 0]);
        assert_eq!(["3MB", "3MiB", "3TB", "3tib"].map(of), [3_000_000, 3 << 20, 3_000_000_000_000, 3 << 40]);
        assert_eq!(parse_cache_size("OFF").unwrap(), None);
    }

    #[test]
    fn other_texts_say_what_to_write() {
        for text in ["", "-1GB", "1.5GB", "GB", "2 apples", "99999999999TB", "１GB"] {
            let error = parse_cache_size(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("KILN_CACHE_SIZE=2GB"), "{error}");
        }
    }
}

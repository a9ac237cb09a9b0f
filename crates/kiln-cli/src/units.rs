//! Numbers for people.

/// A number of bytes in the largest binary unit of which there is at least one.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (n.max(1).ilog2() / 10).min(4);
    let value = n as f64 / f64::from(1u32 << 10).powi(unit as i32);
    let digits = usize::from(unit > 0 && value.fract() >= 0.05 && value < 99.95);
    format!("{value:.digits$} {}", UNITS[unit as usize])
}

/// A count with its noun, which takes an `s` unless there is one.
pub fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_the_largest_unit() {
        let cases = [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (50 << 20, "50 MiB"),
            (150_754_820_096, "140 GiB"),
            (u64::MAX, "16777216 TiB"),
        ];
        for (n, text) in cases {
            assert_eq!(bytes(n), text);
        }
        assert_eq!((count(1, "core"), count(2, "core")), ("1 core".into(), "2 cores".into()));
    }
}

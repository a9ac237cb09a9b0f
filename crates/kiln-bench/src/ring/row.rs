//! Results: for people, and as JSON.

use kiln_runtime::Device;
use serde_json::{Value, json};

/// A row: latencies of single messages, or a rate, and what else was seen.
pub struct Row {
    name: String,
    transport: String,
    /// Sorted.
    times_us: Vec<f64>,
    per_second: Option<f64>,
    more: Value,
}

impl Row {
    /// Latencies.
    pub fn times(name: &str, transport: &str, mut times_us: Vec<f64>) -> Row {
        times_us.sort_unstable_by(f64::total_cmp);
        let (name, transport) = (name.to_owned(), transport.to_owned());
        Row { name, transport, times_us, per_second: None, more: Value::Null }
    }

    /// A rate.
    pub fn rate(name: &str, transport: &str, per_second: f64) -> Row {
        Row { per_second: Some(per_second), ..Row::times(name, transport, Vec::new()) }
    }

    /// The same with an object of what else was seen.
    pub fn with(self, more: Value) -> Row {
        Row { more, ..self }
    }

    /// What went wrong.
    pub fn wrong(&self) -> Option<String> {
        if let Some(wrong) = self.more.get("wrong").and_then(Value::as_str) {
            return Some(format!("{}: {wrong}", self.name));
        }
        let lost = self.more.get("lost").and_then(Value::as_u64).filter(|lost| *lost > 0)?;
        Some(format!("{}: {lost} messages have no answer", self.name))
    }

    /// The time in microseconds that a fraction of all times does not exceed; of a row that keeps
    /// no times, what it says itself.
    fn quantile(&self, fraction: f64, key: &str) -> Option<f64> {
        let at = (self.times_us.len() as f64 * fraction) as usize;
        let time = self.times_us.get(at.min(self.times_us.len().saturating_sub(1))).copied();
        time.or_else(|| self.more.get(key)?.as_f64())
    }

    fn quantiles(&self) -> [Option<f64>; 3] {
        [(0.5, "p50_us"), (0.99, "p99_us"), (0.999, "p999_us")].map(|(at, key)| self.quantile(at, key))
    }

    /// The row in the form of `bench/results`.
    pub fn json(&self, device: &Device, commit: &str, date: &str) -> Value {
        let mut row = json!({
            "name": self.name, "device": device.properties().name, "commit": commit, "date": date,
            "transport": self.transport, "p50_us": null, "p99_us": null, "p999_us": null,
            "msgs_per_s": self.per_second,
            "histogram_us": histogram(&self.times_us),
        });
        if let (Some(row), Some(more)) = (row.as_object_mut(), self.more.as_object()) {
            row.extend(more.clone());
        }
        for (key, time) in ["p50_us", "p99_us", "p999_us"].into_iter().zip(self.quantiles()) {
            row[key] = json!(time);
        }
        row
    }
}

/// How many times fall below each of the bounds 0.1, 0.2, … microseconds, as far as there are any:
/// `[bound, count]` for each that has some.
fn histogram(sorted: &[f64]) -> Vec<(f64, usize)> {
    let mut counts: Vec<(f64, usize)> = Vec::new();
    for time in sorted {
        let bound = ((time * 10.0).floor() + 1.0) / 10.0;
        match counts.last_mut() {
            Some((last, count)) if *last == bound => *count += 1,
            _ => counts.push((bound, 1)),
        }
    }
    counts
}

impl Row {
    /// The head of a table of rows.
    pub fn head() -> String {
        format!("{:28} {:8} {:>9} {:>9} {:>9} {:>14}", "row", "through", "p50", "p99", "p99.9", "messages/s")
    }

    /// The row's line of the table.
    pub fn line(&self) -> String {
        let [p50, p99, p999] =
            self.quantiles().map(|time| time.map_or(String::new(), |time| format!("{time:.2} us")));
        let rate = match self.per_second {
            None => String::new(),
            Some(many) if many >= 1e6 => format!("{:.2} M", many / 1e6),
            Some(few) => format!("{few:.0}"),
        };
        format!("{:28} {:8} {p50:>9} {p99:>9} {p999:>9} {rate:>14}", self.name, self.transport)
    }

    /// What else the row says, a line each.
    pub fn more_lines(&self) -> impl Iterator<Item = String> {
        // A line for each second, or a number for each slice, belongs into the file.
        let shown = |key: &str| !["each_second", "medians"].contains(&key) && !key.ends_with("_us");
        let more = self.more.as_object().into_iter().flatten();
        more.filter(move |(key, _)| shown(key)).map(|(key, value)| format!("{}: {key} = {value}", self.name))
    }
}

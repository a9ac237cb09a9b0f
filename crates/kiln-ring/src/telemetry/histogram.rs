//! Histograms of times.

use crate::wire::gauge::{self, bucket};
use std::fmt;

/// How often times of each size came up, in nanoseconds: buckets of equal relative width, of which
/// the bounds differ by at most an eighth.
///
/// Times of 2^32 ns (4.3 s) and more are counted in the last bucket, whose end is 2^32 ns. The
/// [sum](Self::sum_ns) has them in full.
///
/// ```
/// use kiln_ring::Histogram;
///
/// let mut times = Histogram::default();
/// (1..=1000).for_each(|ns| times.record(ns));
/// let median = times.quantile(0.5).expect("there are some");
/// assert!((500..=563).contains(&median), "{median}");
/// assert_eq!((times.count(), times.sum_ns()), (1000, 500_500));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; bucket::COUNT]>,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Box::new([0; bucket::COUNT]), sum_ns: 0 }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}

impl Histogram {
    /// The handling times among the gauges that a worker kept.
    pub(crate) fn of_gauges(words: &[u32]) -> Histogram {
        let sum_ns = u64::from(words[gauge::SUM]) | u64::from(words[gauge::SUM + 1]) << 32;
        let counts = &words[gauge::BUCKETS..gauge::WORDS];
        let mut histogram = Histogram { sum_ns, ..Histogram::default() };
        for (count, word) in histogram.counts.iter_mut().zip(counts) {
            *count = u64::from(*word);
        }
        histogram
    }

    /// Counts a time, in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket::of(ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The time in nanoseconds that this fraction of all times does not exceed, from 0 to 1: the
    /// last one of its bucket, so at most 2^32 - 1. `None` where there are no times.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let all = self.count();
        let rank = ((all as f64 * fraction).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reached).map(|at| bucket::end(at) - 1)
    }

    /// The buckets that are not empty: the time that all of a bucket are below, in nanoseconds, and
    /// how many there are. The last one, below 2^32 ns, has all longer times too.
    ///
    /// ```
    /// let mut times = kiln_ring::Histogram::default();
    /// (0..10).for_each(|_| times.record(3));
    /// assert_eq!(times.buckets().collect::<Vec<_>>(), [(4, 10)]); // ten below 4 ns
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (bucket::end(at), *n))
    }

    /// Adds the times of another one.
    ///
    /// ```
    /// use kiln_ring::Histogram;
    /// let (mut one, mut other) = (Histogram::default(), Histogram::default());
    /// one.record(100);
    /// other.record(100);
    /// other.record(5000);
    /// one.merge(&other);
    /// assert_eq!((one.count(), one.sum_ns()), (3, 5200));
    /// let counts: Vec<u64> = one.buckets().map(|(_, count)| count).collect();
    /// assert_eq!(counts, [2, 1]);
    /// assert!(one.buckets().zip([100, 5000]).all(|((end, _), time)| time < end && end <= time + time / 8 + 1));
    /// ```
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_hold_what_is_theirs() {
        let mut begin = 0;
        for at in 0..bucket::COUNT {
            let end = bucket::end(at);
            assert!(begin < end, "{at}");
            assert!(end - begin <= (begin / 8).max(1), "bucket {at} from {begin} to {end} is too wide");
            assert_eq!((bucket::of(begin), bucket::of(end - 1)), (at, at));
            begin = end;
        }
        assert_eq!((begin, bucket::of(u64::MAX)), (1 << 32, bucket::COUNT - 1));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut seed = 1u64;
        let mut times: Vec<u64> = (0..5000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 40) >> (seed % 20)
            })
            .collect();
        let mut histogram = Histogram::default();
        times.iter().for_each(|&time| histogram.record(time));
        times.sort_unstable();
        for fraction in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = ((5000.0 * fraction) as usize).clamp(1, 5000);
            let (exact, got) = (times[rank - 1], histogram.quantile(fraction).unwrap());
            assert!(exact <= got && got <= exact + exact / 8 + 1, "{fraction}: {exact} {got}");
        }
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.sum_ns()), (10_000, 2 * times.iter().sum::<u64>()));
        assert_eq!(twice.quantile(0.5), histogram.quantile(0.5));
    }

    #[test]
    fn no_times_have_no_quantiles() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}

//! Telemetry as files: what is written, when, and that nothing stays behind.

use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[ring_kernel(crate = kiln_ring)]
fn increment(_ctx: &RingCtx, m: u32) -> u32 {
    m + 1
}

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kiln-telemetry-{name}-{}", std::process::id()))
}

/// Every line of the format is a comment or a metric with labels and a number, each metric has its type, and the buckets of a histogram add up.
#[test]
fn the_text_is_of_the_prometheus_format() {
    let device = kiln_runtime::Device::open("interp").unwrap();
    let runtime = RingRuntime::new(&device).unwrap();
    let actor = runtime.launch(increment, RingConfig::default()).unwrap();
    actor.activate().unwrap();
    (0..64).for_each(|x| assert_eq!(actor.ask(x), Ok(Some(x + 1))));
    let text = runtime.telemetry().unwrap().to_prometheus();
    let mut buckets = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert!(["counter", "gauge", "histogram"].contains(&kind.split(' ').nth(1).unwrap()), "{line}");
            continue;
        }
        let (metric, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = metric.strip_suffix('}').unwrap().split_once('{').unwrap();
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {base} ")), "{line}");
        assert!(
            labels.split(',').all(|label| label.split_once("=\"").is_some_and(|(_, v)| v.ends_with('"')))
        );
        if name.ends_with("_bucket") {
            buckets.push(value);
        }
    }
    assert!(buckets.is_sorted() && buckets.last() == Some(&4.0), "{buckets:?}");
    assert!(text.contains("state=\"active\"} 1"), "{text}");
}

/// A collector that reads the files of several runtimes refuses a metric that comes twice with the same labels.
#[test]
fn runtimes_of_one_device_are_told_apart() {
    let device = kiln_runtime::Device::open("interp").unwrap();
    let mut seen = std::collections::HashSet::new();
    let launched = [(); 2].map(|()| {
        let runtime = RingRuntime::new(&device).unwrap();
        let actor = runtime.launch(increment, RingConfig::default().bands(2)).unwrap();
        (runtime, actor)
    });
    for (runtime, _) in &launched {
        for line in runtime.telemetry().unwrap().to_prometheus().lines().filter(|line| !line.starts_with('#'))
        {
            let (metric, _) = line.rsplit_once(' ').unwrap();
            assert!(seen.insert(metric.to_owned()), "{metric} comes twice");
        }
    }
}

#[test]
fn a_published_file_follows_the_actors_and_goes_with_its_publisher() {
    let device = kiln_runtime::Device::open("interp").unwrap();
    let runtime = RingRuntime::new(&device).unwrap();
    let directory = directory("follows");
    let publisher = runtime.publish(&directory, Duration::from_millis(5)).unwrap();
    let read = || std::fs::read_to_string(publisher.path()).unwrap();
    assert!(read().contains("kiln_ring_runtime_uptime_seconds") && !read().contains("actor="));
    let actor = runtime.launch(increment, RingConfig::default()).unwrap();
    actor.activate().unwrap();
    assert_eq!(actor.ask(1), Ok(Some(2)));
    let begun = Instant::now();
    while !read().contains("handler=\"increment\"} 1\n") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", read());
        std::thread::sleep(Duration::from_millis(2));
    }
    let path = publisher.path().to_owned();
    drop(publisher);
    assert!(!path.exists());
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_directory_that_cannot_be_is_an_error() {
    let device = kiln_runtime::Device::open("interp").unwrap();
    let runtime = RingRuntime::new(&device).unwrap();
    let file = directory("file");
    std::fs::write(&file, "").unwrap();
    assert!(runtime.publish(&file.join("below"), Duration::from_secs(1)).is_err());
    std::fs::remove_file(&file).unwrap();
}

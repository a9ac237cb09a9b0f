//! Telemetry as files: what is written, when, and that nothing is left behind.

use kiln_ring::{
    Actor, Channel, Checkpoint, Ending, Events, Outputs, Payload, Pool, Publisher, RingConfig, RingCtx,
    RingError, RingRuntime, Topic, ring_kernel,
};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[ring_kernel(crate = kiln_ring)]
fn increment(_ctx: &RingCtx, m: u32) -> u32 {
    m + 1
}

/// What has not come by then never comes, however busy the machine is.
const NEVER: Duration = Duration::from_secs(20 * 60);

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kiln-telemetry-{name}-{}", std::process::id()))
}

/// Every line of the format is a comment or a metric with labels and a number, each metric has its
/// type, and the buckets of a histogram add up.
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

/// A collector that reads the files of several runtimes refuses a metric that comes twice with the
/// same labels.
#[test]
fn runtimes_of_one_device_are_told_apart() {
    let device = kiln_runtime::Device::open("interp").unwrap();
    let mut seen = std::collections::HashSet::new();
    let launched = [(); 2].map(|()| {
        let runtime = RingRuntime::new(&device).unwrap();
        let actor = runtime.launch(increment, RingConfig::default().priorities(2)).unwrap();
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
        assert!(begun.elapsed() < NEVER, "{}", read());
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

/// What the log gets: level, target, and the fields as `name=value`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "kiln_ring"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[ring_kernel(crate = kiln_ring)]
fn refusing(_ctx: &RingCtx, x: u32) -> Result<u32, u32> {
    if x == 13 { Err(7) } else { Ok(x) }
}

/// The log gets every change, with the actor as a field of its own; what is troubling as a warning.
#[test]
fn changes_are_events_of_the_log() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let runtime = RingRuntime::new(&kiln_runtime::Device::open("interp").unwrap()).unwrap();
    let actor = runtime.launch(refusing, RingConfig::default()).unwrap();
    actor.activate().unwrap();
    actor.deactivate().unwrap();
    actor.reactivate().unwrap();
    assert!(actor.ask(13).is_err());
    actor.restart().unwrap();
    actor.terminate_with(Ending::Drain, NEVER).unwrap();
    let lines = log.0.lock().unwrap();
    // Other tests' actors are in the log too.
    let changes: Vec<&String> = lines.iter().filter(|line| line.contains("(refusing)")).collect();
    let wanted = [
        "INFO: is active",
        "INFO: is deactivated",
        "INFO: is active",
        "WARN: failed on message 0: the handler returned the error 7",
        "INFO: was restarted, 1 times in all",
        "INFO: is draining",
        "INFO: is terminated",
    ];
    assert_eq!(changes.len(), wanted.len(), "{changes:?}");
    for (line, wanted) in changes.iter().zip(wanted) {
        let (level, text) = wanted.split_once(": ").unwrap();
        let message = format!("message=actor 0 (refusing) {text}");
        assert!(line.starts_with(level) && line.contains(&message) && line.contains(" actor=0"), "{line}");
    }
}

/// What programs hold goes to other threads and is shared by them, and is seen where it is printed.
#[test]
fn handles_are_shared_and_printed() {
    fn shared<T: Send + Sync + Debug>() {}
    shared::<RingRuntime>();
    shared::<Actor<increment>>();
    shared::<Channel<u32, u32>>();
    shared::<Outputs<u32>>();
    shared::<Pool<increment>>();
    shared::<Topic<u32>>();
    shared::<Payload<f32>>();
    shared::<Checkpoint>();
    shared::<Events>();
    shared::<Publisher>();
    shared::<RingError>();
}

//! A heart's beats found by three actors in a row, on the device: the first filters an
//! electrocardiogram sample by sample, the second finds the beats, the third judges their rhythm.
//! The host sends samples to the first and receives beats from the third.
//!
//! The recording is real (`data/LICENSE.md`). What the actors find is compared with the same method
//! on the host, in double precision.
//!
//! ```text
//! cargo run --release --example ecg
//! KILN_DEVICE=cuda:0 cargo run --release --example ecg
//! ```

mod actors;
mod recording;
mod reference;

use actors::{Report, Sample};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::ring::{Actor, RingConfig, RingRuntime, WaitPolicy};
use kiln::{Device, Execution};
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Finds the beats of a recorded heart by a pipeline of resident actors.
#[derive(Parser)]
struct Options {
    /// How many of the recording's samples are sent [default: all 108000; to the interpreter 3600].
    #[arg(long)]
    samples: Option<usize>,
}

/// Longer than any message takes.
const SOON: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    let mut samples = recording::samples()?;
    let all = if device.capabilities().is_interpreted() { 3600 } else { samples.len() };
    samples.truncate(options.samples.unwrap_or(all));
    let want = reference::reports(&samples);
    println!(
        "{} samples, {:.1} s of an electrocardiogram, on {} ({})",
        samples.len(),
        samples.len() as f64 / recording::RATE,
        device.id(),
        device.properties().name
    );

    let runtime = RingRuntime::new(&device)?;
    // To spin takes a core for itself, of which a device that is the processor may need every one.
    let wait = if device.capabilities().execution == Execution::Simd {
        WaitPolicy::default()
    } else {
        WaitPolicy::SPIN
    };
    let pipeline = Pipeline::new(&runtime, wait)?;
    let (one_by_one, mut latencies) = pipeline.paced(&samples, &want)?;
    latencies.sort_by(f64::total_cmp);
    let quantile =
        |q: f64| latencies.get(((latencies.len().max(1) - 1) as f64 * q) as usize).copied().unwrap_or(0.0);
    println!(
        "from sending the sample that decides a beat to the judge's report: {:.2} us p50, {:.2} us p99, through three actors",
        quantile(0.5),
        quantile(0.99)
    );

    let pipeline = Pipeline::new(&runtime, wait)?;
    let start = Instant::now();
    let at_once = pipeline.flooded(&samples, want.len())?;
    let took = start.elapsed().as_secs_f64();
    println!("all at once: {:.0} samples a second", samples.len() as f64 / took);

    let judged = |kind| one_by_one.iter().filter(|report| report.kind == kind).count();
    println!(
        "{} beats: {} in rhythm, {} premature, {} late",
        one_by_one.len(),
        judged(actors::IN_RHYTHM),
        judged(actors::PREMATURE),
        judged(actors::LATE)
    );
    let agree = same(&one_by_one, &want) && same(&at_once, &want);
    println!("beats as the reference has them: {}", if agree { "yes, every one" } else { "no" });
    if agree { Ok(()) } else { Err("the beats differ from the reference".into()) }
}

/// Whether the same beats were found, and judged alike.
fn same(got: &[Report], want: &[Report]) -> bool {
    got.len() == want.len()
        && got
            .iter()
            .zip(want)
            .all(|(a, b)| a.sample == b.sample && a.interval == b.interval && a.kind == b.kind)
}

/// The three actors.
struct Pipeline {
    filter: Actor<actors::filter>,
    _detector: Actor<actors::detector>,
    judge: Actor<actors::judge>,
}

impl Pipeline {
    /// From the last actor to the first: each gets the address of the next one.
    fn new(runtime: &RingRuntime, wait: WaitPolicy) -> Result<Pipeline, Box<dyn Error>> {
        let config = || RingConfig::default().capacity(1024).wait(wait);
        let judge = runtime.launch(actors::judge, config().state(actors::Judge::default()))?;
        let beats = judge.inbound_link(64)?;
        let detector = runtime.launch(actors::detector, config().state(actors::Detector::new(beats)))?;
        let points = detector.inbound_link(1024)?;
        let filter = runtime.launch(actors::filter, config().state(actors::Filter::new(points)))?;
        judge.activate()?;
        detector.activate()?;
        filter.activate()?;
        Ok(Pipeline { filter, _detector: detector, judge })
    }

    /// Sends a sample at a time, once the one before is filtered, and waits for the report where
    /// there is one to come. Gives how long that took, in microseconds, for each.
    fn paced(&self, samples: &[f32], want: &[Report]) -> Result<(Vec<Report>, Vec<f64>), Box<dyn Error>> {
        let (mut reports, mut latencies) = (Vec::new(), Vec::new());
        let bar = ProgressBar::new(samples.len() as u64)
            .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} samples, {eta} left")?);
        let mut decisive = want.iter().map(|report| report.decided as usize).peekable();
        for (number, &value) in samples.iter().enumerate() {
            let start = Instant::now();
            self.filter.send(Sample { number: number as u32, value })?;
            if decisive.next_if_eq(&number).is_some() {
                reports.push(self.judge.outputs().recv_timeout(SOON)?);
                latencies.push(start.elapsed().as_secs_f64() * 1e6);
            }
            // As from a sensor, the next sample comes when this one has long been filtered.
            while self.filter.channel().unanswered() > 0 {
                // There is no reply. This call lets a device run that does not run by itself.
                self.filter.channel().tidy();
                if start.elapsed() > SOON {
                    return Err(format!("sample {number} was not filtered in {SOON:?}").into());
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok((reports, latencies))
    }

    /// Sends all samples as fast as there is room, and takes the reports.
    fn flooded(&self, samples: &[f32], beats: usize) -> Result<Vec<Report>, Box<dyn Error>> {
        let mut reports = Vec::new();
        for (first, part) in samples.chunks(256).enumerate() {
            let number = |i: usize| (first * 256 + i) as u32;
            let part: Vec<Sample> =
                part.iter().enumerate().map(|(i, &value)| Sample { number: number(i), value }).collect();
            self.filter.send_many(&part)?;
            while let Ok(report) = self.judge.outputs().try_recv() {
                reports.push(report);
            }
        }
        while reports.len() < beats {
            reports.push(self.judge.outputs().recv_timeout(SOON)?);
        }
        Ok(reports)
    }
}

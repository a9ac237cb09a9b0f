//! `kiln fuzz`: random kernels on a device, compared with the interpreter.
//!
//! | file | holds |
//! |---|---|
//! | `worker.rs` | the process that runs kernels |
//! | `lost.rs` | making a kernel smaller that ended its process |
//!
//! Kernels run in processes of their own: what a wrong one does to a GPU ends the context, and with
//! it the process. The next one goes on behind that kernel.

mod lost;
mod worker;

use crate::failure::Failure;
use kiln_fuzz::Mode;
use kiln_fuzz::generate::generate;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a process may be at one kernel, which is small: longer than the compiler takes on a
/// loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs random kernels on a device and compares their results with the interpreter.
///
/// A kernel that differs is reduced and printed as IR text with its grid and arguments. Those that
/// the device refuses are counted by what it lacks. The last line is `N kernels, N differ`, and the
/// exit status is 1 if any differs. A seed gives the same kernel on every machine.
#[derive(clap::Args)]
pub struct Args {
    /// The device: cuda:0, cpu, interp, interp:7 (threads in the order of seed 7), or
    /// interp:gpu-code (the code for GPUs on the interpreter, once with threads in lockstep and
    /// once in a random order; its PTX is written too, and if KILN_PTXAS names NVIDIA's assembler,
    /// it must accept it) [default: KILN_DEVICE, else the best one here]
    #[arg(long, short)]
    device: Option<String>,
    /// Stops after this many seconds [default: 60 if --kernels is not given]
    #[arg(long)]
    seconds: Option<u64>,
    /// Stops after this many kernels.
    #[arg(long)]
    kernels: Option<u64>,
    /// The number of processes that run kernels [default: one for each processor core]
    #[arg(long, short, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// The seed of the first kernel; each next kernel has the next seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The kind of kernels: tile, thread, fault_regions, powers, faults, prints, stores, storage;
    /// can be given several times [default: all, in turn]
    #[arg(long, value_parser = parse_mode)]
    mode: Vec<Mode>,
    /// Runs the kernel of a file, in the form that this command prints, in place of random ones;
    /// can be given several times.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "kernels", "mode"])]
    replay: Vec<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Runs every K-th of N parts, from a kernel on, in this process.
    #[arg(long, hide = true, value_parser = worker::parse)]
    worker: Option<worker::Part>,
}

fn parse_mode(name: &str) -> Result<Mode, String> {
    let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
    Mode::from_name(name).ok_or_else(|| format!("a mode is one of {}", names.join(", ")))
}

impl Args {
    fn modes(&self) -> &[Mode] {
        if self.mode.is_empty() { &Mode::ALL } else { &self.mode }
    }

    /// The mode and the seed of a kernel, by its number.
    fn kernel(&self, number: u64) -> (Mode, u64) {
        let seed = self.seed.wrapping_add(number);
        let modes = self.modes();
        // By the seed, so that a campaign that begins later has the same kernels.
        let turn = seed % modes.len() as u64;
        (modes[turn as usize], seed)
    }
}

/// A kernel that differs, as it is printed.
#[derive(Clone)]
struct Found {
    mode: Mode,
    seed: u64,
    difference: String,
    /// Its text.
    kernel: String,
}

#[derive(Default)]
struct Campaign {
    kernels: u64,
    /// By number. What a smaller kernel shows replaces what the whole one did.
    found: BTreeMap<u64, Found>,
    /// How many kernels the device refused, by what it lacks.
    refused: BTreeMap<String, u64>,
    /// Whether kernels are those for GPUs, as the processes say.
    gpu: bool,
    failed: Option<Failure>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(part) = args.worker {
        return worker::run(args, part);
    }
    let device = match &args.device {
        Some(name) => name.clone(),
        None => crate::device::open(None)?.id().to_owned(),
    };
    if !args.replay.is_empty() {
        return worker::replay(&device, &args.replay, args.json);
    }
    // A name that is none, or a device that is not there, is better said once than by every
    // process.
    worker::check(&device)?;
    let seconds = args.seconds.or(args.kernels.is_none().then_some(60));
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let jobs = args.jobs.unwrap_or_else(cores).min(args.kernels.unwrap_or(u64::MAX)).max(1);
    let started = Instant::now();
    let end = seconds.map(|seconds| started + Duration::from_secs(seconds));
    let campaign = Mutex::new(Campaign::default());
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (campaign, device) = (&campaign, &device);
            scope.spawn(move || {
                if let Err(failure) = supervise(args, device, (job, jobs), end, campaign) {
                    lock(campaign).failed.get_or_insert(failure);
                }
            });
        }
    });
    clear_progress();
    let campaign = campaign.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = campaign.failed {
        return Err(failure);
    }
    let differ = campaign.found.len();
    if args.json {
        let found: Vec<Value> = campaign.found.values().map(to_json).collect();
        let seconds = started.elapsed().as_secs_f64();
        let all = json!({ "device": device, "kernels": campaign.kernels, "differ": differ,
            "refused": campaign.refused, "seconds": seconds, "found": found });
        writeln!(stdout(), "{all:#}")?;
    } else {
        print_refused(&campaign.refused)?;
        writeln!(stdout(), "{} kernels, {differ} differ", campaign.kernels)?;
    }
    if differ > 0 { Err(Failure::Reported) } else { Ok(()) }
}

fn lock(campaign: &Mutex<Campaign>) -> MutexGuard<'_, Campaign> {
    campaign.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps one process at work until the end.
fn supervise(
    args: &Args,
    device: &str,
    (job, jobs): (u64, u64),
    end: Option<Instant>,
    campaign: &Mutex<Campaign>,
) -> Result<(), Failure> {
    let mut next = job;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) || args.kernels.is_some_and(|all| next >= all) {
            return Ok(());
        }
        let part = worker::Part { next, step: jobs };
        let mut child = spawn(args, device, part, left)?;
        let (at, ended) = listen(args, device, &mut child, campaign)?;
        let status = child.wait()?;
        if ended {
            return Ok(());
        }
        let Some(at) = at else {
            return Err(Failure::Wrong(format!("a process ended before its first kernel: {status}")));
        };
        // A kernel that is being reduced has been reported already.
        let (lost, gpu) = {
            let campaign = lock(campaign);
            (!campaign.found.contains_key(&at), campaign.gpu)
        };
        if lost {
            let (mode, seed) = args.kernel(at);
            let whole = generate(seed, &mode.options(seed, gpu));
            let difference = format!("the process that ran it ended, or hung: {status}");
            let found = Found { mode, seed, difference, kernel: whole.to_string() };
            note(at, found.clone(), args, device, campaign)?;
            let kernel = lost::reduced(device, &whole).to_string();
            if kernel != found.kernel {
                note(at, Found { kernel, ..found }, args, device, campaign)?;
            }
        }
        next = at + jobs;
    }
}

fn spawn(args: &Args, device: &str, part: worker::Part, left: Option<Duration>) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["fuzz", "--device", device, "--worker", &part.to_string()]);
    command.args(["--seed", &args.seed.to_string()]);
    args.modes().iter().for_each(|mode| {
        command.args(["--mode", mode.name()]);
    });
    if let Some(kernels) = args.kernels {
        command.args(["--kernels", &kernels.to_string()]);
    }
    if let Some(left) = left {
        command.args(["--seconds", &left.as_secs().max(1).to_string()]);
    }
    // The driver would keep the machine code of every kernel on disk.
    command.env("CUDA_CACHE_DISABLE", "1");
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
}

/// Takes what a process says; gives the kernel it was at, and whether it came to its end.
fn listen(
    args: &Args,
    device: &str,
    child: &mut Child,
    campaign: &Mutex<Campaign>,
) -> Result<(Option<u64>, bool), Failure> {
    let Some(output) = child.stdout.take() else { return Ok((None, false)) };
    let (said, hear) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if said.send(line).is_err() {
                    break;
                }
            }
        });
        let heard = take_lines(args, device, &hear, campaign);
        // It has ended, or it hangs, in a kernel or in the driver on its way out: the lines end
        // with it.
        let _ = child.kill();
        heard
    })
}

fn take_lines(
    args: &Args,
    device: &str,
    lines: &Receiver<String>,
    campaign: &Mutex<Campaign>,
) -> Result<(Option<u64>, bool), Failure> {
    let mut at = None;
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        match line.split_once(' ') {
            Some(("at", number)) => {
                at = number.parse().ok();
                let mut campaign = lock(campaign);
                campaign.kernels += 1;
                progress(&campaign, args);
            }
            Some(("gpu", said)) => lock(campaign).gpu = said == "true",
            Some(("refused", what)) => *lock(campaign).refused.entry(what.to_owned()).or_default() += 1,
            Some(("found", text)) => {
                let value: Value = serde_json::from_str(text).unwrap_or_default();
                let Some(number) = at else { continue };
                let (mode, seed) = args.kernel(number);
                let found = Found {
                    mode,
                    seed,
                    difference: value["difference"].as_str().unwrap_or_default().to_owned(),
                    kernel: value["kernel"].as_str().unwrap_or_default().to_owned(),
                };
                note(number, found, args, device, campaign)?;
            }
            _ if line == "end" => return Ok((at, true)),
            _ => {}
        }
    }
    Ok((at, false))
}

/// Keeps what a kernel shows, and prints it at once: who waits for a long campaign, or stops it,
/// has seen what there was.
fn note(
    number: u64,
    found: Found,
    args: &Args,
    device: &str,
    campaign: &Mutex<Campaign>,
) -> std::io::Result<()> {
    let mut campaign = lock(campaign);
    if !args.json {
        clear_progress();
        print(&found, device)?;
    }
    campaign.found.insert(number, found);
    Ok(())
}

fn print_refused(refused: &BTreeMap<String, u64>) -> std::io::Result<()> {
    refused.iter().try_for_each(|(what, count)| writeln!(stdout(), "{count} refused, for want of {what}"))
}

fn print(found: &Found, device: &str) -> std::io::Result<()> {
    let Found { mode, seed, difference, kernel } = found;
    let mode = mode.name();
    writeln!(stdout(), "; {difference}")?;
    writeln!(stdout(), "; kiln fuzz --device {device} --mode {mode} --seed {seed} --kernels 1")?;
    writeln!(stdout(), "{kernel}")
}

fn to_json(found: &Found) -> Value {
    let Found { mode, seed, difference, kernel } = found;
    json!({ "mode": mode.name(), "seed": seed, "difference": difference, "kernel": kernel })
}

/// Shows how far it is, where someone may be watching.
fn progress(campaign: &Campaign, args: &Args) {
    if campaign.kernels.is_multiple_of(64) && stderr().is_terminal() {
        let all = args.kernels.map_or_else(String::new, |all| format!(" of {all}"));
        let differ = campaign.found.len();
        let _ = write!(stderr(), "\r\x1b[K{}{all} kernels, {differ} differ", campaign.kernels);
    }
}

fn clear_progress() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}

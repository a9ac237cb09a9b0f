//! Loses a device for real, and prints how long it takes until that is known.
//!
//! `loss_check [DEVICE] hang` has a handler that never ends; `loss_check [DEVICE] trap` has one
//! that stores far outside its block's memory, which only a GPU survives: a CPU's process ends with
//! it. Then actors come back from their checkpoints: after `hang` on the same device, after `trap`
//! on the CPU, or on the same device where that is in a process of its own (`isolated:cuda:0`).

use kiln_lang::prelude::*;
use kiln_ring::{Actor, Ending, RingConfig, RingCtx, RingRuntime, RuntimeConfig, WaitPolicy, ring_kernel};
use kiln_runtime::Device;
use std::error::Error;
use std::time::{Duration, Instant};

/// Adds, but for two numbers: 13 is stored where there is no memory, and 14 never ends.
#[ring_kernel(crate = kiln_ring)]
fn dangerous(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    let scratch = shared::<u32, 1>([32]);
    if x == 13 {
        // SAFETY: there is none. This is the fault that the program is about.
        unsafe { scratch.set_ordered_unchecked(x << 26, x, Order::Relaxed, Scope::Device) };
    }
    let mut n: Val<u32> = 0;
    while x == 14 {
        n += 1;
    }
    *total += x + n;
    *total
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    kiln_runtime::isolate::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, fault) = match arguments.as_slice() {
        [fault] => (Device::default()?, fault.as_str()),
        [device, fault] => (Device::open(device)?, fault.as_str()),
        _ => return Err("give a device and a fault: `loss_check cuda:0 trap`".into()),
    };
    let config =
        RuntimeConfig { step_budget: 0, stalled_after: Duration::from_secs(1), ..RuntimeConfig::default() };
    let runtime = RingRuntime::with(&device, config)?;
    let events = runtime.events();
    let actor = runtime.launch(dangerous, RingConfig::default().state(100))?;
    let idle = runtime.launch(dangerous, RingConfig::default().state(7))?;
    actor.activate()?;
    idle.activate()?;
    for x in 1..=3 {
        actor.ask(x)?;
    }
    actor.checkpoint()?;
    idle.checkpoint()?;

    if fault == "hang" {
        // Whatever the handler does, whoever ends the actor hears of it in time.
        let held = runtime.launch(dangerous, RingConfig::default().state(0))?;
        held.activate()?;
        held.send(14)?;
        let begun = Instant::now();
        let ended = held.terminate_with(Ending::Discard, Duration::from_millis(100));
        println!("termination with 100 ms ended after {:?}: {ended:?}", begun.elapsed());
        std::mem::forget(held);
    }
    let poison = if fault == "trap" { 13 } else { 14 };
    let begun = Instant::now();
    let asked = actor.ask(poison);
    println!("{fault}: the request ended after {:?}: {}", begun.elapsed(), said(asked));
    let begun = Instant::now();
    println!("a request to the other actor: {} after {:?}", said(idle.ask(1)), begun.elapsed());
    // A store that traps may be answered before the device stops.
    while !runtime.is_lost() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_micros(100));
    }
    println!("known {:?} later; states: {} and {}", begun.elapsed(), actor.lifecycle(), idle.lifecycle());
    while let Some(event) = events.try_next() {
        println!("event: {event}");
    }
    if !runtime.is_lost() {
        return Err("nothing was lost".into());
    }

    let begun = Instant::now();
    let again = match runtime.recover() {
        Ok(again) => again,
        Err(refused) => {
            println!("the same device: {refused}");
            runtime.recover_on(&Device::open("cpu")?)?
        }
    };
    go_on(&again, &actor, 106)?;
    go_on(&again, &idle, 7)?;
    println!("both went on from their checkpoints, {:?} after recovery began", begun.elapsed());
    let begun = Instant::now();
    drop((actor, idle, runtime));
    println!("the lost runtime was dropped in {:?}", begun.elapsed());
    round_trips(&again)?;
    Ok(())
}

/// What a request costs in the runtime that came after.
fn round_trips(runtime: &RingRuntime) -> Outcome<()> {
    let actor = runtime.launch(dangerous, RingConfig::default().state(0).wait(WaitPolicy::SPIN))?;
    actor.activate()?;
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let begun = Instant::now();
        actor.ask(0)?;
        times.push(begun.elapsed());
    }
    times.sort();
    println!("round trips there: {:?} p50, {:?} p99", times[times.len() / 2], times[times.len() * 99 / 100]);
    Ok(())
}

fn said<E: std::fmt::Display>(asked: Result<Option<u32>, E>) -> String {
    asked.map_or_else(|error| error.to_string(), |reply| format!("{reply:?}"))
}

fn go_on(runtime: &RingRuntime, lost: &Actor<dangerous>, total: u32) -> Outcome<()> {
    let back = runtime.bring_back(lost)?;
    back.activate()?;
    let reply = back.ask(5)?;
    if reply != Some(total + 5) {
        return Err(format!("it answered {reply:?} instead of {}", total + 5).into());
    }
    Ok(())
}

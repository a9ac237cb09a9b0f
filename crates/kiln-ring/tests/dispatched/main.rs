//! Ring kernels on a device that runs them in dispatches: an adapter of Vulkan, Metal or DX12.
//! Without one the tests are counted as ignored.

use kiln_backend::Residency;
use kiln_ring::{
    Actor, Address, AskError, Ending, Handler, Message, Reason, RecvError, RingConfig, RingCtx, RingError,
    RingRuntime, RuntimeConfig, SendOptions, State, Transport, ring_kernel,
};
use kiln_runtime::Device;
use libtest_mimic::{Arguments, Trial};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

/// What has not come by then never comes, however busy the machine is.
const NEVER: Duration = Duration::from_secs(20 * 60);

type Test = (&'static str, fn(&Device) -> Outcome);

fn main() -> ExitCode {
    let missing = Device::open("wgpu").is_err();
    if missing {
        eprintln!("no Vulkan adapter: install Mesa's CPU driver (mesa-vulkan-drivers) to run these tests");
    }
    let trial = |&(name, test): &Test| {
        let run = move || {
            let device = Device::open("wgpu").map_err(|error| error.to_string())?;
            test(&device).map_err(|error| error.to_string().into())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    };
    let tests: &[Test] = &[
        ("requests_are_answered", requests_are_answered),
        ("messages_are_handled_while_nobody_waits", messages_are_handled_while_nobody_waits),
        ("an_endless_exchange_holds_up_nobody", an_endless_exchange_holds_up_nobody),
        ("more_than_a_dispatch_does", more_than_a_dispatch_does),
        ("failures_name_their_line", failures_name_their_line),
        ("deadlines_pass", deadlines_pass),
        ("grids_change_under_load", grids_change_under_load),
        ("what_there_is_not_is_refused", what_there_is_not_is_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit_code()
}

fn runtime(device: &Device) -> Result<RingRuntime, RingError> {
    let config = RuntimeConfig { acknowledge_within: NEVER, ..RuntimeConfig::default() };
    RingRuntime::with(device, config.workers(2).endpoints_per_worker(8))
}

fn active<H: Handler>(
    runtime: &RingRuntime,
    handler: H,
    config: RingConfig<H::State>,
) -> Result<Actor<H>, RingError> {
    let actor = runtime.launch(handler, config)?;
    actor.activate()?;
    Ok(actor)
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what().into()) }
}

#[derive(Message, Clone, Copy, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Step {
    at: u64,
    by: [u32; 9],
}

#[ring_kernel(crate = kiln_ring)]
fn sums(_ctx: &RingCtx, sum: &mut u64, m: Step) -> Step {
    let mut step = m;
    for by in m.by {
        *sum += by.cast::<u64>();
    }
    step.at = *sum;
    step
}

#[ring_kernel(crate = kiln_ring)]
fn running_sum(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    *sum += x;
    *sum
}

#[ring_kernel(crate = kiln_ring)]
fn quotient(_ctx: &RingCtx, x: u32) -> u32 {
    100 / x
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Player {
    hits: u32,
    other: Address<u32>,
}

/// Returns what it gets, without an end.
#[ring_kernel(crate = kiln_ring)]
fn play(ctx: &RingCtx, s: &mut Player, x: u32) {
    s.hits += 1;
    ctx.send(&s.other, x + 1);
}

/// Messages of several quads, round and round a small ring, one by one and many at once.
fn requests_are_answered(device: &Device) -> Outcome {
    assert_eq!(device.properties().residency, Residency::Dispatched);
    let runtime = runtime(device)?;
    let actor = active(&runtime, sums, RingConfig::default().state(0).capacity(4))?;
    let step = |n: u32| Step { at: u64::from(n), by: std::array::from_fn(|i| n * 1000 + i as u32) };
    let mut sum = 0;
    for n in 0..40 {
        sum += step(n).by.iter().copied().map(u64::from).sum::<u64>();
        let want = Step { at: sum, by: step(n).by };
        let got = actor.ask(step(n))?;
        ensure(got == Some(want), || format!("{got:?} instead of {want:?}"))?;
    }
    let rest: Vec<Step> = (40..44).map(step).collect();
    actor.send_many(&rest)?;
    for sent in rest {
        sum += sent.by.iter().copied().map(u64::from).sum::<u64>();
        let got = actor.recv()?;
        ensure(got == Step { at: sum, by: sent.by }, || format!("{got:?}, not the sum {sum}"))?;
    }
    Ok(actor.terminate()?)
}

fn messages_are_handled_while_nobody_waits(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let actor = active(&runtime, running_sum, RingConfig::default().state(0))?;
    for x in 1..=10 {
        actor.send(x)?;
    }
    // Reading the state has nothing handled.
    while actor.telemetry()?.processed < 10 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let got = (0..10).map(|_| actor.try_recv()).collect::<Result<Vec<u32>, _>>()?;
    ensure(got == [1, 3, 6, 10, 15, 21, 28, 36, 45, 55], || format!("{got:?}"))
}

/// Two actors that send to each other for ever end no dispatch by themselves.
fn an_endless_exchange_holds_up_nobody(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let player = || RingConfig::default().state(Player { hits: 0, other: Address::none() });
    for same_worker in [true, false] {
        let a = runtime.launch(play, player())?;
        let config = if same_worker { player().beside(&a) } else { player() };
        let b = runtime.launch(play, config)?;
        a.set_state(Player { hits: 0, other: b.inbound_link(4)? })?;
        b.set_state(Player { hits: 0, other: a.inbound_link(4)? })?;
        a.activate()?;
        b.activate()?;
        a.send(1)?;
        let other = active(&runtime, running_sum, RingConfig::default().state(0))?;
        for n in 1..=20 {
            let got = other.ask(1)?;
            ensure(got == Some(n), || format!("{got:?} instead of {n}"))?;
        }
        // They go on while no caller waits.
        let before = b.state()?.hits;
        while b.state()?.hits == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        a.terminate_with(Ending::Discard, NEVER)?;
        b.terminate_with(Ending::Discard, NEVER)?;
    }
    Ok(())
}

/// As many messages as several dispatches handle.
fn more_than_a_dispatch_does(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let actor = active(&runtime, running_sum, RingConfig::default().state(0).capacity(4096))?;
    let messages: Vec<u32> = (0..4096).map(|n| n % 7).collect();
    let (mut sum, mut next) = (0, messages.iter());
    actor.send_many(&messages)?;
    for n in 0..4096 {
        sum += next.next().unwrap_or(&0);
        let got = actor.recv_timeout(NEVER)?;
        ensure(got == sum, || format!("{got} instead of {sum} for message {n}"))?;
    }
    Ok(())
}

fn failures_name_their_line(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let actor = active(&runtime, quotient, RingConfig::default())?;
    ensure(actor.ask(7)? == Some(14), || "100 / 7".to_owned())?;
    let Err(AskError::Unhandled { reason: Reason::Failed { .. }, why, .. }) = actor.ask(0) else {
        return Err("a division by zero was answered".into());
    };
    ensure(why.contains("division by zero") && why.contains("main.rs"), || why.to_string())
}

/// A message whose time is over when its turn comes is not handled.
fn deadlines_pass(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let actor = active(&runtime, running_sum, RingConfig::default().state(0).deadlines(true))?;
    let now = actor.device_clock()?;
    let late = actor.ask_with(1, SendOptions::default().deadline(now));
    let expired = matches!(late, Err(AskError::Unhandled { reason: Reason::Expired, .. }));
    ensure(expired, || format!("a message of the past: {late:?}"))?;
    let in_time = actor.ask_with(2, SendOptions::default().deadline(now + NEVER.as_nanos() as u64))?;
    ensure(in_time == Some(2), || format!("{in_time:?}"))
}

/// New kinds of actors, and links, come while messages are under way.
fn grids_change_under_load(device: &Device) -> Outcome {
    let runtime = runtime(device)?;
    let actor = active(&runtime, running_sum, RingConfig::default().state(0).capacity(256))?;
    let (mut sum, mut received) = (0, 0);
    let mut load = |actor: &Actor<running_sum>, receive: bool| -> Outcome {
        for x in 0..50 {
            actor.send(x)?;
        }
        while receive && received < 3 * 1225 {
            received = actor.recv_timeout(NEVER)?;
            sum += 1;
        }
        Ok(())
    };
    load(&actor, false)?;
    let quotients = active(&runtime, quotient, RingConfig::default())?;
    load(&actor, false)?;
    let player =
        active(&runtime, play, RingConfig::default().state(Player { hits: 0, other: actor_link(&actor)? }))?;
    ensure(quotients.ask(3)? == Some(33), || "100 / 3".to_owned())?;
    load(&actor, true)?;
    ensure(sum == 150, || format!("{sum} replies"))?;
    player.send(5)?;
    let output = actor.outputs().recv_timeout(NEVER)?;
    ensure(output == 3 * 1225 + 6, || format!("{output} after the messages of the host"))
}

fn actor_link(actor: &Actor<running_sum>) -> Result<Address<u32>, RingError> {
    actor.inbound_link(4)
}

fn what_there_is_not_is_refused(device: &Device) -> Outcome {
    let refused = RingRuntime::with(device, RuntimeConfig::default().warps(true));
    ensure(matches!(refused, Err(RingError::NoWarps { .. })), || format!("warps: {refused:?}"))?;
    let refused = RingRuntime::with(device, RuntimeConfig::default().transport(Transport::Bar));
    ensure(matches!(refused, Err(RingError::NoTransport { .. })), || format!("the BAR: {refused:?}"))?;
    let refused = RingRuntime::with(device, RuntimeConfig::default().clusters_of(2));
    ensure(matches!(refused, Err(RingError::NoClusters { .. })), || format!("clusters: {refused:?}"))?;
    let (here, there) = (runtime(device)?, runtime(device)?);
    let actor = active(&here, running_sum, RingConfig::default().state(0))?;
    let refused = actor.inbound_link_from(&there, 4).map(drop);
    ensure(matches!(refused, Err(RingError::OutOfReach { .. })), || format!("a link: {refused:?}"))?;
    let none = actor.recv();
    ensure(matches!(none, Err(RecvError::NothingSent { .. })), || format!("nothing to come: {none:?}"))
}

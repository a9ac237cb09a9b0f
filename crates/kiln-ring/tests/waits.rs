//! Calls without a limit return: every call that waits, in every state of an actor, on a device
//! that runs by itself and on one that runs while the host waits.
//!
//! No call here has a limit. A call that never returned would be found by [`STUCK`], which is not
//! needed where all is well.

use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, Address, AskError, Ending, Lifecycle, Restart, RingConfig, RingCtx, RingRuntime, Routing,
    RuntimeConfig, SendError, SendOptions, ring_kernel,
};
use kiln_runtime::{Device, Tensor};
use pollster::block_on;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// After so long a call is said not to return, however busy the machine is.
const STUCK: Duration = Duration::from_secs(20 * 60);

/// Answers odd numbers, handles even ones without a reply, and fails on 0.
#[ring_kernel(crate = kiln_ring)]
fn odd(_ctx: &RingCtx, x: u32) -> Option<u32> {
    let share = 100 / x;
    if share * 0 + x % 2 == 1 { Some(x) } else { None }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ActorState {
    Launched,
    Active,
    /// It has handled a message without a reply.
    Silent,
    Deactivated,
    /// A handler failed, and there is no policy.
    Failed,
    /// A handler failed more often than its policy allows.
    GivenUp,
    Terminated,
    /// It never says that it is: its channel was given up, as when the device is lost.
    Lost,
}

const STATES: [ActorState; 8] = [
    ActorState::Launched,
    ActorState::Active,
    ActorState::Silent,
    ActorState::Deactivated,
    ActorState::Failed,
    ActorState::GivenUp,
    ActorState::Terminated,
    ActorState::Lost,
];

fn actor(runtime: &RingRuntime, state: ActorState) -> Actor<odd> {
    let restart = match state {
        ActorState::GivenUp => Restart::OnFailure {
            at_most: 0,
            within: Duration::from_secs(60),
            backoff: kiln_ring::Backoff::NONE,
        },
        _ => Restart::Never,
    };
    let actor = runtime.launch(odd, RingConfig::default().capacity(1).restart(restart)).unwrap();
    // Its outputs have memory from the first inbound link on.
    actor.inbound_link(2).unwrap();
    if state != ActorState::Launched {
        actor.activate().unwrap();
    }
    match state {
        ActorState::Launched | ActorState::Active => {}
        ActorState::Silent => assert_eq!(actor.ask(2).unwrap(), None),
        ActorState::Deactivated => actor.deactivate().unwrap(),
        ActorState::Failed | ActorState::GivenUp => {
            actor.send(0).unwrap();
            while actor.lifecycle() != Lifecycle::Failed {
                actor.channel().tidy();
                let _ = actor.try_recv();
            }
        }
        ActorState::Terminated => actor.terminate_with(Ending::Drain, STUCK).unwrap(),
        ActorState::Lost => actor.channel().abandon(),
    }
    actor
}

/// A result in a word: the value, or the name of the error.
fn word<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => {
            let text = format!("{error:?}");
            text.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}

type Call = (&'static str, fn(&Actor<odd>) -> String);

/// Fills the queue, where it takes anything.
fn fill(actor: &Actor<odd>) {
    while actor.try_send(2).is_ok() && actor.lifecycle() != Lifecycle::Active {}
}

const ASKS: [Call; 4] = [
    ("ask", |a| word(a.ask(1))),
    ("ask_with", |a| word(a.ask_with(1, SendOptions::default()))),
    ("ask_timeout", |a| word(a.ask_timeout(1, Duration::MAX))),
    ("ask_async", |a| word(block_on(a.ask_async(&1)))),
];

const RECEIVES: [Call; 4] = [
    ("recv", |a| word(a.recv())),
    ("recv_many", |a| word(a.recv_many(4, &mut Vec::new()))),
    ("recv_async", |a| word(block_on(a.recv_async()))),
    ("recv_many_async", |a| word(block_on(a.recv_many_async(4, &mut Vec::new())))),
];

const SENDS: [Call; 4] = [
    ("send", |a| {
        fill(a);
        word(a.send(2).map(drop))
    }),
    ("send_many", |a| {
        fill(a);
        word(a.send_many(&[2, 2]).map(drop).map_err(|e| e.error))
    }),
    ("send_async", |a| {
        fill(a);
        word(block_on(a.send_async(&2)).map(drop))
    }),
    ("send_many_async", |a| {
        fill(a);
        word(block_on(a.send_many_async(&[2, 2])).map(drop).map_err(|e| e.error))
    }),
];

const OUTPUTS: [Call; 2] = [
    ("outputs.recv", |a| word(a.outputs().recv())),
    ("outputs.recv_many", |a| word(a.outputs().recv_many(4, &mut Vec::new()))),
];

/// What the calls of each kind give: asking, receiving, sending to a full queue, outputs.
fn wanted(state: ActorState) -> [&'static str; 4] {
    match state {
        ActorState::Launched | ActorState::Deactivated => ["NotActive"; 4],
        ActorState::Active | ActorState::Silent => ["Some(1)", "NothingSent", "()", "NothingSent"],
        ActorState::Failed => ["Failed", "Failed", "NotActive", "Failed"],
        ActorState::GivenUp | ActorState::Terminated => ["Send(Closed", "Closed", "Closed", "Closed"],
        ActorState::Lost => ["Send(Closed", "Closed", "Closed", "NothingSent"],
    }
}

/// Runs something that must return.
fn returns<T: Send + 'static>(what: String, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, returned) = mpsc::channel();
    std::thread::spawn(move || drop(done.send(call())));
    returned.recv_timeout(STUCK).unwrap_or_else(|_| panic!("{what} does not return within {STUCK:?}"))
}

fn runtimes() -> [(&'static str, RingRuntime); 2] {
    let config =
        RuntimeConfig { acknowledge_within: STUCK, ..RuntimeConfig::default() }.endpoints_per_worker(16);
    ["cpu", "interp"].map(|name| (name, RingRuntime::with(&Device::open(name).unwrap(), config).unwrap()))
}

#[test]
fn every_call_returns_in_every_state() {
    for (name, runtime) in runtimes() {
        for state in STATES {
            let calls = [&ASKS[..], &RECEIVES[..], &SENDS[..], &OUTPUTS[..]];
            for (calls, wanted) in calls.into_iter().zip(wanted(state)) {
                for &(call_name, call) in calls {
                    let actor = actor(&runtime, state);
                    let what = format!("{call_name} of an actor that is {state:?}, on {name}");
                    let got = returns(what.clone(), move || call(&actor));
                    assert_eq!(got, wanted, "{what}");
                }
            }
        }
    }
}

/// The state changes while a caller waits.
#[test]
fn waits_under_way_end() {
    type Change = (&'static str, fn(&Actor<odd>), [&'static str; 2]);
    let changes: [Change; 4] = [
        ("activated and failed", |a| a.activate().unwrap(), ["Failed", "Failed"]),
        ("activated and deactivated", |a| a.activate().unwrap(), ["Failed", "Failed"]),
        ("terminated", |a| a.terminate_with(Ending::Discard, STUCK).unwrap(), ["Unhandled", "Closed"]),
        ("given up", |a| a.channel().abandon(), ["Lost", "Lost"]),
    ];
    for (name, runtime) in runtimes() {
        for (change_name, change, wanted) in changes {
            let config = RingConfig::default().capacity(8);
            let actor = Arc::new(runtime.launch(odd, config).unwrap());
            // On the first it fails; the others are behind that.
            actor.activate().unwrap();
            actor.deactivate().unwrap();
            actor.send(0).unwrap();
            let failed = change_name.starts_with("activated");
            let receiver = Arc::clone(&actor);
            let waiting = std::thread::spawn(move || word(receiver.recv_timeout(Duration::MAX)));
            if failed {
                actor.reactivate().unwrap();
            } else {
                change(&actor);
            }
            let what = format!("a wait of an actor that is {change_name}, on {name}");
            let got = returns(what.clone(), move || waiting.join().unwrap());
            assert_eq!(got, wanted[1], "{what}");
            if failed {
                let asked = Arc::clone(&actor);
                assert_eq!(returns(what.clone(), move || word(asked.ask(1))), wanted[0], "{what}");
            }
        }
    }
}

#[test]
fn pools_and_channels_of_actors_that_are_gone_return() {
    for (name, runtime) in runtimes() {
        let pool = runtime.pool(odd, 3, Routing::RoundRobin, |_| RingConfig::default()).unwrap();
        let pool = Arc::new(pool);
        let call = |what: &str, call: fn(&kiln_ring::Pool<odd>) -> String, want: &str| {
            let (pool, what) = (Arc::clone(&pool), format!("{what} on {name}"));
            assert_eq!(returns(what.clone(), move || call(&pool)), want, "{what}");
        };
        call("recv before it is active", |p| word(p.recv()), "NotActive");
        call("ask before it is active", |p| word(p.ask(1)), "NotActive");
        pool.activate().unwrap();
        call("recv of nothing", |p| word(p.recv()), "NothingSent");
        call("recv_async of nothing", |p| word(block_on(p.recv_async())), "NothingSent");
        let many = |p: &kiln_ring::Pool<odd>| word(block_on(p.recv_many_async(2, &mut Vec::new())));
        call("recv_many_async of nothing", many, "NothingSent");
        assert_eq!(pool.send_many(&[2, 4, 6]).unwrap(), 3);
        call("recv after None", |p| word(p.recv()), "NothingSent");
        pool.send_many(&[2, 5, 2]).unwrap();
        call("recv of one of three", |p| word(p.recv()), "5");
        pool.send_many(&[2, 7, 2]).unwrap();
        call("recv_async of one of three", |p| word(block_on(p.recv_async())), "7");
        pool.send(0).unwrap();
        call("recv after a failure", |p| word(p.recv()), "Failed");
        call("recv_async after a failure", |p| word(block_on(p.recv_async())), "Failed");
        call("recv_many_async after a failure", many, "Failed");

        let actor = runtime.launch(odd, RingConfig::default()).unwrap();
        let channel = actor.channel().clone();
        let outputs = actor.outputs();
        drop(actor);
        let gone = channel.clone();
        assert_eq!(returns("recv".into(), move || word(gone.recv())), "Closed");
        assert_eq!(returns("ask".into(), move || word(channel.ask(&1))), "Send(Closed");
        assert_eq!(returns("outputs".into(), move || word(outputs.recv())), "Closed");
    }
}

/// Many at once, in time and without a thread, as an actor takes them by itself.
#[test]
fn pools_take_and_give_many() {
    for (name, runtime) in runtimes() {
        let config = |_| RingConfig::default().capacity(2);
        let pool = runtime.pool(odd, 2, Routing::RoundRobin, config).unwrap();
        let limit = Duration::from_millis(20);
        let refused = pool.send_many_timeout(&[1, 3, 5, 7, 9], limit).unwrap_err();
        assert_eq!(refused.sent, 4, "two queues of two, on {name}");
        let SendError::TimedOut { waited, .. } = refused.error else { panic!("{refused}") };
        assert!(waited >= limit, "{waited:?} on {name}");
        pool.activate().unwrap();
        let pool = Arc::new(pool);
        let got = returns(format!("many of a pool on {name}"), move || {
            let mut got = Vec::new();
            block_on(async {
                // The queues are full of replies: what was sent is received first.
                while got.len() < 4 {
                    pool.recv_many_async(3, &mut got).await.unwrap();
                }
                assert_eq!(pool.send_many_async(&[11, 13, 15]).await.unwrap(), 3);
                while got.len() < 7 {
                    let before = got.len();
                    let taken = pool.recv_many_async(2, &mut got).await.unwrap();
                    assert!(taken <= 2 && got.len() == before + taken);
                }
            });
            got.sort();
            got
        });
        assert_eq!(got, [1, 3, 5, 7, 11, 13, 15], "{name}");
    }
}

#[ring_kernel(crate = kiln_ring)]
fn hundredth(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ctx.send(next, 100 / x);
}

/// The first actor of a pipeline fails: what comes after it has nothing to wait for. Its dead
/// letter, and that of a message between actors, name the message.
#[test]
fn a_pipeline_whose_first_actor_fails_ends() {
    for (name, runtime) in runtimes() {
        let last = runtime.launch(odd, RingConfig::default()).unwrap();
        let first =
            runtime.launch(hundredth, RingConfig::default().state(last.inbound_link(4).unwrap())).unwrap();
        last.activate().unwrap();
        first.activate().unwrap();
        first.send_many(&[20, 100, 0, 1]).unwrap();
        let outputs = last.outputs();
        let results = returns(format!("outputs on {name}"), move || {
            (0..3).map(|_| word(outputs.recv())).collect::<Vec<_>>()
        });
        assert_eq!(results, ["5", "1", "NothingSent"], "{name}");
        assert_eq!(first.lifecycle(), Lifecycle::Failed);
        let letter = runtime.dead_letters().pop().unwrap();
        assert_eq!((letter.actor, letter.position, letter.decode::<u32>()), (first.number(), 2, Some(0)));
        assert!(letter.why.contains("waits.rs:") && letter.why.contains("division by zero"), "{letter}");
        first.restart().unwrap();
        // 100 / 101 is 0, on which the last fails: in its inbound link that is the fourth message.
        first.send(101).unwrap();
        let outputs = last.outputs();
        let results = returns(format!("outputs on {name}"), move || {
            (0..2).map(|_| word(outputs.recv())).collect::<Vec<_>>()
        });
        assert_eq!(results, ["Failed", "Failed"], "{name}");
        let letter = runtime.dead_letters().pop().unwrap();
        assert_eq!((letter.actor, letter.position, letter.decode::<u32>()), (last.number(), 3, Some(0)));
        assert!(letter.why.contains("waits.rs:"), "{letter}");
    }
}

/// What failed says on which line of the handler, and dead letters hold the message, also behind
/// priorities and deadlines.
#[test]
fn failures_name_the_message_and_the_line() {
    for (name, runtime) in runtimes() {
        let config = RingConfig::default().priorities(2).deadlines(true);
        let actor = runtime.launch(odd, config).unwrap();
        actor.activate().unwrap();
        let error = actor.ask(0).unwrap_err();
        assert!(error.to_string().contains("waits.rs:24:"), "{name}: {error}");
        actor.restart().unwrap();
        actor.send_with(0, SendOptions::default().priority(1)).unwrap();
        let error = actor.recv().unwrap_err();
        assert!(error.to_string().contains("waits.rs:24:"), "{name}: {error}");
        let letter = runtime.dead_letters().pop().unwrap();
        assert_eq!(letter.decode::<u32>(), Some(0), "{name}: {letter:?}");
        assert!(letter.to_string().contains("division by zero"), "{letter}");
    }
}

#[kernel(crate = kiln_runtime)]
fn speaking(y: &mut Tensor<f32, 1>) {
    device_print!("a line");
    y.tile(program_id(0), 1).store(1.0);
}

/// A print sink that asks an actor of a device which runs within calls: it cannot go on before the
/// sink returns.
#[test]
fn an_ask_inside_a_print_sink_is_an_error() {
    let device = Device::open("interp").unwrap();
    let runtime = RingRuntime::with(&device, RuntimeConfig::default()).unwrap();
    let actor = Arc::new(actor(&runtime, ActorState::Active));
    assert_eq!(actor.ask(3), Ok(Some(3)));
    let seen = Arc::new(Mutex::new(None));
    let (asked, kept) = (actor.clone(), seen.clone());
    device.backend().set_print_sink(Arc::new(move |_| *kept.lock().unwrap() = Some(asked.ask(5))));
    let mut y = device.zeros([1]).unwrap();
    speaking(&mut y).launch(&device).unwrap();
    let outcome = seen.lock().unwrap().take().unwrap();
    assert!(matches!(outcome, Err(AskError::InsidePrintSink { .. })), "{outcome:?}");
    assert_eq!(actor.ask(7), Ok(Some(7)), "the actor goes on afterwards");
}

//! A device in a process of its own: a trap ends that process and not this one, and actors go on in
//! the next.

use kiln_lang::prelude::*;
use kiln_ring::{
    AskError, Lifecycle, RecvError, RingConfig, RingCtx, RingRuntime, RuntimeConfig, What, ring_kernel,
};
use kiln_runtime::Device;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// What has not come by then never comes, however busy the machine is. A call that must not wait
/// for an acknowledgement would wait as long.
const NEVER: Duration = Duration::from_secs(20 * 60);

/// Adds, but stores 13 where there is no memory, and never ends for 14.
#[ring_kernel(crate = kiln_ring)]
fn dangerous(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    let scratch = shared::<u32, 1>([32]);
    if x == 13 {
        // One step of a megabyte after the other: some page is unowned.
        for step in 1..4000u32 {
            // SAFETY: there is none. This is the fault that the test is about.
            unsafe { scratch.set_ordered_unchecked(step << 18, x, Order::Relaxed, Scope::Device) };
        }
    }
    let mut n: Val<u32> = 0;
    while x == 14 {
        n += 1;
    }
    *total += x + n;
    *total
}

/// Whether the runtime was lost at the last wake-up.
struct Seen {
    runtime: RingRuntime,
    lost: Mutex<Option<bool>>,
}

impl Wake for Seen {
    fn wake(self: Arc<Self>) {
        *self.lost.lock().unwrap() = Some(self.runtime.is_lost());
    }
}

fn main() {
    kiln_runtime::isolate::init();
    if cfg!(unix) {
        // The first, since it counts processes, and those of the others may not have ended.
        if cfg!(target_os = "linux") {
            the_next_process_is_there_before_it_is_needed();
        }
        a_trap_costs_a_process_of_its_own();
        a_handler_that_never_ends_is_ended_with_its_process();
        names_that_cannot_be_are_refused();
    }
    println!("isolated: ok");
}

fn a_trap_costs_a_process_of_its_own() {
    let device = Device::open("isolated:cpu").unwrap();
    let mut rt =
        RingRuntime::with(&device, RuntimeConfig::default().checkpoint_every(Duration::from_millis(2)))
            .unwrap();
    drop(device);
    let mut actor = rt.launch(dangerous, RingConfig::default().state(100)).unwrap();
    actor.activate().unwrap();
    let mut total = 100;
    // More than once: the process after the first is one like it.
    for _ in 0..2 {
        for x in 1..=12 {
            total += x;
            assert_eq!(actor.ask(x).unwrap(), Some(total));
        }
        let begun = Instant::now();
        let state =
            |actor: &kiln_ring::Actor<dangerous>| actor.last_checkpoint().and_then(|c| c.state::<u32>());
        while state(&actor) != Some(total) {
            assert!(begun.elapsed() < NEVER, "no checkpoint came");
            std::thread::sleep(Duration::from_millis(1));
        }
        let events = rt.events();
        let asked = actor.ask(13);
        assert!(matches!(asked, Err(AskError::Lost { .. })), "{asked:?}");
        // A checkpoint may fail first: the actor has changed.
        let begun = Instant::now();
        let lost = loop {
            let left = NEVER.saturating_sub(begun.elapsed());
            let event = events.next_timeout(left).expect("the loss of the device is an event");
            if !matches!(event.what, What::NoCheckpoint { .. }) {
                break event;
            }
        };
        assert!(matches!(&lost.what, What::DeviceLost { why } if why.contains("signal")), "{lost}");
        assert_eq!(actor.lifecycle(), Lifecycle::Failed);
        assert!(matches!(actor.recv(), Err(RecvError::Lost { .. })));

        let again = rt.recover().unwrap();
        let back = again.bring_back(&actor).unwrap();
        back.activate().unwrap();
        (rt, actor) = (again, back);
    }
    assert_eq!(actor.ask(1).unwrap(), Some(total + 1));
}

fn a_handler_that_never_ends_is_ended_with_its_process() {
    // Processor time, which a worker that lives does not spend without a sign of life.
    let stalled_after = Duration::from_millis(500);
    let config = RuntimeConfig {
        step_budget: 0,
        stalled_after,
        acknowledge_within: NEVER,
        ..RuntimeConfig::default()
    };
    let rt = RingRuntime::with(&Device::open("isolated:cpu").unwrap(), config).unwrap();
    let actor = rt.launch(dangerous, RingConfig::default().state(1)).unwrap();
    actor.activate().unwrap();
    assert_eq!(actor.ask(1).unwrap(), Some(2));
    // Who is woken by the loss finds the runtime lost already, and may recover at once.
    let seen = Arc::new(Seen { runtime: rt.clone(), lost: Mutex::new(None) });
    {
        let mut ask = pin!(actor.ask_async(&14));
        let waker = Waker::from(Arc::clone(&seen));
        let mut cx = Context::from_waker(&waker);
        assert!(ask.as_mut().poll(&mut cx).is_pending());
        let answer = loop {
            match ask.as_mut().poll(&mut cx) {
                Poll::Ready(answer) => break answer,
                Poll::Pending => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(matches!(answer, Err(AskError::Lost { .. })));
    }
    // The answer may be there before who waits for it is woken.
    let answered = Instant::now();
    while seen.lost.lock().unwrap().is_none() {
        assert!(answered.elapsed() < NEVER, "nobody was woken");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*seen.lost.lock().unwrap(), Some(true));
    drop(seen);
    let again = rt.recover().unwrap();
    let back = again.bring_back(&actor).unwrap();
    back.activate().unwrap();
    assert_eq!(back.ask(1).unwrap(), Some(2));
    let begun = Instant::now();
    drop((actor, rt));
    assert!(begun.elapsed() < NEVER, "it was waited for {:?}", begun.elapsed());
}

/// The processes that this one has started and that have not ended, oldest first.
fn children() -> Vec<u32> {
    let own = std::process::id();
    let child = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // What follows the name, which may hold anything: the state, the parent, …, the start.
        let (_, stat) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = stat.split(' ').collect();
        let lives = fields[0] != "Z" && fields[1].parse() == Ok(own);
        lives.then(|| (fields[19].parse::<u64>().unwrap_or_default(), id))
    };
    let mut found: Vec<_> = std::fs::read_dir("/proc").unwrap().filter_map(child).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

/// Of two children.
fn two_children() -> [u32; 2] {
    let children = children();
    children.try_into().unwrap_or_else(|found| panic!("{found:?} instead of two"))
}

fn kill(child: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &child.to_string()]).status();
    assert!(killed.unwrap().success());
    until(|| !children().contains(&child), "a process that was killed lives on");
}

fn until(done: impl Fn() -> bool, otherwise: &str) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < NEVER, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn works(device: &Device) -> bool {
    let values = [1.0f32, 2.0];
    device.tensor(&values, [2]).and_then(|tensor| tensor.to_vec()).is_ok_and(|back| back == values)
}

fn the_next_process_is_there_before_it_is_needed() {
    let first = Device::open_apart("isolated:cpu").unwrap();
    let [serving, standby] = two_children();
    kill(serving);
    assert!(!works(&first));
    let second = first.reopen().unwrap();
    let [next, other] = two_children();
    assert_eq!(next, standby, "the device was opened anew");
    assert!(works(&second) && !works(&first));

    // A standby that has ended costs the time to open the device, and nothing else.
    kill(other);
    let third = second.reopen().unwrap();
    assert!(works(&third) && works(&second));
    let left = children();
    assert!(left.len() == 3 && !left.contains(&other), "{left:?}");

    drop((first, second, third));
    until(|| children().is_empty(), "processes without a device");
}

fn names_that_cannot_be_are_refused() {
    let unknown = Device::open("isolated:abacus").unwrap_err().to_string();
    assert!(unknown.contains("abacus"), "{unknown}");
    let interp = RingRuntime::new(&Device::open("isolated:interp").unwrap()).err().unwrap().to_string();
    assert!(interp.contains("memory of two processes on interp"), "{interp}");
}

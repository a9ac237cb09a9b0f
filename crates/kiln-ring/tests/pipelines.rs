//! Snapshots: pipelines that are taken apart under load, and go on elsewhere without a message
//! lost, doubled or out of order.

use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, Address, CheckpointError, Inline, Message, Payload, RingConfig, RingCtx, RingError, RingRuntime,
    RuntimeConfig, Snapshot, State, ring_kernel,
};
use kiln_runtime::Device;
use std::time::Duration;

/// What has not come by then never comes, however busy the machine is.
const NEVER: Duration = Duration::from_secs(20 * 60);

fn runtime(device: &str, warps: bool, cluster: usize) -> RingRuntime {
    // The interpreter writes all memory beforehand: no more than is used.
    let bytes = 1 << 20;
    let config = RuntimeConfig { spins: 64, acknowledge_within: NEVER, ..RuntimeConfig::default() };
    let config = RuntimeConfig { inbox_bytes: bytes, outbox_bytes: bytes, arena_bytes: bytes, ..config };
    let config = config.workers(2).warps(warps).endpoints_per_worker(8).clusters_of(cluster);
    RingRuntime::with(&Device::open(device).unwrap(), config).unwrap()
}

#[derive(Message, Clone, Copy, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Item {
    number: u32,
    words: [u32; 5],
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Source {
    next: Address<Item>,
    sent: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn number(ctx: &RingCtx, s: &mut Source, x: u32) {
    ctx.send(&s.next, ItemVal { number: s.sent, words: [x, val(1), val(2), val(3), val(4)] });
    s.sent += 1;
}

/// Counts in an array of its state, in place.
#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Middle {
    count: u32,
    seen: Inline<u32, 8>,
    next: Address<Item>,
}

#[ring_kernel(crate = kiln_ring)]
fn accumulate(ctx: &RingCtx, s: &mut Middle, m: Item) {
    let seen = ctx.array(&s.seen);
    seen.set(m.number % 8, seen.get(m.number % 8) + 1);
    s.count += 1;
    let mut m = m;
    m.words[4] = s.count;
    ctx.send(&s.next, m);
}

/// Answers with the number of the item, its word, and how many items there were.
#[ring_kernel(crate = kiln_ring)]
fn collect(_ctx: &RingCtx, count: &mut u32, m: Item) -> [u32; 4] {
    *count += 1;
    [m.number, m.words[0], m.words[4], *count]
}

type Pipeline = (Actor<number>, Actor<accumulate>, Actor<collect>);

/// With queues of few places.
fn pipeline(rt: &RingRuntime, near: bool) -> Pipeline {
    let sink = rt.launch(collect, RingConfig::default().state(0).capacity(64)).unwrap();
    let to_sink = if near { sink.inbound_link_in_cluster(4) } else { sink.inbound_link(4) }.unwrap();
    let state = Middle { count: 0, seen: Inline::default(), next: to_sink };
    let middle = rt.launch(accumulate, RingConfig::default().state(state).beside(&sink)).unwrap();
    let next = if near { middle.inbound_link_in_cluster(8) } else { middle.inbound_link(8) }.unwrap();
    let config = RingConfig::default().state(Source { next, sent: 0 }).capacity(256).beside(&middle);
    let source = rt.launch(number, config).unwrap();
    (source, middle, sink)
}

fn activate((source, middle, sink): &Pipeline) {
    sink.activate().unwrap();
    middle.activate().unwrap();
    source.activate().unwrap();
}

/// What was sent with an item.
fn word(item: u32) -> u32 {
    item.wrapping_mul(0x9e37_79b9)
}

/// Sends items to a pipeline, takes some outputs, and takes it apart in between, as often as there
/// are places to go to.
fn goes_round(first: RingRuntime, near: bool, places: &[(&str, bool)]) {
    let mut at = pipeline(&first, near);
    let mut rt = first;
    activate(&at);
    let (mut sent, mut seen) = (0, 0);
    let check = |output: [u32; 4], item: u32| assert_eq!(output, [item, word(item), item + 1, item + 1]);
    for (turn, &(device, warps)) in places.iter().enumerate() {
        for _ in 0..100 {
            at.0.send(word(sent)).unwrap();
            sent += 1;
        }
        for _ in 0..10 + 7 * turn {
            check(at.2.outputs().recv_timeout(NEVER).unwrap(), seen);
            seen += 1;
        }
        // All three are at work.
        let bytes = rt.snapshot(&[&at.0, &at.1, &at.2]).unwrap().to_bytes();
        let snapshot = Snapshot::from_bytes(&bytes).unwrap();
        let cut = snapshot.actors()[2].state::<u32>().unwrap();
        // Messages are somewhere: numbered, but not collected.
        let waiting: usize = snapshot.actors().iter().map(|actor| actor.messages()).sum();
        assert_eq!(waiting as u32 + cut, sent, "messages are lost or doubled");
        // What was handled before is in the outputs there.
        while seen < cut {
            check(at.2.outputs().recv_timeout(NEVER).unwrap(), seen);
            seen += 1;
        }
        rt = runtime(device, warps, 1);
        let config = RingConfig::default().capacity(256);
        at = rt.restore_all(&snapshot, ((number, config), (accumulate, config), (collect, config))).unwrap();
        assert_eq!(at.2.state().unwrap(), cut);
        activate(&at);
    }
    while seen < sent {
        check(at.2.outputs().recv_timeout(NEVER).unwrap(), seen);
        seen += 1;
    }
    let middle = at.1.state().unwrap();
    assert_eq!((middle.count, middle.seen.iter().sum::<u32>()), (sent, sent));
    assert!(at.2.outputs().try_recv().is_err());
}

#[test]
fn a_pipeline_goes_on_elsewhere() {
    let places = [("interp", false), ("cpu", false), ("interp:2", true), ("cpu", false)];
    goes_round(runtime("cpu", false, 1), false, &places);
}

#[test]
fn a_pipeline_of_warps_goes_on_elsewhere() {
    goes_round(runtime("interp", true, 1), false, &[("cpu", false), ("interp", true)]);
}

#[test]
fn a_pipeline_in_a_cluster_goes_on_elsewhere() {
    for warps in [false, true] {
        goes_round(runtime("interp", warps, 2), true, &[("interp", true), ("cpu", false)]);
    }
}

/// Addresses in messages, and actors that send to each other in a circle.
#[derive(Message, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Question {
    answer_to: Address<u32>,
    x: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn answer(ctx: &RingCtx, m: Question) {
    ctx.send(&m.answer_to, m.x * 10);
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Asker {
    other: Address<Question>,
    own: Address<u32>,
}

/// Asks for small numbers, and sends the host large ones.
#[ring_kernel(crate = kiln_ring)]
fn ask(ctx: &RingCtx, s: &mut Asker, x: u32) -> Option<u32> {
    if x < 100 {
        ctx.send(&s.other, QuestionVal { answer_to: s.own, x });
        return None;
    }
    Some(x)
}

#[test]
fn addresses_in_messages_lead_to_the_restored_actors() {
    let cpu = runtime("cpu", false, 1);
    let answerer = cpu.launch(answer, RingConfig::default()).unwrap();
    let none = Asker { other: Address::none(), own: Address::none() };
    let asker = cpu.launch(ask, RingConfig::default().state(none)).unwrap();
    let state = Asker { other: answerer.inbound_link(4).unwrap(), own: asker.inbound_link(4).unwrap() };
    asker.set_state(state).unwrap();
    asker.activate().unwrap();
    asker.send(50).unwrap();
    while asker.channel().unanswered() > 0 {
        std::thread::yield_now();
    }
    // The question waits, with the address to answer to.
    let snapshot = cpu.snapshot(&[&answerer, &asker]).unwrap();
    drop((answerer, asker));
    let interp = runtime("interp", true, 1);
    // Its places are others.
    let _before = interp.launch(collect, RingConfig::default().state(0)).unwrap();
    let config = RingConfig::default();
    let (answerer, asker) = interp.restore_all(&snapshot, ((answer, config), (ask, config))).unwrap();
    answerer.activate().unwrap();
    asker.activate().unwrap();
    assert_eq!(asker.outputs().recv_timeout(NEVER), Ok(500));
    asker.send(70).unwrap();
    assert_eq!(asker.outputs().recv_timeout(NEVER), Ok(700));
}

#[ring_kernel(crate = kiln_ring)]
fn forward(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ctx.send(next, x + 1);
}

#[ring_kernel(crate = kiln_ring)]
fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    *sum += x;
    *sum
}

#[ring_kernel(crate = kiln_ring)]
fn sum_of(ctx: &RingCtx, values: Payload<u32>) -> u32 {
    ctx.array(&values).get(0)
}

/// Many stages of one handler, as a list.
#[test]
fn a_list_of_stages_is_restored() {
    let cpu = runtime("cpu", false, 1);
    let sink = cpu.launch(total, RingConfig::default().state(0)).unwrap();
    let mut next = sink.inbound_link(2).unwrap();
    let mut stages: Vec<Actor<forward>> = Vec::new();
    for _ in 0..4 {
        let stage = cpu.launch(forward, RingConfig::default().state(next)).unwrap();
        next = stage.inbound_link(2).unwrap();
        stages.push(stage);
    }
    stages.reverse();
    for x in 0..3 {
        stages[0].send(x * 100).unwrap();
    }
    stages[0].activate().unwrap();
    let [a, b, c, d] = &stages[..] else { panic!() };
    let snapshot = cpu.snapshot(&[a, b, c, d, &sink]).unwrap();
    let interp = runtime("interp", false, 1);
    let config = RingConfig::default();
    let (again, sink) = interp.restore_all(&snapshot, (vec![(forward, config); 4], (total, config))).unwrap();
    again.iter().for_each(|stage| stage.activate().unwrap());
    sink.activate().unwrap();
    let sums = [(); 3].map(|()| sink.outputs().recv_timeout(NEVER).unwrap());
    assert_eq!(sums, [4, 108, 312]);
}

#[test]
fn what_is_no_snapshot_is_refused_by_name() {
    let refused = |result: Result<Snapshot, RingError>, part: &str| {
        let error = result.unwrap_err();
        assert!(matches!(&error, RingError::Checkpoint(_) | RingError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let cpu = runtime("cpu", false, 1);
    let sink = cpu.launch(total, RingConfig::default().state(0)).unwrap();
    let next = sink.inbound_link(2).unwrap();
    let source = cpu.launch(forward, RingConfig::default().state(next)).unwrap();
    refused(cpu.snapshot(&[&source]), "is not part of the snapshot");
    refused(cpu.snapshot(&[&sink, &source, &sink]), "twice");
    refused(runtime("cpu", false, 1).snapshot(&[&sink]), "another runtime");
    let error = sink.checkpoint().unwrap_err();
    assert!(error.to_string().contains("snapshot"), "{error}");
    let large = cpu.launch(sum_of, RingConfig::default()).unwrap();
    refused(cpu.snapshot(&[&large]), "payloads");
    let topic = cpu.topic::<u32>();
    let teller = cpu.launch(forward, RingConfig::default().state(topic.publisher().unwrap())).unwrap();
    let hearer = cpu.launch(total, RingConfig::default().state(0)).unwrap();
    topic.subscribe(&hearer, 4).unwrap();
    refused(cpu.snapshot(&[&teller, &hearer]), "topic");

    let snapshot = cpu.snapshot(&[&source, &sink]).unwrap();
    let config = RingConfig::default();
    let few = cpu.restore_all(&snapshot, ((forward, config),)).unwrap_err();
    assert!(matches!(few, RingError::Checkpoint(CheckpointError::Stages { actors: 2, given: 1 })), "{few}");
    let many = cpu.restore_all(&snapshot, ((forward, config), (total, config), (total, config))).unwrap_err();
    assert!(matches!(many, RingError::Checkpoint(CheckpointError::Stages { actors: 2, given: 3 })), "{many}");
    let wrong = cpu.restore_all(&snapshot, ((total, config), (forward, config))).unwrap_err();
    assert!(matches!(wrong, RingError::Checkpoint(CheckpointError::Foreign { .. })), "{wrong}");
    let mut bytes = snapshot.to_bytes();
    bytes[40] ^= 1;
    assert!(matches!(Snapshot::from_bytes(&bytes), Err(CheckpointError::Damaged { .. })));
    assert!(matches!(Snapshot::from_bytes(b"KILNRING"), Err(CheckpointError::NotACheckpoint)));
}

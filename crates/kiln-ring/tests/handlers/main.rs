//! Handlers, traced and run in the interpreter, against the same computation on the host.

mod harness;

use harness::{Outcome, run, run_in_fault_region};
use kiln_lang::prelude::*;
use kiln_ring::{Layout, Message, RingCtx, State, ring_kernel};

#[derive(Message, Clone, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Sample {
    channel: u32,
    value: f32,
}

#[derive(Message, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Alert {
    channel: u32,
    z: f32,
}

#[derive(State, Debug, PartialEq, Default)]
#[kiln(crate = kiln_ring)]
struct Stats {
    n: u32,
    mean: f32,
    m2: f32,
}

#[ring_kernel(crate = kiln_ring)]
fn detect(_ctx: &RingCtx, s: &mut Stats, m: Sample) -> Option<Alert> {
    s.n += 1;
    let delta = m.value - s.mean;
    s.mean += delta / s.n.cast::<f32>();
    s.m2 += delta * (m.value - s.mean);
    if s.n < 8 {
        return None;
    }
    let z = delta / (s.m2 / (s.n - 1).cast::<f32>()).sqrt();
    if z.abs() > 2.5 { Some(Alert { channel: m.channel, z }) } else { None }
}

fn detect_on_the_host(s: &mut Stats, m: &Sample) -> Outcome<Alert> {
    s.n += 1;
    let delta = m.value - s.mean;
    s.mean += delta / s.n as f32;
    s.m2 += delta * (m.value - s.mean);
    if s.n < 8 {
        return Outcome::Silent;
    }
    let z = delta / (s.m2 / (s.n - 1) as f32).sqrt();
    if z.abs() > 2.5 { Outcome::Reply(Alert { channel: m.channel, z }) } else { Outcome::Silent }
}

#[test]
fn a_handler_with_state_and_an_optional_reply() {
    let samples: Vec<Sample> = (0..61u32)
        .map(|i| Sample { channel: i, value: ((i * 37) % 11) as f32 + if i % 20 == 19 { 90.0 } else { 0.0 } })
        .collect();
    let mut state = Stats::default();
    let want: Vec<_> = samples.iter().map(|m| detect_on_the_host(&mut state, m)).collect();
    assert!(want.iter().any(|o| matches!(o, Outcome::Reply(_))));
    let (got, ended) = run(detect, &Stats::default(), &samples);
    assert_eq!(got, want);
    assert_eq!(ended, state);
}

#[test]
fn no_messages() {
    let (got, ended) = run(detect, &Stats { n: 3, mean: 1.0, m2: 2.0 }, &[]);
    assert_eq!((got, ended), (vec![], Stats { n: 3, mean: 1.0, m2: 2.0 }));
}

/// Every type that a field can have, to and fro.
#[derive(Message, Clone, Copy, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Point(f32, i32);

#[derive(Message, Clone, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Everything {
    flag: bool,
    half: f16,
    brain: bf16,
    small: i32,
    large: u64,
    signed: i64,
    double: f64,
    flags: [bool; 3],
    doubles: [f64; 2],
    points: [[Point; 2]; 2],
    r#type: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn bounce(_ctx: &RingCtx, m: Everything) -> Everything {
    m
}

#[ring_kernel(crate = kiln_ring)]
fn change(_ctx: &RingCtx, m: Everything) -> Everything {
    let mut m = m;
    m.flag = !m.flag;
    m.half = m.half * 2.0;
    m.brain = -m.brain;
    m.small -= 3;
    m.large += 1u64 << 33;
    m.signed = -m.signed;
    m.double = m.double / 3.0;
    m.flags[2] = m.flag;
    m.doubles = [m.doubles[1], m.doubles[0]];
    m.points[1][0] = m.points[0][1];
    if m.r#type > 5 {
        m.r#type = val(1);
    }
    m
}

fn everything(k: i32) -> Everything {
    let p = |i: i32| Point(0.5 * (i + k) as f32, i - k);
    Everything {
        flag: k % 2 == 0,
        half: f16::from_f32(1.5 * k as f32),
        brain: bf16::from_f32(-2.25 * k as f32),
        small: k - 5,
        large: u64::MAX - k as u64,
        signed: i64::MIN + 1 + i64::from(k),
        double: 1.0 + f64::from(k) * 1e-9,
        flags: [true, false, k % 3 == 0],
        doubles: [f64::MIN_POSITIVE, -1e300],
        points: [[p(0), p(1)], [p(2), p(3)]],
        r#type: k as u32,
    }
}

#[test]
fn every_field_type_survives_the_round_trip() {
    let messages: Vec<_> = (0..10).map(everything).collect();
    let (got, ()) = run(bounce, &(), &messages);
    assert_eq!(got, messages.into_iter().map(Outcome::Reply).collect::<Vec<_>>());
}

#[test]
fn every_field_type_computes() {
    let messages: Vec<_> = (0..10).map(everything).collect();
    let want = messages.iter().cloned().map(|mut m| {
        m.flag = !m.flag;
        m.half *= f16::from_f32(2.0);
        m.brain = -m.brain;
        m.small -= 3;
        m.large = m.large.wrapping_add(1 << 33);
        m.signed = -m.signed;
        m.double /= 3.0;
        m.flags[2] = m.flag;
        m.doubles = [m.doubles[1], m.doubles[0]];
        m.points[1][0] = m.points[0][1];
        if m.r#type > 5 {
            m.r#type = 1;
        }
        Outcome::Reply(m)
    });
    let want: Vec<_> = want.collect();
    let (got, ()) = run(change, &(), &messages);
    assert_eq!(got, want);
}

#[test]
fn layouts() {
    assert_eq!(Everything::WORDS, 1 + 1 + 1 + 1 + 2 + 2 + 2 + 3 + 4 + 8 + 1);
    let mut words = [0; Everything::WORDS];
    everything(3).encode(&mut words);
    assert_eq!(words[..4], [0, 4.5f32.to_bits(), (-6.75f32).to_bits(), -2i32 as u32]);
    assert_eq!(words[4..6], [u32::MAX - 3, u32::MAX]);
    assert_eq!(Everything::decode(&words), everything(3));
    assert_eq!(<Everything as Message>::NAME, "Everything");
}

/// The identity distinguishes layouts by names and types.
#[test]
fn identities() {
    mod renamed {
        #[derive(kiln_ring::Message)]
        #[kiln(crate = kiln_ring)]
        pub struct Sample {
            pub channel: u32,
            pub level: f32,
        }
    }
    mod retyped {
        #[derive(kiln_ring::Message)]
        #[kiln(crate = kiln_ring)]
        pub struct Sample {
            pub channel: i32,
            pub value: f32,
        }
    }
    mod same {
        #[derive(kiln_ring::Message)]
        #[kiln(crate = kiln_ring)]
        pub struct Sample {
            pub channel: u32,
            pub value: f32,
        }
    }
    let ids =
        [Sample::ID, renamed::Sample::ID, retyped::Sample::ID, Alert::ID, <[f32; 2]>::ID, <[f32; 3]>::ID];
    for (i, a) in ids.iter().enumerate() {
        assert!(ids[..i].iter().all(|b| a != b), "{ids:x?}");
    }
    assert_eq!(Sample::ID, same::Sample::ID);
}

#[ring_kernel(crate = kiln_ring)]
fn numbers(ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total += x.cast::<u64>();
    *total * 1000u64 + ctx.message_id() * 10u64 + ctx.actor().cast::<u64>()
}

#[test]
fn numbers_are_messages_and_states() {
    let (got, total) = run(numbers, &5, &[1, u32::MAX, 3]);
    let want = [6007, 1000 * (6 + u64::from(u32::MAX)) + 17, 1000 * (9 + u64::from(u32::MAX)) + 27];
    assert_eq!(got, want.map(Outcome::Reply));
    assert_eq!(total, 9 + u64::from(u32::MAX));
}

#[ring_kernel(crate = kiln_ring)]
fn count(_ctx: &RingCtx, seen: &mut u32, mut m: Sample) {
    m.channel += 1;
    if m.channel > 2 {
        return;
    }
    *seen += m.channel;
}

#[test]
fn a_handler_without_a_reply() {
    let messages: Vec<_> = (0..5).map(|channel| Sample { channel, value: 0.0 }).collect();
    let (got, seen) = run(count, &100, &messages);
    assert!(got.iter().all(|o| *o == Outcome::Silent) && got.len() == 5);
    assert_eq!(seen, 103);
}

#[ring_kernel(crate = kiln_ring)]
fn checked(_ctx: &RingCtx, m: Point) -> Result<Option<Point>, u32> {
    if m.1 < 0 {
        return Err(3);
    }
    if m.1 > 100 {
        return Err(m.1.cast::<u32>());
    }
    let mut i = val::<i32>(0);
    while i < m.1 {
        i += 7;
        if i == 21 {
            return Ok(None);
        }
    }
    if m.0 > 0.0 {
        Ok(Some(Point(m.0 * 2.0, i)))
    } else {
        Ok(if m.0 == 0.0 { Some(Point(-1, 0)) } else { None })
    }
}

fn checked_on_the_host(m: Point) -> Outcome<Point> {
    match m.1 {
        n if n < 0 => return Outcome::Failed(3),
        n if n > 100 => return Outcome::Failed(n as u32),
        _ => {}
    }
    let mut i = 0;
    while i < m.1 {
        i += 7;
        if i == 21 {
            return Outcome::Silent;
        }
    }
    match m.0 {
        x if x > 0.0 => Outcome::Reply(Point(x * 2.0, i)),
        0.0 => Outcome::Reply(Point(-1.0, 0)),
        _ => Outcome::Silent,
    }
}

#[test]
fn a_handler_that_fails() {
    let messages: Vec<_> = [-1i32, 0, 1, 7, 13, 14, 15, 100, 101, 500]
        .into_iter()
        .flat_map(|n| [-1.5, 0.0, 2.5].map(|x| Point(x, n)))
        .collect();
    let want: Vec<_> = messages.iter().map(|m| checked_on_the_host(*m)).collect();
    let (got, ()) = run(checked, &(), &messages);
    assert_eq!(got, want);
}

#[ring_kernel(crate = kiln_ring)]
fn sum_of_numbers(_ctx: &RingCtx, sum: &mut f32, x: f32) -> Result<(), u32> {
    if x != x {
        return Err(1);
    }
    *sum += x;
    Ok(())
}

#[test]
fn a_handler_that_fails_or_says_nothing() {
    let (got, sum) = run(sum_of_numbers, &0.5, &[1.0, f32::NAN, 2.0]);
    assert_eq!(got, [Outcome::Silent, Outcome::Failed(1), Outcome::Silent]);
    assert_eq!(sum, 3.5);
}

mod elsewhere {
    #[derive(kiln_ring::Message, Debug, PartialEq)]
    #[kiln(crate = kiln_ring)]
    pub struct Pair {
        pub a: u32,
        pub b: [u32; 2],
    }

    impl PairVal {
        pub fn swapped(self) -> PairVal {
            PairVal { a: self.b[0], b: [self.a, self.b[1]] }
        }
    }
}

#[device(crate = kiln_lang)]
fn bump(pair: &mut elsewhere::PairVal, by: Val<u32>) {
    if by > 2 {
        pair.a += by;
    }
}

/// Paths, patterns, methods and helper functions: the signature's names are the structs of the
/// device throughout.
#[ring_kernel(crate = kiln_ring)]
fn paths(_ctx: &RingCtx, s: &mut elsewhere::Pair, m: elsewhere::Pair) -> elsewhere::Pair {
    let elsewhere::Pair { a, b } = m;
    bump(s, a);
    let swapped: elsewhere::Pair = elsewhere::Pair::swapped(m);
    s.b[1] += swapped.a;
    let twice = 2;
    match twice {
        1 => m,
        _ => elsewhere::Pair { a: s.a * twice, b: [b[1], val(9)] },
    }
}

#[test]
fn names_with_paths() {
    use elsewhere::Pair;
    let messages = [Pair { a: 1, b: [2, 3] }, Pair { a: 5, b: [6, 7] }];
    let (got, state) = run(paths, &Pair { a: 10, b: [0, 0] }, &messages);
    let want = [Pair { a: 20, b: [3, 9] }, Pair { a: 30, b: [7, 9] }];
    assert_eq!(got, want.map(Outcome::Reply));
    assert_eq!(state, Pair { a: 15, b: [0, 8] });
}

#[ring_kernel(crate = kiln_ring)]
fn faulty(_ctx: &RingCtx, s: &mut Stats, m: Point) -> Result<Option<u32>, u32> {
    s.n += 1;
    s.mean = m.0;
    device_assert!(m.1 != 5, "five");
    if m.1 == 6 {
        return Err(66);
    }
    let mut turns = val::<u32>(0);
    let mut left = m.1;
    while left != 0 {
        left -= 1;
        turns += 1;
    }
    if m.0 > 100.0 {
        Ok(None)
    } else {
        Ok(Some(100 / s.n.cast::<i32>().bitcast::<u32>() + 60 / (m.1 - 4).bitcast::<u32>()))
    }
}

/// A fault in one message is reported, leaves the state as it was, and does not touch the messages
/// after it.
#[test]
fn a_handler_in_a_fault_region() {
    let messages = [
        Point(1.0, 1),
        Point(2.0, 5),
        Point(3.0, 6),
        Point(4.0, -1),
        Point(5.0, 4),
        Point(6.0, 16),
        Point(101.0, 0),
    ];
    let (got, state) = run_in_fault_region(faulty, 50, &Stats::default(), &messages);
    let fault = |overran| Outcome::Fault { overran };
    let reply = |n: u32, m: u32| Outcome::Reply(100 / n + 60 / m);
    let want = [
        reply(1, -3i32 as u32),
        fault(false),
        Outcome::Failed(66),
        fault(true),
        fault(false),
        reply(3, 12),
        Outcome::Silent,
    ];
    assert_eq!(got, want);
    assert_eq!(state, Stats { n: 4, mean: 101.0, m2: 0.0 });
    // The same without faults, and outside a fault region.
    let fine = [messages[0], messages[5], messages[6]];
    let (plain, _) = run(faulty, &Stats::default(), &fine);
    assert_eq!(plain, [reply(1, -3i32 as u32), reply(2, 12), Outcome::Silent]);
}

#[ring_kernel(crate = kiln_ring)]
fn clocked(ctx: &RingCtx, last: &mut u64, _m: u32) -> bool {
    let now = ctx.now_ns();
    let later = now >= *last;
    *last = now;
    later
}

#[test]
fn the_clock_does_not_go_back() {
    let (got, last) = run(clocked, &0, &[0; 5]);
    assert_eq!(got, [const { Outcome::Reply(true) }; 5]);
    assert_ne!(last, 0);
}

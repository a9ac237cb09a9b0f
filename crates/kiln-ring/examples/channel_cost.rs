//! What a message costs the host: sending, and receiving with every word compared, by a thread that
//! has its core for itself; and one that finds nothing in the caches, as after a pause.
//!
//! ```console
//! $ cargo run --release -p kiln-ring --example channel_cost
//! ```
//!
//! The device is played by the program between the measured parts: it answers whole batches at
//! once, in memory of the host. So there is no bus, and all that is measured are the instructions
//! and the caches. `kiln bench ring` measures devices.

use kiln_ring::slot::{Kind, QUAD, stamp};
use kiln_ring::{
    Channel, ChannelConfig, DeadLetters, DeviceSide, Form, Message, Parts, Protocol, RingMemory,
};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words of a message: 48 bytes.
const WORDS: usize = 12;

#[derive(Message, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Ping {
    words: [u32; WORDS],
}

impl Ping {
    fn numbered(number: u32) -> Ping {
        Ping { words: std::array::from_fn(|i| number.wrapping_mul(31).wrapping_add(i as u32)) }
    }
}

struct Idle;

impl DeviceSide for Idle {
    fn skip(&self, _: u64) {}
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u32; 16]);

/// Memory of one ring, as the host gets it and as the played device reaches it.
fn ring(words: usize, write_combined: bool) -> (RingMemory, *mut u32) {
    let mut lines = vec![Line([0; 16]); words.div_ceil(16)];
    let base = NonNull::from(lines.as_mut_slice()).cast::<u32>();
    // SAFETY: aligned, zeroed lines that live as long as their owner; the program's one thread
    // plays both sides in turns.
    (unsafe { RingMemory::new(base, words, write_combined, Arc::new(lines)) }, base.as_ptr())
}

/// The device's turn: adds 1 to every word of these positions and answers.
fn echo(form: &Form, requests: *const u32, answers: *mut u32, positions: std::ops::Range<u64>) {
    for position in positions {
        let (from, to) = (form.requests.at(position), form.answers.at(position));
        let lap = form.requests.lap(position);
        for q in 0..form.requests.slot().quads() {
            // SAFETY: inside the rings.
            unsafe {
                let quad = requests.add(from + q * QUAD).cast::<[u32; QUAD]>().read();
                assert_eq!(quad[3], stamp(lap, Kind::Request));
                let [a, b, c] = [quad[0], quad[1], quad[2]].map(|word| word.wrapping_add(1));
                answers.add(to + q * QUAD).cast::<[u32; QUAD]>().write([a, b, c, stamp(lap, Kind::Reply)]);
            }
        }
    }
}

/// A channel of so many messages, its form, and its rings as the played device reaches them.
struct Played {
    channel: Channel<Ping, Ping>,
    form: Form,
    requests: *mut u32,
    answers: *mut u32,
}

impl Played {
    fn new(window: usize, write_combined: bool) -> Result<Played, Box<dyn std::error::Error>> {
        let config = ChannelConfig::default().capacity(window);
        let form = config.form::<Ping, Ping>(Protocol::Stamped)?;
        let (requests, request_words) = ring(form.requests.words(), write_combined);
        let (answers, answer_words) = ring(form.answers.words(), false);
        let letters = Arc::new(DeadLetters::new(1));
        let parts =
            Parts { actor: 0, requests, answers, passed: Vec::new(), letters, device: Arc::new(Idle) };
        let channel = Channel::new(&config, Protocol::Stamped, parts)?;
        Ok(Played { channel, form, requests: request_words, answers: answer_words })
    }

    fn echo(&self, positions: std::ops::Range<u64>) {
        echo(&self.form, self.requests, self.answers, positions);
    }
}

/// Nanoseconds a message: sending, receiving with comparison.
fn cost(
    window: usize,
    write_combined: bool,
    one_by_one: bool,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let played = Played::new(window, write_combined)?;
    let channel = &played.channel;
    let mut batch = Vec::with_capacity(window);
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    let rounds = (4 << 20) / window;
    for round in 0..rounds {
        let first = (round * window) as u32;
        let begun = Instant::now();
        if one_by_one {
            for number in first..first + window as u32 {
                channel.send(&Ping::numbered(number))?;
            }
        } else {
            batch.clear();
            batch.extend((first..first + window as u32).map(Ping::numbered));
            channel.send_many(&batch)?;
        }
        sending.push(begun.elapsed());
        played.echo(u64::from(first)..u64::from(first) + window as u64);
        let begun = Instant::now();
        let mut seen = first;
        let mut good = true;
        let mut check = |reply: &Ping| {
            let sent = Ping::numbered(seen);
            // Every word, without a branch for each.
            let differences =
                reply.words.iter().zip(sent.words).map(|(got, sent)| got ^ sent.wrapping_add(1));
            good &= differences.fold(0, |all, difference| all | difference) == 0;
            seen += 1;
        };
        if one_by_one {
            for _ in 0..window {
                check(&channel.recv()?);
            }
        } else {
            channel.try_recv_each(window, |reply| check(&reply))?;
        }
        receiving.push(begun.elapsed());
        assert!(good && seen == first + window as u32, "a reply was wrong or missing");
    }
    Ok((median_ns(sending) / window as f64, median_ns(receiving) / window as f64))
}

/// The median round: now and then the thread has to give way to others.
fn median_ns(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e9
}

/// Nanoseconds of one message, before whose sending and receiving all of a large array was written,
/// so that neither code nor data is in a cache.
fn cold_cost(write_combined: bool) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    const ROUNDS: u32 = 200;
    let played = Played::new(64, write_combined)?;
    let mut array = vec![0u64; 12 << 20];
    let mut evict = || array.iter_mut().step_by(8).for_each(|word| *word += 1);
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let message = Ping::numbered(number);
        evict();
        let begun = Instant::now();
        played.channel.send(&message)?;
        sending.push(begun.elapsed());
        played.echo(u64::from(number)..u64::from(number) + 1);
        evict();
        let begun = Instant::now();
        let reply = played.channel.recv()?;
        receiving.push(begun.elapsed());
        assert!(reply.words == message.words.map(|word| word.wrapping_add(1)), "a reply was wrong");
    }
    std::hint::black_box(&array);
    Ok((median_ns(sending), median_ns(receiving)))
}

fn print(window: usize, memory: &str, how: &str, (send, receive): (f64, f64)) {
    let both = send + receive;
    println!("{window:>7} {memory:>15} {how:>11} {send:>6.1} ns {receive:>6.1} ns {both:>6.1} ns");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>7} {:>15} {:>11} {:>9} {:>9} {:>9}",
        "window", "requests", "messages", "send", "receive", "both"
    );
    for (write_combined, memory) in [(false, "ordinary"), (true, "write-combined")] {
        for one_by_one in [true, false] {
            for window in [64, 1024] {
                let (send, receive) = cost(window, write_combined, one_by_one)?;
                let how = if one_by_one { "one by one" } else { "many" };
                print(window, memory, how, (send, receive));
            }
        }
        print(1, memory, "cold", cold_cost(write_combined)?);
    }
    Ok(())
}

//! PageRank of a graph that grows: the graph and the ranks live on the device, edges are streamed
//! to an actor, and now and then it is asked to settle.
//!
//! The graph is that of this repository's dependencies, as `Cargo.lock` has them: an edge leads
//! from a package to one that it depends on. `--edges FILE` takes another, two names a line.
//!
//! ```text
//! cargo run --release --example pagerank
//! KILN_DEVICE=cuda:0 cargo run --release --example pagerank -- --top 20
//! ```

mod graph;

use clap::Parser;
use graph::Graph;
use kiln::prelude::*;
use kiln::ring::{Message, Payload, RingConfig, RingCtx, RingRuntime, State, ring_kernel};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// PageRank of a growing graph by an actor that keeps it on the device.
#[derive(Parser)]
struct Options {
    /// A file of edges, two names a line; `#` begins a comment [default: the packages in
    /// Cargo.lock].
    #[arg(long)]
    edges: Option<PathBuf>,
    /// How many of the highest ranks are shown.
    #[arg(long, default_value_t = 8)]
    top: usize,
}

/// How likely a walker follows an edge (Brin and Page, "The Anatomy of a Large-Scale Hypertextual
/// Web Search Engine", 1998).
pub const DAMPING: f64 = 0.85;

/// The sum of all changes below which ranks are settled.
const SETTLED: f32 = 1e-6;

/// Settles so many times while the graph grows.
const STAGES: usize = 4;

/// An edge to add, or a request to settle.
#[derive(Message)]
struct Update {
    /// [`ADD`] or [`SETTLE`].
    kind: u32,
    from: u32,
    to: u32,
}

const ADD: u32 = 0;
const SETTLE: u32 = 1;

/// What settling came to.
#[derive(Message, Debug)]
struct Settled {
    iterations: u32,
    /// The sum of the last changes.
    change: f32,
    edges: u32,
}

/// The graph as lists of incoming edges: `first[node]` is the number of an edge, from 1,
/// `next[edge - 1]` the next one in the list; 0 ends it.
#[derive(State)]
struct Ranks {
    first: Payload<u32>,
    next: Payload<u32>,
    source: Payload<u32>,
    /// Outgoing edges of each node.
    degree: Payload<u32>,
    rank: Payload<f32>,
    fresh: Payload<f32>,
    edges: u32,
}

#[ring_kernel]
fn page_rank(ctx: &RingCtx, s: &mut Ranks, m: Update) -> Option<Settled> {
    if ctx.uniform(m.kind) == ADD {
        let (first, degree) = (ctx.array(&s.first), ctx.array(&s.degree));
        let before = first.get(m.to);
        let edges = degree.get(m.from);
        // Every lane has read before one writes.
        ctx.sync();
        ctx.array(&s.next).set(s.edges, before);
        ctx.array(&s.source).set(s.edges, m.from);
        first.set(m.to, s.edges + 1);
        degree.set(m.from, edges + 1);
        s.edges += 1;
        ctx.sync();
        return None;
    }
    let (iterations, change) = settle(ctx, s);
    Some(Settled { iterations, change, edges: s.edges })
}

/// Passes ranks on until they change no more. Gives how often, and by how much at last.
#[device]
fn settle(ctx: &RingCtx, s: &RanksVal) -> (Val<u32>, Val<f32>) {
    let (mut iterations, mut change) = (val(0u32), val(f32::MAX));
    while change > SETTLED && iterations < 1000 {
        change = pass(ctx, s);
        iterations += 1;
    }
    (iterations, change)
}

/// Every node gets what its sources give it. The lanes share the nodes. Gives the sum of all
/// changes.
#[device]
fn pass(ctx: &RingCtx, s: &RanksVal) -> Val<f32> {
    let (rank, fresh, degree) = (ctx.array(&s.rank), ctx.array(&s.fresh), ctx.array(&s.degree));
    let nodes = rank.len();
    // Nodes without edges give to all.
    let mut idle = val(0.0f32);
    for node in ctx.share(nodes) {
        idle += select(degree.get(node).eq(0), rank.get(node), 0.0);
    }
    let damping = DAMPING as f32;
    let given = (1.0 - damping + ctx.sum(idle) * damping) / nodes.cast::<f32>();
    let mut change = val(0.0f32);
    for node in ctx.share(nodes) {
        let mut sum = val(0.0f32);
        let mut edge = ctx.array(&s.first).get(node);
        while edge != 0 {
            let source = ctx.array(&s.source).get(edge - 1);
            sum += rank.get(source) / degree.get(source).cast::<f32>();
            edge = ctx.array(&s.next).get(edge - 1);
        }
        let new = given + sum * damping;
        change += (new - rank.get(node)).abs();
        fresh.set(node, new);
    }
    ctx.sync();
    for node in ctx.share(nodes) {
        rank.set(node, fresh.get(node));
    }
    ctx.sync();
    ctx.sum(change)
}

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
    let graph = match &options.edges {
        Some(file) => {
            let named = |error: String| format!("{}: {error}", file.display());
            let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
            Graph::of_edges(&text).map_err(named)?
        }
        None => Graph::of_lock_file(include_str!("../../Cargo.lock")),
    };
    let device = Device::default()?;
    let (nodes, edges) = (graph.names.len(), graph.edges.len());
    if edges == 0 {
        return Err("the graph has no edges: give a file with two names a line".into());
    }
    println!("{nodes} nodes and {edges} edges, on {} ({})", device.id(), device.properties().name);

    let runtime = RingRuntime::new(&device)?;
    let rank = runtime.payload_of(&vec![1.0 / nodes as f32; nodes])?;
    let state = Ranks {
        first: runtime.payload(nodes)?,
        next: runtime.payload(edges)?,
        source: runtime.payload(edges)?,
        degree: runtime.payload(nodes)?,
        rank: rank.clone(),
        fresh: runtime.payload(nodes)?,
        edges: 0,
    };
    let actor = runtime.launch(page_rank, RingConfig::default().state(state).capacity(4096))?;
    actor.activate()?;

    let mut largest = 0f64;
    for stage in 1..=STAGES {
        let (begin, end) = (edges * (stage - 1) / STAGES, edges * stage / STAGES);
        let start = Instant::now();
        for &(from, to) in &graph.edges[begin..end] {
            actor.send(Update { kind: ADD, from, to })?;
        }
        let settled = actor.ask(Update { kind: SETTLE, from: 0, to: 0 })?.ok_or("no answer")?;
        let time = start.elapsed();
        let want = graph::ranks(nodes, &graph.edges[..end]);
        let got = rank.to_vec()?;
        let off = got.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs() / b).fold(0.0, f64::max);
        largest = largest.max(off);
        println!(
            "{:5} edges: settled in {} iterations; {:.1} us with the {} new edges; off by {off:.1e} at most",
            settled.edges,
            settled.iterations,
            time.as_secs_f64() * 1e6,
            end - begin
        );
    }
    let ranks = rank.to_vec()?;
    let mut order: Vec<usize> = (0..nodes).collect();
    order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]));
    for &node in order.iter().take(options.top) {
        println!("{:9.5} {}", ranks[node], graph.names[node]);
    }
    actor.terminate()?;
    println!("largest relative difference from the reference: {largest:.1e}");
    if largest > 1e-4 { Err("the ranks differ from the reference".into()) } else { Ok(()) }
}

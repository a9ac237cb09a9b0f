//! The resident kernel as GPUs get it.

use super::probe::trace_probe;
use super::{ActorKind, Cluster, GridPlan, trace_resident};
use crate::handler::ErasedHandler;
use crate::wire::slot::SlotLayout;
use crate::{Address, Inline, Payload, RingCtx, State, ring_kernel};
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_lang::prelude::*;
use std::process::{Command, Stdio};
use std::sync::Arc;

#[ring_kernel(crate = crate)]
fn echo(_ctx: &RingCtx, m: [u32; 12]) -> [u32; 12] {
    m.map(|word| word + 1)
}

#[ring_kernel(crate = crate)]
fn divide(_ctx: &RingCtx, last: &mut u32, x: u32) -> Option<u32> {
    *last = 1000 / x;
    if *last > 3 { Some(*last) } else { None }
}

#[ring_kernel(crate = crate)]
fn total(ctx: &RingCtx, values: Payload<f32>) -> f32 {
    let values = ctx.array(&values);
    let mut sum: Val<f32> = 0.0;
    for i in ctx.share(values.len()) {
        sum += values.get(i);
    }
    ctx.sum(sum)
}

#[derive(State)]
#[kiln(crate = crate)]
struct Split {
    even: Address<[u32; 4]>,
    odd: Address<[u32; 4]>,
    all: [Address<u32>; 2],
}

#[ring_kernel(crate = crate)]
fn split(ctx: &RingCtx, s: &mut Split, x: u32) {
    if x % 2 == 0 {
        ctx.send(&s.even, [x, val(1), val(2), val(3)]);
    } else {
        ctx.send(&s.odd, [x, x, x, x]);
    }
    for all in s.all {
        ctx.send(&all, x);
    }
}

fn plan(inbound_links: bool, ordered: bool) -> GridPlan {
    let slots = |words| SlotLayout::new(words, false);
    let kinds = vec![
        ActorKind::of_slots(Arc::new(echo), slots(12), slots(12), 1),
        ActorKind::of_slots(Arc::new(divide), SlotLayout::new(1, true), slots(2), 3),
        ActorKind::of_slots(Arc::new(total), slots(3), slots(3), 1),
        ActorKind::of_slots(Arc::new(split), slots(1), slots(2), 8),
    ];
    GridPlan {
        kinds,
        endpoints: 64,
        lanes: 32,
        budget: 1000,
        inbound_links,
        ordered,
        far_inbox: false,
        peers: false,
        cluster: None,
        dispatched: false,
        measure_every: 16,
    }
}

#[ring_kernel(crate = crate)]
fn pass(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ctx.send(next, x);
}

#[ring_kernel(crate = crate)]
fn check(ctx: &RingCtx, next: &mut Address<u32>, x: u32) -> Option<u32> {
    device_assert!(x != 7, "seven");
    if x == 0 {
        return Some(x);
    }
    ctx.send(next, 1000 / x);
    None
}

#[ring_kernel(crate = crate)]
fn say(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    device_print!("{}", x);
    ctx.send(next, x);
}

#[derive(State)]
#[kiln(crate = crate)]
struct Counting {
    next: Address<u32>,
    seen: Inline<u32, 2>,
}

#[ring_kernel(crate = crate)]
fn count(ctx: &RingCtx, s: &mut Counting, x: u32) {
    let seen = ctx.array(&s.seen);
    seen.set(0, seen.get(0) + 1);
    ctx.send(&s.next, x);
}

/// A worker may drop what a handler decided, and run it again, if that has no visible effect.
#[test]
fn handlers_that_store_or_print_are_not_repeatable() {
    let of = |handler: Arc<dyn ErasedHandler>| {
        let slots = || SlotLayout::new(1, false);
        let kinds = vec![ActorKind::of_slots(handler, slots(), slots(), 1)];
        let plan = GridPlan { kinds, ..plan(true, false) }.with_effects();
        (plan.kinds[0].repeatable, plan.kinds[0].passes_on())
    };
    assert_eq!(of(Arc::new(pass)), (true, true));
    assert_eq!(of(Arc::new(check)), (true, true), "a fault ends the handler's fault region");
    assert_eq!(of(Arc::new(echo)), (true, false), "it sends nothing");
    assert_eq!(of(Arc::new(say)), (false, false));
    assert_eq!(of(Arc::new(count)), (false, false));
}

#[ring_kernel(crate = crate)]
fn check_lanes(ctx: &RingCtx, x: u32) -> u32 {
    device_assert!(ctx.lane().ne(x), "not here");
    x
}

#[ring_kernel(crate = crate)]
fn check_lanes_and_meet(ctx: &RingCtx, x: u32) -> u32 {
    device_assert!(ctx.lane().ne(x), "not here");
    ctx.sync();
    x
}

/// The lanes vote on faults only where one may have a fault that others have not.
#[test]
fn lanes_vote_on_faults_that_vary() {
    let of = |handler: Arc<dyn ErasedHandler>| {
        let slots = || SlotLayout::new(1, false);
        let kinds = vec![ActorKind::of_slots(handler, slots(), slots(), 1)];
        GridPlan { kinds, ..plan(true, false) }.with_effects().kinds[0].faults_vary
    };
    assert!(of(Arc::new(check_lanes)));
    assert!(!of(Arc::new(check_lanes_and_meet)), "the barrier makes the fault one of all");
    assert!(!of(Arc::new(check)) && !of(Arc::new(pass)) && !of(Arc::new(count)));
}

/// They compile for every generation, without the hidden parameters of faults and prints that a
/// launch would wait for.
#[test]
fn resident_kernels_compile_for_every_generation() {
    assert_eq!(modules().len(), 4 * 3 + 2 + 2 * 3);
}

/// What a dispatch does not have is not left: orders among workers and the host, clocks, sleep. All
/// else is, and each fault keeps its site.
#[test]
fn dispatched_kernels_need_neither_orders_nor_clocks() {
    for (inbound_links, ordered) in [(false, false), (true, false), (true, true)] {
        let resident = GridPlan { lanes: 1, ..plan(inbound_links, ordered) };
        let dispatched = trace_resident(&GridPlan { dispatched: true, ..resident.clone() }).unwrap();
        assert!(kiln_ir::verify(&dispatched).is_ok());
        let mut left = Vec::new();
        dispatched.walk(|_, data| left.push(data.kind.mnemonic()));
        let resident = trace_resident(&resident).unwrap();
        let mut before = Vec::new();
        resident.walk(|_, data| before.push(data.kind.mnemonic()));
        for name in [
            "load_quad",
            "store_quad",
            "ordered_load",
            "ordered_store",
            "fence",
            "clock",
            "sleep",
            "block_uniform",
        ] {
            assert!(before.contains(&name) && !left.contains(&name), "{name}, {inbound_links}, {ordered}");
        }
        let sites = |kernel: &kiln_ir::Kernel| -> Vec<String> {
            kernel.fault_sites().into_iter().map(|site| site.message).collect()
        };
        assert_eq!(sites(&dispatched), sites(&resident));
        let names: Vec<&str> = dispatched.params[3..].iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names, ["spins", "sleep_ns", "leave_after", "turns", "first", "now"]);
    }
}

/// The PTX of every kind of resident kernel for every generation, with the architecture's name.
fn modules() -> Vec<(&'static str, String)> {
    let resident = |plan: GridPlan| trace_resident(&plan).unwrap();
    let mut kernels = Vec::new();
    for (inbound_links, ordered) in [(false, false), (true, false), (true, true)] {
        kernels.push((resident(plan(inbound_links, ordered)), (8, 0), 3 * 3 + 3));
    }
    kernels.push((resident(GridPlan { far_inbox: true, ..plan(true, false) }), (8, 0), 3 * 3 + 3));
    // There are no clusters before sm_90.
    let cluster = Some(Cluster { workers: 4, words: 2048 });
    kernels.push((resident(GridPlan { cluster, ..plan(true, false) }), (9, 0), 3 * 3 + 3));
    for ordered in [false, true] {
        kernels.push((trace_probe(32, ordered).unwrap(), (8, 0), 2 * 3 + 4));
    }
    let all = [((8, 0), "sm_80"), ((9, 0), "sm_90"), ((10, 0), "sm_100")];
    let of = |(kernel, least, words): &(kiln_ir::Kernel, (u32, u32), u32)| {
        kiln_ir::verify(kernel).unwrap();
        let targets = all.into_iter().filter(|(compute, _)| compute >= least);
        let compile = |(compute, arch)| {
            let module = compile_to_ptx(kernel, ptx::Target { compute, ptx: (9, 0) }).unwrap();
            assert_eq!(module.words, *words, "views and numbers, and nothing else");
            (arch, module.text)
        };
        targets.map(compile).collect::<Vec<_>>()
    };
    kernels.iter().flat_map(of).collect()
}

#[test]
#[ignore = "needs an assembler: KILN_PTXAS=… cargo test -p kiln-ring --lib -- --ignored ptxas"]
fn resident_kernels_assemble_by_ptxas() {
    let ptxas = std::env::var_os("KILN_PTXAS").expect("KILN_PTXAS names the assembler");
    for (arch, text) in modules() {
        let path = std::env::temp_dir().join(format!("kiln-ring-{arch}-{}.ptx", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        let mut command = Command::new(&ptxas);
        let arch = format!("-arch={arch}");
        command.args([&arch, "-v", "-o", "/dev/null"]).arg(&path).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !log.contains("warning"), "{log}");
        assert!(log.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{log}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// What a change of names or of files must leave as it is: `diff` two folders that this wrote.
#[test]
#[ignore = "writes files: KILN_RING_PTX=folder cargo test -p kiln-ring --lib -- --ignored write_ptx"]
fn write_ptx_of_resident_kernels() {
    let folder = std::env::var_os("KILN_RING_PTX").expect("KILN_RING_PTX names a folder");
    for (number, (arch, text)) in modules().iter().enumerate() {
        std::fs::write(std::path::Path::new(&folder).join(format!("{number:02}-{arch}.ptx")), text).unwrap();
    }
}

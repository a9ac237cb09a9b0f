//! Kernels that need much of a multiprocessor, beside resident ones on one or on all of them. A
//! multiprocessor divides its memory between shared memory and the first cache while it has nothing
//! to run, and the driver makes room for local memory that is more than there ever was: either may
//! wait for a resident kernel. So do threads with more registers than are left.
//!
//! What waits is reported and is no failure.

use crate::rig::{Outcome, Rig, ends, ensure, timed};
use kiln_cuda::driver::{DeviceBuffer, Function, JitOptions, LaunchShape, Module};
use std::fmt::Write as _;
use std::time::Duration;

/// How long the kernels are resident if the host does not release them.
const STAY: Duration = Duration::from_secs(1);
/// A kernel that takes as long waits for them.
const LONG: Duration = Duration::from_millis(50);

/// Bytes of local memory of a thread: room for as many as `RESERVED` is made before these need it.
const LOCAL: [u32; 7] = [16, 1024, 2048, 4096, 16 << 10, RESERVED, 64 << 10];
const RESERVED: u32 = 32 << 10;
/// KiB of shared memory of a block.
const SHARED: [u32; 9] = [0, 1, 8, 32, 100, 200, 225, 226, 227];
/// Threads of a block, of 64 registers each.
const THREADS: [u32; 4] = [512, 896, 992, 1024];

/// A word that kernels store.
struct Word<'a> {
    rig: &'a Rig,
    buffer: DeviceBuffer,
}

pub fn measure(rig: &Rig) -> Outcome {
    let gpu = rig.context.properties();
    let (module, _) = Module::from_ptx(&rig.context, "room", &ptx(), &JitOptions::default())?;
    let word = Word { rig, buffer: DeviceBuffer::new(&rig.stream, 4)? };
    println!("\nkernels that need much, beside resident ones:");
    local(&word, &module)?;
    shared(&word, "that prefer the cache")?;
    registers(&word, &module)?;
    // As it is done where others have begun.
    let staying = rig.stay_in(&rig.resident, STAY, gpu.multiprocessors)?;
    let prefer = || rig.function("stay").and_then(|stay| Ok(stay.prefer_shared()?));
    let ((), call) = timed(prefer)?;
    println!("  to prefer shared memory takes {call:.1?}");
    staying.end()?;
    shared(&word, "that prefer shared memory")
}

fn local(word: &Word<'_>, module: &Module) -> Outcome {
    for bytes in LOCAL {
        let context = &word.rig.context;
        if bytes < RESERVED && bytes > 4096 {
            let ((), took) = timed(|| context.reserve_local(RESERVED as usize))?;
            println!("  to make room for {RESERVED} bytes takes {took:.1?}");
        }
        let deep = module.function(&format!("deep{bytes}"))?;
        let room = context.local_bytes()?;
        let what = format!("{bytes} bytes of local memory, of {room}");
        word.check(&what, 1, &deep, &warp(0), &[8, 8])?;
    }
    Ok(())
}

fn shared(word: &Word<'_>, which: &str) -> Outcome {
    let gpu = word.rig.context.properties();
    let spread = word.rig.function("spread")?;
    spread.allow_shared(gpu.shared_per_block_opt_in)?;
    for kib in SHARED.into_iter().filter(|kib| kib << 10 <= gpu.shared_per_block_opt_in) {
        let what = format!("{kib} KiB of shared memory, beside those {which}");
        word.check(&what, gpu.multiprocessors, &spread, &warp(kib << 10), &[])?;
    }
    Ok(())
}

fn registers(word: &Word<'_>, module: &Module) -> Outcome {
    let full = module.function("full")?;
    let registers = full.attributes().registers;
    for threads in THREADS {
        let shape = LaunchShape::new([1, 1, 1], [threads, 1, 1]);
        let what = format!("{threads} threads of {registers} registers");
        word.check(&what, word.rig.context.properties().multiprocessors, &full, &shape, &[])?;
    }
    Ok(())
}

fn warp(shared_bytes: u32) -> LaunchShape {
    LaunchShape { shared_bytes, ..LaunchShape::new([1, 1, 1], [32, 1, 1]) }
}

impl Word<'_> {
    /// Launches a kernel that stores 7 beside so many resident blocks.
    fn check(
        &self,
        what: &str,
        blocks: u32,
        function: &Function,
        shape: &LaunchShape,
        more: &[u64],
    ) -> Outcome {
        let stream = &self.rig.stream;
        self.buffer.fill(0)?;
        stream.synchronize()?;
        let staying = self.rig.stay_in(&self.rig.resident, STAY, blocks)?;
        let arguments = [&[self.buffer.pointer().0], more].concat();
        // SAFETY: a word, which lives until the kernel has ended, and places in local memory.
        let ((), call) = timed(|| unsafe { function.launch(stream, shape, &arguments) })?;
        let (ended, work) = timed(|| ends(stream, LONG))?;
        let waits = if ended && call < LONG { "" } else { ", waits" };
        println!("  beside {blocks}: {what}: the call {call:.1?}, the work {work:.1?}{waits}");
        staying.end()?;
        let mut word = [0; 4];
        self.buffer.read(0, &mut word)?;
        ensure(u32::from_le_bytes(word) == 7, "the kernel has stored its word")
    }
}

/// The kernels: `full`, whose threads have 64 registers, and those with local memory.
fn ptx() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry full(.param .u64 at) .maxntid 1024\n{\n\
         .reg .pred %p;\n.reg .b64 %at;\n.reg .b32 %s, %v<56>;\nld.param.u64 %at, [at];\nmov.u32 %s, 7;\n",
    );
    let line = |text: &mut String, line: std::fmt::Arguments<'_>| _ = writeln!(text, "{line}");
    (0..56).for_each(|i| line(&mut text, format_args!("ld.volatile.global.u32 %v{i}, [%at];")));
    (0..56).for_each(|i| line(&mut text, format_args!("mad.lo.u32 %s, %v{i}, {}, %s;", i * 7 + 3)));
    // All of them again, by what they came to: they stay in registers.
    (0..56).for_each(|i| {
        line(&mut text, format_args!("mad.lo.u32 %v{i}, %v{i}, %s, %v{};", (i + 1) % 56));
    });
    (0..56).for_each(|i| line(&mut text, format_args!("xor.b32 %s, %v{i}, %s;")));
    text += "bar.sync 0;\nsetp.ne.u32 %p, %s, 12345;\n@%p st.global.u32 [%at], 7;\nret;\n}\n";
    LOCAL.into_iter().for_each(|bytes| text += &deep(bytes));
    text
}

/// Stores 7 by way of local memory, at two places that are the same.
fn deep(bytes: u32) -> String {
    format!(
        ".visible .entry deep{bytes}(.param .u64 at, .param .u64 place, .param .u64 same)\n{{\n\
         .local .align 8 .b8 frame[{bytes}];\n.reg .b32 %r;\n.reg .b64 %at, %frame, %place;\n\
         ld.param.u64 %at, [at];\nmov.u64 %frame, frame;\nld.param.u64 %place, [place];\n\
         add.u64 %place, %frame, %place;\nmov.u32 %r, 7;\nst.local.u32 [%place], %r;\n\
         ld.param.u64 %place, [same];\nadd.u64 %place, %frame, %place;\nld.local.u32 %r, [%place];\n\
         st.global.u32 [%at], %r;\nret;\n}}\n"
    )
}

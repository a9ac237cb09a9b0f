//! Which calls wait for a resident kernel. What waits is reported and is no failure: it is the
//! driver's way, and Kiln goes around it.

use crate::rig::{Outcome, Rig, fresh_ptx, timed};
use kiln_cuda::driver::{
    Bar, BarBuffer, Context, Cubin, DeviceBuffer, Event, Function, Graph, JitOptions, LaunchShape, Module,
    PinnedBuffer, Stream, compile_to_cubin,
};
use std::error::Error;
use std::time::Duration;

/// How long the kernel is resident if the host does not release it: a call that takes as long waits
/// for it.
const STAY: Duration = Duration::from_millis(700);

/// What the steps hand to each other.
struct StallState<'a> {
    rig: &'a Rig,
    context: Context,
    cubin: Option<Cubin>,
    module: Option<Module>,
    function: Option<Function>,
    buffer: Option<DeviceBuffer>,
    raw: u64,
    pinned: Option<PinnedBuffer>,
    bar: Option<Bar>,
    bar_buffer: Option<BarBuffer>,
    stream: Option<Stream>,
    event: Option<Event>,
    graph: Option<Graph>,
    host: Vec<u8>,
}

type Step = fn(&mut StallState<'_>) -> Outcome;

/// Runs every step alone, then every step beside the kernel.
pub fn measure(rig: &Rig) -> Outcome {
    let mut state = StallState::new(rig);
    let mut alone = Vec::new();
    for (_, step) in STEPS {
        alone.push(timed(|| step(&mut state))?.1);
    }
    let mut state = StallState::new(rig);
    println!("  {:<52} {:>12} {:>12}", "", "alone", "beside");
    for ((name, step), alone) in STEPS.iter().zip(alone) {
        let staying = rig.stay(STAY)?;
        let ((), beside) = timed(|| step(&mut state))?;
        let was_there = staying.end()?;
        let verdict = if was_there { "" } else { "  WAITS" };
        println!("  {name:<52} {:>12} {:>12}{verdict}", format!("{alone:.1?}"), format!("{beside:.1?}"));
    }
    Ok(())
}

const STEPS: &[(&str, Step)] = &[
    ("nothing", |_| Ok(())),
    ("compile PTX and load it (driver's JIT)", |s| {
        s.module = Some(Module::from_ptx(&s.context, "fresh", &fresh_ptx(), &JitOptions::default())?.0);
        Ok(())
    }),
    ("find and load a kernel of it", find_function),
    ("first launch of it, and wait", launch_and_wait),
    ("unload the module", unload),
    ("compile PTX to a cubin (driver's linker)", |s| {
        s.cubin = Some(compile_to_cubin(&s.context, "fresh", &fresh_ptx(), &JitOptions::default())?);
        Ok(())
    }),
    ("load the cubin", |s| {
        let cubin = s.cubin.as_ref().ok_or("no cubin")?;
        s.module = Some(Module::load(&s.context, &cubin.bytes)?);
        Ok(())
    }),
    ("find and load a kernel of the cubin", find_function),
    ("first launch of that, and wait", launch_and_wait),
    ("unload the cubin", unload),
    ("allocate 1 MiB from the pool", |s| allocate(s, 1 << 20)),
    ("fill it, and wait", |s| {
        s.buffer()?.fill(7)?;
        Ok(s.rig.stream.synchronize()?)
    }),
    ("upload 64 bytes, and wait", |s| upload(s, 64)),
    ("upload 1 MiB, and wait", |s| upload(s, 1 << 20)),
    ("download 64 bytes", |s| download(s, 64)),
    ("download 1 MiB", |s| download(s, 1 << 20)),
    ("launch of a loaded kernel, and wait", |s| {
        s.function = Some(s.rig.function("answer_once")?);
        launch_and_wait(s)
    }),
    ("record an event, query and wait", |s| {
        let event = Event::new(&s.context)?;
        event.record(&s.rig.stream)?;
        event.has_passed()?;
        event.synchronize()?;
        s.event = Some(event);
        Ok(())
    }),
    ("destroy an event", |s| end(s.event.take())),
    ("make a graph of a launch", |s| {
        let function = s.rig.function("answer_once")?;
        let at = s.buffer()?.pointer().0;
        let graph = Graph::capture(&s.rig.stream, |stream| {
            // SAFETY: the kernel takes two addresses of 64 bytes.
            unsafe { function.launch(stream, &SHAPE, &[at, at + 64]) }
        })?;
        s.graph = Some(graph);
        Ok(())
    }),
    ("launch the graph, and wait", |s| {
        // SAFETY: the buffer is alive.
        unsafe { s.graph.as_ref().ok_or("no graph")?.launch(&s.rig.stream)? };
        Ok(s.rig.stream.synchronize()?)
    }),
    ("destroy the graph", |s| end(s.graph.take())),
    ("free to the pool", |s| end(s.buffer.take())),
    ("allocate 2 GiB from the pool", |s| allocate(s, 2 << 30)),
    ("free that", |s| end(s.buffer.take())),
    ("trim the pool", |s| Ok(s.context.trim(0)?)),
    ("cuMemAlloc of 4 MiB", |s| {
        // SAFETY: the address is writable.
        Ok(unsafe { s.context.api().cuMemAlloc_v2(&mut s.raw, 4 << 20) }?)
    }),
    ("cuMemFree", |s| {
        // SAFETY: allocated by the step before, not used yet.
        Ok(unsafe { s.context.api().cuMemFree_v2(s.raw) }?)
    }),
    ("pin 1 MiB", |s| {
        s.pinned = Some(PinnedBuffer::new(&s.context, 1 << 20)?);
        Ok(())
    }),
    ("unpin it", |s| end(s.pinned.take())),
    ("open the GPU in Vulkan", |s| {
        match Bar::open(s.context.device()) {
            Ok(bar) => s.bar = Some(bar),
            Err(obstacle) => println!("  {obstacle}"),
        }
        Ok(())
    }),
    ("map 1 MiB of GPU memory", |s| {
        if let Some(bar) = &s.bar {
            s.bar_buffer = Some(BarBuffer::new(&s.rig.stream, bar, 1 << 20)?);
        }
        Ok(())
    }),
    ("free that", |s| end(s.bar_buffer.take())),
    ("close the GPU in Vulkan", |s| end(s.bar.take())),
    ("make a stream", |s| {
        s.stream = Some(Stream::new(&s.context)?);
        Ok(())
    }),
    ("destroy it", |s| end(s.stream.take())),
    ("ask for free memory", |s| Ok(s.context.memory().map(drop)?)),
    ("wait for the whole context", |s| Ok(s.context.synchronize()?)),
];

const SHAPE: LaunchShape = LaunchShape::new([1, 1, 1], [16, 1, 1]);

impl StallState<'_> {
    fn new(rig: &Rig) -> StallState<'_> {
        StallState {
            rig,
            context: rig.context.clone(),
            cubin: None,
            module: None,
            function: None,
            buffer: None,
            raw: 0,
            pinned: None,
            bar: None,
            bar_buffer: None,
            stream: None,
            event: None,
            graph: None,
            host: vec![1; 1 << 20],
        }
    }

    fn buffer(&self) -> Result<&DeviceBuffer, Box<dyn Error>> {
        self.buffer.as_ref().ok_or("no buffer".into())
    }
}

fn end<T>(object: Option<T>) -> Outcome {
    drop(object);
    Ok(())
}

fn find_function(s: &mut StallState<'_>) -> Outcome {
    s.function = Some(s.module.as_ref().ok_or("no module")?.function("answer_once")?);
    Ok(())
}

fn launch_and_wait(s: &mut StallState<'_>) -> Outcome {
    if s.buffer.is_none() {
        s.buffer = Some(DeviceBuffer::new(&s.rig.stream, 128)?);
    }
    let at = s.buffer()?.pointer().0;
    // SAFETY: the kernel takes two addresses of 64 bytes.
    unsafe { s.function.as_ref().ok_or("no function")?.launch(&s.rig.stream, &SHAPE, &[at, at + 64])? };
    Ok(s.rig.stream.synchronize()?)
}

fn unload(s: &mut StallState<'_>) -> Outcome {
    s.function = None;
    s.module = None;
    Ok(())
}

fn allocate(s: &mut StallState<'_>, bytes: usize) -> Outcome {
    s.buffer = Some(DeviceBuffer::new(&s.rig.stream, bytes)?);
    Ok(())
}

fn upload(s: &mut StallState<'_>, bytes: usize) -> Outcome {
    s.buffer()?.write(0, &s.host[..bytes])?;
    Ok(s.rig.stream.synchronize()?)
}

fn download(s: &mut StallState<'_>, bytes: usize) -> Outcome {
    let mut host = std::mem::take(&mut s.host);
    s.buffer()?.read(0, &mut host[..bytes])?;
    s.host = host;
    Ok(())
}

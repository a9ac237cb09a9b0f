//! Graphs: work that is recorded once, and enqueued again and again by one call.

use crate::activity::{Activity, CallSite, LaunchTimer, ReplayActivity};
use crate::buffer::Access;
use crate::capture::node::{Recorded, Work};
use crate::capture::plan::ReplayPlan;
use crate::capture::recording::Recording;
use crate::capture::state::Mode;
use crate::device::Device;
use crate::error::Result;
use crate::log::Log;
use crate::stream::{Event, Queue, Stream};
use kiln_backend::{DeviceGraph, GraphWork, Launch};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use web_time::Instant;

/// Launches, copies and fills that were recorded once, and that [`replay`](Self::replay) enqueues
/// again in one call: for work of many small kernels, whose launches cost more than they take. On
/// an NVIDIA GPU it is a CUDA graph.
///
/// [`Device::graph`] records what its closure does. Library functions are recorded with all that
/// they launch, and what tensors they allocate meanwhile belongs to the graph:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Val<f32>) {
///     let at = program_id(0) * 4;
///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * by);
/// }
///
/// let device = Device::open("interp")?;
/// let mut x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0], [5])?;
/// let mut y = device.uninit([5])?;
/// let (mut graph, last) = device.graph(|capture| {
///     let mut between = device.uninit([5])?;
///     scale(&x, &mut between, 2.0).launch(&device)?;
///     scale(&between, &mut y, 10.0).launch(&device)?;
///     Ok(capture.last())
/// })?;
/// assert_eq!(graph.len(), 2); // nothing has run yet
///
/// graph.replay()?;
/// assert_eq!(y.to_vec()?, [20.0, 40.0, 60.0, 80.0, 100.0]);
///
/// // Other contents, another number, another tensor.
/// x.write(&[1.0, 1.0, 1.0, 1.0, 2.0])?;
/// graph.set(last, "by", 3.0f32)?;
/// let mut z = device.uninit::<f32, 1>([5])?;
/// graph.replace_mut(&y, &mut z)?;
/// graph.replay()?;
/// assert_eq!(z.to_vec()?, [6.0, 6.0, 6.0, 6.0, 12.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// # What is recorded
///
/// Launches, [`Tensor::write`](crate::Tensor::write), copies and new tensors with contents, of the
/// device and on the thread of the capture. Nothing of it runs until a replay. Bytes from the host
/// are taken at the capture and written anew by each replay. Grids and compiled kernels are those
/// of the capture. What waits for the device or reads a tensor is
/// [`Error::Capture`](crate::Error::Capture) with its line, for there is nothing to read yet.
///
/// Each replay is to other work what a launch of all its parts would be: its tensors are alive,
/// locked while it is enqueued, copied to the device where they are newer on the host, and ordered
/// with other streams; a fault is reported at the next synchronization with the kernel's line.
///
/// # Order
///
/// What was recorded in one stream runs in that order. What was recorded in different streams (by
/// [`Launch::on`](crate::Launch::on)) runs at the same time, except that parts which share a
/// tensor, of which one writes it, run in the order of the recording. As a whole, a replay runs in
/// the stream that the graph was made for.
pub struct Graph {
    /// The same on the device, if it has graphs. Dropped before what it uses.
    pub(crate) on_device: Option<Box<dyn DeviceGraph>>,
    pub(crate) device: Device,
    queue: Queue,
    pub(crate) number: u64,
    pub(crate) nodes: Vec<Recorded>,
    pub(crate) plan: ReplayPlan,
}

/// A part of a [`Graph`]: a launch, copy or fill.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, GraphNode, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn add(x: &mut Tensor<f32, 1>, term: Val<f32>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) + term);
/// }
///
/// let device = Device::open("interp")?;
/// let mut x = device.zeros([2])?;
/// // Two launches of one kernel, which their nodes tell apart.
/// let (mut graph, [_, second]) = device.graph(|capture| {
///     add(&mut x, 1.0).launch(&device)?;
///     let first: GraphNode = capture.last();
///     add(&mut x, 10.0).launch(&device)?;
///     Ok([first, capture.last()])
/// })?;
/// graph.set(second, "term", 20.0f32)?;
/// graph.replay()?;
/// assert_eq!(x.to_vec()?, [21.0, 21.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub(crate) graph: u64,
    pub(crate) index: usize,
}

/// A capture that is under way: see [`Device::graph`].
///
/// ```
/// use kiln_runtime::{Capture, Device, GraphNode};
/// let device = Device::open("interp")?;
/// let mut x = device.tensor(&[1.0f32, 2.0], [2])?;
/// let (graph, (fill, write)) = device.graph(|capture: &Capture| {
///     assert!(capture.is_empty());
///     device.zeros::<f32, 1>([4])?;
///     let fill: GraphNode = capture.last();
///     x.write(&[3.0, 4.0])?;
///     assert_eq!(capture.len(), 2);
///     Ok((fill, capture.last()))
/// })?;
/// assert!(fill != write && graph.len() == 2);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Capture {
    recording: Recording,
    number: u64,
}

impl Capture {
    /// What was recorded last, to [change it](Graph::set) later. Before the first it is a node that
    /// no graph has.
    pub fn last(&self) -> GraphNode {
        GraphNode { graph: self.number, index: self.recording.len().wrapping_sub(1) }
    }

    /// How many launches, copies and fills were recorded.
    pub fn len(&self) -> usize {
        self.recording.len()
    }

    /// Whether nothing was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The launch of a [`Graph`] that is meant: a [`GraphNode`], or the name of a kernel that is
/// launched once in it.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Graph, GraphLaunch, Result, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn add(x: &mut Tensor<f32, 1>, term: Val<f32>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) + term);
/// }
///
/// /// Sets what a launch adds.
/// fn set_term<'l>(graph: &mut Graph, launch: impl Into<GraphLaunch<'l>>, term: f32) -> Result<()> {
///     graph.set(launch.into(), "term", term)
/// }
///
/// let device = Device::open("interp")?;
/// let mut x = device.zeros([2])?;
/// let (mut graph, node) = device.graph(|capture| {
///     add(&mut x, 1.0).launch(&device)?;
///     Ok(capture.last())
/// })?;
/// set_term(&mut graph, "add", 2.0)?;
/// graph.replay()?;
/// set_term(&mut graph, node, 3.0)?;
/// graph.replay()?;
/// assert_eq!(x.to_vec()?, [5.0, 5.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum GraphLaunch<'a> {
    /// The only launch of a kernel of this name.
    Kernel(&'a str),
    /// A launch by its handle.
    Node(GraphNode),
}

impl<'a> From<&'a str> for GraphLaunch<'a> {
    fn from(kernel: &'a str) -> GraphLaunch<'a> {
        GraphLaunch::Kernel(kernel)
    }
}

impl From<GraphNode> for GraphLaunch<'_> {
    fn from(node: GraphNode) -> Self {
        GraphLaunch::Node(node)
    }
}

impl Device {
    /// Records what `record` enqueues on this device, on this thread, into a graph that replays in
    /// the default stream. Nothing is run. The graph comes with what `record` returns: tensors that
    /// were made inside, or [nodes](Capture::last).
    ///
    /// [`Graph`] says more, with an example.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (graph, zeros) = device.graph(|_| device.zeros::<f32, 1>([4]))?;
    /// graph.replay()?;
    /// assert_eq!(zeros.to_vec()?, [0.0; 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `record`, with which all that was recorded is forgotten;
    /// [`Error::Capture`](crate::Error::Capture) inside of another capture; what the device refuses
    /// of the whole.
    #[track_caller]
    pub fn graph<T>(&self, record: impl FnOnce(&Capture) -> Result<T>) -> Result<(Graph, T)> {
        let capture = Capture::begin(self, Location::caller())?;
        let result = record(&capture)?;
        Ok((Graph::new(self, Queue::default(), capture)?, result))
    }
}

impl Stream {
    /// [`Device::graph`] for a graph that replays in this stream.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// let stream = Device::open("interp")?.stream()?;
    /// let (graph, x) = stream.graph(|_| stream.device().tensor(&[1.0f32, 2.0], [2]))?;
    /// graph.replay()?;
    /// assert_eq!(x.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Device::graph`].
    #[track_caller]
    pub fn graph<T>(&self, record: impl FnOnce(&Capture) -> Result<T>) -> Result<(Graph, T)> {
        let capture = Capture::begin(self.device(), Location::caller())?;
        let result = record(&capture)?;
        Ok((Graph::new(self.device(), self.queue().clone(), capture)?, result))
    }
}

impl Capture {
    fn begin(device: &Device, site: CallSite) -> Result<Capture> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        device.check_not_printing()?;
        let recording = Recording::begin(device, Mode::Record, site)?;
        Ok(Capture { recording, number: NUMBER.fetch_add(1, Relaxed) })
    }
}

impl Graph {
    fn new(device: &Device, queue: Queue, capture: Capture) -> Result<Graph> {
        let number = capture.number;
        let nodes = capture.recording.end();
        let plan = ReplayPlan::new(&nodes);
        let mut graph = Graph { on_device: None, device: device.clone(), queue, number, nodes, plan };
        graph.build()?;
        Ok(graph)
    }

    /// Makes the device's graph, if it has graphs.
    pub(crate) fn build(&mut self) -> Result<()> {
        self.on_device = None;
        let Some(graphs) = self.device.backend().graphs().filter(|_| !self.nodes.is_empty()) else {
            return Ok(());
        };
        let nodes = self.nodes.iter().zip(&self.plan.after);
        let list: Vec<kiln_backend::GraphNode<'_>> =
            nodes.map(|(node, after)| kiln_backend::GraphNode { work: node.for_backend(), after }).collect();
        // SAFETY: the arguments of each launch were compared with its kernel's parameters and
        // facts, as in `Settings::launch`, or as `set` and `replace` do.
        self.on_device = Some(unsafe { graphs.build_graph(&list, self.queue.id()) }?);
        Ok(())
    }

    /// Enqueues all of it, in the stream that it was made for. Work that uses the same tensors is
    /// ordered before and after it.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (graph, mut x) = device.graph(|_| device.tensor(&[1.0f32, 2.0], [2]))?;
    /// graph.replay()?;
    /// x.write(&[5.0, 6.0])?;
    /// graph.replay()?; // once more what was recorded: the bytes of the capture
    /// assert_eq!(x.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Uninitialized`](crate::Error::Uninitialized) where a tensor is read that neither
    /// the graph nor anything before it has written;
    /// [`Error::Borrowed`](crate::Error::Borrowed);
    /// [`Error::Capture`](crate::Error::Capture) while this thread captures a graph of the device;
    /// failures of the device. A kernel's own fault surfaces at the next synchronization or read of
    /// a tensor.
    #[track_caller]
    pub fn replay(&self) -> Result<()> {
        let site = Location::caller();
        self.device.check_not_printing()?;
        self.device.check_not_capturing("a graph was replayed", site)?;
        if self.nodes.is_empty() {
            return Ok(());
        }
        let log = &mut Log::at(site);
        let mut locked: SmallVec<[(Access<'_>, bool); 8]> = SmallVec::new();
        for planned in &self.plan.buffers {
            let (node, param) = planned.first;
            let name = || self.nodes[node].name_of(param);
            let access = planned.buffer.access(name())?;
            if planned.is_input {
                access.check_written(name())?;
            }
            locked.push((access, planned.writes));
        }
        for (access, writes) in &mut locked {
            match *writes {
                true => access.prepare_write(&self.queue, true, log)?,
                false => access.prepare_read(&self.queue, log)?,
            }
        }
        let started = log.is_on().then(|| self.started());
        let enqueued = self.enqueue();
        // A failure may have come after some of the nodes.
        locked.iter_mut().filter(|(_, writes)| *writes).for_each(|(access, _)| access.wrote(&self.queue));
        enqueued?;
        if let Some(started) = started {
            log.add(&self.device, self.ended(started, site));
        }
        Ok(())
    }

    fn enqueue(&self) -> Result<()> {
        let backend = self.device.backend();
        if let Some(graph) = &self.on_device {
            // SAFETY: `self` keeps the programs, and the buffers, which order their freeing after
            // this stream's work. They are locked and ordered as for a launch.
            return Ok(unsafe { graph.launch() }?);
        }
        let stream = self.queue.id();
        for node in &self.nodes {
            match node.for_backend() {
                // SAFETY: the arguments were compared with the kernel's parameters and facts, by
                // `Settings::launch` or by what changed them; the buffers are as above.
                GraphWork::Launch { program, grid, buffers, numbers } => unsafe {
                    backend.launch(program, Launch { grid, buffers, numbers, stream })
                },
                // SAFETY: both places have so many bytes, in buffers as above: a tensor and one
                // that was made as its copy, or of its bytes.
                GraphWork::Copy { to, from, bytes } => unsafe { backend.copy(to, from, bytes, stream) },
                // SAFETY: all or part of a buffer as above.
                GraphWork::Fill { to, byte, bytes } => unsafe { backend.fill(to, byte, bytes, stream) },
            }?;
        }
        Ok(())
    }

    /// When it is enqueued, and the device's clock before it, if an observer times launches.
    fn started(&self) -> (Instant, Option<Event>) {
        let timed = self.device.observers().time_launches();
        (Instant::now(), timed.then(|| Event::record(&self.device, self.queue.id()).ok()).flatten())
    }

    fn ended(&self, (start, before): (Instant, Option<Event>), call_site: CallSite) -> Activity {
        let duration = start.elapsed();
        let timer = before.and_then(|before| {
            let after = Event::record(&self.device, self.queue.id()).ok()?;
            Some(LaunchTimer::new((before, after)))
        });
        Activity::Replay(ReplayActivity {
            device: self.device.shared_id(),
            nodes: self.nodes.len(),
            stream: self.queue.id(),
            call_site,
            start,
            duration,
            timer,
        })
    }

    /// The device.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (graph, ()) = device.graph(|_| Ok(()))?;
    /// assert!(graph.device() == &device && graph.is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many launches, copies and fills it has.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (graph, _) = device.graph(|_| Ok((device.zeros::<f32, 1>([4])?, device.zeros::<f32, 1>([4])?)))?;
    /// assert_eq!(graph.len(), 2);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none: then a replay does nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The launches, in the order of their recording, each with the name of its kernel and the
    /// place in the source that launched it.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let (graph, _zeros) = device.graph(|_| device.zeros::<f32, 1>([100]))?;
    /// assert_eq!((graph.len(), graph.launches().count()), (1, 0)); // a fill
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn launches(&self) -> impl Iterator<Item = (GraphNode, &str, CallSite)> {
        self.nodes.iter().enumerate().filter_map(|(index, node)| match &node.work {
            Work::Launch(launch) => {
                Some((GraphNode { graph: self.number, index }, &*launch.kernel.name, node.site))
            }
            Work::Copy { .. } | Work::Fill { .. } => None,
        })
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes on {})", self.len(), self.device.id())
    }
}

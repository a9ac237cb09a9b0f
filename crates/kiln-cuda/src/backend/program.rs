//! A compiled kernel on a device, and its launch.

use super::artifact::{Artifact, Code};
use super::crowd::{Claim, Crowd, Together};
use super::device::Device;
use super::maps::MapSlot;
use super::occupancy::{Block, occupancy};
use super::streams::Queue;
use crate::driver::{Function, JitOptions, KernelNode, LaunchShape, Module, TensorMap};
use crate::ptx::STATIC_SHARED;
use kiln_backend::{
    ArgumentCount, BufferBinding, DevicePtr, Error, Launch, Occupancy, Program, Report, Result,
};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// Parameter words that a launch copies on the stack, the hidden ones included; more of them cost
/// an allocation.
const STACK_WORDS: usize = 64;

/// The parameters of a launch as the kernel declares them: 64-bit words, of which the address of a
/// view comes before its extents and strides.
pub(super) type ParameterWords = SmallVec<[u64; STACK_WORDS]>;

/// A kernel that is loaded on a device.
pub(super) struct CudaProgram {
    device: Arc<Device>,
    /// `None` only while it is dropped.
    function: Option<Function>,
    kernel: String,
    shape: LaunchShape,
    arguments: ArgumentCount,
    /// The words that are addresses: increasing, below the number of words (`Artifact::decode`).
    addresses: Vec<u32>,
    hidden: Option<Hidden>,
    /// The most blocks of a launch, where all of them must run at the same time.
    most_blocks: Option<u64>,
    /// What a block takes of a multiprocessor.
    block: Block,
    /// Whether there may be no room beside a grid of actors.
    fills: bool,
    maps: Vec<MapSlot>,
    report: Report,
}

/// What a program that can report passes besides its parameters.
struct Hidden {
    number: u32,
    prints: bool,
}

impl CudaProgram {
    /// Loads an artifact. Nothing resident may run meanwhile.
    pub(super) fn load(device: &Arc<Device>, artifact: &Artifact) -> Result<CudaProgram> {
        let module = load_module(device, artifact).map_err(|error| device.explain(error))?;
        CudaProgram::of(device, artifact, &module)
    }

    /// The program of an artifact whose code is loaded. Nothing resident may run meanwhile.
    pub(super) fn of(device: &Arc<Device>, artifact: &Artifact, module: &Module) -> Result<CudaProgram> {
        let function = find_function(module, artifact).map_err(|error| device.explain(error))?;
        let threads: u32 = artifact.block.iter().product();
        let dynamic = if artifact.shared > STATIC_SHARED { artifact.shared } else { 0 };
        let used = function.attributes();
        if threads > used.max_threads {
            return Err(Error::LaunchLimit {
                kernel: artifact.table.kernel.clone(),
                what: format!("threads per block, of {} registers each,", used.registers),
                given: threads.into(),
                limit: used.max_threads.into(),
            });
        }
        let cluster = (artifact.cluster > 1).then_some([artifact.cluster, 1, 1]);
        let shape = LaunchShape {
            shared_bytes: dynamic,
            cluster,
            cooperative: artifact.grid_barrier,
            ..LaunchShape::new([0; 3], artifact.block)
        };
        let most_blocks =
            artifact.grid_barrier.then(|| blocks_at_once(device, &function, &shape)).transpose()?;
        let gpu = device.context.properties();
        let block = Block::of(gpu, &used, threads, dynamic);
        let claim = Claim { block, together: together(device, &shape, most_blocks, [1; 3]) };
        let fills = !Crowd::typical(gpu).has_room(gpu, &claim);
        reserve_local(device, used.local_bytes);
        let report =
            Report { threads, registers: used.registers, shared: artifact.shared, spills: artifact.spills };
        Ok(CudaProgram {
            device: device.clone(),
            function: Some(function),
            kernel: artifact.table.kernel.clone(),
            shape,
            arguments: ArgumentCount {
                buffers: artifact.addresses.len(),
                numbers: (artifact.words as usize).saturating_sub(artifact.addresses.len()),
            },
            addresses: artifact.addresses.clone(),
            hidden: hidden(device, artifact),
            most_blocks,
            block,
            fills,
            maps: artifact.maps.iter().cloned().map(MapSlot::new).collect(),
            report,
        })
    }

    /// Whether it was loaded on this device.
    pub(super) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// The code for a resident launch, all of whose blocks must run at once. Other kernels have
    /// shared memory beside them only where they prefer it themselves.
    pub(super) fn resident_function(&self, grid: [u32; 3]) -> Result<Function> {
        self.check_grid(grid)?;
        let Some(function) = &self.function else { return Err(self.internal("it was dropped".into())) };
        let limit = blocks_at_once(&self.device, function, &self.shape)?;
        self.check_blocks("blocks of a resident launch", grid, limit)?;
        self.explained(function.prefer_shared())?;
        Ok(function.clone())
    }

    /// What a block takes of a multiprocessor.
    pub(super) fn block(&self) -> Block {
        self.block
    }

    /// Whether a launch has to look for room beside resident ones, even where those are small.
    #[inline]
    pub(super) fn fills(&self) -> bool {
        self.fills
    }

    /// What a launch asks of the multiprocessors.
    pub(super) fn claim(&self, grid: [u32; 3]) -> Claim {
        let together = together(&self.device, &self.shape, self.most_blocks, grid);
        Claim { block: self.block, together }
    }

    /// Enqueues a launch.
    ///
    /// # Safety
    /// That of [`Backend::launch`](kiln_backend::Backend::launch).
    #[inline]
    pub(super) unsafe fn launch(&self, queue: &Queue, launch: Launch<'_>) -> Result<()> {
        let mut words = ParameterWords::new();
        self.pack(launch.buffers, launch.numbers, &mut words)?;
        self.check_grid(launch.grid)?;
        if launch.grid.contains(&0) {
            return Ok(());
        }
        let Some(function) = &self.function else { return Err(self.internal("it was dropped".into())) };
        let shape = LaunchShape { grid: launch.grid, ..self.shape };
        let mut maps: SmallVec<[TensorMap; 4]> = SmallVec::new();
        for slot in &self.maps {
            maps.push(slot.get(&self.device.context, self.device.nothing, &self.kernel, &words)?);
        }
        let launched = match &self.hidden {
            // SAFETY: the words are as many as the kernel declares and in its order: `pack` puts
            // each address where the module says that it is, and the numbers between them. That
            // the memory is there and covers what the numbers say is the caller's promise. The
            // maps describe the same memory.
            None => unsafe { enqueue(function, queue, &shape, &maps, &words) },
            // SAFETY: as above.
            Some(hidden) => unsafe {
                self.launch_reporting(function, queue, &shape, &maps, &mut words, hidden)
            },
        };
        launched.map_err(|error| self.device.explain(error))
    }

    /// Adds the parameters of a launch to no words: in place, for they are large to move.
    ///
    /// # Errors
    /// For other numbers of arguments than the kernel takes.
    #[inline]
    pub(super) fn pack(
        &self,
        buffers: &[BufferBinding],
        numbers: &[u64],
        words: &mut ParameterWords,
    ) -> Result<()> {
        self.arguments.check("kiln-cuda", &self.kernel, buffers, numbers)?;
        words.resize(buffers.len() + numbers.len(), 0);
        let (mut words, mut numbers) = (words.iter_mut().enumerate(), numbers.iter());
        for (&at, buffer) in self.addresses.iter().zip(buffers) {
            // Each address is behind the one before it, and as many numbers are left as words.
            for (place, word) in &mut words {
                if place == at as usize {
                    *word = buffer.address().0;
                    break;
                }
                *word = numbers.next().copied().unwrap_or_default();
            }
        }
        words.zip(numbers).for_each(|((_, word), &number)| *word = number);
        Ok(())
    }

    /// Where its launches in a stream count the blocks that have come to a barrier of the grid, if
    /// they have such barriers.
    pub(super) fn arrived(&self, queue: &Queue) -> Result<Option<DevicePtr>> {
        if !self.shape.cooperative {
            return Ok(None);
        }
        self.explained(queue.ready_reports().map(|reports| Some(reports.arrived())))
    }

    /// Whether it prints.
    pub(super) fn prints(&self) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.prints)
    }

    /// How many of its blocks a multiprocessor runs at once.
    pub(super) fn occupancy(&self) -> Result<Occupancy> {
        let Some(function) = &self.function else { return Err(self.internal("it was dropped".into())) };
        let threads = self.shape.block.iter().product();
        let blocks = self.explained(function.blocks_per_multiprocessor(threads, self.shape.shared_bytes))?;
        let gpu = self.device.context.properties();
        Ok(occupancy(gpu, &function.attributes(), threads, self.shape.shared_bytes, blocks))
    }

    /// The driver's error as this device's.
    pub(super) fn explained<T>(&self, result: crate::driver::Result<T>) -> Result<T> {
        result.map_err(|error| self.device.explain(error))
    }

    /// Calls `call` with a launch as a node of a graph that runs in the stream of `queue`. The grid
    /// has no zero extent.
    pub(super) fn with_node<R>(
        &self,
        queue: &Queue,
        grid: [u32; 3],
        words: &mut ParameterWords,
        call: impl FnOnce(&KernelNode<'_>) -> crate::driver::Result<R>,
    ) -> Result<R> {
        self.check_grid(grid)?;
        let Some(function) = &self.function else { return Err(self.internal("it was dropped".into())) };
        let mut maps: SmallVec<[TensorMap; 4]> = SmallVec::new();
        for slot in &self.maps {
            maps.push(slot.get(&self.device.context, self.device.nothing, &self.kernel, words)?);
        }
        if let Some(hidden) = &self.hidden {
            let control = self.explained(queue.ready_reports())?.control();
            words.extend_from_slice(&[control, hidden.number.into()]);
        }
        let shape = LaunchShape { grid, ..self.shape };
        self.explained(call(&KernelNode { function, shape: &shape, maps: &maps, words }))
    }

    /// # Safety
    /// That of [`launch`](Self::launch).
    unsafe fn launch_reporting(
        &self,
        function: &Function,
        queue: &Queue,
        shape: &LaunchShape,
        maps: &[TensorMap],
        words: &mut ParameterWords,
        hidden: &Hidden,
    ) -> crate::driver::Result<()> {
        let reports = queue.ready_reports()?;
        words.extend_from_slice(&[reports.control(), hidden.number.into()]);
        let _counting = if shape.cooperative { Some(reports.count_from_zero()?) } else { None };
        let _expected = if hidden.prints { Some(reports.expect_prints()?) } else { None };
        // SAFETY: the two hidden words follow the parameters, as the kernel declares them: the
        // control block lives as long as the stream's work, which its owner waits for before it
        // goes. The rest is the caller's promise.
        unsafe { enqueue(function, queue, shape, maps, words) }
    }

    #[inline]
    fn check_grid(&self, grid: [u32; 3]) -> Result<()> {
        let limits = self.device.properties.max_grid;
        if let Some(limit) = self.most_blocks {
            self.check_blocks("blocks of a launch with a grid barrier", grid, limit)?;
        }
        if let Some([blocks, ..]) = self.shape.cluster.filter(|c| !grid[0].is_multiple_of(c[0])) {
            return Err(Error::LaunchLimit {
                kernel: self.kernel.clone(),
                what: format!("grid extent x, of which clusters of {blocks} leave a part over,"),
                given: grid[0].into(),
                limit: (grid[0] / blocks * blocks).into(),
            });
        }
        match (0..3).find(|&axis| grid[axis] > limits[axis]) {
            None => Ok(()),
            Some(axis) => Err(Error::LaunchLimit {
                kernel: self.kernel.clone(),
                what: format!("grid extent {}", ["x", "y", "z"][axis]),
                given: grid[axis].into(),
                limit: limits[axis].into(),
            }),
        }
    }

    fn check_blocks(&self, what: &str, grid: [u32; 3], limit: u64) -> Result<()> {
        let given = count(grid);
        if given <= limit {
            return Ok(());
        }
        Err(Error::LaunchLimit { kernel: self.kernel.clone(), what: what.to_owned(), given, limit })
    }

    #[cold]
    fn internal(&self, message: String) -> Error {
        Error::Internal { place: "kiln-cuda", message: format!("launch of `{}`: {message}", self.kernel) }
    }
}

/// # Safety
/// That of [`CudaProgram::launch`], with all the words that the kernel takes.
#[inline]
unsafe fn enqueue(
    function: &Function,
    queue: &Queue,
    shape: &LaunchShape,
    maps: &[TensorMap],
    words: &[u64],
) -> crate::driver::Result<()> {
    match maps {
        // SAFETY: the caller's promise.
        [] => unsafe { function.launch(&queue.stream, shape, words) },
        // SAFETY: as above.
        maps => unsafe { function.launch_with_maps(&queue.stream, shape, maps, words) },
    }
}

fn load_module(device: &Device, artifact: &Artifact) -> crate::driver::Result<Module> {
    match &artifact.code {
        Code::Cubin(bytes) => Module::load(&device.context, bytes),
        Code::Ptx(text) => {
            Module::from_ptx(&device.context, &artifact.entry, text, &JitOptions::default()).map(|(m, _)| m)
        }
    }
}

fn find_function(module: &Module, artifact: &Artifact) -> crate::driver::Result<Function> {
    let function = module.function(&artifact.entry)?;
    if artifact.shared > STATIC_SHARED {
        function.allow_shared(artifact.shared)?;
    }
    Ok(function)
}

/// How many blocks of a launch run at the same time on a device that does nothing else.
fn blocks_at_once(device: &Device, function: &Function, shape: &LaunchShape) -> Result<u64> {
    let each = function.blocks_per_multiprocessor(shape.block.iter().product(), shape.shared_bytes);
    let each = each.map_err(|error| device.explain(error))?;
    Ok(u64::from(each) * u64::from(device.properties.units))
}

/// Which blocks of a launch must run at the same time, if at most so many can.
fn together(device: &Device, shape: &LaunchShape, most_blocks: Option<u64>, grid: [u32; 3]) -> Together {
    match (most_blocks, shape.cluster) {
        (Some(most), _) => {
            Together::All { blocks: count(grid), each: most / u64::from(device.properties.units).max(1) }
        }
        (None, Some([blocks, ..])) => Together::Cluster(blocks),
        (None, None) => Together::One,
    }
}

/// The blocks of a grid.
pub(super) fn count(grid: [u32; 3]) -> u64 {
    grid.iter().fold(1u64, |blocks, extent| blocks.saturating_mul((*extent).into()))
}

/// Has room for local memory made while nothing resident runs: a launch would wait for its end.
/// Where there is not that much memory the launch says so.
fn reserve_local(device: &Device, bytes: u32) {
    if device.context.local_bytes().is_ok_and(|room| room < bytes as usize) {
        let _ = device.context.reserve_local(bytes as usize);
    }
}

fn hidden(device: &Device, artifact: &Artifact) -> Option<Hidden> {
    let table = &artifact.table;
    if table.sites.is_empty() && !artifact.grid_barrier {
        return None;
    }
    Some(Hidden { number: device.tables.number(&Arc::new(table.clone())), prints: table.prints() })
}

impl Program for CudaProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        self.report.clone()
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            self.device.retire(function);
        }
    }
}

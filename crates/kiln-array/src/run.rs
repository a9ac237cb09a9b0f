//! Running a plan: buffers, launches, and the kernels that were compiled before.

use crate::emit;
use crate::error::{Error, Result, Site};
use crate::library;
use crate::node::Array;
use crate::op::Op;
use crate::plan::body::{Body, Group};
use crate::plan::graph::Graph;
use crate::plan::lower::{Launch, View, lower};
use crate::plan::partition::{Part, Partition, alone, partition, strided};
use crate::plan::program::Program;
use kiln_ir::Literal;
use kiln_runtime::{Device, DynArg, DynKernel, DynTensor};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The kernels of programs that ran before, of all devices: a kernel belongs to none.
static KERNELS: LazyLock<Mutex<HashMap<Program, DynKernel>>> = LazyLock::new(Mutex::default);

/// How many kernels are kept. With more programs than this, as a search over structures has, the
/// kernels are made anew; what was compiled for them stays in the device's cache.
const MOST_KERNELS: usize = 4096;

/// Computes arrays, and leaves their elements in them.
pub(crate) fn evaluate(targets: &[&Array]) -> Result<()> {
    let graph = Graph::of(targets)?;
    if graph.len() == 0 {
        return Ok(());
    }
    let plan = plan(&graph)?;
    let mut run = Run::new(&graph, &plan);
    run.share()?;
    for (at, step) in plan.steps.iter().enumerate() {
        run.step(step)?;
        run.share()?;
        run.free_after(at);
    }
    run.finish()
}

/// A plan: launches in order.
pub(crate) struct Plan {
    pub(crate) partition: Partition,
    pub(crate) steps: Vec<Step>,
}

/// A launch of a plan.
pub(crate) enum Step {
    Kernel(Box<Launch>),
    /// A kernel of the library, which makes this array.
    Library {
        vertex: usize,
    },
}

/// Plans a graph.
pub(crate) fn plan(graph: &Graph) -> Result<Plan> {
    let partition = partition(graph);
    let mut steps = Vec::new();
    for (part, results) in partition.parts.iter().zip(partition.results(graph)) {
        match part {
            Part::Library { vertex } => steps.push(Step::Library { vertex: *vertex }),
            Part::Kernel { group, body } if !results.is_empty() => {
                kernels(graph, &partition, (group, body), &results, &mut steps);
            }
            Part::Kernel { .. } => {}
        }
    }
    Ok(Plan { partition, steps })
}

/// The launch of a group, or one for each of its results where they do not lie as its dimensions
/// do.
fn kernels(
    graph: &Graph,
    partition: &Partition,
    of: (&Group, &Body),
    results: &[usize],
    steps: &mut Vec<Step>,
) {
    let (group, body) = of;
    let Some(device) = results.first().and_then(|&at| graph[group.members[at].vertex].array.device()) else {
        return;
    };
    if let Some(launch) = lower(graph, group, body, results, device) {
        steps.push(Step::Kernel(Box::new(launch)));
        return;
    }
    // One at a time, in order: later ones may read earlier ones.
    let mut stored = partition.is_stored.clone();
    for member in &group.members {
        stored[member.vertex] = false;
    }
    for (at, member) in group.members.iter().enumerate() {
        let vertex = member.vertex;
        if !results.contains(&at) && !graph[vertex].op().is_some_and(Op::is_row_wise) {
            continue;
        }
        let own = alone(graph, vertex);
        if let Ok(body) = Body::of(graph, &own, &stored)
            && let Some(launch) = lower(graph, &own, &body, &[0], device)
        {
            steps.push(Step::Kernel(Box::new(launch)));
        }
        stored[vertex] = true;
    }
}

/// A plan that runs.
struct Run<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    tensors: Vec<Option<Arc<DynTensor>>>,
    /// Of each array, the last step that reads it.
    last: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(graph: &'a Graph, plan: &'a Plan) -> Run<'a> {
        let tensors = graph.0.iter().map(|vertex| vertex.tensor.clone()).collect();
        let mut last = vec![0; graph.len()];
        for (at, step) in plan.steps.iter().enumerate() {
            match step {
                Step::Kernel(launch) => launch.inputs.iter().for_each(|view| last[view.vertex] = at),
                Step::Library { vertex } => {
                    let part = Part::Library { vertex: *vertex };
                    plan.partition.reads(graph, &part).into_iter().for_each(|read| last[read] = at);
                }
            }
        }
        Run { graph, plan, tensors, last }
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Kernel(launch) => self.kernel(launch),
            Step::Library { vertex } => self.library(*vertex),
        }
    }

    fn kernel(&mut self, launch: &Launch) -> Result<()> {
        let Some(first) = launch.outputs.first() else { return Ok(()) };
        let site = self.graph[first.vertex].site();
        let at = |error| Error::run(error, site);
        let device = self.device(first.vertex, site)?;
        let kernel = kernel_of(&launch.program, self.name(launch)).map_err(at)?;
        let inputs = launch.inputs.iter().map(|view| self.view(view)).collect::<Result<Vec<_>>>()?;
        let mut made = Vec::new();
        let mut outputs = Vec::new();
        for view in &launch.outputs {
            let array = &self.graph[view.vertex].array;
            let tensor = DynTensor::uninit(&device, array.dtype(), array.shape()).map_err(at)?;
            outputs.push(tensor.strided(view.offset, &view.extents, &view.strides).map_err(at)?);
            made.push((view.vertex, tensor));
        }
        let arguments = inputs.iter().map(DynArg::from);
        let arguments = arguments.chain(outputs.iter_mut().map(DynArg::from));
        let numbers = launch.numbers.iter().map(|&number: &Literal| DynArg::from(number));
        let launched = kernel.with(arguments.chain(numbers)).grid(launch.grid).launch(&device);
        launched.map_err(at)?;
        for (vertex, tensor) in made {
            self.tensors[vertex] = Some(Arc::new(tensor));
        }
        Ok(())
    }

    fn library(&mut self, vertex: usize) -> Result<()> {
        let of = &self.graph[vertex];
        let site = of.site();
        let Some(op) = of.op() else { return Ok(()) };
        let device = self.device(vertex, site)?;
        let inputs = of.inputs.iter().map(|&input| self.input(input)).collect::<Result<Vec<_>>>()?;
        let at = |error| Error::run(error, site);
        let mut result = DynTensor::uninit(&device, of.array.dtype(), of.shape()).map_err(at)?;
        library::launch(op, &inputs, &mut result).map_err(at)?;
        self.tensors[vertex] = Some(Arc::new(result));
        Ok(())
    }

    /// An input of the library: an array in memory, or a view of one.
    fn input(&self, vertex: usize) -> Result<DynTensor> {
        let shape = self.graph[vertex].shape().to_vec();
        if self.plan.partition.is_stored[vertex]
            && let Some(tensor) = &self.tensors[vertex]
        {
            return Ok(tensor.alias());
        }
        match strided(self.graph, vertex, &self.plan.partition.is_stored) {
            Some(view) => {
                let (offset, strides) = (view.offset, view.strides);
                self.view(&View { vertex: view.source, offset, extents: shape, strides })
            }
            None => Err(self.lost(vertex)),
        }
    }

    fn view(&self, view: &View) -> Result<DynTensor> {
        let location = self.graph[view.vertex].site();
        let tensor = self.tensors[view.vertex].as_ref().ok_or_else(|| self.lost(view.vertex))?;
        let strided = tensor.strided(view.offset, &view.extents, &view.strides);
        strided.map_err(|error| Error::run(error, location))
    }

    /// That a plan reads what it has not made: an error of ours.
    fn lost(&self, vertex: usize) -> Error {
        let of = &self.graph[vertex];
        let problem = format!(
            "`{}` was not computed: please report this program",
            of.op().map_or("array", |op| op.name())
        );
        Error::Shape { op: "eval", problem, location: of.site() }
    }

    fn device(&self, vertex: usize, site: Site) -> Result<Device> {
        let device = self.graph[vertex].array.device().cloned();
        let problem = || "an array without a device".to_owned();
        device.ok_or_else(|| Error::Shape { op: "eval", problem: problem(), location: site })
    }

    /// The name of a kernel in profiles: what it ends with.
    fn name(&self, launch: &Launch) -> String {
        let last = launch.outputs.last().and_then(|view| self.graph[view.vertex].op());
        format!("array_{}", last.map_or("kernel", |op| op.name()))
    }

    /// Gives arrays that share memory with others their elements, as soon as these are there.
    fn share(&mut self) -> Result<()> {
        for &(vertex, source) in &self.plan.partition.aliases {
            if let (None, Some(tensor)) = (&self.tensors[vertex], &self.tensors[source]) {
                let of = &self.graph[vertex];
                let location = of.site();
                let same = tensor.reshape(of.shape()).map_err(|error| Error::run(error, location))?;
                self.tensors[vertex] = Some(Arc::new(same));
            }
        }
        Ok(())
    }

    /// Frees what no later step reads and nobody has asked for.
    fn free_after(&mut self, step: usize) {
        for vertex in 0..self.graph.len() {
            if self.last[vertex] == step && !self.graph[vertex].is_target {
                self.tensors[vertex] = None;
            }
        }
    }

    /// Leaves elements in the arrays that were asked for. Those without elements need no launch.
    fn finish(self) -> Result<()> {
        for (vertex, of) in self.graph.0.iter().enumerate().filter(|(_, of)| of.is_target) {
            let location = of.site();
            let tensor = match &self.tensors[vertex] {
                Some(tensor) => tensor.alias(),
                None if of.array.is_empty() => {
                    let device = self.device(vertex, location)?;
                    let empty = DynTensor::zeros(&device, of.array.dtype(), of.shape());
                    empty.map_err(|error| Error::run(error, location))?
                }
                None => return Err(self.lost(vertex)),
            };
            of.array.set_tensor(tensor);
        }
        Ok(())
    }
}

/// The kernel of a program, made once.
fn kernel_of(program: &Program, name: String) -> kiln_runtime::Result<DynKernel> {
    let kernels = || KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = kernels().get(program) {
        return Ok(kernel.clone());
    }
    let kernel = DynKernel::new(emit::kernel(program, &name))?;
    let mut all = kernels();
    if all.len() >= MOST_KERNELS {
        all.clear();
    }
    all.insert(program.clone(), kernel.clone());
    Ok(kernel)
}

//! Plans that are ready to run: what is bound to them is buffers and numbers alone. They are
//! remembered by the structure of graphs.

use crate::emit;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::plan::chain::{Chain, Fused};
use crate::plan::graph::Graph;
use crate::plan::hash::OfWords;
use crate::plan::lower::{Launch, View};
use crate::plan::partition::{Part, Partition, strided};
use crate::plan::program::Program;
use crate::plan::steps::{Plan, Step, plan};
use crate::plan::structure::Structure;
use kiln_ir::Literal;
use kiln_runtime::DynKernel;
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The kernels of programs that ran before, of all devices: a kernel belongs to none.
static KERNELS: LazyLock<Mutex<HashMap<Program, DynKernel>>> = LazyLock::new(Mutex::default);

/// How many kernels are kept. With more programs than this, as a search over structures has, the
/// kernels are made anew; what was compiled for them stays in the device's cache.
const MOST_KERNELS: usize = 4096;

/// The schedules of structures that ran before.
static SCHEDULES: LazyLock<Mutex<Schedules>> = LazyLock::new(Mutex::default);

/// The words of all structures whose schedules are kept: 8 MiB, and schedules of about as many
/// megabytes.
const MOST_WORDS: usize = 1 << 20;

/// Launches in order, and what becomes of buffers between them. Arrays are named by their positions
/// in the structure.
pub(crate) struct Schedule {
    /// What shares memory with what is there before the first launch.
    pub(crate) shared: Vec<Share>,
    pub(crate) tasks: Vec<Task>,
    /// What the kernels check.
    pub(crate) checks: Vec<Check>,
    /// The arrays that kernels of the program's own make: they can fault at any line of theirs.
    pub(crate) custom: Vec<usize>,
    /// What is asked for and made by a kernel that can end with a fault, or of what such a one
    /// makes.
    pub(crate) doubtful: Vec<usize>,
    /// Tells it from all others of the process.
    pub(crate) number: u64,
}

/// A check of an array's indices.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub(crate) array: usize,
    /// The extent of the axis that they are for.
    pub(crate) extent: usize,
}

/// An array that shares another one's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) array: usize,
    pub(crate) with: usize,
}

/// A launch.
pub(crate) struct Task {
    pub(crate) work: Work,
    /// What shares memory with its results.
    pub(crate) shared: Vec<Share>,
    /// What nobody reads after it.
    pub(crate) freed: Vec<usize>,
}

pub(crate) enum Work {
    Kernel {
        kernel: DynKernel,
        inputs: Vec<View>,
        outputs: Vec<View>,
        numbers: Vec<Number>,
        grid: [usize; 3],
    },
    /// A kernel of the library, which makes this array, and perhaps another one.
    Library { vertex: usize, also: Option<usize>, op: Op, inputs: Vec<Source> },
    /// A product with an epilogue, which makes this array.
    Fused {
        vertex: usize,
        /// Products, rows, columns.
        shape: [usize; 3],
        factors: [Source; 2],
        chain: Arc<Chain>,
        operands: Vec<View>,
        numbers: Vec<Number>,
    },
}

/// A number that a kernel is given.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    /// One that follows from shapes.
    Fixed(Literal),
    /// A constant of the structure.
    Constant(usize),
}

/// An input of a kernel of the library.
pub(crate) enum Source {
    Whole(usize),
    View(View),
}

/// Schedules by structure, with the time when each was used last.
#[derive(Default)]
struct Schedules {
    of: HashMap<Box<[u64]>, (Arc<Schedule>, u64), OfWords>,
    /// Counts uses.
    now: u64,
    words: usize,
}

impl Schedules {
    fn get(&mut self, words: &[u64]) -> Option<Arc<Schedule>> {
        self.now += 1;
        let (schedule, used) = self.of.get_mut(words)?;
        *used = self.now;
        Some(schedule.clone())
    }

    /// Keeps a schedule; those that were used longest ago make room.
    fn insert(&mut self, words: &[u64], schedule: Arc<Schedule>) {
        if words.len() > MOST_WORDS / 2 || self.of.contains_key(words) {
            return;
        }
        self.words += words.len();
        if self.words > MOST_WORDS {
            // Half of the room, so that the next ones find some.
            let mut uses: Vec<(u64, usize)> =
                self.of.iter().map(|(words, (_, used))| (*used, words.len())).collect();
            uses.sort_unstable_by_key(|&(used, _)| std::cmp::Reverse(used));
            let mut left = MOST_WORDS / 2;
            let kept = uses.iter().take_while(|(_, len)| {
                let fits = *len <= left;
                left = left.saturating_sub(*len);
                fits
            });
            let oldest = kept.last().map_or(self.now, |&(used, _)| used);
            self.of.retain(|_, (_, used)| *used >= oldest);
            self.words = words.len() + self.of.keys().map(|words| words.len()).sum::<usize>();
        }
        self.of.insert(words.into(), (schedule, self.now));
    }
}

/// The schedule of a structure, made once; `None` if another thread has computed some of the arrays
/// meanwhile.
///
/// # Errors
/// Those of kernels; the error of an array that has one.
pub(crate) fn schedule(structure: &Structure) -> Result<Option<Arc<Schedule>>> {
    let schedules = || SCHEDULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schedule) = schedules().get(&structure.words) {
        return Ok(Some(schedule));
    }
    let Some(graph) = Graph::new(structure)? else { return Ok(None) };
    let schedule = Arc::new(Schedule::new(&graph, plan(&graph))?);
    schedules().insert(&structure.words, schedule.clone());
    Ok(Some(schedule))
}

impl Schedule {
    fn of(shared: Vec<Share>, tasks: Vec<Task>) -> Schedule {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (checks, custom, doubtful) = (Vec::new(), Vec::new(), Vec::new());
        Schedule { shared, tasks, checks, custom, doubtful, number: NUMBER.fetch_add(1, Relaxed) }
    }

    /// Whether one of its kernels can end with a fault.
    pub(crate) fn can_fault(&self) -> bool {
        !self.checks.is_empty() || !self.custom.is_empty()
    }

    fn new(graph: &Graph, plan: Plan) -> Result<Schedule> {
        let Plan { partition, steps } = plan;
        let mut is_there: Vec<bool> = graph.vertices.iter().map(|vertex| vertex.recipe.is_none()).collect();
        let mut last = vec![0; graph.len()];
        for (at, step) in steps.iter().enumerate() {
            reads(graph, &partition, step).into_iter().for_each(|read| last[read] = at);
        }
        let doubtful = doubtful(graph, &partition, &steps);
        let shared = shares(&partition, &mut is_there);
        let mut tasks = Vec::with_capacity(steps.len());
        let (mut checks, mut custom) = (Vec::new(), Vec::new());
        for (at, step) in steps.into_iter().enumerate() {
            let work = match step {
                Step::Kernel(launch) => {
                    launch.outputs.iter().for_each(|view| is_there[view.vertex] = true);
                    checks.extend(launch.checks.iter().filter_map(|&vertex| check(graph, vertex)));
                    kernel_work(graph, *launch)?
                }
                Step::Library { vertex, also } => {
                    [Some(vertex), also].into_iter().flatten().for_each(|made| is_there[made] = true);
                    let (op, inputs) = library_inputs(graph, &partition, vertex)?;
                    custom.extend(matches!(op, Op::Kernel(_)).then_some(vertex));
                    Work::Library { vertex, also, op, inputs }
                }
                Step::Fused(fused) => {
                    is_there[fused.result] = true;
                    fused_work(graph, &partition, *fused)?
                }
            };
            let shared = shares(&partition, &mut is_there);
            let is_over = |&vertex: &usize| last[vertex] == at && !graph[vertex].is_target;
            let freed: Vec<usize> =
                (0..graph.len()).filter(is_over).filter(|&vertex| mem::take(&mut is_there[vertex])).collect();
            tasks.push(Task { work, shared, freed });
        }
        Ok(Schedule { checks, custom, doubtful, ..Schedule::of(shared, tasks) })
    }
}

/// The arrays that a step reads.
pub(crate) fn reads(graph: &Graph, partition: &Partition, step: &Step) -> Vec<usize> {
    match step {
        Step::Kernel(launch) => launch.inputs.iter().map(|view| view.vertex).collect(),
        Step::Library { vertex, .. } => partition.reads(graph, &Part::Library { vertex: *vertex }),
        Step::Fused(fused) => {
            let mut reads = partition.reads(graph, &Part::Library { vertex: fused.product });
            reads.extend(fused.operands.iter().map(|view| view.vertex));
            reads
        }
    }
}

/// What is asked for that depends on a kernel which can end with a fault.
fn doubtful(graph: &Graph, partition: &Partition, steps: &[Step]) -> Vec<usize> {
    let mut is_doubtful = vec![false; graph.len()];
    for step in steps {
        // What shares memory with a result is as doubtful to those who read it.
        partition.aliases.iter().for_each(|&(array, with)| is_doubtful[array] |= is_doubtful[with]);
        let (can_fault, made) = match step {
            Step::Kernel(launch) => {
                (!launch.checks.is_empty(), launch.outputs.iter().map(|view| view.vertex).collect())
            }
            Step::Library { vertex, also } => {
                let made: Vec<usize> = [Some(*vertex), *also].into_iter().flatten().collect();
                (matches!(graph[*vertex].op(), Some(Op::Kernel(_))), made)
            }
            Step::Fused(fused) => (false, vec![fused.result]),
        };
        if can_fault || reads(graph, partition, step).into_iter().any(|read| is_doubtful[read]) {
            made.into_iter().for_each(|made| is_doubtful[made] = true);
        }
    }
    partition.aliases.iter().for_each(|&(array, with)| is_doubtful[array] |= is_doubtful[with]);
    (0..graph.len()).filter(|&vertex| graph[vertex].is_target && is_doubtful[vertex]).collect()
}

/// What shares memory with what is there now.
pub(crate) fn shares(partition: &Partition, is_there: &mut [bool]) -> Vec<Share> {
    let mut shared = Vec::new();
    for &(array, with) in &partition.aliases {
        if is_there[with] && !is_there[array] {
            is_there[array] = true;
            shared.push(Share { array, with });
        }
    }
    shared
}

/// What is checked where an array is taken of another one.
fn check(graph: &Graph, vertex: usize) -> Option<Check> {
    let of = &graph[vertex];
    let Some(Op::Take { axis }) = of.op() else { return None };
    Some(Check { array: vertex, extent: graph[*of.inputs.first()?].shape()[*axis] })
}

fn kernel_work(graph: &Graph, launch: Launch) -> Result<Work> {
    let last = launch.outputs.last().map(|view| &graph[view.vertex]);
    // The name in profiles: what it ends with.
    let name = format!("array_{}", last.and_then(|of| of.op()).map_or("kernel", |op| op.name()));
    let kernel = kernel_of(&launch.program, &name).map_err(|error| match last {
        Some(of) => Error::run(error, of.site()),
        None => error.into(),
    })?;
    let numbers = numbers(&launch.numbers, &launch.constants);
    let Launch { inputs, outputs, grid, .. } = launch;
    Ok(Work::Kernel { kernel, inputs, outputs, numbers, grid })
}

/// Numbers, of which some are constants of the structure.
fn numbers(all: &[Literal], constants: &[(usize, usize)]) -> Vec<Number> {
    let mut numbers: Vec<Number> = all.iter().copied().map(Number::Fixed).collect();
    for &(number, slot) in constants {
        numbers[number] = Number::Constant(slot);
    }
    numbers
}

/// What an operation of the library reads.
fn library_inputs(graph: &Graph, partition: &Partition, vertex: usize) -> Result<(Op, Vec<Source>)> {
    let source = |&input: &usize| match partition.is_stored[input] {
        true => Some(Source::Whole(input)),
        false => strided(graph, input, &partition.is_stored).map(|view| {
            let extents = graph[input].shape().to_vec();
            Source::View(View { vertex: view.source, offset: view.offset, extents, strides: view.strides })
        }),
    };
    let of = &graph[vertex];
    let inputs: Option<Vec<Source>> = of.inputs.iter().map(source).collect();
    match (of.op(), inputs) {
        (Some(op), Some(inputs)) => Ok((op.clone(), inputs)),
        _ => Err(unplanned(graph, vertex)),
    }
}

fn fused_work(graph: &Graph, partition: &Partition, fused: Fused) -> Result<Work> {
    let (_, inputs) = library_inputs(graph, partition, fused.product)?;
    let factors = <[Source; 2]>::try_from(inputs).map_err(|_| unplanned(graph, fused.product))?;
    let shape = graph[fused.product].shape();
    let shape = <[usize; 3]>::try_from(shape).map_err(|_| unplanned(graph, fused.product))?;
    let numbers = numbers(&fused.numbers, &fused.constants);
    let Fused { result: vertex, chain, operands, .. } = fused;
    Ok(Work::Fused { vertex, shape, factors, chain, operands, numbers })
}

/// That a plan does not say how inputs are read: an error of ours.
fn unplanned(graph: &Graph, vertex: usize) -> Error {
    let of = &graph[vertex];
    let problem = "its inputs were not planned: please report this program".to_owned();
    Error::Shape { op: of.op().map_or("array", Op::name), problem, location: of.site() }
}

/// The kernel of a program, made once.
fn kernel_of(program: &Program, name: &str) -> kiln_runtime::Result<DynKernel> {
    let kernels = || KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = kernels().get(program) {
        return Ok(kernel.clone());
    }
    let kernel = DynKernel::new(emit::kernel(program, name))?;
    let mut all = kernels();
    if all.len() >= MOST_KERNELS {
        all.clear();
    }
    all.insert(program.clone(), kernel.clone());
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_that_were_used_longest_ago_make_room() {
        let mut schedules = Schedules::default();
        let key = |number: u64| vec![number; MOST_WORDS / 10];
        let schedule = || Arc::new(Schedule::of(Vec::new(), Vec::new()));
        for number in 0..10 {
            schedules.insert(&key(number), schedule());
            assert!(schedules.get(&key(0)).is_some());
        }
        schedules.insert(&key(10), schedule());
        let kept: Vec<u64> = (0..11).filter(|&number| schedules.get(&key(number)).is_some()).collect();
        assert_eq!(kept, [0, 6, 7, 8, 9, 10]);
        assert_eq!(schedules.words, kept.len() * (MOST_WORDS / 10));
        // One that would take all of the room is not kept.
        schedules.insert(&vec![0; MOST_WORDS], schedule());
        assert_eq!(schedules.of.len(), kept.len());
    }
}

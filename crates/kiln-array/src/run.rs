//! Running a schedule: buffers and launches.
//!
//! The first run compiles all kernels side by side. From the third on the launches are a list of
//! commands, which was recorded once: a run binds memory and numbers alone, and on a device with
//! graphs it is one call. What a list does not take (other alignment, an observer, the capture of a
//! graph) is launched singly, as in the first runs.

use crate::epilogue::ChainEpilogue;
use crate::error::{Error, Result, Site};
use crate::faults::Watch;
use crate::library;
use crate::node::Array;
use crate::op::Op;
use crate::plan::lower::View;
use crate::plan::sizes::takes_many;
use crate::plan::structure::Structure;
use crate::runs::{Known, Runs};
use crate::schedule::{Number, Schedule, Share, Source, Work, schedule};
use crate::spare::Spare;
use kiln_ir::Literal;
use kiln_runtime::{CommandList, Device, DynArg, DynKernel, DynTensor};
use smallvec::SmallVec;
use std::mem;
use std::panic::Location;
use std::sync::Arc;

/// From this evaluation of a schedule on it is run as a list of commands: before, recording it
/// would be more work than it saves.
const LISTED_FROM: usize = 2;

/// The most memory of a list on the host's processors, in bytes: larger blocks are new pages each
/// time, which took as long as the list saved in a step of `examples/gpt`.
const MOST_ON_HOST: u64 = 4 << 20;

/// Computes arrays, and leaves their elements in them.
pub(crate) fn evaluate(targets: &[&Array]) -> Result<()> {
    loop {
        let mut structure = Structure::of(targets)?;
        let Some(device) = structure.device().cloned() else { return Ok(()) };
        if let Some(schedule) = schedule(&structure)? {
            let known = device.attached::<Runs>().of(&schedule);
            let runs = known.count();
            if runs == 0 {
                precompile(&structure, &schedule, &device);
            }
            let watch = Watch::begin(&structure, &schedule)?;
            if runs >= LISTED_FROM && by_list(&structure, &schedule, (&device, &known)) {
                return Ok(());
            }
            let tensors = mem::take(&mut structure.tensors);
            let (constants, spare) = (&structure.constants[..], Spare::default());
            let ran = Run { of: &structure, constants, tensors, spare }.all(&schedule);
            drop(watch);
            return ran;
        }
    }
}

/// Compiles the kernels of a schedule, on several threads. Whatever fails is the error of the
/// launch that needs it.
fn precompile(of: &Structure, schedule: &Schedule, device: &Device) {
    let fewest = 2;
    if schedule.tasks.len() < fewest || device.is_capturing() {
        return;
    }
    let (tensors, spare) = (of.tensors.clone(), Spare::default());
    let mut run = Run { of, constants: &of.constants, tensors, spare };
    let _ = device.precompile(|| {
        let _ = run.launch_all(schedule);
        Ok(())
    });
}

/// Runs a schedule as a list of commands, if it has one for tensors of these kinds.
fn by_list(of: &Structure, schedule: &Schedule, (device, known): (&Device, &Known)) -> bool {
    if device.is_capturing() {
        return false;
    }
    let inputs: SmallVec<[&DynTensor; 16]> = of.tensors.iter().flatten().map(|tensor| &**tensor).collect();
    let Some(list) = known.list(|| list(of, schedule, (device, &inputs))) else { return false };
    let Some(made) = list.run(device, &inputs, &of.constants) else { return false };
    for (&target, tensor) in of.targets.iter().zip(made) {
        of.arrays[target].set_tensor(Arc::new(tensor));
    }
    true
}

/// The list of commands of a schedule, if it is one that a list is for.
fn list(
    of: &Structure,
    schedule: &Schedule,
    (device, inputs): (&Device, &[&DynTensor]),
) -> Option<CommandList> {
    // The interpreter is to see each launch with its own memory, and what binds buffers one by one
    // would have as many as there are arrays.
    let on_host = device.capabilities().on_host;
    if device.capabilities().is_interpreted() || !takes_many(device) {
        return None;
    }
    let list = device.command_list(inputs, &of.constants, |numbers| {
        let (tensors, spare) = (of.tensors.clone(), Spare::default());
        let mut run = Run { of, constants: numbers, tensors, spare };
        let failed = |error: Error| {
            let (what, location) = (error.to_string(), Location::caller());
            kiln_runtime::Error::Commands { what, location }
        };
        run.launch_all(schedule).and_then(|()| run.results()).map_err(failed)
    });
    // All of a list's memory is there from its first launch on. Where that is much, kernels are so
    // long that launches do not matter.
    let most = |free: u64| if on_host { MOST_ON_HOST } else { free / 4 };
    let is_small =
        |list: &CommandList| device.free_memory().is_ok_and(|free| list.bytes() as u64 <= most(free));
    list.ok().filter(is_small)
}

/// A schedule that runs: the arrays and their tensors.
struct Run<'a> {
    of: &'a Structure,
    /// The numbers that kernels take as arguments.
    constants: &'a [Literal],
    /// Of those arrays whose elements are there, the elements.
    tensors: Vec<Option<Arc<DynTensor>>>,
    spare: Spare,
}

impl Run<'_> {
    fn all(mut self, schedule: &Schedule) -> Result<()> {
        self.launch_all(schedule)?;
        self.finish()
    }

    fn launch_all(&mut self, schedule: &Schedule) -> Result<()> {
        self.share(&schedule.shared)?;
        for task in &schedule.tasks {
            match &task.work {
                Work::Kernel { kernel, inputs, outputs, numbers, grid } => {
                    self.kernel(kernel, inputs, outputs, (numbers, *grid))?;
                }
                Work::Library { vertex, also, op, inputs } => self.library((*vertex, *also), op, inputs)?,
                Work::Fused { vertex, shape, factors, chain, operands, numbers } => {
                    let numbers = numbers.iter().map(|&number| self.number(number)).collect();
                    let operands = operands.iter().map(|view| self.view(view)).collect::<Result<Vec<_>>>()?;
                    let epilogue = ChainEpilogue::new(chain.clone(), &operands, numbers);
                    self.fused(*vertex, *shape, factors, epilogue)?;
                }
            }
            self.share(&task.shared)?;
            for &array in &task.freed {
                self.spare.give(self.tensors[array].take());
            }
        }
        Ok(())
    }

    fn kernel(
        &mut self,
        kernel: &DynKernel,
        inputs: &[View],
        outputs: &[View],
        (numbers, grid): (&[Number], [usize; 3]),
    ) -> Result<()> {
        let Some(first) = outputs.first() else { return Ok(()) };
        let site = self.array(first.vertex).site();
        let at = |error| Error::run(error, site);
        let device = self.device(first.vertex)?.clone();
        let inputs =
            inputs.iter().map(|view| self.view(view)).collect::<Result<SmallVec<[DynTensor; 4]>>>()?;
        let mut made: SmallVec<[(usize, DynTensor); 2]> = SmallVec::new();
        let mut written: SmallVec<[DynTensor; 2]> = SmallVec::new();
        for view in outputs {
            let array = &self.of.arrays[view.vertex];
            let tensor = self.spare.take(&device, array.dtype(), array.shape()).map_err(at)?;
            written.push(tensor.strided(view.offset, &view.extents, &view.strides).map_err(at)?);
            made.push((view.vertex, tensor));
        }
        let arguments = inputs.iter().map(DynArg::from).chain(written.iter_mut().map(DynArg::from));
        let numbers = numbers.iter().map(|&number| DynArg::from(self.number(number)));
        kernel.with(arguments.chain(numbers)).grid(grid).launch(&device).map_err(at)?;
        for (array, tensor) in made {
            self.tensors[array] = Some(Arc::new(tensor));
        }
        Ok(())
    }

    fn library(&mut self, (vertex, also): (usize, Option<usize>), op: &Op, inputs: &[Source]) -> Result<()> {
        let device = self.device(vertex)?.clone();
        let array = &self.of.arrays[vertex];
        let at = |error| Error::run(error, array.site());
        let inputs =
            inputs.iter().map(|source| self.source(source)).collect::<Result<SmallVec<[DynTensor; 2]>>>()?;
        let mut result = self.spare.take(&device, array.dtype(), array.shape()).map_err(at)?;
        let mut other = None;
        if let Some(also) = also {
            let array = &self.of.arrays[also];
            other = Some(self.spare.take(&device, array.dtype(), array.shape()).map_err(at)?);
        }
        library::launch(op, &inputs, &mut result, other.as_mut()).map_err(at)?;
        self.tensors[vertex] = Some(Arc::new(result));
        if let (Some(also), Some(other)) = (also, other) {
            self.tensors[also] = Some(Arc::new(other));
        }
        Ok(())
    }

    fn fused(
        &mut self,
        vertex: usize,
        shape: [usize; 3],
        [a, b]: &[Source; 2],
        epilogue: kiln_runtime::Result<ChainEpilogue>,
    ) -> Result<()> {
        let device = self.device(vertex)?.clone();
        let array = &self.of.arrays[vertex];
        let at = |error| Error::run(error, array.site());
        let (a, b) = (self.source(a)?, self.source(b)?);
        let result = self.spare.take(&device, array.dtype(), array.shape()).map_err(at)?;
        let mut sums = result.reshape(&shape).map_err(at)?;
        library::fused(&a, &b, &mut sums, epilogue.map_err(at)?).map_err(at)?;
        self.tensors[vertex] = Some(Arc::new(result));
        Ok(())
    }

    fn source(&self, source: &Source) -> Result<DynTensor> {
        match source {
            Source::Whole(array) => Ok(self.tensor(*array)?.alias()),
            Source::View(view) => self.view(view),
        }
    }

    fn number(&self, number: Number) -> Literal {
        match number {
            Number::Fixed(literal) => literal,
            Number::Constant(slot) => self.constants[slot],
        }
    }

    fn array(&self, array: usize) -> &Array {
        &self.of.arrays[array]
    }

    fn tensor(&self, array: usize) -> Result<&Arc<DynTensor>> {
        self.tensors[array].as_ref().ok_or_else(|| {
            let problem = "it was not computed: please report this program".to_owned();
            Error::Shape { op: "eval", problem, location: self.array(array).site() }
        })
    }

    fn view(&self, view: &View) -> Result<DynTensor> {
        let strided = self.tensor(view.vertex)?.strided(view.offset, &view.extents, &view.strides);
        strided.map_err(|error| Error::run(error, self.array(view.vertex).site()))
    }

    fn device(&self, array: usize) -> Result<&Device> {
        let array = self.array(array);
        let problem = || "an array without a device".to_owned();
        let location: Site = array.site();
        array.device().ok_or_else(|| Error::Shape { op: "eval", problem: problem(), location })
    }

    /// Gives arrays that share memory with others their elements.
    fn share(&mut self, shared: &[Share]) -> Result<()> {
        for share in shared {
            let array = self.array(share.array);
            let same = self.tensor(share.with)?.reshape(array.shape());
            let same = same.map_err(|error| Error::run(error, array.site()))?;
            self.tensors[share.array] = Some(Arc::new(same));
        }
        Ok(())
    }

    /// Leaves elements in the arrays that were asked for.
    fn finish(self) -> Result<()> {
        for (&target, tensor) in self.of.targets.iter().zip(self.results()?) {
            self.array(target).set_tensor(Arc::new(tensor));
        }
        Ok(())
    }

    /// The elements of the arrays that were asked for. Those without elements need no launch.
    fn results(&self) -> Result<Vec<DynTensor>> {
        let result = |&target: &usize| {
            let array = self.array(target);
            if self.tensors[target].is_none() && array.is_empty() {
                let empty = DynTensor::zeros(self.device(target)?, array.dtype(), array.shape());
                return empty.map_err(|error| Error::run(error, array.site()));
            }
            Ok(self.tensor(target)?.alias())
        };
        self.of.targets.iter().map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That lists are run at all: nothing else of a program shows it.
    #[test]
    fn a_schedule_is_run_as_a_list_from_its_third_run_on() {
        let of = |name: &str| {
            let device = Device::open_apart(name).unwrap();
            let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
            let sums = |by: f64| (&x * x.sum_keep(&[1])).sum_keep(&[0]) * by;
            for _ in 0..LISTED_FROM {
                sums(3.0).eval().unwrap();
            }
            // Another number, and it is there.
            let y = sums(4.0);
            let structure = Structure::of(&[&y]).unwrap();
            let schedule = schedule(&structure).unwrap().unwrap();
            let known = device.attached::<Runs>().of(&schedule);
            assert_eq!(known.count(), LISTED_FROM);
            let is_run = by_list(&structure, &schedule, (&device, &known));
            assert_eq!(y.to_vec::<f32>().unwrap(), [264.0, 348.0, 432.0]);
            is_run
        };
        assert!(of("cpu"));
        assert!(!of("interp"), "the interpreter sees each launch with its own memory");
    }
}

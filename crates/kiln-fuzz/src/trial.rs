//! One random kernel on the interpreter and on the device under test.

use crate::case::Case;
use crate::generate::generate;
use crate::mode::Mode;
use crate::reduce::reduce;
use crate::run::{Outcome, difference, run};
use kiln_backend::{Backend, BackendKind, Error, FaultKind};
use kiln_compiler::{CompileError, Target, expand, lower_to_threads, optimize};
use kiln_interp::{Interp, Options as InterpOptions};
use kiln_ir::{BinaryOp, Bounds, Kernel, Op, OpData, OpKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a kernel is made smaller.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is compared with the interpreter.
pub enum Tested<'d> {
    /// A device, with its own compiler.
    Device(&'d dyn Backend),
    /// The code for NVIDIA GPUs, lowered to threads, on the interpreter.
    GpuCode,
}

/// A kernel that differs.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What differs, in a sentence.
    pub difference: String,
    /// The kernel with its arguments.
    pub case: Case,
}

/// Runs random kernels and compares.
pub struct Trial<'d> {
    tested: Tested<'d>,
    /// The meaning: every access is checked, also for races between programs.
    reference: Interp,
}

/// Why a way of running a kernel gave no outcome.
enum Failed {
    /// The device is gone; nothing more can be run in this process.
    Lost(String),
    Other(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::Lost { .. } => Failed::Lost(error.to_string()),
            // A context of NVIDIA's driver that has trapped answers every call with an error.
            Error::Driver { .. } => Failed::Lost(error.to_string()),
            other => Failed::Other(other.to_string()),
        }
    }
}

impl<'d> Trial<'d> {
    /// Compares `tested` with the interpreter.
    pub fn new(tested: Tested<'d>) -> Trial<'d> {
        let reference = Interp::new(InterpOptions { sanitize: true, ..InterpOptions::default() });
        Trial { tested, reference }
    }

    /// Whether kernels must keep to what the lowering to threads takes.
    pub fn is_gpu(&self) -> bool {
        match self.tested {
            Tested::Device(device) => device.properties().kind == BackendKind::Cuda,
            Tested::GpuCode => true,
        }
    }

    /// The kernel of a seed.
    pub fn case(&self, mode: Mode, seed: u64) -> Case {
        generate(seed, &mode.options(seed, self.is_gpu()))
    }

    /// Runs a case both ways; a difference is described. The second value says that the device is
    /// lost, so that only another process can go on.
    pub fn compare(&self, case: &Case) -> (Option<String>, bool) {
        let expected = match self.expected(case) {
            Ok(expected) => expected,
            Err(message) => return (Some(format!("the kernel breaks a rule: {message}")), false),
        };
        self.differs(case, &expected)
    }

    /// Makes a case that differs smaller. What the reference refuses is not tried on the device:
    /// there it might be anything, up to the end of the context.
    pub fn reduce(&self, case: &Case, difference: &str) -> Finding {
        let disagreement = |kernel: &Kernel| {
            let case = case.with(kernel.clone());
            let expected = self.expected(&case).ok()?;
            self.differs(&case, &expected).0
        };
        let begun = Instant::now();
        let fails = |kernel: &Kernel| begun.elapsed() < PATIENCE && disagreement(kernel).is_some();
        let kernel = reduce(&case.kernel, fails);
        // What does not differ again, or breaks a rule, stays as it was found.
        let difference = disagreement(&kernel).unwrap_or_else(|| difference.to_owned());
        Finding { difference, case: case.with(kernel) }
    }

    /// What the kernel means, if it keeps the rules.
    fn expected(&self, case: &Case) -> Result<Outcome, String> {
        case.check_facts()?;
        match run(case, &self.reference) {
            Ok(Outcome { fault: Some(fault @ FaultKind::Sanitizer { .. }), .. }) => Err(format!("{fault:?}")),
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(error.to_string()),
        }
    }

    fn differs(&self, case: &Case, expected: &Outcome) -> (Option<String>, bool) {
        // A panic of a compiler is a finding like any other.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome(case)))
            .unwrap_or_else(|_| Err(Failed::Other("a panic".into())));
        match outcome {
            Ok(found) if self.is_gpu() => (difference_on_gpu(case, expected, &found), false),
            Ok(found) => (difference(expected, &found, 0.0), false),
            Err(Failed::Other(message)) => (Some(message), false),
            Err(Failed::Lost(message)) => (Some(message), true),
        }
    }

    fn outcome(&self, case: &Case) -> Result<Outcome, Failed> {
        match self.tested {
            Tested::Device(device) => Ok(run(case, device)?),
            Tested::GpuCode => {
                let lowered = for_gpu(&case.kernel).map_err(|e| Failed::Other(e.to_string()))?;
                Ok(run(&case.with(lowered), &self.reference)?)
            }
        }
    }
}

/// The way a kernel goes to a GPU.
fn for_gpu(kernel: &Kernel) -> Result<Kernel, CompileError> {
    let mut source = kernel.clone();
    optimize(&mut source)?;
    expand::expand(&mut source);
    optimize(&mut source)?;
    let mut lowered = lower_to_threads(&source, &Target::cuda((9, 0), 227 << 10))?;
    optimize(&mut lowered)?;
    Ok(lowered)
}

/// Where a GPU, or its code, does not do what the interpreter did.
///
/// Without a fault all memory is the same, and what was printed but for the order of programs and
/// threads. With one, both have one, though not always the same: threads do not fail in the order of
/// their numbers. What was stored before the fault is stored; since other threads may go on, only
/// views are compared that nothing writes, or only operations that come before all that can fault.
fn difference_on_gpu(case: &Case, expected: &Outcome, found: &Outcome) -> Option<String> {
    let sorted = |outcome: &Outcome| {
        let mut outcome = outcome.clone();
        outcome.printed.sort_unstable();
        outcome
    };
    let (expected, found) = (sorted(expected), sorted(found));
    match (&expected.fault, &found.fault) {
        (None, None) => difference(&expected, &found, 0.0),
        (Some(_), Some(fault)) if !matches!(fault, FaultKind::Sanitizer { .. }) => {
            let settled = settled_views(&case.kernel);
            let only = |outcome: &Outcome| Outcome {
                memory: outcome
                    .memory
                    .iter()
                    .zip(&settled)
                    .filter(|(_, s)| **s)
                    .map(|(m, _)| m.clone())
                    .collect(),
                fault: None,
                printed: Vec::new(),
            };
            // Programs that come after the one that failed have run on a GPU.
            let one = case.grid == [1; 3];
            if one { difference(&only(&expected), &only(&found), 0.0) } else { None }
        }
        (expected, found) => Some(format!("fault {expected:?}, {found:?}")),
    }
}

/// For each view among the parameters, whether no operation writes it that may come after a fault.
fn settled_views(kernel: &Kernel) -> Vec<bool> {
    let args = &kernel.block(kernel.body).args;
    let views: Vec<_> =
        args.iter().zip(&kernel.params).filter(|(_, p)| p.ty.as_view().is_some()).map(|(&a, _)| a).collect();
    let mut settled = vec![true; views.len()];
    let mut faults = false;
    for &op in &kernel.block(kernel.body).ops {
        let mut here = false;
        walk_from(kernel, op, &mut |data| {
            here |= matches!(data.kind, OpKind::Assert(_))
                || data.kind.bounds() == Some(Bounds::Check)
                || matches!(data.kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem));
        });
        faults |= here;
        if faults {
            walk_from(kernel, op, &mut |data| {
                if data.kind.has_effect() {
                    views.iter().zip(&mut settled).for_each(|(v, s)| *s &= !data.operands.contains(v));
                }
            });
        }
    }
    settled
}

/// An operation and all in its regions.
fn walk_from(kernel: &Kernel, op: Op, visit: &mut dyn FnMut(&OpData)) {
    let data = kernel.op(op);
    visit(data);
    for &region in &data.regions {
        kernel.block(region).ops.iter().for_each(|&op| walk_from(kernel, op, visit));
    }
}

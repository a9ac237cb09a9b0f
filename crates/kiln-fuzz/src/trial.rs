//! One random kernel on the interpreter and on the device under test.

use crate::case::Case;
use crate::flushed::with_zeros_for_subnormals;
use crate::generate::generate;
use crate::harmless::without_faults;
use crate::mode::Mode;
use crate::reduce::reduce;
use crate::run::{Outcome, difference, run};
use kiln_backend::{Backend, Diagnostics, Error, FaultKind};
use kiln_compiler::{CompileError, Target, pipeline};
use kiln_interp::{Interp, Options as InterpOptions};
use kiln_ir::{BinaryOp, Bounds, Kernel, Level, Op, OpData, OpKind};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a kernel is made smaller.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a launch may run on the interpreter: far longer than any generated kernel does.
const LIMIT: Duration = Duration::from_secs(20);

/// Compiles and assembles a kernel; an error is what the assembler says.
pub type Assemble<'a> = dyn Fn(&Kernel) -> Result<(), String> + 'a;

/// What is compared with the interpreter.
pub enum Tested<'d> {
    /// A device, with its own compiler.
    Device(&'d dyn Backend),
    /// The code for NVIDIA GPUs, lowered to threads, on the interpreter: with its threads in
    /// lockstep, and in an order by a seed of the case's own.
    GpuCode {
        /// Compiles and assembles a kernel besides; an error is what the assembler says.
        assemble: Option<&'d Assemble<'d>>,
    },
}

/// A kernel that differs.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What differs, in a sentence.
    pub difference: String,
    /// The kernel with its arguments.
    pub case: Case,
}

/// What a comparison comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The device does what the interpreter did.
    Agrees,
    /// The device lacks this, and says so before anything runs.
    Refused(String),
    /// What differs, in a sentence.
    Differs(String),
    /// The same of a device that is lost, so that only another process can go on.
    Lost(String),
}

impl Verdict {
    /// What differs, if anything does.
    pub fn difference(self) -> Option<String> {
        match self {
            Verdict::Agrees | Verdict::Refused(_) => None,
            Verdict::Differs(difference) | Verdict::Lost(difference) => Some(difference),
        }
    }
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
    Refused(String),
    Other(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::Lost { .. } => Failed::Lost(error.to_string()),
            // A context of NVIDIA's driver that has trapped answers every call with an error.
            Error::Driver { .. } => Failed::Lost(error.to_string()),
            Error::Unsupported { what, .. } => Failed::Refused(what),
            other => Failed::Other(other.to_string()),
        }
    }
}

impl<'d> Trial<'d> {
    /// Compares `tested` with the interpreter.
    pub fn new(tested: Tested<'d>) -> Trial<'d> {
        Trial { tested, reference: interp(None) }
    }

    /// Whether kernels must keep to what the lowering to threads takes.
    pub fn is_gpu(&self) -> bool {
        match self.tested {
            Tested::Device(device) => device.properties().capabilities.is_simt(),
            Tested::GpuCode { .. } => true,
        }
    }

    /// The kernel of a seed.
    pub fn case(&self, mode: Mode, seed: u64) -> Case {
        generate(seed, &mode.options(seed, self.is_gpu()))
    }

    /// Runs a case both ways.
    pub fn compare(&self, case: &Case) -> Verdict {
        match self.expected(case) {
            Ok(expected) => self.judged(case, &expected),
            Err(message) => Verdict::Differs(format!("the kernel breaks a rule: {message}")),
        }
    }

    /// Makes a case that differs smaller. What the reference refuses is not tried on the device:
    /// there it might be anything, up to the end of the context. The second value says that the
    /// device was lost all the same; nothing was tried after that.
    pub fn reduce(&self, case: &Case, difference: &str) -> (Finding, bool) {
        let begun = Instant::now();
        let lost = Cell::new(false);
        let shown = RefCell::new(difference.to_owned());
        let fails = |kernel: &Kernel| {
            let case = case.with(kernel.clone());
            if lost.get() || begun.elapsed() >= PATIENCE {
                return false;
            }
            let Some(expected) = self.accepted(&case) else { return false };
            let verdict = self.judged(&case, &expected);
            lost.set(matches!(verdict, Verdict::Lost(_)));
            verdict.difference().map(|text| shown.replace(text)).is_some()
        };
        let kernel = reduce(&case.kernel, fails);
        (Finding { difference: shown.take(), case: case.with(kernel) }, lost.get())
    }

    /// What a reduced kernel means, if it keeps the rules wherever a device may get to: a fault
    /// ends it on the reference, but not all other programs and threads of a device.
    pub fn accepted(&self, case: &Case) -> Option<Outcome> {
        let expected = self.expected(case).ok()?;
        if expected.fault.is_some() {
            let on = self.expected(&case.with(without_faults(&case.kernel))).ok()?;
            if on.fault.is_some() {
                return None;
            }
        }
        Some(expected)
    }

    /// What the kernel means, if it keeps the rules.
    fn expected(&self, case: &Case) -> Result<Outcome, String> {
        case.check_facts()?;
        match run(case, &self.reference) {
            Ok(Outcome { fault: Some(fault), .. }) if !ends(&fault) => Err(format!("{fault:?}")),
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(error.to_string()),
        }
    }

    fn judged(&self, case: &Case, expected: &Outcome) -> Verdict {
        // A panic of a compiler is a finding like any other.
        let difference = catch_unwind(AssertUnwindSafe(|| self.difference(case, expected)))
            .unwrap_or_else(|_| Err(Failed::Other("a panic".into())));
        match difference {
            Ok(None) => Verdict::Agrees,
            Ok(Some(_)) if self.needs_subnormals(case, expected) => {
                Verdict::Refused("subnormal numbers".to_owned())
            }
            Ok(Some(difference)) | Err(Failed::Other(difference)) => Verdict::Differs(difference),
            Err(Failed::Refused(what)) => Verdict::Refused(what),
            Err(Failed::Lost(message)) => Verdict::Lost(message),
        }
    }

    /// Whether the outcome is another one where subnormal numbers are zeros, and what is tested may
    /// take them for such.
    fn needs_subnormals(&self, case: &Case, expected: &Outcome) -> bool {
        let Tested::Device(device) = self.tested else { return false };
        let flushed = || run(&case.with(with_zeros_for_subnormals(&case.kernel)), &self.reference);
        !device.properties().capabilities.subnormals
            && !flushed().is_ok_and(|flushed| difference(expected, &flushed, 0.0).is_none())
    }

    /// Where what is tested does not do what the reference did.
    fn difference(&self, case: &Case, expected: &Outcome) -> Result<Option<String>, Failed> {
        match self.tested {
            Tested::Device(device) => {
                let found = run(case, device)?;
                Ok(match self.is_gpu() || has_seed(device) {
                    true => difference_on_gpu(case, expected, &found),
                    false => difference(expected, &found, 0.0),
                })
            }
            Tested::GpuCode { assemble } => {
                assemble.map_or(Ok(()), |assemble| assemble(&case.kernel)).map_err(Failed::Other)?;
                let lowered = case.with(for_gpu(&case.kernel).map_err(|e| Failed::Other(e.to_string()))?);
                let lockstep = run(&lowered, &self.reference)?;
                if let Some(difference) = difference_on_gpu(case, expected, &lockstep) {
                    return Ok(Some(difference));
                }
                let seed = seed_of_order(case);
                let found = run(&lowered, &interp(Some(seed)))?;
                let difference = difference_on_gpu(case, expected, &found);
                Ok(difference.map(|text| format!("with its threads in the order of seed {seed}: {text}")))
            }
        }
    }
}

/// An interpreter that checks every access, also for races between programs.
fn interp(seed: Option<u64>) -> Interp {
    let interp = Interp::new(InterpOptions { sanitize: true, seed, ..InterpOptions::default() });
    // The interpreter has limits, so that this cannot fail.
    let _ = interp.set_launch_limit(Some(LIMIT));
    interp
}

/// Whether a device is an interpreter that runs threads in the order of a seed: as on a GPU, none
/// of them comes first.
fn has_seed(device: &dyn Backend) -> bool {
    InterpOptions::named(&device.properties().id).is_some_and(|options| options.seed.is_some())
}

/// The seed of the order in which the threads of a case run. It follows from the grid and the
/// arguments, so that a kernel that is made smaller, or read from a file, keeps it.
fn seed_of_order(case: &Case) -> u64 {
    let text = format!("{:?} {:?}", case.grid, case.arguments);
    // FNV-1a (Fowler, Noll, Vo), which is the same everywhere. 16 bits are easier to type.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 48) ^ (hash & 0xffff)
}

/// The way a kernel goes to a GPU.
fn for_gpu(kernel: &Kernel) -> Result<Kernel, CompileError> {
    // The interpreter supports tasks before the lowering only.
    let target = Target { tasks: false, ..Target::cuda((9, 0), 227 << 10) };
    Ok(pipeline::compile(kernel, &target)?.kernel)
}

/// Where a GPU, or its code, does not do what the interpreter did.
///
/// Without a fault all memory is the same, and what was printed but for the order of programs and
/// threads. With one, both have one.
///
/// A program over tiles ends as a whole: where it is alone, the fault is of the same kind, all that
/// comes before it has happened and nothing else. Over threads not always the same fault is
/// reported, since threads do not fail in the order of their numbers, and others may go on: only
/// views are compared that nothing writes, or only operations that come before all that can fault.
fn difference_on_gpu(case: &Case, expected: &Outcome, found: &Outcome) -> Option<String> {
    let sorted = |outcome: &Outcome| {
        let mut outcome = outcome.clone();
        outcome.printed.sort_unstable();
        outcome
    };
    let (expected, found) = (sorted(expected), sorted(found));
    let (left, right) = match (&expected.fault, &found.fault) {
        (None, None) => return difference(&expected, &found, 0.0),
        (Some(left), Some(right)) if ends(right) => (left, right),
        (expected, found) => return Some(format!("fault {expected:?}, {found:?}")),
    };
    // Programs that come after the one that failed have run on a GPU.
    if case.grid != [1; 3] {
        return None;
    }
    let mut compared = (expected.clone(), found.clone());
    match case.kernel.level {
        Level::Tile { .. } if is_same_fault(left, right) => {}
        Level::Tile { .. } => return Some(format!("fault {left:?}, {right:?}")),
        Level::Thread { .. } => {
            let settled = settled_views(&case.kernel);
            for outcome in [&mut compared.0, &mut compared.1] {
                let mut settled = settled.iter();
                outcome.memory.retain(|_| settled.next() == Some(&true));
                outcome.printed.clear();
            }
        }
    }
    (compared.0.fault, compared.1.fault) = (None, None);
    difference(&compared.0, &compared.1, 0.0)
}

/// Whether a fault is one that a kernel may have, as opposed to a broken rule or no end.
fn ends(fault: &FaultKind) -> bool {
    !matches!(
        fault,
        FaultKind::Sanitizer { .. } | FaultKind::LaunchLimit { .. } | FaultKind::LoopLimit { .. }
    )
}

/// Whether two faults of a program over tiles are of one operation: any of several elements that
/// fail may be reported.
fn is_same_fault(left: &FaultKind, right: &FaultKind) -> bool {
    match (left, right) {
        (FaultKind::OutOfBounds { .. }, FaultKind::OutOfBounds { .. }) => true,
        (left, right) => left == right,
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

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::Literal;

    fn accepts(text: &str) -> bool {
        let case = Case::read(text).unwrap();
        Trial::new(Tested::GpuCode { assemble: None }).accepted(&case).is_some()
    }

    /// The second program stores outside of its view; on the reference the first one ends it all.
    #[test]
    fn what_others_do_after_a_fault_is_looked_at() {
        let kernel = |extent| {
            format!(
                "; @grid 2 1 1\n; @arg i32[{extent}]: fill 1\n\
                 kernel @k(%y: mut view<i32, 1, global>) tile {{\n\
                 %0 = program_id x : i64\n%1 = const 1 : i64\n%2 = eq %0, %1 : bool\n\
                 %3 = const 3 : i64\n%4 = mul %0, %3 : i64\n%5 = const 0 : i32\n\
                 assert %2, \"first\"\nscatter.trust %y[%4] = %5\n}}\n"
            )
        };
        assert!(accepts(&kernel(4)));
        assert!(!accepts(&kernel(3)));
    }

    #[test]
    fn a_division_by_zero_does_not_hide_a_race() {
        let kernel = |at| {
            format!(
                "; @grid 2 1 1\n; @arg i32[2]: fill 0\n\
                 kernel @k(%y: mut view<i32, 1, global>) tile {{\n\
                 %0 = program_id x : i64\n%1 = const 0 : i64\n%2 = cast %0 : i32\n%3 = div %2, %2 : i32\n\
                 scatter.mask %y[{at}] = %3\n}}\n"
            )
        };
        assert!(accepts(&kernel("%0")));
        assert!(!accepts(&kernel("%1")));
    }

    fn compare(text: &str) -> Option<String> {
        let case = Case::read(text).unwrap();
        Trial::new(Tested::GpuCode { assemble: None }).compare(&case).difference()
    }

    /// Threads of two warps hand numbers on through shared memory.
    #[test]
    fn threads_that_meet_agree_in_every_order() {
        let text = "; @grid 1 1 1\n; @arg i64[64]: fill 5\n\
            kernel @k(%y: mut view<i64, 1, global>) thread [64, 1, 1] {\n\
            %0 = thread_id x : i64\n%1 = const 63 : i64\n%2 = sub %1, %0 : i64\n\
            %3 = alloc shared i64[64] : view<i64, 1, shared>\n\
            scatter.trust %3[%0] = %0\nbarrier\n%4 = gather.trust %3[%2] pad %0 : i64\n\
            scatter.trust %y[%0] = %4\n}\n";
        assert_eq!(compare(text), None);
    }

    /// Which number a thread draws is right in lockstep alone.
    #[test]
    fn a_difference_between_two_orders_is_one() {
        let text = "; @grid 1 1 1\n; @arg i64[64]: fill 5\n; @arg i64[1]: fill 0\n\
            kernel @k(%y: mut view<i64, 1, global>, %n: mut view<i64, 1, global>) thread [64, 1, 1] {\n\
            %0 = thread_id x : i64\n%1 = const 0 : i64\n%2 = const 1 : i64\n\
            %3 = atomic.add.device.check %n[%1] = %2 : i64\n\
            scatter.trust %y[%0] = %3\n}\n";
        let difference = compare(text).unwrap_or_default();
        assert!(difference.contains("in the order of seed"), "{difference}");
    }

    /// Some threads of a strand leave, and the others go on: what came before is there, in every
    /// order.
    #[test]
    fn leaving_threads_agree_in_every_order() {
        let text = "; @grid 1 1 1\n; @arg i64[64]: fill 5\n; @arg i64[64]: iota\n\
            kernel @k(%y: mut view<i64, 1, global>, %x: view<i64, 1, global>) thread [64, 1, 1] {\n\
            %0 = thread_id x : i64\n%1 = const 40 : i64\n%2 = gather.trust %x[%0] pad %0 : i64\n\
            scatter.trust %y[%0] = %2\n%3 = lt %2, %1 : bool\nassert %3, \"large\"\n\
            barrier\n%4 = sub %1, %2 : i64\n%5 = gather.trust %x[%4] pad %0 : i64\n}\n";
        assert_eq!(compare(text), None);
        let case = Case::read(text).unwrap();
        let lowered = case.with(for_gpu(&case.kernel).unwrap());
        let lockstep = run(&case, &interp(None)).unwrap();
        for seed in 0..16 {
            let mut found = run(&lowered, &interp(Some(seed))).unwrap();
            assert_eq!(difference_on_gpu(&case, &lockstep, &found), None, "seed {seed}");
            // What was stored before is compared, and that there is a fault.
            let element = found.memory[0][0];
            found.memory[0][0] = Literal::from_bits(element.elem(), element.bits() + 1);
            assert!(difference_on_gpu(&case, &lockstep, &found).is_some());
            found.fault = None;
            assert!(difference_on_gpu(&case, &lockstep, &found).is_some_and(|text| text.contains("fault")));
        }
    }
}

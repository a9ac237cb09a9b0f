//! The passes that a kernel goes through on its way to a target: one list for each family of
//! devices.
//!
//! | list | passes |
//! |---|---|
//! | [`GPU`] | `optimize`, `expand`, `optimize`, `lower`, `optimize` |
//! | | with `warp_specialize`, `optimize` before `lower` for kernels that gain from it |
//! | [`TASKS`] | those of [`GPU`] before `lower`, for such kernels |
//! | [`EXPLICIT`] | `legalize` |
//! | [`CPU`] | `widen`, `optimize` |
//!
//! The interpreter runs kernels as they are.
//!
//! What is cleaned up over tiles is cleaned up once and not for every register, so most of it is
//! done before the lowering: before the expansion, and after it. The last time is for the index
//! arithmetic of the lowering.
//!
//! In debug builds the verifier runs after each pass, and an error names the pass that broke the
//! kernel.

use crate::async_copies;
use crate::error::CompileError;
use crate::expand::expand;
use crate::fault_region;
use crate::legalize::legalize_tiles;
use crate::lower::lower_to_threads;
use crate::passes::{optimize, verify_after};
use crate::promote::promote;
use crate::target::{Target, TargetKind};
use crate::warp_specialize::warp_specialize;
use crate::widen::widen_products;
use kiln_ir::Kernel;
use std::fmt;

/// A pass of a pipeline.
#[derive(Clone, Copy)]
pub struct Pass {
    name: &'static str,
    run: fn(&mut Kernel, &Target) -> Result<(), CompileError>,
}

impl Pass {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Changes a kernel.
    ///
    /// ```
    /// use kiln_compiler::{Target, pipeline};
    /// let mut kernel = kiln_ir::parse("kernel @k(%y: mut view<f32, 1, global>) tile {
    ///   %0 = const 0 : i64
    ///   %1 = const 1.0 : f32[128]
    ///   store %y[%0] = %1
    /// }")?;
    /// pipeline::LOWER.run(&mut kernel, &Target::cuda((9, 0), 227 << 10))?;
    /// assert!(kernel.to_string().contains("ptr_store"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of the pass, after which the kernel is to be thrown away.
    pub fn run(&self, kernel: &mut Kernel, target: &Target) -> Result<(), CompileError> {
        (self.run)(kernel, target)?;
        verify_after(self.name, kernel)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Canonicalizes: the passes of [`PASSES`](crate::passes::PASSES) until nothing changes.
pub const OPTIMIZE: Pass = Pass { name: "optimize", run: |kernel, _| optimize(kernel) };

/// Promotes integers of 8 and 16 bits, and writes elementary functions as arithmetic.
pub const EXPAND: Pass = Pass {
    name: "expand",
    run: |kernel, _| {
        promote(kernel);
        expand(kernel);
        Ok(())
    },
};

/// Promotes integers of 8 and 16 bits, and converts the factors of products of 8-bit numbers, for
/// devices without matrix units. Fault regions are lowered before: a quotient of promoted constants
/// would count as a place that can fault. Copies arrive at once.
pub const WIDEN: Pass = Pass {
    name: "widen",
    run: |kernel, _| {
        fault_region::run(kernel);
        async_copies::at_once(kernel);
        promote(kernel);
        replace(kernel, widen_products(kernel, |_, _| false));
        Ok(())
    },
};

/// Divides tiles into tiles whose extents are powers of two.
pub const LEGALIZE: Pass = Pass {
    name: "legalize",
    run: |kernel, _| {
        replace(kernel, legalize_tiles(kernel)?);
        Ok(())
    },
};

/// Gives loops of products a task that copies; refuses kernels that would not gain.
pub const WARP_SPECIALIZE: Pass = Pass {
    name: "warp_specialize",
    run: |kernel, target| {
        *kernel = warp_specialize(kernel, target)?;
        Ok(())
    },
};

/// Lowers tiles to threads.
pub const LOWER: Pass = Pass {
    name: "lower",
    run: |kernel, target| {
        *kernel = lower_to_threads(kernel, target)?;
        Ok(())
    },
};

fn replace(kernel: &mut Kernel, changed: Option<Kernel>) {
    if let Some(changed) = changed {
        *kernel = changed;
    }
}

/// A step of a pipeline.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A pass.
    Run(Pass),
    /// The first list whose passes all take the kernel. A list that refuses it leaves it as it was
    /// before; of the last one the error is reported, and of any an error in the compiler.
    FirstOf(&'static [&'static [Pass]]),
}

use Step::{FirstOf, Run};

/// For GPUs: over threads, as code is written from it.
pub const GPU: &[Step] = &[
    Run(OPTIMIZE),
    Run(EXPAND),
    Run(OPTIMIZE),
    FirstOf(&[&[WARP_SPECIALIZE, OPTIMIZE, LOWER], &[LOWER]]),
    Run(OPTIMIZE),
];

/// For GPUs, as far as kernels that get a task that copies are of the explicit level.
pub const TASKS: &[Step] = &[Run(OPTIMIZE), Run(EXPAND), Run(OPTIMIZE), Run(WARP_SPECIALIZE), Run(OPTIMIZE)];

/// For the interpreter in place of a GPU: kernels that are written at the explicit level, as far as
/// it supports them.
pub const EXPLICIT: &[Step] = &[Run(LEGALIZE)];

/// For CPUs, whose code generators take tiles.
pub const CPU: &[Step] = &[Run(WIDEN), Run(OPTIMIZE)];

/// A kernel that has gone through a pipeline.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The kernel.
    pub kernel: Kernel,
    /// The names of the passes that it went through, in order.
    pub passes: Vec<&'static str>,
}

impl Target {
    /// The pipeline of the target's family.
    ///
    /// ```
    /// use kiln_compiler::{Target, pipeline::Step};
    /// let names: Vec<_> = Target::cpu(1024, 256 << 10).pipeline().iter().map(|step| match step {
    ///     Step::Run(pass) => pass.name(),
    ///     Step::FirstOf(_) => "one of several",
    /// }).collect();
    /// assert_eq!(names, ["widen", "optimize"]);
    /// ```
    pub fn pipeline(&self) -> &'static [Step] {
        match self.kind {
            TargetKind::Cuda { .. } | TargetKind::Portable => GPU,
            TargetKind::Cpu => CPU,
        }
    }
}

/// Takes a kernel that the verifier accepts through the pipeline of a target.
///
/// ```
/// use kiln_compiler::{Target, pipeline};
/// let kernel = kiln_ir::parse("kernel @k(%y: mut view<f32, 1, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 1.0 : f32[128]
///   store %y[%0] = %1
/// }")?;
/// let compiled = pipeline::compile(&kernel, &Target::cuda((9, 0), 227 << 10))?;
/// assert_eq!(compiled.passes, ["optimize", "expand", "optimize", "lower", "optimize"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What the target has no room or no code for, with its place in the user's source; and a pass that
/// broke the kernel, which is a bug in the compiler and found only in debug builds.
pub fn compile(kernel: &Kernel, target: &Target) -> Result<Compiled, CompileError> {
    run(kernel, target, target.pipeline())
}

/// Takes a kernel that the verifier accepts through a list of steps.
///
/// # Errors
/// As [`compile`], and [`CompileError::NotSpecialized`] where [`WARP_SPECIALIZE`] is a step by
/// itself.
pub fn run(kernel: &Kernel, target: &Target, steps: &[Step]) -> Result<Compiled, CompileError> {
    let mut compiled = Compiled { kernel: kernel.clone(), passes: Vec::new() };
    for step in steps {
        match step {
            Run(pass) => compiled.run(target, &[*pass])?,
            FirstOf(lists) => compiled.run_first(target, lists)?,
        }
    }
    Ok(compiled)
}

impl Compiled {
    fn run(&mut self, target: &Target, passes: &[Pass]) -> Result<(), CompileError> {
        for pass in passes {
            pass.run(&mut self.kernel, target)?;
            self.passes.push(pass.name);
        }
        Ok(())
    }

    fn run_first(&mut self, target: &Target, lists: &[&[Pass]]) -> Result<(), CompileError> {
        let Some((last, others)) = lists.split_last() else { return Ok(()) };
        for passes in others {
            let mut attempt = self.clone();
            match attempt.run(target, passes) {
                Ok(()) => {
                    *self = attempt;
                    return Ok(());
                }
                Err(error @ CompileError::Internal { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        self.run(target, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{OpKind, parse};

    const ONES: &str = "kernel @k(%y: mut view<f32, 1, global>) tile {
  %0 = const 0 : i64
  %1 = const 1.0 : f32[128]
  store %y[%0] = %1
}";

    /// Adds an operand that no `store` has.
    const BREAK: Pass = Pass {
        name: "break",
        run: |kernel, _| {
            let ops = kernel.block(kernel.body).ops.clone();
            let store = ops.into_iter().find(|op| matches!(kernel.op(*op).kind, OpKind::Store { .. }));
            if let Some(store) = store {
                kernel.op_mut(store).operands.pop();
            }
            Ok(())
        },
    };

    const REFUSE: Pass = Pass {
        name: "refuse",
        run: |_, _| {
            let [location, what, hint] = ["here", "it", "stop"].map(String::from);
            Err(CompileError::Unsupported { location, what, hint })
        },
    };

    fn gpu() -> Target {
        Target::cuda((9, 0), 227 << 10)
    }

    #[test]
    fn a_pass_that_breaks_a_kernel_is_named() {
        let error = run(&parse(ONES).unwrap(), &gpu(), &[Run(OPTIMIZE), Run(BREAK), Run(LOWER)]).unwrap_err();
        assert!(error.to_string().contains("pass `break` broke the kernel"), "{error}");
    }

    #[test]
    fn a_list_that_refuses_a_kernel_leaves_no_trace() {
        let kernel = parse(ONES).unwrap();
        let done = run(&kernel, &gpu(), &[FirstOf(&[&[LOWER, REFUSE], &[OPTIMIZE, LEGALIZE]])]).unwrap();
        assert_eq!(done.passes, ["optimize", "legalize"]);
        assert_eq!(done.kernel.to_string(), kernel.to_string());
        let error = run(&kernel, &gpu(), &[FirstOf(&[&[OPTIMIZE, REFUSE], &[REFUSE]])]).unwrap_err();
        assert_eq!(error.to_string(), "here: it is not supported; stop");
        // An error in the compiler is one, whatever else could be done.
        let error = run(&kernel, &gpu(), &[FirstOf(&[&[BREAK], &[LOWER]])]).unwrap_err();
        assert!(matches!(error, CompileError::Internal { .. }), "{error}");
    }

    #[test]
    fn targets_choose_their_lists() {
        let kernel = parse(ONES).unwrap();
        let passes = |target: &Target| compile(&kernel, target).unwrap().passes;
        let gpus = ["optimize", "expand", "optimize", "lower", "optimize"];
        assert_eq!(passes(&gpu()), gpus);
        assert_eq!(passes(&Target::portable(8, 16 << 10)), gpus);
        assert_eq!(passes(&Target::cpu(1024, 256 << 10)), ["widen", "optimize"]);
        let error = run(&kernel, &gpu(), TASKS).unwrap_err();
        assert!(matches!(error, CompileError::NotSpecialized { .. }), "{error}");
    }
}

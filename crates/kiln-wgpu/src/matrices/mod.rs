//! Products of tiles of f16 for matrix units whose fragments only they can read: the cooperative
//! matrices of Vulkan.
//!
//! A pass over tiles, before they are lowered to threads. The sums of a product become an
//! allocation that nothing but operations on sums reaches ([`MatrixOp`](kiln_ir::MatrixOp)), which
//! the writer of modules keeps in fragments. Factors go to shared memory, whose lines are 16 bytes
//! longer than a factor's, so that the rows of a fragment lie in different banks.
//!
//! ```text
//!  for at in 0..k step 32 carry sum       fa, fb = alloc; zero sums
//!    x, y = load a, load b                x, y = load a, load b; store fa = x; store fb = y
//!    sum = dot x, y, sum                  for at in 0..k step 32
//!  store c = sum                            x, y = load a, load b of the next round
//!                                           multiply sums += fa · fb
//!                                           store the other half of fa = x, of fb = y
//!                                         store c = load sums
//! ```
//!
//! - Sums that a loop carries from product to product alone stay in fragments while it runs.
//! - Where the factors of such a product are loaded for it in the loop, those of the next round are
//!   loaded before it and stored after it, to the other half of twice the room if there is as much:
//!   a round has one barrier then.
//! - Everything else that is done with sums is done by threads, which get them through shared
//!   memory, a few fragments of each warp at a time.
//!
//! A warp has up to 16 fragments of sums, 128 registers a thread. Products that do not fit, and
//! those of kernels for which shared memory does not suffice or with checks that all threads leave
//! at, are multiply-adds as elsewhere.
//!
//! | file | holds |
//! |---|---|
//! | `found.rs` | which products these are, and what is known of the loops around them |
//! | `rewrite.rs` | the kernel with those products on matrix units |
//! | `units.rs` | how the writer of modules keeps sums in fragments |

mod found;
mod rewrite;
mod units;

use found::Found;
use kiln_compiler::pipeline::{self, EXPAND, LEGALIZE, LOWER, OPTIMIZE, Step, WIDEN};
use kiln_compiler::{CompileError, Target};
use kiln_ir::{Kernel, Level, OpKind, Scalar};
pub(crate) use units::{is_factor, multiplies};

/// The passes before this one and after it.
const BEFORE: &[Step] =
    &[Step::Run(OPTIMIZE), Step::Run(EXPAND), Step::Run(OPTIMIZE), Step::Run(WIDEN), Step::Run(LEGALIZE)];
const AFTER: &[Step] = &[Step::Run(OPTIMIZE), Step::Run(LOWER), Step::Run(OPTIMIZE)];

/// A kernel lowered to threads with its products of f16 on matrix units, if it has such ones and
/// there is room for them.
///
/// # Errors
/// Those of the passes before.
pub(crate) fn lowered(kernel: &Kernel, target: &Target) -> Result<Option<Kernel>, CompileError> {
    if !may_multiply(kernel) {
        return Ok(None);
    }
    let before = pipeline::run(kernel, target, BEFORE)?.kernel;
    let Some(found) = Found::of(&before, target) else { return Ok(None) };
    let on_units = rewrite::rewrite(&before, &found);
    match pipeline::run(&on_units, target, AFTER) {
        Ok(lowered) => Ok(Some(lowered.kernel).filter(|kernel| !returns(kernel))),
        Err(error @ CompileError::Internal { .. }) => Err(error),
        // Exchanges of the rest take too much shared memory beside the factors.
        Err(_) => Ok(None),
    }
}

/// Whether a check may end a thread by itself. All threads of a program over tiles return together,
/// but naga does not see that, and accepts no matrix units behind such a return.
fn returns(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(|_, data| {
        any |= matches!(data.kind, OpKind::Assert(_) | OpKind::CheckBounds | OpKind::CheckDivisor);
    });
    any
}

/// Whether a kernel is one over tiles with products of f16, or of what becomes f16.
fn may_multiply(kernel: &Kernel) -> bool {
    let (mut halves, mut others) = (false, !matches!(kernel.level, Level::Tile { .. }));
    kernel.walk(|_, data| {
        if let OpKind::Dot(_) = data.kind {
            let elem = kernel.ty(data.left()).elem();
            halves |= elem == Scalar::F16 || elem.is_float8();
        }
        others |= data.kind == OpKind::FaultRegion;
    });
    halves && !others
}

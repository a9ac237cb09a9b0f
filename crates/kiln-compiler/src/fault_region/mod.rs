//! Fault regions in terms of `if` and loops.
//!
//! What follows an operation that can fault moves into an `if` on the condition that it does not,
//! whose other arm gives the site and the fallbacks. So a fault region without loops costs a
//! comparison and a branch for each check. An `if` that holds such an operation gives the site too,
//! and what follows it moves into an `if` on the site. A loop carries the site and runs while there
//! is none; with a budget it also carries the steps that are left.
//!
//! After the pass there are no fault regions, and what the operations in them would have caught
//! cannot happen: accesses are [`Bounds::Trust`](kiln_ir::Bounds::Trust), asserts are gone,
//! divisors are not zero.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | finding fault regions |
//! | `region.rs` | a list of operations, and what of it follows a fault |
//! | `branch.rs` | `if`, and nested fault regions |
//! | `loops.rs` | `for` and `while` |
//! | `check.rs` | when an operation does not fault |
//! | `record.rs` | the values of a check that failed |
//! | `agree.rs` | a fault of one thread becomes the block's |

mod agree;
mod branch;
mod check;
mod loops;
mod record;
mod region;

use crate::opt::{Renames, prove_bounds};
use kiln_ir::{Block, Builder, FaultRegions, Kernel, Literal, Loc, Op, OpKind, Scalar, Value};

/// A kernel with its fault regions lowered; `None` if it has none.
pub(crate) fn lowered(kernel: &Kernel) -> Option<Kernel> {
    let mut any = false;
    kernel.walk(|_, data| any |= data.kind == OpKind::FaultRegion);
    let mut lowered = any.then(|| kernel.clone())?;
    run(&mut lowered);
    Some(lowered)
}

/// Lowers all fault regions; whether there were any.
pub(crate) fn run(kernel: &mut Kernel) -> bool {
    let Some(fault_regions) = FaultRegions::of(kernel) else { return false };
    // What cannot leave its view needs no check. Operations keep their identity, and so their
    // numbers as sites.
    prove_bounds(kernel);
    let mut lowering = Lowering {
        kernel,
        fault_regions,
        renames: Renames::default(),
        loc: Loc::default(),
        steps_vary: false,
        record: None,
    };
    let body = lowering.kernel.body;
    lowering.lower_block(body);
    lowering.rename(body);
    true
}

/// The pass under way.
struct Lowering<'k> {
    kernel: &'k mut Kernel,
    fault_regions: FaultRegions,
    /// Applied to all operations in the end.
    renames: Renames,
    /// Of the operation that is being lowered.
    loc: Loc,
    /// Whether threads may have different numbers of steps left in the fault region that is being
    /// lowered.
    steps_vary: bool,
    /// Where the fault region that is being lowered records faults.
    record: Option<Value>,
}

impl Lowering<'_> {
    /// Lowers the fault regions in a block that is in none.
    fn lower_block(&mut self, block: Block) {
        let outer = (self.loc, self.steps_vary);
        let ops = std::mem::take(&mut self.kernel.block_mut(block).ops);
        for op in ops {
            if self.kernel.op(op).kind == OpKind::FaultRegion {
                self.steps_vary = self.fault_regions.steps_vary(self.kernel, op);
                self.fault_region(op, block, None);
                continue;
            }
            for region in self.kernel.op(op).regions.clone() {
                self.lower_block(region);
            }
            self.push(block, op);
        }
        (self.loc, self.steps_vary) = outer;
    }

    fn rename(&mut self, block: Block) {
        for op in self.kernel.block(block).ops.clone() {
            self.renames.apply(self.kernel, op);
            for region in self.kernel.op(op).regions.clone() {
                self.rename(region);
            }
        }
    }

    fn push(&mut self, block: Block, op: Op) {
        self.kernel.block_mut(block).ops.push(op);
    }

    /// A cursor at the end of a block.
    fn at(&mut self, block: Block) -> Builder<'_> {
        let loc = self.loc;
        let mut builder = Builder::new(self.kernel);
        (builder.block, builder.loc) = (block, loc);
        builder
    }

    fn site_constant(&mut self, at: Block, site: u32) -> Value {
        self.at(at).constant(Literal::from_bits(Scalar::U32, site.into()))
    }
}

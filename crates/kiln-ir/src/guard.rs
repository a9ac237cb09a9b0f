//! What guards catch: which operations can fault, how they are numbered, and whom a fault concerns.
//!
//! Faults are caught by the guard around them ([`OpKind::Guard`]). The operations that can fault
//! inside guards are *sites*, numbered from 1 in the order of the text.

use crate::fault::{Followed, GuardFault};
use crate::kernel::{Block, Kernel, Level, Op, OpData, Value};
use crate::op::OpKind;
use crate::types::Scalar;
use crate::uniformity::Uniformity;
use std::collections::HashSet;

/// The site that a guard gives where its budget was exceeded.
pub const BUDGET_EXCEEDED: u32 = u32::MAX;

/// An operation inside a guard that can fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuardSite {
    /// The operation.
    pub op: Op,
    /// How it can fault.
    pub fault: GuardFault,
    /// What to tell: the text of an assert, with `{}` for its values; of an access outside its
    /// view, for the index and the extent.
    pub message: String,
    /// How a guard's record holds each value that a failing check reports: integers widened to 64
    /// bits by their sign, floats of 8 and 16 bits as f32, and the bits of the others, with zeros
    /// above. Of an access outside its view: the index and the extent of the first axis that it
    /// leaves; of a tile, the least index there that lies outside.
    pub values: Vec<Scalar>,
    /// `file:line:column` of the operation in the user's source.
    pub location: String,
}

impl Kernel {
    /// The operations inside guards that can fault, in the order of the text: site `n` is at
    /// `n - 1`.
    ///
    /// ```
    /// let text = "kernel @k(%n: i64, %c: bool) tile {\n  %0 = const 0 : u32\n  %1, %2 = guard %0, %n : u32, i64 {\n    \
    ///             assert %c, \"no luck\"\n    %3 = div %n, %n : i64\n    yield %3\n  }\n}\n";
    /// let sites = kiln_ir::parse(text)?.guard_sites();
    /// assert_eq!(sites[0].message, "no luck");
    /// assert_eq!((sites[1].fault, sites.len()), (kiln_ir::GuardFault::DivisionByZero, 2));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn guard_sites(&self) -> Vec<GuardSite> {
        let mut sites = Vec::new();
        in_guards(self, self.body, false, &mut |op| {
            if let Some(fault) = self.fault_of(op) {
                let data = self.op(op);
                let message = match fault {
                    GuardFault::Assert => self.asserted(data).cloned().unwrap_or_default(),
                    GuardFault::DivisionByZero => "division by zero".into(),
                    GuardFault::OutOfBounds => "index {} out of bounds for extent {}".into(),
                };
                let values = match fault {
                    GuardFault::Assert => data.shown().iter().map(|&v| recorded(self.ty(v).elem())).collect(),
                    GuardFault::OutOfBounds => vec![Scalar::I64; 2],
                    GuardFault::DivisionByZero => Vec::new(),
                };
                sites.push(GuardSite { op, fault, message, values, location: self.describe(data.loc) });
            }
        });
        sites
    }

    /// The text of an assert.
    fn asserted(&self, data: &OpData) -> Option<&String> {
        let OpKind::Assert(message) = data.kind else { return None };
        self.messages.get(message.0 as usize)
    }

    /// The record of a guard's fault, if the guard has one.
    pub fn guard_record(&self, guard: &OpData) -> Option<Value> {
        guard.operands.get(1).copied().filter(|&v| self.ty(v).as_view().is_some())
    }

    /// The values that a guard gives after a fault.
    pub fn guard_fallbacks<'a>(&self, guard: &'a OpData) -> &'a [Value] {
        let first = 1 + usize::from(self.guard_record(guard).is_some());
        guard.operands.get(first..).unwrap_or_default()
    }
}

/// The type whose bits a guard's record holds of a value of this type.
pub const fn recorded(value: Scalar) -> Scalar {
    match value {
        Scalar::F16 | Scalar::BF16 | Scalar::E4M3 | Scalar::E5M2 | Scalar::F32 => Scalar::F32,
        Scalar::I8 | Scalar::I32 | Scalar::I64 => Scalar::I64,
        Scalar::U8 | Scalar::U32 | Scalar::U64 => Scalar::U64,
        Scalar::Bool => Scalar::Bool,
        Scalar::F64 => Scalar::F64,
    }
}

/// Calls `visit` on every operation inside guards, in the order of the text.
fn in_guards(kernel: &Kernel, block: Block, inside: bool, visit: &mut dyn FnMut(Op)) {
    for &op in &kernel.block(block).ops {
        if inside {
            visit(op);
        }
        let data = kernel.op(op);
        let inside = inside || data.kind == OpKind::Guard;
        data.regions.iter().for_each(|&region| in_guards(kernel, region, inside, visit));
    }
}

/// Everything that executing or lowering guards must know of a kernel.
///
/// ```
/// use kiln_ir::{Guards, parse};
/// let kernel = parse("kernel @k(%n: i64) tile {\n  %0 = div %n, %n : i64\n}")?;
/// assert!(Guards::of(&kernel).is_none());
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Guards {
    sites: Vec<u32>,
    followed: Followed,
    uniformity: Uniformity,
    /// How many values there were.
    values: usize,
    /// Loops that threads may run a different number of times.
    parting: HashSet<Op>,
    /// Whether blocks have more than one thread.
    threads: bool,
}

impl Guards {
    /// Looks at a well-formed kernel; `None` if there are no guards.
    pub fn of(kernel: &Kernel) -> Option<Guards> {
        let mut any = false;
        kernel.walk(|_, data| any |= data.kind == OpKind::Guard);
        if !any {
            return None;
        }
        let mut sites = vec![0; kernel.counts().1];
        for (number, site) in (1..).zip(kernel.guard_sites()) {
            sites[site.op.index()] = number;
        }
        let threads = matches!(kernel.level, Level::Thread { block } if block != [1, 1, 1]);
        let (followed, uniformity) = (Followed::of(kernel), Uniformity::of(kernel));
        let mut parting = HashSet::new();
        kernel.walk(|op, data| parting.extend(uniformity.loop_diverges(kernel, data).then_some(op)));
        let values = kernel.counts().0;
        Some(Guards { sites, followed, uniformity, values, parting, threads })
    }

    /// The number of the site that an operation is; 0 if it is none.
    pub fn site(&self, op: Op) -> u32 {
        self.sites.get(op.index()).copied().unwrap_or(0)
    }

    /// Whether a fault that arises in an operation of a guard's region concerns all threads of the
    /// block. If the operation has regions, they agree after it.
    pub fn concerns_block(&self, op: Op) -> bool {
        self.threads && self.followed.by_collective(op) && !self.uniformity.diverges(op)
    }

    /// Whether exceeding the budget after a round of a loop concerns all threads of the block,
    /// because they run the loop together.
    pub fn rounds_concern_block(&self, op: Op) -> bool {
        self.concerns_block(op) && !self.parting.contains(&op)
    }

    /// Whether threads may take different ways through an operation with regions.
    pub fn parts_threads(&self, kernel: &Kernel, op: Op) -> bool {
        let data = kernel.op(op);
        self.parting.contains(&op) || (data.kind == OpKind::If && self.varies(data.condition()))
    }

    /// Whether threads may take different numbers of steps inside a guard that is in no other one.
    pub fn steps_vary(&self, kernel: &Kernel, guard: Op) -> bool {
        let data = kernel.op(guard);
        self.threads && (self.varies(data.budget()) || self.uniformity.steps_vary(kernel, data.regions[0]))
    }

    /// Whether threads may see different values; taken to be so of values that are newer than the
    /// analysis.
    pub fn varies(&self, value: Value) -> bool {
        value.index() >= self.values || self.uniformity.varies(value)
    }
}

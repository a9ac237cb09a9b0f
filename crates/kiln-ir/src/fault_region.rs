//! Fault regions: which operations can fault, how they are numbered, and which threads a fault
//! concerns.
//!
//! A fault region ([`OpKind::FaultRegion`]) catches the faults inside it. The operations inside
//! fault regions that can fault are *sites*, numbered from 1 in the order of the text.

use crate::fault::{Followed, OpFault};
use crate::kernel::{Block, Kernel, Level, Op, OpData, Value};
use crate::op::OpKind;
use crate::types::Scalar;
use crate::uniformity::Uniformity;
use rustc_hash::FxHashSet;

/// The site that a fault region gives where its budget was exceeded.
pub const BUDGET_EXCEEDED: u32 = u32::MAX;

/// An operation inside a fault region that can fault.
///
/// ```
/// use kiln_ir::{FaultSite, Scalar, parse};
/// let text = "kernel @k(%n: i64, %c: bool) tile {\n  %0 = const 0 : u32\n  %1, %2 = fault_region %0, %n : u32, i64 {\n    \
///             assert %c, \"n is {}\", %n\n    yield %n\n  }\n}\n";
/// let kernel = parse(text)?;
/// let site: &FaultSite = &kernel.fault_sites()[0];
/// assert_eq!((&site.message[..], &site.values[..]), ("n is {}", &[Scalar::I64][..]));
/// assert_eq!(site.location, "unknown location");
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultSite {
    /// The operation.
    pub op: Op,
    /// How it can fault.
    pub fault: OpFault,
    /// What to report: the text of an assert, with `{}` for its values; of an access outside its
    /// view, for the index and the extent.
    pub message: String,
    /// How a fault region's record holds each value that a failing check reports: integers widened
    /// to 64 bits by their sign, floats of 8 and 16 bits as f32, and the bits of the others, with
    /// zeros above. Of an access outside its view: the index and the extent of the first axis that
    /// it leaves; of a tile, the least index there that lies outside.
    pub values: Vec<Scalar>,
    /// `file:line:column` of the operation in the user's source.
    pub location: String,
}

impl Kernel {
    /// The operations inside fault regions that can fault, in the order of the text: site `n` is at
    /// `n - 1`.
    ///
    /// ```
    /// let text = "kernel @k(%n: i64, %c: bool) tile {\n  %0 = const 0 : u32\n  %1, %2 = fault_region %0, %n : u32, i64 {\n    \
    ///             assert %c, \"no luck\"\n    %3 = div %n, %n : i64\n    yield %3\n  }\n}\n";
    /// let sites = kiln_ir::parse(text)?.fault_sites();
    /// assert_eq!(sites[0].message, "no luck");
    /// assert_eq!((sites[1].fault, sites.len()), (kiln_ir::OpFault::DivisionByZero, 2));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn fault_sites(&self) -> Vec<FaultSite> {
        let mut sites = Vec::new();
        in_fault_regions(self, self.body, false, &mut |op| {
            if let Some(fault) = self.fault_of(op) {
                let data = self.op(op);
                let message = match fault {
                    OpFault::Assert => self.asserted(data).cloned().unwrap_or_default(),
                    OpFault::DivisionByZero => "division by zero".into(),
                    OpFault::OutOfBounds => "index {} out of bounds for extent {}".into(),
                };
                let values = match fault {
                    OpFault::Assert => data.shown().iter().map(|&v| recorded(self.ty(v).elem())).collect(),
                    OpFault::OutOfBounds => vec![Scalar::I64; 2],
                    OpFault::DivisionByZero => Vec::new(),
                };
                sites.push(FaultSite { op, fault, message, values, location: self.describe(data.loc) });
            }
        });
        sites
    }

    /// The text of an assert.
    fn asserted(&self, data: &OpData) -> Option<&String> {
        let OpKind::Assert(message) = data.kind else { return None };
        self.messages.get(message.0 as usize)
    }

    /// Where a fault region records what failed, if it does.
    ///
    /// ```
    /// let text = "kernel @k(%n: i64) thread [32, 1, 1] {\n  %0 = const 0 : u32\n  \
    ///             %1 = alloc local u64[4] : view<u64, 1, local>\n  %2, %3 = fault_region %0, %1, %n : u32, i64 {\n    \
    ///             %4 = div %n, %n : i64\n    yield %4\n  }\n}\n";
    /// let kernel = kiln_ir::parse(text)?;
    /// let ops = &kernel.block(kernel.body).ops;
    /// let region = kernel.op(ops[2]);
    /// assert_eq!(kernel.fault_record(region), Some(kernel.result(ops[1])));
    /// assert_eq!(kernel.fault_fallbacks(region), [kernel.block(kernel.body).args[0]]);
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn fault_record(&self, fault_region: &OpData) -> Option<Value> {
        fault_region.operands.get(1).copied().filter(|&v| self.ty(v).as_view().is_some())
    }

    /// The values that a fault region gives after a fault.
    pub fn fault_fallbacks<'a>(&self, fault_region: &'a OpData) -> &'a [Value] {
        let first = 1 + usize::from(self.fault_record(fault_region).is_some());
        fault_region.operands.get(first..).unwrap_or_default()
    }
}

/// The type whose bits a fault region's record holds of a value of this type.
///
/// ```
/// use kiln_ir::{Scalar, recorded};
/// assert_eq!([Scalar::I8, Scalar::U32, Scalar::BF16].map(recorded), [Scalar::I64, Scalar::U64, Scalar::F32]);
/// ```
pub const fn recorded(value: Scalar) -> Scalar {
    match value {
        Scalar::F16 | Scalar::BF16 | Scalar::E4M3 | Scalar::E5M2 | Scalar::F32 => Scalar::F32,
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => Scalar::I64,
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Scalar::U64,
        Scalar::Bool => Scalar::Bool,
        Scalar::F64 => Scalar::F64,
    }
}

/// Calls `visit` on every operation inside fault regions, in the order of the text.
fn in_fault_regions(kernel: &Kernel, block: Block, inside: bool, visit: &mut dyn FnMut(Op)) {
    for &op in &kernel.block(block).ops {
        if inside {
            visit(op);
        }
        let data = kernel.op(op);
        let inside = inside || data.kind == OpKind::FaultRegion;
        data.regions.iter().for_each(|&region| in_fault_regions(kernel, region, inside, visit));
    }
}

/// Everything that executing or lowering fault regions must know of a kernel.
///
/// ```
/// use kiln_ir::{FaultRegions, parse};
/// let kernel = parse("kernel @k(%n: i64) tile {\n  %0 = div %n, %n : i64\n}")?;
/// assert!(FaultRegions::of(&kernel).is_none());
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
///
/// ```
/// use kiln_ir::*;
/// let text = "kernel @k(%n: i64) thread [32, 1, 1] {\n  %0 = const 0 : u32\n  %1 = thread_id x : i64\n  \
///             %2, %3 = fault_region %0, %n : u32, i64 {\n    %4 = div %n, %1 : i64\n    yield %4\n  }\n  barrier\n}\n";
/// let kernel = parse(text)?;
/// let regions = FaultRegions::of(&kernel).unwrap();
/// let region = kernel.block(kernel.body).ops[2];
/// let division = kernel.block(kernel.op(region).regions[0]).ops[0];
/// assert_eq!((regions.site(division), regions.site(region)), (1, 0));
/// // The barrier comes after the region: the fault is that of the thread which divides by zero.
/// assert!(!regions.concerns_block(division) && !regions.rounds_concern_block(division));
/// assert!(regions.varies(kernel.op(division).right()) && !regions.varies(kernel.op(division).left()));
/// // No loop and no condition parts the threads.
/// assert!(!regions.parts_threads(&kernel, region) && !regions.steps_vary(&kernel, region));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FaultRegions {
    sites: Vec<u32>,
    followed: Followed,
    uniformity: Uniformity,
    /// How many values there were.
    values: usize,
    /// Loops that threads may run a different number of times.
    parting: FxHashSet<Op>,
    /// Whether blocks have more than one thread.
    threads: bool,
}

impl FaultRegions {
    /// Looks at a well-formed kernel; `None` if there are no fault regions.
    pub fn of(kernel: &Kernel) -> Option<FaultRegions> {
        let mut any = false;
        kernel.walk(|_, data| any |= data.kind == OpKind::FaultRegion);
        if !any {
            return None;
        }
        let mut sites = vec![0; kernel.counts().1];
        for (number, site) in (1..).zip(kernel.fault_sites()) {
            sites[site.op.index()] = number;
        }
        let threads = matches!(kernel.level, Level::Thread { block } if block != [1, 1, 1]);
        let (followed, uniformity) = (Followed::of(kernel), Uniformity::of(kernel));
        let mut parting = FxHashSet::default();
        kernel.walk(|op, data| parting.extend(uniformity.loop_diverges(kernel, data).then_some(op)));
        let values = kernel.counts().0;
        Some(FaultRegions { sites, followed, uniformity, values, parting, threads })
    }

    /// The number of the site that an operation is; 0 if it is none.
    pub fn site(&self, op: Op) -> u32 {
        self.sites.get(op.index()).copied().unwrap_or(0)
    }

    /// Whether a fault that arises in an operation of a fault region concerns all threads of the
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

    /// Whether threads may take different numbers of steps inside a fault region that is in no
    /// other one.
    pub fn steps_vary(&self, kernel: &Kernel, fault_region: Op) -> bool {
        let data = kernel.op(fault_region);
        self.threads && (self.varies(data.budget()) || self.uniformity.steps_vary(kernel, data.regions[0]))
    }

    /// Whether threads may see different values; taken to be so of values that are newer than the
    /// analysis.
    pub fn varies(&self, value: Value) -> bool {
        value.index() >= self.values || self.uniformity.varies(value)
    }
}

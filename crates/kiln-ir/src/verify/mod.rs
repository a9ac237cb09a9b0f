//! The verifier: the rules a well-formed kernel keeps.
//!
//! | file | checks |
//! |---|---|
//! | `mod.rs` | structure: each entity used once, definitions before uses, terminators |
//! | `header.rs` | the level, parameters and facts |
//! | `subject.rs` | what the rules ask of an operation |
//! | `rules.rs` | operands, results and regions of each operation |
//! | `memory.rs` | the same, of operations that reach memory |
//! | `linear.rs` | the same, of accesses at a linear index |
//! | `ordered.rs` | the same, of ordered accesses |
//! | `explicit.rs` | the same, of the explicit level |
//! | `fragment.rs`, `matrix.rs` | the same, of products on matrix units |
//!
//! Last comes uniformity (`uniformity.rs`): tile operations and barriers are reached by all threads
//! of a block together. That is checked of kernels as a front end makes them; the lowering to
//! threads makes values uniform in ways the analysis cannot see (a butterfly of shuffles), so a
//! kernel that has operations below the tile level is exempt.

mod async_copy;
mod cluster;
mod explicit;
mod fragment;
mod header;
mod linear;
mod matrix;
mod memory;
mod ordered;
mod rules;
mod subject;

use crate::explicit::ExplicitOp;
use crate::kernel::{Block, Def, Kernel, Level, Loc, Op, Value};
use crate::op::OpKind;
use crate::print::Names;
use crate::types::Space;
use crate::uniformity::Uniformity;

/// How deep regions may nest, so that recursive passes do not run out of stack.
pub const MAX_DEPTH: usize = 512;

/// The most bytes of local memory of a thread: what GPUs have (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
const MAX_LOCAL: u64 = 512 << 10;
/// The most bytes of shared memory of a block. Every device has less, and says so itself.
const MAX_SHARED: u64 = 16 << 20;

/// A rule that a kernel breaks.
///
/// ```
/// use kiln_ir::{VerifyError, parse, verify};
/// let kernel = parse("kernel @k(%n: i64, %c: bool) tile {\n  %0 = add %n, %c : i64\n}")?;
/// let errors: Vec<VerifyError> = verify(&kernel).unwrap_err();
/// assert_eq!(errors[0].to_string(), "unknown location: operand 1 is bool, expected i64, in `%0 = add %n, %c : i64`");
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{location}: {message}, in `{op}`")]
pub struct VerifyError {
    /// What is wrong.
    pub message: String,
    /// `file:line:column` of the operation in the user's source, or `unknown location`.
    pub location: String,
    /// The operation, or the head of the kernel, in the text format.
    pub op: String,
}

/// Checks every rule of [`OpKind`] and gives all violations, in the order of the text.
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
/// let mut b = Builder::new(&mut kernel);
/// let one = b.index(1);
/// let x = b.constant(Literal::f32(1.0));
/// b.binary(BinaryOp::Add, one, x);
/// let errors = verify(&kernel).unwrap_err();
/// assert_eq!(errors[0].op, "%2 = add %0, %1 : i64");
/// assert_eq!(errors[0].message, "operand 1 is f32, expected i64");
/// ```
///
/// # Errors
/// The violations, at least one. Uniformity is looked at only where everything else holds.
pub fn verify(kernel: &Kernel) -> Result<(), Vec<VerifyError>> {
    let mut verifier = Verifier::new(kernel);
    for message in header::check(kernel) {
        verifier.errors.push(VerifyError {
            message,
            location: kernel.describe(Loc::default()),
            op: format!("kernel @{}", kernel.name),
        });
    }
    if verifier.errors.is_empty() {
        verifier.body();
    }
    if verifier.errors.is_empty() && matches!(kernel.level, Level::Thread { .. }) && !verifier.lowered {
        verifier.uniformity();
    }
    if verifier.errors.is_empty() { Ok(()) } else { Err(verifier.errors) }
}

struct Verifier<'k> {
    kernel: &'k Kernel,
    /// By value: whether it is defined at the point the walk has reached.
    defined: Vec<bool>,
    /// By operation and by block: whether the walk has met it.
    met_ops: Vec<bool>,
    met_blocks: Vec<bool>,
    /// Whether operations below the tile level are there.
    lowered: bool,
    /// A fault region, if there is one.
    fault_region: Option<Op>,
    /// How many fault regions are around the point that the walk has reached.
    fault_regions_around: usize,
    /// Bytes of shared memory of a block, and of local memory of a thread, that were allocated so
    /// far.
    memory: [u64; 2],
    errors: Vec<VerifyError>,
    /// Computed at the first error.
    names: Option<Names>,
}

impl<'k> Verifier<'k> {
    fn new(kernel: &'k Kernel) -> Self {
        let (values, ops, blocks) = kernel.counts();
        Verifier {
            kernel,
            defined: vec![false; values],
            met_ops: vec![false; ops],
            met_blocks: vec![false; blocks],
            lowered: false,
            fault_region: None,
            fault_regions_around: 0,
            memory: [kernel.scratch_bytes.into(), 0],
            errors: Vec::new(),
            names: None,
        }
    }

    fn error(&mut self, op: Op, message: String) {
        let names = self.names.get_or_insert_with(|| Names::new(self.kernel));
        let op_text = self.kernel.op_text_with(names, op);
        let location = self.kernel.describe(self.kernel.op(op).loc);
        self.errors.push(VerifyError { message, location, op: op_text });
    }

    fn body(&mut self) {
        let kernel = self.kernel;
        self.met_blocks[kernel.body.index()] = true;
        let args = &kernel.block(kernel.body).args;
        args.iter().for_each(|v| self.defined[v.index()] = true);
        for &op in &kernel.block(kernel.body).ops {
            if !self.op(op, 0) {
                return;
            }
            if kernel.op(op).kind.is_terminator() {
                self.error(op, "the body of a kernel has no terminator".into());
            }
        }
        if let Some(fault_region) = self.fault_region.filter(|_| self.lowered) {
            self.error(
                fault_region,
                "a kernel with operations below the tile level has no fault regions".into(),
            );
        }
    }

    /// Checks an operation and what it holds; false where the arenas themselves are broken, so that
    /// the walk must stop.
    fn op(&mut self, op: Op, depth: usize) -> bool {
        let kernel = self.kernel;
        if let Err(message) = self.entities(op) {
            self.errors.push(VerifyError {
                message,
                location: kernel.describe(Loc::default()),
                op: format!("kernel @{}", kernel.name),
            });
            return false;
        }
        let data = kernel.op(op);
        self.lowered |= data.kind.is_below_tiles();
        if data.kind == OpKind::FaultRegion {
            self.fault_region = Some(op);
        }
        if let Some(at) = data.operands.iter().position(|v| !self.defined[v.index()]) {
            self.error(op, format!("operand {at} is not defined here"));
        }
        match rules::check(kernel, op) {
            Err(message) => self.error(op, message),
            Ok(()) => self.count_memory(op),
        }
        if depth >= MAX_DEPTH && !data.regions.is_empty() {
            self.error(op, format!("regions nest deeper than {MAX_DEPTH}"));
            return false;
        }
        if data.kind == OpKind::GridBarrier && self.fault_regions_around > 0 {
            self.error(op, "a grid barrier in a fault region, which other blocks may leave".into());
        }
        let around = self.fault_regions_around;
        self.fault_regions_around += usize::from(data.kind == OpKind::FaultRegion);
        for (at, &region) in data.regions.iter().enumerate() {
            if !self.region(op, at, region, depth + 1) {
                return false;
            }
        }
        self.fault_regions_around = around;
        data.results.iter().for_each(|v| self.defined[v.index()] = true);
        true
    }

    /// Refuses memory beyond what any device has, so that no later stage adds up numbers that
    /// overflow. A device's own limit is lower.
    fn count_memory(&mut self, op: Op) {
        let kind = &self.kernel.op(op).kind;
        let (at, bytes) = if let OpKind::Alloc { space, elem, shape } = kind {
            (usize::from(*space == Space::Local), shape.len() as u64 * u64::from(elem.bytes()))
        } else if let OpKind::Explicit(ExplicitOp::SharedTile { stages, rows, columns }) = kind {
            let elem = self.kernel.ty(self.kernel.op(op).results[0]).elem();
            let elements =
                u64::from(*rows).saturating_mul((*columns).into()).saturating_mul((*stages).into());
            (0, elements.saturating_mul(elem.bytes().into()))
        } else if let OpKind::Explicit(ExplicitOp::Mbarrier { count, .. }) = kind {
            (0, 8 * u64::from(*count))
        } else {
            return;
        };
        self.memory[at] = self.memory[at].saturating_add(bytes);
        let (what, most) =
            [("shared memory of a block", MAX_SHARED), ("local memory of a thread", MAX_LOCAL)][at];
        if self.memory[at] > most {
            self.error(op, format!("{what} comes to {} bytes, expected at most {most}", self.memory[at]));
        }
    }

    /// Whether everything the operation names exists and belongs to it alone.
    fn entities(&mut self, op: Op) -> Result<(), String> {
        let kernel = self.kernel;
        let (values, ops, blocks) = kernel.counts();
        if op.index() >= ops || std::mem::replace(&mut self.met_ops[op.index()], true) {
            return Err(format!("{op} does not exist or stands in two places"));
        }
        let data = kernel.op(op);
        if let Some(v) = data.operands.iter().chain(&data.results).find(|v| v.index() >= values) {
            return Err(format!("value {v:?} of {op} does not exist"));
        }
        for (i, &v) in data.results.iter().enumerate() {
            if kernel.def(v) != Def::Result(op, i as u32) {
                return Err(format!("value {v:?} is result {i} of {op}, but records another origin"));
            }
        }
        for &region in &data.regions {
            if region.index() >= blocks || std::mem::replace(&mut self.met_blocks[region.index()], true) {
                return Err(format!("{region} of {op} does not exist or is a region twice"));
            }
            for (i, &v) in kernel.block(region).args.iter().enumerate() {
                if v.index() >= values || kernel.def(v) != Def::Arg(region, i as u32) {
                    return Err(format!(
                        "value {v:?} is argument {i} of {region}, but records another origin"
                    ));
                }
            }
        }
        Ok(())
    }

    fn region(&mut self, op: Op, at: usize, region: Block, depth: usize) -> bool {
        let kernel = self.kernel;
        let block = kernel.block(region);
        let condition = matches!(kernel.op(op).kind, OpKind::While) && at == 0;
        let end = if condition { OpKind::Condition } else { OpKind::Yield };
        let ends = |op: Op| kernel.op(op).kind == end;
        block.args.iter().for_each(|v| self.defined[v.index()] = true);
        for (i, &inner) in block.ops.iter().enumerate() {
            if !self.op(inner, depth) {
                return false;
            }
            if kernel.op(inner).kind.is_terminator() && (i + 1 < block.ops.len() || !ends(inner)) {
                self.error(inner, "the terminator stands in the wrong place".into());
            }
        }
        if !block.ops.last().is_some_and(|&last| ends(last)) {
            let word = if condition { "condition" } else { "yield" };
            self.error(op, format!("region {at} does not end in `{word}`"));
        }
        let leave = |defined: &mut Vec<bool>, values: &[Value]| {
            values.iter().for_each(|v| defined[v.index()] = false);
        };
        leave(&mut self.defined, &block.args);
        for &inner in &block.ops {
            leave(&mut self.defined, &kernel.op(inner).results);
        }
        true
    }

    fn uniformity(&mut self) {
        let uniformity = Uniformity::of(self.kernel);
        let mut found = Vec::new();
        self.kernel.walk(|op, _| {
            if let Err(message) = uniformity.check(self.kernel, op) {
                found.push((op, message));
            }
        });
        for (op, message) in found {
            self.error(op, message);
        }
    }
}

/// What text cannot say; the rest is tested by files.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    fn kernel() -> Kernel {
        Kernel::new("k", Level::Tile { warps: None })
    }

    fn first_message(kernel: &Kernel) -> String {
        verify(kernel).map_or_else(|errors| errors[0].message.clone(), |()| "ok".into())
    }

    #[test]
    fn views_have_a_largest_rank() {
        for rank in [crate::MAX_VIEW_RANK as u32, crate::MAX_VIEW_RANK as u32 + 1, u32::MAX] {
            let mut kernel = kernel();
            let ty = Type::view(Scalar::F32, rank, crate::Space::Global);
            kernel.add_param(crate::Param { name: "x".into(), ty, mutable: false, facts: Facts::default() });
            let expected = format!(
                "parameter `x` is a view of rank {rank}, but a view has at most 5 axes (MAX_VIEW_RANK)"
            );
            let fits = rank as usize <= crate::MAX_VIEW_RANK;
            assert_eq!(first_message(&kernel), if fits { "ok".into() } else { expected });
        }
        let mut kernel = kernel();
        let mut b = Builder::new(&mut kernel);
        b.alloc(crate::Space::Shared, Scalar::F32, crate::Shape::new(&[1; 6]));
        assert!(first_message(&kernel).contains("is a view of rank 6"), "{}", first_message(&kernel));
    }

    #[test]
    fn parameters_have_names_of_their_own() {
        let mut kernel = kernel();
        for _ in 0..2 {
            let ty = Type::scalar(Scalar::I32);
            kernel.add_param(Param { name: "a".into(), ty, mutable: false, facts: Facts::default() });
        }
        assert_eq!(first_message(&kernel), "two parameters are called `a`");
        kernel.params.pop();
        assert_eq!(first_message(&kernel), "the arguments of the body are not the parameters");
    }

    #[test]
    fn an_operation_stands_in_one_place() {
        let mut kernel = kernel();
        let body = kernel.body;
        let op = kernel.append(body, OpKind::Fence(Scope::Block), &[], &[], &[], Loc::default());
        kernel.block_mut(body).ops.push(op);
        assert_eq!(first_message(&kernel), "op0 does not exist or stands in two places");
    }

    #[test]
    fn values_know_where_they_come_from() {
        let mut kernel = kernel();
        let mut b = Builder::new(&mut kernel);
        let one = b.index(1);
        let op = b.op(OpKind::Const(Literal::index(2)), &[], &[]);
        kernel.op_mut(op).results.push(one);
        assert_eq!(first_message(&kernel), "value %0 is result 0 of op1, but records another origin");
    }

    #[test]
    fn entities_exist() {
        let mut kernel = kernel();
        let body = kernel.body;
        kernel.append(body, OpKind::Yield, &[Value::from_index(7)], &[], &[], Loc::default());
        assert_eq!(first_message(&kernel), "value %7 of op0 does not exist");
    }

    #[test]
    fn errors_name_the_source_line() {
        let mut kernel = kernel();
        let file = kernel.file("a.rs");
        let mut b = Builder::new(&mut kernel);
        b.loc = Loc { file, line: 7, column: 3 };
        b.op(OpKind::Barrier, &[], &[]);
        let errors = verify(&kernel).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "a.rs:7:3: only kernels over threads have this operation, in `barrier`"
        );
    }

    #[test]
    fn grid_barriers_stand_where_all_blocks_come() {
        let of = |head: &str, body: &str| {
            let text = format!("kernel @k(%n: i64) {head} {{\n{body}\n}}");
            let kernel = crate::parse(&text).unwrap();
            assert_eq!(crate::parse(&kernel.to_string()).unwrap().to_string(), kernel.to_string());
            verify(&kernel).map_err(|errors| errors[0].message.clone())
        };
        let threads = "thread [32, 1, 1]";
        assert_eq!(of(threads, "  grid_barrier"), Ok(()));
        let tiles = of("tile", "  grid_barrier").unwrap_err();
        assert_eq!(tiles, "only kernels over threads have this operation");
        let clusters = of("thread [32, 1, 1] cluster 2", "  grid_barrier").unwrap_err();
        assert_eq!(clusters, "a grid barrier in a kernel of clusters");
        let region = "  %b = const 0 : u32\n  %s = fault_region %b : u32 {\n    grid_barrier\n    yield\n  }";
        let region = of(threads, region).unwrap_err();
        assert_eq!(region, "a grid barrier in a fault region, which other blocks may leave");
        let varying = "  %t = thread_id x : i64\n  %c = lt %t, %n : bool\n  if %c {\n    grid_barrier\n    yield\n  } else {\n    yield\n  }";
        assert!(of(threads, varying).unwrap_err().contains("a barrier of the grid"));
    }
}

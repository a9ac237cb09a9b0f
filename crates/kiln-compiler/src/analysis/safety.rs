//! What a kernel from an untrusted source must not do, so that launching it is safe.
//!
//! The kernel language makes some operations from safe code and the others from `unsafe` code
//! alone. IR as text has no such distinction, so [`make_safe`] makes it: accesses that trust their
//! indices become checked ones, and what would need a promise that neither a check nor a proof can
//! replace is refused. What is left can fault and can compute nonsense. It cannot reach memory
//! outside of its views, write what is read-only, or have two programs or threads write one element
//! of a tensor.

use kiln_ir::{
    AsyncCopyOp, Axis, BinaryOp, Bounds, ClusterOp, Def, ExplicitOp, Kernel, Level, Loc, Op, OpData, OpKind,
    Scalar, Space, Value,
};
use std::collections::BTreeMap;

/// An operation that safe code could not have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsafeOp {
    /// `file:line:column`, or `unknown location`.
    pub location: String,
    /// The operation in the text format.
    pub op: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The kernel with every access checked, where that is all that it takes to launch it safely.
///
/// The kernel is one that the verifier has accepted. Stores of tiles to tensors become ones whose
/// [partition](crate::partition) must be proved.
///
/// ```
/// let text = "
/// kernel @k(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) thread [32, 1, 1] {
///   %p = program_id x : i64
///   %n = const 32 : i64
///   %b = mul %p, %n : i64
///   %t = thread_id x : i64
///   %i = add %b, %t : i64
///   %z = const 0.0 : f32
///   %v = gather.trust %x[%i] pad %z : f32
///   scatter.trust %y[%i] = %v
/// }
/// ";
/// let safe = kiln_compiler::make_safe(&kiln_ir::parse(text)?);
/// let safe = safe.expect("threads store to elements of their own").to_string();
/// assert!(safe.contains("gather.check") && safe.contains("scatter.check"));
///
/// let races = text.replace("scatter.trust %y[%i]", "scatter.trust %y[%p]");
/// let refused = kiln_compiler::make_safe(&kiln_ir::parse(&races)?).unwrap_err();
/// assert!(refused[0].reason.starts_with("two threads may store to one element"));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
///
/// # Errors
/// Every operation that cannot be made safe.
pub fn make_safe(kernel: &Kernel) -> Result<Kernel, Vec<UnsafeOp>> {
    let mut checked = Vec::new();
    let mut refused = Vec::new();
    let mut own = OwnElements::default();
    kernel.walk(|op, data| match verdict(kernel, data, &mut own) {
        Verdict::Safe => {}
        Verdict::Instead(kind) => checked.push((op, kind)),
        Verdict::Unsafe(reason) => refused.push(unsafe_op(kernel, op, data.loc, reason)),
    });
    if !refused.is_empty() {
        return Err(refused);
    }
    let mut safe = kernel.clone();
    checked.into_iter().for_each(|(op, kind)| safe.op_mut(op).kind = kind);
    Ok(safe)
}

/// The first operation that only `unsafe` code can have made, so that it may be right for some
/// numbers among the kernel's arguments and wrong for others; `None` where every number is safe.
///
/// ```
/// let text = "
/// kernel @k(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>, %at: i64) thread [32, 1, 1] {
///   %p = program_id x : i64
///   %n = const 32 : i64
///   %b = mul %p, %n : i64
///   %t = thread_id x : i64
///   %i = add %b, %t : i64
///   %z = const 0.0 : f32
///   %v = gather.trust %x[%at] pad %z : f32
///   scatter.check %y[%i] = %v
/// }
/// ";
/// let promise = kiln_compiler::promise(&kiln_ir::parse(text)?).expect("it trusts its index");
/// assert!(promise.op.contains("gather.trust"));
/// let checked = text.replace("gather.trust", "gather.check");
/// assert_eq!(kiln_compiler::promise(&kiln_ir::parse(&checked)?), None);
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
pub fn promise(kernel: &Kernel) -> Option<UnsafeOp> {
    let mut found = None;
    let mut own = OwnElements::default();
    kernel.walk(|op, data| {
        let reason = match verdict(kernel, data, &mut own) {
            Verdict::Safe => return,
            Verdict::Instead(_) => "it trusts its indices, or that no two programs store to one element",
            // Safe code may race for shared memory, but cannot leave it.
            Verdict::Unsafe(_) if is_checked_in_block(kernel, data) => return,
            Verdict::Unsafe(reason) => reason,
        };
        found.get_or_insert_with(|| unsafe_op(kernel, op, data.loc, reason));
    });
    found
}

/// Whether an operation stores to the block's memory at an index that is checked.
fn is_checked_in_block(kernel: &Kernel, data: &OpData) -> bool {
    let OpKind::Scatter { bounds, .. } = data.kind else { return false };
    space(kernel, data) == Some(Space::Shared) && bounds == check(bounds)
}

fn unsafe_op(kernel: &Kernel, op: Op, loc: Loc, reason: &'static str) -> UnsafeOp {
    UnsafeOp { location: kernel.describe(loc), op: kernel.op_text(op), reason }
}

enum Verdict {
    Safe,
    /// Safe as this operation.
    Instead(OpKind),
    Unsafe(&'static str),
}

/// There is no arm for the rest: a new operation does not compile until it is judged.
fn verdict(kernel: &Kernel, data: &OpData, own: &mut OwnElements) -> Verdict {
    use OpKind::*;
    use Verdict::{Instead, Safe, Unsafe};
    let checked = |kind: OpKind| if kind == data.kind { Safe } else { Instead(kind) };
    match data.kind {
        // Inside of their views, at whatever index.
        Gather { bounds, masked } => checked(Gather { bounds: check(bounds), masked }),
        OrderedLoad { order, scope, bounds } => checked(OrderedLoad { order, scope, bounds: check(bounds) }),
        LoadQuad(_) => checked(LoadQuad(Bounds::Mask)),
        // It does nothing outside.
        Atomic128 { .. } => Safe,
        Atomic { op, scope, bounds, masked } => {
            // Tiles of atomics have no fault: what lies outside is left out.
            let tile = data.results.iter().any(|&result| kernel.shape(result).rank() > 0);
            let bounds = if tile && bounds == Bounds::Trust { Bounds::Mask } else { check(bounds) };
            checked(Atomic { op, scope, bounds, masked })
        }
        AtomicCas { scope, bounds } => {
            let tile = data.results.iter().any(|&result| kernel.shape(result).rank() > 0);
            let bounds = if tile && bounds == Bounds::Trust { Bounds::Mask } else { check(bounds) };
            checked(AtomicCas { scope, bounds })
        }
        // The partition of a tensor is proved where the kernel is compiled; memory of a block
        // belongs to one program.
        Store { reuse, disjoint } => match space(kernel, data) {
            Some(Space::Global) => checked(Store { reuse, disjoint: true }),
            _ => checked(Store { reuse, disjoint }),
        },
        Scatter { bounds, masked, asynchronous } => match space(kernel, data) {
            Some(Space::Local) => checked(Scatter { bounds: check(bounds), masked, asynchronous }),
            Some(Space::Global) if own.admits(kernel, data) => {
                checked(Scatter { bounds: check(bounds), masked, asynchronous })
            }
            Some(Space::Global) => Unsafe(
                "two threads may store to one element: only stores at the thread's own index in the launch are safe",
            ),
            _ => Unsafe("threads may race for shared memory: nothing proves the barriers between them"),
        },
        OrderedStore { .. } | StoreQuad(_) => {
            Unsafe("it stores what other threads may store: nothing proves the order between them")
        }
        InlinePtx(_) => Unsafe("it is text of PTX, of which nothing says what it does"),
        Cluster(ClusterOp::Barrier) | AsyncCopy(AsyncCopyOp::Commit | AsyncCopyOp::Wait { .. }) => Safe,
        Cluster(ClusterOp::StoreQuad | ClusterOp::PtrStoreQuad) => {
            Unsafe("it stores to memory of other blocks, whose lifetime nothing checks")
        }
        Explicit(ref op) => match op {
            ExplicitOp::PackPairs { .. }
            | ExplicitOp::Exp2Flushed
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank => Safe,
            ExplicitOp::SharedTile { .. }
            | ExplicitOp::Mbarrier { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::MbarrierWait
            | ExplicitOp::TmaLoad { .. }
            | ExplicitOp::TmaStore
            | ExplicitOp::TmaReduce(_)
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::TmaStoreWait { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskBarrier
            | ExplicitOp::Signal
            | ExplicitOp::SignalWait
            | ExplicitOp::SharedStore { .. }
            | ExplicitOp::SharedLoad
            | ExplicitOp::Wgmma { .. }
            | ExplicitOp::WgmmaRegisters { .. }
            | ExplicitOp::WgmmaWait { .. }
            | ExplicitOp::Tasks(_) => {
                Unsafe("it is of the explicit level, whose stages and order nothing checks")
            }
        },
        Address
        | Scratch { .. }
        | Linear { .. }
        | PtrLoad { .. }
        | PtrStore { .. }
        | PtrAtomic { .. }
        | PtrAtomicCas { .. }
        | PtrOrderedLoad { .. }
        | PtrOrderedStore { .. }
        | PtrAtomic128 { .. }
        | Fragment(_)
        | AsyncCopy(AsyncCopyOp::Copy { .. })
        | CheckBounds
        | CheckDivisor
        | DeferFault { .. }
        | BlockCheck(_)
        | Faulted => Unsafe("it is below the tile level, where nothing checks addresses"),
        Const(_)
        | Iota
        | ProgramId(_)
        | NumPrograms(_)
        | ThreadId(_)
        | BlockDim(_)
        | Unary(_)
        | Binary(_)
        | Compare(_)
        | Select
        | Fma
        | Cast
        | Bitcast
        | Broadcast
        | Reshape
        | Transpose(_)
        | Reduce { .. }
        | Scan { .. }
        | Dot(_)
        | Extent(_)
        | Stride(_)
        | Alloc { .. }
        | Load(_)
        | Fence(_)
        | Barrier
        | WarpBarrier
        | GridBarrier
        | Shuffle(_)
        | Vote(_)
        | BlockUniform
        | Clock(_)
        | Sleep
        | If
        | For
        | While
        | Yield
        | Condition
        | FaultRegion
        | Assert(_)
        | Print(_) => Safe,
    }
}

fn check(bounds: Bounds) -> Bounds {
    match bounds {
        Bounds::Trust => Bounds::Check,
        Bounds::Check | Bounds::Mask => bounds,
    }
}

/// The space of the view that an access is about.
fn space(kernel: &Kernel, data: &OpData) -> Option<Space> {
    kernel.ty(data.view()).as_view().map(|view| view.space)
}

/// How the stores to a view distinguish threads. All of them must do so alike.
#[derive(Default)]
struct OwnElements(BTreeMap<Value, Apart>);

/// What makes an index a thread's own: the axes of the view that say which thread of the launch it
/// is.
#[derive(Clone, PartialEq, Eq)]
enum Apart {
    /// One axis has the number of the thread in the launch, counted over all axes.
    Number { axis: usize },
    /// The row of a launch of two axes, with the third counting on in rows, and the column.
    RowAndColumn { row: usize, column: usize },
    /// For each axis of the launch in use, an axis of the view has the thread's place on it.
    Places([Option<usize>; 3]),
}

impl OwnElements {
    /// Whether a store by threads is to an element of the thread's own, as are the other stores to
    /// the view.
    fn admits(&mut self, kernel: &Kernel, data: &OpData) -> bool {
        let Level::Thread { block } = kernel.level else { return false };
        let indices = data.coordinates();
        let Some(apart) = apart(kernel, block.map(i64::from), indices) else { return false };
        *self.0.entry(data.view()).or_insert_with(|| apart.clone()) == apart
    }
}

fn apart(kernel: &Kernel, block: [i64; 3], indices: &[Value]) -> Option<Apart> {
    let indices: Vec<Option<Sum>> = indices.iter().map(|&index| sum(kernel, block, index)).collect();
    let find = |wanted: &Sum| indices.iter().position(|index| index.as_ref() == Some(wanted));
    let [pid, count, tid] = [Symbol::Program, Symbol::Programs, Symbol::Thread]
        .map(|symbol| move |axis: usize| Sum::symbol(symbol, axis, block));
    let [x, y, z] = block;
    let number = |first: Sum, of: Sum, second: Sum| first.plus(&of.times(&second)?);
    let in_block = || number(tid(0), Sum::constant(x), number(tid(1), Sum::constant(y), tid(2))?);
    let program = || number(pid(0), count(0), number(pid(1), count(1), pid(2))?);
    let whole = || number(in_block()?, Sum::constant(x * y * z), program()?);
    if let Some(axis) = whole().and_then(|whole| find(&whole)) {
        return Some(Apart::Number { axis });
    }
    let place = |axis: usize| number(tid(axis), Sum::constant(block[axis]), pid(axis));
    let rows = || {
        let thread = number(tid(1), Sum::constant(y), tid(2))?;
        number(thread, Sum::constant(y * z), number(pid(1), count(1), pid(2))?)
    };
    if let (Some(row), Some(column)) = (rows().and_then(|r| find(&r)), place(0).and_then(|p| find(&p))) {
        return Some(Apart::RowAndColumn { row, column });
    }
    let used = used_axes(kernel);
    let mut places = [None; 3];
    for (axis, found) in places.iter_mut().enumerate() {
        if used[axis] || block[axis] > 1 {
            *found = Some(find(&place(axis)?)?);
        }
    }
    Some(Apart::Places(places))
}

/// Which axes of the grid the kernel can tell apart.
fn used_axes(kernel: &Kernel) -> [bool; 3] {
    let mut used = [false; 3];
    kernel.walk(|_, data| {
        if let OpKind::ProgramId(axis) = data.kind {
            used[axis as usize] = true;
        }
    });
    used
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Symbol {
    Program,
    Programs,
    Thread,
}

/// A sum of products of symbols of axes, each with a factor other than zero.
#[derive(Clone, PartialEq, Eq, Default)]
struct Sum(BTreeMap<Vec<(Symbol, usize)>, i64>);

impl Sum {
    fn constant(n: i64) -> Sum {
        Sum([(Vec::new(), n)].into_iter().filter(|&(_, n)| n != 0).collect())
    }

    fn symbol(symbol: Symbol, axis: usize, block: [i64; 3]) -> Sum {
        match symbol {
            // The one thread there is.
            Symbol::Thread if block[axis] == 1 => Sum::default(),
            Symbol::Thread | Symbol::Program | Symbol::Programs => {
                Sum([(vec![(symbol, axis)], 1)].into_iter().collect())
            }
        }
    }

    fn plus(&self, other: &Sum) -> Option<Sum> {
        let mut all = self.0.clone();
        for (product, factor) in &other.0 {
            let sum = all.get(product).copied().unwrap_or(0).checked_add(*factor)?;
            all.insert(product.clone(), sum);
        }
        all.retain(|_, factor| *factor != 0);
        Some(Sum(all))
    }

    fn times(&self, other: &Sum) -> Option<Sum> {
        let mut all = Sum::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut product = [a.as_slice(), b.as_slice()].concat();
                product.sort_unstable();
                // What distinguishes threads has few symbols.
                if product.len() > 4 || all.0.len() > 32 {
                    return None;
                }
                all = all.plus(&Sum([(product, x.checked_mul(*y)?)].into_iter().collect()))?;
            }
        }
        Some(all)
    }
}

/// An index as a sum, where it is one of indices of programs and threads, and constants.
fn sum(kernel: &Kernel, block: [i64; 3], value: Value) -> Option<Sum> {
    if kernel.ty(value).elem() != Scalar::I64 || kernel.shape(value).rank() != 0 {
        return None;
    }
    let Def::Result(op, _) = kernel.def(value) else { return None };
    let data = kernel.op(op);
    let of = |operand: Value| sum(kernel, block, operand);
    let symbol = |symbol, axis: Axis| Some(Sum::symbol(symbol, axis as usize, block));
    match data.kind {
        OpKind::Const(literal) => i64::try_from(literal.as_i128()).ok().map(Sum::constant),
        OpKind::ProgramId(axis) => symbol(Symbol::Program, axis),
        OpKind::NumPrograms(axis) => symbol(Symbol::Programs, axis),
        OpKind::ThreadId(axis) => symbol(Symbol::Thread, axis),
        OpKind::BlockDim(axis) => Some(Sum::constant(block[axis as usize])),
        OpKind::Binary(BinaryOp::Add) => of(data.left())?.plus(&of(data.right())?),
        OpKind::Binary(BinaryOp::Mul) => of(data.left())?.times(&of(data.right())?),
        // Other operations give indices that belong to no thread in particular.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{parse, verify};

    fn kernel(level: &str, body: &str) -> Kernel {
        let params = "%x: view<f32, 1, global>, %y: mut view<f32, 2, global>, %z: mut view<f32, 1, global>";
        let text = format!(
            "kernel @k({params}) {level} {{\n  %0 = const 0 : i64\n  %f = const 0.0 : f32\n{body}}}\n"
        );
        let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        kernel
    }

    fn reasons(level: &str, body: &str) -> Vec<&'static str> {
        make_safe(&kernel(level, body)).err().unwrap_or_default().into_iter().map(|u| u.reason).collect()
    }

    const PLACES: &str = "  %px = program_id x : i64\n  %py = program_id y : i64\n  %bx = block_dim x : i64\n  %by = block_dim y : i64\n  %tx = thread_id x : i64\n  %ty = thread_id y : i64\n  %1 = mul %px, %bx : i64\n  %cx = add %1, %tx : i64\n  %2 = mul %by, %py : i64\n  %cy = add %ty, %2 : i64\n";

    #[test]
    fn trust_becomes_a_check() {
        let body =
            "  %v = gather.trust %x[%0] pad %f : f32\n  %o = atomic.add.device.trust %z[%0] = %v : f32\n";
        let safe = make_safe(&kernel("thread [1, 1, 1]", body)).unwrap().to_string();
        assert!(safe.contains("gather.check") && safe.contains("atomic.add.device.check"), "{safe}");
        assert!(!safe.contains("trust"), "{safe}");
    }

    #[test]
    fn stores_of_tiles_are_to_be_proved() {
        let body = "  %t = const 1.0 : f32[4]\n  store %z[%0] = %t\n";
        let safe = make_safe(&kernel("tile", body)).unwrap().to_string();
        assert!(safe.contains("store.disjoint"), "{safe}");
    }

    #[test]
    fn threads_store_to_elements_of_their_own() {
        let both = format!("{PLACES}  scatter.check %y[%cy, %cx] = %f\n");
        assert_eq!(reasons("thread [8, 4, 1]", &both), [""; 0]);
        let one = format!("{PLACES}  scatter.check %z[%cx] = %f\n");
        assert_eq!(reasons("thread [8, 4, 1]", &one).len(), 1, "rows meet");
        assert_eq!(reasons("thread [8, 1, 1]", &one).len(), 1, "blocks of several y meet");
        let twice = format!("{PLACES}  scatter.check %y[%cy, %cx] = %f\n  scatter.check %y[%cx, %cy] = %f\n");
        assert_eq!(reasons("thread [8, 4, 1]", &twice).len(), 1, "rows and columns meet");
        let raced = format!("{PLACES}  scatter.check %y[%cy, %tx] = %f\n");
        assert_eq!(reasons("thread [8, 4, 1]", &raced).len(), 1, "blocks of several x meet");
    }

    #[test]
    fn indices_of_tiles_may_meet() {
        let body = "  %i = iota : i64[4]\n  %v = const 1.0 : f32[4]\n  scatter.mask %z[%i] = %v\n";
        assert!(reasons("tile", body)[0].starts_with("two threads may store"));
    }

    #[test]
    fn shared_memory_of_threads_has_no_proof() {
        let body = "  %s = alloc shared f32[32] : view<f32, 1, shared>\n  %t = thread_id x : i64\n  scatter.check %s[%t] = %f\n";
        assert!(reasons("thread [32, 1, 1]", body)[0].contains("shared memory"));
        let local = body.replace("shared", "local");
        assert_eq!(reasons("thread [32, 1, 1]", &local), [""; 0]);
    }

    #[test]
    fn what_works_on_addresses_is_refused() {
        let body = "  %a = address %x : u64\n  %v = ptr_load.global.x1 %a : f32\n";
        let all = reasons("thread [1, 1, 1]", body);
        assert_eq!(all.len(), 2);
        assert!(all[0].contains("below the tile level"));
    }
}

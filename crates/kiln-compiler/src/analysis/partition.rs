//! Which part of each tensor a program writes: the proof that programs do not collide, and the grid
//! that covers the tensors.
//!
//! An access *pins* a grid axis if its offset on some axis of the view is `B · pid + r`, where
//! `pid` is the program's index on the grid axis, and what it covers around `r` is no longer than
//! `B`: then different programs touch different places. A `disjoint` store is proved if it pins
//! every grid axis that the kernel uses, and all accesses to a view it stores to do so alike. The
//! extents of what is pinned give the grid: `ceil(extent / B)` programs.

use kiln_ir::{
    Axis, BinaryOp, Block, Computed, Def, ExplicitOp, Kernel, Level, OpData, OpKind, Operand, Scalar, Value,
};

/// A grid extent that follows from a tensor: `ceil(extent(param, axis) / by)` programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridRule {
    /// The parameter's position.
    pub param: usize,
    /// The axis of its view.
    pub axis: usize,
    /// How much of the axis a program covers.
    pub by: u64,
}

impl GridRule {
    /// The number of programs for an extent.
    ///
    /// ```
    /// let rule = kiln_compiler::GridRule { param: 0, axis: 0, by: 128 };
    /// assert_eq!((rule.programs(1000), rule.programs(0)), (8, 0));
    /// ```
    pub fn programs(self, extent: u64) -> u64 {
        extent.div_ceil(self.by)
    }
}

/// A store for which no proof was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unproven {
    /// `file:line:column`.
    pub location: String,
    /// The name of the tensor.
    pub param: String,
    /// Why.
    pub reason: String,
}

/// What a kernel's accesses say of the grid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// For each grid axis, the rules from stores, or if there are none from loads. They must agree
    /// at a launch.
    pub grid: [Vec<GridRule>; 3],
    /// Which grid axes the kernel uses.
    pub used: [bool; 3],
    /// The `disjoint` stores that may collide.
    pub unproven: Vec<Unproven>,
}

/// Finds the partition of a kernel, as the front end made it.
///
/// ```
/// use kiln_ir::*;
/// let text = "kernel @fill(%y: mut view<f32, 1, global>) tile {\n  %0 = program_id x : i64\n  %1 = const 64 : i64\n  %2 = mul %0, %1 : i64\n  %3 = const 1.0 : f32[64]\n  store.disjoint %y[%2] = %3\n}\n";
/// let partition = kiln_compiler::partition(&parse(text)?);
/// assert_eq!(partition.grid[0], [kiln_compiler::GridRule { param: 0, axis: 0, by: 64 }]);
/// assert!(partition.unproven.is_empty());
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
pub fn partition(kernel: &Kernel) -> Partition {
    let mut result = Partition { used: used_axes(kernel), ..Partition::default() };
    let accesses = accesses(kernel);
    for a in 0..3 {
        if !result.used[a] {
            continue;
        }
        let rules = |stores: bool| {
            let mut rules: Vec<GridRule> = Vec::new();
            for access in accesses.iter().filter(|x| x.writes == stores) {
                let rule = access.pins[a].filter(|p| p.low == 0).map(|p| p.rule(access.param));
                rules.extend(rule.filter(|r| !rules.contains(r)));
            }
            rules
        };
        let stores = rules(true);
        result.grid[a] = if stores.is_empty() { rules(false) } else { stores };
    }
    for store in accesses.iter().filter(|x| x.disjoint) {
        if let Some(reason) = collision(store, &accesses, result.used) {
            let param = kernel.params[store.param].name.clone();
            result.unproven.push(Unproven { location: store.location.clone(), param, reason });
        }
    }
    result
}

/// One access to a parameter.
struct Access {
    param: usize,
    writes: bool,
    disjoint: bool,
    location: String,
    pins: [Option<Pin>; 3],
}

/// The place of an access relative to its program: `by * pid + low ..= by * pid + high` on an axis
/// of the view.
#[derive(Clone, Copy)]
struct Pin {
    axis: usize,
    by: i64,
    low: i64,
    high: i64,
}

impl Pin {
    fn rule(self, param: usize) -> GridRule {
        GridRule { param, axis: self.axis, by: self.by as u64 }
    }
}

fn collision(store: &Access, all: &[Access], used: [bool; 3]) -> Option<String> {
    for (a, name) in ["x", "y", "z"].into_iter().enumerate().filter(|&(a, _)| used[a]) {
        let Some(pin) = store.pins[a] else {
            return Some(format!("its offsets are the same for programs that differ on grid axis {name}"));
        };
        let (mut low, mut high) = (pin.low, pin.high);
        for other in all.iter().filter(|o| o.param == store.param) {
            match other.pins[a] {
                Some(p) if (p.axis, p.by) == (pin.axis, pin.by) => {
                    (low, high) = (low.min(p.low), high.max(p.high))
                }
                _ => {
                    return Some(format!(
                        "the access at {} may reach another program's part",
                        other.location
                    ));
                }
            }
        }
        if high - low >= pin.by {
            return Some(format!(
                "its accesses together cover {} elements, but programs stand {} apart",
                high - low + 1,
                pin.by
            ));
        }
    }
    None
}

fn used_axes(kernel: &Kernel) -> [bool; 3] {
    let mut used = [false; 3];
    kernel.walk(|_, data| {
        if let OpKind::ProgramId(axis) = data.kind {
            used[axis as usize] = true;
        }
    });
    used
}

fn accesses(kernel: &Kernel) -> Vec<Access> {
    let mut found = Vec::new();
    kernel.walk(|_, data| {
        let Some((writes, disjoint)) = access(&data.kind) else { return };
        if let Def::Arg(block, position) = kernel.def(data.view())
            && block == kernel.body
        {
            let param = position as usize;
            // Where copies and signals go is not looked into.
            let pins = if matches!(data.kind, OpKind::Explicit(_)) { [None; 3] } else { pins(kernel, data) };
            found.push(Access { param, writes, disjoint, location: kernel.describe(data.loc), pins });
        }
    });
    found
}

/// Whether an access of a view writes, and whether it must be proved to be disjoint; `None` for
/// what reaches no parameter's elements.
fn access(kind: &OpKind) -> Option<(bool, bool)> {
    use OpKind::*;
    Some(match kind {
        // Atomics may meet each other, but not a plain store.
        Load(_)
        | Gather { .. }
        | Atomic { .. }
        | AtomicCas { .. }
        | OrderedLoad { .. }
        | LoadQuad(_)
        | Atomic128 { .. } => (false, false),
        Store { disjoint, .. } => (true, *disjoint),
        Scatter { .. } | OrderedStore { .. } | StoreQuad(_) => (true, false),
        Explicit(ExplicitOp::TmaLoad { .. } | ExplicitOp::SignalWait) => (false, false),
        Explicit(ExplicitOp::Signal) => (true, false),
        Explicit(ExplicitOp::TmaStore) => (true, false),
        // As atomics.
        Explicit(ExplicitOp::TmaReduce(_)) => (false, false),
        Explicit(
            ExplicitOp::SharedTile { .. }
            | ExplicitOp::Mbarrier { .. }
            | ExplicitOp::MbarrierExpect { .. }
            | ExplicitOp::MbarrierArrive
            | ExplicitOp::MbarrierWait
            | ExplicitOp::TmaPrefetch { .. }
            | ExplicitOp::TmaStoreWait { .. }
            | ExplicitOp::ProxyFence
            | ExplicitOp::TaskBarrier
            | ExplicitOp::SharedStore { .. }
            | ExplicitOp::SharedLoad
            | ExplicitOp::Wgmma { .. }
            | ExplicitOp::WgmmaRegisters { .. }
            | ExplicitOp::PackPairs { .. }
            | ExplicitOp::Exp2Flushed
            | ExplicitOp::WgmmaWait { .. }
            | ExplicitOp::Tasks(_)
            | ExplicitOp::TaskRank
            | ExplicitOp::ClusterRank,
        ) => return None,
        // On registers, on memory of the block (`Cluster`), or on no memory at all.
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
        | Fence(_)
        | Barrier
        | WarpBarrier
        | GridBarrier
        | Shuffle(_)
        | Vote(_)
        | BlockUniform
        | Cluster(_)
        | AsyncCopy(_)
        | Clock(_)
        | InlinePtx(_)
        | Sleep
        | If
        | For
        | While
        | Yield
        | Condition
        | FaultRegion
        | Assert(_)
        | Print(_)
        | CheckBounds
        | CheckDivisor
        | BlockCheck(_)
        | DeferFault { .. }
        | Faulted => return None,
        // By address: the lowering makes them after the proof.
        Fragment(_)
        | Address
        | Scratch { .. }
        | Linear { .. }
        | PtrLoad { .. }
        | PtrStore { .. }
        | PtrAtomic { .. }
        | PtrAtomicCas { .. }
        | PtrOrderedLoad { .. }
        | PtrOrderedStore { .. }
        | PtrAtomic128 { .. } => return None,
    })
}

fn pins(kernel: &Kernel, data: &OpData) -> [Option<Pin>; 3] {
    let rank = kernel.ty(data.view()).as_view().map_or(0, |v| v.rank as usize);
    // The tile that a box is loaded to or stored from; elements have no box.
    let moved = data.results.first().or(data.stored_values().first());
    let tile = moved.filter(|_| !data.named(Operand::Offset).is_empty()).map(|&v| kernel.shape(v));
    let mut pins = [None; 3];
    for axis in 0..rank {
        let Some(&offset) = data.coordinates().get(axis) else { break };
        let extent = tile.as_ref().map_or(1, |s| i64::from(s[axis]));
        let Some((a, by, (low, high))) = affine(kernel, offset).and_then(Affine::one_program) else {
            continue;
        };
        let high = high + extent - 1;
        // Farther apart, places could wrap around the numbers and meet again.
        let apart = by <= i64::from(i32::MAX) && low.abs() <= i64::MAX / 4 && high <= i64::MAX / 4;
        if high - low < by && apart && pins[a].is_none() {
            pins[a] = Some(Pin { axis, by, low, high });
        }
    }
    pins
}

/// `Σ by[a] · pid(a) + rest`, with `rest` in an interval.
#[derive(Clone, Copy)]
struct Affine {
    by: [i64; 3],
    rest: (i64, i64),
}

impl Affine {
    fn of(rest: (i64, i64)) -> Affine {
        Affine { by: [0; 3], rest }
    }

    fn add(self, other: Affine) -> Option<Affine> {
        let mut by = [0; 3];
        for (to, (x, y)) in by.iter_mut().zip(self.by.iter().zip(other.by)) {
            *to = x.checked_add(y)?;
        }
        let rest = (self.rest.0.checked_add(other.rest.0)?, self.rest.1.checked_add(other.rest.1)?);
        Some(Affine { by, rest })
    }

    fn scale(self, factor: i64) -> Option<Affine> {
        let mut by = [0; 3];
        for (to, x) in by.iter_mut().zip(self.by) {
            *to = x.checked_mul(factor)?;
        }
        let (a, b) = (self.rest.0.checked_mul(factor)?, self.rest.1.checked_mul(factor)?);
        Some(Affine { by, rest: (a.min(b), a.max(b)) })
    }

    /// The multiple of a power of two below it, if that is this for each program.
    fn rounded_down(self, step: i64) -> Option<Affine> {
        let down = |x: i64| x & -step;
        let whole = self.by.iter().all(|by| by % step == 0);
        whole.then_some(Affine { rest: (down(self.rest.0), down(self.rest.1)), ..self })
    }

    /// The one grid axis it depends on, with a positive factor.
    fn one_program(self) -> Option<(usize, i64, (i64, i64))> {
        let mut axes = (0..3).filter(|&a| self.by[a] != 0);
        let a = axes.next()?;
        (axes.next().is_none() && self.by[a] > 0).then_some((a, self.by[a], self.rest))
    }

    fn as_constant(self) -> Option<i64> {
        (self.by == [0; 3] && self.rest.0 == self.rest.1).then_some(self.rest.0)
    }
}

fn affine(kernel: &Kernel, value: Value) -> Option<Affine> {
    if kernel.ty(value).elem() != Scalar::I64 {
        return None;
    }
    let data = match kernel.def(value) {
        Def::Result(op, _) => kernel.op(op),
        Def::Arg(block, position) => return loop_variable(kernel, block, position),
    };
    let of = |value| affine(kernel, value);
    match data.kind.computed()? {
        Computed::Const(literal) => Some(Affine::of((literal.as_i128() as i64, literal.as_i128() as i64))),
        Computed::ProgramId(axis) => {
            let mut by = [0; 3];
            by[axis as usize] = 1;
            Some(Affine { by, rest: (0, 0) })
        }
        Computed::ThreadId(axis) => Some(Affine::of((0, block_extent(kernel, axis)? - 1))),
        Computed::BlockDim(axis) => block_extent(kernel, axis).map(|n| Affine::of((n, n))),
        Computed::Broadcast | Computed::Reshape => of(data.input()),
        Computed::Binary(BinaryOp::Add) => of(data.left())?.add(of(data.right())?),
        Computed::Binary(BinaryOp::Sub) => of(data.left())?.add(of(data.right())?.scale(-1)?),
        Computed::Binary(BinaryOp::Mul) => {
            let (x, y) = (of(data.left())?, of(data.right())?);
            match (x.as_constant(), y.as_constant()) {
                (_, Some(factor)) => x.scale(factor),
                (Some(factor), _) => y.scale(factor),
                _ => None,
            }
        }
        // A mask that takes low bits away, which no factor has.
        Computed::Binary(BinaryOp::And) => {
            let mask = of(data.right())?.as_constant().filter(|mask| *mask < 0);
            let step = mask?.checked_neg().filter(|step| step.count_ones() == 1)?;
            of(data.left())?.rounded_down(step)
        }
        // No sums of multiples of program numbers, as far as it matters.
        Computed::Iota
        | Computed::NumPrograms(_)
        | Computed::Extent(_)
        | Computed::Stride(_)
        | Computed::Unary(_)
        | Computed::Binary(_)
        | Computed::Compare(_)
        | Computed::Select
        | Computed::Fma
        | Computed::Cast
        | Computed::Bitcast
        | Computed::Transpose(_)
        | Computed::BlockUniform => None,
    }
}

/// The interval of a `for`'s variable whose bounds are constants.
fn loop_variable(kernel: &Kernel, block: Block, position: u32) -> Option<Affine> {
    let mut found = None;
    kernel.walk(|_, data| {
        if matches!(data.kind, OpKind::For) && position == 0 && data.regions.first() == Some(&block) {
            let [low, high, _] = data.for_bounds();
            found = Some((low, high));
        }
    });
    let (low, high) = found?;
    let (low, high) = (affine(kernel, low)?.as_constant()?, affine(kernel, high)?.as_constant()?);
    (low < high).then(|| Affine::of((low, high - 1)))
}

fn block_extent(kernel: &Kernel, axis: Axis) -> Option<i64> {
    match kernel.level {
        Level::Thread { block } => Some(i64::from(block[axis as usize])),
        Level::Tile { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::parse;

    fn of(body: &str, level: &str) -> Partition {
        let text = format!(
            "kernel @k(%x: view<f32, 2, global>, %y: mut view<f32, 2, global>, %z: mut view<f32, 1, global>) {level} {{\n{body}}}\n"
        );
        partition(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
    }

    #[test]
    fn rows_with_a_loop_inside() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 0 : i64\n  %2 = const 1024 : i64\n  %3 = const 128 : i64\n  %4 = const 0.0 : f32[1, 128]\n  for %i = %1 to %2 step %3 {\n    store.disjoint %y[%0, %i] = %4\n    yield\n  }\n",
            "tile",
        );
        assert_eq!(p.grid[0], [GridRule { param: 1, axis: 0, by: 1 }]);
        assert_eq!((p.used, p.unproven), ([true, false, false], vec![]));
    }

    #[test]
    fn colliding_stores_are_named() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 64 : i64\n  %2 = mul %0, %1 : i64\n  %3 = const 0.0 : f32[128]\n  store.disjoint %z[%2] = %3\n",
            "tile",
        );
        assert_eq!(p.unproven.len(), 1, "128 elements every 64");
        assert_eq!(p.unproven[0].param, "z");
        let p = of(
            "  %0 = const 0 : i64\n  %1 = program_id y : i64\n  %2 = const 0.0 : f32[128]\n  store.disjoint %z[%0] = %2\n",
            "tile",
        );
        assert!(p.unproven[0].reason.contains("grid axis y"), "{p:?}");
    }

    #[test]
    fn a_multiple_of_what_divides_the_factor_is_itself() {
        let masked = |mask: i64| {
            of(
                &format!(
                    "  %0 = program_id x : i64\n  %1 = const 64 : i64\n  %2 = mul %0, %1 : i64\n  %3 = const {mask} : i64\n  %4 = and %2, %3 : i64\n  %5 = const 0.0 : f32[64]\n  store.disjoint %z[%4] = %5\n"
                ),
                "tile",
            )
        };
        for mask in [-64, -16, -1] {
            let p = masked(mask);
            assert_eq!(p.grid[0], [GridRule { param: 2, axis: 0, by: 64 }], "{mask}");
            assert_eq!(p.unproven, [], "{mask}");
        }
        for mask in [-128, -24, 16, 0, i64::MIN] {
            assert_eq!(masked(mask).unproven.len(), 1, "{mask}");
        }
    }

    #[test]
    fn a_neighbor_read_is_a_collision() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 64 : i64\n  %2 = mul %0, %1 : i64\n  %3 = const 1 : i64\n  %4 = add %2, %3 : i64\n  %5 = const 0.0 : f32\n  %6 = load %z[%4] pad %5 : f32[64]\n  store.disjoint %z[%2] = %6\n",
            "tile",
        );
        assert!(p.unproven[0].reason.contains("65 elements"), "{p:?}");
    }

    #[test]
    fn an_atomic_elsewhere_is_a_collision() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 0 : i64\n  %2 = const 1.0 : f32\n  %3 = const 1.0 : f32[1]\n  store.disjoint %z[%0] = %3\n  %4 = atomic.add.device.mask %z[%1] = %2 : f32\n",
            "tile",
        );
        assert!(p.unproven[0].reason.contains("another program's part"), "{p:?}");
    }

    #[test]
    fn places_that_wrap_around_collide() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 4611686018427387904 : i64\n  %2 = mul %0, %1 : i64\n  %3 = const 1.0 : f32[1]\n  store.disjoint %z[%2] = %3\n",
            "tile",
        );
        assert_eq!(p.unproven.len(), 1);
    }

    #[test]
    fn threads_cover_a_tensor() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = block_dim x : i64\n  %2 = mul %0, %1 : i64\n  %3 = thread_id x : i64\n  %4 = add %2, %3 : i64\n  %5 = const 0.0 : f32\n  scatter.check %z[%4] = %5\n",
            "thread [256, 1, 1]",
        );
        assert_eq!(p.grid[0], [GridRule { param: 2, axis: 0, by: 256 }]);
    }

    #[test]
    fn loads_give_the_grid_where_nothing_is_stored() {
        let p = of(
            "  %0 = program_id x : i64\n  %1 = const 512 : i64\n  %2 = mul %1, %0 : i64\n  %3 = const 0.0 : f32\n  %4 = load %z[%2] pad %3 : f32[512]\n",
            "tile",
        );
        assert_eq!(p.grid[0], [GridRule { param: 2, axis: 0, by: 512 }]);
        assert!(p.grid[1].is_empty() && !p.used[1]);
    }
}

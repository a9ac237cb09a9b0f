//! The operands of operations by name. The table ([`OpKind::info`](crate::OpKind::info)) says which
//! names an operation has, and in what order they stand; no other code counts operands.
//!
//! An accessor of one operand is for operations that have it, as the verifier has checked: it
//! panics otherwise, as indexing would. Accessors of lists give an empty one.

use crate::kernel::{OpData, Value};
use crate::op::Operand;
use std::ops::Range;

impl OpData {
    /// Where the operands of a name stand; an empty range if there are none.
    fn range(&self, name: Operand) -> Range<usize> {
        let (count, names) = (self.operands.len(), self.kind.info().operands);
        // A name may stand several times in a row.
        let at = |names: &[Operand]| {
            let first = names.iter().position(|&other| other == name)?;
            let more = names[first..].iter().take_while(|&&other| other == name).count();
            Some(first..first + more)
        };
        let (start, end) = (names.first.len(), count.saturating_sub(names.last.len()));
        let range = if let Some(at) = at(names.first) {
            at
        } else if let Some(at) = at(names.last) {
            end + at.start..end + at.end
        } else if names.list == Some(name) {
            start..end
        } else {
            0..0
        };
        if range.start <= range.end && range.end <= count { range } else { 0..0 }
    }

    /// The operands of a name: one, or a list.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
    /// let mut b = Builder::new(&mut kernel);
    /// let (view, zero) = (b.alloc(Space::Shared, Scalar::I64, Shape::new(&[4, 8])), b.index(0));
    /// let one = b.index(1);
    /// let tile = b.load(view, &[zero, one], zero, Shape::new(&[2, 2]), Reuse::Normal);
    /// let load = kernel.defining_op(tile).unwrap();
    /// assert_eq!(load.named(Operand::Offset), [zero, one]);
    /// assert_eq!((load.view(), load.padding(), load.mask()), (view, zero, None));
    /// ```
    pub fn named(&self, name: Operand) -> &[Value] {
        &self.operands[self.range(name)]
    }

    /// The operands of a name, to change.
    pub fn named_mut(&mut self, name: Operand) -> &mut [Value] {
        let range = self.range(name);
        &mut self.operands[range]
    }

    /// Changes the operand of a name, which the operation has.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = parse(
    ///     "kernel @k(%x: mut view<u32, 1, global>, %p: u64) thread [32, 1, 1] {
    ///       %0 = const 3 : i64
    ///       %1 = const 7 : u32
    ///       %2 = shuffle.xor %1, %0 : u32
    ///       warp_barrier %1
    ///       sleep %1
    ///       %3 = atomic_cas.device.check %x[%0] = %1 -> %2 : u32
    ///       %4 = ptr_load.global.x1 %p : f32
    ///       %5 = fault_region %1 : u32 {
    ///         yield
    ///       }
    ///       store_quad.trust %x[%0] = %1, %1, %2, %2
    ///       scatter.mask %x[%0] = %1
    ///       cluster_store_quad %x, %0, %0, %1, %1, %2, %2
    ///     }",
    /// )?;
    /// let ops = kernel.block(kernel.body).ops.clone();
    /// let (x, p) = (kernel.block(kernel.body).args[0], kernel.block(kernel.body).args[1]);
    /// let [three, seven, other] = [0, 1, 2].map(|at| kernel.result(ops[at]));
    /// let op = |at: usize| kernel.op(ops[at]);
    /// assert_eq!((op(2).lane(), op(3).lanes(), op(4).duration()), (three, seven, seven));
    /// assert_eq!((op(5).view(), op(5).expected(), op(5).desired()), (x, seven, other));
    /// assert_eq!((op(6).address(), op(7).budget(), op(10).rank()), (p, seven, three));
    /// assert_eq!((op(8).stored_values(), op(9).stored_value()), (&[seven, seven, other, other][..], seven));
    ///
    /// // The shuffle passes on another value, by another lane.
    /// let next = Builder::new(&mut kernel).index(1);
    /// kernel.op_mut(ops[2]).set_operand(Operand::Lane, next);
    /// kernel.op_mut(ops[2]).named_mut(Operand::Input)[0] = other;
    /// assert_eq!((kernel.op(ops[2]).operand(Operand::Lane), kernel.op(ops[2]).input()), (next, other));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    ///
    /// # Panics
    /// If it has not.
    pub fn set_operand(&mut self, name: Operand, value: Value) {
        let mnemonic = self.kind.mnemonic();
        match self.named_mut(name) {
            [operand, ..] => *operand = value,
            [] => panic!("`{mnemonic}` has no operand {name:?}"),
        }
    }

    /// The operand of a name, which the operation has.
    ///
    /// # Panics
    /// If it has not.
    pub fn operand(&self, name: Operand) -> Value {
        match self.named(name) {
            [value, ..] => *value,
            [] => panic!("`{}` has no operand {name:?}", self.kind.mnemonic()),
        }
    }
}

/// Accessors of one operand.
macro_rules! operands {
    ($($(#[$doc:meta])* $method:ident: $name:ident;)*) => {
        impl OpData {$(
            $(#[$doc])*
            pub fn $method(&self) -> Value {
                self.operand(Operand::$name)
            }
        )*}
    };
}

operands! {
    /// What an operation with one such operand computes with.
    input: Input;
    /// The first of two operands, or the left factor.
    left: Left;
    /// The second of two operands, or the right factor.
    right: Right;
    /// What products are added to.
    addend: Addend;
    /// The bool that decides.
    condition: Condition;
    /// What a selection gives where the condition holds.
    if_true: IfTrue;
    /// What it gives elsewhere.
    if_false: IfFalse;
    /// The view that is accessed.
    view: View;
    /// The only index of an access.
    index: Index;
    /// What stands in the place of elements that are not read.
    padding: Padding;
    /// What is stored or sent.
    stored_value: Stored;
    /// What a compare and exchange, or a wait, looks for.
    expected: Expected;
    /// What a compare and exchange leaves.
    desired: Desired;
    /// The address that is accessed.
    address: Address;
    /// The number of a block in its cluster.
    rank: Rank;
    /// The lane of a shuffle.
    lane: Lane;
    /// The lanes that take part, a bit each.
    lanes: Lanes;
    /// How long to rest.
    duration: Duration;
    /// How many rounds of loops a fault region allows.
    budget: Budget;
    /// The shared tile, or that of the left factor.
    tile: Tile;
    /// The stage of the shared tile, or that of the left factor.
    stage: Stage;
    /// The shared tile of the right factor.
    right_tile: RightTile;
    /// The stage of the right factor.
    right_stage: RightStage;
    /// The row of the stage.
    row: Row;
    /// Barriers in shared memory.
    mbarriers: Mbarriers;
    /// Which of them.
    mbarrier: Mbarrier;
    /// The number of a phase.
    phase: Phase;
    /// Whether a product is added to what is there.
    keep: Keep;
}

/// Several operands of one name, and what they are together.
///
/// ```
/// use kiln_ir::*;
/// let kernel = parse(
///     "kernel @k(%x: mut view<i32, 1, global>, %n: i64, %c: bool) tile {
///       %0 = const 1 : i32
///       %1 = const 0 : i64
///       %2 = iota : i64[8]
///       %3 = gather.mask %x[%2] pad %0 : i32[8]
///       %4 = select %c, %n, %1 : i64
///       %5 = fma %n, %4, %1 : i64
///       %6 = for %7 = %1 to %n step %5 carry (%8 = %4) : i64 {
///         yield %8
///       }
///       assert %c, \"{} of {}\", %5, %6
///     }",
/// )?;
/// let ops = &kernel.block(kernel.body).ops;
/// let (n, c) = (kernel.block(kernel.body).args[1], kernel.block(kernel.body).args[2]);
/// let (op, value) = (|at: usize| kernel.op(ops[at]), |at: usize| kernel.result(ops[at]));
/// assert_eq!((op(3).coordinates(), op(3).access_values()), (&[value(2)][..], &[value(0)][..]));
/// assert_eq!((op(4).condition(), op(4).if_true(), op(4).if_false()), (c, n, value(1)));
/// assert_eq!((op(5).left(), op(5).right(), op(5).addend()), (n, value(4), value(1)));
/// assert_eq!((op(6).for_bounds(), op(6).inits()), ([value(1), n, value(5)], &[value(4)][..]));
/// assert_eq!(op(6).control(), op(6).for_bounds());
/// assert_eq!((op(7).reported(), op(7).shown()), (&[value(5), value(6)][..], &[value(5), value(6)][..]));
/// let region = kernel.block(op(6).regions[0]);
/// assert_eq!(kernel.op(region.ops[0]).yielded(), [region.args[1]]);
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
///
/// Operations of the explicit level:
///
/// ```
/// use kiln_ir::*;
/// let kernel = parse(
///     "kernel @k(%x: view<bf16, 2, global>, %i: i64, %j: i64, %c: bool) tile {
///       %0 = shared_tile stages 2 rows 64 columns 64 : view<bf16, 3, shared>
///       %1 = shared_tile stages 2 rows 64 columns 64 : view<bf16, 3, shared>
///       %2 = mbarrier count 2 arrivals 1 : view<u64, 1, shared>
///       tma_load %x, %i, %i, %0, %i, %j, %2, %i rows 64 multicast 0
///       mbarrier_wait %2, %i, %j
///       %3 = const 0.0 : f32[64, 64]
///       %4 = wgmma %0, %i, %1, %j, %c, %3 transposed_a 0 transposed_b 0 : f32[64, 64]
///     }",
/// )?;
/// let ops = &kernel.block(kernel.body).ops;
/// let &[_, i, j, c] = &kernel.block(kernel.body).args[..] else { unreachable!() };
/// let [left, right, barriers] = [0, 1, 2].map(|at| kernel.result(ops[at]));
/// let [load, wait, product] = [3, 4, 6].map(|at| kernel.op(ops[at]));
/// assert_eq!((load.tile(), load.stage(), load.row()), (left, i, j));
/// assert_eq!((wait.mbarriers(), wait.mbarrier(), wait.phase()), (barriers, i, j));
/// assert_eq!((product.right_tile(), product.right_stage(), product.keep()), (right, j, c));
/// assert_eq!((product.registers(), product.sums()), (&[kernel.result(ops[5])][..], product.registers()));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
impl OpData {
    /// Where the box or the elements lie in the view, for each axis.
    pub fn coordinates(&self) -> &[Value] {
        let offsets = self.named(Operand::Offset);
        if offsets.is_empty() { self.named(Operand::Index) } else { offsets }
    }

    /// What decides on control flow: the condition, or the bounds and the step of a loop.
    pub fn control(&self) -> &[Value] {
        let count = self.kind.info().operands.first.len();
        self.operands.get(..count).unwrap_or_default()
    }

    /// What an access of elements has besides the place and the mask: the padding, what is stored,
    /// or what is expected and what is desired.
    pub fn access_values(&self) -> &[Value] {
        let last = self.kind.info().operands.last;
        let count = last.iter().filter(|&&name| name != Operand::Mask).count();
        &self.operands[self.operands.len().saturating_sub(count)..]
    }

    /// Which elements are accessed, if not all.
    pub fn mask(&self) -> Option<Value> {
        self.named(Operand::Mask).first().copied()
    }

    /// What is stored, if it is several values.
    pub fn stored_values(&self) -> &[Value] {
        self.named(Operand::Stored)
    }

    /// The first value of a loop's variable, its exclusive upper bound, and its step.
    pub fn for_bounds(&self) -> [Value; 3] {
        [Operand::Low, Operand::High, Operand::Step].map(|name| self.operand(name))
    }

    /// What a loop begins with.
    pub fn inits(&self) -> &[Value] {
        self.named(Operand::Init)
    }

    /// What a region ends with.
    pub fn yielded(&self) -> &[Value] {
        self.named(Operand::Yielded)
    }

    /// What a check reports besides its condition: what fills the gaps of its message, or the index
    /// and the extent.
    pub fn reported(&self) -> &[Value] {
        &self.operands[self.range(Operand::Condition).end..]
    }

    /// What fills the gaps of a message.
    pub fn shown(&self) -> &[Value] {
        self.named(Operand::Shown)
    }

    /// Registers of matrices.
    pub fn registers(&self) -> &[Value] {
        self.named(Operand::Registers)
    }

    /// The registers that become the results: what a product is added to, or what is waited for.
    pub fn sums(&self) -> &[Value] {
        let registers = self.registers();
        &registers[registers.len().saturating_sub(self.results.len())..]
    }
}

//! Which products of matrices go to matrix units, and how warps divide them.
//!
//! A product of 16-bit floats, of 8-bit numbers or, by name, of f32 as tf32 becomes one of
//! warpgroups (`wgmma`) where the target has them and each has 64 rows or more, and products of
//! fragments (`mma.sync`) elsewhere, where the target has these and the extents are multiples of a
//! fragment's. Matrix units transpose elements of 16 bits alone: of others both factors are brought
//! to shared memory along the depth, whichever way they lay before, but for f64, whose fragments
//! are loaded element by element, from matrices that lie either way. Sums of 8-bit floats, which
//! keep fewer bits there, are made in two levels unless they may be. Where the result is reduced
//! along its rows, or is a factor of another product, warps have whole rows: then reductions are
//! within a warp, and the fragments of the result are those of the factor, which remains in
//! registers.

use super::layouts::LayoutId;
use super::roles::{self, Role};
use crate::layout::{Layout, MMA, Slot, WarpGrid};
use crate::target::{Target, TargetKind};
use kiln_ir::{Block, Factor, Factors, Kernel, Level, Op, OpData, OpKind, Precision, Shape, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The least compute capability with products of fragments of all 16-bit floats, of integers and of
/// tf32, and that with those of 8-bit floats.
const LEAST: (u32, u32) = (8, 0);
const LEAST_FLOAT8: (u32, u32) = (8, 9);

/// The most elements of a factor that a thread keeps in registers while a loop runs: two lie in a
/// register.
const KEPT: usize = 32;

/// Bytes of the elements that `ldmatrix` and warpgroups turn.
const HALF: u32 = 2;

/// Bytes of the elements that fragments have one by one.
const DOUBLE: u32 = 8;

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;

/// The most columns of a product of warpgroups, and the least.
const COLUMNS: std::ops::RangeInclusive<u32> = 16..=256;

/// The most sums a thread has of a product of warpgroups with two levels of sums, which take as
/// many registers beside.
const SUMS_OF_TWO_LEVELS: u32 = 64;

/// Where the longest swizzle begins anew, in bytes.
const PERIOD: u32 = 1024;

/// Who multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Warps, each the fragments of its part.
    Warps(WarpGrid),
    /// Warpgroups, each rows of its own, with the right factor and maybe the left one from shared
    /// memory.
    Warpgroups,
}

/// A product on matrix units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Its factors' elements.
    pub factors: Factors,
    /// Whether products are added to the sums outside of the matrix units, every 128 of them.
    pub two_level: bool,
    /// Whether elements are sums of two, and three products of these are added up.
    pub split: bool,
    /// `[m, n, k]`.
    pub extents: [u32; 3],
    /// Who multiplies it.
    pub unit: Unit,
    /// The layout of the accumulator.
    pub sums: LayoutId,
    /// The layouts of the factors' fragments, where warps or, of the left one, warpgroups take them
    /// from registers.
    pub fragments: [Option<LayoutId>; 2],
    /// Whether a factor is kept in registers from before the loop.
    pub kept: [bool; 2],
}

/// The products of a kernel.
#[derive(Default, Debug)]
pub(crate) struct Products {
    /// By operation.
    pub by_op: FxHashMap<Op, Product>,
    /// Factors from before a loop that are too large for registers: where they lie in shared memory
    /// while it runs, from the beginning of its part.
    pub slots: FxHashMap<Value, (Slot, u32)>,
    /// Which of these warpgroups read.
    pub read_by_warpgroups: FxHashSet<Value>,
    /// The size of that part, in bytes.
    pub slot_bytes: u32,
}

impl Product {
    /// Whether fragments of a factor are taken from registers that hold it in a layout.
    pub fn takes(&self, side: usize, layout: LayoutId) -> bool {
        lies_either_way(self.factors.bytes()) && self.fragments[side] == Some(layout)
    }
}

/// The elements of the factors of a product that matrix units of a target compute.
pub(crate) fn factors(kernel: &Kernel, data: &OpData, target: &Target) -> Option<Factors> {
    let TargetKind::Cuda { capability } = target.kind else { return None };
    let OpKind::Dot(precision) = data.kind else { return None };
    let [left, right] = [data.left(), data.right()].map(|v| kernel.ty(v).elem());
    let factors = Factors::of(left, right)?;
    let least = if factors.has_fast_sums() { LEAST_FLOAT8 } else { LEAST };
    let there = capability >= least && (target.mixed_products || !factors.has_fast_sums());
    let by_name = matches!(precision, Precision::Tf32 | Precision::Tf32x3);
    let allowed = factors.left != Factor::Tf32 || by_name;
    let [m, n, k] = extents(kernel, data);
    let fits = |(extent, least): (u32, u32)| extent.is_power_of_two() && extent >= least;
    let all = [(m, MMA[0]), (n, MMA[1]), (k, factors.depth())].into_iter().all(fits);
    (there && allowed && all).then_some(factors)
}

/// Whether a product of these factors has two levels of sums: those of some products, and the sum
/// of those.
fn has_two_level_sums(data: &OpData, factors: Factors) -> bool {
    factors.has_fast_sums() && data.kind != OpKind::Dot(Precision::FastSums)
}

/// `[m, n, k]` of a product.
pub(crate) fn extents(kernel: &Kernel, data: &OpData) -> [u32; 3] {
    let (a, b) = (kernel.shape(data.left()), kernel.shape(data.right()));
    [a[0], b[1], a[1]]
}

/// Whether a kernel names its copies and products itself.
pub(crate) fn is_explicit(kernel: &Kernel) -> bool {
    let mut explicit = false;
    kernel.walk(|_, data| explicit |= matches!(data.kind, OpKind::Explicit(_)));
    explicit
}

/// The warps that suit the products of a kernel on matrix units, if it has any: parts of 64 × 64 a
/// warp, of which one reads the least that its registers allow. `whole` is the kernel before tiles
/// were legalized.
pub(crate) fn warps(kernel: &Kernel, whole: &Kernel, target: &Target) -> Option<u32> {
    if is_explicit(kernel) || !matches!(kernel.level, Level::Tile { .. }) {
        return None;
    }
    let (mut any, mut two_level) = (false, false);
    kernel.walk(|_, data| {
        if let Some(factors) = factors(kernel, data, target) {
            any = true;
            // Either takes twice as many registers for a sum.
            two_level |= has_two_level_sums(data, factors) || factors.is_f64();
        }
    });
    let mut size = 0;
    whole.walk(|_, data| {
        if matches!(data.kind, OpKind::Dot(_)) {
            let [m, n, k] = extents(whole, data);
            let divided = [m, n, k].iter().any(|e| !e.is_power_of_two());
            // 8-bit floats go to matrix units as f16, if not as they are.
            let float8 = whole.ty(data.left()).elem().is_float8();
            if divided || float8 || factors(whole, data, target).is_some() {
                size = size.max(m * n);
            }
        }
    });
    let each = if two_level { 2048 } else { 4096 };
    let warps = if size >= 4096 { (size / each).clamp(4, 8) } else { (size / 512).max(1) };
    any.then_some(warps.next_power_of_two())
}

/// Finds the products of a kernel. `class` gives what stands for all values that share a layout
/// with one; `intern` numbers layouts.
pub(crate) fn find(
    kernel: &Kernel,
    target: &Target,
    roles: &[Role],
    warps: u32,
    mut class: impl FnMut(Value) -> u32,
    mut intern: impl FnMut(Layout) -> LayoutId,
) -> Products {
    let mut found = Vec::new();
    if !is_explicit(kernel) {
        kernel.walk(|op, data| found.extend(factors(kernel, data, target).map(|f| (op, f))));
    }
    if found.is_empty() {
        return Products::default();
    }
    let results: FxHashSet<u32> = found.iter().map(|(op, _)| class(kernel.result(*op))).collect();
    let mut by_rows = FxHashSet::default();
    let mut sides: [FxHashSet<Value>; 2] = Default::default();
    kernel.walk(|_, data| {
        if let OpKind::Reduce { axis: 1, .. } = data.kind {
            by_rows.insert(class(data.input()));
        }
        if let OpKind::Dot(_) = data.kind {
            for (side, factor) in sides.iter_mut().zip([data.left(), data.right()]) {
                side.insert(factor);
            }
            let left = class(data.left());
            by_rows.insert(left);
            if results.contains(&left) {
                by_rows.insert(class(data.results[0]));
            }
        }
    });
    let homes = Homes::of(kernel);
    let mut products = Products::default();
    for (op, factors) in found {
        let data = kernel.op(op);
        let (bytes, two_level) = (factors.bytes(), has_two_level_sums(data, factors));
        let split = data.kind == OpKind::Dot(Precision::Tf32x3);
        let [m, n, k] = extents(kernel, data);
        let shapes = [[m, k], [k, n], [m, n]].map(|extents| Shape::new(&extents));
        let unit = match by_rows.contains(&class(data.results[0])) {
            _ if !split && by_warpgroups(target, factors, [m, n], warps, two_level) => Unit::Warpgroups,
            true => Unit::Warps(WarpGrid::by_rows(m, warps)),
            false => Unit::Warps(WarpGrid::square(m, n, warps)),
        };
        let (layouts, sums) = match unit {
            Unit::Warpgroups => {
                let left = (bytes == HALF).then(|| Layout::wgmma(&shapes[0], warps));
                ([left, None], Layout::wgmma(&shapes[2], warps))
            }
            Unit::Warps(grid) => {
                let left = Layout::mma_left(&shapes[0], grid, warps, bytes);
                let right = Layout::mma_right(&shapes[1], grid, warps, bytes);
                ([Some(left), Some(right)], Layout::mma(&shapes[2], grid, warps))
            }
        };
        // What warpgroups read again in every round takes no registers of theirs.
        let most = if unit == Unit::Warpgroups || bytes != HALF { 0 } else { KEPT };
        let kept = [(0, data.left()), (1, data.right())].map(|(i, value)| {
            let before = homes.of_value[value.index()] != homes.of_op[op.index()];
            let small = layouts[i].as_ref().is_some_and(|layout| layout.registers() <= most);
            // Along the depth it lies one way for either side.
            let one_way = lies_either_way(bytes) || !sides.iter().all(|side| side.contains(&value));
            if before && !small && one_way && roles[value.index()] == Role::Materialized {
                let along = along(i, bytes).unwrap_or(1);
                products.place(value, Slot::new(&kernel.shape(value), along, bytes), unit);
            }
            let free =
                roles[value.index()] == Role::Rematerializable && layouts[i].is_some() && bytes == HALF;
            roles::is_tile(kernel, value) && (before && small || free)
        });
        let (sums, fragments) = (intern(sums), layouts.map(|layout| layout.map(&mut intern)));
        products.by_op.insert(
            op,
            Product { factors, two_level, split, extents: [m, n, k], unit, sums, fragments, kept },
        );
    }
    products
}

/// The axis along which a factor of elements of so many bytes must lie: that of the depth, unless
/// it may lie either way.
pub(crate) fn along(side: usize, bytes: u32) -> Option<u32> {
    (!lies_either_way(bytes)).then_some(if side == 0 { 1 } else { 0 })
}

/// Whether fragments of elements of so many bytes are read from shared memory along either axis.
pub(crate) fn lies_either_way(bytes: u32) -> bool {
    matches!(bytes, HALF | DOUBLE)
}

/// Whether the warpgroups of a block multiply to `[m, n]`.
fn by_warpgroups(target: &Target, factors: Factors, [m, n]: [u32; 2], warps: u32, two_level: bool) -> bool {
    let room = !two_level || m * n <= SUMS_OF_TWO_LEVELS * target.warp * warps;
    let known = target.mixed_products || factors.left == factors.right;
    target.warpgroups
        && !factors.is_f64()
        && room
        && known
        && warps.is_multiple_of(WARPGROUP)
        && m >= MMA[0] * warps
        && COLUMNS.contains(&n)
}

impl Products {
    /// Gives a factor a place in shared memory.
    fn place(&mut self, value: Value, slot: Slot, unit: Unit) {
        if unit == Unit::Warpgroups {
            self.read_by_warpgroups.insert(value);
        }
        if self.slots.contains_key(&value) {
            return;
        }
        let offset = self.slot_bytes.next_multiple_of(slot.panels().period());
        self.slots.insert(value, (slot, offset));
        self.slot_bytes = offset + slot.bytes();
    }

    /// What matrices in shared memory must begin at multiples of, in bytes, if warpgroups read
    /// them.
    pub fn alignment(&self) -> Option<u32> {
        let grouped = self.by_op.values().any(|product| product.unit == Unit::Warpgroups);
        grouped.then_some(PERIOD)
    }
}

/// The blocks in which operations stand and values are defined.
struct Homes {
    of_op: Vec<Option<Block>>,
    of_value: Vec<Option<Block>>,
}

impl Homes {
    fn of(kernel: &Kernel) -> Homes {
        let (values, ops, _) = kernel.counts();
        let mut homes = Homes { of_op: vec![None; ops], of_value: vec![None; values] };
        homes.block(kernel, kernel.body);
        homes
    }

    fn block(&mut self, kernel: &Kernel, block: Block) {
        for &arg in &kernel.block(block).args {
            self.of_value[arg.index()] = Some(block);
        }
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            self.of_op[op.index()] = Some(block);
            data.results.iter().for_each(|v| self.of_value[v.index()] = Some(block));
            data.regions.iter().for_each(|&r| self.block(kernel, r));
        }
    }
}

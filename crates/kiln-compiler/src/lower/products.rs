//! Which products of matrices go to matrix units, and how warps divide them.
//!
//! A product of 16-bit floats with sums in f32 becomes products of fragments (`mma.sync`) where the target has them and the extents are multiples of a
//! fragment's. Where the result is reduced along its rows, or is a factor of another product, warps have whole rows: then reductions stay within a warp,
//! and the fragments of the result are those of the factor, which stays in registers.

use super::plan::LayoutId;
use super::roles::{self, Role};
use crate::layout::{Layout, MMA, Slot, WarpGrid};
use crate::target::{Target, TargetKind};
use kiln_ir::{Block, Factor, Kernel, Level, Op, OpData, OpKind, Scalar, Shape, Value};
use std::collections::{HashMap, HashSet};

/// The least compute capability with products of fragments of all 16-bit floats.
const LEAST: (u32, u32) = (8, 0);

/// The most elements of a factor that a thread keeps in registers while a loop runs: two lie in a register.
const KEPT: usize = 32;

/// A product on matrix units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Its factors' elements.
    pub factor: Factor,
    /// `[m, n, k]`.
    pub extents: [u32; 3],
    /// How warps divide it.
    pub grid: WarpGrid,
    /// The layout of the accumulator.
    pub sums: LayoutId,
    /// The layouts of the factors' fragments.
    pub fragments: [LayoutId; 2],
    /// Whether a factor is kept in registers from before the loop.
    pub kept: [bool; 2],
}

/// The products of a kernel.
#[derive(Default, Debug)]
pub(crate) struct Products {
    /// By operation.
    pub by_op: HashMap<Op, Product>,
    /// Factors from before a loop that are too large for registers: where they lie in shared memory while it runs, from the beginning of its part.
    pub slots: HashMap<Value, (Slot, u32)>,
    /// The size of that part, in bytes.
    pub slot_bytes: u32,
}

/// The elements of the factors of a product that matrix units of a target compute.
pub(crate) fn factor(kernel: &Kernel, data: &OpData, target: &Target) -> Option<Factor> {
    let TargetKind::Cuda { capability } = target.kind;
    if data.kind != OpKind::Dot || capability < LEAST {
        return None;
    }
    let [m, n, k] = extents(kernel, data);
    let fits = [m, n, k].iter().zip(MMA).all(|(extent, least)| extent.is_power_of_two() && *extent >= least);
    Factor::of(kernel.ty(data.operands[0]).elem())
        .filter(|_| fits && kernel.ty(data.results[0]).elem() == Scalar::F32)
}

/// `[m, n, k]` of a product.
pub(crate) fn extents(kernel: &Kernel, data: &OpData) -> [u32; 3] {
    let (a, b) = (kernel.shape(data.operands[0]), kernel.shape(data.operands[1]));
    [a[0], b[1], a[1]]
}

/// Whether a kernel names its copies and products itself.
pub(crate) fn is_explicit(kernel: &Kernel) -> bool {
    let mut explicit = false;
    kernel.walk(|_, data| explicit |= matches!(data.kind, OpKind::Explicit(_)));
    explicit
}

/// The warps that suit the products of a kernel on matrix units, if it has any: pieces of 64 × 64 a warp, of which one reads the least that
/// its registers allow.
pub(crate) fn warps(kernel: &Kernel, target: &Target) -> Option<u32> {
    if is_explicit(kernel) || !matches!(kernel.level, Level::Tile { .. }) {
        return None;
    }
    let mut largest = None;
    kernel.walk(|_, data| {
        if factor(kernel, data, target).is_some() {
            let [m, n, _] = extents(kernel, data);
            largest = largest.max(Some(m * n));
        }
    });
    largest.map(|size| if size >= 4096 { (size / 4096).clamp(4, 8) } else { (size / 512).max(1) })
}

/// Finds the products of a kernel. `class` gives what stands for all values that share a layout with one; `intern` numbers layouts.
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
        kernel.walk(|op, data| found.extend(factor(kernel, data, target).map(|f| (op, f))));
    }
    if found.is_empty() {
        return Products::default();
    }
    let results: HashSet<u32> = found.iter().map(|(op, _)| class(kernel.result(*op))).collect();
    let mut by_rows = HashSet::new();
    kernel.walk(|_, data| match data.kind {
        OpKind::Reduce { axis: 1, .. } => {
            by_rows.insert(class(data.operands[0]));
        }
        OpKind::Dot => {
            let left = class(data.operands[0]);
            by_rows.insert(left);
            if results.contains(&left) {
                by_rows.insert(class(data.results[0]));
            }
        }
        _ => {}
    });
    let homes = Homes::of(kernel);
    let mut products = Products::default();
    for (op, factor) in found {
        let data = kernel.op(op);
        let [m, n, k] = extents(kernel, data);
        let grid = match by_rows.contains(&class(data.results[0])) {
            true => WarpGrid::by_rows(m, warps),
            false => WarpGrid::square(m, n, warps),
        };
        let left = Layout::mma_left(&Shape::new(&[m, k]), grid, warps);
        let right = Layout::mma_right(&Shape::new(&[k, n]), grid, warps);
        let kept = [(0, &left), (1, &right)].map(|(i, layout)| {
            let value = data.operands[i];
            let before = homes.of_value[value.index()] != homes.of_op[op.index()];
            let small = layout.registers() <= KEPT;
            if before && !small && roles[value.index()] == Role::Held {
                products.place(value, &kernel.shape(value));
            }
            roles::is_tile(kernel, value) && (before && small || roles[value.index()] == Role::Free)
        });
        let sums = intern(Layout::mma(&Shape::new(&[m, n]), grid, warps));
        let fragments = [intern(left), intern(right)];
        products.by_op.insert(op, Product { factor, extents: [m, n, k], grid, sums, fragments, kept });
    }
    products
}

impl Products {
    /// Gives a factor a place in shared memory.
    fn place(&mut self, value: Value, shape: &Shape) {
        let slot = Slot::new(shape, 1);
        let offset = self.slot_bytes;
        if self.slots.contains_key(&value) {
            return;
        }
        self.slots.insert(value, (slot, offset));
        self.slot_bytes += slot.bytes();
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

//! Tiles of any extents in terms of tiles whose extents are powers of two.
//!
//! Threads and registers hold tiles by the bits of their indices, so the lowering supports powers
//! of two alone. This pass splits every other extent into the powers of two whose sum it is, the
//! largest first (80 = 64 + 16, 176 = 128 + 32 + 16), and every tile into the products of its axes'
//! *spans*: its parts. An operation becomes one for each part, where parts are combined
//! (reductions, scans, products of matrices) a few more, and what control flow carries is carried
//! part by part. Boxes of memory are cut at the same places, and what lies outside a view is masked
//! as before.
//!
//! Before the pass: a valid kernel without fault regions. After it, the same results: bit for bit
//! but where the order of a combination is open ([`ReduceOp::Sum`](kiln_ir::ReduceOp)). A tile that
//! splits into more than [`LIMIT`] parts, or a product of matrices into more products, is refused.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the walk, and what is done part by part |
//! | `grid.rs` | how a shape splits |
//! | `shape.rs` | broadcast, transpose, indices |
//! | `reshape.rs` | the same elements under another shape |
//! | `combine.rs` | reductions, scans, products |
//! | `explicit.rs` | products in flight, tiles that are packed and stored |

mod combine;
mod explicit;
mod grid;
mod reshape;
mod shape;

use crate::error::CompileError;
use grid::Grid;
use kiln_ir::{Block, Builder, Kernel, Literal, OpData, OpKind, Shape, Type, Value, verify};
use smallvec::{SmallVec, smallvec};

/// The most parts of a tile, and the most products that one becomes.
const LIMIT: usize = 64;

/// The parts of a value, the last axis fastest.
type Parts = SmallVec<[Value; 1]>;

/// A kernel without fault regions in terms of tiles whose extents are powers of two; `None` if it
/// has no others.
///
/// # Errors
/// [`CompileError::TooManyParts`], and [`CompileError::Unsupported`] for an explicit operation
/// that has no parts.
///
/// ```
/// let kernel = kiln_ir::parse("kernel @k(%y: mut view<f32, 1, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 1.0 : f32[80]
///   store %y[%0] = %1
/// }")?;
/// let legal = kiln_compiler::legalize_tiles(&kernel)?.map(|k| k.to_string()).unwrap_or_default();
/// assert!(legal.contains("f32[64]\n") && legal.contains("f32[16]\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn legalize_tiles(kernel: &Kernel) -> Result<Option<Kernel>, CompileError> {
    if !check(kernel)? {
        return Ok(None);
    }
    let mut out = Kernel::new(kernel.name.clone(), kernel.level);
    (out.files, out.messages) = (kernel.files.clone(), kernel.messages.clone());
    (out.cluster, out.scratch_bytes) = (kernel.cluster, kernel.scratch_bytes);
    (out.contract, out.hints) = (kernel.contract, kernel.hints);
    let mut values = vec![Parts::new(); kernel.counts().0];
    for (param, &arg) in kernel.params.iter().zip(&kernel.block(kernel.body).args) {
        values[arg.index()] = smallvec![out.add_param(param.clone())];
    }
    let mut legalizer = Legalizer { src: kernel, b: Builder::new(&mut out), values };
    legalizer.ops(kernel.body)?;
    if cfg!(debug_assertions)
        && let Err(errors) = verify(&out)
    {
        let message = format!("legalization broke the kernel: {}\n{out}", errors[0]);
        return Err(CompileError::Internal { location: errors[0].location.clone(), message });
    }
    Ok(Some(out))
}

/// Whether there is anything to split, into parts that are not too many.
fn check(kernel: &Kernel) -> Result<bool, CompileError> {
    let (mut any, mut error) = (false, None);
    let mut limit = |data: &OpData, shape: Shape, parts: usize| {
        any |= parts > 1;
        if parts > LIMIT {
            error.get_or_insert(CompileError::TooManyParts {
                location: kernel.describe(data.loc),
                parts,
                limit: LIMIT,
                fewer: grid::of_fewer_parts(&shape),
                shape,
            });
        }
    };
    kernel.walk(|_, data| {
        let args = data.regions.iter().flat_map(|&r| &kernel.block(r).args);
        for &value in data.results.iter().chain(args).chain(&data.operands) {
            let shape = kernel.shape(value);
            limit(data, shape.clone(), Grid::of(&shape).len());
        }
        if matches!(data.kind, OpKind::Dot(_)) {
            let (left, right) = (kernel.shape(data.left()), kernel.shape(data.right()));
            let extents = Shape::new(&[left[0], right[1], left[1]]);
            limit(data, extents.clone(), Grid::of(&extents).len());
        }
    });
    error.map_or(Ok(any), Err)
}

/// The pass under way: writes a kernel anew.
struct Legalizer<'a> {
    src: &'a Kernel,
    /// The new kernel, at the place that has been reached.
    b: Builder<'a>,
    /// What each value has become.
    values: Vec<Parts>,
}

impl<'a> Legalizer<'a> {
    fn ops(&mut self, block: Block) -> Result<(), CompileError> {
        let src = self.src;
        for &op in &src.block(block).ops {
            let data = src.op(op);
            self.b.loc = data.loc;
            self.op(data)?;
        }
        Ok(())
    }

    fn op(&mut self, data: &'a OpData) -> Result<(), CompileError> {
        use OpKind::*;
        let mut tiles = data.operands.iter().chain(&data.results);
        if !data.regions.is_empty() || data.kind.is_terminator() || tiles.all(|&v| self.is_whole(v)) {
            return self.carried(data);
        }
        match &data.kind {
            Const(_)
            | Unary(_)
            | Binary(_)
            | Compare(_)
            | Select
            | Fma
            | Cast
            | Bitcast
            | Gather { .. }
            | Scatter { .. }
            | Atomic { .. }
            | AtomicCas { .. }
            | Assert(_) => self.each(data, |_, _, _| ()),
            Load(_) | Store { .. } => self.each(data, Self::displace),
            Iota => self.iota(data),
            Broadcast => self.broadcast(data),
            Transpose(perm) => self.transpose(data, perm),
            Reshape => self.reshape(data)?,
            Reduce { op, axis } => self.reduce(data, *op, *axis as usize),
            Scan { .. } => self.scan(data),
            Dot(precision) => self.dot(data, *precision),
            Explicit(op) => self.explicit(data, op)?,
            // None has a tile, but what refuses them is a better error than a broken kernel.
            ProgramId(_)
            | NumPrograms(_)
            | ThreadId(_)
            | BlockDim(_)
            | Extent(_)
            | Stride(_)
            | Alloc { .. }
            | Fence(_)
            | OrderedLoad { .. }
            | OrderedStore { .. }
            | LoadQuad(_)
            | StoreQuad(_)
            | Atomic128 { .. }
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
            | Print(_)
            | Fragment(_)
            | Linear { .. }
            | Address
            | Scratch { .. }
            | PtrLoad { .. }
            | PtrStore { .. }
            | PtrAtomic { .. }
            | PtrAtomicCas { .. }
            | PtrOrderedLoad { .. }
            | PtrOrderedStore { .. }
            | PtrAtomic128 { .. }
            | CheckBounds
            | CheckDivisor
            | BlockCheck(_)
            | DeferFault { .. }
            | Faulted => return Err(self.unsupported(data, "use extents that are powers of two")),
        }
        Ok(())
    }

    /// An operation that is not divided, with all parts of what it takes, gives, and carries into
    /// its regions.
    fn carried(&mut self, data: &'a OpData) -> Result<(), CompileError> {
        let src = self.src;
        let operands: Vec<Value> =
            data.operands.iter().flat_map(|&v| self.values[v.index()].clone()).collect();
        let mut regions: SmallVec<[Block; 2]> = SmallVec::new();
        for &region in &data.regions {
            let block = self.b.kernel.add_block();
            for &arg in &src.block(region).args {
                let types = self.types(arg);
                let parts = types.into_iter().map(|ty| self.b.kernel.add_arg(block, ty)).collect();
                self.values[arg.index()] = parts;
            }
            let outer = std::mem::replace(&mut self.b.block, block);
            self.ops(region)?;
            self.b.block = outer;
            regions.push(block);
        }
        let types: Vec<Type> = data.results.iter().flat_map(|&v| self.types(v)).collect();
        let (block, kind) = (self.b.block, data.kind.clone());
        let op = self.b.kernel.append(block, kind, &operands, &types, &regions, data.loc);
        let mut made = self.b.kernel.op(op).results.clone().into_iter();
        for &result in &data.results {
            let count = self.grid(result).len();
            self.values[result.index()] = made.by_ref().take(count).collect();
        }
        Ok(())
    }

    /// An operation for each part of its tiles, which have one shape. `change` sees the operands
    /// of each and where its part begins.
    fn each(&mut self, data: &OpData, change: impl Fn(&mut Self, &mut [Value], &[u32])) {
        // The shape is that of any tile among results and operands; scalars and views are the same
        // for all parts.
        let tiles = data.results.iter().chain(&data.operands);
        let Some(&tile) = tiles.into_iter().find(|&&v| !self.is_whole(v)) else { return };
        let grid = self.grid(tile);
        for (at, cell) in grid.cells().iter().enumerate() {
            let part = |&v: &Value| {
                let parts = &self.values[v.index()];
                if parts.len() > 1 { parts[at] } else { parts[0] }
            };
            let mut operands: SmallVec<[Value; 4]> = data.operands.iter().map(part).collect();
            change(self, &mut operands, &grid.begin(cell));
            let ty = |&v: &Value| Type::tile(self.src.ty(v).elem(), grid.shape(cell));
            let types: SmallVec<[Type; 1]> = data.results.iter().map(ty).collect();
            let op = self.b.op(data.kind.clone(), &operands, &types);
            if let Some(result) = data.results.first() {
                let made = self.b.kernel.result(op);
                self.values[result.index()].push(made);
            }
        }
    }

    /// Moves the place of a box: the operands of a load or store behind the view.
    fn displace(&mut self, operands: &mut [Value], begin: &[u32]) {
        for (offset, &by) in operands.iter_mut().skip(1).zip(begin) {
            *offset = self.displaced(*offset, by);
        }
    }

    /// An index so much further.
    fn displaced(&mut self, index: Value, by: u32) -> Value {
        match self.b.kernel.as_const(index) {
            _ if by == 0 => index,
            Some(known) => self.b.constant(Literal::wrapping(known.elem(), known.as_i128() + i128::from(by))),
            None => {
                let by = self.b.index(i64::from(by));
                self.b.binary(kiln_ir::BinaryOp::Add, index, by)
            }
        }
    }

    fn grid(&self, value: Value) -> Grid {
        Grid::of(&self.src.shape(value))
    }

    /// Whether a value is one part.
    fn is_whole(&self, value: Value) -> bool {
        self.src.shape(value).extents().iter().all(|e| e.is_power_of_two())
    }

    /// The types of the parts of a value.
    fn types(&self, value: Value) -> Vec<Type> {
        let ty = self.src.ty(value);
        if ty.as_tile().is_none() {
            return vec![ty.clone()];
        }
        let grid = self.grid(value);
        grid.cells().iter().map(|cell| Type::tile(ty.elem(), grid.shape(cell))).collect()
    }

    /// What a value has become at a cell of its grid.
    fn part(&self, value: Value, grid: &Grid, cell: &[usize]) -> Value {
        self.values[value.index()][grid.index(cell)]
    }

    fn unsupported(&self, data: &OpData, hint: &str) -> CompileError {
        let tiles = data.operands.iter().chain(&data.results);
        let ty = tiles.copied().find(|&v| !self.is_whole(v)).map(|v| self.src.ty(v).to_string());
        CompileError::Unsupported {
            location: self.src.describe(data.loc),
            what: format!("`{}` of a tile {} on a GPU", data.kind.mnemonic(), ty.unwrap_or_default()),
            hint: hint.into(),
        }
    }
}

//! Sums in fragments: local variables of the module, which drivers keep in registers of matrix
//! units.
//!
//! Factors lie in shared memory as vectors of four words, which are 16 bytes: drivers load
//! fragments fastest from such. naga takes the elements of a fragment for those of the memory it is
//! loaded from, so that these are fragments of words until the module is finished (`spirv/`).
//!
//! Matrices of 8 rows and columns, as Metal has them, are quarters of a fragment. Their factors lie
//! in shared memory as f16: nothing changes the types in what naga writes for Metal.

use crate::body::Expr;
use crate::features::MatrixSize;
use crate::regions::{Cell, Region};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{
    FragmentOp, Kernel, MATRIX, MatrixGrid, MatrixOp, OpData, OpKind, Operand, Scalar as Elem, Value,
};
use naga::{
    BinaryOperator as B, CooperativeData, CooperativeRole, CooperativeSize, Expression, Scalar, Statement,
    TypeInner,
};

/// Whether a kernel has products on matrix units.
pub(crate) fn multiplies(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(|_, data| found |= matches!(data.kind, OpKind::Fragment(FragmentOp::Matrix(_))));
    found
}

/// Whether an allocation is a factor of such a product.
pub(crate) fn is_factor(kernel: &Kernel, view: Value) -> bool {
    let mut found = false;
    kernel.walk(|_, data| {
        if let OpKind::Fragment(FragmentOp::Matrix(MatrixOp::Multiply { .. })) = data.kind {
            found |= [data.left(), data.right()].contains(&view);
        }
    });
    found
}

/// A factor in shared memory, from where this warp's part of it begins.
#[derive(Clone, Copy)]
struct Factor {
    region: Region,
    role: CooperativeRole,
    /// The number of the first cell of the part.
    first: Expr,
    /// Cells of a line, and elements of a cell.
    line: u32,
    each: u32,
    /// Lines run along the depth.
    by_depth: bool,
    row_major: bool,
}

impl Writer<'_> {
    /// Variables for the fragments of sums that a warp has.
    pub(crate) fn declare_sums(&mut self, view: Value) {
        let (grid, size) = (self.grid_of(view), self.cooperative_size());
        let [high, wide] = grid.fragments(self.extents_of(view)).map(|count| count * self.matrices_across());
        let (scalar, role) = (Scalar::F32, CooperativeRole::C);
        let inner = TypeInner::CooperativeMatrix { columns: size, rows: size, scalar, role };
        let ty = self.type_of(inner);
        // The type of factors' elements, which the finished module has.
        self.scalar_type(Scalar::F16);
        let variables = (0..high * wide).map(|_| self.body.variable("sums", ty, None)).collect();
        self.sums.insert(view, (ty, variables));
    }

    /// The size of the matrices that are multiplied.
    fn cooperative_size(&self) -> CooperativeSize {
        match self.features.matrices {
            Some(MatrixSize::Eight) => CooperativeSize::Eight,
            Some(MatrixSize::Sixteen) | None => CooperativeSize::Sixteen,
        }
    }

    /// The matrices along a side of a fragment.
    fn matrices_across(&self) -> u32 {
        MATRIX / self.features.matrices.map_or(MATRIX, MatrixSize::side)
    }

    /// How the operations on sums divide them, all alike.
    fn grid_of(&self, sums: Value) -> MatrixGrid {
        let mut grid = MatrixGrid { rows: 1, columns: 1 };
        self.kernel.walk(|_, data| {
            if let OpKind::Fragment(FragmentOp::Matrix(op)) = data.kind
                && data.view() == sums
            {
                grid = op.grid();
            }
        });
        grid
    }

    fn extents_of(&self, view: Value) -> [u32; 2] {
        self.kernel.alloc_shape(view).map_or([0, 0], |shape| [shape[0], shape[1]])
    }

    pub(crate) fn matrix(&mut self, data: &OpData, op: MatrixOp) -> Result<()> {
        let Some((ty, variables)) = self.sums.get(&data.view()).cloned() else {
            return Err(self.internal("sums without fragments".into()));
        };
        match op {
            MatrixOp::Zero(_) => {
                for &variable in &variables {
                    let zero = self.body.add(Expression::ZeroValue(ty));
                    self.body.store(variable, zero);
                }
                Ok(())
            }
            MatrixOp::Multiply { grid, depth, transposed } => {
                self.multiply_matrices(data, &variables, (grid, depth), transposed)
            }
            MatrixOp::Store { fragment, slot, .. } => self.store_fragment(data, &variables, (fragment, slot)),
            MatrixOp::Load(_) => Err(self.internal("sums that were not lowered".into())),
        }
    }

    /// The number of this thread's warp.
    fn warp(&self) -> Result<Expr> {
        self.builtins.subgroup_id.ok_or_else(|| self.internal("the warp has no number".into()))
    }

    fn store_fragment(
        &mut self,
        data: &OpData,
        variables: &[Expr],
        (fragment, slot): (u32, u32),
    ) -> Result<()> {
        let (staged, warp) = (data.tile(), self.warp()?);
        let [_, line] = self.extents_of(staged);
        let region = self.region(staged)?;
        let sums = data.view();
        let [_, wide] = self.grid_of(sums).fragments(self.extents_of(sums));
        let across = self.matrices_across();
        for (row, column) in (0..across * across).map(|i| (i / across, i % across)) {
            let [above, before] =
                [fragment / wide.max(1), fragment % wide.max(1)].map(|first| first * across);
            let number = (above + row) * wide * across + before + column;
            let Some(&variable) = variables.get(number as usize) else {
                return Err(self.internal("a fragment that no warp has".into()));
            };
            let side = MATRIX / across;
            let first = slot * MATRIX * MATRIX + row * side * MATRIX + column * side;
            let b = &mut self.body;
            let (line, before) = (b.u32(line), b.u32(first));
            let at = b.binary(B::Multiply, warp, line);
            let at = b.binary(B::Add, at, before);
            let pointer = b.element(region.array, at);
            let (stride, target) = (b.u32(MATRIX), b.load(variable));
            let place = CooperativeData { pointer, stride, row_major: true };
            b.push(Statement::CooperativeStore { target, data: place });
        }
        Ok(())
    }

    /// Adds the products of all fragments of the depth. Those of the left factor are loaded once a
    /// step, those of the right one when they are multiplied, so that few are held.
    fn multiply_matrices(
        &mut self,
        data: &OpData,
        variables: &[Expr],
        (grid, depth): (MatrixGrid, u32),
        transposed: [bool; 2],
    ) -> Result<()> {
        let extents = self.extents_of(data.view());
        let [high, wide] = grid.fragments(extents).map(|count| count * self.matrices_across());
        let side = MATRIX / self.matrices_across();
        let warp = self.warp()?;
        let b = &mut self.body;
        let (columns, rows) = (b.u32(grid.columns), b.u32(grid.rows));
        let above = b.binary(B::Divide, warp, columns);
        let parts = [b.binary(B::Modulo, above, rows), b.binary(B::Modulo, warp, columns)];
        let roles = [CooperativeRole::A, CooperativeRole::B];
        let lines = data.named(Operand::Index).to_vec();
        let mut factors = Vec::new();
        for (i, &view) in [data.left(), data.right()].iter().enumerate() {
            let scalar = self.scalar(data, lines[i])?;
            let line = self.get(lines[i])?;
            let line = self.narrowed(line, scalar);
            let size = [extents[0] / grid.rows, extents[1] / grid.columns][i];
            let size = self.body.u32(size);
            let part = self.body.binary(B::Multiply, parts[i], size);
            factors.push(self.factor(view, (line, part), roles[i], transposed[i])?);
        }
        let mut sums: Vec<Expr> = variables.iter().map(|&variable| self.body.load(variable)).collect();
        for at in (0..depth).step_by(side as usize) {
            let left: Vec<Expr> = (0..high).map(|i| self.fragment(factors[0], i * side, at)).collect();
            for j in 0..wide {
                let right = self.fragment(factors[1], j * side, at);
                for (i, &left) in left.iter().enumerate() {
                    let sum = &mut sums[i * wide as usize + j as usize];
                    let product = Expression::CooperativeMultiplyAdd { a: left, b: right, c: *sum };
                    *sum = self.body.add(product);
                }
            }
        }
        for (&variable, sum) in variables.iter().zip(sums) {
            self.body.store(variable, sum);
        }
        Ok(())
    }

    /// A factor from a line of its allocation on, of the part that begins at a row (of the left
    /// one) or a column (of the right one).
    fn factor(
        &mut self,
        view: Value,
        (line, part): (Expr, Expr),
        role: CooperativeRole,
        transposed: bool,
    ) -> Result<Factor> {
        let region = self.region(view)?;
        let each = elements_of(region.cell);
        let [_, length] = self.extents_of(view);
        let by_depth = transposed == (role == CooperativeRole::B);
        let cells = length / each;
        let b = &mut self.body;
        let (line_cells, shift) = (b.u32(cells), b.u32(each.ilog2()));
        let first = match by_depth {
            true => {
                let line = b.binary(B::Add, line, part);
                b.binary(B::Multiply, line, line_cells)
            }
            false => {
                let (before, along) =
                    (b.binary(B::Multiply, line, line_cells), b.binary(B::ShiftRight, part, shift));
                b.binary(B::Add, before, along)
            }
        };
        Ok(Factor { region, role, first, line: cells, each, by_depth, row_major: !transposed })
    }

    /// A matrix so many rows or columns behind the first one, at a depth.
    fn fragment(&mut self, factor: Factor, outer: u32, depth: u32) -> Expr {
        let size = self.cooperative_size();
        let (line, along) = if factor.by_depth { (outer, depth) } else { (depth, outer) };
        let b = &mut self.body;
        let distance = b.u32(line * factor.line + along / factor.each);
        let at = b.binary(B::Add, factor.first, distance);
        let (pointer, stride) = (b.element(factor.region.array, at), b.u32(factor.line));
        let data = CooperativeData { pointer, stride, row_major: factor.row_major };
        b.add(Expression::CooperativeLoad { columns: size, rows: size, role: factor.role, data })
    }

    /// Whether a fragment of words becomes one of f16 as the module is finished.
    pub(crate) fn factors_may_be_words(&self) -> bool {
        self.features.matrices == Some(MatrixSize::Sixteen)
    }

    /// The cells of an allocation of factors: vectors of words if all stores are of such, so that
    /// fragments are loaded 16 bytes at a time.
    pub(crate) fn factor_cell(&self, of_whole_vectors: bool) -> Cell {
        match of_whole_vectors && self.factors_may_be_words() {
            true => Cell::WordVectors(naga::VectorSize::Quad),
            false => Cell::Plain(self.features.register(Elem::F16)),
        }
    }
}

/// How many elements of a factor a cell has.
fn elements_of(cell: Cell) -> u32 {
    let scalars = cell.vector().map_or(1, |size| u32::from(size as u8));
    if cell.is_words() { 2 * scalars } else { scalars }
}

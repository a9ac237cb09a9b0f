//! Building IR: a cursor that appends operations and infers their result types.

use crate::kernel::{Block, Kernel, Loc, Op, Value};
use crate::literal::Literal;
use crate::op::*;
use crate::types::{Scalar, Shape, Space, Type};

/// A cursor into a kernel: every method appends one operation to the current block and gives its
/// result.
///
/// The builder trusts its caller: a wrongly typed operation is found by [`verify`](crate::verify).
/// It is what passes and the front end use.
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("twice", Level::Tile { warps: None });
/// let x = kernel.add_param(Param { name: "x".into(), ty: Type::view(Scalar::F32, 1, Space::Global), mutable: true, facts: Facts::default() });
/// let mut b = Builder::new(&mut kernel);
/// let pid = b.program_id(Axis::X);
/// let block = b.index(128);
/// let at = b.binary(BinaryOp::Mul, pid, block);
/// let zero = b.constant(Literal::f32(0.0));
/// let v = b.load(x, &[at], zero, Shape::new(&[128]), Reuse::Normal);
/// let w = b.binary(BinaryOp::Add, v, v);
/// b.store(x, &[at], w, Reuse::Normal, true);
/// assert!(verify(&kernel).is_ok());
/// ```
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("tiles", Level::Tile { warps: None });
/// let param = |name: &str, rank| Param { name: name.into(), ty: Type::view(Scalar::F32, rank, Space::Global), mutable: true, facts: Facts::default() };
/// let (x, y) = (kernel.add_param(param("x", 2)), kernel.add_param(param("y", 1)));
/// let mut b = Builder::new(&mut kernel);
/// let (zero, origin) = (b.constant(Literal::f32(0.0)), b.index(0));
/// let tile = b.load(x, &[origin, origin], zero, Shape::new(&[16, 4]), Reuse::Normal);
/// let half = b.splat(Literal::f32(0.5), Shape::new(&[16, 4]));
/// let large = b.compare(CompareOp::Gt, tile, half);
/// let kept = b.select(large, tile, half);
/// let line = b.fma(kept, tile, half);
/// let sums = b.reduce(ReduceOp::Sum, 1, line);
/// let running = b.scan(ReduceOp::Max, 0, false, false, sums);
/// let across = b.transpose(line, &[1, 0]);
/// let squares = b.broadcast(zero, Shape::new(&[4, 4]));
/// let squares = b.dot(across, line, squares);
/// let squares = b.dot_with(across, line, squares, Precision::Tf32);
/// let flat = b.reshape(squares, Shape::new(&[16]));
/// let bits = b.bitcast(flat, Scalar::U32);
/// let numbers = b.cast(bits, Scalar::F32);
/// let (places, rows) = (b.iota(Scalar::I64, 16), b.extent(x, 0));
/// let (step, programs) = (b.stride(x, 0), b.num_programs(Axis::X));
/// let gathered = b.gather(y, &[places], None, zero, Bounds::Mask);
/// let all = b.binary(BinaryOp::Add, gathered, running);
/// let all = b.binary(BinaryOp::Add, all, numbers);
/// b.scatter(y, &[places], None, all, Bounds::Mask);
/// assert_eq!(kernel.ty(sums).to_string(), "f32[16]");
/// assert_eq!(kernel.ty(across).to_string(), "f32[4, 16]");
/// assert_eq!(kernel.ty(squares).to_string(), "f32[4, 4]");
/// assert_eq!([rows, step, programs].map(|v| kernel.ty(v).elem()), [Scalar::I64; 3]);
/// assert_eq!(verify(&kernel), Ok(()));
/// ```
pub struct Builder<'k> {
    /// The kernel under construction.
    pub kernel: &'k mut Kernel,
    /// Where operations are appended.
    pub block: Block,
    /// The source location that new operations get.
    pub loc: Loc,
}

impl<'k> Builder<'k> {
    /// A builder that appends to the kernel's body.
    pub fn new(kernel: &'k mut Kernel) -> Builder<'k> {
        let block = kernel.body;
        Builder { kernel, block, loc: Loc::default() }
    }

    /// Appends any operation with given result types.
    pub fn op(&mut self, kind: OpKind, operands: &[Value], results: &[Type]) -> Op {
        self.kernel.append(self.block, kind, operands, results, &[], self.loc)
    }

    fn one(&mut self, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let op = self.op(kind, operands, &[ty]);
        self.kernel.result(op)
    }

    fn ty(&self, value: Value) -> Type {
        self.kernel.ty(value).clone()
    }

    fn like(&self, value: Value, elem: Scalar) -> Type {
        Type::tile(elem, self.kernel.shape(value))
    }

    /// A scalar constant.
    pub fn constant(&mut self, literal: Literal) -> Value {
        self.one(OpKind::Const(literal), &[], Type::scalar(literal.elem()))
    }

    /// A tile of one constant.
    pub fn splat(&mut self, literal: Literal, shape: Shape) -> Value {
        self.one(OpKind::Const(literal), &[], Type::tile(literal.elem(), shape))
    }

    /// A scalar i64 constant.
    pub fn index(&mut self, value: i64) -> Value {
        self.constant(Literal::index(value))
    }

    /// 0, 1, …, len - 1 in an integer type.
    pub fn iota(&mut self, elem: Scalar, len: u32) -> Value {
        self.one(OpKind::Iota, &[], Type::tile(elem, Shape::new(&[len])))
    }

    /// The program's index.
    pub fn program_id(&mut self, axis: Axis) -> Value {
        self.one(OpKind::ProgramId(axis), &[], Type::scalar(Scalar::I64))
    }

    /// The number of programs.
    pub fn num_programs(&mut self, axis: Axis) -> Value {
        self.one(OpKind::NumPrograms(axis), &[], Type::scalar(Scalar::I64))
    }

    /// The thread's index in its block.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = Kernel::new("threads", Level::Thread { block: [64, 1, 1] });
    /// let mut b = Builder::new(&mut kernel);
    /// let (i, n) = (b.thread_id(Axis::X), b.block_dim(Axis::X));
    /// b.binary(BinaryOp::Sub, n, i);
    /// assert!(kernel.to_string().contains("%0 = thread_id x : i64\n  %1 = block_dim x : i64\n  %2 = sub %1, %0 : i64"));
    /// assert_eq!(verify(&kernel), Ok(()));
    /// ```
    pub fn thread_id(&mut self, axis: Axis) -> Value {
        self.one(OpKind::ThreadId(axis), &[], Type::scalar(Scalar::I64))
    }

    /// The block's extent.
    pub fn block_dim(&mut self, axis: Axis) -> Value {
        self.one(OpKind::BlockDim(axis), &[], Type::scalar(Scalar::I64))
    }

    /// A unary operation.
    pub fn unary(&mut self, op: UnaryOp, x: Value) -> Value {
        let ty = self.like(x, op.result(self.kernel.ty(x).elem()));
        self.one(OpKind::Unary(op), &[x], ty)
    }

    /// A binary operation.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        self.one(OpKind::Binary(op), &[a, b], ty)
    }

    /// A comparison.
    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        let ty = self.like(a, Scalar::Bool);
        self.one(OpKind::Compare(op), &[a, b], ty)
    }

    /// `a` where `cond`, else `b`.
    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        self.one(OpKind::Select, &[cond, a, b], ty)
    }

    /// The derivative of what an element-wise operation on floats gives with respect to one of its
    /// operands, for each element; `None` where it has none.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
    /// let mut b = Builder::new(&mut kernel);
    /// let x = b.constant(Literal::from_f64(Scalar::F32, 3.0));
    /// let y = b.unary(UnaryOp::Recip, x);
    /// let Def::Result(op, _) = b.kernel.def(y) else { unreachable!() };
    /// let slope = b.derivative(op, Operand::Input).unwrap(); // -(y * y)
    /// let negation = b.kernel.defining_op(slope).unwrap();
    /// assert_eq!(negation.kind, OpKind::Unary(UnaryOp::Neg));
    /// assert_eq!(b.kernel.defining_op(negation.input()).unwrap().operands[..], [y, y]);
    /// ```
    pub fn derivative(&mut self, op: Op, operand: Operand) -> Option<Value> {
        let data = self.kernel.op(op).clone();
        let result = *data.results.first()?;
        if !self.kernel.ty(result).elem().is_float() {
            return None;
        }
        let (operands, rule) = if let OpKind::Unary(op) = data.kind {
            ([data.input(); 2], op.derivative()?)
        } else if let OpKind::Binary(op) = data.kind {
            let [by_left, by_right] = op.derivatives()?;
            ([data.left(), data.right()], if operand == Operand::Right { by_right } else { by_left })
        } else {
            return None;
        };
        Some(self.expression(&rule(), operands, result))
    }

    /// The value of an expression, of the type of its `result`.
    fn expression(&mut self, expr: &Expr, operands: [Value; 2], result: Value) -> Value {
        match expr {
            Expr::A => operands[0],
            Expr::B => operands[1],
            Expr::Y => result,
            Expr::Number(number) => {
                let literal = Literal::from_f64(self.kernel.ty(result).elem(), *number);
                let shape = self.kernel.shape(result);
                self.splat(literal, shape)
            }
            Expr::Unary(op, x) => {
                let x = self.expression(x, operands, result);
                self.unary(*op, x)
            }
            Expr::Binary(op, both) => {
                let [a, b] = both.each_ref().map(|x| self.expression(x, operands, result));
                self.binary(*op, a, b)
            }
            Expr::Less(parts) => {
                let [a, b, yes, no] = parts.each_ref().map(|x| self.expression(x, operands, result));
                let less = self.compare(CompareOp::Lt, a, b);
                self.select(less, yes, no)
            }
        }
    }

    /// `a * b + c`.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let ty = self.ty(a);
        self.one(OpKind::Fma, &[a, b, c], ty)
    }

    /// Converts to another element type; gives `x` back if it has it.
    pub fn cast(&mut self, x: Value, elem: Scalar) -> Value {
        if self.kernel.ty(x).elem() == elem {
            return x;
        }
        let ty = self.like(x, elem);
        self.one(OpKind::Cast, &[x], ty)
    }

    /// Reads the bits as another element type of the same size.
    pub fn bitcast(&mut self, x: Value, elem: Scalar) -> Value {
        let ty = self.like(x, elem);
        self.one(OpKind::Bitcast, &[x], ty)
    }

    /// Stretches to a shape of the same rank, or a scalar to any shape; gives `x` back if it has
    /// it.
    pub fn broadcast(&mut self, x: Value, shape: Shape) -> Value {
        let ty = self.ty(x);
        if ty.as_tile().is_some_and(|t| t.shape == shape) {
            return x;
        }
        self.one(OpKind::Broadcast, &[x], Type::tile(ty.elem(), shape))
    }

    /// The same elements under another shape; gives `x` back if it has it.
    pub fn reshape(&mut self, x: Value, shape: Shape) -> Value {
        let ty = self.ty(x);
        if ty.as_tile().is_some_and(|t| t.shape == shape) {
            return x;
        }
        self.one(OpKind::Reshape, &[x], Type::tile(ty.elem(), shape))
    }

    /// Permutes the axes: result axis `i` is operand axis `perm[i]`.
    pub fn transpose(&mut self, x: Value, perm: &[u32]) -> Value {
        let from = self.kernel.shape(x);
        let extents: Vec<u32> = perm.iter().map(|&p| from[p as usize]).collect();
        let ty = Type::tile(self.kernel.ty(x).elem(), Shape::new(&extents));
        self.one(OpKind::Transpose(Shape::new(perm)), &[x], ty)
    }

    /// Combines along an axis, which goes.
    pub fn reduce(&mut self, op: ReduceOp, axis: u32, x: Value) -> Value {
        let elem = if op.gives_index() { Scalar::I64 } else { self.kernel.ty(x).elem() };
        let ty = Type::tile(elem, self.kernel.shape(x).without(axis as usize));
        self.one(OpKind::Reduce { op, axis }, &[x], ty)
    }

    /// Running combination along an axis.
    pub fn scan(&mut self, op: ReduceOp, axis: u32, reverse: bool, exclusive: bool, x: Value) -> Value {
        let ty = self.ty(x);
        self.one(OpKind::Scan { op, axis, reverse, exclusive }, &[x], ty)
    }

    /// `acc + a · b`.
    pub fn dot(&mut self, a: Value, b: Value, acc: Value) -> Value {
        self.dot_with(a, b, acc, Precision::Full)
    }

    /// `acc + a · b`, with a precision.
    pub fn dot_with(&mut self, a: Value, b: Value, acc: Value, precision: Precision) -> Value {
        let ty = self.ty(acc);
        self.one(OpKind::Dot(precision), &[a, b, acc], ty)
    }

    /// The extent of a view on an axis.
    pub fn extent(&mut self, view: Value, axis: u32) -> Value {
        self.one(OpKind::Extent(axis), &[view], Type::scalar(Scalar::I64))
    }

    /// The stride of a view on an axis, in elements.
    pub fn stride(&mut self, view: Value, axis: u32) -> Value {
        self.one(OpKind::Stride(axis), &[view], Type::scalar(Scalar::I64))
    }

    /// Memory of the block or the thread.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = Kernel::new("k", Level::Thread { block: [64, 1, 1] });
    /// let view = Builder::new(&mut kernel).alloc(Space::Shared, Scalar::F32, Shape::new(&[4, 8]));
    /// assert_eq!(kernel.ty(view).to_string(), "view<f32, 2, shared>");
    /// assert_eq!(kernel.alloc_shape(view), Some(&Shape::new(&[4, 8])));
    /// ```
    pub fn alloc(&mut self, space: Space, elem: Scalar, shape: Shape) -> Value {
        let ty = Type::view(elem, shape.rank() as u32, space);
        self.one(OpKind::Alloc { space, elem, shape }, &[], ty)
    }

    /// Loads a box; `padding` is what stands outside the view.
    pub fn load(
        &mut self,
        view: Value,
        offsets: &[Value],
        padding: Value,
        shape: Shape,
        reuse: Reuse,
    ) -> Value {
        let ty = Type::tile(self.kernel.ty(view).elem(), shape);
        let operands = list(view, offsets, &[padding]);
        self.one(OpKind::Load(reuse), &operands, ty)
    }

    /// Stores a box.
    pub fn store(&mut self, view: Value, offsets: &[Value], tile: Value, reuse: Reuse, disjoint: bool) {
        self.op(OpKind::Store { reuse, disjoint }, &list(view, offsets, &[tile]), &[]);
    }

    /// Loads element by element.
    pub fn gather(
        &mut self,
        view: Value,
        indices: &[Value],
        mask: Option<Value>,
        padding: Value,
        bounds: Bounds,
    ) -> Value {
        let shape = indices.first().map_or_else(Shape::scalar, |&i| self.kernel.shape(i));
        let ty = Type::tile(self.kernel.ty(view).elem(), shape);
        let mut operands = list(view, indices, mask.as_slice());
        operands.push(padding);
        self.one(OpKind::Gather { bounds, masked: mask.is_some() }, &operands, ty)
    }

    /// Stores element by element.
    pub fn scatter(
        &mut self,
        view: Value,
        indices: &[Value],
        mask: Option<Value>,
        value: Value,
        bounds: Bounds,
    ) {
        let mut operands = list(view, indices, mask.as_slice());
        operands.push(value);
        self.op(OpKind::Scatter { bounds, masked: mask.is_some(), asynchronous: false }, &operands, &[]);
    }

    /// Ends the current region with values.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
    /// let mut b = Builder::new(&mut kernel);
    /// let condition = b.constant(Literal::bool(true));
    /// // One of two numbers: a region for each.
    /// let regions = [7, 9].map(|number| {
    ///     let region = b.kernel.add_block();
    ///     b.block = region;
    ///     let number = b.index(number);
    ///     b.yield_(&[number]);
    ///     region
    /// });
    /// let (body, loc) = (kernel.body, Loc::default());
    /// let choice = kernel.append(body, OpKind::If, &[condition], &[Type::scalar(Scalar::I64)], &regions, loc);
    /// assert_eq!(kernel.op(choice).regions[..], regions);
    /// assert_eq!(verify(&kernel), Ok(()));
    /// ```
    pub fn yield_(&mut self, values: &[Value]) {
        self.op(OpKind::Yield, values, &[]);
    }
}

fn list(first: Value, middle: &[Value], last: &[Value]) -> Vec<Value> {
    let mut all = Vec::with_capacity(2 + middle.len() + last.len());
    all.push(first);
    all.extend_from_slice(middle);
    all.extend_from_slice(last);
    all
}

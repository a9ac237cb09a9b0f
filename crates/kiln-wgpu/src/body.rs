//! Expressions and statements of a function under construction.

use naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, MathFunction, Range, Scalar,
    ScalarKind, Span, Statement, Type, UnaryOperator,
};

/// An expression of the entry point.
pub(crate) type Expr = Handle<Expression>;

/// The entry point's function, and the block that is being written.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) function: Function,
    block: Block,
    /// The expressions that end the block and are not covered by a statement yet.
    unemitted: Option<(Expr, Expr)>,
}

impl Body {
    /// Appends an expression, evaluated at this place.
    pub(crate) fn add(&mut self, expression: Expression) -> Expr {
        let implicit = expression.needs_pre_emit();
        let handle = self.function.expressions.append(expression, Span::UNDEFINED);
        if !implicit {
            self.unemitted = match self.unemitted {
                Some((first, last)) if last.index() + 1 == handle.index() => Some((first, handle)),
                _ => {
                    self.emit();
                    Some((handle, handle))
                }
            };
        }
        handle
    }

    /// Appends the result of a statement that follows, which is evaluated by that.
    pub(crate) fn result(&mut self, expression: Expression) -> Expr {
        self.function.expressions.append(expression, Span::UNDEFINED)
    }

    fn emit(&mut self) {
        if let Some((first, last)) = self.unemitted.take() {
            self.block.push(Statement::Emit(Range::new_from_bounds(first, last)), Span::UNDEFINED);
        }
    }

    /// Appends a statement.
    pub(crate) fn push(&mut self, statement: Statement) {
        self.emit();
        self.block.push(statement, Span::UNDEFINED);
    }

    /// Begins a block inside of this one, which [`end`](Body::end) gives back.
    pub(crate) fn begin(&mut self) -> Block {
        self.emit();
        std::mem::take(&mut self.block)
    }

    /// Ends the inner block and goes on with the outer one.
    pub(crate) fn end(&mut self, outer: Block) -> Block {
        self.emit();
        std::mem::replace(&mut self.block, outer)
    }

    /// The function, whose body is all that was written.
    pub(crate) fn finish(mut self) -> Function {
        self.emit();
        self.function.body = self.block;
        self.function
    }

    /// Gives an expression a name in printed text.
    pub(crate) fn name(&mut self, expr: Expr, name: String) {
        self.function.named_expressions.insert(expr, name);
    }

    /// A local variable, as a pointer.
    pub(crate) fn variable(&mut self, name: &str, ty: Handle<Type>, init: Option<Literal>) -> Expr {
        let init = init.map(|literal| self.literal(literal));
        let variable = LocalVariable { name: Some(name.to_owned()), ty, init };
        let handle = self.function.local_variables.append(variable, Span::UNDEFINED);
        self.add(Expression::LocalVariable(handle))
    }

    pub(crate) fn literal(&mut self, literal: Literal) -> Expr {
        self.add(Expression::Literal(literal))
    }

    pub(crate) fn u32(&mut self, value: u32) -> Expr {
        self.literal(Literal::U32(value))
    }

    pub(crate) fn load(&mut self, pointer: Expr) -> Expr {
        self.add(Expression::Load { pointer })
    }

    pub(crate) fn store(&mut self, pointer: Expr, value: Expr) {
        self.push(Statement::Store { pointer, value });
    }

    pub(crate) fn element(&mut self, base: Expr, index: Expr) -> Expr {
        self.add(Expression::Access { base, index })
    }

    pub(crate) fn member(&mut self, base: Expr, index: u32) -> Expr {
        self.add(Expression::AccessIndex { base, index })
    }

    pub(crate) fn unary(&mut self, op: UnaryOperator, expr: Expr) -> Expr {
        self.add(Expression::Unary { op, expr })
    }

    pub(crate) fn not(&mut self, expr: Expr) -> Expr {
        self.unary(UnaryOperator::LogicalNot, expr)
    }

    pub(crate) fn binary(&mut self, op: BinaryOperator, left: Expr, right: Expr) -> Expr {
        self.add(Expression::Binary { op, left, right })
    }

    pub(crate) fn select(&mut self, condition: Expr, accept: Expr, reject: Expr) -> Expr {
        self.add(Expression::Select { condition, accept, reject })
    }

    pub(crate) fn math(&mut self, fun: MathFunction, arguments: &[Expr]) -> Expr {
        let at = |i: usize| arguments.get(i).copied();
        self.add(Expression::Math { fun, arg: arguments[0], arg1: at(1), arg2: at(2), arg3: at(3) })
    }

    /// The number as another type.
    pub(crate) fn convert(&mut self, expr: Expr, to: Scalar) -> Expr {
        self.add(Expression::As { expr, kind: to.kind, convert: Some(to.width) })
    }

    /// The same bits as another kind of as many bits.
    pub(crate) fn bitcast(&mut self, expr: Expr, kind: ScalarKind) -> Expr {
        self.add(Expression::As { expr, kind, convert: None })
    }

    /// An integer with the same bits as one of the other kind. For 64 bits naga's HLSL has no
    /// bitcast, and a conversion between integers of one width keeps the bits everywhere.
    pub(crate) fn reinterpret(&mut self, expr: Expr, to: Scalar) -> Expr {
        if to.width == 8 { self.convert(expr, to) } else { self.bitcast(expr, to.kind) }
    }

    /// `if (condition) { accept } else { reject }` of blocks that were written before.
    pub(crate) fn branch(&mut self, condition: Expr, accept: Block, reject: Block) {
        self.push(Statement::If { condition, accept, reject });
    }

    /// `if (condition) { break; }`.
    pub(crate) fn break_if(&mut self, condition: Expr) {
        let accept = Block::from_vec(vec![Statement::Break]);
        self.branch(condition, accept, Block::new());
    }
}

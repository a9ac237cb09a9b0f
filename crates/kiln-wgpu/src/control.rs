//! `if`, `for` and `while`. Results and carried values are local variables.

use crate::body::Expr;
use crate::types::unsigned;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Block, Op, OpData, OpKind, Value, VoteMode};
use naga::{BinaryOperator as B, ScalarKind, Statement};

impl Writer<'_> {
    /// The operations of a block but for the one that ends it, whose operands are given back.
    pub(crate) fn block(&mut self, block: Block) -> Result<Vec<Value>> {
        self.operations(block, false)
    }

    /// The same, with loads [together](Writer::loads_together) if asked for.
    fn operations(&mut self, block: Block, together: bool) -> Result<Vec<Value>> {
        let kernel = self.kernel;
        let mut ops = kernel.block(block).ops.as_slice();
        while let [op, rest @ ..] = ops {
            let data = kernel.op(*op);
            if data.kind == OpKind::Yield {
                return Ok(data.yielded().to_vec());
            }
            if data.kind == OpKind::Condition {
                return Ok(vec![data.condition()]);
            }
            ops = match self.loads_together(ops).filter(|_| together) {
                Some(found) => {
                    found.before.iter().try_for_each(|&op| self.operation(op))?;
                    self.masked_loads(&found.loads)?;
                    &ops[found.count..]
                }
                None => {
                    self.operation(*op)?;
                    rest
                }
            };
        }
        Ok(Vec::new())
    }

    /// Variables of the types of values.
    pub(crate) fn variables(&mut self, op: &OpData, name: &str, like: &[Value]) -> Result<Vec<Expr>> {
        let variable = |w: &mut Self, &value: &Value| {
            let scalar = w.scalar(op, value)?;
            let ty = w.scalar_type(scalar);
            Ok(w.body.variable(name, ty, None))
        };
        like.iter().map(|value| variable(self, value)).collect()
    }

    /// Stores values to [`variables`](Writer::variables) that are like others.
    pub(crate) fn store_all(&mut self, variables: &[Expr], values: &[Value], like: &[Value]) -> Result<()> {
        for ((&variable, &value), &like) in variables.iter().zip(values).zip(like) {
            let expr = match self.is_narrow(like) {
                true => self.get(value)?,
                false => self.get_as(value, self.held(self.elem(like)))?,
            };
            self.body.store(variable, expr);
        }
        Ok(())
    }

    pub(crate) fn load_all(&mut self, variables: &[Expr], values: &[Value]) {
        for (&variable, &value) in variables.iter().zip(values) {
            let expr = self.body.load(variable);
            self.define(value, expr);
        }
    }

    pub(crate) fn if_else(&mut self, op: &OpData) -> Result<()> {
        let condition = self.get(op.condition())?;
        let variables = self.variables(op, "result", &op.results)?;
        let mut arms = Vec::new();
        for &region in &op.regions {
            let outer = self.body.begin();
            let yielded = self.block(region)?;
            self.store_all(&variables, &yielded, &op.results)?;
            arms.push(self.body.end(outer));
        }
        let mut arms = arms.into_iter();
        let (accept, reject) = (arms.next().unwrap_or_default(), arms.next().unwrap_or_default());
        self.body.branch(condition, accept, reject);
        self.load_all(&variables, &op.results);
        Ok(())
    }

    pub(crate) fn for_loop(&mut self, number: Op) -> Result<()> {
        let op = self.kernel.op(number);
        let [low, high, step] = op.for_bounds();
        let scalar = self.scalar(op, self.kernel.block(op.regions[0]).args[0])?;
        let constant = self.kernel.as_const(step);
        let [low, high, step] = [low, high, step].map(|bound| self.get_as(bound, scalar));
        let [low, high, step] = [low?, high?, step?];
        let carried = self.variables(op, "carried", &op.results)?;
        self.store_all(&carried, op.inits(), &op.results)?;
        let ty = self.scalar_type(scalar);
        let variable = self.body.variable("i", ty, None);
        self.body.store(variable, low);
        let mut runs = self.on_integers(B::Less, scalar, low, high);
        if constant.is_none_or(|step| step.as_i128() <= 0) {
            let none = self.number(scalar, 0);
            let forward = self.on_integers(B::Greater, scalar, step, none);
            runs = self.body.binary(B::LogicalAnd, runs, forward);
        }
        let outer = self.body.begin();
        let before = self.body.begin();
        let region = op.regions[0];
        let args = self.kernel.block(region).args.clone();
        let all: Vec<Expr> = [variable].into_iter().chain(carried.iter().copied()).collect();
        self.load_all(&all, &args);
        let yielded = self.operations(region, true)?;
        self.store_all(&carried, &yielded, &op.results)?;
        let body = self.body.end(before);
        let before = self.body.begin();
        let at = self.body.load(variable);
        let last = self.is_last(scalar, [at, high, step]);
        let next = self.on_integers(B::Add, scalar, at, step);
        self.body.store(variable, next);
        let last = self.agreed(number, last);
        let continuing = self.body.end(before);
        self.body.push(Statement::Loop { body, continuing, break_if: Some(last) });
        self.leave_further(number);
        if self.round_limit.is_some() {
            let next = self.body.load(variable);
            let at = self.on_integers(B::Subtract, scalar, next, step);
            let ended = self.is_last(scalar, [at, high, step]);
            self.leave_unless_ended(op, ended)?;
        }
        let accept = self.body.end(outer);
        self.body.branch(runs, accept, naga::Block::new());
        self.load_all(&carried, &op.results);
        Ok(())
    }

    /// Whether a round of a counted loop is the last one. The rest of the way, and not the
    /// variable, is compared with the step, so that nothing overflows.
    fn is_last(&mut self, scalar: naga::Scalar, [at, high, step]: [Expr; 3]) -> Expr {
        let ty = unsigned(scalar);
        let [far, near, by] = [high, at, step].map(|x| match scalar.kind {
            _ if self.is_pair(scalar) => x,
            ScalarKind::Uint => x,
            _ => self.body.reinterpret(x, ty),
        });
        let rest = self.on_integers(B::Subtract, ty, far, near);
        self.on_integers(B::LessEqual, ty, rest, by)
    }

    pub(crate) fn while_loop(&mut self, number: Op) -> Result<()> {
        let op = self.kernel.op(number);
        let [test, rest] = op.regions[..] else {
            return Err(self.internal("`while` has two regions".into()));
        };
        let carried = self.variables(op, "carried", &op.results)?;
        self.store_all(&carried, op.inits(), &op.results)?;
        let ended = self.has_ended();
        let outer = self.body.begin();
        for region in [test, rest] {
            let args = self.kernel.block(region).args.clone();
            self.load_all(&carried, &args);
            let ends = self.block(region)?;
            match ends[..] {
                [condition] if region == test => {
                    let condition = self.get(condition)?;
                    let done = self.body.not(condition);
                    let done = self.agreed(number, done);
                    self.end_loop_if(done, ended);
                }
                _ => self.store_all(&carried, &ends, &op.results)?,
            }
        }
        let body = self.body.end(outer);
        self.body.push(Statement::Loop { body, continuing: naga::Block::new(), break_if: None });
        self.leave_further(number);
        self.check_ended(op, ended)?;
        self.load_all(&carried, &op.results);
        Ok(())
    }

    /// Whether a loop ends, which all threads decide alike if there are barriers in it. Mesa 22.3
    /// asks also the lanes that a block does not fill, which have loaded zeros, and makes rounds
    /// of their own for them: so the subgroup decides, of which they are no part.
    fn agreed(&mut self, op: Op, ends: Expr) -> Expr {
        let partial = self.features.subgroup.is_some_and(|lanes| !self.threads().is_multiple_of(lanes));
        if partial && self.exits.waits(op) { self.subgroup_vote(ends, VoteMode::Any) } else { ends }
    }

    /// What `access` gives where the predicate is true, and `otherwise` elsewhere.
    pub(crate) fn predicated(
        &mut self,
        predicate: Option<Expr>,
        otherwise: &[(Expr, naga::Scalar)],
        access: impl FnOnce(&mut Self) -> Result<Vec<Expr>>,
    ) -> Result<Vec<Expr>> {
        let Some(predicate) = predicate else { return access(self) };
        let mut variables = Vec::new();
        for &(value, scalar) in otherwise {
            let ty = self.scalar_type(scalar);
            let variable = self.body.variable("loaded", ty, None);
            self.body.store(variable, value);
            variables.push(variable);
        }
        let outer = self.body.begin();
        let values = access(self)?;
        for (&variable, value) in variables.iter().zip(values) {
            self.body.store(variable, value);
        }
        let accept = self.body.end(outer);
        self.body.branch(predicate, accept, naga::Block::new());
        Ok(variables.into_iter().map(|variable| self.body.load(variable)).collect())
    }

    /// Zeros for [`predicated`](Writer::predicated).
    pub(crate) fn zeros(&mut self, scalar: naga::Scalar, count: usize) -> Vec<(Expr, naga::Scalar)> {
        (0..count).map(|_| (self.number(scalar, 0), scalar)).collect()
    }
}

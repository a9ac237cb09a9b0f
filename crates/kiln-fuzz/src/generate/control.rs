//! Control flow and diagnostics.

use super::Generator;
use super::pool::Entry;
use kiln_ir::*;

impl Generator<'_> {
    /// Types that leave a region: scalars where threads diverge, else anything.
    fn flowing_types(&mut self, divergent: bool) -> Vec<Type> {
        let one = |g: &mut Self| {
            let elem = g.elem();
            if divergent || g.rng.one_in(2) { Type::scalar(elem) } else { Type::tile(elem, g.shape()) }
        };
        (0..self.rng.below(4)).map(|_| one(self)).collect()
    }

    /// Fills a region by `fill`, which gives what the region ends with.
    fn region(
        &mut self,
        block: Block,
        divergent: bool,
        fill: impl FnOnce(&mut Self) -> (OpKind, Vec<Value>),
    ) {
        let (at, scope, outer) = (self.at, self.pool.len(), self.divergent);
        self.at = block;
        self.divergent |= divergent;
        self.depth += 1;
        let (kind, operands) = fill(self);
        self.builder().op(kind, &operands, &[]);
        self.depth -= 1;
        self.divergent = outer;
        self.pool.truncate(scope);
        self.at = at;
    }

    fn values_of(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|ty| self.of_type(ty).value).collect()
    }

    fn some_statements(&mut self) {
        let count = 1 + self.rng.below(5);
        self.statements(count);
    }

    fn append(&mut self, kind: OpKind, operands: &[Value], types: &[Type], regions: &[Block], varying: bool) {
        let op = self.kernel.append(self.at, kind, operands, types, regions, Loc::default());
        let results = self.kernel.op(op).results.to_vec();
        self.keep_all(&results, varying);
    }

    pub(super) fn branch(&mut self) {
        if self.depth >= self.options.depth {
            return self.expression();
        }
        let cond = self.of_type(&Type::scalar(Scalar::Bool));
        let types = self.flowing_types(self.divergent || cond.varying);
        let regions = [self.kernel.add_block(), self.kernel.add_block()];
        for block in regions {
            self.region(block, cond.varying, |g| {
                g.some_statements();
                (OpKind::Yield, g.values_of(&types))
            });
        }
        let varying = self.thread.is_some();
        self.append(OpKind::If, &[cond.value], &types, &regions, varying);
    }

    /// A `for` of up to four rounds, sometimes towards a bound near the end of the type.
    pub(super) fn counted_loop(&mut self) {
        if self.depth >= self.options.depth {
            return self.expression();
        }
        let elem = *self.rng.pick(&[Scalar::I64, Scalar::I32, Scalar::U32]);
        let start = self.uniform(Scalar::I32);
        let start = self.convert(Entry { value: start, varying: false }, &Type::scalar(elem)).value;
        let (rounds, step) = (self.rng.below(5) as i128, 1 + self.rng.below(3) as i128);
        let literal = |v| Literal::wrapping(elem, v);
        let mut b = self.builder();
        let limit = b.constant(literal(9));
        let lo = b.binary(BinaryOp::Rem, start, limit);
        let (span, step) = (b.constant(literal(rounds * step)), b.constant(literal(step)));
        let hi = b.binary(BinaryOp::Add, lo, span);
        let types = self.flowing_types(self.divergent);
        let inits = self.values_of(&types);
        let block = self.kernel.add_block();
        let iv = self.kernel.add_arg(block, Type::scalar(elem));
        let args = self.arguments_of(block, &types);
        let varying = self.thread.is_some();
        self.region(block, false, |g| {
            g.keep(iv, false);
            g.keep_all(&args, varying);
            g.some_statements();
            (OpKind::Yield, g.values_of(&types))
        });
        let operands = [&[lo, hi, step][..], &inits].concat();
        self.append(OpKind::For, &operands, &types, &[block], varying);
    }

    fn arguments_of(&mut self, block: Block, types: &[Type]) -> Vec<Value> {
        types.iter().map(|ty| self.kernel.add_arg(block, ty.clone())).collect()
    }

    /// A `while` that counts to four at most. Over threads its condition varies.
    pub(super) fn while_loop(&mut self) {
        if self.depth >= self.options.depth {
            return self.expression();
        }
        let varying = self.thread.is_some();
        let mut types = vec![Type::scalar(Scalar::I32)];
        types.extend(self.flowing_types(self.divergent || varying));
        let mut inits = self.values_of(&types);
        let zero = Literal::zero(Scalar::I32);
        inits[0] = self.builder().constant(zero);
        let regions = [self.kernel.add_block(), self.kernel.add_block()];
        let rounds = Literal::wrapping(Scalar::I32, self.rng.below(5) as i128);

        let args = self.arguments_of(regions[0], &types);
        self.region(regions[0], varying, |g| {
            let count = args[0];
            g.keep_all(&args, varying);
            g.expression();
            let other = g.of_type(&Type::scalar(Scalar::Bool)).value;
            let mut b = g.builder();
            let rounds = b.constant(rounds);
            let more = b.compare(CompareOp::Lt, count, rounds);
            (OpKind::Condition, vec![b.binary(BinaryOp::And, more, other)])
        });

        let args = self.arguments_of(regions[1], &types);
        self.region(regions[1], varying, |g| {
            let count = args[0];
            g.keep_all(&args, varying);
            g.some_statements();
            let mut next = g.values_of(&types);
            let mut b = g.builder();
            let one = b.constant(Literal::one(Scalar::I32));
            next[0] = b.binary(BinaryOp::Add, count, one);
            (OpKind::Yield, next)
        });
        self.append(OpKind::While, &inits, &types, &regions, varying);
    }

    /// A fault region, half of them with a budget of a few steps.
    pub(super) fn fault_region(&mut self) {
        if self.depth >= self.options.depth {
            return self.expression();
        }
        let steps = if self.rng.one_in(2) { 1 + self.rng.below(8) } else { 0 };
        let budget = if self.rng.one_in(4) {
            let any = self.of_type(&Type::scalar(Scalar::U32));
            // A budget of its own for each thread has none over tiles.
            if any.varying && !self.divergent { None } else { Some(any.value) }
        } else {
            None
        };
        let budget =
            budget.unwrap_or_else(|| self.builder().constant(Literal::wrapping(Scalar::U32, steps as i128)));
        let types = self.flowing_types(self.divergent);
        let operands = [vec![budget], self.values_of(&types)].concat();
        let block = self.kernel.add_block();
        let outer = std::mem::replace(&mut self.in_fault_region, true);
        self.region(block, false, |g| {
            g.some_statements();
            (OpKind::Yield, g.values_of(&types))
        });
        self.in_fault_region = outer;
        let results = [vec![Type::scalar(Scalar::U32)], types].concat();
        let varying = self.thread.is_some();
        self.append(OpKind::FaultRegion, &operands, &results, &[block], varying);
    }

    /// An assert or a print.
    pub(super) fn diagnose(&mut self) {
        let value = self.of_type(&Type::scalar(Scalar::I32)).value;
        if self.options.prints && self.rng.one_in(2) {
            let message = self.kernel.message("value {}\n\"quoted\"");
            self.builder().op(OpKind::Print(message), &[value], &[]);
            return;
        }
        let cond = if self.may_fault() && self.rng.one_in(4) {
            self.operand(|e| e == Scalar::Bool)
        } else {
            // True of every integer, which a pass may find out.
            let x = self.operand(Scalar::is_int);
            Entry { value: self.builder().compare(CompareOp::Eq, x.value, x.value), ..x }
        };
        if self.ty(cond.value).elem() == Scalar::Bool {
            let value = if self.ty(cond.value).is_scalar() { value } else { self.uniform(Scalar::I32) };
            let message = self.kernel.message("{} is not itself");
            self.builder().op(OpKind::Assert(message), &[cond.value, value], &[]);
        }
    }
}

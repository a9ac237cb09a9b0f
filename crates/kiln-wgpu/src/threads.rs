//! Which thread and block this is, and barriers.

use crate::body::Expr;
use crate::types::integer;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Axis, Op, OpData, Scope, Value};
use naga::{
    AddressSpace, Barrier, BinaryOperator as B, Binding, BuiltIn, Expression, FunctionArgument, Scalar,
    Statement, TypeInner, VectorSize,
};

impl Writer<'_> {
    /// Finds the positions that the kernel asks for, before anything that depends on them.
    pub(crate) fn find_positions(&mut self) {
        let (mut local, mut group, mut count, mut lanes, mut first) = (false, false, false, false, false);
        self.kernel.walk(|_, data| {
            use kiln_ir::OpKind as O;
            local |= matches!(data.kind, O::ThreadId(_));
            group |= matches!(data.kind, O::ProgramId(_));
            count |= matches!(data.kind, O::NumPrograms(_));
            lanes |= matches!(data.kind, O::Shuffle(_) | O::Vote(_));
            first |= data.kind == O::BlockUniform;
        });
        let triple = self.type_of(TypeInner::Vector { size: VectorSize::Tri, scalar: Scalar::U32 });
        let word = self.scalar_type(Scalar::U32);
        let native = lanes && self.features.native_warps();
        let argument = |w: &mut Self, asked: bool, name: &str, built_in, ty| {
            asked.then(|| {
                let binding = Some(Binding::BuiltIn(built_in));
                let index = w.body.function.arguments.len() as u32;
                w.body.function.arguments.push(FunctionArgument { name: Some(name.into()), ty, binding });
                w.body.add(Expression::FunctionArgument(index))
            })
        };
        let local_id = argument(self, local && !native, "local_id", BuiltIn::LocalInvocationId, triple);
        let local_index =
            argument(self, !native && (lanes || first), "local_index", BuiltIn::LocalInvocationIndex, word);
        let group_id = argument(self, group, "group_id", BuiltIn::WorkGroupId, triple);
        let group_count = argument(self, count, "group_count", BuiltIn::NumWorkGroups, triple);
        let subgroup_id = argument(self, native, "subgroup_id", BuiltIn::SubgroupId, word);
        let lane = argument(self, native, "lane", BuiltIn::SubgroupInvocationId, word);
        let b = &mut self.builtins;
        (b.local_id, b.local_index, b.group_id, b.group_count) =
            (local_id, local_index, group_id, group_count);
        (b.subgroup_id, b.subgroup_lane) = (subgroup_id, lane);
        if let (Some(subgroup), Some(lane)) = (subgroup_id, lane) {
            let width = self.body.u32(self.features.warp);
            let first = self.body.binary(B::Multiply, subgroup, width);
            let index = self.body.binary(B::Add, first, lane);
            self.body.name(index, "local_index".into());
            self.builtins.local_index = Some(index);
        }
    }

    /// The number of the thread in its block, x fastest.
    pub(crate) fn thread(&self) -> Result<Expr> {
        self.builtins.local_index.ok_or_else(|| self.internal("the thread has no number".into()))
    }

    pub(crate) fn thread_id(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        let word = match self.builtins.local_id {
            Some(ids) => self.body.member(ids, axis as u32),
            None => {
                let thread = self.thread()?;
                self.position(thread, axis)
            }
        };
        self.set_index(op, word, format!("thread_{}", axis.name()));
        Ok(())
    }

    /// The index on an axis of the thread with a number.
    fn position(&mut self, thread: Expr, axis: Axis) -> Expr {
        let inner: u32 = self.block[..axis as usize].iter().product();
        let (inner, extent) = (self.body.u32(inner), self.body.u32(self.block[axis as usize]));
        let outer = self.body.binary(B::Divide, thread, inner);
        self.body.binary(B::Modulo, outer, extent)
    }

    pub(crate) fn program_id(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        self.group(op, self.builtins.group_id, axis, "program")
    }

    pub(crate) fn num_programs(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        self.group(op, self.builtins.group_count, axis, "programs")
    }

    fn group(&mut self, op: &OpData, of: Option<Expr>, axis: Axis, name: &str) -> Result<()> {
        let of = of.ok_or_else(|| self.internal("the block has no number".into()))?;
        let word = self.body.member(of, axis as u32);
        self.set_index(op, word, format!("{name}_{}", axis.name()));
        Ok(())
    }

    fn set_index(&mut self, op: &OpData, word: Expr, name: String) {
        let index = self.body.convert(word, self.index_scalar());
        self.body.name(index, name);
        self.set(op, index);
    }

    pub(crate) fn block_dim(&mut self, op: &OpData, axis: Axis) {
        let extent = integer(self.index_scalar(), self.block[axis as usize]);
        let extent = self.body.literal(extent);
        self.set(op, extent);
    }

    pub(crate) fn barrier(&mut self) {
        let mut barrier = Barrier::WORK_GROUP;
        barrier.set(Barrier::STORAGE, self.regions.shares_storage);
        self.body.push(Statement::ControlBarrier(barrier));
    }

    /// A fence of the block is a barrier, for want of anything less; one of the device orders
    /// nothing there.
    pub(crate) fn fence(&mut self, op: Op, scope: Scope) -> Result<()> {
        let data = self.kernel.op(op);
        if scope != Scope::Block {
            let hint = "Put flag and value into one word.";
            return Err(self.unsupported(data, format!("a fence of the scope `{}`", scope.name()), hint));
        }
        self.together(op)?;
        self.barrier();
        Ok(())
    }

    /// All threads of the block reach the operation together.
    pub(crate) fn together(&self, op: Op) -> Result<()> {
        let data = self.kernel.op(op);
        match self.uniformity.diverges(op) {
            false => Ok(()),
            true => {
                let what = format!("`{}` where only some threads of the block are", data.kind.mnemonic());
                Err(self.unsupported(data, what, "Move it to where all threads are."))
            }
        }
    }

    /// The value that the first thread has.
    pub(crate) fn block_uniform(&mut self, op: Op) -> Result<()> {
        self.together(op)?;
        let data = self.kernel.op(op);
        let input: Value = data.input();
        let (value, scalar) = (self.get(input)?, self.scalar(data, input)?);
        let array = self.array("first".into(), AddressSpace::WorkGroup, None, (scalar, false), Some(1));
        let pointer = self.body.member(array, 0);
        let (thread, zero) = (self.thread()?, self.body.u32(0));
        let first = self.body.binary(B::Equal, thread, zero);
        let outer = self.body.begin();
        self.body.store(pointer, value);
        let accept = self.body.end(outer);
        self.body.branch(first, accept, naga::Block::new());
        let ty = self.scalar_type(scalar);
        let result = self.body.result(Expression::WorkGroupUniformLoadResult { ty });
        self.body.push(Statement::WorkGroupUniformLoad { pointer, result });
        self.set(data, result);
        Ok(())
    }
}

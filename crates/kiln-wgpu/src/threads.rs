//! Which thread and block this is, and barriers.
//!
//! A grid that an adapter cannot dispatch is folded ([`Dispatch`](crate::Dispatch)): the block's
//! index follows from the workgroup's number, and workgroups without a block leave first of all.

use crate::body::Expr;
use crate::parameters::Parameter;
use crate::types::integer;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Axis, Op, OpData, Scalar as Elem, Scope, Value};
use naga::{
    AddressSpace, Barrier, BinaryOperator as B, Binding, BuiltIn, Expression, FunctionArgument, Scalar,
    Statement, TypeInner, VectorSize,
};

/// The type of indices on all axes.
pub(crate) const VECTOR: TypeInner = TypeInner::Vector { size: VectorSize::Tri, scalar: Scalar::U32 };

impl Writer<'_> {
    /// Finds the positions that the kernel asks for, before anything that depends on them.
    pub(crate) fn find_positions(&mut self, reports: bool) {
        let (mut local, mut lanes, mut first) = (reports, false, self.exits.decides);
        self.kernel.walk(|_, data| {
            use kiln_ir::OpKind as O;
            local |= matches!(data.kind, O::ThreadId(_));
            lanes |= matches!(data.kind, O::Shuffle(_) | O::Vote(_) | O::WarpBarrier | O::Fragment(_));
            first |= data.kind == O::BlockUniform;
        });
        let triple = self.type_of(VECTOR);
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
        let group_id = argument(self, true, "group_id", BuiltIn::WorkGroupId, triple);
        let subgroup_id = argument(self, native, "subgroup_id", BuiltIn::SubgroupId, word);
        let lane = argument(self, native, "lane", BuiltIn::SubgroupInvocationId, word);
        let b = &mut self.builtins;
        (b.local_id, b.local_index, b.group_id) = (local_id, local_index, group_id);
        (b.subgroup_id, b.subgroup_lane) = (subgroup_id, lane);
        if let (Some(subgroup), Some(lane)) = (subgroup_id, lane) {
            let width = self.body.u32(self.features.warp);
            let first = self.body.binary(B::Multiply, subgroup, width);
            let index = self.body.binary(B::Add, first, lane);
            self.body.name(index, "local_index".into());
            self.builtins.local_index = Some(index);
        }
    }

    /// The extents of workgroups: those of blocks, or all threads on one axis, as naga asks of
    /// modules that use the numbers of subgroups.
    pub(crate) fn workgroup_size(&self) -> [u32; 3] {
        if self.builtins.subgroup_id.is_some() { [self.threads(), 1, 1] } else { self.block }
    }

    /// The number of the thread in its block, x fastest.
    pub(crate) fn thread(&self) -> Result<Expr> {
        self.builtins.local_index.ok_or_else(|| self.internal("the thread has no number".into()))
    }

    pub(crate) fn thread_id(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        let word = self.thread_index(axis)?;
        self.set_word(op, word, format!("thread_{}", axis.name()))
    }

    fn thread_index(&mut self, axis: Axis) -> Result<Expr> {
        match self.builtins.local_id {
            Some(ids) => Ok(self.body.member(ids, axis as u32)),
            None => {
                let thread = self.thread()?;
                Ok(self.position(thread, axis))
            }
        }
    }

    /// The thread's index on all axes.
    pub(crate) fn thread_indices(&mut self) -> Result<Expr> {
        if let Some(ids) = self.builtins.local_id {
            return Ok(ids);
        }
        let ty = self.type_of(VECTOR);
        let components = [Axis::X, Axis::Y, Axis::Z]
            .map(|axis| self.thread_index(axis))
            .into_iter()
            .collect::<Result<_>>()?;
        Ok(self.body.add(Expression::Compose { ty, components }))
    }

    /// The index on an axis of the thread with a number.
    fn position(&mut self, thread: Expr, axis: Axis) -> Expr {
        let inner: u32 = self.block[..axis as usize].iter().product();
        let (inner, extent) = (self.body.u32(inner), self.body.u32(self.block[axis as usize]));
        let outer = self.body.binary(B::Divide, thread, inner);
        self.body.binary(B::Modulo, outer, extent)
    }

    /// Finds the block's index on all axes. A workgroup that has no block leaves.
    pub(crate) fn find_program(&mut self) -> Result<()> {
        let group = self.builtins.group_id.ok_or_else(|| self.internal("the block has no number".into()))?;
        let [fold, width, height, depth] =
            [Parameter::Fold, Parameter::Grid(0), Parameter::Grid(1), Parameter::Grid(2)]
                .map(|parameter| self.word(parameter));
        let (fold, width, height, depth) = (fold?, width?, height?, depth?);
        let ty = self.type_of(VECTOR);
        let program = self.body.variable("program", ty, None);
        self.body.store(program, group);
        let zero = self.body.u32(0);
        let is_folded = self.body.binary(B::NotEqual, fold, zero);
        let outer = self.body.begin();
        let b = &mut self.body;
        let (column, row) = (b.member(group, 0), b.member(group, 1));
        let before = b.binary(B::Multiply, row, fold);
        let number = b.binary(B::Add, before, column);
        let (x, rows) = (b.binary(B::Modulo, number, width), b.binary(B::Divide, number, width));
        let (y, z) = (b.binary(B::Modulo, rows, height), b.binary(B::Divide, rows, height));
        let beyond = b.binary(B::GreaterEqual, z, depth);
        self.return_if(beyond);
        let indices = self.body.add(Expression::Compose { ty, components: vec![x, y, z] });
        self.body.store(program, indices);
        let accept = self.body.end(outer);
        self.body.branch(is_folded, accept, naga::Block::new());
        self.builtins.program = Some(self.body.load(program));
        Ok(())
    }

    /// A field of the parameter block that every module has.
    pub(crate) fn word(&self, parameter: Parameter) -> Result<Expr> {
        self.parameter(parameter).ok_or_else(|| self.internal(format!("no field holds {parameter:?}")))
    }

    /// The block's index on all axes.
    pub(crate) fn program(&self) -> Result<Expr> {
        self.builtins.program.ok_or_else(|| self.internal("the block has no index".into()))
    }

    /// The number by which a report names the program.
    pub(crate) fn program_number(&self) -> Result<Expr> {
        self.word(Parameter::Program)
    }

    pub(crate) fn program_id(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        let program = self.program()?;
        let word = self.body.member(program, axis as u32);
        self.set_word(op, word, format!("program_{}", axis.name()))
    }

    pub(crate) fn num_programs(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        let word = self.word(Parameter::Grid(axis as u32))?;
        self.set_word(op, word, format!("programs_{}", axis.name()))
    }

    fn set_word(&mut self, op: &OpData, word: Expr, name: String) -> Result<()> {
        let scalar = self.index_scalar();
        // By way of u64: naga extends a u32 that becomes an i64 by its sign in SPIR-V.
        let index = self.resized(word, Scalar::U32, scalar);
        self.body.name(index, name);
        self.set_index(op, index)
    }

    pub(crate) fn block_dim(&mut self, op: &OpData, axis: Axis) -> Result<()> {
        let extent = integer(self.index_scalar(), self.block[axis as usize]);
        let extent = self.body.literal(extent);
        self.set_index(op, extent)
    }

    pub(crate) fn barrier(&mut self) {
        let mut barrier = Barrier::WORK_GROUP;
        barrier.set(Barrier::STORAGE, self.regions.shares_storage);
        self.body.push(Statement::ControlBarrier(barrier));
    }

    /// A barrier of a whole warp: one of the subgroup where that is the warp, elsewhere one of the
    /// block. One of some lanes has no counterpart.
    pub(crate) fn warp_barrier(&mut self, op: Op) -> Result<()> {
        let data = self.kernel.op(op);
        let lanes = self.kernel.as_const(data.lanes()).map(|literal| literal.bits() as u32);
        if lanes != Some(u32::MAX) {
            let what = "`warp_barrier` of some lanes of a warp".to_owned();
            return Err(self.unsupported(data, what, "Let all lanes reach a `sync_warp()`."));
        }
        if !self.features.warp_barriers() {
            self.together(op)?;
            self.barrier();
            return Ok(());
        }
        let mut barrier = Barrier::SUB_GROUP | Barrier::WORK_GROUP;
        barrier.set(Barrier::STORAGE, self.regions.shares_storage);
        self.body.push(Statement::ControlBarrier(barrier));
        Ok(())
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
        let scalar = self.require(Some(data), self.elem(input))?;
        let value = self.get_as(input, scalar)?;
        // A bool is a word there, as in allocations.
        let is_bool = scalar == Scalar::BOOL;
        let (value, scalar) = match is_bool {
            true => (self.pack(value, Elem::Bool), Scalar::U32),
            false => (value, scalar),
        };
        let array = self.array("first".into(), AddressSpace::WorkGroup, None, (scalar, false), Some(1));
        let pointer = self.body.member(array, 0);
        self.in_first_thread(|w| w.body.store(pointer, value))?;
        let ty = self.scalar_type(scalar);
        let result = self.body.result(Expression::WorkGroupUniformLoadResult { ty });
        self.body.push(Statement::WorkGroupUniformLoad { pointer, result });
        let result = if is_bool { self.unpack(result, Elem::Bool) } else { result };
        self.set(data, result);
        Ok(())
    }
}

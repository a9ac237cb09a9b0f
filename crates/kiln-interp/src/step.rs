//! One operation, of those without regions.

use crate::access::{self, Elements, Region};
use crate::eval::{self, Order};
use crate::machine::Machine;
use crate::mask::Mask;
use crate::pointer::Pointers;
use crate::program::allocation_bytes;
use crate::register::Register;
use crate::spaces::Spaces;
use crate::threads;
use crate::trap::Trap;
use crate::value::{Data, View};
use kiln_backend::{FaultKind, Finding};
use kiln_ir::{Bounds, Check, LinearOp, Op, OpData, OpKind, Scalar, Shape, Space, Value};

impl Machine<'_> {
    /// Executes an operation in the active threads.
    pub fn step(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let kept = self.kept(&data.results, mask);
        self.execute(op, data, mask)?;
        self.restore(kept, &data.results, mask)
    }

    /// Executes an operation, of which the results in other threads may be anything.
    fn execute(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        match &data.kind {
            // Set once for the launch, or read by the operation around.
            OpKind::Const(_)
            | OpKind::Iota
            | OpKind::ThreadId(_)
            | OpKind::BlockDim(_)
            | OpKind::NumPrograms(_) => Ok(()),
            OpKind::Yield | OpKind::Condition | OpKind::Fence(_) | OpKind::Sleep => Ok(()),
            OpKind::Load(_) | OpKind::Store { .. } | OpKind::Gather { .. } | OpKind::Scatter { .. } => {
                self.access(data, mask)
            }
            OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. } => self.access(data, mask),
            OpKind::LoadQuad(_) | OpKind::StoreQuad(_) => self.quad(data, mask),
            OpKind::Cluster(_) => self.store_quad_in_cluster(data, mask),
            OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::PtrOrderedLoad { .. }
            | OpKind::PtrOrderedStore { .. } => self.pointer(data, mask),
            OpKind::Atomic128 { op, .. } => self.atomic_128(data, *op, mask),
            OpKind::PtrAtomic128 { op, space, .. } => self.pointer_128(data, (*op, *space), mask),
            OpKind::Linear { op, .. } => self.linear(data, *op, mask),
            OpKind::Scratch { offset } if self.kernel.ty(data.results[0]).as_view().is_some() => {
                self.scratch_view(data.results[0], *offset)
            }
            OpKind::Fragment(op) => self.fragment(data, *op, mask),
            OpKind::AsyncCopy(op) => self.async_copy(data, *op, mask),
            OpKind::Alloc { space, elem, shape } => {
                self.alloc(op, data.results[0], (*space, *elem, shape), mask)
            }
            OpKind::Barrier => self.barrier(mask),
            OpKind::WarpBarrier => self.warp_barrier(data, mask),
            OpKind::BlockUniform => {
                self.need_all("a value of the first thread for all", mask)?;
                let first = self.data(data.input()).bits(0);
                self.registers[data.results[0].index()].fill(first);
                Ok(())
            }
            OpKind::Clock(_) => {
                let now = self.spaces.global.steps;
                self.registers[data.results[0].index()].fill(now);
                Ok(())
            }
            OpKind::Assert(message) => self.assert(data, *message, mask),
            OpKind::Print(message) => self.print(data, *message, mask),
            OpKind::CheckBounds | OpKind::CheckDivisor => self.check(data, mask),
            OpKind::BlockCheck(check) => {
                self.need_all("a check of the whole block", mask)?;
                match check {
                    Check::Assert(message) => self.assert(data, *message, mask),
                    Check::Bounds | Check::Divisor => self.check(data, mask),
                }
            }
            // The launch ends here, so that nothing comes after it.
            OpKind::DeferFault { check: Check::Assert(message), .. } => self.assert(data, *message, mask),
            OpKind::DeferFault { .. } => self.check(data, mask),
            OpKind::Faulted => {
                self.registers[data.results[0].index()].fill(0);
                Ok(())
            }
            OpKind::If | OpKind::For | OpKind::While | OpKind::FaultRegion => {
                Err(Trap::Bug("a region in a straight line".into()))
            }
            OpKind::ProgramId(_)
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Reduce { .. }
            | OpKind::Scan { .. }
            | OpKind::Dot(_)
            | OpKind::Extent(_)
            | OpKind::Stride(_)
            | OpKind::Shuffle(_)
            | OpKind::Vote(_)
            | OpKind::Address
            | OpKind::Scratch { .. } => self.evaluate(data, mask),
            OpKind::GridBarrier => Err(Trap::Bug("a barrier of the grid in a step".into())),
            OpKind::InlinePtx(_) => Err(Trap::Bug("PTX in the interpreter".into())),
            OpKind::Explicit(_) => Err(Trap::Bug("an operation of the explicit level in a step".into())),
        }
    }

    /// Gives a result its value: `f` gets its register, and the machine without it.
    fn define(
        &mut self,
        value: Value,
        f: impl FnOnce(&mut Data, &mut Self) -> Result<(), Trap>,
    ) -> Result<(), Trap> {
        let mut out = std::mem::take(&mut self.registers[value.index()]);
        let result = f(&mut out, self);
        self.registers[value.index()] = out;
        result
    }

    /// Operations that touch no memory and have one result.
    fn evaluate(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let [result] = data.results[..] else {
            return Err(Trap::Bug(format!("{:?} with {} results", data.kind, data.results.len())));
        };
        self.define(result, |out, m| {
            let tile = m.is_tile(result);
            let input = || m.data(data.input());
            match &data.kind {
                OpKind::ProgramId(axis) => out.fill(m.block[*axis as usize].into()),
                OpKind::Unary(op) => eval::unary(*op, out, input())?,
                OpKind::Binary(op) => {
                    let (left, right) = (m.data(data.left()), m.data(data.right()));
                    eval::binary(*op, out, left, right, (!tile).then_some(mask))?
                }
                OpKind::Compare(op) => eval::compare(*op, out, m.data(data.left()), m.data(data.right()))?,
                OpKind::Select => {
                    let arms = [data.if_true(), data.if_false()].map(|v| m.data(v));
                    eval::select(out, m.data(data.condition()), arms[0], arms[1])?
                }
                OpKind::Fma => {
                    let [a, b, c] = [data.left(), data.right(), data.addend()].map(|v| m.data(v));
                    eval::fma(out, a, b, c)?
                }
                OpKind::Cast => eval::cast(out, input())?,
                OpKind::Bitcast => eval::bitcast(out, input())?,
                OpKind::Broadcast if tile => {
                    let at = m.uniform(data.input(), mask)?;
                    eval::broadcast(out, &m.shape(result), input(), &m.shape(data.input()), at)?;
                }
                OpKind::Broadcast => out.copy(input())?,
                OpKind::Reshape if tile && m.is_tile(data.input()) => out.copy(input())?,
                OpKind::Reshape => out.fill(input().bits(m.uniform(data.input(), mask)?)),
                OpKind::Transpose(perm) if tile => {
                    eval::transpose(out, &m.shape(result), input(), &m.shape(data.input()), perm)?
                }
                OpKind::Transpose(_) => out.copy(input())?,
                OpKind::Reduce { op, axis } => {
                    eval::reduce(*op, out, input(), &m.shape(data.input()), *axis as usize)?;
                    if !tile {
                        out.fill(out.bits(0));
                    }
                }
                OpKind::Scan { op, axis, reverse, exclusive } => {
                    let order = Order { reverse: *reverse, exclusive: *exclusive };
                    eval::scan(*op, order, out, input(), &m.shape(data.input()), *axis as usize)?;
                }
                OpKind::Dot(_) => {
                    let [a, b, acc] = [data.left(), data.right(), data.addend()].map(|v| m.data(v));
                    let shape = m.shape(data.right());
                    eval::dot(out, a, b, acc, shape[0] as usize, shape[1] as usize)?;
                }
                OpKind::Extent(axis) => out.fill(m.view(data.view())?.extents[*axis as usize] as u64),
                OpKind::Stride(axis) => out.fill(m.view(data.view())?.strides[*axis as usize] as u64),
                OpKind::Shuffle(mode) => {
                    let warp = m.loaded.warp;
                    threads::shuffle(*mode, out, input(), m.data(data.lane()), (mask, m.here()), warp)?
                }
                OpKind::Vote(mode) => {
                    threads::vote(*mode, out, m.data(data.condition()), (mask, m.here()), m.loaded.warp)?
                }
                OpKind::Address => out.fill(m.view(data.view())?.base),
                OpKind::Scratch { offset } => out.fill((*offset).into()),
                // `execute` does not hand these on.
                OpKind::Const(_)
                | OpKind::Iota
                | OpKind::ThreadId(_)
                | OpKind::BlockDim(_)
                | OpKind::NumPrograms(_)
                | OpKind::Alloc { .. }
                | OpKind::Load(_)
                | OpKind::Store { .. }
                | OpKind::Gather { .. }
                | OpKind::Scatter { .. }
                | OpKind::Atomic { .. }
                | OpKind::AtomicCas { .. }
                | OpKind::Fence(_)
                | OpKind::OrderedLoad { .. }
                | OpKind::OrderedStore { .. }
                | OpKind::LoadQuad(_)
                | OpKind::StoreQuad(_)
                | OpKind::Atomic128 { .. }
                | OpKind::Barrier
                | OpKind::WarpBarrier
                | OpKind::BlockUniform
                | OpKind::GridBarrier
                | OpKind::Cluster(_)
                | OpKind::AsyncCopy(_)
                | OpKind::Clock(_)
                | OpKind::InlinePtx(_)
                | OpKind::Sleep
                | OpKind::If
                | OpKind::For
                | OpKind::While
                | OpKind::Yield
                | OpKind::Condition
                | OpKind::FaultRegion
                | OpKind::Assert(_)
                | OpKind::Print(_)
                | OpKind::Explicit(_)
                | OpKind::Fragment(_)
                | OpKind::Linear { .. }
                | OpKind::PtrLoad { .. }
                | OpKind::PtrStore { .. }
                | OpKind::PtrAtomic { .. }
                | OpKind::PtrAtomicCas { .. }
                | OpKind::PtrOrderedLoad { .. }
                | OpKind::PtrOrderedStore { .. }
                | OpKind::PtrAtomic128 { .. }
                | OpKind::CheckBounds
                | OpKind::CheckDivisor
                | OpKind::BlockCheck(_)
                | OpKind::DeferFault { .. }
                | OpKind::Faulted => {
                    return Err(Trap::Bug(format!("`{}` as a value of registers", data.kind.mnemonic())));
                }
            }
            Ok(())
        })
    }

    /// The register position of a scalar that must be the same in all active threads.
    fn uniform(&self, value: Value, mask: &Mask) -> Result<usize, Trap> {
        if self.is_tile(value) {
            return Ok(0);
        }
        let data = self.data(value);
        let first = mask.first().unwrap_or(0);
        match mask.lanes().find(|&lane| data.bits(lane) != data.bits(first)) {
            None => Ok(first),
            Some(lane) => {
                let (a, b) = (data.display(first), data.display(lane));
                let detail =
                    format!("a tile operation takes {a} from thread {first} and {b} from thread {lane}");
                Err(Trap::finding(Finding::Divergence, detail))
            }
        }
    }

    fn barrier(&mut self, mask: &Mask) -> Result<(), Trap> {
        self.need_all("a barrier", mask)?;
        self.spaces.order.barrier();
        Ok(())
    }

    fn warp_barrier(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let named = self.data(data.lanes());
        let groups = threads::warp_barrier(named, (mask, self.here()), self.loaded.warp)?;
        groups.iter().for_each(|lanes| self.spaces.order.meet(lanes));
        Ok(())
    }

    fn alloc(
        &mut self,
        op: Op,
        result: Value,
        (space, elem, shape): (Space, Scalar, &Shape),
        mask: &Mask,
    ) -> Result<(), Trap> {
        let address = self.loaded.allocations.get(&op).copied();
        let base = address.ok_or_else(|| Trap::Bug("an allocation without an address".into()))?;
        self.views[result.index()] = Some(View {
            space,
            base,
            elem_bytes: elem.bytes().into(),
            extents: shape.extents().iter().map(|&e| e.into()).collect(),
            strides: (0..shape.rank()).map(|i| shape.around(i).2 as i64).collect(),
        });
        self.spaces.forget(space, base, allocation_bytes(elem, shape), mask);
        Ok(())
    }

    /// `CheckBounds` and `CheckDivisor`.
    fn check(&self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let ok = bool::of(self.data(data.condition()))?;
        let Some(lane) = mask.lanes().find(|&lane| !ok[lane]) else { return Ok(()) };
        let kind = match *data.reported() {
            [index, extent] => FaultKind::OutOfBounds {
                index: i64::of(self.data(index))?[lane],
                extent: i64::of(self.data(extent))?[lane],
            },
            _ => FaultKind::DivisionByZero,
        };
        Err(Trap::Fault { kind, lane: Some(lane) })
    }

    /// A view from a byte of the scratch memory to its end.
    fn scratch_view(&mut self, result: Value, offset: u32) -> Result<(), Trap> {
        let kernel = &self.loaded.kernel;
        let elem_bytes = kernel.ty(result).elem().bytes();
        let extent = (kernel.scratch_bytes - offset) / elem_bytes;
        self.views[result.index()] = Some(View {
            space: Space::Shared,
            base: offset.into(),
            elem_bytes: elem_bytes.into(),
            extents: vec![extent.into()],
            strides: vec![1],
        });
        Ok(())
    }

    /// Accesses through views. Operands: the view, an index or offset for each axis, then what the
    /// operation adds.
    fn access(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let view = self.view(data.view())?.clone();
        let (indices, rest) = (data.coordinates(), data.access_values());
        if indices.len() != view.extents.len() {
            return Err(Trap::Bug("an access with other than an index for each axis".into()));
        }
        let tile = data.results.first().or(rest.last()).is_some_and(|&v| self.is_tile(v));
        if tile {
            self.need_all("a tile access", mask)?;
        }
        if tile && matches!(data.kind, OpKind::Load(_) | OpKind::Store { .. }) {
            return self.access_box(data, &view, indices, rest, mask);
        }
        self.access_elements(data, &view, indices, rest, (!tile).then_some(mask))
    }

    fn access_box(
        &mut self,
        data: &OpData,
        view: &View,
        offsets: &[Value],
        rest: &[Value],
        mask: &Mask,
    ) -> Result<(), Trap> {
        let offsets = offsets
            .iter()
            .map(|&o| Ok(i64::of(self.data(o))?[self.uniform(o, mask)?]))
            .collect::<Result<Vec<i64>, Trap>>()?;
        match (data.results.first(), rest) {
            (Some(&result), [padding]) => {
                let padding = self.data(*padding).bits(self.uniform(*padding, mask)?);
                let region = Region { view, offsets: &offsets, shape: &self.shape(result) };
                self.define(result, |out, m| access::load(&mut m.spaces, &region, padding, out))
            }
            (None, [tile]) => {
                let region = Region { view, offsets: &offsets, shape: &self.shape(*tile) };
                access::store(&mut self.spaces, &region, &self.registers[tile.index()])
            }
            _ => Err(Trap::Bug("a box access with wrong operands".into())),
        }
    }

    fn access_elements(
        &mut self,
        data: &OpData,
        view: &View,
        indices: &[Value],
        rest: &[Value],
        threads: Option<&Mask>,
    ) -> Result<(), Trap> {
        // A box of rank 0 lies inside any view of rank 0.
        let bounds = data.kind.bounds().unwrap_or(Bounds::Trust);
        let atomic = matches!(
            data.kind,
            OpKind::Atomic { .. }
                | OpKind::AtomicCas { .. }
                | OpKind::OrderedLoad { .. }
                | OpKind::OrderedStore { .. }
        );
        let chosen = data.mask();
        let Machine { registers, spaces, .. } = self;
        let mut out = data.results.first().map(|r| std::mem::take(&mut registers[r.index()]));
        let register = |v: &Value| &registers[v.index()];
        let indices = indices.iter().map(|i| register(i).indices()).collect::<Result<_, _>>()?;
        let chosen = chosen.map(|c| bool::of(register(&c))).transpose()?;
        let asynchronous = matches!(data.kind, OpKind::Scatter { asynchronous: true, .. });
        let elements = Elements { view, indices, chosen, threads, bounds, atomic, asynchronous };
        let result = run_elements(&elements, data, rest, &register, spaces, out.as_mut());
        drop(elements);
        if let (Some(&value), Some(out)) = (data.results.first(), out) {
            self.registers[value.index()] = out;
        }
        result
    }

    /// Accesses by address.
    fn pointer(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let (OpKind::PtrLoad { space, .. }
        | OpKind::PtrStore { space, .. }
        | OpKind::PtrAtomic { space, .. }
        | OpKind::PtrAtomicCas { space, .. }
        | OpKind::PtrOrderedLoad { space, .. }
        | OpKind::PtrOrderedStore { space, .. }) = data.kind
        else {
            return Err(Trap::Bug("no access by address".into()));
        };
        let Machine { registers, spaces, .. } = self;
        let mut out: Vec<Data> =
            data.results.iter().map(|r| std::mem::take(&mut registers[r.index()])).collect();
        let register = |v: &Value| &registers[v.index()];
        let predicate = data.mask();
        let predicate = predicate.as_ref().map(register);
        let ordered = matches!(data.kind, OpKind::PtrOrderedLoad { .. } | OpKind::PtrOrderedStore { .. });
        let addresses = register(&data.address());
        let pointers = Pointers { space, addresses, predicate, mask, ordered };
        let missing = || Trap::Bug("an atomic operation without a result".into());
        let result = if let OpKind::PtrAtomic { op, .. } = data.kind {
            let value = register(&data.stored_value());
            out.first_mut().ok_or_else(missing).and_then(|out| pointers.atomic(spaces, op, value, out))
        } else if let OpKind::PtrAtomicCas { .. } = data.kind {
            let (expected, desired) = (register(&data.expected()), register(&data.desired()));
            let out = out.first_mut().ok_or_else(missing);
            out.and_then(|out| pointers.compare_exchange(spaces, expected, desired, out))
        } else if let OpKind::PtrStore { .. } | OpKind::PtrOrderedStore { .. } = data.kind {
            let values: Vec<&Data> = data.stored_values().iter().map(register).collect();
            pointers.store(spaces, &values)
        } else {
            pointers.load(spaces, &mut out)
        };
        for (value, out) in data.results.iter().zip(out) {
            registers[value.index()] = out;
        }
        result
    }

    /// Accesses at a linear index.
    fn linear(&mut self, data: &OpData, op: LinearOp, mask: &Mask) -> Result<(), Trap> {
        let view = self.view(data.view())?.clone();
        let indices = self.data(data.index()).indices()?;
        let mut addresses = Data::zeros(Scalar::U64, indices.len());
        for (address, &index) in u64::of_mut(&mut addresses)?.iter_mut().zip(indices.iter()) {
            *address = view.base.wrapping_add((index as u64).wrapping_mul(view.elem_bytes));
        }
        drop(indices);
        if let (LinearOp::Address, &[result]) = (op, &data.results[..]) {
            self.registers[result.index()] = addresses;
            return Ok(());
        }
        let Machine { registers, spaces, .. } = self;
        let mut out: Vec<Data> =
            data.results.iter().map(|r| std::mem::take(&mut registers[r.index()])).collect();
        let register = |v: &Value| &registers[v.index()];
        let predicate = data.mask();
        let predicate = predicate.as_ref().map(register);
        let ordered = matches!(op, LinearOp::OrderedLoad { .. } | LinearOp::OrderedStore { .. });
        let pointers = Pointers { space: view.space, addresses: &addresses, predicate, mask, ordered };
        let result = match (op, &mut out[..]) {
            (LinearOp::Load { .. } | LinearOp::OrderedLoad { .. }, out) => pointers.load(spaces, out),
            (LinearOp::Store { .. } | LinearOp::OrderedStore { .. }, _) => {
                let values: Vec<&Data> = data.stored_values().iter().map(register).collect();
                pointers.store(spaces, &values)
            }
            (LinearOp::Atomic { op, .. }, [out]) => {
                pointers.atomic(spaces, op, register(&data.stored_value()), out)
            }
            (LinearOp::AtomicCas { .. }, [out]) => {
                let (expected, desired) = (data.expected(), data.desired());
                pointers.compare_exchange(spaces, register(&expected), register(&desired), out)
            }
            (LinearOp::Atomic { .. } | LinearOp::AtomicCas { .. } | LinearOp::Address, _) => {
                Err(Trap::Bug("an access without a result".into()))
            }
        };
        for (value, out) in data.results.iter().zip(out) {
            registers[value.index()] = out;
        }
        result
    }
}

/// The element-by-element access that an operation names; `rest` are its operands after the mask.
fn run_elements<'r>(
    elements: &Elements,
    data: &OpData,
    rest: &[Value],
    register: &impl Fn(&Value) -> &'r Data,
    spaces: &mut Spaces,
    out: Option<&mut Data>,
) -> Result<(), Trap> {
    let wrong = || Trap::Bug(format!("`{}` with wrong operands", data.kind.mnemonic()));
    let Some(out) = out else {
        let [values] = rest else { return Err(wrong()) };
        return elements.scatter(spaces, register(values));
    };
    if let OpKind::OrderedLoad { .. } = data.kind {
        return elements.gather(spaces, |_| 0, out);
    }
    if let OpKind::AtomicCas { .. } = data.kind {
        let (expected, desired) = (register(&data.expected()), register(&data.desired()));
        return elements.update(spaces, out, access::compare_exchange(expected, desired));
    }
    let [value] = rest else { return Err(wrong()) };
    let value = register(value);
    if let OpKind::Atomic { op, .. } = data.kind {
        return elements.update(spaces, out, access::atomic(op, value));
    }
    // A tile takes one scalar as the padding of all its elements.
    let each = value.len() == out.len();
    elements.gather(spaces, |i| value.bits(if each { i } else { 0 }), out)
}

//! Copies from global to shared memory in flight: a load of global memory whose elements go to an
//! asynchronous store of shared memory alone becomes an instruction that copies
//! ([`AsyncCopyOp::Copy`]).
//!
//! ```text
//! %v = view_load.x4 %x[%i] where %p : f32, …      %to = view_address %tile[%j]
//! view_store.x4.async %tile[%j] = %v…             %from = view_address %x[%i]
//!                                                 %bytes = select %p, 16, 0
//!                                           →     cp_async %to, %from, %bytes width 16
//! ```
//!
//! A store may have its elements from several loads, and several stores theirs from one, where one
//! side alone is aligned. Each copy stands where its store was, so that nothing but arithmetic,
//! checks, loads and other stores of the kind may lie between it and the load. Any other
//! asynchronous store is done at once, which a program cannot tell from a copy that arrives early.

use kiln_ir::{
    AsyncCopyOp, BinaryOp, Block, Def, Kernel, LinearOp, Literal, Op, OpData, OpKind, Scalar, Space, Type,
    Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Makes all copies arrive at once, for devices whose code is not lowered to threads.
pub(crate) fn at_once(kernel: &mut Kernel) {
    let mut begun = Vec::new();
    let mut any = false;
    kernel.walk(|op, data| {
        if let OpKind::Scatter { asynchronous: true, .. } = data.kind {
            begun.push(op);
        }
        any |= is_about_groups(&data.kind);
    });
    for op in begun {
        if let OpKind::Scatter { asynchronous, .. } = &mut kernel.op_mut(op).kind {
            *asynchronous = false;
        }
    }
    let blocks = if any { kernel.counts().2 } else { 0 };
    for block in (0..blocks).map(Block::from_index) {
        let mut ops = std::mem::take(&mut kernel.block_mut(block).ops);
        ops.retain(|&op| !is_about_groups(&kernel.op(op).kind));
        kernel.block_mut(block).ops = ops;
    }
}

fn is_about_groups(kind: &OpKind) -> bool {
    matches!(kind, OpKind::AsyncCopy(AsyncCopyOp::Commit | AsyncCopyOp::Wait { .. }))
}

/// Makes instructions that copy. Needs accesses at linear indices, adjacent ones joined.
pub(crate) fn form(kernel: &mut Kernel) {
    let mut uses = vec![0u32; kernel.counts().0];
    let mut any = false;
    kernel.walk(|_, data| {
        data.operands.iter().for_each(|v| uses[v.index()] += 1);
        any |= is_asynchronous(data);
    });
    let blocks = if any { kernel.counts().2 } else { 0 };
    for block in (0..blocks).map(Block::from_index) {
        form_in(kernel, block, &uses);
    }
}

fn is_asynchronous(data: &OpData) -> bool {
    matches!(data.kind, OpKind::Linear { op: LinearOp::Store { asynchronous: true, .. }, .. })
}

/// Adjacent elements that a store has from one load.
#[derive(Clone, Copy)]
struct Piece {
    load: Op,
    /// Which of the load's elements is the first, and which of the store's.
    from: u32,
    to: u32,
    lanes: u32,
}

fn form_in(kernel: &mut Kernel, block: Block, uses: &[u32]) {
    let ops = kernel.block(block).ops.clone();
    let mut stores: FxHashMap<Op, Vec<Piece>> = FxHashMap::default();
    for (at, &op) in ops.iter().enumerate() {
        if is_asynchronous(kernel.op(op))
            && let Some(pieces) = pieces(kernel, &ops[..at], op, uses)
        {
            stores.insert(op, pieces);
        }
    }
    let copied = whole_loads(kernel, &mut stores);
    if stores.is_empty() {
        return;
    }
    let mut all = Vec::with_capacity(ops.len());
    for op in ops {
        match stores.get(&op) {
            Some(pieces) => pieces.iter().for_each(|piece| copy(kernel, op, piece, &mut all)),
            None if copied.contains(&op) => {}
            None => all.push(op),
        }
    }
    kernel.block_mut(block).ops = all;
}

/// The loads of which stores copy every element. What has an element of another load is no copy.
fn whole_loads(kernel: &Kernel, stores: &mut FxHashMap<Op, Vec<Piece>>) -> FxHashSet<Op> {
    loop {
        let mut copied: FxHashMap<Op, usize> = FxHashMap::default();
        for piece in stores.values().flatten() {
            *copied.entry(piece.load).or_default() += piece.lanes as usize;
        }
        let is_whole = |load: Op| copied.get(&load) == Some(&kernel.op(load).results.len());
        let before = stores.len();
        stores.retain(|_, pieces| pieces.iter().all(|piece| is_whole(piece.load)));
        if stores.len() == before {
            return copied.into_keys().collect();
        }
    }
}

/// What an asynchronous store has from loads of global memory before it, in pieces of as many bytes
/// as an instruction copies; `None` if it has anything else, or somebody else uses it.
fn pieces(kernel: &Kernel, before: &[Op], store: Op, uses: &[u32]) -> Option<Vec<Piece>> {
    let data = kernel.op(store);
    let bytes = kernel.ty(data.view()).elem().bytes();
    let mut pieces: Vec<Piece> = Vec::new();
    for (&value, to) in data.stored_values().iter().zip(0..) {
        let Def::Result(load, from) = kernel.def(value) else { return None };
        let alone = uses[value.index()] == 1 && data.mask().is_none();
        if !alone || !is_copied(kernel, before, load) {
            return None;
        }
        pieces.push(Piece { load, from, to, lanes: 1 });
        // Two of one size that lie side by side on both sides, the first at a multiple of both.
        while let [.., first, second] = pieces[..]
            && first.load == second.load
            && first.lanes == second.lanes
            && first.from + first.lanes == second.from
            && [first.from, first.to].iter().all(|at| at.is_multiple_of(2 * first.lanes))
        {
            pieces.truncate(pieces.len() - 2);
            pieces.push(Piece { lanes: 2 * first.lanes, ..first });
        }
    }
    pieces.iter().all(|piece| matches!(piece.lanes * bytes, 4 | 8 | 16)).then_some(pieces)
}

/// Whether an operation is a load of global memory among others, after all of which it may happen.
fn is_copied(kernel: &Kernel, before: &[Op], load: Op) -> bool {
    let data = kernel.op(load);
    if !matches!(data.kind, OpKind::Linear { op: LinearOp::Load { .. }, .. }) {
        return false;
    }
    let global = kernel.ty(data.view()).as_view().is_some_and(|view| view.space == Space::Global);
    let at = before.iter().rposition(|&op| op == load);
    global && at.is_some_and(|at| before[at..].iter().all(|&between| is_passed(kernel, between)))
}

/// Whether a load may happen after an operation instead of before it.
fn is_passed(kernel: &Kernel, op: Op) -> bool {
    let data = kernel.op(op);
    let loads = matches!(data.kind, OpKind::Linear { op: LinearOp::Load { .. }, .. });
    let pure = data.regions.is_empty() && data.kind.is_pure();
    pure || loads || data.kind.is_check() || is_asynchronous(data)
}

/// Copies a piece of a store.
fn copy(kernel: &mut Kernel, store: Op, piece: &Piece, all: &mut Vec<Op>) {
    let (stored, loaded) = (kernel.op(store), kernel.op(piece.load));
    let (loc, bytes) = (stored.loc, kernel.ty(stored.view()).elem().bytes());
    let places = [
        ([stored.view(), stored.index()], piece.to * bytes),
        ([loaded.view(), loaded.index()], piece.from * bytes),
    ];
    let (mask, width) = (loaded.mask(), piece.lanes * bytes);
    let mut make = |kind, operands: &[Value], result: Option<Scalar>| {
        let types: Vec<Type> = result.map(Type::scalar).into_iter().collect();
        let op = kernel.add_op(kind, operands, &types, &[], loc);
        all.push(op);
        kernel.op(op).results.first().copied()
    };
    let number = |elem, n: u32| OpKind::Const(Literal::wrapping(elem, n.into()));
    let mut operands = Vec::new();
    for (place, behind) in places {
        let address = OpKind::Linear { op: LinearOp::Address, predicated: false };
        let mut address = make(address, &place, Some(Scalar::U64));
        if behind > 0 {
            let behind = make(number(Scalar::U64, behind), &[], Some(Scalar::U64));
            let both: Vec<Value> = [address, behind].into_iter().flatten().collect();
            address = make(OpKind::Binary(BinaryOp::Add), &both, Some(Scalar::U64));
        }
        operands.extend(address);
    }
    let mut count = make(number(Scalar::U32, width), &[], Some(Scalar::U32));
    if let Some(mask) = mask {
        let none = make(number(Scalar::U32, 0), &[], Some(Scalar::U32));
        let both: Vec<Value> = [Some(mask), count, none].into_iter().flatten().collect();
        count = make(OpKind::Select, &both, Some(Scalar::U32));
    }
    operands.extend(count);
    make(OpKind::AsyncCopy(AsyncCopyOp::Copy { width }), &operands, None);
}

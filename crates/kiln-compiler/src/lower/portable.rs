//! Targets without addresses, and those whose subgroups are narrower than a warp.
//!
//! Layouts deal with warps of the target's width. Where fewer threads can shuffle, lanes that are
//! further apart exchange through scratch memory, where the barrier pass orders them as it
//! does all exchanges.

use super::Lowering;
use super::convert::Exchange;
use crate::error::CompileError;
use crate::target::{Target, WARP};
use crate::{address, adjacent, async_copies};
use kiln_ir::{BinaryOp, FragmentOp, Kernel, LinearOp, OpData, OpKind, Scalar, ShuffleMode, Value};

/// Makes addresses for a target that has them, and refuses what needs them elsewhere. The first
/// `prologue` operations depend on nothing but the thread and the launch.
pub(super) fn finish(kernel: &mut Kernel, prologue: usize, target: &Target) -> Result<(), CompileError> {
    if target.addresses {
        adjacent::join(kernel);
        if target.async_copies {
            async_copies::form(kernel);
        }
        address::legalize(kernel, prologue, target.index);
        return Ok(());
    }
    let mut found = None;
    kernel.walk(|_, data| {
        if found.is_none() && needs_addresses(data) {
            found = Some((data.kind.mnemonic(), data.loc));
        }
    });
    let Some((name, loc)) = found else { return Ok(()) };
    Err(CompileError::Unsupported {
        location: kernel.describe(loc),
        what: format!("`{name}` on a device without addresses"),
        hint: "run it on an NVIDIA GPU".into(),
    })
}

/// Whether an operation of a lowered kernel is about addresses, or stands for such instructions.
fn needs_addresses(data: &OpData) -> bool {
    if let OpKind::Fragment(FragmentOp::Matrix(_)) = data.kind {
        return false;
    }
    matches!(
        data.kind,
        OpKind::Address
            | OpKind::Linear { op: LinearOp::Address, .. }
            | OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::PtrOrderedLoad { .. }
            | OpKind::PtrOrderedStore { .. }
            | OpKind::PtrAtomic128 { .. }
            | OpKind::Fragment(_)
            | OpKind::Explicit(_)
            | OpKind::Cluster(_)
            | OpKind::AsyncCopy(_)
    )
}

/// Refuses the shuffles and votes of a kernel over threads, which are of [`WARP`] threads, on a
/// target with others: its warps need not be together, so that no barrier can order them.
pub(super) fn refuse_shuffles(kernel: &Kernel, target: &Target) -> Result<(), CompileError> {
    let mut found = None;
    kernel.walk(|_, data| {
        if found.is_none() && matches!(data.kind, OpKind::Shuffle(_) | OpKind::Vote(_)) {
            found = Some((data.kind.mnemonic(), data.loc));
        }
    });
    match found.filter(|_| target.subgroup < WARP || target.warp != WARP) {
        None => Ok(()),
        Some((name, loc)) => Err(CompileError::Unsupported {
            location: kernel.describe(loc),
            what: format!(
                "`{name}` among {} threads on a device that has subgroups of {}",
                WARP, target.subgroup
            ),
            hint: "use shared memory and barriers, or a reduction of a tile".into(),
        }),
    }
}

impl Lowering<'_> {
    /// The value that the lane whose number differs in the bits of a constant has.
    pub(super) fn lane_xor(&mut self, value: Value, by: u32) -> Value {
        if by < self.target.subgroup {
            let by = self.em.i64(by.into());
            let elem = self.em.elem(value);
            return self.em.one(OpKind::Shuffle(ShuffleMode::Xor), &[value, by], elem);
        }
        let thread = self.em.thread();
        let source = self.em.hoisted(|e| {
            let by = e.i32(by.into());
            e.binary(BinaryOp::Xor, thread, by)
        });
        self.through_threads(value, source)
    }

    /// The value that a lane of the warp has, given by its number, an i64 below that of lanes.
    pub(super) fn read_lane(&mut self, value: Value, lane: Value) -> Value {
        if self.target.subgroup >= self.target.warp {
            let elem = self.em.elem(value);
            return self.em.one(OpKind::Shuffle(ShuffleMode::Index), &[value, lane], elem);
        }
        let (thread, warp) = (self.em.thread(), self.target.warp);
        let first = self.em.hoisted(|e| {
            let mask = e.i32(-i64::from(warp));
            e.and(thread, mask)
        });
        let lane = self.em.cast(lane, Scalar::I32);
        let source = self.em.add(first, lane);
        self.through_threads(value, source)
    }

    /// The value that another thread of the block has, given by its i32 index.
    fn through_threads(&mut self, value: Value, source: Value) -> Value {
        let elem = self.em.elem(value);
        let threads = 1 << self.em.thread_bits();
        let area = self.scratch.area(threads * elem.bytes(), self.em.loc);
        let place = self.exchange(area, elem);
        let thread = self.em.thread();
        self.scratch_store(Exchange { index: thread, ..place }, 0, None, &[value]);
        self.scratch_load(Exchange { index: source, ..place }, 0, 1)[0]
    }
}

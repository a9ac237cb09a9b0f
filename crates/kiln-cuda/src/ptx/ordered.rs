//! Loads and stores that others see in order, of one element or of four words at once.
//!
//! The PTX memory model orders the words of a vector access one by one; that an aligned vector of
//! 16 bytes arrives whole is a property of every GPU that this crate supports, which code that
//! relies on it tests at start-up.
//!
//! So the assembler may divide a relaxed load of four words, and does where not all of them are
//! used: of a message of one word and its stamp it made two loads, between which the host's store
//! could come. A volatile load means the same to others and is made as it is written.
//!
//! An acquiring load whose result nothing uses is one that is relaxed, and a fence. The assembler
//! (ptxas 13.0, and a driver's for CUDA 13.0) drops such a load late, and with it, where the load
//! stood in a loop, what stores behind the loop read their memory descriptor from: an illegal
//! instruction.

use super::memory::list;
use super::register::Reg;
use super::threads::scope as scope_name;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Kernel, OpData, Order, Scope, Space};

impl Writer<'_> {
    pub(super) fn ordered_load(
        &mut self,
        op: &OpData,
        space: Space,
        lanes: u32,
        ordering: (Order, Scope),
    ) -> Result<()> {
        let address = self.get(op.address())?;
        let to: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
        let mut predicate = String::new();
        if let Some(mask) = op.mask() {
            predicate = format!("@{} ", self.get(mask)?);
            for &reg in &to {
                self.put(format_args!("mov.{} {reg}, 0", reg.class.bits()));
            }
        }
        let (order, scope) = ordering;
        let fenced = order == Order::Acquire && !is_used(self.kernel, op);
        let order = if fenced { Order::Relaxed } else { order };
        let suffix = match (lanes, order, scope) {
            (4, Order::Relaxed, Scope::System) => whole(space, to[0]),
            _ => modifiers(space, lanes, (order, scope), to[0]),
        };
        self.put(format_args!("{predicate}ld.{suffix} {}, [{address}]", list(&to)));
        if fenced {
            self.fence(scope);
        }
        Ok(())
    }

    pub(super) fn ordered_store(
        &mut self,
        op: &OpData,
        space: Space,
        lanes: u32,
        ordering: (Order, Scope),
    ) -> Result<()> {
        let address = self.get(op.address())?;
        let predicate = op.mask().map(|mask| self.get(mask)).transpose()?;
        let predicate = predicate.map_or_else(String::new, |mask| format!("@{mask} "));
        let values: Vec<Reg> = op.stored_values().iter().map(|&v| self.get(v)).collect::<Result<_>>()?;
        let suffix = modifiers(space, lanes, ordering, values[0]);
        self.put(format_args!("{predicate}st.{suffix} [{address}], {}", list(&values)));
        Ok(())
    }
}

/// Whether anything uses a result of an operation.
fn is_used(kernel: &Kernel, op: &OpData) -> bool {
    let mut used = false;
    kernel.walk(|_, other| used |= other.operands.iter().any(|v| op.results.contains(v)));
    used
}

/// What stands after `ld.` or `st.`.
fn modifiers(space: Space, lanes: u32, (order, scope): (Order, Scope), reg: Reg) -> String {
    let order = match order {
        Order::Relaxed => "relaxed",
        Order::Acquire => "acquire",
        Order::Release => "release",
    };
    let vector = if lanes == 4 { ".v4" } else { "" };
    format!("{order}.{}.{}{vector}.{}", scope_name(scope), space.name(), reg.class.bits())
}

/// What stands after `ld.` for four words at once: relaxed, at the scope of the system.
fn whole(space: Space, reg: Reg) -> String {
    format!("volatile.{}.v4.{}", space.name(), reg.class.bits())
}

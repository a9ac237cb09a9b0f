//! Atomics of 128 bits (PTX ISA 8.3, "atom", from compute capability 9.0 on).

use super::register::{Class, Reg};
use super::target::ATOMIC_128_VERSION;
use super::threads::scope as scope_name;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Atomic128Op, OpData, Operand, Scope, Space};

impl Writer<'_> {
    /// Exchanges 16 bytes, or compares and exchanges them; zeros where the predicate is false. The
    /// registers of 128 bits are of a block of their own: no other instruction takes them.
    pub(super) fn atomic_128(
        &mut self,
        op: &OpData,
        atomic: Atomic128Op,
        space: Space,
        scope: Scope,
    ) -> Result<()> {
        if self.target.capability() < 90 || self.target.ptx < ATOMIC_128_VERSION {
            let what = match atomic {
                Atomic128Op::Exchange => "`atomic_exchange_128`",
                Atomic128Op::CompareExchange => "`atomic_cas_128`",
            };
            let hint = "It needs compute capability 9.0 and a driver for CUDA 12.3, or newer ones";
            return Err(self.unsupported(op, what, hint));
        }
        self.version = self.version.max(ATOMIC_128_VERSION);
        let address = self.get(op.address())?;
        let predicate = op.mask().map(|mask| self.get(mask)).transpose()?;
        let predicate = predicate.map_or_else(String::new, |mask| format!("@{mask} "));
        let pair = |name| self.pair_of(op, name);
        let (stored, expected, desired) =
            (pair(Operand::Stored)?, pair(Operand::Expected)?, pair(Operand::Desired)?);
        let zero = self.reg(Class::B64);
        let old: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
        let old = super::memory::list(&old);
        let place = format!("relaxed.{}.{}", scope_name(scope), space.name());
        self.put(format_args!("mov.b64 {zero}, 0"));
        self.text.push_str("\t{\n");
        self.put(format_args!(".reg .b128 old, new"));
        self.put(format_args!("mov.b128 old, {{{zero}, {zero}}}"));
        match atomic {
            Atomic128Op::Exchange => {
                self.put(format_args!("mov.b128 new, {stored}"));
                self.put(format_args!("{predicate}atom.{place}.exch.b128 old, [{address}], new"));
            }
            Atomic128Op::CompareExchange => {
                self.put(format_args!(".reg .b128 expected"));
                self.put(format_args!("mov.b128 expected, {expected}"));
                self.put(format_args!("mov.b128 new, {desired}"));
                self.put(format_args!("{predicate}atom.{place}.cas.b128 old, [{address}], expected, new"));
            }
        }
        self.put(format_args!("mov.b128 {old}, old"));
        self.text.push_str("\t}\n");
        Ok(())
    }

    /// The registers of the operands of a name, as a vector.
    fn pair_of(&self, op: &OpData, name: Operand) -> Result<String> {
        let words = op.named(name).iter().map(|&v| self.get(v)).collect::<Result<Vec<_>>>()?;
        Ok(super::memory::list(&words))
    }
}

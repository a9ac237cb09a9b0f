//! Products of fragments and their way from shared memory (PTX ISA 7.0, "mma", "ldmatrix"; 7.8,
//! "stmatrix"), for GPUs of compute capability 8.0 and later.

use super::memory::list;
use super::register::{Reg, suffix};
use super::target::MIXED_VERSION;
use super::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{Factor, Factors, FragmentOp, OpData, Scalar};

/// The compute capability that has all of these but `stmatrix`, and that which has it.
const LEAST: u32 = 80;
const STMATRIX: u32 = 90;
/// The compute capability with products of f64 of 16 rows; before there were those of 8.
const F64_WHOLE: u32 = 90;
/// The compute capability whose matrix units multiply 8-bit floats.
const FLOAT8: u32 = 89;

impl Writer<'_> {
    pub(super) fn fragment(&mut self, op: &OpData, kind: FragmentOp) -> Result<()> {
        if let FragmentOp::Matrix(_) = kind {
            let what = format!("`{}`", kind.name());
            return Err(self.unsupported(op, what, "It is for GPUs through wgpu"));
        }
        let least = if let FragmentOp::StMatrix { .. } = kind { STMATRIX } else { LEAST };
        if self.target.capability() < least {
            return Err(self.unsupported(
                op,
                format!("`{}`", kind.name()),
                &format!("It needs a GPU of compute capability {}.0 or later", least / 10),
            ));
        }
        let operands = self.operands(op)?;
        match kind {
            FragmentOp::Mma(factors) => return self.mma(op, factors, &operands),
            FragmentOp::LdMatrix { count, transposed } => {
                let to: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
                let transposed = if transposed { ".trans" } else { "" };
                // In braces, also if it is one.
                let to = to.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                let address = self.get(op.address())?;
                self.put(format_args!(
                    "ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{to}}}, [{address}]"
                ));
            }
            FragmentOp::StMatrix { count } => {
                let address = self.get(op.address())?;
                let words = op.registers().iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
                let words = words.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                self.put(format_args!(
                    "stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [{address}], {{{words}}}"
                ));
            }
            FragmentOp::Pack(factor) => {
                let (low, high) = (self.get(op.left())?, self.get(op.right())?);
                let to = self.define(op.results[0]);
                match self.elem(op.left()) {
                    Scalar::F32 => {
                        self.put(format_args!("cvt.rn.{}x2.f32 {to}, {high}, {low}", suffix(factor.elem())));
                    }
                    _ => self.put(format_args!("mov.b32 {to}, {{{low}, {high}}}")),
                }
            }
            FragmentOp::WarpgroupMma(product) => return self.warpgroup_mma(op, &product),
            FragmentOp::WarpgroupWait { pending } => {
                self.take_over(&op.operands, &op.results)?;
                self.put(format_args!("wgmma.wait_group.sync.aligned {pending}"));
            }
            FragmentOp::AsyncProxyFence => self.put(format_args!("fence.proxy.async.shared::cta")),
            FragmentOp::Matrix(_) => {}
        }
        Ok(())
    }

    fn mma(&mut self, op: &OpData, factors: Factors, operands: &[Reg]) -> Result<()> {
        if factors.has_fast_sums() {
            let there = self.target.capability() >= FLOAT8 && self.target.ptx >= MIXED_VERSION;
            if !there {
                let hint =
                    "It needs a GPU of compute capability 8.9 or later and a driver of CUDA 12.4 or newer";
                return Err(self.unsupported(op, "a product of 8-bit floats", hint));
            }
            self.version = self.version.max(MIXED_VERSION);
        }
        let sums: Vec<Reg> = op.results.iter().map(|&v| self.define(v)).collect();
        let (left, right) = (element(factors.left), element(factors.right));
        let (depth, sum) = (factors.depth(), suffix(factors.sum()));
        let (a, rest) = operands.split_at(4);
        let (b, c) = rest.split_at(2);
        if factors.is_f64() && self.target.capability() < F64_WHOLE {
            self.mma_f64_by_quarters((a, b, c), &sums);
            return Ok(());
        }
        self.put(format_args!(
            "mma.sync.aligned.m16n8k{depth}.row.col.{sum}.{left}.{right}.{sum} {}, {}, {}, {}",
            list(&sums),
            list(a),
            list(b),
            list(c)
        ));
        Ok(())
    }
}

impl Writer<'_> {
    /// A product of f64 where one instruction has 8 rows and a depth of 4: upper and lower rows,
    /// each first by the left and then by the right half of the depth.
    fn mma_f64_by_quarters(&mut self, (a, b, c): (&[Reg], &[Reg], &[Reg]), sums: &[Reg]) {
        for half in 0..2 {
            let (of, to) = (&c[2 * half..2 * half + 2], &sums[2 * half..2 * half + 2]);
            for (depth, from) in [of, to].into_iter().enumerate() {
                self.put(format_args!(
                    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {}, {{{}}}, {{{}}}, {}",
                    list(to),
                    a[half + 2 * depth],
                    b[depth],
                    list(from)
                ));
            }
        }
    }
}

/// The name of a factor's elements in an instruction.
pub(super) fn element(factor: Factor) -> &'static str {
    if factor == Factor::Tf32 { "tf32" } else { suffix(factor.elem()) }
}

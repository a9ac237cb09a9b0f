//! Warpgroup products, and the registers that they fill while the program goes on (PTX ISA 8.0, "Asynchronous warpgroup level matrix instructions").

use super::entry::MIXED_VERSION;
use super::explicit::{ATOM, PANEL, SharedTile, Team, WARPGROUP, broken};
use super::writer::{Class, Reg, Writer};
use kiln_backend::Result;
use kiln_ir::{OpData, Scalar, Value};

/// Rows of a product that a warpgroup computes at once, and the depth of one instruction, in bytes.
const WGMMA_ROWS: u32 = 64;
const WGMMA_DEPTH: u32 = 32;

impl Writer<'_> {
    pub(super) fn wgmma(
        &mut self,
        data: &OpData,
        team: Team,
        transposed_a: bool,
        transposed_b: bool,
    ) -> Result<()> {
        let a = self.shared_tile(data.operands[0], data.operands[1])?;
        let b = self.shared_tile(data.operands[2], data.operands[3])?;
        let keep = self.get(data.operands[4])?;
        let always = self.explicit.always.unwrap_or(keep);
        let registers = self.accumulators(data, data.operands[4])?;
        let (m, k) = if transposed_a { (a.columns, a.rows) } else { (a.rows, a.columns) };
        let n = if transposed_b { b.columns } else { b.rows };
        let groups = team.threads / WARPGROUP;
        let own = if transposed_a { a.rows * PANEL } else { WGMMA_ROWS * PANEL };
        let start = self.reg(Class::B32);
        self.put(format_args!("mad.lo.u32 {start}, {}, {own}, {}", team.warpgroup, a.address));
        let from_a = self.descriptor(start, a.rows * PANEL);
        let from_b = self.descriptor(b.address, b.rows * PANEL);
        let blocks = m / (WGMMA_ROWS * groups);
        let each = (n / 2) as usize;
        if registers.len() != blocks as usize * each {
            return Err(broken(format!("{} accumulators for a product [{m}, {n}]", registers.len())));
        }
        if a.elem != b.elem && a.elem.is_int() {
            if self.target.ptx < MIXED_VERSION {
                return Err(self.unsupported(
                    data,
                    "a product of i8 and u8",
                    "It needs a driver of CUDA 12.4 or newer",
                ));
            }
            self.version = self.version.max(MIXED_VERSION);
        }
        let name = wgmma_name(a.elem, b.elem, n);
        let modifiers = wgmma_modifiers(a.elem, &[transposed_a, transposed_b]);
        self.put(format_args!("wgmma.fence.sync.aligned"));
        for step in 0..k * a.elem.bytes() / WGMMA_DEPTH {
            let right = self.advanced(from_b, depth_offset(&b, step, transposed_b));
            for block in 0..blocks {
                let left = self.advanced(from_a, block * groups * own + depth_offset(&a, step, transposed_a));
                let own = &registers[block as usize * each..][..each];
                let list: Vec<String> = own.iter().map(Reg::to_string).collect();
                let scale = if step == 0 { keep } else { always };
                self.put(
                    format_args!("{name} {{{}}}, {left}, {right}, {scale}{modifiers}", list.join(", "),),
                );
            }
        }
        self.put(format_args!("wgmma.commit_group.sync.aligned"));
        Ok(())
    }

    pub(super) fn wgmma_registers(&mut self, data: &OpData, transposed_b: bool) -> Result<()> {
        let b = self.shared_tile(data.operands[0], data.operands[1])?;
        let keep = self.get(data.operands[2])?;
        let always = self.explicit.always.unwrap_or(keep);
        let fixed = data.operands.len() - data.results.len();
        let a = data.operands[3..fixed].iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        let registers = self.accumulators(data, data.operands[2])?;
        let (k, n) = if transposed_b { (b.rows, b.columns) } else { (b.columns, b.rows) };
        let from_b = self.descriptor(b.address, b.rows * PANEL);
        let each = (n / 2) as usize;
        let steps = (k * b.elem.bytes() / WGMMA_DEPTH) as usize;
        let blocks = registers.len() / each;
        if a.len() != 4 * steps * blocks || registers.len() != blocks * each {
            return Err(broken(format!("{} registers of a for {blocks} blocks of {steps} steps", a.len())));
        }
        let name = wgmma_name(b.elem, b.elem, n);
        let modifiers = wgmma_modifiers(b.elem, &[transposed_b]);
        let list = |registers: &[Reg]| registers.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        self.put(format_args!("wgmma.fence.sync.aligned"));
        for step in 0..steps {
            let right = self.advanced(from_b, depth_offset(&b, step as u32, transposed_b));
            let scale = if step == 0 { keep } else { always };
            for block in 0..blocks {
                let left = list(&a[4 * (block * steps + step)..][..4]);
                let sums = list(&registers[block * each..][..each]);
                self.put(format_args!("{name} {{{sums}}}, {{{left}}}, {right}, {scale}{modifiers}"));
            }
        }
        self.put(format_args!("wgmma.commit_group.sync.aligned"));
        Ok(())
    }

    /// The registers of a product. One that keeps nothing needs nothing in them.
    fn accumulators(&mut self, data: &OpData, keep: Value) -> Result<Vec<Reg>> {
        if self.kernel.as_const(keep).is_some_and(|keep| !keep.is_true()) {
            return Ok(data.results.iter().map(|&v| self.define(v)).collect());
        }
        self.take_over(&data.operands[data.operands.len() - data.results.len()..], &data.results)
    }

    /// A matrix descriptor of swizzled panels from an address on: those side by side are `leading` bytes apart.
    fn descriptor(&mut self, address: Reg, leading: u32) -> Reg {
        let (units, wide, whole) = (self.reg(Class::B32), self.reg(Class::B64), self.reg(Class::B64));
        let layout = 1u64 << 62 | u64::from(ATOM >> 4) << 32 | u64::from(leading >> 4) << 16;
        // In a cluster, the upper bits of an address name the block.
        self.put(format_args!("bfe.u32 {units}, {address}, 4, 14"));
        self.put(format_args!("cvt.u64.u32 {wide}, {units}"));
        self.put(format_args!("or.b64 {whole}, {wide}, {layout}"));
        whole
    }

    /// A descriptor so many bytes further on.
    fn advanced(&mut self, descriptor: Reg, bytes: u32) -> Reg {
        if bytes == 0 {
            return descriptor;
        }
        let to = self.reg(Class::B64);
        self.put(format_args!("add.u64 {to}, {descriptor}, {}", bytes >> 4));
        to
    }

    /// Lets results stand in the registers of what they continue.
    pub(super) fn take_over(&mut self, from: &[Value], to: &[Value]) -> Result<Vec<Reg>> {
        let sources = from.iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        Ok(to
            .iter()
            .zip(sources)
            .map(|(&value, source)| {
                let reg = self.define(value);
                self.mov(reg, source);
                reg
            })
            .collect())
    }

    /// Before values move to other registers: products that still fill them end first.
    pub(super) fn settle(&mut self, values: &[Value], from: &[Reg], to: &[Reg]) {
        let moves =
            |((&value, from), to): ((&Value, &Reg), &Reg)| from != to && self.shares_with(value).is_some();
        if values.iter().zip(from).zip(to).any(moves) {
            self.put(format_args!("wgmma.wait_group.sync.aligned 0"));
        }
    }

    /// The representative of the values that share a register with this one, if there are others.
    pub(super) fn shares_with(&self, value: Value) -> Option<Value> {
        self.explicit.same.get(&value).copied()
    }
}

/// The instruction for a product with n columns.
fn wgmma_name(a: Scalar, b: Scalar, n: u32) -> String {
    let suffix = |elem| if elem == Scalar::F32 { "tf32" } else { super::writer::suffix(elem) };
    let sum = super::writer::suffix(a.accumulator());
    let depth = WGMMA_DEPTH / a.bytes();
    format!("wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{sum}.{}.{}", suffix(a), suffix(b))
}

/// What follows its operands: signs for floats, and for those of 16 bits which factors are transposed.
fn wgmma_modifiers(elem: Scalar, transposed: &[bool]) -> String {
    let mut text = String::from(if elem.is_float() { ", 1, 1" } else { "" });
    if elem.bytes() == 2 {
        transposed.iter().for_each(|&t| text.push_str(if t { ", 1" } else { ", 0" }));
    }
    text
}

/// Where a step along the inner extent begins in a stage, in bytes.
fn depth_offset(tile: &SharedTile, step: u32, transposed: bool) -> u32 {
    if transposed {
        return step * (WGMMA_DEPTH / tile.elem.bytes()) * PANEL;
    }
    let column = step * WGMMA_DEPTH;
    column / PANEL * tile.rows * PANEL + column % PANEL
}

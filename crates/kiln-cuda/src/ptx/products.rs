//! Warpgroup products, and the registers that they fill while the program goes on (PTX ISA 8.0,
//! "Asynchronous warpgroup level matrix instructions").

use super::explicit::{PANEL, SharedTile, WARPGROUP};
use super::register::{Class, Reg};
use super::target::MIXED_VERSION;
use super::team::Team;
use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{GroupProduct, Lines, OpData, Operand, Panels, Scalar, Value};

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
        let a = self.shared_tile(data.tile(), data.stage())?;
        let b = self.shared_tile(data.right_tile(), data.right_stage())?;
        let keep = self.get(data.keep())?;
        let always = self.explicit.always.unwrap_or(keep);
        let registers = self.accumulators(data, data.keep())?;
        let (m, k) = if transposed_a { (a.columns, a.rows) } else { (a.rows, a.columns) };
        let n = if transposed_b { b.columns } else { b.rows };
        let groups = team.threads / WARPGROUP;
        let blocks = m / (WGMMA_ROWS * groups);
        if registers.len() != (blocks * n / 2) as usize {
            let threads = team.threads;
            let what = format!("{} accumulators of {threads} threads for {m} rows", registers.len());
            return Err(self.unsupported(
                data,
                what,
                "Give each warpgroup of 128 threads a multiple of 64 rows, and its threads half of the columns",
            ));
        }
        self.mixed_integers(data, a.elem, b.elem)?;
        let name = wgmma_name(a.elem, b.elem, n);
        let modifiers = wgmma_modifiers(a.elem, &[transposed_a, transposed_b]);
        let left = Left::Shared(Matrix::of(&a, transposed_a), team);
        let steps = k * a.elem.bytes() / WGMMA_DEPTH;
        let instruction = Instruction { name, modifiers, keep, always, blocks, steps };
        self.begin_product(&instruction, &left, &Matrix::of(&b, transposed_b), &registers);
        Ok(())
    }

    /// Requires the PTX version that has products of signed by unsigned integers, if this is one.
    fn mixed_integers(&mut self, data: &OpData, a: Scalar, b: Scalar) -> Result<()> {
        if a != b && a.is_int() {
            if self.target.ptx < MIXED_VERSION {
                let hint = "It needs a driver of CUDA 12.4 or newer";
                return Err(self.unsupported(data, "a product of i8 and u8", hint));
            }
            self.version = self.version.max(MIXED_VERSION);
        }
        Ok(())
    }

    /// The instructions of a product, as a group.
    pub(super) fn begin_product(&mut self, of: &Instruction, left: &Left<'_>, b: &Matrix, sums: &[Reg]) {
        let Instruction { name, modifiers, keep, always, blocks, steps } = of;
        let (blocks, steps) = (*blocks as usize, *steps as usize);
        let list = |registers: &[Reg]| registers.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        let each = sums.len() / blocks;
        let from_a = match left {
            Left::Registers(_) => None,
            Left::Shared(a, team) => {
                let start = self.reg(Class::B32);
                let (number, own) = (team.warpgroup, a.rows_apart());
                self.put(format_args!("mad.lo.u32 {start}, {number}, {own}, {}", a.address));
                Some((self.descriptor(start, a), team.threads / WARPGROUP * own))
            }
        };
        let from_b = self.descriptor(b.address, b);
        self.put(format_args!("wgmma.fence.sync.aligned"));
        for step in 0..steps {
            let right = self.advanced(from_b, b.depth_offset(step as u32));
            let scale = if step == 0 { keep } else { always };
            for block in 0..blocks {
                let factor = match (left, from_a) {
                    (Left::Shared(a, _), Some((from, apart))) => {
                        let at = block as u32 * apart + a.depth_offset(step as u32);
                        self.advanced(from, at).to_string()
                    }
                    (Left::Shared(..), None) => continue,
                    (Left::Registers(a), _) => format!("{{{}}}", list(&a[4 * (block * steps + step)..][..4])),
                };
                let own = list(&sums[block * each..][..each]);
                self.put(format_args!("{name} {{{own}}}, {factor}, {right}, {scale}{modifiers}"));
            }
        }
        self.put(format_args!("wgmma.commit_group.sync.aligned"));
    }

    pub(super) fn wgmma_registers(&mut self, data: &OpData, transposed_b: bool) -> Result<()> {
        let b = self.shared_tile(data.right_tile(), data.right_stage())?;
        let keep = self.get(data.keep())?;
        let always = self.explicit.always.unwrap_or(keep);
        let words = data.registers().len() - data.results.len();
        let factor = &data.registers()[..words];
        let a = factor.iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        if factor.iter().zip(&a).any(|(&value, &reg)| self.outlives_turns(value, reg)) {
            return Err(self.unsupported(
                data,
                "a first factor in registers that every turn of a loop multiplies",
                "Load it in the loop (`words`), or multiply it from shared memory; NVIDIA's assembler may \
                 give such registers to other values",
            ));
        }
        let registers = self.accumulators(data, data.keep())?;
        let (k, n) = if transposed_b { (b.rows, b.columns) } else { (b.columns, b.rows) };
        let each = (n / 2) as usize;
        let steps = k * b.elem.bytes() / WGMMA_DEPTH;
        let blocks = registers.len() / each;
        if a.len() != 4 * steps as usize * blocks || registers.len() != blocks * each {
            return Err(broken(format!("{} registers of a for {blocks} blocks of {steps} steps", a.len())));
        }
        let name = wgmma_name(b.elem, b.elem, n);
        let modifiers = wgmma_modifiers(b.elem, &[transposed_b]);
        let instruction = Instruction { name, modifiers, keep, always, blocks: blocks as u32, steps };
        self.begin_product(&instruction, &Left::Registers(&a), &Matrix::of(&b, transposed_b), &registers);
        Ok(())
    }

    /// A product of tiles that the lowering gives to warpgroups.
    pub(super) fn warpgroup_mma(&mut self, data: &OpData, product: &GroupProduct) -> Result<()> {
        let team = self.team_of_all()?;
        let always = self.explicit.always.ok_or_else(|| broken("a product before the beginning"))?;
        let ([m, n, k], results) = (product.extents, data.results.len());
        let blocks = product.blocks(team.threads).ok_or_else(|| {
            let what = format!("a product of {m} rows by {} threads", team.threads);
            self.unsupported(data, &what, "Give each warpgroup of 128 threads a multiple of 64 rows")
        })?;
        if results != blocks as usize * product.sums() {
            let what =
                format!("{results} sums a thread for a product of {m} x {n} by {} threads", team.threads);
            let advice = format!("Give each thread {} sums", blocks as usize * product.sums());
            return Err(self.unsupported(data, &what, &advice));
        }
        let mut addresses = Vec::new();
        for &address in data.named(Operand::Left).iter().chain(data.named(Operand::Right)) {
            addresses.push(self.narrow(address)?);
        }
        let (left, right) = (product.factors.left.elem(), product.factors.right.elem());
        self.mixed_integers(data, left, right)?;
        let matrix = |elem: Scalar, lines, outer, address| {
            let Panels { lines: count, bytes } = product.panels(lines, outer);
            Matrix { address, lines: count, width: bytes.min(PANEL), elem, across: lines == Lines::Across }
        };
        let b = matrix(right, product.right, n, addresses[addresses.len() - 1]);
        let kept = if product.keep { results } else { 0 };
        let (fixed, sums) = data.operands.split_at(data.operands.len() - kept);
        let words = fixed[addresses.len()..].iter().map(|&v| self.get(v)).collect::<Result<Vec<Reg>>>()?;
        let (from, transposed) = match product.left {
            Some(lines) => {
                let a = matrix(left, lines, m, addresses[0]);
                let transposed = vec![a.across, b.across];
                (Left::Shared(a, team), transposed)
            }
            None => (Left::Registers(&words), vec![b.across]),
        };
        let (keep, registers) = match product.keep {
            true => (always, self.take_over(sums, &data.results)?),
            false => (self.never(), data.results.iter().map(|&v| self.define(v)).collect()),
        };
        let steps = k / product.factors.depth();
        let (name, modifiers) = (wgmma_name(left, right, n), wgmma_modifiers(left, &transposed));
        let instruction = Instruction { name, modifiers, keep, always, blocks, steps };
        self.begin_product(&instruction, &from, &b, &registers);
        Ok(())
    }

    /// A predicate that is false.
    fn never(&mut self) -> Reg {
        let never = self.reg(Class::Pred);
        self.put(format_args!("setp.ne.u32 {never}, 0, 0"));
        never
    }

    /// The registers of a product. One that keeps nothing needs nothing in them.
    fn accumulators(&mut self, data: &OpData, keep: Value) -> Result<Vec<Reg>> {
        if self.kernel.as_const(keep).is_some_and(|keep| !keep.is_true()) {
            return Ok(data.results.iter().map(|&v| self.define(v)).collect());
        }
        self.take_over(data.sums(), &data.results)
    }

    /// A matrix descriptor of swizzled panels from an address on.
    fn descriptor(&mut self, address: Reg, matrix: &Matrix) -> Reg {
        let (units, wide, whole) = (self.reg(Class::B32), self.reg(Class::B64), self.reg(Class::B64));
        let layout = matrix.layout();
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
    let suffix = |elem| if elem == Scalar::F32 { "tf32" } else { super::register::suffix(elem) };
    let sum = super::register::suffix(a.accumulator());
    let depth = WGMMA_DEPTH / a.bytes();
    format!("wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{sum}.{}.{}", suffix(a), suffix(b))
}

/// What follows its operands: signs for floats, and for those of 16 bits which factors are
/// transposed.
fn wgmma_modifiers(elem: Scalar, transposed: &[bool]) -> String {
    let mut text = String::from(if elem.is_float() { ", 1, 1" } else { "" });
    if elem.bytes() == 2 {
        transposed.iter().for_each(|&t| text.push_str(if t { ", 1" } else { ", 0" }));
    }
    text
}

/// The instructions of a product.
pub(super) struct Instruction {
    name: String,
    modifiers: String,
    /// Whether the first step adds to what is there, and true.
    keep: Reg,
    always: Reg,
    /// Blocks of 64 rows of each warpgroup.
    blocks: u32,
    /// Steps of 32 bytes in depth.
    steps: u32,
}

/// Where the left factor comes from.
pub(super) enum Left<'a> {
    /// A matrix of the rows of all warpgroups of a team.
    Shared(Matrix, Team),
    /// Registers, by blocks and steps.
    Registers(&'a [Reg]),
}

/// A matrix in shared memory: swizzled panels of lines.
pub(super) struct Matrix {
    address: Reg,
    lines: u32,
    /// Bytes of a line within a panel: 32, 64 or 128.
    width: u32,
    elem: Scalar,
    /// Lines run across what is summed over.
    across: bool,
}

impl Matrix {
    fn of(tile: &SharedTile, across: bool) -> Matrix {
        Matrix { address: tile.address, lines: tile.rows, width: PANEL, elem: tile.elem, across }
    }

    /// All of its descriptor but the address (PTX ISA, "Matrix descriptor format"): the swizzle,
    /// the distance of eight lines, that of panels.
    fn layout(&self) -> u64 {
        let swizzle: u64 = match self.width {
            64 => 2,
            32 => 3,
            _ => 1,
        };
        let (eight, panel) = (8 * self.width, self.lines * self.width);
        swizzle << 62 | u64::from(eight >> 4) << 32 | u64::from(panel >> 4) << 16
    }

    /// The distance of the 64 rows of one warpgroup from those of the next, in bytes.
    fn rows_apart(&self) -> u32 {
        // Across, 64 rows of 16 bits are a panel.
        if self.across { self.lines * PANEL } else { WGMMA_ROWS * self.width }
    }

    /// Where a step along the inner extent begins, in bytes.
    fn depth_offset(&self, step: u32) -> u32 {
        if self.across {
            return step * (WGMMA_DEPTH / self.elem.bytes()) * self.width;
        }
        let column = step * WGMMA_DEPTH;
        column / self.width * self.lines * self.width + column % self.width
    }
}

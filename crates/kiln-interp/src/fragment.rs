//! Operations of warps on fragments of matrices.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::{Spaces, check_aligned};
use crate::threads::WARP;
use crate::trap::Trap;
use crate::value::Data;
use half::{bf16, f16};
use kiln_backend::Finding;
use kiln_ir::{E4M3, E5M2, Factor, Factors, FragmentOp, OpData, Scalar, Space, Value};

/// Lanes that hold a row of a fragment.
pub const FRAGMENT_LANES: usize = 4;

impl Machine<'_> {
    /// Executes an operation of the active warps or threads.
    pub fn fragment(&mut self, data: &OpData, op: FragmentOp, mask: &Mask) -> Result<(), Trap> {
        match op {
            FragmentOp::StMatrix { .. } => self.stmatrix(data, mask),
            FragmentOp::WarpgroupMma(product) => self.warpgroup_mma(data, &product, mask),
            FragmentOp::WarpgroupWait { pending } => self.warpgroup_wait(data, pending as usize),
            FragmentOp::AsyncProxyFence => Ok(()),
            FragmentOp::Matrix(op) => self.matrix(data, op, mask),
            FragmentOp::Mma(factors) => self.define_all(data, |operands, out, _| {
                let multiply = if factors.is_f64() { mma_f64 } else { mma };
                warps(mask).and_then(|warps| multiply(factors, operands, out, &warps))
            }),
            FragmentOp::LdMatrix { transposed, .. } => self.define_all(data, |operands, out, spaces| {
                warps(mask).and_then(|warps| ldmatrix(spaces, operands, out, &warps, transposed))
            }),
            FragmentOp::Pack(factor) => {
                self.define_all(data, |operands, out, _| pack(factor, operands, &mut out[0]))
            }
        }
    }

    /// Gives an operation's results their values: `f` gets the registers of its operands, in their
    /// order, and of its results.
    fn define_all(
        &mut self,
        data: &OpData,
        f: impl FnOnce(&[&Data], &mut [Data], &mut Spaces) -> Result<(), Trap>,
    ) -> Result<(), Trap> {
        let mut out: Vec<Data> =
            data.results.iter().map(|r| std::mem::take(&mut self.registers[r.index()])).collect();
        let Machine { registers, spaces, .. } = self;
        let operands: Vec<&Data> = data.operands.iter().map(|v: &Value| &registers[v.index()]).collect();
        let result = f(&operands, &mut out, spaces);
        for (value, out) in data.results.iter().zip(out) {
            registers[value.index()] = out;
        }
        result
    }

    /// Every lane's two elements go to the row that another lane of the warp gives the address of.
    fn stmatrix(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let Machine { registers, spaces, .. } = self;
        let of = |v: &Value| &registers[v.index()];
        let addresses = u64::of(of(&data.address()))?;
        for first in warps(mask)? {
            for (i, words) in data.registers().iter().enumerate() {
                let words = u32::of(of(words))?;
                for row in 0..8 {
                    let lane = first + 8 * i + row;
                    let place = MemoryAccess {
                        space: Space::Shared,
                        address: addresses[lane],
                        lane: Some(lane),
                        atomic: false,
                    };
                    check_aligned(place, 16)?;
                    spaces.write(place, &words[first + 4 * row..][..4])?;
                }
            }
        }
        Ok(())
    }
}

/// The first thread of each warp that takes part.
fn warps(mask: &Mask) -> Result<Vec<usize>, Trap> {
    let mut found = Vec::new();
    for first in (0..mask.width()).step_by(WARP) {
        let lanes = first..(first + WARP).min(mask.width());
        match lanes.clone().filter(|&lane| mask.has(lane)).count() {
            0 => {}
            WARP => found.push(first),
            some => {
                let detail = format!("an operation of a warp reached by {some} of its {WARP} threads");
                return Err(Trap::finding(Finding::Divergence, detail));
            }
        }
    }
    Ok(found)
}

/// One of the elements of a word, the lowest first.
pub fn element_of(factor: Factor, word: u32, which: usize) -> f64 {
    let (half, byte) = ((word >> (16 * (which % 2))) as u16, (word >> (8 * (which % 4))) as u8);
    match factor {
        Factor::F16 => f16::from_bits(half).to_f64(),
        Factor::BF16 => bf16::from_bits(half).to_f64(),
        Factor::Tf32 => f32::from_bits(word & !0x1fff).into(),
        Factor::E4M3 => E4M3::from_bits(byte).to_f64(),
        Factor::E5M2 => E5M2::from_bits(byte).to_f64(),
        Factor::I8 => f64::from(byte as i8),
        Factor::U8 => byte.into(),
        Factor::F64 => word.into(),
    }
}

/// Where fragments of elements of a size hold those of a row.
#[derive(Clone, Copy)]
pub struct Row {
    /// Elements of a word.
    each: usize,
    /// Elements of a row of a fragment.
    pub elements: usize,
}

impl Row {
    pub fn of(factors: Factors) -> Row {
        let bytes = factors.bytes() as usize;
        Row { each: 4 / bytes, elements: 16 / bytes }
    }

    /// The fragment, the lane of its row and the element of its word for a column.
    pub fn place(self, column: usize) -> (usize, usize, usize) {
        (column / self.elements, column % self.elements / self.each, column % self.each)
    }
}

/// The sums of a register.
pub fn sums_of(data: &Data) -> Result<Vec<f64>, Trap> {
    match data {
        Data::F32(sums) => Ok(sums.iter().map(|&x| x.into()).collect()),
        Data::I32(sums) => Ok(sums.iter().map(|&x| x.into()).collect()),
        other => Err(Trap::wrong_type(Scalar::F32, other.elem())),
    }
}

/// Rounds a sum to an f32, or wraps it to an i32. Sums of products of bytes are whole in f64.
pub fn set_sum(out: &mut Data, at: usize, sum: f64) -> Result<(), Trap> {
    match out {
        Data::F32(sums) => sums[at] = sum as f32,
        Data::I32(sums) => sums[at] = sum as i64 as i32,
        other => return Err(Trap::wrong_type(Scalar::F32, other.elem())),
    }
    Ok(())
}

/// A sum in f64, rounded once: closer than any device's.
fn mma(factors: Factors, operands: &[&Data], out: &mut [Data], warps: &[usize]) -> Result<(), Trap> {
    let (words, sums) = operands.split_at(6);
    let words = words.iter().map(|d| u32::of(d)).collect::<Result<Vec<_>, _>>()?;
    let sums = sums.iter().map(|d| sums_of(d)).collect::<Result<Vec<_>, _>>()?;
    let (row_of, depth) = (Row::of(factors), factors.depth() as usize);
    for &first in warps {
        let left = |row: usize| -> Vec<f64> {
            let element = |k| {
                let (fragment, lane, which) = row_of.place(k);
                let word = words[row / 8 + 2 * fragment][first + row % 8 * FRAGMENT_LANES + lane];
                element_of(factors.left, word, which)
            };
            (0..depth).map(element).collect()
        };
        let right = |column: usize| -> Vec<f64> {
            let element = |k| {
                let (fragment, lane, which) = row_of.place(k);
                element_of(factors.right, words[4 + fragment][first + column * FRAGMENT_LANES + lane], which)
            };
            (0..depth).map(element).collect()
        };
        let columns: Vec<Vec<f64>> = (0..8).map(right).collect();
        for row in 0..16 {
            let factors = left(row);
            for (column, b) in columns.iter().enumerate() {
                let (register, lane) = (row / 8 * 2 + column % 2, first + row % 8 * 4 + column / 2);
                let products = factors.iter().zip(b).map(|(x, y)| x * y);
                set_sum(&mut out[register], lane, products.fold(sums[register][lane], |s, p| s + p))?;
            }
        }
    }
    Ok(())
}

/// A chain of multiply-adds of f64 in the order of the depth, each rounded once.
fn mma_f64(factors: Factors, operands: &[&Data], out: &mut [Data], warps: &[usize]) -> Result<(), Trap> {
    let parts = operands.iter().map(|d| f64::of(d)).collect::<Result<Vec<_>, _>>()?;
    let (factors_of, sums) = parts.split_at(6);
    let (left, right) = factors_of.split_at(4);
    for &first in warps {
        for (row, column) in (0..16).flat_map(|row| (0..8).map(move |column| (row, column))) {
            let (register, lane) = (row / 8 * 2 + column % 2, first + row % 8 * FRAGMENT_LANES + column / 2);
            let at = |line: usize, k: usize| first + line * FRAGMENT_LANES + k % FRAGMENT_LANES;
            let sum = (0..factors.depth() as usize).fold(sums[register][lane], |sum, k| {
                let half = k / FRAGMENT_LANES;
                left[row / 8 + 2 * half][at(row % 8, k)].mul_add(right[half][at(column, k)], sum)
            });
            f64::of_mut(&mut out[register])?[lane] = sum;
        }
    }
    Ok(())
}

fn ldmatrix(
    spaces: &mut Spaces,
    operands: &[&Data],
    out: &mut [Data],
    warps: &[usize],
    transposed: bool,
) -> Result<(), Trap> {
    let [addresses] = operands else { return Err(Trap::Bug("a load of matrices without addresses".into())) };
    let addresses = u64::of(addresses)?;
    let mut out = out.iter_mut().map(u32::of_mut).collect::<Result<Vec<_>, _>>()?;
    for &first in warps {
        for (i, out) in out.iter_mut().enumerate() {
            let mut rows = [[f16::ZERO; 8]; 8];
            for (r, row) in rows.iter_mut().enumerate() {
                let lane = first + 8 * i + r;
                let place = MemoryAccess {
                    space: Space::Shared,
                    address: addresses[lane],
                    lane: Some(lane),
                    atomic: false,
                };
                check_aligned(place, 16)?;
                spaces.read(place, row)?;
            }
            for lane in 0..WARP {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let of = |j: usize| if transposed { rows[column + j][row] } else { rows[row][column + j] };
                out[first + lane] = u32::from(of(0).to_bits()) | u32::from(of(1).to_bits()) << 16;
            }
        }
    }
    Ok(())
}

fn pack(factor: Factor, operands: &[&Data], out: &mut Data) -> Result<(), Trap> {
    let bits = |data: &Data| -> Result<Vec<u16>, Trap> {
        Ok(match (data, factor) {
            (Data::F32(v), Factor::F16) => v.iter().map(|&x| f16::from_f32(x).to_bits()).collect(),
            (Data::F32(v), Factor::BF16) => v.iter().map(|&x| bf16::from_f32(x).to_bits()).collect(),
            (Data::F16(v), Factor::F16) => v.iter().map(|x| x.to_bits()).collect(),
            (Data::BF16(v), Factor::BF16) => v.iter().map(|x| x.to_bits()).collect(),
            (other, _) => return Err(Trap::wrong_type(factor.elem(), other.elem())),
        })
    };
    let [low, high] = operands else { return Err(Trap::Bug("a pair of other than two".into())) };
    let (low, high) = (bits(low)?, bits(high)?);
    for ((out, low), high) in u32::of_mut(out)?.iter_mut().zip(low).zip(high) {
        *out = u32::from(low) | u32::from(high) << 16;
    }
    Ok(())
}

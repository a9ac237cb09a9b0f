//! Products of warpgroups. They take place when they are begun; whether their factors are still the
//! same when they are waited for is checked then, since a GPU may read them as late as that.

use crate::fragment::{FRAGMENT_LANES, Row, element_of, set_sum, sums_of};
use crate::in_flight::{CHUNK, Chunks};
use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::{Spaces, check_aligned};
use crate::threads::WARP;
use crate::trap::Trap;
use crate::value::Data;
use half::f16;
use kiln_backend::Finding;
use kiln_ir::{Factor, Factors, GroupProduct, Lines, OpData, Panels, Space};

/// A matrix by rows.
struct Matrix {
    columns: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn row(&self, row: usize) -> &[f64] {
        &self.elements[row * self.columns..][..self.columns]
    }
}

impl Machine<'_> {
    /// Begins a product, by all threads of the block.
    pub fn warpgroup_mma(&mut self, data: &OpData, product: &GroupProduct, mask: &Mask) -> Result<(), Trap> {
        let threads = mask.width();
        let Some(blocks) = product.blocks(threads as u32).filter(|_| mask.is_full()) else {
            let detail =
                format!("a product of all warpgroups reached by {} of {threads} threads", mask.count());
            return Err(Trap::finding(Finding::Divergence, detail));
        };
        let [m, n, k] = product.extents;
        let mut out: Vec<Data> =
            data.results.iter().map(|r| std::mem::take(&mut self.registers[r.index()])).collect();
        let Machine { registers, spaces, .. } = self;
        let mut operands = data.operands.iter().map(|v| &registers[v.index()]);
        let mut factors = Chunks::new();
        let result = (|| {
            let missing = || Trap::Bug("a product without factors".into());
            let Factors { left: of_left, right: of_right } = product.factors;
            let mut matrix =
                |of: Factor, lines, outer, operands: &mut dyn Iterator<Item = _>, spaces: &mut _| {
                    let address = the_same(operands.next().ok_or_else(missing)?)?;
                    stored(spaces, of, address, (product.panels(lines, outer), lines), &mut factors)
                };
            // By rows and by columns: depth is the second axis of both.
            let left = match product.left {
                Some(lines) => Some(matrix(of_left, lines, m, &mut operands, spaces)?),
                None => None,
            };
            let right = matrix(of_right, product.right, n, &mut operands, spaces)?;
            let left = match left {
                Some(left) => left,
                None => {
                    let words = operands.by_ref().take(blocks as usize * product.words());
                    let words = words.map(|d| u32::of(d)).collect::<Result<Vec<_>, _>>()?;
                    packed(product, &words, m, k)
                }
            };
            let sums = operands.map(sums_of).collect::<Result<Vec<_>, _>>()?;
            for (register, out) in out.iter_mut().enumerate() {
                for thread in 0..threads {
                    let [row, column] = place(product, blocks, register, thread);
                    let products = left.row(row).iter().zip(right.row(column)).map(|(x, y)| x * y);
                    let before = sums.get(register).map_or(0.0, |s| s[thread]);
                    set_sum(out, thread, products.fold(before, |s, p| s + p))?;
                }
            }
            Ok(())
        })();
        spaces.begun.push_back(factors);
        for (value, out) in data.results.iter().zip(out) {
            registers[value.index()] = out;
        }
        result
    }

    /// Waits for all but the last `pending` products.
    pub fn warpgroup_wait(&mut self, data: &OpData, pending: usize) -> Result<(), Trap> {
        while self.spaces.begun.len() > pending {
            for (place, before) in self.spaces.begun.pop_front().unwrap_or_default() {
                if chunk(&mut self.spaces, place)? != before {
                    let detail =
                        format!("shared memory at {:#x} changed while a product read it", place.address);
                    return Err(Trap::finding(Finding::Unordered, detail));
                }
            }
        }
        for (&from, &to) in data.operands.iter().zip(&data.results) {
            let value = self.registers[from.index()].clone();
            self.registers[to.index()] = value;
        }
        Ok(())
    }
}

/// The address that all threads give.
fn the_same(addresses: &Data) -> Result<u64, Trap> {
    let addresses = u64::of(addresses)?;
    match addresses.iter().find(|a| **a != addresses[0]) {
        None => Ok(addresses[0]),
        Some(other) => {
            let detail = format!("a factor of a product at {:#x} and at {other:#x}", addresses[0]);
            Err(Trap::finding(Finding::Divergence, detail))
        }
    }
}

fn chunk(spaces: &mut Spaces, place: MemoryAccess) -> Result<[u16; CHUNK], Trap> {
    let mut elements = [f16::ZERO; CHUNK];
    spaces.read(place, &mut elements)?;
    Ok(elements.map(f16::to_bits))
}

/// A matrix in shared memory, its depth along rows.
fn stored(
    spaces: &mut Spaces,
    factor: Factor,
    address: u64,
    (panels, lines): (Panels, Lines),
    factors: &mut Chunks,
) -> Result<Matrix, Trap> {
    let at = |offset: u32| {
        let address = address + u64::from(offset);
        MemoryAccess { space: Space::Shared, address, lane: None, atomic: false }
    };
    check_aligned(at(0), panels.period().into())?;
    let bytes = factor.elem().bytes() as usize;
    let (count, length, each) = (panels.lines as usize, panels.bytes as usize / bytes, 4 / bytes);
    let columns = if lines == Lines::Depth { length } else { count };
    let mut elements = vec![0.0; count * length];
    for line in 0..count {
        for first in (0..length).step_by(2 * CHUNK / bytes) {
            let place = at(panels.offset(line as u32, (first * bytes) as u32));
            let found = chunk(spaces, place)?;
            factors.push((place, found));
            let words = found.chunks_exact(2).map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16);
            let parts = words.flat_map(|word| (0..each).map(move |which| (word, which)));
            for (i, (word, which)) in (first..).zip(parts) {
                let index = if lines == Lines::Depth { line * length + i } else { i * count + line };
                elements[index] = element_of(factor, word, which);
            }
        }
    }
    Ok(Matrix { columns, elements })
}

/// The left factor from the registers of all threads.
fn packed(product: &GroupProduct, words: &[&[u32]], m: u32, k: u32) -> Matrix {
    let (rows, columns) = (m as usize, k as usize);
    let threads = words.first().map_or(1, |w| w.len());
    let apart = threads / WARP * 16;
    let row_of = Row::of(product.factors);
    let element = |row: usize, column: usize| {
        let (block, within) = (row / apart, row % apart);
        let (warp, row) = (within / 16, within % 16);
        let (fragment, lane, which) = row_of.place(column);
        // Of each step those of both halves of its depth.
        let word = block * product.words() + fragment * 2 + row / 8;
        let lane = row % 8 * FRAGMENT_LANES + lane;
        element_of(product.factors.left, words[word][warp * WARP + lane], which)
    };
    let elements = (0..rows * columns).map(|i| element(i / columns, i % columns)).collect();
    Matrix { columns, elements }
}

/// The row and column of a sum.
fn place(product: &GroupProduct, blocks: u32, register: usize, thread: usize) -> [usize; 2] {
    let (block, within) = (register / product.sums(), register % product.sums());
    let (warp, lane) = (thread / WARP, thread % WARP);
    let apart = (product.extents[0] / blocks) as usize;
    let row = block * apart + warp * 16 + lane / FRAGMENT_LANES + within / 2 % 2 * 8;
    [row, within / 4 * 8 + lane % FRAGMENT_LANES * 2 + within % 2]
}

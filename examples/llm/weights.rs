//! Matrices as the kernels read them, made from the blocks of a GGUF file.
//!
//! Rows of blocks become *panels* of outputs: the weights of one input for all outputs of a program
//! are adjacent, so that a program reads one piece of memory from end to end and multiplies along
//! it.

use crate::kernels::{self, Form, Input};
use kiln::ir::Scalar;
use kiln::prelude::*;
use kiln_files::gguf::{Encoding, Q4_0, Q4_1, Q6K, Q8_0, Weights};
use std::thread::available_parallelism;

/// Inputs of a group of 4 bits, and of 8.
const GROUP: usize = 32;
/// Inputs that share a scale in Q6_K.
const SMALL_GROUP: usize = 16;

/// A matrix on a device, whose rows are outputs.
pub struct Matrix {
    storage: Storage,
    inputs: usize,
    panel: usize,
    /// As [`Form::by_dot`].
    pub by_dot: bool,
}

/// Extents are panels, inputs or groups of them, outputs of a panel.
enum Storage {
    Q4 { quants: Tensor<u8, 3>, scales: Tensor<f16, 3>, minima: Tensor<f16, 3> },
    Q8 { quants: Tensor<i8, 3>, scales: Tensor<f16, 3> },
    Q6 { quants: Tensor<i8, 3>, scales: Tensor<f32, 3> },
    Bf16(Tensor<bf16, 3>),
    F32(Tensor<f32, 3>),
}

/// How many outputs a program has: whole vectors, and several programs for each core.
fn panel(device: &Device, outputs: usize) -> usize {
    if device.capabilities().is_simt() {
        return 16;
    }
    let programs = 4 * available_parallelism().map_or(1, usize::from);
    outputs.div_ceil(programs).next_multiple_of(32).clamp(32, 128)
}

impl Matrix {
    /// A matrix of the rows of some others, one after the other. If their encodings differ, the
    /// weights are unpacked.
    pub fn of(device: &Device, parts: &[Weights]) -> kiln::Result<Matrix> {
        let inputs = parts.first().and_then(|part| part.shape().last().copied()).unwrap_or(0);
        let outputs = parts.iter().map(|part| part.shape().iter().rev().skip(1).product::<usize>()).sum();
        let layout = Layout::new(panel(device, outputs), outputs, inputs);
        let storage = if let Some(blocks) = all(parts, q4_blocks) {
            layout.q4(device, &blocks)?
        } else if let Some(blocks) = all(parts, |part| part.blocks::<Q8_0, 32>().map(<[Q8_0]>::to_vec)) {
            layout.q8(device, &blocks)?
        } else if let Some(blocks) = all(parts, |part| part.blocks::<Q6K, 256>().map(<[Q6K]>::to_vec)) {
            layout.q6(device, &blocks)?
        } else {
            let rows = parts.iter().flat_map(Weights::dequantize).collect::<Vec<f32>>();
            let is_bf16 = |part: &Weights| part.encoding() == Encoding::Plain(Scalar::BF16);
            match parts.iter().all(is_bf16) {
                true => Storage::Bf16(layout.plain(device, &rows, bf16::from_f32)?),
                false => Storage::F32(layout.plain(device, &rows, |weight| weight)?),
            }
        };
        let by_dot = !device.capabilities().is_simt();
        Ok(Matrix { storage, inputs, panel: layout.panel, by_dot })
    }

    /// A matrix of bf16, of rows of so many inputs.
    pub fn of_bf16(device: &Device, rows: &[f32], inputs: usize) -> kiln::Result<Matrix> {
        let outputs = rows.len() / inputs.max(1);
        let layout = Layout::new(panel(device, outputs), outputs, inputs);
        let storage = Storage::Bf16(layout.plain(device, rows, bf16::from_f32)?);
        let by_dot = !device.capabilities().is_simt();
        Ok(Matrix { storage, inputs, panel: layout.panel, by_dot })
    }

    /// The bytes that a product reads.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Q4 { quants, scales, minima } => quants.len() + 2 * (scales.len() + minima.len()),
            Storage::Q8 { quants, scales } => quants.len() + 2 * scales.len(),
            Storage::Q6 { quants, scales } => quants.len() + 4 * scales.len(),
            Storage::Bf16(weights) => 2 * weights.len(),
            Storage::F32(weights) => 4 * weights.len(),
        }
    }

    /// y = x Wᵀ, or y += x Wᵀ, where each row of x is changed first as `input` says.
    pub fn product(
        &self,
        x: &Tensor<f32, 2>,
        (input, gain, epsilon): (Input, Option<&Tensor<f32, 1>>, f32),
        y: &mut Tensor<f32, 2>,
        adds: bool,
    ) -> kiln::Result<()> {
        let device = x.device().clone();
        let group = if let Storage::Q6 { .. } = self.storage { SMALL_GROUP } else { GROUP };
        let (&Matrix { inputs, panel: outputs, by_dot, .. }, [rows, _]) = (self, x.shape());
        let form = Form { rows, outputs, group, inputs, input, adds, by_dot };
        let none;
        let gain = match gain {
            Some(gain) => gain,
            None => {
                none = x.select(0, 0)?;
                &none
            }
        };
        match &self.storage {
            Storage::Q4 { quants, scales, minima } => {
                kernels::product_q4(x, gain, quants, scales, minima, y, epsilon, form).launch(&device)
            }
            Storage::Q8 { quants, scales } => {
                kernels::product_q8(x, gain, quants, scales, y, epsilon, form).launch(&device)
            }
            Storage::Q6 { quants, scales } => {
                kernels::product_q8(x, gain, quants, scales, y, epsilon, form).launch(&device)
            }
            Storage::Bf16(weights) => {
                kernels::product_plain(x, gain, weights, y, epsilon, form).launch(&device)
            }
            Storage::F32(weights) => {
                kernels::product_plain(x, gain, weights, y, epsilon, form).launch(&device)
            }
        }
    }

    /// x = the rows of the tokens from the present place on.
    pub fn embed(
        &self,
        tokens: &Tensor<i32, 1>,
        place: &Tensor<i32, 1>,
        x: &mut Tensor<f32, 2>,
    ) -> kiln::Result<()> {
        let device = x.device().clone();
        match &self.storage {
            Storage::Q4 { quants, scales, minima } => {
                kernels::embed_q4(quants, scales, minima, tokens, place, x, GROUP).launch(&device)
            }
            Storage::Q8 { quants, scales } => {
                kernels::embed_q8(quants, scales, tokens, place, x, GROUP).launch(&device)
            }
            Storage::Q6 { quants, scales } => {
                kernels::embed_q8(quants, scales, tokens, place, x, SMALL_GROUP).launch(&device)
            }
            Storage::Bf16(weights) => kernels::embed_plain(weights, tokens, place, x, GROUP).launch(&device),
            Storage::F32(weights) => kernels::embed_plain(weights, tokens, place, x, GROUP).launch(&device),
        }
    }
}

/// The blocks of all parts, if they are of one kind.
fn all<B>(parts: &[Weights], of: impl Fn(&Weights) -> Option<Vec<B>>) -> Option<Vec<B>> {
    Some(parts.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Blocks of 4 bits; those without a minimum have -8 scales for one.
fn q4_blocks(weights: &Weights) -> Option<Vec<Q4_1>> {
    let widened = |block: &Q4_0| {
        let minimum = f16::from_f32(-8.0 * block.scale.get().to_f32()).into();
        Q4_1 { scale: block.scale, minimum, quants: block.quants }
    };
    let blocks = weights.blocks::<Q4_0, 32>().map(|blocks| blocks.iter().map(widened).collect());
    blocks.or_else(|| weights.blocks::<Q4_1, 32>().map(<[Q4_1]>::to_vec))
}

/// Where the weights of a matrix go.
struct Layout {
    panel: usize,
    panels: usize,
    inputs: usize,
}

impl Layout {
    fn new(panel: usize, outputs: usize, inputs: usize) -> Layout {
        Layout { panel, panels: outputs.div_ceil(panel), inputs }
    }

    /// The place of an output's element in a tensor of so many rows a panel.
    fn at(&self, output: usize, rows: usize, row: usize) -> usize {
        (output / self.panel * rows + row) * self.panel + output % self.panel
    }

    fn shape(&self, rows: usize) -> [usize; 3] {
        [self.panels, rows, self.panel]
    }

    fn len(&self, rows: usize) -> usize {
        self.shape(rows).iter().product()
    }

    /// Two groups share the bytes of one; where their number is odd, the last is all zeros.
    fn q4(&self, device: &Device, blocks: &[Q4_1]) -> kiln::Result<Storage> {
        let groups = self.inputs / GROUP;
        let pairs = groups.div_ceil(2);
        let mut quants = vec![0u8; self.len(pairs * GROUP)];
        let mut scales = vec![f16::ZERO; self.len(pairs * 2)];
        let mut minima = scales.clone();
        for (i, block) in blocks.iter().enumerate() {
            let (output, group) = (i / groups, i % groups);
            let first = self.at(output, pairs * GROUP, group / 2 * GROUP);
            for (j, &byte) in block.quants.iter().enumerate() {
                let shift = group % 2 * 4;
                quants[first + j * self.panel] |= (byte & 15) << shift;
                quants[first + (j + 16) * self.panel] |= (byte >> 4) << shift;
            }
            let at = self.at(output, pairs * 2, group);
            (scales[at], minima[at]) = (block.scale.get(), block.minimum.get());
        }
        Ok(Storage::Q4 {
            quants: device.tensor(&quants, self.shape(pairs * GROUP))?,
            scales: device.tensor(&scales, self.shape(pairs * 2))?,
            minima: device.tensor(&minima, self.shape(pairs * 2))?,
        })
    }

    fn q8(&self, device: &Device, blocks: &[Q8_0]) -> kiln::Result<Storage> {
        let groups = self.inputs / GROUP;
        let mut quants = vec![0i8; self.len(self.inputs)];
        let mut scales = vec![f16::ZERO; self.len(groups)];
        for (i, block) in blocks.iter().enumerate() {
            let (output, group) = (i / groups, i % groups);
            let first = self.at(output, self.inputs, group * GROUP);
            for (j, &q) in block.quants.iter().enumerate() {
                quants[first + j * self.panel] = q;
            }
            scales[self.at(output, groups, group)] = block.scale.get();
        }
        let quants = device.tensor(&quants, self.shape(self.inputs))?;
        Ok(Storage::Q8 { quants, scales: device.tensor(&scales, self.shape(groups))? })
    }

    fn q6(&self, device: &Device, blocks: &[Q6K]) -> kiln::Result<Storage> {
        let (groups, each) = (self.inputs / SMALL_GROUP, self.inputs / 256);
        let mut quants = vec![0i8; self.len(self.inputs)];
        let mut scales = vec![0f32; self.len(groups)];
        for (i, block) in blocks.iter().enumerate() {
            let (output, part) = (i / each, i % each);
            let first = self.at(output, self.inputs, part * 256);
            for (j, q) in block.quants().into_iter().enumerate() {
                quants[first + j * self.panel] = q;
            }
            let first = self.at(output, groups, part * 16);
            for (j, &scale) in block.scales.iter().enumerate() {
                scales[first + j * self.panel] = block.scale.get().to_f32() * f32::from(scale);
            }
        }
        let quants = device.tensor(&quants, self.shape(self.inputs))?;
        Ok(Storage::Q6 { quants, scales: device.tensor(&scales, self.shape(groups))? })
    }

    fn plain<W: Elem + Default>(
        &self,
        device: &Device,
        weights: &[f32],
        rounded: impl Fn(f32) -> W,
    ) -> kiln::Result<Tensor<W, 3>> {
        let mut panels = vec![W::default(); self.len(self.inputs)];
        for (output, row) in weights.chunks_exact(self.inputs.max(1)).enumerate() {
            let first = self.at(output, self.inputs, 0);
            for (j, &weight) in row.iter().enumerate() {
                panels[first + j * self.panel] = rounded(weight);
            }
        }
        device.tensor(&panels, self.shape(self.inputs))
    }
}

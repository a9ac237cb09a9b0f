//! Linear layers whose weights are of 4 or 8 bits, and stay so in memory.

mod kernels;

use super::layers::Linear;
use super::module::implement_module;
use crate::array::create::constant;
use crate::custom_kernel::kernel_at;
use crate::error::{Error, Site};
use crate::grad::custom_vjp;
use crate::node::Array;
use crate::shape::count;
use kernels::Form;
#[cfg(feature = "files")]
use kiln_files::gguf::{Encoding, Q4_0, Q4_1, Q6K, Q8_0, Weights};
use kiln_ir::{Literal, Scalar};
use std::panic::Location;

/// x · weightᵀ + bias, of weights that are `quant · scale + minimum`: quants of 8 bits, or of 4, of
/// which two share a byte. Some neighbors of a row, a *group*, have a scale in common. A product
/// reads the quants and unpacks them in registers; no weight is written to memory.
///
/// The weights are constants: only x and the bias have gradients. In a network that is trained,
/// such a layer is a field with `#[module(skip)]`.
///
/// ```
/// use kiln_array::nn::{Key, Linear, QuantizedLinear};
/// let device = kiln_runtime::Device::open("cpu")?;
/// let layer = Linear::new(&device, Key::new(1), 64, 32);
/// let x = Key::new(2).normal(&device, &[3, 64]);
/// let exact = layer.forward(&x);
/// let off = |y: kiln_array::Array| (y - &exact).abs().max().item::<f32>();
/// assert!(off(QuantizedLinear::int8(&layer, 32).forward(&x))? < 0.02);
/// assert!(off(QuantizedLinear::int4(&layer, 32).forward(&x))? < 0.3);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizedLinear {
    /// i8 `[outputs, inputs]`; or u8 `[outputs, inputs / 2]`, of which a byte has two neighbors, 0
    /// to 15, the first in its lower half.
    pub quants: Array,
    /// f32 `[outputs, inputs / group]`.
    pub scales: Array,
    /// f32 `[outputs, inputs / group]`, for weights of 4 bits.
    pub minima: Option<Array>,
    /// `[outputs]`.
    pub bias: Option<Array>,
}
implement_module!(QuantizedLinear { quants scales minima bias });

impl QuantizedLinear {
    /// The layer with weights of 8 bits: the nearest of -127 to 127 times a scale, by which the
    /// largest magnitude of its group of so many inputs is 127.
    ///
    /// # Errors
    /// The arrays have an error unless the group is a power of two from 16 to 256 that divides the
    /// inputs.
    #[track_caller]
    pub fn int8(layer: &Linear, group: usize) -> QuantizedLinear {
        let site = Location::caller();
        let of_groups = |grouped: &Array| {
            let scale = grouped.abs().max_keep(&[-1]) / 127.0;
            let quants = (grouped / scale.where_(&scale.greater(0.0), 1.0)).round();
            (quants.cast_at(Scalar::I8, site), scale, None)
        };
        QuantizedLinear::of(layer, group, site, of_groups, |quants| quants)
    }

    /// The layer with weights of 4 bits: the nearest of 16 numbers at equal distances, from the
    /// least weight of its group of so many inputs to the greatest.
    ///
    /// # Errors
    /// As of [`int8`](Self::int8).
    #[track_caller]
    pub fn int4(layer: &Linear, group: usize) -> QuantizedLinear {
        let site = Location::caller();
        let of_groups = |grouped: &Array| {
            let least = grouped.min_keep(&[-1]);
            let scale = (grouped.max_keep(&[-1]) - &least) / 15.0;
            let steps = (grouped - &least) / scale.where_(&scale.greater(0.0), 1.0);
            (steps.round().clip(0.0, 15.0).cast_at(Scalar::U8, site), scale, Some(least))
        };
        let packed = |quants: Array| {
            let [low, high] = [0, 1].map(|first| quants.slice_step(1, first.., 2));
            low + high * 16
        };
        QuantizedLinear::of(layer, group, site, of_groups, packed)
    }

    fn of(
        layer: &Linear,
        group: usize,
        location: Site,
        of_groups: impl FnOnce(&Array) -> (Array, Array, Option<Array>),
        packed: impl FnOnce(Array) -> Array,
    ) -> QuantizedLinear {
        let problem = match layer.weight.shape() {
            &[_, inputs] => group_problem(inputs, group),
            shape => Some(format!("weights of shape {shape:?} instead of [outputs, inputs]")),
        };
        let weight = match problem {
            None => layer.weight.cast_at(Scalar::F32, location),
            Some(problem) => {
                let error = Error::Shape { op: "quantize", problem, location };
                let failed = Array::failed(layer.weight.error().unwrap_or(error), location);
                let (quants, scales, bias) = (failed.clone(), failed, layer.bias.clone());
                return QuantizedLinear { quants, scales, minima: None, bias };
            }
        };
        let (outputs, inputs) = (weight.shape()[0], weight.shape()[1]);
        let (quants, scales, minima) =
            of_groups(&weight.reshaped(&[outputs, inputs / group, group], location));
        let each = |of: Array| of.reshaped(&[outputs, inputs / group], location);
        let quants = packed(quants.reshaped(&[outputs, inputs], location));
        let (scales, minima) = (each(scales), minima.map(each));
        QuantizedLinear { quants, scales, minima, bias: layer.bias.clone() }
    }

    /// The layer of the weights of a GGUF file, as they are there: of Q4_0 and Q4_1 in 4 bits, of
    /// Q8_0 and Q6_K in 8. It has no bias.
    ///
    /// ```no_run
    /// use kiln_array::nn::QuantizedLinear;
    /// use kiln_files::Gguf;
    /// let device = kiln_runtime::Device::open("cuda:0").map_err(|e| e.to_string())?;
    /// let file = Gguf::open("model.gguf").map_err(|e| e.to_string())?;
    /// let weights = file.read("blk.0.ffn_up.weight").map_err(|e| e.to_string())?;
    /// let layer = QuantizedLinear::from_gguf(&device, &weights);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The arrays have an error for other encodings, and for weights that are no matrix.
    #[cfg(feature = "files")]
    #[track_caller]
    pub fn from_gguf(device: &kiln_runtime::Device, weights: &Weights) -> QuantizedLinear {
        let location = Location::caller();
        let refused = |problem| {
            let failed = Array::failed(Error::Shape { op: "from_gguf", problem, location }, location);
            QuantizedLinear { quants: failed.clone(), scales: failed, minima: None, bias: None }
        };
        let &[outputs, inputs] = weights.shape() else {
            return refused(format!("weights of shape {:?} instead of [outputs, inputs]", weights.shape()));
        };
        let (mut bytes, mut signed) = (Vec::<u8>::new(), Vec::<i8>::new());
        let (mut scales, mut minima) = (Vec::<f32>::new(), Vec::<f32>::new());
        let mut four = |halves: &[u8; 16], scale: f32, minimum: f32| {
            let element = |i: usize| if i < 16 { halves[i] & 15 } else { halves[i - 16] >> 4 };
            bytes.extend((0..16).map(|pair| element(2 * pair) | element(2 * pair + 1) << 4));
            scales.push(scale);
            minima.push(minimum);
        };
        let group = if let Some(blocks) = weights.blocks::<Q4_0, 32>() {
            for block in blocks {
                let scale = block.scale.get().to_f32();
                four(&block.quants, scale, -8.0 * scale);
            }
            32
        } else if let Some(blocks) = weights.blocks::<Q4_1, 32>() {
            for block in blocks {
                four(&block.quants, block.scale.get().to_f32(), block.minimum.get().to_f32());
            }
            32
        } else if let Some(blocks) = weights.blocks::<Q8_0, 32>() {
            signed.extend(blocks.iter().flat_map(|block| block.quants));
            scales.extend(blocks.iter().map(|block| block.scale.get().to_f32()));
            32
        } else if let Some(blocks) = weights.blocks::<Q6K, 256>() {
            signed.extend(blocks.iter().flat_map(Q6K::quants));
            scales.extend(blocks.iter().flat_map(|block| {
                let whole = block.scale.get().to_f32();
                block.scales.map(|scale| whole * f32::from(scale))
            }));
            16
        } else {
            let known = [Encoding::Q4_0, Encoding::Q4_1, Encoding::Q8_0, Encoding::Q6K];
            let names = known.map(|encoding| encoding.to_string()).join(", ");
            return refused(format!("weights of {}, expected {names}", weights.encoding()));
        };
        let of_groups =
            |numbers: &[f32]| Array::of_elements(device, numbers, &[outputs, inputs / group], location);
        if signed.is_empty() {
            let quants = Array::of_elements(device, &bytes, &[outputs, inputs / 2], location);
            let (scales, minima) = (of_groups(&scales), Some(of_groups(&minima)));
            return QuantizedLinear { quants, scales, minima, bias: None };
        }
        let quants = Array::of_elements(device, &signed, &[outputs, inputs], location);
        QuantizedLinear { quants, scales: of_groups(&scales), minima: None, bias: None }
    }

    /// The layer of floats `[…, inputs]`: `[…, outputs]`, of x's element type. Sums are of f32. In
    /// f64 the weights are expanded.
    ///
    /// # Errors
    /// The result has an error if x has another last axis or is of no floats, or if quants, scales
    /// and minima do not fit together.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let location = Location::caller();
        let fields = [Some(&self.quants), Some(&self.scales), self.minima.as_ref(), Some(x)];
        if let Some(error) = fields.into_iter().flatten().find_map(Array::error) {
            return Array::failed(error, location);
        }
        let (form, [outputs, inputs]) = match self.form(x) {
            Ok(of) => of,
            Err(problem) => {
                return Array::failed(Error::Shape { op: "quantized linear", problem, location }, location);
            }
        };
        let rows = count(x.shape()) / inputs.max(1);
        let mut shape = x.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let flat = x.reshaped(&[rows, inputs], location);
        let product = match (x.dtype(), x.device()) {
            (_, Some(device)) if flat.is_empty() || outputs == 0 => {
                constant(device, "quantized linear", Literal::zero(x.dtype()), &[rows, outputs], location)
            }
            (Scalar::F64, _) => flat.matmul(&self.weight().cast_at(Scalar::F64, location).transpose()),
            _ => self.by_kernel(&flat, form, [rows, outputs, inputs]),
        };
        let product = product.reshaped(&shape, location);
        match &self.bias {
            Some(bias) => product + bias,
            None => product,
        }
    }

    /// The weights in f32, expanded: `[outputs, inputs]`.
    ///
    /// # Errors
    /// The result has an error if quants, scales and minima do not fit together.
    #[track_caller]
    pub fn weight(&self) -> Array {
        let site = Location::caller();
        let (Some(&outputs), Some(&groups)) = (self.quants.shape().first(), self.scales.shape().last())
        else {
            return self.quants.clone();
        };
        let quants = match self.quants.dtype() {
            Scalar::U8 => {
                let halves = [&self.quants % 16, self.quants.floor_divide(16)];
                crate::array::stack(&[&halves[0], &halves[1]], -1)
            }
            _ => self.quants.clone(),
        };
        let inputs = count(quants.shape()) / outputs.max(1);
        let grouped = quants.reshaped(&[outputs, groups, inputs / groups.max(1)], site);
        let scaled = grouped.cast_at(Scalar::F32, site) * self.scales.unsqueeze(-1);
        let whole = match &self.minima {
            Some(minima) => scaled + minima.unsqueeze(-1),
            None => scaled,
        };
        whole.reshaped(&[outputs, inputs], site)
    }

    #[track_caller]
    fn by_kernel(&self, x: &Array, form: Form, [rows, outputs, inputs]: [usize; 3]) -> Array {
        let site = Location::caller();
        let (quants, scales) = (self.quants.clone(), self.scales.clone());
        let minima = self.minima.clone().unwrap_or_else(|| scales.clone());
        let weights = [quants, scales, minima];
        let of_gradient = weights.clone();
        custom_vjp(
            &[x],
            move |of| {
                let inputs = [&of[0], &weights[0], &weights[1], &weights[2]];
                kernel_at(&inputs, (of[0].dtype(), &[rows, outputs]), form, site, kernels::product)
            },
            move |of, _, g| {
                let (g, dtype) = (g.cast(of[0].dtype()), of[0].dtype());
                let given = [&g, &of_gradient[0], &of_gradient[1], &of_gradient[2]];
                vec![kernel_at(&given, (dtype, &[rows, inputs]), form, site, kernels::gradient)]
            },
        )
    }

    /// What the kernels are made for, with outputs and inputs; or what is wrong with the shapes.
    fn form(&self, x: &Array) -> Result<(Form, [usize; 2]), String> {
        let (&[outputs, width], &[of, groups]) = (self.quants.shape(), self.scales.shape()) else {
            let (quants, scales) = (self.quants.shape(), self.scales.shape());
            return Err(format!("quants of shape {quants:?} and scales of {scales:?}"));
        };
        let (four, inputs) = match self.quants.dtype() {
            Scalar::U8 => (true, width * 2),
            Scalar::I8 => (false, width),
            dtype => return Err(format!("quants of {dtype} instead of i8, or u8 for 4 bits")),
        };
        let minima = self.minima.as_ref().map(|minima| (minima.shape(), minima.dtype()));
        let fits = minima.is_none_or(|minima| minima == (&[of, groups][..], Scalar::F32));
        if of != outputs || self.scales.dtype() != Scalar::F32 || !fits || four != minima.is_some() {
            let given = match minima {
                Some((shape, dtype)) => format!("minima of {dtype} {shape:?}"),
                None => "no minima".to_owned(),
            };
            let scales = (self.scales.dtype(), self.scales.shape());
            return Err(format!(
                "quants of {} {:?} with scales of {} {:?} and {given}",
                self.quants.dtype(),
                self.quants.shape(),
                scales.0,
                scales.1
            ));
        }
        if x.shape().last() != Some(&inputs) || !x.dtype().is_float() {
            let (dtype, shape) = (x.dtype(), x.shape());
            return Err(format!("x is of {dtype} and shape {shape:?}, and the layer has {inputs} inputs"));
        }
        let group = inputs.checked_div(groups).unwrap_or(0);
        match group_problem(inputs, group) {
            Some(problem) => Err(problem),
            None => Ok((Form { group, four }, [outputs, inputs])),
        }
    }
}

/// What is wrong with a group of so many of the inputs.
fn group_problem(inputs: usize, group: usize) -> Option<String> {
    let fits = group.is_power_of_two() && (16..=256).contains(&group) && inputs.is_multiple_of(group);
    let expected = "expected a power of two from 16 to 256 that divides them";
    (!fits).then(|| format!("groups of {group} of {inputs} inputs, {expected}"))
}

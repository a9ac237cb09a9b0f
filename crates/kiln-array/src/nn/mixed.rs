//! Mixed precision: floats of 16 and 8 bits with masters of 32 bits.

use super::cast_float;
use crate::array::eval;
use crate::grad::parameters::{arrays, narrowed};
use crate::grad::{Gradients, Parameters, custom_vjp, value_and_grad};
use crate::node::Array;
use crate::weight_products::WeightProducts;
use kiln_ir::Scalar;
use std::sync::{Mutex, PoisonError};

/// The first scale of losses in f16.
const FIRST_SCALE: f32 = 65536.0;
/// After so many good steps the scale doubles.
const GOOD_STEPS: f32 = 2000.0;
/// The largest scale, so that a gradient of zeros does not make it infinite.
const LARGEST_SCALE: f32 = 16_777_216.0;

/// In which floats a loss and its gradients are computed. Parameters stay in f32, and gradients are
/// of f32.
///
/// ```
/// use kiln_array::nn::{Key, Linear, Mixed};
/// use kiln_array::optimizer::Sgd;
/// use kiln_array::{Array, Scalar};
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut net = Linear::new(&device, Key::new(1), 3, 2);
/// let x = Array::full(&device, 0.5f32, &[4, 3]).cast(Scalar::BF16);
/// let targets = Array::new(&device, &[0i32, 1, 1, 1], &[4]);
/// let (mixed, mut optimizer) = (Mixed::bf16(), Sgd::new(0.1));
/// let (loss, gradients) = mixed.value_and_grad(&net, |n| n.forward(&x).cross_entropy(&targets));
/// optimizer.step(&mut net, gradients.clip_norm(1.0))?;
/// assert!(loss.item::<f32>()? > 0.0); // computed by the step
/// assert_eq!(net.weight.dtype(), Scalar::F32);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Debug)]
pub struct Mixed {
    dtype: Scalar,
    /// How layers multiply by their weights.
    products: WeightProducts,
    /// The scale of losses and the good steps since it changed, on the device; `None` before the
    /// first step. Only f16 has one.
    scale: Option<Mutex<Option<[Array; 2]>>>,
}

impl Mixed {
    /// Computes in f32.
    pub fn f32() -> Mixed {
        Mixed::unscaled(Scalar::F32)
    }

    /// Computes in bf16, whose range is f32's.
    pub fn bf16() -> Mixed {
        Mixed::unscaled(Scalar::BF16)
    }

    /// Computes in bf16, as [`bf16`](Self::bf16), and multiplies by the weights of layers in 8-bit
    /// floats: [`Linear`](super::Linear), and the products of [`Attention`](super::Attention) and
    /// [`Conv2d`](super::Conv2d) that are such layers, by the rule of
    /// [`matmul_fp8`](Array::matmul_fp8). Factors are of E4M3 and gradients of E5M2. Each has a
    /// scale of its own, so losses need none. Scores of attention, and what the function multiplies
    /// by `matmul` itself, are not of 8 bits.
    ///
    /// Layers do so wherever the function calls them on its own thread, in `remat` too, and not
    /// outside of it.
    ///
    /// ```
    /// use kiln_array::nn::{Key, Linear, Mixed};
    /// use kiln_array::optimizer::Sgd;
    /// use kiln_array::{Array, Scalar};
    ///
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let mut net = Linear::new(&device, Key::new(1), 3, 2);
    /// let (mixed, mut optimizer) = (Mixed::fp8(), Sgd::new(0.1));
    /// let x = Array::full(&device, 0.5f32, &[4, 3]).cast(mixed.dtype());
    /// let targets = Array::new(&device, &[0i32, 1, 1, 1], &[4]);
    /// let mut losses = Vec::new();
    /// for _ in 0..3 {
    ///     let (loss, gradients) = mixed.value_and_grad(&net, |n| n.forward(&x).cross_entropy(&targets));
    ///     optimizer.step(&mut net, gradients)?;
    ///     losses.push(loss.item::<f32>()?);
    /// }
    /// assert!(losses[2] < losses[0]);
    /// assert_eq!((mixed.dtype(), net.weight.dtype()), (Scalar::BF16, Scalar::F32));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn fp8() -> Mixed {
        Mixed { products: WeightProducts::Fp8, ..Mixed::bf16() }
    }

    /// Computes in floats whose range is f32's.
    fn unscaled(dtype: Scalar) -> Mixed {
        Mixed { dtype, products: WeightProducts::AsGiven, scale: None }
    }

    /// Computes in f16, and scales losses so that small gradients are not zero. The scale is 65536
    /// at first; 2000 good steps double it, and a gradient that is not finite halves it. The
    /// optimizer changes nothing in such a step. End a loss in f32, as `cross_entropy` does: a
    /// scaled gradient is out of the range of f16 otherwise.
    ///
    /// ```
    /// use kiln_array::nn::{Key, Linear, Mixed};
    /// use kiln_array::optimizer::Sgd;
    /// use kiln_array::Array;
    ///
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let mut net = Linear::new(&device, Key::new(1), 3, 2);
    /// let (mixed, mut optimizer) = (Mixed::f16(), Sgd::new(0.1));
    /// let x = Array::full(&device, 0.5f32, &[4, 3]).cast(mixed.dtype());
    /// let targets = Array::new(&device, &[0i32, 1, 1, 1], &[4]);
    /// assert_eq!((mixed.scale()?, Mixed::bf16().scale()?), (65536.0, 1.0));
    /// let before = net.weight.to_vec::<f32>()?;
    /// let (_, gradients) = mixed.value_and_grad(&net, |n| n.forward(&x).cross_entropy(&targets));
    /// optimizer.step(&mut net, gradients)?;
    /// assert_ne!(net.weight.to_vec::<f32>()?, before);
    /// assert_eq!(mixed.scale()?, 65536.0);
    /// // A gradient that is not finite halves the scale, and changes no parameter.
    /// let before = net.weight.to_vec::<f32>()?;
    /// let (_, gradients) = mixed.value_and_grad(&net, |n| n.forward(&(&x * f32::INFINITY)).sum());
    /// optimizer.step(&mut net, gradients)?;
    /// assert_eq!((mixed.scale()?, net.weight.to_vec::<f32>()?), (32768.0, before));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn f16() -> Mixed {
        Mixed { scale: Some(Mutex::default()), ..Mixed::unscaled(Scalar::F16) }
    }

    /// The element type that losses are computed in.
    pub fn dtype(&self) -> Scalar {
        self.dtype
    }

    /// The scale of the next loss: 1 but for f16. Waits for the device.
    ///
    /// ```
    /// # use kiln_array::nn::Mixed;
    /// assert_eq!((Mixed::f32().scale()?, Mixed::f16().scale()?), (1.0, 65536.0));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of launches before.
    pub fn scale(&self) -> crate::Result<f32> {
        let Some(state) = &self.scale else { return Ok(1.0) };
        let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        state.map_or(Ok(FIRST_SCALE), |[scale, _]| scale.item())
    }

    /// A loss, and its gradients with respect to the parameters, for an optimizer's step, which
    /// computes both. The function gets the parameters in this policy's element type; cast its data
    /// to [`dtype`](Self::dtype) too, for f32 beside f16 makes f32.
    ///
    /// # Errors
    /// As of [`grad`](crate::grad()): the gradients have the error.
    #[track_caller]
    pub fn value_and_grad<P: Parameters>(
        &self,
        at: &P,
        f: impl FnOnce(&P) -> Array,
    ) -> (Array, Gradients<P>) {
        let dtype = self.dtype;
        let _products = self.products.enter();
        keep_narrow(at, dtype);
        let narrow = |at: &P| at.map(&mut |parameter| narrow_of(parameter, dtype));
        let Some(state) = &self.scale else {
            let (loss, of) = value_and_grad(|at| f(&narrow(at)), at);
            let mut gradients = Gradients::from(of);
            gradients.together.push(loss.clone());
            gradients.narrow = Some(dtype);
            return (loss, gradients);
        };
        // The function may ask for the scale itself, so the lock is not held meanwhile.
        let before = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = before.or_else(|| first_state(at));
        let mut loss = None;
        let (scaled_loss, scaled) = value_and_grad(
            |at| {
                let value = f(&narrow(at)).cast(Scalar::F32);
                loss = Some(value.clone());
                match &before {
                    Some([scale, _]) => value * scale,
                    None => value,
                }
            },
            at,
        );
        let loss = loss.unwrap_or_else(|| scaled_loss.clone());
        let Some([scale, good]) = before else {
            // Without a parameter on a device there is nothing to scale.
            return (loss, Gradients::from(scaled));
        };
        let unscaled = scaled.map(&mut |gradient| gradient * scale.recip());
        let mut gradients = Gradients::from(unscaled);
        let usable = gradients.norm().less(f64::INFINITY);
        let counted = &good + 1.0;
        let grows = counted.greater_equal(GOOD_STEPS);
        let risen = (&scale * 2.0).minimum(LARGEST_SCALE).where_(&grows, &scale);
        let next = risen.where_(&usable, (&scale * 0.5).maximum(1.0));
        let zero = &good * 0.0;
        let good = zero.where_(&grows, &counted).where_(&usable, &zero);
        gradients.together.extend([loss.clone(), next.clone(), good.clone()]);
        // A loss with an error leaves the scale as it was, for the steps that follow.
        if next.error().is_none() && good.error().is_none() {
            *state.lock().unwrap_or_else(PoisonError::into_inner) = Some([next, good]);
        }
        gradients.usable = Some(usable);
        gradients.narrow = Some(dtype);
        (loss, gradients)
    }
}

/// Makes parameters narrow that an optimizer's step has not made so: those of the first step. So
/// all steps have the same kernels.
fn keep_narrow<P: Parameters>(at: &P, dtype: Scalar) {
    let mut all = arrays(at);
    all.retain(|parameter| !parameter.is_tracked() && parameter.narrow(dtype).is_none());
    let pairs: Vec<(Array, Array)> = all
        .into_iter()
        .filter_map(|parameter| narrowed(&parameter, dtype).map(|narrow| (parameter, narrow)))
        .collect();
    // What cannot be computed is cast where it is used, which has the error.
    if eval(&pairs.iter().flat_map(|(one, other)| [one, other]).collect::<Vec<_>>()).is_ok() {
        pairs.into_iter().for_each(|(parameter, narrow)| parameter.keep_narrow(narrow));
    }
}

/// A variable in narrower floats: those of its parameter, if they are there.
#[track_caller]
fn narrow_of(variable: &Array, dtype: Scalar) -> Array {
    let parameter = variable.recipe().and_then(|recipe| recipe.inputs.first().cloned());
    match parameter.as_ref().and_then(|parameter| parameter.narrow(dtype)) {
        Some(narrow) => custom_vjp(&[variable], |_| narrow.clone(), |of, _, g| vec![g.cast(of[0].dtype())]),
        None => cast_float(variable, dtype),
    }
}

/// The state before the first step: elements in memory as later ones are, so that all steps have
/// the same kernels.
fn first_state<P: Parameters>(at: &P) -> Option<[Array; 2]> {
    let mut device = None;
    at.map(&mut |parameter| {
        device = device.take().or_else(|| parameter.device().cloned());
        parameter.clone()
    });
    let device = device?;
    Some([FIRST_SCALE, 0.0].map(|number| Array::new(&device, &[number], &[])))
}

//! What the steps of all optimizers have in common.

use crate::array::eval;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::grad::parameters::narrowed;
use crate::grad::{Gradients, Parameters, called};
use crate::node::Array;
use crate::plan::program::is_part_of_code;
use kiln_ir::{Literal, Scalar};
use kiln_runtime::DynTensor;
use std::iter;

/// What an optimizer keeps of each parameter: `N` arrays of its shape, zeros at first.
#[derive(Clone, Debug)]
pub(super) struct OptimizerState<const N: usize> {
    of: Vec<[Array; N]>,
    /// The number of steps so far.
    pub(super) steps: usize,
}

/// A parameter and its state in a step, in f32 or wider.
pub(super) struct Update<'a, const N: usize> {
    pub(super) parameter: Array,
    pub(super) gradient: Array,
    pub(super) state: &'a [Array; N],
    /// Whether weight decay is for it: for all but vectors and numbers, which are biases and the
    /// weights of norms.
    pub(super) decays: bool,
}

/// A number that changes from step to step, as one that no formula has: those of formulas are part
/// of kernels, so that a rate that becomes 0, or a correction that becomes 1, would make other
/// kernels. Such a number becomes the next f32, above or below.
pub(super) fn of_step(number: f64, above: bool) -> f64 {
    let narrow = number as f32;
    match is_part_of_code(Literal::from_f64(Scalar::F32, narrow.into())) {
        true if narrow.is_finite() => (if above { narrow.next_up() } else { narrow.next_down() }).into(),
        _ => number,
    }
}

impl<const N: usize> OptimizerState<N> {
    pub(super) fn new() -> OptimizerState<N> {
        OptimizerState { of: Vec::new(), steps: 0 }
    }

    /// The arrays of all parameters, part by part.
    pub(super) fn parts(&self) -> Vec<Vec<Array>> {
        let part = |part: usize| self.of.iter().map(|arrays| arrays[part].clone()).collect();
        if self.of.is_empty() { Vec::new() } else { (0..N).map(part).collect() }
    }

    /// Goes on from a number of steps with the arrays that [`OptimizerState::parts`] gave.
    pub(super) fn restore(&mut self, steps: usize, parts: &[Vec<Array>]) {
        let count = parts.iter().map(Vec::len).min().unwrap_or(0);
        let whole = parts.len() == N;
        let of = |at: usize| std::array::from_fn(|part| parts[part][at].clone());
        self.of = if whole { (0..count).map(of).collect() } else { Vec::new() };
        self.steps = steps;
    }

    /// Changes parameters by a rule, which gives a new parameter and its new state. Nothing changes
    /// if the step fails.
    pub(super) fn step<P: Parameters>(
        &mut self,
        net: &mut P,
        gradients: Gradients<P>,
        site: Site,
        rule: impl Fn(Update<'_, N>) -> (Array, [Array; N]),
    ) -> Result<()> {
        let Gradients { of, usable, together, narrow } = gradients;
        let (parameters, gradients) = (collected(net), collected(&of));
        self.check(&parameters, &gradients, site)?;
        check_floats(net, &parameters, &gradients, site)?;
        // Kept with the first step that succeeds: another one may be of another module.
        let first = match self.of.is_empty() {
            true => parameters.iter().map(|parameter| zeros(parameter, site)).collect::<Result<_>>()?,
            false => Vec::new(),
        };
        let before = if self.of.is_empty() { &first } else { &self.of };
        let chosen = |new: Array, old: &Array| match &usable {
            Some(usable) => new.where_(usable, old),
            None => new,
        };
        let mut made = Vec::new();
        let mut states = Vec::new();
        for ((parameter, gradient), state) in parameters.iter().zip(gradients).zip(before) {
            let wide = parameter.dtype().accumulator();
            let update = Update {
                parameter: parameter.cast(wide),
                gradient: gradient.cast(wide),
                state,
                decays: parameter.rank() > 1,
            };
            let (new, next) = rule(update);
            made.push(chosen(new.cast(parameter.dtype()), parameter));
            let mut olds = state.iter();
            states.push(next.map(|next| match olds.next() {
                Some(old) => chosen(next, old),
                None => next,
            }));
        }
        let narrowed: Vec<Option<Array>> = made.iter().map(|new| narrowed(new, narrow?)).collect();
        // Each after what it is made of, whose kernel it joins.
        let parameters = made.iter().zip(&narrowed).flat_map(|(new, narrow)| iter::once(new).chain(narrow));
        eval(&parameters.chain(states.iter().flatten()).chain(&together).collect::<Vec<_>>())?;
        for (new, narrow) in made.iter().zip(narrowed) {
            narrow.into_iter().for_each(|narrow| new.keep_narrow(narrow));
        }
        let mut next = made.into_iter();
        *net = net.map(&mut |parameter| next.next().unwrap_or_else(|| parameter.clone()));
        self.of = states;
        self.steps = self.steps.saturating_add(1); // A damaged file may have said any number.
        Ok(())
    }

    /// Refuses what is not the module of the steps before, and gradients of another one.
    fn check(&self, parameters: &[Array], gradients: &[Array], location: Site) -> Result<()> {
        if let Some(error) = parameters.iter().chain(gradients).find_map(Array::error) {
            return Err(error);
        }
        let shapes = |arrays: &[Array]| -> Vec<Vec<usize>> {
            arrays.iter().map(|array| array.shape().to_vec()).collect()
        };
        let of = shapes(parameters);
        let problem = if of != shapes(gradients) {
            format!("gradients of shapes {:?} for parameters of shapes {of:?}", shapes(gradients))
        } else if !self.of.is_empty() && !self.of.iter().map(|state| state[0].shape()).eq(of.iter()) {
            "the module is not the one of the steps before; make an optimizer for each module".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Shape { op: "step", problem, location })
    }
}

/// Refuses parameters and gradients that are no floats: a step would truncate them.
fn check_floats<P: Parameters>(
    net: &P,
    parameters: &[Array],
    gradients: &[Array],
    location: Site,
) -> Result<()> {
    for (at, (parameter, gradient)) in parameters.iter().zip(gradients).enumerate() {
        for (array, of) in [(parameter, ""), (gradient, "the gradient of ")] {
            if kind(array.dtype()) != Kind::Float {
                let (name, dtype) = (called(net, at), array.dtype());
                let problem = format!("{of}{name} is of {dtype}: an optimizer changes floats, by floats");
                return Err(Error::Gradient { problem, location });
            }
        }
    }
    Ok(())
}

fn collected<P: Parameters>(of: &P) -> Vec<Array> {
    let mut all = Vec::new();
    of.map(&mut |array| {
        all.push(array.clone());
        array.clone()
    });
    all
}

/// Zeros in memory, an array each, as later states are: so that all steps have the same kernels.
fn zeros<const N: usize>(parameter: &Array, site: Site) -> Result<[Array; N]> {
    let dtype = parameter.dtype().accumulator();
    let mut states = [const { None }; N];
    for state in &mut states {
        let Some(device) = parameter.device() else { continue };
        let zeros = DynTensor::zeros(device, dtype, parameter.shape());
        *state = Some(Array::from_tensor(zeros.map_err(|error| Error::run(error, site))?));
    }
    Ok(states.map(|state| state.unwrap_or_else(|| parameter.clone())))
}

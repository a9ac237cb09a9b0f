//! A two-layer perceptron and its training on a device.

use crate::data::Set;
use crate::kernels;
use kiln::{Device, Result, Tensor};
use std::ops::Range;

/// How many images are classified at a time.
pub const CLASSIFIED: usize = 1024;

/// What training depends on, beside the data.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub hidden: usize,
    pub batch: usize,
    pub epochs: usize,
    pub learning_rate: f32,
    pub weight_decay: f32,
    /// Uniform noise in ± this is added to every training pixel, so that the few images are never
    /// seen twice alike.
    pub noise: f32,
    pub seed: u64,
}

impl Recipe {
    /// What the UCI digits are learned by.
    pub const DIGITS: Recipe = Recipe {
        hidden: 128,
        batch: 64,
        epochs: 40,
        learning_rate: 5e-3,
        weight_decay: 0.1,
        noise: 0.35,
        seed: 0,
    };
}

/// A matrix or bias with what AdamW keeps of it.
struct Parameter {
    value: Tensor<f32, 1>,
    gradient: Tensor<f32, 1>,
    momentum: Tensor<f32, 1>,
    variance: Tensor<f32, 1>,
    shape: [usize; 2],
    decays: bool,
}

impl Parameter {
    fn matrix(device: &Device, shape: [usize; 2], random: &mut fastrand::Rng) -> Result<Parameter> {
        // He initialization, uniform (He et al., "Delving deep into rectifiers", 2015).
        let bound = (6.0 / shape[0] as f32).sqrt();
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| (2.0 * random.f32() - 1.0) * bound).collect();
        Parameter::new(device, &values, shape, true)
    }

    fn bias(device: &Device, len: usize) -> Result<Parameter> {
        Parameter::new(device, &vec![0.0; len], [1, len], false)
    }

    fn new(device: &Device, values: &[f32], shape: [usize; 2], decays: bool) -> Result<Parameter> {
        let n = values.len();
        Ok(Parameter {
            value: device.tensor(values, [n])?,
            gradient: device.zeros([n])?,
            momentum: device.zeros([n])?,
            variance: device.zeros([n])?,
            shape,
            decays,
        })
    }

    fn matrix_view(&self) -> Result<Tensor<f32, 2>> {
        self.value.reshape(self.shape)
    }

    fn gradient_view(&self) -> Result<Tensor<f32, 2>> {
        self.gradient.reshape(self.shape)
    }

    fn update(&mut self, device: &Device, rate: f32, decay: f32, step: usize) -> Result<()> {
        let correction = |beta: f32| 1.0 - beta.powi(step as i32);
        let decay = if self.decays { decay } else { 0.0 };
        let (p, g, m, v) = (&mut self.value, &self.gradient, &mut self.momentum, &mut self.variance);
        kernels::adamw(p, g, m, v, rate, decay, correction(0.9), correction(0.999)).launch(device)
    }
}

/// The network: x → relu(x w1 + b1) w2 + b2.
pub struct Network {
    device: Device,
    recipe: Recipe,
    classes: usize,
    w1: Parameter,
    b1: Parameter,
    w2: Parameter,
    b2: Parameter,
    steps: usize,
}

/// What a batch passes through, allocated once for a batch size.
struct Activations {
    x: Tensor<f32, 2>,
    labels: Tensor<i32, 1>,
    hidden: Tensor<f32, 2>,
    logits: Tensor<f32, 2>,
    d_logits: Tensor<f32, 2>,
    d_hidden: Tensor<f32, 2>,
    loss: Tensor<f32, 1>,
    correct: Tensor<i32, 1>,
}

/// A network's training on a set: the batches to come, and how long.
pub struct Training {
    activations: Activations,
    random: fastrand::Rng,
    /// The images of an epoch, batch after batch.
    order: Vec<usize>,
    /// How many there were so far, and will have been.
    taken: usize,
    pub steps: usize,
}

impl Training {
    /// The loss of each image of the last batch.
    pub fn losses(&self) -> &Tensor<f32, 1> {
        &self.activations.loss
    }
}

/// The mean of the losses of a batch.
pub fn mean(losses: &[f32]) -> f32 {
    losses.iter().sum::<f32>() / losses.len() as f32
}

/// One image's way through the network, by launches.
#[allow(dead_code)] // examples/inference
pub struct Row {
    activations: Activations,
}

#[allow(dead_code)] // examples/inference
impl Row {
    /// An image's logits: copy in, two kernels, copy out.
    pub fn logits(&mut self, network: &Network, image: &[f32]) -> Result<Vec<f32>> {
        let (a, d) = (&mut self.activations, &network.device);
        a.x.write(image)?;
        kernels::linear(&a.x, &network.w1.matrix_view()?, &network.b1.value, &mut a.hidden, true)
            .launch(d)?;
        kernels::linear(&a.hidden, &network.w2.matrix_view()?, &network.b2.value, &mut a.logits, false)
            .launch(d)?;
        a.logits.to_vec()
    }
}

impl Network {
    pub fn new(device: &Device, recipe: Recipe, pixels: usize, classes: usize) -> Result<Network> {
        let mut random = fastrand::Rng::with_seed(recipe.seed);
        Ok(Network {
            w1: Parameter::matrix(device, [pixels, recipe.hidden], &mut random)?,
            b1: Parameter::bias(device, recipe.hidden)?,
            w2: Parameter::matrix(device, [recipe.hidden, classes], &mut random)?,
            b2: Parameter::bias(device, classes)?,
            device: device.clone(),
            recipe,
            classes,
            steps: 0,
        })
    }

    fn activations(&self, batch: usize) -> Result<Activations> {
        let (d, hidden) = (&self.device, self.recipe.hidden);
        Ok(Activations {
            x: d.uninit([batch, self.w1.shape[0]])?,
            labels: d.uninit([batch])?,
            hidden: d.uninit([batch, hidden])?,
            logits: d.uninit([batch, self.classes])?,
            d_logits: d.uninit([batch, self.classes])?,
            d_hidden: d.uninit([batch, hidden])?,
            loss: d.uninit([batch])?,
            correct: d.uninit([batch])?,
        })
    }

    /// Trains for the recipe's epochs, or `limit` steps if that is fewer, and calls
    /// `report(step, of, loss)` after each.
    #[allow(dead_code)] // examples/web
    pub fn train(
        &mut self,
        set: &Set,
        limit: usize,
        mut report: impl FnMut(usize, usize, f32),
    ) -> Result<()> {
        let mut training = self.training(set)?;
        let steps = limit.min(training.steps);
        for step in 1..=steps {
            self.step(&mut training, set)?;
            report(step, steps, mean(&training.losses().to_vec()?));
        }
        Ok(())
    }

    /// What training on a set needs.
    pub fn training(&self, set: &Set) -> Result<Training> {
        let Recipe { batch, epochs, seed, .. } = self.recipe;
        Ok(Training {
            activations: self.activations(batch)?,
            random: fastrand::Rng::with_seed(seed.wrapping_add(1)),
            order: (0..set.len()).collect(),
            taken: 0,
            steps: epochs * (set.len() / batch),
        })
    }

    /// Enqueues the next step of training. There is one for each batch of the recipe's epochs.
    pub fn step(&mut self, training: &mut Training, set: &Set) -> Result<()> {
        let Recipe { batch, noise, .. } = self.recipe;
        let Training { activations: a, random, order, taken, steps: total } = training;
        // The short last batch of an epoch is dropped, so that every batch has the same shape.
        let at = *taken % (set.len() / batch);
        *taken += 1;
        if at == 0 {
            random.shuffle(order);
        }
        let images = &order[at * batch..][..batch];
        let mut noisy = |p: f32| p + noise * (2.0 * random.f32() - 1.0);
        let pixels: Vec<f32> = images.iter().flat_map(|&i| set.image(i)).map(|&p| noisy(p)).collect();
        let labels: Vec<i32> = images.iter().map(|&i| set.labels[i]).collect();
        a.x.write(&pixels)?;
        a.labels.write(&labels)?;
        self.forward(a)?;
        self.backward(a)?;
        self.steps += 1;
        // The learning rate falls to zero along a cosine (Loshchilov and Hutter, "SGDR", 2017).
        let progress = (self.steps - 1) as f32 / *total as f32;
        let rate = self.recipe.learning_rate * 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
        for p in [&mut self.w1, &mut self.b1, &mut self.w2, &mut self.b2] {
            p.update(&self.device, rate, self.recipe.weight_decay, self.steps)?;
        }
        Ok(())
    }

    fn forward(&self, a: &mut Activations) -> Result<()> {
        let d = &self.device;
        kernels::linear(&a.x, &self.w1.matrix_view()?, &self.b1.value, &mut a.hidden, true).launch(d)?;
        kernels::linear(&a.hidden, &self.w2.matrix_view()?, &self.b2.value, &mut a.logits, false)
            .launch(d)?;
        let classes = self.classes.next_power_of_two();
        kernels::cross_entropy(&a.logits, &a.labels, &mut a.d_logits, &mut a.loss, &mut a.correct, classes)
            .launch(d)
    }

    fn backward(&mut self, a: &mut Activations) -> Result<()> {
        let d = &self.device;
        let rows = a.loss.len().next_power_of_two();
        kernels::matmul(&a.hidden.transpose(), &a.d_logits, &mut self.w2.gradient_view()?).launch(d)?;
        kernels::column_sums(&a.d_logits, &mut self.b2.gradient, rows).launch(d)?;
        let w2t = self.w2.matrix_view()?.transpose();
        kernels::linear_backward(&a.d_logits, &w2t, &a.hidden, &mut a.d_hidden).launch(d)?;
        kernels::matmul(&a.x.transpose(), &a.d_hidden, &mut self.w1.gradient_view()?).launch(d)?;
        kernels::column_sums(&a.d_hidden, &mut self.b1.gradient, rows).launch(d)
    }

    /// Weights and bias of the first layer, then of the second; matrices are row-major
    /// `[inputs, outputs]`.
    #[allow(dead_code)] // examples/inference
    pub fn parameters(&self) -> Result<[Vec<f32>; 4]> {
        let [a, b, c, d] = [&self.w1, &self.b1, &self.w2, &self.b2].map(|p| p.value.to_vec());
        Ok([a?, b?, c?, d?])
    }

    /// What classifying one image at a time needs.
    #[allow(dead_code)] // examples/inference
    pub fn row(&self) -> Result<Row> {
        Ok(Row { activations: self.activations(1)? })
    }

    /// How many images of a set are classified right.
    #[allow(dead_code)] // examples/web
    pub fn count_correct(&self, set: &Set) -> Result<usize> {
        let mut right = 0;
        for start in (0..set.len()).step_by(CLASSIFIED) {
            let correct = self.classify(set, start..set.len().min(start + CLASSIFIED))?;
            right += correct.to_vec()?.iter().sum::<i32>() as usize;
        }
        Ok(right)
    }

    /// For each of some images 1 if it is classified right, else 0.
    pub fn classify(&self, set: &Set, range: Range<usize>) -> Result<Tensor<i32, 1>> {
        let mut a = self.activations(range.len())?;
        a.x.write(&set.pixels[range.start * set.size..range.end * set.size])?;
        a.labels.write(&set.labels[range])?;
        self.forward(&mut a)?;
        Ok(a.correct)
    }
}

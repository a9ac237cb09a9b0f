//! Training a network, and counting what it gets right.

use crate::data::Set;
use crate::models::Network;
use kiln::Device;
use kiln::array::nn::{Batches, Key, Mixed, prefetch};
use kiln::array::optimizer::{AdamW, Schedule};
use kiln::array::{Array, Result, eval};
use std::sync::Arc;

/// How a network is trained.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub epochs: usize,
    pub batch: usize,
    /// The highest learning rate.
    pub rate: f64,
    /// The norm down to which longer gradients are scaled.
    pub clip: Option<f64>,
    pub seed: u64,
}

impl Recipe {
    /// The steps for so many images.
    pub fn steps(&self, images: usize) -> usize {
        self.epochs * (images / self.batch.max(1))
    }
}

/// Trains a network. Gives it to `progress` with the loss of each step.
pub fn train<N: Network>(
    device: &Device,
    recipe: Recipe,
    set: &Arc<Set>,
    mut progress: impl FnMut(f32),
) -> Result<N> {
    let [weights, order] = Key::new(recipe.seed).split();
    let mut net = N::new(device, weights, side(set));
    eval(&net.parameters().iter().map(|(_, parameter)| parameter).collect::<Vec<_>>())?;
    let steps = recipe.steps(set.len());
    let mut optimizer = AdamW::new(Schedule::cosine(recipe.rate, steps / 20, steps));
    let mixed = Mixed::f32();
    // Batches are put together in a thread, while the device computes.
    let (count, images) = (set.len(), set.clone());
    let batches = (0..recipe.epochs)
        .flat_map(move |epoch| Batches::new(count, recipe.batch).shuffled(order.fold(epoch as u64)))
        .map(move |batch| pixels_and_labels(&images, &batch));
    let mut before: Option<Array> = None;
    for (pixels, labels) in prefetch(2, batches) {
        let (images, labels) =
            (self::images(device, set, &pixels), Array::new(device, &labels, &[labels.len()]));
        let (loss, gradients) =
            mixed.value_and_grad(&net, |net: &N| net.forward(&images).cross_entropy(&labels));
        let gradients = match recipe.clip {
            Some(norm) => gradients.clip_norm(norm),
            None => gradients,
        };
        optimizer.step(&mut net, gradients)?;
        // The loss of the step before: reading it does not wait for this one.
        if let Some(loss) = before.replace(loss) {
            progress(loss.item()?);
        }
    }
    if let Some(loss) = before {
        progress(loss.item()?);
    }
    Ok(net)
}

/// How many images of a set a network classifies as labeled.
pub fn count_correct<N: Network>(device: &Device, net: &N, set: &Set) -> Result<usize> {
    const BATCH: usize = 500;
    let mut right = 0;
    for first in (0..set.len()).step_by(BATCH) {
        let batch: Vec<usize> = (first..set.len().min(first + BATCH)).collect();
        let (pixels, labels) = pixels_and_labels(set, &batch);
        let labels = Array::new(device, &labels, &[batch.len()]);
        let classes = net.forward(&images(device, set, &pixels)).argmax(-1);
        right += classes.equal(labels).sum().item::<i64>()? as usize;
    }
    Ok(right)
}

fn pixels_and_labels(set: &Set, batch: &[usize]) -> (Vec<f32>, Vec<i32>) {
    let pixels = batch.iter().flat_map(|&image| set.image(image)).copied().collect();
    (pixels, batch.iter().map(|&image| set.labels[image]).collect())
}

/// The rows of an image, which is a square.
fn side(set: &Set) -> usize {
    set.size.isqrt()
}

fn images(device: &Device, set: &Set, pixels: &[f32]) -> Array {
    let side = side(set);
    Array::new(device, pixels, &[pixels.len() / set.size.max(1), side, side])
}

//! Training: batches, steps, checkpoints, the validation, and samples.

use crate::model::{Extents, Gpt};
use crate::text::Text;
use kiln::Device;
use kiln::array::nn::{Key, Mixed, load_checkpoint, save_checkpoint};
use kiln::array::optimizer::{AdamW, Optimizer, Schedule};
use kiln::array::{Array, Module, Result, eval};
use std::error::Error;
use std::path::Path;

/// What a run depends on, beside the text.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub extents: Extents,
    pub batch: usize,
    pub length: usize,
    pub steps: usize,
    /// The highest learning rate.
    pub rate: f64,
    pub bf16: bool,
    pub seed: u64,
}

/// A network in training.
pub struct Training {
    pub net: Gpt,
    optimizer: AdamW,
    mixed: Mixed,
    recipe: Recipe,
    device: Device,
}

impl Training {
    /// Makes a network with random parameters.
    pub fn new(device: &Device, recipe: Recipe) -> Result<Training> {
        let net = Gpt::new(device, Key::new(recipe.seed).fold(0), recipe.extents);
        // In memory, as those of later steps are: all steps have the same kernels then.
        eval(&net.parameters().iter().map(|(_, parameter)| parameter).collect::<Vec<_>>())?;
        let rates = Schedule::cosine(recipe.rate, recipe.steps.min(200) / 10, recipe.steps);
        Ok(Training {
            net,
            optimizer: AdamW::new(rates).betas(0.9, 0.95).weight_decay(0.1),
            mixed: if recipe.bf16 { Mixed::bf16() } else { Mixed::f32() },
            recipe,
            device: device.clone(),
        })
    }

    /// The number of steps so far.
    pub fn steps(&self) -> usize {
        self.optimizer.steps()
    }

    /// Trains on a batch, which depends on the seed and the number of the step alone. Gives the
    /// loss before the step; reading it waits for the device.
    pub fn step(&mut self, text: &Text) -> Result<Array> {
        let Recipe { batch, length, seed, .. } = self.recipe;
        let key = Key::new(seed).fold(1).fold(self.steps() as u64);
        let [tokens, next] = text.batch(&self.device, key, batch, length);
        let (loss, gradients) = self.mixed.value_and_grad(&self.net, |net| net.loss(&tokens, &next));
        self.optimizer.step(&mut self.net, gradients.clip_norm(1.0))?;
        Ok(loss)
    }

    /// The mean loss on the text that is held back.
    pub fn validation_loss(&self, text: &Text, batches: usize) -> Result<f64> {
        let Recipe { batch, length, .. } = self.recipe;
        let net = self.net.cast(self.mixed.dtype());
        let mut sum = 0.0;
        for [tokens, next] in text.validation(&self.device, batches, batch, length) {
            sum += f64::from(net.loss(&tokens, &next).item::<f32>()?);
        }
        Ok(sum / batches as f64)
    }

    /// Goes on with a text for `count` tokens, at random with the network's probabilities to the
    /// power of 1 / 0.8.
    pub fn sample(&self, text: &Text, start: &str, count: usize, key: Key) -> Result<String> {
        const TEMPERATURE: f64 = 0.8;
        let mut tokens = text.tokens.encode(start);
        for number in 0..count {
            let logits = self.net.next(&self.device, &tokens, self.recipe.length)?;
            let known = &logits[..logits.len().min(text.tokens.count())];
            let most = known.iter().copied().fold(f32::MIN, f32::max);
            let weight = |logit: &f32| (f64::from(logit - most) / TEMPERATURE).exp();
            let sum: f64 = known.iter().map(weight).sum();
            let mut left = sum * key.fold(number as u64).index(1 << 32) as f64 / (1u64 << 32) as f64;
            let chosen = known.iter().position(|logit| {
                left -= weight(logit);
                left < 0.0
            });
            tokens.push(chosen.unwrap_or(0) as u32);
        }
        Ok(text.tokens.decode(&tokens))
    }

    /// Writes a checkpoint.
    pub fn save(&self, path: &Path) -> std::result::Result<(), Box<dyn Error>> {
        let made_of = self.made_of();
        let texts: Vec<(&str, &str)> = made_of.iter().map(|(key, text)| (*key, text.as_str())).collect();
        Ok(save_checkpoint(&self.net, &self.optimizer, &texts, path)?)
    }

    /// Goes on from a checkpoint of the same run.
    pub fn resume(&mut self, path: &Path) -> std::result::Result<(), Box<dyn Error>> {
        let mut other = Training::new(&self.device, self.recipe)?;
        let texts = load_checkpoint(&mut other.net, &mut other.optimizer, path)?;
        for (key, text) in self.made_of() {
            let there = texts.get(key).map_or("none", String::as_str);
            if there != text {
                let path = path.display();
                return Err(format!(
                    "{path} is of a run with {key} {there}, and this one has {text}: \
                     use the same options, or another file"
                )
                .into());
            }
        }
        *self = other;
        Ok(())
    }

    /// What a run must have in common with its checkpoint, beside the network's shapes.
    fn made_of(&self) -> [(&'static str, String); 5] {
        let Recipe { batch, length, steps, bf16, seed, .. } = self.recipe;
        [
            ("seed", seed.to_string()),
            ("steps", steps.to_string()),
            ("batch", batch.to_string()),
            ("length", length.to_string()),
            ("precision", if bf16 { "bf16" } else { "f32" }.into()),
        ]
    }
}

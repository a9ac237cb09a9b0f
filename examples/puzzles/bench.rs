//! What every puzzle needs: a device, numbers to work on, and a comparison.

use kiln::{Device, Tensor};
use std::error::Error;

/// Nothing, or what went wrong: a wrong value, or an error of the device.
pub type Outcome = Result<(), Box<dyn Error>>;

/// A device and a source of numbers, the same in every run.
pub struct Bench {
    /// Where the puzzles run.
    pub device: Device,
    random: fastrand::Rng,
}

impl Bench {
    /// A bench on a device.
    pub fn new(device: &Device) -> Bench {
        Bench { device: device.clone(), random: fastrand::Rng::with_seed(14) }
    }

    /// Whole numbers from -8 to 8. Sums and products of so few of them are exact in `f32` whatever
    /// the order, so that results can be compared for equality.
    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.i32(-8..=8) as f32).collect()
    }

    /// An output in which every element is wrong: one that a kernel leaves out does not go
    /// unnoticed.
    pub fn poisoned<const R: usize>(&self, shape: [usize; R]) -> kiln::Result<Tensor<f32, R>> {
        self.device.tensor(&vec![f32::NAN; shape.iter().product()], shape)
    }
}

/// Compares an output with what the host computed. `case` names the sizes.
pub fn compare<const R: usize>(case: &str, out: &Tensor<f32, R>, expected: &[f32]) -> Outcome {
    let got = out.to_vec()?;
    if got.len() != expected.len() {
        return Err(format!("{case}: {} elements instead of {}", got.len(), expected.len()).into());
    }
    match (0..got.len()).find(|&i| got[i] != expected[i]) {
        None => Ok(()),
        Some(i) => Err(format!("{case}: element {i} is {}, not {}", got[i], expected[i]).into()),
    }
}

/// The blocks of `block` threads that cover `count` elements.
pub fn blocks_for(count: usize, block: u32) -> u32 {
    (count as u32).div_ceil(block)
}

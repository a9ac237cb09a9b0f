//! A page that compiles kernels and runs them on the GPU of its browser: softmax, an image filter,
//! and the network of `examples/digits`, trained in the page.
//!
//! `page/page.js` calls what stands here. `bundle` builds the page; `test.py` sees it work.

#[path = "../../digits/data.rs"]
mod data;
mod errors;
mod filter;
#[path = "../../digits/kernels.rs"]
mod kernels;
#[path = "../../digits/model.rs"]
mod model;
mod softmax;

use kiln::{Device, Tensor};
use model::{CLASSIFIED, Network, Recipe, Training, mean};
use wasm_bindgen::prelude::*;

/// Threads of a block of the filter, on both axes.
const BLOCK: usize = 8;

/// A failure, as JavaScript's `Error` with Kiln's text.
type Outcome<T> = Result<T, JsError>;

/// A GPU, and what the page does on it.
#[wasm_bindgen]
pub struct Playground {
    device: Device,
}

#[wasm_bindgen]
impl Playground {
    /// Opens the browser's GPU.
    pub async fn open() -> Outcome<Playground> {
        console_error_panic_hook::set_once();
        Ok(Playground { device: Device::open_async("wgpu").await? })
    }

    /// Opens it anew, after it was lost.
    pub async fn reopen(&self) -> Outcome<Playground> {
        Ok(Playground { device: self.device.reopen_async().await? })
    }

    /// What it is.
    pub fn describe(&self) -> String {
        let properties = self.device.properties();
        let name = if properties.name.is_empty() { "a GPU" } else { &properties.name };
        format!(
            "{name}: {} threads and {} KiB of shared memory a block",
            properties.max_threads,
            properties.shared_memory >> 10
        )
    }

    /// How long each kernel took to trace and to compile, in milliseconds.
    pub fn kernels(&self) -> Vec<String> {
        let builds = self.device.programs().builds().into_iter();
        let lines = builds.map(|build| {
            let [all, traced] = [build.total, build.tracing].map(|time| time.as_secs_f64() * 1e3);
            format!("{}: {traced:.1} ms to trace, {:.1} ms to compile", build.kernel, all - traced)
        });
        lines.collect()
    }

    /// The softmax of each row of a matrix.
    pub async fn softmax(&self, values: Vec<f32>, columns: usize) -> Outcome<Vec<f32>> {
        let shape = [values.len() / columns.max(1), columns];
        let x = self.device.tensor(&values, shape)?;
        let mut y = self.device.uninit(shape)?;
        softmax::softmax(&x, &mut y, columns.next_power_of_two()).launch(&self.device)?;
        Ok(y.to_vec_async().await?)
    }

    /// A picture, filtered by nine weights. Pixels are words, as a canvas has them.
    pub async fn filter(&self, pixels: Vec<u32>, width: usize, weights: Vec<f32>) -> Outcome<Vec<u32>> {
        let [rows, columns] = [pixels.len() / width.max(1), width];
        let image = self.device.tensor(&pixels, [rows, columns])?;
        let weights = self.device.tensor(&weights, [9])?;
        let mut out: Tensor<u32, 2> = self.device.uninit([rows, columns])?;
        let grid = [columns, rows].map(|extent| extent.div_ceil(BLOCK) as u32);
        filter::convolve(&image, &weights, &mut out)
            .grid(grid)
            .block([BLOCK as u32; 2])
            .launch(&self.device)?;
        Ok(out.to_vec_async().await?)
    }

    /// The element of an index among three; for another index, the fault of the kernel.
    pub async fn pick(&self, index: i32) -> Outcome<f32> {
        Ok(errors::fault(&self.device, index).await?)
    }

    /// What calls say that would wait.
    pub fn blocking_calls(&self) -> Vec<String> {
        errors::blocking_calls(&self.device)
    }

    /// The network that learns to read digits.
    pub fn digits(&self) -> Outcome<Digits> {
        let (train, test) = data::digits().map_err(|message| JsError::new(&message))?;
        let network = Network::new(&self.device, Recipe::DIGITS, train.size, 10)?;
        let training = network.training(&train)?;
        Ok(Digits { network, training, train, test })
    }
}

/// A network in training.
#[wasm_bindgen]
pub struct Digits {
    network: Network,
    training: Training,
    train: data::Set,
    test: data::Set,
}

#[wasm_bindgen]
impl Digits {
    /// The steps of the whole training.
    pub fn steps(&self) -> usize {
        self.training.steps
    }

    /// Trains some steps, and gives the loss of the last one.
    pub async fn train(&mut self, steps: usize) -> Outcome<f32> {
        for _ in 0..steps {
            self.network.step(&mut self.training, &self.train)?;
        }
        Ok(mean(&self.training.losses().to_vec_async().await?))
    }

    /// The share of the test images that are classified right.
    pub async fn accuracy(&self) -> Outcome<f64> {
        let (mut right, images) = (0, self.test.len());
        for start in (0..images).step_by(CLASSIFIED) {
            let correct = self.network.classify(&self.test, start..images.min(start + CLASSIFIED))?;
            right += correct.to_vec_async().await?.iter().sum::<i32>();
        }
        Ok(f64::from(right) / images as f64)
    }
}

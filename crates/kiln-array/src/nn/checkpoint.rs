//! Checkpoints: training that goes on where it was interrupted.

use super::file::{read, write};
use super::module::Module;
use crate::error::FileError;
use crate::node::Array;
use crate::optimizer::Optimizer;
use kiln_files::Safetensors;
use std::collections::BTreeMap;
use std::path::Path;

/// The text that has the number of steps.
const STEPS: &str = "kiln.steps";

/// Writes a module's parameters, an optimizer's state and number of steps, and texts of the
/// caller's, such as a seed, as a safetensors file. A file that is there is replaced when the new
/// one is complete.
///
/// Random numbers need no state: fold a key of the seed with the number of the step. The scale of
/// [`Mixed::f16`](super::Mixed::f16) is not in the file and begins again.
///
/// ```
/// use kiln_array::nn::{Key, Linear, load_checkpoint, save_checkpoint};
/// use kiln_array::optimizer::{AdamW, Optimizer};
/// use kiln_array::{Array, grad};
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::full(&device, 0.5f32, &[2, 3]);
/// let step = |net: &mut Linear, optimizer: &mut AdamW| {
///     let slopes = grad(|net: &Linear| net.forward(&x).square().mean(), net);
///     optimizer.step(net, slopes)
/// };
/// let (mut net, mut optimizer) = (Linear::new(&device, Key::new(1), 3, 2), AdamW::new(0.1));
/// step(&mut net, &mut optimizer)?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("checkpoint.safetensors");
/// save_checkpoint(&net, &optimizer, &[("seed", "1")], &path)?;
/// step(&mut net, &mut optimizer)?;
///
/// let (mut other, mut again) = (Linear::new(&device, Key::new(9), 3, 2), AdamW::new(0.1));
/// let texts = load_checkpoint(&mut other, &mut again, &path)?;
/// assert_eq!((texts["seed"].as_str(), again.steps()), ("1", 1));
/// step(&mut other, &mut again)?;
/// assert_eq!(other.weight.to_vec::<f32>()?, net.weight.to_vec::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FileError::Mismatch`] names texts whose name another one has, or Kiln's own (`kiln.steps`);
/// [`FileError::File`], [`FileError::Array`].
pub fn save_checkpoint<M: Module>(
    module: &M,
    optimizer: &impl Optimizer,
    texts: &[(&str, &str)],
    path: impl AsRef<Path>,
) -> Result<(), FileError> {
    let problems = lost(texts);
    if !problems.is_empty() {
        return Err(FileError::Mismatch { path: path.as_ref().to_owned(), problems });
    }
    let parameters = module.parameters();
    let mut arrays: Vec<(String, Array)> =
        parameters.iter().map(|(name, of)| (named(name), of.clone())).collect();
    for (part, states) in optimizer.state().into_iter().enumerate() {
        let names = parameters.iter().map(|(name, _)| state_named(part, name));
        arrays.extend(names.zip(states));
    }
    let steps = optimizer.steps().to_string();
    let texts: Vec<(&str, &str)> = texts.iter().copied().chain([(STEPS, steps.as_str())]).collect();
    write(&arrays, &texts, path.as_ref())
}

/// The texts that a file would not keep, for the names that they have.
fn lost(texts: &[(&str, &str)]) -> Vec<String> {
    let taken = |i: usize, name: &str| name == STEPS || texts[..i].iter().any(|(other, _)| *other == name);
    let lost = texts.iter().enumerate().filter(|(i, (name, _))| taken(*i, name));
    lost.map(|(_, (name, _))| format!("there is a text named `{name}` already")).collect()
}

/// Reads what [`save_checkpoint`] wrote into a module and an optimizer of the same kind, and gives
/// the texts.
///
/// ```
/// use kiln_array::nn::{FileError, Key, Linear, load_checkpoint, save, save_checkpoint};
/// use kiln_array::optimizer::{Optimizer, Sgd};
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("checkpoint.safetensors");
/// let mut net = Linear::new(&device, Key::new(1), 3, 2);
/// let mut optimizer = Sgd::new(0.1);
/// save_checkpoint(&net, &optimizer, &[("epoch", "7")], &path)?;
/// let texts = load_checkpoint(&mut net, &mut optimizer, &path)?;
/// assert_eq!((texts["epoch"].as_str(), optimizer.steps()), ("7", 0));
///
/// // Parameters alone are no checkpoint.
/// save(&net, &path)?;
/// let error = load_checkpoint(&mut net, &mut optimizer, &path).unwrap_err();
/// assert!(matches!(error, FileError::Mismatch { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FileError::Mismatch`] names all that is missing, in excess, or of another shape or kind;
/// [`FileError::File`], [`FileError::Array`]. Module and optimizer are as before then.
pub fn load_checkpoint<M: Module>(
    module: &mut M,
    optimizer: &mut impl Optimizer,
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, String>, FileError> {
    let path = path.as_ref();
    let file = Safetensors::open(path)?;
    let mut texts: BTreeMap<String, String> =
        file.metadata().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    let Some(steps) = texts.remove(STEPS).and_then(|steps| steps.parse::<usize>().ok()) else {
        let problems =
            vec![format!("the number of steps, the text `{STEPS}`, is missing: it is no checkpoint")];
        return Err(FileError::Mismatch { path: path.into(), problems });
    };
    let parameters = module.parameters();
    let parts = if steps == 0 { 0 } else { optimizer.arrays_of_parameter() };
    let mut like: Vec<(String, Array)> =
        parameters.iter().map(|(name, of)| (named(name), of.clone())).collect();
    for part in 0..parts {
        let state =
            |(name, of): &(String, Array)| (state_named(part, name), of.cast(of.dtype().accumulator()));
        like.extend(parameters.iter().map(state));
    }
    let mut loaded = read(&like, &file, path)?.into_iter();
    *module = module.map(&mut |parameter| loaded.next().unwrap_or_else(|| parameter.clone()));
    let state = (0..parts).map(|_| loaded.by_ref().take(parameters.len()).collect()).collect();
    optimizer.restore(steps, state);
    Ok(texts)
}

fn named(parameter: &str) -> String {
    format!("parameters.{parameter}")
}

fn state_named(part: usize, parameter: &str) -> String {
    format!("optimizer.{part}.{parameter}")
}

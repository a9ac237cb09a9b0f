//! Saving and loading parameters by their names, as safetensors files.

use super::module::Module;
use crate::array::eval;
use crate::error::{Error, FileError};
use crate::node::Array;
use kiln_files::{Safetensors, write_safetensors};
use kiln_runtime::DynTensor;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes a module's parameters with their names. A file that is there is replaced when the new one
/// is complete.
///
/// ```
/// use kiln_array::nn::{Key, Linear, load, save};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("layer.safetensors");
/// let device = kiln_runtime::Device::open("interp")?;
/// let layer = Linear::new(&device, Key::new(1), 3, 2);
/// save(&layer, &path)?;
/// let mut other = Linear::new(&device, Key::new(2), 3, 2);
/// load(&mut other, &path)?;
/// assert_eq!(other.weight.to_vec::<f32>()?, layer.weight.to_vec::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FileError::File`], [`FileError::Array`].
pub fn save<M: Module>(module: &M, path: impl AsRef<Path>) -> Result<(), FileError> {
    write(&module.parameters(), &[], path.as_ref())
}

/// Writes arrays with their names, and texts beside them.
pub(super) fn write(
    arrays: &[(String, Array)],
    texts: &[(&str, &str)],
    path: &Path,
) -> Result<(), FileError> {
    eval(&arrays.iter().map(|(_, array)| array).collect::<Vec<_>>())?;
    let tensor =
        |array: &Array| array.tensor().and_then(|tensor| array.settle(array.site()).map(|()| tensor));
    let tensors = arrays.iter().map(|(name, array)| Ok((name, tensor(array)?)));
    let tensors = tensors.collect::<Result<Vec<(&String, DynTensor)>, Error>>()?;
    let named: Vec<(&str, &DynTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    Ok(write_safetensors(path, &named, texts)?)
}

/// Reads a module's parameters by their names. Their element types, shapes and devices are those
/// that the module has; floats of another type are converted.
///
/// ```
/// use kiln_array::nn::{Key, Linear, Module, load, save};
/// use kiln_array::Scalar;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("layer.safetensors");
/// let device = kiln_runtime::Device::open("interp")?;
/// let layer = Linear::new(&device, Key::new(1), 3, 2);
/// save(&layer, &path)?;
/// // Into bf16: the parameters are rounded as they are read.
/// let mut other = Linear::new(&device, Key::new(2), 3, 2).cast(Scalar::BF16);
/// load(&mut other, &path)?;
/// let rounded = layer.weight.cast(Scalar::BF16).cast(Scalar::F32).to_vec::<f32>()?;
/// assert_eq!(other.weight.dtype(), Scalar::BF16);
/// assert_eq!(other.weight.cast(Scalar::F32).to_vec::<f32>()?, rounded);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FileError::Mismatch`] names all that is missing, in excess, or of another shape or kind;
/// [`FileError::File`], [`FileError::Array`]. The module is as before then.
pub fn load<M: Module>(module: &mut M, path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let loaded = read(&module.parameters(), &Safetensors::open(path)?, path)?;
    let mut next = loaded.into_iter();
    *module = module.map(&mut |parameter| next.next().unwrap_or_else(|| parameter.clone()));
    Ok(())
}

/// Reads arrays like others, which have their names, element types, shapes and devices.
pub(super) fn read(
    like: &[(String, Array)],
    file: &Safetensors,
    path: &Path,
) -> Result<Vec<Array>, FileError> {
    let problems = differences(like, file)?;
    if !problems.is_empty() {
        return Err(FileError::Mismatch { path: path.into(), problems });
    }
    let mut loaded = Vec::new();
    for (name, array) in like {
        // One with an error was refused above.
        let Some(device) = array.device() else { continue };
        loaded.push(Array::from_tensor(file.tensor(device, name)?).cast(array.dtype()));
    }
    eval(&loaded.iter().collect::<Vec<_>>())?;
    Ok(loaded)
}

/// How a file's tensors differ from named arrays.
fn differences(like: &[(String, Array)], file: &Safetensors) -> Result<Vec<String>, FileError> {
    let wanted: BTreeMap<&String, &Array> = like.iter().map(|(name, array)| (name, array)).collect();
    let mut problems = Vec::new();
    for (&name, parameter) in &wanted {
        if let Some(error) = parameter.error() {
            return Err(error.into());
        }
        if !file.names().any(|other| other == name) {
            problems.push(format!("`{name}` is missing"));
            continue;
        }
        let (shape, dtype) = (file.shape(name)?, file.dtype(name)?);
        if shape != parameter.shape() {
            problems.push(format!("`{name}` has shape {shape:?} instead of {:?}", parameter.shape()));
        } else if dtype.is_float() != parameter.dtype().is_float() {
            problems.push(format!("`{name}` has elements of {dtype} instead of {}", parameter.dtype()));
        }
    }
    let extra = file.names().filter(|name| !wanted.keys().any(|wanted| wanted.as_str() == *name));
    problems.extend(extra.map(|name| format!("`{name}` is no parameter of the module")));
    Ok(problems)
}

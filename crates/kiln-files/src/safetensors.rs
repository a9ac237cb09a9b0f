//! safetensors: a file of named tensors. Eight bytes with the length of a header in JSON, the
//! header, and the tensors one after the other.

use crate::error::{Error, Named, Result};
use crate::replace::replace;
use kiln_ir::Scalar;
use kiln_runtime::{Device, DynTensor};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes before the header.
const BEFORE: u64 = 8;
/// No header is longer, as in the format's own library.
const MAX_HEADER: u64 = 100_000_000;
/// The entry of the header that names no tensor.
const METADATA: &str = "__metadata__";

/// A safetensors file that is open. Its tensors are read one by one, so that a model of many
/// gigabytes needs host memory for its largest tensor.
///
/// ```
/// use kiln_files::{Safetensors, write_safetensors};
/// use kiln_ir::Scalar;
/// use kiln_runtime::Device;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.safetensors");
/// let device = Device::open("interp")?;
/// let (weight, bias) = (device.zeros::<f32, 2>([4, 2])?, device.tensor(&[1.0f32, 2.0], [2])?);
/// write_safetensors(&path, &[("weight", weight.as_dyn()), ("bias", bias.as_dyn())], &[("format", "pt")])?;
///
/// let file = Safetensors::open(&path)?;
/// for name in file.names() {
///     println!("{name}: {} {:?}", file.dtype(name)?, file.shape(name)?);
/// }
/// assert_eq!(file.dtype("weight")?, Scalar::F32);
/// assert_eq!(file.tensor(&device, "bias")?.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Safetensors {
    path: PathBuf,
    file: Mutex<File>,
    /// Where the data of the first tensor begin.
    begin: u64,
    tensors: BTreeMap<String, TensorInfo>,
    metadata: BTreeMap<String, String>,
}

impl Safetensors {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Format`] if it is damaged or of another format.
    pub fn open(path: impl AsRef<Path>) -> Result<Safetensors> {
        let named = Named(path.as_ref());
        let mut file = File::open(named.0).map_err(|e| named.io(e))?;
        let size = file.metadata().map_err(|e| named.io(e))?.len();
        let damaged = |problem: String| named.format(format!("this is no safetensors file: {problem}"));
        if size < BEFORE {
            return Err(damaged(format!("it has {size} bytes")));
        }
        let mut length = [0; BEFORE as usize];
        file.read_exact(&mut length).map_err(|e| named.io(e))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length > size - BEFORE {
            return Err(damaged(format!("its header would have {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|e| named.io(e))?;
        let header: Metadata =
            serde_json::from_slice(&header).map_err(|e| damaged(format!("its header: {e}")))?;
        let (begin, data) = (BEFORE + length, header.data_len() as u64);
        if size - begin != data {
            return Err(damaged(format!(
                "it has {} bytes of data, and its header says {data}",
                size - begin
            )));
        }
        let tensors = header.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        let metadata =
            header.metadata().iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Safetensors { path: named.0.into(), file: Mutex::new(file), begin, tensors, metadata })
    }

    /// The names of the tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// What the file says of itself beside its tensors: keys and texts, in alphabetical order.
    ///
    /// ```
    /// use kiln_files::{Safetensors, write_safetensors};
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("model.safetensors");
    /// write_safetensors(&path, &[], &[("format", "pt"), ("author", "me")])?;
    /// let file = Safetensors::open(&path)?;
    /// assert_eq!(file.metadata().collect::<Vec<_>>(), [("author", "me"), ("format", "pt")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The extents of a tensor.
    ///
    /// # Errors
    /// [`Error::NoTensor`].
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        self.info(name).map(|info| info.shape.as_slice())
    }

    /// The element type of a tensor.
    ///
    /// # Errors
    /// [`Error::NoTensor`]; [`Error::ElementType`] if Kiln does not have it.
    pub fn dtype(&self, name: &str) -> Result<Scalar> {
        let dtype = self.info(name)?.dtype;
        scalar_of(dtype).ok_or_else(|| {
            Named(&self.path).element_type(dtype.to_string(), format!("of `{name}` have no type in Kiln"))
        })
    }

    /// Reads a tensor.
    ///
    /// # Errors
    /// As of [`dtype`](Self::dtype); [`Error::Io`]; [`Error::Tensor`] without memory for it.
    pub fn tensor(&self, device: &Device, name: &str) -> Result<DynTensor> {
        let named = Named(&self.path);
        let (elem, info) = (self.dtype(name)?, self.info(name)?);
        let (from, to) = info.data_offsets;
        let mut data = vec![0; to - from];
        {
            // A thread that panicked between seeking and reading left nothing behind: each seeks.
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(self.begin + from as u64)).map_err(|e| named.io(e))?;
            file.read_exact(&mut data).map_err(|e| named.io(e))?;
        }
        DynTensor::from_bytes(device, elem, &info.shape, &data).map_err(|e| named.tensor(e))
    }

    fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.tensors.get(name).ok_or_else(|| Error::NoTensor {
            path: self.path.clone(),
            name: name.into(),
            names: self.names().map(str::to_owned).collect(),
        })
    }
}

/// Writes tensors with their names, and keys with texts beside them, as a safetensors file.
///
/// Views are written in row-major order. A file that is there is replaced when the new one is
/// complete. [`Safetensors`] has an example.
///
/// # Errors
/// [`Error::Format`] if a name occurs twice or is the format's own, [`Error::Tensor`] if a tensor
/// cannot be read, [`Error::Io`].
pub fn write_safetensors(
    path: impl AsRef<Path>,
    tensors: &[(&str, &DynTensor)],
    metadata: &[(&str, &str)],
) -> Result<()> {
    let named = Named(path.as_ref());
    let mut ordered = tensors.to_vec();
    // The widest elements first, so that all are aligned in the file.
    ordered.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype().bytes()), *name));
    let header = header(&ordered, metadata).map_err(|problem| named.format(problem))?;
    replace(named, |target| {
        target.write_all(&(header.len() as u64).to_le_bytes()).map_err(|e| named.io(e))?;
        target.write_all(header.as_bytes()).map_err(|e| named.io(e))?;
        for (_, tensor) in &ordered {
            let data = tensor.to_bytes().map_err(|e| named.tensor(e))?;
            target.write_all(&data).map_err(|e| named.io(e))?;
        }
        Ok(())
    })
}

/// The header of tensors that follow each other in this order.
fn header(tensors: &[(&str, &DynTensor)], metadata: &[(&str, &str)]) -> std::result::Result<String, String> {
    let mut entries = Map::new();
    if !metadata.is_empty() {
        let texts = metadata.iter().map(|&(key, text)| (key.to_owned(), Value::from(text)));
        entries.insert(METADATA.into(), Value::Object(texts.collect()));
    }
    let mut from = 0;
    for (name, tensor) in tensors {
        let dtype = dtype_of(tensor.dtype());
        let to = from + tensor.len() * tensor.dtype().bytes() as usize;
        let info = TensorInfo { dtype, shape: tensor.shape().to_vec(), data_offsets: (from, to) };
        let info = serde_json::to_value(info).map_err(|e| e.to_string())?;
        if *name == METADATA {
            return Err(format!(
                "no tensor can have the name `{METADATA}`, which the format keeps for itself"
            ));
        }
        if entries.insert((*name).into(), info).is_some() {
            return Err(format!("two tensors have the name `{name}`"));
        }
        from = to;
    }
    let header = Value::Object(entries).to_string();
    let padded = header.len().next_multiple_of(BEFORE as usize);
    Ok(format!("{header:<padded$}"))
}

/// The format's name for an element type: it has all of ours.
fn dtype_of(elem: Scalar) -> Dtype {
    match elem {
        Scalar::Bool => Dtype::BOOL,
        Scalar::I8 => Dtype::I8,
        Scalar::U8 => Dtype::U8,
        Scalar::I16 => Dtype::I16,
        Scalar::U16 => Dtype::U16,
        Scalar::I32 => Dtype::I32,
        Scalar::U32 => Dtype::U32,
        Scalar::I64 => Dtype::I64,
        Scalar::U64 => Dtype::U64,
        Scalar::F16 => Dtype::F16,
        Scalar::BF16 => Dtype::BF16,
        Scalar::F32 => Dtype::F32,
        Scalar::F64 => Dtype::F64,
        Scalar::E4M3 => Dtype::F8_E4M3,
        Scalar::E5M2 => Dtype::F8_E5M2,
    }
}

/// Our name for an element type of the format, if we have it.
fn scalar_of(dtype: Dtype) -> Option<Scalar> {
    Scalar::ALL.into_iter().find(|&elem| dtype_of(elem) == dtype)
}

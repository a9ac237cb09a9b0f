//! `.npy`: a file of one tensor.

use crate::error::{Named, Result};
use crate::npy_header::{Header, descr_of, lengths, scalar_of};
use crate::replace::replace;
use kiln_runtime::{Device, DynTensor};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Reads a tensor from a `.npy` file: its shape, and the element type that the file has.
///
/// Booleans, integers of 8, 32 and 64 bits and floats of 16, 32 and 64 bits are read, in either
/// order of bytes. An array in Fortran's order becomes a view with its axes reversed; nothing is
/// rearranged.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("x.npy");
/// # kiln_files::write_npy(&path, kiln_runtime::Device::open("interp")?.tensor(&[1i64, 2, 3], [3])?)?;
/// use kiln_runtime::{Device, Tensor};
/// let x: Tensor<i64, 1> = kiln_files::read_npy(&Device::open("interp")?, &path)?.downcast()?;
/// assert_eq!(x.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), [`Error::Format`](crate::Error::Format) for a file that is
/// damaged or of another format, [`Error::ElementType`](crate::Error::ElementType) for elements
/// that Kiln has no type for, [`Error::Tensor`](crate::Error::Tensor) without memory for it.
pub fn read_npy(device: &Device, path: impl AsRef<Path>) -> Result<DynTensor> {
    let file = Named(path.as_ref());
    let mut source = File::open(file.0).map_err(|e| file.io(e))?;
    let size = source.metadata().map_err(|e| file.io(e))?.len();
    let (header, begin) = header(&mut source, size, file)?;
    let Some((elem, big_endian)) = scalar_of(&header.descr) else {
        return Err(file.element_type(
            format!("'{}'", header.descr),
            "have no type in Kiln; convert them with `astype` before saving, to 'float32' for example",
        ));
    };
    let width = elem.bytes() as usize;
    let bytes = header.shape.iter().try_fold(width, |product, &extent| product.checked_mul(extent));
    let held = size.saturating_sub(begin);
    let Some(bytes) = bytes.filter(|&bytes| bytes as u64 == held) else {
        let shape = &header.shape;
        return Err(
            file.format(format!("it has {held} bytes of data, and shape {shape:?} of {elem} another number"))
        );
    };
    let mut data = vec![0; bytes];
    source.read_exact(&mut data).map_err(|e| file.io(e))?;
    if big_endian {
        data.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    let mut shape = header.shape;
    if header.fortran_order {
        shape.reverse();
    }
    let tensor = DynTensor::from_bytes(device, elem, &shape, &data).map_err(|e| file.tensor(e))?;
    Ok(if header.fortran_order { tensor.transpose() } else { tensor })
}

/// Reads the header, and says where the data begin.
fn header(source: &mut File, size: u64, file: Named<'_>) -> Result<(Header, u64)> {
    let mut start = [0; 12];
    if size < start.len() as u64 {
        return Err(file.format(format!("this is no .npy file: it has {size} bytes")));
    }
    source.read_exact(&mut start).map_err(|e| file.io(e))?;
    let (before, length) = lengths(&start).map_err(|problem| file.format(problem))?;
    let begin = (before + length) as u64;
    if size < begin || before + length < start.len() {
        return Err(file.format(format!("it ends in its header, which has {length} bytes")));
    }
    let mut text = start[before..].to_vec();
    text.resize(length, 0);
    source.read_exact(&mut text[start.len() - before..]).map_err(|e| file.io(e))?;
    let text = std::str::from_utf8(&text).map_err(|_| file.format("its header is no text"))?;
    Ok((Header::parse(text).map_err(|problem| file.format(problem))?, begin))
}

/// Writes a tensor as a `.npy` file, its elements in row-major order, which `numpy.load` reads.
///
/// A file that is there is replaced when the new one is complete.
///
/// ```
/// use kiln_runtime::Device;
/// let folder = tempfile::tempdir()?;
/// let x = Device::open("interp")?.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// kiln_files::write_npy(folder.path().join("transposed.npy"), x.transpose())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::ElementType`](crate::Error::ElementType) for types that NumPy does not have (`bf16` and
/// those of 8 bits), [`Error::Tensor`](crate::Error::Tensor) if the tensor cannot be read,
/// [`Error::Io`](crate::Error::Io).
pub fn write_npy(path: impl AsRef<Path>, tensor: impl AsRef<DynTensor>) -> Result<()> {
    let (file, tensor) = (Named(path.as_ref()), tensor.as_ref());
    let elem = tensor.dtype();
    let Some(descr) = descr_of(elem) else {
        return Err(file.element_type(
            elem.to_string(),
            "have no type in NumPy; convert them to f32, or write a safetensors file",
        ));
    };
    let header = Header { descr: descr.into(), fortran_order: false, shape: tensor.shape().to_vec() };
    let data = tensor.to_bytes().map_err(|e| file.tensor(e))?;
    replace(file, |target| {
        target.write_all(&header.to_bytes()).and_then(|()| target.write_all(&data)).map_err(|e| file.io(e))
    })
}

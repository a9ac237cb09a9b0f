//! Fashion-MNIST, from a folder of IDX files.

use crate::data::Set;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The training and the test images of Fashion-MNIST, as Debian's `dataset-fashion-mnist` installs
/// them (IDX, gzip or plain).
pub fn fashion_mnist(folder: &Path) -> Result<(Set, Set), String> {
    let set = |prefix: &str| -> Result<Set, String> {
        let (shape, images) = read_idx(folder, &format!("{prefix}-images-idx3-ubyte"))?;
        let (count, labels) = read_idx(folder, &format!("{prefix}-labels-idx1-ubyte"))?;
        match (&shape[..], &count[..]) {
            (&[n, rows, columns], &[m]) if n == m => {
                let pixels = images.iter().map(|&p| f32::from(p) / 255.0).collect();
                Ok(Set { size: rows * columns, pixels, labels: labels.into_iter().map(i32::from).collect() })
            }
            _ => Err(format!("{prefix}: images {shape:?} do not match labels {count:?}")),
        }
    };
    Ok((set("train")?, set("t10k")?))
}

/// An IDX file of bytes: two zeros, 8 for bytes, the rank, the extents (big-endian), the data.
fn read_idx(folder: &Path, name: &str) -> Result<(Vec<usize>, Vec<u8>), String> {
    let packed = folder.join(format!("{name}.gz"));
    let path = if packed.exists() { packed } else { folder.join(name) };
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(&path)?;
        match path.extension().is_some_and(|e| e == "gz") {
            true => flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?,
            false => { file }.read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    };
    let bytes = read().map_err(|e| format!("{}: {e}", path.display()))?;
    let bad = || format!("{}: not an IDX file of bytes", path.display());
    let [0, 0, 8, rank] = *bytes.first_chunk().ok_or_else(bad)? else { return Err(bad()) };
    let (head, data) = bytes[4..].split_at_checked(4 * rank as usize).ok_or_else(bad)?;
    let shape: Vec<usize> =
        head.chunks_exact(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]) as usize).collect();
    if shape.iter().product::<usize>() != data.len() {
        return Err(format!("{}: {} bytes of data for shape {shape:?}", path.display(), data.len()));
    }
    Ok((shape, data.to_vec()))
}

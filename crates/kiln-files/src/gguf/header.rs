//! What comes before the data of a GGUF file, checked: every tensor lies within the file.

use super::blocks::Encoding;
use super::source::{Problem, Source};
use super::value::Value;
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"GGUF";
/// Where the alignment of the data is.
const ALIGNMENT: &str = "general.alignment";
/// The alignment of a file that names none, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The format's own library has no more axes.
const MAX_RANK: u32 = 4;

#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    /// Where the data begin.
    pub(super) begin: u64,
}

#[derive(Debug)]
pub(super) struct TensorInfo {
    pub(super) encoding: Encoding,
    /// The last extent along memory.
    pub(super) shape: Vec<usize>,
    /// From the beginning of the data.
    pub(super) offset: u64,
    /// None if the encoding is not read.
    pub(super) bytes: Option<usize>,
    /// Where the file says so.
    at: u64,
}

impl Header {
    pub(super) fn read(source: &mut Source) -> Result<Header, Problem> {
        version(source)?;
        let (tensor_count, key_count) = (source.u64()?, source.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let at = source.offset();
            let key = source.string()?;
            let value = Value::read(source)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(Problem::at(at, format!("the key `{key}` occurs twice")));
            }
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let at = source.offset();
            let name = source.string()?;
            let info = TensorInfo::read(source, &name, at)?;
            if tensors.insert(name.clone(), info).is_some() {
                return Err(Problem::at(at, format!("the tensor `{name}` occurs twice")));
            }
        }
        let alignment = alignment(&metadata, source.offset())?;
        let begin = source.offset().next_multiple_of(alignment);
        for (name, info) in &tensors {
            info.check(name, alignment, source.size().saturating_sub(begin))?;
        }
        Ok(Header { metadata, tensors, begin })
    }
}

/// Reads what says that this is a GGUF file.
fn version(source: &mut Source) -> Result<(), Problem> {
    if source.size() < 24 {
        return Err(Problem::at(0, format!("this is no GGUF file: it has {} bytes", source.size())));
    }
    if source.number(|bytes: [u8; 4]| bytes)? != *MAGIC {
        return Err(Problem::at(0, "this is no GGUF file: it does not begin with `GGUF`"));
    }
    match source.u32()? {
        2 | 3 => Ok(()),
        version if matches!(version.swap_bytes(), 1..=3) => {
            Err(Problem::at(4, "the file is big-endian; convert it with `gguf-convert-endian`"))
        }
        version => Err(Problem::at(4, format!("version {version} of the format is not read, 2 and 3 are"))),
    }
}

fn alignment(metadata: &BTreeMap<String, Value>, at: u64) -> Result<u64, Problem> {
    let Some(value) = metadata.get(ALIGNMENT) else { return Ok(DEFAULT_ALIGNMENT) };
    // The largest keeps sums of offsets within 64 bits.
    match value.as_u64() {
        Some(bytes) if bytes.is_power_of_two() && bytes <= 1 << 30 => Ok(bytes),
        _ => Err(Problem::at(at, format!("`{ALIGNMENT}` is {value:?}, expected a power of two"))),
    }
}

impl TensorInfo {
    fn read(source: &mut Source, name: &str, at: u64) -> Result<TensorInfo, Problem> {
        let rank = source.u32()?;
        if rank > MAX_RANK {
            return Err(Problem::at(at, format!("the tensor `{name}` has {rank} axes, {MAX_RANK} at most")));
        }
        let mut extents = Vec::new();
        for _ in 0..rank {
            extents.push(source.u64()?);
        }
        let encoding = Encoding::of_code(source.u32()?);
        let offset = source.u64()?;
        let invalid = || Problem::at(at, format!("the tensor `{name}` has impossible extents {extents:?}"));
        let shape: Option<Vec<usize>> = extents.iter().rev().map(|&x| x.try_into().ok()).collect();
        let shape = shape.ok_or_else(invalid)?;
        // The product without a zero must fit too: what is made of the shape multiplies in any
        // order.
        let elements = shape.iter().try_fold(1usize, |product, &x| product.checked_mul(x.max(1)));
        let elements = elements.filter(|&n| n <= isize::MAX as usize / 8).ok_or_else(invalid)?;
        let elements = if shape.contains(&0) { 0 } else { elements };
        let along = shape.last().copied().unwrap_or(1);
        if !along.is_multiple_of(encoding.block_len()) {
            let problem = format!(
                "the tensor `{name}` has rows of {along} elements, which are no whole blocks of {} ({encoding})",
                encoding.block_len()
            );
            return Err(Problem::at(at, problem));
        }
        let bytes = encoding.block_bytes().map(|bytes| elements / encoding.block_len() * bytes);
        Ok(TensorInfo { encoding, shape, offset, bytes, at })
    }

    /// Whether it lies within so many bytes of data.
    fn check(&self, name: &str, alignment: u64, data: u64) -> Result<(), Problem> {
        if !self.offset.is_multiple_of(alignment) {
            let problem =
                format!("the tensor `{name}` begins at {}, no multiple of {alignment}", self.offset);
            return Err(Problem::at(self.at, problem));
        }
        let bytes = self.bytes.unwrap_or(0);
        match self.offset.checked_add(bytes as u64) {
            Some(end) if end <= data => Ok(()),
            _ => Err(Problem::at(
                self.at,
                format!(
                    "the tensor `{name}` is {bytes} bytes at offset {} of the data, of which the file has {data}",
                    self.offset
                ),
            )),
        }
    }
}

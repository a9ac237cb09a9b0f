//! How GGUF files lay out weights: as numbers, or in blocks of a few bits a weight that share a
//! scale.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use kiln_ir::Scalar;
use std::fmt;

/// How the elements of a tensor are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// One by one, as elements of this type.
    Plain(Scalar),
    /// Blocks of 32: see [`Q4_0`].
    Q4_0,
    /// Blocks of 32: see [`Q4_1`].
    Q4_1,
    /// Blocks of 32: see [`Q8_0`].
    Q8_0,
    /// Blocks of 256: see [`Q6K`].
    Q6K,
    /// Another one, which is not read, by its number in the format.
    Other(u32),
}

/// The numbers of the encodings in the format.
const CODES: [(u32, Encoding); 10] = [
    (0, Encoding::Plain(Scalar::F32)),
    (1, Encoding::Plain(Scalar::F16)),
    (2, Encoding::Q4_0),
    (3, Encoding::Q4_1),
    (8, Encoding::Q8_0),
    (14, Encoding::Q6K),
    (24, Encoding::Plain(Scalar::I8)),
    (26, Encoding::Plain(Scalar::I32)),
    (28, Encoding::Plain(Scalar::F64)),
    (30, Encoding::Plain(Scalar::BF16)),
];

/// Names of encodings that are not read.
const OTHERS: [(u32, &str); 9] = [
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (15, "Q8_K"),
    (25, "I16"),
];

impl Encoding {
    pub(super) fn of_code(code: u32) -> Encoding {
        CODES
            .iter()
            .find(|(known, _)| *known == code)
            .map_or(Encoding::Other(code), |&(_, encoding)| encoding)
    }

    /// How many elements a block has; 1 where each stands for itself.
    pub fn block_len(self) -> usize {
        match self {
            Encoding::Plain(_) | Encoding::Other(_) => 1,
            Encoding::Q4_0 | Encoding::Q4_1 | Encoding::Q8_0 => 32,
            Encoding::Q6K => 256,
        }
    }

    /// The bytes of a block; none of an encoding that is not read.
    pub fn block_bytes(self) -> Option<usize> {
        Some(match self {
            Encoding::Plain(scalar) => scalar.bytes() as usize,
            Encoding::Q4_0 => size_of::<Q4_0>(),
            Encoding::Q4_1 => size_of::<Q4_1>(),
            Encoding::Q8_0 => size_of::<Q8_0>(),
            Encoding::Q6K => size_of::<Q6K>(),
            Encoding::Other(_) => return None,
        })
    }

    /// Appends the elements of whole blocks, as f32.
    pub(super) fn dequantize(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Encoding::Plain(scalar) => plain(scalar, bytes, out),
            Encoding::Q4_0 => each::<Q4_0, 32>(bytes, out),
            Encoding::Q4_1 => each::<Q4_1, 32>(bytes, out),
            Encoding::Q8_0 => each::<Q8_0, 32>(bytes, out),
            Encoding::Q6K => each::<Q6K, 256>(bytes, out),
            Encoding::Other(_) => {}
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Plain(scalar) => scalar.fmt(f),
            Encoding::Q4_0 => f.write_str("Q4_0"),
            Encoding::Q4_1 => f.write_str("Q4_1"),
            Encoding::Q8_0 => f.write_str("Q8_0"),
            Encoding::Q6K => f.write_str("Q6_K"),
            Encoding::Other(code) => match OTHERS.iter().find(|(known, _)| known == code) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "number {code}"),
            },
        }
    }
}

/// A block of `N` weights, as it stands in the file.
pub trait Block<const N: usize>: Pod {
    /// The encoding whose blocks these are.
    const ENCODING: Encoding;

    /// The weights.
    fn dequantize(&self) -> [f32; N];
}

fn each<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut Vec<f32>) {
    for block in bytemuck::cast_slice::<u8, B>(bytes) {
        out.extend(block.dequantize());
    }
}

/// A float of 16 bits as the file has it, at any address.
///
/// ```
/// use half::f16;
/// use kiln_files::gguf::Half;
/// assert_eq!(Half::from(f16::from_f32(0.1)).get(), f16::from_f32(0.1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Half([u8; 2]);

impl Half {
    /// Its value.
    pub fn get(self) -> f16 {
        f16::from_le_bytes(self.0)
    }
}

impl From<f16> for Half {
    fn from(value: f16) -> Half {
        Half(value.to_le_bytes())
    }
}

/// 32 weights of 4 bits: `scale · (q - 8)`.
///
/// The low halves of `quants` are weights 0 to 15, the high halves 16 to 31.
///
/// ```
/// use half::f16;
/// use kiln_files::gguf::{Block, Q4_0};
/// let block = Q4_0 { scale: f16::from_f32(0.5).into(), quants: [0x9c; 16] };
/// let weights = block.dequantize();
/// assert_eq!((weights[15], weights[16]), (0.5 * (12.0 - 8.0), 0.5 * (9.0 - 8.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Q4_0 {
    pub scale: Half,
    pub quants: [u8; 16],
}

impl Block<32> for Q4_0 {
    const ENCODING: Encoding = Encoding::Q4_0;

    fn dequantize(&self) -> [f32; 32] {
        let scale = self.scale.get().to_f32();
        nibbles(&self.quants).map(|q| scale * (f32::from(q) - 8.0))
    }
}

/// 32 weights of 4 bits: `scale · q + minimum`.
///
/// The low halves of `quants` are weights 0 to 15, the high halves 16 to 31.
///
/// ```
/// use kiln_files::gguf::{Block, Q4_1};
/// use half::f16;
/// let of = |x: f32| f16::from_f32(x).into();
/// let block = Q4_1 { scale: of(0.5), minimum: of(-1.0), quants: [0x60; 16] };
/// let weights = block.dequantize();
/// assert_eq!((weights[0], weights[31]), (-1.0, 2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Q4_1 {
    pub scale: Half,
    pub minimum: Half,
    pub quants: [u8; 16],
}

impl Block<32> for Q4_1 {
    const ENCODING: Encoding = Encoding::Q4_1;

    fn dequantize(&self) -> [f32; 32] {
        let (scale, minimum) = (self.scale.get().to_f32(), self.minimum.get().to_f32());
        nibbles(&self.quants).map(|q| scale * f32::from(q) + minimum)
    }
}

/// 32 weights of 8 bits: `scale · q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Q8_0 {
    pub scale: Half,
    pub quants: [i8; 32],
}

impl Block<32> for Q8_0 {
    const ENCODING: Encoding = Encoding::Q8_0;

    fn dequantize(&self) -> [f32; 32] {
        let scale = self.scale.get().to_f32();
        self.quants.map(|q| scale * f32::from(q))
    }
}

/// 256 weights of 6 bits: `scale · scales[i / 16] · (q - 32)`.
///
/// Weights come in two halves of 128, each in four rows of 32. The low four bits of rows 0 and 2
/// are the low and high halves of the first 32 bytes of the half's `low`, those of rows 1 and 3 of
/// the next 32; the high two bits of row r are bits 2r and 2r + 1 of its 32 bytes of `high`.
///
/// ```
/// use half::f16;
/// use kiln_files::gguf::{Block, Q6K};
/// let mut scales = [1; 16];
/// scales[15] = -2;
/// let block = Q6K { low: [0x5f; 128], high: [0b11_10_01_00; 64], scales, scale: f16::from_f32(0.5).into() };
/// // Row 0 of a half has the low bits 15, row 3 the low bits 5; the high ones are 0 and 3.
/// assert_eq!((block.quants()[0], block.quants()[255]), (15 - 32, (3 << 4 | 5) - 32));
/// assert_eq!((block.dequantize()[0], block.dequantize()[255]), (-8.5, -21.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Q6K {
    pub low: [u8; 128],
    pub high: [u8; 64],
    pub scales: [i8; 16],
    pub scale: Half,
}

impl Q6K {
    /// The weights without their scales, from -32 to 31.
    pub fn quants(&self) -> [i8; 256] {
        std::array::from_fn(|i| {
            let (half, row, column) = (i / 128, i / 32 % 4, i % 32);
            let low = self.low[half * 64 + row % 2 * 32 + column] >> (row / 2 * 4) & 15;
            let high = self.high[half * 32 + column] >> (2 * row) & 3;
            (low | high << 4) as i8 - 32
        })
    }
}

impl Block<256> for Q6K {
    const ENCODING: Encoding = Encoding::Q6K;

    fn dequantize(&self) -> [f32; 256] {
        let (scale, quants) = (self.scale.get().to_f32(), self.quants());
        std::array::from_fn(|i| scale * f32::from(self.scales[i / 16]) * f32::from(quants[i]))
    }
}

/// The low halves of all bytes, then the high ones.
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| bytes[i % 16] >> (i / 16 * 4) & 15)
}

/// Elements that stand for themselves.
fn plain(scalar: Scalar, bytes: &[u8], out: &mut Vec<f32>) {
    fn extend<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, of: impl Fn([u8; N]) -> f32) {
        out.extend(bytes.as_chunks::<N>().0.iter().map(|&x| of(x)));
    }
    match scalar {
        Scalar::F32 => extend(bytes, out, f32::from_le_bytes),
        Scalar::F16 => extend(bytes, out, |x| f16::from_le_bytes(x).to_f32()),
        Scalar::BF16 => extend(bytes, out, |x| bf16::from_le_bytes(x).to_f32()),
        Scalar::F64 => extend(bytes, out, |x| f64::from_le_bytes(x) as f32),
        Scalar::I8 => extend(bytes, out, |x| f32::from(i8::from_le_bytes(x))),
        Scalar::I32 => extend(bytes, out, |x| i32::from_le_bytes(x) as f32),
        _ => {}
    }
}

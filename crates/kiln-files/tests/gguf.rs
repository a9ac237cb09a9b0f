//! GGUF files as other programs write them, damaged ones, and the weights of every encoding against
//! f64.

use half::{bf16, f16};
use kiln_files::gguf::{Array, Encoding, Q4_1, Q6K, Value};
use kiln_files::{Error, Gguf};
use kiln_ir::Scalar;
use kiln_runtime::Device;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use tempfile::TempDir;

/// Keeps the largest allocation of each thread.
struct Largest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// A file in the making.
#[derive(Clone, Default)]
struct Writer {
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Writer {
    fn key(mut self, key: &str, code: u32, value: &[u8]) -> Writer {
        self.keys.push([&text(key)[..], &code.to_le_bytes(), value].concat());
        self
    }

    fn array(self, key: &str, code: u32, len: u64, values: &[u8]) -> Writer {
        self.key(key, 9, &[&code.to_le_bytes()[..], &len.to_le_bytes(), values].concat())
    }

    /// Extents with the one along memory first, as the format has them.
    fn tensor(mut self, name: &str, extents: &[u64], code: u32, data: &[u8]) -> Writer {
        let mut info = text(name);
        info.extend((extents.len() as u32).to_le_bytes());
        info.extend(extents.iter().flat_map(|x| x.to_le_bytes()));
        info.extend(code.to_le_bytes());
        info.extend((self.data.len() as u64).to_le_bytes());
        self.tensors.push(info);
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        bytes.extend(self.keys.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn open(&self, bytes: &[u8]) -> Result<Gguf, Error> {
        let path = self.0.path().join("model.gguf");
        fs::write(&path, bytes).expect("the folder can be written");
        Gguf::open(path)
    }

    /// What is wrong, without the path.
    fn problem(&self, bytes: &[u8]) -> String {
        match self.open(bytes) {
            Err(Error::Format { path, problem }) => {
                assert!(path.ends_with("model.gguf"));
                problem
            }
            other => panic!("expected damage to be found, got {other:?}"),
        }
    }
}

fn half(x: f32) -> [u8; 2] {
    f16::from_f32(x).to_le_bytes()
}

/// A small file that has some of everything.
fn sample() -> Writer {
    Writer::default()
        .key("general.architecture", 8, &text("llama"))
        .key("a.u8", 0, &[200])
        .key("a.i8", 1, &[0xff])
        .key("a.u16", 2, &60000u16.to_le_bytes())
        .key("a.i16", 3, &(-5i16).to_le_bytes())
        .key("a.u32", 4, &576u32.to_le_bytes())
        .key("a.i32", 5, &(-6i32).to_le_bytes())
        .key("a.f32", 6, &1e-5f32.to_le_bytes())
        .key("a.bool", 7, &[1])
        .key("a.u64", 10, &u64::MAX.to_le_bytes())
        .key("a.i64", 11, &7i64.to_le_bytes())
        .key("a.f64", 12, &0.1f64.to_le_bytes())
        .array("b.texts", 8, 3, &[text("Ġa"), text(""), text("b")].concat())
        .array("b.i32", 5, 2, &[1i32, -2].map(i32::to_le_bytes).concat())
        .array("b.bool", 7, 2, &[0, 1])
        .array("b.none", 6, 0, &[])
        .array(
            "b.nested",
            9,
            1,
            &[&4u32.to_le_bytes()[..], &1u64.to_le_bytes(), &9u32.to_le_bytes()].concat(),
        )
        .tensor("norm", &[3], 0, &[1.0f32, -2.0, 0.5].map(f32::to_le_bytes).concat())
        .tensor("q8", &[32, 2], 8, &[&half(0.5)[..], &[3; 32], &half(-1.0), &[0xfe; 32]].concat())
        .tensor("half", &[2, 1, 2], 1, &[1.0, 2.0, 3.0, -4.0].map(half).concat())
        .tensor("unread", &[256, 1], 12, &[])
        .tensor("empty", &[0, 5], 0, &[])
}

#[test]
fn values_have_their_types() {
    let file = Folder::new().open(&sample().bytes()).unwrap();
    let value = |key: &str| file.value(key).cloned().unwrap();
    assert_eq!(value("a.u8"), Value::U8(200));
    assert_eq!(value("a.i8"), Value::I8(-1));
    assert_eq!(value("a.u16"), Value::U16(60000));
    assert_eq!(value("a.i16"), Value::I16(-5));
    assert_eq!(value("a.i32"), Value::I32(-6));
    assert_eq!(value("a.u64"), Value::U64(u64::MAX));
    assert_eq!(value("a.f64"), Value::F64(0.1));
    assert_eq!(value("a.bool").as_bool(), Some(true));
    assert_eq!(value("b.i32"), Value::Array(Array::I32(vec![1, -2])));
    assert_eq!(value("b.bool"), Value::Array(Array::Bool(vec![false, true])));
    assert_eq!(value("b.none"), Value::Array(Array::F32(vec![])));
    assert_eq!(value("b.nested"), Value::Array(Array::Array(vec![Array::U32(vec![9])])));
    assert_eq!(file.metadata().count(), 17);
    assert_eq!(file.text("general.architecture").unwrap(), "llama");
    assert_eq!(file.unsigned("a.u32").unwrap(), 576);
    assert_eq!(file.unsigned("a.i64").unwrap(), 7);
    assert_eq!(file.float("a.f32").unwrap(), f64::from(1e-5f32));
    assert_eq!(file.texts("b.texts").unwrap(), ["Ġa", "", "b"]);

    let of = |error: Error| error.to_string().split_once(": ").unwrap().1.to_owned();
    assert_eq!(of(file.text("a.none").unwrap_err()), "the metadata `a.none` is missing");
    assert_eq!(
        of(file.text("a.u8").unwrap_err()),
        "the metadata `a.u8` is an unsigned integer, expected a text"
    );
    assert_eq!(
        of(file.unsigned("a.i32").unwrap_err()),
        "the metadata `a.i32` is a signed integer, expected an integer that is not negative"
    );
}

#[test]
fn tensors_have_their_last_extent_along_memory() {
    let file = Folder::new().open(&sample().bytes()).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["empty", "half", "norm", "q8", "unread"]);
    assert_eq!(file.shape("half").unwrap(), [2, 1, 2]);
    assert_eq!(file.shape("q8").unwrap(), [2, 32]);
    assert_eq!(file.encoding("half").unwrap(), Encoding::Plain(Scalar::F16));
    assert!(file.read("empty").unwrap().dequantize().is_empty());
    assert_eq!(file.read("half").unwrap().dequantize(), [1.0, 2.0, 3.0, -4.0]);

    let device = Device::open("interp").unwrap();
    let norm = file.tensor(&device, "norm").unwrap();
    assert_eq!((norm.dtype(), norm.to_vec::<f32>().unwrap()), (Scalar::F32, vec![1.0, -2.0, 0.5]));
    let q8 = file.tensor(&device, "q8").unwrap();
    assert_eq!((q8.dtype(), q8.shape()), (Scalar::F32, &[2, 32][..]));
    assert_eq!(q8.to_vec::<f32>().unwrap(), [[1.5; 32], [2.0; 32]].concat());

    let error = file.read("unread").unwrap_err().to_string();
    assert!(error.ends_with("elements of type Q4_K of `unread` are not read; convert the model to Q4_0, Q4_1, Q8_0, Q6_K or F16"), "{error}");
    let error = file.read("none").unwrap_err().to_string();
    assert!(error.ends_with("there is no tensor `none`; there are `empty`, `half`, `norm`, `q8`, `unread`"));
}

/// The bytes of a block, one after the other from a seed.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Reads a tensor of some blocks, and compares it with what they mean in f64.
fn compare(code: u32, block: usize, bytes: &[u8], expected: &[f64]) {
    let rows = (expected.len() / block) as u64;
    let file = Writer::default().tensor("w", &[block as u64, rows], code, bytes).bytes();
    let weights = Folder::new().open(&file).unwrap().read("w").unwrap();
    assert_eq!(weights.bytes(), bytes);
    let given = weights.dequantize();
    assert_eq!(given.len(), expected.len());
    for (i, (&x, &y)) in given.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(x) - y).abs() <= 1e-6 * y.abs().max(1.0),
            "weight {i} of type {code}: {x}, expected {y}"
        );
    }
}

#[test]
fn blocks_of_32_against_f64() {
    let (mut q4_0, mut q4_1, mut q8_0) = (Vec::new(), Vec::new(), Vec::new());
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for block in 0..5 {
        let (d, m) = (0.01 * (block as f32 - 2.0), 0.3 - block as f32);
        let [scale, minimum] = [d, m].map(|x| f16::from_f32(x).to_f64());
        let nibbles = noise(block, 16);
        let bytes = noise(block + 100, 32);
        q4_0.extend([&half(d)[..], &nibbles].concat());
        q4_1.extend([&half(d)[..], &half(m), &nibbles].concat());
        q8_0.extend([&half(d)[..], &bytes].concat());
        for i in 0..32 {
            let q = if i < 16 { nibbles[i] % 16 } else { nibbles[i - 16] / 16 };
            expected[0].push(scale * (f64::from(q) - 8.0));
            expected[1].push(scale * f64::from(q) + minimum);
            expected[2].push(scale * f64::from(bytes[i] as i8));
        }
    }
    compare(2, 32, &q4_0, &expected[0]);
    compare(3, 32, &q4_1, &expected[1]);
    compare(8, 32, &q8_0, &expected[2]);
}

#[test]
fn blocks_of_256_against_f64() {
    let (mut bytes, mut expected) = (Vec::new(), vec![0.0; 512]);
    for block in 0..2 {
        let (low, high, scales) = (noise(block, 128), noise(block + 7, 64), noise(block + 13, 16));
        let d = 0.002 + block as f32;
        bytes.extend([&low[..], &high, &scales, &half(d)].concat());
        // Column by column of a half, as the format's own code goes through it.
        for part in 0..2 {
            for column in 0..32 {
                let (a, b) = (low[part * 64 + column], low[part * 64 + 32 + column]);
                let top = high[part * 32 + column];
                let q = [
                    a % 16 + 16 * (top % 4),
                    b % 16 + 16 * (top / 4 % 4),
                    a / 16 + 16 * (top / 16 % 4),
                    b / 16 + 16 * (top / 64),
                ];
                for (row, q) in q.into_iter().enumerate() {
                    let scale = f64::from(scales[part * 8 + row * 2 + column / 16] as i8);
                    expected[block as usize * 256 + part * 128 + row * 32 + column] =
                        f16::from_f32(d).to_f64() * scale * (f64::from(q) - 32.0);
                }
            }
        }
    }
    compare(14, 256, &bytes, &expected);
}

#[test]
fn numbers_one_by_one() {
    let x = [0.0f32, -1.5, 3.0e5, f32::MIN_POSITIVE];
    let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    compare(0, 4, &x.map(f32::to_le_bytes).concat(), &wide);
    compare(28, 4, &x.map(|x| f64::from(x).to_le_bytes()).concat(), &wide);
    let rounded: Vec<f64> = x.iter().map(|&x| bf16::from_f32(x).to_f64()).collect();
    compare(30, 4, &x.map(|x| bf16::from_f32(x).to_le_bytes()).concat(), &rounded);
    compare(24, 3, &[1, 0x80, 0xff], &[1.0, -128.0, -1.0]);
    compare(26, 2, &[70_000i32, -3].map(i32::to_le_bytes).concat(), &[70_000.0, -3.0]);
}

#[test]
fn typed_blocks_are_of_their_encoding() {
    let bytes = [&half(2.0)[..], &half(-1.0), &[0x31; 16]].concat();
    let file = Folder::new().open(&Writer::default().tensor("w", &[32], 3, &bytes).bytes()).unwrap();
    let weights = file.read("w").unwrap();
    let blocks = weights.blocks::<Q4_1, 32>().unwrap();
    assert_eq!(
        (blocks.len(), blocks[0].scale.get(), blocks[0].minimum.get()),
        (1, f16::from_f32(2.0), f16::NEG_ONE)
    );
    assert!(weights.blocks::<Q6K, 256>().is_none());
}

#[test]
fn damage_is_named_with_its_place() {
    let folder = Folder::new();
    let good = Writer::default();
    assert_eq!(folder.problem(b"GGUF"), "at byte 0: this is no GGUF file: it has 4 bytes");
    assert_eq!(folder.problem(&[b'x'; 30]), "at byte 0: this is no GGUF file: it does not begin with `GGUF`");
    let mut bytes = good.bytes();
    bytes[4] = 1;
    assert_eq!(folder.problem(&bytes), "at byte 4: version 1 of the format is not read, 2 and 3 are");
    bytes[4..8].copy_from_slice(&3u32.to_be_bytes());
    assert!(folder.problem(&bytes).starts_with("at byte 4: the file is big-endian"));

    let of = |writer: Writer| folder.problem(&writer.bytes());
    assert_eq!(
        of(good.clone().key("k", 13, &[0; 40])),
        "at byte 33: a value has type 13, and types end with 12"
    );
    assert_eq!(of(good.clone().key("k", 7, &[2])), "at byte 37: a truth value is 2, expected 0 or 1");
    assert_eq!(of(good.clone().key("k", 0, &[1]).key("k", 0, &[1])), "at byte 38: the key `k` occurs twice");
    assert_eq!(
        of(good.clone().key("k", 8, &u64::MAX.to_le_bytes())),
        "at byte 45: a text of 18446744073709551615 bytes would go beyond the file's 64 bytes"
    );
    assert_eq!(
        of(good.clone().array("k", 10, 1 << 61, &[])),
        "at byte 49: an array of 2305843009213693952 values would go beyond the file's 64 bytes"
    );
    let nested = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat().repeat(20);
    assert!(of(good.clone().array("k", 9, 1, &nested)).ends_with("arrays are nested more than 4 deep"));
    assert_eq!(
        of(good.clone().key("k", 8, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff])),
        "at byte 37: a text is not UTF-8"
    );
    assert_eq!(
        of(good.clone().key("general.alignment", 4, &24u32.to_le_bytes())),
        "at byte 57: `general.alignment` is U32(24), expected a power of two"
    );
    let tensor = |extents: &[u64], code| of(good.clone().tensor("w", extents, code, &[0; 64]));
    assert_eq!(tensor(&[1; 5], 0), "at byte 24: the tensor `w` has 5 axes, 4 at most");
    assert!(tensor(&[u64::MAX, 2], 0).contains("`w` has impossible extents [18446744073709551615, 2]"));
    assert!(tensor(&[1 << 40, 1 << 40, 0], 0).contains("impossible"));
    assert!(tensor(&[48, 32], 3).contains("rows of 48 elements, which are no whole blocks of 32 (Q4_1)"));
    assert_eq!(
        tensor(&[17], 0),
        "at byte 24: the tensor `w` is 68 bytes at offset 0 of the data, of which the file has 64"
    );
    let twice = good.clone().tensor("w", &[1], 0, &[0; 4]).tensor("w", &[1], 0, &[0; 4]);
    assert!(of(twice).ends_with("the tensor `w` occurs twice"));
}

#[test]
fn a_file_that_ends_early_is_refused() {
    let (folder, bytes) = (Folder::new(), sample().bytes());
    let last = bytes.len() - 32;
    for len in 0..=last {
        assert!(folder.open(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
}

/// Opens a file and reads all of it, whatever it is. No allocation may be much larger than the
/// file.
fn read_all(folder: &Folder, bytes: &[u8]) -> Result<(), TestCaseError> {
    LARGEST.set(0);
    if let Ok(file) = folder.open(bytes) {
        for name in file.names() {
            let _ = file.read(name).map(|weights| weights.dequantize());
        }
    }
    // A read buffer has 8 KiB; a key in memory is some times as long as an empty one in the file.
    prop_assert!(LARGEST.get() <= 16 * 1024 + 16 * bytes.len(), "{} bytes at once", LARGEST.get());
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::new();
        read_all(&folder, &bytes)?;
        read_all(&folder, &[b"GGUF\x03\0\0\0", &bytes[..]].concat())?;
        read_all(&folder, &[b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", &bytes[..]].concat())?;
    }

    #[test]
    fn changed_files_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = sample().bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        read_all(&Folder::new(), &bytes)?;
    }

    #[test]
    fn numbers_set_to_extremes_are_read_or_refused(at: prop::sample::Index, value in prop::sample::select(vec![u64::MAX, 1 << 63, 1 << 32, 1 << 20, 0])) {
        let mut bytes = sample().bytes();
        let at = at.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        read_all(&Folder::new(), &bytes)?;
    }
}

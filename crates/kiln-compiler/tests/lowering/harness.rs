//! Runs a kernel over tiles and what it is lowered to on the interpreter, and compares every byte
//! of memory they leave.

use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, StreamId};
use kiln_compiler::{IndexWidth, Target, lower_to_threads};
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, Level, Scalar, parse, verify};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

const STREAM: StreamId = StreamId(0);

/// What a buffer begins with.
#[derive(Clone, Copy, PartialEq)]
pub enum Fill {
    /// Random values: floats and signed integers of both signs, from a small range so that integers
    /// meet equal values.
    Random,
    /// Integers from 0 up to this bound.
    Below(u64),
    /// A pattern that no kernel writes.
    Poison,
    /// Zeros.
    Zero,
    /// Ones.
    One,
}

/// A buffer of a case: row-major.
#[derive(Clone)]
pub struct Buffer {
    pub elem: Scalar,
    pub extents: Vec<u64>,
    /// Elements from one row to the next of the last axis but one, if rows are padded.
    pub pitch: Option<u64>,
    /// The first of two axes is the one along which elements are adjacent.
    pub column_major: bool,
    pub fill: Fill,
}

/// A row-major buffer.
pub fn buffer(elem: Scalar, extents: &[u64], fill: Fill) -> Buffer {
    Buffer { elem, extents: extents.to_vec(), pitch: None, column_major: false, fill }
}

impl Buffer {
    /// Elements from one to the next, on every axis.
    pub fn strides(&self) -> Vec<u64> {
        let rank = self.extents.len();
        if self.column_major {
            return vec![1, self.extents[0]];
        }
        let mut strides = vec![1; rank];
        for axis in (0..rank.saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * self.extents[axis + 1];
            if axis + 2 == rank {
                strides[axis] = self.pitch.unwrap_or(strides[axis]);
            }
        }
        strides
    }

    fn len(&self) -> u64 {
        if self.column_major {
            return (self.extents[0] * self.extents[1]).max(1);
        }
        let rows = self.extents.first().copied().unwrap_or(1);
        (rows * self.strides().first().copied().unwrap_or(1)).max(1)
    }

    /// Facts that a runtime would derive: exact divisors up to 16, stride 1.
    fn facts(&self) -> String {
        let fact = |n: &u64| match n {
            1 => "=1".to_owned(),
            n => (1u64 << n.trailing_zeros().min(4)).to_string().replace("^1$", "_"),
        };
        let list = |all: Vec<u64>| {
            let all: Vec<String> =
                all.iter().map(fact).map(|f| if f == "1" { "_".into() } else { f }).collect();
            all.join(", ")
        };
        format!("align=256, extents=[{}], strides=[{}]", list(self.extents.clone()), list(self.strides()))
    }
}

/// A small generator of random words.
pub struct Words(pub u64);

impl Words {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// The bytes a buffer begins with.
pub fn bytes(buffer: &Buffer, words: &mut Words) -> Vec<u8> {
    let size = buffer.elem.bytes() as usize;
    let mut all = Vec::new();
    for _ in 0..buffer.len() {
        let word = words.next();
        let literal = match (buffer.fill, buffer.elem) {
            (Fill::Poison, _) => {
                all.extend(std::iter::repeat_n(if buffer.elem == Scalar::Bool { 1 } else { 0xa5 }, size));
                continue;
            }
            (Fill::Zero, _) => 0.0,
            (Fill::One, _) => 1.0,
            (Fill::Below(bound), _) => (word % bound) as f64,
            (_, Scalar::Bool) => (word % 2) as f64,
            (_, Scalar::U32 | Scalar::U64) => (word % 97) as f64,
            (_, e) if e.is_float() => (word % 4001) as f64 / 1000.0 - 2.0,
            _ => (word % 97) as f64 - 48.0,
        };
        let bits = kiln_ir::Literal::from_f64(buffer.elem, literal).bits();
        all.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    all
}

/// A kernel and what it is run on. In the text, `$0`, `$1`, … stand for the facts of the buffers.
pub struct Case<'a> {
    pub text: &'a str,
    pub grid: [u32; 3],
    pub buffers: Vec<Buffer>,
    /// Words of scalar parameters, which come last.
    pub scalars: Vec<u64>,
    /// How far floats may differ, relative to the larger of 1 and their size.
    pub tolerance: f64,
}

impl<'a> Case<'a> {
    pub fn new(text: &'a str, grid: u32, buffers: Vec<Buffer>) -> Case<'a> {
        Case { text, grid: [grid, 1, 1], buffers, scalars: vec![], tolerance: 0.0 }
    }

    pub fn within(self, tolerance: f64) -> Case<'a> {
        Case { tolerance, ..self }
    }

    /// The kernel, with facts filled in, in a block of so many warps if it is over tiles.
    pub fn kernel(&self, warps: Option<u32>, facts: bool) -> Kernel {
        let mut text = self.text.to_owned();
        for (i, buffer) in self.buffers.iter().enumerate() {
            text = text.replace(&format!("${i}"), &if facts { buffer.facts() } else { String::new() });
        }
        if !facts {
            text = text.replace(" {}", "");
        }
        let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        if let Level::Tile { warps: chosen } = &mut kernel.level {
            *chosen = chosen.or(warps);
        }
        kernel
    }

    /// Runs a kernel and gives the buffers it leaves.
    pub fn run(&self, kernel: &Kernel) -> Result<Vec<Vec<u8>>, String> {
        self.run_on(&Interp::new(Options::default()), kernel)
    }

    /// What a kernel prints.
    pub fn printed(&self, kernel: &Kernel) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let device = Interp::new(Options::default());
        let sink = lines.clone();
        device.set_print_sink(Arc::new(move |line| sink.lock().unwrap().push(line.to_owned())));
        self.run_on(&device, kernel).unwrap();
        let lines = lines.lock().unwrap();
        lines.clone()
    }

    fn run_on(&self, device: &Interp, kernel: &Kernel) -> Result<Vec<Vec<u8>>, String> {
        let mut arguments = LaunchArguments::new();
        let mut held: Vec<(DevicePtr, usize)> = Vec::new();
        let mut random = Words(1);
        for buffer in &self.buffers {
            let data = bytes(buffer, &mut random);
            let ptr = device.allocate(data.len(), STREAM).map_err(|e| e.to_string())?;
            // SAFETY: the allocation has the size of the data.
            unsafe { device.upload(ptr, &data, STREAM) }.map_err(|e| e.to_string())?;
            arguments = arguments.strided(BufferBinding::write(ptr), &buffer.extents, &buffer.strides());
            held.push((ptr, data.len()));
        }
        arguments = self.scalars.iter().fold(arguments, |all, &bits| all.scalar(bits));
        let program = device.compile(kernel).map_err(|e| e.to_string())?.program;
        let launch = arguments.launch(self.grid, STREAM);
        // SAFETY: the interpreter checks every access.
        unsafe { device.launch(&*program, launch) }.map_err(|e| e.to_string())?;
        device.synchronize(STREAM).map_err(|e| e.to_string())?;
        held.into_iter()
            .map(|(ptr, len)| {
                let mut data = vec![0; len];
                // SAFETY: the data has the size of the allocation.
                unsafe { device.download(&mut data, ptr, STREAM) }.map_err(|e| e.to_string())?;
                Ok(data)
            })
            .collect()
    }

    /// Checks that the kernel lowered for warps of another width, all of whose threads can shuffle
    /// or a half, does what the kernel does.
    pub fn check_warps_of(&self, width: u32) {
        let device = Interp::new(Options { warp: width, ..Options::default() });
        for warps in [Some(1), Some(2), Some(8), None] {
            for subgroup in [width, width / 2] {
                let kernel = self.kernel(warps, true);
                let target = Target { warp: width, subgroup, ..Target::portable(subgroup, 64 << 10) };
                let lowered = lower_for(&kernel, &Target { max_threads: 1024, ..target });
                let expected = self.run(&kernel).unwrap_or_else(|e| panic!("the tile kernel: {e}\n{kernel}"));
                let got = self.run_on(&device, &lowered).unwrap_or_else(|e| {
                    panic!("lowered for {warps:?} warps of {width}: {e}\n{kernel}\n{lowered}")
                });
                let mut report = String::new();
                for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
                    self.compare(i, expected, got, &mut report);
                }
                assert!(report.is_empty(), "{warps:?} warps of {width}:\n{report}\n{kernel}\n{lowered}");
            }
        }
    }

    /// Checks that the kernel lowered for indices of 64 bits does what the kernel does.
    pub fn check_indices(&self) {
        let kernel = self.kernel(None, true);
        let narrow = lower(&kernel);
        let target = Target { index: IndexWidth::Bits64, ..Target::cuda((9, 0), 227 << 10) };
        let wide = lower_for(&kernel, &target);
        assert_ne!(narrow.to_string(), wide.to_string());
        let expected = self.run(&kernel).unwrap_or_else(|e| panic!("the tile kernel: {e}\n{kernel}"));
        let got = self.run(&wide).unwrap_or_else(|e| panic!("{e}\n{wide}"));
        let mut report = String::new();
        for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
            self.compare(i, expected, got, &mut report);
        }
        assert!(report.is_empty(), "{report}\n{wide}");
    }

    /// Checks that the lowered kernel does what the kernel does, with several numbers of warps,
    /// with and without facts.
    pub fn check(&self) {
        self.check_with(&[Some(1), Some(4), None], &[true, false]);
    }

    pub fn check_with(&self, warps: &[Option<u32>], facts: &[bool]) {
        for &warps in warps {
            for &facts in facts {
                let kernel = self.kernel(warps, facts);
                let lowered = lower(&kernel);
                let expected = self.run(&kernel).unwrap_or_else(|e| panic!("the tile kernel: {e}\n{kernel}"));
                let got = self.run(&lowered).unwrap_or_else(|e| {
                    panic!("lowered for {warps:?} warps, facts {facts}: {e}\n{kernel}\n{lowered}")
                });
                let mut report = String::new();
                for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
                    self.compare(i, expected, got, &mut report);
                }
                assert!(
                    report.is_empty(),
                    "lowered for {warps:?} warps, facts {facts}:\n{report}\n{kernel}\n{lowered}"
                );
            }
        }
    }

    fn compare(&self, i: usize, expected: &[u8], got: &[u8], report: &mut String) {
        let elem = self.buffers[i].elem;
        let size = elem.bytes() as usize;
        let mut shown = 0;
        for (at, (a, b)) in expected.chunks(size).zip(got.chunks(size)).enumerate() {
            let literal = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..size].copy_from_slice(bytes);
                kiln_ir::Literal::from_bits(elem, u64::from_le_bytes(word))
            };
            let (x, y) = (literal(a).as_f64(), literal(b).as_f64());
            let near = elem.is_float() && (x - y).abs() <= self.tolerance * x.abs().max(1.0);
            if a != b && !near && shown < 5 {
                shown += 1;
                writeln!(report, "buffer {i}, element {at}: expected {x}, got {y}").unwrap();
            }
        }
    }
}

/// The target of every test: an H200.
pub fn target() -> Target {
    Target::cuda((9, 0), 227 << 10)
}

/// Lowers a kernel and verifies the result.
pub fn lower(kernel: &Kernel) -> Kernel {
    lower_for(kernel, &target())
}

/// Lowers a kernel for a target and verifies the result.
pub fn lower_for(kernel: &Kernel, target: &Target) -> Kernel {
    let lowered = lower_to_threads(kernel, target).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    verify(&lowered).unwrap_or_else(|e| panic!("{e:?}\n{kernel}\n{lowered}"));
    let (values, ..) = lowered.counts();
    for value in (0..values).map(kiln_ir::Value::from_index) {
        assert_eq!(lowered.shape(value).rank(), 0, "{lowered}");
    }
    lowered
}

/// How many live operations of a kernel satisfy a condition.
pub fn count(kernel: &Kernel, mut of: impl FnMut(&kiln_ir::OpKind) -> bool) -> usize {
    let mut n = 0;
    kernel.walk(|_, data| n += of(&data.kind) as usize);
    n
}

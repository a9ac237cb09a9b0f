//! Every primitive, on every instruction set of this machine, against references written a second
//! time in the plainest way: integers in i128, floats in f64, one element at a time.

mod atomics;
mod axes;
mod elementwise;
mod math;
mod moves;
mod products;
mod reference;

use kiln_cpu_primitives::{Form, Isa, PrimitiveFn, PrimitiveKey, lookup, lookup_at};
use kiln_ir::Scalar;

/// The lengths at which element-wise loops are tested: around every vector width and unrolling, and
/// beyond one stack buffer.
fn lengths() -> impl Iterator<Item = usize> {
    (0..70).chain([255, 256, 257, 600])
}

/// The function of a key that must exist, as the variant of [`PrimitiveFn`] that is named.
macro_rules! primitive {
    ($isa:expr, $kind:ident, $key:expr) => {{
        let key = $key;
        match kiln_cpu_primitives::lookup_at($isa, key) {
            Some(kiln_cpu_primitives::PrimitiveFn::$kind(f)) => f,
            other => panic!("{key:?} is {other:?}"),
        }
    }};
}
use primitive;

/// A pseudo-random sequence (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A tile in memory between red zones, whose elements are read and written as bits.
#[derive(Clone)]
struct Tile {
    scalar: Scalar,
    len: usize,
    // In words, so that every element type is aligned.
    memory: Vec<u64>,
}

/// One red zone, in bytes: a whole AVX-512 store would show.
const RED_ZONE: usize = 64;
const POISON: u8 = 0xa5;

impl Tile {
    /// A tile of poison.
    fn poisoned(scalar: Scalar, len: usize) -> Tile {
        let bytes = 2 * RED_ZONE + len * scalar.bytes() as usize;
        Tile { scalar, len, memory: vec![u64::from_ne_bytes([POISON; 8]); bytes.div_ceil(8)] }
    }

    fn new(scalar: Scalar, elements: &[u64]) -> Tile {
        let mut tile = Tile::poisoned(scalar, elements.len());
        for (i, &bits) in elements.iter().enumerate() {
            let size = scalar.bytes() as usize;
            tile.bytes()[RED_ZONE + i * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        tile
    }

    /// From numbers, rounded or wrapped to the type.
    fn of(scalar: Scalar, elements: &[f64]) -> Tile {
        let bits: Vec<u64> = elements.iter().map(|&x| reference::from_number(scalar, x)).collect();
        Tile::new(scalar, &bits)
    }

    fn bytes(&mut self) -> &mut [u8] {
        let words = self.memory.len();
        // SAFETY: the words are initialized and a byte has no alignment.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), words * 8) }
    }

    fn ptr(&self) -> *const u8 {
        self.memory.as_ptr().cast::<u8>().wrapping_add(RED_ZONE)
    }

    fn mut_ptr(&mut self) -> *mut u8 {
        self.bytes()[RED_ZONE..].as_mut_ptr()
    }

    /// The elements' bits, after a look at the red zones.
    fn elements(&self) -> Vec<u64> {
        let mut tile = self.clone();
        let size = self.scalar.bytes() as usize;
        let end = RED_ZONE + self.len * size;
        let bytes = tile.bytes();
        assert!(
            bytes[..RED_ZONE].iter().chain(&bytes[end..]).all(|&b| b == POISON),
            "a red zone was overwritten"
        );
        let element = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        bytes[RED_ZONE..end].chunks(size).map(element).collect()
    }

    /// The elements as numbers.
    fn numbers(&self) -> Vec<f64> {
        self.elements().into_iter().map(|bits| reference::to_number(self.scalar, bits)).collect()
    }
}

/// The elements of `len` special and random values of a type.
fn values(scalar: Scalar, len: usize, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    let specials = reference::specials(scalar);
    (0..len)
        .map(|_| match random.below(4) {
            0 => specials[random.below(specials.len())],
            // Small numbers, where arithmetic has something to do.
            1 | 2 if scalar != Scalar::Bool => {
                let x = random.below(4001) as f64 / 100.0 - 20.0;
                reference::from_number(scalar, if scalar.is_signed() { x } else { x.abs() })
            }
            _ => reference::truncate(scalar, random.next()),
        })
        .collect()
}

#[test]
fn every_isa_has_the_same_primitives() {
    use kiln_ir::{BinaryOp, MathFn, UnaryOp};
    for isa in Isa::available() {
        for scalar in Scalar::COMPUTED {
            let has = |key| lookup_at(isa, key).is_some();
            assert_eq!(has(PrimitiveKey::Unary(UnaryOp::Math(MathFn::Exp), scalar)), scalar.is_float());
            assert_eq!(has(PrimitiveKey::Unary(UnaryOp::Popcount, scalar)), scalar.is_int());
            assert_eq!(has(PrimitiveKey::Unary(UnaryOp::Not, scalar)), !scalar.is_float());
            assert_eq!(
                has(PrimitiveKey::Binary(BinaryOp::Add, Form::Arrays, scalar)),
                scalar != Scalar::Bool
            );
            assert_eq!(has(PrimitiveKey::Binary(BinaryOp::Shl, Form::ScalarRight, scalar)), scalar.is_int());
            assert_eq!(has(PrimitiveKey::Dot(scalar)), scalar != Scalar::Bool);
        }
    }
}

#[test]
fn functions_say_how_they_are_called() {
    let add = lookup(PrimitiveKey::Binary(kiln_ir::BinaryOp::Add, Form::Arrays, Scalar::F32));
    let add = add.expect("add of f32 exists");
    assert_eq!((add.arity(), add.returns_flag()), (4, true));
    let PrimitiveFn::Binary(f) = add else { panic!("{add:?} is binary") };
    assert_eq!(add.address(), f as *const u8);
}

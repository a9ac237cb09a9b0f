//! Atomics: each operation against its sequential meaning, and nothing lost between threads.

use super::{PrimitiveFn, Random, Tile, lengths, primitive, reference, values};
use kiln_cpu_primitives::{AddMode, Isa, Operand, PrimitiveKey, lookup_at};
use kiln_ir::{AtomicOp, BinaryOp, Scalar};

const OPS: [AtomicOp; 9] = [
    AtomicOp::Add,
    AtomicOp::Min,
    AtomicOp::Max,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Exchange,
    AtomicOp::AddF16x2,
    AtomicOp::AddBf16x2,
];

/// What an operation makes of the old value and the operand, if it is defined.
fn apply(op: AtomicOp, scalar: Scalar, old: u64, value: u64) -> Option<u64> {
    let binary = match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Min if scalar != Scalar::Bool => BinaryOp::Min,
        AtomicOp::Max if scalar != Scalar::Bool => BinaryOp::Max,
        AtomicOp::And => BinaryOp::And,
        AtomicOp::Or => BinaryOp::Or,
        AtomicOp::Xor => BinaryOp::Xor,
        AtomicOp::Exchange => return Some(value),
        AtomicOp::Min | AtomicOp::Max => return None,
        AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => {
            let half = op.pair_of().filter(|_| scalar == Scalar::U32)?;
            let sum = |shift: u64| {
                let (old, value) = (old >> shift & 0xffff, value >> shift & 0xffff);
                reference::binary(BinaryOp::Add, half, old, value).map(|(sum, _)| sum << shift)
            };
            return Some(sum(0)? | sum(16)?);
        }
    };
    reference::binary(binary, scalar, old, value).map(|(result, _)| result)
}

#[test]
fn operations() {
    let mut random = Random(31);
    for (op, scalar) in OPS.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
        let key = PrimitiveKey::Atomic(op, scalar);
        assert_eq!(lookup_at(Isa::best(), key).is_some(), apply(op, scalar, 1, 1).is_some(), "{key:?}");
        let Some(PrimitiveFn::Atomic(f)) = lookup_at(Isa::best(), key) else { continue };
        for (n, variant) in lengths().flat_map(|n| (0..3).map(move |v| (n, v))) {
            let (masked, wants_old) = (variant > 0, variant < 2);
            let mut memory = Tile::new(scalar, &values(scalar, 10, 7));
            let value = Tile::new(scalar, &values(scalar, n, 8));
            let mask: Vec<u8> = (0..n).map(|_| !masked as u8 | (random.below(2) as u8)).collect();
            let index: Vec<i64> =
                mask.iter().map(|&m| if m == 0 { -1 << 40 } else { random.below(10) as i64 }).collect();
            let mut old = Tile::poisoned(scalar, n);
            let (mut expected, mut expected_old) = (memory.elements(), vec![0; n]);
            for (i, element) in value.elements().into_iter().enumerate().filter(|(i, _)| mask[*i] != 0) {
                let place = &mut expected[index[i] as usize];
                expected_old[i] = *place;
                *place = apply(op, scalar, *place, element).expect("defined");
            }
            let old_ptr = if wants_old { old.mut_ptr() } else { std::ptr::null_mut() };
            let mask_ptr = if masked { mask.as_ptr() } else { std::ptr::null() };
            // SAFETY: active indices are within the 10 elements of memory.
            unsafe { f(old_ptr, memory.mut_ptr(), index.as_ptr(), mask_ptr, value.ptr(), n) };
            let all_same = |a: Vec<u64>, b: &[u64]| {
                // Which zero is the lesser is not specified.
                let zeros = |a, b| {
                    scalar.is_float() && reference::to_float(scalar, a) == reference::to_float(scalar, b)
                };
                let halves = |a: u64, b: u64| {
                    let alike = |half, by: u64| reference::same(half, a >> by & 0xffff, b >> by & 0xffff);
                    op.pair_of().is_some_and(|half| alike(half, 0) && alike(half, 16))
                };
                a.iter().zip(b).all(|(&a, &b)| reference::same(scalar, a, b) || zeros(a, b) || halves(a, b))
            };
            assert!(all_same(memory.elements(), &expected), "{key:?}, n {n}");
            if wants_old {
                assert!(all_same(old.elements(), &expected_old), "{key:?}, old, n {n}");
            }
        }
    }
}

#[test]
fn compare_exchange_goes_by_bits() {
    for scalar in Scalar::COMPUTED {
        let f = primitive!(Isa::best(), AtomicCas, PrimitiveKey::AtomicCas(scalar));
        let specials = reference::specials(scalar);
        let n = specials.len();
        // Each place is tried with its own value, NaN included, then with another one; the last
        // element is masked off.
        let mut memory = Tile::new(scalar, &specials);
        let index: Vec<i64> = (0..n as i64).chain(0..n as i64).collect();
        let expected = Tile::new(scalar, &[specials.clone(), vec![2; n]].concat());
        let desired = Tile::new(scalar, &[vec![1; n], vec![0; n]].concat());
        let mut mask = vec![1u8; 2 * n];
        mask[2 * n - 1] = 0;
        let mut old = Tile::poisoned(scalar, 2 * n);
        // SAFETY: active indices are within memory.
        unsafe {
            f(
                old.mut_ptr(),
                memory.mut_ptr(),
                index.as_ptr(),
                mask.as_ptr(),
                expected.ptr(),
                desired.ptr(),
                2 * n,
            );
        }
        assert_eq!(memory.elements(), vec![1; n], "{scalar}");
        let mut old_values = [specials, vec![1; n]].concat();
        old_values[2 * n - 1] = 0;
        assert_eq!(old.elements(), old_values, "{scalar}");
    }
}

#[test]
fn threads_lose_no_update() {
    const EACH: usize = 2000;
    for scalar in [Scalar::I32, Scalar::U64, Scalar::BF16, Scalar::F16, Scalar::F32, Scalar::F64] {
        let f = primitive!(Isa::best(), Atomic, PrimitiveKey::Atomic(AtomicOp::Add, scalar));
        let mut memory = Tile::of(scalar, &[0.0; 40]);
        // In bf16 whole numbers are exact up to 256 only: 40 places share the work.
        let index: Vec<i64> = (0..EACH as i64).map(|i| i % 40).collect();
        let ones = Tile::of(scalar, &vec![1.0; EACH]);
        let place = memory.mut_ptr() as usize;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // SAFETY: indices are within memory, which the threads access only atomically.
                    unsafe {
                        f(
                            std::ptr::null_mut(),
                            place as *mut u8,
                            index.as_ptr(),
                            std::ptr::null(),
                            ones.ptr(),
                            EACH,
                        )
                    };
                });
            }
        });
        assert_eq!(memory.numbers(), [200.0; 40], "{scalar}");
    }
}

/// Sums at indices of each type, against a loop: in every mode, at strides, with indices outside.
#[test]
fn sums_at_indices() {
    let mut random = Random(77);
    let narrow = [(Scalar::I32, Scalar::U32), (Scalar::U32, Scalar::I32), (Scalar::I64, Scalar::I32)];
    let wide = [(Scalar::I64, Scalar::U64), (Scalar::I64, Scalar::I64)];
    for (of, scalar) in
        narrow.into_iter().chain(wide).chain([(Scalar::U8, Scalar::U32), (Scalar::U8, Scalar::I32)])
    {
        let f = primitive!(Isa::best(), AddEach, PrimitiveKey::AddEach(of, scalar));
        for (n, mode) in
            lengths().chain([700, 5000]).flat_map(|n| (0..16).map(move |mode| (n, AddMode(mode))))
        {
            let extent = [1, 7, 300, 1024, 1025][random.below(5)];
            let (stride, masked, strays) = (1 + random.below(2), random.below(2) == 1, random.below(3) == 0);
            let first = random.below(extent) as i64 - i64::from(strays) * 3;
            let neighbors = mode.has(AddMode::NEIGHBORS);
            let positions: Vec<i64> = (0..n)
                .map(|i| match random.below(extent + if strays { 2 } else { 0 }) as i64 {
                    _ if neighbors => first + i as i64,
                    far if far > extent as i64 => {
                        if of == Scalar::U32 {
                            1 << 31
                        } else {
                            -1
                        }
                    }
                    at => at,
                })
                .map(|at| if of == Scalar::U8 && !neighbors { at & 255 } else { at })
                .collect();
            let mask: Vec<u8> = (0..n).map(|_| u8::from(!masked) | random.below(2) as u8).collect();
            let bits: Vec<u64> = positions.iter().map(|&at| reference::truncate(of, at as u64)).collect();
            let index = Tile::new(of, &bits);
            let mut memory = Tile::new(scalar, &values(scalar, extent * stride, 5));
            let value = Tile::new(scalar, &values(scalar, n.max(1), 6));
            let each = mode.has(AddMode::VALUES);
            let inside = |at: i64| (0..extent as i64).contains(&at);
            let outside = positions.iter().zip(&mask).any(|(&at, &goes)| goes != 0 && !inside(at));
            let refused = outside && mode.has(AddMode::CHECKED);
            let (mut expected, added) = (memory.elements(), value.elements());
            for (i, &at) in positions.iter().enumerate() {
                if mask[i] != 0 && inside(at) && !refused {
                    let place = &mut expected[at as usize * stride];
                    *place = reference::truncate(scalar, place.wrapping_add(added[if each { i } else { 0 }]));
                }
            }
            let scalar_or_array = match each {
                true => Operand { array: value.ptr() },
                false => Operand { bits: value.elements()[0] },
            };
            let index = if neighbors { first as usize as *const u8 } else { index.ptr() };
            let mask = if masked { mask.as_ptr() } else { std::ptr::null() };
            // SAFETY: all arrays have `n` elements, and memory has those of the extent.
            let flag = unsafe {
                f(memory.mut_ptr(), extent, stride as isize, index, mask, scalar_or_array, n, mode)
            };
            assert_eq!(memory.elements(), expected, "{of} {scalar}, n {n}, {extent}, {mode:?}");
            assert_eq!(flag != 0, refused, "{of} {scalar}, n {n}, {extent}, {mode:?}");
        }
    }
}

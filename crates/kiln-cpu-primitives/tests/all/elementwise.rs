//! Element-wise primitives: every operation, type, form, length and instruction set; in place;
//! special values.

use super::{PrimitiveFn, Random, Tile, lengths, primitive, reference, values};
use kiln_cpu_primitives::{Form, Isa, Operand, PrimitiveKey, lookup_at};
use kiln_ir::{BinaryOp, CompareOp, Literal, Scalar, UnaryOp, eval};

const FORMS: [Form; 3] = [Form::Arrays, Form::ScalarLeft, Form::ScalarRight];

fn array(tile: &Tile) -> Operand {
    Operand { array: tile.ptr() }
}

/// The operands of a form, and the pairs of elements that they stand for.
fn operands(form: Form, a: &Tile, b: &Tile, scalar: u64) -> (Operand, Operand, Vec<(u64, u64)>) {
    // What is above the scalar in its register does not matter.
    let garbage = if a.scalar.bytes() < 8 { 0x5a5a_5a5a << (8 * a.scalar.bytes()) } else { 0 };
    let bits = Operand { bits: scalar | garbage };
    let (x, y) = (a.elements(), b.elements());
    match form {
        Form::Arrays => (array(a), array(b), x.into_iter().zip(y).collect()),
        Form::ScalarLeft => (bits, array(b), y.into_iter().map(|y| (scalar, y)).collect()),
        Form::ScalarRight => (array(a), bits, x.into_iter().map(|x| (x, scalar)).collect()),
    }
}

#[track_caller]
fn check(what: &str, scalar: Scalar, got: u64, expected: u64, slack: u64) {
    let distance =
        if scalar.is_float() { reference::distance(scalar, got, expected) } else { (got != expected) as u64 };
    assert!(distance <= slack, "{what}: {got:#x} instead of {expected:#x}");
}

#[test]
fn unary_operations() {
    for isa in Isa::available() {
        for (op, scalar) in UnaryOp::ALL.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
            let key = PrimitiveKey::Unary(op, scalar);
            assert_eq!(lookup_at(isa, key).is_some(), reference::unary(op, scalar, 1).is_some(), "{key:?}");
            let Some(PrimitiveFn::Unary(f)) = lookup_at(isa, key) else { continue };
            let result = if op == UnaryOp::IsNan { Scalar::Bool } else { scalar };
            for n in lengths() {
                let a = Tile::new(scalar, &values(scalar, n, n as u64));
                let mut out = Tile::poisoned(result, n);
                // SAFETY: the tiles have `n` elements.
                unsafe { f(out.mut_ptr(), a.ptr(), n) };
                for (x, got) in a.elements().into_iter().zip(out.elements()) {
                    let (expected, slack) = reference::unary(op, scalar, x).expect("defined");
                    check(&format!("{isa:?} {op:?} {scalar} of {x:#x}, n {n}"), result, got, expected, slack);
                }
                if result == scalar {
                    let mut place = a.clone();
                    let p = place.mut_ptr();
                    // SAFETY: as above, in place.
                    unsafe { f(p, p, n) };
                    assert_eq!(place.elements(), out.elements(), "{key:?} in place, n {n}");
                }
            }
        }
    }
}

#[test]
fn binary_operations() {
    for isa in Isa::available() {
        for (op, scalar) in BinaryOp::ALL.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
            for form in FORMS {
                let key = PrimitiveKey::Binary(op, form, scalar);
                assert_eq!(
                    lookup_at(isa, key).is_some(),
                    reference::binary(op, scalar, 1, 1).is_some(),
                    "{key:?}"
                );
                if lookup_at(isa, key).is_some() {
                    binary_operation(isa, op, form, scalar);
                }
            }
        }
    }
}

fn binary_operation(isa: Isa, op: BinaryOp, form: Form, scalar: Scalar) {
    let f = primitive!(isa, Binary, PrimitiveKey::Binary(op, form, scalar));
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem) && scalar.is_int();
    for n in lengths() {
        let a = Tile::new(scalar, &values(scalar, n, 2 * n as u64));
        let b = Tile::new(scalar, &values(scalar, n, 2 * n as u64 + 1));
        let (x, y, pairs) = operands(form, &a, &b, values(scalar, n + 1, 5)[n]);
        let mut out = Tile::poisoned(scalar, n);
        // SAFETY: the tiles have `n` elements.
        let flag = unsafe { f(out.mut_ptr(), x, y, n) };
        assert_eq!(
            flag != 0,
            divides && pairs.iter().any(|&(_, b)| b == 0),
            "{isa:?} {op:?} {scalar}, n {n}"
        );
        for (&(a, b), got) in pairs.iter().zip(out.elements()) {
            let (expected, slack) = reference::binary(op, scalar, a, b).expect("defined");
            let equal_zeros = matches!(op, BinaryOp::Min | BinaryOp::Max)
                && scalar.is_float()
                && reference::to_float(scalar, got) == 0.0
                && reference::to_float(scalar, expected) == 0.0;
            let what = format!("{isa:?} {op:?} {form:?} {scalar} of {a:#x} and {b:#x}, n {n}");
            // Which zero is the lesser is not specified.
            check(&what, scalar, got, if equal_zeros { got } else { expected }, slack);
        }
        for operand in [&a, &b] {
            let mut place = operand.clone();
            let p = place.mut_ptr();
            let redirect = |o: Operand, scalar: bool| {
                // SAFETY: the form says which member is there.
                if !scalar && unsafe { o.array } == operand.ptr() { Operand { array: p } } else { o }
            };
            let x = redirect(x, form == Form::ScalarLeft);
            let y = redirect(y, form == Form::ScalarRight);
            // SAFETY: as above, with the output in the place of an operand if it is an array.
            unsafe { f(p, x, y, n) };
            // Which NaN comes out of two is not specified.
            let same = |(a, b)| reference::same(scalar, a, b);
            let all = place.elements().into_iter().zip(out.elements()).all(same);
            assert!(all, "{isa:?} {op:?} {form:?} {scalar} in place, n {n}");
        }
    }
}

#[test]
fn comparisons() {
    for isa in Isa::available() {
        for (op, scalar) in CompareOp::ALL.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
            for (form, n) in FORMS.iter().flat_map(|&form| lengths().map(move |n| (form, n))) {
                let f = primitive!(isa, Binary, PrimitiveKey::Compare(op, form, scalar));
                let a = Tile::new(scalar, &values(scalar, n, 3 * n as u64));
                let mut b = values(scalar, n, 3 * n as u64 + 1);
                // Equal pairs are rare by chance.
                b.iter_mut().zip(a.elements()).step_by(3).for_each(|(b, a)| *b = a);
                let b = Tile::new(scalar, &b);
                let (x, y, pairs) = operands(form, &a, &b, values(scalar, n + 1, 9)[n]);
                let mut out = Tile::poisoned(Scalar::Bool, n);
                // SAFETY: the tiles have `n` elements.
                let flag = unsafe { f(out.mut_ptr(), x, y, n) };
                assert_eq!(flag, 0);
                for (&(a, b), got) in pairs.iter().zip(out.elements()) {
                    let expected = reference::compare(op, scalar, a, b);
                    assert_eq!(got, expected, "{isa:?} {op:?} {form:?} {scalar} of {a:#x} and {b:#x}, n {n}");
                }
            }
        }
    }
}

#[test]
fn select_takes_bits() {
    for isa in Isa::available() {
        for (scalar, form) in Scalar::COMPUTED.iter().flat_map(|&s| FORMS.map(|f| (s, f))) {
            let f = primitive!(isa, Ternary, PrimitiveKey::Select(form, scalar));
            for n in lengths() {
                let a = Tile::new(scalar, &values(scalar, n, 4 * n as u64));
                let b = Tile::new(scalar, &values(scalar, n, 4 * n as u64 + 1));
                let mask = Tile::new(Scalar::Bool, &values(Scalar::Bool, n, 4 * n as u64 + 2));
                let (x, y, pairs) = operands(form, &a, &b, values(scalar, n + 1, 7)[n]);
                let mut out = Tile::poisoned(scalar, n);
                // SAFETY: the tiles have `n` elements.
                unsafe { f(out.mut_ptr(), x, y, mask.ptr(), n) };
                let pick = |(&(a, b), m): (&(u64, u64), u64)| if m != 0 { a } else { b };
                let expected: Vec<u64> = pairs.iter().zip(mask.elements()).map(pick).collect();
                assert_eq!(out.elements(), expected, "{isa:?} select {form:?} {scalar}, n {n}");
            }
        }
    }
}

#[test]
fn fma_rounds_once() {
    for isa in Isa::available() {
        for (scalar, form) in Scalar::COMPUTED[1..].iter().flat_map(|&s| FORMS.map(|f| (s, f))) {
            let f = primitive!(isa, Ternary, PrimitiveKey::Fma(form, scalar));
            for n in lengths() {
                let a = Tile::new(scalar, &values(scalar, n, 5 * n as u64));
                let b = Tile::new(scalar, &values(scalar, n, 5 * n as u64 + 1));
                let c = Tile::new(scalar, &values(scalar, n, 5 * n as u64 + 2));
                let (x, y, pairs) = operands(form, &a, &b, values(scalar, n + 1, 11)[n]);
                let mut out = c.clone();
                let p = out.mut_ptr();
                // SAFETY: the tiles have `n` elements; the output is the addend.
                unsafe { f(p, x, y, p, n) };
                for ((&(a, b), c), got) in pairs.iter().zip(c.elements()).zip(out.elements()) {
                    let what = format!("{isa:?} fma {form:?} {scalar} of {a:#x}, {b:#x}, {c:#x}, n {n}");
                    check(&what, scalar, got, fma(scalar, a, b, c), 0);
                }
            }
        }
    }
}

fn fma(scalar: Scalar, a: u64, b: u64, c: u64) -> u64 {
    let float = |bits| reference::to_float(scalar, bits);
    match scalar {
        Scalar::F64 => float(a).mul_add(float(b), float(c)).to_bits(),
        Scalar::F32 => (float(a) as f32).mul_add(float(b) as f32, float(c) as f32).to_bits() as u64,
        // Once too, and not to f32 first.
        Scalar::F16 | Scalar::BF16 => {
            let [a, b, c] = [a, b, c].map(|bits| Literal::from_bits(scalar, bits));
            eval::fma(a, b, c).unwrap().bits()
        }
        _ => reference::truncate(scalar, a.wrapping_mul(b).wrapping_add(c)),
    }
}

#[test]
fn casts() {
    for isa in Isa::available() {
        for (from, to) in Scalar::COMPUTED.iter().flat_map(|&f| Scalar::COMPUTED.map(|t| (f, t))) {
            let f = primitive!(isa, Unary, PrimitiveKey::Cast(from, to));
            for n in lengths().chain([5000]) {
                let a = Tile::new(from, &values(from, n, 6 * n as u64));
                let mut out = Tile::poisoned(to, n);
                // SAFETY: the tiles have `n` elements.
                unsafe { f(out.mut_ptr(), a.ptr(), n) };
                for (x, got) in a.elements().into_iter().zip(out.elements()) {
                    let expected = reference::cast(from, to, x);
                    check(&format!("{isa:?} {from} to {to} of {x:#x}, n {n}"), to, got, expected, 0);
                }
            }
        }
    }
}

#[test]
fn every_16_bit_float_survives_a_round_trip() {
    for isa in Isa::available() {
        for scalar in [Scalar::F16, Scalar::BF16] {
            let widen = primitive!(isa, Unary, PrimitiveKey::Cast(scalar, Scalar::F32));
            let narrow = primitive!(isa, Unary, PrimitiveKey::Cast(Scalar::F32, scalar));
            let all = Tile::new(scalar, &(0..=0xffff).collect::<Vec<u64>>());
            let (mut wide, mut back) =
                (Tile::poisoned(Scalar::F32, all.len), Tile::poisoned(scalar, all.len));
            // SAFETY: the tiles have `all.len` elements.
            unsafe {
                widen(wide.mut_ptr(), all.ptr(), all.len);
                narrow(back.mut_ptr(), wide.ptr(), all.len);
            }
            for ((bits, wide), back) in all.elements().into_iter().zip(wide.elements()).zip(back.elements()) {
                let expected = reference::from_float(Scalar::F32, reference::to_float(scalar, bits));
                check(&format!("{isa:?} {scalar} {bits:#x} to f32"), Scalar::F32, wide, expected, 0);
                check(&format!("{isa:?} {scalar} {bits:#x} back"), scalar, back, bits, 0);
            }
        }
    }
}

#[test]
fn narrowing_rounds_every_neighborhood_of_a_midpoint_once() {
    // Midpoints between 16-bit floats and their neighbors in f64: rounding to f32 on the way would
    // lose the difference.
    for isa in Isa::available() {
        for scalar in [Scalar::F16, Scalar::BF16] {
            let f = primitive!(isa, Unary, PrimitiveKey::Cast(Scalar::F64, scalar));
            let infinity = reference::from_float(scalar, f64::INFINITY);
            let mut points = Vec::new();
            for bits in (0..infinity - 1).step_by(37) {
                let middle =
                    (reference::to_float(scalar, bits) + reference::to_float(scalar, bits + 1)) / 2.0;
                points.extend([middle, middle.next_up(), middle.next_down(), -middle, -middle.next_up()]);
            }
            let a = Tile::of(Scalar::F64, &points);
            let mut out = Tile::poisoned(scalar, points.len());
            // SAFETY: the tiles have as many elements as there are points.
            unsafe { f(out.mut_ptr(), a.ptr(), points.len()) };
            for (x, got) in points.iter().zip(out.elements()) {
                check(
                    &format!("{isa:?} {x:e} to {scalar}"),
                    scalar,
                    got,
                    reference::from_float(scalar, *x),
                    0,
                );
            }
        }
    }
}

#[test]
fn fills() {
    let mut random = Random(1);
    for isa in Isa::available() {
        for scalar in Scalar::COMPUTED {
            let splat = primitive!(isa, Fill, PrimitiveKey::Splat(scalar));
            for n in lengths() {
                let bits = reference::truncate(scalar, random.next());
                let mut out = Tile::poisoned(scalar, n);
                // SAFETY: the tile has `n` elements.
                unsafe { splat(out.mut_ptr(), bits, n) };
                assert_eq!(out.elements(), vec![bits; n]);
                if scalar.is_int() {
                    let iota = primitive!(isa, Fill, PrimitiveKey::Iota(scalar));
                    // SAFETY: as above.
                    unsafe { iota(out.mut_ptr(), bits, n) };
                    let count = |i| reference::truncate(scalar, bits.wrapping_add(i));
                    assert_eq!(out.elements(), (0..n as u64).map(count).collect::<Vec<_>>());
                }
            }
        }
        assert!(lookup_at(isa, PrimitiveKey::Iota(Scalar::F32)).is_none());
    }
}

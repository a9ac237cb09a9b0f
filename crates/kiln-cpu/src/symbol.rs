//! What generated code refers to outside of itself, by names that last: code that was kept is
//! linked again in another process, where addresses are others.

use crate::{frame, time};
use kiln_backend::bytes::Reader;
use kiln_cpu_primitives::{
    Form, PrimitiveKey, atomic_128, indexing, lane_numbers, lookup, ordered, streaming, warps,
};
use kiln_ir::{AtomicOp, BinaryOp, ClockUnit, CompareOp, ReduceOp, Scalar, UnaryOp, VoteMode};

/// Something outside of generated code that its instructions name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Symbol {
    /// A primitive on tiles.
    Primitive(PrimitiveKey),
    /// A function of this crate.
    Function(Function),
    /// Constant words that are kept with the code, by number.
    Words(u32),
}

/// A function of this crate that generated code calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Function {
    Clock(ClockUnit),
    Rest,
    /// Of elements of 8 bytes, or else of 4; with an order.
    Load(bool, bool),
    Store(bool, bool),
    LoadQuads,
    StoreQuads,
    ExchangePairs,
    /// Of elements of 2 to this power of bytes.
    Shuffle(u8),
    Vote(VoteMode),
    LaneNumbers,
    LaneComparison,
    StreamRows,
    Linearize,
    FirstOutside,
    FirstZero,
    FirstFalse,
    Report,
    /// What an instruction becomes that the processor lacks.
    Fma32,
    Fma64,
}

extern "C" fn fma32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

extern "C" fn fma64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

impl Function {
    /// Where it is in this process.
    pub(crate) fn address(self) -> *const u8 {
        match self {
            Function::Clock(unit) => time::clock(unit) as *const u8,
            Function::Rest => time::rest as *const u8,
            Function::Load(long, ordered) => ordered::load(if long { 8 } else { 4 }, ordered) as *const u8,
            Function::Store(long, ordered) => ordered::store(if long { 8 } else { 4 }, ordered) as *const u8,
            Function::LoadQuads => ordered::load_quads as *const u8,
            Function::StoreQuads => ordered::store_quads as *const u8,
            Function::ExchangePairs => atomic_128::exchange_pairs as *const u8,
            Function::Shuffle(power) => warps::shuffle(1 << power) as *const u8,
            Function::Vote(mode) => warps::vote(mode) as *const u8,
            Function::LaneNumbers => lane_numbers::write as *const u8,
            Function::LaneComparison => lane_numbers::compare as *const u8,
            Function::StreamRows => streaming::stream_rows() as *const u8,
            Function::Linearize => indexing::linearize() as *const u8,
            Function::FirstOutside => indexing::first_outside as *const u8,
            Function::FirstZero => indexing::first_zero as *const u8,
            Function::FirstFalse => frame::first_false as *const u8,
            Function::Report => frame::report as *const u8,
            Function::Fma32 => fma32 as *const u8,
            Function::Fma64 => fma64 as *const u8,
        }
    }

    fn encode(self) -> [u8; 3] {
        match self {
            Function::Clock(unit) => [0, position(ClockUnit::ALL, &unit), 0],
            Function::Rest => [1, 0, 0],
            Function::Load(long, ordered) => [2, long.into(), ordered.into()],
            Function::Store(long, ordered) => [3, long.into(), ordered.into()],
            Function::LoadQuads => [4, 0, 0],
            Function::StoreQuads => [5, 0, 0],
            Function::Shuffle(power) => [6, power, 0],
            Function::Vote(mode) => [7, position(VoteMode::ALL, &mode), 0],
            Function::LaneNumbers => [8, 0, 0],
            Function::LaneComparison => [9, 0, 0],
            Function::Linearize => [10, 0, 0],
            Function::FirstOutside => [11, 0, 0],
            Function::FirstZero => [12, 0, 0],
            Function::FirstFalse => [13, 0, 0],
            Function::Report => [14, 0, 0],
            Function::Fma32 => [15, 0, 0],
            Function::Fma64 => [16, 0, 0],
            Function::ExchangePairs => [17, 0, 0],
            Function::StreamRows => [18, 0, 0],
        }
    }

    fn decode([tag, a, b]: [u8; 3]) -> Option<Function> {
        Some(match tag {
            0 => Function::Clock(at(ClockUnit::ALL, a)?),
            1 => Function::Rest,
            2 => Function::Load(flag(a)?, flag(b)?),
            3 => Function::Store(flag(a)?, flag(b)?),
            4 => Function::LoadQuads,
            5 => Function::StoreQuads,
            6 => Function::Shuffle(Some(a).filter(|&power| power < 4)?),
            7 => Function::Vote(at(VoteMode::ALL, a)?),
            8 => Function::LaneNumbers,
            9 => Function::LaneComparison,
            10 => Function::Linearize,
            11 => Function::FirstOutside,
            12 => Function::FirstZero,
            13 => Function::FirstFalse,
            14 => Function::Report,
            15 => Function::Fma32,
            16 => Function::Fma64,
            17 => Function::ExchangePairs,
            18 => Function::StreamRows,
            _ => return None,
        })
    }
}

impl Symbol {
    /// Where it is in this process; `None` for what there is none of. `words` are the constants of
    /// the code.
    pub(crate) fn address(self, words: &[Box<[i64]>]) -> Option<*const u8> {
        match self {
            Symbol::Primitive(key) => Some(lookup(key)?.address()),
            Symbol::Function(function) => Some(function.address()),
            Symbol::Words(number) => Some(words.get(number as usize)?.as_ptr().cast()),
        }
    }

    /// Five bytes that [`decode`](Self::decode) reads.
    pub(crate) fn encode(self) -> [u8; 5] {
        match self {
            Symbol::Words(number) => {
                let [a, b, c, d] = number.to_le_bytes();
                [0, a, b, c, d]
            }
            Symbol::Function(function) => {
                let [a, b, c] = function.encode();
                [1, a, b, c, 0]
            }
            Symbol::Primitive(key) => {
                let [a, b, c, d] = encode_key(key);
                [2, a, b, c, d]
            }
        }
    }

    /// # Errors
    /// For bytes that name nothing.
    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Symbol, &'static str> {
        let &[kind, a, b, c, d] = input.take(5)? else { return Err("they are cut short") };
        let symbol = match kind {
            0 => Some(Symbol::Words(u32::from_le_bytes([a, b, c, d]))),
            1 => Function::decode([a, b, c]).map(Symbol::Function),
            2 => decode_key([a, b, c, d]).map(Symbol::Primitive),
            _ => None,
        };
        symbol.ok_or("they refer to something that there is none of")
    }
}

const FORMS: [Form; 3] = [Form::Arrays, Form::ScalarLeft, Form::ScalarRight];

fn position<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|each| each == one).unwrap_or_default() as u8
}

fn at<T: Copy>(all: &[T], position: u8) -> Option<T> {
    all.get(usize::from(position)).copied()
}

fn flag(byte: u8) -> Option<bool> {
    [false, true].get(usize::from(byte)).copied()
}

fn encode_key(key: PrimitiveKey) -> [u8; 4] {
    use PrimitiveKey as Key;
    let scalar = |scalar: Scalar| position(&Scalar::ALL, &scalar);
    let form = |form: Form| position(&FORMS, &form);
    match key {
        Key::Splat(s) => [0, 0, 0, scalar(s)],
        Key::Iota(s) => [1, 0, 0, scalar(s)],
        Key::Unary(op, s) => [2, position(UnaryOp::ALL, &op), 0, scalar(s)],
        Key::Cast(from, to) => [3, scalar(from), 0, scalar(to)],
        Key::Copy(s) => [4, 0, 0, scalar(s)],
        Key::CopyStreaming(s) => [5, 0, 0, scalar(s)],
        Key::Binary(op, f, s) => [6, position(BinaryOp::ALL, &op), form(f), scalar(s)],
        Key::Compare(op, f, s) => [7, position(CompareOp::ALL, &op), form(f), scalar(s)],
        Key::Select(f, s) => [8, 0, form(f), scalar(s)],
        Key::Fma(f, s) => [9, 0, form(f), scalar(s)],
        Key::Reduce(op, s) => [10, position(ReduceOp::ALL, &op), 0, scalar(s)],
        Key::Scan { op, scalar: s, reverse, exclusive } => {
            [11, position(ReduceOp::ALL, &op), u8::from(reverse) | u8::from(exclusive) << 1, scalar(s)]
        }
        Key::StridedCopy(s) => [12, 0, 0, scalar(s)],
        Key::LoadBox(s) => [13, 0, 0, scalar(s)],
        Key::StoreBox(s) => [14, 0, 0, scalar(s)],
        Key::StoreBoxStreaming(s) => [15, 0, 0, scalar(s)],
        Key::Gather(s) => [16, 0, 0, scalar(s)],
        Key::Scatter(s) => [17, 0, 0, scalar(s)],
        Key::Dot(s) => [18, 0, 0, scalar(s)],
        Key::Atomic(op, s) => [19, position(AtomicOp::ALL, &op), 0, scalar(s)],
        Key::AtomicCas(s) => [20, 0, 0, scalar(s)],
        Key::AddEach(index, s) => [21, scalar(index), 0, scalar(s)],
    }
}

fn decode_key([tag, op, form, scalar]: [u8; 4]) -> Option<PrimitiveKey> {
    use PrimitiveKey as Key;
    let s = at(&Scalar::ALL, scalar)?;
    Some(match tag {
        0 => Key::Splat(s),
        1 => Key::Iota(s),
        2 => Key::Unary(at(UnaryOp::ALL, op)?, s),
        3 => Key::Cast(at(&Scalar::ALL, op)?, s),
        4 => Key::Copy(s),
        5 => Key::CopyStreaming(s),
        6 => Key::Binary(at(BinaryOp::ALL, op)?, at(&FORMS, form)?, s),
        7 => Key::Compare(at(CompareOp::ALL, op)?, at(&FORMS, form)?, s),
        8 => Key::Select(at(&FORMS, form)?, s),
        9 => Key::Fma(at(&FORMS, form)?, s),
        10 => Key::Reduce(at(ReduceOp::ALL, op)?, s),
        11 => Key::Scan {
            op: at(ReduceOp::ALL, op)?,
            scalar: s,
            reverse: form & 1 != 0,
            exclusive: flag(form >> 1)?,
        },
        12 => Key::StridedCopy(s),
        13 => Key::LoadBox(s),
        14 => Key::StoreBox(s),
        15 => Key::StoreBoxStreaming(s),
        16 => Key::Gather(s),
        17 => Key::Scatter(s),
        18 => Key::Dot(s),
        19 => Key::Atomic(at(AtomicOp::ALL, op)?, s),
        20 => Key::AtomicCas(s),
        21 => Key::AddEach(at(&Scalar::ALL, op)?, s),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn decoded(bytes: [u8; 5]) -> Option<Symbol> {
        Symbol::decode(&mut Reader::new(&bytes)).ok()
    }

    #[test]
    fn all_that_bytes_can_name_is_named_by_one_run_of_bytes() {
        let mut found = HashSet::new();
        for kind in 1..=3 {
            for tag in 0..=24 {
                for (a, b, c) in
                    (0..64).flat_map(|a| (0..5).flat_map(move |b| (0..17).map(move |c| (a, b, c))))
                {
                    if let Some(symbol) = decoded([kind, tag, a, b, c]) {
                        found.insert(symbol);
                    }
                }
            }
        }
        let names: HashSet<_> = found.iter().map(|symbol| symbol.encode()).collect();
        assert_eq!(names.len(), found.len());
        for symbol in found.iter().copied().chain([Symbol::Words(0), Symbol::Words(u32::MAX)]) {
            assert_eq!(decoded(symbol.encode()), Some(symbol));
        }
        // Each operation on each element type, whether there is such a primitive or not.
        let primitives = found.iter().filter(|symbol| matches!(symbol, Symbol::Primitive(_))).count();
        let [unary, binary, compare] = [UnaryOp::ALL.len(), BinaryOp::ALL.len(), CompareOp::ALL.len()];
        let (reduce, atomic) = (ReduceOp::ALL.len(), AtomicOp::ALL.len());
        let each = 12 + unary + 2 * 15 + 3 * (binary + compare + 2) + 5 * reduce + atomic;
        assert_eq!(primitives, 15 * each);
    }

    #[test]
    fn functions_are_where_they_are_called() {
        for (function, expected) in [
            (Function::Report, frame::report as *const u8),
            (Function::Load(true, false), ordered::load(8, false) as *const u8),
            (Function::Shuffle(2), warps::shuffle(4) as *const u8),
        ] {
            assert_eq!(Symbol::Function(function).address(&[]), Some(expected));
        }
        assert_eq!(Symbol::Words(0).address(&[]), None);
        assert_eq!(fma32(2.0, 3.0, 1.0), 7.0);
        assert_eq!(fma64(2.0, 3.0, 1.0), 7.0);
    }
}

//! Functions of 64-bit integers that are pairs of words.
//!
//! All of them compute with integers alone, so that no driver's fast arithmetic changes a result,
//! and without loops.

use crate::body::Expr;
use crate::long::PairFunction;
use crate::writer::Writer;
use naga::{BinaryOperator as B, MathFunction as M, Scalar, ScalarKind, Statement};

/// The exponent's bias in f32.
const BIAS: u32 = 127;
/// The stored bits of its significand.
const SIGNIFICAND: u32 = 23;

impl Writer<'_> {
    /// What a function gives for some arguments.
    pub(crate) fn call_pair(&mut self, function: PairFunction, arguments: Vec<Expr>) -> Expr {
        let handle = match self.pair_functions.get(&function) {
            Some(&handle) => handle,
            None => {
                let handle = self.pair_function(function);
                self.pair_functions.insert(function, handle);
                handle
            }
        };
        self.call(handle, arguments)
    }

    fn pair_function(&mut self, function: PairFunction) -> naga::Handle<naga::Function> {
        use PairFunction::*;
        let (pair, word) = (self.pair_type(), self.scalar_type(Scalar::U32));
        let float = self.scalar_type(Scalar::F32);
        let (takes, result) = match function {
            Product => (vec![("a", word), ("b", word)], pair),
            ShiftLeft | ShiftRight | ShiftRightSigned => (vec![("x", pair), ("by", word)], pair),
            Quotient => (vec![("a", pair), ("b", pair)], pair),
            Single | SingleToOdd => (vec![("x", pair)], float),
            Truncated => (vec![("x", float)], pair),
        };
        let write = |w: &mut Self, arguments: &[Expr]| {
            let value = match (function, arguments) {
                (Product, &[a, b]) => w.product_of_words(a, b),
                (ShiftLeft, &[x, by]) => w.shifted_left(x, by),
                (ShiftRight, &[x, by]) => w.shifted_right(x, by, false),
                (ShiftRightSigned, &[x, by]) => w.shifted_right(x, by, true),
                (Quotient, &[a, b]) => w.unsigned_quotient(a, b),
                (Single, &[x]) => w.rounded_pair(x, false),
                (SingleToOdd, &[x]) => w.rounded_pair(x, true),
                (Truncated, &[x]) => w.truncated_single(x),
                // As many arguments as above.
                _ => return,
            };
            w.body.push(Statement::Return { value: Some(value) });
        };
        self.function(function.name(), &takes, result, write).0
    }

    /// By halves of words, whose products are words.
    fn product_of_words(&mut self, a: Expr, b: Expr) -> Expr {
        let [[a_low, a_high], [b_low, b_high]] = [a, b].map(|x| self.halves_of(x));
        let w = &mut self.body;
        let (by, mask) = (w.u32(16), w.u32(0xffff));
        let low = w.binary(B::Multiply, a_low, b_low);
        let up = w.binary(B::ShiftRight, low, by);
        let first = w.binary(B::Multiply, a_high, b_low);
        let first = w.binary(B::Add, first, up);
        let kept = w.binary(B::And, first, mask);
        let second = w.binary(B::Multiply, a_low, b_high);
        let second = w.binary(B::Add, second, kept);
        let high = w.binary(B::Multiply, a_high, b_high);
        let [first, second] = [first, second].map(|x| w.binary(B::ShiftRight, x, by));
        let high = w.binary(B::Add, high, first);
        let high = w.binary(B::Add, high, second);
        let low = w.binary(B::Multiply, a, b);
        self.pair([low, high])
    }

    /// The low and the high 16 bits of a word.
    fn halves_of(&mut self, x: Expr) -> [Expr; 2] {
        let (by, mask) = (self.body.u32(16), self.body.u32(0xffff));
        [self.body.binary(B::And, x, mask), self.body.binary(B::ShiftRight, x, by)]
    }

    /// An amount below 32, what 31 is more than it, and whether a word is shifted on top of it.
    fn amount(&mut self, by: Expr) -> [Expr; 3] {
        let b = &mut self.body;
        let (most, word, none) = (b.u32(31), b.u32(32), b.u32(0));
        let small = b.binary(B::And, by, most);
        let rest = b.binary(B::ExclusiveOr, small, most);
        let whole = b.binary(B::And, by, word);
        [small, rest, b.binary(B::NotEqual, whole, none)]
    }

    fn shifted_left(&mut self, x: Expr, by: Expr) -> Expr {
        let [small, rest, is_far] = self.amount(by);
        let [low, high] = self.words(x);
        let b = &mut self.body;
        let (none, one) = (b.u32(0), b.u32(1));
        let low_up = b.binary(B::ShiftLeft, low, small);
        // By two shifts of less than a word.
        let over = b.binary(B::ShiftRight, low, one);
        let over = b.binary(B::ShiftRight, over, rest);
        let high_up = b.binary(B::ShiftLeft, high, small);
        let high_up = b.binary(B::InclusiveOr, high_up, over);
        let words = [b.select(is_far, none, low_up), b.select(is_far, low_up, high_up)];
        self.pair(words)
    }

    fn shifted_right(&mut self, x: Expr, by: Expr, signed: bool) -> Expr {
        let [small, rest, is_far] = self.amount(by);
        let [low, high] = self.words(x);
        let b = &mut self.body;
        let one = b.u32(1);
        let over = b.binary(B::ShiftLeft, high, one);
        let over = b.binary(B::ShiftLeft, over, rest);
        let low_down = b.binary(B::ShiftRight, low, small);
        let low_down = b.binary(B::InclusiveOr, low_down, over);
        let (high_down, above) = match signed {
            true => {
                let word = b.bitcast(high, ScalarKind::Sint);
                let down = b.binary(B::ShiftRight, word, small);
                let most = b.u32(31);
                let sign = b.binary(B::ShiftRight, word, most);
                (b.bitcast(down, ScalarKind::Uint), b.bitcast(sign, ScalarKind::Uint))
            }
            false => (b.binary(B::ShiftRight, high, small), b.u32(0)),
        };
        let words = [b.select(is_far, high_down, low_down), b.select(is_far, above, high_down)];
        self.pair(words)
    }

    /// Division by a divisor of one word takes two steps, each of a remainder and a word. For a
    /// longer one, the first word from its leading bit on gives a quotient that is at most one too
    /// large (Warren, Hacker's Delight, 2nd edition, section 9-5).
    fn unsigned_quotient(&mut self, a: Expr, b: Expr) -> Expr {
        let ([low, high], [by, by_high]) = (self.words(a), self.words(b));
        let w = &mut self.body;
        let (none, one, most) = (w.u32(0), w.u32(1), w.u32(31));
        let is_short = w.binary(B::Equal, by_high, none);
        let short = w.math(M::Max, &[by, one]);
        let first = w.binary(B::Divide, high, short);
        let taken = w.binary(B::Multiply, first, short);
        let rest = w.binary(B::Subtract, high, taken);
        let zeros = w.math(M::CountLeadingZeros, &[by_high]);
        let places = w.binary(B::And, zeros, most);
        let leading = self.shifted_left(b, places);
        let [_, leading] = self.words(leading);
        let half = self.shifted_right(a, one, false);
        let [half, half_high] = self.words(half);
        let w = &mut self.body;
        let dividend = [(half, low), (half_high, rest)].map(|(long, short)| w.select(is_short, short, long));
        let divisor = w.select(is_short, short, leading);
        let quotient = self.quotient_of_word(dividend, divisor);
        // Of the longer divisor: at most one too large, and made at most one too small.
        let w = &mut self.body;
        let down = w.binary(B::Subtract, most, places);
        let estimate = w.binary(B::ShiftRight, quotient, down);
        let is_none = w.binary(B::Equal, estimate, none);
        let less = w.binary(B::Subtract, estimate, one);
        let estimate = w.select(is_none, none, less);
        let found = self.pair([estimate, none]);
        let product = self.pair_product(found, b);
        let left = self.on_integers(B::Subtract, Scalar::U64, a, product);
        let is_less = self.pair_less(false, left, b);
        let w = &mut self.body;
        let more = w.binary(B::Add, estimate, one);
        let long = w.select(is_less, estimate, more);
        let words = [w.select(is_short, quotient, long), w.select(is_short, first, none)];
        self.pair(words)
    }

    /// The quotient of a pair by a word that is larger than the pair's high one: two digits of 16
    /// bits, each of which is estimated at most two too large (the same, section 9-4).
    fn quotient_of_word(&mut self, dividend: [Expr; 2], divisor: Expr) -> Expr {
        let places = self.body.math(M::CountLeadingZeros, &[divisor]);
        let divisor = self.body.binary(B::ShiftLeft, divisor, places);
        let dividend = self.pair(dividend);
        let dividend = self.shifted_left(dividend, places);
        let [low, high] = self.words(dividend);
        let [second, first] = self.halves_of(low);
        let (first, rest) = self.digit(high, first, divisor);
        let (second, _) = self.digit(rest, second, divisor);
        let by = self.body.u32(16);
        let up = self.body.binary(B::ShiftLeft, first, by);
        self.body.binary(B::InclusiveOr, up, second)
    }

    /// A digit of a quotient, and the remainder after it: of a remainder before it and the next
    /// digit of the dividend.
    fn digit(&mut self, rest: Expr, next: Expr, divisor: Expr) -> (Expr, Expr) {
        let [low, high] = self.halves_of(divisor);
        let w = &mut self.body;
        let (one, by, end) = (w.u32(1), w.u32(16), w.u32(1 << 16));
        let mut digit = w.binary(B::Divide, rest, high);
        let taken = w.binary(B::Multiply, digit, high);
        let mut left = w.binary(B::Subtract, rest, taken);
        for _ in 0..2 {
            // Where the remainder is a word, the estimate is right. Products that overflow are
            // those of digits that are too large anyway.
            let is_beyond = w.binary(B::GreaterEqual, digit, end);
            let product = w.binary(B::Multiply, digit, low);
            let up = w.binary(B::ShiftLeft, left, by);
            let most = w.binary(B::InclusiveOr, up, next);
            let is_more = w.binary(B::Greater, product, most);
            let is_wrong = w.binary(B::LogicalOr, is_beyond, is_more);
            let is_small = w.binary(B::Less, left, end);
            let corrects = w.binary(B::LogicalAnd, is_wrong, is_small);
            let (less, more) = (w.binary(B::Subtract, digit, one), w.binary(B::Add, left, high));
            digit = w.select(corrects, less, digit);
            left = w.select(corrects, more, left);
        }
        let up = w.binary(B::ShiftLeft, rest, by);
        let all = w.binary(B::InclusiveOr, up, next);
        let taken = w.binary(B::Multiply, digit, divisor);
        (digit, w.binary(B::Subtract, all, taken))
    }

    fn rounded_pair(&mut self, x: Expr, to_odd: bool) -> Expr {
        let words = self.words(x);
        let zeros = self.pair_leading_zeros(words);
        let most = self.body.u32(63);
        let places = self.body.binary(B::And, zeros, most);
        let leading = self.shifted_left(x, places);
        let [low, high] = self.words(leading);
        let b = &mut self.body;
        let (none, one) = (b.u32(0), b.u32(1));
        let below = 31 - SIGNIFICAND;
        let (down, mask) = (b.u32(below), b.u32((1 << below) - 1));
        let significand = b.binary(B::ShiftRight, high, down);
        let lost = b.binary(B::And, high, mask);
        let some_low = b.binary(B::NotEqual, low, none);
        let sticky = b.select(some_low, one, none);
        let lost = b.binary(B::InclusiveOr, lost, sticky);
        let rounded = if to_odd {
            let some = b.binary(B::NotEqual, lost, none);
            let last = b.select(some, one, none);
            b.binary(B::InclusiveOr, significand, last)
        } else {
            // More than a half, or a half above an odd number.
            let half = b.u32(1 << (below - 1));
            let is_half = b.binary(B::Equal, lost, half);
            let odd = b.binary(B::And, significand, one);
            let is_odd = b.binary(B::NotEqual, odd, none);
            let tie = b.binary(B::LogicalAnd, is_half, is_odd);
            let is_more = b.binary(B::Greater, lost, half);
            let up = b.binary(B::LogicalOr, is_more, tie);
            let more = b.select(up, one, none);
            b.binary(B::Add, significand, more)
        };
        // The leading bit of the significand is one of the exponent.
        let top = b.u32(BIAS + 63 - 1);
        let exponent = b.binary(B::Subtract, top, zeros);
        let place = b.u32(SIGNIFICAND);
        let exponent = b.binary(B::ShiftLeft, exponent, place);
        let bits = b.binary(B::Add, exponent, rounded);
        let all = b.u32(64);
        let is_zero = b.binary(B::Equal, zeros, all);
        let bits = b.select(is_zero, none, bits);
        b.bitcast(bits, ScalarKind::Float)
    }

    fn truncated_single(&mut self, x: Expr) -> Expr {
        let b = &mut self.body;
        let bits = b.bitcast(x, ScalarKind::Uint);
        let (magnitude, place) = (b.u32(u32::MAX >> 1), b.u32(SIGNIFICAND));
        let size = b.binary(B::And, bits, magnitude);
        let exponent = b.binary(B::ShiftRight, size, place);
        let (mask, leading, none) = (b.u32((1 << SIGNIFICAND) - 1), b.u32(1 << SIGNIFICAND), b.u32(0));
        let kept = b.binary(B::And, size, mask);
        let significand = b.binary(B::InclusiveOr, kept, leading);
        let whole = b.u32(BIAS + SIGNIFICAND);
        let (up, down) = (b.binary(B::Subtract, exponent, whole), b.binary(B::Subtract, whole, exponent));
        let is_large = b.binary(B::GreaterEqual, exponent, whole);
        let most = b.u32(31);
        let down = b.math(M::Min, &[down, most]);
        let truncated = b.binary(B::ShiftRight, significand, down);
        let [truncated, significand] = [truncated, significand].map(|word| self.pair([word, none]));
        let shifted = self.shifted_left(significand, up);
        let [first, end, infinity] =
            [127, 127 + 64, 255].map(|exponent: u32| self.body.u32(exponent << SIGNIFICAND));
        let [nothing, all] = [0, u64::MAX].map(|end| self.pair_of(end));
        let b = &mut self.body;
        let number = b.select(is_large, shifted, truncated);
        let is_beyond = b.binary(B::GreaterEqual, size, end);
        let number = b.select(is_beyond, all, number);
        let (is_below, is_nan) = (b.binary(B::Less, size, first), b.binary(B::Greater, size, infinity));
        let is_none = b.binary(B::LogicalOr, is_below, is_nan);
        b.select(is_none, nothing, number)
    }
}

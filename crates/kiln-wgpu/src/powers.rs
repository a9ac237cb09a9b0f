//! Powers of two of f32, within two units of the last place.
//!
//! Drivers may be wrong by more, the larger the result, and some are. On those
//! ([`Features::exact_powers`](crate::Features::exact_powers)) they are computed: `2^x = 2^n 2^f`
//! with n whole and |f| at most 1/2, where Taylor's polynomial of degree 7 is wrong by 5e-9.

use crate::body::Expr;
use crate::writer::Writer;
use naga::{BinaryOperator as B, Literal, MathFunction as M, Scalar, ScalarKind};

/// (ln 2)^n / n! from n = 7 down to 0.
const TAYLOR: [f32; 8] = [
    1.525_273_4e-5,
    1.540_353e-4,
    1.333_355_8e-3,
    9.618_129e-3,
    5.550_411e-2,
    2.402_265e-1,
    std::f32::consts::LN_2,
    1.0,
];

/// Beyond these every power is zero or infinite.
const RANGE: [f32; 2] = [-160.0, 130.0];

impl Writer<'_> {
    pub(crate) fn power_of_two(&mut self, x: Expr) -> Expr {
        if self.features.exact_powers {
            return self.body.math(M::Exp2, &[x]);
        }
        let f32 = Scalar::F32;
        let [least, most] = RANGE.map(|end| self.body.literal(Literal::F32(end)));
        let b = &mut self.body;
        let (is_below, is_above) = (b.binary(B::Less, x, least), b.binary(B::Greater, x, most));
        let inside = b.select(is_below, least, x);
        let inside = b.select(is_above, most, inside);
        let whole = b.math(M::Round, &[inside]);
        let rest = self.exactly(B::Subtract, f32, inside, whole);
        let mut sum = self.body.literal(Literal::F32(TAYLOR[0]));
        for next in &TAYLOR[1..] {
            let product = self.exactly(B::Multiply, f32, sum, rest);
            let next = self.body.literal(Literal::F32(*next));
            sum = self.exactly(B::Add, f32, product, next);
        }
        // What is converted is always in range; the sum is NaN where x is.
        let is_nan = self.is_nan(x, f32);
        let none = self.body.literal(Literal::F32(0.0));
        let whole = self.body.select(is_nan, none, whole);
        let exponent = self.body.convert(whole, Scalar::I32);
        // In two steps, since the power may be beyond the range where the result is not.
        let one = self.body.u32(1);
        let first = self.body.binary(B::ShiftRight, exponent, one);
        let second = self.body.binary(B::Subtract, exponent, first);
        [first, second].into_iter().fold(sum, |sum, exponent| {
            let power = self.whole_power(exponent);
            self.exactly(B::Multiply, f32, sum, power)
        })
    }

    /// The power of two with an exponent of the range of normal numbers.
    fn whole_power(&mut self, exponent: Expr) -> Expr {
        let bias = self.body.literal(Literal::I32(127));
        let biased = self.body.binary(B::Add, exponent, bias);
        let biased = self.body.bitcast(biased, ScalarKind::Uint);
        let by = self.body.u32(23);
        let bits = self.body.binary(B::ShiftLeft, biased, by);
        self.body.bitcast(bits, ScalarKind::Float)
    }
}

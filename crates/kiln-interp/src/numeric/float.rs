//! Elementary functions, written once in f64 and rounded to the element type: for f32 the result is correctly rounded in all but
//! one case in about 2^29. The 16-bit floats take the f32 result and round it again.

use super::number::Number;
use half::{bf16, f16};
use kiln_ir::UnaryOp;

/// Floating-point types.
pub trait Float: Number {
    /// The value of `f` at this point, rounded to the type.
    fn via(self, f: impl Fn(f64) -> f64) -> Self;
    /// The value of `f` at two points, rounded to the type.
    fn via2(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self;
}

impl Float for f64 {
    fn via(self, f: impl Fn(f64) -> f64) -> f64 {
        f(self)
    }
    fn via2(self, other: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
        f(self, other)
    }
}

impl Float for f32 {
    fn via(self, f: impl Fn(f64) -> f64) -> f32 {
        f(self.into()) as f32
    }
    fn via2(self, other: f32, f: impl Fn(f64, f64) -> f64) -> f32 {
        f(self.into(), other.into()) as f32
    }
}

macro_rules! half_float {
    ($t:ty) => {
        impl Float for $t {
            fn via(self, f: impl Fn(f64) -> f64) -> $t {
                Self::narrow(self.to_f32().via(f))
            }
            fn via2(self, other: $t, f: impl Fn(f64, f64) -> f64) -> $t {
                Self::narrow(self.to_f32().via2(other.to_f32(), f))
            }
        }
    };
}

half_float!(f16);
half_float!(bf16);

/// The function of one f64 that a float operation rounds; `None` for operations that are not functions of that kind.
pub fn function(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Exp => f64::exp,
        UnaryOp::Exp2 => f64::exp2,
        UnaryOp::Log => f64::ln,
        UnaryOp::Log2 => f64::log2,
        UnaryOp::Sqrt => f64::sqrt,
        UnaryOp::Rsqrt => |x| 1.0 / x.sqrt(),
        UnaryOp::Recip => |x| 1.0 / x,
        UnaryOp::Sin => f64::sin,
        UnaryOp::Cos => f64::cos,
        UnaryOp::Tanh => f64::tanh,
        UnaryOp::Erf => libm::erf,
        UnaryOp::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Floor => f64::floor,
        UnaryOp::Ceil => f64::ceil,
        UnaryOp::Round => f64::round_ties_even,
        UnaryOp::Trunc => f64::trunc,
        _ => return None,
    })
}

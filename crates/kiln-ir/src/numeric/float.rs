//! Functions of floats, written once in f64 and rounded once to the element type: for f32 and the
//! 16-bit floats the result is correctly rounded in all but a few cases in 2^29.

use super::element::Element;
use super::number::Number;
use half::{bf16, f16};

/// Floating-point types.
///
/// ```
/// use kiln_ir::numeric::Float;
/// // Computed in f64 and rounded once.
/// assert_eq!(0.1f32.via(f64::exp), f64::exp(0.1f32.into()) as f32);
/// assert_eq!(3f32.via2(4.0, f64::hypot), 5.0);
/// ```
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
                Self::of_f64(f(self.to_f64()))
            }
            fn via2(self, other: $t, f: impl Fn(f64, f64) -> f64) -> $t {
                Self::of_f64(f(self.to_f64(), other.to_f64()))
            }
        }
    };
}

half_float!(f16);
half_float!(bf16);

//! Element types as the host sees them: random values, and arithmetic that does not depend on Kiln's.

use crate::trial::Rng;
use half::{bf16, f16};
use kiln_lang::Elem;

/// A value of any element type, wide enough to compute with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host {
    /// An integer, or a bool as 0 or 1.
    Int(i128),
    /// A float.
    Float(f64),
}

impl Host {
    /// As a float, which may round.
    pub fn float(self) -> f64 {
        match self {
            Host::Int(n) => n as f64,
            Host::Float(x) => x,
        }
    }

    /// An operation in integers, which wrap when they are converted back, or in floats.
    pub fn with(self, other: Host, int: fn(i128, i128) -> i128, float: fn(f64, f64) -> f64) -> Host {
        match (self, other) {
            (Host::Int(a), Host::Int(b)) => Host::Int(int(a, b)),
            (a, b) => Host::Float(float(a.float(), b.float())),
        }
    }

    pub fn add(self, other: Host) -> Host {
        self.with(other, i128::wrapping_add, |a, b| a + b)
    }

    pub fn sub(self, other: Host) -> Host {
        self.with(other, i128::wrapping_sub, |a, b| a - b)
    }

    pub fn mul(self, other: Host) -> Host {
        self.with(other, i128::wrapping_mul, |a, b| a * b)
    }

    pub fn min(self, other: Host) -> Host {
        self.with(other, i128::min, f64::min)
    }

    pub fn max(self, other: Host) -> Host {
        self.with(other, i128::max, f64::max)
    }

    /// Whether this value is smaller.
    pub fn less(self, other: Host) -> bool {
        match (self, other) {
            (Host::Int(a), Host::Int(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }
}

/// An element type under test.
pub trait Sample: Elem {
    /// The distance from 1 to the next number; 0 for exact types.
    const EPSILON: f64;
    /// The bits of a value.
    const BITS: u32;
    /// Garbage: not a likely result.
    const POISON: Self;

    /// A random value: floats in -4..4, integers small or of any size.
    fn sample(rng: &mut Rng) -> Self;

    /// The value, exactly.
    fn host(self) -> Host;

    /// As Rust's `as` converts: integers wrap, floats round to nearest even, float to integer saturates; to bool is `!= 0`.
    fn from_host(value: Host) -> Self;

    /// A small integer, in the type.
    fn small(n: i32) -> Self {
        Self::from_host(Host::Int(i128::from(n)))
    }
}

impl Sample for bool {
    const EPSILON: f64 = 0.0;
    const BITS: u32 = 8;
    const POISON: bool = true;

    fn sample(rng: &mut Rng) -> bool {
        rng.below(2) == 1
    }

    fn host(self) -> Host {
        Host::Int(i128::from(self))
    }

    fn from_host(value: Host) -> bool {
        match value {
            Host::Int(n) => n != 0,
            Host::Float(x) => x != 0.0,
        }
    }
}

macro_rules! integers {
    ($($t:ty, $poison:expr;)*) => {$(
        impl Sample for $t {
            const EPSILON: f64 = 0.0;
            const BITS: u32 = <$t>::BITS;
            const POISON: $t = $poison;

            fn sample(rng: &mut Rng) -> $t {
                let bits = rng.bits();
                match rng.below(4) {
                    0 => bits as $t,
                    _ => ((bits % 201) as i64 - 100) as $t,
                }
            }

            fn host(self) -> Host {
                Host::Int(self as i128)
            }

            fn from_host(value: Host) -> $t {
                match value {
                    Host::Int(n) => n as $t,
                    Host::Float(x) => x as $t,
                }
            }
        }
    )*};
}
integers! { i32, -0x5a5a_5a5b; u32, 0x5a5a_5a5b; i64, -0x5a5a_5a5a_5a5a_5a5b; u64, 0x5a5a_5a5a_5a5a_5a5b; }

macro_rules! floats {
    ($($t:ty, $epsilon:expr, $bits:literal, $poison:expr, |$n:ident| $int:expr, |$x:ident| $float:expr;)*) => {$(
        impl Sample for $t {
            const EPSILON: f64 = $epsilon;
            const BITS: u32 = $bits;
            const POISON: $t = $poison;

            fn sample(rng: &mut Rng) -> $t {
                let $x = rng.between(-4.0, 4.0);
                $float
            }

            fn host(self) -> Host {
                Host::Float(f64::from(self))
            }

            fn from_host(value: Host) -> $t {
                match value {
                    Host::Int($n) => $int,
                    Host::Float($x) => $float,
                }
            }
        }
    )*};
}
floats! {
    f16, 1.0 / 1024.0, 16, f16::from_f64_const(-7777.0), |n| f16::from_f64(n as f64), |x| f16::from_f64(x);
    bf16, 1.0 / 128.0, 16, bf16::from_f64_const(-7777.0), |n| bf16::from_f64(n as f64), |x| bf16::from_f64(x);
    f32, f32::EPSILON as f64, 32, -7777.7, |n| n as f32, |x| x as f32;
    f64, f64::EPSILON, 64, -7777.7, |n| n as f64, |x| x;
}

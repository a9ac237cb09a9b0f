//! What can be multiplied, and what it is summed in.

use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

/// An element type of factors.
pub trait Factor: Numeric {
    /// What products are summed in: f32 for the floats of up to 32 bits, i32 for the integers of 8, otherwise the type itself.
    type Sum: Num;
    /// What factors of one product have in common: the type itself, or the kind of 8-bit numbers, of which both types may meet.
    type Family;
    /// The type in which a device multiplies that has no matrix units for this one. It holds all values of the family.
    type Wide: Accumulate<Acc = Self::Sum>;
    /// How matrix units multiply it.
    const UNIT: Unit;
}

/// How matrix units multiply elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Not at all.
    None,
    /// As 16-bit floats, which may lie either way round.
    Half,
    /// As 8-bit floats.
    Float8,
    /// As 8-bit integers.
    Int8,
    /// As tf32, without the last bits.
    Tf32,
}

/// The [family](Factor::Family) of the 8-bit floats.
#[derive(Clone, Copy, Debug)]
pub enum Float8 {}

/// The [family](Factor::Family) of the 8-bit integers.
#[derive(Clone, Copy, Debug)]
pub enum Int8 {}

macro_rules! factors {
    ($($t:ty: $family:ty => $wide:ty, $sum:ty, $unit:ident;)*) => {$(
        impl Factor for $t {
            type Sum = $sum;
            type Family = $family;
            type Wide = $wide;
            const UNIT: Unit = Unit::$unit;
        }
    )*};
}

factors! {
    f16: f16 => f16, f32, Half;
    bf16: bf16 => bf16, f32, Half;
    E4M3: Float8 => f16, f32, Float8;
    E5M2: Float8 => f16, f32, Float8;
    i8: Int8 => i32, i32, Int8;
    u8: Int8 => i32, i32, Int8;
    f32: f32 => f32, f32, Tf32;
    f64: f64 => f64, f64, None;
    i32: i32 => i32, i32, None;
    u32: u32 => u32, u32, None;
    i64: i64 => i64, i64, None;
    u64: u64 => u64, u64, None;
}

/// The types of factors in words, for questions that choices are kept under.
pub(super) fn factors<T: Factor, U: Factor>() -> String {
    match T::SCALAR == U::SCALAR {
        true => T::SCALAR.to_string(),
        false => format!("{} by {}", T::SCALAR, U::SCALAR),
    }
}

/// How exact a product is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Elements count in full, and sums are as exact as their type.
    #[default]
    Full,
    /// Of f32 the first 10 bits of the significand count, where a device has matrix units for that ("TF32"); elsewhere they count in full. Tensor cores need a
    /// by rows and b by columns; factors that lie the other way round are copied first.
    Tf32,
    /// Sums of 8-bit floats keep the fewer bits that tensor cores keep, where a device has them; else they are added up in f32 every 128 products ("fast
    /// accumulation").
    FastSums,
}

impl Precision {
    /// Whether products may run on these matrix units.
    pub(super) fn allows(self, unit: Unit) -> bool {
        match unit {
            Unit::Half | Unit::Float8 | Unit::Int8 => true,
            Unit::Tf32 => self == Precision::Tf32,
            Unit::None => false,
        }
    }
}

/// A matrix or a stack of matrices.
pub trait Matrices<T: Elem> {
    /// Axes.
    const RANK: usize;

    /// The same elements as a stack.
    fn stack(&self) -> Tensor<T, 3>;
}

impl<T: Elem> Matrices<T> for Tensor<T, 2> {
    const RANK: usize = 2;

    fn stack(&self) -> Tensor<T, 3> {
        self.stacked()
    }
}

impl<T: Elem> Matrices<T> for Tensor<T, 3> {
    const RANK: usize = 3;

    fn stack(&self) -> Tensor<T, 3> {
        self.alias()
    }
}

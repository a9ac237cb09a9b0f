//! The elements of the factors of a product of matrices, as matrix units multiply them.

use crate::types::Scalar;

/// The elements of a factor of a product.
///
/// ```
/// use kiln_ir::{Factor, Scalar};
/// assert_eq!((Factor::Tf32.elem(), Factor::I8.elem()), (Scalar::F32, Scalar::I8));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Factor {
    F16,
    BF16,
    /// f32 of which the last 13 bits do not count.
    Tf32,
    E4M3,
    E5M2,
    I8,
    U8,
    F64,
}

impl Factor {
    /// The factor with elements of this type of 16 bits.
    ///
    /// ```
    /// use kiln_ir::{Factor, Scalar};
    /// assert_eq!((Factor::half(Scalar::BF16), Factor::half(Scalar::F32)), (Some(Factor::BF16), None));
    /// ```
    pub fn half(elem: Scalar) -> Option<Factor> {
        match elem {
            Scalar::F16 => Some(Factor::F16),
            Scalar::BF16 => Some(Factor::BF16),
            _ => None,
        }
    }

    /// The type of an element.
    pub fn elem(self) -> Scalar {
        match self {
            Factor::F16 => Scalar::F16,
            Factor::BF16 => Scalar::BF16,
            Factor::Tf32 => Scalar::F32,
            Factor::E4M3 => Scalar::E4M3,
            Factor::E5M2 => Scalar::E5M2,
            Factor::I8 => Scalar::I8,
            Factor::U8 => Scalar::U8,
            Factor::F64 => Scalar::F64,
        }
    }
}

/// The elements of both factors of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Factors {
    /// Of the left one.
    pub left: Factor,
    /// Of the right one.
    pub right: Factor,
}

macro_rules! products {
    ($($left:ident $right:ident $name:literal;)*) => {
        /// The factors that matrix units multiply, with the words of their products.
        const PRODUCTS: &[(Factors, &str, &str)] = &[$((
            Factors { left: Factor::$left, right: Factor::$right },
            concat!("mma_", $name),
            concat!("warpgroup_mma_", $name),
        )),*];
    };
}

products! {
    F16 F16 "f16";
    BF16 BF16 "bf16";
    Tf32 Tf32 "tf32";
    E4M3 E4M3 "e4m3";
    E5M2 E5M2 "e5m2";
    E4M3 E5M2 "e4m3_e5m2";
    E5M2 E4M3 "e5m2_e4m3";
    I8 I8 "i8";
    U8 U8 "u8";
    I8 U8 "i8_u8";
    U8 I8 "u8_i8";
    F64 F64 "f64";
}

impl Factors {
    /// The factors with elements of these types, if matrix units multiply them; f32 as tf32.
    ///
    /// ```
    /// use kiln_ir::{Factors, Scalar};
    /// let mixed = Factors::of(Scalar::E4M3, Scalar::E5M2).unwrap();
    /// assert_eq!((mixed.sum(), mixed.bytes(), mixed.depth()), (Scalar::F32, 1, 32));
    /// assert_eq!(Factors::of(Scalar::F16, Scalar::BF16), None);
    /// ```
    pub fn of(left: Scalar, right: Scalar) -> Option<Factors> {
        let all = PRODUCTS.iter().map(|(factors, ..)| *factors);
        all.into_iter().find(|f| f.left.elem() == left && f.right.elem() == right)
    }

    /// The type of sums of products.
    pub fn sum(self) -> Scalar {
        self.left.elem().accumulator()
    }

    /// Bytes of an element of either.
    pub fn bytes(self) -> u32 {
        self.left.elem().bytes()
    }

    /// The depth of one instruction: 32 bytes, of f64 64.
    pub fn depth(self) -> u32 {
        if self.is_f64() { 8 } else { 32 / self.bytes() }
    }

    /// Whether fragments hold f64, each an element, and not words of 32 bits. Warpgroups do not
    /// multiply these.
    ///
    /// ```
    /// use kiln_ir::{Factors, Scalar};
    /// let of = |elem| Factors::of(elem, elem).unwrap();
    /// assert!(of(Scalar::F64).is_f64() && of(Scalar::E4M3).has_fast_sums());
    /// assert_eq!((of(Scalar::F64).part(), of(Scalar::BF16).part()), (Scalar::F64, Scalar::U32));
    /// ```
    pub fn is_f64(self) -> bool {
        self.left == Factor::F64
    }

    /// The type of what a lane holds of a fragment of a factor.
    pub fn part(self) -> Scalar {
        if self.is_f64() { Scalar::F64 } else { Scalar::U32 }
    }

    /// Whether sums keep fewer bits than their type has while products are added to them.
    pub fn has_fast_sums(self) -> bool {
        self.left.elem().is_float8()
    }

    /// The words of the products of fragments and of warpgroups.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        let found = PRODUCTS.iter().find(|(factors, ..)| *factors == self);
        found.map_or(("mma", "warpgroup_mma"), |(_, fragments, warpgroups)| (fragments, warpgroups))
    }

    /// The factors of which the word of a product is `name`, and whether it is one of warpgroups.
    pub(crate) fn named(name: &str) -> Option<(Factors, bool)> {
        let found =
            PRODUCTS.iter().find(|(_, fragments, warpgroups)| [*fragments, *warpgroups].contains(&name));
        found.map(|(factors, _, warpgroups)| (*factors, *warpgroups == name))
    }
}

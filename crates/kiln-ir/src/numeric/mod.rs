//! Elements as Rust types, with the arithmetic that the operations of the IR have: constant folding
//! and the interpreter compute with these, through [`eval`](crate::eval).
//!
//! | file | holds |
//! |---|---|
//! | `element.rs` | bits, casts, order: all types |
//! | `number.rs` | arithmetic (integers and floats), bits (bool and integers), integer division |
//! | `float.rs` | functions of f64, rounded to the float types |

mod element;
mod float;
mod number;

pub use element::Element;
pub use float::Float;
pub use number::{Bits, Int, Number};

/// Runs a body with a type name bound to the Rust type of an element type. `None` for types that
/// are not of the class.
macro_rules! with_element {
    (@arms $elem:expr, $t:ident => $body:expr, $($variant:ident: $ty:ty),*) => {
        match $elem {
            $($crate::types::Scalar::$variant => {
                type $t = $ty;
                Some($body)
            })*
            #[allow(unreachable_patterns)]
            _ => None,
        }
    };
    (any $elem:expr, $t:ident => $body:expr) => {
        with_element!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64,
            E4M3: $crate::E4M3, E5M2: $crate::E5M2, I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (number $elem:expr, $t:ident => $body:expr) => {
        with_element!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64, I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (bits $elem:expr, $t:ident => $body:expr) => {
        with_element!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64,
            I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (int $elem:expr, $t:ident => $body:expr) => {
        with_element!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64,
            I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (float $elem:expr, $t:ident => $body:expr) => {
        with_element!(@arms $elem, $t => $body, F16: half::f16, BF16: half::bf16, F32: f32, F64: f64)
    };
}
pub(crate) use with_element;

//! Registers: the values of one block's execution.

use half::{bf16, f16};
use kiln_ir::numeric::Element;
use kiln_ir::{E4M3, E5M2, Scalar, Space};

/// The elements of a value: one for each thread of the block if its rank is 0, else those of the
/// tile in row-major order.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Data {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    E4M3(Vec<E4M3>),
    E5M2(Vec<E5M2>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
}

impl Default for Data {
    fn default() -> Data {
        Data::Bool(Vec::new())
    }
}

/// Runs a body with a type name bound to the Rust type of an element type. The classes `number`,
/// `bits`, `int` and `float` leave out the types that lack the operations, for which the body is an
/// error.
macro_rules! dispatch {
    (@arms $elem:expr, $t:ident => $body:expr, $($variant:ident: $ty:ty),*) => {
        match $elem {
            $(kiln_ir::Scalar::$variant => {
                type $t = $ty;
                $body
            })*
            #[allow(unreachable_patterns)]
            other => Err($crate::trap::Trap::no_operation(other)),
        }
    };
    (any $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64,
            E4M3: kiln_ir::E4M3, E5M2: kiln_ir::E5M2, I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (number $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64, I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (bits $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64,
            I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (int $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64,
            I8: i8, U8: u8, I16: i16, U16: u16)
    };
    (float $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, F16: half::f16, BF16: half::bf16, F32: f32, F64: f64)
    };
}
pub(crate) use dispatch;

/// Runs a body with a name bound to the vector of a register, whatever its type.
macro_rules! each_vec {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::Bool($v) => $body,
            Data::I32($v) => $body,
            Data::U32($v) => $body,
            Data::I64($v) => $body,
            Data::U64($v) => $body,
            Data::F16($v) => $body,
            Data::BF16($v) => $body,
            Data::F32($v) => $body,
            Data::F64($v) => $body,
            Data::E4M3($v) => $body,
            Data::E5M2($v) => $body,
            Data::I8($v) => $body,
            Data::U8($v) => $body,
            Data::I16($v) => $body,
            Data::U16($v) => $body,
        }
    };
}

pub(crate) use each_vec;

impl Data {
    /// `len` zeros.
    pub fn zeros(elem: Scalar, len: usize) -> Data {
        match elem {
            Scalar::Bool => Data::Bool(vec![false; len]),
            Scalar::I32 => Data::I32(vec![0; len]),
            Scalar::U32 => Data::U32(vec![0; len]),
            Scalar::I64 => Data::I64(vec![0; len]),
            Scalar::U64 => Data::U64(vec![0; len]),
            Scalar::F16 => Data::F16(vec![f16::ZERO; len]),
            Scalar::BF16 => Data::BF16(vec![bf16::ZERO; len]),
            Scalar::F32 => Data::F32(vec![0.0; len]),
            Scalar::F64 => Data::F64(vec![0.0; len]),
            Scalar::E4M3 => Data::E4M3(vec![E4M3::ZERO; len]),
            Scalar::E5M2 => Data::E5M2(vec![E5M2::ZERO; len]),
            Scalar::I8 => Data::I8(vec![0; len]),
            Scalar::U8 => Data::U8(vec![0; len]),
            Scalar::I16 => Data::I16(vec![0; len]),
            Scalar::U16 => Data::U16(vec![0; len]),
        }
    }

    /// `len` zeros. `None` if the system has no more memory.
    pub fn try_zeros(elem: Scalar, len: usize) -> Option<Data> {
        let mut zeros = Data::zeros(elem, 0);
        each_vec!(&mut zeros, v => {
            v.try_reserve_exact(len).ok()?;
            v.resize(len, Element::of_bits(0));
        });
        Some(zeros)
    }

    /// The element type.
    pub fn elem(&self) -> Scalar {
        match self {
            Data::Bool(_) => Scalar::Bool,
            Data::I32(_) => Scalar::I32,
            Data::U32(_) => Scalar::U32,
            Data::I64(_) => Scalar::I64,
            Data::U64(_) => Scalar::U64,
            Data::F16(_) => Scalar::F16,
            Data::BF16(_) => Scalar::BF16,
            Data::F32(_) => Scalar::F32,
            Data::F64(_) => Scalar::F64,
            Data::E4M3(_) => Scalar::E4M3,
            Data::E5M2(_) => Scalar::E5M2,
            Data::I8(_) => Scalar::I8,
            Data::U8(_) => Scalar::U8,
            Data::I16(_) => Scalar::I16,
            Data::U16(_) => Scalar::U16,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        each_vec!(self, v => v.len())
    }

    /// The bits of an element, zero-extended.
    pub fn bits(&self, at: usize) -> u64 {
        each_vec!(self, v => v[at].bits())
    }

    /// An element in Rust's `Display` form.
    pub fn display(&self, at: usize) -> String {
        each_vec!(self, v => v[at].to_string())
    }

    /// Sets every element to the one with these bits.
    pub fn fill(&mut self, bits: u64) {
        each_vec!(self, v => {
            if let Some(first) = v.first_mut() {
                *first = Element::of_bits(bits);
                let value = *first;
                v.fill(value);
            }
        });
    }
}

/// The value of a view: an address in its space, the same number in every thread.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The space.
    pub space: Space,
    /// The address of element 0.
    pub base: u64,
    /// The size of an element.
    pub elem_bytes: u64,
    /// The extents, outermost first.
    pub extents: Vec<i64>,
    /// The strides in elements, outermost first.
    pub strides: Vec<i64>,
}

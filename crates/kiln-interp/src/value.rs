//! Registers: the values of one block's execution.

use crate::mask::Mask;
use crate::register::Register;
use crate::shadow::Report;
use crate::spaces::Place;
use half::{bf16, f16};
use kiln_backend::{FaultKind, Finding};
use kiln_ir::numeric::{Element, Int};
use kiln_ir::{E4M3, E5M2, Scalar, Space};
use std::borrow::Cow;

/// Why an operation did not complete. The executor adds the source location, the block and the
/// thread's index.
#[derive(Debug)]
pub enum Trap {
    /// The kernel is at fault, in a thread if it is one thread's doing.
    Fault {
        /// What happened.
        kind: FaultKind,
        /// The linear index of the thread in its block.
        lane: Option<usize>,
    },
    /// An access of memory breaks a rule, of which the machine knows the user's words.
    Memory(Box<(Report, Place)>),
    /// The kernel is not well formed, which the verifier should have seen, or the interpreter is
    /// wrong.
    Bug(String),
}

impl Trap {
    /// A register of another element type than the operation says.
    pub fn wrong_type(want: Scalar, got: Scalar) -> Trap {
        Trap::Bug(format!("expected a value of type {want}, found {got}"))
    }

    /// An operation that its operands' type does not have.
    pub fn no_operation(elem: Scalar) -> Trap {
        Trap::Bug(format!("no such operation on {elem}"))
    }

    /// A broken rule that only this backend sees.
    pub fn finding(finding: Finding, detail: String) -> Trap {
        Trap::Fault { kind: FaultKind::Sanitizer { finding, detail }, lane: None }
    }

    /// The trap as one thread's.
    pub fn in_lane(self, at: usize) -> Trap {
        match self {
            Trap::Fault { kind, lane } => Trap::Fault { kind, lane: lane.or(Some(at)) },
            Trap::Memory(mut found) => {
                found.1.lane = found.1.lane.or(Some(at));
                Trap::Memory(found)
            }
            Trap::Bug(what) => Trap::Bug(what),
        }
    }
}

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
            other => Err($crate::value::Trap::no_operation(other)),
        }
    };
    (any $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64,
            E4M3: kiln_ir::E4M3, E5M2: kiln_ir::E5M2, I8: i8, U8: u8)
    };
    (number $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64,
            F16: half::f16, BF16: half::bf16, F32: f32, F64: f64)
    };
    (bits $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, Bool: bool, I32: i32, U32: u32, I64: i64, U64: u64)
    };
    (int $elem:expr, $t:ident => $body:expr) => {
        dispatch!(@arms $elem, $t => $body, I32: i32, U32: u32, I64: i64, U64: u64)
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
        }
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

    /// The elements of an integer register as indices; an u64 too large for one is the largest.
    pub fn indices(&self) -> Result<Cow<'_, [i64]>, Trap> {
        if let Data::I64(v) = self {
            return Ok(Cow::Borrowed(v));
        }
        dispatch!(int self.elem(), T => Ok(T::of(self)?.iter().map(|x| x.to_index()).collect()))
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

    /// Takes over all elements of a register of the same type and length.
    pub fn copy(&mut self, from: &Data) -> Result<(), Trap> {
        if self.len() != from.len() {
            return Err(Trap::Bug(format!("{} elements assigned to {}", from.len(), self.len())));
        }
        dispatch!(any self.elem(), T => {
            T::of_mut(self)?.copy_from_slice(T::of(from)?);
            Ok(())
        })
    }

    /// Takes over elements from a position on.
    pub fn copy_range(&mut self, at: usize, from: &Data) -> Result<(), Trap> {
        dispatch!(any self.elem(), T => {
            let (to, from) = (T::of_mut(self)?, T::of(from)?);
            to[at..at + from.len()].copy_from_slice(from);
            Ok(())
        })
    }

    /// Adjacent columns of a matrix with rows of `width`.
    pub fn columns(&self, width: usize, first: usize, count: usize) -> Result<Data, Trap> {
        let mut out = Data::zeros(self.elem(), self.len() / width * count);
        dispatch!(any self.elem(), T => {
            let rows = T::of_mut(&mut out)?.chunks_exact_mut(count).zip(T::of(self)?.chunks_exact(width));
            rows.for_each(|(to, from)| to.copy_from_slice(&from[first..first + count]));
            Ok(())
        })?;
        Ok(out)
    }

    /// Takes over the elements of the active threads.
    pub fn copy_lanes(&mut self, from: &Data, mask: &Mask) -> Result<(), Trap> {
        if mask.is_full() {
            return self.copy(from);
        }
        dispatch!(any self.elem(), T => {
            let (to, from) = (T::of_mut(self)?, T::of(from)?);
            for lane in mask.lanes() {
                to[lane] = from[lane];
            }
            Ok(())
        })
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

//! What a GGUF file says of itself: values of a key, each of one of thirteen types.

use super::source::{Problem, Source};

/// Arrays of arrays of arrays: no file has more of them, and reading is recursive.
const MAX_DEPTH: usize = 4;

/// The numbers of a file's types, in the order of the format.
mod code {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// A value of a file's metadata.
///
/// ```
/// use kiln_files::gguf::{Array, Value};
/// assert_eq!(Value::U32(576).as_u64(), Some(576));
/// assert_eq!(Value::I32(-1).as_u64(), None);
/// assert_eq!(Value::Array(Array::String(vec!["a".into()])).as_strings(), Some(&["a".to_string()][..]));
/// ```
///
/// ```
/// use kiln_files::gguf::Value;
/// assert_eq!((Value::F32(0.5).as_f64(), Value::U8(1).as_f64()), (Some(0.5), None));
/// assert_eq!(Value::Bool(true).as_bool(), Some(true));
/// assert_eq!(Value::String("llama".into()).as_str(), Some("llama"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// An integer of any width, if it is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => Some(x),
            Value::I8(x) => x.try_into().ok(),
            Value::I16(x) => x.try_into().ok(),
            Value::I32(x) => x.try_into().ok(),
            Value::I64(x) => x.try_into().ok(),
            _ => None,
        }
    }

    /// A float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            _ => None,
        }
    }

    /// A truth value.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(x) = *self { Some(x) } else { None }
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// An array of texts.
    pub fn as_strings(&self) -> Option<&[String]> {
        if let Value::Array(Array::String(texts)) = self { Some(texts) } else { None }
    }

    /// What it is, in words: for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => "an unsigned integer",
            Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => "a signed integer",
            Value::F32(_) | Value::F64(_) => "a float",
            Value::Bool(_) => "a truth value",
            Value::String(_) => "a text",
            Value::Array(Array::String(_)) => "an array of texts",
            Value::Array(_) => "an array",
        }
    }

    /// Reads the type of a value and the value.
    pub(super) fn read(source: &mut Source) -> Result<Value, Problem> {
        let at = source.offset();
        Ok(match source.u32()? {
            code::U8 => Value::U8(source.number(u8::from_le_bytes)?),
            code::I8 => Value::I8(source.number(i8::from_le_bytes)?),
            code::U16 => Value::U16(source.number(u16::from_le_bytes)?),
            code::I16 => Value::I16(source.number(i16::from_le_bytes)?),
            code::U32 => Value::U32(source.u32()?),
            code::I32 => Value::I32(source.number(i32::from_le_bytes)?),
            code::F32 => Value::F32(source.number(f32::from_le_bytes)?),
            code::BOOL => Value::Bool(boolean(source)?),
            code::STRING => Value::String(source.string()?),
            code::ARRAY => Value::Array(Array::read(source, 0)?),
            code::U64 => Value::U64(source.u64()?),
            code::I64 => Value::I64(source.number(i64::from_le_bytes)?),
            code::F64 => Value::F64(source.number(f64::from_le_bytes)?),
            other => return Err(Problem::at(at, format!("a value has type {other}, and types end with 12"))),
        })
    }
}

impl Array {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(x) => x.len(),
            Array::I8(x) => x.len(),
            Array::U16(x) => x.len(),
            Array::I16(x) => x.len(),
            Array::U32(x) => x.len(),
            Array::I32(x) => x.len(),
            Array::F32(x) => x.len(),
            Array::Bool(x) => x.len(),
            Array::String(x) => x.len(),
            Array::Array(x) => x.len(),
            Array::U64(x) => x.len(),
            Array::I64(x) => x.len(),
            Array::F64(x) => x.len(),
        }
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(source: &mut Source, depth: usize) -> Result<Array, Problem> {
        let at = source.offset();
        let (code, len) = (source.u32()?, source.u64()?);
        Ok(match code {
            code::U8 => Array::U8(source.numbers(len, u8::from_le_bytes)?),
            code::I8 => Array::I8(source.numbers(len, i8::from_le_bytes)?),
            code::U16 => Array::U16(source.numbers(len, u16::from_le_bytes)?),
            code::I16 => Array::I16(source.numbers(len, i16::from_le_bytes)?),
            code::U32 => Array::U32(source.numbers(len, u32::from_le_bytes)?),
            code::I32 => Array::I32(source.numbers(len, i32::from_le_bytes)?),
            code::F32 => Array::F32(source.numbers(len, f32::from_le_bytes)?),
            code::BOOL => Array::Bool(source.many(len, 1, boolean)?),
            code::STRING => Array::String(source.many(len, 8, Source::string)?),
            code::ARRAY if depth == MAX_DEPTH => {
                return Err(Problem::at(at, format!("arrays are nested more than {MAX_DEPTH} deep")));
            }
            code::ARRAY => Array::Array(source.many(len, 12, |source| Array::read(source, depth + 1))?),
            code::U64 => Array::U64(source.numbers(len, u64::from_le_bytes)?),
            code::I64 => Array::I64(source.numbers(len, i64::from_le_bytes)?),
            code::F64 => Array::F64(source.numbers(len, f64::from_le_bytes)?),
            other => {
                let problem = format!("an array's values have type {other}, and types end with 12");
                return Err(Problem::at(at, problem));
            }
        })
    }
}

fn boolean(source: &mut Source) -> Result<bool, Problem> {
    let at = source.offset();
    match source.number(u8::from_le_bytes)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Problem::at(at, format!("a truth value is {other}, expected 0 or 1"))),
    }
}

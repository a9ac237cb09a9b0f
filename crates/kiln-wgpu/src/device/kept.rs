//! Lists, flags and fields of parameters as bytes of a package.

use crate::parameters::Parameter;
use kiln_backend::bytes::{Reader, Writer};

/// What is read, or what is wrong with the bytes.
pub(super) type Read<T> = Result<T, &'static str>;

/// A list, behind its length.
pub(super) fn list<T>(out: &mut Writer, items: &[T], write: impl Fn(&mut Writer, &T)) {
    out.number(items.len() as u32);
    items.iter().for_each(|item| write(out, item));
}

/// A list of things that have at least `least` bytes each.
pub(super) fn read_list<'a, T>(
    input: &mut Reader<'a>,
    least: usize,
    read: impl Fn(&mut Reader<'a>) -> Read<T>,
) -> Read<Vec<T>> {
    let count = input.count(least)?;
    (0..count).map(|_| read(input)).collect()
}

pub(super) fn flag(input: &mut Reader<'_>) -> Read<bool> {
    match input.number()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag in them is neither 0 nor 1"),
    }
}

/// A field of the parameter block.
pub(super) fn write_parameter(out: &mut Writer, parameter: Parameter) {
    let (kind, at, axis) = match parameter {
        Parameter::Offset(at) => (0, at, 0),
        Parameter::Extent(at, axis) => (1, at, axis),
        Parameter::Stride(at, axis) => (2, at, axis),
        Parameter::Scalar(at) => (3, at, 0),
        Parameter::Grid(axis) => (4, 0, axis),
        Parameter::Fold => (5, 0, 0),
        Parameter::Program => (6, 0, 0),
    };
    [kind, at as u32, axis].into_iter().for_each(|number| out.number(number));
}

pub(super) fn read_parameter(input: &mut Reader<'_>) -> Read<Parameter> {
    let (kind, at, axis) = (input.number()?, input.number()? as usize, input.number()?);
    Ok(match kind {
        0 => Parameter::Offset(at),
        1 => Parameter::Extent(at, axis),
        2 => Parameter::Stride(at, axis),
        3 => Parameter::Scalar(at),
        4 => Parameter::Grid(axis),
        5 => Parameter::Fold,
        6 => Parameter::Program,
        _ => return Err("a field in them is of no known kind"),
    })
}

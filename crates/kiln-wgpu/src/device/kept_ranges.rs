//! The ranges of indices that are held in 32 bits, as bytes of a package.

use super::kept::{Read, flag, list, read_parameter, write_parameter};
use crate::narrow::{ALL, Ranges, Source, Step};
use crate::parameters::Parameter;
use kiln_backend::bytes::{Reader, Writer};
use kiln_ir::{BinaryOp, Scalar, UnaryOp};

/// The operations of which ranges are computed.
const UNARY: [UnaryOp; 3] = [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not];
const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
];

/// The types of values that have ranges.
const ELEMS: [Scalar; 3] = [Scalar::I32, Scalar::U32, Scalar::I64];

impl Source {
    /// What it asks of a launch.
    pub(super) fn parameter(self) -> Option<Parameter> {
        match self {
            Source::Program(axis) => Some(Parameter::Grid(axis)),
            Source::Field(parameter) => Some(parameter),
            Source::Scalar(at) => Some(Parameter::Scalar(at)),
            Source::Known(_)
            | Source::Unary(..)
            | Source::Binary(..)
            | Source::MultiplyAdd(_)
            | Source::Either(..)
            | Source::Until(..) => None,
        }
    }
}

/// Writes what a launch asks of ranges.
pub(super) fn write(out: &mut Writer, ranges: &Ranges) {
    let steps: Vec<(&Step, bool)> = ranges.steps.iter().zip(ranges.wanted.iter().copied()).collect();
    list(out, &steps, |out, (step, wanted)| {
        out.text(&step.location);
        out.number((*wanted).into());
        out.number(position(&ELEMS, step.elem));
        write_source(out, step.source);
    });
}

/// Reads what [`write`] wrote. Steps are computed of earlier ones.
pub(super) fn read(input: &mut Reader<'_>) -> Read<Ranges> {
    let count = input.count(16)?;
    let mut ranges = Ranges::default();
    for at in 0..count {
        let location = input.text()?.to_owned();
        ranges.wanted.push(flag(input)?);
        let elem = element(&ELEMS, input.number()?)?;
        let source = read_source(input)?;
        if source.operands().any(|operand| operand >= at) {
            return Err("a range in them is computed of a later one");
        }
        if let Source::Binary(BinaryOp::Shl | BinaryOp::Shr, _, by) = source
            && !matches!(ranges.steps[by].source, Source::Known([low, high]) if low == high && (0..32).contains(&low))
        {
            return Err("a range in them is shifted by no known number");
        }
        ranges.steps.push(Step { source, elem, location });
    }
    Ok(ranges)
}

fn write_source(out: &mut Writer, source: Source) {
    let mut of = |kind: u32, numbers: &[usize]| {
        out.number(kind);
        numbers.iter().for_each(|&number| out.number(number as u32));
    };
    match source {
        Source::Known(range) => {
            of(0, &[]);
            range.into_iter().for_each(|end| out.long(end as u64));
        }
        Source::Program(axis) => of(1, &[axis as usize]),
        Source::Field(parameter) => {
            of(2, &[]);
            write_parameter(out, parameter);
        }
        Source::Scalar(at) => of(3, &[at]),
        Source::Unary(op, a) => of(4, &[position(&UNARY, op) as usize, a]),
        Source::Binary(op, a, b) => of(5, &[position(&BINARY, op) as usize, a, b]),
        Source::MultiplyAdd(all) => of(6, &all),
        Source::Either(a, b) => of(7, &[a, b]),
        Source::Until(low, high) => of(8, &[low, high]),
    }
}

fn read_source(input: &mut Reader<'_>) -> Read<Source> {
    let kind = input.number()?;
    let mut step = || input.number().map(|number| number as usize);
    Ok(match kind {
        0 => {
            let range = [input.long()? as i64, input.long()? as i64];
            if !(ALL[0] <= range[0] && range[0] <= range[1] && range[1] <= ALL[1]) {
                return Err("a range in them has no ends that there are");
            }
            Source::Known(range)
        }
        1 => Source::Program(input.number()?),
        2 => Source::Field(read_parameter(input)?),
        3 => Source::Scalar(step()?),
        4 => Source::Unary(element(&UNARY, step()? as u32)?, step()?),
        5 => Source::Binary(element(&BINARY, step()? as u32)?, step()?, step()?),
        6 => Source::MultiplyAdd([step()?, step()?, step()?]),
        7 => Source::Either(step()?, step()?),
        8 => Source::Until(step()?, step()?),
        _ => return Err("a range in them is of no known kind"),
    })
}

fn position<T: PartialEq>(all: &[T], one: T) -> u32 {
    // Ranges are made of these alone; another would be refused as it is read.
    all.iter().position(|other| *other == one).unwrap_or(all.len()) as u32
}

fn element<T: Copy>(all: &[T], at: u32) -> Read<T> {
    all.get(at as usize).copied().ok_or("a range in them is computed in no known way")
}

//! A kernel before it is IR: all that its code depends on, and nothing else.
//!
//! Extents, strides and most numbers are arguments of the kernel, not part of it. So programs of
//! equal structure are equal, and compiled once: another batch size is another launch.

use super::affine::Var;
use kiln_ir::{BinaryOp, CompareOp, Literal, ReduceOp, Scalar, UnaryOp};

/// How a program counts over a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// One index a program.
    Outer,
    /// A tile's rows.
    Tall,
    /// One index a round of a loop.
    Round,
    /// A tile's columns, or a part of their number.
    Wide,
}

/// How columns of tiles are divided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Columns {
    /// Among programs.
    Grid,
    /// Not at all: a tile holds the row.
    Whole,
    /// Among rounds of loops.
    Loop,
}

/// A number that is part of the code, or an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Number {
    Literal(i64),
    /// The position among [`Program::numbers`].
    Argument(usize),
}

/// A sum of multiples of indices and values, of i64.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sum {
    pub(crate) constant: Number,
    pub(crate) terms: Vec<(Var, Number)>,
}

/// One step of the code. Operands are positions of earlier steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Literal(Literal),
    /// A number among the arguments.
    Argument(usize),
    Index(Sum),
    /// A box of a view over some of the dimensions.
    Box {
        input: usize,
    },
    /// Element by element, at an index in row-major order.
    Gather {
        input: usize,
        at: Sum,
        mask: Option<usize>,
    },
    Unary(UnaryOp, usize),
    Binary(BinaryOp, [usize; 2]),
    Compare(CompareOp, [usize; 2]),
    Select([usize; 3]),
    Cast(Scalar, usize),
    Reduce(ReduceOp, usize),
    CumSum {
        reverse: bool,
        of: usize,
    },
    /// An index, counted from the end where it is negative. It must lie on an axis of this extent.
    Checked {
        index: usize,
        extent: Number,
        mask: Option<usize>,
        /// The argument that says of which array it is an index.
        of: usize,
    },
}

/// A parameter that is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Input {
    pub(crate) elem: Scalar,
    /// The dimensions of a box, in order; `None` for what is read element by element.
    pub(crate) dims: Option<Vec<usize>>,
}

/// A parameter that is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Output {
    pub(crate) elem: Scalar,
    /// The step whose value it gets.
    pub(crate) value: usize,
    /// Whether it has the row's dimensions too.
    pub(crate) has_row: bool,
}

/// What programs on an axis of the grid differ in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Part {
    Outer,
    Tall,
    Wide,
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Program {
    /// Each dimension's place, outermost first: outer ones, tall, rounds, wide.
    pub(crate) dims: Vec<Place>,
    /// Rows and columns of a tile.
    pub(crate) tile: [u32; 2],
    pub(crate) columns: Columns,
    /// Whether tiles end where the row does, so that no column is to be left out.
    pub(crate) exact: bool,
    pub(crate) warps: Option<u32>,
    /// What the axes of the grid are for, x first.
    pub(crate) grid: [Part; 3],
    pub(crate) code: Vec<Step>,
    /// The element type of each step.
    pub(crate) elems: Vec<Scalar>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// The element types of numbers among the arguments: first the extents of all dimensions.
    pub(crate) numbers: Vec<Scalar>,
}

impl Program {
    /// The dimensions of a place.
    pub(crate) fn at(&self, place: Place) -> impl Iterator<Item = usize> + '_ {
        self.dims.iter().enumerate().filter(move |(_, of)| **of == place).map(|(dim, _)| dim)
    }

    /// The length of a row, of the numbers among the arguments.
    pub(crate) fn rows_extent(&self, numbers: &[Literal]) -> i128 {
        let dims = self.at(Place::Round).chain(self.at(Place::Wide));
        dims.filter_map(|dim| numbers.get(dim)).map(|extent| extent.as_i128()).product()
    }

    /// The operands of a step.
    pub(crate) fn operands(step: &Step) -> Vec<usize> {
        let of_sum = |sum: &Sum| -> Vec<usize> {
            let value = |term: &(Var, Number)| match term.0 {
                Var::Value(value) => Some(value),
                Var::Dim(_) => None,
            };
            sum.terms.iter().filter_map(value).collect()
        };
        match step {
            Step::Literal(_) | Step::Argument(_) | Step::Box { .. } => Vec::new(),
            Step::Index(sum) => of_sum(sum),
            Step::Gather { at, mask, .. } => of_sum(at).into_iter().chain(*mask).collect(),
            Step::Unary(_, x) | Step::Cast(_, x) | Step::Reduce(_, x) | Step::CumSum { of: x, .. } => {
                vec![*x]
            }
            Step::Binary(_, both) | Step::Compare(_, both) => both.to_vec(),
            Step::Select(three) => three.to_vec(),
            Step::Checked { index, mask, .. } => [Some(*index), *mask].into_iter().flatten().collect(),
        }
    }

    /// The dimensions that a step names itself.
    fn named(&self, step: &Step) -> Vec<usize> {
        let of_sum = |sum: &Sum| -> Vec<usize> {
            let dim = |term: &(Var, Number)| match term.0 {
                Var::Dim(dim) => Some(dim),
                Var::Value(_) => None,
            };
            sum.terms.iter().filter_map(dim).collect()
        };
        match step {
            Step::Index(sum) => of_sum(sum),
            Step::Gather { at, .. } => of_sum(at),
            Step::Box { input } => self.inputs[*input].dims.clone().unwrap_or_default(),
            Step::Literal(_)
            | Step::Argument(_)
            | Step::Unary(..)
            | Step::Binary(..)
            | Step::Compare(..)
            | Step::Select(_)
            | Step::Cast(..)
            | Step::Reduce(..)
            | Step::CumSum { .. }
            | Step::Checked { .. } => Vec::new(),
        }
    }

    /// Whether a step itself names a dimension of a place.
    pub(crate) fn names(&self, step: &Step, place: Place) -> bool {
        self.named(step).into_iter().any(|dim| self.dims[dim] == place)
    }

    /// Whether each step's value differs along the row.
    pub(crate) fn along_row(&self) -> Vec<bool> {
        let mut along = Vec::with_capacity(self.code.len());
        for step in &self.code {
            let names = self.names(step, Place::Round) || self.names(step, Place::Wide);
            let here = match step {
                Step::Reduce(..) => false,
                Step::CumSum { .. } => true,
                _ => names || Program::operands(step).into_iter().any(|of: usize| along[of]),
            };
            along.push(here);
        }
        along
    }

    /// How many reductions one after the other each step needs.
    pub(crate) fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.code.len());
        for step in &self.code {
            let before = Program::operands(step).into_iter().map(|of| depths[of]).max().unwrap_or(0);
            depths.push(before + usize::from(matches!(step, Step::Reduce(..))));
        }
        depths
    }
}

/// Whether a number is part of the code, which the compiler makes better for it: the few that
/// formulas have. Others, such as the lengths in means or a learning rate, are arguments. So are
/// all of u32: a seed may be small.
pub(crate) fn is_part_of_code(literal: Literal) -> bool {
    let number = literal.as_f64();
    let in_formulas = || !number.is_finite() || [0.0, 1.0, -1.0, 2.0, 0.5].contains(&number);
    literal.elem() == Scalar::Bool || (literal.elem() != Scalar::U32 && in_formulas())
}

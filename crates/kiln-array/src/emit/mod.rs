//! From a program to IR.
//!
//! A kernel handles a tile of `rows × columns` elements. Every value is a scalar or a tile whose
//! extents are 1 or those of the tile: what does not differ along an axis is computed once. Where a
//! tile holds the row, a reduction is one operation. Else each depth of reductions is a loop over
//! the row that collects tiles of partial results, and stores of whole rows are a loop more.

mod element;
mod tiles;

use crate::plan::affine::Var;
use crate::plan::program::{Columns, Number, Part, Place, Program, Step, Sum};
use element::identity;
use kiln_ir::{
    Axis, BinaryOp, Bounds, Builder, CompareOp, Facts, Kernel, Level, Literal, OpKind, Param, ReduceOp,
    Reuse, Scalar, Shape, Space, Type, UnaryOp, Value,
};

/// What a fault says of an index outside of its axis, before the number of the array whose index it
/// is.
pub(crate) const OUTSIDE: &str = "an index lies outside of its axis, in operation ";

/// The kernel of a program.
pub(crate) fn kernel(program: &Program, name: &str) -> Kernel {
    let mut kernel = Kernel::new(name, Level::Tile { warps: program.warps });
    let view = |name: String, elem, rank: usize, mutable| Param {
        name,
        ty: Type::view(elem, rank as u32, Space::Global),
        mutable,
        facts: Facts::default(),
    };
    let mut inputs = Vec::new();
    for (number, input) in program.inputs.iter().enumerate() {
        let rank = input.dims.as_ref().map_or(1, |dims| dims.len().max(1));
        inputs.push(kernel.add_param(view(format!("x{number}"), input.elem, rank, false)));
    }
    let mut outputs = Vec::new();
    for (number, output) in program.outputs.iter().enumerate() {
        let rank = if output.has_row { 4 } else { 2 };
        outputs.push(kernel.add_param(view(format!("y{number}"), output.elem, rank, true)));
    }
    let mut numbers = Vec::new();
    for (number, &elem) in program.numbers.iter().enumerate() {
        let ty = Type::scalar(elem);
        numbers.push(kernel.add_param(Param {
            name: format!("n{number}"),
            ty,
            mutable: false,
            facts: Facts::default(),
        }));
    }
    let along_row = program.along_row();
    let depths = program.depths();
    let steps = program.code.len();
    let builder = Builder::new(&mut kernel);
    let emitter = Emitter {
        program,
        b: builder,
        inputs,
        outputs,
        numbers,
        along_row,
        depths,
        values: vec![None; steps],
        places: vec![None; program.dims.len()],
        column: None,
        outer: None,
        tall: None,
        round: None,
    };
    emitter.emit();
    kernel
}

/// The state of emission.
struct Emitter<'p, 'k> {
    program: &'p Program,
    b: Builder<'k>,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    numbers: Vec<Value>,
    along_row: Vec<bool>,
    depths: Vec<usize>,
    /// The value of each step, where it is there. Those along the row are forgotten at the end of a
    /// loop.
    values: Vec<Option<Value>>,
    /// The indices on each dimension, as a scalar or a tile.
    places: Vec<Option<Value>>,
    /// The first column of the tile.
    column: Option<Value>,
    /// The number of the program among the outer dimensions, as one.
    outer: Option<Value>,
    /// The first row of the tile.
    tall: Option<Value>,
    /// The number of the round among the rounds' dimensions, as one.
    round: Option<Value>,
}

impl Emitter<'_, '_> {
    fn emit(mut self) {
        self.locate();
        match self.program.columns {
            Columns::Grid | Columns::Whole => self.store(true, true),
            Columns::Loop => self.loops(),
        }
    }

    /// Where the program's part begins.
    fn locate(&mut self) {
        let parts =
            [(Part::Outer, 1), (Part::Tall, self.program.tile[0]), (Part::Wide, self.program.tile[1])];
        for (axis, part) in [Axis::X, Axis::Y, Axis::Z].into_iter().zip(self.program.grid) {
            if part == Part::Wide && self.program.columns != Columns::Grid {
                self.column = Some(self.b.index(0));
                continue;
            }
            let by = parts.iter().find(|(of, _)| *of == part).map_or(1, |&(_, by)| by);
            let number = self.b.program_id(axis);
            let by = self.b.index(by.into());
            let first = self.b.binary(BinaryOp::Mul, number, by);
            match part {
                Part::Outer => self.outer = Some(first),
                Part::Tall => self.tall = Some(first),
                Part::Wide => self.column = Some(first),
            }
        }
        let outer: Vec<usize> = self.program.at(Place::Outer).collect();
        if let Some(number) = self.outer {
            self.divide(number, &outer);
        }
        for dim in self.program.at(Place::Tall) {
            let index = self.counted(self.tall, self.program.tile[0], 0);
            self.places[dim] = Some(index);
        }
        if self.program.columns != Columns::Loop {
            self.locate_columns();
        }
    }

    /// The indices on the dimensions of columns.
    fn locate_columns(&mut self) {
        let wide: Vec<usize> = self.program.at(Place::Wide).collect();
        let index = self.counted(self.column, self.program.tile[1], 1);
        self.divide(index, &wide);
    }

    /// The indices on dimensions whose number in row-major order is this.
    fn divide(&mut self, number: Value, dims: &[usize]) {
        let mut left = number;
        for (at, &dim) in dims.iter().enumerate().rev() {
            if at == 0 {
                self.places[dim] = Some(left);
                continue;
            }
            let extent = self.numbers[dim];
            let extent = self.like(extent, left);
            self.places[dim] = Some(self.b.binary(BinaryOp::Rem, left, extent));
            left = self.b.binary(BinaryOp::Div, left, extent);
        }
    }

    /// Stores the results: those with the row's dimensions, and those without.
    fn store(&mut self, with_row: bool, without_row: bool) {
        for at in 0..self.program.outputs.len() {
            let output = self.program.outputs[at];
            if output.has_row && !with_row || !output.has_row && !without_row {
                continue;
            }
            let value = self.value(output.value);
            let [rows, columns] = self.program.tile;
            let zero = self.b.index(0);
            let mut offsets = vec![self.outer.unwrap_or(zero), self.tall.unwrap_or(zero)];
            let mut shape = vec![1, rows];
            if output.has_row {
                offsets.extend([self.round.unwrap_or(zero), self.column.unwrap_or(zero)]);
                shape.extend([1, columns]);
            }
            let of_tile = if output.has_row { [rows, columns] } else { [rows, 1] };
            let tile = self.stretched(value, of_tile);
            let tile = self.b.reshape(tile, Shape::new(&shape));
            self.b.store(self.outputs[at], &offsets, tile, Reuse::Normal, true);
        }
    }

    /// Loops over the row: one for each depth of reductions, and one for results that have it.
    fn loops(&mut self) {
        let reductions = |at: &usize| matches!(self.program.code[*at], Step::Reduce(..));
        let reductions: Vec<usize> = (0..self.program.code.len()).filter(reductions).collect();
        let deepest = self.depths.iter().copied().max().unwrap_or(0);
        for depth in 0..deepest {
            let here: Vec<usize> =
                reductions.iter().copied().filter(|&at| self.depths[at] == depth + 1).collect();
            self.before_loop(depth);
            self.reduce_by_loop(&here);
        }
        self.before_loop(deepest);
        self.store(false, true);
        if self.program.outputs.iter().any(|output| output.has_row) {
            self.each_column(&[], |emitter, _| {
                emitter.store(true, false);
                Vec::new()
            });
        }
    }

    /// Makes what a loop uses and does not change, outside of it.
    fn before_loop(&mut self, depth: usize) {
        for at in 0..self.program.code.len() {
            if !self.along_row[at] && self.depths[at] <= depth {
                self.value(at);
            }
        }
    }

    /// Combines along the row by a loop.
    fn reduce_by_loop(&mut self, reductions: &[usize]) {
        let mut starts = Vec::new();
        let mut of = Vec::new();
        for &at in reductions {
            let Step::Reduce(op, x) = self.program.code[at] else { continue };
            let shape = Shape::new(&[self.rows_of(x), self.program.tile[1]]);
            starts.push(self.b.splat(identity(op, self.program.elems[x]), shape));
            of.push((op, x));
        }
        let steps = of.clone();
        let collected = self.each_column(&starts, move |emitter, carried| {
            let mut next = Vec::new();
            for (&(op, x), &before) in steps.iter().zip(carried) {
                let tile = emitter.inside(op, x);
                next.push(emitter.combined(op, before, tile));
            }
            next
        });
        for ((&at, (op, _)), tile) in reductions.iter().zip(of).zip(collected) {
            self.values[at] = Some(self.reduced(op, tile));
        }
    }

    /// Runs code for each part of the row, with carried values, which the code makes new.
    fn each_column(
        &mut self,
        starts: &[Value],
        body: impl Fn(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let rounds: Vec<usize> = self.program.at(Place::Round).collect();
        if rounds.is_empty() {
            return self.each_tile(starts, &body);
        }
        let mut count = self.b.index(1);
        for &dim in &rounds {
            count = self.b.binary(BinaryOp::Mul, count, self.numbers[dim]);
        }
        let (low, step) = (self.b.index(0), self.b.index(1));
        self.repeat([low, count, step], starts, |emitter, number, carried| {
            emitter.round = Some(number);
            emitter.divide(number, &rounds);
            let next = emitter.each_tile(carried, &body);
            emitter.round = None;
            next
        })
    }

    fn each_tile(
        &mut self,
        starts: &[Value],
        body: &impl Fn(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let wide = self.program.at(Place::Wide).next();
        let high = match wide {
            Some(dim) => self.numbers[dim],
            None => self.b.index(1),
        };
        let (low, step) = (self.b.index(0), self.b.index(self.program.tile[1].into()));
        self.repeat([low, high, step], starts, |emitter, first, carried| {
            emitter.column = Some(first);
            emitter.locate_columns();
            let next = body(emitter, carried);
            emitter.forget_columns();
            next
        })
    }

    /// Forgets what a loop has made: outside of it there is no such value.
    fn forget_columns(&mut self) {
        self.column = None;
        for (value, along) in self.values.iter_mut().zip(&self.along_row) {
            if *along {
                *value = None;
            }
        }
    }

    /// A loop: its body is given the index and the carried values.
    fn repeat(
        &mut self,
        bounds: [Value; 3],
        starts: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let region = self.b.kernel.add_block();
        let index = self.b.kernel.add_arg(region, Type::scalar(Scalar::I64));
        let types: Vec<Type> = starts.iter().map(|&start| self.b.kernel.ty(start).clone()).collect();
        let carried: Vec<Value> = types.iter().map(|ty| self.b.kernel.add_arg(region, ty.clone())).collect();
        let outside = std::mem::replace(&mut self.b.block, region);
        let next = body(self, index, &carried);
        self.b.yield_(&next);
        self.b.block = outside;
        let mut operands = bounds.to_vec();
        operands.extend_from_slice(starts);
        let loc = self.b.loc;
        let op = self.b.kernel.append(outside, OpKind::For, &operands, &types, &[region], loc);
        self.b.kernel.op(op).results.to_vec()
    }

    /// The value of a step.
    fn value(&mut self, at: usize) -> Value {
        if let Some(value) = self.values[at] {
            return value;
        }
        let elem = self.program.elems[at];
        let value = match &self.program.code[at] {
            Step::Literal(literal) => self.b.constant(*literal),
            Step::Argument(number) => self.numbers[*number],
            Step::Index(sum) => self.sum(sum),
            Step::Box { input } => self.load(*input),
            Step::Gather { input, at, mask } => self.gather(*input, at, *mask),
            Step::Unary(op, x) => {
                let x = self.value(*x);
                self.b.unary(*op, x)
            }
            Step::Binary(op, [a, b]) => {
                let (a, b) = (self.value(*a), self.value(*b));
                self.binary(*op, a, b)
            }
            Step::Compare(op, [a, b]) => {
                let (a, b) = (self.value(*a), self.value(*b));
                let [a, b] = self.alike([a, b]);
                self.b.compare(*op, a, b)
            }
            Step::Select(three) => {
                let three = three.map(|of| self.value(of));
                let [condition, yes, no] = self.alike(three);
                self.b.select(condition, yes, no)
            }
            Step::Cast(_, x) => {
                let x = self.value(*x);
                self.b.cast(x, elem)
            }
            Step::Reduce(op, x) => {
                let tile = self.inside(*op, *x);
                self.reduced(*op, tile)
            }
            Step::CumSum { reverse, of } => {
                let tile = self.inside(ReduceOp::Sum, *of);
                self.b.scan(ReduceOp::Sum, 1, *reverse, false, tile)
            }
            Step::Checked { index, extent, mask, of } => self.checked((*index, *of), *extent, *mask),
        };
        self.values[at] = Some(value);
        value
    }

    fn number(&mut self, number: Number) -> Value {
        match number {
            Number::Literal(literal) => self.b.index(literal),
            Number::Argument(at) => self.numbers[at],
        }
    }

    fn sum(&mut self, sum: &Sum) -> Value {
        let mut total = match sum.constant {
            Number::Literal(0) if !sum.terms.is_empty() => None,
            number => Some(self.number(number)),
        };
        for &(var, factor) in &sum.terms {
            let index = match var {
                Var::Dim(dim) => self.places[dim].unwrap_or(self.numbers[dim]),
                Var::Value(value) => self.value(value),
            };
            let term = match factor {
                Number::Literal(1) => index,
                factor => {
                    let factor = self.number(factor);
                    let [index, factor] = self.alike([index, factor]);
                    self.b.binary(BinaryOp::Mul, index, factor)
                }
            };
            total = Some(match total {
                None => term,
                Some(total) => {
                    let [total, term] = self.alike([total, term]);
                    self.b.binary(BinaryOp::Add, total, term)
                }
            });
        }
        match total {
            Some(total) => total,
            None => self.b.index(0),
        }
    }

    /// Loads the part of a view that the tile is at.
    fn load(&mut self, input: usize) -> Value {
        let of = &self.program.inputs[input];
        let dims = of.dims.clone().unwrap_or_default();
        let [rows, columns] = self.program.tile;
        let zero = self.b.index(0);
        let (mut offsets, mut shape, mut tile) = (Vec::new(), Vec::new(), [1, 1]);
        for dim in dims {
            let (offset, extent) = match self.program.dims[dim] {
                Place::Outer | Place::Round => (self.places[dim], 1),
                Place::Tall => {
                    tile[0] = rows;
                    (self.tall, rows)
                }
                Place::Wide => {
                    tile[1] = columns;
                    (self.column, columns)
                }
            };
            offsets.push(offset.unwrap_or(zero));
            shape.push(extent);
        }
        if offsets.is_empty() {
            (offsets, shape) = (vec![zero], vec![1]);
        }
        let padding = self.b.constant(Literal::zero(of.elem));
        let loaded = self.b.load(self.inputs[input], &offsets, padding, Shape::new(&shape), Reuse::Normal);
        self.b.reshape(loaded, Shape::new(&tile))
    }

    /// Loads element by element.
    fn gather(&mut self, input: usize, at: &Sum, mask: Option<usize>) -> Value {
        let index = self.sum(at);
        let mask = mask.map(|mask| self.value(mask));
        let padding = self.b.constant(Literal::zero(self.program.inputs[input].elem));
        let (index, mask) = match mask {
            Some(mask) => {
                let [index, mask] = self.alike([index, mask]);
                (self.tiled(index), Some(self.tiled(mask)))
            }
            None => (self.tiled(index), None),
        };
        self.b.gather(self.inputs[input], &[index], mask, padding, Bounds::Mask)
    }

    /// An index from the start of its axis, which faults where it lies outside.
    fn checked(&mut self, (index, of): (usize, usize), extent: Number, mask: Option<usize>) -> Value {
        let given = self.value(index);
        let extent = self.number(extent);
        let zero = self.b.index(0);
        let [index, extent, zero] = self.alike([given, extent, zero]);
        let from_end = self.b.binary(BinaryOp::Add, index, extent);
        let is_negative = self.b.compare(CompareOp::Lt, index, zero);
        let place = self.b.select(is_negative, from_end, index);
        let high = self.b.compare(CompareOp::Lt, place, extent);
        let low = self.b.compare(CompareOp::Ge, place, zero);
        let mut fine = self.b.binary(BinaryOp::And, low, high);
        // Nobody asks what lies beyond the ends of the result.
        for outside in [self.beyond(Place::Tall), self.beyond(Place::Wide)].into_iter().flatten() {
            fine = self.binary(BinaryOp::Or, fine, outside);
        }
        if let Some(mask) = mask {
            let mask = self.value(mask);
            let left_out = self.b.unary(UnaryOp::Not, mask);
            fine = self.binary(BinaryOp::Or, fine, left_out);
        }
        let message = self.b.kernel.message(&format!("{OUTSIDE}{{}}"));
        self.b.op(OpKind::Assert(message), &[fine, self.numbers[of]], &[]);
        place
    }

    /// Whether elements of the tile lie beyond the end of rows or columns.
    fn beyond(&mut self, place: Place) -> Option<Value> {
        let dims: Vec<usize> = self.program.at(place).collect();
        let &first = dims.first()?;
        let mut extent = self.numbers[first];
        for &dim in &dims[1..] {
            extent = self.b.binary(BinaryOp::Mul, extent, self.numbers[dim]);
        }
        let index = match place {
            Place::Wide => return Some(self.beyond_columns(extent)),
            Place::Tall | Place::Outer | Place::Round => self.places[first]?,
        };
        let [index, extent] = self.alike([index, extent]);
        Some(self.b.compare(CompareOp::Ge, index, extent))
    }

    /// Whether columns of the tile lie beyond this extent: numbers of 32 bits, of which a register
    /// compares twice as many.
    fn beyond_columns(&mut self, extent: Value) -> Value {
        let columns = self.program.tile[1];
        let left = match self.column {
            Some(first) => self.b.binary(BinaryOp::Sub, extent, first),
            None => extent,
        };
        let most = self.b.index(columns.into());
        let left = self.b.binary(BinaryOp::Min, left, most);
        let left = self.b.cast(left, Scalar::I32);
        let index = self.b.iota(Scalar::I32, columns);
        let index = self.b.reshape(index, Shape::new(&[1, columns]));
        let [index, left] = self.alike([index, left]);
        self.b.compare(CompareOp::Ge, index, left)
    }

    /// Whether a value is a scalar.
    fn is_scalar(&self, value: Value) -> bool {
        self.b.kernel.shape(value).rank() == 0
    }

    /// The value with the identity of a combination beyond the end of the row.
    fn inside(&mut self, op: ReduceOp, x: usize) -> Value {
        let value = self.value(x);
        let rows = self.rows(value);
        let tile = self.stretched(value, [rows, self.program.tile[1]]);
        if self.program.exact {
            return tile;
        }
        let Some(beyond) = self.beyond(Place::Wide) else { return tile };
        let identity = self.b.constant(identity(op, self.program.elems[x]));
        let [beyond, identity, tile] = self.alike([beyond, identity, tile]);
        self.b.select(beyond, identity, tile)
    }

    /// Combines along the columns of a tile.
    fn reduced(&mut self, op: ReduceOp, tile: Value) -> Value {
        let rows = self.rows(tile);
        let reduced = self.b.reduce(op, 1, tile);
        self.b.reshape(reduced, Shape::new(&[rows, 1]))
    }

    /// The rows that a step's value has: 1 where it is the same in all.
    fn rows_of(&mut self, at: usize) -> u32 {
        let mut tall = vec![false; at + 1];
        for (step, code) in self.program.code[..=at].iter().enumerate() {
            let names = self.program.names(code, Place::Tall);
            tall[step] = names || Program::operands(code).into_iter().any(|of| tall[of]);
        }
        if tall[at] { self.program.tile[0] } else { 1 }
    }
}
